"""RFC 9111 section 4.2.4: while the upstream gives no answer at all, what was fresh a short while ago may be used; unless it forbids that."""

import threading

import pytest

from weir import together, wait_until
from world import EVERYTHING, World


class Leaving(World):
    """An upstream that, once it is told to leave, closes each connection after the request, or answers with `failure`."""

    def __init__(self, fleet, scripted, routes=EVERYTHING):
        self.left, self.failure = threading.Event(), None
        super().__init__(fleet, scripted, routes)

    def _answer(self, talk, request):
        if not self.left.is_set():
            super()._answer(talk, request)
        elif self.failure is not None:
            talk.answer(self.failure)
        else:
            talk.sock.close()

    def copy_that_ends(self, target, control):
        """A fresh copy in the store, and the upstream gone."""
        self.says(target, {"Cache-Control": control})
        body = self.get(target).body
        self.stored(target)
        self.left.set()
        return body

    def after_its_end(self, target, fields=()):
        """The first answer that is no hit."""
        return wait_until(lambda: (lambda a: a if a["x-cache"] != "HIT" else None)(self.get(target, fields)), "it is stale")


@pytest.fixture
def leaving(fleet, scripted):
    return Leaving(fleet, scripted)


def test_who_is_gone_is_bridged_for_all_who_ask(leaving):
    body = leaving.copy_that_ends("/x", "max-age=2")
    answer = leaving.after_its_end("/x")
    assert (answer.status, answer.body, answer["x-cache"]) == (200, body, "STALE")
    assert "detail=upstream-error" in answer["cache-status"]
    answers = together([lambda node=node: node.get("/x") for node in leaving.nodes for _ in range(10)])
    assert {(each.status, each.body) for each in answers} == {(200, body)}


@pytest.mark.parametrize("control", ["must-revalidate", "proxy-revalidate", "s-maxage=2", "stale-if-error=0", "no-cache=\"x\", must-revalidate"])
def test_what_forbids_it_is_never_used_stale(leaving, control):
    leaving.copy_that_ends("/x", f"max-age=2, {control}")
    answer = leaving.after_its_end("/x")
    assert (answer.status, answer["proxy-status"] is not None) == (502, True)


@pytest.mark.parametrize("status", [500, 503])
def test_an_error_is_an_answer(leaving, status):
    leaving.failure = status
    leaving.copy_that_ends("/x", "max-age=2")
    assert leaving.after_its_end("/x").status == status


def test_who_wants_the_upstreams_own_word_gets_none(leaving):
    leaving.copy_that_ends("/x", "max-age=2")
    leaving.after_its_end("/x")
    for fields in ({"Cache-Control": "no-cache"}, {"Cache-Control": "max-age=1"}, {"Cache-Control": "min-fresh=1"}):
        assert leaving.get("/x", fields).status == 502


def test_what_was_invalidated_is_not_used(fleet, scripted):
    leaving = Leaving(fleet, scripted, [{"match": "/**", "cache": {"tags": ["all"]}}])
    leaving.copy_that_ends("/x", "max-age=2")
    leaving.nodes[0].invalidate("all")
    for node in leaving.nodes:
        assert node.get("/x").status == 502


def test_the_operator_may_forbid_it(fleet, scripted):
    leaving = Leaving(fleet, scripted, [{"match": "/**", "cache": {"stale_if_unreachable": "0s"}}])
    leaving.copy_that_ends("/x", "max-age=2")
    assert leaving.after_its_end("/x").status == 502
