"""Each algorithm of limits from outside: exact at any concurrency and on any number of nodes, mixed on one route without
charging for a refusal, and kept through a reload.

Windows are days and months, so that nothing comes back while a test counts. WEIR_ROUNDS makes the barrier rounds many.
"""

import collections
import itertools
import json
import os

import pytest

from algorithms import ALGORITHMS, limit
from weir import together, wait_until

ROUNDS = int(os.environ.get("WEIR_ROUNDS", "20"))


def key(name):
    return {"X-Api-Key": name}


def route(*limits):
    return {"match": "GET /**", "rewrite": "/healthz", "limits": list(limits)}


def statuses(answers):
    return collections.Counter(answer.status for answer in answers)


def at_once(nodes, count, client):
    return together(lambda i=i: nodes[i % len(nodes)].get("/", key(client)) for i in range(count))


def remaining(answer, name):
    """What draft-11's RateLimit says of a limit."""
    items = dict(item.split(";", 1) for item in answer["ratelimit"].split(", "))
    return int(items[f'"{name}"'].split(";")[0].removeprefix("r="))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_of_eighty_at_once_exactly_twenty_pass_in_every_round(fleet, upstream, algorithm):
    nodes = fleet.start(upstream.url, [route("per_client")], {"per_client": limit(algorithm, 20)})
    for turn in range(ROUNDS):
        assert statuses(at_once(nodes, 80, f"client {turn}")) == {200: 20, 429: 60}, turn
    assert upstream.calls("GET /healthz") == ROUNDS * 20


@pytest.mark.parametrize("count, workers", [(1, 2), (3, 1)], ids=["one_node_of_two_workers", "three_nodes"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_number_of_nodes_on_redis_is_no_less_exact(redis_fleet, upstream, algorithm, count, workers):
    nodes = redis_fleet.start(upstream.url, [route("per_client")], {"per_client": limit(algorithm, 20)}, count=count, workers=workers)
    for turn in range(ROUNDS):
        assert statuses(at_once(nodes, 80, f"client {turn}")) == {200: 20, 429: 60}, turn
    assert upstream.calls("GET /healthz") == ROUNDS * 20


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_costs_are_counted_in_full(fleet, upstream, algorithm):
    nodes = fleet.start(upstream.url, [route("dear")], {"dear": limit(algorithm, 20, cost=6)})
    answers = at_once(nodes, 12, "a")
    assert statuses(answers) == {200: 3, 429: 9}
    assert {remaining(answer, "dear") for answer in answers if answer.status == 429} == {2}


@pytest.mark.parametrize("tight, wide", itertools.permutations(ALGORITHMS, 2))
def test_what_one_algorithm_refuses_no_other_charges(fleet, upstream, tight, wide):
    limits = {"tight": limit(tight, 5), "wide": limit(wide, 50)}
    nodes = fleet.start(upstream.url, [route("wide", "tight")], limits)
    answers = at_once(nodes, 30, "a")
    assert statuses(answers) == {200: 5, 429: 25}
    after = nodes[0].get("/", key("a"))
    assert after.status == 429
    assert json.loads(after.body)["violated-policies"] == ["tight"]
    assert (remaining(after, "tight"), remaining(after, "wide")) == (0, 45)


def test_all_four_at_once_admit_what_the_smallest_does(fleet, upstream):
    sizes = dict(zip(ALGORITHMS, (40, 10, 30, 20)))
    nodes = fleet.start(upstream.url, [route(*ALGORITHMS)], {name: limit(name, size) for name, size in sizes.items()})
    assert statuses(at_once(nodes, 80, "a")) == {200: 10, 429: 70}
    after = nodes[0].get("/", key("a"))
    assert {name: remaining(after, name) for name in sizes} == {name: size - 10 for name, size in sizes.items()}


def test_clients_are_told_the_burst_and_how_long_it_takes_to_fill(fleet, upstream):
    bucket = {"key": "header:x-api-key", "algorithm": "token_bucket", "rate": "2/s", "burst": 10, "cost": 5}
    node = fleet.start(upstream.url, [route("reports")], {"reports": bucket})[0]
    answer = node.get("/", key("a"))
    assert answer["ratelimit-policy"] == '"reports";q=10;w=5'
    assert answer["ratelimit-limit"] == "10"
    assert answer["ratelimit-remaining"] == "5"


def test_clients_are_told_the_longest_month(fleet, upstream):
    node = fleet.start(upstream.url, [route("monthly")], {"monthly": limit("fixed_window", 20)})[0]
    assert node.get("/", key("a"))["ratelimit-policy"] == '"monthly";q=20;w=2678400'


def test_a_bucket_lets_in_again_when_its_token_has_come(fleet, upstream):
    bucket = {"key": "header:x-api-key", "algorithm": "token_bucket", "rate": "1/2s", "burst": 1}
    node = fleet.start(upstream.url, [route("slow")], {"slow": bucket})[0]
    refused = next(answer for answer in iter(lambda: node.get("/", key("a")), None) if answer.status == 429)
    assert 0 < json.loads(refused.body)["retry_after_ms"] <= 2000
    assert refused["retry-after"] in ("1", "2")
    wait_until(lambda: node.get("/", key("a")).status == 200, "the token came")


@pytest.mark.parametrize("before, after", itertools.permutations(ALGORITHMS, 2))
def test_a_reload_to_another_algorithm_keeps_what_was_used(fleet, upstream, before, after):
    nodes = fleet.start(upstream.url, [route("per_client")], {"per_client": limit(before, 20)})
    assert statuses(at_once(nodes, 15, "a")) == {200: 15}
    for node in fleet.nodes:
        assert node.reload(fleet.configuration(upstream.url, [route("per_client")], {"per_client": limit(after, 20)}))
    wait_until(lambda: all(node.get("/", key("probe"))["ratelimit-policy"] ==
                           f'"per_client";q=20;w={period(after)}' for node in fleet.nodes), "the new rules hold")
    assert statuses(at_once(nodes, 15, "a")) == {200: 5, 429: 10}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_reload_to_another_number_keeps_what_was_used_and_counts_at_once(fleet, upstream, algorithm):
    nodes = fleet.start(upstream.url, [route("per_client")], {"per_client": limit(algorithm, 20)})
    assert statuses(at_once(nodes, 15, "a")) == {200: 15}
    for units, passing, left in ((30, 15, 0), (8, 0, 0), (33, 3, 0)):
        for node in fleet.nodes:
            assert node.reload(fleet.configuration(upstream.url, [route("per_client")], {"per_client": limit(algorithm, units)}))
        wait_until(lambda units=units: all(nodes[i % 2].get("/", key(f"probe {i}"))["ratelimit-limit"] == str(units) for i in range(12)),
                   "the new rules hold in all workers")
        answers = at_once(nodes, 20, "a")
        assert statuses(answers)[200] == passing, units
        assert {remaining(answer, "per_client") for answer in answers if answer.status == 429} == {left}


def period(algorithm):
    return {"sliding_window": 86400, "sliding_log": 86400, "token_bucket": 20 * 86400, "fixed_window": 31 * 86400}[algorithm]
