"""Server: connections, bodies, fields, the admin port, logs and the end of the process, as clients and operators meet them."""

import hashlib
import json
import os
import re
import socket
import subprocess
import threading
import zlib

import pytest

from weir import BUILD, Background, Port, together, wait_until
from wire import Broken, Connection, request_bytes

PASS = [{"match": "/**"}]
THING = {"match": "GET /thing", "cache": {"ttl": "1h", "lock_timeout": "10m"}}


def gated(scripted, body=b"done"):
    """An upstream that answers when the test says so."""
    gate = threading.Event()

    def answer(talk, _request):
        gate.wait(60)
        talk.answer(body=body)

    return scripted(answer, each=True), gate


def echo(scripted):
    """Each answer's body is its request's target."""
    return scripted(lambda talk, request: talk.answer(body=request.target.encode()), each=True)


# ---- connections ----


def test_a_connection_is_kept_and_pipelined_requests_are_answered_in_order(fleet, upstream):
    a, _ = fleet.start(upstream.url, [{"match": "GET /products/{id}", "cache": {"ttl": "1h"}}, *PASS])
    with a.connect() as client:
        bodies = [client.ask("GET", f"/products/{i}").body for i in range(5)]
        asked = [("GET", f"/products/{i % 5}", None) if i % 3 else ("POST", "/echo", b"x" * i) for i in range(60)]
        client.send(b"".join(request_bytes(method, target, body=body) for method, target, body in asked))
        for i, (method, _, body) in enumerate(asked):
            answer = client.answer(method)
            assert answer.status == 200
            if method == "GET":
                assert answer.body == bodies[i % 5]
            else:
                assert json.loads(answer.body)["body_bytes"] == len(body)
    wait_until(lambda: a.metric("weir_client_connections") == 0, "it is counted as closed")


def test_requests_come_in_pieces_of_any_size(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS)
    data = request_bytes("POST", "/echo", {"X-One": "1"}, b"body") + request_bytes("GET", "/healthz")
    for size in (1, 2, 7):
        with a.connect() as client:
            for at in range(0, len(data), size):
                client.send(data[at : at + size])
            assert json.loads(client.answer("POST").body)["body"] == "body"
            assert client.answer().body == b"ok\n"


@pytest.mark.parametrize("version, field, is_kept", [("1.1", "", True), ("1.1", "Connection: close", False), ("1.0", "", False)])
def test_connections_end_when_asked_to(memory_fleet, upstream, version, field, is_kept):
    a, _ = memory_fleet.start(upstream.url, PASS)
    for target in ("/size/1000", "/chunked/1000"):
        with a.connect() as client:
            client.send(f"GET {target} HTTP/{version}\r\nHost: a\r\n{field}{chr(13) + chr(10) if field else ''}\r\n".encode())
            answer = client.answer()
            assert (answer.status, len(answer.body)) == (200, 1000)
            if is_kept:
                assert client.ask("GET", "/healthz").status == 200
            else:
                assert client.rest() == b""


def test_an_idle_connection_and_a_slow_head_are_ended(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS, client={"idle_timeout": "150ms", "header_timeout": "100ms", "body_timeout": "100ms"})
    with a.connect() as idle, a.connect() as mute, a.connect() as slow_head, a.connect() as slow_body:
        assert idle.ask("GET", "/healthz").status == 200
        slow_head.send(b"GET / HTTP/1.1\r\nHo")
        slow_body.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        assert idle.rest() == b""
        assert mute.rest() == b""
        assert slow_head.answer().status == 408
        assert slow_head.rest() == b""
        assert slow_body.answer().status == 408
        assert slow_body.rest() == b""
    with a.connect() as client:
        assert client.ask("GET", "/slow/300").status == 200, "who waits for an answer is not idle"


def test_a_client_that_reads_nothing_is_left(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS, client={"write_timeout": "200ms"})
    with a.connect(receive_buffer=4096) as client:
        client.send(request_bytes("GET", "/size/100000000"))
        wait_until(lambda: a.metric("weir_client_connections_accepted_total") == 1, "it has come")
        wait_until(lambda: a.metric("weir_client_connections") == 0, "it was left")


def test_the_connection_cap_makes_clients_wait(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS, workers=1, client={"max_connections": 4})
    clients = [a.connect() for _ in range(4)]
    for client in clients:
        assert client.ask("GET", "/healthz").status == 200
    with a.connect() as fifth:
        fifth.send(request_bytes("GET", "/healthz"))
        for client in clients:
            assert client.ask("GET", "/healthz").status == 200
        assert a.metric("weir_client_connections") == 4
        assert a.metric("weir_client_connections_accepted_total") == 4, "the fifth has not been let in"
        clients[0].close()
        assert fifth.answer().status == 200
    for client in clients:
        client.close()


def test_the_cap_of_an_address_refuses_only_that_address(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS, workers=1, client={"max_per_address": 2})
    clients = [a.connect(from_address="127.0.0.7") for _ in range(2)]
    for client in clients:
        assert client.ask("GET", "/healthz").status == 200
    with a.connect(from_address="127.0.0.7") as third:
        assert third.answer().status == 503
        assert third.rest() == b""
    with a.connect(from_address="127.0.0.8") as other:
        assert other.ask("GET", "/healthz").status == 200
    for client in clients:
        client.close()


# ---- bodies ----


def test_request_bodies_arrive_whole(fleet, upstream, rng):
    a, _ = fleet.start(upstream.url, PASS)
    with a.connect() as client:
        for size in (0, 1, 4096, 1 << 20, 20 << 20):
            body = rng.randbytes(size)
            for fields, data in (({}, body), ({"Transfer-Encoding": "chunked"}, b"".join(
                    b"%x\r\n%s\r\n" % (len(part), part) for part in [body[i : i + 65536] for i in range(0, size, 65536)]) + b"0\r\n\r\n")):
                got = json.loads(client.ask("POST", "/echo", fields, data).body)
                assert (got["body_bytes"], got["crc32"]) == (size, zlib.crc32(body))
                names = [name.lower() for name, _ in got["headers"]]
                assert names.count("content-length") == 1 and "transfer-encoding" not in names


def test_a_body_above_max_body_is_a_413_and_reaches_nobody(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS, max_body="64KiB")
    assert a.ask("POST", "/echo", body=b"x" * 65536).status == 200
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    assert a.ask("POST", "/echo", {"Transfer-Encoding": "chunked"}, chunk * 4 + b"0\r\n\r\n").status == 200
    too_large = {
        "declared": (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n", b""),
        "sent": (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", b"x" * 65537),
        "chunked": (b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunk * 5 + b"0\r\n\r\n"),
        "enormous": (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n", b""),
    }
    for head, body in too_large.values():
        with a.connect() as client:
            client.send(head + body)
            answer = client.answer("POST")
            assert answer.status == 413
            assert json.loads(answer.body)["code"] == "body_too_large"
            assert answer["connection"] == "close"
    assert upstream.calls("POST /echo") == 2
    wait_until(lambda: a.metric("weir_refused_by_front_total", status="413") == 4, "each is counted")


def test_who_expects_100_continue_gets_it(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS)
    with a.connect() as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert client.reader.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        client.send(b"body")
        got = json.loads(client.answer("POST").body)
        assert got["body"] == "body"
        assert "expect" not in [name.lower() for name, _ in got["headers"]]


@pytest.mark.parametrize("kind", ["size", "chunked"])
def test_answers_of_any_size_arrive_whole(fleet, upstream, kind):
    a, b = fleet.start(upstream.url, [{"match": f"GET /{kind}/{{n}}", "cache": {"ttl": "1h"}}, *PASS], near_cache={"size": "64MiB", "max_object": "16MiB"})
    pattern = (b"abcdefghijklmnopqrstuvwxyz" * 400000)[: 9 << 20]
    for size in (0, 1, 65535, 65536, 65537, 1 << 20, 9 << 20):  # the last is above max_object
        for node in (a, a, b):
            answer = node.get(f"/{kind}/{size}")
            assert answer.body == pattern[:size]
        assert upstream.calls(f"GET /{kind}/{size}") == (1 if size <= 8 << 20 else 3)


def test_head_is_answered_without_a_body(fleet, upstream):
    a, _ = fleet.start(upstream.url, [{"match": "GET /size/{n}", "cache": {"ttl": "1h"}}, *PASS])
    for _ in range(2):
        with a.connect() as client:
            for target in ("/size/1000", "/healthz"):
                answer = client.ask("HEAD", target)
                assert (answer.status, answer.body) == (200, b"")
            assert client.ask("GET", "/size/1000").body == b"abcdefghijklmnopqrstuvwxyz"[:26] * 38 + b"abcdefghijkl"
            wait_until(lambda client=client: client.ask("HEAD", "/size/1000")["x-cache"] == "HIT", "the copy is near")


# ---- clients that leave ----


def test_a_client_that_leaves_in_mid_load_cancels_nothing_that_others_need(fleet, scripted):
    upstream, gate = gated(scripted)
    a, b = fleet.start(upstream.url, [THING])
    leavers = [node.connect() for node in (a, a, b)]
    for leaver in leavers:  # the first of them begins the load
        leaver.send(request_bytes("GET", "/thing"))
        upstream.wait_requests(1)
    stayers = [Background(lambda node=node: node.get("/thing")) for node in (a, b) * 3]
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in {a, b}) == 9, "all have come")
    leavers[0].reset()
    leavers[1].close()
    leavers[2].sock.shutdown(socket.SHUT_WR)
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in {a, b}) == 6, "three have left")
    gate.set()
    assert {(stayer.result().status, stayer.result().body) for stayer in stayers} == {(200, b"done")}
    assert len(upstream.requests) == 1
    assert b.get("/thing")["x-cache"] == "HIT"


def test_a_load_is_kept_though_all_its_clients_have_left(fleet, scripted):
    upstream, gate = gated(scripted)
    a, b = fleet.start(upstream.url, [THING])
    leaver = a.connect()
    leaver.send(request_bytes("GET", "/thing"))
    upstream.wait_requests(1)
    leaver.reset()
    wait_until(lambda: a.metric("weir_client_connections") == 0, "it has left")
    gate.set()
    wait_until(lambda: a.metric("weir_loads_total", outcome="stored") == 1, "the load is stored")
    assert b.get("/thing")["x-cache"] == "HIT"
    assert len(upstream.requests) == 1
    wait_until(lambda: [line for line in a.access_log() if line["status"] == 499 and line["client_left"]], "it is logged as left")


def test_a_client_that_leaves_ends_a_fetch_that_nobody_shares(memory_fleet, scripted):
    ended = threading.Event()

    def script(talk):
        if talk.read() is not None:
            talk.wait_closed()
            ended.set()

    upstream = scripted(script)
    a, _ = memory_fleet.start(upstream.url, PASS)
    client = a.connect()
    client.send(request_bytes("GET", "/alone"))
    upstream.wait_requests(1)
    client.reset()
    assert ended.wait(60), "the upstream's connection is closed"


# ---- fields ----


def seen_by_upstream(node, fields, from_address=None):
    with node.connect(from_address=from_address) as client:
        pairs = json.loads(client.ask("GET", "/echo", fields).body)["headers"]
    return {name.lower(): [value for each, value in pairs if each.lower() == name.lower()] for name, _ in pairs}


def test_hop_by_hop_fields_end_here_both_ways(memory_fleet, upstream, scripted):
    a, _ = memory_fleet.start(upstream.url, PASS)
    got = seen_by_upstream(a, [("Connection", "keep-alive, X-Mine"), ("Connection", "x-also"), ("X-Mine", "1"), ("X-Also", "2"), ("X-Kept", "3"),
                               ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "keep-alive"), ("TE", "trailers"), ("Trailer", "X-T"),
                               ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk"), ("Proxy-Authorization", "Basic eDp5")])
    assert got["x-kept"] == ["3"]
    assert got["host"] == ["api.test"]
    assert not got.keys() & {"connection", "x-mine", "x-also", "keep-alive", "proxy-connection", "te", "trailer", "upgrade",
                             "http2-settings", "proxy-authorization", "transfer-encoding"}

    answers = scripted(lambda talk, _request: talk.answer(fields=[
        ("Connection", "X-Private, keep-alive"), ("X-Private", "1"), ("X-Public", "2"), ("Keep-Alive", "timeout=9"), ("Upgrade", "h2c"),
        ("Proxy-Authenticate", "Basic"), ("Trailer", "X-T"), ("Via", "1.0 before")], body=b"ok"), each=True)
    b, _ = memory_fleet.start(answers.url, [THING, *PASS])
    for target in ("/thing", "/thing", "/uncached"):
        answer = b.get(target)
        assert answer.body == b"ok"
        assert answer["x-public"] == "2"
        assert answer["via"] == "1.0 before, 1.1 weir"
        assert answer["connection"] in (None, "keep-alive")
        assert not {name for name, _ in answer.fields} & {"x-private", "keep-alive", "upgrade", "proxy-authenticate", "trailer", "transfer-encoding"}


def test_forwarding_fields_tell_who_asked(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS, trusted_proxies=["127.0.0.9"])
    claims = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.test", "Forwarded": "for=192.0.2.9",
              "Via": "1.1 before"}
    stranger = seen_by_upstream(a, claims, from_address="127.0.0.8")
    assert stranger["x-forwarded-for"] == ["127.0.0.8"]
    assert stranger["x-forwarded-proto"] == ["http"]
    assert stranger["x-forwarded-host"] == ["api.test"]
    assert stranger["via"] == ["1.1 before, 1.1 weir"]
    assert "forwarded" not in stranger
    trusted = seen_by_upstream(a, claims, from_address="127.0.0.9")
    assert trusted["x-forwarded-for"] == ["192.0.2.1, 127.0.0.9"]
    assert trusted["x-forwarded-proto"] == ["https"]
    assert trusted["x-forwarded-host"] == ["evil.test"]


def test_loads_carry_nothing_that_is_one_clients_own(fleet, scripted):
    upstream = echo(scripted)
    a, _ = fleet.start(upstream.url, [THING])
    a.get("/thing", {"If-None-Match": '"x"', "If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT", "Accept-Encoding": "deflate, gzip;q=0.5", "Accept": "text/x"})
    [request] = upstream.requests
    assert request["accept"] == "text/x"
    assert not {name for name, _ in request.fields} & {"if-none-match", "if-modified-since"}
    assert request["accept-encoding"] == "gzip"  # which loads tell apart, in one spelling


# ---- the admin port ----


def test_health_readiness_and_metrics(fleet, upstream):
    a, b = fleet.start(upstream.url, [{"match": "GET /products/{id}", "limits": ["each"], "cache": {"ttl": "1h"}}, *PASS],
                       {"each": {"key": "header:x-api-key", "rate": "3/d"}})
    assert (a.admin("GET", "/healthz").status, a.admin("GET", "/healthz").body) == (200, b"alive\n")
    assert (a.admin("GET", "/readyz").status, a.admin("GET", "/readyz").body) == (200, b"ready\n")
    assert a.admin("HEAD", "/readyz").body == b""
    assert a.admin("GET", "/nothing").status == 404
    assert a.admin("DELETE", "/healthz").status == 404
    for node in (a, a, b, a):
        node.get("/products/1", {"X-Api-Key": "k"})
    a.get("/nowhere")
    a.get("/products/%zz")
    answer = a.admin("GET", "/metrics")
    assert answer["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    nodes = dict.fromkeys((a, b))

    def is_counted():  # a request is counted when its last byte has left, which its client may see earlier
        expected = {"weir_requests_total": 5, "weir_refused_by_front_total": 1, "weir_loads_total": 1}
        return all(sum(node.metric(name) for node in nodes) == count for name, count in expected.items())

    wait_until(is_counted, "all is counted")
    metrics = a.metrics()
    names = [(name, tuple(sorted(labels.items()))) for name, labels, _ in metrics.samples]
    assert len(names) == len(set(names)), "each series once"
    for name, _, value in metrics.samples:
        family = name if name in metrics.types else re.sub("_(bucket|sum|count)$", "", name)
        assert family in metrics.types and family in metrics.helps, name
        assert name.startswith("weir_")
        assert value >= 0
    route = "GET /products/{id}"
    everywhere = [node.metrics() for node in nodes]

    def total(name, **labels):
        return sum(each.sum(name, **labels) for each in everywhere)

    assert total("weir_requests_total", route=route, status="200") == 3
    assert total("weir_requests_total", route=route, status="429") == 1
    assert total("weir_requests_total", route="/**", status="404") == 1
    assert total("weir_refused_by_front_total", status="400") == 1
    assert total("weir_cache_results_total", route=route, result="MISS") == 1
    assert total("weir_cache_results_total", route=route) == 3
    assert total("weir_loads_total", route=route, outcome="stored") == 1
    assert total("weir_limit_decisions_total", limit="each", outcome="admitted") == 3
    assert total("weir_limit_decisions_total", limit="each", outcome="refused") == 1
    assert total("weir_upstream_requests_total", upstream="api", outcome="2xx") == 1
    assert total("weir_upstream_duration_seconds_count", upstream="api") == 2
    assert total("weir_request_duration_seconds_count", route=route) == 4
    assert total("weir_degraded_total") == 0
    if fleet.redis:
        assert metrics.sum("weir_store_up") == 1
        assert total("weir_store_duration_seconds_count", operation="admit") >= 4
        assert total("weir_store_errors_total") == 0


def test_invalidating_by_the_admin_port(fleet, upstream):
    a, b = fleet.start(upstream.url, [{"match": "GET /products/{id}", "cache": {"ttl": "1h", "tags": ["product:{id}"]}}])
    for node in (a, b):
        node.get("/products/1")
    answer = a.invalidate("product:1")
    assert answer.status == 200
    assert answer["content-type"] == "application/json"
    assert json.loads(answer.body).keys() == {"epoch"}
    assert b.get("/products/1").status == 200
    assert upstream.calls("GET /products/1") == 2
    as_json = {"Content-Type": "application/json"}
    bad = [b"", b"{", b"[]", b'"x"', b"{}", b'{"tags": "a"}', b'{"tags": []}', b'{"tags": [1]}', b'{"tags": [""]}', b'{"tags": ["a"]} x',
           json.dumps({"tags": ["x" * 257]}).encode(), json.dumps({"tags": ["t"] * 65}).encode(), b"[" * 5000, b"\xff\xfe{}", b"nul"]
    for body in bad:
        answer = a.admin("POST", "/api/invalidate", as_json, body)
        assert answer.status == 400, body
        assert answer["content-type"] == "application/problem+json"
        assert json.loads(answer.body)["code"] in ("bad_json", "bad_tags")
    assert a.admin("POST", "/api/invalidate", {"Content-Type": "text/plain"}, b'{"tags": ["a"]}').status == 415
    assert a.admin("POST", "/api/invalidate", as_json, b"x" * 70000).status == 413
    assert a.admin("GET", "/api/invalidate").status == 404
    assert a.metric("weir_invalidations_total", outcome="recorded") == 1


def test_the_admin_token_guards_all_but_health(memory_fleet, upstream, tmp_path):
    (tmp_path / "admin.token").write_text("tOkEn-of-the-operator\n")
    (tmp_path / "admin.token").chmod(0o600)
    a = memory_fleet.configuration(upstream.url, PASS, {"each": {"key": "header:k", "plans": {"default": "free", "free": "1/s", "pro": "2/s"}}})
    port, listen = Port(), Port()
    a["admin"] = {"address": f"127.0.0.1:{port.number}", "token_file": "admin.token"}
    (tmp_path / "guarded.yaml").write_text(json.dumps({"listen": f"127.0.0.1:{listen.number}", **a}))
    process = subprocess.Popen([BUILD / "weir", "run", "-c", tmp_path / "guarded.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:

        def admin(method, target, fields=(), body=None):
            with Connection(port.number) as client:
                return client.ask(method, target, fields, body)

        def lives():
            try:
                return admin("GET", "/healthz").status == 200
            except OSError:
                return False

        wait_until(lives, "it lives, which needs no token to be seen")
        right = {"Authorization": "Bearer tOkEn-of-the-operator"}
        for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer tOkEn-of-the-operatoR"},
                      {"Authorization": "Basic tOkEn-of-the-operator"}, {"Authorization": "Bearer "}):
            for target in ("/readyz", "/metrics", "/nothing", "/api/clients/k", "/api/limits/each/k"):
                assert admin("GET", target, wrong).status == 401
            assert admin("DELETE", "/api/limits/each/k", wrong).status == admin("PUT", "/api/clients/k", wrong, b"{}").status == 401
            assert admin("POST", "/api/invalidate", {"Content-Type": "application/json", **wrong}, b'{"tags":["a"]}').status == 401
        command = [BUILD / "weir", "client", "-c", tmp_path / "guarded.yaml"]
        assert subprocess.run([*command, "set", "k", "pro"], capture_output=True).returncode == 0, "the command knows the token"
        assert subprocess.run([*command, "get", "k"], capture_output=True).stdout == b"pro\n"
        (tmp_path / "admin.token").write_text("tOkEn-of-somebody-else\n")
        refused = subprocess.run([*command, "get", "k"], capture_output=True, text=True)
        assert refused.returncode == 1 and refused.stdout == "" and "token" in refused.stderr and "somebody" not in refused.stderr
        assert admin("GET", "/readyz", right).status == 200
        assert admin("POST", "/api/invalidate", {"Content-Type": "application/json", **right}, b'{"tags":["a"]}').status == 200
    finally:
        process.terminate()
        assert process.wait(60) == 0
        port.close()
        listen.close()


# ---- logs ----


def test_the_access_log_has_one_json_object_a_request(fleet, upstream):
    a, _ = fleet.start(upstream.url, [{"match": "GET /products/{id}", "limits": ["each"], "cache": {"ttl": "1h"}}, {"match": "GET /reset"}],
                       {"each": {"key": "header:x-api-key", "rate": "2/d"}})
    tricky = {"User-Agent": 'agent "quoted" \\ back', "Referer": "http://here/page?secret=1", "X-Api-Key": "k"}
    for count, target in enumerate(("/products/1?q=SECRET", "/products/1?q=SECRET", "/products/1", "/nowhere?x=SECRET", "/reset"), 1):
        a.get(target, tricky)
        wait_until(lambda count=count: len(a.access_log()) == count, "its line")  # workers write in no order among them
    with a.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        client.rest()
    lines = wait_until(lambda: a.access_log() if len(a.access_log()) == 6 else None, "six lines")
    lines.sort(key=lambda line: line["time"])  # each worker writes its own in order; those of two may come either way round
    assert "SECRET" not in a.stdout and "secret=1" not in a.stdout
    assert [line["status"] for line in lines] == [200, 200, 429, 404, 502, 400]
    assert [line.get("cache") for line in lines] == ["MISS", "HIT", None, None, "BYPASS", None]
    assert [line.get("code") for line in lines] == [None, None, "rate_limit_exceeded", "no_route", "upstream_error", "malformed_request"]
    assert lines[5]["detail"] == "there is more than one Host field"
    assert [line.get("route") for line in lines[:5]] == ["GET /products/{id}"] * 3 + [None, "GET /reset"]
    assert lines[2]["limit"] == "each"
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])
    for line in lines[:5]:
        assert line["method"] == "GET" and line["target"][0] == "/" and "?" not in line["target"]
        assert line["host"] == "api.test"
        assert line["client"] == hashlib.sha256(b"ip\x00127.0.0.1").hexdigest()[:32], "as docs/limits.md says"
        assert line["user_agent"] == tricky["User-Agent"]
        assert line["took_us"] >= 0 and line["body_bytes"] >= 0
    assert lines[0]["upstream_us"] >= 50000 and "upstream_us" not in lines[1]


# ---- the process ----


def weir(*arguments, env=None):
    return subprocess.run([BUILD / "weir", *map(str, arguments)], capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})


def test_exit_codes(tmp_path, memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, PASS)
    assert weir("check", "-c", a.config_path).returncode == 0
    (tmp_path / "bad.yaml").write_text('{"upstreams": {"api": {"servers": ["http://h"]}}, "routes": [{"match": "/", "upstream": "apy"}], "wrokers": 2}')
    for command in ("check", "run"):
        bad = weir(command, "-c", tmp_path / "bad.yaml")
        assert bad.returncode == 2
        assert "did you mean api?" in bad.stderr and "did you mean workers?" in bad.stderr
        assert bad.stderr.count("bad.yaml:1:") == 2
    assert weir("run").returncode == 2
    assert weir("run", "-c", tmp_path / "absent.yaml").returncode == 2
    taken = weir("run", "-c", a.config_path)
    assert taken.returncode == 1 and "Address already in use" in taken.stderr
    assert re.fullmatch(r"weir \d+\.\d+\.\d+\n", weir("version").stdout)
    for command in ("run", "check", "version"):
        assert weir(command, "--help").returncode == 0


def test_sigterm_lets_what_is_under_way_finish(fleet, scripted):
    upstream, gate = gated(scripted)
    a, _ = fleet.start(upstream.url, [THING, *PASS])
    under_way = [Background(lambda target=target: a.get(target)) for target in ("/thing", "/uncached")]
    upstream.wait_requests(2)
    with a.connect() as idle, a.connect() as kept:
        kept.send(request_bytes("GET", "/kept"))
        upstream.wait_requests(3)
        wait_until(lambda: a.metric("weir_client_connections") == 4, "all have come")
        a.signal(15)
        wait_until(lambda: a.admin("GET", "/readyz").status == 503, "it is not ready any more")
        assert a.admin("GET", "/healthz").status == 200, "but lives"
        assert idle.rest() == b"", "idle connections are closed"

        def is_refused():
            try:
                Connection(a.port).close()
            except ConnectionRefusedError:
                return True
            return False

        wait_until(is_refused, "nobody new is let in")
        assert not any(each.is_over() for each in under_way)
        gate.set()
        assert [(each.result().status, each.result().body) for each in under_way] == [(200, b"done")] * 2
        answer = kept.answer()
        assert (answer.status, answer.body, answer["connection"]) == (200, b"done", "close")
        assert kept.rest() == b""
    assert a.wait() == 0
    fleet.remove(a)
    assert a.access_log()[-1]["status"] == 200, "the log is whole"


def test_what_does_not_finish_is_cut_after_drain_timeout(fleet, scripted):
    upstream, _ = gated(scripted)
    a, _ = fleet.start(upstream.url, [THING, *PASS], drain_timeout="100ms")
    clients = [a.connect() for _ in range(2)]
    for client, target in zip(clients, ("/thing", "/uncached")):
        client.send(request_bytes("GET", target))
    upstream.wait_requests(2)
    assert a.stop() == 0
    fleet.remove(a)
    for client in clients:
        with pytest.raises(Broken):
            client.answer()


def test_sigterm_in_the_midst_of_traffic_breaks_no_answer(fleet, upstream):
    nodes = fleet.start(upstream.url, [{"match": "GET /products/{id}", "cache": {"ttl": "1h"}}, *PASS])
    a, begun, seen = nodes[0], threading.Event(), []

    def ask_until_refused():
        while True:
            try:
                with a.connect() as client:
                    for i in range(10):
                        client.send(request_bytes("GET", f"/products/{i}"))
                        try:
                            answer = client.answer()
                        except Broken as broken:
                            assert broken.answer is None, "an answer that had begun was cut"
                            break  # closed between two requests, as any server may
                        assert answer.status == 200
                        seen.append(1)
                        begun.set()
            except ConnectionError:
                return

    clients = [Background(ask_until_refused) for _ in range(8)]
    assert begun.wait(60)
    assert a.stop() == 0
    fleet.remove(a)
    for client in clients:
        client.result()
    assert len(a.access_log()) >= len(seen)


def test_both_workers_serve(memory_fleet, scripted):
    """The kernel spreads connections: many at once cannot all have met one worker."""
    upstream = echo(scripted)
    a, _ = memory_fleet.start(upstream.url, PASS, workers=2)
    together([lambda i=i: a.get(f"/{i}") for i in range(100)])
    threads = os.listdir(f"/proc/{a.pid}/task")
    busy = [name for name in threads if int(open(f"/proc/{a.pid}/task/{name}/status").read().split("voluntary_ctxt_switches:")[1].split()[0]) > 10]
    assert len(busy) >= 2, "two workers were woken again and again"
