"""RFC 9111 section 4.2.4: while the upstream gives no answer at all, what was fresh a short while ago may be used; unless it forbids that."""

import threading

from weir import together, wait_until
from world import EVERYTHING, World

FORBIDS = ["must-revalidate", "proxy-revalidate", "s-maxage=1", "stale-if-error=0", 'no-cache="x", must-revalidate']


class Leaving(World):
    """An upstream that, once it is told to leave, closes each connection after the request, or answers with a target's failure."""

    def __init__(self, fleet, scripted, routes=EVERYTHING):
        self.left, self.failures = threading.Event(), {}
        super().__init__(fleet, scripted, routes)

    def _answer(self, talk, request):
        if not self.left.is_set():
            super()._answer(talk, request)
        elif request.target in self.failures:
            talk.answer(self.failures[request.target])
        else:
            talk.sock.close()

    def leave(self, *controls):
        """A copy of /0, /1, ... for each Cache-Control, stored, and the upstream gone; their bodies."""
        for at, control in enumerate(controls):
            self.says(f"/{at}", {"Cache-Control": control})
        bodies = [self.nodes[0].get(f"/{at}").body for at in range(len(controls))]
        wait_until(lambda: self.nodes[0].metric("weir_loads_total", outcome="stored") == len(controls), "all are stored")
        self.left.set()
        return bodies

    def after_its_end(self, target, fields=()):
        """The first answer that is no hit."""
        return wait_until(lambda: (lambda a: a if a["x-cache"] != "HIT" else None)(self.get(target, fields)), "it is stale")


def test_who_is_gone_is_bridged_for_all_but_those_who_want_its_own_word(fleet, scripted):
    leaving = Leaving(fleet, scripted)
    body = leaving.leave("max-age=1")[0]
    answer = leaving.after_its_end("/0")
    assert (answer.status, answer.body, answer["x-cache"]) == (200, body, "STALE")
    assert "detail=upstream-error" in answer["cache-status"]
    answers = together([lambda node=node: node.get("/0") for node in leaving.nodes for _ in range(10)])
    assert {(each.status, each.body) for each in answers} == {(200, body)}
    for fields in ({"Cache-Control": "no-cache"}, {"Cache-Control": "max-age=0"}, {"Cache-Control": "min-fresh=1"}):
        assert leaving.get("/0", fields).status == 502


def test_what_forbids_it_is_never_used_stale(fleet, scripted):
    leaving = Leaving(fleet, scripted)
    leaving.leave(*(f"max-age=1, {each}" for each in FORBIDS))
    for at, control in enumerate(FORBIDS):
        answer = leaving.after_its_end(f"/{at}")
        assert (answer.status, answer["proxy-status"] is not None) == (502, True), control


def test_an_error_is_an_answer(fleet, scripted):
    leaving = Leaving(fleet, scripted)
    leaving.failures = {"/0": 500, "/1": 503}
    leaving.leave("max-age=1", "max-age=1")
    for target, status in leaving.failures.items():
        assert leaving.after_its_end(target).status == status


def test_what_was_invalidated_is_not_used(fleet, scripted):
    leaving = Leaving(fleet, scripted, [{"match": "/**", "cache": {"tags": ["all"]}}])
    leaving.leave("max-age=1")
    leaving.nodes[0].invalidate("all")
    for node in leaving.nodes:
        assert node.get("/0").status == 502


def test_the_operator_may_forbid_it(fleet, scripted):
    leaving = Leaving(fleet, scripted, [{"match": "/**", "cache": {"stale_if_unreachable": "0s"}}])
    leaving.leave("max-age=1")
    assert leaving.after_its_end("/0").status == 502
