"""Fast denial: hammering a closed door costs the store next to nothing, and the door is open the moment that it should be."""

import json

import pytest

from weir import wait_until

KEY = {"x-api-key": "k"}


def limits(rate):
    return {"client": {"key": "header:x-api-key", "rate": rate}, "everyone": {"key": "global", "rate": "1000/30d"}}


ROUTES = [{"match": "/**", "rewrite": "/healthz", "limits": ["everyone", "client"]}]


def scripts_run(redis):
    line = next(line for line in redis.command("INFO", "commandstats").decode().splitlines() if line.startswith("cmdstat_evalsha:"))
    return int(line.split("calls=")[1].split(",")[0])


def test_who_keeps_trying_is_refused_without_the_store(redis_fleet, quick_upstream):
    node, other = redis_fleet.start(quick_upstream.url, ROUTES, limits("5/30d"))
    with node.connect() as client:
        assert [client.ask("GET", "/", KEY).status for _ in range(6)] == [200] * 5 + [429]
        before = scripts_run(redis_fleet.redis)
        answers = [client.ask("GET", "/", KEY) for _ in range(400)]
        assert scripts_run(redis_fleet.redis) - before < 200
    waits = []
    for answer in answers:
        problem = json.loads(answer.body)
        assert answer.status == 429 and problem["violated-policies"] == ["client"] and problem["limit"] == "client"
        assert answer["ratelimit-remaining"] == "0" and answer["ratelimit"].startswith('"everyone";r=995;t=')
        waits.append(problem["retry_after_ms"])
        assert (waits[-1] + 999) // 1000 == int(answer["retry-after"])
    # The door opens at one moment, whoever tells of it: from memory a wait is told late by as much as the store took to answer, never early.
    assert waits[0] >= waits[-1]
    metrics = node.metrics()
    assert metrics.sum("weir_limit_decisions_total", limit="client", outcome="refused") == 401
    assert metrics.sum("weir_limit_decisions_total", limit="client", outcome="fast_denied") > 200
    assert metrics.sum("weir_limit_decisions_total", limit="everyone", outcome="admitted") == 5, "what is refused costs nothing"
    assert other.get("/", KEY).status == 429
    assert node.get("/", {"x-api-key": "another"}).status == 200


def test_a_reload_that_raises_the_limit_holds_at_once(redis_fleet, quick_upstream):
    node, _ = redis_fleet.start(quick_upstream.url, ROUTES, limits("2/30d"))
    for more in (3, 4, 5):
        while node.get("/", KEY).status == 200:
            pass
        assert node.get("/", KEY).status == 429
        assert node.reload({**node.configuration, "limits": limits(f"{more}/30d")})
        assert node.get("/", KEY).status == 200


def test_what_another_resets_is_noticed(redis_fleet, quick_upstream):
    node, _ = redis_fleet.start(quick_upstream.url, ROUTES, limits("2/30d"))
    while node.get("/", KEY).status == 200:
        pass
    redis_fleet.redis.command("FLUSHALL")
    wait_until(lambda: node.get("/", KEY).status == 200, "the store is asked again")


def test_a_window_that_turns_lets_pass_what_it_should(redis_fleet, quick_upstream):
    """Asking without pause over many windows, from two nodes, gets all that a limit gives, as one that asks the store each time."""
    nodes = redis_fleet.start(quick_upstream.url, ROUTES, limits("4/200ms"))
    with nodes[0].connect() as first, nodes[1].connect() as second:
        admitted = asked = 0
        while admitted < 40:
            admitted += (first, second)[asked % 2].ask("GET", "/", KEY).status == 200
            asked += 1
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="admitted") for node in nodes) == 40
