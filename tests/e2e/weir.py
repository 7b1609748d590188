"""Weir in tests: its processes and what they need, started, watched, faulted and ended.

Everything is a process of this test alone, on ports that the kernel gave out. WEIR_BUILD names the folder of the binaries.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

from wire import HOST, PATIENCE_S, Connection

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()


# ---- waiting, and doing things at once ----


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Until condition() is true; its value. `what` is told where it never is."""
    give_up_at = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < give_up_at, f"never came true: {what}"
        time.sleep(0.004)


def together(actions):
    """Runs all actions at the same moment, each in a thread; their results in order. The first failure is raised."""
    actions = list(actions)
    barrier = threading.Barrier(len(actions))
    results, failures = [None] * len(actions), []

    def run(index, action):
        try:
            barrier.wait(PATIENCE_S)
            results[index] = action()
        except BaseException as error:  # noqa: BLE001  told to the test below
            failures.append(error)

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
        assert not thread.is_alive(), "an action never ended"
    if failures:
        raise failures[0]
    return results


class Background:
    """An action under way; result() waits for it."""

    def __init__(self, action):
        self._value, self._error = None, None
        self._thread = threading.Thread(target=self._run, args=(action,), daemon=True)
        self._thread.start()

    def _run(self, action):
        try:
            self._value = action()
        except BaseException as error:  # noqa: BLE001  told by result()
            self._error = error

    def is_over(self):
        return not self._thread.is_alive()

    def result(self):
        self._thread.join(2 * PATIENCE_S)
        assert not self._thread.is_alive(), "an action never ended"
        if self._error is not None:
            raise self._error
        return self._value


# ---- ports and processes ----


class Port:
    """A port that nobody else gets while this lives: bound, but not listening. Who sets SO_REUSEADDR can still listen on it."""

    def __init__(self):
        self._holder = socket.socket()
        self._holder.bind(("127.0.0.1", 0))  # before the options: so the kernel gives out what really is free
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            self._holder.setsockopt(socket.SOL_SOCKET, option, 1)
        self.number = self._holder.getsockname()[1]

    def close(self):
        self._holder.close()


class Process:
    """A program of the test, its output in files."""

    def __init__(self, arguments, folder, name, env=None):
        self.name = name
        self.stdout_path, self.stderr_path = folder / f"{name}.stdout", folder / f"{name}.stderr"
        with open(self.stdout_path, "ab") as out, open(self.stderr_path, "ab") as err:
            self.popen = subprocess.Popen([str(each) for each in arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                          cwd=folder, env={**os.environ, **(env or {})})

    @property
    def pid(self):
        return self.popen.pid

    @property
    def stdout(self):
        return self.stdout_path.read_text(errors="replace")

    @property
    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def is_alive(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self):
        """Its exit status."""
        return self.popen.wait(PATIENCE_S)

    def kill(self):
        if self.is_alive():
            self.popen.kill()
        self.popen.wait()


class Demo(Process):
    """The demo upstream: a slow API with counters."""

    def __init__(self, folder, product_ms=50, report_ms=300, name="upstream"):
        super().__init__([BUILD / "weir-demo-upstream", "--port", 0, "--product-ms", product_ms, "--report-ms", report_ms], folder, name)
        listening = wait_until(lambda: re.search(r"listening on \S+:(\d+)", self.stdout) or not self.is_alive(), "the upstream listens")
        assert listening is not True, self.stderr
        self.port = int(listening[1])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def calls(self, what=None):
        """How often `what`, such as "GET /products/1", was called; without it all counts."""
        with Connection(self.port) as connection:
            calls = json.loads(connection.ask("GET", "/calls").body)["calls"]
        return calls if what is None else calls.get(what, 0)


class Redis:
    """A Redis of the test alone, without persistence; it can be killed, stopped and started again, empty."""

    def __init__(self, folder, password=None):
        self.folder, self.password, self._port, self.process = folder, password, Port(), None
        self.start()

    @property
    def port(self):
        return self._port.number

    @property
    def url(self):
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}"

    def start(self):
        arguments = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                     "--enable-debug-command", "yes"]
        self.process = Process(arguments + (["--requirepass", self.password] if self.password else []), self.folder, "redis")
        wait_until(self._answers, "Redis answers")

    def _answers(self):
        assert self.process.is_alive(), self.process.stdout
        try:
            return self.command("PING") == b"PONG"
        except OSError:
            return False

    def kill(self):
        self.process.kill()

    def freeze(self):
        """It keeps its connections and answers nothing."""
        self.process.signal(signal.SIGSTOP)

    def thaw(self):
        self.process.signal(signal.SIGCONT)

    def close(self):
        self.process.kill()
        self._port.close()

    def command(self, *words):
        """One command on a connection of its own; bytes, int, list or None. Errors are raised."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as sock:
            stream = sock.makefile("rwb")
            commands = ([["AUTH", self.password]] if self.password else []) + [words]
            for each in commands:
                stream.write(b"*%d\r\n" % len(each))
                for word in each:
                    word = word if isinstance(word, bytes) else str(word).encode()
                    stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
            stream.flush()
            return [self._reply(stream) for _ in commands][-1]

    def _reply(self, stream):
        line = stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis left")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
        return [self._reply(stream) for _ in range(int(rest))]

    def keys(self):
        return sorted(self.command("KEYS", "*"))

    def keys_without_ttl(self):
        """Of keys that vanish meanwhile PTTL says -2: they had one."""
        return [key for key in self.keys() if self.command("PTTL", key) == -1]

    def dump(self):
        """Everything it holds: names and values, as they are stored."""
        dump = b""
        for key in self.keys():
            kind = self.command("TYPE", key)
            read = {b"string": ("GET", key), b"hash": ("HGETALL", key), b"zset": ("ZRANGE", key, 0, -1, "WITHSCORES")}.get(kind)
            dump += key + b"\n" + (repr(self.command(*read)).encode() if read else kind) + b"\n"
        return dump


# ---- nodes ----


class Metrics:
    """What /metrics said. A series that is not there counts 0, as for who looks at a rate."""

    LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?[0-9.]+(?:e[-+]?[0-9]+)?)")
    LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.text, self.samples, self.types, self.helps = text, [], {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ", 3)
                assert name not in self.types, f"declared twice: {name}"
                self.types[name] = kind
            elif line.startswith("# HELP "):
                self.helps[line.split(" ", 3)[2]] = line.split(" ", 3)[3]
            else:
                match = self.LINE.fullmatch(line)
                assert match, f"not in the exposition format: {line!r}"
                self.samples.append((match[1], dict(self.LABEL.findall(match[2] or "")), float(match[3])))

    def sum(self, name, **labels):
        """The sum of all series of that name that have these labels."""
        return sum(value for each, own, value in self.samples if each == name and labels.items() <= own.items())


class Node(Process):
    """One Weir."""

    def __init__(self, folder, name, configuration, env=None, before=()):
        """`before`: words in front of the command, such as prlimit's."""
        self.folder, self._ports = folder, (Port(), Port())
        self.port, self.admin_port = (port.number for port in self._ports)
        self.config_path = folder / f"{name}.yaml"
        self.write(configuration)
        super().__init__([*before, BUILD / "weir", "run", "-c", self.config_path], folder, name, env)
        wait_until(self._is_ready, f"{name} is ready")

    def write(self, configuration):
        """Its configuration's file, in JSON, which is YAML."""
        self.configuration = {"listen": f"127.0.0.1:{self.port}", "admin": f"127.0.0.1:{self.admin_port}", **configuration}
        self.config_path.write_text(json.dumps(self.configuration, indent=1))

    def _is_ready(self):
        assert self.is_alive(), f"{self.name} ended: {self.stderr}"
        try:
            return self.admin("GET", "/readyz").status == 200
        except OSError:
            return False

    def ask(self, method, target, fields=(), body=None, host=HOST):
        """One request on a connection of its own; the whole answer."""
        with Connection(self.port) as connection:
            return connection.ask(method, target, fields, body, host)

    def get(self, target, fields=()):
        return self.ask("GET", target, fields)

    def connect(self, **how):
        return Connection(self.port, **how)

    def admin(self, method, target, fields=(), body=None):
        with Connection(self.admin_port) as connection:
            return connection.ask(method, target, fields, body)

    def command(self, name, *words):
        """`weir NAME -c FILE WORD...` with this node's configuration: exit status, stdout, stderr."""
        done = subprocess.run([BUILD / "weir", name, "-c", self.config_path, *words], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        return done.returncode, done.stdout, done.stderr

    def invalidate(self, *tags):
        return self.admin("POST", "/api/invalidate", {"Content-Type": "application/json"}, json.dumps({"tags": tags}).encode())

    def metrics(self):
        answer = self.admin("GET", "/metrics")
        assert answer.status == 200
        return Metrics(answer.text)

    def metric(self, name, **labels):
        return self.metrics().sum(name, **labels)

    def access_log(self):
        """The whole lines so far, each as an object."""
        return [json.loads(line) for line in self.stdout.splitlines(True) if line.endswith("\n")]

    def reload(self, configuration=None):
        """SIGHUP with this configuration; True once it is in force, False once it is refused."""
        if configuration is not None:
            self.write(configuration)
        before = self.metrics()
        self.signal(signal.SIGHUP)

        def outcome():
            now = self.metrics()
            return next((each for each in ("accepted", "refused") if now.sum("weir_reloads_total", outcome=each)
                         > before.sum("weir_reloads_total", outcome=each)), None)

        return wait_until(outcome, "the reload is over") == "accepted"

    def memory_peak_bytes(self):
        return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{self.pid}/status").read_text())[1]) << 10

    def reset_memory_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def stop(self):
        """SIGTERM; the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def close(self):
        self.kill()
        for port in self._ports:
            port.close()


class Fleet:
    """The nodes of a test on one store. At the end each that still runs must stop cleanly, and Redis hold no key for ever."""

    def __init__(self, folder, redis=None):
        self.folder, self.redis, self.nodes, self.removed = folder, redis, [], []
        self.env = {}  # of the nodes

    @property
    def store(self):
        return {"url": self.redis.url, "timeout": "2s"} if self.redis else {"url": "memory://"}

    def configuration(self, upstream, routes, limits=None, **more):
        """What all nodes share. `upstream`: a URL or the keys of an upstream."""
        api = {"servers": [upstream]} if isinstance(upstream, str) else upstream
        shared = {"workers": 1 if self.redis else 2, "store": self.store, "upstreams": {"api": api},
                  "routes": [{"upstream": "api", **route} for route in routes], "drain_timeout": "20s"}
        return {**shared, **({"limits": limits} if limits else {}), **more}

    def start(self, upstream, routes, limits=None, count=None, **more):
        """`count` nodes: without it two on Redis, and one with two workers on memory. All nodes, by that number at least two, so that
        tests need not know: on memory the second is the first again."""
        configuration = self.configuration(upstream, routes, limits, **more)
        started = [self.add(configuration) for _ in range(count or (2 if self.redis else 1))]
        return started if count or self.redis else started * 2

    def add(self, configuration):
        node = Node(self.folder, f"node{len(self.nodes) + len(self.removed)}", configuration, self.env)
        self.nodes.append(node)
        return node

    def remove(self, node):
        """It has ended, or is to end without further questions."""
        self.nodes.remove(node)
        self.removed.append(node)
        node.kill()

    def close(self):
        try:
            for node in self.nodes:
                assert node.is_alive(), f"{node.name} ended by itself, status {node.popen.returncode}: {node.stderr[-3000:]}"
                node.signal(signal.SIGTERM)
            for node in self.nodes:
                assert node.wait() == 0, f"{node.name}: {node.stderr[-3000:]}"
            if self.redis is not None and self.redis.process.is_alive():
                self.redis.thaw()
                assert [key for key in self.redis.keys_without_ttl() if not key.startswith(b"weir:p:{")] in ([], [b"weir:tags"])
        finally:
            for node in self.nodes + self.removed:
                node.close()
