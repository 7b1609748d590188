"""Upstream faults: what does a client see when the upstream lies, breaks, stalls or is not there, and is any of it ever kept?"""

import json
import socket
import threading

import pytest

from weir import Background, Port, together, wait_until
from wire import Broken

CACHED = [{"match": "GET /thing", "cache": {"ttl": "1h", "negative_ttl": "1h", "lock_timeout": "10m"}}, {"match": "/**"}]
OK = b"HTTP/1.1 200 OK\r\n"


def says(*parts, then="close"):
    """A script that reads a request, sends these bytes and ends."""

    def script(talk):
        if talk.read() is None:
            return
        for part in parts:
            talk.send(part)
        if then == "reset":
            talk.reset()
        elif then == "silence":
            talk.wait_closed()

    return script


def problem(answer):
    assert answer["content-type"] == "application/problem+json"
    assert answer["cache-control"] == "no-store"
    body = json.loads(answer.body)
    assert body["status"] == answer.status
    return body


# ---- no answer, or one that is no answer ----

REFUSED = {
    "closes_at_once": says(),
    "resets_at_once": says(then="reset"),
    "closes_within_the_head": says(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "speaks_another_protocol": says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "says_nothing_of_the_kind": says(b"\x00\x01\x02\x03" * 100 + b"\r\n\r\n"),
    "status_is_no_number": says(b"HTTP/1.1 2xx OK\r\nContent-Length: 0\r\n\r\n"),
    "two_lengths": says(OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    "length_is_no_number": says(OK + b"Content-Length: +3\r\n\r\nabc"),
    "field_without_a_colon": says(OK + b"Content-Length: 2\r\nnonsense\r\n\r\nok"),
    "head_without_end": says(OK + b"X-Long: " + b"x" * 200000, then="silence"),
    "fields_without_end": says(OK + b"X-Many: y\r\n" * 20000, then="silence"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_an_answer_that_is_none_is_a_502(fleet, scripted, fault):
    upstream = scripted(REFUSED[fault])
    for node in fleet.start({"servers": [upstream.url], "retries": 0}, CACHED):
        for path in ("/thing", "/uncached"):
            answer = node.get(path)
            assert answer.status == 502
            assert problem(answer)["code"] == "upstream_error"
            assert answer["proxy-status"].startswith("weir; error=")
            assert "retry-after" not in answer
        asks_again(upstream, node)


def asks_again(upstream, node):
    """Nothing was kept. (Who comes while a failed load is being given up shares its failure, so this may take a moment.)"""

    def has_asked():
        before = len(upstream.requests)
        try:
            assert node.get("/thing").status >= 500, "it was kept"
        except Broken:
            pass
        return len(upstream.requests) > before

    wait_until(has_asked, "the upstream is asked again")


def test_an_upstream_that_is_not_there_is_a_502(fleet):
    port = Port()  # held, and nobody listens
    a, _ = fleet.start(f"http://127.0.0.1:{port.number}", CACHED)
    answer = a.get("/thing")
    assert answer.status == 502
    assert problem(answer) == {"type": "about:blank", "title": "Bad Gateway", "status": 502, "code": "upstream_error",
                               "detail": "No connection to the upstream could be made."}
    assert answer["proxy-status"] == "weir; error=connection_refused"
    port.close()


def test_a_name_that_does_not_resolve_is_a_502(memory_fleet):
    a, _ = memory_fleet.start("http://no-such-host.invalid", CACHED)
    assert a.get("/thing").status in (502, 504)  # a resolver that is out of reach takes its time


def test_silence_is_a_504(fleet, scripted):
    upstream = scripted(says(then="silence"))
    nodes = fleet.start({"servers": [upstream.url], "first_byte_timeout": "100ms"}, CACHED)
    answer = nodes[0].get("/thing")
    assert answer.status == 504
    assert problem(answer) == {"type": "about:blank", "title": "Gateway Timeout", "status": 504, "code": "upstream_timeout",
                               "detail": "The upstream did not answer in time."}
    assert answer["proxy-status"] == "weir; error=http_response_timeout"
    assert len(upstream.requests) == 1, "what may be under way there is not asked for again"


def test_a_connection_that_is_not_accepted_is_a_504(memory_fleet):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    address = listener.getsockname()
    crowd = []
    for _ in range(4):  # until its queue is full and the kernel drops what else comes
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(address)
        crowd.append(sock)
    a, _ = memory_fleet.start({"servers": [f"http://127.0.0.1:{address[1]}"], "connect_timeout": "200ms"}, CACHED)
    answer = a.get("/thing")
    assert answer.status == 504
    assert problem(answer)["code"] == "upstream_timeout"
    assert answer["proxy-status"] == "weir; error=connection_timeout"
    for sock in [*crowd, listener]:
        sock.close()


# ---- an answer that breaks off ----

BROKEN = {
    "length_cut": (says(OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 100), 100),
    "length_reset": (says(OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 100, then="reset"), 100),
    "length_then_silence": (says(OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 100, then="silence"), 100),
    "chunk_cut": (says(OK + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 50), 50),
    "between_chunks": (says(OK + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\n"), 100),
    "no_last_chunk_end": (says(OK + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\n0\r\n"), 100),
    "chunks_reset": (says(OK + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\n", then="reset"), 100),
    "chunk_size_is_nonsense": (says(OK + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\nzz\r\n"), 100),
    "chunk_size_is_huge": (says(OK + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\nfffffffffffffffff\r\nx"), 100),
    "chunk_lacks_its_end": (says(OK + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"yyyy"), 100),
}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("path", ["/thing", "/uncached"])
def test_an_answer_that_breaks_off_is_seen_to_be_broken_and_never_kept(fleet, scripted, fault, path):
    script, most = BROKEN[fault]
    upstream = scripted(script)
    for number, node in enumerate(fleet.start({"servers": [upstream.url], "idle_timeout": "300ms"}, CACHED), 1):
        try:
            answer = node.get(path)
        except Broken as broken:
            assert broken.answer is None or len(broken.answer.body) <= most
        else:  # it was known to be broken before anything was said
            assert answer.status in (502, 504), "a success that is none"
        if path == "/uncached":
            assert len(upstream.requests) == number, "what had begun is not asked for again"
        else:
            asks_again(upstream, node)


def test_everybody_on_a_load_that_breaks_off_sees_it(fleet, scripted):
    gate = threading.Event()

    def script(talk):
        if talk.read() is not None:
            talk.send(OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 100)
            gate.wait(60)

    upstream = scripted(script)
    nodes = fleet.start(upstream.url, CACHED)
    asked = [Background(lambda i=i: nodes[i % 2].get("/thing")) for i in range(10)]
    upstream.wait_requests(1)
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(nodes)) >= 10, "all have come")
    gate.set()
    for each in asked:
        with pytest.raises(Broken):
            answer = each.result()
            raise Broken("refused instead", answer) if answer.status == 502 else AssertionError(answer)


def test_a_load_that_fails_fails_for_all_who_waited_and_is_not_tried_in_turn(fleet, scripted):
    gate = threading.Event()

    def script(talk):
        if talk.read() is not None:
            gate.wait(60)

    upstream = scripted(script)
    nodes = fleet.start({"servers": [upstream.url], "retries": 0}, CACHED)
    asked = [Background(lambda i=i: nodes[i % 2].get("/thing")) for i in range(20)]
    upstream.wait_requests(1)
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(nodes)) >= 20, "all have come")
    gate.set()
    assert {each.result().status for each in asked} == {502}
    assert len(upstream.requests) <= 3, "one load, and perhaps of who came when it was over"


# ---- connections that went stale, retries ----


def closes_on_reuse(talk):
    """Answers one request of each connection, promises to keep it, and closes when the next one comes."""
    if talk.read() is not None:
        talk.answer(body=b"ok")
        talk.read()


def test_a_stale_connection_costs_nobody_an_error(fleet, scripted):
    upstream = scripted(closes_on_reuse)
    a, _ = fleet.start({"servers": [upstream.url], "retries": 0}, CACHED)
    for _ in range(10):
        answer = a.get("/uncached")
        assert (answer.status, answer.body) == (200, b"ok")
    assert len(upstream.requests) > 10, "some were sent again"


def test_what_may_have_been_acted_upon_is_not_sent_twice(memory_fleet, scripted):
    upstream = scripted(closes_on_reuse)
    a, _ = memory_fleet.start(upstream.url, CACHED, workers=1)
    assert a.get("/uncached").status == 200
    assert a.ask("POST", "/uncached", body=b"pay").status == 502
    assert [request.method for request in upstream.requests] == ["GET", "POST"]


def test_an_upstream_that_closes_after_each_answer_is_fine(fleet, scripted):
    upstream = scripted(says(OK + b"Content-Length: 2\r\n\r\nok"))
    a, _ = fleet.start(upstream.url, CACHED)
    assert {a.get("/uncached").body for _ in range(20)} == {b"ok"}
    assert len(upstream.requests) == 20


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_idempotent_requests_are_tried_again_as_often_as_configured(fleet, scripted, retries):
    upstream = scripted(says())
    a, _ = fleet.start({"servers": [upstream.url], "retries": retries}, CACHED)
    assert a.get("/uncached").status == 502
    assert len(upstream.requests) == 1 + retries
    assert a.ask("POST", "/uncached", body=b"x").status == 502
    assert len(upstream.requests) == 2 + retries


def test_connections_are_kept_and_used_again(memory_fleet, scripted):
    upstream = scripted(lambda talk, request: talk.answer(body=request.target.encode()), each=True)
    a, _ = memory_fleet.start(upstream.url, CACHED, workers=1)
    assert [a.get(f"/{i}").body for i in range(20)] == [f"/{i}".encode() for i in range(20)]
    assert upstream.connection_count() == 1


def test_bytes_behind_an_answer_are_not_taken_for_the_next(memory_fleet, scripted):
    upstream = scripted(says(OK + b"Content-Length: 2\r\n\r\nok" + OK + b"Content-Length: 4\r\n\r\nevil"))
    a, _ = memory_fleet.start(upstream.url, CACHED, workers=1)
    assert [a.get("/uncached").body for _ in range(5)] == [b"ok"] * 5


def test_a_full_upstream_is_a_503(memory_fleet, scripted):
    gate = threading.Event()

    def answer(talk, _request):
        gate.wait(60)
        talk.answer(body=b"ok")

    upstream = scripted(answer, each=True)
    a, _ = memory_fleet.start({"servers": [upstream.url], "max_connections": 1, "max_pending": 0}, CACHED, workers=1)
    first = Background(lambda: a.get("/uncached"))
    upstream.wait_requests(1)
    refused = a.get("/uncached")
    gate.set()
    assert refused.status == 503
    assert refused["retry-after"] == "1"
    body = problem(refused)
    assert body["code"] == "upstream_saturated"
    assert body["type"] == "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
    assert refused["proxy-status"] == "weir; error=connection_limit_reached"
    assert first.result().body == b"ok"


# ---- answers of all kinds ----

WHOLE = {
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "chunked": (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-Trailer: no\r\n\r\n", b"hello"),
    "until_close": (OK + b"\r\nhello", b"hello"),
    "old_version": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "after_early_hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "same_length_twice": (OK + b"Content-Length: 5, 5\r\n\r\nhello", None),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_answer_arrives_whole(fleet, scripted, kind):
    data, body = WHOLE[kind]
    upstream = scripted(says(*[data[i : i + 7] for i in range(0, len(data), 7)]))
    a, b = fleet.start(upstream.url, CACHED)
    for node, path in ((a, "/uncached"), (a, "/thing"), (b, "/thing")):
        answer = node.get(path)
        assert (answer.status, answer.body) == (200, body) or (body is None and answer.status == 502)
    calls = {"until_close": 3, "same_length_twice": len(upstream.requests)}  # only the close ends it: it may be a part
    assert len(upstream.requests) == calls.get(kind, 2)


def test_an_upstreams_own_refusals_are_passed_on_and_not_kept(fleet, scripted):
    statuses = iter([429, 429, 500, 500, 503, 503])
    upstream = scripted(lambda talk, _request: talk.answer(next(statuses), {"Retry-After": "7"}), each=True)
    nodes = fleet.start(upstream.url, [{"match": "GET /thing/{n}", "cache": {"ttl": "1h", "statuses": [200, 429, 500, 503]}}])
    for path, status in (("/thing/1", 429), ("/thing/2", 500), ("/thing/3", 503)):
        answers = [node.get(path) for node in nodes]
        assert [answer.status for answer in answers] == [status] * 2
        assert {answer["retry-after"] for answer in answers} == {"7"}


def test_a_slow_load_is_streamed_to_all_who_wait(fleet, scripted):
    """The first bytes reach every client of the loading worker before the last ones have left the upstream."""
    gate = threading.Event()

    def script(talk):
        if talk.read() is not None:
            talk.send(OK + b"Content-Length: 10\r\n\r\nhello")
            gate.wait(60)
            talk.send(b"world")

    upstream = scripted(script)
    a, _ = fleet.start(upstream.url, CACHED, workers=1)
    clients = [a.connect() for _ in range(3)]
    for client in clients:
        client.send(b"GET /thing HTTP/1.1\r\nHost: api.test\r\n\r\n")
    for client in clients:
        client.reader.until(b"\r\n\r\n")
        early = bytearray()
        client.reader.exactly(5, early)
        assert bytes(early) == b"hello"
    gate.set()
    for client in clients:
        late = bytearray()
        client.reader.exactly(5, late)
        assert bytes(late) == b"world"
        client.close()
    assert len(upstream.requests) == 1


def test_many_different_faults_at_once_leave_the_node_well(fleet, scripted):
    scripts = [*REFUSED.values(), *[script for script, _ in BROKEN.values()], says(OK + b"Content-Length: 2\r\n\r\nok")]
    turn, lock = iter(range(10**6)), threading.Lock()

    def any_of_them(talk):
        with lock:
            number = next(turn)
        scripts[number % len(scripts)](talk)

    upstream = scripted(any_of_them)
    nodes = fleet.start({"servers": [upstream.url], "first_byte_timeout": "500ms", "idle_timeout": "300ms"}, CACHED)

    def ask(index):
        try:
            return nodes[index % 2].get(f"/uncached/{index}").status
        except Broken:
            return None

    for _ in range(3):
        assert set(together([lambda i=i: ask(i) for i in range(60)])) <= {200, 502, 504, None}
