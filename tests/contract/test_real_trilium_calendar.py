"""Test the notes of days on a running Trilium server: one note of a day, made as its app makes it, by a started server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mcp_notarium.stores.http_rules import is_loopback
from support.real_trilium import TOKEN, URL
from support.whole import Server, store_environment, until

if not URL:
    pytest.skip("no Trilium server was named (docs/testing.md)", allow_module_level=True)
pytestmark = pytest.mark.slow("starts servers of its own")
DAY = "2031-03-14"
ID = f"daily:{DAY}"


@pytest.fixture(name="app")
def _app() -> Iterator[httpx.Client]:
    if not is_loopback(httpx.URL(URL).host):
        raise RuntimeError("only a server of this machine is written to")
    base = f"{URL.rstrip('/')}/etapi"
    with httpx.Client(base_url=base, headers={"authorization": TOKEN}, timeout=60) as client:
        yield client


def _days(app: httpx.Client) -> list[str]:
    found = app.get("/notes", params={"search": f'#dateNote = "{DAY}"'}).json()["results"]
    return [one["noteId"] for one in found]


def test_a_day_is_made_once_by_two_servers_and_is_the_apps_own(
    app: httpx.Client, tmp_path: Path
) -> None:
    for note_id in _days(app):
        app.delete(f"/notes/{note_id}")
    servers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        env = store_environment(tmp_path / name, "trilium", TRILIUM_URL=URL, TRILIUM_TOKEN=TOKEN)
        servers.append(Server(env))
    with servers[0] as one, servers[1] as two:
        until(lambda: all("sync" not in each.tool("list") for each in (one, two)))
        assert one.error("get", id=ID)["category"] == "NOT_FOUND"
        assert _days(app) == []
        saved: list[str] = []
        threads = [
            threading.Thread(
                target=lambda s=s, t=t: saved.append(s.tool("save", id=ID, append=t)["id"])
            )
            for s, t in ((one, "- milk"), (two, "- bread"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [note_id] = _days(app)
        assert saved == [note_id, note_id]
        content = app.get(f"/notes/{note_id}/content").text
        # Of two writes in the same moment the server keeps the last (docs/trilium.md); the note is one all the same.
        assert "milk" in content or "bread" in content
        assert app.get(f"/calendar/days/{DAY}").json()["noteId"] == note_id
        assert one.tool("get", id=ID)["title"].startswith("14 - ")
        one.tool("save", id=ID, append="- tea")
        undone = one.tool("manage", action="undo", id=ID, confirm=True)
        assert undone["id"] == note_id
        assert app.get(f"/notes/{note_id}/content").text == content
        assert one.leave() == 0
        assert two.leave() == 0
