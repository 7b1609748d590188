"""Check layers: does the code keep to the shape that docs/ARCHITECTURE.md gives it?

Two promises, each a way in which a program of layers rots:

1. policies/ is pure: the archive of it needs nothing but mem*, strlen and the check hook.
2. Every #include of policies/ and proxy/ goes to the own layer or below; in the layers of adapters and services only inside a module,
   or where MAY_USE says so; and a third-party header is seen by its owners alone.

A new file of proxy/ belongs into MODULES; a file that is in none is a violation, so that somebody has to think where it belongs.
Prints one line a violation, and exits 1 if there is any.

    check_layers.py ARCHIVE [--root DIRECTORY]      ARCHIVE: libweir_policies.a of a build
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys

WORDS, POLICIES, GROUND, ADAPTERS, SERVICES, STORY, PROCESS = range(7)

# layer -> module -> its files in proxy/, without .c and .h; "*" stands for a family. An exact name goes before a family,
# and a longer family before a shorter one.
MODULES = {
    GROUND: {
        "settings": ["settings", "settings_*"],
        "stats": ["stats"],
        "log": ["log", "access_log"],
        "fault": ["fault"],
        "clock": ["clock"],
        "panic": ["panic"],
        "memory": ["memory"],
        "peers": ["peers"],
        "list": ["list"],
        "expiry_map": ["expiry_map"],
        "digest": ["digest", "group_tags"],
        "uri_tag": ["uri_tag"],
        "journal": ["journal", "journal_*"],
        "asked_tags": ["asked_tags"],
        "json_body": ["json_body"],
        "lua_scripts": ["lua_scripts"],
        "object": ["object", "gzip"],
        "near": ["near", "tag_table", "held_tags"],
        "known_plans": ["known_plans"],
        "census": ["census"],
        "loop": ["loop", "loop_h2o"],
    },
    ADAPTERS: {
        "front": ["front"],
        "front_http1": ["front_http1", "front_http1_*"],
        "store": ["store"],
        "store_memory": ["store_memory", "store_memory_*"],
        "store_redis": ["store_redis", "store_redis_*"],
        "redis_script": ["redis_script"],
        "redis_link": ["redis_link", "redis_*"],
        "redis_words": ["redis_words"],
        "origin": ["origin", "origin_*"],
        "resolver": ["resolver"],
        "respond": ["respond"],
    },
    SERVICES: {
        "limiter": ["limiter", "limit_request", "limit_batch", "refusals", "holdings"],
        "planner": ["planner"],
        "flight": ["flight", "flight_tell", "flight_load", "flight_pay", "flight_parts", "plan", "load_answer", "variant", "part", "compressor"],
        "stream": ["stream"],
        "waits": ["waits"],
        "invalidator": ["invalidator"],
        "site": ["site"],
        "principals": ["principals"],
    },
    STORY: {
        "story": ["story", "exchange", "stage_*", "aftermath"],
    },
    PROCESS: {
        "process": ["main", "commands", "command", "command_*", "errand", "caller_key", "limit_gauges", "server", "worker", "listener", "admin", "admin_*"],
    },
}

# In these layers modules do not know each other,
CLOSED_LAYERS = {ADAPTERS, SERVICES}
# save these, each for a reason:
MAY_USE = {
    ("front_http1", "front"): "implements it",
    ("respond", "front"): "answers through it",
    ("store_memory", "store"): "implements it",
    ("store_redis", "store"): "implements it",
    ("store_redis", "redis_script"): "its operations are scripts",
    ("redis_script", "redis_link"): "scripts are run over the link",
    ("store_redis", "redis_words"): "plain values, without a connection",
    ("redis_script", "redis_words"): "plain values, without a connection",
    ("redis_link", "redis_words"): "plain values, without a connection",
    ("origin", "resolver"): "it is given the resolver that it asks",
    ("flight", "stream"): "a flight's load is a stream",
    ("flight", "limiter"): "a load is paid for before it begins",
    ("flight", "site"): "loads go to the upstreams of a site",
    ("stream", "site"): "streams come from the upstreams of a site",
    ("limiter", "site"): "a site knows the figures that decisions are counted in",
    ("planner", "limiter"): "it completes the charges of a request before the limiter is asked",
}

# In policies/: what is beneath the policies themselves. All other files of that folder are policies.
WORD_FILES = {"units", "slice", "slice_search", "check", "text"}

POLICY_SYSTEM_HEADERS = {"stddef.h", "stdint.h", "stdbool.h", "string.h"}

SYSTEM_HEADERS = POLICY_SYSTEM_HEADERS | {
    # C11
    "assert.h", "ctype.h", "errno.h", "inttypes.h", "limits.h", "math.h", "setjmp.h", "signal.h", "stdalign.h", "stdarg.h",
    "stdatomic.h", "stdio.h", "stdlib.h", "time.h",
    # POSIX and Linux
    "arpa/inet.h", "dirent.h", "fcntl.h", "getopt.h", "ifaddrs.h", "linux/tcp.h", "net/if.h", "netdb.h", "netinet/in.h", "netinet/tcp.h", "poll.h",
    "pthread.h", "sched.h", "spawn.h", "strings.h", "sys/epoll.h", "sys/eventfd.h", "sys/file.h", "sys/ioctl.h", "sys/mman.h",
    "sys/prctl.h", "sys/random.h", "sys/resource.h", "sys/signalfd.h", "sys/socket.h", "sys/stat.h", "sys/syscall.h", "sys/time.h",
    "sys/timerfd.h", "sys/types.h", "sys/uio.h", "sys/un.h", "sys/wait.h", "syslog.h", "unistd.h",
}  # fmt: skip

# Third-party header, or ours that shows one -> the files that may see it. The first pattern that fits counts.
OWNERS = [
    ("h2o.h", ["loop.c", "loop_h2o.h"]),
    ("h2o/*", ["loop.c", "loop_h2o.h"]),
    # whoever includes this sees all of libh2o: the adapters that sit on its sockets, and the process
    ("loop_h2o.h", ["loop.c", "front_http1.h", "front_http1*.c", "origin.c", "origin_wire.c", "resolver.c", "redis_link.c",
                    "listener.c"]),
    ("front_http1.h", ["front_http1*.c"]),  # what its files share; the rest of us includes front.h
    ("hiredis/*", ["redis_link.c", "redis_reader.c", "redis_script.c"]),
    ("yaml.h", ["settings_yaml.c"]),
    ("openssl/*", ["digest.c", "tls.c"]),
    ("xxhash.h", ["digest.c"]),
    ("json-c/*", ["admin.c", "admin_*.c", "errand.c", "json_body.c"]),
    ("nghttp2/*", ["front_http2.c"]),
    ("malloc.h", ["server.c"]),
    ("zlib.h", ["gzip.c"]),
]  # fmt: skip

PURE_SYMBOLS = {"memchr", "memcmp", "memcpy", "memmem", "memmove", "mempcpy", "memrchr", "memset", "strlen", "check_failed"}
# What the build itself puts in: sanitizers, coverage, the stack protector, the fortified forms of mem*.
BUILD_SYMBOLS = re.compile(
    r"^(__(asan|ubsan|tsan|lsan|sanitizer|sancov|gcov|llvm|stack_chk)_?\w*|_GLOBAL_OFFSET_TABLE_|__mem\w+_chk)$"
)

INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*)$", re.MULTILINE)
INCLUDED_NAME = re.compile(r'^(?:"([^"]+)"|<([^>]+)>)')


def impure_symbols(archive):
    """What the archive needs from outside and must not, by name."""
    text = subprocess.run(["nm", str(archive)], check=True, capture_output=True, text=True).stdout
    needed, given = set(), set()
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or len(words[-2]) != 1:
            continue  # the name of a member, or an empty line
        (needed if words[-2] in "Uw" else given).add(words[-1])
    outside = needed - given - PURE_SYMBOLS
    return sorted(name for name in outside if not BUILD_SYMBOLS.match(name))


def place_of(name):
    """(layer, module) of a file of proxy/; None where the table has none."""
    stem = pathlib.PurePath(name).stem
    found = []
    for layer, modules in MODULES.items():
        for module, families in modules.items():
            found += [(family == stem, len(family), layer, module) for family in families if fnmatch.fnmatchcase(stem, family)]
    return max(found)[2:] if found else None


def owners_of(header):
    """The files that may include a third-party header; None where nobody owns it."""
    for pattern, owners in OWNERS:
        if fnmatch.fnmatchcase(header, pattern):
            return owners
    return None


class Tree:
    """The sources, each with its layer and module."""

    def __init__(self, root):
        self.root = root
        self.places = {}  # file name -> (layer, module)
        self.paths = []
        self.violations = []
        for folder in ("policies", "proxy"):
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in (".c", ".h", ".def"):
                    self._place(folder, path)

    def _place(self, folder, path):
        self.paths.append(path)
        if path.name in self.places:
            self._complain(path, None, "there are two files of this name")
        if folder == "policies":
            self.places[path.name] = (WORDS if path.stem in WORD_FILES else POLICIES, path.stem)
            return
        place = place_of(path.name)
        if place is None:
            self._complain(path, None, "is in no layer: give it a place in MODULES of tests/verify/check_layers.py")
        else:
            self.places[path.name] = place

    def _complain(self, path, line, what):
        where = f"{path.relative_to(self.root)}" + (f":{line}" if line else "")
        self.violations.append(f"{where}: {what}")

    def check(self):
        for path in self.paths:
            text = path.read_text(encoding="utf-8", errors="replace")
            for match in INCLUDE.finditer(text):
                self._check_include(path, text.count("\n", 0, match.start(1)) + 1, match.group(1))
        return self.violations

    def _check_include(self, path, line, operand):
        match = INCLUDED_NAME.match(operand)
        if match is None:
            self._complain(path, line, f"#include {operand.strip()}: only a plain file name can be checked")
            return
        ours, system = match.groups()
        owners = owners_of(ours or system)
        if owners is not None:
            if not any(fnmatch.fnmatchcase(path.name, owner) for owner in owners):
                self._complain(path, line, f"{ours or system} is seen by {', '.join(owners)} only")
        elif system is not None:
            self._check_system(path, line, system)
        if ours is not None:
            self._check_ours(path, line, ours)

    def _check_system(self, path, line, header):
        is_policy = path.is_relative_to(self.root / "policies")
        if is_policy and header not in POLICY_SYSTEM_HEADERS:
            self._complain(path, line, f"policies are pure: <{header}> has nothing for them")
        elif header not in SYSTEM_HEADERS:
            self._complain(path, line, f"<{header}> has no owner: give it one in OWNERS of tests/verify/check_layers.py")

    def _check_ours(self, path, line, header):
        to = self.places.get(header)
        if to is None:
            self._complain(path, line, f'"{header}" is no file of policies/ or proxy/ with a place')
            return
        if path.name not in self.places:
            return  # told already
        layer, module = self.places[path.name]
        to_layer, to_module = to
        if to_layer > layer:
            self._complain(path, line, f"layer {layer} must not know {header} of layer {to_layer}")
        elif to_layer == layer and layer in CLOSED_LAYERS and module != to_module and (module, to_module) not in MAY_USE:
            self._complain(path, line, f"{module} must not know {to_module} ({header}): both are of layer {layer}")


def main(arguments):
    parser = argparse.ArgumentParser(description="Holds the code against its layers.")
    parser.add_argument("archive", type=pathlib.Path, help="libweir_policies.a")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args(arguments)

    violations = Tree(options.root.resolve()).check()
    violations += [f"{options.archive.name}: policies are pure: they must not need {name}" for name in impure_symbols(options.archive)]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
