"""Invalidation: once it is acknowledged, does any node still serve what was loaded, or asked for, before?"""

import json
import threading
import time

import pytest

from weir import Demo, together, wait_until
from wire import Connection

LOAD_MS = 20
ROUNDS, LANES = 200, 8

PRODUCTS = {"match": "GET /products/{id}", "cache": {"ttl": "1h", "tags": ["product:{id}"]}}
# stale at once and refreshed behind: what is refreshed when an invalidation comes must not come back either
RESTLESS = {"match": "GET /restless/{id}", "rewrite": "/products/{id}",
            "cache": {"ttl": "1ms", "stale_while_revalidate": "1h", "tags": ["product:{id}"]}}
CHANGES = {"match": "PUT,DELETE /products/{id}", "invalidates": ["product:{id}", "report"]}
REPORT = {"match": "GET /reports/top", "cache": {"ttl": "1h", "tags": ["report"]}}


@pytest.fixture
def quick(tmp_path):
    """An upstream whose products take as long as the delays that the tests draw."""
    demo = Demo(tmp_path, product_ms=LOAD_MS, report_ms=LOAD_MS)
    yield demo
    demo.kill()


def version(answer):
    assert answer.status == 200, answer
    return json.loads(answer.body)["version"]


def test_a_put_invalidates_on_every_node(fleet, quick):
    nodes = fleet.start(quick.url, [PRODUCTS, CHANGES, REPORT])
    for node in nodes:
        assert version(node.get("/products/1")) == version(node.get("/products/2")) == 1
        node.get("/reports/top")
    for round_number in range(2, 22):
        assert nodes[round_number % 2].ask("PUT", "/products/1").status == 200
        assert {version(node.get("/products/1")) for node in nodes} == {round_number}
    reports = quick.calls("GET /reports/top")
    assert version(nodes[0].get("/products/2")) == 1 and quick.calls("GET /products/2") == 1, "another product is left alone"
    nodes[1].get("/reports/top")
    assert quick.calls("GET /reports/top") == reports + 1, "the second tag of the change counts too"


@pytest.mark.parametrize("status", [404, 500])
def test_a_change_that_failed_invalidates_nothing(fleet, upstream, status):
    a, b = fleet.start(upstream.url, [PRODUCTS, {"match": "PUT /change/{id}", "rewrite": f"/status/{status}", "invalidates": ["product:{id}"]}])
    assert version(a.get("/products/1")) == 1
    assert a.ask("PUT", "/change/1").status != 200
    assert b.get("/products/1").status == 200
    assert upstream.calls("GET /products/1") == 1


def test_tags_that_the_upstream_names_invalidate_too(fleet, upstream):
    a, b = fleet.start(upstream.url, [{"match": "GET /headers", "cache": {"ttl": "1h"}}])
    targets = ["/headers?surrogate-key=red%20blue", "/headers?cache-tag=blue,green", "/headers?surrogate-key=green"]
    for target in targets:
        a.get(target)
    assert upstream.calls("GET /headers") == 3
    assert b.invalidate("blue").status == 200
    for target in targets:
        b.get(target)
    assert upstream.calls("GET /headers") == 5, "the third has another tag"


def test_a_node_that_comes_late_serves_what_none_of_many_invalidations_was_about(redis_fleet, quick):
    """It learns that there were more than it can be told of one by one, which is no reason to distrust what Redis has."""
    a, _ = redis_fleet.start(quick.url, [PRODUCTS])
    wait_until(lambda: a.get("/products/1")["x-cache"] == "HIT", "it is stored")
    for i in range(4):
        assert a.invalidate(*[f"other-{i}-{j}" for j in range(64)]).status == 200
    late = redis_fleet.add({key: value for key, value in a.configuration.items() if key not in ("listen", "admin")})
    assert [node.get("/products/1")["x-cache"] for node in (late, late, a)] == ["HIT"] * 3
    assert quick.calls("GET /products/1") == 1
    assert late.invalidate("product:1").status == 200
    a.get("/products/1")
    assert quick.calls("GET /products/1") == 2


def test_epochs_only_grow(fleet, upstream):
    nodes = fleet.start(upstream.url, [PRODUCTS])
    epochs = []
    for i in range(20):
        answer = nodes[i % 2].invalidate(*[f"tag-{i}-{j}" for j in range(64)])
        assert answer.status == 200, answer
        epochs.append(json.loads(answer.body)["epoch"])
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("path", ["products", "restless"])
@pytest.mark.parametrize("by", ["put", "admin"])
def test_a_load_that_overlaps_an_invalidation_is_never_served_afterwards(fleet, quick, rng, path, by):
    nodes = fleet.start(quick.url, [PRODUCTS, RESTLESS, CHANGES])
    rounds = [(index, [rng.random() * 2 * LOAD_MS / 1000 for _ in range(2)], rng.sample(nodes, 2), rng.random() < 0.5)
              for index in range(ROUNDS // 4)]  # four kinds of rounds: ROUNDS in all, on each store

    def change(node, index):
        if by == "put":
            return version(node.ask("PUT", f"/products/{index}"))
        with Connection(quick.port) as behind:
            changed = version(behind.ask("PUT", f"/products/{index}"))
        assert node.invalidate(f"product:{index}").status == 200
        return changed

    def play(index, delays, order, is_warm):
        target = f"/{path}/{index}"
        if is_warm:
            version(order[0].get(target))
            change(order[1], index)
        loads = [threading.Thread(target=lambda node=node: version(node.get(target))) for node in order]
        loads[0].start()
        time.sleep(delays[0])  # not to wait for anything: it chooses where in the load the change falls
        loads[1].start()
        changed = change(order[1], index)
        for node in order:
            assert version(node.get(target)) >= changed, f"round {index}: an old version after the change was acknowledged"
        for load in loads:
            load.join()
        time.sleep(delays[1] / 10)
        for node in order:
            assert version(node.get(target)) >= changed, f"round {index}: an old version came back"

    together([lambda lane=lane: [play(*each) for each in rounds[lane::LANES]] for lane in range(LANES)])


def test_what_rides_on_an_overtaken_load_is_asked_for_again(fleet, scripted):
    """The rider that came before the change may have the old answer, the one that came after it may not."""
    gate, bodies = threading.Event(), iter([b"old", b"new", b"new"])

    def answer(talk, _request):
        body = next(bodies)
        if body == b"old":
            gate.wait(60)
        talk.answer(body=body)

    upstream = scripted(answer, each=True)
    a, b = fleet.start(upstream.url, [PRODUCTS])
    results = {}
    before = threading.Thread(target=lambda: results.update(before=a.get("/products/1").body))
    before.start()
    upstream.wait_requests(1)
    assert b.invalidate("product:1").status == 200
    try:
        assert a.get("/products/1").body == b"new", "it waits for no load that began before"
        assert b.get("/products/1").body == b"new"
    finally:
        gate.set()
        before.join()
    assert results["before"] == b"old"
    assert {node.get("/products/1").body for node in (a, b)} == {b"new"}


def test_an_acknowledged_invalidation_is_known_where_copies_are_near(fleet, quick_upstream):
    """Each round: both nodes have a copy in their own memory, and neither may use it after the acknowledgement."""
    a, b = fleet.start(quick_upstream.url, [PRODUCTS])
    for round_number in range(50):
        for node in (a, b):
            node.get("/products/1")
            wait_until(lambda node=node: node.get("/products/1")["x-cache"] == "HIT", "a copy is near")
        calls = quick_upstream.calls("GET /products/1")
        assert (a, b)[round_number % 2].invalidate("product:1").status == 200
        assert (b, a)[round_number % 2].get("/products/1")["x-cache"] == "MISS"
        assert quick_upstream.calls("GET /products/1") == calls + 1
