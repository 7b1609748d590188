"""What tells two requests apart: query, fields and cookies as the route says; and what ends all of them together?"""

import re

import pytest

from wire import HOST

KEPT = {"Cache-Control": "max-age=3600"}


class Site:
    """Nodes before an upstream whose every answer has a body of its own; `fields` are its answers' fields."""

    def __init__(self, fleet, scripted, key, **cache):
        self.fields, self.loads = KEPT, []
        self.upstream = scripted(self._answer, each=True)
        self.nodes = fleet.start(self.upstream.url, [{"match": "/**", "cache": {"key": key, **cache}}])

    def _answer(self, talk, request):
        self.loads.append(request)
        talk.answer(200, self.fields, f"{len(self.loads)}".encode())

    def get(self, target="/", fields=(), host=HOST):
        """The same from every node."""
        bodies = {node.ask("GET", target, fields, host=host).body for node in self.nodes}
        assert len(bodies) == 1, (target, fields)
        return bodies.pop()

    def are_one(self, *asked):
        return len({self.get(*each) for each in asked}) == 1

    def are_all_apart(self, *asked):
        return len({self.get(*each) for each in asked}) == len(asked)


@pytest.fixture
def site(fleet, scripted):
    return lambda key, **cache: Site(fleet, scripted, key, **cache)


def test_of_only_some_parameters_the_others_do_not_count(site):
    made = site({"query": {"only": ["id", "page"]}})
    assert made.are_one(("/p?id=1&page=2",), ("/p?page=2&id=1",), ("/p?utm=x&page=2&&id=1",))
    assert made.are_all_apart(("/p?id=1",), ("/p?id=2",), ("/p?id=1&id=2",), ("/p?id=2&id=1",), ("/p",), ("/p?id",), ("/p?id=",), ("/q?id=1",), ("/p?%69d=1",))
    assert made.loads[0].target == "/p?id=1&page=2", "the upstream is sent what the client sent"


def test_except_some_parameters_all_count(site):
    made = site({"query": {"except": ["utm_source", "a[b]"]}})
    assert made.are_one(("/p?x=1",), ("/p?x=1&utm_source=1",), ("/p?utm%5Fsource=2&x=1&a%5bb%5D=3",))
    assert made.are_one(("/p?x=1&y=2",), ("/p?y=2&utm_source=z&x=1",))
    assert made.are_one(("/p",), ("/p?",), ("/p?utm_source=1",))
    assert made.are_all_apart(("/p?x=1",), ("/p?x=1&UTM_SOURCE=1",), ("/p?x=1&x=2",), ("/p?x=2&x=1",), ("/p?x=1%26utm_source=2",))


def test_all_and_none(site):
    made = site({"query": "none"})
    assert made.are_one(("/p",), ("/p?x",), ("/p?x=1&y=2",))
    made = site({})
    assert made.are_all_apart(("/p",), ("/p?",), ("/p?a=1&b=2",), ("/p?b=2&a=1",), ("/get?name=hello",), ("/?getname=hello",))


def test_fields_tell_apart_absent_from_empty_and_take_lines_as_a_list(site):
    made = site({"headers": ["X-Tenant"]})
    assert made.are_all_apart(("/",), ("/", {"X-Tenant": ""}), ("/", {"X-Tenant": "a"}), ("/", {"X-Tenant": "A"}), ("/", {"X-Tenant": "a, b"}))
    assert made.are_one(("/", [("X-Tenant", "a"), ("X-Tenant", "b")]), ("/", {"x-tenant": "a, b"}))
    assert made.are_one(("/",), ("/", {"X-Other": "1"}))
    assert [each["x-tenant"] for each in made.loads] == [None, "", "a", "A", "a, b"]


def test_cookies_tell_apart(site):
    made = site({"cookies": ["theme", "lang"]})
    assert made.are_all_apart(("/",), ("/", {"Cookie": "theme="}), ("/", {"Cookie": "theme=dark"}), ("/", {"Cookie": "lang=dark"}))
    assert made.are_one(("/", {"Cookie": "theme=dark; lang=de; id=1"}), ("/", {"Cookie": "id=2; lang=de; theme=dark"}))
    assert made.are_one(("/",), ("/", {"Cookie": "id=1"}), ("/", {"Cookie": "Theme=dark"}))


@pytest.mark.parametrize("vary", ["X-Tenant", "x-tenant, X-More", "Accept-Language, X-Tenant"])
def test_a_field_of_the_key_may_stand_in_vary_too(site, vary):
    made = site({"headers": ["x-tenant"]})
    made.fields = {**KEPT, "Vary": vary}
    tenants = [("/", {"X-Tenant": name, "X-More": more, "Accept-Language": more}) for name in "ab" for more in ("en", "de")]
    bodies = [made.get(*each) for each in tenants]
    assert len(set(bodies)) == (2 if vary == "X-Tenant" else 4)
    assert [made.get(*each) for each in tenants] == bodies


@pytest.mark.parametrize("how", ["changes it", "names it"])
def test_what_changes_a_resource_ends_all_that_fields_and_cookies_tell_apart(site, how):
    made = site({"query": {"except": ["utm_source"]}, "headers": ["x-tenant"], "cookies": ["theme"]})
    asked = [("/p?x=1", {**tenant, **theme}) for tenant in ({}, {"X-Tenant": "a"}) for theme in ({}, {"Cookie": "theme=dark"})]
    before, other = [made.get(*each) for each in asked], made.get("/q?x=1")
    assert len(set(before)) == 4 and [made.get(*each) for each in asked] == before
    if how == "changes it":
        made.nodes[0].ask("POST", "/p?utm_source=7&x=1", {"X-Tenant": "c"}, b"")
    else:
        made.fields = {**KEPT, "Content-Location": "/p?x=1&utm_source=8"}
        made.nodes[0].ask("PUT", "/else", (), b"")
        made.fields = KEPT
    after = [made.get(*each) for each in asked]
    assert len(set(after)) == 4 and not set(after) & set(before)
    assert made.get("/q?x=1") == other, "another resource is left alone"


def test_a_host_has_one_spelling(site):
    made = site({})
    port = made.nodes[0].port
    assert made.are_one(*[("/", (), host) for host in ("a.test", "A.TEST", "a.test:80", "a.test.", "A.test.:80")])
    assert made.are_all_apart(*[("/", (), host) for host in ("a.test", f"a.test:{port}", "b.test", "aa.test")])
    before = made.get("/", (), "a.test")
    made.nodes[0].ask("POST", "/", (), b"", host="A.Test.:80")
    assert made.get("/", (), "a.test") != before, "and a change by one is a change by all"
    before = made.get("/there", (), "a.test")
    made.fields = {**KEPT, "Location": "http://A.test.:80/there"}
    made.nodes[0].ask("POST", "/here", (), b"", host="a.test")
    assert made.get("/there", (), "a.test") != before


def test_a_path_is_folded_only_where_it_stays_the_same_path(site):
    made = site({})
    assert made.are_one(("/%61/b",), ("/a/b",), ("/a/%62",))
    assert made.are_all_apart(("/a/b",), ("/a%2Fb",), ("/a%2fb",), ("/A/b",), ("/a/b/",), ("/a/b%3F",), ("/a/b?",))


def test_more_parameters_than_can_be_told_apart_go_past_the_cache(site):
    made = site({"query": {"except": ["utm_source"]}})
    target = "/p?" + "&".join(f"p{n}" for n in range(257))
    answers = [made.nodes[0].get(target) for _ in range(2)]
    assert [each["x-cache"] for each in answers] == ["BYPASS", "BYPASS"] and answers[0].body != answers[1].body


def test_another_rule_finds_nothing_of_the_one_before(fleet, scripted):
    """A reload: what `only: [a]` stored for ?a=1&b=2 is not ?a=1 once b counts."""
    loads = []

    def answer(talk, request):
        loads.append(request)
        talk.answer(200, KEPT, f"{len(loads)}".encode())

    def routes(key):
        return [{"match": "/**", "cache": {"key": key}}]

    upstream = scripted(answer, each=True)
    node = fleet.start(upstream.url, routes({"query": {"only": ["a"]}}), count=1)[0]
    assert node.get("/?a=1&b=2").body == node.get("/?a=1&b=3").body == b"1"
    for n, key in enumerate([{"query": {"only": ["a", "b"]}}, {}, {"query": {"except": ["b"]}}, {"headers": ["x-a"]}], start=2):
        assert node.reload(fleet.configuration(upstream.url, routes(key)))
        assert node.get("/?a=1").body == f"{n}".encode()


def test_who_wants_to_see_the_key_is_told_it(fleet, scripted):
    """Two requests share a response where they are told one key, on whichever node; in Redis it lies there."""
    upstream = scripted(lambda talk, request: talk.answer(200, KEPT, b"x"), each=True)
    nodes = fleet.start(upstream.url, [{"match": "/**", "cache": {"key": {"query": {"only": ["id"]}}}}], headers={"cache_key": True})

    def key_of(node, target, method="GET", fields=()):
        return re.fullmatch(r'weir; .*; key="([0-9a-f]{64})"(?:; detail=\S+)?', node.ask(method, target, fields)["cache-status"])[1]

    keys = [key_of(node, target) for node in nodes for target in ("/p?id=1", "/p?id=1&utm=2", "/%70?id=1")]
    assert len(set(keys)) == 1
    assert key_of(nodes[0], "/p?id=1", "HEAD") == key_of(nodes[0], "/p?id=1", fields={"Range": "bytes=0-0"}) == keys[0]
    assert key_of(nodes[0], "/p?id=2") != keys[0]
    assert "key=" not in nodes[0].ask("POST", "/p?id=1", body=b"x")["cache-status"], "what goes past the cache has none"
    if fleet.redis is not None:
        nodes[0].get("/p?id=1")
        assert b"weir:c:{%s}" % keys[0].encode() in fleet.redis.keys()
    assert nodes[0].reload({**nodes[0].configuration, "headers": {}})
    assert "key=" not in nodes[0].get("/p?id=1")["cache-status"], "it is for who looks into it"
