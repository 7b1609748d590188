"""What the contract of limits says in one sentence each, where no other file holds it: many limits at once, and what is never given back.

Limits are by 30 days, so that no border of a window lies in a test.
"""

import json
import re

import pytest

from weir import wait_until

KEY = [("x-api-key", "k")]


def member_of(text):
    """One member of a list of RFC 9651 that is a string with integer parameters: (name, {parameter: number}, rest)."""
    name = re.match(r'"((?:[ !#-\[\]-~]|\\["\\])*)"', text)
    assert name, text
    rest, numbers = text[name.end():], {}
    while parameter := re.match(r"; *([a-z*][a-z0-9_.*-]*)=(-?[0-9]{1,15})(?![0-9.])", rest):
        numbers[parameter[1]] = int(parameter[2])
        rest = rest[parameter.end():]
    return name[1], numbers, rest


def list_of(field):
    """The members of such a list, in order, strictly."""
    members, rest = [], field
    while True:
        name, numbers, rest = member_of(rest)
        members.append((name, numbers))
        if not rest:
            return members
        assert re.match(r"[ \t]*,[ \t]*", rest), rest
        rest = re.sub(r"^[ \t]*,[ \t]*", "", rest)


LONGEST = [f"limit-{at:02}-{'n' * 55}" for at in range(16)]


def test_as_many_limits_as_a_route_may_have_are_all_told_however_long_their_names(fleet, upstream):
    assert {len(name) for name in LONGEST} == {64}
    limits = {name: {"key": "header:x-api-key", "algorithm": "fixed_window", "rate": f"{9007199254740992 - at}/month"} for at, name in enumerate(LONGEST)}
    limits[LONGEST[9]] = {"key": "header:x-api-key", "rate": "3/30d"}
    nodes = fleet.start(upstream.url, [{"match": "/**", "rewrite": "/healthz", "limits": LONGEST}], limits,
                        headers={"ratelimit": ["draft-11", "plain", "x"]})
    for status in (200, 200, 200, 429):
        answer = nodes[status % 2].get("/", KEY)
        assert answer.status == status
        policies, standings = list_of(answer["ratelimit-policy"]), list_of(answer["ratelimit"])
        assert [name for name, _ in policies] == [name for name, _ in standings] == LONGEST
        assert all(set(numbers) == {"q", "w"} for _, numbers in policies) and all(set(numbers) == {"r", "t"} for _, numbers in standings)
        assert answer["ratelimit-limit"] == answer["x-ratelimit-limit"] == "3", "the one that is nearest to its end"
    problem = json.loads(answer.body)
    assert problem["violated-policies"] == [LONGEST[9]] and problem["limit"] == LONGEST[9]


def test_all_of_the_longest_limits_can_be_named_as_violated(fleet, upstream):
    limits = {name: {"key": "header:x-api-key", "rate": "1/30d"} for name in LONGEST}
    nodes = fleet.start(upstream.url, [{"match": "/**", "rewrite": "/healthz", "limits": LONGEST}], limits)
    assert nodes[0].get("/", KEY).status == 200
    answer = nodes[1].get("/", KEY)
    assert answer.status == 429 and json.loads(answer.body)["violated-policies"] == LONGEST


def test_nothing_is_given_back_whatever_becomes_of_the_request(fleet, scripted):
    """The upstream fails, breaks off, is silent; the client leaves: the work was asked for."""

    def answer(talk, request):
        if request.target == "/error":
            talk.answer(500)
        elif request.target == "/reset":
            talk.reset()
        elif request.target == "/short":
            talk.answer(200, body=b"x" * 10, length=100)
            talk.reset()
        elif request.target in ("/silent", "/left"):
            talk.wait_closed()
        else:
            talk.answer(200)

    upstream = scripted(answer, each=True)
    algorithms = {name: {"key": "header:x-api-key", "algorithm": name, "rate": "100/30d"} for name in ("sliding_window", "sliding_log", "token_bucket")}
    nodes = fleet.start({"servers": [upstream.url], "first_byte_timeout": "300ms", "retries": 1},
                        [{"match": "/**", "limits": list(algorithms)}], algorithms, headers={"ratelimit": ["draft-11"]})
    spent = 0
    for target, status in (("/error", 500), ("/reset", 502), ("/silent", 504)):
        assert nodes[spent % 2].get(target, KEY).status == status
        spent += 1
    with nodes[0].connect() as client:
        client.send(b"GET /short HTTP/1.1\r\nHost: api.test\r\nx-api-key: k\r\n\r\n")
        client.rest()
    spent += 1
    before = len(upstream.requests)
    with nodes[1].connect() as client:
        client.send(b"GET /left HTTP/1.1\r\nHost: api.test\r\nx-api-key: k\r\n\r\n")
        upstream.wait_requests(before + 1)
    spent += 1
    answer = nodes[0].get("/ok", KEY)
    assert {numbers["r"] for _, numbers in list_of(answer["ratelimit"])} == {100 - spent - 1}


@pytest.mark.parametrize("value", ["", " ", "\t "])
def test_a_key_is_never_empty(fleet, upstream, value):
    limits = {"must": {"key": "header:x-api-key", "rate": "5/30d", "missing": "reject"}}
    nodes = fleet.start(upstream.url, [{"match": "/**", "rewrite": "/healthz", "limits": ["must"]}], limits)
    assert nodes[0].get("/", [("x-api-key", value)]).status == 401
    assert nodes[1].get("/", [("x-api-key", "a"), ("x-api-key", value)]).status == 200
    assert nodes[1].get("/", [("x-api-key", "a"), ("x-api-key", "b")]).status == 400


def test_every_refusal_of_ours_says_so_to_proxies(redis_fleet, upstream):
    limits = {"rate": {"key": "header:x-api-key", "rate": "1/30d"}, "closed": {"key": "global", "rate": "1000/30d", "on_store_failure": "closed"}}
    routes = [{"match": "/rate", "rewrite": "/healthz", "limits": ["rate"]}, {"match": "/closed", "rewrite": "/healthz", "limits": ["closed"]}]
    node = redis_fleet.start(upstream.url, routes, limits, count=1)[0]
    assert node.get("/rate", KEY).status == 200
    refused = node.get("/rate", KEY)
    assert (refused.status, refused["proxy-status"]) == (429, "weir; error=http_request_denied")
    redis_fleet.redis.kill()
    wait_until(lambda: node.metric("weir_store_up") == 0, "the node has seen that Redis is gone")
    away = node.get("/closed", KEY)
    problem = json.loads(away.body)
    assert (away.status, problem["code"], away["retry-after"], away["proxy-status"]) == (503, "limiter_unavailable", "1", "weir; error=proxy_internal_error")
    assert problem["type"].endswith("#temporary-reduced-capacity") and problem["violated-policies"] == ["closed"]


def test_however_many_limits_a_route_has_a_request_asks_the_store_once(redis_fleet, upstream):
    algorithms = ("sliding_window", "sliding_log", "token_bucket", "fixed_window")
    limits = {f"limit{at}": {"key": ("header:x-api-key", "global")[at % 2], "algorithm": algorithms[at % 4], "rate": "100/d"} for at in range(16)}
    node = redis_fleet.start(upstream.url, [{"match": "/**", "rewrite": "/healthz", "limits": list(limits)}], limits, count=1,
                             headers={"ratelimit": ["draft-11"]})[0]

    def scripts_run():
        lines = redis_fleet.redis.command("INFO", "commandstats").decode().splitlines()
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_evalsha:"))

    before = scripts_run()
    with node.connect() as client:
        for at in range(50):
            answer = client.ask("GET", "/", KEY)
            assert {numbers["r"] for _, numbers in list_of(answer["ratelimit"])} == {99 - at}
    assert 50 <= scripts_run() - before < 100, "one for each, and a heartbeat now and then"
