"""What a hostile client may try on a cache that others share, and what an odd one may send."""

import json
import signal
import threading

import pytest

from weir import Background, Node, wait_until
from wire import PATIENCE_S, request_bytes

CACHED = [{"match": "GET /c/{id}", "cache": {"ttl": "60s", "tags": ["c:{id}"]}},
          {"match": "PUT /c/{id}", "invalidates": ["c:{id}"]}, {"match": "/**"}]


def repeats_the_request(talk, request):
    """An upstream that believes every field: its answer is all that it was told."""
    told = "\n".join([request.first_line] + [f"{name}: {value}" for name, value in request.fields])
    talk.answer(200, {"Cache-Control": "max-age=60"}, told.encode())


PROXYS_WORDS = ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X_Forwarded-Port",
                "Forwarded", "X-Real-IP", "X-Host", "X-Original-Host", "X-Original-URL", "X-Rewrite-URL", "Front-End-Https"]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_nothing_that_a_client_says_about_the_hop_is_kept_for_others(memory_fleet, scripted, is_trusted):
    trust = {"trusted_proxies": ["127.0.0.0/8"]} if is_trusted else {}
    node = memory_fleet.start(scripted(repeats_the_request, each=True).url, CACHED, **trust)[0]
    for index, name in enumerate(PROXYS_WORDS):
        node.get(f"/c/{index}", {name: "evil.test"})
        other = node.get(f"/c/{index}")
        assert "evil" not in other.text or (is_trusted and name == "X-Forwarded-For"), name
    if not is_trusted:
        assert "evil" not in node.get("/other", [(name, "evil.test") for name in PROXYS_WORDS]).text


def test_a_trusted_proxys_scheme_and_host_are_part_of_what_is_asked_for(memory_fleet, scripted):
    node = memory_fleet.start(scripted(repeats_the_request, each=True).url, CACHED, trusted_proxies=["127.0.0.0/8"])[0]
    asked = [{}, {"X-Forwarded-Proto": "https"}, {"X-Forwarded-Host": "a.test"}, {"X-Forwarded-Host": "b.test"}]
    assert [node.get("/c/1", fields)["x-cache"] for fields in asked] == ["MISS"] * 4
    assert [node.get("/c/1", fields)["x-cache"] for fields in asked] == ["HIT"] * 4
    assert "x-forwarded-proto: https" in node.get("/c/1", asked[1]).text


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
def test_an_answer_to_another_method_is_not_kept_as_that_of_get(memory_fleet, scripted, name):
    node = memory_fleet.start(scripted(repeats_the_request, each=True).url, CACHED)[0]
    first = node.get("/c/1", {name: "DELETE"})
    assert (first["x-cache"], "delete" in first.text.lower()) == ("BYPASS", True)
    second = node.get("/c/1")
    assert (second["x-cache"], "delete" in second.text.lower()) == ("MISS", False)


@pytest.mark.parametrize("cached, changed", [
    ("/c/42", "/c/%34%32"), ("/c/user@a.test", "/c/user%40a.test"), ("/c/a%3Ab", "/c/a:b"), ("/c/a,b", "/c/a%2cb"), ("/c/a%2fb", "/c/a%2Fb")])
def test_a_change_reaches_its_resource_however_it_is_spelled(fleet, scripted, cached, changed):
    first, second = fleet.start(scripted(repeats_the_request, each=True).url, CACHED)
    assert first.get(cached)["x-cache"] == "MISS"
    assert second.get(cached)["x-cache"] in ("HIT", "WAIT")
    assert second.ask("PUT", changed, body=b"new").status == 200
    assert first.get(cached)["x-cache"] == "MISS"


PRIVATE_FAILURES = [{"Cache-Control": "no-store"}, {"Cache-Control": "private; x"}, {"Set-Cookie": "a=b"}, {"Vary": "Cookie"}, {"Cache-Control": "no-cache"}]


@pytest.mark.parametrize("fields", PRIVATE_FAILURES)
def test_a_failure_that_is_told_to_one_client_is_repeated_to_no_other(fleet, scripted, fields):
    def tell_the_cookie(talk, request):
        upstream.wait_requests(1)
        arrived.wait(PATIENCE_S)
        talk.answer(500, fields, f"for {request['cookie']}".encode())

    arrived = threading.Event()
    upstream = scripted(tell_the_cookie, each=True)
    nodes = fleet.start(upstream.url, CACHED)
    asks = [Background(lambda i=i: nodes[i % 2].get("/c/1", {"Cookie": f"user{i}"})) for i in range(6)]
    upstream.wait_requests(1)
    arrived.set()
    for index, ask in enumerate(asks):
        answer = ask.result()
        assert answer.status in (500, 502)
        assert "for user" not in answer.text or answer.text == f"for user{index}"


@pytest.mark.parametrize("fields", PRIVATE_FAILURES)
def test_a_copy_stands_in_for_a_failure_whatever_that_says(memory_fleet, scripted, fields):
    def fail_later(talk, request):
        if len(upstream.requests) == 1:
            talk.answer(200, {}, b"good")
        else:
            talk.answer(503, fields, b"bad")

    upstream = scripted(fail_later, each=True)
    node = memory_fleet.start(upstream.url, [{"match": "GET /c/{id}", "cache": {"ttl": "1ms", "stale_if_error": "60s"}}])[0]
    assert node.get("/c/1").text == "good"
    wait_until(lambda: node.get("/c/1")["x-cache"] == "STALE", "the copy is stale")
    assert node.get("/c/1").text == "good"


@pytest.mark.parametrize("key, once, company", [
    ("header:x-api-key", ("/c", [("X-Api-Key", "k")]), lambda i: ("/c", [("X-Api-Key", "k"), ("X-Api-Key", f"other{i}")])),
    ("query:key", ("/c?key=k", []), lambda i: (f"/c?key=k&key=other{i}", [])),
    ("cookie:sid", ("/c", [("Cookie", "sid=k")]), lambda i: ("/c", [("Cookie", f"sid=k; sid=other{i}")]))], ids=["header", "query", "cookie"])
def test_a_key_in_ever_new_company_gets_no_budget_of_its_own(fleet, scripted, key, once, company):
    upstream = scripted(repeats_the_request, each=True)
    nodes = fleet.start(upstream.url, [{"match": "/**", "limits": ["l"]}], {"l": {"key": key, "missing": "reject", "rate": "2/d"}})
    assert [nodes[i % 2].get(*once).status for i in range(3)] == [200, 200, 429]
    for i in range(4):
        answer = nodes[i % 2].get(*company(i))
        assert (answer.status, json.loads(answer.body)["code"]) == (400, "ambiguous_key")
    assert len(upstream.requests) == 2


def test_a_client_cannot_take_on_the_address_of_the_proxy_before_us(memory_fleet, upstream):
    limits = {"l": {"key": "ip", "rate": "1/d"}}
    node = memory_fleet.start(upstream.url, [{"match": "/**", "limits": ["l"]}], limits, trusted_proxies=["127.0.0.0/8"])[0]
    fields = [("X-Forwarded-For", "192.0.2.1")]
    assert [node.get("/products/1", fields).status, node.get("/products/1", fields + [("Connection", "x-forwarded-for")]).status] == [200, 429]


def test_clients_cannot_take_the_descriptors_that_upstreams_need(memory_fleet, scripted):
    """More clients than the process may have open files: those that are let in are served, the others wait their turn."""
    upstream = scripted(repeats_the_request, each=True)
    configuration = memory_fleet.configuration(upstream.url, [{"match": "/**"}], client={"idle_timeout": "1s"})
    node = Node(memory_fleet.folder, "little", {**configuration, "workers": 1}, before=["prlimit", "--nofile=100"])
    memory_fleet.nodes.append(node)
    clients = [node.connect() for _ in range(100)]
    for index, client in enumerate(clients):
        client.send(request_bytes("GET", f"/{index}"))
    assert {client.answer().status for client in clients} == {200}
    assert "client.max_connections is 10000" in node.stderr


def test_logs_at_the_limit_of_their_size_end_no_process(memory_fleet, scripted, tmp_path):
    """Whoever can make Weir write much must not be able to end it by that."""
    upstream = scripted(repeats_the_request, each=True)
    configuration = memory_fleet.configuration(upstream.url, [{"match": "/**"}], log={"access": str(tmp_path / "access.log")})
    node = Node(memory_fleet.folder, "limited", configuration, before=["prlimit", "--fsize=1024"])
    memory_fleet.nodes.append(node)
    for index in range(20):
        assert node.reload()
        assert node.get(f"/{index}").status == 200
    for full in (node.stderr_path, tmp_path / "access.log"):
        wait_until(lambda full=full: full.stat().st_size == 1024, "the limit is reached")


def changes_when_told(talk, request):
    """A resource with a state, which a PUT changes when `talk.upstream.may_change` is set, and answers as `talk.upstream.ending` says."""
    upstream = talk.upstream
    if request.method != "PUT":
        talk.answer(200, {}, b"new" if upstream.has_changed else b"old")
        return
    assert upstream.may_change.wait(PATIENCE_S)
    upstream.has_changed = True
    upstream.ending(talk)


def stateful(scripted, ending):
    upstream = scripted(changes_when_told, each=True)
    upstream.may_change, upstream.has_changed, upstream.ending = threading.Event(), False, ending
    return upstream


@pytest.mark.parametrize("body", [b"new", b"new" * 100000, None], ids=["short", "long", "none"])
def test_a_change_whose_client_has_left_still_invalidates(fleet, scripted, body):
    upstream = stateful(scripted, lambda talk: talk.answer(200))
    first, second = fleet.start(upstream.url, CACHED)
    assert first.get("/c/1").text == "old"
    with first.connect() as client:
        client.send(request_bytes("PUT", "/c/1", (), body))
        upstream.wait_requests(2)
        client.reset()
    wait_until(lambda: first.metric("weir_requests_total", status="499") == 1, "the departure is noticed")
    upstream.may_change.set()
    wait_until(lambda: second.get("/c/1").text == "new", "the new state is served")
    assert first.get("/c/1").text == "new"


@pytest.mark.parametrize("ending", [lambda talk: talk.reset(), lambda talk: talk.send(b"nonsense\r\n\r\n"),
                                    lambda talk: talk.wait_closed()], ids=["breaks", "nonsense", "silent"])
def test_a_change_of_which_nobody_knows_whether_it_was_made_invalidates(fleet, scripted, ending):
    upstream = stateful(scripted, ending)
    upstream.may_change.set()
    first, second = fleet.start({"servers": [upstream.url], "first_byte_timeout": "200ms", "retries": 0}, CACHED)
    assert first.get("/c/1").text == "old"
    assert first.ask("PUT", "/c/1", body=b"new").status in (502, 504)
    wait_until(lambda: second.get("/c/1").text == "new", "the new state is served")
    assert first.get("/c/1").text == "new"


def test_a_stopped_node_awaits_the_change_of_a_client_that_left(redis_fleet, scripted):
    upstream = stateful(scripted, lambda talk: talk.answer(200))
    first, second = redis_fleet.start(upstream.url, CACHED)
    assert second.get("/c/1").text == "old"
    with first.connect() as client:
        client.send(request_bytes("PUT", "/c/1", (), b"new"))
        upstream.wait_requests(2)
        client.reset()
    wait_until(lambda: first.metric("weir_requests_total", status="499") == 1, "the departure is noticed")
    first.signal(signal.SIGTERM)
    upstream.may_change.set()
    assert first.wait() == 0
    redis_fleet.remove(first)
    assert second.get("/c/1").text == "new"


def test_a_client_of_http_1_0_need_not_name_a_host(memory_fleet, scripted):
    upstream = scripted(repeats_the_request, each=True)
    node = memory_fleet.start(upstream.url, CACHED)[0]
    for target in ("/c/1", "/other"):
        with node.connect() as connection:
            connection.send(f"GET {target} HTTP/1.0\r\n\r\n".encode())
            answer = connection.answer()
        assert answer.status == 200 and f"host: 127.0.0.1:{upstream.port}" in answer.text


def test_a_request_with_no_field_but_host_is_served(fleet, upstream):
    node = fleet.start(upstream.url, [{"match": "/**"}])[0]
    with node.connect() as connection:
        connection.send(b"GET /products/1 HTTP/1.1\r\nHost: api.test\r\n\r\n")
        assert connection.answer().status == 200
