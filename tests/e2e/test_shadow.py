"""Shadow: a limit that is tried out changes nothing for clients and tells the operator what it would do."""

import pytest

from weir import wait_until

LIMITS = {
    "real": {"rate": "6/30d"},
    "tried": {"rate": "3/30d", "mode": "shadow"},
    "tried_too": {"rate": "4/30d", "mode": "shadow", "cost": 2},
    "strict": {"rate": "3/30d", "mode": "shadow", "missing": "reject", "cost": {"header": "x-cost", "max": 3}},
}


def limits(**changes):
    return {name: {"key": "header:x-api-key", **limit, **changes.get(name, {})} for name, limit in LIMITS.items()}


ROUTES = [
    {"match": "/both", "rewrite": "/healthz", "limits": ["tried", "real", "tried_too"]},
    {"match": "/alone", "rewrite": "/healthz", "limits": ["tried"]},
    {"match": "/strict", "rewrite": "/healthz", "limits": ["strict"]},
]


def outcomes(fleet, limit):
    totals = {}
    for node in fleet.nodes:
        for name, labels, value in node.metrics().samples:
            if name == "weir_limit_decisions_total" and labels["limit"] == limit:
                totals[labels["outcome"]] = totals.get(labels["outcome"], 0) + int(value)
    return totals


def ask(nodes, target, count, fields=(("x-api-key", "k"),)):
    return [nodes[i % len(nodes)].get(target, fields) for i in range(count)]


def test_it_shows_in_figures_alone(fleet, quick_upstream):
    nodes = fleet.start(quick_upstream.url, ROUTES, limits())
    answers = ask(nodes, "/both", 8)
    assert [answer.status for answer in answers] == [200] * 6 + [429] * 2
    for answer in answers:
        assert answer["ratelimit-limit"] == "6" and answer["ratelimit-policy"] == '"real";q=6;w=2592000'
        assert b"tried" not in answer.body and not any("tried" in value for _, value in answer.fields)
    assert answers[-1].text.count('"violated-policies":["real"]') == 1
    assert outcomes(fleet, "real") == {"admitted": 6, "refused": 2}
    assert outcomes(fleet, "tried") == {"admitted": 3, "shadow_refused": 3}
    assert outcomes(fleet, "tried_too") == {"admitted": 2, "shadow_refused": 4}


def test_alone_it_lets_all_pass_without_a_field(fleet, quick_upstream):
    nodes = fleet.start(quick_upstream.url, ROUTES, limits())
    for answer in ask(nodes, "/alone", 5):
        assert answer.status == 200
        assert not [name for name, _ in answer.fields if "ratelimit" in name or name == "retry-after"]
    assert outcomes(fleet, "tried") == {"admitted": 3, "shadow_refused": 2}


def test_it_objects_to_no_key_and_no_cost(fleet, quick_upstream):
    nodes = fleet.start(quick_upstream.url, ROUTES, limits())
    assert [answer.status for answer in ask(nodes, "/strict", 2, ())] == [200, 200]
    key = ("x-api-key", "k")
    assert [answer.status for answer in ask(nodes, "/strict", 2, (key, ("x-cost", "4")))] == [200, 200]
    assert [answer.status for answer in ask(nodes, "/strict", 2, (key, ("x-cost", "3")))] == [200, 200]
    assert outcomes(fleet, "strict") == {"shadow_refused": 5, "admitted": 1}


def test_enforced_by_a_reload_it_goes_on_from_what_it_counted(fleet, quick_upstream):
    nodes = fleet.start(quick_upstream.url, ROUTES, limits())
    ask(nodes, "/alone", 2)
    for node in fleet.nodes:
        assert node.reload({**node.configuration, "limits": limits(tried={"mode": "enforce"})})
    assert [answer.status for answer in ask(nodes, "/alone", 3)] == [200, 429, 429]


def test_without_the_store_it_refuses_nothing_either(redis_fleet, quick_upstream):
    redis_fleet.start(quick_upstream.url, ROUTES, limits(tried={"on_store_failure": "closed"}), count=1)
    redis_fleet.redis.kill()
    wait_until(lambda: redis_fleet.nodes[0].metric("weir_store_up") == 0, "the store is missed")
    assert [answer.status for answer in ask(redis_fleet.nodes, "/alone", 4)] == [200] * 4
    assert [answer.status for answer in ask(redis_fleet.nodes, "/both", 7)] == [200] * 6 + [429]
    assert outcomes(redis_fleet, "tried") == {"shadow_refused": 4 + 7}
    assert outcomes(redis_fleet, "tried_too") == {"admitted": 2, "shadow_refused": 4, "decided_locally": 6}
