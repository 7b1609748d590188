"""Stale: who gets the old copy, and does exactly one caller in the fleet fetch the new one?

The upstream's answers are held back by the test: whoever is answered meanwhile did not wait for them.
"""

import threading
import time

import pytest

from weir import Background, together, wait_until

STALE_SOON = [{"match": "GET /reports/top",
               "cache": {"ttl": "1ms", "stale_while_revalidate": "1h", "stale_if_error": "1h", "lock_timeout": "10m", "tags": ["report"]}}]


def held(scripted, after=1, status=lambda number: 200):
    """Numbered answers; those after the first `after` wait for the gate."""
    gate = threading.Event()

    def answer(talk, _request):
        number = len(talk.upstream.requests)
        if number > after:
            gate.wait(120)
        talk.answer(status(number), body=b"%d" % number)

    return scripted(answer, each=True), gate


def become_stale(nodes, target):
    for node in nodes:
        wait_until(lambda node=node: node.get(target)["x-cache"] == "STALE", "the copy goes stale")


def test_a_stale_report_is_served_at_once_while_exactly_one_refresh_runs(fleet, scripted):
    upstream, gate = held(scripted)
    nodes = fleet.start(upstream.url, STALE_SOON)
    assert nodes[0].get("/reports/top").body == b"1"
    become_stale(nodes, "/reports/top")
    answers = together([lambda i=i: nodes[i % 2].get("/reports/top") for i in range(60)])
    upstream.wait_requests(2)
    answers += together([lambda i=i: nodes[i % 2].get("/reports/top") for i in range(60)])
    assert {(answer.body, answer["x-cache"]) for answer in answers} == {(b"1", "STALE")}
    assert len(upstream.requests) == 2, "one refresh, whoever asked"
    gate.set()
    for node in nodes:
        wait_until(lambda node=node: int(node.get("/reports/top").body) >= 2, "the new report is served")


def test_who_asks_after_an_invalidation_waits_for_the_new_report(fleet, scripted):
    upstream, gate = held(scripted)
    a, b = fleet.start(upstream.url, STALE_SOON)
    a.get("/reports/top")
    wait_until(lambda: a.get("/reports/top")["x-cache"] == "STALE" and len(upstream.requests) == 2, "a refresh is under way")
    assert b.invalidate("report").status == 200
    asked = [Background(lambda node=node: node.get("/reports/top")) for node in (a, b)]
    upstream.wait_requests(3)  # the refresh under way began too early: another load
    gate.set()
    assert {each.result().body for each in asked} == {b"3"}


def test_a_refresh_that_fails_leaves_the_old_copy_and_is_not_repeated_by_everybody(fleet, scripted):
    upstream, gate = held(scripted, status=lambda number: 200 if number == 1 else 503)
    nodes = fleet.start(upstream.url, STALE_SOON)
    nodes[0].get("/reports/top")
    gate.set()
    become_stale(nodes, "/reports/top")
    answers = together([lambda i=i: nodes[i % 2].get("/reports/top") for i in range(40)])
    answers += [nodes[i % 2].get("/reports/top") for i in range(20)]
    assert {(answer.status, answer.body, answer["x-cache"]) for answer in answers} == {(200, b"1", "STALE")}
    assert len(upstream.wait_requests(2)) <= 4, "after a failure nobody tries again for a while"


def test_where_the_upstream_fails_the_old_copy_stands_in(fleet, scripted):
    routes = [{"match": "GET /thing", "cache": {"ttl": "1ms", "stale_if_error": "1h"}}]
    upstream = scripted(lambda talk, _request: talk.answer(body=b"good") if len(talk.upstream.requests) == 1 else talk.reset(), each=True)
    a, b = fleet.start({"servers": [upstream.url], "retries": 0}, routes)
    assert a.get("/thing").body == b"good"
    become_stale((a, b), "/thing")
    for node in (a, b):
        answer = node.get("/thing")
        assert (answer.status, answer.body, answer["x-cache"]) == (200, b"good", "STALE")
        assert "detail=upstream-error" in answer["cache-status"]


# ---- how long an old copy may stand in ----


def gone(scripted, fields):
    """Answers each target once, with these fields, and from then on fails as its name says."""

    def script(talk, request):
        if [each.target for each in talk.upstream.requests].count(request.target) == 1:
            talk.answer(fields=fields, body=b"good")
        elif request.target == "/reset":
            talk.reset()
        elif request.target == "/silent":
            talk.wait_closed()
        else:
            talk.answer(int(request.target[1:]), body=b"bad")

    return scripted(script, each=True)


WAYS_TO_FAIL = ["/reset", "/silent", "/500", "/502", "/503", "/504"]
AS_ANSWERS_SAY = [{"match": "/**", "cache": {"stale_if_unreachable": "0s"}}]


def once(node, target, is_so, what):
    """The first answer of which that is true."""
    return wait_until(lambda: next((answer for answer in [node.get(target)] if is_so(answer)), None), what)


def test_the_answers_own_stale_if_error_covers_every_way_to_fail(fleet, scripted):
    """For as long as it says: then the failure is passed on."""
    upstream = gone(scripted, {"Cache-Control": "max-age=1, stale-if-error=1"})
    a, b = fleet.start({"servers": [upstream.url], "retries": 0, "first_byte_timeout": "100ms"}, AS_ANSWERS_SAY)
    for target in WAYS_TO_FAIL:
        assert a.get(target).body == b"good"

    def fails_in_its_turn(target):
        stale = once(a, target, lambda answer: answer["x-cache"] != "HIT", "it goes stale")
        assert (stale.status, stale.body, stale["x-cache"]) == (200, b"good", "STALE"), target
        failed = once(b, target, lambda answer: answer.status != 200, "its time is over")
        assert failed.status in (500, 502, 503, 504)

    together([lambda target=target: fails_in_its_turn(target) for target in WAYS_TO_FAIL])


def test_an_upstream_that_is_not_there_any_more_is_covered_too(fleet, scripted):
    upstream = gone(scripted, {"Cache-Control": "max-age=1, stale-if-error=60"})
    a, b = fleet.start(upstream.url, AS_ANSWERS_SAY)
    assert a.get("/thing").body == b"good"
    upstream.close()
    stale = once(a, "/thing", lambda answer: answer["x-cache"] != "HIT", "it goes stale")
    assert (stale.status, stale.body, stale["x-cache"]) == (200, b"good", "STALE")
    assert b.get("/thing").body == b"good"


@pytest.mark.parametrize("directive", ["must-revalidate", "proxy-revalidate"])
def test_what_must_be_revalidated_is_never_served_stale(fleet, scripted, directive):
    """Whatever the route would allow: the failure is passed on."""
    upstream = gone(scripted, {"Cache-Control": f"max-age=1, {directive}, stale-if-error=60, stale-while-revalidate=60"})
    routes = [{"match": "/**", "cache": {"stale_if_error": "1h", "stale_while_revalidate": "1h"}}]
    nodes = fleet.start({"servers": [upstream.url], "retries": 0}, routes)
    assert nodes[0].get("/reset").body == b"good"
    failed = once(nodes[0], "/reset", lambda answer: answer["x-cache"] != "HIT", "it is stale")
    assert failed.status in (502, 504)
    assert nodes[1].get("/reset").status in (502, 504)


def test_a_refresh_that_always_fails_is_backed_off_and_the_copy_ends_at_its_time(fleet, scripted):
    """Under steady traffic: about one try a second, and none of them takes the copy's place or prolongs it."""
    upstream = gone(scripted, {"Cache-Control": "max-age=1, stale-while-revalidate=2"})
    nodes = fleet.start({"servers": [upstream.url], "retries": 0}, AS_ANSWERS_SAY)
    assert nodes[0].get("/503").body == b"good"
    began, served = time.monotonic(), 0
    while (answer := nodes[served % 2].get("/503")).status == 200:
        assert answer.body == b"good"
        served += 1
        assert time.monotonic() - began < 60, "it ends"
    tries_at_most = 2 + (time.monotonic() - began)
    assert answer.status in (502, 503)
    assert served > 10, "it was about something"
    assert 2 <= len(upstream.requests) <= 1 + tries_at_most
