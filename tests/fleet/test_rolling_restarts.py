"""Rolling restarts: nodes come and go under load, as a deployment makes them, and no count changes by it.

Windows are days and months, so that nothing comes back meanwhile.
"""

import collections
import itertools
import threading

from algorithms import ALGORITHMS, one_of_each
from weir import Background, wait_until
from wire import Broken

UNITS = 400
ROUTES = [{"match": f"GET /{name}", "rewrite": "/healthz", "limits": [name]} for name in ALGORITHMS]
KEY = {"X-Api-Key": "k"}


class Load:
    """Clients that ask any node that is there, until they are stopped, and count what they were told."""

    def __init__(self, nodes, clients=6):
        self.nodes, self.seen, self._is_over, self._lock = nodes, collections.Counter(), threading.Event(), threading.Lock()
        self._clients = [Background(lambda lane=lane: self._ask_on(lane)) for lane in range(clients)]

    def _ask_on(self, lane):
        turns = zip(itertools.count(lane), itertools.cycle(ALGORITHMS))
        while not self._is_over.is_set():
            number, name = next(turns)
            nodes = list(self.nodes)
            try:
                status = nodes[number % len(nodes)].get(f"/{name}", KEY).status
            except (OSError, Broken):  # it went away before it answered; another will
                status = "gone"
            with self._lock:
                self.seen[name, status] += 1

    def admitted(self):
        return sum(count for (_, status), count in self.seen.items() if status == 200)

    def stop(self):
        self._is_over.set()
        for client in self._clients:
            client.result()


def test_rolling_restarts_change_no_count(redis_fleet, upstream):
    configuration = redis_fleet.configuration(upstream.url, ROUTES, one_of_each(UNITS))
    serving = redis_fleet.start(upstream.url, ROUTES, one_of_each(UNITS), count=3)
    load = Load(serving)
    restarts = 6
    for number in range(restarts):  # all through the time in which the limits are used up
        share = number * UNITS * len(ALGORITHMS) // (restarts + 1)
        wait_until(lambda share=share: load.admitted() > share, "the limits are being used")
        leaving = serving.pop(0)
        assert leaving.stop() == 0, "it drained"
        redis_fleet.remove(leaving)
        serving.append(redis_fleet.add(configuration))
    wait_until(lambda: all(load.seen[name, 429] > 10 for name in ALGORITHMS), "the limits are used up")
    load.stop()
    assert {name: load.seen[name, 200] for name in ALGORITHMS} == dict.fromkeys(ALGORITHMS, UNITS), "what one node would have admitted"
    assert {status for _, status in load.seen} <= {200, 429, "gone"}
    assert upstream.calls("GET /healthz") == UNITS * len(ALGORITHMS), "nothing was charged and not sent, or sent and not charged"


def test_reloads_under_load_change_no_count_and_hold_at_once(redis_fleet, upstream):
    """First raised again and again, so that the last one is what counts; then lowered below what is used: nothing passes."""

    def reload_all(units):
        for node in serving:
            assert node.reload(redis_fleet.configuration(upstream.url, ROUTES, one_of_each(units)))
        wait_until(lambda: all(node.get(f"/{name}", {"X-Api-Key": "probe"})["ratelimit-limit"] == str(units)
                               for node in serving for name in ALGORITHMS), "the new limits hold")

    serving = redis_fleet.start(upstream.url, ROUTES, one_of_each(40), count=2)
    load = Load(serving)
    for units in (80, 120, 160):
        wait_until(lambda before=units - 40: all(load.seen[name, 200] >= before for name in ALGORITHMS), "the limits are used up")
        reload_all(units)
    wait_until(lambda: all(load.seen[name, 200] >= 160 for name in ALGORITHMS), "the last limits are used up")
    reload_all(100)
    refused = load.seen.copy()
    wait_until(lambda: all(load.seen[name, 429] > refused[name, 429] + 20 for name in ALGORITHMS), "all is refused")
    load.stop()
    assert {name: load.seen[name, 200] for name in ALGORITHMS} == dict.fromkeys(ALGORITHMS, 160)
