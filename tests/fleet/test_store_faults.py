"""Store faults: what do clients see while Redis is gone, frozen or robbed of its memory, and after it is back?

Limits are by the day where a test counts, so that no border of a window lies within it.
"""

import json
import threading

import pytest

from weir import Fleet, Redis, together, wait_until

KEY = {"X-Api-Key": "key-of-this-test"}

LIMITS = {
    "open": {"key": "header:x-api-key", "rate": "1000000/d", "on_store_failure": "open"},
    "closed": {"key": "header:x-api-key", "rate": "1000000/d", "on_store_failure": "closed"},
    "local": {"key": "header:x-api-key", "rate": "5/d", "on_store_failure": "local"},
}
LIMITED = [{"match": f"GET /{name}", "rewrite": "/healthz", "limits": [name]} for name in LIMITS]
PRODUCTS = [
    {"match": "GET /products/{id}", "cache": {"ttl": "1h", "tags": ["product:{id}"]}},
    {"match": "PUT /products/{id}", "invalidates": ["product:{id}"]},
]


class Killed:
    """Redis ends, and comes back empty."""

    @staticmethod
    def begin(redis):
        redis.kill()

    @staticmethod
    def end(redis):
        redis.start()


class Frozen:
    """Redis keeps its connections and is silent, and goes on later with what it had."""

    @staticmethod
    def begin(redis):
        redis.freeze()

    @staticmethod
    def end(redis):
        redis.thaw()


both_faults = pytest.mark.parametrize("fault", [Killed, Frozen], ids=["killed", "frozen"])


@pytest.fixture
def impatient(redis_fleet):
    """A fleet that does not wait long for its store, as in production."""
    redis_fleet.settings = {"store": {"url": redis_fleet.redis.url, "timeout": "100ms"}}
    return redis_fleet


def knows_redis_is_away(node):
    """Asked until the node has noticed by itself."""
    return lambda: node.get("/closed", KEY).status == 503


def has_redis_again(node):
    return lambda: node.get("/closed", KEY).status == 200 and node.metric("weir_store_up") == 1


@both_faults
def test_open_passes_closed_refuses_and_local_counts_alone(impatient, upstream, fault):
    nodes = impatient.start(upstream.url, LIMITED, LIMITS, **impatient.settings)
    assert all(node.get(f"/{name}", KEY).status == 200 for node in nodes for name in LIMITS)

    fault.begin(impatient.redis)
    for node in nodes:
        wait_until(knows_redis_is_away(node), "a closed limit refuses")
        assert [node.get("/open", KEY).status for _ in range(5)] == [200] * 5
        refusal = node.get("/closed", KEY)
        assert refusal.status == 503
        assert refusal["retry-after"] == "1"
        assert refusal["cache-control"] == "no-store"
        assert refusal["content-type"] == "application/problem+json"
        problem = json.loads(refusal.body)
        assert problem["code"] == "limiter_unavailable"
        assert problem["type"].endswith("#temporary-reduced-capacity")
        # each goes on from what Redis said last: the first node was told of one, the second of both
        left = 4 if node is nodes[0] else 3
        assert sorted(node.get("/local", KEY).status for _ in range(8)) == [200] * left + [429] * (8 - left)
        metrics = node.metrics()
        assert metrics.sum("weir_store_up") == 0
        assert metrics.sum("weir_degraded_total", what="limit_open") >= 5
        assert metrics.sum("weir_degraded_total", what="limit_closed") >= 1
        assert metrics.sum("weir_degraded_total", what="limit_local") == 8
        assert metrics.sum("weir_limit_decisions_total", limit="open", outcome="passed_open") >= 5
        assert metrics.sum("weir_limit_decisions_total", limit="closed", outcome="unavailable") >= 1
        assert metrics.sum("weir_limit_decisions_total", limit="local", outcome="decided_locally") == 8

    fault.end(impatient.redis)
    for node in nodes:
        wait_until(has_redis_again(node), "the store is used again")
    # Both were admitted twice before; local counts are not carried over. Redis that lost them begins anew.
    left = 5 if fault is Killed else 3
    assert sorted(nodes[i % 2].get("/local", KEY).status for i in range(left + 2)) == [200] * left + [429] * 2


@both_faults
def test_traffic_through_the_fault_sees_only_what_the_contract_allows(impatient, upstream, fault):
    nodes = impatient.start(upstream.url, LIMITED + PRODUCTS, LIMITS, **impatient.settings)
    allowed = {"/open": {200}, "/closed": {200, 503}, "/products/1": {200}}
    seen, is_over = {target: set() for target in allowed}, threading.Event()

    def ask_on(node, target):
        with node.connect() as connection:
            while not is_over.is_set():
                seen[target].add(connection.ask("GET", target, KEY).status)

    clients = [threading.Thread(target=ask_on, args=(node, target)) for node in nodes for target in allowed]
    for client in clients:
        client.start()
    wait_until(lambda: all(seen.values()), "every client was answered")
    fault.begin(impatient.redis)
    for node in nodes:
        wait_until(knows_redis_is_away(node), "a closed limit refuses")
    fault.end(impatient.redis)
    for node in nodes:
        wait_until(has_redis_again(node), "the store is used again")
    is_over.set()
    for client in clients:
        client.join()
    assert {target: statuses - allowed[target] for target, statuses in seen.items()} == {target: set() for target in allowed}


@both_faults
def test_cache_without_a_store_serves_what_is_near_or_asks_each_time(impatient, upstream, fault):
    routes = [
        {"match": "GET /products/{id}", "cache": {"ttl": "1h", "on_store_failure": "serve"}},
        {"match": "GET /reports/top", "cache": {"ttl": "1h", "on_store_failure": "bypass"}},
        *LIMITED,
    ]
    a, b = impatient.start(upstream.url, routes, LIMITS, **impatient.settings)
    for target in ("/products/1", "/reports/top"):
        assert a.get(target)["x-cache"] == "MISS"
        assert a.get(target)["x-cache"] == "HIT"

    fault.begin(impatient.redis)
    for node in (a, b):
        wait_until(knows_redis_is_away(node), "a closed limit refuses")
    assert a.get("/products/1")["x-cache"] == "HIT"
    assert upstream.calls("GET /products/1") == 1
    for calls in (2, 3):
        answer = a.get("/reports/top")
        assert (answer.status, answer["x-cache"]) == (200, "BYPASS")
        assert upstream.calls("GET /reports/top") == calls
    # b has nothing near; those who come together still share one load
    answers = together([lambda: b.get("/products/2")] * 10)
    assert {answer.status for answer in answers} == {200}
    assert upstream.calls("GET /products/2") == 1
    assert a.metric("weir_degraded_total", what="cache_served") >= 1
    assert a.metric("weir_degraded_total", what="cache_bypassed") >= 2

    fault.end(impatient.redis)
    for node in (a, b):
        wait_until(has_redis_again(node), "the store is used again")
    assert a.get("/products/3")["x-cache"] == "MISS"
    assert b.get("/products/3")["x-cache"] in ("HIT", "WAIT")  # it may come while the entry is on its way to the store
    assert upstream.calls("GET /products/3") == 1
    wait_until(lambda: b.get("/reports/top")["x-cache"] == "HIT", "the report is kept again")


def test_redis_that_returns_empty_resurrects_nothing(impatient, upstream):
    a, b = impatient.start(upstream.url, PRODUCTS + LIMITED, LIMITS, **impatient.settings)
    for node in (a, b):
        assert json.loads(node.get("/products/1").body)["version"] == 1
    assert b.ask("PUT", "/products/1").status == 200
    impatient.redis.kill()
    impatient.redis.start()
    for node in (a, b):
        wait_until(has_redis_again(node), "the store is used again")
        assert json.loads(node.get("/products/1").body)["version"] == 2


@pytest.mark.parametrize("command", [("FLUSHALL",), ("SCRIPT", "FLUSH")], ids=["flushall", "script_flush"])
def test_flushes_are_survived_and_resurrect_nothing(redis_fleet, upstream, command):
    a, b = redis_fleet.start(upstream.url, PRODUCTS + LIMITED, LIMITS)
    for node in (a, b):
        assert node.get("/products/1").status == 200
    assert a.ask("PUT", "/products/1").status == 200
    redis_fleet.redis.command(*command)
    for node in (b, a):
        assert json.loads(node.get("/products/1").body)["version"] == 2
        assert node.get("/closed", KEY).status == 200
    # and once more after an invalidation that the flush erased before anybody looked
    assert b.invalidate("product:1").status == 200
    with_new_version = upstream_put(upstream, "/products/1")
    redis_fleet.redis.command(*command)
    for node in (a, b):
        assert json.loads(node.get("/products/1").body)["version"] == with_new_version
    for node in (a, b):
        assert node.metric("weir_degraded_total") == 0
        assert node.metric("weir_store_errors_total") == 0


def upstream_put(upstream, target):
    """Behind Weir's back; the new version."""
    from wire import Connection

    with Connection(upstream.port) as connection:
        return json.loads(connection.ask("PUT", target).body)["version"]


def test_a_load_under_way_when_everything_is_flushed_is_not_served_after_an_invalidation(redis_fleet, scripted):
    gates = [threading.Event(), threading.Event()]
    bodies = iter([b"old", b"new", b"newer", b"newest"])

    def answer(talk, _request):
        body = next(bodies)
        if body == b"old":
            gates[0].wait(60)
        talk.answer(body=body, fields={"Cache-Control": "max-age=3600"})

    upstream = scripted(answer, each=True)
    a, b = redis_fleet.start(upstream.url, PRODUCTS)
    results = []
    loader = threading.Thread(target=lambda: results.append(a.get("/products/1")))
    loader.start()
    upstream.wait_requests(1)
    assert b.invalidate("product:1").status == 200
    redis_fleet.redis.command("FLUSHALL")
    gates[0].set()
    loader.join()
    assert results[0].body == b"old"  # it was asked for before
    for node in (a, b):
        assert node.get("/products/1").body != b"old"


@both_faults
def test_an_invalidation_without_a_store_is_kept_here_and_recorded_later(impatient, upstream, fault):
    a, b = impatient.start(upstream.url, PRODUCTS + LIMITED, LIMITS, **impatient.settings)
    for node in (a, b):
        for target in ("/products/1", "/products/2"):
            assert json.loads(node.get(target).body)["version"] == 1

    fault.begin(impatient.redis)
    for node in (a, b):
        wait_until(knows_redis_is_away(node), "a closed limit refuses")
    answer = a.ask("PUT", "/products/1")
    assert answer.status == 200
    assert answer["warning"] == '199 weir "invalidation kept until the store is back"'
    assert json.loads(a.get("/products/1").body)["version"] == 2
    assert a.get("/products/2")["x-cache"] == "HIT"  # what is not affected is served on
    assert upstream_put(upstream, "/products/2") == 2
    by_admin = a.invalidate("product:2")
    assert (by_admin.status, json.loads(by_admin.body)["code"]) == (503, "invalidation_kept")
    assert json.loads(a.get("/products/2").body)["version"] == 2
    assert a.metric("weir_invalidations_total", outcome="deferred") == 2

    fault.end(impatient.redis)
    wait_until(lambda: a.metric("weir_invalidations_total", outcome="recorded") >= 2, "both are recorded")
    for node in (a, b):
        wait_until(has_redis_again(node), "the store is used again")
        for target in ("/products/1", "/products/2"):
            assert json.loads(node.get(target).body)["version"] == 2
    assert "warning" not in a.ask("PUT", "/products/1")


def test_every_key_but_the_tag_table_has_a_ttl(redis_fleet, upstream):
    limits = {"each": {"key": "header:x-api-key", "rate": "3/s"}, "all": {"key": "global", "rate": "1000/m"}}
    routes = [
        {"match": "GET /products/{id}", "limits": ["each", "all"], "cache": {"ttl": "2s", "tags": ["product:{id}"]}},
        {"match": "PUT /products/{id}", "limits": ["all"], "invalidates": ["product:{id}"]},
        {"match": "/**", "cache": {"ttl": "1s", "stale_while_revalidate": "1s"}},
    ]
    nodes = redis_fleet.start(upstream.url, routes, limits)
    targets = ["/products/1", "/products/2", "/reports/top", "/status/404", "/status/500", "/truncated",
               "/headers?cache-control=private", "/headers?set-cookie=a=b", "/chunked/100000"]

    def ask(index):
        with nodes[index % 2].connect() as connection:
            connection.send(f"GET {targets[index % len(targets)]} HTTP/1.1\r\nHost: a\r\nX-Api-Key: k{index % 5}\r\n\r\n".encode())
            connection.sock.recv(100)

    for _ in range(3):
        together([lambda index=index: ask(index) for index in range(36)])
        assert nodes[0].ask("PUT", "/products/1").status == 200
        assert redis_fleet.redis.keys_without_ttl() == [b"weir:tags"]
    kinds = {key.split(b":")[1] for key in redis_fleet.redis.keys()}
    assert kinds >= {b"c", b"f", b"l", b"tags"}, "the test has met every kind of key"


def test_a_key_that_lost_its_ttl_is_repaired(redis_fleet, upstream):
    a, _ = redis_fleet.start(upstream.url, LIMITED, LIMITS)
    assert a.get("/local", KEY)["ratelimit-remaining"] == "4"
    [key] = [key for key in redis_fleet.redis.keys() if key.startswith(b"weir:l:")]
    assert redis_fleet.redis.command("PERSIST", key) == 1
    assert a.get("/local", KEY)["ratelimit-remaining"] == "3"
    assert redis_fleet.redis.command("PTTL", key) > 0


def test_secrets_reach_neither_redis_nor_logs_nor_metrics(tmp_path, upstream):
    secrets = {"api key": "SECRET-api-key", "address": "127.0.0.77", "forwarded address": "203.0.113.77",
               "password": "SECRET-redis-password", "authorization": "SECRET-bearer"}
    redis = Redis(tmp_path, password=secrets["password"])
    fleet = Fleet(tmp_path, redis)
    limits = {"each": {"key": "header:x-api-key", "rate": "2/d"}, "by_ip": {"key": "ip", "rate": "3/d", "ipv6_prefix": 64}}
    routes = [{"match": "GET /products/{id}", "limits": ["each", "by_ip"], "cache": {"ttl": "1h"}}, {"match": "/**"}]
    try:
        nodes = fleet.start(upstream.url, routes, limits, trusted_proxies=["127.0.0.77"], log={"access": "stdout", "level": "debug"})
        fields = {"X-Api-Key": secrets["api key"], "X-Forwarded-For": secrets["forwarded address"]}
        for node in nodes:
            for more in ({}, {"Authorization": "Bearer " + secrets["authorization"]}):
                with node.connect(from_address=secrets["address"]) as connection:
                    connection.ask("GET", "/products/1", {**fields, **more})
                    connection.ask("GET", "/status/500", {**fields, **more})
                    connection.send(f"GET / HTTP/1.1\r\nX-Api-Key: {secrets['api key']}\r\nBad Field: 1\r\n\r\n".encode())
                    connection.rest()
        assert {node.ask("GET", "/products/1", fields).status for node in nodes} == {429}  # the key was counted
        kept = redis.dump()
        assert b"weir:l:" in kept and b"weir:c:" in kept
        redis.kill()
        for node in nodes:
            node.ask("GET", "/products/2", fields)
        places = {"Redis": kept.decode("latin-1")}
        for node in nodes:
            places[f"{node.name} metrics"] = node.metrics().text
            assert node.stop() == 0
            places[f"{node.name} access log"], places[f"{node.name} error log"] = node.stdout, node.stderr
            assert '"client":"' in node.stdout
        found = [(place, what) for place, text in places.items() for what, secret in secrets.items() if secret in text]
        assert found == []
    finally:
        for node in fleet.nodes:
            node.close()
        redis.close()
