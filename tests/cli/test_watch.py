"""Test the screen of ``watch`` in a real terminal, beside a real server, and its lines for scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.cli.watch_screen import READ_SECONDS
from mcp_notarium.errors import Verdict
from support.long import sample
from support.talker import SERVE
from support.tmux import Tmux
from support.whole import Server, run, store_environment

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="tmux is needed"),
    pytest.mark.slow("each test runs servers and a screen"),
]
EVIL = "[bold]Evil[/] \x1b[31m\x1b]0;owned\x07 title"
SHOWN_EVIL = "[bold]Evil[/]"


@pytest.fixture(name="env")
def _env(tmp_path: Path) -> dict[str, str]:
    return store_environment(tmp_path, "local")


@contextmanager
def watching(
    env: dict[str, str],
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], dict[str, object]]]]:
    """Run ``watch --json``; give its process, and what reads its next line."""
    process = subprocess.Popen(
        [*SERVE, "watch", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        lines = process.stdout
        try:
            yield process, lambda: json.loads(lines.readline())
            process.terminate()  # as a script does; Ctrl+C may be ignored where tests run in the background
            _, errors = process.communicate(timeout=30)
            assert process.returncode == 128 + signal.SIGTERM, errors
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("width", "colour"), sample("screens", [(60, True), (80, False), (120, True)], 1)
)
def test_acts_come_as_they_are_made_and_an_undo_takes_one_back(
    env: dict[str, str], width: int, colour: bool
) -> None:
    env |= {} if colour else {"NO_COLOR": "1"}
    with Server(env) as server:
        bread = server.tool("save", title="Sourdough bread", text="flour\nwater\n")
        evil = server.tool("save", title=EVIL, text="# Plan\n\n[[click](https://evil.example)]\n")
        with Tmux(env, "watch", width=width) as window:
            window.shows("today: 2 changed", "Sourdough bread  new", "q Quit")
            server.tool("save", id=bread["id"], append="salt", local_version=1)
            screen = window.shows("today: 3 changed", "Sourdough bread  +1 line", "talker")
            assert SHOWN_EVIL in screen
            assert all(len(line) <= width for line in screen.splitlines())
            assert bool(re.search("\x1b\\[[0-9;]*3[0-7]m", window.coloured)) == colour
            window.type("Home", "s")
            window.shows("Sourdough bread", "flour water salt", "esc Back")
            window.type("q")
            window.shows("q Quit")
            window.type("u")
            window.shows("Take back the last change", "y Yes")
            window.type("n")
            window.shows("q Quit")
            assert "salt" in server.tool("get", id=bread["id"])["text"]
            window.type("u")
            window.shows("Take back the last change")
            time.sleep(READ_SECONDS)
            window.type("y")
            window.shows("undone.", "take back a change")
            assert "salt" not in server.tool("get", id=bread["id"])["text"]
            window.type("/")
            window.shows("words of a client")
            window.type("e", "v", "i", "l")
            found = window.shows("“evil”", SHOWN_EVIL)
            assert "Sourdough" not in found.split("─")[0]
            window.type("Escape")
            window.shows("Sourdough bread")
            server.tool("get", id=evil["id"])
            window.shows("3 read")
            window.type("q")
            window.shows("exit code 0")
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 0


def test_what_waits_is_shown_with_what_would_go_and_one_key_decides(env: dict[str, str]) -> None:
    with Server(env) as server:
        kept, gone = (
            server.tool("save", title=title, text="flour\nwater\n")
            for title in ("Kept bread", EVIL)
        )
        kept, gone = (
            server.tool("manage", action="trash", **{k: one[k] for k in ("id", "local_version")})
            for one in (kept, gone)
        )

        def delete(note: dict[str, object]) -> dict[str, object]:
            asked = {"action": "delete_permanently", "confirm": True, "id": note["id"]}
            return asked | {"local_version": note["new_local_version"]}

        with Tmux(env, "watch", width=80, height=40) as window:
            window.shows("today: 4 changed")
            assert "approve" in str(server.error("manage", **delete(kept)))
            window.shows("1 question for you", "WAITS FOR YOU", "Kept bread", "-flour", "no")
            window.type("n")
            window.shows("Denied.", "deny what waited")
            server.error("manage", **delete(kept))
            server.error("manage", **delete(gone))
            window.shows("WAITS FOR YOU", SHOWN_EVIL, "-water")
            window.type("y")
            window.shows("just come")
            time.sleep(1)
            window.type("y")
            window.shows("Approved", "agree to what waited")
            assert server.tool("manage", **delete(gone))["status"] == "deleted"
            window.type("q")
            window.shows("exit code 0")
        assert server.error("get", id=gone["id"])
        assert server.tool("get", id=kept["id"])["trash"]
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 0


def test_the_editor_opens_the_note_and_the_screen_comes_back(
    env: dict[str, str], tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho pepper >> "$1"\n')
    editor.chmod(0o700)
    with Server(env) as server:
        note = server.tool("save", title="Soup", text="water\n")
        with Tmux(env | {"EDITOR": str(editor)}, "watch", width=80) as window:
            window.shows("Soup  new")
            window.type("o")
            window.shows("Saved: +1 line", "Enter: back")
            window.type("Enter")
            window.shows("edit a note", "Soup  +1 line")
            window.type("q")
            window.shows("exit code 0")
        assert server.tool("get", id=note["id"])["text"] == "water\npepper\n"
        assert server.leave() == 0


def _act_number(line: dict[str, Any]) -> int:
    number: int = line.get("number", 0)
    return number


def test_a_script_reads_each_act_as_a_line(env: dict[str, str]) -> None:
    with Server(env) as server:
        note = server.tool("save", title=EVIL, text="one\ntwo\n")
        server.tool("save", id=note["id"], text="one\n", local_version=1)
        server.error("manage", action="trash", id="absent", local_version=1)
        asked = {"action": "delete_permanently", "id": note["id"], "local_version": 2}
        server.tool("manage", **asked | {"action": "trash"})
        server.error("manage", **asked | {"local_version": 3})
        with watching(env) as (_, read):
            saved, changed, late = read(), read(), read()
            # The question is stored at once, the end of the call that asked a moment later.
            waits, _trashed, refused = sorted((read() for _ in range(3)), key=_act_number)
            listed = json.loads(run(env, "approve", "--list", "--json").stdout)["waiting"]
            assert run(env, "approve", "--deny", str(waits["id"])).returncode == 0
            denied = read()
        assert server.leave() == 0
    asked = [refused["approval"], denied["approval"], waits["id"]]
    assert (denied["act"], denied["result"], asked) == ("cli.deny", "changed", [waits["id"]] * 3)
    assert denied["changed"] == saved["approval"] == ""
    times = [*(one["at"] for one in (saved, late, refused)), waits["asked_at"], waits["expires_at"]]
    assert listed == [{key: waits[key] for key in waits if key != "type"}]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}\+00:00", one) for one in times)
    assert (saved["profile"], waits["profile"], waits["type"]) == (None, None, "waiting")
    assert (saved["act"], saved["changed"], saved["result"]) == ("save", "new", "changed")
    assert (changed["changed"], changed["notes"]) == ("-1 line", [note["id"]])
    assert (late["result"], late["outcome"]) == ("failed", "not_found")
    assert "\x1b" not in str(saved)


def test_it_goes_on_under_a_new_key_and_keeps_the_database_from_being_replaced(
    env: dict[str, str], tmp_path: Path
) -> None:
    new = run(env, "generate-key").stdout.strip()
    (tmp_path / "new.key").write_text(new)
    (tmp_path / "new.key").chmod(0o600)
    with Server(env) as server:
        server.tool("save", text="one\n")
        with watching(env) as (process, read):
            assert read()["act"] == "save"
            assert f"process {process.pid}" in run(env, "repair").stderr
            changed = run(env, "rotate-key", "--new-key-file", str(tmp_path / "new.key"))
            assert changed.returncode == 0, changed.stderr
            emptied = run(env | {"DB_ENCRYPTION_KEY": new}, "reset-cache", "--yes")
            assert emptied.returncode == 0, emptied.stderr
            server.tool("save", text="two\n")
            assert read()["act"] == "cli.reset-cache"
            saved = read()
            assert (saved["act"], saved["about"], saved["changed"]) == ("save", "two", "new")
        assert server.leave() == 0


OTHER_ENDS = [("screen", "replaced"), ("json", "removed"), ("json", "replaced")]


@pytest.mark.parametrize(
    ("shown", "way"), [("screen", "removed"), *sample("ends of a database", OTHER_ENDS, 1)]
)
def test_it_ends_if_its_database_is_removed_or_replaced(
    env: dict[str, str], tmp_path: Path, shown: str, way: str
) -> None:
    with Server(env) as server:
        server.tool("save", text="one\n")
        assert server.leave() == 0
    (folder,) = (tmp_path / "data").iterdir()
    said = {
        "removed": (Verdict.DATABASE_MISSING, "The database was removed while it was open"),
        "replaced": (Verdict.ROLLBACK_SEEN, "another file or older pages had replaced"),
    }[way]

    def happen() -> None:
        if way == "removed":
            folder.rename(tmp_path / "elsewhere")
        else:
            (database,) = folder.glob("*.sqlite.encrypted")
            shutil.copy(database, tmp_path / "older")
            (tmp_path / "older").replace(database)

    if shown == "screen":
        with Tmux(env, "watch", width=80) as window:
            window.shows("today: 1 changed")
            happen()
            left = " ".join(window.shows(f"exit code {said[0].value}").split())
            assert said[1] in left
            assert "mcp-notarium restore" in left
    else:
        with subprocess.Popen(
            [*SERVE, "watch", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            happen()
            _, errors = process.communicate(timeout=30)
            assert process.returncode == said[0].value
            assert said[1] in errors.decode()


def test_an_error_without_words_ends_the_screen_and_shows_no_text_of_a_note(
    env: dict[str, str], tmp_path: Path
) -> None:
    """The program itself, broken in one place: a division that nobody has planned, beside the text of a note."""
    program = tmp_path / "broken.py"
    program.write_text(
        "import sys\n"
        "from mcp_notarium.__main__ import main\n"
        "from mcp_notarium.cli import watch\n"
        "def read(self, note_id):\n"
        "    text = self._app.library.get(note_id).text\n"
        "    return len(text) / 0\n"
        "watch.WatchSource.read = read\n"
        "sys.exit(main())\n"
    )
    with Server(env) as server:
        server.tool("save", title="Soup", text="a secret word\n")
        assert server.leave() == 0
    with Tmux(env, "watch", width=80, program=[SERVE[0], str(program)]) as window:
        window.shows("Soup  new")
        window.type("s")
        left = window.shows("exit code 1", "the screen ended with an error", "approve")
        assert "secret" not in left
        assert "Traceback" not in left


def test_without_a_terminal_it_says_what_to_do(env: dict[str, str]) -> None:
    with Server(env) as server:
        assert server.leave() == 0
    done = run(env, "watch")
    assert done.returncode == 1
    assert "watch --json" in done.stderr
