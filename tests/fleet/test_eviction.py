"""Eviction: does anything invalidated come back when Redis throws keys away by itself, the tag table among them?

Two nodes, whose near caches are too small to keep anything, ask for three times as many things as Redis has room for, while a third
client invalidates them and now and then takes the tag table away, as an allkeys policy may. The upstream numbers its answers: one
that had been made when an invalidation began must not be given to whoever asks after that was acknowledged.
"""

import json
import random
import threading
import time

import pytest

THINGS, BYTES = 240, 6000
ROUTES = [{"match": "GET /headers", "cache": {"ttl": "1h", "tags": ["thing:{query:id}"]}}]


def used_bytes(redis):
    return int(next(line for line in redis.command("INFO", "memory").splitlines() if line.startswith(b"used_memory:"))[12:])


def evicted(redis):
    return int(next(line for line in redis.command("INFO", "stats").splitlines() if line.startswith(b"evicted_keys:"))[13:])


class Watch:
    """What has been told, and what may still be told."""

    def __init__(self):
        self.lock, self.newest, self.bounds, self.told, self.hits = threading.Lock(), 0, {}, 0, 0

    def bound_of(self, thing):
        with self.lock:
            return self.bounds.get(thing, 0)

    def note(self, thing, bound, answer):
        assert answer.status == 200
        call = int(answer["x-upstream-call"])
        assert call > bound, f"thing {thing}: call {call} was told after all up to {bound} had been invalidated"
        with self.lock:
            self.newest = max(self.newest, call)
            self.told += 1
            self.hits += answer["x-cache"] == "HIT"

    def begin(self):
        """What an invalidation that begins now will end: all that has been told was made before."""
        with self.lock:
            return self.newest

    def acknowledged(self, thing, bound):
        with self.lock:
            self.bounds[thing] = bound


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-ttl", "volatile-lru"])
def test_nothing_invalidated_comes_back(redis_fleet, upstream, rng, policy):
    redis, watch, is_over = redis_fleet.redis, Watch(), threading.Event()
    nodes = redis_fleet.start(upstream.url, ROUTES, near_cache={"size": "64KiB", "max_object": "1KiB"})
    redis.command("CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", used_bytes(redis) + THINGS // 3 * (BYTES + 1000))
    seeds = [rng.getrandbits(32) for _ in range(5)]

    def ask(connection, thing):
        bound = watch.bound_of(thing)
        watch.note(thing, bound, connection.ask("GET", f"/headers?_ms=1&_bytes={BYTES}&id={thing}"))

    def read(node, seed):
        dice = random.Random(seed)
        with node.connect() as connection:
            while not is_over.is_set():
                ask(connection, min(dice.randrange(THINGS), dice.randrange(THINGS)))  # some more often than others

    failures = []

    def reader(node, seed):
        try:
            read(node, seed)
        except BaseException as failure:  # noqa: BLE001  raised below
            failures.append(failure)
            is_over.set()

    readers = [threading.Thread(target=reader, args=(nodes[i % 2], seeds[i]), daemon=True) for i in range(4)]
    for each in readers:
        each.start()
    dice, rounds, tables, give_up_at = random.Random(seeds[4]), 0, 0, time.monotonic() + 60
    while not is_over.is_set() and (rounds < 200 or evicted(redis) < 100 or watch.hits < 100):
        assert time.monotonic() < give_up_at, f"{evicted(redis)} evicted, {watch.hits} of {watch.told} hits after {rounds} rounds"
        thing, rounds = min(dice.randrange(THINGS), dice.randrange(THINGS)), rounds + 1
        bound = watch.begin()
        answer = nodes[rounds % 2].invalidate(f"thing:{thing}")
        assert answer.status == 200 and json.loads(answer.body)["epoch"] > 0, "recorded: what is full still takes invalidations"
        watch.acknowledged(thing, bound)
        for node in nodes:
            with node.connect() as connection:
                ask(connection, thing)
        if evicted(redis) >= 20 * (tables + 1):  # everything is void then, and Redis has to fill up again
            tables += redis.command("UNLINK", "weir:tags")
    is_over.set()
    for each in readers:
        each.join(60)
    if failures:
        raise failures[0]
    assert tables >= 3, "it was about that"
