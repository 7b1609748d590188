"""RFC 9875: does a change end all that belongs to the groups it names, on every node, before its client is answered; and nothing else?"""

import threading

import pytest

from weir import wait_until
from wire import HOST

GROUPS = [f"group-{n:026d}" for n in range(40)]  # more, and longer, than the standard asks for
KEPT = {"Cache-Control": "max-age=3600"}


def sf(names):
    return ", ".join(f'"{name}"' for name in names)


class Site:
    """An upstream where GET answers with the fields of `pages`, all others with those of `changes`; bodies count up."""

    def __init__(self, fleet, scripted, routes=({"match": "GET /**", "cache": {}}, {"match": "/**"})):
        self.pages, self.changes, self.loads = {}, {}, 0
        self.upstream = scripted(self._answer, each=True)
        self.nodes = fleet.start(self.upstream.url, list(routes))

    def _answer(self, talk, request):
        self.loads += 1
        if request.method == "GET":
            talk.answer(200, {**KEPT, **self.pages.get(request.target, {})}, f"{self.loads}".encode())
        else:
            status, fields = self.changes[request.target]
            talk.answer(status, fields, b"done")

    def get(self, target, host=HOST):
        """From every node; they agree."""
        bodies = {node.ask("GET", target, host=host).body for node in self.nodes}
        assert len(bodies) == 1
        return bodies.pop()

    def change(self, target, status=200, host=HOST, method="POST", **fields):
        self.changes[target] = (status, {name.replace("_", "-"): value for name, value in fields.items()})
        return self.nodes[0].ask(method, target, host=host)


@pytest.fixture
def site(fleet, scripted):
    return Site(fleet, scripted)


@pytest.mark.parametrize("status", [200, 204, 303, 404, 500])
def test_a_group_that_a_change_names_ends_on_every_node(site, status):
    site.pages = {"/a": {"Cache-Groups": sf(["one", "two"])}, "/b": {"Cache-Groups": '"two";x'}, "/c": {"Cache-Groups": sf(["Two"])}, "/d": {}}
    before = {target: site.get(target) for target in site.pages}
    assert {target: site.get(target) for target in site.pages} == before
    answer = site.change("/change", status, Cache_Group_Invalidation='"two", "none"')
    assert answer["cache-group-invalidation"] == '"two", "none"', "caches behind us are told, too"
    after = {target: site.get(target) for target in site.pages}
    assert {target for target in after if after[target] != before[target]} == {"/a", "/b"}


def test_what_is_no_list_of_strings_names_nothing(site):
    site.pages = {"/a": {"Cache-Groups": sf(["one"])}, "/b": {"Cache-Groups": "one"}, "/c": {"Cache-Groups": '"one", 2'}}
    before = {target: site.get(target) for target in site.pages}
    for value in ('one', '"one", two', '"one', '("one")', ''):
        site.change("/change", Cache_Group_Invalidation=value)
    assert {target: site.get(target) for target in site.pages} == before
    site.change("/change", Cache_Group_Invalidation='"one"')
    after = {target: site.get(target) for target in site.pages}
    assert {target for target in after if after[target] != before[target]} == {"/a"}


def test_a_safe_request_invalidates_no_group(site):
    site.pages = {"/a": {"Cache-Groups": sf(["one"])}, "/evil": {"Cache-Group-Invalidation": sf(["one"])}}
    before = site.get("/a")
    site.get("/evil")
    for method in ("OPTIONS", "HEAD"):
        site.changes["/evil"] = (200, {"Cache-Group-Invalidation": sf(["one"])})
        site.nodes[0].ask(method, "/evil")
    assert site.get("/a") == before


def test_a_group_is_its_hosts_own(site):
    site.pages = {"/a": {"Cache-Groups": sf(["one"])}}
    before = {host: site.get("/a", host) for host in (HOST, "other.test")}
    site.change("/change", host="other.test", Cache_Group_Invalidation=sf(["one"]))
    assert site.get("/a", HOST) == before[HOST]
    assert site.get("/a", "other.test") != before["other.test"]


def test_a_group_is_no_tag_of_that_name(site):
    site.pages = {"/group": {"Cache-Groups": sf(["x"])}, "/tag": {"Surrogate-Key": "x"}}
    before = {target: site.get(target) for target in site.pages}
    assert site.nodes[0].invalidate("x").status == 200
    assert site.get("/group") == before["/group"]
    tagged = site.get("/tag")
    assert tagged != before["/tag"]
    site.change("/change", Cache_Group_Invalidation=sf(["x"]))
    assert (site.get("/group") != before["/group"], site.get("/tag") == tagged) == (True, True)


def test_forty_groups_are_told_apart(site):
    site.pages = {"/all": {"Cache-Groups": sf(GROUPS)}}
    for group in (GROUPS[0], GROUPS[31], GROUPS[39]):
        before = site.get("/all")
        assert site.get("/all") == before
        site.change("/change", Cache_Group_Invalidation=sf([group]))
        assert site.get("/all") != before


def test_more_groups_than_are_counted_are_not_stored_and_none_is_left_out_of_a_change(site):
    many = [f"{n}" for n in range(65)]
    site.pages = {"/many": {"Cache-Groups": sf(many)}, "/one": {"Cache-Groups": sf(["64"])}, "/none": {}}
    assert site.nodes[0].get("/many").body != site.nodes[0].get("/many").body
    one, none = site.get("/one"), site.get("/none")
    site.change("/change", Cache_Group_Invalidation=sf(many))
    assert (site.get("/one") != one, site.get("/none") == none) == (True, True)


def test_a_load_that_a_change_overtakes_is_not_stored(fleet, scripted):
    """Its group becomes known only with its answer, when the change is over."""
    asked, go = threading.Event(), threading.Event()

    def answer(talk, request):
        if request.method == "GET" and request.target == "/slow":
            slow = not go.is_set()
            asked.set()
            assert go.wait(20)
            talk.answer(200, {**KEPT, "Cache-Groups": sf(["one"])}, b"old" if slow else b"new")
        else:
            talk.answer(200, {"Cache-Group-Invalidation": sf(["one"])}, b"")

    a, b = fleet.start(scripted(answer, each=True).url, [{"match": "GET /**", "cache": {}}, {"match": "/**"}])
    with a.connect() as connection:
        connection.send(f"GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        assert asked.wait(20)
        assert b.ask("POST", "/change").status == 200
        go.set()
        assert connection.answer().body == b"old", "who asked before the change may see what was before it"
    assert {b.get("/slow").body, a.get("/slow").body} == {b"new"}


def test_a_change_is_not_forgotten_with_its_client(fleet, scripted):
    asked, go = threading.Event(), threading.Event()
    bodies = iter(range(100))

    def answer(talk, request):
        if request.method == "GET":
            talk.answer(200, {**KEPT, "Cache-Groups": sf(["one"])}, f"{next(bodies)}".encode())
        else:
            asked.set()
            assert go.wait(20)
            talk.answer(500, {"Cache-Group-Invalidation": sf(["one"])}, b"")

    a, b = fleet.start(scripted(answer, each=True).url, [{"match": "/**", "cache": {}}])
    before = b.get("/page").body
    connection = a.connect()
    connection.send(f"POST /page HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n".encode())
    assert asked.wait(20)
    connection.close()
    go.set()
    wait_until(lambda: b.get("/page").body != before, "the group has ended")
