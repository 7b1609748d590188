"""Limits of what runs at a time with when_refused: wait. Who finds no slot stands in line for one."""

import json
import threading

import pytest

from weir import Background, together, wait_until
from wire import request_bytes


def as_client(name):
    return [("x-api-key", name)]


@pytest.fixture
def gate(scripted):
    """An upstream that holds each request until it is let go, one after the other, and knows how many it held at a time."""

    class Gate:
        def __init__(self):
            self.free, self.lock, self.now, self.most = threading.Semaphore(0), threading.Lock(), 0, 0
            self.upstream = scripted(self.answer, each=True)

        def answer(self, talk, request):
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            self.free.acquire(timeout=60)
            with self.lock:
                self.now -= 1
            talk.answer(200, body=request.target.encode())

        def let_go(self, count=1):
            self.free.release(count)

    return Gate()


def slots(most, **more):
    return {"key": "global", "algorithm": "concurrency", "max": most, **more}


def distinct(nodes):
    return list({id(node): node for node in nodes}.values())


def waiting(nodes):
    return sum(node.metric("weir_limit_waiting", limit="slots") for node in distinct(nodes))


def test_who_finds_no_slot_waits_until_one_is_free(fleet, gate):
    nodes = fleet.start(gate.upstream.url, [{"match": "/**", "limits": ["slots"]}], {"slots": slots(3, when_refused="wait", max_wait="1m")})
    asked = [Background(lambda at=at: nodes[at % 2].get(f"/{at}")) for at in range(15)]
    gate.upstream.wait_requests(3)
    wait_until(lambda: waiting(nodes) == 12, "the others wait")
    for done in range(1, 13):
        gate.let_go()
        gate.upstream.wait_requests(3 + done)
    gate.let_go(3)
    assert [each.result().status for each in asked] == [200] * 15
    assert gate.most == 3, "never more at a time"
    assert sum(node.metric("weir_limit_decisions_total", limit="slots", outcome="refused") for node in distinct(nodes)) == 0


def test_slots_are_had_in_order_of_arrival(redis_fleet, gate):
    node = redis_fleet.start(gate.upstream.url, [{"match": "/**", "limits": ["slots"]}], {"slots": slots(1, when_refused="wait", max_wait="1m")}, count=1)[0]
    asked = []
    for at in range(8):
        asked.append(Background(lambda at=at: node.get(f"/{at}")))
        wait_until(lambda at=at: len(gate.upstream.requests) + waiting([node]) == at + 1, "it is in, or in line")
    gate.let_go(8)
    assert [each.result().status for each in asked] == [200] * 8
    assert [request.target for request in gate.upstream.requests] == [f"/{at}" for at in range(8)]


def test_who_waits_in_vain_is_told_that_all_slots_are_taken(fleet, gate):
    nodes = fleet.start(gate.upstream.url, [{"match": "/**", "limits": ["slots"]}], {"slots": slots(1, when_refused="wait", max_wait="100ms")})
    first = Background(lambda: nodes[0].get("/"))
    gate.upstream.wait_requests(1)
    answers = together([lambda at=at: nodes[at % 2].get("/") for at in range(6)])
    for answer in answers:
        assert (answer.status, json.loads(answer.body)["code"], "retry-after" in answer) == (429, "concurrency_limit_hit", False)
    gate.let_go()
    assert first.result().status == 200


def test_a_client_that_leaves_the_line_takes_no_slot_with_it(fleet, gate):
    nodes = fleet.start(gate.upstream.url, [{"match": "/**", "limits": ["slots"]}], {"slots": slots(1, when_refused="wait", max_wait="1m")})
    first = Background(lambda: nodes[0].get("/first"))
    gate.upstream.wait_requests(1)
    leaving = [nodes[at % 2].connect() for at in range(6)]
    for connection in leaving:
        connection.send(request_bytes("GET", "/left"))
    wait_until(lambda: waiting(nodes) == 6, "they wait")
    last = Background(lambda: nodes[1].get("/last"))
    wait_until(lambda: waiting(nodes) == 7, "and one more")
    for connection in leaving:
        connection.close()
    wait_until(lambda: waiting(nodes) == 1, "they have left")
    gate.let_go(2)
    assert first.result().status == last.result().status == 200
    assert len(gate.upstream.requests) == 2


def test_a_rate_that_makes_wait_holds_no_slot_meanwhile(fleet, gate):
    """Refused by one of two is refused by both: the slot that there was is not kept for whom the rate makes wait."""
    limits = {"slots": slots(1, when_refused="wait", max_wait="1m"), "rate": {"key": "header:x-api-key", "algorithm": "token_bucket", "rate": "1/30s", "when_refused": "wait", "max_wait": "1m"}}
    nodes = fleet.start(gate.upstream.url, [{"match": "/**", "limits": ["slots", "rate"]}], limits)
    gate.let_go(10)
    assert nodes[0].get("/", as_client("k")).status == 200
    with nodes[0].connect() as connection:
        connection.send(request_bytes("GET", "/", as_client("k")))
        wait_until(lambda: nodes[0].metric("weir_limit_waiting", limit="rate") == 1, "it waits for the rate")
        for at in range(6):
            assert nodes[at % 2].get("/", as_client(f"other{at}")).status == 200, "the slot is free for others"
        assert nodes[0].metric("weir_limit_waiting", limit="rate") == 1

