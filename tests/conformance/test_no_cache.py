"""RFC 9111 sections 5.2.1.1, 5.2.1.3, 5.2.1.4 and 5.4: what a client asks for anew takes the place of what was stored. A node that holds a
copy near goes on with that while it is fresh: nobody has said that it is wrong."""

import threading

import pytest

from weir import Background, wait_until
from wire import PATIENCE_S
from world import FRESH

ANEW = [{"Cache-Control": "no-cache"}, {"Cache-Control": "max-age=0"}, {"Cache-Control": "min-fresh=9000"}, {"Pragma": "no-cache"}]


def stored_on_the_first(world, fields=()):
    """Loaded by the first node, and known to no other yet; its body."""
    body = world.nodes[0].get("/x", fields).body
    wait_until(lambda: world.nodes[0].get("/x", fields)["x-cache"] == "HIT", "it is stored")
    return body


@pytest.mark.parametrize("asked", ANEW)
def test_what_is_new_is_for_all(world, asked):
    old = stored_on_the_first(world)
    answer = world.nodes[0].get("/x", asked)
    assert (answer.body != old, answer["x-cache"]) == (True, "MISS")
    assert answer["cache-status"] == "weir; fwd=request; fwd-status=200; stored"
    for node in world.nodes:
        wait_until(lambda node=node: node.get("/x").body == answer.body, "all have the new one")
    assert len(world.requests("/x")) == 2


@pytest.mark.parametrize("asked", ANEW)
def test_what_is_still_the_same_is_confirmed_for_all(world, asked):
    world.says("/x", {"Cache-Control": "max-age=3600", "ETag": '"a"', "X-N": "1"}, {"Cache-Control": "max-age=3600", "ETag": '"a"', "X-N": "2"})
    body = stored_on_the_first(world)
    answer = world.nodes[0].get("/x", asked)
    assert (answer.status, answer.body, answer["x-cache"], answer["x-n"]) == (200, body, "REVALIDATED", "2")
    assert answer["cache-status"].startswith("weir; fwd=request; fwd-status=304; ")
    assert world.requests("/x")[-1]["if-none-match"] == '"a"'
    for node in world.nodes:
        wait_until(lambda node=node: node.get("/x")["x-n"] == "2", "all have its new fields")
    assert len(world.requests("/x")) == 2


def test_a_variant_is_renewed_as_one(world):
    world.says("/x", {**FRESH, "Vary": "Foo"})
    old = {value: stored_on_the_first(world, {"Foo": value}) for value in "12"}
    new = world.nodes[0].get("/x", {"Foo": "1", "Cache-Control": "no-cache"}).body
    assert new not in old.values()
    for node in world.nodes:
        wait_until(lambda node=node: node.get("/x", {"Foo": "1"}).body == new, "all have the new one")
        assert node.get("/x", {"Foo": "2"}).body == old["2"]


@pytest.mark.parametrize("status, fields", [(503, {}), (200, {"Cache-Control": "no-store"}), (200, {"Cache-Control": "private"}), (200, {"Set-Cookie": "a=b"})])
def test_what_cannot_be_shared_takes_nothing_from_others(world, status, fields):
    """Whoever can provoke such an answer must not be able to empty the cache."""
    world.says("/x", FRESH, (status, {**FRESH, **fields} if "Set-Cookie" in fields else fields))
    old = world.get("/x").body
    world.stored("/x")
    assert world.nodes[0].get("/x", {"Cache-Control": "no-cache"}).status == status
    for node in world.nodes:
        answer = node.get("/x")
        assert (answer.body, answer["x-cache"]) == (old, "HIT")


def test_others_are_served_while_it_is_asked_for_and_who_wants_it_anew_too_asks_himself(world):
    """What began to be loaded before he asked may be older than what he has just changed."""
    held = threading.Event()

    def fields(request):
        if request["x-hold"]:
            held.wait(PATIENCE_S)
        return FRESH

    world.says("/x", (200, fields))
    old = world.get("/x").body
    world.stored("/x")
    first = Background(lambda: world.nodes[0].get("/x", {"Cache-Control": "no-cache", "X-Hold": "1"}))
    wait_until(lambda: len(world.requests("/x")) == 2, "it is asked for")
    for node in world.nodes:
        assert node.get("/x").body == old
        assert node.get("/x", {"Cache-Control": "no-cache"}).body != old
    held.set()
    assert first.result().body != old


def test_what_was_not_stored_is_from_then_on(world):
    body = world.get("/x", {"Cache-Control": "no-cache"}).body
    assert world.stored("/x").body == body


def test_what_an_invalidation_overtakes_is_not_kept(world):
    """The renewal began before the change."""
    held = threading.Event()

    def fields(request):
        if request["x-hold"]:
            held.wait(PATIENCE_S)
        return FRESH

    world.says("/x", (200, fields))
    world.get("/x")
    world.stored("/x")
    renewal = Background(lambda: world.nodes[0].get("/x", {"Cache-Control": "no-cache", "X-Hold": "1"}))
    wait_until(lambda: len(world.requests("/x")) == 2, "it is asked for")
    world.nodes[-1].ask("DELETE", "/x")
    held.set()
    overtaken = renewal.result().body
    for node in world.nodes:
        assert node.get("/x").body != overtaken
