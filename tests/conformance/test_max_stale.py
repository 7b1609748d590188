"""RFC 9111 section 5.2.1.2: who takes what is stale is given it, from whichever node it is stored on, unless the answer forbids that."""

from weir import wait_until

STALE_SOON = {"ETag": '"a"', "Age": "3599"}
FORBIDDEN = [
    ("max-age=3600, must-revalidate", "max-stale"), ("max-age=3600, proxy-revalidate", "max-stale"), ("s-maxage=3600", "max-stale"),
    ("max-age=3600, no-cache", "max-stale"), ("max-age=3600", "max-stale=0"), ("max-age=3600", "max-stale=x"), ("max-age=3600", "max-stale, max-age=60"),
    ("max-age=3600", "max-stale, min-fresh=1"), ("max-age=3600", "max-stale, no-cache"), ("max-age=3600, stale-if-error=600", "max-stale=0"),
]


def load(world, target, control):
    """A copy of it that is stale in a second; its body."""
    world.says(target, {"Cache-Control": control, **STALE_SOON}, {"Cache-Control": "no-store"})
    return world.nodes[0].get(target).body


def test_any_node_gives_it(world):
    body = load(world, "/x", "max-age=3600")
    wait_until(lambda: world.nodes[0].get("/x", {"Cache-Control": "only-if-cached"}).status == 504, "it is stale")
    for asked in ("max-stale", "max-stale=60"):
        for node in reversed(world.nodes):  # the last has never had it
            answer = node.get("/x", {"Cache-Control": asked})
            assert (answer.body, answer["x-cache"] in ("STALE", "HIT"), int(answer["age"]) >= 3599) == (body, True, True)
    assert len(world.requests("/x")) == 1


def test_not_where_the_answer_forbids_it_or_it_is_too_much(world):
    bodies = [load(world, f"/{at}", control) for at, (control, _) in enumerate(FORBIDDEN)]
    for at, (_, asked) in enumerate(FORBIDDEN):
        wait_until(lambda at=at, asked=asked: world.nodes[-1].get(f"/{at}", {"Cache-Control": asked}).body != bodies[at], FORBIDDEN[at])
