"""Local limits: while Redis is away each node goes on by itself from what Redis said last, and no further than docs/limits.md says.

Windows are days and months where a test counts, so that nothing comes back within it.
"""

import collections

import pytest

from algorithms import ALGORITHMS, one_of_each
from weir import together, wait_until

LIMITS = one_of_each(20, on_store_failure="local")
PROBE = {"probe": {"key": "header:x-api-key", "rate": "1000000/d", "on_store_failure": "closed"}}
KEY = {"X-Api-Key": "key-of-this-test"}
NOBODY = 1  # a port on which nobody listens


def route(name):
    return {"match": f"GET /{name}", "rewrite": "/healthz", "limits": [name]}


ROUTES = [route(name) for name in [*LIMITS, "probe"]]

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


@pytest.fixture
def impatient(redis_fleet):
    redis_fleet.settings = {"store": {"url": redis_fleet.redis.url, "timeout": "100ms"}}
    return redis_fleet


def take_away(fleet):
    """Demoted: it keeps what it has, and charges nothing meanwhile. (A frozen one would charge later what was sent to it.)"""
    fleet.redis.command("REPLICAOF", "127.0.0.1", NOBODY)
    for node in fleet.nodes:
        wait_until(lambda node=node: node.get("/probe", KEY).status == 503, "the node has noticed")


def give_back(fleet):
    fleet.redis.command("REPLICAOF", "NO", "ONE")
    for node in fleet.nodes:
        wait_until(lambda node=node: node.get("/probe", KEY).status == 200 and node.metric("weir_store_up") == 1, "it is used again")


def passing(node, algorithm, count=30):
    """How many of so many at once pass."""
    statuses = collections.Counter(together([lambda: node.get(f"/{algorithm}", KEY).status] * count))
    assert set(statuses) <= {200, 429}
    return statuses[200]


@each_algorithm
def test_each_node_goes_on_from_what_the_store_said_last(impatient, upstream, algorithm):
    a, b = impatient.start(upstream.url, ROUTES, {**LIMITS, **PROBE}, **impatient.settings)
    assert [a.get(f"/{algorithm}", KEY)["ratelimit-remaining"] for _ in range(7)] == [str(left) for left in range(19, 12, -1)]
    assert b.get(f"/{algorithm}", KEY)["ratelimit-remaining"] == "12"

    take_away(impatient)
    assert passing(a, algorithm) == 13, "it was told that seven are used"
    assert passing(b, algorithm) == 12, "it was told that eight are"
    refused = a.get(f"/{algorithm}", KEY)
    assert (refused.status, refused["ratelimit-remaining"]) == (429, "0")
    assert a.metric("weir_limit_decisions_total", limit=algorithm, outcome="decided_locally") >= 31

    give_back(impatient)
    assert passing(a, algorithm) + passing(b, algorithm) == 12, "the store goes on from where it was: local counts are not carried over"


@each_algorithm
def test_any_number_of_outages_admits_no_more_than_one(impatient, upstream, algorithm):
    """The bound: what the store admits, and once more for each node."""
    nodes = impatient.start(upstream.url, ROUTES, {**LIMITS, **PROBE}, **impatient.settings)
    by_the_store = local = 0
    for _ in range(3):
        by_the_store += passing(nodes[0], algorithm, 2) + passing(nodes[1], algorithm, 2)
        take_away(impatient)
        local += sum(passing(node, algorithm) for node in nodes)
        give_back(impatient)
    by_the_store += passing(nodes[0], algorithm)
    assert by_the_store == 20, "exactly, with or without an outage"
    assert local <= 20 * len(nodes)
    assert by_the_store + local < 20 * (1 + len(nodes)), "less than if each had begun anew"


def test_what_was_counted_locally_dies_with_its_window(impatient, upstream):
    """A node that was alone for three windows must not bring their requests into the present one."""
    limits = {"short": {"key": "header:x-api-key", "algorithm": "sliding_log", "rate": "5/s", "on_store_failure": "local"}}
    a, _ = impatient.start(upstream.url, [*ROUTES, route("short")], {**LIMITS, **PROBE, **limits}, **impatient.settings)
    assert a.get("/short", KEY)["ratelimit-remaining"] == "4"
    take_away(impatient)
    admitted = 0
    while admitted < 20:  # four windows' worth
        answer = a.get("/short", KEY)
        admitted += answer.status == 200
        assert answer.status in (200, 429)
    before = a.metric("weir_limit_decisions_total", limit="short", outcome="decided_locally")
    give_back(impatient)
    answer = a.get("/short", KEY)
    assert (answer.status, answer["ratelimit-remaining"]) == (200, "4")
    assert a.metric("weir_limit_decisions_total", limit="short", outcome="decided_locally") == before
