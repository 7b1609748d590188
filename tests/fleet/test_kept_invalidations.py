"""Kept invalidations: Redis cannot be told of a change, and the node that knows of it is killed. Is it forgotten?"""

import json
import threading

import pytest

from weir import Fleet, wait_until

PRODUCTS = [
    {"match": "GET /products/{id}", "cache": {"ttl": "1h", "tags": ["product:{id}"]}},
    {"match": "PUT /products/{id}", "invalidates": ["product:{id}"]},
]
WARNING = '199 weir "invalidation kept until the store is back"'


@pytest.fixture
def kept(redis_fleet, tmp_path):
    """A fleet of which the first node has a journal."""
    redis_fleet.journal = tmp_path / "kept.journal"
    redis_fleet.store_of_first = {"url": redis_fleet.redis.url, "timeout": "100ms", "journal": str(redis_fleet.journal)}
    return redis_fleet


def version(answer):
    assert answer.status == 200, answer
    return json.loads(answer.body)["version"]


def start(kept, upstream):
    """The node with the journal, how to start it again, and another one."""
    first = kept.configuration(upstream.url, PRODUCTS, store=kept.store_of_first, drain_timeout="1s")
    other = kept.configuration(upstream.url, PRODUCTS, store={"url": kept.redis.url, "timeout": "100ms"}, drain_timeout="1s")
    return kept.add(first), (lambda: kept.add(first)), kept.add(other)


def warm(nodes, numbers=(1, 2)):
    for node in nodes:
        for number in numbers:
            wait_until(lambda n=node, i=number: n.get(f"/products/{i}")["x-cache"] == "HIT", "it is stored")


def put_while_frozen(node, number=1):
    wait_until(lambda: node.metric("weir_store_up") == 0, "the node knows that its store is silent")
    answer = node.ask("PUT", f"/products/{number}")
    assert (answer.status, answer["warning"]) == (200, WARNING)


def freeze(kept, node):
    kept.redis.freeze()
    wait_until(lambda: node.get("/products/77").status == 200 and node.metric("weir_store_up") == 0, "the store is known to be silent")


def test_a_change_outlives_the_node_that_could_not_record_it(kept, upstream):
    a, again, b = start(kept, upstream)
    warm([a, b])
    freeze(kept, a)
    put_while_frozen(a)
    kept.remove(a)  # SIGKILL
    a = again()
    assert version(a.get("/products/1")) == 2, "before the store is there"
    assert a.metric("weir_invalidations_kept") == 1

    stop = threading.Event()
    seen = []

    def read_on():
        while not stop.is_set():
            seen.append(version(a.get("/products/1")))

    reader = threading.Thread(target=read_on)
    reader.start()
    kept.redis.thaw()  # with the old copy in it
    try:
        wait_until(lambda: a.metric("weir_invalidations_kept") == 0, "the store is told")
    finally:
        stop.set()
        reader.join()
    assert set(seen) == {2}, "not a moment of the old one"
    assert kept.redis.command("ZSCORE", "weir:tags", "tproduct:1") is not None
    wait_until(lambda: b.metric("weir_store_up") == 1, "the other node has its store")
    assert version(b.get("/products/1")) == 2
    assert b.get("/products/2")["x-cache"] == "HIT", "what was not changed is as it was"
    wait_until(lambda: kept.journal.stat().st_size == len(b"weir-journal 1\n"), "the journal is emptied")


def test_a_redis_that_comes_back_empty_is_told_too(kept, upstream):
    a, again, b = start(kept, upstream)
    warm([a])
    kept.redis.kill()
    put_while_frozen(a)
    kept.remove(a)
    a = again()
    kept.redis.start()
    wait_until(lambda: a.metric("weir_invalidations_kept") == 0, "the store is told")
    assert {version(node.get("/products/1")) for node in (a, b)} == {2}


def test_a_journal_that_was_damaged_costs_misses_and_no_stale_answer(kept, upstream):
    a, again, b = start(kept, upstream)
    warm([a, b])
    freeze(kept, a)
    put_while_frozen(a)
    kept.remove(a)
    whole = kept.journal.read_bytes()
    kept.journal.write_bytes(whole[:-3])
    a = again()
    kept.redis.thaw()
    wait_until(lambda: a.metric("weir_invalidations_kept") == 0, "the store is told")
    wait_until(lambda: b.metric("weir_store_up") == 1, "the other node has its store")
    calls = upstream.calls("GET /products/2")
    assert {version(node.get("/products/1")) for node in (a, b)} == {2}
    b.get("/products/2")
    assert upstream.calls("GET /products/2") == calls + 1, "everything counts as changed"


def test_a_stop_waits_for_the_store_to_be_told(kept, upstream):
    """Without a journal, too: SIGTERM while Redis is silent, which then speaks again before drain_timeout."""
    shared = {"store": {"url": kept.redis.url, "timeout": "100ms"}, "drain_timeout": "20s"}
    a, b = kept.start(upstream.url, PRODUCTS, **shared)
    warm([a, b])
    freeze(kept, a)
    put_while_frozen(a)
    a.signal(15)
    kept.redis.thaw()
    assert a.wait() == 0
    kept.nodes.remove(a)
    kept.removed.append(a)
    wait_until(lambda: b.metric("weir_store_up") == 1, "the other node has its store")
    assert version(b.get("/products/1")) == 2
    assert "not recorded" not in a.stderr


def test_a_stop_does_not_wait_longer_than_drain_timeout_and_the_journal_has_it(kept, upstream):
    a, again, b = start(kept, upstream)
    warm([a, b])
    freeze(kept, a)
    put_while_frozen(a)
    assert a.stop() == 0
    assert "stay in the journal" in a.stderr
    kept.nodes.remove(a)
    kept.removed.append(a)
    kept.redis.thaw()
    a = again()
    wait_until(lambda: a.metric("weir_invalidations_kept") == 0, "the store is told")
    wait_until(lambda: b.metric("weir_store_up") == 1, "the other node has its store")
    assert {version(node.get("/products/1")) for node in (a, b)} == {2}


def test_a_journal_that_cannot_be_used_is_an_error_of_the_start(kept, upstream, tmp_path):
    configuration = kept.configuration(upstream.url, PRODUCTS, store={**kept.store_of_first, "journal": str(tmp_path / "no" / "journal")})
    with pytest.raises(AssertionError, match="store.journal: .*No such file"):
        Fleet(tmp_path, kept.redis).add(configuration)
