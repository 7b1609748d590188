"""RFC 9110 sections 14.2, 14.6 and 15.3.7: several ranges of a whole answer that is stored, as one body; or the whole, where that is less."""

import pytest

from world import FRESH, World

BODY = bytes(at * 7 % 251 for at in range(300_000))  # of several blocks


class Long(World):
    @staticmethod
    def body(target, n):
        return BODY if target != "/short" else b"0123456789"


@pytest.fixture
def long(fleet, scripted):
    world = Long(fleet, scripted)
    world.says("/x", {**FRESH, "Content-Type": "video/x", "ETag": '"a"', "X-Kept": "1"})
    world.get("/x")
    world.stored("/x")
    return world


def parts_of(answer):
    """[(content-range, content-type, bytes)] of a multipart answer, read strictly."""
    kind, _, boundary = answer["content-type"].partition("; boundary=")
    assert (kind, answer.all("content-type"), answer["content-range"]) == ("multipart/byteranges", [answer["content-type"]], None)
    mark, parts = b"--" + boundary.encode(), []
    assert answer.body.startswith(mark + b"\r\n") and answer.body.endswith(b"\r\n" + mark + b"--\r\n")
    for piece in answer.body[len(mark) + 2:-len(mark) - 6].split(b"\r\n" + mark + b"\r\n"):
        head, _, data = piece.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        parts.append((fields["content-range"], fields["content-type"], data))
    return parts


@pytest.mark.parametrize("value, ranges", [
    ("bytes=0-1,5-6", [(0, 1), (5, 6)]),
    ("bytes=10-70000,140000-140000,-5", [(10, 70000), (140000, 140000), (299995, 299999)]),
    ("bytes=65530-65540,131000-131080", [(65530, 65540), (131000, 131080)]),
    ("bytes=0-1, 1-4, 9-9, 400000-", [(0, 4), (9, 9)]),
    (",".join(["bytes=0-0"] + [f"{at * 10}-{at * 10}" for at in range(1, 16)]), [(at * 10, at * 10) for at in range(16)]),
])
def test_each_range_is_a_part_in_its_order(long, value, ranges):
    for node in long.nodes:
        answer = node.get("/x", {"Range": value})
        assert (answer.status, answer["x-cache"], answer["etag"], answer["x-kept"]) == (206, "HIT", '"a"', "1")
        assert parts_of(answer) == [(f"bytes {a}-{b}/300000", "video/x", BODY[a:b + 1]) for a, b in ranges]
    assert len(long.requests("/x")) == 1


def test_no_two_answers_have_the_same_boundary(long):
    kinds = {long.get("/x", {"Range": "bytes=0-1,5-6"})["content-type"] for _ in range(8)}
    assert len(kinds) == 8


@pytest.mark.parametrize("value", [
    "bytes=5-6,0-1",  # not ascending
    ",".join(["bytes=0-0"] + [f"{at * 10}-{at * 10}" for at in range(1, 17)]),  # too many
    "bytes=0-149990,150000-",  # longer with its heads than the whole
    "bytes=0-1,x",
])
def test_what_is_not_worth_it_is_the_whole(long, value):
    answer = long.get("/x", {"Range": value})
    assert (answer.status, answer["x-cache"], answer["content-type"], answer.body == BODY) == (200, "HIT", "video/x", True)


def test_of_what_is_short_the_whole_is_shorter(long):
    long.get("/short")
    long.stored("/short")
    answer = long.get("/short", {"Range": "bytes=0-1,5-6"})
    assert (answer.status, answer.body) == (200, b"0123456789")


@pytest.mark.parametrize("value, status", [("bytes=0-1,1-9", 206), ("bytes=300000-,400000-500000", 416)])
def test_what_is_one_or_none_is_no_multipart(long, value, status):
    answer = long.get("/x", {"Range": value})
    assert (answer.status, answer["content-range"]) == (status, "bytes 0-9/300000" if status == 206 else "bytes */300000")


@pytest.mark.parametrize("asked, status", [({"If-Range": '"a"'}, 206), ({"If-Range": '"b"'}, 200), ({"If-None-Match": '"a"'}, 304)])
def test_conditions_come_first(long, asked, status):
    assert long.get("/x", {"Range": "bytes=0-1,5-6", **asked}).status == status


def test_a_head_has_no_parts(long):
    answer = long.nodes[0].ask("HEAD", "/x", {"Range": "bytes=0-1,5-6"})
    assert (answer.status, answer["content-length"]) == (200, "300000")


def test_the_connection_goes_on_behind_it(long):
    with long.nodes[0].connect() as connection:
        for _ in range(3):
            assert len(parts_of(connection.ask("GET", "/x", {"Range": "bytes=0-1,5-6,9-70000"}))) == 3
