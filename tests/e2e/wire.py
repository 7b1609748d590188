"""Wire: what exactly goes over a socket, from both ends of Weir?

`Connection` is a client that can say anything, right or wrong, and tells a whole answer from one that broke off. `Scripted` is an
upstream whose every byte a test writes; a test that needs only a slow API takes the demo upstream of weir.py.
"""

import socket
import struct
import threading

PATIENCE_S = 60  # how long anything may take that must happen; no test measures time by it
HOST = "api.test"  # the cache's key holds the Host: tests over several nodes send the same one


class Broken(Exception):
    """The other side ended the connection where an answer was owed. What came of it: .answer or None."""

    def __init__(self, why, answer=None):
        super().__init__(why)
        self.answer = answer


class Message:
    """A request or an answer: its first line, fields (names in lower case, in order) and body."""

    def __init__(self, first_line, fields, body=b""):
        self.first_line, self.fields, self.body = first_line, fields, body
        self.interims = []

    def all(self, name):
        return [value for each, value in self.fields if each == name]

    def __getitem__(self, name):
        """The field's value; several are joined, None where there is none."""
        return ", ".join(self.all(name)) if self.all(name) else None

    def __contains__(self, name):
        return bool(self.all(name))

    @property
    def status(self):
        return int(self.first_line.split(" ")[1])

    @property
    def method(self):
        return self.first_line.split(" ")[0]

    @property
    def target(self):
        return self.first_line.split(" ")[1]

    @property
    def text(self):
        return self.body.decode()

    def __repr__(self):
        return f"<{self.first_line} {self.fields} {self.body[:300]!r}>"


class _Reader:
    """Reads messages from a socket as RFC 9112 frames them."""

    def __init__(self, sock):
        self.sock, self.kept = sock, b""

    def more(self):
        try:
            got = self.sock.recv(65536)
        except ConnectionError as error:
            raise Broken(f"connection: {error}") from error
        self.kept += got
        return len(got)

    def until(self, mark):
        while mark not in self.kept:
            if self.more() == 0:
                raise Broken(f"closed before {mark!r}, after {self.kept!r}" if self.kept else "closed")
        part, _, self.kept = self.kept.partition(mark)
        return part

    def exactly(self, count, into):
        while len(into) < count:
            if not self.kept and self.more() == 0:
                raise Broken("closed within the body")
            part = self.kept[: count - len(into)]
            into += part
            self.kept = self.kept[len(part):]

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        pairs = [line.split(":", 1) for line in lines[1:]]
        return Message(lines[0], [(name.lower(), value.strip()) for name, value in pairs])

    def chunks(self, into):
        while True:
            size = int(self.until(b"\r\n").split(b";")[0], 16)
            if size == 0:
                while self.until(b"\r\n"):
                    pass
                return
            before = len(into)
            self.exactly(before + size, into)
            if self.until(b"\r\n"):
                raise Broken("a chunk without its line end")

    def body_of(self, message, ends_by_close):
        body = bytearray()
        try:
            if "transfer-encoding" in message:
                self.chunks(body)
            elif "content-length" in message:
                self.exactly(int(message["content-length"]), body)
            elif ends_by_close:
                while self.more() > 0:
                    pass
                body += self.kept
                self.kept = b""
        except Broken as broken:
            message.body = bytes(body)
            raise Broken(str(broken), message) from None
        message.body = bytes(body)
        return message


def request_bytes(method, target, fields=(), body=None, host=HOST):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"] if host is not None else [f"{method} {target} HTTP/1.1"]
    fields = list(fields.items()) if isinstance(fields, dict) else list(fields)
    lines += [f"{name}: {value}" for name, value in fields]
    if body is not None and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in fields):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


class Connection:
    """A client's connection."""

    def __init__(self, port, receive_buffer=None, from_address=None):
        self.sock = socket.socket()
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if from_address is not None:
            self.sock.bind((from_address, 0))
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = _Reader(self.sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def ask(self, method, target, fields=(), body=None, host=HOST):
        self.send(request_bytes(method, target, fields, body, host))
        return self.answer(method)

    def answer(self, method="GET"):
        """The next answer, whole; Broken where it is not. Those that came before it are its `interims`."""
        message, interims = self.reader.head(), []
        while message.status < 200 and message.status != 101:
            interims.append(message)
            message = self.reader.head()
        message.interims = interims
        if method == "HEAD" or message.status in (204, 304):
            return message
        return self.reader.body_of(message, ends_by_close=True)

    def rest(self):
        """What comes until the other side closes or resets."""
        try:
            while self.reader.more() > 0:
                pass
        except Broken:
            pass
        rest, self.reader.kept = self.reader.kept, b""
        return rest

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()


class Talk:
    """One connection that an upstream was given."""

    def __init__(self, sock, upstream):
        self.sock, self.upstream = sock, upstream
        self.reader = _Reader(sock)

    def read(self):
        """The next request, which the upstream then has counted; None when the connection has ended."""
        try:
            request = self.reader.body_of(self.reader.head(), ends_by_close=False)
        except Broken:
            return None
        self.upstream.note(request)
        return request

    def send(self, data):
        self.sock.sendall(data)

    def answer(self, status=200, fields=(), body=b"", length=None):
        fields = list(fields.items()) if isinstance(fields, dict) else list(fields)
        fields.append(("Content-Length", str(len(body) if length is None else length)))
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        self.send(f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode("latin-1") + body)

    def wait_closed(self):
        """Until Weir closes its side; what came before that."""
        got = bytearray(self.reader.kept)
        try:
            while data := self.sock.recv(65536):
                got += data
        except ConnectionError:
            pass
        return bytes(got)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Scripted:
    """An upstream that runs `script(talk)` in a thread for each connection, and closes it afterwards.

    With `each=True` the script is `script(talk, request)` and runs for each request of a connection that is kept open.
    """

    def __init__(self, script, each=False):
        self.script, self.each = script, each
        self.changed = threading.Condition()
        self.requests, self.talks, self.failures = [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def note(self, request):
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()

    def wait_requests(self, count):
        """Until so many requests have come; all that did."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, PATIENCE_S), (
                f"{count} requests were to reach the upstream, {len(self.requests)} did")
            return list(self.requests)

    def connection_count(self):
        with self.changed:
            return len(self.talks)

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(PATIENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            talk = Talk(sock, self)
            with self.changed:
                self.talks.append(talk)
            threading.Thread(target=self._run, args=(talk,), daemon=True).start()

    def _run(self, talk):
        try:
            if not self.each:
                self.script(talk)
            else:
                while (request := talk.read()) is not None:
                    self.script(talk, request)
        except OSError:
            pass  # Weir left, or the test is over
        except Exception as error:  # noqa: BLE001  a script's own mistake must fail its test
            self.failures.append(error)
        finally:
            talk.sock.close()

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for talk in self.talks:
            try:
                talk.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        assert not self.failures, self.failures
