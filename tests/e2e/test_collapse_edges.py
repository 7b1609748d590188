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
    assert nodes[1].get("/mine")["x-cache"] == "MISS", "not another's: it is judged anew"
    wait_until(lambda: all(node.get("/mine")["x-cache"] == "HIT" for node in nodes), "it is stored")
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
    wait_until(lambda: all(node.get("/mine")["x-cache"] == "HIT" for node in nodes), "one of them has stored it")
    assert len(held.upstream.requests) == 21
