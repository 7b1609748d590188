"""RFC 9111 section 3.5: what an upstream that knows the client answers is for others only where it says so."""

import threading

import pytest

from weir import Background, wait_until
from wire import PATIENCE_S
from world import FRESH

ALICE, BOB = {"Authorization": "Basic YTpi"}, {"Authorization": "Basic Yjpj"}


@pytest.mark.parametrize("control", ["max-age=3600, public", "max-age=3600, must-revalidate", "s-maxage=3600", "public, s-maxage=3600, max-age=0"])
def test_what_permits_it_is_kept_for_all(world, control):
    world.says("/x", {"Cache-Control": control})
    body = world.get("/x", ALICE).body
    for fields in (BOB, (), ALICE):
        assert world.stored("/x", fields).body == body
    assert len(world.requests("/x")) == 1


@pytest.mark.parametrize("control", [
    "max-age=3600", "max-age=3600, s-maxage=foo", "max-age=3600, public=1", "max-age=3600, public; x", "max-age=3600, must-revalidate=1",
    "max-age=3600, private, public",
])
def test_what_does_not_is_for_who_asked(world, control):
    world.says("/x", {"Cache-Control": control})
    bodies = [world.get("/x", fields).body for fields in (ALICE, BOB, ALICE, BOB)]
    assert len(set(bodies)) == 4
    assert [each["authorization"] for each in world.requests("/x")] == [each["Authorization"] for each in (ALICE, BOB, ALICE, BOB)]
    assert world.get("/x").body not in bodies


def test_what_was_stored_for_nobody_in_particular_is_not_for_whom_the_upstream_knows(world):
    body = world.get("/x").body
    world.stored("/x")
    for _ in world.nodes:
        answer = world.get("/x", ALICE)
        assert (answer.body != body, answer["x-cache"]) == (True, "BYPASS")
        assert "detail=authorization" in answer["cache-status"]
    assert world.get("/x", {**ALICE, "Cache-Control": "only-if-cached"}).status == 504
    assert world.stored("/x").body == body


class Held:
    """Answers of which those are held back that `holds` names, until open()."""

    def __init__(self, holds, fields):
        self.holds, self.fields, self.opened = holds, fields, threading.Event()

    def __call__(self, request):
        if self.holds(request):
            self.opened.wait(PATIENCE_S)
        return self.fields


def test_who_is_known_waits_for_nobody(world):
    """While the answer for all is on its way, here or through another."""
    held = Held(lambda request: "authorization" not in request, FRESH)
    world.says("/x", (200, held))
    first = Background(lambda: world.nodes[0].get("/x"))
    wait_until(lambda: world.requests("/x"), "it is being loaded")
    for node in world.nodes:
        answer = node.get("/x", ALICE)
        assert answer.status == 200 and "detail=authorization" in answer["cache-status"]
    held.opened.set()
    assert first.result().body == world.stored("/x").body


def test_who_waited_for_what_is_anothers_asks_once_for_all(world):
    held = Held(lambda request: "authorization" in request, FRESH)
    world.says("/x", (200, held))
    known = Background(lambda: world.nodes[0].get("/x", ALICE))
    wait_until(lambda: world.requests("/x"), "Alice's is being loaded")
    others = [Background(lambda node=node: node.get("/x")) for node in world.nodes for _ in range(10)]
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(world.nodes)) >= 21, "all of them wait")
    held.opened.set()
    answers = {each.result().body for each in others}
    assert len(answers) == 1 and known.result().body not in answers
    assert len(world.requests("/x")) == 2


def test_a_failure_for_one_who_is_known_fails_nobody_else(world):
    held = Held(lambda request: "authorization" in request, {})
    world.says("/x", (503, held), (200, FRESH))
    known = Background(lambda: world.nodes[0].get("/x", ALICE))
    wait_until(lambda: world.requests("/x"), "Alice's is being loaded")
    other = Background(lambda: world.nodes[-1].get("/x"))
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(world.nodes)) >= 2, "another waits")
    held.opened.set()
    assert (known.result().status, other.result().status) == (503, 200)
