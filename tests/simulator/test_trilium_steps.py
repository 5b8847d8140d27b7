"""Take the steps that were recorded on real Trilium servers: revisions, attachments, texts, headers.

The simulator has to answer each step as its version did. If a real server is named (docs/testing.md), it is asked,
too: then the recordings themselves are checked.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from notarium_devtools.trilium import TriliumSimulator
from notarium_devtools.trilium.records import blob_id
from support.real_trilium import TOKEN, URL

pytestmark = pytest.mark.anyio
RECORDED = json.loads(
    (Path(__file__).parents[1] / "vectors" / "trilium_steps_recorded.json").read_text("utf-8")
)
VERSIONS = ["0.103.0", "0.102.1", "0.93.0"]
NOT_ASKED = "not asked"
"""A step whose ids that version never shows."""
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_TOKEN = re.compile("«([^«»]+)»")
_FORMS = {
    "any": r"\d+",
    "date Z": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z",
    "date +": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+0000",
}
_SECONDS_OF_A_DOWNLOAD = 8.0


class Tokens:
    """Know what the tokens of the recording stand for on one server."""

    def __init__(self, web: str) -> None:
        self.known = {"web": web, "longtext": RECORDED["longtext"]}
        self.later: list[tuple[str, str]] = []
        """Hashes of texts with tokens that were not known when the hash was shown."""
        run = secrets.token_hex(3)
        for name in {one for step in RECORDED["steps"] for one in _TOKEN.findall(json.dumps(step, ensure_ascii=False))}:  # fmt: skip
            if re.fullmatch(r"[a-z]+", name) and name not in {
                *self.known,
                "any",
                "blob",
                "started",
            }:
                self.known[name] = f"Rec{run}{name}"

    def resolve(self, text: str) -> str:
        return _TOKEN.sub(lambda found: self.known[found[1]], text)

    def fits(self, recorded: str, answered: str) -> bool:
        """Compare a text with a recorded one, and learn what new tokens in it stand for."""
        if recorded.startswith("«blob»"):
            self.later.append((recorded.removeprefix("«blob»"), answered))
            return True
        names: list[str] = []

        def pattern(name: str) -> str:
            if name in _FORMS or name in self.known:
                return _FORMS.get(name) or re.escape(self.known[name])
            names.append(name)
            return f'(?P<t{len(names) - 1}>[^"<>]+?)' if names.count(name) == 1 else f"(?P=t{names.index(name)})"  # fmt: skip

        parts = _TOKEN.split(recorded)
        whole = "".join(pattern(one) if i % 2 else re.escape(one) for i, one in enumerate(parts))
        found = re.fullmatch(whole, answered, re.DOTALL)
        if found:
            self.known |= {n: found[f"t{i}"] for i, n in enumerate(names) if names.index(n) == i}
        return found is not None

    def faults_of_hashes(self) -> Iterator[str]:
        for text, hashed in self.later:
            if blob_id(self.resolve(text).encode()) != hashed:
                yield f"{hashed} is not the hash of {text[:100]}"


def differences(tokens: Tokens, recorded: Any, answered: Any, where: str) -> Iterator[str]:
    """Compare two JSON values. What was not recorded of an object is not compared."""
    if isinstance(recorded, list) and isinstance(answered, list):
        recorded, answered = _by_id(tokens, recorded), _by_id(tokens, answered)
    if isinstance(recorded, dict) and isinstance(answered, dict):
        whole = not where.startswith("app-info")
        if whole and recorded.keys() != answered.keys():
            yield f"{where}: {sorted(recorded)} is answered as {sorted(answered)}"
            return
        for key, value in recorded.items():
            yield from differences(tokens, value, answered[key], f"{where}.{key}")
    elif isinstance(recorded, str) and not isinstance(answered, dict | list):
        if not tokens.fits(recorded, str(answered)):
            yield f"{where}: {recorded!r} is answered as {answered!r}"
    elif recorded != answered:
        yield f"{where}: {recorded!r} is answered as {answered!r}"


def _by_id(tokens: Tokens, rows: list[Any]) -> dict[str, Any]:
    """Attachments have no order; revisions and other rows are told by their place."""
    if all(isinstance(row, dict) and "attachmentId" in row for row in rows):
        return {tokens.resolve(row["attachmentId"]): row for row in rows}
    return {str(number): row for number, row in enumerate(rows)}


class Steps:
    """Take all steps on one server, and collect where it answers otherwise."""

    def __init__(self, version: str, url: str, token: str, web: str) -> None:
        self.tokens = Tokens(web)
        self.others = RECORDED["differences"].get(version, {})
        self.faults: list[str] = []
        self.taken = 0
        self._token = token
        self._http = httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)

    async def take_all(self, download: Any) -> None:
        async with self._http:
            for name, method, path, headers, body, recorded in RECORDED["steps"]:
                expected = self.others.get(name, recorded)
                if method == "WAIT":
                    await download()
                elif expected != NOT_ASKED:
                    reply = await self._ask(method, path, headers, body)
                    self.faults += self._compare(name, expected, reply)
                    self.taken += 1
        self.faults += self.tokens.faults_of_hashes()

    async def _ask(self, method: str, path: str, headers: Any, body: Any) -> httpx.Response:
        sent = {"Authorization": self._token, "Accept-Encoding": "identity"}
        for name, value in headers.items():
            sent[name] = self.tokens.resolve(value.replace("<TOKEN>", self._token))
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        sent_bytes = self.tokens.resolve(text).encode("utf-8", "surrogateescape")
        content = None if body is None else sent_bytes
        return await self._http.request(
            method, self.tokens.resolve(path), content=content, headers=sent
        )

    def _compare(self, name: str, expected: Any, reply: httpx.Response) -> Iterator[str]:
        status, headers, body = expected
        etag = reply.headers.get("etag", "")
        self.tokens.known[f"{name}.etag"] = etag
        self.tokens.known[f"{name.partition('.')[0]}.strong-etag"] = etag.removeprefix("W/")
        if status != reply.status_code:
            yield f"{name}: {status} is answered as {reply.status_code} {reply.text[:200]}"
            return
        if not etag or "date" not in reply.headers:
            yield f"{name}: no ETag or no Date"
        for header, value in headers.items():
            if not self.tokens.fits(value, reply.headers.get(header, "")):
                yield f"{name}: {header} {value!r} is answered as {reply.headers.get(header)!r}"
        if isinstance(body, str):
            if not self.tokens.fits(body, reply.content.decode("utf-8", "backslashreplace")):
                yield f"{name}: {body[:300]!r} is answered as {reply.text[:300]!r}"
            return
        answered = reply.json()
        if name.startswith("search.") and status == 200:
            answered = {"results": sorted(note["noteId"] for note in answered["results"])}
            body = {"results": sorted(map(self.tokens.resolve, body["results"]))}
        if name == "search.limit":  # which two depends on their scores
            body, answered = len(body["results"]), len(answered["results"])
        yield from differences(self.tokens, body, answered, name)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_simulator_takes_the_recorded_steps_as_the_real_servers_did(version):
    async with TriliumSimulator(version).serving() as sim:
        steps = Steps(version, sim.url, sim.token, "http://pictures.example")

        async def download() -> None:
            sim.document.download_images(lambda url: None if "missing" in url else _PNG)

        await steps.take_all(download)
    assert not steps.faults, "\n".join(steps.faults)
    assert steps.taken >= (201 if version != "0.93.0" else 193)


_NOT_COUNTED = {"totalBlobs", "totalRevisions"}
"""Nothing here asks for them."""


async def _counts(client: httpx.AsyncClient) -> dict[str, int]:
    totals = (await client.get("/etapi/metrics?format=json")).json()["database"]
    status = await client.get("/api/setup/status")
    return {**totals, "count": int(status.headers["trilium-max-entity-change-id"])}


async def _faults_of_moves(url: str, token: str) -> list[str]:
    """Make all recorded moves; return those that move totals or the count of changes otherwise."""
    run, faults = secrets.token_hex(3), []
    known = {"run": run, "one": f"MoveA{run}", "two": f"MoveB{run}"}

    def filled(value: str) -> str:
        return _TOKEN.sub(lambda found: known[found[1]], value)

    headers = {"authorization": token}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
        before = await _counts(client)
        for name, method, path, body, status, moved in RECORDED["moves"]:
            sent: dict[str, Any] = {
                "json": json.loads(filled(json.dumps(body, ensure_ascii=False)))
            }
            if isinstance(body, str):
                sent = {"content": filled(body), "headers": {"content-type": "text/plain"}}
            reply = await client.request(method, filled(path), **(sent if body is not None else {}))
            assert reply.status_code == status, (name, reply.text)
            for token_name, key in (("label", "attributeId"), ("branch", "branchId"), ("file", "attachmentId")):  # fmt: skip
                if status != 204 and key in reply.json():
                    known[token_name] = reply.json()[key]
            after = await _counts(client)
            expected = {key: moved.get(key, 0) for key in after if key not in _NOT_COUNTED}
            found = {key: after[key] - before[key] for key in expected}
            faults += [f"{name}: {moved} is answered as {found}"] if found != expected else []
            before = after
    return faults


@pytest.mark.parametrize("version", ["0.103.0", "0.102.1"])
async def test_totals_and_the_count_of_changes_move_as_on_the_real_servers(version):
    async with TriliumSimulator(version).serving() as sim:
        assert await _faults_of_moves(sim.url, sim.token) == []


@asynccontextmanager
async def _pictures() -> AsyncIterator[str]:
    """Serve one image, as another host does."""

    class Pictures(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if "missing" in self.path else 200)
            self.send_header("Content-Type", "image/png")
            self.end_headers()
            self.wfile.write(b"" if "missing" in self.path else _PNG)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pictures)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow("it waits for the server to fetch images")
@pytest.mark.skipif(not URL, reason="no Trilium server was named (docs/testing.md)")
async def test_a_real_server_still_answers_as_recorded():
    async with httpx.AsyncClient(headers={"authorization": TOKEN}, trust_env=False) as client:
        version = (await client.get(f"{URL}/etapi/app-info")).json()["appVersion"]
    if version not in VERSIONS:
        pytest.skip(f"nothing was recorded of {version}")
    async with _pictures() as web:
        steps = Steps(version, URL, TOKEN, web)
        await steps.take_all(lambda: asyncio.sleep(_SECONDS_OF_A_DOWNLOAD))
        # A server ends itself if a note is deleted while it fetches the note's images, as the next test may do.
        await asyncio.sleep(_SECONDS_OF_A_DOWNLOAD)
    assert not steps.faults, "\n".join(steps.faults)
    if version != "0.93.0":  # which has no statistics
        assert await _faults_of_moves(URL, TOKEN) == []
