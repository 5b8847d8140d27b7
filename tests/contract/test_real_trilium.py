"""Run the contract, edits in parallel and the native tools on a running Trilium server, if one is named."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from contract import test_trilium_contract
from contract.store_contract import Bench
from mcp_notarium.errors import NotariumError
from mcp_notarium.tools.toolsets import find_toolset
from support.real_trilium import URL, Person, Span, TimedSession, open_store, real_bench
from support.sync_rig import Client
from support.tool_client import connected
from support.tool_harness import ToolHarness

if not URL:
    pytest.skip("no Trilium server was named (docs/testing.md)", allow_module_level=True)
pytestmark = pytest.mark.anyio
ROUNDS = 20
NOTE = "Parallel1234"


class TestRealTrilium(test_trilium_contract.TestTrilium):
    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        async with real_bench() as bench:
            yield bench

    async def test_older_revisions_are_listed_newest_first_and_can_be_read(self, bench):
        if not (await bench.person.http.get("/notes/root/revisions")).is_success:
            pytest.skip("this version keeps revisions, and has no way to list them")
        await super().test_older_revisions_are_listed_newest_first_and_can_be_read(bench)


async def test_edits_in_parallel_are_merged_or_kept_as_a_copy(tmp_path):
    """A person and a client add lines to one note at the same time, without waiting for each other."""
    async with real_bench() as bench:
        session = TimedSession()
        async with _client(tmp_path, session) as client:
            await bench.person.write(NOTE, "Parallel", "<p>start</p>")
            await client.sync()
            await _save(client, "first")  # from then on it is known what the server can list
            ours, theirs = [], []

            async def save() -> None:
                for number in range(ROUNDS):
                    try:
                        await _save(client, line := f"ours {number}")
                        ours.append(line)
                    except NotariumError:
                        await client.run_cycles(1)

            async def edit() -> None:
                for number in range(ROUNDS):
                    line = f"theirs {number}"
                    content = await bench.person.read(NOTE)
                    begin = time.monotonic()
                    await bench.person.write(NOTE, "Parallel", f"{content}<p>{line}</p>")
                    theirs.append((line, Span(begin, time.monotonic())))
                    await asyncio.sleep(0.02)

            await asyncio.gather(save(), edit())
            await client.run_cycles(3)
            texts = "\n".join(content.text for content in client.contents().values())
            # The person overwrites blindly: lines of ours that they had not read are repaired, copied, or in the history.
            versions = client.cache.versions
            numbers = [one.local_version for one in versions.of(NOTE)]
            history = [kept[1].text for one in numbers if (kept := versions.get(NOTE, one)) and kept[1]]  # fmt: skip
            assert _missing(ours, [texts, *history]) == []
            revisions = await _revisions(bench.person)
            windows = session.windows(NOTE, lists_revisions=revisions is not None)
            assert len(windows) > len(ours) > ROUNDS // 2
            lost = _missing([line for line, _ in theirs], [texts, *(revisions or ())])
            unexplained = [
                line for line, span in theirs if line in lost and not any(map(span.meets, windows))
            ]
            assert unexplained == [], (
                "lost at another time than between the last look and the write"
            )
            assert client.cache.journal.all() == []


@pytest.mark.slow("the server looks for the note again after five seconds")
async def test_deleting_a_note_right_after_an_image_was_saved_leaves_the_server_running():
    async with real_bench() as bench:
        store = open_store()
        await bench.person.write(NOTE, "Image", "")
        await bench.person.write(NOTE, "Image", '<p><img src="data:image/png;base64,aGk="></p>')
        base = await store.get(NOTE)
        await store.delete(NOTE, etag=base.etag, write_id="0d")
        await asyncio.sleep(6)
        assert (await bench.person.http.get("/app-info")).is_success
        assert NOTE not in (await bench.person.ask("GET", "/notes/root")).json()["childNoteIds"]
        await store.close()


@asynccontextmanager
async def _client(folder: Path, session: TimedSession) -> AsyncIterator[Client]:
    store = open_store(session)
    client = Client(folder, None, remote=store)
    try:
        yield client
    finally:
        await store.close()
        client.close()


async def _save(client: Client, line: str) -> None:
    note = client.note(NOTE)
    content = replace(note.content, text=f"{line}\n\n{note.text}")
    await client.writer.save(note=note, content=content)


def _missing(lines: Iterable[str], texts: list[str]) -> list[str]:
    """Return the lines that stand in none of the texts: whole ones, for "ours 1" is the beginning of "ours 10"."""
    known = {*re.findall(r"(?:ours|theirs) \d+", "\n".join(texts))}
    return [line for line in lines if line not in known]


async def _revisions(person: Person) -> list[str] | None:
    """Return what a person has overwritten again; None from a server that does not list it."""
    listed = await person.http.get(f"/notes/{NOTE}/revisions")
    if not listed.is_success:
        return None
    names = [one["revisionId"] for one in listed.json()]
    return [(await person.ask("GET", f"/revisions/{one}/content")).text for one in names]


async def test_the_native_tools_work(tmp_path):
    async with real_bench() as bench:
        await bench.person.write("Parent123456", "Parent", "<p>zebra</p>")
        store = open_store()
        harness = ToolHarness(tmp_path, remote=store)
        async with connected(harness.opened, toolset=find_toolset("trilium")) as client:

            async def says(tool: str, **arguments: str) -> str:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error
                return result.content[0].text

            hits = json.loads(await says("search_notes", query="zebra"))
            assert [hit["noteId"] for hit in hits] == ["Parent123456"]
            made = json.loads(
                await says("create_note", parentNoteId="Parent123456", title="New", content="- a")
            )
            children = json.loads(await says("get_note_children", noteId="Parent123456"))
            assert [(row["noteId"], row["title"]) for row in children] == [(made["noteId"], "New")]
            assert await says("get_note_content", noteId=made["noteId"]) == "<ul><li>a</li></ul>"
            html = '<p style="color:red">b</p>'
            await says("update_note_content", noteId=made["noteId"], content=html)
            assert await bench.person.read(made["noteId"]) == html
            found = json.loads(await says("get_note_metadata", noteId=made["noteId"]))
            assert found["parentNoteIds"] == ["Parent123456"]
        await store.close()
        harness.close()
