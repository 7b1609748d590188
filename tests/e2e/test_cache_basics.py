"""What the cache promises, as seen from outside: on one node's memory and on two nodes that share a Redis.

Where it matters that one thing happens while another is under way, the upstream holds its answer until the test lets it go: no test
measures time.
"""

import collections
import json
import threading

import pytest

from weir import Background, together, wait_until
from wire import PATIENCE_S, Broken

PRODUCTS = [
    {"match": "GET /products/{id}", "cache": {"ttl": "1h", "tags": ["product:{id}"]}},
    {"match": "PUT,DELETE /products/{id}", "invalidates": ["product:{id}"]},
]
EVERYTHING = [{"match": "/**", "cache": {"ttl": "1h"}}]
SHARED = {"HIT", "WAIT"}  # not the one who loaded it


def spread(nodes, count, target, fields=()):
    """`count` clients at the same moment, one node after the other; their answers."""
    return together(lambda node=nodes[i % len(nodes)]: node.get(target, fields) for i in range(count))


def caches(answers):
    return collections.Counter(answer["x-cache"] for answer in answers)


def wait_hit(node, target, fields=()):
    """The answer may reach its client before it is stored; from then on each is a hit. The first."""

    def hit():
        answer = node.get(target, fields)
        return answer if answer["x-cache"] == "HIT" else None

    return wait_until(hit, f"{target} is a hit")


def version(answer):
    assert answer.status == 200, answer
    return json.loads(answer.body)["version"]


class Gate:
    """A script for `scripted`: answers from answer(n, request), n from 1; those for which held(n) is true wait for open()."""

    def __init__(self, answer, held=lambda n: True):
        self.answer, self.held, self.opened = answer, held, threading.Event()
        self.count, self.lock = 0, threading.Lock()

    def open(self):
        self.opened.set()

    def __call__(self, talk, request):
        with self.lock:
            self.count += 1
            n = self.count
        if self.held(n):
            self.opened.wait(PATIENCE_S)
        talk.answer(**self.answer(n, request))


# ---- misses, hits, and what is forgotten ----


def test_a_miss_then_hits_on_every_node(fleet, upstream):
    nodes = fleet.start(upstream.url, PRODUCTS)
    first = nodes[0].get("/products/1")
    assert (first.status, first["x-cache"]) == (200, "MISS")
    assert "age" not in first or int(first["age"]) == 0
    for node in nodes:
        again = wait_hit(node, "/products/1")
        assert (again.status, again.body, again["content-type"]) == (200, first.body, first["content-type"])
        assert int(again["age"]) >= 0
    assert upstream.calls("GET /products/1") == 1


def test_another_path_query_or_host_is_another_thing(fleet, upstream):
    nodes = fleet.start(upstream.url, EVERYTHING)
    seen = set()
    for target, host in [("/slow/1?a=1", "a"), ("/slow/1?a=2", "a"), ("/slow/1?a=1&", "a"), ("/slow/1", "a"), ("/slow/1", "b"), ("/slow/2", "a")]:
        answer = nodes[0].ask("GET", target, host=host)
        assert answer["x-cache"] == "MISS", (target, host)
        seen.add(answer.body)
    assert len(seen) == 6


def test_a_404_passes_and_is_forgotten_before_a_200(fleet, upstream):
    nodes = fleet.start(upstream.url, [{"match": "/**", "cache": {"ttl": "1h", "negative_ttl": "1s"}}])
    nodes[0].get("/slow/1")
    first = nodes[0].get("/no/such/thing")
    assert (first.status, first["x-cache"]) == (404, "MISS")
    wait_until(lambda: nodes[1].get("/no/such/thing")["x-cache"] == "MISS", "the 404 is asked for again")
    assert wait_hit(nodes[1], "/slow/1").status == 200
    assert upstream.calls("GET /slow/1") == 1


def test_a_404_is_kept_while_negative_ttl_lasts(fleet, upstream):
    nodes = fleet.start(upstream.url, [{"match": "/**", "cache": {"ttl": "1h", "negative_ttl": "1h"}}])
    assert nodes[0].get("/no/such/thing").status == 404
    for node in nodes:
        assert wait_hit(node, "/no/such/thing").status == 404
    assert upstream.calls("GET /no/such/thing") == 1


def test_what_expired_is_loaded_again(fleet, upstream):
    nodes = fleet.start(upstream.url, [{"match": "/**", "cache": {"ttl": "1s"}}])
    first = nodes[0].get("/slow/1")

    def renewed():
        answer = nodes[1].get("/slow/1")
        return answer if answer["x-cache"] == "MISS" else None

    assert wait_until(renewed, "it expires").body != first.body
    assert upstream.calls("GET /slow/1") == 2


def test_age_counts_from_the_origin(fleet, upstream):
    nodes = fleet.start(upstream.url, EVERYTHING)
    target = "/headers?cache-control=max-age%3D5000&age=1000"
    nodes[0].get(target)
    for node in nodes:
        assert 1000 <= int(wait_hit(node, target)["age"]) < 1000 + 2 * PATIENCE_S


def test_head_is_answered_from_what_get_loaded(fleet, upstream):
    nodes = fleet.start(upstream.url, EVERYTHING)
    loaded = nodes[0].get("/size/12345")
    for node in nodes:
        wait_hit(node, "/size/12345")
        head = node.ask("HEAD", "/size/12345")
        assert (head.status, head["x-cache"], head["content-length"]) == (200, "HIT", str(len(loaded.body)))
    assert upstream.calls("HEAD /size/12345") == 0
    assert upstream.calls("GET /size/12345") == 1


@pytest.mark.parametrize("wish", ["max-age=0", "no-cache", "min-fresh=7200"])
def test_head_that_takes_nothing_stored_waits_for_no_body(fleet, scripted, wish):
    """It is passed on as HEAD: a body, which may take long or break off, is nothing to who asked for none."""

    def answer(talk, request):
        fields = {"Cache-Control": "max-age=3600", "ETag": '"a"'}
        if request.method == "HEAD":
            talk.answer(200, fields, length=1000)
        elif len(talk.upstream.requests) == 1:
            talk.answer(200, fields, b"x" * 1000)
        else:
            talk.answer(200, fields, b"x" * 10, length=1000)
            talk.wait_closed()

    upstream = scripted(answer, each=True)
    nodes = fleet.start(upstream.url, [{"match": "/**", "cache": {}}])
    nodes[0].get("/")
    for node in nodes:
        wait_hit(node, "/")
        with node.connect() as client:
            head = client.ask("HEAD", "/", {"Cache-Control": wish})
            assert (head.status, head["content-length"], head["cache-status"]) == (200, "1000", "weir; fwd=request; fwd-status=200")
            assert client.ask("GET", "/")["x-cache"] == "HIT", "and its connection serves on"
    assert [request.method for request in upstream.requests] == ["GET"] + ["HEAD"] * len(nodes)


def test_large_and_chunked_bodies_are_kept_whole(fleet, upstream):
    nodes = fleet.start(upstream.url, EVERYTHING)
    pattern = (b"abcdefghijklmnopqrstuvwxyz" * 115386)[:3000000]
    for target in ("/size/3000000", "/chunked/3000000"):
        assert nodes[0].get(target).body == pattern
        for node in nodes:
            assert wait_hit(node, target).body == pattern
        assert upstream.calls(f"GET {target}") == 1


# ---- many ask, one loads ----


@pytest.mark.parametrize("target", ["/products/cold", "/reports/top"])
def test_sixty_clients_of_a_cold_key_cost_one_call(fleet, upstream, target):
    nodes = fleet.start(upstream.url, [*PRODUCTS, {"match": "GET /reports/top", "cache": {"ttl": "1h"}}])
    answers = spread(nodes, 60, target)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    counts = caches(answers)
    assert counts["MISS"] == 1
    assert set(counts) - {"MISS"} <= SHARED
    assert upstream.calls(f"GET {target}") == 1


def test_cold_keys_one_after_the_other_cost_one_call_each(fleet, upstream):
    nodes = fleet.start(upstream.url, PRODUCTS)
    for i in range(20):
        assert caches(spread(nodes, 8, f"/products/cold{i}"))["MISS"] == 1
        assert upstream.calls(f"GET /products/cold{i}") == 1


def test_riders_get_bytes_while_the_load_is_under_way(memory_fleet, scripted):
    """On one worker, riders stream along: the first byte reaches all of them while the upstream still holds the last."""
    go_on = threading.Event()

    def script(talk, request):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        go_on.wait(PATIENCE_S)
        talk.send(b"after")

    api = scripted(script, each=True)
    node = memory_fleet.start(api.url, EVERYTHING, workers=1)[0]
    riders = [node.connect() for _ in range(5)]
    for rider in riders:
        rider.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    for rider in riders:
        rider.reader.until(b"first")
    go_on.set()
    for rider in riders:
        rider.reader.until(b"after")
        rider.close()
    assert len(api.requests) == 1


def test_a_client_that_leaves_does_not_end_the_load_for_others(fleet, scripted):
    gate = Gate(lambda n, request: {"body": b"load %d" % n})
    api = scripted(gate, each=True)
    nodes = fleet.start(api.url, EVERYTHING)
    leaver = nodes[0].connect()
    leaver.send(b"GET /x HTTP/1.1\r\nHost: api.test\r\n\r\n")
    api.wait_requests(1)
    waiting = [Background(lambda node=node: node.get("/x")) for node in nodes for _ in range(3)]
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(nodes)) >= len(waiting) + 1, "all of them wait")
    leaver.reset()
    gate.open()
    for each in waiting:
        answer = each.result()
        assert (answer.status, answer.body) == (200, b"load 1")
        assert answer["x-cache"] in SHARED
    assert len(api.requests) == 1


# ---- stale ----


def test_a_stale_copy_is_served_while_exactly_one_refresh_runs(fleet, scripted):
    gate = Gate(lambda n, request: {"body": b"load %d" % n, "fields": {"Cache-Control": "max-age=1"}}, held=lambda n: n > 1)
    api = scripted(gate, each=True)
    nodes = fleet.start(api.url, [{"match": "/**", "cache": {"stale_while_revalidate": "1h"}}])
    assert nodes[0].get("/report").body == b"load 1"
    # A node's own copy may be stale a moment before the store's is; only then does anybody refresh it.
    wait_until(lambda: nodes[0].get("/report")["x-cache"] == "STALE" and len(api.requests) == 2, "the refresh is on its way, and held")
    answers = spread(nodes, 40, "/report")
    assert caches(answers) == {"STALE": 40}
    assert {answer.body for answer in answers} == {b"load 1"}
    assert len(api.requests) == 2
    gate.open()
    for node in nodes:
        wait_until(lambda: node.get("/report").body != b"load 1", "the new one is there")


def test_the_slow_report_is_served_stale_at_once_and_refreshed_once(fleet, upstream):
    nodes = fleet.start(upstream.url, [{"match": "GET /reports/top", "cache": {"ttl": "1s", "stale_while_revalidate": "1h"}}])
    first = nodes[0].get("/reports/top")
    wait_until(lambda: nodes[1].get("/reports/top")["x-cache"] == "STALE", "the report gets stale")
    wait_until(lambda: nodes[1].get("/reports/top").body != first.body, "the refresh is over")
    assert upstream.calls("GET /reports/top") == 2


def test_an_error_is_covered_by_a_stale_copy(fleet, scripted):
    def answer(n, request):
        if n == 1:
            return {"body": b"good", "fields": {"Cache-Control": "max-age=1"}}
        return {"status": 503, "body": b"bad"}

    api = scripted(Gate(answer, held=lambda n: False), each=True)
    nodes = fleet.start(api.url, [{"match": "/**", "cache": {"stale_if_error": "1h"}}])
    nodes[0].get("/x")
    for node in nodes:
        stale = wait_until(lambda: (lambda got: got if got["x-cache"] == "STALE" else None)(node.get("/x")), "it gets stale")
        assert (stale.status, stale.body) == (200, b"good")
    assert len(api.requests) > 1


# ---- invalidation ----


def test_a_put_is_seen_by_every_node_at_once(fleet, upstream):
    nodes = fleet.start(upstream.url, PRODUCTS)
    for i in range(25):
        for node in nodes:
            wait_hit(node, "/products/1")
        changed = nodes[i % len(nodes)].ask("PUT", "/products/1", body=b"{}")
        for node in reversed(nodes):
            assert version(node.get("/products/1")) == version(changed), i
    assert version(nodes[0].get("/products/1")) == 26


def test_only_what_carries_the_tag_is_invalidated(fleet, upstream):
    nodes = fleet.start(upstream.url, PRODUCTS)
    for target in ("/products/1", "/products/2"):
        nodes[0].get(target)
        wait_hit(nodes[1], target)
    nodes[0].ask("PUT", "/products/1", body=b"{}")
    for node in nodes:
        node.get("/products/1")
        assert node.get("/products/2")["x-cache"] == "HIT"
    assert upstream.calls("GET /products/2") == 1
    assert upstream.calls("GET /products/1") == 2


def test_an_order_by_the_admin_port_holds_everywhere(fleet, upstream):
    nodes = fleet.start(upstream.url, [{"match": "/**", "cache": {"ttl": "1h"}}])
    target = "/headers?surrogate-key=red%20blue"
    bodies = {nodes[0].get(target).body}
    epochs = []
    for tag in ("red", "blue"):
        for node in nodes:
            wait_hit(node, target)
        ordered = nodes[1].invalidate(tag)
        assert ordered.status == 200, ordered
        epochs.append(json.loads(ordered.body)["epoch"])
        for node in nodes:
            answer = node.get(target)
            assert answer.body not in bodies
        bodies.add(answer.body)
    assert epochs[0] < epochs[1]
    nodes[0].invalidate("green")
    assert wait_hit(nodes[0], target).body == answer.body


def test_a_failed_change_invalidates_nothing(fleet, scripted):
    def answer(n, request):
        return {"status": 200 if request.method == "GET" else 409, "body": b"%d" % n}

    api = scripted(Gate(answer, held=lambda n: False), each=True)
    nodes = fleet.start(api.url, PRODUCTS)
    nodes[0].get("/products/1")
    wait_hit(nodes[1], "/products/1")
    assert nodes[0].ask("PUT", "/products/1", body=b"{}").status == 409
    for node in nodes:
        assert node.get("/products/1").body == b"1"


# ---- what is never shared ----


@pytest.mark.parametrize("fields", [
    "cache-control=no-store", "cache-control=private", "cache-control=no-cache", "set-cookie=id%3D1",
    "vary=*", "cache-control=private%3B%20max-age%3D60", "cache-control=max-age%3D0", "_status=500", "_status=429",
])
def test_an_answer_that_is_for_one_client_goes_to_one(fleet, upstream, fields):
    nodes = fleet.start(upstream.url, EVERYTHING)
    target = f"/headers?{fields}"
    bodies = [nodes[i % len(nodes)].get(target) for i in range(4)]
    assert len({answer.body for answer in bodies}) == 4
    assert not {answer["x-cache"] for answer in bodies} & {"HIT", "WAIT", "STALE"}
    assert upstream.calls("GET /headers") == 4


@pytest.mark.parametrize("fields", [{"Cache-Control": "no-store"}, {"If-Match": '"a"'}])
def test_such_a_request_goes_past_the_cache(fleet, upstream, fields):
    nodes = fleet.start(upstream.url, EVERYTHING)
    nodes[0].get("/slow/1")
    kept = wait_hit(nodes[1], "/slow/1").body
    for node in nodes:
        answer = node.get("/slow/1", fields)
        assert answer["x-cache"] == "BYPASS"
        assert answer.body != kept
    assert wait_hit(nodes[0], "/slow/1").body == kept


def test_each_client_gets_its_own_cookie(fleet, scripted):
    api = scripted(Gate(lambda n, request: {"body": b"%d" % n, "fields": {"Set-Cookie": f"id={n}"}}, held=lambda n: False), each=True)
    nodes = fleet.start(api.url, EVERYTHING)
    for _ in range(3):
        answers = spread(nodes, 20, "/login")
        cookies = {answer["set-cookie"] for answer in answers}
        assert len(cookies) == 20
        assert all(answer["set-cookie"] == f"id={answer.text}" for answer in answers)


def test_clients_of_an_unshareable_answer_do_not_queue(fleet, scripted):
    """The first is answered alone; then all others must be at the upstream at the same time, or it would answer none of them."""
    others = threading.Barrier(49)

    def answer(n, request):
        if n > 1:
            others.wait(PATIENCE_S)
        return {"body": b"%d" % n, "fields": {"Cache-Control": "no-store"}}

    gate = Gate(answer, held=lambda n: n == 1)
    api = scripted(gate, each=True)
    nodes = fleet.start(api.url, EVERYTHING)
    clients = Background(lambda: spread(nodes, 50, "/mine"))
    api.wait_requests(1)
    gate.open()
    answers = clients.result()
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 50


# ---- what is not whole is not kept ----


@pytest.mark.parametrize("script", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n",
], ids=["length", "chunks", "nonsense"])
def test_a_truncated_answer_is_seen_as_such_and_never_kept(fleet, scripted, script):
    def send(talk):
        if talk.read() is not None:
            talk.send(script)

    api = scripted(send)
    nodes = fleet.start(api.url, EVERYTHING)
    for i in range(4):
        with pytest.raises(Broken) as failure:
            answer = nodes[i % len(nodes)].get("/x")
            if answer.status == 502:  # it broke before anything had gone to the client
                raise Broken("told", answer)
        assert failure.value.answer is None or failure.value.answer["x-cache"] not in ("HIT", "STALE")
    # One that comes while the failure is being told to the store shares it; none finds anything kept.
    assert 2 <= len(api.requests) <= 4


def test_riders_of_a_truncated_answer_see_that_too(fleet, scripted):
    gate = threading.Event()

    def send(talk):
        if talk.read() is not None:
            gate.wait(PATIENCE_S)
            talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    api = scripted(send)
    nodes = fleet.start(api.url, EVERYTHING)

    def ask(node):
        try:
            return node.get("/x")
        except Broken as broken:
            return broken

    clients = [Background(lambda node=node: ask(node)) for node in nodes for _ in range(5)]
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(nodes)) >= len(clients), "all of them wait")
    gate.set()
    for each in clients:
        result = each.result()
        assert isinstance(result, Broken) or result.status == 502, result
    assert len(api.requests) == 1
