"""Plans: what a caller is allowed is what its plan says, whoever wrote that, by the API, the command or the store itself."""

import hashlib
import json
import urllib.parse

import pytest

from weir import Background, wait_until

JSON = {"Content-Type": "application/json"}
LIMIT = {"key": "header:x-api-key", "plans": {"default": "free", "free": "5/30d", "pro": "20/30d"}}
ROUTES = [{"match": "/**", "rewrite": "/healthz", "limits": ["client"]}]


def principal(value, kind="header:x-api-key"):
    return hashlib.sha256(kind.encode() + b"\0" + value.encode()).hexdigest()


def start(fleet, upstream, limit=LIMIT, **more):
    return fleet.start(upstream.url, ROUTES, {"client": limit}, **more)


def ask(node, key="k"):
    return node.get("/", {"x-api-key": key} if key else {})


def quota(answer):
    return int(answer["ratelimit-policy"].split("q=")[1].split(";")[0])


def put(node, key, plan, query=""):
    return node.admin("PUT", f"/api/clients/{urllib.parse.quote(key, safe='')}{query}", JSON, json.dumps({"plan": plan}).encode())


def api(node, method, target):
    answer = node.admin(method, target)
    assert answer["content-type"] in ("application/json", "application/problem+json")
    return answer.status, json.loads(answer.body)


def test_without_a_plan_the_default_one_holds_and_another_when_it_is_set(fleet, upstream):
    one, other = start(fleet, upstream)
    assert [(ask(one).status, quota(ask(other))) for _ in range(2)] == [(200, 5)] * 2
    assert json.loads(put(one, "k", "pro").body) == {"plan": "pro", "had_one": False}
    wait_until(lambda: quota(ask(other)) == 20, "the plan holds on every node")
    answer = ask(one)
    assert answer["ratelimit-limit"] == "20" and '"client";q=20;' in answer["ratelimit-policy"]
    used = 20 - int(answer["ratelimit-remaining"])
    admitted = [ask((one, other)[i % 2]).status for i in range(30)].count(200)
    assert admitted == 20 - used, "what was consumed stays consumed, and no more passes than the new plan allows"
    assert quota(ask(one, "another")) == 5


def test_a_smaller_plan_holds_at_once(fleet, upstream):
    one, _ = start(fleet, upstream)
    put(one, "k", "pro")
    assert [ask(one).status for _ in range(7)] == [200] * 7
    put(one, "k", "free")
    refused = ask(one)
    problem = json.loads(refused.body)
    assert refused.status == 429 and quota(refused) == 5 and refused["ratelimit-remaining"] == "0"
    assert problem["limit"] == "client" and problem["retry_after_ms"] > 0
    put(one, "k", "pro")
    assert ask(one).status == 200, "the refusal belonged to the other plan"


def test_a_cost_is_held_against_the_plans_own_capacity(fleet, upstream):
    one, _ = start(fleet, upstream, {**LIMIT, "cost": {"header": "x-cost", "max": 50}})
    def dear():
        return one.get("/", {"x-api-key": "k", "x-cost": "10"})
    assert dear().status == 400 and json.loads(dear().body)["code"] == "cost_exceeds_limit"
    put(one, "k", "pro")
    assert dear().status == 200


def test_the_plan_of_a_list_of_keys_is_that_of_its_first_part(fleet, upstream):
    one, _ = start(fleet, upstream, {**LIMIT, "key": ["header:x-api-key", "query:doc"]})
    assert put(one, "k", "pro").status == 200
    answers = [one.get(f"/?doc={doc}", {"x-api-key": "k"}) for doc in "ab"]
    assert [(quota(each), each["ratelimit-remaining"]) for each in answers] == [(20, "19")] * 2
    assert api(one, "GET", "/api/limits/client/k/a")[1]["available"] == 19
    assert api(one, "GET", f"/api/limits/client/sha256:{principal('1:k1:a', 'header:x-api-key,query:doc')}")[1]["code"] == "bad_key", "of which caller?"
    assert api(one, "DELETE", "/api/limits/client/k/a") == (200, {"limit": "client", "was_used": True})
    assert [api(one, "GET", f"/api/limits/client/k/{doc}")[1]["available"] for doc in "ab"] == [20, 19]


def test_what_only_misses_cost_is_allowed_by_plan_too(fleet, upstream):
    routes = [{"match": "GET /products/{id}", "limits": ["client"], "cache": {"ttl": "1h"}}]
    one, _ = fleet.start(upstream.url, routes, {"client": {**LIMIT, "counts": "misses"}})
    def products(numbers):
        return [one.get(f"/products/{number}", {"x-api-key": "k"}).status for number in numbers]
    assert products([1] * 9 + [2, 3, 4, 5, 6]) == [200] * 13 + [429]
    put(one, "k", "pro")
    assert products(range(1, 22)) == [200] * 20 + [429]


@pytest.mark.parametrize("what", ["a better plan", "a reset"])
def test_who_waits_passes_as_soon_as_that_lets_him(fleet, upstream, what):
    limit = {"key": "header:x-api-key", "algorithm": "sliding_log", "plans": {"default": "free", "free": "1/55s", "pro": "20/55s"},
             "when_refused": "wait", "max_wait": "1m"}
    one, other = start(fleet, upstream, limit)
    assert ask(one).status == 200
    waiting = [Background(lambda node=node: ask(node).status) for node in (one, other)]
    wait_until(lambda: sum(node.metric("weir_limit_waiting", limit="client") for node in {one, other}) == 2, "both wait")
    if what == "a reset":
        api(one, "DELETE", "/api/limits/client/k")
        wait_until(lambda: any(each.is_over() for each in waiting), "one passes")
        assert sum(node.metric("weir_limit_waiting", limit="client") for node in {one, other}) == 1, "the other waits for what the first took"
        api(other, "DELETE", "/api/limits/client/k")
    else:
        put(one, "k", "pro")
    wait_until(lambda: all(each.is_over() for each in waiting), "both pass, long before their plan would have let them", 25)
    assert [each.result() for each in waiting] == [200, 200]


def test_a_limit_in_shadow_counts_by_plan_and_refuses_nobody(fleet, upstream):
    one, _ = start(fleet, upstream, {**LIMIT, "mode": "shadow"})
    put(one, "k", "pro")
    assert [ask(one).status for _ in range(25)] == [200] * 25
    assert one.metric("weir_limit_decisions_total", limit="client", outcome="shadow_refused") == 5


def test_with_unknown_ip_invented_keys_share_their_address_budget(fleet, upstream):
    one, other = start(fleet, upstream, {**LIMIT, "unknown": "ip"})
    put(one, "customer", "pro")
    wait_until(lambda: quota(ask(other, "customer")) == 20, "the plan holds on every node")
    assert [ask((one, other)[i % 2], f"invented-{i}").status for i in range(12)] == [200] * 5 + [429] * 7
    assert ask(other, None).status == 429, "nor does leaving the key out give more"
    assert ask(one, "customer").status == 200
    by_address = api(one, "GET", "/api/limits/client/127.0.0.1?by=ip")[1]
    assert (by_address["available"], by_address["plan"], by_address["quota"]) == (0, None, 5)


def test_reading_a_state_changes_nothing_and_tells_what_the_next_request_would_be_told(fleet, upstream):
    one, other = start(fleet, upstream)
    untouched = {"limit": "client", "algorithm": "sliding_window", "plan": None, "quota": 5, "window_ms": 30 * 86400000,
                 "available": 5, "retry_after_ms": 0}
    for key in ("k", f"sha256:{principal('k')}", f"sha256:{principal('k')[:32].upper()}"):
        status, state = api(one, "GET", f"/api/limits/client/{key}")
        assert status == 200 and 0 <= state.pop("reset_ms") <= 30 * 86400000 and state == untouched
    assert fleet.redis is None or not [key for key in fleet.redis.keys() if b":l:" in key]
    for _ in range(5):
        ask(other)
    states = [api(one, "GET", "/api/limits/client/k")[1] for _ in range(3)]
    refused = json.loads(ask(other).body)
    assert all(state["available"] == 0 for state in states)
    assert states[0]["retry_after_ms"] >= states[-1]["retry_after_ms"] >= refused["retry_after_ms"] > 0


def test_after_a_reset_the_next_request_passes_although_refusals_were_remembered(fleet, upstream):
    one, other = start(fleet, upstream)
    for _ in range(5):
        assert ask(one).status == 200
    for round_ in range(5):
        assert [ask(node).status for node in (one, other) * 10] == [429] * 20
        assert api(one, "DELETE", "/api/limits/client/k") == (200, {"limit": "client", "was_used": True})
        assert ask(one).status == 200, "on the node that did it: at once"
        wait_until(lambda: ask(other).status == 200, "on every node")
        while ask(one).status == 200:
            pass
    assert api(one, "DELETE", "/api/limits/client/nobody") == (200, {"limit": "client", "was_used": False})


def test_the_metrics_tell_how_many_callers_a_limit_has(fleet, upstream):
    one, other = start(fleet, upstream)
    with one.connect() as connection:
        for caller in list(range(60)) * 2:
            assert connection.ask("GET", "/", {"x-api-key": f"caller-{caller}"}).status == 200
    metrics = one.metrics()
    assert 54 <= metrics.sum("weir_limit_callers", limit="client") <= 66
    assert metrics.sum("weir_limit_keys", limit="client") == (0 if fleet.redis else 60)
    assert metrics.types["weir_limit_keys"] == metrics.types["weir_limit_callers"] == "gauge"
    assert one.reload({**one.configuration, "limits": {"client": {"key": "ip", "rate": "5/s"}, "new": LIMIT}})
    metrics = one.metrics()
    assert 54 <= metrics.sum("weir_limit_callers", limit="client") <= 66, "a reload goes on counting"
    assert 'weir_limit_keys{limit="new"} 0' in metrics.text
    assert one.reload({**one.configuration, "limits": {"other": LIMIT}, "routes": [{"match": "/**", "upstream": "api"}]})
    assert 'limit_keys{limit="client"}' not in one.metrics().text


def test_keys_are_what_requests_have_and_nothing_else(fleet, upstream):
    one, _ = start(fleet, upstream)
    for key in ("k%/ü?&=#", "sha256", "a" * 3000):
        put(one, key, "pro")
        quoted = urllib.parse.quote(key, safe="")
        assert api(one, "GET", f"/api/clients/{quoted}") == (200, {"plan": "pro"})
        assert api(one, "GET", f"/api/clients/sha256:{principal(key)}") == (200, {"plan": "pro"})
        assert api(one, "DELETE", f"/api/clients/{quoted}") == (200, {"plan": None, "had_one": True})
        assert api(one, "DELETE", f"/api/clients/{quoted}") == (200, {"plan": None, "had_one": False})


def test_mistakes_are_told_and_change_nothing(fleet, upstream):
    limits = {"client": LIMIT, "plain": {"key": ["ip", "header:a"], "rate": "5/30d"}, "all": {"key": "global", "rate": "5/30d"},
              "shared": {"key": "header:a", "missing": "shared", "rate": "5/30d"}}
    one, _ = fleet.start(upstream.url, [{"match": "/**", "limits": ["client"]}], limits)
    rows = [
        ("GET", "/api/limits/clinet/k", 404, "unknown_limit"),
        ("GET", "/api/limits/", 404, "unknown_limit"),
        ("GET", "/api/limits/client", 400, "bad_key"),
        ("GET", "/api/limits/client/", 400, "bad_key"),
        ("GET", "/api/limits/client/a/b", 400, "bad_key"),
        ("GET", "/api/limits/client/%zz", 400, "malformed_request"),
        ("GET", "/api/limits/client/%4", 400, "malformed_request"),
        ("GET", "/api/limits/client/sha256:12", 400, "bad_key"),
        ("GET", f"/api/limits/client/sha256:{'g' * 32}", 400, "bad_key"),
        ("GET", "/api/limits/client/" + "/".join("a" * 20), 400, "bad_key"),
        ("GET", "/api/limits/client/nowhere?by=ip", 400, "bad_key"),
        ("GET", "/api/limits/client/k?by=name", 400, "bad_key"),
        ("GET", "/api/limits/plain/not-an-address/x", 400, "bad_key"),
        ("GET", "/api/limits/shared/k?by=shared", 400, "bad_key"),
        ("GET", "/api/limits/plain/::1/x", 200, None),
        ("GET", "/api/limits/all", 200, None),
        ("GET", "/api/limits/all/", 200, None),
        ("GET", "/api/limits/all/x", 400, "bad_key"),
        ("GET", "/api/limits/shared/?by=shared", 200, None),
        ("POST", "/api/limits/client/k", 405, "method_not_allowed"),
        ("PUT", "/api/limits/client/k", 405, "method_not_allowed"),
        ("GET", "/api/clients/k?limit=plain", 404, "unknown_limit"),
        ("GET", "/api/clients/a/b", 400, "bad_key"),
        ("GET", "/api/clients/", 400, "bad_key"),
        ("POST", "/api/clients/k", 405, "method_not_allowed"),
        ("PUT", "/api/clients/k", 415, "json_required"),
    ]
    for method, target, status, code in rows:
        got = api(one, method, target)
        assert (got[0], got[1].get("code")) == (status, code), (method, target, got)
    for body in (b"", b"{", b"[]", b"{}", b'{"plan": 1}', b'{"plan": ""}', b'{"plan": "gold"}', b'{"plan": "pro", "x": 1}',
                 b'{"plan": "default"}', b'{"plan": "' + b"p" * 70 + b'"}', b'{"plan": "pro\\u0000"}'):
        answer = one.admin("PUT", "/api/clients/k", JSON, body)
        assert (answer.status, json.loads(answer.body)["code"]) == (400, "bad_plan"), body
    assert api(one, "GET", "/api/clients/k") == (200, {"plan": None})


def test_the_command_reads_sets_and_forgets(fleet, upstream):
    one, other = start(fleet, upstream)
    default = "no plan of its own: the default of each limit\n"
    assert one.command("client", "get", "k") == (0, default, "")
    assert one.command("client", "set", "k", "pro") == (0, "pro, from now on\n", "")
    wait_until(lambda: quota(ask(other)) == 20, "the plan holds on every node")
    assert one.command("client", "get", "k") == (0, "pro\n", "")
    assert other.command("client", "--limit", "client", "get", f"sha256:{principal('k')}") == (0, "pro\n", "")
    assert one.command("client", "del", "k") == (0, "no plan from now on\n", "")
    assert one.command("client", "del", "k") == (0, "there was none\n", "")
    assert one.command("client", "get", "k") == (0, default, "")
    wait_until(lambda: quota(ask(other)) == 5, "the default holds on every node")
    assert one.command("client", "set", "--", "-k/%", "pro")[0] == 0
    assert quota(ask(one, "-k/%")) == 20


def test_the_command_says_what_is_wrong_by_its_exit_code_too(fleet, upstream):
    one, _ = start(fleet, upstream)
    for words in (["get"], ["get", "k", "pro"], ["set", "k"], ["set", "k", "gold"], ["put", "k"], ["--limit", "no", "get", "k"],
                  ["get", "sha256:1"], ["--lim", "x", "get", "k"], ["get", ""]):
        code, out, err = one.command("client", *words)
        assert (code, out) == (2, "") and err.startswith("weir client: ") and err.count("\n") == 1, (words, code, out, err)
        assert "k" == words[-1] or "secret" not in err
    if fleet.redis is not None:
        fleet.redis.kill()
    else:
        one.signal(15)
        one.wait()
        fleet.nodes.remove(one)
    code, out, err = one.command("client", "get", "k")
    assert (code, out) == (1, "") and err.startswith("weir client: ") and err.count("\n") == 1
    one.close() if fleet.redis is None else None


def test_no_key_is_told_to_logs_metrics_or_the_store(fleet, upstream):
    one, _ = start(fleet, upstream)
    secret = "s3cr3t-of-a-customer"
    put(one, secret, "pro"), put(one, secret, "gold"), ask(one, secret)
    api(one, "GET", f"/api/limits/client/{secret}"), api(one, "DELETE", f"/api/limits/client/{secret}")
    api(one, "GET", f"/api/limits/nope/{secret}"), one.command("client", "set", secret, "gold")
    told = one.stdout + one.stderr + one.metrics().text + (fleet.redis.dump().decode(errors="replace") if fleet.redis else "")
    assert secret not in told
