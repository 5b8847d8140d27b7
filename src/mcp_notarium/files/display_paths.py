"""Format paths for messages and for commands to copy. Pure but for the name of the home folder."""

from __future__ import annotations

from pathlib import Path


def display_path(path: Path) -> str:
    """Quote the path for a shell, with the home folder as `~`."""
    import shlex  # noqa: PLC0415 - not every start shows a path

    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry for this user
        return shlex.quote(str(path))
    if path.is_relative_to(home) and path != home:
        return "~/" + shlex.quote(path.relative_to(home).as_posix())
    return shlex.quote(str(path))
