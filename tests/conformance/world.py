"""World: nodes before an upstream that answers each target from a list, for the tests of what a cache must do.

The last answer of a list is for ever; every answer has a body of its own, so that a body tells which answer it was. Nothing is measured in
time: what is to be stale is asked for until it is, or comes with an Age.
"""

import collections
import itertools

from weir import wait_until

EVERYTHING = [{"match": "/**", "cache": {}}]
LONG_AGO = "Sun, 06 Nov 1994 08:49:37 GMT"
LATER = "Mon, 07 Nov 1994 08:49:37 GMT"
FRESH = {"Cache-Control": "max-age=3600"}
SHORT = {"Cache-Control": "max-age=1"}


class World:
    """Nodes before an upstream that does as `answers` says: target -> list of (status, fields)."""

    def __init__(self, fleet, scripted, routes=EVERYTHING):
        self.answers, self.counts = {}, collections.Counter()
        self.upstream = scripted(self._answer, each=True)
        self.nodes = fleet.start(self.upstream.url, routes)
        self.turn = itertools.cycle(self.nodes)

    def _answer(self, talk, request):
        self.counts[request.target] += 1
        n = self.counts[request.target]
        answers = self.answers.get(request.target, [(200, FRESH)])
        status, fields = answers[min(n, len(answers)) - 1]
        fields = dict(fields(request)) if callable(fields) else dict(fields)
        if status == 200 and request["if-none-match"] is not None and request["if-none-match"] == fields.get("ETag"):
            status = 304
        if status == 200 and "ETag" not in fields and request["if-modified-since"] is not None and (
                request["if-modified-since"] == fields.get("Last-Modified")):
            status = 304
        if status == 304 or request.method == "HEAD":
            talk.send(f"HTTP/1.1 {status} Whatever\r\n".encode() + "".join(f"{k}: {v}\r\n" for k, v in fields.items()).encode("latin-1")
                      + b"\r\n")
        else:
            talk.answer(status, fields, self.body(request.target, n))

    @staticmethod
    def body(target, n):
        return f"{target} {n} 0123456789".encode()

    def says(self, target, *answers):
        """Each a (status, fields), or fields for 200."""
        self.answers[target] = [each if isinstance(each, tuple) else (200, each) for each in answers]

    def get(self, target, fields=()):
        return next(self.turn).get(target, fields)

    def stored(self, target, fields=()):
        """Asks until each node gives what is stored."""
        first = None
        for node in self.nodes:
            first = wait_until(lambda node=node: (lambda a: a if a["x-cache"] == "HIT" else None)(node.get(target, fields)), f"{target} is stored")
        return first

    def stale(self, target, fields=()):
        """Asks until it is no longer a hit; that answer."""
        return wait_until(lambda: (lambda a: a if a["x-cache"] not in ("HIT", "WAIT") else None)(self.get(target, fields)), f"{target} is stale")

    def requests(self, target):
        return [each for each in list(self.upstream.requests) if each.target == target]
