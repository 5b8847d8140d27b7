"""Replay what real Trilium servers were asked, and compare what the simulator answers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from notarium_devtools.http_server import Request, Response
from notarium_devtools.trilium import TriliumSimulator
from notarium_devtools.trilium.bodies import NoAnswer
from notarium_devtools.trilium.records import Attachment

RECORDED = json.loads(
    (Path(__file__).parents[1] / "vectors" / "trilium_recorded.json").read_text("utf-8")
)
NEWEST = "0.102.1"
PASSWORD = "lab-pass-1"

NOT_SIMULATED = {
    "metrics": "statistics that nothing here asks for",
    "metrics.json": "statistics",
    "metrics.bad": "statistics",
    "export.html": "zip archives",
    "export.md": "zip archives",
    "export.bad": "zip archives",
    "import": "zip archives",
    "spec": "the description of the API itself",
    "history": "rows of the demo notes",
    "history.ancestor": "rows of the demo notes",
    "history.deleted": "rows of the demo notes",
    "cal calendar/weeks/2026-W47": "week notes",
    "cal calendar/months/2026-11": "month notes",
    "cal calendar/years/2026": "year notes",
    "search.repeat": "a parameter that is given twice",
    "auto-revision.list": "made by hand between two recordings",
    "protected.history": "rows of the demo notes",
    "patch.bogus-type": "the title of the answer is compared by the others",
    "local-now": "dates are compared by their form only",
    "content.put-3MB": "the body was not recorded",
    "content.get-3MB-gzip": "the body was not recorded",
    "hidden.content": "system notes",
    "note.if-none-match": "the tag is made from dates, too",
    "search.hash-orderby": "an order inside of the query",
    "search.relation": "a query about relations",
    "login.ok": "the token was cut out of the recording",
}
NEWEST_ONLY = {
    "rev.get", "rev.content", "protected.revisions", "setup.status", "create.bad-type",
    "async.attachments", "async.attachments-after-drop",
}  # fmt: skip
"""The older servers were not asked."""
BODIES = {
    "content.put-octet": "<p>octet ✓</p>".encode(),
    "content.put-latin1": "<p>é</p>".encode("latin-1"),
    "file.put-binary": bytes(range(256)),
    "file.put-pdf-ctype": b"%PDF-1.4 new",
    "att.put": b"\x00\x01\x02",
}
VOLATILE = {
    "blobId", "notePosition", "position", "contentLength", "appVersion", "dbVersion", "syncVersion", "ownerId",
}  # fmt: skip
"""Depends on demo notes, on the version, or on what was not recorded whole."""


def pairs_of(version: str) -> Iterator[dict[str, Any]]:
    """The recorded pairs as that version answers them; what differs stands in for the newest's."""
    others = {pair["name"]: pair for pair in RECORDED["differences"].get(version, [])}
    for pair in RECORDED["pairs"]:
        other = others.get(pair["name"])
        if version != NEWEST and pair["name"] in NEWEST_ONLY:
            continue
        yield pair if other is None else {**pair, "response": _with_ids_of(pair, other)}


def _with_ids_of(pair: dict[str, Any], other: dict[str, Any]) -> Any:
    """The other version's answer, with the ids that the note has here."""
    text = json.dumps(other["response"])
    ours, theirs = (one["request"][1].split("?")[0].split("/") for one in (pair, other))
    for mine, other_id in zip(ours, theirs, strict=True):
        text = text.replace(other_id, mine) if other_id != mine else text
    return json.loads(text)


class Replay:
    """One simulator, and the ids that it is to make next."""

    def __init__(self, version: str) -> None:
        self.sim = TriliumSimulator(version, password=PASSWORD)
        self.token = self.sim.token
        self.next_id: str | None = None
        made = self.sim.document.make_id
        self.sim.document.make_id = lambda: self._take() or made()

    def _take(self) -> str | None:
        taken, self.next_id = self.next_id, None
        return taken

    def ask(self, pair: dict[str, Any]) -> Response | None:
        method, target, headers, body = pair["request"]
        self.next_id = made_id(pair)
        path, _, query = target.partition("?")
        sent = {key.lower(): self._with_token(value) for key, value in headers.items()}
        data = BODIES.get(pair["name"]) or _bytes(body, sent.get("content-type", ""))
        request = Request(
            method=method,
            segments=tuple(unquote(part) for part in path.removeprefix("/").split("/")),
            query=dict(parse_qsl(query, keep_blank_values=True)),
            headers=sent,
            body=data,
        )
        try:
            return asyncio.run(self.sim.etapi.respond(request))
        except NoAnswer:
            return None

    def _with_token(self, value: str) -> str:
        if value.startswith("Basic base64("):
            user = value.removeprefix('Basic base64("').partition(":")[0]
            return "Basic " + base64.b64encode(f"{user}:{self.token}".encode()).decode()
        return value.replace("<TOKEN>", self.token)

    def prepare(self, name: str) -> None:
        """What was done between two recordings, by a person or by a script."""
        sim, document = self.sim, self.sim.document
        if name == "hidden.get":  # logged in again
            self.token = sim.etapi.issue_token()
        elif name == "protected.get-session-open":
            sim.write("wWZWwdw3CAu2", "Probe2", "<p>secret</p>")
            document.place("wWZWwdw3CAu2", "recForced1")
            document.set_attribute("r278E9jWVNS1", "wWZWwdw3CAu2", "label", "pl", "1")
            document.set_attribute(
                "4O7Xfgn8M4dX", "wWZWwdw3CAu2", "relation", "internalLink", "recForced1"
            )
            document.attachments["pXtg8xuZxuhW"] = Attachment(
                "pXtg8xuZxuhW", "wWZWwdw3CAu2", "file", "text/plain", "a.txt", 10, b"x", 0.0, 0.0
            )  # fmt: skip
            sim.protect("wWZWwdw3CAu2")
            document.session_open = True
        elif name == "protected.get":
            document.session_open = False
        elif name == "login.ratelimit":
            sim.etapi.failed_logins = 10
        elif name == "orphan.cycle":
            sim.write("XpGLOD457OSd", "OrphA", "<p>orphtext</p>")
            sim.write("UXTxfXG7FKiE", "OrphB", "<p>b</p>")
            document.place("UXTxfXG7FKiE", "XpGLOD457OSd")
            del document.branches["root_UXTxfXG7FKiE"]


def made_id(pair: dict[str, Any]) -> str | None:
    body = pair["response"][2]
    if isinstance(body, dict):
        note = body.get("note", body)
        for name in ("revisionId", "attachmentId", "attributeId", "noteId"):
            if name in note:
                return note[name]
    return {"rev.create": "1ktb3xCaN0LT", "async.put-inline-image": "ijExe7dhgzEy"}.get(
        pair["name"]
    )


def _bytes(body: Any, content_type: str) -> bytes:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    return json.dumps(body).encode()


def differences(recorded: Any, answered: Any, where: str = "") -> Iterator[str]:  # noqa: C901
    """Compare two JSON values: dates by their form; nothing of what was cut off in the recording."""
    if where.rpartition(".")[2] in VOLATILE or where.rpartition(".")[2].lower().endswith("title"):
        return
    if isinstance(recorded, dict) and isinstance(answered, dict):
        if recorded.keys() != answered.keys():
            yield f"{where}: {sorted(recorded)} is answered as {sorted(answered)}"
            return
        for key, value in recorded.items():
            yield from differences(value, answered[key], f"{where}.{key}")
    elif isinstance(recorded, list) and isinstance(answered, list):
        if any(isinstance(one, str) and one.startswith("... ") for one in recorded):
            return
        if len(recorded) != len(answered):
            yield f"{where}: {len(recorded)} is answered as {len(answered)}"
            return
        for number, (one, other) in enumerate(zip(recorded, answered, strict=True)):
            yield from differences(one, other, f"{where}.{number}")
    elif "ate" in where.rpartition(".")[2]:
        form = "".join("0" if c.isdigit() else c for c in str(recorded))
        if form != "".join("0" if c.isdigit() else c for c in str(answered)):
            yield f"{where}: {recorded} is answered as {answered}"
    elif recorded != answered:
        yield f"{where}: {recorded!r} is answered as {answered!r}"


def faults(pair: dict[str, Any], answer: Response | None) -> Iterator[str]:
    status, headers, body = pair["response"]
    if answer is None or status == 0:
        if (answer is None) != (status == 0):
            yield f"status {status}, answered {answer}"
        return
    if status != answer.status:
        yield f"status {status} is answered as {answer.status} {answer.body[:200]!r}"
        return
    for name, value in headers.items():
        sent = dict(answer.headers) | {"Content-Type": answer.content_type}
        found = {key.lower(): held for key, held in sent.items()}.get(name)
        if found != value:
            yield f"{name}: {value!r} is answered as {found!r}"
    if isinstance(body, dict | list):
        answered = json.loads(answer.body)
        if pair["name"].startswith(("search.", "cal ")) and status == 200:
            if not (isinstance(body, dict) and "results" in body and _whole(body)):
                return
            yield from _other_results(body, answered)
            return
        yield from differences(body, answered)
    elif isinstance(body, str) and not body.startswith("<") and answer.body.decode() != body:
        yield f"{body[:80]!r} is answered as {answer.body[:80]!r}"


def _whole(body: dict[str, Any]) -> bool:
    """Whether the recorded results are complete, and none is a demo note."""
    rows = body["results"]
    return all(isinstance(row, dict) and row["title"].startswith("Rec") for row in rows)


def _other_results(body: dict[str, Any], answered: dict[str, Any]) -> Iterator[str]:
    recorded = {row["noteId"] for row in body["results"]}
    found = {row["noteId"] for row in answered["results"]}
    if recorded != found:
        yield f"finds {sorted(found)} instead of {sorted(recorded)}"


@pytest.mark.parametrize("version", [NEWEST, "0.93.0", "0.63.6"])
def test_the_simulator_answers_as_the_real_server_did(version: str) -> None:
    replay = Replay(version)
    compared, wrong = 0, []
    for pair in pairs_of(version):
        replay.prepare(pair["name"])
        if pair["name"] in NOT_SIMULATED:
            continue
        answer = replay.ask(pair)
        compared += 1
        wrong += [f"{pair['name']}{fault}" for fault in faults(pair, answer)]
    assert not wrong, "\n".join(wrong)
    assert compared >= 266
