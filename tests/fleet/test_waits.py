"""when_refused: wait. Who is over the limit waits until it would pass, for max_wait at most: in the order of arrival, charged nothing meanwhile,
and at little cost for the store.

No test measures time: what came before what, who got in and how many, are counted.
"""

import json
import threading

import pytest

from weir import Background, together, wait_until
from wire import request_bytes


def limit(rate, max_wait, **more):
    return {"key": "header:x-api-key", "missing": "shared", "algorithm": "token_bucket", "rate": rate, "when_refused": "wait", "max_wait": max_wait,
            **more}


def as_client(name):
    return [("x-api-key", name)]


@pytest.fixture
def counted(scripted):
    """Answers at once; the requests that reached it are in order."""
    return scripted(lambda talk, _request: talk.answer(200, body=b"%d" % len(talk.upstream.requests)), each=True)


def start(fleet, upstream, limits, count=None, **more):
    return fleet.start(upstream.url, [{"match": "/**", "limits": list(limits)}], limits, count=count, **more)


def distinct(nodes):
    return list({id(node): node for node in nodes}.values())


def test_who_is_over_the_limit_is_let_in_later_and_says_how_long_it_waited(fleet, counted):
    nodes = start(fleet, counted, {"client": limit("10/s", "30s", burst=1)})
    answers = [nodes[at % 2].get("/", as_client("k")) for at in range(6)]
    assert [answer.status for answer in answers] == [200] * 6
    waited = sum(node.metric("weir_limit_decisions_total", limit="client", outcome="waited") for node in distinct(nodes))
    assert 1 <= waited <= 5
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="refused") for node in distinct(nodes)) == 0
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="admitted") for node in distinct(nodes)) == 6
    assert sum(node.metric("weir_limit_wait_seconds_count", limit="client") for node in distinct(nodes)) == waited
    assert all(node.metric("weir_limit_waiting", limit="client") == 0 for node in nodes)
    lines = wait_until(lambda: (all_lines := [line for node in distinct(nodes) for line in node.access_log()]) and len(all_lines) == 6 and all_lines,
                       "all lines")
    assert len([line for line in lines if line.get("limit_wait_us", 0) > 0]) == waited


def test_a_wait_that_would_be_too_long_is_refused_at_once(fleet, counted):
    nodes = start(fleet, counted, {"client": limit("1/h", "20s")})
    assert nodes[0].get("/", as_client("k")).status == 200
    answers = together([lambda at=at: nodes[at % 2].get("/", as_client("k")) for at in range(20)])
    for answer in answers:
        assert (answer.status, json.loads(answer.body)["limit"]) == (429, "client")
        assert int(answer["retry-after"]) > 20
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="waited") for node in distinct(nodes)) == 0
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="refused") for node in distinct(nodes)) == 20


def test_never_more_get_in_than_the_limit_lets(fleet, counted):
    """Forty at once for ten tokens and ten more a second, waiting for at most 700 ms: what got in is what the bucket held and got meanwhile."""
    nodes = start(fleet, counted, {"client": limit("10/s", "700ms", burst=10)})
    answers = together([lambda at=at: nodes[at % 2].get("/", as_client("k")) for at in range(40)])
    let_in = [answer.status for answer in answers].count(200)
    assert {answer.status for answer in answers} <= {200, 429}
    assert 15 <= let_in == len(counted.requests)
    refused = [answer for answer in answers if answer.status == 429]
    assert refused and all(json.loads(answer.body)["retry_after_ms"] > 0 for answer in refused)
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="admitted") for node in distinct(nodes)) == let_in
    assert sum(node.metric("weir_limit_decisions_total", limit="client", outcome="refused") for node in distinct(nodes)) == len(refused)
    assert all(node.metric("weir_limit_waiting", limit="client") == 0 for node in nodes)


def test_the_line_moves_in_order_of_arrival(redis_fleet, counted):
    node = start(redis_fleet, counted, {"client": limit("20/s", "1m", burst=1)}, count=1)[0]
    waiting = []
    assert node.get("/first", as_client("k")).status == 200
    for at in range(12):
        waiting.append(Background(lambda at=at: node.get(f"/{at}", as_client("k"))))
        seen = node.metric("weir_limit_decisions_total", limit="client")
        wait_until(lambda at=at: node.metric("weir_limit_decisions_total", limit="client", outcome="waited")
                   + len(counted.requests) > at + 1 or seen > at + 1, "it has come")
        wait_until(lambda at=at: len(counted.requests) - 1 + node.metric("weir_limit_waiting", limit="client") >= at + 1, "it is in the line or through")
    assert [each.result().status for each in waiting] == [200] * 12
    assert [request.target for request in counted.requests] == ["/first"] + [f"/{at}" for at in range(12)]


def test_a_long_line_costs_the_store_no_more_than_a_short_one(redis_fleet, counted):
    node = start(redis_fleet, counted, {"client": limit("40/s", "1m", burst=1)}, count=1)[0]

    def scripts_run():
        lines = redis_fleet.redis.command("INFO", "commandstats").decode().splitlines()
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_evalsha:"))

    before = scripts_run()
    answers = together([lambda: node.get("/", as_client("k")) for _ in range(60)])
    assert [answer.status for answer in answers] == [200] * 60
    assert scripts_run() - before < 60 + 4 * 60, "the first time, and a few for each that got in; not one for each that waits"


def test_a_client_that_leaves_makes_room_and_is_charged_nothing(fleet, counted):
    nodes = start(fleet, counted, {"client": limit("1/20s", "1m")})
    assert nodes[0].get("/", as_client("k")).status == 200
    connections = [nodes[0].connect() for _ in range(5)]
    for connection in connections:
        connection.send(b"GET / HTTP/1.1\r\nHost: api.test\r\nx-api-key: k\r\n\r\n")
    wait_until(lambda: nodes[0].metric("weir_limit_waiting", limit="client") == 5, "all wait")
    for connection in connections:
        connection.close()
    wait_until(lambda: nodes[0].metric("weir_limit_waiting", limit="client") == 0, "nobody waits any more")
    assert nodes[0].metric("weir_limit_decisions_total", limit="client", outcome="admitted") == 1
    assert len(counted.requests) == 1


def test_other_clients_pass_a_line_that_is_not_theirs(fleet, counted):
    limits = {"client": limit("1/30s", "1m"), "everyone": {"key": "global", "rate": "1000/30d"}}
    nodes = start(fleet, counted, limits)
    assert nodes[0].get("/", as_client("slow")).status == 200
    with nodes[0].connect() as connection:
        connection.send(b"GET / HTTP/1.1\r\nHost: api.test\r\nx-api-key: slow\r\n\r\n")
        wait_until(lambda: nodes[0].metric("weir_limit_waiting", limit="client") == 1, "it waits")
        for at in range(10):
            assert nodes[at % 2].get("/", as_client(f"other{at}")).status == 200
        assert nodes[0].metric("weir_limit_waiting", limit="client") == 1
    answer = nodes[1].get("/", as_client("last"))
    assert '"everyone";r=988' in answer["ratelimit"], "requests that wait or are refused are charged to none"


def test_the_end_of_the_node_ends_the_wait(fleet, counted):
    nodes = start(fleet, counted, {"client": limit("1/30s", "1m")})
    assert nodes[0].get("/", as_client("k")).status == 200
    waiting = [Background(lambda: nodes[0].get("/", as_client("k"))) for _ in range(10)]
    wait_until(lambda: nodes[0].metric("weir_limit_waiting", limit="client") == 10, "all wait")
    assert nodes[0].stop() == 0
    answers = [each.result() for each in waiting]
    assert [answer.status for answer in answers] == [429] * 10
    assert all(20 <= int(answer["retry-after"]) <= 30 for answer in answers)
    fleet.remove(nodes[0])


def test_who_waits_since_many_reloads_is_told_with_all_others(fleet, counted):
    """Each waits by the rules that it came under. At the end of the node all of them are decided in one turn."""
    node = start(fleet, counted, {"client": limit("1/30s", "1m")}, count=1, workers=1)[0]
    assert node.get("/", as_client("k")).status == 200
    waiting = []
    for at in range(1, 9):
        waiting.append(Background(lambda: node.get("/", as_client("k"))))
        wait_until(lambda at=at: node.metric("weir_limit_waiting", limit="client") == at, "it waits")
        assert node.reload({**node.configuration, "limits": {"client": limit(f"1/{30 + at}s", "1m")}})
    assert node.stop() == 0
    assert [each.result().status for each in waiting] == [429] * 8
    fleet.remove(node)


def test_a_load_that_cannot_be_paid_yet_waits_outside_of_the_lock(fleet, scripted):
    """counts: misses. A client that has to wait for its next unit holds nothing meanwhile: another one loads at once, and both are served."""
    gate = threading.Event()

    def answer(talk, request):
        if request.target == "/cold":
            gate.wait(60)
        talk.answer(200, body=b"%d" % len(talk.upstream.requests))

    upstream = scripted(answer, each=True)
    limits = {"loads": limit("1/2s", "1m", counts="misses")}
    nodes = fleet.start(upstream.url, [{"match": "/**", "limits": ["loads"], "cache": {"ttl": "1h", "lock_timeout": "10m"}}], limits)
    assert nodes[0].get("/spent", as_client("poor")).status == 200
    poor = Background(lambda: nodes[0].get("/cold", as_client("poor")))
    wait_until(lambda: sum(node.metric("weir_limit_decisions_total", limit="loads", outcome="waited") for node in distinct(nodes)) == 1, "it waits")
    rich = Background(lambda: nodes[1].get("/cold", as_client("rich")))
    upstream.wait_requests(2)
    gate.set()
    assert rich.result().status == 200
    result = poor.result()
    assert (result.status, result.body) == (200, b"2")
    assert result["x-cache"] in ("HIT", "WAIT") and len(upstream.requests) == 2, "what is there by then is free"


def test_calls_alone_wait_for_their_price_too(fleet, counted):
    nodes = fleet.start(counted.url, [{"match": "/plain", "limits": ["loads"]}, {"match": "/**", "limits": ["loads"], "cache": {"ttl": "1h"}}],
                        {"loads": limit("40/s", "1m", burst=1, counts="misses")})
    answers = [nodes[at % 2].ask(*("POST", "/c") if at % 2 else ("GET", "/plain")) for at in range(6)]
    answers += [nodes[at % 2].get("/stored", [("Cache-Control", "no-cache")]) for at in range(3)]
    answers += [nodes[at % 2].get(f"/cold/{at}") for at in range(3)]
    assert [answer.status for answer in answers] == [200] * 12
    assert len(counted.requests) == 12


def test_of_two_limits_that_refuse_both_must_agree_to_wait(fleet, counted):
    limits = {"soft": limit("1/20s", "1m"), "hard": {"key": "header:x-api-key", "algorithm": "token_bucket", "rate": "1/h"}}
    nodes = start(fleet, counted, limits)
    assert nodes[0].get("/", as_client("k")).status == 200
    refused = nodes[1].get("/", as_client("k"))
    assert (refused.status, json.loads(refused.body)["limit"]) == (429, "hard")


def test_many_lines_at_once_all_move(fleet, counted):
    nodes = start(fleet, counted, {"client": limit("10/s", "1m", burst=1)})
    answers = together([lambda at=at: nodes[at % 2].get("/", as_client(f"client{at // 4}")) for at in range(60)])
    assert [answer.status for answer in answers] == [200] * 60


def test_when_the_store_goes_away_those_who_wait_are_decided_as_the_limit_says(redis_fleet, counted):
    node = start(redis_fleet, counted, {"client": limit("1/2s", "1m", on_store_failure="closed")}, count=1, store={**redis_fleet.store, "timeout": "50ms"})[0]
    assert node.get("/", as_client("k")).status == 200
    waiting = Background(lambda: node.get("/", as_client("k")))
    wait_until(lambda: node.metric("weir_limit_waiting", limit="client") == 1, "it waits")
    redis_fleet.redis.kill()
    wait_until(lambda: node.metric("weir_store_up") == 0, "the node has seen that Redis is gone")
    assert node.get("/", as_client("another")).status == 503
    assert waiting.result().status == 503


def test_whatever_happens_to_a_line_nobody_is_left_in_it(fleet, counted, rng):
    """Many clients, several limits that make them wait, clients that leave, and reloads with other rates meanwhile."""

    def limits(times):
        return {"loads": limit(f"{40 * times}/s", "300ms", burst=5, counts="misses"), "client": limit(f"{60 * times}/s", "200ms", burst=10),
                "soft": {"key": "global", "rate": f"{200 * times}/s", "when_refused": "stale"}}

    routes = [{"match": "/plain/**", "limits": ["loads", "client"]},
              {"match": "/**", "limits": ["loads", "client", "soft"], "cache": {"ttl": "30ms", "stale_while_revalidate": "60ms", "stale_if_error": "1s"}}]
    nodes = fleet.start(counted.url, routes, limits(1))
    plans = [[(rng.randrange(2), rng.choice(["/plain/1", f"/a/{rng.randrange(9)}"]), f"k{rng.randrange(5)}", rng.randrange(6) == 0) for _ in range(20)]
             for _ in range(20)]

    def run(plan):
        got = []
        for node, target, name, leaves in plan:
            with nodes[node].connect() as connection:
                connection.send(request_bytes("GET", target, as_client(name)))
                if not leaves:
                    got.append(connection.answer().status)
        return got

    clients = [Background(lambda plan=plan: run(plan)) for plan in plans]
    for times in (3, 1, 2):
        for node in distinct(nodes):
            assert node.reload({**node.configuration, "limits": limits(times)})
    statuses = [status for client in clients for status in client.result()]
    assert set(statuses) <= {200, 429} and len(statuses) == sum(not leaves for plan in plans for *_, leaves in plan)
    for node in distinct(nodes):
        wait_until(lambda node=node: node.metric("weir_limit_waiting") == 0, "nobody waits any more")
