"""Planted faults: would the tests of the limit script notice the mistakes that limiters are known for?

Each is planted in a copy of the script, which the suite is then given instead of the one that is embedded. A suite that passes is
the failure here. Prints which promises were seen to be broken (pytest -s).
"""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()
SCRIPT = BUILD / "lua_scripts.c.d" / "admit.lua"  # as it is embedded, with its fragments
SUITE = sorted(BUILD / path.stem.replace("test_", "lua_test_") for path in (ROOT / "tests" / "lua").glob("test_admit*.c"))

pytestmark = pytest.mark.skipif(not all(path.exists() for path in [SCRIPT, *SUITE]), reason=f"needs the tests of tests/lua in {BUILD}")

WRITE = re.compile(r"redis\.call\('SET', ([^,]+), (.+), 'PX', ttl\)")


def check_then_act(script):
    """Everybody in a batch is judged by what was read before, and all are charged afterwards."""
    state = "kind[i], stamp_us[i], state_a[i], state_b[i], state_c[i]"
    charged = "rule_algorithm[j], new_stamp[j], new_a[j], new_b[j], new_c[j]"
    script = replaced(script, "local function keep_state(", "local acts = {}\nlocal function keep_state(")
    script = replaced(script, f"{state} = {charged}", f"local act = {{{charged}}}\n"
                      f"acts[#acts + 1] = function() {state} = unpack(act) end")
    return replaced(script, "local numbers = decide()", "local numbers = decide()\nfor n = 1, #acts do acts[n]() end")


def check_one_then_charge_all(script):
    """Of requests that came together the first is looked at, and all are let in."""
    return replaced(script, "passing = smaller(passing, floor(left(j, it) / rule_cost[j]))",
                    "if left(j, it) < rule_cost[j] then passing = 0 end")


def expiry_apart_from_the_count(script):
    """The count is written, and a key that is new gets a TTL in a second step: the next write takes it away."""
    script, count = WRITE.subn(r"redis.call('SET', \1, \2)\n if not is_found[i] then redis.call('PEXPIRE', KEYS[i], ttl) end", script)
    assert count >= 4
    return script


def expiry_of_the_first_count(script):
    """A key keeps the TTL of its first write, and dies while it counts."""
    script, count = WRITE.subn(r"redis.call('SET', \1, \2, 'KEEPTTL')\n if not is_found[i] then redis.call('PEXPIRE', KEYS[i], ttl) end", script)
    assert count >= 4
    return script


def refusal_that_charges(script):
    """Who is refused has tried, and pays for it."""
    script = replaced(script, "if is_charged then\n            it.charge(j, passing * rule_cost[j])",
                      "if is_charged or first_hold[j] < 0 and it.available(j) >= rule_cost[j] then\n"
                      "            it.charge(j, math.max(passing, 1) * rule_cost[j])")
    return replaced(script, "if is_charged or must_keep[j] then", "if first_hold[j] < 0 or must_keep[j] then")


def holds_that_are_not_seen_in_time(script):
    """What is held is counted when the script has ended, so that a batch takes one slot many times."""
    return replaced(script, "held[i] = held[i] + count * rule_cost[j]", "")


def holds_that_never_end(script):
    """A dead node's slots are gone for good."""
    return replaced(script, "if tonumber(first[4]) <= now_us then", "if false then")


def replaced(script, old, new):
    assert script.count(old) == 1, f"the script has changed, plant the fault anew: {old}"
    return script.replace(old, new)


def broken_promises(script, folder):
    """The tests that fail with this script in place of the embedded one."""
    path = folder / "admit.lua"
    path.write_text(script)
    environment = {**os.environ, "WEIR_PLANTED_ADMIT": str(path), "WEIR_STEPS": "1500"}
    running = [subprocess.Popen([program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment)
               for program in SUITE]
    broken = []
    for program in running:
        said = program.communicate(timeout=300)[1]
        failed = re.findall(r"\[FAIL\] (\w+::\w+)", said)
        assert (program.returncode != 0) == bool(failed), said[-3000:]
        broken += failed
    return broken


def test_the_script_as_it_is_breaks_nothing(tmp_path):
    assert broken_promises(SCRIPT.read_text(), tmp_path) == []


FAULTS = {  # and a promise that must be seen to be broken, among others
    check_then_act: "admit_differential::a_batch_decides_what_its_requests_would_one_by_one",
    check_one_then_charge_all: "admit_differential::the_script_decides_what_the_policy_decides",
    expiry_apart_from_the_count: "admit_differential::the_script_decides_what_the_policy_decides",
    expiry_of_the_first_count: "admit_differential::the_script_decides_what_the_policy_decides",
    refusal_that_charges: "admit::a_refusal_writes_nothing",
    holds_that_are_not_seen_in_time: "admit_differential::the_script_decides_what_the_policy_decides",
    holds_that_never_end: "admit_differential::the_script_decides_what_the_policy_decides",
}


@pytest.mark.parametrize("plant, noticed_by", FAULTS.items(), ids=[plant.__name__ for plant in FAULTS])
def test_a_planted_fault_is_noticed(tmp_path, plant, noticed_by):
    broken = broken_promises(plant(SCRIPT.read_text()), tmp_path)
    print(f"\n{plant.__name__}: {plant.__doc__}\n    noticed by " + "\n               ".join(broken))
    assert noticed_by in broken
