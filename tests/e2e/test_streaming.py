"""Streaming: what comes without end, or piece by piece, reaches the client as it comes, and is not kept as it grows.

That nothing is held back is proved by turns: the upstream sends the next piece only once the client has the one before.
"""

import os
import threading

import pytest

from weir import Background, wait_until
from wire import request_bytes

ROUTES = {"cached": [{"match": "/**", "cache": {"ttl": "1h"}}], "plain": [{"match": "/**"}]}
NO_QUARANTINE = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}


def in_turns(scripted, head, frame, pieces):
    """An upstream that sends a piece when it is let; and the semaphore that lets it."""
    turns = threading.Semaphore(0)

    def script(talk):
        if talk.read() is None:
            return
        talk.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        for i in range(pieces):
            assert turns.acquire(timeout=120)
            talk.send(frame(b"data: %d\n\n" % i))
        talk.wait_closed()

    return scripted(script), turns


def as_chunk(piece):
    return b"%x\r\n%s\r\n" % (len(piece), piece)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("head, frame", [
    (b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", as_chunk),
    (b"Content-Type: text/event-stream\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n", as_chunk),
    (b"Content-Type: text/event-stream\r\n", bytes),
    (b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n", as_chunk),
], ids=["events", "events-that-call-themselves-fresh", "events-until-close", "lines"])
def test_each_event_reaches_its_client_before_the_next_is_made(memory_fleet, scripted, route, head, frame):
    upstream, turns = in_turns(scripted, head, frame, 5)
    node = memory_fleet.start(upstream.url, ROUTES[route], workers=1)[0]
    with node.connect() as client:
        client.send(request_bytes("GET", "/events"))
        answer = client.reader.head()
        assert answer.status == 200, "the head comes before any event"
        for i in range(5):
            turns.release()
            assert client.reader.until(b"data: %d\n\n" % i) is not None


def test_each_client_of_an_event_stream_has_its_own_at_once(fleet, scripted):
    """Nobody waits for the end of what has none, nor is told what was said before he came."""
    upstream, _ = in_turns(scripted, b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", as_chunk, 1)
    nodes = fleet.start(upstream.url, ROUTES["cached"])
    clients = []
    for i in range(6):
        client = nodes[i % 2].connect()
        client.send(request_bytes("GET", "/events"))
        assert client.reader.head().status == 200
        clients.append(client)
    assert len(upstream.requests) == 6
    for client in clients:
        client.close()


def test_an_endless_answer_that_nobody_keeps_leaves_memory_flat(memory_fleet, scripted):
    """A client reads 64 MiB of a stream that is not to be stored, on a route that stores."""
    size = 64 << 20
    piece = as_chunk(b"x" * 65536)

    def script(talk):
        if talk.read() is not None:
            talk.send(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                talk.send(piece)

    memory_fleet.env = NO_QUARANTINE
    upstream = scripted(script)
    node = memory_fleet.start(upstream.url, ROUTES["cached"], workers=1)[0]
    node.admin("GET", "/metrics")
    node.reset_memory_peak()
    before = node.memory_peak_bytes()
    with node.connect() as client:
        client.send(request_bytes("GET", "/endless"))
        count, room = 0, bytearray(1 << 20)
        while count < size:
            got = client.sock.recv_into(room)
            assert got > 0
            count += got
    assert node.memory_peak_bytes() - before < 8 << 20
    wait_until(lambda: node.metric("weir_client_connections") == 0, "its connection is over")


@pytest.mark.parametrize("length", ["known", "unknown"])
def test_what_proves_longer_than_max_object_reaches_all_who_ride_and_holds_nobody_up(fleet, scripted, length):
    """Those who have begun to read go on, whoever comes later goes alone; memory is bounded by the object's limit."""
    first, rest = os.urandom(30_000), os.urandom(400_000)
    gate = threading.Event()

    def answer(talk, request):
        is_first = len(talk.upstream.requests) == 1
        if length == "known":
            talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(first) + len(rest)) + first)
        else:
            talk.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + as_chunk(first))
        if is_first:
            gate.wait(120)
        talk.send(rest if length == "known" else as_chunk(rest) + b"0\r\n\r\n")

    upstream = scripted(answer, each=True)
    routes = [{"match": "/**", "cache": {"ttl": "1h", "max_object": "64KiB", "lock_timeout": "10m"}}]
    nodes = fleet.start(upstream.url, routes, workers=1)
    clients = [Background(lambda i=i: nodes[i % 2].get("/large").body) for i in range(10)]
    if length == "known":  # and so known to be too long: each has his own
        upstream.wait_requests(10)
    else:
        wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(nodes)) >= 10, "all have come")
    gate.set()
    assert {client.result() for client in clients} == {first + rest}
    assert nodes[0].get("/large").body == first + rest
    assert nodes[1].get("/large")["x-cache"] != "HIT", "it is not kept"
    if length == "unknown" and nodes[0] is nodes[1]:
        assert len(upstream.requests) == 3, "one for all who rode, and one each for those who came later"
