"""Clock skew: do nodes whose clocks are wrong, and run at other speeds, decide what any other node decides?

Each node runs under libfaketime with a clock of its own, wall and monotonic alike. Redis has the right one, and all decisions are its.
"""

import json
import os
import pathlib
import re
import struct
import subprocess

import pytest

from algorithms import ALGORITHMS, one_of_each
from weir import BUILD, together, wait_until

LIBRARIES = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
pytestmark = pytest.mark.skipif(not LIBRARIES, reason="needs the Debian package faketime, which .ci/install test installs")

ROUNDS = int(os.environ.get("WEIR_ROUNDS", "5"))
CLOCKS = {"right": "+0", "an hour behind": "-1h", "100 ms ahead": "+0.1", "a day ahead and fast": "+1d x1.5",
          "ten seconds behind and slow": "-10 x0.7"}
LIMITS = one_of_each(20)  # for who believes the clocks below it is another day
ROUTES = [{"match": f"GET /{name}", "rewrite": "/healthz", "limits": [name]} for name in ALGORITHMS] + [
    {"match": "GET /products/{id}", "cache": {"ttl": "1h"}}, {"match": "GET /reports/top", "cache": {"ttl": "1h"}},
    {"match": "GET /headers", "cache": {}}]
LOADED = ("HIT", "WAIT")  # by another node; it may still be on its way to the store
STAMP = {"sliding_window": "<cxxxxxxxxq", "sliding_log": "<cq", "token_bucket": "<cxxxxxxxxq", "fixed_window": "<cq"}  # docs/store.md

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def preload():
    """A sanitizer's runtime insists on being the first."""
    linked = subprocess.run(["ldd", BUILD / "weir"], capture_output=True, text=True, check=True).stdout
    return " ".join(re.findall(r"=> (\S*lib(?:a|ub)san\S*)", linked) + [str(LIBRARIES[-1])])


@pytest.fixture
def skewed(redis_fleet, upstream):
    """A node for each of the clocks."""
    configuration = redis_fleet.configuration(upstream.url, ROUTES, LIMITS)
    nodes = {}
    for name, clock in CLOCKS.items():
        redis_fleet.env = {"LD_PRELOAD": preload(), "FAKETIME": clock}
        nodes[name] = redis_fleet.add(configuration)
    days = {name: node.stderr[:10] for name, node in nodes.items()}
    assert days["a day ahead and fast"] > days["right"], "the clocks are wrong indeed"
    return nodes


def now_us(redis):
    seconds, us = redis.command("TIME")
    return int(seconds) * 1000000 + int(us)


def refused_for_ms(answer):
    assert answer.status == 429
    return json.loads(answer.body)["retry_after_ms"]


@each_algorithm
def test_of_eighty_at_once_exactly_twenty_pass(skewed, algorithm):
    nodes = list(skewed.values())
    for turn in range(ROUNDS):
        client = {"X-Api-Key": f"client {turn}"}
        answers = together([lambda i=i: nodes[i % len(nodes)].get(f"/{algorithm}", client) for i in range(80)])
        assert sorted(answer.status for answer in answers) == [200] * 20 + [429] * 60, turn


@each_algorithm
def test_each_node_goes_on_where_the_others_were(skewed, algorithm, rng):
    key = {"X-Api-Key": "k"}
    nodes = rng.choices(list(skewed.values()), k=20)
    assert [int(node.get(f"/{algorithm}", key)["ratelimit-remaining"]) for node in nodes] == list(range(19, -1, -1))


@each_algorithm
def test_all_tell_the_same_wait(skewed, redis, algorithm):
    key = {"X-Api-Key": "k"}
    for _ in range(20):
        assert skewed["an hour behind"].get(f"/{algorithm}", key).status == 200
    began_us = now_us(redis)
    waits_ms = [refused_for_ms(node.get(f"/{algorithm}", key)) for node in skewed.values()]
    took_ms = (now_us(redis) - began_us) / 1000
    assert waits_ms == sorted(waits_ms, reverse=True), "the moment stays, the wait for it shrinks"
    assert waits_ms[0] - waits_ms[-1] <= took_ms + 1, "by no more than the time that passed, and the rounding"


@each_algorithm
def test_no_node_puts_its_own_time_into_the_store(skewed, redis, algorithm):
    for name, node in skewed.items():
        before, began_us = set(redis.keys()), now_us(redis)
        assert node.get(f"/{algorithm}", {"X-Api-Key": name}).status == 200
        [key] = set(redis.keys()) - before - {b"weir:tags"}
        _, stamp_us = struct.unpack_from(STAMP[algorithm], redis.command("GET", key))
        assert began_us <= stamp_us <= now_us(redis), name


def test_a_wait_that_is_over_is_over_on_every_node(redis_fleet, upstream):
    """The memory of refusals goes by the node's monotonic clock, here a slow one: it may refuse a little longer, and never for good."""
    limits = {"short": {"key": "header:x-api-key", "algorithm": "sliding_log", "rate": "5/250ms"}}
    routes = [{"match": "GET /short", "rewrite": "/healthz", "limits": ["short"]}]
    redis_fleet.env = {"LD_PRELOAD": preload(), "FAKETIME": "+0 x0.7"}
    node = redis_fleet.start(upstream.url, routes, limits, count=1)[0]
    key = {"X-Api-Key": "k"}
    for _ in range(5):
        wait_until(lambda: node.get("/short", key).status == 429, "it is refused")
        wait_until(lambda: node.get("/short", key).status == 200, "it passes again")


def test_a_copy_is_as_old_for_all_as_it_is(skewed, redis):
    began_us = now_us(redis)
    assert skewed["right"].get("/products/1")["x-cache"] == "MISS"
    for name, node in skewed.items():
        answer = node.get("/products/1")
        assert answer["x-cache"] in LOADED, name
        assert int(answer["age"] or 0) <= (now_us(redis) - began_us) // 1000000 + 1, name


def test_who_is_ahead_believes_a_response_older_and_never_younger(skewed, upstream):
    """RFC 9111 section 4.2.3: by its own Date a response is a day old for that node, so that a minute of max-age is over: nothing to be
    kept. What another node has loaded is as fresh for this one as it is."""
    for calls in (1, 2):
        assert skewed["a day ahead and fast"].get("/headers?cache-control=max-age=60&number=1").status == 200
        assert upstream.calls("GET /headers") == calls
    assert skewed["an hour behind"].get("/headers?cache-control=max-age=60&number=2")["x-cache"] == "MISS"
    for name, node in skewed.items():
        assert node.get("/headers?cache-control=max-age=60&number=2")["x-cache"] in LOADED, name


def test_one_load_serves_all_of_them(skewed, upstream):
    """Locks and waits: the lease is the store's, the patience each node's own."""
    nodes = list(skewed.values())
    answers = together([lambda i=i: nodes[i % len(nodes)].get("/reports/top") for i in range(20)])
    assert {answer.status for answer in answers} == {200}
    assert upstream.calls("GET /reports/top") == 1
