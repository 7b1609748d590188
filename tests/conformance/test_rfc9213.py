"""RFC 9213 and Surrogate-Control: does what a response says to this cache alone replace what it says to all, wherever that is read?"""

import pytest

from weir import wait_until
from world import FRESH, LATER, World

STALE = "max-age=0"


@pytest.fixture
def world(fleet, scripted):
    return World(fleet, scripted)


@pytest.mark.parametrize("field", ["CDN-Cache-Control", "Weir-Cache-Control", "Surrogate-Control"])
@pytest.mark.parametrize("beside", [{}, {"Cache-Control": "no-store"}, {"Cache-Control": "private, max-age=0", "Expires": "0"}])
def test_what_is_said_to_us_stores_what_others_must_not(world, field, beside):
    world.says("/x", {field: "max-age=3600", **beside})
    body = world.get("/x").body
    copy = world.stored("/x")
    assert copy.body == body
    assert copy["cache-control"] == beside.get("Cache-Control"), "those behind us are told what was meant for them"
    assert copy[field.lower()] == (None if field == "Surrogate-Control" else "max-age=3600")


@pytest.mark.parametrize("fields", [
    {"CDN-Cache-Control": "no-store"}, {"CDN-Cache-Control": "private"}, {"CDN-Cache-Control": "no-cache"}, {"CDN-Cache-Control": STALE},
    {"Surrogate-Control": "no-store"}, {"Surrogate-Control": "max-age=0"}, {"Surrogate-Control": "no-store-remote"},
    {"CDN-Cache-Control": "max-age=60", "Age": "61"}, {"CDN-Cache-Control": "max-age=60", "Weir-Cache-Control": "no-store"},
])
def test_what_is_said_to_us_keeps_back_what_others_may_store(world, fields):
    world.says("/x", {**FRESH, "Expires": LATER, **fields})
    assert len({world.get("/x").body for _ in range(4)}) == 4


@pytest.mark.parametrize("value", ["max-age=10000, &&&&", 'max-age="10000"', "max-age=10000;", "", "MAX-AGE=10000", "max-age=-1"])
def test_a_structured_field_with_a_mistake_is_not_there(world, value):
    world.says("/kept", {**FRESH, "CDN-Cache-Control": value.replace("10000", "0")})
    world.get("/kept")
    assert world.stored("/kept")["cdn-cache-control"] == value.replace("10000", "0")
    world.says("/not", {"Cache-Control": "no-store", "CDN-Cache-Control": value})
    assert len({world.get("/not").body for _ in range(3)}) == 3


def test_stale_windows_are_the_targeted_fields_own(world):
    windows = {"/own": {"CDN-Cache-Control": "max-age=1, stale-if-error=3600", "Cache-Control": "max-age=1, must-revalidate"},
               "/extended": {"Surrogate-Control": "max-age=1+3600", "Cache-Control": "max-age=0"},
               "/none": {"CDN-Cache-Control": "max-age=1, must-revalidate", "Cache-Control": "max-age=1, stale-if-error=3600"}}
    for target, fields in windows.items():
        world.says(target, fields, (503, {}))
    bodies = {target: world.get(target).body for target in windows}
    assert world.stale("/none").status == 503
    for target in ("/own", "/extended"):
        assert wait_until(lambda t=target: (lambda a: a if a["x-cache"] == "STALE" else None)(world.get(t)), "stale").body == bodies[target]


def test_max_stale_is_forbidden_by_the_targeted_field_not_by_the_other(world):
    takes = {"Cache-Control": "max-stale=1000"}
    world.says("/x", {"CDN-Cache-Control": "max-age=1", "Cache-Control": "must-revalidate", "ETag": '"a"'})
    world.says("/y", {"CDN-Cache-Control": "max-age=1, must-revalidate", "Cache-Control": "max-age=1", "ETag": '"a"'})
    world.get("/x"), world.get("/y")
    wait_until(lambda: world.get("/x", takes)["x-cache"] == "STALE", "it is stale, and will do")
    assert world.stale("/y", takes)["x-cache"] in ("REVALIDATED", "MISS", "BYPASS")


def test_a_304_replaces_the_targeted_field_as_a_whole(world):
    world.says("/x", {"CDN-Cache-Control": "max-age=1, stale-while-revalidate=0", "ETag": '"a"', "Cache-Control": "no-store"},
               {"CDN-Cache-Control": "max-age=3600", "ETag": '"a"'})
    body = world.get("/x").body
    assert world.stale("/x")["x-cache"] == "REVALIDATED"
    copy = world.stored("/x")
    assert (copy.body, copy["cdn-cache-control"], copy["cache-control"]) == (body, "max-age=3600", "no-store")


def test_fields_that_the_targeted_field_names_are_for_the_first_alone(world):
    world.says("/x", {"CDN-Cache-Control": 'max-age=3600, private="x-mine"', "Cache-Control": 'private="x-all"', "X-Mine": "1", "X-All": "2"})
    assert world.get("/x")["x-mine"] == "1"
    copy = world.stored("/x")
    assert (copy["x-mine"], copy["x-all"]) == (None, "2")


def test_connection_cannot_take_the_restriction_away(world):
    world.says("/x", {**FRESH, "CDN-Cache-Control": "no-store", "Connection": "cdn-cache-control"})
    assert len({world.get("/x").body for _ in range(3)}) == 3


def test_surrogate_control_passes_where_we_do_not_cache(fleet, scripted):
    world = World(fleet, scripted, [{"match": "/**"}])
    world.says("/x", {"Surrogate-Control": "max-age=60"})
    assert world.get("/x")["surrogate-control"] == "max-age=60", "we are no surrogate here"
