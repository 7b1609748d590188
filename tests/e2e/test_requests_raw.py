"""Raw requests: is nothing ambiguous acted upon, and does nothing that was refused reach the upstream?

Every line of bytes that the check of requests refuses has its unit test; here are some of each kind, through the whole server.
"""

import json

import pytest

from weir import wait_until
from wire import request_bytes

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"


def post(*fields, body=b""):
    return b"POST /victim HTTP/1.1\r\nHost: api.test\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body


MALFORMED = {
    "no_host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two_hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "host_is_no_authority": (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    "bare_line_feeds": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "bare_carriage_return": (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
    "nul_in_a_value": (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400),
    "folded_field": (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400),
    "blank_before_the_colon": (b"GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n", 400),
    "blank_in_a_name": (b"GET / HTTP/1.1\r\nHost: a\r\nX Y: a\r\n\r\n", 400),
    "underscore_for_dash": (post(b"Content_Length: 3", body=b"abc"), 400),
    "dots": (b"GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "encoded_dots": (b"GET /a/%2e%2E/b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "bad_escape": (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "no_path": (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "method_with_a_separator": (b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "connect": (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501),
    "trace": (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    "long_target": (b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    "many_fields": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 101 + b"\r\n", None),  # 400 by the parser's own bound, or 431 by ours
    "long_head": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 40000 + b"\r\n\r\n", 431),
    "length_and_coding": (post(b"Content-Length: 3", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400),
    "two_lengths": (post(b"Content-Length: 3", b"Content-Length: 3", body=b"abc"), 400),
    "length_list": (post(b"Content-Length: 3, 3", body=b"abc"), 400),
    "signed_length": (post(b"Content-Length: +3", body=b"abc"), 400),
    "hexadecimal_length": (post(b"Content-Length: 0x3", body=b"abc"), 400),
    "unknown_coding": (post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), None),
    "obscured_coding": (post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), None),
    "two_codings": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400),
    "coding_in_1_0": (b"POST /victim HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "bad_chunk_size": (post(b"Transfer-Encoding: chunked", body=b"-1\r\n\r\n0\r\n\r\n"), 400),
    "hexadecimal_chunk_size": (post(b"Transfer-Encoding: chunked", body=b"0x3\r\nabc\r\n0\r\n\r\n"), 400),
    "chunk_without_its_end": (post(b"Transfer-Encoding: chunked", body=b"3\r\nabcd\r\n0\r\n\r\n"), 400),
    "http2_preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n", None),
}


@pytest.fixture
def node(memory_fleet, upstream):
    a, _ = memory_fleet.start(upstream.url, [{"match": "/**"}], workers=1)
    return a


@pytest.mark.parametrize("case", MALFORMED)
def test_what_could_be_read_in_two_ways_is_refused_and_reaches_nobody(node, upstream, case):
    data, status = MALFORMED[case]
    with node.connect() as client:
        try:
            client.send(data + SMUGGLED)
        except ConnectionError:
            pass  # it was refused before it had been sent
        said = client.rest()
    assert said.startswith(b"HTTP/1.1 ") or (status is None and said == b""), said
    if said:
        code = int(said.split(b" ")[1])
        assert code == status or (status is None and 400 <= code <= 505)
        assert said.count(b"HTTP/1.1 ") == 1, "nothing behind it was answered"
        head, _, body = said.partition(b"\r\n\r\n")
        assert b"connection: close" in head.lower()
        if b"problem+json" in head:
            assert json.loads(body)["status"] == code
    assert upstream.calls() == {}, "neither it nor what stood behind it was passed on"
    assert node.get("/healthz").status == 200
    wait_until(lambda: node.metric("weir_refused_by_front_total") == 1, "it is counted, once")


def test_sound_requests_before_a_bad_one_are_answered(node, upstream):
    with node.connect() as client:
        client.send(request_bytes("GET", "/healthz") * 3 + b"GET / HTTP/1.1\r\n\r\n" + SMUGGLED)
        said = client.rest()
    assert [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]] == [b"200"] * 3 + [b"400"]
    assert upstream.calls() == {"GET /healthz": 3}


@pytest.mark.parametrize("data, target", [
    (b"GET /a%2Fb?x=/../y#f HTTP/1.1\r\nHost: a\r\n\r\n", None),
    (b"GET http://api.test/abs?q HTTP/1.1\r\nHost: other\r\n\r\n", "/abs?q"),
    (b"\r\nGET /after-a-line-end HTTP/1.1\r\nHost: a\r\n\r\n", "/after-a-line-end"),
    (b"GET /%41%2fb HTTP/1.1\r\nHost: a\r\n\r\n", "/%41%2fb"),
    (b"OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n", "/x"),
])
def test_unusual_but_sound_requests_pass_as_they_came(memory_fleet, scripted, data, target):
    upstream = scripted(lambda talk, request: talk.answer(body=request.target.encode()), each=True)
    a, _ = memory_fleet.start(upstream.url, [{"match": "/**"}])
    with a.connect() as client:
        client.send(data)
        answer = client.answer()
    if target is None:
        assert answer.status in (200, 400)
        assert answer.status == 400 or b"#" not in answer.body
    else:
        assert (answer.status, answer.text) == (200, target)
        if b"http://" in data:
            assert upstream.requests[0]["host"] == "api.test"


def test_options_go_as_far_as_they_say(memory_fleet, scripted):
    """RFC 9110 section 7.6.2: each who passes it on takes one off, and who may not is the one to answer."""
    upstream = scripted(lambda talk, request: talk.answer(200, {"X-Left": request["max-forwards"] or "unsaid"}), each=True)
    a, _ = memory_fleet.start(upstream.url, [{"match": "/**", "limits": ["all"], "cache": {}}], limits={"all": {"key": "global", "rate": "100/h"}})
    for said, left in (("1", "0"), ("10", "9"), ("007", "6"), ("99999999999999999999", "2147483646"), ("x", "x"), ("-1", "-1"), (None, "unsaid")):
        assert a.ask("OPTIONS", "/x", {} if said is None else {"Max-Forwards": said})["x-left"] == left
    asked = len(upstream.requests)
    with a.connect() as client:
        for said in ("0", "00"):
            answer = client.ask("OPTIONS", "/x", {"Max-Forwards": said})
            assert (answer.status, answer["content-length"], answer["x-left"]) == (204, None, None)
            assert answer["ratelimit"] is not None, "it was counted"
        assert client.ask("OPTIONS", "/x", [("Max-Forwards", "3"), ("Max-Forwards", "0")]).status == 204
        assert len(upstream.requests) == asked
        assert client.ask("POST", "/x", {"Max-Forwards": "0"}, b"x")["x-left"] == "0", "it is said of OPTIONS alone"


def test_bodies_do_not_become_requests(node, upstream):
    """What stands in a body stays a body, also where the client stops half way."""
    with node.connect() as client:
        client.send(post(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED) + request_bytes("GET", "/healthz"))
        assert client.answer("POST").status == 404
        assert client.answer().body == b"ok\n"
    with node.connect() as client:
        client.send(post(b"Content-Length: 1000", body=SMUGGLED))
    wait_until(lambda: node.metric("weir_client_connections") == 0, "it has left")
    assert upstream.calls() == {"POST /victim": 1, "GET /healthz": 1}
