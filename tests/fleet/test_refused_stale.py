"""when_refused: stale. Who is over the limit gets what is stored, where there is something that may be given, and the upstream is not asked.

Limits are by 30 days, so that no border of a window lies in a test.
"""

import json
import threading

import pytest

from weir import Background, together, wait_until


def limits(**more):
    return {"client": {"key": "header:x-api-key", "missing": "shared", "rate": "1/30d", "when_refused": "stale", **more}}


def as_client(name):
    return [("x-api-key", name)]


@pytest.fixture
def counted(scripted):
    """Answers with the number of the call and the fields that the target's query asks for."""

    def answer(talk, request):
        query = request.target.partition("?")[2]
        fields = [(name, value.replace("%20", " ")) for name, value in (each.split("=", 1) for each in query.split("&") if "=" in each)]
        talk.answer(200, fields, b"%d" % len(talk.upstream.requests))

    return scripted(answer, each=True)


def load(nodes, target, fields):
    """Loads it, and waits until it is stored: it is answered before that."""
    started = list({id(node): node for node in nodes}.values())

    def stored():
        return sum(node.metric("weir_loads_total", outcome="stored") for node in started)

    before = stored()
    answer = nodes[0].get(target, fields)
    assert (answer.status, answer["x-cache"]) == (200, "MISS")
    wait_until(lambda: stored() > before, f"{target} is stored")
    return answer


def start(fleet, upstream, cache, **more):
    return fleet.start(upstream.url, [{"match": "/**", "limits": ["client"], "cache": cache}], limits(**more))


def test_over_the_limit_a_fresh_copy_is_a_hit_that_says_why(fleet, counted):
    nodes = start(fleet, counted, {"ttl": "1h"})
    load(nodes, "/a", as_client("k"))
    for at in range(20):
        answer = nodes[at % 2].get("/a", as_client("k"))
        assert (answer.status, answer.body, answer["x-cache"]) == (200, b"1", "HIT")
        assert "hit" in answer["cache-status"] and "detail=limit-refused" in answer["cache-status"]
        assert answer["ratelimit-remaining"] == "0" and "retry-after" not in answer
    refused = nodes[0].get("/b", as_client("k"))
    assert (refused.status, json.loads(refused.body)["limit"]) == (429, "client"), "of what is not stored there is nothing to give"
    assert len(counted.requests) == 1
    started = list({id(node): node for node in nodes}.values())
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="refused") for node in started) == 21
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="gave_stored") for node in started) == 20

    def lines():
        return [line for node in started for line in node.access_log()]

    wait_until(lambda: len(lines()) == 22, "all lines")
    assert sum(1 for line in lines() if (line["status"], line.get("limit"), line.get("cache")) == (200, "client", "HIT")) == 20


@pytest.mark.parametrize("window", ["stale_while_revalidate", "stale_if_error"])
def test_a_stale_copy_is_given_and_not_refreshed(fleet, counted, window):
    nodes = start(fleet, counted, {"ttl": "1ms", window: "1h"})
    load(nodes, "/a", as_client("k"))
    answers = [wait_until(lambda node=node: (answer := node.get("/a", as_client("k")))["x-cache"] == "STALE" and answer, "a stale copy is given")
               for node in nodes]
    answers += together([lambda at=at: nodes[at % 2].get("/a", as_client("k")) for at in range(30)])
    for answer in answers:
        assert (answer.status, answer.body, answer["x-cache"]) == (200, b"1", "STALE")
        assert "detail=limit-refused" in answer["cache-status"]
    assert len(counted.requests) == 1, "over the limit nobody refreshes"
    assert nodes[1].get("/a", as_client("other"))["x-cache"] in ("STALE", "MISS")
    wait_until(lambda: len(counted.requests) == 2, "another client's refresh or load")


NOT_GIVEN = {
    "must-revalidate": ("/a?cache-control=max-age=0,must-revalidate&etag=%22x%22", []),
    "no-cache": ("/b?cache-control=no-cache&etag=%22x%22", []),
    "private": ("/c?cache-control=private,max-age=60", []),
    "no-store": ("/d?cache-control=no-store", []),
    "past every window": ("/e?cache-control=max-age=0&etag=%22x%22", []),
    "a request that wants it newer": ("/f", [("Cache-Control", "no-cache")]),
    "a request that wants it fresher": ("/g", [("Cache-Control", "max-age=0")]),
    "credentials": ("/h", [("Authorization", "Basic eDp4")]),
}


def test_what_http_forbids_to_give_is_not_given(fleet, counted):
    nodes = start(fleet, counted, {"ttl": "1h"})
    for at, (what, (target, fields)) in enumerate(NOT_GIVEN.items()):
        target = target.replace("%22", '"')
        name = as_client(f"client{at}")
        assert nodes[at % 2].get(target, name).status == 200, what
        calls = len(counted.requests)
        answer = nodes[(at + 1) % 2].get(target, [*name, *fields])
        assert (answer.status, len(counted.requests)) == (429, calls), what
        assert nodes[at % 2].ask("POST", target, name).status == 429, "a change is never answered from the cache"


def test_a_request_that_takes_stale_gets_what_is_kept_longer_than_its_windows(fleet, counted):
    nodes = start(fleet, counted, {"ttl": "1h"})
    target = '/a?cache-control=max-age=1&etag="x"&age=2'
    load(nodes, target, as_client("k"))
    assert nodes[1].get(target, as_client("k")).status == 429
    answer = nodes[1].get(target, [*as_client("k"), ("Cache-Control", "max-stale=600")])
    assert (answer.status, answer["x-cache"]) == (200, "STALE")
    assert len(counted.requests) == 1


def test_conditions_parts_heads_and_variants_are_answered_from_the_copy(fleet, counted):
    nodes = start(fleet, counted, {"ttl": "1h"})
    target = '/a?etag="x"&vary=accept-language'
    german = [*as_client("k"), ("Accept-Language", "de")]
    load(nodes, target, german)
    assert nodes[1].get(target, german).status == 200
    assert nodes[1].get(target, [*german, ("If-None-Match", '"x"')]).status == 304
    assert nodes[0].get(target, [*german, ("Range", "bytes=0-0")]).status == 206
    head = nodes[0].ask("HEAD", target, german)
    assert (head.status, head["x-cache"]) == (200, "HIT")
    assert nodes[1].get(target, [*as_client("k"), ("Accept-Language", "fr")]).status == 429, "another variant is another answer"
    assert len(counted.requests) == 1


def test_an_invalidated_copy_is_not_given(fleet, counted):
    nodes = start(fleet, counted, {"ttl": "1h", "tags": ["thing"]})
    load(nodes, "/a", as_client("k"))
    for node in nodes:
        assert node.get("/a", as_client("k")).status == 200
    assert nodes[1].invalidate("thing").status == 200
    for node in nodes * 5:
        assert node.get("/a", as_client("k")).status == 429


def test_where_another_limit_that_refuses_says_no_nothing_is_given(fleet, counted):
    both = {**limits(), "hard": {"key": "header:x-api-key", "rate": "2/30d"}}
    routes = [{"match": "/soft", "limits": ["client"], "cache": {"ttl": "1h"}},
              {"match": "/both", "limits": ["client", "hard"], "cache": {"ttl": "1h"}},
              {"match": "/hard", "limits": ["hard"]}]
    nodes = fleet.start(counted.url, routes, both)
    load(nodes, "/both", as_client("k"))
    for node in nodes:
        assert node.get("/both", as_client("k")).status == 200, "refused by the one alone that gives the copy"
    assert nodes[0].get("/hard", as_client("k")).status == 200, "what was refused was charged to none"
    for node in nodes:  # who refused is remembered for 100 ms at most
        refused = wait_until(lambda node=node: (answer := node.get("/both", as_client("k"))).status == 429 and answer, "both refuse")
        assert json.loads(refused.body)["violated-policies"] == ["client", "hard"]


def test_a_refused_load_gives_the_copy_too_and_takes_no_lock(fleet, scripted):
    """counts: misses and when_refused: stale: beyond the window of refreshes a client without budget gets the copy for errors, and one with
    budget loads at once: nothing was held against him."""
    gate = threading.Event()

    def answer(talk, _request):
        if len(talk.upstream.requests) > 1:
            gate.wait(60)
        talk.answer(200, body=b"%d" % len(talk.upstream.requests))

    upstream = scripted(answer, each=True)
    nodes = start(fleet, upstream, {"ttl": "1ms", "stale_if_error": "1h", "lock_timeout": "10m"}, counts="misses")
    assert load(nodes, "/a", as_client("k")).body == b"1"
    for at in range(10):
        answer = nodes[at % 2].get("/a", as_client("k"))
        assert (answer.status, answer.body) == (200, b"1")
    assert "detail=limit-refused" in answer["cache-status"] and answer["x-cache"] == "STALE"
    loading = Background(lambda: nodes[0].get("/a", as_client("rich")))
    upstream.wait_requests(2)
    gate.set()
    assert loading.result().body == b"2"
    assert nodes[1].get("/b", as_client("k")).status == 429


def test_too_costly_and_undecidable_requests_are_told_so(fleet, counted):
    nodes = start(fleet, counted, {"ttl": "1h"}, cost={"header": "x-cost"})
    load(nodes, "/a", as_client("k"))
    answer = nodes[1].get("/a", [*as_client("k"), ("x-cost", "2")])
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "cost_exceeds_limit")


def test_without_the_store_what_is_near_is_given_as_the_route_says(redis_fleet, counted):
    routes = [{"match": "/serve", "limits": ["client"], "cache": {"ttl": "1h"}},
              {"match": "/bypass", "limits": ["client"], "cache": {"ttl": "1h", "on_store_failure": "bypass"}}]
    node = redis_fleet.start(counted.url, routes, limits(), count=1)[0]
    for target in ("/serve", "/bypass"):
        assert node.get(target, as_client(target)).status == 200
    wait_until(lambda: node.metric("weir_loads_total", outcome="stored") == 2, "both are stored")
    redis_fleet.redis.kill()
    wait_until(lambda: node.metric("weir_store_up") == 0, "the node has seen that Redis is gone")
    for target, last in (("/serve", 200), ("/bypass", 429)):
        answers = [node.get(target, as_client(target)) for _ in range(3)]
        assert answers[-1].status == last, target
