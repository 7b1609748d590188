"""RFC 9110 section 14, RFC 9111 sections 3.3 and 3.4: a part is loaded, kept and given as a part, and never as the whole."""

import re
import threading

import pytest

from weir import Background, together, wait_until
from wire import PATIENCE_S
from world import EVERYTHING, FRESH, World

BODY = b"0123456789" * 4


class Film(World):
    """An upstream that honours ranges; `fields(request)` are those of its answers, and it answers once it may go on."""

    def __init__(self, fleet, scripted, fields=FRESH, routes=EVERYTHING):
        self.fields, self.may_go_on, self.changes = fields, threading.Event(), {}
        self.may_go_on.set()
        super().__init__(fleet, scripted, routes)

    def _answer(self, talk, request):
        self.may_go_on.wait(PATIENCE_S)
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", request["range"] or "")
        fields = {**self.fields, **self.changes}
        if request["if-none-match"] is not None and request["if-none-match"] == fields.get("ETag"):
            talk.send(b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=3600\r\n\r\n")
        elif request.method != "GET":
            talk.answer(204)
        elif match is None:
            talk.answer(200, fields, BODY)
        else:
            first = int(match[1]) if match[1] else len(BODY) - int(match[2])
            last = int(match[2]) if match[1] and match[2] else len(BODY) - 1
            talk.answer(206, {"Content-Range": f"bytes {first}-{last}/{len(BODY)}", **fields}, BODY[first:last + 1])

    def ranges(self):
        return [each["range"] for each in self.requests("/film")]

    def part(self, value, node=None):
        return (node or next(self.turn)).get("/film", {"Range": value})


@pytest.fixture
def film(fleet, scripted):
    return Film(fleet, scripted)


def test_a_part_is_asked_for_alone_and_kept_for_all_who_want_it(film):
    first = film.part("bytes=4-9")
    assert (first.status, first.body, first["content-range"], first["x-cache"]) == (206, BODY[4:10], "bytes 4-9/40", "MISS")
    for node in film.nodes:
        copy = wait_until(lambda node=node: (lambda a: a if a["x-cache"] == "HIT" else None)(film.part("bytes=4-9", node)), "it is stored")
        assert (copy.status, copy.body, copy["content-range"], copy["content-length"]) == (206, BODY[4:10], "bytes 4-9/40", "6")
    assert film.ranges() == ["bytes=4-9"]


@pytest.mark.parametrize("value, first, last", [("bytes=5-6", 5, 6), ("bytes=37-", 37, 39), ("bytes=-2", 38, 39), ("bytes=-36", 4, 39)])
def test_a_range_within_a_part_comes_from_it(film, value, first, last):
    film.part("bytes=4-", film.nodes[0])
    wait_until(lambda: film.part("bytes=4-", film.nodes[0])["x-cache"] == "HIT", "it is stored")
    answer = film.part(value, film.nodes[0])
    assert (answer.status, answer["x-cache"], answer.body) == (206, "HIT", BODY[first:last + 1])
    assert (answer["content-range"], answer["content-length"]) == (f"bytes {first}-{last}/40", str(last - first + 1))
    assert film.ranges() == ["bytes=4-"]


@pytest.mark.parametrize("value", ["bytes=3-6", "bytes=8-11", "bytes=-1", "bytes=20-"])
def test_one_that_is_not_within_it_is_asked_for(film, value):
    film.part("bytes=4-9", film.nodes[0])
    wait_until(lambda: film.part("bytes=4-9", film.nodes[0])["x-cache"] == "HIT", "it is stored")
    assert film.part(value, film.nodes[0]).status == 206
    assert film.ranges() == ["bytes=4-9", value]


@pytest.mark.parametrize("value", ["bytes=0-9", "bytes=30-39", "bytes=-40"])
def test_the_whole_is_never_made_of_a_part(film, value):
    film.part(value)
    wait_until(lambda: film.part(value)["x-cache"] == "HIT", "it is stored")
    for node in film.nodes:
        answer = node.get("/film")
        assert (answer.status, answer.body) == (200, BODY)
    assert film.ranges()[:2] == [value, None]


def test_many_who_want_the_same_part_have_it_loaded_once(film):
    film.may_go_on.clear()
    clients = [Background(lambda node=node: film.part("bytes=4-9", node)) for node in film.nodes for _ in range(10)]
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(film.nodes)) >= 20, "all of them wait")
    film.may_go_on.set()
    assert {(each.result().status, each.result().body) for each in clients} == {(206, BODY[4:10])}
    # a worker of its own each: the second looks, finds the first loading, and waits for it
    assert film.ranges() == ["bytes=4-9"]


def test_many_who_want_other_parts_do_not_wait_for_each_other(film):
    answers = together([lambda at=at: film.part(f"bytes={at}-{at + 1}", film.nodes[at % 2]) for at in range(1, 21)])
    assert sorted(each.body for each in answers) == sorted(BODY[at:at + 2] for at in range(1, 21))


def test_who_wants_a_part_of_what_is_on_its_way_waits_for_that(memory_fleet, scripted):
    film = Film(memory_fleet, scripted)
    film.may_go_on.clear()
    with film.nodes[0].connect() as connection:
        whole = Background(lambda: connection.ask("GET", "/film"))
        wait_until(film.ranges, "the whole is being loaded")
        film.may_go_on.set()
        assert whole.result().body == BODY
        assert connection.ask("GET", "/film", {"Range": "bytes=4-9"}).body == BODY[4:10]
    assert film.ranges() == [None]


def test_what_changes_the_whole_ends_its_parts(film):
    film.part("bytes=4-9")
    wait_until(lambda: film.part("bytes=4-9")["x-cache"] == "HIT", "it is stored")
    assert film.nodes[0].ask("DELETE", "/film").status == 204
    for node in film.nodes:
        assert film.part("bytes=4-9", node)["x-cache"] in ("MISS", "HIT")
    assert film.ranges().count("bytes=4-9") == 2


def test_a_stale_part_is_validated_as_one(fleet, scripted):
    film = Film(fleet, scripted, {"Cache-Control": "max-age=1", "ETag": '"a"'})
    film.part("bytes=4-9")
    answer = wait_until(lambda: (lambda a: a if a["x-cache"] == "REVALIDATED" else None)(film.part("bytes=4-9")), "it was stale")
    assert (answer.status, answer.body, answer["content-range"]) == (206, BODY[4:10], "bytes 4-9/40")


@pytest.mark.parametrize("changes", [
    {"Content-Range": "bytes 4-9/5"}, {"Content-Range": "bytes 9-4/40"}, {"Content-Range": "lines 4-9/40"}, {"Vary": "X-Else"},
    {"Cache-Control": "no-store"}, {"Set-Cookie": "a=b"}, {"Content-Range": "bytes */40"},
])
def test_a_part_that_cannot_be_kept_is_passed_on(film, changes):
    film.changes = changes
    for node in film.nodes:
        answer = film.part("bytes=4-9", node)
        assert (answer.status, answer.body) == (206, BODY[4:10])
    assert len(film.ranges()) == 2


def test_each_variant_has_parts_of_its_own(film):
    film.changes = {"Vary": "X-Else"}
    bodies = {}
    for value in "12":
        film.nodes[0].get("/film", {"X-Else": value})
        wait_until(lambda value=value: film.nodes[0].get("/film", {"X-Else": value})["x-cache"] == "HIT", "the whole is stored")
        bodies[value] = film.nodes[0].get("/film", {"X-Else": value, "Range": "bytes=4-9"})
    assert {(each.status, each["x-cache"]) for each in bodies.values()} == {(206, "HIT")}
    third = film.nodes[0].get("/film", {"X-Else": "3", "Range": "bytes=4-9"})
    assert (third.status, third["x-cache"]) == (206, "MISS")
    assert film.ranges() == [None, None, "bytes=4-9"]
