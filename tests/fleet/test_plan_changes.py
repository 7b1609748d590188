"""Plans in a fleet: whoever changes one in Redis, by whichever command, changes what every node allows, and hot callers cost no question."""

import hashlib
import json
import re
import subprocess

import pytest

from weir import ROOT, Background, wait_until

FREE, PRO = 5, 20
LIMIT = {"key": "header:x-api-key", "plans": {"default": "free", "free": f"{FREE}/30d", "pro": f"{PRO}/30d"}}
WIDE = {"key": "header:x-api-key", "plans": {"default": "free", "free": "100000/30d", "pro": "200000/30d"}}
ROUTES = [{"match": "/**", "rewrite": "/healthz", "limits": ["client"]}]


def key_of(value):
    return "weir:p:{%s}" % hashlib.sha256(b"header:x-api-key\0" + value.encode()).hexdigest()[:32]


def start(fleet, upstream, limit=LIMIT, count=3, **more):
    return fleet.start(upstream.url, ROUTES, {"client": limit}, count=count, **more)


def ask(node, key="k"):
    return node.get("/", {"x-api-key": key})


def quota(node, key="k"):
    return int(ask(node, key)["ratelimit-policy"].split("q=")[1].split(";")[0])


def holds(nodes, wanted, key="k"):
    wait_until(lambda: all(quota(node, key) == wanted for node in nodes), f"{wanted} is what every node allows")


def questions(redis):
    """How often a plan was asked for."""
    found = re.search(r"cmdstat_hget:calls=(\d+)", redis.command("INFO", "commandstats").decode())
    return int(found[1]) if found else 0


def is_told(redis, nodes, key="k"):
    """Do the nodes answer by what they were told, without asking?"""

    def costs_nothing():
        before = questions(redis)
        for node in nodes:
            ask(node, key)
        return questions(redis) == before

    return costs_nothing


def clients(redis, name):
    lines = redis.command("CLIENT", "LIST").decode().splitlines()
    return [re.search(r"\bid=(\d+)", line)[1] for line in lines if f" name={name} " in line]


def test_one_hset_holds_on_every_node_and_what_was_used_stays_used(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream)
    for node in nodes:
        assert ask(node).status == 200
    redis.command("HSET", key_of("k"), "plan", "pro", "since", "today")
    wait_until(lambda: all(quota(node, "k") == PRO or ask(node).status == 429 for node in nodes), "the plan holds")
    total = sum(ask(nodes[i % 3]).status == 200 for i in range(40))
    left = int(ask(nodes[0])["ratelimit-remaining"])
    assert left == 0 and total <= PRO
    redis.command("DEL", "weir:l:{%s}:client" % key_of("k")[8:-1])
    wait_until(lambda: ask(nodes[0]).status == 200, "no refusal is remembered for long")
    assert 1 + sum(ask(nodes[i % 3]).status == 200 for i in range(40)) == PRO, "exactly the plan's, of all nodes together"


def test_the_command_of_the_documentation_sells_a_plan(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE, count=1)
    line = next(each for each in (ROOT / "docs" / "limits.md").read_text().splitlines() if each.startswith("    redis-cli HSET "))
    subprocess.run(["bash", "-c", line.replace("redis-cli", f"redis-cli -p {redis.port}", 1)], env={"KEY": "a key", "PATH": "/usr/bin:/bin"},
                   check=True, stdout=subprocess.DEVNULL)
    holds(nodes, 200000, "a key")


def test_every_way_to_change_or_lose_a_plan_is_heard(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE)
    free, pro = 100000, 200000
    ways = [
        (("HSET", key_of("k"), "plan", "pro"), pro), (("HDEL", key_of("k"), "plan"), free),
        (("HSET", key_of("k"), "plan", "pro"), pro), (("DEL", key_of("k")), free),
        (("HSET", key_of("k"), "plan", "pro"), pro), (("HSET", key_of("k"), "plan", "free"), free),
        (("HSET", key_of("k"), "plan", "pro"), pro), (("RENAME", key_of("k"), key_of("other")), free),
        (("COPY", key_of("other"), key_of("k")), pro), (("PEXPIRE", key_of("k"), "60"), free),
        (("HSET", key_of("k"), "plan", "pro"), pro), (("UNLINK", key_of("k")), free),
        (("EVAL", "redis.call('HSET', KEYS[1], 'plan', 'pro')", "1", key_of("k")), pro), (("FLUSHALL",), free),
        (("HSET", key_of("k"), "plan", "pro"), pro), (("FLUSHDB",), free),
    ]  # fmt: skip
    for command, wanted in ways:
        redis.command(*command)
        holds(nodes, wanted)
    redis.command("HSET", key_of("k"), "plan", "pro")
    holds(nodes, pro)
    redis.command("PEXPIRE", key_of("k"), "10000000")
    redis.command("PERSIST", key_of("k"))
    holds(nodes, pro)


def test_a_hot_caller_costs_no_question_whether_it_has_a_plan_or_not(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE, count=2)
    redis.command("HSET", key_of("customer"), "plan", "pro")
    for key in ("customer", "nobody"):
        wait_until(is_told(redis, nodes, key), "the nodes know")
    before = questions(redis)
    for _ in range(100):
        for node in nodes:
            ask(node, "customer"), ask(node, "nobody")
    assert questions(redis) == before
    redis.command("HSET", key_of("stranger"), "plan", "pro")
    for _ in range(20):
        ask(nodes[0], "customer")
    assert questions(redis) == before, "another's change costs nothing"


def test_a_plan_that_ends_by_itself_is_not_kept_longer(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE, count=2)
    # Redis is kept from noticing by itself that the time is over, so that no message comes.
    redis.command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    redis.command("HSET", key_of("k"), "plan", "pro")
    redis.command("PEXPIRE", key_of("k"), "300")
    holds(nodes, 200000)
    holds(nodes, 100000)


@pytest.mark.parametrize("rules", [["-client|tracking"], ["-client|id"], ["resetchannels", "&weir:*"]], ids=["no tracking", "no id", "no channel"])
def test_while_no_changes_can_be_heard_each_request_asks(redis_fleet, redis, upstream, rules):
    redis.command("ACL", "SETUSER", "default", *rules)
    nodes = start(redis_fleet, upstream, WIDE)
    for turn in range(30):
        wanted = "pro" if turn % 2 == 0 else "free"
        redis.command("HSET", key_of("k"), "plan", wanted)
        assert [quota(node) for node in nodes] == [200000 if wanted == "pro" else 100000] * 3, "at once: nothing is trusted"
    before = questions(redis)
    for node in nodes:
        ask(node)
    assert questions(redis) == before + 3
    wait_until(lambda: "plans are read anew for each request" in nodes[0].stderr, "it is told, once a connection")
    assert nodes[0].stderr.count("plans are read anew for each request") == 1
    assert "invalidations of other nodes are not pushed" not in nodes[0].stderr, "nothing else suffers"


def test_a_lost_subscription_is_noticed_and_comes_back(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE)
    for turn in range(8):
        for name in (("weir-ear",), ("weir-ask",), ("weir-ear", "weir-ask"))[turn % 3]:
            for number in clients(redis, name):
                redis.command("CLIENT", "KILL", "ID", number)
        redis.command("HSET", key_of("k"), "plan", "pro" if turn % 2 == 0 else "free")
        holds(nodes, 200000 if turn % 2 == 0 else 100000)
    wait_until(is_told(redis, nodes), "it is heard again of changes, and nobody asks")
    redis.command("DEL", key_of("k"))
    holds(nodes, 100000)


def test_a_redis_that_was_mute_for_a_while_is_heard_again(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE, count=2, store={"url": redis.url, "timeout": "300ms"})
    redis.command("HSET", key_of("k"), "plan", "pro")
    holds(nodes, 200000)
    wait_until(is_told(redis, nodes), "nobody asks")
    redis.freeze()
    for node in nodes:
        wait_until(lambda node=node: ask(node).status == 200 and node.metric("weir_store_up") == 0, "it is noticed")
    assert [quota(node) for node in nodes] == [200000] * 2, "the last plan that was heard"
    redis.thaw()
    wait_until(is_told(redis, nodes), "nobody asks")
    redis.command("HSET", key_of("k"), "plan", "free")
    holds(nodes, 100000)


def test_a_redis_that_starts_anew_is_believed_about_plans(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE, count=2)
    redis.command("HSET", key_of("k"), "plan", "pro")
    holds(nodes, 200000)
    redis.kill()
    wait_until(lambda: ask(nodes[0]).status == 200 and nodes[0].metric("weir_store_up") == 0, "it is noticed")
    assert quota(nodes[0]) == 200000, "the last plan that was heard"
    assert quota(nodes[0], "stranger") == 100000, "else the default"
    redis.start()
    holds(nodes, 100000)
    redis.command("HSET", key_of("k"), "plan", "pro")
    holds(nodes, 200000)
    wait_until(is_told(redis, nodes), "nobody asks")


def test_once_a_node_shows_a_new_plan_it_never_shows_the_old_one_again(redis_fleet, redis, upstream):
    """An answer that was read before a change and arrives after its message must not be kept."""
    node = start(redis_fleet, upstream, WIDE, count=1, workers=2)[0]
    stops = []

    def hammer():
        with node.connect() as connection:
            while not stops:
                connection.ask("GET", "/", {"x-api-key": "k"})

    crowd = [Background(hammer) for _ in range(3)]
    for turn in range(150):
        wanted = 200000 if turn % 2 == 0 else 100000
        redis.command("HSET", key_of("k"), "plan", "pro" if turn % 2 == 0 else "free")
        wait_until(lambda: quota(node) == wanted, "the plan holds")  # noqa: B023
        seen = {quota(node) for _ in range(4)}
        assert seen == {wanted}, f"turn {turn}"
    stops.append(True)
    for each in crowd:
        each.result()


def test_a_plan_that_no_limit_has_counts_as_the_default_and_is_told(redis_fleet, redis, upstream):
    nodes = start(redis_fleet, upstream, WIDE, count=1)
    redis.command("HSET", key_of("k"), "plan", "gold\r\n")
    assert quota(nodes[0]) == 100000 and quota(nodes[0]) == 100000
    assert nodes[0].metric("weir_unknown_plans_total", limit="client") >= 2
    code, out, _ = nodes[0].command("client", "get", "k")
    assert code == 0 and out.startswith('"gold') and "\r" not in out, "a terminal is told nothing that it might obey"
    redis.command("DEL", key_of("k"))
    redis.command("SET", key_of("k"), "pro")
    assert quota(nodes[0]) == 100000, "what is no hash says nothing"
    redis.command("DEL", key_of("k"))
    assert nodes[0].stderr.count("a plan that this limit does not have") == 1
    assert "gold" not in nodes[0].stderr and key_of("k")[8:-1] not in nodes[0].stderr


def test_whatever_bytes_a_plan_has_for_a_name_the_answer_is_json(redis_fleet, redis, upstream):
    node = start(redis_fleet, upstream, count=1)[0]
    for name, shown in ((b"\xff\xfe", "\u00ff\u00fe"), ("gr\u00f6\u00dfer".encode(), "gr\u00f6\u00dfer"), (b'"},{\x1b\r\n', '"},{\x1b\r\n'), (b"pro\xc3", "pro\u00c3"),
                        (b"\xc3" * 500, "\u00c3" * 65)):
        redis.command("HSET", key_of("k"), "plan", name)
        assert json.loads(node.admin("GET", "/api/clients/k").body.decode()) == {"plan": shown}
    assert json.loads(node.admin("GET", "/api/limits/client/k").body.decode())["plan"] == "\u00c3" * 65


@pytest.mark.parametrize("changes", [60000, 200000], ids=["one message", "more than a message may have, so that the connection is made anew"])
def test_many_changes_at_once_are_heard(redis_fleet, redis, upstream, changes):
    nodes = start(redis_fleet, upstream, WIDE, count=2)
    for key in ("a", "b"):
        redis.command("HSET", key_of(key), "plan", "pro")
        holds(nodes, 200000, key)
    script = "for i = 1, ARGV[1] do redis.call('HSET', 'weir:p:{' .. string.format('%032x', i) .. '}', 'plan', 'pro') end redis.call('DEL', KEYS[1])"
    redis.command("EVAL", script, "1", key_of("a"), str(changes))
    holds(nodes, 100000, "a")
    holds(nodes, 200000, "b")
    wait_until(is_told(redis, nodes, "a"), "nobody asks")
    redis.command("DEL", key_of("b"))
    holds(nodes, 100000, "b")
    redis.command("FLUSHALL")
