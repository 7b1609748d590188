"""weir invalidate, weir purge and GET /api/stats: what an operator does to the cache from a shell, and what he is told of it."""

import json
import subprocess

import pytest

from weir import BUILD, wait_until

PRODUCTS = {"match": "GET /products/{id}", "cache": {"ttl": "1h", "stale_while_revalidate": "1h", "tags": ["product:{id}"]}}
REST = {"match": "/**"}


def weir(*words):
    done = subprocess.run([BUILD / "weir", *map(str, words)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def is_hit(node, target):
    return node.get(target)["x-cache"] == "HIT"


@pytest.fixture
def warm(fleet, upstream):
    """Nodes that have two products, and the configuration to call commands with."""
    nodes = fleet.start(upstream.url, [PRODUCTS, REST])
    for node in nodes:
        for target in ("/products/1", "/products/2"):
            wait_until(lambda n=node, t=target: is_hit(n, t), "it is stored")
    return nodes


def test_invalidate_ends_what_carries_the_tag_on_every_node_once_it_says_done(warm, upstream):
    a, b = warm
    calls = upstream.calls("GET /products/1")
    code, out, err = weir("invalidate", "-c", a.config_path, "product:1", "another \"tag\"")
    assert (code, err) == (0, "") and out.startswith("done, epoch "), (out, err)
    for node in (b, a):
        node.get("/products/1")
    assert upstream.calls("GET /products/1") == calls + 1
    assert is_hit(a, "/products/2") and is_hit(b, "/products/2")


def test_a_soft_one_leaves_the_old_copy_to_be_served_once_more(warm):
    a, b = warm
    assert weir("invalidate", "--soft", "-c", a.config_path, "product:1")[0] == 0
    assert b.get("/products/1")["x-cache"] == "STALE"
    assert is_hit(a, "/products/2")


def test_purge_ends_what_is_stored_of_the_url(warm, upstream):
    a, b = warm
    calls = upstream.calls("GET /products/1")
    assert weir("purge", "-c", a.config_path, "http://API.test:80/products/%31")[0] == 0
    for node in (b, a):
        node.get("/products/1")
    assert upstream.calls("GET /products/1") == calls + 1
    assert is_hit(a, "/products/2")
    assert weir("purge", "--soft", "-c", a.config_path, "https://api.test/products/2")[0] == 0
    assert b.get("/products/2")["x-cache"] == "STALE"


@pytest.mark.parametrize("words, says", [
    (["invalidate"], "something is missing"),
    (["invalidate", "--hard", "a"], "unknown option"),
    (["invalidate", ""], "between 1 and 256 bytes"),
    (["invalidate", "x" * 257], "between 1 and 256 bytes"),
    (["invalidate", *map(str, range(65))], "one word too many"),
    (["purge"], "something is missing"),
    (["purge", "/products/1"], "must be an absolute one"),
    (["purge", "http://a/", "http://b/"], "one word too many"),
    (["cache"], "something is missing"),
    (["cache", "stats"], "what to do is stat"),
])
def test_what_is_wrong_with_the_words_is_told_with_exit_2(warm, words, says):
    code, out, err = weir(words[0], "-c", warm[0].config_path, *words[1:])
    assert (code, out) == (2, "") and says in err and err.startswith(f"weir {words[0]}: "), err


@pytest.mark.parametrize("words", [["invalidate", "product:1"], ["purge", "http://api.test/products/1"]])
def test_what_cannot_be_recorded_is_a_failure(fleet, upstream, words):
    node, *_ = fleet.start(upstream.url, [PRODUCTS])
    path = node.config_path
    if fleet.redis:
        fleet.redis.kill()
    else:
        fleet.remove(node)
    code, out, err = weir(words[0], "-c", path, *words[1:])
    assert (code, out) == (1, "") and err.startswith(f"weir {words[0]}: ") and err.count("\n") == 1, err
    if fleet.redis:
        fleet.redis.start()


# ---- figures ----


def test_cache_stat_tells_the_figures_of_the_running_process(warm, fleet):
    a, _ = warm
    assert a.invalidate("product:1").status == 200
    code, out, err = weir("cache", "stat", "-c", a.config_path)
    assert (code, err) == (0, ""), err
    lines = dict((line[:14].strip(), line[14:]) for line in out.splitlines())
    assert list(lines) == ["objects", "dropped", "answers", "hit ratio", "invalidations"]
    assert " of " in lines["objects"] and "HIT " in lines["answers"] and lines["hit ratio"].endswith(" %")
    assert lines["invalidations"].startswith("recorded 1, ")
    path = a.config_path
    fleet.remove(a)
    code, out, err = weir("cache", "stat", "-c", path)
    assert (code, out) == (1, "") and err.startswith("weir cache: ") and err.count("\n") == 1




def stats(node):
    answer = node.admin("GET", "/api/stats")
    assert (answer.status, answer["content-type"]) == (200, "application/json")
    return json.loads(answer.body)


def test_stats_of_a_node_that_did_nothing_yet(memory_fleet, upstream):
    node, *_ = memory_fleet.start(upstream.url, [PRODUCTS, REST])
    figures = stats(node)
    assert figures["cache"]["objects"] == 0 and figures["cache"]["hit_ratio"] is None
    assert figures["routes"] == figures["limits"] == figures["upstreams"] == {}
    assert figures["store"]["kind"] == "memory" and figures["store"]["up"] is True
    assert figures["invalidations"] == {"recorded": 0, "deferred": 0, "widened": 0, "unnamed": 0, "kept": 0, "journal_failures": 0}


def test_stats_tell_what_was_answered_from_where(fleet, upstream):
    limits = {"each": {"key": "ip", "rate": "3/d"}}
    node, other = fleet.start(upstream.url, [PRODUCTS, {**REST, "limits": ["each"]}], limits)
    wait_until(lambda: is_hit(node, "/products/1"), "it is stored")
    before = stats(node)["routes"]["GET /products/{id}"]["cache"]["HIT"]
    for _ in range(10):
        node.get("/products/1")
    for _ in range(5):
        node.get("/healthz")
    node.get("/status/503")
    assert node.invalidate("product:1").status == 200
    figures = wait_until(lambda: (f := stats(node)) and f["routes"]["/**"].get("requests", {}).get("4xx") == 3 and f, "all is counted")
    route = figures["routes"]["GET /products/{id}"]
    assert route["cache"]["HIT"] == before + 10 and route["cache"]["MISS"] == 1 and route["loads"]["stored"] == 1
    assert route["hit_ratio"] == figures["cache"]["hit_ratio"] == pytest.approx((before + 10) / (before + 11))
    assert route["requests"]["2xx"] == before + 11 and route["duration"]["count"] == before + 11
    assert figures["routes"]["/**"]["requests"]["2xx"] == 3
    assert figures["limits"]["each"] == {"admitted": 3, "refused": 3, **{k: v for k, v in figures["limits"]["each"].items() if k == "fast_denied"}}
    assert figures["cache"]["bytes"] <= figures["cache"]["budget_bytes"] and figures["cache"]["objects"] >= 1
    assert figures["cache"]["stamped_tags"] == 1 and figures["invalidations"]["recorded"] == 1
    assert figures["upstreams"]["api"]["requests"]["2xx"] == 4
    assert figures["upstreams"]["api"]["duration"]["mean_us"] > 0
    if fleet.redis:
        operations = figures["store"]["operations"]
        assert figures["store"]["kind"] == "redis" and not any(sum(each.values()) for each in figures["store"]["errors"].values())
        assert operations["invalidate"]["count"] == 1 and operations["fill"]["count"] == 1 and operations["admit"]["mean_us"] > 0
    assert figures["store"]["epoch"] > 0
    assert "127.0.0.1" not in json.dumps(figures)
