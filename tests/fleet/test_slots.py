"""Concurrency limits: never more at a time than `max`, in the whole fleet, and every slot comes back, however its request ends.

What is free is asked for by a request of its own: its answer says what is left beside it.
"""

import json
import os
import signal
import threading
import time

import pytest

from weir import Background, together, wait_until
from wire import Connection, request_bytes

MAX = 20
ROUNDS = int(os.environ.get("WEIR_ROUNDS", "5"))
SLOTS = {"slots": {"key": "header:x-api-key", "algorithm": "concurrency", "max": MAX}}
CACHE = {"ttl": "1h"}


def route(match="/**", *limits, **more):
    return {"match": match, "limits": list(limits or ["slots"]), **more}


def as_client(name):
    return {"X-Api-Key": name}


class Gate:
    """An upstream that answers /held once it is opened, and everything else at once."""

    def __init__(self, scripted):
        self.opened = threading.Event()
        self.upstream = scripted(self._answer, each=True)
        self.url = self.upstream.url

    def _answer(self, talk, request):
        if request.target.startswith("/held"):
            self.opened.wait(60)
        if request.target.startswith("/broken"):
            talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nno more")
            talk.reset()
        elif request.target.startswith("/nothing"):
            talk.reset()
        else:
            talk.answer(200, body=b"x" * (1 << 20) if request.target.startswith("/large") else b"x")


@pytest.fixture
def gate(scripted):
    made = Gate(scripted)
    yield made
    made.opened.set()


def left(answer):
    return int(answer["ratelimit-remaining"])


def wait_all_free(node, name, free=MAX):
    """Until a request of that client finds all other slots free."""
    def is_free():
        answer = node.get("/probe", as_client(name))
        return answer.status == 200 and left(answer) == free - 1

    wait_until(is_free, f"all {free} slots are free again")


def holds_in_redis(fleet):
    return [key for key in fleet.redis.keys() if key.startswith(b"weir:h:")]


def wait_nothing_held(fleet, node, name="a"):
    wait_all_free(node, name)
    if fleet.redis:
        wait_until(lambda: not holds_in_redis(fleet), "nothing is held in Redis")


def decided(nodes, outcome):
    return sum(node.metric("weir_limit_decisions_total", limit="slots", outcome=outcome) for node in set(nodes))


def hold(nodes, gate, count, name="a", target="/held"):
    """So many requests under way, which have reached the upstream."""
    before = len(gate.upstream.requests)
    asked = [Background(lambda at=at: nodes[at % 2].get(target, as_client(name))) for at in range(count)]
    gate.upstream.wait_requests(before + count)
    return asked


def eighty_at_once(fleet, nodes, gate, name):
    before = len(gate.upstream.requests)
    gate.opened.clear()
    asked = [Background(lambda at=at: nodes[at % len(nodes)].get("/held", as_client(name))) for at in range(4 * MAX)]
    wait_until(lambda: sum(each.is_over() for each in asked) == 3 * MAX, "the others are refused while those run")
    assert len(gate.upstream.wait_requests(before + MAX)) == before + MAX
    gate.opened.set()
    answers = [each.result() for each in asked]
    assert sorted(answer.status for answer in answers) == [200] * MAX + [429] * 3 * MAX
    wait_nothing_held(fleet, nodes[1], name)
    assert sorted(left(answer) for answer in answers if answer.status == 200) == list(range(MAX)), "each was told what it left"


def test_of_eighty_at_once_on_two_nodes_exactly_twenty_run_in_every_round(fleet, gate):
    nodes = fleet.start(gate.url, [route()], SLOTS)
    for turn in range(ROUNDS):
        eighty_at_once(fleet, nodes, gate, f"client {turn}")


def test_three_nodes_are_no_less_exact(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], SLOTS, count=3)
    for turn in range(ROUNDS):
        eighty_at_once(redis_fleet, nodes, gate, f"client {turn}")


def test_how_many_run_at_a_time_is_the_plans_to_say(fleet, gate):
    plans = {"default": "free", "free": 2, "pro": {"max": 5}, "same": {}}
    nodes = fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "max": 3, "lease": "1h", "plans": plans}})

    def sell(plan):
        body = json.dumps({"plan": plan}).encode()
        assert nodes[0].admin("PUT", "/api/clients/a", {"Content-Type": "application/json"}, body).status == 200

    def quota(node):
        return int(node.get("/probe", as_client("a"))["ratelimit-policy"].split("q=")[1].split(";")[0])

    hold(nodes, gate, 2)
    assert [node.get("/probe", as_client("a")).status for node in nodes] == [429, 429]
    for plan, most in (("pro", 5), ("same", 3), ("pro", 5)):
        sell(plan)
        wait_until(lambda most=most: all(quota(node) == most for node in nodes), "the plan holds")
    hold(nodes, gate, 3)
    assert [node.get("/probe", as_client("a")).status for node in nodes] == [429, 429], "what is held stays held"
    state = json.loads(nodes[0].admin("GET", "/api/limits/slots/a").body)
    assert (state["algorithm"], state["plan"], state["quota"], state["available"]) == ("concurrency", "pro", 5, 0)
    assert state["retry_after_ms"] is None, "nobody knows when a slot will be free"
    assert json.loads(nodes[0].admin("DELETE", "/api/limits/slots/a").body)["was_used"]
    wait_until(lambda: all(left(node.get("/probe", as_client("a"))) == 4 for node in nodes), "a reset frees all slots")
    gate.opened.set()
    wait_all_free(nodes[0], "a", 5)


def test_rounds_of_bursts_leave_nothing_behind(fleet, gate):
    nodes = fleet.start(gate.url, [route()], SLOTS)
    gate.opened.set()
    for _ in range(10):
        answers = together([lambda at=at: nodes[at % 2].get("/held", as_client("a")) for at in range(3 * MAX)])
        assert {answer.status for answer in answers} <= {200, 429}
    wait_nothing_held(fleet, nodes[0])


def test_a_refusal_says_so_and_names_no_time(fleet, gate):
    nodes = fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "max": 1}})
    asked = hold(nodes, gate, 1)
    refused = nodes[1].get("/held", as_client("a"))
    problem = json.loads(refused.body)
    assert (refused.status, problem["code"], problem["limit"], problem["violated-policies"]) == (
        429, "concurrency_limit_hit", "slots", ["slots"])
    assert "retry-after" not in refused and "retry_after_ms" not in problem
    assert refused["proxy-status"] == "weir; error=http_request_denied"
    assert refused["ratelimit-policy"] == '"slots";q=1;qu="concurrent-requests"'
    assert refused["ratelimit"] == '"slots";r=0'
    assert (refused["ratelimit-limit"], refused["ratelimit-remaining"]) == ("1", "0")
    assert "ratelimit-reset" not in refused
    assert nodes[0].get("/probe", as_client("b")).status == 200, "another one's slot is free"
    gate.opened.set()
    assert asked[0].result().status == 200
    wait_until(lambda: nodes[1].get("/probe", as_client("a")).status == 200, "the next one gets the slot at once")


def test_slots_of_a_cost_are_taken_together(fleet, gate):
    nodes = fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "cost": {"header": "x-cost", "default": 1}}})
    asked = Background(lambda: nodes[0].get("/held", {**as_client("a"), "X-Cost": "15"}))
    gate.upstream.wait_requests(1)
    assert nodes[1].get("/probe", {**as_client("a"), "X-Cost": "6"}).status == 429
    assert left(nodes[1].get("/probe", {**as_client("a"), "X-Cost": "5"})) == 0
    too_many = nodes[1].get("/probe", {**as_client("a"), "X-Cost": "21"})
    assert (too_many.status, json.loads(too_many.body)["code"]) == (400, "cost_exceeds_limit")
    gate.opened.set()
    assert asked.result().status == 200
    wait_nothing_held(fleet, nodes[0])


def test_clients_that_leave_give_their_slots_back(fleet, gate):
    nodes = fleet.start(gate.url, [route()], SLOTS)
    before_the_head = [nodes[at % 2].connect() for at in range(MAX)]
    for connection in before_the_head:
        connection.send(request_bytes("GET", "/held", as_client("a")))
    gate.upstream.wait_requests(MAX)
    assert nodes[0].get("/probe", as_client("a")).status == 429
    for at, connection in enumerate(before_the_head):
        connection.reset() if at % 2 else connection.close()
    wait_nothing_held(fleet, nodes[0])

    in_the_body = [nodes[at % 2].connect(receive_buffer=4096) for at in range(MAX)]
    for connection in in_the_body:
        connection.send(request_bytes("GET", "/large", as_client("a")))
        connection.reader.head()
    for connection in in_the_body:
        connection.reset()
    wait_nothing_held(fleet, nodes[1])


def test_clients_that_leave_while_the_store_decides_leave_no_slot_behind(fleet, gate):
    nodes = fleet.start(gate.url, [route()], SLOTS)
    for _ in range(30):
        connections = [nodes[at % 2].connect() for at in range(10)]
        for connection in connections:
            connection.send(request_bytes("GET", "/probe", as_client("a")))
            connection.reset()
    wait_nothing_held(fleet, nodes[0])


def test_slots_come_back_when_the_upstream_fails(fleet, gate):
    nodes = fleet.start({"servers": [gate.url], "retries": 0}, [route()], SLOTS)
    for target, outcome in (("/broken", Connection.rest), ("/nothing", lambda connection: connection.answer().status == 502)):
        connections = [nodes[at % 2].connect() for at in range(MAX)]
        for connection in connections:
            connection.send(request_bytes("GET", target, as_client("a")))
        assert all(outcome(connection) for connection in connections)
    wait_nothing_held(fleet, nodes[0])


def test_hits_and_riders_hold_their_slot_for_as_long_as_they_are_answered(fleet, gate):
    nodes = fleet.start(gate.url, [route("/held/**", cache=CACHE), route("/probe")], SLOTS)
    asked = [Background(lambda at=at: nodes[at % 2].get("/held/one", as_client("a"))) for at in range(MAX)]
    gate.upstream.wait_requests(1)
    wait_until(lambda: decided(nodes, "admitted") == MAX, "all wait for one load, each in its slot")
    assert nodes[0].get("/probe", as_client("a")).status == 429
    gate.opened.set()
    assert [each.result().status for each in asked] == [200] * MAX
    wait_all_free(nodes[0], "a")  # the last bytes may reach a client before the end of its hold reaches the store
    assert nodes[0].get("/held/one", as_client("a"))["x-cache"] == "HIT"
    wait_nothing_held(fleet, nodes[1])


def test_a_refusal_by_another_limit_takes_no_slot_and_a_full_one_charges_nothing(fleet, gate):
    limits = {**SLOTS, "monthly": {"key": "header:x-api-key", "rate": "3/30d", "algorithm": "sliding_log"}}
    nodes = fleet.start(gate.url, [route("/both", "slots", "monthly"), route("/held"), route("/probe"),
                                   route("/rate", "monthly")], limits)
    answers = together([lambda at=at: nodes[at % 2].get("/both", as_client("a")) for at in range(30)])
    assert sorted(answer.status for answer in answers) == [200] * 3 + [429] * 27
    assert all(json.loads(answer.body)["code"] == "rate_limit_exceeded" and int(answer["retry-after"]) > 0
               for answer in answers if answer.status == 429)
    wait_nothing_held(fleet, nodes[0])

    asked = hold(nodes, gate, MAX, "b")
    answers = together([lambda at=at: nodes[at % 2].get("/both", as_client("b")) for at in range(10)])
    assert {(answer.status, json.loads(answer.body)["code"]) for answer in answers} == {(429, "concurrency_limit_hit")}
    assert nodes[0].get("/rate", as_client("b")).status == 200
    gate.opened.set()
    assert {each.result().status for each in asked} == {200}
    wait_all_free(nodes[0], "b")
    assert [nodes[at % 2].get("/both", as_client("b")).status for at in range(3)] == [200, 200, 429], "2 of 3 were left"


def test_in_shadow_it_refuses_nobody_and_counts_who_would_be(fleet, gate):
    nodes = fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "max": 3, "mode": "shadow"}})
    asked = hold(nodes, gate, 10)
    gate.opened.set()
    answers = [each.result() for each in asked]
    assert all(answer.status == 200 and "ratelimit" not in answer for answer in answers)
    assert (decided(nodes, "admitted"), decided(nodes, "shadow_refused")) == (3, 7)
    if fleet.redis:
        wait_until(lambda: not holds_in_redis(fleet), "nothing is held in Redis")


def test_a_request_that_outlives_its_lease_keeps_its_slot(fleet, gate):
    nodes = fleet.start(gate.url, [route(), ], {"slots": {**SLOTS["slots"], "max": 1, "lease": "1s"}})
    asked = hold(nodes, gate, 1)
    began_at = time.monotonic()
    wait_until(lambda: time.monotonic() > began_at + 1.5, "it has been held for longer than its lease")
    assert nodes[1].get("/probe", as_client("a")).status == 429
    gate.opened.set()
    assert asked[0].result().status == 200
    wait_nothing_held_of(fleet, nodes[0], 1)


def wait_nothing_held_of(fleet, node, free):
    wait_all_free(node, "a", free)
    if fleet.redis:
        wait_until(lambda: not holds_in_redis(fleet), "nothing is held in Redis")


def test_a_reload_keeps_who_is_in_and_counts_by_the_new_max(fleet, gate):
    nodes = fleet.start(gate.url, [route()], SLOTS)
    asked = hold(nodes, gate, 10)
    for node in set(nodes):
        assert node.reload({**node.configuration, "limits": {"slots": {**SLOTS["slots"], "max": 10}}})
    assert nodes[0].get("/probe", as_client("a")).status == 429
    for node in set(nodes):
        assert node.reload({**node.configuration, "limits": {"slots": {**SLOTS["slots"], "max": 12}}})
    assert left(nodes[1].get("/probe", as_client("a"))) == 1
    gate.opened.set()
    assert {each.result().status for each in asked} == {200}
    wait_all_free(nodes[0], "a", 12)


def test_a_node_that_dies_loses_its_slots_after_the_lease(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "lease": "2s"}})
    kept = hold([nodes[1], nodes[1]], gate, 1)
    lost = [nodes[0].connect() for _ in range(MAX - 1)]
    for connection in lost:
        connection.send(request_bytes("GET", "/held", as_client("a")))
    gate.upstream.wait_requests(MAX)
    assert nodes[1].get("/probe", as_client("a")).status == 429
    nodes[0].signal(signal.SIGKILL)
    redis_fleet.remove(nodes[0])
    wait_until(lambda: nodes[1].get("/probe", as_client("a")).status == 200, "the dead node's slots end by their lease")
    wait_until(lambda: left(nodes[1].get("/probe", as_client("a"))) == MAX - 2, "all of them; the living one's is renewed")
    gate.opened.set()
    assert kept[0].result().status == 200
    wait_nothing_held(redis_fleet, nodes[1])


def test_slots_that_redis_lost_are_known_again_and_come_back(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "lease": "1s"}})
    asked = hold(nodes, gate, MAX)
    redis_fleet.redis.kill()
    redis_fleet.redis.start()
    wait_until(lambda: nodes[0].get("/probe", as_client("a")).status == 429, "those under way are counted anew as they are renewed")
    assert sum(node.metric("weir_lost_holds_total", limit="slots") for node in nodes) > 0
    gate.opened.set()
    assert {each.result().status for each in asked} == {200}
    wait_nothing_held(redis_fleet, nodes[0])


def test_what_ends_while_redis_is_away_is_given_back_when_it_returns(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], SLOTS, store={**redis_fleet.store, "timeout": "100ms"})
    asked = hold(nodes, gate, MAX)
    redis_fleet.redis.freeze()
    gate.opened.set()
    assert {each.result().status for each in asked} == {200}
    redis_fleet.redis.thaw()
    wait_nothing_held(redis_fleet, nodes[0])


def test_without_the_store_each_node_counts_its_own_and_gives_back_what_it_took_there(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "max": 2}}, store={**redis_fleet.store, "timeout": "100ms"})
    redis_fleet.redis.kill()
    asked = hold(nodes, gate, 4)
    assert nodes[0].get("/probe", as_client("a")).status == 429
    gate.opened.set()
    assert {each.result().status for each in asked} == {200}
    for node in nodes:
        wait_all_free(node, "a", 2)
    redis_fleet.redis.start()


def test_a_node_that_stops_gives_back_what_it_holds(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], SLOTS)
    asked = hold([nodes[0], nodes[0]], gate, 5)
    nodes[0].signal(signal.SIGTERM)
    gate.opened.set()
    assert {each.result().status for each in asked} == {200}
    assert nodes[0].wait() == 0
    redis_fleet.remove(nodes[0])
    assert not holds_in_redis(redis_fleet), "told before it ended"


def test_who_waits_for_a_slot_gets_it_when_one_is_given_back(fleet, gate):
    nodes = fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "max": 2, "when_refused": "wait", "max_wait": "1m"}})
    asked = hold(nodes, gate, 2)
    waiting = [Background(lambda at=at: nodes[at % 2].get("/probe", as_client("a"))) for at in range(6)]
    wait_until(lambda: sum(node.metric("weir_limit_waiting", limit="slots") for node in set(nodes)) == 6, "they wait")
    gate.opened.set()
    assert {each.result().status for each in asked + waiting} == {200}
    wait_all_free(nodes[0], "a", 2)


def test_a_limit_that_is_reset_by_hand_knows_again_who_runs(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], {"slots": {**SLOTS["slots"], "max": 3, "lease": "1s"}})
    asked = hold(nodes, gate, 3)
    assert nodes[0].get("/probe", as_client("a")).status == 429
    assert nodes[0].admin("DELETE", "/api/limits/slots/a").status in (200, 204)
    wait_until(lambda: nodes[1].get("/probe", as_client("a")).status == 429, "those under way are counted anew as they are renewed")
    gate.opened.set()
    assert {each.result().status for each in asked} == {200}
    wait_nothing_held_of(redis_fleet, nodes[0], 3)


def test_a_node_whose_patience_with_its_last_requests_ends_gives_back_their_slots(redis_fleet, gate):
    nodes = redis_fleet.start(gate.url, [route()], SLOTS, drain_timeout="500ms")
    connections = [nodes[0].connect() for _ in range(3)]
    for connection in connections:
        connection.send(request_bytes("GET", "/held", as_client("a")))
    gate.upstream.wait_requests(3)
    assert holds_in_redis(redis_fleet)
    nodes[0].signal(signal.SIGTERM)
    nodes[0].wait()
    redis_fleet.remove(nodes[0])
    wait_until(lambda: not holds_in_redis(redis_fleet), "the store was told with the last breath")
