"""Faults that other caches have had, each as a promise that Weir keeps; on memory and on Redis."""

import email.utils
import time

import pytest

from weir import wait_until
from world import EVERYTHING, FRESH, LONG_AGO, SHORT, World

NOT_KEPT = {"MISS", "BYPASS", "REVALIDATED"}


# ---- which answer is whose ----


def test_one_coding_is_not_another(world):
    """What came to who takes deflate is not for who takes gzip, and the reverse."""
    world.says("/x", (200, lambda request: {**FRESH, "Vary": "Accept-Encoding",
                                            **({"Content-Encoding": "gzip"} if "gzip" in (request["accept-encoding"] or "") else {})}))
    plain = world.get("/x", {"Accept-Encoding": "deflate"})
    coded = world.get("/x", {"Accept-Encoding": "gzip"})
    assert (plain["content-encoding"], coded["content-encoding"]) == (None, "gzip")
    assert world.stored("/x", {"Accept-Encoding": "deflate"}).body == plain.body
    assert world.stored("/x", {"Accept-Encoding": "gzip"}).body == coded.body


def test_two_lines_of_vary_are_one_list(fleet, scripted):
    class Lines(World):
        def _answer(self, talk, request):
            talk.answer(200, [("Cache-Control", "max-age=3600"), ("Vary", "Accept-Encoding"), ("Vary", "X-Requested-With")],
                        (request["x-requested-with"] or "none").encode())

    world = Lines(fleet, scripted)
    for value in ("a", "b"):
        assert world.get("/x", {"X-Requested-With": value}).text == value
        assert world.stored("/x", {"X-Requested-With": value}).text == value
    assert world.get("/x").text == "none"


def test_a_head_never_stands_for_a_get(world):
    answer = world.nodes[0].ask("HEAD", "/x")
    assert (answer.status, answer.body) == (200, b"")
    whole = world.get("/x")
    assert (whole.status, whole["x-cache"], len(whole.body) > 0) == (200, "MISS", True)


def test_targets_that_differ_are_different_things(world):
    targets = ["/get?name=hello", "/?getname=hello", "/get/?name=hello", "/get?name=hello&", "/getname=hello", "/get%3Fname=hello",
               "/t?a=1&b=2", "/t?b=2&a=1", "/a%2Fb", "/a/b", "/a?", "/a", "//a", "/a;b"]
    bodies = [world.get(target).body for target in targets]
    assert len(set(bodies)) == len(targets)
    for target, body in zip(targets, bodies):
        assert world.stored(target).body == body
    assert [each.target for each in world.upstream.requests] == targets, "as the client wrote them"


def test_the_default_port_and_capitals_of_a_host_make_no_difference(world):
    body = world.nodes[0].ask("GET", "/x", host="a.test").body
    for host in ("a.test:80", "A.TEST", "A.Test:80"):
        assert wait_until(lambda host=host: (lambda a: a if a["x-cache"] == "HIT" else None)(world.nodes[0].ask("GET", "/x", host=host)),
                          "it is stored").body == body
    assert world.nodes[0].ask("GET", "/x", host="a.test:81").body != body
    assert world.nodes[-1].ask("POST", "/x", body=b"z", host="A.TEST:80").status == 200
    for node in world.nodes:
        assert node.ask("GET", "/x", host="a.test").body != body


# ---- for how long ----


@pytest.fixture
def lasting(fleet, scripted):
    """A route that keeps for an hour what does not say for how long."""
    return World(fleet, scripted, [{"match": "/**", "cache": {"ttl": "1h"}}])


def assert_not_kept(world, target, why):
    assert all(world.get(target)["x-cache"] in NOT_KEPT for _ in range(4)), why
    assert len(world.requests(target)) == 4, why


@pytest.mark.parametrize("more", [{}, {"Last-Modified": LONG_AGO}])
def test_an_expires_that_is_no_date_has_passed(lasting, more):
    """Neither a setting nor a guess takes its place."""
    for at, expires in enumerate(["0", "-1", "Thu, 32 Foo", "", "now"]):
        lasting.says(f"/{at}", {"Expires": expires, **more})
        assert_not_kept(lasting, f"/{at}", expires)


def test_a_lifetime_above_all_bounds_is_a_long_one(world):
    for seconds in ("2147483647", "2147483648", "4294967296", "99999999999999999999"):
        world.says(f"/{seconds}", {"Cache-Control": f"max-age={seconds}"})
        world.get(f"/{seconds}")
        assert world.stored(f"/{seconds}").status == 200


def test_a_lifetime_that_is_none_is_not_the_default(lasting):
    for at, control in enumerate(["max-age=-1", "max-age=-2147483648", "max-age=", "max-age=1h", "max-age"]):
        lasting.says(f"/{at}", {"Cache-Control": control})
        assert_not_kept(lasting, f"/{at}", control)


def test_an_age_is_not_counted_from_a_date_that_is_none(world):
    for at, date in enumerate(["Sat, 01 Oct 2022 7:19:16 GMT", "yesterday", "0"]):
        world.says(f"/{at}", {**FRESH, "Date": date})
        world.get(f"/{at}")
        assert int(world.stored(f"/{at}")["age"]) < 3600, date


def test_whatever_is_not_asked_about_has_an_age(world):
    """Before a validation and after it, and counted from there."""
    world.says("/x", {"Cache-Control": "max-age=51", "Age": "50", "ETag": '"a"'}, {"Cache-Control": "max-age=3600", "ETag": '"a"'})
    world.get("/x")
    answer = wait_until(lambda: (lambda a: a if a["x-cache"] == "REVALIDATED" else None)(world.get("/x")), "it was stale")
    assert int(answer["age"] or 0) < 40, "it is as young as the upstream's word"
    assert int(world.stored("/x")["age"]) < 40, "what it was when it came first does not count any more"


def test_a_directive_that_a_304_leaves_out_is_withdrawn(world):
    world.says("/x", {"Cache-Control": "max-age=1, stale-if-error=600, stale-while-revalidate=0", "ETag": '"a"'},
               {"Cache-Control": "max-age=1, must-revalidate", "ETag": '"a"'}, (503, {}))
    world.get("/x")
    wait_until(lambda: world.get("/x")["x-cache"] == "REVALIDATED", "it was stale")
    assert wait_until(lambda: (lambda a: a if a["x-cache"] not in ("HIT", "REVALIDATED", "WAIT") else None)(world.get("/x")), "it is stale again").status == 503


# ---- conditions ----


def test_an_etag_may_hold_a_comma(world):
    world.says("/x", {**FRESH, "ETag": '"a,b"'})
    world.get("/x")
    world.stored("/x")
    for asked, status in (('W/"a,b"', 304), ('"x", W/"a,b"', 304), ('"a,b"', 304), ("*", 304), ('"a"', 200), ('"b"', 200), ('"a,b', 200),
                          ('"x","y"', 200), ("a,b", 200)):
        assert world.get("/x", {"If-None-Match": asked}).status == status, asked
    assert len(world.requests("/x")) == 1


def test_who_asked_nothing_conditional_gets_no_304(world):
    world.says("/x", {**SHORT, "ETag": '"a"'})
    body = world.get("/x").body
    answer = world.stale("/x")
    assert (answer.status, answer.body) == (200, body)


def test_a_client_that_always_asks_conditionally_fills_the_cache_all_the_same(world):
    world.says("/x", {**FRESH, "ETag": '"a"'})
    asked = {"If-None-Match": '"x"'}
    body = world.get("/x", asked).body
    assert wait_until(lambda: (lambda a: a if a["x-cache"] == "HIT" else None)(world.get("/x", asked)), "it is stored").body == body
    assert len(world.requests("/x")) == 1


# ---- what ends where ----


@pytest.mark.parametrize("head", [
    b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
])
def test_an_answer_of_two_lengths_is_refused_and_its_connection_not_used_again(fleet, scripted, head):
    def script(talk):
        if talk.read() is not None:
            talk.send(head)
            talk.wait_closed()

    upstream = scripted(script)
    for node in fleet.start(upstream.url, EVERYTHING):
        answer = node.get("/x")
        assert (answer.status, answer["proxy-status"] is not None) == (502, True)
    assert upstream.connection_count() == len(upstream.requests)


def test_trailers_are_read_and_go_no_further(fleet, scripted):
    def script(talk, _request):
        talk.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Cache-Control\r\n\r\n"
                  b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nCache-Control: no-store\r\n\r\n")

    upstream = scripted(script, each=True)
    nodes = fleet.start(upstream.url, EVERYTHING)
    first = nodes[0].get("/x")
    assert (first.body, first["x-sum"]) == (b"abc", None)
    for node in nodes:
        copy = wait_until(lambda node=node: (lambda a: a if a["x-cache"] == "HIT" else None)(node.get("/x")), "it is stored")
        assert (copy.body, copy["x-sum"], copy["cache-control"]) == (b"abc", None, "max-age=60")


def test_an_old_date_counts_as_age(world):
    world.says("/x", {"Cache-Control": "max-age=3600", "Date": email.utils.formatdate(time.time() - 1800, usegmt=True)})
    world.get("/x")
    assert 1800 <= int(world.stored("/x")["age"]) < 3600
