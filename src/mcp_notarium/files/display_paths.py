"""How a path is written in a message or a command to copy. Pure but for the name of the home folder."""

from __future__ import annotations

from pathlib import Path


def display_path(path: Path) -> str:
    """The path as a shell takes it, without the name of the home folder."""
    import shlex  # noqa: PLC0415 - not every start shows a path

    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry for this user
        return shlex.quote(str(path))
    if path.is_relative_to(home) and path != home:
        return "~/" + shlex.quote(path.relative_to(home).as_posix())
    return shlex.quote(str(path))
