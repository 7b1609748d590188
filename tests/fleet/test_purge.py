"""Purging by URL, and soft invalidation: what is served afterwards, on any node, and what is not?"""

import json
import threading

import pytest

from weir import together, wait_until

PAGES = {"match": "GET /page/**", "cache": {"ttl": "1h"}}
NO_QUERY = {"match": "GET /plain/**", "cache": {"ttl": "1h", "key": {"query": "none"}}}
REPORT = {"match": "GET /report", "cache": {"ttl": "1h", "stale_while_revalidate": "1h", "tags": ["report"]}}
STRICT = {"match": "GET /strict", "cache": {"ttl": "1h", "tags": ["report"]}}
HOST = "shop.example"


@pytest.fixture
def counting(scripted):
    """An upstream each of whose answers is another one: for /page/vary, one a language."""
    served = []

    def answer(talk, request):
        served.append(request.target)
        fields = [("Vary", "Accept")] if "/vary" in request.target else []
        talk.answer(body=f"{len(served)}".encode(), fields=fields)

    made = scripted(answer, each=True)
    made.served = served
    return made


def post(node, path, body):
    return node.admin("POST", path, {"Content-Type": "application/json"}, json.dumps(body).encode())


def purge(node, url, **more):
    answer = post(node, "/api/purge", {"url": url, **more})
    assert answer.status == 200, answer
    return json.loads(answer.body)["epoch"]


def get(node, target, fields=(), host=HOST):
    answer = node.ask("GET", target, fields, host=host)
    assert answer.status == 200, answer
    return answer


def is_hit(node, target, fields=(), host=HOST):
    return get(node, target, fields, host)["x-cache"] == "HIT"


def test_a_purge_takes_all_variants_of_the_url_on_every_node(fleet, counting):
    nodes = fleet.start(counting.url, [PAGES])
    kinds = [{"Accept": "text/html"}, {"Accept": "application/json"}, {}]
    for fields in kinds:
        get(nodes[0], "/page/vary", fields)
    for node in nodes:
        for fields in kinds:
            wait_until(lambda n=node, f=fields: is_hit(n, "/page/vary", f), "every variant is stored")
    get(nodes[0], "/page/other")
    epoch = purge(nodes[-1], f"http://{HOST}/page/vary")  # without any Accept
    asked = len(counting.served)
    for fields in kinds:
        answers = {get(node, "/page/vary", fields).body for node in nodes}
        assert len(answers) == 1 and int(answers.pop()) > asked, "no variant that was stored before"
    assert is_hit(nodes[0], "/page/other"), "another URL is left alone"
    assert purge(nodes[0], f"http://{HOST}/page/vary") > epoch


@pytest.mark.parametrize("stored, url", [
    ("/page/a", "http://SHOP.example:80/page/a"),
    ("/page/a", "https://shop.example:443/page/a#part"),
    ("/page/a%62", "http://shop.example/page/ab"),
    ("/page/a?x=1&y=2", "http://shop.example/page/a?x=1&y=2"),
    ("/page/b/", "http://shop.example/page/a/../b/"),
    ("/plain/a?x=1", "http://shop.example/plain/a?x=2"),
    ("/plain/a", "http://shop.example/plain/a?"),
])
def test_a_url_is_found_however_it_is_spelt(memory_fleet, counting, stored, url):
    node, *_ = memory_fleet.start(counting.url, [PAGES, NO_QUERY])
    get(node, stored)
    wait_until(lambda: is_hit(node, stored), "it is stored")
    purge(node, url)
    assert not is_hit(node, stored)


@pytest.mark.parametrize("stored, url", [
    ("/page/a", "http://other.example/page/a"),
    ("/page/a", "http://shop.example:8080/page/a"),
    ("/page/a?x=1", "http://shop.example/page/a?x=2"),
    ("/page/a?x=1", "http://shop.example/page/a"),
    ("/page/a", "http://shop.example/page/a/"),
    ("/page/a%2Fb", "http://shop.example/page/a/b"),
])
def test_another_url_is_left_alone(memory_fleet, counting, stored, url):
    node, *_ = memory_fleet.start(counting.url, [PAGES])
    get(node, stored)
    wait_until(lambda: is_hit(node, stored), "it is stored")
    purge(node, url)
    assert is_hit(node, stored)


def test_the_host_that_a_trusted_proxy_tells_names_it_too(memory_fleet, counting):
    node, *_ = memory_fleet.start(counting.url, [PAGES], trusted_proxies=["127.0.0.0/8", "::1"])
    told = {"X-Forwarded-Host": "Public.example", "X-Forwarded-Proto": "https"}
    for url in ("https://public.example/page/a", "http://public.example/page/a", f"http://{HOST}/page/a"):
        get(node, "/page/a", told)
        wait_until(lambda: is_hit(node, "/page/a", told), "it is stored")
        purge(node, url)
        assert not is_hit(node, "/page/a", told), url


@pytest.mark.parametrize("body, code", [
    ({"url": "/page/a"}, "bad_url"), ({"url": "ftp://shop.example/a"}, "bad_url"), ({"url": "http:///a"}, "bad_url"),
    ({"url": "http://user@shop.example/a"}, "bad_url"), ({"url": "http://shop.example/a b"}, "bad_url"),
    ({"url": "http://shop.example/é"}, "bad_url"), ({"url": "http://shop.example/" + "a" * 9000}, "bad_url"),
    ({"url": 5}, "bad_url"), ({"uri": "http://shop.example/"}, "bad_url"), ([], "bad_url"), ({}, "bad_url"),
    ({"url": "http://shop.example/", "soft": "yes"}, "bad_url"), ({"url": "http://shop.example/", "hard": True}, "bad_url"),
])
def test_what_is_no_url_is_refused_with_the_reason(memory_fleet, upstream, body, code):
    node, *_ = memory_fleet.start(upstream.url, [PAGES])
    answer = post(node, "/api/purge", body)
    problem = json.loads(answer.body)
    assert (answer.status, problem["code"]) == (400, code) and problem["detail"], answer


# ---- what unsafe requests end (RFC 9111 section 4.4) ----

@pytest.mark.parametrize("status, fields, goes", [
    (201, [("Location", "/page/t")], True),
    (204, [("Content-Location", "http://shop.example/page/t")], True),
    (201, [("Location", "http://other.example/page/t")], False),
    (303, [("Location", "t")], True),
    (500, [("Location", "/page/t")], False),
    (404, [("Location", "/page/t")], False),
])
def test_a_change_ends_what_its_answer_names_on_this_host_and_nothing_else(memory_fleet, scripted, status, fields, goes):
    def answer(talk, request):
        if request.method == "POST":
            talk.answer(status=status, fields=fields, body=b"" if status == 204 else b"x")
        else:
            talk.answer(body=b"page")

    node, *_ = memory_fleet.start(scripted(answer, each=True).url, [PAGES, {"match": "/**"}])
    get(node, "/page/t")
    wait_until(lambda: is_hit(node, "/page/t"), "it is stored")
    assert node.ask("POST", "/page/s", host=HOST).status == status
    assert is_hit(node, "/page/t") != goes


# ---- soft ----

def invalidate_softly(node, *tags):
    answer = post(node, "/api/invalidate", {"tags": tags, "soft": True})
    assert answer.status == 200, answer


def test_after_a_soft_invalidation_the_old_copy_is_served_while_one_request_fetches_the_new_one(fleet, scripted):
    gate, bodies = threading.Event(), iter(range(100))

    def answer(talk, _request):
        body = next(bodies)
        if body > 0:
            gate.wait(60)
        talk.answer(body=f"{body}".encode())

    upstream = scripted(answer, each=True)
    nodes = fleet.start(upstream.url, [REPORT])
    for node in nodes:
        wait_until(lambda n=node: is_hit(n, "/report"), "it is stored, and near")
    invalidate_softly(nodes[-1], "report")
    try:
        for _ in range(3):
            for answer in together([lambda n=node: get(n, "/report") for node in nodes for _ in range(5)]):
                assert (answer["x-cache"], answer.body) == ("STALE", b"0")
        upstream.wait_requests(2)
    finally:
        gate.set()
    for node in nodes:
        wait_until(lambda n=node: get(n, "/report").body == b"1", "the new one is there")
        assert is_hit(node, "/report")
    assert len(upstream.requests) == 2, "one refresh in the whole fleet"


def test_without_a_stale_window_a_soft_invalidation_makes_the_upstream_be_asked(fleet, counting):
    a, b = fleet.start(counting.url, [STRICT])
    wait_until(lambda: is_hit(a, "/strict") and is_hit(b, "/strict"), "it is stored")
    invalidate_softly(a, "report")
    assert {get(node, "/strict").body for node in (b, a)} == {b"2"}


def test_after_a_soft_invalidation_the_upstream_need_only_say_that_it_is_the_same(fleet, scripted):
    def answer(talk, request):
        if request["if-none-match"] == '"v1"':
            talk.send(b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n')
        else:
            talk.answer(body=b"body", fields=[("ETag", '"v1"')])

    upstream = scripted(answer, each=True)
    a, b = fleet.start(upstream.url, [STRICT])
    wait_until(lambda: is_hit(a, "/strict") and is_hit(b, "/strict"), "it is stored")
    invalidate_softly(a, "report")
    answer = get(b, "/strict")
    assert (answer["x-cache"], answer.body) == ("REVALIDATED", b"body")
    wait_until(lambda: is_hit(a, "/strict") and is_hit(b, "/strict"), "it is as good as new")
    assert len(upstream.requests) == 2


def test_where_the_upstream_fails_what_is_softly_invalidated_stands_in_for_it(fleet, scripted):
    is_down = threading.Event()

    def answer(talk, _request):
        talk.answer(status=503 if is_down.is_set() else 200, body=b"down" if is_down.is_set() else b"body")

    a, b = fleet.start(scripted(answer, each=True).url, [{**STRICT, "cache": {**STRICT["cache"], "stale_if_error": "1h"}}])
    wait_until(lambda: is_hit(a, "/strict") and is_hit(b, "/strict"), "it is stored")
    is_down.set()
    invalidate_softly(a, "report")
    answer = get(b, "/strict")
    assert (answer["x-cache"], answer.body) == ("STALE", b"body")
    assert post(a, "/api/invalidate", {"tags": ["report"]}).status == 200
    assert b.ask("GET", "/strict", host=HOST).status == 503, "hard: nothing stands in"


def test_a_hard_invalidation_ends_what_a_soft_one_left(fleet, counting):
    a, b = fleet.start(counting.url, [REPORT, {"match": "PUT /report", "invalidates": ["report"]},
                                      {"match": "PUT /softly", "invalidates": [{"tag": "report", "soft": True}]}])
    for way in range(20):
        wait_until(lambda: is_hit(a, "/report") and is_hit(b, "/report"), "it is stored")
        assert a.ask("PUT", "/softly", host=HOST).status == 200
        before = len(counting.served)
        assert get(b, "/report")["x-cache"] in ("STALE", "HIT"), "served: stale, or refreshed by then"
        assert b.ask("PUT", "/report", host=HOST).status == 200
        assert int(get((a, b)[way % 2], "/report").body) > before


def test_a_soft_purge_leaves_the_variants_to_be_served_once_more(fleet, counting):
    a, b = fleet.start(counting.url, [{"match": "GET /page/**", "cache": {"ttl": "1h", "stale_while_revalidate": "1h"}}])
    for fields in ({"Accept": "a/b"}, {"Accept": "c/d"}):
        wait_until(lambda f=fields: is_hit(a, "/page/vary", f), "the variant is stored")
    old = get(a, "/page/vary", {"Accept": "a/b"}).body
    purge(b, f"https://{HOST}/page/vary", soft=True)
    answer = get(a, "/page/vary", {"Accept": "a/b"})
    assert (answer["x-cache"], answer.body) == ("STALE", old)
    wait_until(lambda: get(a, "/page/vary", {"Accept": "a/b"}).body != old, "it is refreshed")
