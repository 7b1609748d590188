"""Stale: who gets the old copy, and does exactly one caller in the fleet fetch the new one?

The upstream's answers are held back by the test: whoever is answered meanwhile did not wait for them.
"""

import threading

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
