"""Kept compressed: each client gets the form it takes, with the head that belongs to it; one load, one copy, right to the byte."""

import gzip
import random
import zlib

import pytest

from weir import together, wait_until
from wire import HOST, Broken

TEXT = b"".join(b"line %d of a text that says much the same again and again\n" % n for n in range(20000))  # above a megabyte
KEPT = {"Cache-Control": "max-age=3600", "Content-Type": "text/plain; charset=utf-8", "ETag": '"a"'}
GZIP, PLAIN = {"Accept-Encoding": "gzip"}, {}


class Site:
    """Nodes before an upstream that answers with `body` and `fields`; 304 to the ETag of `fields`."""

    def __init__(self, fleet, scripted, compress=("text/*", "application/json"), **cache):
        self.body, self.fields, self.loads, self.cut, self.ranges = TEXT, dict(KEPT), [], None, False
        self.upstream = scripted(self._answer, each=True)
        self.nodes = fleet.start(self.upstream.url, [{"match": "/**", "cache": {"compress": list(compress), **cache}}])

    def _answer(self, talk, request):
        self.loads.append(request)
        if request["if-none-match"] is not None and request["if-none-match"] == self.fields.get("ETag"):
            talk.send(b"HTTP/1.1 304 Not Modified\r\n" + "".join(f"{k}: {v}\r\n" for k, v in self.fields.items()).encode() + b"\r\n")
        elif request["range"] is not None and self.ranges:
            first, last = (int(each) for each in request["range"].removeprefix("bytes=").split("-"))
            talk.answer(206, {**self.fields, "Content-Range": f"bytes {first}-{last}/{len(self.body)}"}, self.body[first:last + 1])
        elif self.cut is not None:
            talk.answer(200, self.fields, self.body[:self.cut], length=len(self.body))
            talk.reset()
        else:
            talk.answer(200, self.fields, self.body)

    def stored(self, target="/", fields=GZIP):
        """A hit from each node; the last."""
        for node in self.nodes:
            answer = wait_until(lambda node=node: (lambda a: a if a["x-cache"] == "HIT" else None)(node.get(target, fields)), "it is stored")
        return answer


@pytest.fixture
def site(fleet, scripted):
    return lambda *args, **cache: Site(fleet, scripted, *args, **cache)


def expect_gzip(answer, body=TEXT):
    assert answer.status == 200 and answer["content-encoding"] == "gzip" and gzip.decompress(answer.body) == body
    assert int(answer["content-length"]) == len(answer.body) < len(body)
    assert "accept-encoding" in answer["vary"].lower()


def expect_plain(answer, body=TEXT):
    assert answer.status == 200 and answer["content-encoding"] is None and answer.body == body
    assert int(answer["content-length"]) == len(body)
    assert "accept-encoding" in answer["vary"].lower()


def test_one_copy_serves_both_forms(site):
    made = site()
    made.fields.update({"Content-MD5": "x", "Digest": "y", "Repr-Digest": "z", "Content-Digest": "u", "Vary": "X-Other"})
    first = made.nodes[0].get("/", GZIP)
    expect_plain(first)
    assert first["etag"] == '"a"', "the load itself goes out as it came"
    packed = made.stored()
    expect_gzip(packed)
    assert packed["etag"] == 'W/"a"' and packed.all("vary") == ["X-Other", "accept-encoding"]
    assert not any(name in packed for name in ("content-md5", "digest", "repr-digest", "content-digest"))
    plain = made.stored(fields=PLAIN)
    expect_plain(plain)
    assert (plain["etag"], plain["content-md5"], plain["repr-digest"]) == ('"a"', "x", "z")
    assert len(made.loads) == 1


TAKERS = {
    True: ["gzip", "GZIP;q=0.5", "x-gzip", "br, gzip;q=0.1", "*", "deflate, *;q=0.2", "gzip;q=0.5, identity;q=0.4", "gzip, identity",
           "gzip, identity;q=0", "gzip, *;q=0"],
    False: [None, "", "br", "gzip;q=0", "*;q=0", "gzip;q=0, *", "identity", "gzip;q=0.4, identity;q=0.5", "identity;q=0", "gzip;q=2", "gzip;q=x",
            "notgzip"],
}


def test_who_takes_what(site):
    made = site()
    made.nodes[0].get("/")
    made.stored()
    for is_gzip, all_accepted in TAKERS.items():
        for accepted in all_accepted:
            answer = made.nodes[-1].get("/", {} if accepted is None else {"Accept-Encoding": accepted})
            assert (answer["content-encoding"] == "gzip") == is_gzip, accepted
            (expect_gzip if is_gzip else expect_plain)(answer)
    assert len(made.loads) == 1


def test_conditions_know_both_forms(site):
    made = site()
    made.nodes[0].get("/")
    made.stored()
    for fields in (GZIP, PLAIN):
        for etag in ('"a"', 'W/"a"', '"x", W/"a"', "*"):
            answer = made.nodes[-1].get("/", {**fields, "If-None-Match": etag})
            assert (answer.status, answer.body) == (304, b"")
            assert answer["etag"] == ('W/"a"' if fields else '"a"') and "accept-encoding" in answer["vary"]
            assert answer["content-encoding"] is None or fields
        assert made.nodes[0].get("/", {**fields, "If-None-Match": '"a-gzip"'}).status == 200
    assert len(made.loads) == 1


def test_a_part_is_of_the_plain_form(site):
    made = site()
    made.nodes[0].get("/")
    made.stored()
    for fields in (GZIP, PLAIN):
        for first, last in ((0, 0), (5, 99), (700000, 700999), (len(TEXT) - 7, len(TEXT) - 1)):
            answer = made.nodes[-1].get("/", {**fields, "Range": f"bytes={first}-{last}"})
            assert (answer.status, answer.body) == (206, TEXT[first:last + 1])
            assert answer["content-range"] == f"bytes {first}-{last}/{len(TEXT)}" and answer["content-encoding"] is None
            assert answer["etag"] == '"a"'
        assert made.nodes[0].get("/", {**fields, "Range": "bytes=-3"}).body == TEXT[-3:]
        assert made.nodes[0].get("/", {**fields, "Range": f"bytes={len(TEXT)}-"}).status == 416
        assert made.nodes[0].get("/", {**fields, "Range": "bytes=1-2", "If-Range": '"a"'}).body == TEXT[1:3]
        expect_plain(made.nodes[0].get("/", {**fields, "Range": "bytes=0-1, 700000-700001"}))  # what lies apart: the whole
        for etag in ('W/"a"', '"b"'):
            expect_plain(made.nodes[0].get("/", {**fields, "Range": "bytes=1-2", "If-Range": etag}))
    refuses_plain = {"Accept-Encoding": "gzip, identity;q=0", "Range": "bytes=1-2"}
    expect_gzip(made.nodes[0].get("/", refuses_plain))


def test_a_part_that_was_loaded_as_one_is_kept_as_it_came(site):
    made = site()
    made.ranges = True
    part = {**GZIP, "Range": "bytes=1000-2999"}
    for _ in made.nodes:
        answer = made.nodes[0].get("/", part)
        assert (answer.status, answer.body, answer["content-encoding"], answer["etag"]) == (206, TEXT[1000:3000], None, '"a"')
    answer = wait_until(lambda: (lambda a: a if a["x-cache"] == "HIT" else None)(made.nodes[-1].get("/", part)), "the part is stored")
    assert (answer.status, answer.body, answer["content-encoding"]) == (206, TEXT[1000:3000], None)
    made.nodes[0].get("/", GZIP)
    expect_gzip(made.stored())
    assert made.nodes[-1].get("/", part).body == TEXT[1000:3000]


def test_head_tells_the_length_of_the_form_that_get_would_bring(site):
    made = site()
    made.nodes[0].get("/")
    packed = made.stored()
    for fields, etag, length in ((GZIP, 'W/"a"', len(packed.body)), (PLAIN, '"a"', len(TEXT))):
        answer = made.nodes[0].ask("HEAD", "/", fields)
        assert (answer.status, answer.body, answer["etag"], int(answer["content-length"])) == (200, b"", etag, length)
        assert answer["content-encoding"] == ("gzip" if fields else None)


def test_what_is_not_to_be_compressed_is_left_as_it_is(site):
    made = site()
    for n, fields in enumerate([
        {"Content-Type": "image/png"}, {"Content-Type": "textual/plain"}, {"Content-Type": "application/json5"}, {"Content-Type": ""},
        {"Content-Encoding": "br"}, {"Content-Encoding": "gzip"}, {"Cache-Control": "max-age=3600, no-transform"},
        {"CDN-Cache-Control": "max-age=3600, no-transform"}, {"CDN-Cache-Control": "max-age=3600", "Cache-Control": "no-transform"},
    ]):
        made.fields = {**KEPT, **fields}
        made.nodes[0].get(f"/{n}", GZIP)
        answer = made.stored(f"/{n}")
        assert (answer.body, answer["content-encoding"], answer["etag"]) == (TEXT, fields.get("Content-Encoding"), '"a"'), fields


def test_what_would_not_become_smaller_is_kept_as_it_is(site):
    made = site()
    for n, body in enumerate([b"", b"small" * 50, random.Random(1).randbytes(100000)]):
        made.body = body
        made.nodes[0].get(f"/{n}", GZIP)
        answer = made.stored(f"/{n}")
        assert (answer.body, answer["content-encoding"], answer["etag"]) == (body, None, '"a"')


def test_the_types_of_the_route_are_compressed(site):
    made = site()
    for n, kind in enumerate(["application/json", "Application/JSON;q=1", "text/html", "text/anything"]):
        made.fields["Content-Type"] = kind
        made.nodes[0].get(f"/{n}")
        expect_gzip(made.stored(f"/{n}"))


def test_without_the_setting_nothing_is(site):
    made = site(compress=())
    made.nodes[0].get("/", GZIP)
    answer = made.stored()
    assert (answer.body, answer["content-encoding"], answer["vary"]) == (TEXT, None, None)


def test_a_client_may_refuse_any_transformation(site):
    made = site()
    made.nodes[0].get("/")
    made.stored()
    expect_plain(made.nodes[0].get("/", {**GZIP, "Cache-Control": "no-transform"}))


def test_a_304_confirms_the_packed_copy_by_the_upstreams_own_etag(site):
    made = site(stale_if_error="1h")
    made.fields["Cache-Control"] = "max-age=1"
    made.nodes[0].get("/")
    answer = wait_until(lambda: (lambda a: a if a["x-cache"] == "REVALIDATED" else None)(made.nodes[0].get("/", GZIP)), "it was confirmed")
    expect_gzip(answer)
    assert made.loads[-1]["if-none-match"] == '"a"'
    made.fields["Cache-Control"] = "max-age=3600, no-transform"
    wait_until(lambda: made.nodes[0].get("/")["cache-control"] == made.fields["Cache-Control"], "it was confirmed again")
    expect_plain(made.stored())


def test_an_upstream_that_compresses_itself_is_left_to_it(site):
    """Who takes gzip has its gzip; what it says to the others is not packed for nobody."""
    made = site()
    own = zlib.compress(TEXT, 1)

    def answer(talk, request):
        made.loads.append(request)
        takes = "gzip" in (request["accept-encoding"] or "")
        talk.answer(200, {**KEPT, "Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if takes else {})}, own if takes else TEXT)

    made._answer = answer
    made.upstream.script = answer
    for fields, body in ((GZIP, own), (PLAIN, TEXT)):
        made.nodes[0].get("/", fields)
        copy = made.stored(fields=fields)
        assert (copy.body, copy["etag"]) == (body, '"a"')
    assert len(made.loads) == 2


def test_a_language_that_another_client_was_given_is_unpacked_too(site):
    made = site()
    made.fields.update({"Vary": "Accept-Language", "Content-Language": "de"})
    wait_until(lambda: made.nodes[0].get("/", {"Accept-Language": "fr;q=0.1, de"})["x-cache"] == "HIT", "it is stored")
    expect_gzip(wait_until(lambda: (lambda a: a if a["x-cache"] == "HIT" else None)(
        made.nodes[0].get("/", {**GZIP, "Accept-Language": "en;q=0.1, de"})), "it is there for whoever wants German most"))
    expect_plain(made.nodes[0].get("/", {"Accept-Language": "en;q=0.1, de"}))
    assert len(made.loads) == 1


def test_riders_read_along_while_it_is_packed(site):
    made = site()
    answers = together([lambda n=n: made.nodes[n % 2].get("/", GZIP if n % 3 else PLAIN) for n in range(24)])
    for answer in answers:
        assert TEXT == (gzip.decompress(answer.body) if answer["content-encoding"] else answer.body)
    assert len(made.loads) == 1
    expect_gzip(made.stored())


def test_a_body_that_breaks_off_is_not_kept_in_any_form(site):
    made = site()
    made.cut = len(TEXT) // 2
    with pytest.raises(Broken):
        made.nodes[0].get("/", GZIP)
    made.cut = None
    wait_until(lambda: made.nodes[0].get("/", GZIP).status == 200, "the failure is no longer shared")
    expect_gzip(made.stored())


def test_a_client_that_leaves_does_not_end_the_packing(site):
    made = site()
    with made.nodes[0].connect(receive_buffer=4096) as connection:
        connection.send(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        wait_until(lambda: made.loads, "it was asked for")
    expect_gzip(made.stored())
    assert len(made.loads) == 1


def test_a_slow_client_gets_all_of_the_plain_form(site):
    made = site()
    made.nodes[0].get("/")
    made.stored()
    with made.nodes[0].connect(receive_buffer=4096) as connection:
        connection.send(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        expect_gzip(made.nodes[0].get("/", GZIP))
        expect_plain(connection.answer())
    with made.nodes[0].connect(receive_buffer=4096) as connection:
        connection.send(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    expect_plain(made.nodes[0].get("/"))


def test_a_tag_ends_the_packed_copy_too(site):
    made = site(tags=["page"])
    made.nodes[0].get("/")
    expect_gzip(made.stored())
    made.body = TEXT[::-1]
    assert made.nodes[0].invalidate("page").status == 200
    assert made.nodes[-1].get("/", GZIP).body == TEXT[::-1]


def test_the_copy_takes_the_place_of_its_packed_form_alone(memory_fleet, scripted):
    """A hundred texts of above a megabyte fit where thirty would not."""
    upstream = scripted(lambda talk, request: talk.answer(200, KEPT, TEXT), each=True)
    node = memory_fleet.start(upstream.url, [{"match": "/**", "cache": {"compress": ["text/plain"]}}], count=1,
                              near_cache={"size": "32MiB", "max_object": "2MiB"})[0]
    for n in range(100):
        node.get(f"/{n}")
        wait_until(lambda n=n: node.get(f"/{n}", GZIP)["x-cache"] == "HIT", "it is stored")
    assert all(node.get(f"/{n}", GZIP)["x-cache"] == "HIT" for n in range(100))


def test_a_reload_leaves_what_is_stored_as_it_is(fleet, scripted):
    upstream = scripted(lambda talk, request: talk.answer(200, KEPT, TEXT), each=True)

    def routes(compress):
        return [{"match": "/**", "cache": {"compress": compress}}]

    def stored(target):
        node.get(target)
        wait_until(lambda: node.get(target)["x-cache"] == "HIT", "it is stored")

    node = fleet.start(upstream.url, routes([]), count=1)[0]
    stored("/before")
    assert node.reload(fleet.configuration(upstream.url, routes(["text/plain"])))
    stored("/between")
    assert node.reload(fleet.configuration(upstream.url, routes([])))
    assert node.get("/before", GZIP)["content-encoding"] is None
    expect_gzip(node.get("/between", GZIP))
    expect_plain(node.get("/between"))


def test_another_node_unpacks_what_the_store_holds(redis_fleet, scripted, redis):
    made = Site(redis_fleet, scripted)
    made.nodes[0].get("/")
    expect_gzip(made.stored())
    assert TEXT[:100] not in redis.dump() and len(redis.dump()) < len(TEXT) // 2
    for node in list(redis_fleet.nodes):
        redis_fleet.remove(node)
    node = redis_fleet.add(redis_fleet.configuration(made.upstream.url, [{"match": "/**", "cache": {"compress": ["text/*"]}}]))
    expect_plain(node.get("/"))
    expect_gzip(node.get("/", GZIP))
    assert len(made.loads) == 1
