"""RFC 9110 section 15.2: the forerunners of an answer go to who asked, at once, and are no part of what is kept."""

import threading

import pytest

from weir import wait_until
from wire import PATIENCE_S, request_bytes
from world import FRESH

HINTS = (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nX-Hop: 1\r\nConnection: x-hop\r\n\r\n"
         b"HTTP/1.1 102 Processing\r\n\r\n")
SEEN = [(103, [("link", "</style.css>; rel=preload")]), (102, [])]


class Hinting:
    """An upstream that sends forerunners, and the answer once it may go on."""

    def __init__(self, fields):
        self.fields, self.may_go_on, self.asked = fields, threading.Event(), 0

    def __call__(self, talk, request):
        self.asked += 1
        talk.send(HINTS)
        self.may_go_on.wait(PATIENCE_S)
        talk.answer(200, self.fields, b"%d" % self.asked)


def start(fleet, scripted, fields):
    hinting = Hinting(fields)
    return hinting, fleet.start(scripted(hinting, each=True).url, [{"match": "/**", "cache": {}}])


def seen(connection):
    return [(each.status, each.fields) for each in (connection.reader.head() for _ in SEEN)]


@pytest.mark.parametrize("asked", [(), {"Cache-Control": "no-store"}, {"Authorization": "Basic YTpi"}])
def test_they_arrive_before_the_answer_is_made(fleet, scripted, asked):
    hinting, nodes = start(fleet, scripted, FRESH)
    with nodes[0].connect() as connection:
        connection.send(request_bytes("GET", "/x", asked))
        assert seen(connection) == SEEN
        hinting.may_go_on.set()
        answer = connection.answer()
        assert (answer.status, answer.body, answer["link"], answer.interims) == (200, b"1", None, [])
        again = connection.ask("POST", "/x", body=b"z")
        assert ([(each.status, each.fields) for each in again.interims], again.body) == (SEEN, b"2")


def test_what_is_kept_has_none(fleet, scripted):
    hinting, nodes = start(fleet, scripted, FRESH)
    hinting.may_go_on.set()
    assert len(nodes[0].get("/x").interims) == 2
    for node in nodes:
        copy = wait_until(lambda node=node: (lambda a: a if a["x-cache"] == "HIT" else None)(node.get("/x")), "it is stored")
        assert (copy.interims, copy["link"], copy.body) == ([], None, b"1")


def test_a_client_of_http_1_0_is_given_the_answer_alone(fleet, scripted):
    hinting, nodes = start(fleet, scripted, FRESH)
    hinting.may_go_on.set()
    with nodes[0].connect() as connection:
        connection.send(b"GET /x HTTP/1.0\r\nHost: api.test\r\n\r\n")
        assert connection.answer().interims == []
