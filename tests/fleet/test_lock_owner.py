"""The lock's owner: what becomes of a load whose process dies, stalls, or loses the client that began it?"""

import signal
import threading

from weir import Background, wait_until

# Nobody gives up waiting before the lease has run out many times: only who takes over is answered.
CACHED = [{"match": "GET /thing", "cache": {"ttl": "1h", "lock_timeout": "10m", "stale_while_revalidate": "1h", "tags": ["thing"]}}]


def hangs_at_first(scripted):
    """An upstream whose first answer never comes by itself; and what lets it go."""
    gate = threading.Event()

    def answer(talk, _request):
        is_first = len(talk.upstream.requests) == 1
        if is_first:
            gate.wait(120)
        talk.answer(body=b"first" if is_first else b"later")

    return scripted(answer, each=True), gate


def flight_keys(redis):
    return [key for key in redis.keys() if key.startswith(b"weir:f:")]


def is_waited_for(redis):
    """The flight's value says whether anybody wants to be woken."""
    return any((redis.command("GET", key) or b"").split(b" ")[2:3] == [b"1"] for key in flight_keys(redis))


def test_a_killed_owner_is_followed_by_a_waiter_of_another_node(redis_fleet, scripted):
    upstream, gate = hangs_at_first(scripted)
    a, b = redis_fleet.start(upstream.url, CACHED)
    owner = Background(lambda: a.get("/thing"))
    upstream.wait_requests(1)
    waiters = [Background(lambda: b.get("/thing")) for _ in range(5)]
    wait_until(lambda: is_waited_for(redis_fleet.redis), "somebody waits for the owner")
    [lock] = flight_keys(redis_fleet.redis)
    assert 0 < redis_fleet.redis.command("PTTL", lock) <= 3000, "the lease"

    a.signal(signal.SIGKILL)
    redis_fleet.remove(a)
    answers = [waiter.result() for waiter in waiters]
    assert {answer.body for answer in answers} == {b"later"}
    assert sorted(answer["x-cache"] for answer in answers) == ["MISS"] + ["WAIT"] * 4, "one of them took over, within lock_timeout"
    assert len(upstream.requests) == 2
    assert b.get("/thing")["x-cache"] == "HIT", "it was the lock that was taken over: the answer is stored"
    gate.set()
    try:
        owner.result()
    except Exception:  # noqa: BLE001  its node was killed: any failure will do
        pass


def test_an_owner_that_stalls_does_not_overwrite_who_took_over(redis_fleet, scripted):
    upstream, gate = hangs_at_first(scripted)
    a, b = redis_fleet.start(upstream.url, CACHED)
    owner = Background(lambda: a.get("/thing"))
    upstream.wait_requests(1)
    a.signal(signal.SIGSTOP)
    assert b.get("/thing").body == b"later"
    gate.set()
    a.signal(signal.SIGCONT)
    assert owner.result().body == b"first", "its own client is answered"
    wait_until(lambda: a.metric("weir_loads_total", outcome="superseded") == 1, "the store has refused the late answer")
    assert {node.get("/thing").body for node in (a, b)} == {b"later"}
    assert len(upstream.requests) == 2


def test_a_long_load_keeps_its_lock(redis_fleet, scripted):
    """Longer than the lease: it is renewed for as long as its owner lives."""
    upstream, gate = hangs_at_first(scripted)
    a, b = redis_fleet.start(upstream.url, CACHED)
    owner = Background(lambda: a.get("/thing"))
    upstream.wait_requests(1)
    waiter = Background(lambda: b.get("/thing"))
    wait_until(lambda: is_waited_for(redis_fleet.redis), "somebody waits for the owner")
    wait_until(lambda: a.metric("weir_store_duration_seconds_count", operation="renew") >= 4, "more than a lease has passed")
    assert len(upstream.requests) == 1
    gate.set()
    assert (owner.result()["x-cache"], waiter.result()["x-cache"]) == ("MISS", "WAIT")
    assert len(upstream.requests) == 1


def test_a_refresh_whose_owner_is_killed_is_done_by_another(redis_fleet, scripted):
    gate = threading.Event()

    def answer(talk, _request):
        number = len(talk.upstream.requests)
        if number == 2:
            gate.wait(120)
        talk.answer(body=b"%d" % number, fields={"Cache-Control": "max-age=1, stale-while-revalidate=3600"})

    upstream = scripted(answer, each=True)
    a, b = redis_fleet.start(upstream.url, CACHED)
    assert a.get("/thing").body == b"1"
    # asked more than once: a copy turns stale a moment before its entry in the store does, which alone starts a refresh
    wait_until(lambda: a.get("/thing")["x-cache"] == "STALE" and len(upstream.requests) == 2, "it goes stale and is refreshed")
    assert b.get("/thing")["x-cache"] == "STALE", "nobody waits for a refresh"
    assert len(upstream.requests) == 2, "exactly one refreshes"
    a.signal(signal.SIGKILL)
    redis_fleet.remove(a)
    wait_until(lambda: b.get("/thing").body == b"3", "another has refreshed it")
    gate.set()
