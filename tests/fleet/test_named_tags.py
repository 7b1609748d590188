"""Tags that the answer to a change names in its JSON: is what they cover invalidated before the client is answered, whatever comes
between? And where it does not name them, is that said?"""

import json
import threading

import pytest

from weir import together, wait_until

PAGES = {"match": "GET /pages/{tag}", "cache": {"ttl": "1h", "stale_while_revalidate": "1h", "tags": ["{tag}"]}}
CHANGES = {"match": "POST /orders", "invalidates": ["orders", "order:{json:/id}", "item:{json:/items}", {"tag": "report:{json:/owner/id}", "soft": True}]}
ORDER = {"id": 7, "items": [1, 2], "owner": {"id": "a b"}}
INCOMPLETE = '199 weir "invalidation incomplete: the answer does not name its tags"'
NAMED = ["orders", "order:7", "item:1", "item:2"]


class Shop:
    """An upstream: pages that are never twice the same, and orders that are answered as the test says."""

    def __init__(self, scripted):
        self.count, self.answer = 0, lambda talk: talk.answer(201, [("Content-Type", "application/json")], json.dumps(ORDER).encode())
        self.upstream = scripted(self._script, each=True)

    def _script(self, talk, request):
        if request.method == "POST":
            self.posted = request
            self.answer(talk)
        else:
            self.count += 1
            talk.answer(body=b"%d" % self.count)


@pytest.fixture
def shop(scripted):
    return Shop(scripted)


def start(fleet, shop, **more):
    nodes = fleet.start(shop.upstream.url, [PAGES, CHANGES], **more)
    return nodes


def warm(nodes, tags):
    for node in nodes:
        for tag in tags:
            wait_until(lambda n=node, t=tag: n.get(f"/pages/{t}")["x-cache"] == "HIT", "it is stored")


def results(node, tags):
    return [node.get(f"/pages/{tag}")["x-cache"] for tag in tags]


def test_what_the_answer_names_is_invalidated_before_the_client_has_it(fleet, shop):
    a, b = start(fleet, shop)
    others = ["order:8", "item:3"]
    for _ in range(5):
        warm([a, b], [*NAMED, *others, "report:a%20b"])
        count = shop.count
        answer = a.ask("POST", "/orders", {"Accept-Encoding": "gzip"})
        assert (answer.status, json.loads(answer.body), answer["warning"]) == (201, ORDER, None)
        assert [int(b.get(f"/pages/{tag}").body) > count for tag in NAMED] == [True] * 4
        assert results(b, others) == ["HIT"] * 2
        assert b.get("/pages/report:a%20b")["x-cache"] in ("STALE", "HIT"), "softly: stale, or refreshed by then"
    assert shop.posted["accept-encoding"] == "identity"


@pytest.mark.parametrize("status, fields, body", [
    (200, [], b"no JSON"), (204, [], b""), (200, [("Content-Encoding", "gzip")], b"\x1f\x8b"), (200, [], b'{"id": {"deep": 1}}'),
    (200, [], b'"' + b"x" * (64 << 10) + b'"'),
])
def test_an_answer_that_does_not_name_its_tags_is_passed_on_and_it_is_said(fleet, shop, status, fields, body):
    a, b = start(fleet, shop)
    shop.answer = lambda talk: talk.send(b"HTTP/1.1 204 No Content\r\n\r\n") if status == 204 else talk.answer(status, fields, body)
    warm([a, b], ["orders", "order:7"])
    answer = a.ask("POST", "/orders")
    assert (answer.status, answer.body, answer["warning"]) == (status, body, INCOMPLETE)
    assert results(b, ["orders", "order:7"]) == ["MISS", "HIT"], "what is known is invalidated all the same"
    assert a.metric("weir_invalidations_total", outcome="unnamed") == 1
    assert "does not name its tags" in a.stderr


def test_a_long_answer_of_unknown_length_reaches_the_client_whole(fleet, shop):
    a, _ = start(fleet, shop)
    body = json.dumps({"id": 7, "padding": "x" * 300_000}).encode()

    def chunked(talk):
        talk.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 10_000):
            piece = body[at:at + 10_000]
            talk.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        talk.send(b"0\r\n\r\n")

    shop.answer = chunked
    answer = a.ask("POST", "/orders")
    assert (answer.status, answer.body, answer["warning"]) == (200, body, INCOMPLETE)


def test_a_change_that_failed_names_nothing(fleet, shop):
    a, b = start(fleet, shop)
    shop.answer = lambda talk: talk.answer(409, [], json.dumps(ORDER).encode())
    warm([a, b], NAMED)
    answer = a.ask("POST", "/orders")
    assert (answer.status, answer["warning"]) == (409, None)
    assert results(b, NAMED) == ["HIT"] * 4


@pytest.mark.parametrize("leaves", ["before the head", "before the body"])
def test_a_client_that_leaves_takes_nothing_with_it(fleet, shop, leaves):
    a, b = start(fleet, shop)
    asked, gate = threading.Event(), threading.Event()
    body = json.dumps(ORDER).encode()

    def slowly(talk):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        if leaves == "before the body":
            talk.send(head)
            head = b""
        asked.set()
        gate.wait(60)
        talk.send(head + body)

    shop.answer = slowly
    warm([a, b], NAMED)
    with a.connect() as client:
        client.send(b"POST /orders HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0\r\n\r\n")
        assert asked.wait(30)
        recorded = a.metric("weir_invalidations_total", outcome="recorded")
    wait_until(lambda: a.metric("weir_client_connections") == 0, "the client is gone")
    gate.set()
    wait_until(lambda: a.metric("weir_invalidations_total", outcome="recorded") > recorded, "what the answer names is invalidated")
    assert a.metric("weir_invalidations_total", outcome="unnamed") == 0


def test_an_answer_that_is_never_whole_does_not_hold_its_client_for_ever(fleet, shop):
    gate = threading.Event()
    upstream = {"servers": [shop.upstream.url], "first_byte_timeout": "300ms"}
    a, b = fleet.start(upstream, [PAGES, CHANGES])

    def dripping(talk):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{")
        gate.wait(60)
        talk.send(b'"id": 7 }')

    shop.answer = dripping
    warm([a, b], ["orders"])
    with a.connect() as client:
        client.send(b"POST /orders HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0\r\n\r\n")
        try:
            head = client.reader.head()
        finally:
            gate.set()
        assert (head.status, head["warning"]) == (200, INCOMPLETE)
    assert results(b, ["orders"]) == ["MISS"]


def test_many_changes_at_once_each_invalidate_their_own(fleet, shop):
    a, b = start(fleet, shop)
    number = iter(range(1000))

    def own(talk):
        talk.answer(200, [], json.dumps({"id": 100 + next(number)}).encode())

    shop.answer = own

    def change(node):
        answer = node.ask("POST", "/orders")
        order = json.loads(answer.body)["id"]
        count = shop.count
        assert int(node.get(f"/pages/order:{order}").body) >= 1
        return order, count

    tags = [f"order:{100 + i}" for i in range(16)]
    warm([a, b], tags)
    before = shop.count
    together([lambda n=n: change(n) for n in (a, b) * 8])
    for node in (a, b):
        for tag in tags:
            assert int(node.get(f"/pages/{tag}").body) > before
