"""Tunnels: Upgrade to WebSocket or anything else, the bytes that follow, and what must never become a tunnel."""

import json
import os
import signal
import socket

import pytest

from weir import Background, wait_until
from wire import Broken, request_bytes

EVERYTHING = [{"match": "/**"}]
CACHED = [{"match": "/**", "cache": {"ttl": "1h"}}]
ASK = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
AGREED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"


def switching(scripted, then, agreed=AGREED):
    """An upstream that agrees and goes on as `then(talk)`."""

    def script(talk):
        if talk.read() is not None:
            talk.send(agreed)
            then(talk)

    return scripted(script)


def echo(talk):
    """Until the other half ends."""
    while data := talk.sock.recv(65536):
        talk.send(data)


def stays(talk):
    talk.wait_closed()


def open_tunnel(node, target="/chat", fields=ASK, early=b""):
    """A client whose connection has become one: its answer's head has been read."""
    client = node.connect()
    client.send(request_bytes("GET", target, fields) + early)
    head = client.reader.head()
    assert head.status == 101, head.status
    return client, head


def read(client, count):
    body = bytearray()
    client.reader.exactly(count, body)
    return bytes(body)


# ---- what passes ----


def test_a_handshake_passes_and_then_bytes_both_ways(fleet, scripted):
    upstream = switching(scripted, echo)
    node = fleet.start(upstream.url, CACHED)[0]
    client, head = open_tunnel(node)
    [request] = upstream.requests
    assert (request["upgrade"], request["connection"].lower(), request["sec-websocket-key"]) == ("websocket", "upgrade", ASK["Sec-WebSocket-Key"])
    assert (head["upgrade"], head["connection"].lower()) == ("websocket", "upgrade")
    assert head["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert "content-length" not in head and "transfer-encoding" not in head
    for size in (1, 10, 70_000, 1_000_000):
        message = os.urandom(size)
        sent = Background(lambda message=message: client.send(message))
        assert read(client, size) == message
        sent.result()
    client.sock.shutdown(socket.SHUT_WR)
    assert client.rest() == b""
    wait_until(lambda: node.metric("weir_client_connections") == 0, "all of it is over")
    assert node.metric("weir_tunnels") == 0


def test_any_protocol_may_be_asked_for_and_one_is_chosen(memory_fleet, scripted):
    upstream = switching(scripted, echo, AGREED.replace(b"websocket", b"IRC/6.9"))
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    client, head = open_tunnel(node, fields={"Connection": "keep-alive, upgrade", "Upgrade": "h2c, IRC/6.9, RTA/x11"})
    assert head["upgrade"] == "IRC/6.9"
    assert upstream.requests[0]["upgrade"].replace(" ", "") == "IRC/6.9,RTA/x11", "HTTP of another version is not passed on"
    client.send(b"NICK weir")
    assert read(client, 9) == b"NICK weir"
    client.close()


def test_what_either_side_says_too_early_is_not_lost(memory_fleet, scripted):
    """The client before it can know, the upstream in one piece with its 101."""
    upstream = switching(scripted, echo, AGREED + b"hello from above")
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    early = b"GET /not-a-request HTTP/1.1\r\nHost: a\r\n\r\n"
    client, _ = open_tunnel(node, early=early)
    assert read(client, 16) == b"hello from above"
    assert read(client, len(early)) == early
    assert len(upstream.requests) == 1
    client.close()


@pytest.mark.parametrize("first", ["client", "upstream"])
def test_each_half_ends_by_itself(memory_fleet, scripted, first):
    """What the other side still has to say arrives whole."""
    more = os.urandom(3 << 20)

    def upstream_ends_first(talk):
        talk.sock.shutdown(socket.SHUT_WR)
        talk.upstream.got = talk.wait_closed()

    def client_ends_first(talk):
        talk.upstream.got = talk.wait_closed()
        talk.send(more)

    upstream = switching(scripted, client_ends_first if first == "client" else upstream_ends_first)
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    client, _ = open_tunnel(node)
    if first == "client":
        client.send(b"that is all")
        client.sock.shutdown(socket.SHUT_WR)
        assert client.rest() == more
        assert upstream.got == b"that is all"
    else:
        assert client.rest() == b"", "it has ended"
        client.send(more)
        client.sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: getattr(upstream, "got", None) == more, "all of it arrived")
    wait_until(lambda: node.metric("weir_client_connections") == 0, "all of it is over")


@pytest.mark.parametrize("direction", ["up", "down"])
def test_who_does_not_read_holds_the_other_side_back(memory_fleet, scripted, direction):
    size, got = 40 << 20, []

    def slow_reader(talk):
        wait_until(lambda: got, "the test lets it read")
        count = 0
        while data := talk.sock.recv(1 << 20):
            count += len(data)
        got.append(count)

    def fast_writer(talk):
        talk.send(b"x" * size)
        talk.sock.shutdown(socket.SHUT_WR)
        talk.wait_closed()

    memory_fleet.env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}
    upstream = switching(scripted, slow_reader if direction == "up" else fast_writer)
    node = memory_fleet.start(upstream.url, EVERYTHING, workers=1)[0]
    node.get("/")
    client, _ = open_tunnel(node)
    node.reset_memory_peak()
    before = node.memory_peak_bytes()
    if direction == "up":
        sent = Background(lambda: client.send(b"x" * size))
        stopped_moving(node)
        assert not sent.is_over(), "it cannot have sent all"
        got.append("go on")
        sent.result()
        client.sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: got[-1] == size, "all of it arrived")
    else:
        stopped_moving(node)
        count, room = len(client.reader.kept), bytearray(1 << 20)
        while got_now := client.sock.recv_into(room):
            count += got_now
        assert count == size
    assert node.memory_peak_bytes() - before < 8 << 20
    client.close()


def stopped_moving(node):
    """What could be passed on has been."""
    seen = [None]

    def is_still():
        ticks = open(f"/proc/{node.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]
        seen.append(ticks)
        return len(seen) > 30 and len({tuple(each) for each in seen[-25:]}) == 1

    wait_until(is_still, "nothing moves any more")


# ---- what is no tunnel ----


@pytest.mark.parametrize("status", [200, 403, 426])
def test_an_upstream_that_refuses_answers_as_always_and_nothing_behind_it_is_a_request(memory_fleet, scripted, status):
    """Who believes that the protocol has changed may have anything said in its name: it must not be read as requests."""
    upstream = scripted(lambda talk, request: talk.answer(status, {"X-Why": "because"}, b"no"), each=True)
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    with node.connect() as client:
        client.send(request_bytes("GET", "/chat", {**ASK, "Connection": "keep-alive, Upgrade"}) + request_bytes("DELETE", "/smuggled"))
        answer = client.answer()
        assert (answer.status, answer["x-why"], answer.body, answer["connection"]) == (status, "because", b"no", "close")
        assert client.rest() == b""
    assert [request.target for request in upstream.requests] == ["/chat"]


@pytest.mark.parametrize("fields, body", [
    ({"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}, None),
    ({"Connection": "Upgrade", "Upgrade": "TLS/1.0"}, None),
    ({"Connection": "keep-alive", "Upgrade": "websocket"}, None),
    ({"Connection": "Upgrade", "Upgrade": "websocket"}, b"a body"),
], ids=["h2c", "tls", "not-named", "with-a-body"])
def test_what_may_not_be_asked_for_is_an_ordinary_request(memory_fleet, scripted, fields, body):
    upstream = scripted(lambda talk, request: talk.answer(body=b"ok"), each=True)
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    assert node.ask("POST" if body else "GET", "/", fields, body).body == b"ok"
    [request] = upstream.requests
    assert not {"upgrade", "http2-settings", "connection"} & {name for name, _ in request.fields}


@pytest.mark.parametrize("asked, agreed", [
    ({}, AGREED),
    (ASK, AGREED.replace(b"Upgrade: websocket", b"Upgrade: h2c")),
    (ASK, AGREED.replace(b"Connection: upgrade", b"Connection: close")),
    (ASK, AGREED.replace(b"Upgrade: websocket\r\n", b"")),
], ids=["unasked", "another", "not-named", "unnamed"])
def test_an_upstream_that_changes_to_what_was_not_asked_is_a_502(memory_fleet, scripted, asked, agreed):
    upstream = switching(scripted, stays, agreed)
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    answer = node.get("/chat", asked)
    assert (answer.status, json.loads(answer.body)["code"]) == (502, "upstream_error")


def test_limits_are_asked_at_the_handshake(memory_fleet, scripted):
    upstream = switching(scripted, stays)
    node = memory_fleet.start(upstream.url, [{"match": "/**", "limits": ["few"]}], {"few": {"rate": "2/1h", "key": "global"}})[0]
    open_both = [open_tunnel(node)[0] for _ in range(2)]
    assert node.get("/chat", ASK).status == 429
    assert len(upstream.requests) == 2
    for client in open_both:
        client.close()


def test_a_tunnel_holds_its_place_in_a_concurrency_limit_until_it_ends(fleet, scripted):
    upstream = switching(scripted, echo)
    nodes = fleet.start(upstream.url, [{"match": "/**", "limits": ["few"]}], {"few": {"algorithm": "concurrency", "max": 2, "key": "global"}})
    first, second = (open_tunnel(node)[0] for node in nodes)
    for node in nodes:
        assert node.get("/chat", ASK).status == 429
    first.send(b"still here")
    assert read(first, 10) == b"still here"
    first.sock.shutdown(socket.SHUT_WR)
    assert first.rest() == b""
    third = wait_until(lambda: open_or_refused(nodes[1]), "its place is free")
    assert nodes[0].get("/chat", ASK).status == 429
    for client in (second, third):
        client.close()


def open_or_refused(node):
    """A client whose connection has become a tunnel, or None where it was refused."""
    client = node.connect()
    client.send(request_bytes("GET", "/chat", ASK))
    if client.reader.head().status == 101:
        return client
    client.close()
    return None


# ---- its connection ----


def test_a_tunnel_counts_as_one_of_the_upstreams_connections_and_is_never_used_again(memory_fleet, scripted):
    def script(talk):
        while (request := talk.read()) is not None:
            if "upgrade" in request:
                talk.send(AGREED)
                echo(talk)
                return
            talk.answer(body=b"plain")

    upstream = scripted(script)
    node = memory_fleet.start({"servers": [upstream.url], "max_connections": 1, "max_pending": 1}, EVERYTHING, workers=1)[0]
    assert node.get("/").body == b"plain"
    client, _ = open_tunnel(node)
    assert upstream.connection_count() == 2, "one of its own, for which the idle one had to go"
    asked = [Background(lambda: node.get("/")) for _ in range(2)]
    wait_until(lambda: sum(each.is_over() for each in asked) == 1, "one waits for a connection, and the other may not")
    refused, waiting = sorted(asked, key=lambda each: not each.is_over())
    assert refused.result().status == 503
    client.send(b"still here")
    assert read(client, 10) == b"still here"
    client.close()
    assert waiting.result().body == b"plain"
    assert upstream.connection_count() == 3


def test_a_broken_upstream_is_seen_as_such(memory_fleet, scripted):
    upstream = switching(scripted, lambda talk: (talk.sock.recv(1), talk.reset()))
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    client, _ = open_tunnel(node)
    client.send(b"x")
    with pytest.raises((Broken, ConnectionError)):
        while client.reader.more() > 0:
            pass
    wait_until(lambda: any(line.get("code") == "upstream_error" for line in node.access_log()), "it is logged so")


def test_a_client_that_breaks_off_takes_the_upstreams_connection_with_it(memory_fleet, scripted):
    closed = []
    upstream = switching(scripted, lambda talk: closed.append(talk.wait_closed()))
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    client, _ = open_tunnel(node)
    client.reset()
    wait_until(lambda: closed == [b""], "it is closed")
    wait_until(lambda: node.metric("weir_tunnels") == 0, "and counted")


def test_a_tunnel_in_which_nothing_moves_is_closed_and_one_that_is_used_is_not(memory_fleet, scripted):
    upstream = switching(scripted, echo)
    node = memory_fleet.start({"servers": [upstream.url], "idle_timeout": "400ms"}, EVERYTHING)[0]
    quiet, _ = open_tunnel(node, "/quiet")
    used, _ = open_tunnel(node, "/used")

    def is_closed():
        used.send(b".")
        assert read(used, 1) == b".", "it goes on"
        return any(line["target"] == "/quiet" for line in node.access_log())

    wait_until(is_closed, "the other is closed")
    assert quiet.rest() == b""
    [line] = [each for each in node.access_log()]
    assert (line["target"], line["status"], line["code"]) == ("/quiet", 101, "tunnel_idle")
    used.close()


def test_the_access_log_tells_at_the_end_what_went_through(memory_fleet, scripted):
    upstream = switching(scripted, lambda talk: (talk.sock.recv(100), talk.send(b"answer"), talk.wait_closed()))
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    client, _ = open_tunnel(node)
    wait_until(lambda: node.metric("weir_tunnels", upstream="api") == 1, "it is counted while it is open")
    client.send(b"question")
    assert read(client, 6) == b"answer"
    assert node.access_log() == []
    client.sock.shutdown(socket.SHUT_WR)
    assert client.rest() == b""
    [line] = wait_until(node.access_log, "it is logged")
    assert (line["status"], line["received_bytes"], line["body_bytes"]) == (101, 8, 6)
    assert "client_left" not in line and "code" not in line
    assert node.metric("weir_tunnel_bytes_total", direction="to_upstream") == 8
    assert node.metric("weir_tunnel_bytes_total", direction="to_client") == 6


def test_a_stopped_node_ends_its_tunnels_at_drain_timeout(memory_fleet, scripted):
    upstream = switching(scripted, echo)
    node = memory_fleet.start(upstream.url, EVERYTHING, drain_timeout="700ms")[0]
    client, _ = open_tunnel(node)
    node.signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in node.stderr, "it is told to stop")
    client.send(b"until then it works")
    assert read(client, 19) == b"until then it works"
    assert node.wait() == 0
    assert client.rest() == b""
    memory_fleet.remove(node)


def test_a_reload_ends_no_tunnel_even_where_its_route_is_gone(memory_fleet, scripted):
    upstream = switching(scripted, echo)
    node = memory_fleet.start(upstream.url, EVERYTHING)[0]
    client, _ = open_tunnel(node)
    changed = {**node.configuration, "routes": [{"match": "GET /other", "upstream": "api"}]}
    assert node.reload(changed)
    assert node.get("/chat", ASK).status == 404
    client.send(b"as before")
    assert read(client, 9) == b"as before"
    client.sock.shutdown(socket.SHUT_WR)
    assert client.rest() == b""
    [line] = wait_until(lambda: [each for each in node.access_log() if each["status"] == 101], "it is logged, by the rules it began with")
    assert line["route"] == "/**"


def test_a_client_that_takes_nothing_for_write_timeout_is_left(memory_fleet, scripted):
    """Though bytes still move the other way: nobody holds an upstream's connection like that."""
    ended = []

    def flood(talk):
        try:
            while True:
                talk.send(b"x" * 65536)
        finally:
            ended.append(True)

    upstream = switching(scripted, flood)
    node = memory_fleet.start(upstream.url, EVERYTHING, client={"write_timeout": "300ms"})[0]
    client, _ = open_tunnel(node)

    def goes_on_talking():
        try:
            client.send(b".")
        except ConnectionError:
            pass
        return ended

    wait_until(goes_on_talking, "it is left")
    [line] = wait_until(node.access_log, "it is logged")
    assert line["status"] == 101 and line["client_left"]
