"""Load: do many connections, large answers and slow readers fit into one worker and little memory?"""

import os
import resource
import socket

import pytest

from weir import Background, wait_until
from wire import request_bytes

PASS = [{"match": "GET /products/{id}", "cache": {"ttl": "1h"}}, {"match": "/**"}]
PATTERN = b"abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(autouse=True)
def enough_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_thousand_idle_and_five_hundred_active_connections_in_one_worker(fleet, upstream):
    a = fleet.start(upstream.url, PASS, workers=1)[0]
    idle = [a.connect() for _ in range(2000)]
    for client in idle[::10]:  # some have been used, most have said nothing yet
        client.send(request_bytes("GET", "/products/1"))
    for client in idle[::10]:
        assert client.answer().status == 200
    active = [a.connect() for _ in range(500)]
    wait_until(lambda: a.metric("weir_client_connections") == 2500, "all are connected")
    for round_number in range(3):
        for i, client in enumerate(active):  # all ask before anyone is answered
            client.send(request_bytes("GET", f"/products/{i % 100}" if i % 2 else "/slow/100"))
        assert {client.answer().status for client in active} == {200}
    assert a.metric("weir_client_connections") == 2500
    for client in idle:
        client.send(request_bytes("GET", "/products/1"))
    assert {client.answer().status for client in idle} == {200}, "idle ones still serve"
    assert upstream.calls("GET /products/1") == 1
    for client in idle + active:
        client.close()
    wait_until(lambda: a.metric("weir_client_connections") == 0, "all are gone")


# A build under AddressSanitizer keeps freed memory for a while; not here, where it is memory that is measured.
NO_QUARANTINE = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}

LARGE = 80 << 20
ALLOWED_GROWTH = 16 << 20


@pytest.mark.parametrize("target", [f"/size/{LARGE}", f"/chunked/{LARGE}"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_large_answer_through_a_slow_client_keeps_memory_flat(fleet, upstream, target, is_cached):
    """The client reads only when nothing moves any more: everything on the way is then as full as it gets."""
    route = {"match": "/**", **({"cache": {"ttl": "1h"}} if is_cached else {})}
    fleet.env = NO_QUARANTINE
    a = fleet.start(upstream.url, [route], workers=1)[0]
    assert a.get("/size/100000").status == 200
    a.reset_memory_peak()
    before = a.memory_peak_bytes()
    with a.connect(receive_buffer=65536) as client:
        client.send(request_bytes("GET", target))
        wait_until(lambda: upstream.calls(f"GET {target}") == 1, "it is under way")
        wait_until(Quiet(a, upstream), "nothing moves any more")
        assert a.memory_peak_bytes() - before < ALLOWED_GROWTH, "while the client reads nothing"
        answer = client.answer()
        assert len(answer.body) == LARGE
        assert answer.body[-26:] == (PATTERN * 2)[LARGE % 26 :][:26]
    assert a.memory_peak_bytes() - before < ALLOWED_GROWTH, "after it has read all"


class Quiet:
    """True once both have used no processor time for a while: what could be sent has been sent."""

    def __init__(self, *processes):
        self.processes, self.in_a_row, self.seen = processes, 0, None

    def __call__(self):
        now = [self._ticks(process.pid) for process in self.processes]
        self.in_a_row = self.in_a_row + 1 if now == self.seen else 0
        self.seen = now
        return self.in_a_row == 25

    @staticmethod
    def _ticks(pid):
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])


def test_many_slow_readers_of_one_answer_share_its_memory(memory_fleet, upstream):
    """Thirty clients of one object of 8 MiB, none of whom reads: the object is held once."""
    size = 8 << 20
    memory_fleet.env = NO_QUARANTINE
    a, _ = memory_fleet.start(upstream.url, [{"match": "/**", "cache": {"ttl": "1h"}}], workers=1)
    assert len(a.get(f"/size/{size}").body) == size
    assert a.get(f"/size/{size}")["x-cache"] == "HIT"
    a.reset_memory_peak()
    before = a.memory_peak_bytes()
    clients = [a.connect(receive_buffer=8192) for _ in range(30)]
    for client in clients:
        client.send(request_bytes("GET", f"/size/{size}"))
    for client in clients:
        client.reader.until(b"\r\n\r\n")
    assert a.memory_peak_bytes() - before < ALLOWED_GROWTH
    done = [Background(lambda client=client: client.sock.shutdown(socket.SHUT_RDWR)) for client in clients[:15]]
    for each in done:
        each.result()
    for client in clients[15:]:
        body = bytearray()
        client.reader.exactly(size, body)
        assert len(body) == size
        client.close()
    assert upstream.calls(f"GET /size/{size}") == 1


def test_a_large_upload_is_passed_on_whole(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS, workers=1)
    body = PATTERN * (60 << 20 >> 5)
    answer = a.ask("POST", "/echo", body=body)
    assert answer.status == 200 and f'"body_bytes":{len(body)}' in answer.text
