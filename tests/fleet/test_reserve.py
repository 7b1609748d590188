"""Costs that the upstream's answer tells: so much as is reserved must be left, what it really was is charged, and requests at one time
cannot overspend.

Limits are by 30 days, so that no border of a window lies in a test. What is left of one is told by a request of its own, which costs 0.
"""

import json
import signal
import threading

import pytest

from weir import Background, together, wait_until
from wire import request_bytes

ALGORITHMS = {
    "sliding_window": {},
    "sliding_log": {},
    "token_bucket": {"burst": 100},
    "fixed_window": {},
}
CACHE = {"ttl": "1h"}


def limits(algorithm="sliding_window", units=100, **cost):
    return {"units": {"key": "header:x-api-key", "algorithm": algorithm, "rate": f"{units}/30d",
                      **({"burst": units} if algorithm == "token_bucket" else {}),
                      "cost": {"response_header": "X-Cost", "reserve": 10, **cost}}}


def route(match="/**", **more):
    return {"match": match, "limits": ["units"], **more}


def as_client(name):
    return {"X-Api-Key": name}


class Priced:
    """An upstream whose answers cost what the query says: /anything?7, or ? for no word of it. /held waits for `opened`."""

    def __init__(self, scripted):
        self.opened = threading.Event()
        self.upstream = scripted(self._answer, each=True)
        self.url = self.upstream.url

    def _answer(self, talk, request):
        path, _, cost = request.target.partition("?")
        if path == "/held":
            self.opened.wait(60)
        if path == "/nothing":
            talk.reset()
            return
        status, fields = (304, [("ETag", '"1"')]) if "if-none-match" in request else (200, [("ETag", '"1"')])
        talk.answer(status, fields + [("x-cost", each) for each in cost.split("&") if each], b"" if status == 304 else b"x")


@pytest.fixture
def priced(scripted):
    made = Priced(scripted)
    yield made
    made.opened.set()


def left(node, name="a"):
    """What nobody has used or reserved."""
    answer = node.get("/probe?0", as_client(name))
    return int(answer["ratelimit-remaining"]) + (10 if answer.status == 200 else 0)  # beside its own reservation


def wait_left(node, units, name="a"):
    wait_until(lambda: left(node, name) == units, f"{units} units are left")


def seen(node, name="a"):
    """Where the caller stands; nothing is reserved by looking."""
    return json.loads(node.admin("GET", f"/api/limits/units/{name}").body)


def hold(nodes, priced, count, target, name="a"):
    before = len(priced.upstream.requests)
    asked = [Background(lambda at=at: nodes[at % 2].get(target, as_client(name))) for at in range(count)]
    priced.upstream.wait_requests(before + count)
    return asked


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_the_answer_says_is_charged_to_the_unit(fleet, priced, algorithm):
    nodes = fleet.start(priced.url, [route()], limits(algorithm))
    for said, cost in (("7", 7), ("0", 0), ("10", 10), ("007", 7)):
        before = left(nodes[0])
        assert nodes[1].get(f"/a?{said}", as_client("a")).status == 200
        wait_left(nodes[0], before - cost)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_requests_at_one_time_cannot_overspend(fleet, priced, algorithm):
    nodes = fleet.start(priced.url, [route()], limits(algorithm))
    asked = [Background(lambda at=at: nodes[at % 2].get("/held?9", as_client("a"))) for at in range(40)]
    wait_until(lambda: sum(each.is_over() for each in asked) == 30, "ten reservations are all that there is room for")
    priced.upstream.wait_requests(10)
    refused = next(each.result() for each in asked if each.is_over())
    problem = json.loads(refused.body)
    assert (refused.status, problem["code"], refused["retry-after"], problem["retry_after_ms"]) == (429, "rate_limit_exceeded", "1", 1000)
    priced.opened.set()
    assert sorted(each.result().status for each in asked) == [200] * 10 + [429] * 30
    wait_left(nodes[0], 10)  # ten times nine were used
    wait_until(lambda: nodes[1].get("/a?10", as_client("a")).status == 200, "the last probe's reservation is settled")
    assert nodes[0].get("/a?1", as_client("a")).status == 429, "all of it is used"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_whom_only_reservations_keep_out_is_not_sent_away_until_what_he_used_comes_back(fleet, priced, algorithm):
    nodes = fleet.start(priced.url, [route()], limits(algorithm, units=30))
    assert nodes[1].get("/a?1", as_client("a")).status == 200
    wait_until(lambda: seen(nodes[0])["available"] == 29, "one is used, and nothing reserved")
    held = hold(nodes, priced, 2, "/held?1")
    refused = nodes[1].get("/a?0", as_client("a"))
    assert (refused.status, refused["retry-after"]) == (429, "1"), "29 of 30 are not used, 20 of them reserved"
    priced.opened.set()
    assert [each.result().status for each in held] == [200] * 2


def test_who_waits_behind_reservations_has_his_turn_when_they_are_settled(fleet, priced):
    waiting = {"units": {**limits(units=30)["units"], "when_refused": "wait", "max_wait": "60s"}}
    nodes = fleet.start(priced.url, [route()], waiting)
    assert nodes[1].get("/a?1", as_client("a")).status == 200
    wait_until(lambda: seen(nodes[0])["available"] == 29, "one is used, and nothing reserved")
    held = hold(nodes, priced, 2, "/held?1")
    late = Background(lambda: nodes[1].get("/a?0", as_client("a")))
    wait_until(lambda: late.is_over() or nodes[1].metric("weir_limit_waiting", limit="units") == 1, "it waits")
    priced.opened.set()
    assert [each.result().status for each in [*held, late]] == [200] * 3


@pytest.mark.parametrize("said", ["-1", "1.5", "1e2", "many", "+3", "3&4"])
def test_an_answer_that_says_nonsense_costs_what_was_reserved(fleet, priced, said):
    nodes = fleet.start(priced.url, [route()], limits())
    assert nodes[1].get(f"/a?{said}", as_client("a")).status == 200
    wait_left(nodes[0], 90)


def test_an_answer_that_does_not_say_costs_the_default_or_what_was_reserved(fleet, priced):
    nodes = fleet.start(priced.url, [route()], limits())
    nodes[1].get("/a", as_client("a"))
    wait_left(nodes[0], 90)
    for node in set(nodes):
        assert node.reload({**node.configuration, "limits": limits(default=0)})
    nodes[1].get("/a", as_client("a"))
    wait_left(nodes[0], 90)
    for node in set(nodes):
        assert node.reload({**node.configuration, "limits": limits(default=3)})
    nodes[1].get("/a", as_client("a"))
    wait_left(nodes[0], 87)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_was_used_beyond_the_reservation_is_owed(fleet, priced, algorithm):
    nodes = fleet.start(priced.url, [route()], limits(algorithm))
    assert nodes[1].get("/a?60", as_client("a")).status == 200
    wait_left(nodes[0], 40)
    assert nodes[1].get("/a?70", as_client("a")).status == 200
    refused = wait_until(lambda: (lambda answer: answer if answer.status == 429 else None)(nodes[0].get("/a?0", as_client("a"))),
                         "nothing is left")
    if algorithm != "fixed_window":  # with the window all of it ends
        assert int(refused["retry-after"]) > 11 * 86400, "30 of 100 are owed, and 10 are to be reserved: 12 of 30 days at the rate"


def test_no_answer_costs_more_than_max(fleet, priced):
    nodes = fleet.start(priced.url, [route()], limits(max=25))
    assert nodes[1].get("/a?9999999999999999999999", as_client("a")).status == 200
    wait_left(nodes[0], 75)


def test_hits_and_riders_cost_nothing_and_the_leader_what_its_answer_says(fleet, priced):
    nodes = fleet.start(priced.url, [route("/held", cache=CACHE), route()], limits())
    asked = [Background(lambda at=at: nodes[at % 2].get("/held?4", as_client("a"))) for at in range(8)]
    priced.upstream.wait_requests(1)
    priced.opened.set()
    assert {each.result().status for each in asked} == {200}
    wait_left(nodes[0], 96)
    for at in range(20):
        assert nodes[at % 2].get("/held?4", as_client("a"))["x-cache"] in ("HIT", "WAIT")
    wait_left(nodes[1], 96)
    assert len([each for each in priced.upstream.requests if each.target.startswith("/held")]) == 1


def test_a_limit_that_counts_misses_reserves_for_loads_alone(fleet, priced):
    nodes = fleet.start(priced.url, [route("/held", cache=CACHE), route()],
                        {"units": {**limits()["units"], "counts": "misses"}})
    asked = [Background(lambda at=at: nodes[at % 2].get("/held?4", as_client("a"))) for at in range(8)]
    priced.upstream.wait_requests(1)
    priced.opened.set()
    assert {each.result().status for each in asked} == {200}
    wait_left(nodes[0], 96)


def test_a_copy_that_is_confirmed_costs_what_the_confirmation_says(fleet, priced):
    nodes = fleet.start(priced.url, [route("/a", cache=CACHE), route()], limits())
    assert nodes[0].get("/a?8", as_client("a")).status == 200
    wait_left(nodes[1], 92)
    answer = nodes[0].get("/a?8", {**as_client("a"), "Cache-Control": "no-cache"})
    assert answer.status == 200 and len(priced.upstream.requests) > 1
    wait_left(nodes[1], 84)


def test_a_client_that_leaves_before_the_answer_pays_what_was_reserved(fleet, priced):
    nodes = fleet.start(priced.url, [route()], limits())
    connection = nodes[0].connect()
    connection.send(request_bytes("GET", "/held?1", as_client("a")))
    priced.upstream.wait_requests(1)
    assert left(nodes[1]) == 90
    connection.reset()
    wait_until(lambda: any(line.get("client_left") for line in nodes[0].access_log()), "the node knows that it has left")
    assert left(nodes[1]) == 90, "not given back"
    priced.opened.set()
    assert left(nodes[1]) == 90


def test_an_upstream_that_breaks_costs_what_was_reserved(fleet, priced):
    nodes = fleet.start({"servers": [priced.url], "retries": 0}, [route()], limits())
    assert nodes[0].get("/nothing", as_client("a")).status == 502
    wait_left(nodes[1], 90)


def test_an_upstream_that_is_not_there_costs_nothing(fleet):
    nodes = fleet.start("http://127.0.0.1:1", [route()], limits())
    assert nodes[0].get("/a", as_client("a")).status == 502

    def remaining():
        return int(nodes[1].get("/a", as_client("a"))["ratelimit-remaining"])

    wait_until(lambda: remaining() == 90, "beside its own reservation nothing is used")


def test_a_request_that_costs_a_fixed_price_leaves_room_for_what_is_reserved(fleet, priced):
    nodes = fleet.start(priced.url, [{"match": "/fixed", "limits": [{"limit": "units", "cost": 25}]}, route()], limits())
    asked = hold(nodes, priced, 8, "/held?1")
    assert nodes[1].get("/fixed", as_client("a")).status == 429, "20 are left beside what is reserved"
    priced.opened.set()
    assert {each.result().status for each in asked} == {200}
    wait_left(nodes[0], 92)
    assert nodes[1].get("/fixed", as_client("a")).status == 200
    wait_left(nodes[0], 67)


def test_a_node_that_dies_gives_its_reservations_back_after_the_lease(redis_fleet, priced):
    made = limits("fixed_window")
    made["units"].update(rate="100/month", lease="1s")
    nodes = redis_fleet.start(priced.url, [route()], made)
    connections = [nodes[0].connect() for _ in range(9)]
    for connection in connections:
        connection.send(request_bytes("GET", "/held?1", as_client("a")))
    priced.upstream.wait_requests(9)
    assert left(nodes[1]) == 10
    nodes[0].signal(signal.SIGKILL)
    redis_fleet.remove(nodes[0])
    wait_left(nodes[1], 100)


def test_what_is_settled_while_redis_is_away_is_charged_when_it_returns(redis_fleet, priced):
    nodes = redis_fleet.start(priced.url, [route()], limits(), store={**redis_fleet.store, "timeout": "100ms"})
    asked = hold(nodes, priced, 5, "/held?6")
    redis_fleet.redis.freeze()
    priced.opened.set()
    assert {each.result().status for each in asked} == {200}
    redis_fleet.redis.thaw()
    wait_left(nodes[0], 70)


def test_bursts_on_both_nodes_settle_exactly(fleet, priced):
    nodes = fleet.start(priced.url, [route()], limits("token_bucket", 1000))
    used = 0
    for _ in range(8):
        answers = together([lambda at=at: nodes[at % 2].get(f"/a?{at % 11}", as_client("a")) for at in range(22)])
        assert {answer.status for answer in answers} == {200}
        used += 2 * sum(range(11))
    wait_left(nodes[0], 1000 - used)
