"""Run a floor: the smallest server of the MCP SDK that saves notes as ours does, and nothing else.

Arguments: the address of a bucket, its token, and the path of a new database; an empty path keeps nothing.
With a database, each save is two flushed transactions under a key: what is about to be sent, and what the
store has confirmed, with its full text. No check, no policy, no audit log, no merge.
"""

from __future__ import annotations

import sys
import uuid
from typing import Any

import anyio
import httpx
import mcp_types as types
import sqlcipher3.dbapi2 as driver
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from bench.floor_sdk import list_tools
from bench.raw import KEY

_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE journal(id TEXT PRIMARY KEY, text TEXT);
CREATE TABLE notes(pk INTEGER PRIMARY KEY, id TEXT UNIQUE, text TEXT);
CREATE VIRTUAL TABLE notes_fts USING fts5(text, content='', contentless_delete=1);
"""


class Database:
    """The two transactions of a save."""

    def __init__(self, path: str) -> None:
        self._db = driver.connect(path, isolation_level=None)
        self._db.set_key(KEY)
        self._db.executescript(_TABLES)

    def begin(self, note_id: str, text: str) -> None:
        """Keep what is about to be sent."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT INTO journal VALUES (?, ?)", (note_id, text))
        self._db.execute("COMMIT")

    def finish(self, note_id: str, text: str) -> None:
        """Keep what the store has confirmed."""
        self._db.execute("BEGIN IMMEDIATE")
        stored = (note_id, text)
        found = self._db.execute(
            "INSERT INTO notes(id, text) VALUES (?, ?) "
            "ON CONFLICT (id) DO UPDATE SET text = excluded.text RETURNING pk",
            stored,
        )
        ((pk,),) = found.fetchall()
        self._db.execute("INSERT OR REPLACE INTO notes_fts(rowid, text) VALUES (?, ?)", (pk, text))
        self._db.execute("DELETE FROM journal WHERE id = ?", (note_id,))
        self._db.execute("COMMIT")


class Saving:
    """The one tool."""

    def __init__(self, bucket: str, client: httpx.AsyncClient, database: Database | None) -> None:
        self._bucket = bucket
        self._client = client
        self._database = database

    async def call_tool(
        self, _context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Save a new note, or a new text of one over the revision that is read first."""
        asked = params.arguments or {}
        note_id, text = asked.get("id") or uuid.uuid4().hex, asked["text"]
        url = f"{self._bucket}/{note_id}"
        if self._database:
            self._database.begin(note_id, text)
        if "id" in asked:
            (await self._client.get(url)).raise_for_status()
        answer = await self._client.post(url, params={"response": 1}, json={"content": text})
        answer.raise_for_status()
        if self._database:
            self._database.finish(note_id, text)
        saved = {"id": note_id, "local_version": 1}
        return types.CallToolResult(content=[], structured_content=saved)


async def main() -> None:
    """Serve standard input to its end."""
    bucket, token, path = sys.argv[1:]
    headers = {"X-Simperium-Token": token}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as client:
        saving = Saving(bucket, client, Database(path) if path else None)
        server = Server("floor", on_list_tools=list_tools, on_call_tool=saving.call_tool)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
