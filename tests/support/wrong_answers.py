"""Wrong answers of Simplenote: what a proxy, a cache or a fault may put in the place of the truth.

A *lie* is made from the true answer to one kind of request. All are answers that HTTP alone would take: what no
client could take at all is in ``test_hostile_service``.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support import hostile_service as hostile
from support.hostile_service import FEED, INDEX, NOTE, WRITE, Answer, Twist

FALSE = "falselighthouse"
"""Stands in the text of every note that is not the one asked for."""
OTHER, MARK = "other", "x-simperium-version"
LOGIN_PAGE = b"<!DOCTYPE html><html><title>Log in</title><form action='/login'>Wi-Fi</form></html>"
Fields = dict[str, Any]
Body = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Lie:
    """One wrong answer to one kind of request. ``carried_out`` False: the request never reached the service."""

    kind: str
    name: str
    twist: Twist
    carried_out: bool = True

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def instead(status: int, body: bytes = b"", **headers: str) -> Twist:
    """This answer, whatever the true one is."""
    return hostile.raw(hostile.whole(status, body, **headers))


def says(change: Body, **headers: str) -> Twist:
    """The true answer with another body, and other headers; an error is passed on as it is."""

    def send(to: socket.socket, answer: Answer) -> None:
        body = change(answer.body) if answer.status == 200 else answer.body
        to.sendall(hostile.of(answer, body, **headers))

    return send


def fields(change: Callable[[Fields], Any]) -> Twist:
    """The true answer with other fields in the note."""
    return says(lambda body: json.dumps(change(json.loads(body))).encode())


def numbered(number: Callable[[int], object], change: Body = lambda body: body) -> Twist:
    """The true answer under another version number."""

    def send(to: socket.socket, answer: Answer) -> None:
        version = str(number(int(answer.headers.get(MARK, "0"))))
        to.sendall(hostile.of(answer, change(answer.body), **{MARK: version}))

    return send


def without_number(to: socket.socket, answer: Answer) -> None:
    """The true answer without its version number."""
    kept = {name: value for name, value in answer.headers.items() if name != MARK}
    to.sendall(hostile.of(Answer(answer.status, kept, answer.body, answer.target)))


def cut(share: float) -> Body:
    return lambda body: body[: int(len(body) * share)]


def repeated_keys(body: bytes) -> bytes:
    return body.rstrip()[:-1] + f', "content": "{FALSE} twice"}}'.encode()


def with_nan(body: bytes) -> bytes:
    return re.sub(rb'"modificationDate": ?[0-9.]+', b'"modificationDate": NaN', body)


class Liar:
    """Makes the lies about the notes of one simulator."""

    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator

    def _fields(self, note_id: str) -> bytes:
        return json.dumps(self._simulator.bucket().read(note_id).value).encode()

    def other(self, _body: bytes) -> bytes:
        """Another note of the account."""
        return self._fields(OTHER)

    def foreign(self, _body: bytes) -> bytes:
        """A note of somebody else."""
        return json.dumps(
            self._simulator.bucket().read(OTHER).value | {"creationDate": 1.5e9}
        ).encode()

    def others_number(self, change: Body) -> Twist:
        """Another note under its own number."""
        return numbered(lambda _version: self._simulator.bucket().read(OTHER).version, change)

    def yesterday(self, number: Callable[[int, int], int]) -> Twist:
        """The first version of the same note; ``number`` makes its number of the true one and of the first."""

        def send(to: socket.socket, answer: Answer) -> None:
            found = re.search(r"/i/([^/?]+)", answer.target)
            assert found
            version = int(answer.headers.get(MARK, "0"))
            body = json.dumps(self._simulator.bucket().read(found[1], 1).value).encode()
            to.sendall(hostile.of(answer, body, **{MARK: str(number(version, 1))}))

        return send

    def of_any(self, kind: str) -> list[Lie]:
        """Return the lies that need to know nothing of the answer."""
        found: dict[str, Twist] = {
            "an empty 200": instead(200),
            "a 204": instead(204),
            "a 206 with half": lambda to, answer: to.sendall(
                hostile.whole(206, cut(0.5)(answer.body), content_range="bytes 0-9/99")
            ),
            "a body cut in half": says(cut(0.5)),
            "all but the last byte": says(lambda body: body[:-1]),
            "a login page with 200": instead(200, LOGIN_PAGE, content_type="text/html"),
            "a redirect to a login page": instead(
                302, LOGIN_PAGE, location="http://127.0.0.1:1/login"
            ),
            "a lasting redirect": instead(308, location="http://127.0.0.1:1/"),
            "garbage as gzip": instead(200, b"\x1f\x8b\x08garbage", content_encoding="gzip"),
            "gzip, cut": says(lambda body: gzip.compress(body)[:-9], content_encoding="gzip"),
            "gzip without a word of it": says(gzip.compress),
            "an unknown encoding": says(lambda body: body, content_encoding="br"),
            "null": instead(200, b"null", **{MARK: "3"}),
            "a number": instead(200, b"7", **{MARK: "3"}),
            "a text": instead(200, b'"log in"', **{MARK: "3"}),
            "an empty list": instead(200, b"[]", **{MARK: "3"}),
            "an empty object": instead(200, b"{}", **{MARK: "3"}),
            "an error object with 200": instead(200, b'{"error":"login"}', **{MARK: "3"}),
            "a byte order mark": says(lambda body: b"\xef\xbb\xbf" + body),
            "UTF-16": says(lambda body: body.decode().encode("utf-16")),
            "Latin-1": says(
                lambda body: body + b"\xe9\xff", content_type="text/plain; charset=latin-1"
            ),
            "NULs after it": says(lambda body: body + b"\0\0\0\0"),
            "NULs in its place": says(lambda body: bytes(len(body))),
            "two answers in one": says(lambda body: body + body),
            "NaN": says(lambda body: with_nan(body) if b"modif" in body else b'{"a":NaN}'),
            "a huge answer": instead(200, b"[" + b"0," * 600_000 + b"0]", **{MARK: "3"}),
            "a very deep answer": instead(200, b"[" * 5000 + b"]" * 5000, **{MARK: "3"}),
            "a 304": instead(304),
            "a 401": instead(401),
            "a 407": instead(407),
            "a 451": instead(451, LOGIN_PAGE),
            "a 503": instead(503, LOGIN_PAGE),
        }
        return [Lie(kind, name, twist) for name, twist in found.items()]

    def of_notes(self) -> list[Lie]:
        """Return the lies about a note that is read."""
        found: dict[str, Twist] = {
            "another note under the right number": says(self.other),
            "another note under its own number": self.others_number(self.other),
            "another note under the next number": numbered(lambda n: n + 1, self.other),
            "a foreign note under the right number": says(self.foreign),
            "a foreign note under a far number": numbered(lambda n: n + 500, self.foreign),
            "yesterday's text under today's number": self.yesterday(lambda true, _first: true),
            "yesterday's text under its number": self.yesterday(lambda _true, first: first),
            "yesterday's text under tomorrow's number": self.yesterday(
                lambda true, _first: true + 1
            ),
            "today's text under yesterday's number": numbered(lambda n: n - 1),
            "today's text under tomorrow's number": numbered(lambda n: n + 1),
            "today's text under number 0": numbered(lambda _n: 0),
            "today's text under a number below zero": numbered(lambda _n: -1),
            "today's text under a word": numbered(lambda _n: "latest"),
            "today's text under a broken number": numbered(lambda n: f"{n}.5"),
            "today's text under two numbers": numbered(lambda n: f"{n}, {n - 1}"),
            "no number": without_number,
            "no text": fields(lambda note: {k: v for k, v in note.items() if k != "content"}),
            "null for a text": fields(lambda note: note | {"content": None}),
            "a number for a text": fields(lambda note: note | {"content": 5}),
            "a list for a text": fields(lambda note: note | {"content": [note["content"]]}),
            "an empty text": fields(lambda note: note | {"content": ""}),
            "half of the text": fields(lambda note: note | {"content": note["content"][:9]}),
            "only the text": fields(lambda note: {"content": note["content"]}),
            "all fields null": fields(dict.fromkeys),
            "other types": fields(lambda note: {k: [v] for k, v in note.items()}),
            "a note in a list": fields(lambda note: [note]),
            "a note in an object": fields(lambda note: {"note": note}),
            "a listing": fields(lambda note: {"index": [{"id": "x", "v": 1, "d": note}]}),
            "in the trash": fields(lambda note: note | {"deleted": not note["deleted"]}),
            "other tags": fields(lambda note: note | {"tags": ["wrong"]}),
            "no tags": fields(lambda note: note | {"tags": []}),
            "other properties": fields(lambda note: note | {"systemTags": ["pinned"]}),
            "keys twice": says(repeated_keys),
            "letters decoded twice": fields(
                lambda note: note | {"content": note["content"].encode().decode("latin-1")}
            ),
            "letters lost": fields(
                lambda note: note | {"content": note["content"].encode("ascii", "replace").decode()}
            ),
            "other line ends": fields(
                lambda note: note | {"content": note["content"].replace("\n", "\r\n")}
            ),
            "trimmed": fields(lambda note: note | {"content": note["content"].strip()}),
            "a word put in": fields(lambda note: note | {"content": f"{FALSE} {note['content']}"}),
            "a page around it": fields(
                lambda note: note | {"content": f"<p>{FALSE}{note['content']}</p>"}
            ),
            "dates swapped": fields(
                lambda note: note | {"creationDate": 1.0, "modificationDate": 2.0}
            ),
            "not there": instead(404),
            "not there, as a page": instead(404, LOGIN_PAGE),
        }
        return [Lie(NOTE, name, twist) for name, twist in found.items()]

    def of_writes(self) -> list[Lie]:
        """Return the lies about a write that was carried out, and about one that never was."""
        told: dict[str, Twist] = {
            "another note under the right number": says(self.other),
            "another note under its own number": self.others_number(self.other),
            "another note under a far number": numbered(lambda n: n + 7, self.other),
            "yesterday's text under the right number": self.yesterday(lambda true, _first: true),
            "yesterday's text under its number": self.yesterday(lambda _true, first: first),
            "yesterday's text under a far number": self.yesterday(lambda true, _first: true + 7),
            "the right text under the number before": numbered(lambda n: n - 1),
            "the right text under a far number": numbered(lambda n: n + 7),
            "no number": without_number,
            "no text": fields(lambda note: {k: v for k, v in note.items() if k != "content"}),
            "half of the text": fields(lambda note: note | {"content": note["content"][:9]}),
            "in the trash": fields(lambda note: note | {"deleted": not note["deleted"]}),
            "keys twice": says(repeated_keys),
        }
        statuses = (200, 201, 202, 204, 400, 404, 405, 409, 412, 413, 417, 440, 429, 500, 503)
        found = [Lie(WRITE, name, twist) for name, twist in told.items()]
        found += [Lie(WRITE, f"{status}, carried out", instead(status)) for status in statuses]
        found += [
            Lie(WRITE, f"{status}, never carried out", instead(status), carried_out=False)
            for status in statuses
        ]
        return found

    def of_listings(self) -> list[Lie]:
        """Return the lies of the index and of the change feed."""

        def entries(change: Callable[[Fields], Any]) -> Twist:
            def changed(body: bytes) -> bytes:
                page = json.loads(body)
                if isinstance(page, dict):
                    page["index"] = [change(entry) for entry in page.get("index", ())]
                    return json.dumps(page).encode()
                return json.dumps([change(entry) for entry in page]).encode()

            return says(changed)

        def other_content(entry: Fields) -> Fields:
            return entry | {"d": json.loads(self._fields(OTHER))}

        replaced = {"content": {"o": "r", "v": f"{FALSE} replaced"}}
        listed: dict[str, Twist] = {
            "contents of another note": entries(other_content),
            "contents of another note, newer": entries(
                lambda e: other_content(e) | {"v": e["v"] + 1}
            ),
            "contents of another note, older": entries(lambda e: other_content(e) | {"v": 1}),
            "no contents": entries(lambda e: e | {"d": None}),
            "contents without text": entries(lambda e: e | {"d": {"tags": []}}),
            "no numbers": entries(lambda e: {k: v for k, v in e.items() if k != "v"}),
            "numbers as words": entries(lambda e: e | {"v": "3"}),
            "numbers of the past": entries(lambda e: e | {"v": 1}),
            "all in the trash": entries(lambda e: e | {"d": e.get("d", {}) | {"deleted": True}}),
            "one id for all": entries(lambda e: e | {"id": "list"}),
            "no entries": says(lambda body: json.dumps(json.loads(body) | {"index": []}).encode()),
        }
        fed: dict[str, Twist] = {
            "entries of another base": entries(lambda e: e | {"sv": 1}),
            "entries without a base": entries(lambda e: {k: v for k, v in e.items() if k != "sv"}),
            "entries of the past": entries(lambda e: e | {"sv": 0, "ev": 1}),
            "entries of the future": entries(lambda e: e | {"ev": e["ev"] + 5}),
            "differences that do not fit": entries(
                lambda e: e | {"v": {"content": {"o": "d", "v": "=400\t+x"}}}
            ),
            "differences with a removed text": entries(
                lambda e: e | {"v": {"content": {"o": "-"}}}
            ),
            "differences with null": entries(
                lambda e: e | {"v": {"content": {"o": "r", "v": None}}}
            ),
            "unknown differences": entries(lambda e: e | {"v": {"content": {"o": "?"}}}),
            "a text from a past base": entries(lambda e: e | {"sv": 1, "ev": 2, "v": replaced}),
            "ids of another note": entries(lambda e: e | {"id": OTHER}),
            "no place": entries(lambda e: {k: v for k, v in e.items() if k != "cv"}),
            "a place of the past": entries(lambda e: e | {"cv": "0" * 24}),
            "everything emptied": entries(lambda e: e | {"o": "EMPTY"}),
        }
        return [Lie(INDEX, name, twist) for name, twist in listed.items()] + [
            Lie(FEED, name, twist) for name, twist in fed.items()
        ]

    def all(self) -> list[Lie]:
        """Return every lie."""
        anything = [lie for kind in (NOTE, WRITE, INDEX, FEED) for lie in self.of_any(kind)]
        return [*anything, *self.of_notes(), *self.of_writes(), *self.of_listings()]
