"""Limits that count misses: what is asked of the upstream pays, once, and nothing else does.

Limits are by 30 days, so that no border of a window lies in a test. What is left of one is told by the answer to a miss.
"""

import json
import threading

import pytest

from weir import Background, together, wait_until
from wire import request_bytes

CACHE = {"ttl": "1h"}


def limit(units, **more):
    return {"key": "header:x-api-key", "missing": "shared", "rate": f"{units}/30d", "counts": "misses", **more}


def as_client(name):
    return [("x-api-key", name)]


def left(answer):
    return int(answer["ratelimit-remaining"])


@pytest.fixture
def counted(scripted):
    """An upstream that answers at once, with the number of the call and the fields that the target's query asks for."""

    def answer(talk, request):
        query = request.target.partition("?")[2]
        talk.answer(200, [each.split("=", 1) for each in query.split("&") if "=" in each], b"%d" % len(talk.upstream.requests))

    return scripted(answer, each=True)


def test_hits_are_free_on_every_node_and_a_miss_pays_one(fleet, counted):
    nodes = fleet.start(counted.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], {"loads": limit(10)})
    assert left(nodes[0].get("/a")) == 9
    for at in range(40):
        answer = nodes[at % 2].get("/a")
        assert answer.status == 200 and answer["x-cache"] in ("HIT", "WAIT")  # it is answered before it is stored
        assert "ratelimit" not in answer, "a limit that was not asked has nothing to tell"
    assert left(nodes[1].get("/b")) == 8
    assert len(counted.requests) == 2


def test_of_fifty_at_once_one_pays_and_the_others_ride_free(fleet, scripted):
    gate = threading.Event()

    def answer(talk, _request):
        gate.wait(60)
        talk.answer(200, body=b"x")

    upstream = scripted(answer, each=True)
    nodes = fleet.start(upstream.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], {"loads": limit(1, key="global")})
    asked = [Background(lambda at=at: nodes[at % 2].get("/cold")) for at in range(50)]
    upstream.wait_requests(1)
    gate.set()
    answers = [each.result() for each in asked]
    assert [answer.status for answer in answers] == [200] * 50
    assert sorted({answer["x-cache"] for answer in answers} - {"HIT"})[0] == "MISS"
    assert [left(answer) for answer in answers if "ratelimit-remaining" in answer] == [0], "one was asked to pay"
    assert len(upstream.requests) == 1
    refused = nodes[1].get("/other")
    problem = json.loads(refused.body)
    assert (refused.status, problem["code"], problem["limit"], problem["violated-policies"]) == (429, "rate_limit_exceeded", "loads", ["loads"])
    assert int(refused["retry-after"]) * 1000 >= problem["retry_after_ms"] > 0 and left(refused) == 0
    assert nodes[1].get("/cold").status == 200, "what is there is free"
    assert len(upstream.requests) == 1


def test_who_can_pay_leads_whoever_came_first(fleet, counted):
    """Clients whose budget is spent and one that has some want the same at once, again and again: it is loaded every time, for one unit."""
    nodes = fleet.start(counted.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], {"loads": limit(10)})
    for name in ("poor0", "poor1", "poor2"):
        assert nodes[0].get(f"/spend/{name}", [*as_client(name), ("x-cost", "1")]).status == 200
        for at in range(9):
            nodes[0].get(f"/spend/{name}/{at}", as_client(name))
        assert nodes[1].get(f"/none/{name}", as_client(name)).status == 429
    before = len(counted.requests)
    for turn in range(5):
        names = ["poor0", "poor1", "poor2"] * 4 + ["rich"] + ["poor0", "poor1", "poor2"] * 3
        answers = together([lambda at=at, name=name: nodes[at % 2].get(f"/cold/{turn}", as_client(name)) for at, name in enumerate(names)])
        assert answers[names.index("rich")].status == 200
        assert {answer.status for answer in answers} <= {200, 429}
        assert len(counted.requests) == before + turn + 1
        assert nodes[turn % 2].get(f"/cold/{turn}", as_client("poor1")).status == 200
    assert left(nodes[0].get("/last", as_client("rich"))) == 10 - 5 - 1


def test_a_refused_client_leaves_nothing_behind_that_others_wait_for(fleet, counted):
    nodes = fleet.start(counted.url, [{"match": "/**", "limits": ["loads"], "cache": {**CACHE, "lock_timeout": "10m"}}], {"loads": limit(1)})
    assert nodes[0].get("/a", as_client("poor")).status == 200
    for at in range(6):
        assert nodes[at % 2].get(f"/cold/{at}", as_client("poor")).status == 429
        assert nodes[(at + 1) % 2].get(f"/cold/{at}", as_client(f"rich{at}")).status == 200
        assert nodes[at % 2].get(f"/cold/{at}", as_client("poor")).status == 200


ALONE = {
    "another method": ("POST", "/c/1", [], "BYPASS"),
    "a body": ("GET", "/c/2", [], "BYPASS"),
    "credentials": ("GET", "/c/3", [("Authorization", "Basic eDp4")], "MISS"),
    "as the client wishes": ("GET", "/c/4", [("Cache-Control", "no-store")], "BYPASS"),
    "newer than what is stored": ("GET", "/c/stored", [("Cache-Control", "no-cache")], "MISS"),
    "HEAD of what is not stored": ("HEAD", "/c/5", [], "BYPASS"),
    "a private answer": ("GET", "/c/6?cache-control=private", [], "MISS"),
    "a private answer again": ("GET", "/c/6?cache-control=private", [], None),
    "no cache at all": ("GET", "/plain", [], "BYPASS"),
    "a load": ("GET", "/c/7", [], "MISS"),
    "a load that is not kept": ("GET", "/c/8?cache-control=no-store", [], "MISS"),
}


def test_whatever_is_asked_of_the_upstream_pays_exactly_once(fleet, counted):
    routes = [{"match": "/plain", "limits": ["loads"]}, {"match": "/c/**", "limits": ["loads"], "cache": CACHE}]
    nodes = fleet.start(counted.url, routes, {"loads": limit(100)})
    remaining = left(nodes[0].get("/c/stored"))
    for at, (what, (method, target, fields, result)) in enumerate(ALONE.items()):
        before = len(counted.requests)
        answer = nodes[at % 2].ask(method, target, fields, b"x" if what == "a body" else None)
        remaining -= 1
        assert (answer.status, left(answer), len(counted.requests) - before) == (200, remaining, 1), what
        assert result is None or answer["x-cache"] == result, what


def test_an_attempt_that_is_repeated_is_paid_once(fleet, scripted):
    """The upstream closes without a word; Weir asks again."""

    def answer(talk, _request):
        if len(talk.upstream.requests) % 2:
            talk.reset()
        else:
            talk.answer(200, body=b"x")

    upstream = scripted(answer, each=True)
    routes = [{"match": "/plain", "limits": ["loads"]}, {"match": "/**", "limits": ["loads"], "cache": CACHE}]
    nodes = fleet.start({"servers": [upstream.url], "retries": 1}, routes, {"loads": limit(10)})
    assert left(nodes[0].get("/a")) == 9
    assert left(nodes[0].get("/plain")) == 8
    assert len(upstream.requests) == 4


def test_failures_are_paid_and_shared(fleet, scripted):
    upstream = scripted(lambda talk, _request: talk.answer(503), each=True)
    nodes = fleet.start(upstream.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], {"loads": limit(100, key="global")})
    answers = together([lambda at=at: nodes[at % 2].get("/broken") for at in range(30)])
    assert {answer.status for answer in answers} == {503}
    calls = len(upstream.requests)
    assert left(nodes[0].get("/another")) == 100 - calls - 1


def test_a_refresh_is_paid_by_the_one_it_was_given_to_and_without_money_there_is_none(fleet, counted):
    routes = [{"match": "/**", "limits": ["loads"], "cache": {"ttl": "1ms", "stale_while_revalidate": "1h"}}]
    nodes = fleet.start(counted.url, routes, {"loads": limit(2)})
    assert left(nodes[0].get("/report", as_client("a"))) == 1
    for node in nodes:
        wait_until(lambda node=node: node.get("/report", as_client("a")).body == b"2", "the refresh that the second unit pays for")
    for at in range(60):
        answer = nodes[at % 2].get("/report", as_client("a"))
        assert (answer.status, answer.body, answer["x-cache"]) == (200, b"2", "STALE")
    assert len(counted.requests) == 2
    started = {id(node): node for node in nodes}.values()
    assert sum(node.metric("weir_loads_total", outcome="unpaid") for node in started) >= 1
    assert sum(node.metric("weir_limit_decisions_total", limit="loads", outcome="refused") for node in started) >= 1
    wait_until(lambda: nodes[0].get("/report", as_client("b")).body == b"3", "another client's refresh")
    assert left(nodes[1].get("/other", as_client("b"))) == 0


def test_many_refused_refreshes_cost_the_store_little(redis_fleet, counted):
    """Each of a client's requests is answered with the old copy; not each may ask the store whether it can pay now."""
    routes = [{"match": "/**", "limits": ["loads"], "cache": {"ttl": "1ms", "stale_while_revalidate": "1h"}}]
    node = redis_fleet.start(counted.url, routes, {"loads": limit(1)}, count=1, store={**redis_fleet.store, "consistency": "push"})[0]

    def scripts_run():
        lines = redis_fleet.redis.command("INFO", "commandstats").decode().splitlines()
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_evalsha:"))

    with node.connect() as client:
        client.ask("GET", "/report", as_client("a"))
        wait_until(lambda: client.ask("GET", "/report", as_client("a"))["x-cache"] == "STALE", "the copy is stale")

        def questions_of_hundred():
            before = scripts_run()
            for _ in range(100):
                assert client.ask("GET", "/report", as_client("a"))["x-cache"] == "STALE"
            return scripts_run() - before

        # as soon as invalidations are pushed to this node, a request whose copy is near asks nothing by itself
        wait_until(lambda: questions_of_hundred() < 50, "most of the requests ask the store nothing")
    assert len(counted.requests) == 1


def test_limits_of_requests_are_decided_first_and_stay_charged(fleet, counted):
    """Where the look-up comes between, one step cannot decide both: the request was let in, and only what it asks for was not loaded."""
    limits = {"asks": {"key": "global", "rate": "100/30d"}, "loads": limit(1)}
    routes = [{"match": "/plain", "limits": ["loads", "asks"]}, {"match": "/**", "limits": ["loads", "asks"], "cache": CACHE}]
    nodes = fleet.start(counted.url, routes, limits, headers={"ratelimit": ["draft-11"]})
    assert '"asks";r=99' in nodes[0].get("/a")["ratelimit"]
    assert '"loads"' not in nodes[1].get("/a")["ratelimit"]
    refused = nodes[0].get("/b")
    assert refused.status == 429 and json.loads(refused.body)["violated-policies"] == ["loads"]
    assert '"asks";r=97' in refused["ratelimit"] and '"loads";r=0' in refused["ratelimit"]
    assert nodes[0].get("/plain").status == 429, "there all are decided together, and who is refused is charged nothing"
    assert '"asks";r=96' in nodes[1].get("/a")["ratelimit"]


def test_in_shadow_a_limit_of_misses_refuses_nothing(fleet, counted):
    nodes = fleet.start(counted.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], {"loads": limit(2, mode="shadow")})
    for at in range(5):
        answer = nodes[at % 2].get(f"/{at}")
        assert answer.status == 200 and "ratelimit" not in answer
        nodes[at % 2].get(f"/{at}")
    started = {id(node): node for node in nodes}.values()
    assert sum(node.metric("weir_limit_decisions_total", limit="loads", outcome="shadow_refused") for node in started) == 3
    assert sum(node.metric("weir_limit_decisions_total", limit="loads", outcome="admitted") for node in started) == 2


def test_each_variant_is_a_load_of_its_own(fleet, counted):
    nodes = fleet.start(counted.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], {"loads": limit(100, key="global")})
    for at, language in enumerate(("de", "en", "fr")):
        answer = nodes[at % 2].get("/a?vary=accept-language", [("Accept-Language", language)])
        assert (answer["x-cache"], left(answer)) == ("MISS", 99 - at)
    for language in ("de", "en", "fr"):
        assert nodes[0].get("/a?vary=accept-language", [("Accept-Language", language)])["x-cache"] in ("HIT", "WAIT")
    answers = together([lambda at=at: nodes[at % 2].get("/b?vary=accept-language", [("Accept-Language", ("de", "en")[at // 2 % 2])])
                        for at in range(24)])
    assert {answer.status for answer in answers} == {200}
    assert left(nodes[0].get("/last")) == 100 - len(counted.requests)


def test_a_client_that_leaves_has_paid_for_the_load_that_goes_on(fleet, scripted):
    gate = threading.Event()

    def answer(talk, _request):
        gate.wait(60)
        talk.answer(200, body=b"x")

    upstream = scripted(answer, each=True)
    nodes = fleet.start(upstream.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], {"loads": limit(10)})
    with nodes[0].connect() as client:
        client.send(request_bytes("GET", "/a", as_client("gone")))
        upstream.wait_requests(1)
    gate.set()
    wait_until(lambda: nodes[1].get("/a", as_client("other"))["x-cache"] == "HIT", "the load is stored")
    assert len(upstream.requests) == 1
    assert left(nodes[1].get("/b", as_client("gone"))) == 8
    assert left(nodes[1].get("/c", as_client("other"))) == 9


def test_costs_and_missing_keys_are_judged_before_the_cache_is_looked_at(fleet, counted):
    limits = {"loads": {**limit(100), "missing": "reject", "cost": {"header": "x-cost", "max": 20}}}
    nodes = fleet.start(counted.url, [{"match": "/**", "limits": ["loads"], "cache": CACHE}], limits)
    assert left(nodes[0].get("/a", [*as_client("a"), ("x-cost", "7")])) == 93
    assert nodes[1].get("/a", [*as_client("a"), ("x-cost", "9")])["x-cache"] in ("HIT", "WAIT")
    assert nodes[1].get("/a").status == 401
    assert nodes[1].get("/a", [*as_client("a"), ("x-cost", "21")]).status == 400
    assert left(nodes[1].get("/b", as_client("a"))) == 92


@pytest.mark.parametrize("without,status", [("closed", 503), ("open", 200), ("local", 200)])
def test_without_the_store_a_load_does_what_the_limit_says_and_what_is_near_is_free(redis_fleet, counted, without, status):
    routes = [{"match": "/**", "limits": ["loads"], "cache": CACHE}]
    node = redis_fleet.start(counted.url, routes, {"loads": limit(5, key="global", on_store_failure=without)}, count=1)[0]
    assert node.get("/a").status == 200
    wait_until(lambda: node.metric("weir_loads_total", outcome="stored") == 1, "the answer is stored, here and there")
    redis_fleet.redis.kill()
    wait_until(lambda: node.metric("weir_store_up") == 0, "the node has seen that Redis is gone")
    answer = node.get("/b")
    assert answer.status == status
    if status == 503:
        assert json.loads(answer.body)["code"] == "limiter_unavailable"
    assert (node.get("/a").status, node.get("/a")["x-cache"]) == (200, "HIT")
    assert len(counted.requests) == (1 if status == 503 else 2)
    if without == "local":
        assert [node.get(f"/more/{at}").status for at in range(8)].count(200) <= 5


KINDS = [
    ("GET", "/k/{}", []),
    ("GET", "/k/{}", []),
    ("GET", "/k/{}", []),
    ("HEAD", "/k/{}", []),
    ("POST", "/k/{}", []),
    ("GET", "/k/{}", [("Cache-Control", "no-cache")]),
    ("GET", "/k/{}", [("Range", "bytes=0-0")]),
    ("GET", "/p/{}?cache-control=private", []),
    ("GET", "/v/{}?vary=accept-language", [("Accept-Language", "de")]),
    ("GET", "/v/{}?vary=accept-language", [("Accept-Language", "en")]),
    ("GET", "/s/{}?cache-control=max-age=0,stale-while-revalidate=600", []),
    ("GET", "/a/{}", [("Authorization", "Basic eDp4")]),
    ("GET", "/plain/{}", []),
]


@pytest.mark.parametrize("leaves", [False, True], ids=["all_stay", "some_leave"])
def test_as_much_is_charged_as_the_upstream_was_asked(fleet, counted, rng, leaves):
    """Clients of different means ask for few keys in all the ways there are, all at once. What is gone from their budgets is what the upstream was
    asked; only where clients leave while they pay, more may be gone."""
    clients, budget, workers, asks = 8, 30, 12, 90
    routes = [{"match": "/plain/**", "limits": ["loads"]}, {"match": "/**", "limits": ["loads"], "cache": CACHE}]
    nodes = fleet.start({"servers": [counted.url], "retries": 0}, routes, {"loads": limit(budget)})
    plans = [[(rng.randrange(clients), rng.randrange(2), rng.choice(KINDS), rng.randrange(6), leaves and rng.randrange(4) == 0) for _ in range(asks)]
             for _ in range(workers)]

    def run(plan):
        got = set()
        for client, node, (method, target, fields), key, is_gone in plan:
            fields = [*as_client(f"client{client}"), *fields]
            with nodes[node].connect() as connection:
                connection.send(request_bytes(method, target.format(key), fields))
                if not is_gone:
                    got.add(connection.answer(method).status)
        return got

    statuses = set().union(*together([lambda plan=plan: run(plan) for plan in plans]))
    assert statuses <= {200, 206, 304, 416, 429} and {200, 429} <= statuses
    started = list({id(node): node for node in nodes}.values())
    wait_until(lambda: all(node.metric("weir_client_connections") == 0 for node in started), "all have been answered or are gone")

    def calls_at_rest():
        before = len(counted.requests)
        wait_until(lambda: all(node.metric("weir_loads_total") >= 0 for node in started), "a moment")
        return len(counted.requests) == before and before

    calls = wait_until(calls_at_rest, "the loads are over")
    spent = 0
    for client in range(clients):
        last = nodes[client % 2].ask("POST", "/k/last", as_client(f"client{client}"))
        spent += budget if last.status == 429 else budget - left(last) - 1
    if leaves:
        assert calls <= spent
    else:
        assert calls == spent


def test_a_node_that_dies_with_a_paid_load_leaves_it_to_one_who_pays_for_himself(redis_fleet, scripted):
    def answer(talk, _request):
        if len(talk.upstream.requests) == 1:
            talk.wait_closed()
        else:
            talk.answer(200, body=b"x")

    upstream = scripted(answer, each=True)
    a, b = redis_fleet.start(upstream.url, [{"match": "/**", "limits": ["loads"], "cache": {**CACHE, "lock_timeout": "1m"}}], {"loads": limit(10)})
    with a.connect() as doomed:
        doomed.send(request_bytes("GET", "/a", as_client("first")))
        upstream.wait_requests(1)
        waiting = Background(lambda: b.get("/a", as_client("second")))
        wait_until(lambda: b.metric("weir_client_connections") == 1, "the second client is there")
        redis_fleet.remove(a)
    answer = waiting.result()
    assert (answer.status, answer["x-cache"], left(answer)) == (200, "MISS", 9), "its load is another one, and paid by it"
    assert left(b.get("/b", as_client("first"))) == 8, "what was charged stays charged"
    assert len(upstream.requests) == 3
