"""RFC 9110 and RFC 9111, rule by rule, as a client sees them, on memory and on Redis; see world.py."""

import pytest

from weir import wait_until
from world import EVERYTHING, FRESH, LATER, LONG_AGO, SHORT, World  # noqa: F401  some are for those who look for them here


# ---- what is stored, and for how long ----


@pytest.mark.parametrize("status", [200, 203, 299, 301, 302, 307, 400, 404, 410, 499, 500, 503, 599])
def test_an_answer_that_says_for_how_long_is_kept_whatever_its_status(world, status):
    world.says("/x", (status, FRESH))
    world.get("/x")
    assert world.stored("/x").status == status


@pytest.mark.parametrize("status, fields", [
    (206, {**FRESH, "Content-Range": "bytes 0-1/9"}), (429, FRESH), (302, {}), (500, {"Last-Modified": LONG_AGO}),
    (599, {"Cache-Control": "max-age=3600, must-understand"}), (200, {"Cache-Control": "private, max-age=9"}),
    (200, {"Cache-Control": "no-store, max-age=9"}), (200, {**FRESH, "Set-Cookie": "a=b"}), (200, {**FRESH, "Vary": "*"}),
    (200, {"ETag": '"a"'}), (200, {**FRESH, "Age": "3600, 0"}),
    (599, {"Cache-Control": "max-age=3600, no-store, must-understand"}), (200, {"Expires": "0"}),
])
def test_what_must_not_be_reused_is_not(world, status, fields):
    world.says("/x", (status, fields))
    bodies = [world.get("/x").body for _ in range(4)]
    assert len(set(bodies)) == 4


@pytest.mark.parametrize("fields", [
    {**FRESH, "Age": "abc"}, {**FRESH, "Age": "0, 3600"}, {**FRESH, "Age": "-1"},
    {"Expires": "SUN, 06 nov 2094 08:49:37 gmt"}, {"Expires": "Sat Nov  6 08:49:37 2094"}, {"Cache-Control": "max-age=3600, no-store, must-understand"},
])
def test_what_is_odd_but_tells_a_lifetime_is_reused(world, fields):
    world.says("/x", fields)
    body = world.get("/x").body
    assert world.stored("/x").body == body


@pytest.mark.parametrize("status, fields", [
    (200, {}), (203, {}), (405, {}), (414, {}), (501, {}), (302, {"Cache-Control": "public"}), (599, {"Cache-Control": "public"}),
])
def test_a_lifetime_may_be_guessed_from_last_modified(world, status, fields):
    world.says("/x", (status, {**fields, "Last-Modified": LONG_AGO}))
    world.get("/x")
    assert world.stored("/x").status == status


def test_fields_that_private_or_no_cache_name_are_for_the_first_alone(world):
    world.says("/x", {"Cache-Control": 'max-age=3600, private="X-Mine", no-cache="x-once, x-else"', "X-Mine": "1", "X-Once": "2", "X-All": "3"})
    first = world.get("/x")
    assert (first["x-mine"], first["x-once"], first["x-all"]) == ("1", "2", "3")
    copy = world.stored("/x")
    assert (copy["x-mine"], copy["x-once"], copy["x-all"]) == (None, None, "3")


def test_date_is_the_upstreams(world):
    world.says("/dated", {**FRESH, "Date": LONG_AGO, "Cache-Control": "max-age=2147483648"})
    assert world.get("/dated")["date"] == LONG_AGO
    world.says("/odd", {**FRESH, "Date": "Sunday, 06-Nov-94 08:49:37 GMT"})
    assert world.get("/odd").all("date") == [LONG_AGO], "in the one spelling that may be sent"
    world.says("/bad", {**FRESH, "Date": "today"})
    assert world.get("/bad").all("date") not in (["today"], [])
    assert len(world.get("/undated").all("date")) == 1


# ---- asking again ----


def test_a_304_makes_the_copy_as_good_as_new_and_updates_its_fields(world):
    fields = {**SHORT, "ETag": '"a"', "X-Kept": "1", "X-New": "1", "Content-Encoding": "identity"}
    world.says("/x", fields, {**FRESH, "ETag": '"a"', "X-New": "2", "Content-Encoding": "x"})
    body = world.get("/x").body
    answer = world.stale("/x")
    assert (answer.status, answer.body, answer["x-cache"]) == (200, body, "REVALIDATED")
    assert answer["cache-status"].startswith("weir; fwd=stale; fwd-status=304; ") and "; stored" in answer["cache-status"]
    assert (answer["x-kept"], answer["x-new"], answer["content-encoding"]) == ("1", "2", "identity")
    copy = world.stored("/x")
    assert (copy.body, copy["x-new"]) == (body, "2")
    assert [each["if-none-match"] for each in world.requests("/x")] == [None, '"a"']


def test_last_modified_is_a_validator_too(world):
    world.says("/x", {**SHORT, "Last-Modified": LONG_AGO})
    body = world.get("/x").body
    answer = world.stale("/x")
    assert (answer.body, answer["x-cache"]) == (body, "REVALIDATED")
    assert world.requests("/x")[-1]["if-modified-since"] == LONG_AGO


def test_a_copy_that_changed_is_replaced(world):
    world.says("/x", {**SHORT, "ETag": '"a"'}, {**FRESH, "ETag": '"b"'})
    assert world.get("/x")["cache-status"] == "weir; fwd=miss; fwd-status=200; stored"
    answer = world.stale("/x")
    assert (answer.body, answer["cache-status"]) == (world.body("/x", 2), "weir; fwd=stale; fwd-status=200; stored")
    assert world.stored("/x").body == world.body("/x", 2)
    world.nodes[0].ask("PUT", "/x", body=b"x")
    assert world.get("/x")["cache-status"].startswith("weir; fwd=miss;"), "what was invalidated is not stale, but gone"


@pytest.mark.parametrize("control", ["no-cache", "no-cache, max-age=3600", "max-age=0"])
def test_what_is_never_fresh_is_asked_about_before_each_use(world, control):
    world.says("/x", {"Cache-Control": control, "ETag": '"a"'})
    body = world.get("/x").body
    wait_until(lambda: world.get("/x")["x-cache"] == "REVALIDATED", "it is stored")
    asked = len(world.requests("/x"))
    for count in range(1, 4):
        answer = world.get("/x")
        assert answer.body == body or answer["x-cache"] != "REVALIDATED"
        assert len(world.requests("/x")) == asked + count


def test_a_304_that_forbids_to_store_ends_what_is_stored(world):
    world.says("/x", {**SHORT, "ETag": '"a"'}, {"Cache-Control": "no-store", "ETag": '"a"'}, {**FRESH, "ETag": '"c"'})
    body = world.get("/x").body
    assert world.stale("/x").body == body
    assert world.get("/x").body == world.body("/x", 3)


# ---- conditions ----


@pytest.mark.parametrize("asked, status", [
    ({"If-None-Match": '"a"'}, 304), ({"If-None-Match": 'W/"a"'}, 304), ({"If-None-Match": '"x", "a"'}, 304), ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": '"b"'}, 200), ({"If-Modified-Since": LONG_AGO}, 304), ({"If-Modified-Since": LATER}, 304),
    ({"If-Modified-Since": "Sat, 05 Nov 1994 08:49:37 GMT"}, 200), ({"If-None-Match": '"b"', "If-Modified-Since": LATER}, 200),
])
def test_conditions_are_answered_from_the_copy(world, asked, status):
    world.says("/x", {**FRESH, "ETag": '"a"', "Last-Modified": LONG_AGO, "Content-Type": "text/x", "Content-Location": "/y"})
    world.get("/x")
    world.stored("/x")
    answer = world.get("/x", asked)
    assert (answer.status, answer["x-cache"], answer["etag"]) == (status, "HIT", '"a"')
    assert (answer["content-location"], answer["cache-control"], "date" in answer) == ("/y", "max-age=3600", True)
    if status == 304:
        assert (answer.body, answer["content-type"], answer["content-length"]) == (b"", None, None)
    assert len(world.requests("/x")) == 1


def test_a_condition_joins_the_load_of_the_whole(world):
    world.says("/x", {**FRESH, "ETag": '"a"'})
    answer = world.get("/x", {"If-None-Match": '"a"'})
    assert (answer.status, answer.body) == (304, b"")
    assert world.requests("/x")[0]["if-none-match"] is None
    assert world.stored("/x").body == world.body("/x", 1)


@pytest.mark.parametrize("name, value", [("If-Match", '"a"'), ("If-Unmodified-Since", "Mon, 01 Jan 2024 00:00:00 GMT")])
def test_what_only_the_upstream_can_judge_is_its_to_judge(world, name, value):
    world.get("/x")
    world.stored("/x")
    world.get("/x", {name: value})
    assert world.requests("/x")[-1][name.lower()] == value


# ---- ranges ----


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("value, status, first, end", [
    ("bytes=0-1", 206, 0, 2), ("bytes=3-", 206, 3, None), ("bytes=-4", 206, -4, None), ("bytes=0-1,2-4", 206, 0, 5),
    ("bytes=0-1,5-6", 200, 0, None), ("lines=1-2", 200, 0, None), ("bytes=4-3", 200, 0, None), ("bytes=999-", 416, 0, 0),
])
def test_ranges_come_from_the_whole(world, is_stored, value, status, first, end):
    body = world.body("/x", 1)
    if is_stored:
        world.get("/x")
        world.stored("/x")
    answer = world.get("/x", {"Range": value})
    assert (answer.status, answer.body) == (status, body[first:end])
    if status == 206:
        start = first % len(body)
        assert answer["content-range"] == f"bytes {start}-{start + len(answer.body) - 1}/{len(body)}"
    elif status == 416:
        assert answer["content-range"] == f"bytes */{len(body)}"
    asks_for_part = not is_stored and "," not in value and value in ("bytes=0-1", "bytes=3-", "bytes=-4", "bytes=999-")
    assert [each["range"] for each in world.requests("/x")] == [value if asks_for_part else None]
    assert world.stored("/x").body == body, "who was asked for a part and sent the whole has sent the whole"


@pytest.mark.parametrize("asked, status", [('"a"', 206), ('"b"', 200), ('W/"a"', 200), (LONG_AGO, 206), (LATER, 200)])
def test_if_range_needs_a_strong_validator(world, asked, status):
    world.says("/x", {**FRESH, "ETag": '"a"', "Last-Modified": LONG_AGO})
    world.get("/x")
    world.stored("/x")
    assert world.get("/x", {"Range": "bytes=0-1", "If-Range": asked}).status == status


def test_parts_of_what_is_not_kept_come_from_the_upstream(world):
    """Several are asked for with the whole, as which they might be kept; one that is not kept is not read only to be thrown away."""
    world.says("/x", (200, {"Cache-Control": "no-store"}), (206, {"Content-Range": "bytes 0-1/9", "Cache-Control": "no-store"}))
    answer = world.get("/x", {"Range": "bytes=0-1,5-6"})
    assert answer.status == 206
    assert [each["range"] for each in world.requests("/x")] == [None, "bytes=0-1,5-6"]


# ---- what a request wants ----


def test_head_is_answered_from_what_get_stored(world):
    world.get("/x")
    world.stored("/x")
    answer = world.nodes[0].ask("HEAD", "/x")
    assert (answer.status, answer["x-cache"], answer["content-length"]) == (200, "HIT", str(len(world.body("/x", 1))))


@pytest.mark.parametrize("asked", [
    {"Cache-Control": "no-cache"}, {"Cache-Control": "max-age=0"}, {"Cache-Control": "min-fresh=9000"}, {"Pragma": "no-cache"},
])
def test_a_request_may_want_it_fresher_and_the_copy_stays(world, asked):
    world.says("/x", {**FRESH, "ETag": '"a"'})
    body = world.get("/x").body
    world.stored("/x")
    answer = world.get("/x", asked)
    assert (answer.body, len(world.requests("/x"))) == (body, 2)
    assert world.get("/x")["x-cache"] == "HIT"


def test_a_request_may_be_content_with_its_age(world):
    world.says("/x", {**FRESH, "Age": "1800"})
    world.get("/x")
    world.stored("/x")
    assert world.get("/x", {"Cache-Control": "max-age=1900"})["x-cache"] == "HIT"
    assert world.get("/x", {"Cache-Control": "max-age=1700"}).body == world.body("/x", 2)


def test_only_if_cached_never_reaches_the_upstream(world):
    assert world.get("/x", {"Cache-Control": "only-if-cached"}).status == 504
    assert world.requests("/x") == []
    world.get("/x")
    world.stored("/x")
    for _ in world.nodes:
        assert world.get("/x", {"Cache-Control": "only-if-cached"})["x-cache"] == "HIT"


# ---- what changes a resource ends what is stored of it ----


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"])
@pytest.mark.parametrize("status, ends", [(200, True), (204, True), (303, True), (404, False), (500, False)])
def test_an_unsafe_method_ends_what_is_stored_where_it_succeeds(world, method, status, ends):
    world.get("/x?y")
    world.stored("/x?y")
    world.says("/x?y", FRESH, (status, {}), FRESH)
    assert world.nodes[0].ask(method, "/x?y", body=b"z").status == status
    for node in world.nodes:
        assert (node.get("/x?y").body == world.body("/x?y", 1)) != ends


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD"])
def test_a_safe_method_ends_nothing(world, method):
    world.get("/x")
    world.stored("/x")
    world.nodes[0].ask(method, "/x")
    assert world.get("/x")["x-cache"] == "HIT"


@pytest.mark.parametrize("name", ["Location", "Content-Location"])
@pytest.mark.parametrize("value, ends", [
    ("/a/y", True), ("y", True), ("../a/y#z", True), ("http://api.test/a/y", True), ("//api.test/a/y", True),
    ("http://other.test/a/y", False), ("http://api.test:81/a/y", False), ("/a/y?z", False),
])
def test_so_do_the_uris_of_the_same_host_that_it_names(world, name, value, ends):
    world.get("/a/y")
    world.stored("/a/y")
    world.says("/a/x", (201, {name: value}))
    world.nodes[-1].ask("POST", "/a/x", body=b"z")
    for node in world.nodes:
        assert (node.get("/a/y").body == world.body("/a/y", 1)) != ends


# ---- Vary ----


VARIED = {**FRESH, "Vary": "Foo"}


def test_each_variant_is_kept_on_its_own_and_loaded_once(world):
    world.says("/x", VARIED)
    bodies = {value: world.get("/x", {"Foo": value}).body for value in "123"}
    bodies[""] = world.get("/x").body
    assert len(set(bodies.values())) == 4
    for value, body in bodies.items():
        assert world.stored("/x", {"Foo": value} if value else ()).body == body
    assert len(world.requests("/x")) == 4


def test_a_variant_is_for_all_whose_fields_mean_the_same(world):
    world.says("/x", {**FRESH, "Vary": "Foo, Accept-Language, Accept-Encoding"})
    body = world.get("/x", {"Foo": "1, 2", "Accept-Language": "en, de;q=0.5", "Accept-Encoding": "gzip, br", "Else": "1"}).body
    same = [("Foo", "1"), ("Foo", " 2 "), ("Accept-Language", "de;q=0.50,EN"), ("Accept-Encoding", "br;q=0.9, x-gzip, deflate")]
    assert world.stored("/x", same).body == body
    assert len(world.requests("/x")) == 1


def test_what_varies_on_more_than_was_known_is_told_apart_from_then_on(world):
    def fields(request):
        return {**FRESH, "Vary": "Foo, Bar" if request["foo"] == "1" else "Foo"}

    world.says("/x", (200, fields))
    plain = world.get("/x", {"Foo": "0", "Bar": "a"}).body
    a, b = (world.get("/x", {"Foo": "1", "Bar": bar}).body for bar in "ab")
    assert len({plain, a, b}) == 3
    assert world.stored("/x", {"Foo": "0", "Bar": "b"}).body == plain
    assert (world.stored("/x", {"Foo": "1", "Bar": "a"}).body, world.stored("/x", {"Foo": "1", "Bar": "b"}).body) == (a, b)


def test_what_is_coded_is_given_to_nobody_who_did_not_ask_for_it(world):
    """An upstream that compresses without a word in Vary."""
    world.says("/x", (200, lambda request: {**FRESH, **({"Content-Encoding": "gzip"} if request["accept-encoding"] else {})}))
    assert world.get("/x", {"Accept-Encoding": "gzip"})["content-encoding"] == "gzip"
    for node in world.nodes:
        assert node.get("/x")["content-encoding"] is None
    assert world.stored("/x", {"Accept-Encoding": "gzip"})["content-encoding"] == "gzip"


def test_an_unsafe_method_ends_all_variants(world):
    world.says("/x", VARIED)
    before = {world.get("/x", {"Foo": value}).body for value in "12"}
    for value in "12":
        world.stored("/x", {"Foo": value})
    world.nodes[0].ask("DELETE", "/x")
    for node in world.nodes:
        assert not {node.get("/x", {"Foo": value}).body for value in "12"} & before


def test_a_variant_is_confirmed_with_its_own_validator(world):
    world.says("/x", (200, lambda request: {**SHORT, "Vary": "Foo", "ETag": f'"{request["foo"]}"'}))
    bodies = {value: world.get("/x", {"Foo": value}).body for value in "12"}
    for value, body in bodies.items():
        answer = world.stale("/x", {"Foo": value})
        assert (answer.body, answer["x-cache"]) == (body, "REVALIDATED")
        assert world.requests("/x")[-1]["if-none-match"] == f'"{value}"'


# ---- languages ----


def in_language(world, answers):
    """/x says in which language it is: the first of `answers` that the request names, else the last."""
    def fields(request):
        asked = request["accept-language"] or ""
        return {**FRESH, "Vary": "Accept-Language", "Content-Language": next((each for each in answers if each in asked), answers[-1])}

    world.says("/x", (200, fields))


def test_who_wants_a_language_most_is_given_what_is_stored_in_it(world):
    in_language(world, ["de", "fr", "en"])
    body = world.nodes[0].get("/x", {"Accept-Language": "en, de"}).body
    wait_until(lambda: world.nodes[0].get("/x", {"Accept-Language": "en, de"})["x-cache"] == "HIT", "it is stored")
    for wanted in ("fr;q=0.5, de;q=1.0", "de", "DE, *;q=0.1"):
        answer = world.nodes[0].get("/x", {"Accept-Language": wanted})
        assert (answer.body, answer["content-language"], answer["x-cache"]) == (body, "de", "HIT")
    assert len(world.requests("/x")) == 1


@pytest.mark.parametrize("wanted", ["fr, de", "fr, de;q=0.9", "de;q=x", "de-AT", "*"])
def test_who_wants_it_no_more_than_another_is_not(world, wanted):
    in_language(world, ["de", "fr", "en"])
    world.nodes[0].get("/x", {"Accept-Language": "en, de"})
    wait_until(lambda: world.nodes[0].get("/x", {"Accept-Language": "en, de"})["x-cache"] == "HIT", "it is stored")
    assert world.nodes[0].get("/x", {"Accept-Language": wanted})["x-cache"] == "MISS"


def test_what_is_given_for_want_of_a_language_is_not_taken_for_it(world):
    """Who asks for German alone is given English; that says nothing of who would rather have French."""
    in_language(world, ["fr", "en"])
    assert world.nodes[0].get("/x", {"Accept-Language": "de"})["content-language"] == "en"
    wait_until(lambda: world.nodes[0].get("/x", {"Accept-Language": "de"})["x-cache"] == "HIT", "it is stored")
    assert world.nodes[0].get("/x", {"Accept-Language": "de, fr;q=0.5"})["content-language"] == "fr"
