"""Test that a person writes and edits notes with a real editor process, and that nothing typed is ever lost."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from mcp_notarium.cli.draft_files import editor_command
from notarium_devtools.simperium import Simulator
from support.terminal import CTRL_C, Terminal
from support.whole import DEADLINE, RAW_KEY, Server, environment, run, start

pytestmark = [
    pytest.mark.skipif(
        os.name != "posix", reason="editors are shell scripts, and terminals pseudo"
    ),
    pytest.mark.slow("each test starts several processes"),
]
TEXT = "one\ntwo\nthree\nfour\nfive\n"


@pytest.fixture(name="env")
def _env(tmp_path: Path) -> dict[str, str]:
    return environment(Simulator(), tmp_path, NOTARIUM_STORE="local")  # which does not run


def with_editor(env: dict[str, str], script: str) -> dict[str, str]:
    """The environment with an editor that runs this; ``$1`` is the file."""
    path = Path(env["HOME"]) / "editor with a space"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return env | {"EDITOR": f"'{path}' ", "VISUAL": ""}


def waiting(env: dict[str, str], change: str) -> dict[str, str]:
    """An editor that says where its file is, and changes it once ``go`` is there."""
    home = env["HOME"]
    wait = f"until test -e {home}/go; do sleep 0.02; done"
    return with_editor(
        env,
        f'echo "$1" > {home}/at.tmp; mv {home}/at.tmp {home}/at; {wait}; {change}; touch {home}/done',
    )


def appears(env: dict[str, str], name: str) -> Path:
    path, deadline = Path(env["HOME"]) / name, time.monotonic() + DEADLINE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path


def go(env: dict[str, str]) -> None:
    (Path(env["HOME"]) / "go").touch()


def output(env: dict[str, str], *arguments: str, stdin: str = "") -> str:
    done = run(env, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def text_of(env: dict[str, str], note: str) -> str:
    return json.loads(output(env, "show", note, "--json"))["text"]


def drafts(env: dict[str, str]) -> list[Path]:
    """Every file below the data folder that is a draft or beside one."""
    return [path for path in Path(env["NOTARIUM_DATA_DIR"]).rglob("drafts/*") if path.is_file()]


def made(env: dict[str, str], text: str = TEXT) -> str:
    return output(env, "new", "My", "list", "--tag", "home", stdin=text).strip()


def test_a_note_is_made_from_a_pipe_and_changed_in_an_editor_that_sees_a_private_file(
    env: dict[str, str],
) -> None:
    note = made(env)
    look = 'stat -c "%a %n" "$1" "$(dirname "$1")" > ~/seen; env > ~/env; echo x > "$1~"; sed -i s/two/TWO/ "$1"'
    env = with_editor(env, look)
    said = run(env, "edit", "my", "list", "--json")
    assert json.loads(said.stdout) == {"id": note, "changed": "+1 -1 lines", "conflict_copy": None}
    shown = json.loads(output(env, "show", note, "--json"))
    assert shown["text"] == TEXT.replace("two", "TWO")
    assert (shown["title"], shown["tags"]) == ("My list", ["home"])
    file, folder = (Path(env["HOME"]) / "seen").read_text().splitlines()
    assert file.startswith("600 ")
    assert file.endswith(".my-list.md")
    assert folder.startswith("700 ")
    assert RAW_KEY not in (Path(env["HOME"]) / "env").read_text()
    assert drafts(env) == []
    # An editor that only ends the last line changes nothing.
    bare = output(env, "new", "Bare", stdin="no end").strip()
    same = run(with_editor(env, 'echo >> "$1"'), "edit", bare)
    assert "nothing was saved" in same.stderr
    assert len(json.loads(output(env, "history", bare, "--json"))["history"]) == 1
    acts = output(env, "audit", "tail")
    assert "cli.new " in acts
    assert "cli.edit " in acts


@pytest.mark.parametrize(
    ("change", "text", "copies"),
    [
        ('sed -i s/one/ONE/ "$1"', "ONE\ntwo\nthree\nfour\n5\n", None),
        ('sed -i s/five/FIVE/ "$1"', "one\ntwo\nthree\nfour\n5\n", TEXT.replace("five", "FIVE")),
    ],
)  # fmt: skip
def test_what_came_meanwhile_is_merged_and_a_conflict_keeps_both(
    env: dict[str, str], change: str, text: str, copies: str | None
) -> None:
    note = made(env)
    editing = start(waiting(env, change), "edit", note, "--json")
    with editing.stdin, editing.stdout, editing.stderr, Server(env) as server:
        appears(env, "at")
        server.tool("save", id=note, find="five", replace="5")
        go(env)
        assert editing.wait(DEADLINE) == 0
        assert server.leave() == 0
        found = json.loads(editing.stdout.read())
    assert text_of(env, note) == text
    if copies is None:
        assert found["conflict_copy"] is None
    else:
        copy = json.loads(output(env, "show", found["conflict_copy"], "--json"))
        assert (copy["text"], copy["title"]) == (copies, "(conflict copy) My list")
    assert drafts(env) == []


def test_a_kill_of_the_command_loses_nothing_and_the_editor_keeps_its_note(
    env: dict[str, str],
) -> None:
    note = made(env)
    edits = waiting(env, 'sed -i s/two/TWO/ "$1"')
    editing = start(edits, "edit", note)
    with editing.stdin, editing.stdout, editing.stderr:
        file = Path(appears(env, "at").read_text().strip())
        editing.kill()
        editing.wait(DEADLINE)
    second = run(edits, "edit", note)  # its editor still runs
    assert second.returncode == 1
    assert "is being edited in another window" in second.stderr
    go(env)
    appears(env, "done")
    assert "TWO" in file.read_text()
    deadline = time.monotonic() + DEADLINE
    while (done := run(with_editor(env, "true"), "edit", note)).returncode:
        assert "another window" in done.stderr  # it is ending
        assert time.monotonic() < deadline
    assert "A text that is not saved yet is kept in ~/cache/" in done.stderr
    assert text_of(env, note) == TEXT.replace("two", "TWO")
    assert drafts(env) == []


def test_a_text_that_is_not_taken_is_kept_and_offered_until_it_is(env: dict[str, str]) -> None:
    note = made(env)
    died = run(with_editor(env, 'sed -i s/two/2/ "$1"; kill -9 $$'), "edit", note)
    assert died.returncode == 1
    assert "the editor ended by signal 9; nothing was saved" in died.stderr
    (file,) = (path for path in drafts(env) if path.suffix == ".md")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"~/{file.relative_to(env['HOME'])}" in died.stderr.replace("\n", " ")
    assert text_of(env, note) == TEXT
    (told,) = json.loads(output(env, "status", "--json"))["notices"]
    assert f"`mcp-notarium edit {note}` goes on with it" in told
    # More than any store takes: refused, and kept with what was typed before.
    large = with_editor(env, 'head -c 1100000 /dev/zero | tr "\\0" x >> "$1"')
    refused = run(large, "edit", note)
    assert refused.returncode == 1
    assert "a note can hold" in refused.stderr
    assert f"`mcp-notarium edit {note}` goes on with it" in refused.stderr
    assert file.stat().st_size > 1_100_000
    taken = run(with_editor(env, 'sed -i /xxx/d "$1"'), "edit", note)
    assert taken.returncode == 0, taken.stderr
    assert text_of(env, note) == TEXT.replace("two", "2")
    assert drafts(env) == []
    # A new note is kept in the same way; `--fresh` throws it away.
    many = run(env, "new", stdin="x" * 1_100_000)
    assert many.returncode == 1
    assert "`mcp-notarium new` goes on with it" in many.stderr
    assert [path.suffix for path in drafts(env)].count(".md") == 1
    assert len(json.loads(output(env, "status", "--json"))["notices"]) == 1
    locked = run(env | {"DB_ENCRYPTION_KEY": "a passphrase of nobody"}, "status", "--json")
    assert "`mcp-notarium new` goes on with it" in json.loads(locked.stdout)["notices"][0]
    broken = run(env | {"NOTARIUM_VERSION_DAYS": "many"}, "status")
    assert (broken.returncode, "`mcp-notarium new` goes on with it" in broken.stderr) == (1, True)
    unsaved = run(with_editor(env, 'echo x >> "$1"; exit 3'), "edit", note)
    assert "with exit code 3" in unsaved.stderr
    assert "nothing was saved" in run(with_editor(env, "true"), "edit", note, "--fresh").stderr
    assert text_of(env, note) == TEXT.replace("two", "2")
    assert len(drafts(env)) == 2  # that of the new note
    assert run(env, "purge", "--yes").returncode == 0
    assert drafts(env) == []


def test_what_is_typed_after_another_draft_was_thrown_away_is_kept_as_well(
    env: dict[str, str],
) -> None:
    """An editor is killed before and after anything is typed; each text is offered until it is thrown away."""
    note = made(env)
    for before in ("true", 'sed -i s/two/2/ "$1"'):
        run(with_editor(env, f"{before}; kill -9 $$"), "edit", note, "--fresh")
        died = run(with_editor(env, 'sed -i s/three/3/ "$1"; kill -9 $$'), "edit", note, "--fresh")
        assert "cannot be written" not in died.stderr
        assert len(drafts(env)) == 2  # the text, and what it was made from
        done = run(with_editor(env, "true"), "edit", note)
        assert done.returncode == 0, done.stderr
        assert "3" in text_of(env, note)
        assert drafts(env) == []
        run(with_editor(env, 'sed -i s/3/three/ "$1"'), "edit", note)


def test_a_store_that_is_away_gets_the_text_when_it_is_back(tmp_path: Path) -> None:
    simulator = Simulator()
    simulator.put("plan", content="Plan\nsteps\n")
    with simulator.running():
        env = environment(simulator, tmp_path)
        editing = start(waiting(env, 'echo more >> "$1"'), "edit", "plan")
        with editing.stdin, editing.stdout, editing.stderr:
            appears(env, "at")
            simulator.stop_listening()
            go(env)
            assert editing.wait(DEADLINE) == 1
            said = " ".join(editing.stderr.read().decode().split())
        assert "`mcp-notarium edit plan` goes on with it" in said
        assert simulator.note("plan")["content"] == "Plan\nsteps\n"
        simulator.put("plan", content="Plan\nfirst\nsteps\n")
        simulator.resume()
        taken = run(with_editor(env, "true"), "edit", "plan")
    assert "What has changed meanwhile is in it, too." in taken.stdout, taken.stderr
    assert simulator.note("plan")["content"] == "Plan\nfirst\nsteps\nmore\n"
    assert drafts(env) == []


def test_at_a_terminal_ctrl_c_is_the_editors_and_a_kept_text_is_asked_about(
    env: dict[str, str],
) -> None:
    note = made(env)
    typed = with_editor(env, 'sed -i s/two/TWO/ "$1"; echo READY; exec sleep 60')
    with Terminal(typed, "edit", note) as terminal:
        terminal.shows("READY")
        terminal.type(CTRL_C)
        assert terminal.ends() == 1
        assert "the editor ended by signal 2; nothing was saved" in terminal.screen
        assert f"`mcp-notarium edit {note}` goes on with it" in terminal.screen
    waits = with_editor(env, "echo READY; exec sleep 60")
    with Terminal(waits, "edit", note, "--yes") as terminal:
        terminal.shows("READY")
        terminal.process.terminate()
        assert terminal.ends() == 143
        assert "Interrupted. The text is kept in" in terminal.screen
    with Terminal(with_editor(env, "true"), "edit", note) as terminal:
        terminal.shows("What shall become of it?")
        time.sleep(0.2)
        terminal.type("\n")
        terminal.shows("The editor has ended at once.")  # as one does whose window goes on
        terminal.shows("Press Enter when that is done:")
        terminal.type("\n")
        assert terminal.ends() == 0, terminal.screen
    assert text_of(env, note) == TEXT.replace("two", "TWO")
    assert drafts(env) == []


def test_what_cannot_be_done_is_said_before_an_editor_starts(env: dict[str, str]) -> None:
    note = made(env)
    started = with_editor(env, "touch ~/started")
    for settings, words, said in (
        ({"NOTARIUM_READ_ONLY": "1"}, ("edit", note), "can only be read"),
        ({"EDITOR": "no-such-editor"}, ("edit", note), "there is no editor `no-such-editor`"),
        ({"EDITOR": "'open"}, ("edit", note), "EDITOR is no command"),
        ({}, ("edit", "nobody"), "no note has this id"),
        ({}, ("new", "--folder", "Work"), "lie in no folders"),
        ({}, ("new",), "no text on standard input"),
    ):
        stdin = "text" if "--folder" in words else ""
        done = run(started | settings, *words, stdin=stdin)
        assert done.returncode in {1, 2}, (words, done.stderr)
        assert said in done.stderr
        assert "→ " in done.stderr
    assert not (Path(env["HOME"]) / "started").exists()
    assert drafts(env) == []


def test_a_new_note_of_a_vault_lies_in_its_folder(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    env = environment(Simulator(), tmp_path, NOTARIUM_STORE="vault", VAULT_PATH=str(vault))
    assert output(env, "new", "Plan", "--folder", "Work", stdin="steps\n") == "Work/Plan.md\n"
    assert (vault / "Work/Plan.md").read_text() == "steps\n"
    editor = with_editor(env, 'echo more >> "$1"')
    output(editor, "edit", "Plan")
    assert (vault / "Work/Plan.md").read_text() == "steps\nmore\n"
    (vault / "Work/Plan.md").chmod(0o444)
    refused = run(editor, "edit", "Plan")
    assert refused.returncode == 1
    assert "Permit this program to write the file and its folder or change" in refused.stderr
    assert "the user" not in refused.stderr


def test_an_editor_is_started_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows looks for programs that end with `.exe` alone; many editors are scripts there."""
    (tmp_path / "code").touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VISUAL", "code --wait")
    assert editor_command() == [str(tmp_path / "code"), "--wait"]
