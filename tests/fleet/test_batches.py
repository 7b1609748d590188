"""Batches: is what requests that arrive together are told exactly what they would have been told one by one?

Limits are by the day, so that no border of a window lies within a test.
"""

import json
import struct
from collections import Counter

from weir import together, wait_until

LIMITS = {
    "each": {"key": "header:x-api-key", "rate": "20/d"},
    "everyone": {"key": "header:x-team", "rate": "50/d"},
    "dear": {"key": "header:x-team", "rate": "50/d", "cost": 7},
    "short": {"key": "header:x-api-key", "rate": "5/s"},
}


def route(name, *limits):
    return {"match": f"GET /{name}", "rewrite": "/healthz", "limits": list(limits)}


ROUTES = [route("each", "each"), route("both", "everyone", "each"), route("dear", "dear"), route("mixed", "everyone"),
          route("short", "short")]


def told(answer):
    """What concerns the limits in an answer, without the times."""
    problem = json.loads(answer.body) if answer.status == 429 else {}
    return answer.status, answer["ratelimit-limit"], answer["ratelimit-remaining"], str(problem.get("violated-policies"))


def test_parallel_requests_are_told_what_serial_ones_are(fleet, upstream):
    nodes = fleet.start(upstream.url, ROUTES, LIMITS)
    for round_number in range(15):
        serial = [nodes[i % 2].get("/each", {"X-Api-Key": f"serial{round_number}"}) for i in range(60)]
        parallel = together([lambda i=i: nodes[i % 2].get("/each", {"X-Api-Key": f"parallel{round_number}"}) for i in range(60)])
        assert Counter(map(told, parallel)) == Counter(map(told, serial))
        assert sorted(int(each["ratelimit-remaining"]) for each in parallel if each.status == 200) == list(range(20))


def test_a_cost_counts_in_a_batch_as_alone(fleet, upstream):
    nodes = fleet.start(upstream.url, ROUTES, LIMITS)
    for round_number in range(10):
        team = {"X-Team": f"team{round_number}"}
        answers = together([lambda i=i: nodes[i % 2].get("/dear", team) for i in range(20)])
        assert Counter(each.status for each in answers) == {200: 7, 429: 13}
        assert sorted(int(each["ratelimit-remaining"]) for each in answers if each.status == 200) == [1, 8, 15, 22, 29, 36, 43]


def test_several_limits_are_decided_together_and_a_refusal_costs_nothing(fleet, upstream):
    nodes = fleet.start(upstream.url, ROUTES, LIMITS)
    for round_number in range(10):
        team = {"X-Team": f"team{round_number}"}
        answers = together([lambda i=i: (i % 3, nodes[i % 2].get("/both", {**team, "X-Api-Key": f"key{round_number}-{i % 3}"}))
                            for i in range(90)])
        passed = Counter(client for client, answer in answers if answer.status == 200)
        assert sum(passed.values()) == 50, "never more, never fewer"
        assert max(passed.values()) <= 20
        # who was refused by the team's limit alone has been charged nothing by his own
        for client in range(3):
            answer = nodes[0].get("/each", {"X-Api-Key": f"key{round_number}-{client}"})
            left = 20 - passed[client]
            assert (answer.status, int(answer["ratelimit-remaining"])) == ((200, left - 1) if left else (429, 0))


def test_different_costs_on_one_key_share_it(fleet, upstream):
    nodes = fleet.start(upstream.url, [route("one", "everyone"), route("mixed", "everyone", "each")], LIMITS)
    for round_number in range(10):
        fields = {"X-Team": f"team{round_number}", "X-Api-Key": f"key{round_number}"}
        answers = together([lambda i=i: nodes[i % 2].get(("/one", "/mixed")[i // 2 % 2], fields) for i in range(80)])
        assert Counter(each.status for each in answers)[200] == 50
        remaining = [int(each["ratelimit"].split('"everyone";r=')[1].split(";")[0]) for each in answers if each.status == 200]
        assert sorted(remaining) == list(range(50)), "each unit of the team was given once"


STATE = struct.Struct("<cqqqq")  # kind, window_us, stamp_us, current, previous


def test_a_state_stamped_in_the_future_neither_admits_twice_nor_blocks_for_ever(redis_fleet, upstream):
    """As after a clock that was set back, or a fail-over to a server that is behind."""
    nodes = redis_fleet.start(upstream.url, ROUTES, LIMITS)
    redis = redis_fleet.redis
    for ahead_windows in (1, 1000):
        key = {"X-Api-Key": f"key-ahead-{ahead_windows}"}
        before = set(redis.keys())

        def exhausted():
            return nodes[0].get("/short", key).status == 429

        wait_until(exhausted, "the second's five are used")
        [name] = set(redis.keys()) - before
        kind, window_us, stamp_us, current, previous = STATE.unpack(redis.command("GET", name))
        redis.command("SET", name, STATE.pack(kind, window_us, stamp_us + ahead_windows * window_us, 5, previous), "PX", 3600000)
        refused = nodes[1].get("/short", key)
        assert refused.status == 429, "what was admitted counts"
        assert int(refused["retry-after"]) <= 3, "but not for ever"
        wait_until(lambda key=key: nodes[1].get("/short", key).status == 200, "it is open again")
        assert 0 < redis.command("PTTL", name) <= 5000, "a TTL that fits the window again"
