"""Test that messages begin with what happened to the person, and name only settings of that person's store."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcp_notarium
from mcp_notarium.config.common_variables import COMMON
from mcp_notarium.config_variable import Kind
from mcp_notarium.stores import registry
from support.whole import Server, run

PACKAGE = Path(mcp_notarium.__file__).parent
COMMANDS = (
    "status", "doctor --offline", "show x", "search x", "list", "login", "keys list", "audit tail", "policy show", "purge",
    "restore --yes", "repair", "rotate-key", "undo x", "reset-cache",
)  # fmt: skip


def bare(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of somebody who has set only this."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "NOTARIUM_KEYCHAIN": "off"} | settings


def own_settings() -> dict[str, set[str]]:
    """The settings of each store that no other store has, by the name of its kind."""
    named = {kind.name: {one.name for one in kind.variables} for kind in registry.kinds()}
    return {
        store: names - {one for other, more in named.items() if other != store for one in more}
        for store, names in named.items()
    }


def texts(path: Path) -> Iterator[str]:
    """Every sentence of a module but its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            is_text = isinstance(child, ast.Constant) and isinstance(child.value, str)
            if is_text and not isinstance(node, ast.Expr) and " " in child.value:
                yield child.value


def test_no_module_names_the_settings_of_another_store():
    homes = {
        store: PACKAGE.joinpath(*module.split(".")[1:-1])
        for store, module in registry._MODULES.items()
    }
    wrong = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in texts(path)
        for store, names in own_settings().items()
        for name in names
        if name in text and f"such as {name}" not in text and homes[store] not in path.parents
    ]
    assert not wrong


OF_ONE_SHELL = re.compile(r"mcp-notarium [^`]* [<|]|[<|] ?mcp-notarium|`[A-Z]{4,}=|\bchmod\b")


def test_no_message_has_a_command_that_only_one_shell_takes():
    """PowerShell has no `<`, cmd keeps the quotes of `echo`, and neither sets a variable by `NAME=value`."""
    own = {"system", "completion.py"}  # each speaks to one shell
    wrong = {
        (path.name, text)
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in texts(path)
        if OF_ONE_SHELL.search(text) and own.isdisjoint(path.relative_to(PACKAGE).parts)
    }
    where = {name for name, text in wrong if "chmod" in text}
    assert where == {"os_errors.py", "sources.py", "policy_file.py"}  # each asks for modes first
    assert not [text for _, text in wrong if "chmod" not in text]


@pytest.mark.parametrize("store", ["local", "vault", "memento", "trilium"])
@pytest.mark.parametrize("encryption", ["on", "off"])
def test_no_command_names_the_settings_of_another_store(store, encryption, tmp_path):
    others = {name for other, names in own_settings().items() if other != store for name in names}
    env = bare(tmp_path, NOTARIUM_STORE=store, DB_ENCRYPTION=encryption)
    for command in COMMANDS:
        done = run(env, *command.split())
        said = done.stdout + done.stderr
        assert said.strip(), command
        assert not [name for name in others if name in said], (command, said)


@pytest.mark.parametrize("command", ["status", "doctor", "show x", "login", "export y"])
def test_who_has_set_nothing_up_is_told_that_first(command, tmp_path):
    done = run(bare(tmp_path), *command.split())
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert (
        said.index("no notes are set up here yet")
        < said.index("mcp-notarium setup")
        < said.index("Or: ")
    )
    chosen = run(bare(tmp_path, NOTARIUM_STORE="trilium"), *command.split())
    assert "set up here yet" not in chosen.stdout + chosen.stderr


PLAIN = {"NOTARIUM_STORE": "local", "DB_ENCRYPTION": "off"}
KEYLESS = {
    "keys list": (22, "not encrypted"),
    "keys recovery create": (22, "not encrypted"),
    "restore --yes": (1, "nothing was restored: copies are made of encrypted"),
    "repair": (1, "nothing was repaired"),
}


@pytest.mark.parametrize("command", KEYLESS)
def test_what_needs_a_key_says_that_there_is_none_to_need(command, tmp_path):
    env = bare(tmp_path, **PLAIN) | {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    env["NOTARIUM_KEYCHAIN"] = "on"
    run(env, "sync")
    done = run(env, *command.split())
    code, said = KEYLESS[command]
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_a_local_notebook_has_no_store_that_could_confirm(tmp_path):
    run(bare(tmp_path, **PLAIN), "sync")
    locked = bare(tmp_path, NOTARIUM_STORE="local")
    done = run(locked, "purge")
    assert "and nowhere else" in done.stderr
    assert "note store" not in done.stderr
    assert "not encrypted" in run(locked, "audit", "tail").stderr
    asked = run(bare(tmp_path, **PLAIN), "reset-cache")
    assert "The notes stay as they are" in asked.stdout + asked.stderr


def numbers() -> dict[str, tuple[int, int, str]]:
    """The bounds of every setting that is a number, with the store that has it."""
    of_stores = {(one, kind.name) for kind in registry.kinds() for one in kind.variables}
    return {
        one.name: (one.minimum, one.maximum, store)
        for one, store in (*of_stores, *((one, "local") for one in COMMON))
        if one.kind in (Kind.COUNT, Kind.NUMBER)
    }


@pytest.mark.parametrize("name", sorted(numbers()))
def test_a_number_that_cannot_be_used_is_told_with_its_bounds(name, tmp_path):
    least, most, store = numbers()[name]
    env = bare(tmp_path, NOTARIUM_STORE=store, DB_ENCRYPTION="off")
    for wrong, used in ((str(least - 1), least), (str(most + 1), most)):
        told = f"{name} is '{wrong}'"
        range_ = f"({least} to {most}); {used} is used instead"
        checked = run(env | {name: wrong}, "doctor", "--offline").stderr
        assert told in checked
        assert range_ in checked
        with Server(env | {name: wrong}) as server:
            server.result("manage", action="get_stats")
            assert server.said(told)
            assert server.said(range_)
    for command in ("doctor", "serve"):
        done = run(env | {name: "soon"}, command)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 1
        assert f"Set {name} to a number from {least} to {most}" in said
        assert "Nothing starts until then" in said
