"""A model of three processes on one Redis: random reads, changes, invalidations and deaths, many at once, against one rule: who reads after a change
was answered, or an invalidation acknowledged, gets nothing that was loaded before it began.

WEIR_SEED repeats the draws; WEIR_MODEL_SECONDS is how long it goes on.
"""

import json
import os
import random
import threading
import time

import pytest

from weir import together
from wire import Broken

SECONDS = float(os.environ.get("WEIR_MODEL_SECONDS", 5))
THINGS, READERS, CHANGERS, NODES = 4, 5, 2, 3
ROUTES = [
    {"match": "GET /things/{id}", "cache": {"ttl": "1h", "tags": ["thing:{id}"]}},
    {"match": "GET /soon/{id}", "rewrite": "/things/{id}", "cache": {"ttl": "20ms", "stale_while_revalidate": "1h", "tags": ["thing:{id}"]}},
    {"match": "PUT /things/{id}", "invalidates": ["thing:{id}"]},
    {"match": "PUT /named/{id}", "rewrite": "/things/{id}", "invalidates": ["thing:{json:/id}"]},
]


class Things:
    """An upstream whose things have versions. Answers take their time, so that loads and changes overlap; some fail."""

    def __init__(self, scripted, rng):
        self.versions, self.lock, self.rng = [0] * THINGS, threading.Lock(), random.Random(rng.random())
        self.upstream = scripted(self._answer, each=True)

    def _answer(self, talk, request):
        number = int(request.target.rsplit("/", 1)[1])
        with self.lock:
            before_s, after_s, fails = self.rng.random() * 0.004, self.rng.random() * 0.004, self.rng.random() < 0.03
        time.sleep(before_s)  # not to wait for anything: it chooses what overlaps
        with self.lock:
            self.versions[number] += request.method == "PUT"
            version = self.versions[number]
        time.sleep(after_s)
        if request.method == "GET" and fails:
            talk.answer(status=503)
        else:
            talk.answer(body=json.dumps({"id": number, "version": version}).encode())


class Model:
    def __init__(self, nodes, rng):
        self.nodes, self.floors, self.lock, self.served = nodes, [0] * THINGS, threading.Lock(), 0
        self.rng = random.Random(rng.random())

    def draw(self, *choices):
        with self.lock:
            return [self.rng.choice(choice) for choice in choices]

    def floor(self, number):
        with self.lock:
            return self.floors[number]

    def raise_floor(self, number, version):
        with self.lock:
            self.floors[number] = max(self.floors[number], version)


def ask(node, *words, **more):
    """None where the node is dead, or dies."""
    try:
        return node.ask(*words, **more)
    except (OSError, Broken):
        return None


def read(model):
    node, number, path = model.draw(model.nodes, range(THINGS), ["things", "things", "soon"])
    floor = model.floor(number)
    answer = ask(node, "GET", f"/{path}/{number}")
    if answer is None or answer.status == 503:
        return
    assert answer.status == 200, answer
    version = json.loads(answer.body)["version"]
    assert version >= floor, f"{path}/{number} of version {version} after {floor} was acknowledged: {answer}"
    with model.lock:
        model.served += 1


def change(model, things):
    node, number, way = model.draw(model.nodes, range(THINGS), ["things", "named", "admin"])
    if way != "admin":
        answer = ask(node, "PUT", f"/{way}/{number}")
        if answer is not None and answer.status == 200 and answer["warning"] is None:
            model.raise_floor(number, json.loads(answer.body)["version"])
        return
    with things.lock:
        version = things.versions[number]  # what is loaded from here on is no older
    try:
        answer = node.invalidate(f"thing:{number}")
    except (OSError, Broken):
        return
    if answer.status == 200:
        model.raise_floor(number, version)


def until(moment, action, *words):
    while time.monotonic() < moment:
        action(*words)


def test_no_read_is_older_than_what_was_acknowledged_before_it_began(redis_fleet, scripted, rng):
    things = Things(scripted, rng)
    nodes = redis_fleet.start(things.upstream.url, ROUTES, count=NODES)
    model, end = Model(nodes, rng), time.monotonic() + SECONDS
    configuration = redis_fleet.configuration(things.upstream.url, ROUTES)

    def kill_and_start():
        """One at a time dies with all it has under way, and another one takes its place; sometimes Redis forgets."""
        while time.monotonic() < end:
            time.sleep(SECONDS / 10)  # the load goes on meanwhile
            victim, what = model.draw(range(NODES), ["kill", "kill", "flush", "tags"])
            if what == "kill":
                redis_fleet.remove(nodes[victim])
                nodes[victim] = redis_fleet.add(configuration)
            else:
                redis_fleet.redis.command(*(["FLUSHALL"] if what == "flush" else ["DEL", "weir:tags"]))

    together([kill_and_start] + [lambda: until(end, read, model)] * READERS + [lambda: until(end, change, model, things)] * CHANGERS)
    assert model.served > 50 * SECONDS and sum(model.floors) > SECONDS, "it was about something"
    print(f"{model.served} reads, {sum(things.versions)} changes")


def test_the_rule_would_notice(memory_fleet, scripted, rng):
    """Without the invalidations of a route the same histories break it."""
    things = Things(scripted, rng)
    nodes = memory_fleet.start(things.upstream.url, [{k: v for k, v in route.items() if k != "invalidates"} for route in ROUTES[:2]] + [
        {"match": "PUT /others/{id}", "rewrite": "/things/{id}"}])
    model = Model(nodes, rng)
    for number in range(THINGS):
        assert nodes[0].get(f"/things/{number}").status in (200, 503)
        version = json.loads(nodes[0].ask("PUT", f"/others/{number}").body)["version"]
        model.raise_floor(number, version)
    with pytest.raises(AssertionError, match="was acknowledged"):
        for _ in range(200):
            read(model)
