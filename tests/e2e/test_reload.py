"""Reload: does SIGHUP bring the new rules to new requests, and take nothing from what is under way or remembered?"""

import json
import threading

from weir import Background, wait_until

LIMITS = {"each": {"key": "header:x-api-key", "rate": "5/d"}}
KEY = {"X-Api-Key": "k"}


def products(**cache):
    return {"match": "GET /products/{id}", "limits": ["each"], "cache": {"ttl": "1h", **cache}}


def test_new_requests_begin_with_the_new_rules(fleet, upstream):
    a, _ = fleet.start(upstream.url, [{"match": "GET /old", "rewrite": "/healthz"}])
    assert (a.get("/old").status, a.get("/new").status) == (200, 404)
    assert a.reload(fleet.configuration(upstream.url, [{"match": "GET /new", "rewrite": "/healthz"}]))
    wait_until(lambda: [a.get(path).status for path in ("/old", "/new") * 5] == [404, 200] * 5, "all workers have it")
    assert "is in force" in a.stderr


def test_what_is_under_way_finishes_by_the_old_rules(fleet, scripted, upstream):
    gate = threading.Event()

    def answer(talk, _request):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nold ")
        gate.wait(60)
        talk.send(b"site")

    old = scripted(answer, each=True)
    routes = [{"match": "GET /thing", "cache": {"ttl": "1h"}}, {"match": "/**"}]
    a, _ = fleet.start(old.url, routes)
    under_way = [Background(lambda target=target: a.get(target)) for target in ("/thing", "/uncached")]
    old.wait_requests(2)
    assert a.reload(fleet.configuration(upstream.url, [{"match": "GET /healthz"}]))
    wait_until(lambda: [a.get("/healthz").status for _ in range(10)] == [200] * 10, "all workers have it")
    gate.set()
    assert [(each.result().status, each.result().body) for each in under_way] == [(200, b"old site")] * 2
    assert a.get("/uncached").status == 404


def test_limit_counts_and_the_cache_are_kept(fleet, upstream):
    a, _ = fleet.start(upstream.url, [products()], LIMITS)
    for left in (4, 3):
        assert a.get("/products/1", KEY)["ratelimit-remaining"] == str(left)
    changed = {"each": {"key": "header:x-api-key", "rate": "7/d"}}
    assert a.reload(fleet.configuration(upstream.url, [products(tags=["x"])], changed, headers={"ratelimit": ["plain"]}))
    wait_until(lambda: all("ratelimit-policy" not in a.get("/products/1", {"X-Api-Key": f"{i}"}) for i in range(10)), "all workers have it")
    answer = a.get("/products/1", KEY)
    assert (answer["ratelimit-limit"], answer["ratelimit-remaining"]) == ("7", "4"), "three of seven are used"
    assert answer["x-cache"] == "HIT"
    assert upstream.calls("GET /products/1") == 1


def test_a_bad_file_is_refused_with_all_its_errors(fleet, upstream):
    a, _ = fleet.start(upstream.url, [{"match": "/**"}])
    good = a.config_path.read_text()
    bad = {**fleet.configuration(upstream.url, [{"match": "/**", "upstream": "apy"}]), "wrokers": 3}
    assert not a.reload(bad)
    assert "did you mean api?" in a.stderr and "did you mean workers?" in a.stderr
    assert a.stderr.count(f"{a.config_path}:") >= 2, "with file, line and column"
    assert "the old configuration stays in force" in a.stderr
    for text in ("", "routes: [", "\x00", "- 1"):
        a.config_path.write_text(text)
        assert not a.reload()
    a.config_path.unlink()
    assert not a.reload()
    assert a.get("/healthz").status == 200
    a.config_path.write_text(good)
    assert a.reload()
    assert a.metric("weir_reloads_total", outcome="refused") == 6
    assert a.metric("weir_reloads_total", outcome="accepted") == 1


def test_what_cannot_change_is_named(fleet, upstream):
    a, _ = fleet.start(upstream.url, [{"match": "/**"}])
    base = fleet.configuration(upstream.url, [{"match": "/**"}])
    changes = {
        "listen": {"listen": "127.0.0.1:1"},
        "workers": {"workers": 7},
        "admin.address": {"admin": "127.0.0.1:1"},
        "store.timeout": {"store": {**fleet.store, "timeout": "77ms"}},
        "store.prefix": {"store": {**fleet.store, "prefix": "other"}},
        "store.url": {"store": {"url": "redis://127.0.0.1:1"}},
        "near_cache.size": {"near_cache": {"size": "77MiB"}},
        "log.access": {"log": {"access": "off"}},
    }
    for key, change in changes.items():
        before = len(a.stderr)
        assert not a.reload({**base, **change}), key
        assert f"{key}: cannot be changed by a reload" in a.stderr[before:]
    assert a.get("/healthz").status == 200


def test_reloads_in_the_midst_of_traffic_break_nothing(fleet, upstream):
    nodes = fleet.start(upstream.url, [products(), {"match": "/**"}], {"each": {"key": "global", "rate": "100000/s"}})
    a, is_over, seen = nodes[0], threading.Event(), [0] * 6

    def ask(lane):
        with a.connect() as client:
            while not is_over.is_set():
                answer = client.ask("GET", f"/products/{seen[lane] % 7}" if lane % 2 else "/slow/2")
                assert answer.status == 200
                seen[lane] += 1

    clients = [Background(lambda lane=lane: ask(lane)) for lane in range(6)]
    for number in range(20):
        wait_until(lambda: min(seen) > number, "traffic flows")
        assert a.reload(fleet.configuration(upstream.url, [products(tags=[f"t{number}"]), {"match": "/**"}],
                                            {"each": {"key": "global", "rate": f"{100000 + number}/s"}}))
    is_over.set()
    for client in clients:
        client.result()
    assert json.loads(a.get("/products/1").body)["version"] == 1


def test_a_reload_while_the_store_is_away(redis_fleet, upstream):
    a, _ = redis_fleet.start(upstream.url, [{"match": "GET /old", "rewrite": "/healthz"}])
    redis_fleet.redis.kill()
    assert a.reload(redis_fleet.configuration(upstream.url, [{"match": "GET /new", "rewrite": "/healthz"}]))
    wait_until(lambda: a.get("/new").status == 200, "the new rules hold")
    redis_fleet.redis.start()
