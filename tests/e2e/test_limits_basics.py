"""What limits promise, as seen from outside: exact counts over all nodes, and what clients are told, byte for byte.

Limits are by the minute or the day where a test counts; counts hold across a border of windows too, because what was admitted
before one still weighs fully right after it.
"""

import collections
import json
import math
import re

import pytest

from weir import together

KEYED = {"key": "header:x-api-key", "rate": "20/m"}


def key(name):
    return {"X-Api-Key": name}


def route(*limits, match="GET /**"):
    return {"match": match, "rewrite": "/healthz", "limits": list(limits)}


def spread(nodes, count, target, fields=lambda i: ()):
    return together(lambda i=i: nodes[i % len(nodes)].get(target, fields(i)) for i in range(count))


def statuses(answers):
    return collections.Counter(answer.status for answer in answers)


# ---- how many pass ----


def test_exactly_twenty_of_sixty_pass_in_each_of_fifty_rounds(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], {"per_client": KEYED})
    for turn in range(50):
        answers = spread(nodes, 60, "/", lambda i: key(f"client {turn}"))
        assert statuses(answers) == {200: 20, 429: 40}, turn
    assert upstream.calls("GET /healthz") == 50 * 20


def test_each_client_has_a_budget_of_its_own(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], {"per_client": KEYED})
    answers = spread(nodes, 90, "/", lambda i: key(f"client {i % 3}"))
    for client in range(3):
        assert statuses(answers[client::3]) == {200: 20, 429: 10}


def test_a_global_limit_counts_everybody(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("everyone")], {"everyone": {"key": "global", "rate": "20/m"}})
    assert statuses(spread(nodes, 60, "/", lambda i: key(f"client {i}"))) == {200: 20, 429: 40}


def test_cost_counts(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("dear")], {"dear": {**KEYED, "cost": 6}})
    assert statuses(spread(nodes, 12, "/", lambda i: key("a"))) == {200: 3, 429: 9}


def test_remaining_counts_down_over_all_nodes(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], {"per_client": {**KEYED, "rate": "20/d"}})
    for i in range(20):
        answer = nodes[i % len(nodes)].get("/", key("a"))
        assert (answer.status, answer["ratelimit-limit"], answer["ratelimit-remaining"]) == (200, "20", str(19 - i))
    refused = nodes[0].get("/", key("a"))
    assert (refused.status, refused["ratelimit-remaining"]) == (429, "0")


# ---- several limits ----


def test_a_request_that_one_limit_refuses_is_charged_to_none(fleet, upstream):
    limits = {"per_client": {**KEYED, "rate": "5/d"}, "everyone": {"key": "global", "rate": "12/d"}}
    nodes = fleet.start(upstream.url, [route("everyone", "per_client")], limits)
    assert statuses(spread(nodes, 40, "/", lambda i: key("greedy"))) == {200: 5, 429: 35}
    assert statuses(spread(nodes, 20, "/", lambda i: key("second"))) == {200: 5, 429: 15}
    assert statuses(spread(nodes, 20, "/", lambda i: key("third"))) == {200: 2, 429: 18}


def test_of_several_limits_the_tightest_decides_for_all_who_come_at_once(fleet, upstream):
    limits = {"per_client": {**KEYED, "rate": "5/d"}, "everyone": {"key": "global", "rate": "12/d"}}
    nodes = fleet.start(upstream.url, [route("everyone", "per_client")], limits)
    answers = spread(nodes, 60, "/", lambda i: key(f"client {i % 6}"))
    assert statuses(answers) == {200: 12, 429: 48}
    for client in range(6):
        assert statuses(answers[client::6])[200] <= 5
    for answer in answers:
        if answer.status == 429:
            assert set(json.loads(answer.body)["violated-policies"]) <= {"everyone", "per_client"}


def test_a_refused_client_is_named_all_limits_that_refuse_it(fleet, upstream):
    limits = {"per_client": {**KEYED, "rate": "1/m"}, "everyone": {"key": "global", "rate": "1/d"}}
    nodes = fleet.start(upstream.url, [route("everyone", "per_client")], limits)
    assert nodes[0].get("/", key("a")).status == 200
    problem = json.loads(nodes[1].get("/", key("a")).body)
    assert problem["violated-policies"] == ["everyone", "per_client"]
    assert problem["limit"] == "everyone"  # the one with the longest wait
    problem = json.loads(nodes[1].get("/", key("b")).body)
    assert problem["violated-policies"] == ["everyone"]


# ---- what is said ----


def test_a_refusal_byte_for_byte(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], {"per_client": {**KEYED, "rate": "1/d"}})
    assert nodes[0].get("/", key("a")).status == 200
    with nodes[1].connect() as client:
        answer = client.ask("GET", "/", key("a"))
        wait_ms = int(re.search(rb'"retry_after_ms":(\d+)}\n$', answer.body)[1])
        assert answer.body == (
            b'{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,'
            b'"detail":"Too many requests for the limit per_client.","code":"rate_limit_exceeded","limit":"per_client",'
            b'"violated-policies":["per_client"],"retry_after_ms":%d}\n' % wait_ms)
        assert answer.first_line == "HTTP/1.1 429 Too Many Requests"
        assert answer["content-type"] == "application/problem+json"
        assert answer["cache-control"] == "no-store"
        assert answer["retry-after"] == str(math.ceil(wait_ms / 1000))
        assert answer["proxy-status"].startswith("weir; error=")
        assert answer["content-length"] == str(len(answer.body))
        assert 0 < wait_ms <= 2 * 86400 * 1000
        assert client.ask("GET", "/", key("b")).status == 200, "the connection goes on"


def test_a_cost_above_the_limit_is_told_never_to_come_back(fleet, upstream):
    limits = {"dear": {**KEYED, "rate": "5/m", "cost": 6}}
    try:
        nodes = fleet.start(upstream.url, [route("dear")], limits)
    except AssertionError as refused:  # a fixed cost above the limit may be refused where it is written
        assert "cost" in str(refused)
        return
    answer = nodes[0].get("/", key("a"))
    assert answer.status == 400
    assert json.loads(answer.body)["code"] == "cost_exceeds_limit"
    assert "retry-after" not in answer


def test_the_fields_of_both_dialects(fleet, upstream):
    limits = {"per_client": KEYED, "everyone": {"key": "global", "rate": "1000/h"}}
    nodes = fleet.start(upstream.url, [route("everyone", "per_client")], limits, headers={"ratelimit": ["draft-11", "plain"]})
    answer = nodes[0].get("/", key("a"))
    assert answer["ratelimit-policy"] == '"everyone";q=1000;w=3600, "per_client";q=20;w=60'
    every_s, client_s = map(int, re.fullmatch(r'"everyone";r=999;t=(\d+), "per_client";r=19;t=(\d+)', answer["ratelimit"]).groups())
    assert 1 <= every_s <= 3600 and 1 <= client_s <= 60
    assert (answer["ratelimit-limit"], answer["ratelimit-remaining"], answer["ratelimit-reset"]) == ("20", "19", str(client_s))
    assert "x-ratelimit-limit" not in answer


@pytest.mark.parametrize("dialects,there,not_there", [
    (["draft-11"], ["ratelimit-policy", "ratelimit"], ["ratelimit-limit", "x-ratelimit-limit"]),
    (["plain"], ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"], ["ratelimit", "x-ratelimit-limit"]),
    (["x"], ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"], ["ratelimit", "ratelimit-limit"]),
    ([], [], ["ratelimit-policy", "ratelimit", "ratelimit-limit", "x-ratelimit-limit"]),
], ids=["draft-11", "plain", "x", "none"])
def test_only_the_dialects_that_were_chosen_are_spoken(memory_fleet, upstream, dialects, there, not_there):
    node = memory_fleet.start(upstream.url, [route("per_client")], {"per_client": {**KEYED, "rate": "1/m"}},
                              headers={"ratelimit": dialects})[0]
    for status in (200, 429):
        answer = node.get("/", key("a"))
        assert answer.status == status
        assert all(name in answer for name in there), answer
        assert not any(name in answer for name in not_there), answer


def test_the_upstreams_own_refusal_passes_and_is_not_kept(fleet, upstream):
    routes = [{"match": "/**", "cache": {"ttl": "1h", "statuses": [200, 404]}}]
    nodes = fleet.start(upstream.url, routes)
    bodies = {nodes[i % len(nodes)].get("/status/429").body for i in range(3)}
    assert len(bodies) == 3


# ---- who is counted ----


def missing(how):
    return {"per_client": {**KEYED, "rate": "2/d", "missing": how}}


BEHIND = {"trusted_proxies": ["127.0.0.0/8"]}


def came_from(address):
    return {"X-Forwarded-For": address}


def test_without_the_key_the_address_is_counted(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], missing("ip"), **BEHIND)
    for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
        assert statuses(spread(nodes, 6, "/", lambda i: came_from(address))) == {200: 2, 429: 4}
    assert nodes[0].get("/", came_from("2001:db8::ffff")).status == 429, "one subscriber has a whole /64"
    assert nodes[0].get("/", came_from("2001:db8:0:1::1")).status == 200
    assert nodes[0].get("/", came_from("::ffff:192.0.2.1")).status == 429, "one address in two spellings"
    assert nodes[0].get("/", {**came_from("192.0.2.1"), **key("a")}).status == 200


def test_an_untrusted_peer_cannot_choose_its_address(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], missing("ip"))
    assert statuses(spread(nodes, 6, "/", lambda i: came_from(f"192.0.2.{i}"))) == {200: 2, 429: 4}


def test_without_the_key_all_may_share_one_budget(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], missing("shared"), **BEHIND)
    assert statuses(spread(nodes, 8, "/", lambda i: came_from(f"192.0.2.{i}"))) == {200: 2, 429: 6}
    assert nodes[0].get("/", key("a")).status == 200


def test_without_the_key_a_request_may_be_refused(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], missing("reject"))
    for fields in ((), {"X-Api-Key": ""}):
        answer = nodes[0].get("/", fields)
        assert answer.status == 401
        problem = json.loads(answer.body)
        assert (problem["code"], problem["limit"], problem["status"]) == ("key_required", "per_client", 401)
        assert answer["content-type"] == "application/problem+json"
        assert "retry-after" not in answer
    assert nodes[1].get("/", key("a")).status == 200
    assert upstream.calls("GET /healthz") == 1


def test_without_the_key_a_request_may_go_uncounted(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], missing("skip"))
    assert statuses(spread(nodes, 10, "/")) == {200: 10}
    assert statuses(spread(nodes, 6, "/", lambda i: key("a"))) == {200: 2, 429: 4}


def test_the_name_of_the_key_is_read_in_any_case_and_its_value_is_not(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("per_client")], missing("reject"))
    assert nodes[0].get("/", {"x-api-KEY": "a"}).status == 200
    assert nodes[1].get("/", {"X-API-Key": "a"}).status == 200
    assert nodes[0].get("/", {"x-api-key": "a"}).status == 429
    assert nodes[0].get("/", {"x-api-key": "A"}).status == 200


# ---- limits and the cache ----


def test_hits_are_counted_too_and_a_refusal_is_not_the_cached_answer(fleet, upstream):
    nodes = fleet.start(upstream.url, [{"match": "/**", "limits": ["per_client"], "cache": {"ttl": "1h"}}],
                        {"per_client": {**KEYED, "rate": "5/d"}})
    answers = [nodes[i % len(nodes)].get("/slow/1", key("a")) for i in range(8)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 3
    other = nodes[0].get("/slow/1", key("b"))
    assert (other.status, other.body) == (200, answers[0].body)
    assert upstream.calls("GET /slow/1") == 1
