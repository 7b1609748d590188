"""Cost: how much does a request take, and what may it say of that? Limits are by 30 days, so that no border of a window lies in a test."""

import json

import pytest

from weir import together

LIMITS = {
    "header": {"cost": {"header": "X-Cost", "default": 2, "max": 50}},
    "query": {"cost": {"query": "units", "max": 5}},
    "json": {"cost": {"json": "/documentIds", "default": 3, "max": 100, "max_body": "1KiB"}},
    "whole": {"cost": {"json": "", "max": 100}},
    "small": {"rate": "10/30d", "cost": {"header": "x-cost"}},
    "plain": {"cost": 1},
    "shared": {"cost": {"header": "x-cost", "default": 2}},
}
ROUTES = [{"match": f"/{name}", "rewrite": "/echo", "limits": [name]} for name in LIMITS] + [
    {"match": "/both", "rewrite": "/echo", "limits": ["plain", "json", "small"]},
    {"match": "/shared/one", "rewrite": "/echo", "limits": ["shared"]},
    {"match": "/shared/five", "rewrite": "/echo", "limits": [{"limit": "shared", "cost": 5}]},
    {"match": "/shared/said", "rewrite": "/echo", "limits": [{"limit": "shared", "cost": {"query": "units", "default": 7, "max": 9}}]},
]


@pytest.fixture
def nodes(fleet, quick_upstream):
    limits = {name: {"key": "header:x-api-key", "rate": "1000/30d", **limit} for name, limit in LIMITS.items()}
    return fleet.start(quick_upstream.url, ROUTES, limits)


@pytest.fixture
def spent(nodes):
    """Asks once; the units that this took of a limit of 1000, by what the answer says is left of them."""
    left = {}

    def ask(target, fields=(), body=None, method="POST"):
        name = target.split("?")[0]
        answer = nodes[len(left) % 2].ask(method, target, [("x-api-key", "k"), *dict(fields).items()], body)
        assert answer.status == 200, answer
        before, left[name] = left.get(name, 1000), int(answer["ratelimit-remaining"])
        return before - left[name]

    return ask


def refusal(nodes, target, fields=(), body=None, status=400):
    """What an answer that refuses the request says."""
    answer = nodes[0].ask("POST", target, [("x-api-key", "k"), *list(fields)], body)
    assert answer.status == status, answer
    assert answer["content-type"] == "application/problem+json" and answer["cache-control"] == "no-store"
    assert "retry-after" not in answer and "ratelimit" not in answer
    return json.loads(answer.body)


def test_a_header_says_the_cost(nodes, spent):
    assert spent("/header", {"X-COST": "7"}) == 7
    assert spent("/header", {"x-cost": "50"}) == 50
    assert spent("/header") == 2
    assert spent("/header", {"x-cost": ""}) == 2
    for value in ("0", "-1", "51", "1.5", "1.0", "1e1", "+3", "0x5", "five", "1, 1", "99999999999999999999999"):
        problem = refusal(nodes, "/header", [("x-cost", value)])
        assert (problem["code"], problem["limit"], problem["violated-policies"]) == ("bad_cost", "header", ["header"]), value
        assert problem["detail"] == "The cost in the header x-cost must be a whole number from 1 to 50, for the limit header."
    refusal(nodes, "/header", [("x-cost", "1"), ("x-cost", "2")])
    assert spent("/header", {"x-cost": "1"}) == 1, "what is refused costs nothing"


def test_a_parameter_says_the_cost(nodes, spent):
    assert spent("/query?units=4", method="GET") == 4
    assert spent("/query?x=9&%75nits=%34", method="GET") == 4
    assert spent("/query", method="GET") == 1
    assert spent("/query?units=", method="GET") == 1
    for query in ("units=6", "units=0", "units=1&units=2", "units=-1", "units=+1"):
        problem = refusal(nodes, f"/query?{query}")
        assert problem["detail"] == "The cost in the parameter units must be a whole number from 1 to 5, for the limit query.", query


def body(value):
    return json.dumps({"documentIds": value, "other": {"documentIds": [1]}}).encode()


def test_a_body_says_the_cost(nodes, spent):
    assert spent("/json", body=body(["a", "b", "c", "d"])) == 4
    assert spent("/json", body=body(17)) == 17
    assert spent("/json", body=b'{"documentIds":[[],{"x":[1,2]}]}') == 2
    assert spent("/json", body=b'{"document\\u0049ds":5}') == 5, "a name has one text, however it is escaped"
    assert spent("/json", body=b'{"ids":[1]}') == 3
    assert spent("/json", body=b"") == 3
    assert spent("/json", method="GET") == 3
    assert spent("/json", {"Content-Type": "text/plain"}, body(9)) == 9, "the type that a client claims changes nothing"
    assert spent("/json", {"Transfer-Encoding": "chunked"}, b"13\r\n{\"documentIds\":[1,2\r\n2\r\n]}\r\n0\r\n\r\n") == 2
    assert spent("/whole", body=b"[1,2,3]") == 3
    for value in (0, -4, 101, 2.5, 1e300, "5", True, None, {}, [], {"a": 1}, list(range(101)), 1 << 70):
        problem = refusal(nodes, "/json", body=body(value))
        assert problem["code"] == "bad_cost" and problem["title"] == "Bad Request", value
        assert problem["detail"] == ('The cost in the body at "/documentIds" must be a whole number from 1 to 100 or an array of so many items, '
                                     "for the limit json."), value


UNREADABLE = [
    b"{", b'{"documentIds":[1]', b'{"documentIds":[1]}}', b"{'documentIds':[1]}", b'{"documentIds":[1],}', b"documentIds=1", b"\x1f\x8b\x08\x00",
    b'{"documentIds":[1]} // x', b"\xef\xbb\xbf" + body([1]), b'{"documentIds":NaN}', b'{"documentIds":"\xff"}', b"[" * 1000, b"[" * 40 + b"]" * 40,
    b'{"documentIds":[1],"documentIds":[1,2,3,4]}', b'{"documentIds":[1],"documentId\\u0073":[1,2,3,4]}', b'{"documentIds":[1]}\0',
    b'{"x":{"a":1,"a":1},"documentIds":[1]}', '{"documentIds":[1]}'.encode("utf-16"), b" ",
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read_gets_past_no_charge(nodes, quick_upstream, text):
    before = quick_upstream.calls("POST /echo")
    problem = refusal(nodes, "/json", body=text)
    assert problem["code"] == "bad_cost" and problem["detail"].startswith("The body must be JSON of at most 32 levels"), problem
    assert quick_upstream.calls("POST /echo") == before


def test_a_body_above_max_body_is_not_read(nodes, spent):
    at_most = body([1]) + b" " * (1024 - len(body([1])))
    assert spent("/json", body=at_most) == 1
    for text in (at_most + b" ", b"{" * 1025):
        problem = refusal(nodes, "/json", body=text, status=413)
        assert (problem["code"], problem["limit"], problem["title"]) == ("body_too_large", "json", "Content Too Large")
        assert problem["detail"] == "The body is larger than the 1024 bytes in which a cost is looked for, for the limit json."


def test_a_cost_above_the_limit_can_never_pass(nodes):
    problem = refusal_with_fields(nodes, "/small", [("x-cost", "11")])
    assert problem["code"] == "cost_exceeds_limit" and "retry_after_ms" not in problem
    assert nodes[0].ask("POST", "/small", [("x-api-key", "k"), ("x-cost", "10")]).status == 200, "and has cost nothing"
    assert nodes[1].ask("POST", "/small", [("x-api-key", "k"), ("x-cost", "1")]).status == 429


def refusal_with_fields(nodes, target, fields):
    answer = nodes[0].ask("POST", target, [("x-api-key", "k"), *fields])
    assert answer.status == 400 and "retry-after" not in answer
    return json.loads(answer.body)


def test_one_bad_cost_charges_no_limit(nodes, spent):
    for fields, text in (([("x-cost", "0")], body([1])), ([], b"{")):
        refusal(nodes, "/both", fields, text)
    assert spent("/plain") == 1


def test_three_at_a_balance_of_two_and_of_three(nodes):
    """Cost 3 does not pass at a balance of 2, and does at 3, leaving nothing."""
    ask = lambda node, cost: node.ask("POST", "/small", [("x-api-key", "k"), ("x-cost", str(cost))])  # noqa: E731
    assert [ask(nodes[i % 2], cost).status for i, cost in enumerate([5, 3, 3, 2, 1])] == [200, 200, 429, 200, 429]


def test_two_at_once_for_three_of_five(nodes):
    for round_number in range(10):
        key = f"round{round_number}"
        first = nodes[0].ask("POST", "/small", [("x-api-key", key), ("x-cost", "5")])
        assert first["ratelimit-remaining"] == "5"
        answers = together([lambda node=node: node.ask("POST", "/small", [("x-api-key", key), ("x-cost", "3")]) for node in nodes[:2]])
        assert sorted(answer.status for answer in answers) == [200, 429]


def test_a_route_says_its_own_cost_of_a_budget_that_it_shares(nodes):
    left = 1000

    def take(target, units, fields=()):
        nonlocal left
        left -= units
        answer = nodes[units % 2].ask("POST", target, [("x-api-key", "k"), *fields])
        assert (answer.status, answer["ratelimit-remaining"]) == (200, str(left)), target

    take("/shared/one", 2)
    take("/shared/five", 5)
    take("/shared/five", 5, [("x-cost", "50")])  # what the limit asks for elsewhere says nothing here
    take("/shared/said", 7)
    take("/shared/said?units=9", 9)
    take("/shared/one", 50, [("x-cost", "50")])
    problem = refusal(nodes, "/shared/said?units=10")
    assert (problem["code"], problem["limit"]) == ("bad_cost", "shared")
    take("/shared/one", 2)


def test_many_at_once_at_different_prices_never_take_more_than_there_is(nodes):
    """Of a budget of 1000, two nodes, half of the requests at 5 and half at 9 units."""
    answers = together([lambda at=at: nodes[at % 2].ask("POST", ("/shared/five", "/shared/said?units=9")[at // 2 % 2], [("x-api-key", "herd")])
                        for at in range(40)])
    assert [answer.status for answer in answers] == [200] * 40
    last = nodes[0].ask("POST", "/shared/five", [("x-api-key", "herd")])
    assert last["ratelimit-remaining"] == str(1000 - 20 * 5 - 20 * 9 - 5)
