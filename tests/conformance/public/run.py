#!/usr/bin/python3
"""The public conformance suite against Weir: which of its tests pass, and is one lost that passed before?

    run.py SUITE [--store memory] [--store redis] [--list NOT_PASSED] [--show]

SUITE is a folder of the suite with its dependencies in place. A required or optional test that does not pass and is not in the list
fails the run, once it has failed three times in a row: the suite waits by the clock, and a machine under load is no reason. A test that
is in the list and passes is told of, so that the list can be made shorter. --show prints every test that does not pass.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "e2e"))

from weir import Fleet, Port, Process, Redis, wait_until  # noqa: E402
from wire import Connection  # noqa: E402

KINDS = {"required": "required", "optimal": "optional", "check": "told"}
MUST_PASS = ("required", "optimal")
TRIES = 3
DRIVER_PATIENCE_S = 300


class Upstream(Process):
    """The suite's own server, which answers as each test says."""

    def __init__(self, suite, folder):
        self._port = Port()
        server = next(each for each in (suite / "test-engine" / "server" / "server.mjs", suite / "server" / "server.mjs") if each.exists())
        super().__init__(["node", "--require", HERE / "loopback.cjs", server], folder, "upstream",
                         {"npm_config_protocol": "http", "npm_config_port": str(self.port), "npm_config_pidfile": str(folder / "upstream.pid")})
        wait_until(self._answers, "the suite's upstream answers")

    @property
    def port(self):
        return self._port.number

    def _answers(self):
        assert self.is_alive(), self.stderr
        try:
            with Connection(self.port) as connection:
                return connection.ask("GET", "/state/nobody").status == 404
        except OSError:
            return False

    def close(self):
        self.kill()
        self._port.close()


class Verdicts:
    """What a run said of each test. A test says something only where those pass that it builds on."""

    def __init__(self, said):
        self.tests = {each["id"]: each for each in said["tests"]}
        self.results = said["results"]

    def passes(self, name, above=()):
        needs = self.tests[name]["needs"]
        return self.results.get(name) is True and all(self.passes(each, (*above, name)) for each in needs if each in self.tests and each not in above)

    def not_passed(self, kinds):
        return [name for name, test in self.tests.items() if test["kind"] in kinds and not self.passes(name)]

    def why(self, name):
        result = self.results.get(name)
        if result is True:
            return "builds on " + ", ".join(each for each in self.tests[name]["needs"] if each in self.tests and not self.passes(each))
        return ": ".join(str(each) for each in result) if result else "was not run"


def drive(suite, base, names=()):
    done = subprocess.run(["node", "--no-warnings", HERE / "drive.mjs", suite, base, *names], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=DRIVER_PATIENCE_S, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout[done.stdout.index('{"tests":'):])


def run_again(suite, base, verdicts, names):
    """The tests of these names and all that they build on, by themselves."""
    wanted, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name in verdicts.tests and name not in wanted:
            wanted.add(name)
            todo += verdicts.tests[name]["needs"]
    verdicts.results.update(drive(suite, base, sorted(wanted))["results"])


def run_store(store, suite, expected, folder):
    """All tests on this store; those that fail against expectation once more."""
    redis = Redis(folder) if store == "redis" else None
    upstream, fleet = Upstream(suite, folder), Fleet(folder, redis)
    try:
        node = fleet.start(f"http://127.0.0.1:{upstream.port}", [{"match": "/**", "cache": {}}], count=1)[0]
        base = f"http://127.0.0.1:{node.port}"
        verdicts = Verdicts(drive(suite, base))
        for _ in range(1, TRIES):
            lost = [each for each in verdicts.not_passed(MUST_PASS) if each not in expected]
            if not lost:
                break
            run_again(suite, base, verdicts, lost)
        return verdicts
    finally:
        fleet.close()
        upstream.close()
        if redis is not None:
            redis.close()


def run_stores(stores, suite, expected, folder):
    """Each store's verdicts; side by side, as most of it is waiting."""
    outcomes = {}

    def run(store):
        own = folder / store
        own.mkdir()
        try:
            outcomes[store] = run_store(store, suite, expected, own)
        except BaseException as error:  # noqa: BLE001  raised again below
            outcomes[store] = error

    threads = [threading.Thread(target=run, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def print_table(outcomes):
    counts = collections.defaultdict(collections.Counter)
    for store, verdicts in outcomes.items():
        for name, test in verdicts.tests.items():
            for group in (test["group"], "all"):
                counts[group][store, test["kind"], "of"] += 1
                counts[group][store, test["kind"], "passed"] += verdicts.passes(name)
    groups = [each for each in counts if each != "all"] + ["all"]
    columns = [(store, kind) for store in outcomes for kind in KINDS]
    print(f"{'':20}" + "".join(f"{store + ' ' + KINDS[kind]:>18}" for store, kind in columns))
    for group in groups:
        print(f"{group:20}" + "".join(f"{counts[group][*each, 'passed']}/{counts[group][*each, 'of']}".rjust(18) for each in columns))


def read_list(path):
    """The tests that are known not to pass, each with its reason behind a '#'."""
    if path is None:
        return {}
    lines = (line.partition("#") for line in path.read_text().splitlines())
    return {name.strip(): reason.strip() for name, _, reason in lines if name.strip()}


def judge(outcomes, expected):
    """Prints what is not as expected; True where nothing was lost."""
    lost = False
    for store, verdicts in outcomes.items():
        for name in verdicts.not_passed(MUST_PASS):
            if name not in expected:
                lost = True
                print(f"LOST on {store}: {name} ({verdicts.tests[name]['kind']}): {verdicts.why(name)}")
        for name in expected:
            if name in verdicts.tests and verdicts.passes(name):
                print(f"passes on {store}, though listed as not: {name}")
    return not lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("--store", action="append", choices=("memory", "redis"))
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    expected = read_list(options.list)

    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_stores(options.store or ["memory", "redis"], options.suite.resolve(), expected, pathlib.Path(folder))
    print_table(outcomes)
    if options.show:
        for store, verdicts in outcomes.items():
            for name in verdicts.not_passed(KINDS):
                print(f"{store}: {verdicts.tests[name]['kind']} {name}: {verdicts.why(name)}")
    return 0 if judge(outcomes, expected) else 1


if __name__ == "__main__":
    sys.exit(main())
