"""What the tests of a running Weir (e2e/, fleet/) have at hand; see e2e/weir.py and e2e/wire.py."""

import os
import pathlib
import random
import sys

import pytest

TESTS = pathlib.Path(__file__).parent
sys.path.insert(0, str(TESTS / "e2e"))
# for builds under AddressSanitizer: what libraries leak by design
os.environ.setdefault("LSAN_OPTIONS", f"suppressions={TESTS / 'support' / 'lsan.supp'}:print_suppressions=0")

pytest.register_assert_rewrite("weir", "wire")

import weir  # noqa: E402
import wire  # noqa: E402


@pytest.fixture
def upstream(tmp_path):
    """The demo upstream, its products in 50 ms, its report in 300 ms."""
    demo = weir.Demo(tmp_path)
    yield demo
    demo.kill()


@pytest.fixture(scope="module")
def quick_upstream(tmp_path_factory):
    """The demo upstream without its delays, one for all tests of a file."""
    demo = weir.Demo(tmp_path_factory.mktemp("upstream"), product_ms=0, report_ms=0)
    yield demo
    demo.kill()


@pytest.fixture
def scripted():
    """scripted(script, each=False): an upstream that does just that; see wire.Scripted."""
    made = []

    def make(script, each=False):
        made.append(wire.Scripted(script, each))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def redis(tmp_path):
    server = weir.Redis(tmp_path)
    yield server
    server.close()


@pytest.fixture(params=["memory", "redis"])
def fleet(request, tmp_path):
    """Nodes as one fleet: on memory one node of two workers, on Redis two nodes."""
    nodes = weir.Fleet(tmp_path, request.getfixturevalue("redis") if request.param == "redis" else None)
    yield nodes
    nodes.close()


@pytest.fixture
def memory_fleet(tmp_path):
    nodes = weir.Fleet(tmp_path)
    yield nodes
    nodes.close()


@pytest.fixture
def redis_fleet(tmp_path, redis):
    nodes = weir.Fleet(tmp_path, redis)
    yield nodes
    nodes.close()


@pytest.fixture
def rng(request):
    """Chance that can be repeated: WEIR_SEED takes the seed that a failed test printed."""
    seed = int(os.environ.get("WEIR_SEED", random.SystemRandom().getrandbits(32)))
    print(f"WEIR_SEED={seed}")
    return random.Random(seed)
