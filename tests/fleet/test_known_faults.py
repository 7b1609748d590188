"""Known faults: what went wrong in other limiters around Redis, as tests with the outcome that is right here.

Windows are days where a test counts, so that nothing comes back within it.
"""

import collections
import json
import threading

import pytest

from algorithms import ALGORITHMS, one_of_each
from weir import Background, together, wait_until
from wire import Broken

KEY = {"X-Api-Key": "k"}
MANY = 1000000
LIMITS = {
    **one_of_each(20),
    "counted": {"key": "header:x-api-key", "rate": "200/d"},
    "local": {"key": "header:x-api-key", "rate": f"{MANY}/d", "on_store_failure": "local"},
    "open": {"key": "header:x-api-key", "rate": f"{MANY}/d", "on_store_failure": "open"},
    "closed": {"key": "header:x-api-key", "rate": f"{MANY}/d", "on_store_failure": "closed"},
    "second": {"key": "header:x-api-key", "algorithm": "fixed_window", "rate": "5/s"},
}
ROUTES = [{"match": f"GET /{name}", "rewrite": "/healthz", "limits": [name]} for name in LIMITS]
TARGETS = [f"/{name}" for name in ("local", "open", *ALGORITHMS)]

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


class Traffic:
    """Clients that never stop asking, on connections that they keep; what they saw."""

    def __init__(self, nodes, targets):
        self.seen, self._is_over = collections.Counter(), threading.Event()
        self._clients = [Background(lambda node=node, target=target: self._ask_on(node, target)) for node in nodes for target in targets]

    def _ask_on(self, node, target):
        with node.connect() as connection:
            while not self._is_over.is_set():
                self.seen[target, connection.ask("GET", target, KEY).status] += 1

    def flows_on(self):
        before = sum(self.seen.values())
        wait_until(lambda: sum(self.seen.values()) > before + 50, "traffic flows")

    def stop(self):
        self._is_over.set()
        for client in self._clients:
            client.result()
        return {status for _, status in self.seen}


def start(fleet, upstream):
    return fleet.start(upstream.url, ROUTES, LIMITS)


# ---- scripts that Redis does not know any more ----


def test_a_script_flush_is_seen_by_no_client_and_changes_no_count(redis_fleet, upstream):
    nodes = start(redis_fleet, upstream)
    asked = Background(lambda: together([lambda i=i: [nodes[i % 2].get("/counted", KEY).status for _ in range(40)] for i in range(10)]))
    while not asked.is_over():
        redis_fleet.redis.command("SCRIPT", "FLUSH")
    assert collections.Counter(status for statuses in asked.result() for status in statuses) == {200: 200, 429: 200}
    assert sum(node.metric("weir_store_errors_total") for node in nodes) == 0


def test_a_restart_of_redis_is_seen_by_no_client(redis_fleet, upstream):
    nodes = start(redis_fleet, upstream)
    traffic = Traffic(nodes, ["/local", "/open"])
    for _ in range(2):
        traffic.flows_on()
        redis_fleet.redis.kill()
        traffic.flows_on()
        redis_fleet.redis.start()
        for node in nodes:
            wait_until(lambda node=node: node.get("/closed", KEY).status == 200 and node.metric("weir_store_up") == 1, "it is used again")
    traffic.flows_on()
    assert traffic.stop() == {200}


# ---- keys that never end ----


@each_algorithm
def test_a_full_key_without_an_end_is_given_one_by_the_refusal(redis_fleet, upstream, algorithm):
    """It closed its client out for ever."""
    a, _ = start(redis_fleet, upstream)
    assert [a.get(f"/{algorithm}", KEY).status for _ in range(21)] == [200] * 20 + [429]
    [key] = [key for key in redis_fleet.redis.keys() if key.startswith(b"weir:l:")]
    redis_fleet.redis.command("PERSIST", key)

    def is_repaired():  # the first refusals may come from the node's memory
        assert a.get(f"/{algorithm}", KEY).status == 429
        return redis_fleet.redis.command("PTTL", key) > 0

    wait_until(is_repaired, "the key has an end")


@each_algorithm
@pytest.mark.parametrize("planted", ["21", "2000000000", "not a number"])
def test_what_another_program_left_in_a_limits_place_closes_nobody_out(redis_fleet, upstream, algorithm, planted):
    a, _ = start(redis_fleet, upstream)
    assert a.get(f"/{algorithm}", KEY).status == 200
    [key] = [key for key in redis_fleet.redis.keys() if key.startswith(b"weir:l:")]
    redis_fleet.redis.command("SET", key, planted)
    assert a.get(f"/{algorithm}", KEY)["ratelimit-remaining"] == "19", "it counts as empty"
    assert redis_fleet.redis.command("PTTL", key) > 0


def test_a_node_that_is_killed_leaves_no_key_for_ever(redis_fleet, upstream):
    """Count and end are one step, wherever the one who takes it dies."""
    nodes = start(redis_fleet, upstream)
    for turn in range(4):
        dying, staying = nodes
        is_over = threading.Event()

        def ask_on(lane, node=dying, over=is_over, turn=turn):
            number = 0
            while not over.is_set():
                number += 1
                try:
                    node.get(TARGETS[number % len(TARGETS)], {"X-Api-Key": f"{turn} {lane} {number}"})
                except (OSError, Broken):
                    return

        clients = [Background(lambda lane=lane: ask_on(lane)) for lane in range(8)]
        keys = redis_fleet.redis.command("DBSIZE")
        wait_until(lambda keys=keys: redis_fleet.redis.command("DBSIZE") > keys + 100, "keys are being made")
        redis_fleet.remove(dying)
        is_over.set()
        for client in clients:
            client.result()
        assert redis_fleet.redis.keys_without_ttl() in ([], [b"weir:tags"])
        nodes = [staying, redis_fleet.add(redis_fleet.configuration(upstream.url, ROUTES, LIMITS))]


# ---- the moment at which a window ends ----


def test_at_the_end_of_each_window_a_client_gets_what_is_his_and_no_more(redis_fleet, upstream):
    """Requests all through the ends of windows of a second: never a refusal before the limit, never one more than it, no -1 left."""
    a, _ = start(redis_fleet, upstream)
    redis = redis_fleet.redis
    surely, perhaps = collections.defaultdict(collections.Counter), collections.Counter()  # second -> what was decided in it

    def ask():
        before = int(redis.command("TIME")[0])
        answer = a.get("/second", KEY)
        after = int(redis.command("TIME")[0])
        assert int(answer["ratelimit-remaining"]) in range(5)
        assert answer.status == 200 or (int(answer["ratelimit-remaining"]) == 0 and int(answer["retry-after"]) == 1)
        if before == after:
            surely[before][answer.status] += 1
        elif answer.status == 200:
            perhaps.update(range(before, after + 1))

    def whole():
        return [second for second in sorted(surely)[1:-1] if sum(surely[second].values()) > 5]

    while len(whole()) < 3:
        ask()
    for second in whole():
        assert surely[second][200] <= 5 <= surely[second][200] + perhaps[second]


# ---- Redis that is there and does not answer, or may not write ----


def test_a_frozen_redis_costs_a_few_requests_their_timeout_and_no_more(redis_fleet, upstream):
    """Of 400 one after the other: each of the first few waits for it, then nobody does."""
    node = redis_fleet.start(upstream.url, ROUTES, LIMITS, count=1, store={"url": redis_fleet.redis.url, "timeout": "100ms"})[0]
    assert node.get("/local", KEY).status == 200
    redis_fleet.redis.freeze()
    with node.connect() as connection:
        assert {connection.ask("GET", ("/local", "/open")[i % 2], KEY).status for i in range(400)} == {200}
    metrics = node.metrics()
    waited = metrics.sum("weir_store_errors_total", operation="admit", fault="store_silent")
    failed = metrics.sum("weir_store_errors_total", operation="admit")
    assert failed == 400 and waited <= 8, metrics.text
    redis_fleet.redis.thaw()
    wait_until(lambda: node.get("/closed", KEY).status == 200, "it is used again")


def test_a_master_that_was_demoted_is_left_and_used_again_when_it_may_write(redis_fleet, upstream):
    """Connections to it are closed, so that a name that stands for another server now is dialled again."""
    nodes = start(redis_fleet, upstream)
    assert [node.get("/closed", KEY).status for node in nodes] == [200, 200]
    before = [node.metric("weir_store_reconnects_total") for node in nodes]
    redis_fleet.redis.command("REPLICAOF", "127.0.0.1", 1)
    for node in nodes:
        refusal = node.get("/closed", KEY)
        assert (refusal.status, json.loads(refusal.body)["code"]) == (503, "limiter_unavailable")
        assert node.get("/open", KEY).status == 200
    redis_fleet.redis.command("REPLICAOF", "NO", "ONE")
    for node, reconnects in zip(nodes, before):
        wait_until(lambda node=node: node.get("/closed", KEY).status == 200, "it is used again")
        assert node.metric("weir_store_reconnects_total") > reconnects
