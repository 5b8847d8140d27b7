"""Test every error that the sources can hand to a model: short, with one way out, in words for a model.

The errors are found in the sources, so a new one is tested as soon as it is written.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import mcp_notarium
from mcp_notarium import errors
from mcp_notarium.errors import (
    LONGEST_REFUSAL,
    ConfigError,
    ConfirmationRequired,
    InvalidRequest,
    LockedError,
    LoginRequired,
    NotariumError,
    NoteLeft,
    Verdict,
)

SOURCES = Path(mcp_notarium.__file__).parent
TO_MODELS = {
    "app",
    "domain",
    "errors",
    "library",
    "protocol",
    "search",
    "storage",
    "stores",
    "sync",
    "tools",
}
"""Packages whose errors reach a model; those of the others end a command, or lock the account, which has a test of its own."""
REFUSES_CHANGES = (("account", "rollback"), ("account", "anchor_keeper"))
"""Modules of another package whose refusals reach a model, too."""
VALUE = "x" * 15 + " "
"""Stands for a value that the source fills in."""
LONGEST_HINT = 200
FOUND_AT_LEAST = 250


class Refusal(NamedTuple):
    """An error as it stands in the sources: where, its class, and what it says with values filled in."""

    place: str
    kind: type[NotariumError]
    message: str
    hint: str


@functools.cache
def refusals() -> list[Refusal]:
    """All errors; found by the first test that asks, not whenever tests are collected."""
    return list(_refusals())


def _refusals() -> Iterator[Refusal]:
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES.parent).with_suffix("").parts
        reaches = parts[1] in TO_MODELS or parts[1:] in REFUSES_CHANGES
        if not reaches or parts[-1] == "__init__":
            continue
        module = importlib.import_module(".".join(parts))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kind = kind_of(node, module)
            if isinstance(node, ast.Call) and kind is not None:
                place = f"{path.relative_to(SOURCES)}:{node.lineno}"
                yield Refusal(place, kind, *said(node, kind, module))
            if (made := made_without_words(node, module)) is not None:
                place = f"{path.relative_to(SOURCES)}:{node.lineno}"
                yield Refusal(
                    place, type(made), made.message, made.agent_hint or made.resolution_hint or ""
                )


def made_without_words(node: ast.AST, module: ModuleType) -> NotariumError | None:
    """The error of a ``raise`` that names its class alone."""
    if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Name):
        return None
    found = getattr(module, node.exc.id, None)
    is_error = inspect.isclass(found) and issubclass(found, NotariumError)
    return found() if is_error else None


def kind_of(node: ast.AST, module: ModuleType) -> type[NotariumError] | None:
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    found = getattr(module, name, None) or getattr(errors, name, None)
    return found if inspect.isclass(found) and issubclass(found, NotariumError) else None


def said(call: ast.Call, kind: type[NotariumError], module: ModuleType) -> tuple[str, str]:
    given = {one.arg: text(one.value, module) for one in call.keywords}
    places = call.args[1:] if issubclass(kind, LockedError) else call.args
    message = text(places[0], module) if places else VALUE
    own = given.get("resolution_hint") or kind.resolution_hint
    by_default = errors.ASK_DOCTOR if issubclass(kind, LockedError) else kind.agent_hint
    if kind is LoginRequired and "resolution_hint" in given:
        by_default = LoginRequired("", resolution_hint=own).agent_hint
    return message, given.get("agent_hint") or by_default or own or ""


def text(node: ast.expr, module: ModuleType) -> str:  # noqa: PLR0911 - one for each form
    """What an expression says: constants as they are, of two alternatives the longer, else a value."""
    match node:
        case ast.JoinedStr(values=parts):
            return "".join(text(one, module) for one in parts)
        case ast.FormattedValue(value=inner):
            return text(inner, module)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text(left, module) + text(right, module)
        case ast.IfExp(body=one, orelse=other):
            return max(text(one, module), text(other, module), key=len)
        case ast.Constant(value=None):
            return ""
        case ast.Constant(value=str(value)):
            return value
        case ast.Name(id=name) if isinstance(getattr(module, name, None), str):
            return str(getattr(module, name))
    return VALUE


def test_the_sources_are_read():
    assert len(refusals()) > FOUND_AT_LEAST
    missing = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, NotariumError) and not kind.__subclasses__()
    } - {one.kind.__name__ for one in refusals()}
    elsewhere = {"OutOfSight", "SettingsMissing", "Unfinished"}  # tested where they are made
    assert missing == elsewhere, "made in packages that are not read"


WITHOUT_HINT = {
    "CursorLost": "only sync meets it, and lists all notes again",
    "_FeedFailed": "the same",
    "Restated": "has that of the error it repeats",
}
NATIVE = "tools/toolsets/plain.py"
"""Its messages are those of the tools that it offers, and say what is required."""


def test_a_refusal_is_short_and_has_one_way_out_that_a_model_can_go():
    # Wrong settings end the program before a model is there; what is missing is tested with locked servers.
    # What is said of one note of many is a row of an answer.
    others = (ConfigError, NoteLeft)
    reaching = [one for one in refusals() if not issubclass(one.kind, others)]
    wrong = [one for one in reaching if not is_short(one) or not can_be_followed(one)]
    assert wrong == []


def is_short(one: Refusal) -> bool:
    whole = len(one.message) + len(one.hint)
    return whole < LONGEST_REFUSAL and len(one.hint) <= LONGEST_HINT


def can_be_followed(one: Refusal) -> bool:
    """There is a way out, it needs at most one command, and the user runs that: a model cannot."""
    commands = set(re.findall(r"`mcp-notarium [a-z-]+", one.hint))
    for_user = re.search(r"\b[Tt]he user\b", one.hint)
    hinted = one.hint or one.kind.__name__ in WITHOUT_HINT or one.place.startswith(NATIVE)
    return bool(hinted and (not commands or (for_user and len(commands) == 1)))


FOR_AGENTS = ("tools/consent", "storage/usage_limits", "tools/history", "library/history")
"""Modules whose hints no command shows: nobody is asked by a client, no limit holds, and the command has hints of its own."""


def test_no_hint_tells_a_person_to_ask_or_tell_the_user():
    said = {one.place: errors.to_person(one.hint) for one in refusals()}
    wrong = re.compile(r"\b(?:the user|(?:ask|tell) you|their (?:app|editor))\b", re.IGNORECASE)
    assert [
        one for one in said.items() if wrong.search(one[1]) and not one[0].startswith(FOR_AGENTS)
    ] == []
    assert errors.NoteReadOnly().person_hint == (
        "Permit this program to write the file and its folder or change the note in its app."
    )


@pytest.mark.parametrize(("message", "hint"), [(700, 0), (700, 90), (40, 900), (900, 900)])
def test_what_is_still_too_long_is_cut(message: int, hint: int) -> None:
    said = InvalidRequest("m" * message, resolution_hint="h" * hint).to_dict()
    assert len(said["message"] + said.get("resolution_hint", "")) < LONGEST_REFUSAL
    assert "…" in said["message"] + said.get("resolution_hint", "")


def test_a_question_to_the_user_is_not_cut():
    assert ConfirmationRequired("q" * 900, resolution_hint="h").to_dict()["message"] == "q" * 900


def test_a_person_gets_the_long_form_and_is_not_told_to_ask_the_user():
    locked = LockedError(Verdict.WRONG_KEY, "locked", resolution_hint="all ways", agent_hint="one")
    assert (locked.person_hint, locked.to_dict()["resolution_hint"]) == ("All ways", "one")
    login = errors.LoginRequired("no login")
    assert login.person_hint == "Run `mcp-notarium login` in a terminal."
    assert login.to_dict()["resolution_hint"].startswith("Ask the user to run")
    assert errors.CursorLost("lost").person_hint == ""
