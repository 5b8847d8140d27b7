"""Test what a person sees at a terminal of 60, 80 and 120 columns, and what a program reads instead."""

from __future__ import annotations

import json
import os
import re
import sysconfig
from pathlib import Path

import pytest

from mcp_notarium.config import accounts
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support import short_pauses
from support.long import sample
from support.terminal import Terminal
from support.whole import Server, environment, run

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are needed"),
    pytest.mark.slow("each test runs several commands"),
]
WIDTHS = (60, 80, 120)
LONGEST = 20
"""Characters of a word that has to stand in one line."""
TABLE_ONLY = {"NAME", "VALUE", "FROM", "PURPOSE", "#"}  # the last one makes a heading
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?3[0-9]m")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BREAD = "# How\n\n500 g of flour.\n" + "Leave the dough over night and bake it. " * 6 + "\n"


@pytest.fixture(name="env", scope="module")
def _env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A notebook with three notes, of which an agent has read one; nothing runs."""
    place = tmp_path_factory.mktemp("screens")
    env = environment(Simulator(), place, NOTARIUM_STORE="local")
    with Server(env) as server:
        server.tool("save", title="Sourdough bread", text=BREAD, tags=["home"])
        server.tool("save", title="Steer \x1b[31m me", text="nothing of that\n")
        note = server.tool("save", title="日本語" * 30, text="長い\n")
        server.tool("get", id=note["id"])
        server.error("get", number=1)
        assert server.leave() == 0
    return env


def screen(env: dict[str, str], *command: str, width: int, kind: str = "xterm-256color") -> str:
    with Terminal(env, *command, width=width, kind=kind) as terminal:
        assert terminal.ends() == 0, terminal.screen
        return terminal.screen


@pytest.mark.parametrize(
    ("command", "width"),
    [
        (command, width)
        for command in (
            "status", "doctor --offline", "search bread", "show dough", "keys list", "policy show",
            "--print-config-vars", "--help", "audit verify", "history {bread}",
        )
        for width in sample(command, WIDTHS, 1)
    ],
)  # fmt: skip
def test_a_screen_is_wrapped_between_words_and_says_what_a_program_reads(
    env: dict[str, str], width: int, command: str
) -> None:
    note = json.loads(run(env, "search", "sourdough", "--json").stdout)["notes"][0]["id"]
    command = command.format(bread=note)
    shown = ESCAPES.sub("", screen(env, *command.split(), width=width)).replace("\r", "")
    too_wide = [one for one in shown.splitlines() if len(one) > width and " " in one.strip()]
    assert not too_wide
    read = words(run(env, *command.split()).stdout) - words(shown) - TABLE_ONLY
    assert {one for one in read if len(one) <= LONGEST and not one.startswith("[")} == set()


def words(text: str) -> set[str]:
    return {one.strip("()") for one in text.split()}


def tail(env: dict[str, str], width: int) -> list[str]:
    shown = screen(env | {"TZ": "Pacific/Kiritimati"}, "audit", "tail", "-n", "300", width=width)
    return ESCAPES.sub("", shown).replace("\r", "").splitlines()


def test_an_act_is_one_line_with_title_and_local_time(env: dict[str, str]) -> None:
    lines = tail(env, 120)
    saves = [one for one in lines if " tool.save " in one]
    assert len(saves) == 3
    assert all(re.match(r"\d\d:\d\d:\d\d  tool.save +ok  ", one) for one in saves)
    assert re.search("talker 1 +“Sourdough bread”", saves[0])
    reads = [one for one in lines if " tool.get " in one]
    assert {one.index("talker 1") for one in (*saves, *reads)} == {saves[0].index("talker 1")}
    assert "\\u001b[31m" in saves[1]
    assert all(len(one) <= 120 for one in lines)
    assert any("chain.begun" in one and "why: created" in one for one in lines)
    assert not any('{"' in one for one in lines)
    assert all(re.match(r"\d\d:\d\d:\d\d  |\d{4}-\d\d-\d\d$", one) for one in lines)
    there = [
        json.loads(one)
        for one in run(env, "audit", "tail", "-n", "300", "--json").stdout.splitlines()
    ]
    assert "Sourdough" not in json.dumps(there)
    utc = next(one["at"] for one in there if one["act"] == "tool.save")
    assert int(saves[0][:2]) == (int(utc[11:13]) + 14) % 24


def test_on_a_narrow_terminal_title_and_client_have_a_line_of_their_own(
    env: dict[str, str],
) -> None:
    lines = tail(env, 60)
    assert all(len(one) <= 60 for one in lines)
    (at,) = (number for number, one in enumerate(lines) if "“Sourdough bread”  " in one)
    assert re.match(r"\d\d:\d\d:\d\d  tool.save +ok$", lines[at - 1])
    assert lines[at].startswith(" " * 10 + "talker 1  “Sourdough bread”  ")
    (at,) = (number for number, one in enumerate(lines) if "failed" in one)
    assert re.match(r"\d\d:\d\d:\d\d  tool.get +failed, arguments$", lines[at])
    assert lines[at + 1].startswith(" " * 10 + "talker 1  ")


def test_colour_is_for_terminals_that_want_it(env: dict[str, str]) -> None:
    assert COLOUR.search(screen(env, "search", "bread", width=80))
    assert not COLOUR.search(screen(env | {"NO_COLOR": "1"}, "search", "bread", width=80))
    assert "\x1b" not in run(env, "search", "bread").stdout
    dumb = screen(env, "doctor", "--offline", width=60, kind="dumb")
    assert "\x1b" not in dumb
    assert max(map(len, dumb.splitlines())) <= 60


def test_a_note_is_found_shown_and_piped_as_it_is(env: dict[str, str]) -> None:
    found = json.loads(run(env, "search", "dough", "--json").stdout)
    assert [one["title"] for one in found["notes"]] == ["Sourdough bread"]
    for named in (found["notes"][0]["id"], "dough"):
        done = run(env, "show", named)
        assert (done.returncode, done.stdout) == (0, BREAD)
    assert json.loads(run(env, "show", "dough", "--json").stdout)["text"] == BREAD
    nothing = run(env, "search", "nowhere", "--json")
    assert (nothing.returncode, json.loads(nothing.stdout)["total"]) == (0, 0)
    several = run(env, "show", "of")
    assert several.returncode == 1
    assert "2 notes have these words" in several.stderr
    assert f"  Sourdough bread  {found['notes'][0]['id']}\n" in several.stderr
    assert "\x1b[31m" not in screen(env, "show", "steer", width=80)


def test_a_client_that_is_connected_is_named(env: dict[str, str]) -> None:
    with Server(env) as server:
        server.tool("list")
        pids = [re.search(r"process (\d+)", one) for one in status(env)["clients"]]
        assert [int(one[1]) for one in pids if one] == [server.process.pid]
        assert server.leave() == 0
    assert status(env)["clients"] == []
    assert status(env)["login"] == "not needed"


def status(env: dict[str, str]) -> dict[str, list[str]]:
    return json.loads(run(env, "status", "--json").stdout)


def test_notes_arrive_by_sync_and_the_login_is_told(tmp_path: Path) -> None:
    simulator = Simulator()
    simulator.put("one", content="The first note")
    with simulator.running():
        env = environment(simulator, tmp_path, SIMPLENOTE_PASSWORD=None)
        assert run(env, "sync").returncode == 1
        assert status(env)["login"].startswith("no; ")
        env = environment(simulator, tmp_path, **short_pauses.MARKED)
        assert status(env)["login"].startswith("refused at the last sync")
        assert "In step: 1 note, 0 in the trash." in run(env, "sync").stdout
        assert status(env)["login"] == "logged in"
        simulator.put("two", content="The second note")
        assert run(env, "search", "second").returncode == 0
        assert "Loading the notes" in screen(env, "sync", width=80)
    offline = run(env, "search", "second")
    assert offline.returncode == 0
    assert "was not asked" in offline.stderr
    assert run(env, "sync").returncode == 1


def test_the_first_load_tells_of_how_many_though_the_service_does_not(tmp_path: Path) -> None:
    simulator = Simulator()
    simulator.load([note | {"deleted": False} for note in prose(300, seed=2)])
    simulator.faults.delay(1, method="GET", path="*/note/index", query={"mark": "?*", "data": "1"})
    with simulator.running():
        assert "100 of 300, " in screen(environment(simulator, tmp_path), "sync", width=80)


@pytest.mark.parametrize(
    ("typed", "completed"),
    sample(
        "completions",
        [
            ("sear", "search "),
            ("status --js", "--json "),
            ("audit ta", "tail "),
            ("status --account ho", "home "),
            ("accounts default ho", "home "),
            ("show --account home no", ""),  # a note is no file
            ("export --account home no", "note.txt "),
        ],
        3,
    ),
)
def test_bash_completes_at_tab(
    env: dict[str, str], tmp_path: Path, typed: str, completed: str
) -> None:
    path = f"{sysconfig.get_path('scripts')}:{env['PATH']}"
    shell = ["/bin/bash", "--norc", "--noprofile", "-i"]
    folder = tmp_path / "mcp-notarium"
    folder.mkdir()
    accounts.remember(folder, accounts.Account("home", "passphrase", {"NOTARIUM_STORE": "local"}))
    (tmp_path / "note.txt").touch()
    env = env | {"PATH": path, "PS1": "READY>", "XDG_CONFIG_HOME": str(tmp_path)}
    with Terminal(env, program=shell) as terminal:
        terminal.shows("READY>")
        terminal.type(f"cd {tmp_path}\n")
        terminal.type('eval "$(mcp-notarium completion bash)"; echo do""ne\n')
        terminal.shows("done")
        terminal.type(f"mcp-notarium {typed}\t")
        terminal.shows(
            f"mcp-notarium {typed.rpartition(' ')[0]}{' ' if ' ' in typed else ''}{completed}"
        )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_own_code(env: dict[str, str], shell: str) -> None:
    done = run(env, "completion", shell)
    assert done.returncode == 0
    assert {"bash": "complete -o", "zsh": "compdef", "fish": "complete --command"}[
        shell
    ] in done.stdout
