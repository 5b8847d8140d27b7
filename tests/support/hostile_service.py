"""A note service that turns hostile on command: a proxy on loopback in front of the simulator.

It passes everything on until a *twist* is set for one kind of call. A twist is given the connection
and the simulator's true answer, and sends whatever it likes: bytes for ever, nothing, half an answer.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from notarium_devtools.simperium import Simulator

LOGIN, INDEX, FEED, NOTE, WRITE, DELETE = "login", "index", "feed", "note", "write", "delete"
KINDS = (LOGIN, INDEX, FEED, NOTE, WRITE, DELETE)
_OWN_HEADERS = frozenset({"content-length", "connection", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the simulator answered; ``query`` is that of the request."""

    status: int
    headers: dict[str, str]
    body: bytes
    target: str


Twist = Callable[[socket.socket, Answer], object]


def kind_of(method: str, path: str) -> str:
    """The kind of a call; "" for those that are always passed on."""
    if "/authorize/" in path:
        return LOGIN
    if "/note/" not in path:
        return ""
    if path.endswith("/note/index"):
        return INDEX
    if path.endswith("/note/changes"):
        return FEED
    return {"GET": NOTE, "POST": WRITE, "DELETE": DELETE}.get(method, "")


def whole(status: int, body: bytes, **headers: str) -> bytes:
    """A complete answer as bytes."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def of(answer: Answer, body: bytes | None = None, **headers: str) -> bytes:
    """The true answer as bytes, with another body or further headers."""
    kept = {name: value for name, value in answer.headers.items() if name not in _OWN_HEADERS}
    return whole(answer.status, answer.body if body is None else body, **(kept | headers))


def says(change: Callable[[bytes], bytes]) -> Twist:
    """The true answer with its body changed."""
    return lambda to, answer: to.sendall(of(answer, change(answer.body)))


class HostileService:
    """The proxy. ``twists`` by kind of call; ``met`` counts the calls that met one.

    ``over`` counts those of them whose answer is sent, or whose client has hung up on it.
    """

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.twists: dict[str, Twist] = {}
        self.withheld: set[str] = set()
        self.met: Counter[str] = Counter()
        self.over: Counter[str] = Counter()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._changing = threading.Lock()
        self._over = threading.Event()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        # Whoever asks for the simulator's addresses is sent here; for all else, to the simulator.
        self.api_url = self.auth_url = f"{self.url}/1"
        self.app_url = self.url

    def __getattr__(self, name: str) -> Any:
        return getattr(self.simulator, name)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()
        self._accepting.join()

    def cut(self) -> None:
        """End every connection; what is asked on one of them meets no twist any more."""
        for connection in tuple(self._open):
            self._open.discard(connection)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def twisted(self, kind: str, twist: Twist, *, carried_out: bool = True) -> Iterator[None]:
        """The twist is active while this is entered; waiting long polls are cut at both ends.

        ``carried_out`` False: the simulator never hears of these calls.
        """
        with self._changing:
            self.twists[kind] = twist
            if not carried_out:
                self.withheld.add(kind)
            self.cut()
        try:
            yield
        finally:
            with self._changing:
                del self.twists[kind]
                self.withheld.discard(kind)
                self.cut()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, http.client.HTTPException):
                requests = connection.makefile("rb")
                while self._answer(connection, requests):
                    pass
        finally:
            self._open.discard(connection)

    def _answer(self, connection: socket.socket, requests: Any) -> bool:
        """Whether the connection goes on."""
        words = requests.readline().decode("latin-1").split()
        if len(words) != 3:
            return False
        headers = http.client.parse_headers(requests)
        body = requests.read(int(headers.get("content-length", 0)))
        kind = kind_of(words[0], urlsplit(words[1]).path)
        if kind in self.withheld:
            answer = Answer(0, {}, b"", words[1])
        else:
            answer = self._true(words[0], words[1], dict(headers.items()), body)
        with self._changing:
            if connection not in self._open:
                return False
            twist = self.twists.get(kind)
            self.met[kind] += twist is not None
        if twist is None:
            connection.sendall(of(answer))
            return True
        try:
            twist(connection, answer)
        finally:
            with self._changing:
                self.over[kind] += 1
        return False

    def _true(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        behind = http.client.HTTPConnection(urlsplit(self.simulator.url).netloc, timeout=60)
        try:
            behind.request(method, target, body=body or None, headers=headers)
            reply = behind.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, found, reply.read(), target)
        finally:
            behind.close()


# Twists that fit every kind of call


def endless(head: bytes, block: bytes, *, gigabytes: int = 10) -> Twist:
    """``head`` and then the block again and again, until nobody listens or all is said."""

    def send(to: socket.socket, _answer: Answer) -> None:
        large = block * (1 << 20 // len(block)) if len(block) < 1 << 16 else block
        to.sendall(b"HTTP/1.1 200 OK\r\nx-simperium-version: 1\r\n\r\n" + head)
        for _ in range(gigabytes << 30 // len(large)):
            to.sendall(large)

    return send


def drip(seconds: float) -> Twist:
    """The true answer, a byte at a time, with a pause before each."""

    def send(to: socket.socket, answer: Answer) -> None:
        for byte in of(answer):
            time.sleep(seconds)
            to.sendall(bytes([byte]))

    return send


def cut_after(count: int) -> Twist:
    """The first bytes of the true answer, and the connection reset."""

    def send(to: socket.socket, answer: Answer) -> None:
        to.sendall(of(answer)[:count])
        to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    return send


def raw(*parts: bytes) -> Twist:
    """These bytes instead of an answer."""
    return lambda to, _answer: to.sendall(b"".join(parts))


CURSOR_LOST = raw(whole(404, b""))
"""Given to ``FEED`` it has the index read again, whichever call was cut on the way there."""


def peak_mib(process_id: int) -> int:
    """The most memory a process has had so far, in MiB."""
    status = Path(f"/proc/{process_id}/status").read_text("ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) // 1024
