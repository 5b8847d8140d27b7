"""Ask for a setting of a store: what its app knows is offered by name, and Tab completes a path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mcp_notarium.cli import console
from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.stores.kind import Place, StoreKind

_ANOTHER = ""
_BESIDE_A_CHOICE = 5
"""Columns of the arrow before a choice, and of the edge behind it."""


def ask_setting(
    kind: StoreKind, variable: Variable, default: str, *, problem: Callable[[str], str | None]
) -> str:
    """Return what the user chooses or types, once ``problem`` says that it can be used."""
    question, option = f"{variable.purpose.removesuffix('.')}:", f"--set {variable.name}=VALUE"
    is_path = variable.kind is Kind.PATH
    places = kind.places(os.environ) if is_path and not default else ()
    if places := tuple(one for one in places if problem(one.path) is None):
        shown = [(one.path, _choice(one)) for one in places]
        chosen = console.choose(
            "Which one?", [*shown, (_ANOTHER, "another folder")],
            default=places[0].path, option=option,
        )  # fmt: skip
        if chosen != _ANOTHER:
            return chosen
    return console.ask_text(
        question, default=default, option=option, problem=problem, is_path=is_path
    )


def _choice(place: Place) -> str:
    """Return how a place is shown: in one line, with the end of a long path."""
    begin = f"{one_line(place.name)}  ({place.app}, "
    home = f"{Path.home()}{os.sep}"
    path = one_line(
        place.path.replace(home, f"~{os.sep}", 1) if place.path.startswith(home) else place.path
    )
    room = max(console.console().width - len(begin) - _BESIDE_A_CHOICE, 1)
    return f"{begin}{path if len(path) <= room else f'…{path[1 - room :]}'})"
