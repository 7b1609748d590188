"""The check of layers finds what it is there to find: each test plants one violation into a small sound tree."""

import pathlib
import shutil
import subprocess
import sys

import pytest

import check_layers

CHECK = pathlib.Path(check_layers.__file__).resolve()

SOUND = {
    "policies/units.h": "#include <stdint.h>\n",
    "policies/vary.h": '#include "units.h"\n#include <stdbool.h>\n',
    "policies/vary.c": '#include "vary.h"\n\n#include <string.h>\n',
    "proxy/clock.h": '#include "units.h"\n',
    "proxy/loop.h": '#include "units.h"\n',
    "proxy/loop_h2o.h": '#include "loop.h"\n\n#include <h2o.h>\n',
    "proxy/store.h": '#include "loop.h"\n',
    "proxy/store_redis.c": '#include "redis_script.h"\n#include "store.h"\n',
    "proxy/redis_script.h": '#include "redis_link.h"\n',
    "proxy/redis_link.h": '#include "loop.h"\n',
    "proxy/redis_link.c": '#include "redis_link.h"\n#include "loop_h2o.h"\n#include <hiredis/hiredis.h>\n#include <unistd.h>\n',
    "proxy/origin.h": '#include "loop.h"\n',
    "proxy/site.h": '#include "origin.h"\n',
    "proxy/limiter.h": '#include "site.h"\n',
    "proxy/flight.h": '#include "site.h"\n',
    "proxy/stage_lookup.c": '#include "exchange.h"\n#include "vary.h"\n',
    "proxy/exchange.h": '#include "flight.h"\n#include "limiter.h"\n',
    "proxy/main.c": '#include "clock.h"\n#include <stdlib.h>\n',
}


@pytest.fixture
def tree(tmp_path):
    for name, text in SOUND.items():
        write(tmp_path, name, text)
    return tmp_path


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def plant(root, name, line):
    """Adds a line to a file, which may be new."""
    write(root, name, SOUND.get(name, "") + line + "\n")


def violations(root):
    return check_layers.Tree(root).check()


def archive_of(tmp_path, source):
    (tmp_path / "member.c").write_text(source)
    subprocess.run(["cc", "-O0", "-fno-builtin", "-c", "member.c", "-o", "member.o"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "libtest.a", "member.o"], cwd=tmp_path, check=True)
    return tmp_path / "libtest.a"


def test_a_sound_tree_has_no_violation(tree):
    assert violations(tree) == []


def test_the_project_s_own_sources_keep_to_their_layers():
    assert violations(CHECK.parents[2]) == []


@pytest.mark.parametrize(
    "name, line, told",
    [
        ("policies/vary.c", '#include "clock.h"', "layer 1 must not know clock.h of layer 2"),
        ("policies/units.h", '#include "vary.h"', "layer 0 must not know vary.h of layer 1"),
        ("proxy/clock.h", '#include "store.h"', "layer 2 must not know store.h of layer 3"),
        ("proxy/store.h", '#include "limiter.h"', "layer 3 must not know limiter.h of layer 4"),
        ("proxy/site.h", '#include "exchange.h"', "layer 4 must not know exchange.h of layer 5"),
        ("proxy/origin.h", '#include "store.h"', "origin must not know store"),
        ("proxy/redis_link.c", '#include "redis_script.h"', "redis_link must not know redis_script"),
        ("proxy/store_redis.c", '#include "redis_link.h"', "store_redis must not know redis_link"),
        ("proxy/limiter.h", '#include "flight.h"', "limiter must not know flight"),
        ("policies/vary.c", "#include <stdio.h>", "policies are pure: <stdio.h>"),
        ("policies/vary.c", "#include <time.h>", "policies are pure: <time.h>"),
        ("policies/vary.h", "#include <h2o.h>", "h2o.h is seen by"),
        ("proxy/store.h", "#include <hiredis/async.h>", "hiredis/async.h is seen by"),
        ("proxy/redis_link.h", "#include <hiredis/hiredis.h>", "hiredis/hiredis.h is seen by"),
        ("proxy/main.c", "#include <yaml.h>", "yaml.h is seen by"),
        ("proxy/main.c", "#include <openssl/ssl.h>", "openssl/ssl.h is seen by"),
        ("proxy/stage_lookup.c", '#include "loop_h2o.h"', "loop_h2o.h is seen by"),
        ("proxy/main.c", "#include <curl/curl.h>", "<curl/curl.h> has no owner"),
        ("proxy/main.c", '#include "no_such.h"', '"no_such.h" is no file'),
        ("proxy/main.c", '#include "../policies/vary.h"', '"../policies/vary.h" is no file'),
        ("proxy/main.c", "  #  include <yaml.h>", "yaml.h is seen by"),
        ("proxy/main.c", "#include SOMETHING", "only a plain file name can be checked"),
        ("proxy/gadget.c", '#include "clock.h"', "is in no layer"),
        ("proxy/vary.h", "", "two files of this name"),
    ],
)
def test_a_planted_violation_is_told_once(tree, name, line, told):
    plant(tree, name, line)
    found = violations(tree)
    # a file of two places may break further rules on the way; the one that was planted is told in any case
    assert [violation for violation in found if told in violation] != []
    if name != "proxy/vary.h":
        assert len(found) == 1, found
        assert found[0].startswith(name)


def test_a_violation_is_told_with_its_line(tree):
    plant(tree, "policies/vary.c", "/* why not */\n#include <stdio.h>")
    assert violations(tree)[0].startswith("policies/vary.c:5: ")


def test_families_and_exact_names_find_their_place():
    place = check_layers.place_of
    assert place("stage_of_tomorrow.c") == (check_layers.STORY, "story")
    assert place("store.h") == (check_layers.ADAPTERS, "store")
    assert place("store_redis_push.c") == (check_layers.ADAPTERS, "store_redis")
    assert place("settings_yaml.c") == (check_layers.GROUND, "settings")
    assert place("store_of_tomorrow.c") is None


def test_every_exception_is_between_modules_of_one_closed_layer():
    layer_of = {module: layer for layer, modules in check_layers.MODULES.items() for module in modules}
    for (module, to), reason in check_layers.MAY_USE.items():
        assert layer_of[module] == layer_of[to] and layer_of[module] in check_layers.CLOSED_LAYERS
        assert reason


@pytest.mark.parametrize("symbol", ["snprintf", "malloc", "time", "getenv", "strtol", "strcmp", "memalign", "rand"])
def test_a_policy_that_needs_more_than_memory_is_found(tmp_path, symbol):
    archive = archive_of(tmp_path, f"extern int {symbol}(int x); int policy(int x) {{ return {symbol}(x); }}\n")
    assert check_layers.impure_symbols(archive) == [symbol]


def test_mem_strlen_the_check_hook_and_each_other_are_all_that_policies_need(tmp_path):
    calls = ["memcpy", "memchr", "memcmp", "memset", "memmove", "strlen", "check_failed", "other_policy"]
    source = "int other_policy(int x) { return x; }\n"
    source += "".join(f"extern int {name}(int x);\n" for name in calls[:-1])
    source += "int policy(int x) { return " + " + ".join(f"{name}(x)" for name in calls) + "; }\n"
    assert check_layers.impure_symbols(archive_of(tmp_path, source)) == []


def test_the_command_says_what_is_wrong_and_exits_1(tree):
    pure = archive_of(tree, "int policy(int x) { return x; }\n")
    ran = run(tree, pure)
    assert (ran.returncode, ran.stdout) == (0, "")
    impure = archive_of(tree, "extern int puts(const char *); int policy(void) { return puts(\"\"); }\n")
    plant(tree, "proxy/main.c", "#include <yaml.h>")
    ran = run(tree, impure)
    assert ran.returncode == 1
    assert len(ran.stdout.splitlines()) == 2
    assert "yaml.h" in ran.stdout and "must not need puts" in ran.stdout


def test_a_missing_archive_is_no_success(tree):
    assert run(tree, tree / "no_such.a").returncode != 0


def run(root, archive):
    return subprocess.run(
        [sys.executable, str(CHECK), str(archive), "--root", str(root)], capture_output=True, text=True, check=False
    )


@pytest.fixture(autouse=True)
def compiler():
    if shutil.which("cc") is None or shutil.which("nm") is None:
        pytest.fail("cc and nm are needed: install build-essential")
