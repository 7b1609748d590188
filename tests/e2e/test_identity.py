"""Identity: whose budget does a request take from? Each limit here is 2 in 30 days, so that no border of a window lies within a test."""

import hashlib
import json
import socket

import pytest

from weir import Node
from wire import Connection

RATE = "2/30d"


def start(fleet, quick_upstream, limits, match="/**", **more):
    """Nodes whose one route has all these limits."""
    routes = [{"match": match, "rewrite": "/healthz", "limits": list(limits)}]
    return fleet.start(quick_upstream.url, routes, {name: {"rate": RATE, **limit} for name, limit in limits.items()}, **more)


def statuses(nodes, asks):
    """What requests get that are sent one after another, over the nodes in turn: (target, fields) or (target, fields, host)."""
    return [nodes[i % len(nodes)].ask("GET", ask[0], ask[1], host=(ask[2:] or ["api.test"])[0]).status for i, ask in enumerate(asks)]


def principal(kind, value):
    return hashlib.sha256(kind.encode() + b"\0" + value.encode()).hexdigest()[:32]


# the spellings of one caller, which has two requests in all, and another caller
CALLERS = {
    "header": ("header:X-Api-Key", [("/", {"X-API-KEY": "Key"}), ("/", {"x-api-key": "Key"}), ("/", [("x-api-key", "Key"), ("x-api-key", "")])],
               ("/", {"x-api-key": "key"})),
    "header lines": ("header:x-api-key", [("/", [("x-api-key", "a, b"), ("x-api-key", "a, b")]), ("/", {"x-api-key": "a, b"}),
                                          ("/", {"x-api-key": "a, b"})], ("/", {"x-api-key": "a"})),
    "query": ("query:key", [("/?key=a/b", {}), ("/?x=1&k%65y=%61%2fb", {}), ("/?key=a%2Fb&key=", {})], ("/?key=a+b", {})),
    "cookie": ("cookie:sid", [("/", {"Cookie": "sid=abc"}), ("/", {"Cookie": 'x=1; sid="abc"'}), ("/", [("Cookie", "x=1"), ("Cookie", "sid=abc")])],
               ("/", {"Cookie": "sid=ABC"})),
    "path": ("path:id", [("/items/a:b", {}), ("/items/%61%3ab", {}), ("/items/a%3Ab?x=1", {})], ("/items/ab", {})),
    "host": ("host", [("/", {}, "api.test"), ("/", {}, "API.test:8080"), ("/", {}, "api.test.")], ("/", {}, "other.test")),
    "list": (["header:x-api-key", "query:q"], [("/?q=1", {"x-api-key": "a"}), ("/?q=%31", {"X-Api-Key": "a"}), ("/?q=1&z=2", {"x-api-key": "a"})],
             ("/?q=2", {"x-api-key": "a"})),
}


@pytest.mark.parametrize("form", CALLERS)
def test_one_caller_is_one_however_it_is_spelled(fleet, quick_upstream, form):
    key, spellings, other = CALLERS[form]
    nodes = start(fleet, quick_upstream, {"mine": {"key": key, "missing": "reject"}}, "/items/{id}" if form == "path" else "/**")
    assert statuses(nodes, spellings) == [200, 200, 429]
    assert statuses(nodes, [other]) == [200]


def test_routes_have_budgets_of_their_own(fleet, quick_upstream):
    nodes = fleet.start(quick_upstream.url, [
        {"match": "GET /a/{id}", "rewrite": "/healthz", "limits": ["each"]},
        {"match": "GET /b/{id}", "rewrite": "/healthz", "limits": ["each"]},
        {"match": "GET /b/{id}/c", "rewrite": "/healthz", "limits": ["each"], "host": "api.test"},
        {"match": "GET /b/{id}/c", "rewrite": "/healthz", "limits": ["each"]},
    ], {"each": {"key": "route", "rate": RATE}})
    assert statuses(nodes, [("/a/1", {}), ("/a/2", {}), ("/a/3", {})]) == [200, 200, 429]
    assert statuses(nodes, [("/b/1", {}), ("/b/2", {}), ("/b/3", {})]) == [200, 200, 429]
    assert statuses(nodes, [("/b/1/c", {}), ("/b/2/c", {}), ("/b/3/c", {})]) == [200, 200, 429]
    assert statuses(nodes, [("/b/1/c", {}, "other.test"), ("/b/2/c", {}, "other.test"), ("/b/3/c", {}, "x.test")]) == [200, 200, 429]


LACKING = [("/items/x", {}), ("/items/x?q=", {"x-api-key": "a"}), ("/items/x?q=1", {}), ("/items/x?q=1", {"x-api-key": ""})]


@pytest.mark.parametrize("missing, expected", [
    ("ip", [200, 200, 429, 429]),
    ("shared", [200, 200, 429, 429]),
    ("reject", [401, 401, 401, 401]),
    ("skip", [200, 200, 200, 200]),
])
def test_a_list_that_lacks_a_part_is_missing(fleet, quick_upstream, missing, expected):
    limits = {"pair": {"key": ["header:x-api-key", "query:q", "path:id"], "missing": missing}}
    nodes = start(fleet, quick_upstream, limits, "/items/{id}")
    assert statuses(nodes, LACKING) == expected
    whole = ("/items/x?q=1", {"x-api-key": "a"})
    assert statuses(nodes, [whole] * 3) == [200, 200, 429]
    if missing == "reject":
        answer = nodes[0].get(*LACKING[0])
        problem = json.loads(answer.body)
        assert (problem["code"], problem["limit"], "retry-after" in answer) == ("key_required", "pair", False)


def test_no_value_passes_for_the_border_of_two(fleet, quick_upstream):
    nodes = start(fleet, quick_upstream, {"pair": {"key": ["query:a", "query:b"]}})
    for a, b in (("1", "1:1"), ("1:1", "1"), ("11", ":1"), ("", "11:1")):
        assert statuses(nodes, [(f"/?a={a}&b={b}", {})] * 3) == [200, 200, 429], (a, b)


def test_a_value_longer_than_most_is_counted_whole(fleet, quick_upstream):
    nodes = start(fleet, quick_upstream, {"mine": {"key": "header:x-api-key"}})
    long = "k" * 20000
    assert statuses(nodes, [("/", {"x-api-key": long + "a"})] * 3) == [200, 200, 429]
    assert statuses(nodes, [("/", {"x-api-key": long + "b"})]) == [200]


def test_the_name_of_a_header_may_be_as_long_as_one_can_be(fleet, quick_upstream):
    name = "x-" + "n" * 126
    nodes = start(fleet, quick_upstream, {"mine": {"key": f"header:{name}"}})
    assert statuses(nodes, [("/", {name: "a"})] * 3) == [200, 200, 429]


def test_principals_are_computed_by_the_documented_formula(redis_fleet, quick_upstream):
    keys = {
        "header": "header:X-Api-Key", "query": "query:api_key", "cookie": "cookie:session", "path": "path:id", "ip": "ip", "host": "host",
        "route": "route", "global": "global", "list": ["header:x-api-key", "path:id"],
        "fallback": "header:x-none", "shared": {"key": ["header:x-none", "ip"], "missing": "shared"},
    }
    limits = {name: key if isinstance(key, dict) else {"key": key} for name, key in keys.items()}
    expected = {
        "header": principal("header:x-api-key", "geheim"), "query": principal("query:api_key", "ä b"), "cookie": principal("cookie:session", "s1"),
        "path": principal("path:id", "4/2"), "ip": principal("ip", "127.0.0.1"), "host": principal("host", "api.test"),
        "route": principal("route", "GET /items/{id}"), "global": principal("global", ""),
        "list": principal("header:x-api-key,path:id", "6:geheim3:4/2"), "fallback": principal("ip", "127.0.0.1"),
        "shared": principal("header:x-none,ip", ""),
    }
    nodes = start(redis_fleet, quick_upstream, limits, "GET /items/{id}", count=1)
    ask = ("/items/4%2F2?api_key=%C3%A4%20b", {"X-Api-Key": "geheim", "Cookie": "session=s1"}, "api.test:8080")
    assert statuses(nodes, [ask]) == [200]
    kept = {key.decode() for key in redis_fleet.redis.keys() if key.startswith(b"weir:l:")}
    assert kept == {f"weir:l:{{{digest}}}:{name}" for name, digest in expected.items()}
    dump = redis_fleet.redis.dump()
    for secret in (b"geheim", b"s1", b"127.0.0.1"):
        assert secret not in dump


# ---- addresses ----


class DualNode(Node):
    """A node that also listens on ::1."""

    def write(self, configuration):
        super().write({**configuration, "listen": [f"127.0.0.1:{self.port}", f"[::1]:{self.port}"]})


@pytest.fixture
def node(quick_upstream, tmp_path):
    limits = {
        "address": {"key": "ip", "rate": RATE},
        "narrow": {"key": "ip", "rate": RATE, "ipv6_prefix": 128},
        "wide": {"key": "ip", "rate": RATE, "ipv6_prefix": 48},
    }
    node = DualNode(tmp_path, "node", {
        "workers": 2, "upstreams": {"api": {"servers": [quick_upstream.url]}}, "limits": limits,
        "trusted_proxies": ["127.0.0.1", "::1", "10.0.0.0/8", "fd00::/8"],
        "routes": [{"match": f"/{name}", "upstream": "api", "rewrite": "/healthz", "limits": [name]} for name in limits],
    })
    try:
        yield node
        assert node.stop() == 0, node.stderr
    finally:
        node.close()


def ask_from(node, family, *fields, target="/address"):
    """One request over a connection of that family."""
    with Connection(node.port) as connection:
        if family == socket.AF_INET6:
            connection.sock.close()
            connection.sock = socket.create_connection(("::1", node.port), 60)
            connection.reader.sock = connection.sock
        return connection.ask("GET", target, list(fields)).status


def xff(*values):
    return [("X-Forwarded-For", value) for value in values]


def forwarded(*values):
    return [("Forwarded", value) for value in values]


# three ways to say one address each, and one that is another
ADDRESSES = {
    "ipv4": ([xff("198.51.100.1"), xff("198.51.100.1:4711"), forwarded('for="198.51.100.1:80"')], xff("198.51.100.2")),
    "mapped": ([xff("::ffff:198.51.100.1"), xff("198.51.100.1"), xff("[::FFFF:c633:6401]:80")], xff("::ffff:198.51.100.2")),
    "64 of ipv6": ([xff("2001:db8:1:2::1"), xff("[2001:0DB8:1:2:ffff::9]:443"), forwarded('for="[2001:db8:1:2:a:b:c:d]"')], xff("2001:db8:1:3::1")),
    "from the right": ([xff("1.1.1.1, 198.51.100.1"), xff("2.2.2.2, 198.51.100.1, 10.1.1.1"), xff("3.3.3.3", "198.51.100.1", "10.1.1.1, fd00::1")],
                       xff("198.51.100.1, 198.51.100.2")),
    "what is no address ends the walk": ([xff("1.1.1.1, unknown, 10.0.0.9"), xff("2.2.2.2, 010.1.1.1, 10.0.0.9"), forwarded("for=3.3.3.3, for=_hidden, for=10.0.0.9")],
                                         xff("198.51.100.2")),
    "the two are not mixed": ([xff("198.51.100.1") + forwarded("for=1.1.1.1"), xff("198.51.100.1") + forwarded("for=2.2.2.2"), xff("198.51.100.1")],
                              forwarded("for=198.51.100.2")),
    "forwarded": ([forwarded("for=198.51.100.1;proto=https;by=10.0.0.1"), forwarded('proto=http;For="198.51.100.1"', "for=10.2.2.2"),
                   forwarded('for="1.1.1.1, for=198.51.100.1')], forwarded("for=198.51.100.2")),
}


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["from_127.0.0.1", "from_::1"])
@pytest.mark.parametrize("case", ADDRESSES)
def test_the_address_behind_trusted_proxies(node, family, case):
    same, other = ADDRESSES[case]
    assert [ask_from(node, family, *fields) for fields in same] == [200, 200, 429]
    assert ask_from(node, family, *other) == 200


def test_a_hundred_addresses_of_one_network_are_one_client(node):
    got = [ask_from(node, socket.AF_INET6, *xff(f"2001:db8:1:2::{i:x}")) for i in range(1, 101)]
    assert got == [200] * 2 + [429] * 98


def test_the_prefix_is_the_limits_own(node):
    assert [ask_from(node, socket.AF_INET6, *xff("2001:db8:1:2::1"), target="/narrow") for _ in range(3)] == [200, 200, 429]
    assert ask_from(node, socket.AF_INET6, *xff("2001:db8:1:2::2"), target="/narrow") == 200
    assert [ask_from(node, socket.AF_INET6, *xff(f"2001:db8:1:{i}::1"), target="/wide") for i in range(3)] == [200, 200, 429]
    assert ask_from(node, socket.AF_INET6, *xff("2001:db8:2::1"), target="/wide") == 200
    # an IPv4 address is whole in each
    assert [ask_from(node, socket.AF_INET6, *xff(f"198.51.100.{i}"), target="/wide") for i in range(3)] == [200] * 3


def test_without_forwarding_fields_the_peers_count_apart(node):
    assert [ask_from(node, socket.AF_INET) for _ in range(3)] == [200, 200, 429]
    assert [ask_from(node, socket.AF_INET6) for _ in range(3)] == [200, 200, 429]
    # a trusted proxy alone on the way, or nothing but empty elements, is the proxy itself
    assert ask_from(node, socket.AF_INET, *xff(" , ")) == 429


def test_a_direct_client_may_say_what_it_likes(quick_upstream, tmp_path):
    node = DualNode(tmp_path, "node", {
        "upstreams": {"api": {"servers": [quick_upstream.url]}}, "limits": {"address": {"key": "ip", "rate": RATE}}, "trusted_proxies": ["10.0.0.0/8"],
        "routes": [{"match": "/address", "upstream": "api", "rewrite": "/healthz", "limits": ["address"]}],
    })
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            claims = [xff("1.1.1.1"), xff("10.0.0.1, 2.2.2.2"), forwarded("for=3.3.3.3"), xff("2001:db8::1", "10.0.0.1")]
            assert [ask_from(node, family, *claim) for claim in claims] == [200, 200, 429, 429]
        assert node.stop() == 0
    finally:
        node.close()
