"""RFC 9112 sections 6.3 and 8: a body that the close of its connection ends is whole where that closes in order, and nowhere else."""

import pytest

from weir import wait_until
from wire import Broken
from world import EVERYTHING

HEAD = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n"


class Closing:
    """An upstream that ends each answer with the connection, by `end`, once it is told to."""

    def __init__(self, head, end=lambda talk: None):
        self.head, self.end, self.count = head, end, 0

    def __call__(self, talk):
        if talk.read() is not None:
            self.count += 1
            talk.send(self.head + b"\r\nbody %d" % self.count)
            self.end(talk)


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n", b"Transfer-Encoding: xyz\r\n"])
def test_what_says_for_how_long_is_kept(fleet, scripted, more):
    upstream = scripted(Closing(HEAD + more))
    nodes = fleet.start(upstream.url, EVERYTHING)
    first = nodes[0].get("/x")
    assert (first.body, first["transfer-encoding"]) == (b"body 1", "chunked")
    for node in nodes:
        copy = wait_until(lambda node=node: (lambda a: a if a["x-cache"] == "HIT" else None)(node.get("/x")), "it is stored")
        assert (copy.body, copy["content-length"], copy["transfer-encoding"]) == (b"body 1", "6", None)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("head, routes", [
    (b"HTTP/1.1 200 OK\r\n", [{"match": "/**", "cache": {"ttl": "1h"}}]), (HEAD, [{"match": "/**", "cache": {"keep_until_close": False}}]),
])
def test_what_does_not_or_may_not_is_passed_on(fleet, scripted, head, routes):
    nodes = fleet.start(scripted(Closing(head)).url, routes)
    assert [nodes[n % 2].get("/x").body for n in range(4)] == [b"body %d" % n for n in range(1, 5)]


def test_what_a_reset_ends_is_not_whole(fleet, scripted):
    upstream = scripted(Closing(HEAD, end=lambda talk: talk.reset()))
    nodes = fleet.start(upstream.url, EVERYTHING)
    for n in range(4):
        try:
            answer = nodes[n % 2].get("/x")
            assert answer.status == 502, "it broke before anything had gone to the client"
        except Broken:
            pass
