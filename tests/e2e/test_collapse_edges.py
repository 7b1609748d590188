"""Collapse at its edges: who waits for whom, and who must not, counted by what reaches the upstream.

The upstream holds its answers back until the test lets them go: what is under way with it at the same moment is then a fact, and no
clock is read. tests/e2e/test_cache_basics.py has the common cases, tests/fleet/ those of owners that die and of stale copies.
"""

import threading

import pytest

from weir import Background, wait_until

CACHED = [{"match": "/**", "cache": {"ttl": "1h", "lock_timeout": "10m"}}]


class Held:
    """An upstream that answers with answer(number, talk, request); while it is shut it holds its answers back."""

    def __init__(self, scripted, answer):
        self._open = threading.Event()

        def script(talk, request):
            number = len(talk.upstream.requests)
            self._open.wait(120)
            answer(number, talk, request)

        self.upstream = scripted(script, each=True)
        self.open, self.shut, self.url = self._open.set, self._open.clear, self.upstream.url

    def calls(self, count):
        """Once so many have come: exactly so many."""
        assert len(self.upstream.wait_requests(count)) == count


def unshareable(number, talk, _request):
    talk.answer(fields={"Cache-Control": "no-store"}, body=b"%d" % number)


def turning_shareable(number, talk, _request):
    talk.answer(fields={} if number > 1 else {"Cache-Control": "private"}, body=b"%d" % number)


# ---- what cannot be shared ----


def test_what_proved_unshareable_is_asked_for_by_all_at_once(fleet, scripted):
    """One origin time for the first, one for all others: fifty who come later are all with the upstream before one is answered."""
    held = Held(scripted, unshareable)
    nodes = fleet.start(held.url, CACHED)
    held.open()
    assert nodes[0].get("/mine")["x-cache"] == "MISS"
    held.shut()
    for more in (51, 101):
        clients = [Background(lambda i=i: nodes[i % 2].get("/mine")) for i in range(50)]
        held.calls(more)
        held.open()
        assert len({client.result().body for client in clients}) == 50, "each has an answer of its own"
        held.shut()


def test_one_private_answer_does_not_keep_a_key_from_being_stored(fleet, scripted):
    """Once whoever provoked one had every client of that key ask the upstream for ten seconds."""
    held = Held(scripted, turning_shareable)
    nodes = fleet.start(held.url, CACHED)
    held.open()
    assert nodes[0].get("/mine").body == b"1"
    if fleet.redis:  # whose answer its client is not kept waiting for
        wait_until(lambda: [fleet.redis.command("GET", key) for key in fleet.redis.command("KEYS", "weir:f:*")] == [b"P"], "it is recorded")
    assert nodes[1].get("/mine")["x-cache"] == "MISS", "not another's: it is judged anew"
    wait_until(lambda: nodes[1].metric("weir_loads_total", outcome="stored") == 1, "it is stored")
    assert {node.get("/mine")["x-cache"] for node in nodes} == {"HIT"}
    assert len(held.upstream.requests) == 2


def test_nobody_waits_for_who_finds_out_whether_it_can_be_shared_again(fleet, scripted):
    held = Held(scripted, turning_shareable)
    nodes = fleet.start(held.url, CACHED)
    held.open()
    assert nodes[0].get("/mine").body == b"1"
    held.shut()
    clients = [Background(lambda i=i: nodes[i % 2].get("/mine")) for i in range(20)]
    held.calls(21)
    held.open()
    assert {client.result().status for client in clients} == {200}
    wait_until(lambda: sum(node.metric("weir_loads_total", outcome="stored") for node in set(nodes)) >= 1, "one of them has stored it")
    assert {node.get("/mine")["x-cache"] for node in nodes} == {"HIT"}
    assert len(held.upstream.requests) == 21


# ---- who waits, and for how long ----


def test_an_owner_slower_than_lock_timeout_is_waited_for_no_longer(fleet, scripted):
    """Who waits goes to the upstream himself, once; the owner's answer is kept all the same."""
    slow = threading.Event()

    def answer(talk, _request):
        number = len(talk.upstream.requests)
        if number == 1:
            slow.wait(120)
        talk.answer(body=b"%d" % number)

    upstream = scripted(answer, each=True)
    nodes = fleet.start(upstream.url, [{"match": "/**", "cache": {"ttl": "1h", "lock_timeout": "300ms"}}])
    owner = Background(lambda: nodes[0].get("/thing"))
    upstream.wait_requests(1)
    waiters = [Background(lambda i=i: nodes[i % 2].get("/thing")) for i in range(10)]
    answers = [waiter.result() for waiter in waiters]
    assert not owner.is_over()
    assert len({answer.body for answer in answers}) == 10 and len(upstream.requests) == 11, "each asked for himself, once"
    assert all("detail=lock-timeout" in answer["cache-status"] for answer in answers)
    slow.set()
    assert owner.result().body == b"1"
    wait_until(lambda: all(node.get("/thing")["x-cache"] == "HIT" for node in nodes), "it is kept")
    assert {node.get("/thing").body for node in nodes} == {b"1"}


def test_waiters_of_a_load_that_fails_are_told_at_once_and_do_not_try_in_turn(fleet, scripted):
    held = Held(scripted, lambda number, talk, request: talk.answer(500, body=b"%d" % number))
    nodes = fleet.start(held.url, CACHED)
    clients = [Background(lambda i=i: nodes[i % 2].get("/thing")) for i in range(30)]
    held.calls(1)
    wait_until(lambda: all(node.metric("weir_client_connections") >= 30 / len(set(nodes)) for node in nodes), "all have come")
    held.open()
    answers = [client.result() for client in clients]
    assert {answer.status for answer in answers} <= {500, 502}, "the upstream's own, or that it failed"
    assert len(held.upstream.requests) <= 2, "who had not asked the store yet when it failed may have begun anew, as one"


def test_a_client_that_leaves_frees_what_it_held_and_takes_nobody_along(fleet, scripted):
    """A waiter, then the one who leads: both while the upstream is still silent."""
    held = Held(scripted, lambda number, talk, request: talk.answer(body=b"%d" % number))
    node = fleet.start(held.url, CACHED, workers=1)[0]
    leader = node.connect()
    leader.send(b"GET /thing HTTP/1.1\r\nHost: api.test\r\n\r\n")
    held.calls(1)
    waiter = node.connect()
    waiter.send(b"GET /thing HTTP/1.1\r\nHost: api.test\r\n\r\n")
    stays = Background(lambda: node.get("/thing"))
    wait_until(lambda: node.metric("weir_client_connections") == 3, "all have come")
    waiter.close()
    wait_until(lambda: node.metric("weir_client_connections") == 2, "the waiter is forgotten at once")
    leader.close()
    wait_until(lambda: node.metric("weir_client_connections") == 1, "and so is the leader")
    held.open()
    answer = stays.result()
    assert (answer.status, answer.body) == (200, b"1")
    wait_until(lambda: node.get("/thing")["x-cache"] == "HIT", "it is kept")
    assert len(held.upstream.requests) == 1


# ---- who shares a load ----


def test_two_variants_of_one_key_are_loaded_once_each_and_never_mixed(fleet, scripted):
    """Nobody knows that they are two before the first answer says so."""

    def answer(number, talk, request):
        talk.answer(fields={"Vary": "X-Tongue"}, body=b"%s %d" % (request["x-tongue"].encode(), number))

    held = Held(scripted, answer)
    nodes = fleet.start(held.url, CACHED)
    clients = {tongue: [Background(lambda i=i, tongue=tongue: nodes[i % 2].get("/page", {"X-Tongue": tongue})) for i in range(10)]
               for tongue in ("de", "en")}
    held.calls(1)
    held.open()
    bodies = {tongue: {each.result().body for each in waiting} for tongue, waiting in clients.items()}
    assert {tongue: len(seen) for tongue, seen in bodies.items()} == {"de": 1, "en": 1}
    assert all(seen.pop().startswith(tongue.encode()) for tongue, seen in bodies.items())
    assert len(held.upstream.requests) == 2


def test_conditions_and_ranges_ride_on_the_load_of_the_whole(fleet, scripted):
    held = Held(scripted, lambda number, talk, request: talk.answer(fields={"ETag": '"one"'}, body=b"0123456789"))
    nodes = fleet.start(held.url, CACHED, workers=1)  # for a range, only what is on its way to this worker is
    whole = Background(lambda: nodes[0].get("/thing"))
    held.calls(1)
    asked = [({}, 200, b"0123456789"), ({"If-None-Match": '"one"'}, 304, b""), ({"If-None-Match": '"two"'}, 200, b"0123456789"),
             ({"Range": "bytes=2-4"}, 206, b"234"), ({"Range": "bytes=-3"}, 206, b"789"), ({"Range": "bytes=20-"}, 416, b"")]
    clients = [Background(lambda node=nodes[0 if "Range" in fields else i % 2], fields=fields: node.get("/thing", fields))
               for i, (fields, _, _) in enumerate(asked * 2)]
    wait_until(lambda: sum(node.metric("weir_client_connections") for node in set(nodes)) >= 13, "all have come")
    held.open()
    assert whole.result().body == b"0123456789"
    for client, (fields, status, body) in zip(clients, asked * 2):
        answer = client.result()
        assert (answer.status, answer.body if status != 416 else b"") == (status, body), fields
    [request] = held.upstream.requests
    assert "range" not in request and "if-none-match" not in request, "what is loaded suits everybody"


def test_who_wants_it_new_does_not_ride_on_what_was_asked_for_before(fleet, scripted):
    """`no-cache` asks for what the upstream says from now on: a load under way began earlier, and is not it. Nor do others wait for it."""
    first = threading.Event()

    def answer(talk, _request):
        number = len(talk.upstream.requests)
        if number == 1:
            first.wait(120)
        talk.answer(body=b"%d" % number)

    upstream = scripted(answer, each=True)
    nodes = fleet.start(upstream.url, CACHED)
    owner = Background(lambda: nodes[0].get("/thing"))
    upstream.wait_requests(1)
    for i, node in enumerate(nodes):
        answer = node.get("/thing", {"Cache-Control": "no-cache"})
        assert (answer.status, answer.body) == (200, b"%d" % (i + 2))
    assert not owner.is_over()
    first.set()
    assert owner.result().body == b"1"


@pytest.mark.parametrize("method, body", [("POST", b"{}"), ("PUT", b"{}"), ("GET", b"a body"), ("POST", None)])
def test_requests_that_say_something_are_never_collapsed(fleet, scripted, method, body):
    """Ten equal ones are ten, all with the upstream at the same time."""
    held = Held(scripted, lambda number, talk, request: talk.answer(body=request.body))
    nodes = fleet.start(held.url, CACHED)
    clients = [Background(lambda i=i: nodes[i % 2].ask(method, "/thing", body=body)) for i in range(10)]
    held.calls(10)
    held.open()
    assert {client.result().body for client in clients} == {body or b""}
