"""Finds and reads the policy file, and says where each of its rules comes from.

``policy.toml`` in the data folder, or the file that NOTARIUM_POLICY_FILE names. It must be a plain
file that nobody but the user (or root) may change, in a folder of which the same is true; what is
wrong with it is an error and never passed over. What the rules mean stands in ``policy``.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcp_notarium.config.text_files import MAXIMUM_BYTES, Opened, read_guarded
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.errors import ConfigError
from mcp_notarium.files.display_paths import display_path
from mcp_notarium.files.private_groups import is_group_private

FILE_NAME = "policy.toml"
FILE_VARIABLE = "NOTARIUM_POLICY_FILE"
READ_ONLY_VARIABLE = "NOTARIUM_READ_ONLY"

_NO_FOLDER = {errno.ENOTDIR, errno.ENAMETOOLONG}
_OTHERS = 0o077
_OTHERS_CHANGE = 0o022


@dataclass(frozen=True, slots=True)
class FoundPolicy:
    """A policy, the file it is from (None: there is none), and the lines its rules stand in.

    ``looked_at`` is where the file lies, or would lie. ``read_only``: the environment has taken writing
    away, whatever the file says.
    """

    policy: Policy
    looked_at: Path
    path: Path | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    read_only: bool = False


def find(*, named: Path | None, data_dir: Path, read_only: bool) -> FoundPolicy:
    """The policy that holds. Raises ``ConfigError``: a file that cannot be trusted hides nothing."""
    found = read(named or data_dir / FILE_NAME, named=named is not None)
    if not read_only:
        return found
    return replace(found, policy=found.policy.read_only(), read_only=True)


def demand_no_stray(found: FoundPolicy, *, account_dir: Path) -> None:
    """Raises ``ConfigError`` for a policy file in the account's folder, where none is read.

    Whoever put it there believes that its rules hold.
    """
    stray = account_dir / FILE_NAME
    if not os.path.lexists(stray):
        return
    if found.path is not None and os.path.realpath(found.path) == os.path.realpath(stray):
        return
    if found.path is None:
        hint = f"Run `mv {display_path(stray)} {display_path(found.looked_at)}`: there it holds for all accounts."
    else:
        hint = f"{display_path(found.path)} holds. Put the rules in there, and remove {display_path(stray)}."
    raise ConfigError(
        f"a policy file lies in an account's folder, where it is not read: {display_path(stray)}",
        resolution_hint=hint,
    )


def read(path: Path, *, named: bool) -> FoundPolicy:
    """The policy of one file; the permissive one if it is missing and nobody has ``named`` it."""
    try:
        opened = read_guarded(path)
    except FileNotFoundError:
        if named:
            raise _untrusted(path, "it does not exist", _instead(path)) from None
        return FoundPolicy(PERMISSIVE, path)
    except (OSError, ValueError) as error:
        if not named and isinstance(error, OSError) and error.errno in _NO_FOLDER:
            return FoundPolicy(PERMISSIVE, path)  # the folder is refused where it is needed
        raise _untrusted(path, _reason(path, error), _instead(path)) from error
    if problem := _problem(path, opened):
        raise problem
    from mcp_notarium.domain.policy_parser import parse  # noqa: PLC0415 - only where there is such a file

    text = parse(opened.text)
    return FoundPolicy(text.policy, path, path, text.lines)


def _problem(path: Path, opened: Opened) -> ConfigError | None:
    """Why the file or a folder above it may not be trusted, with the command that mends it."""
    if sys.platform == "win32":
        return None
    ours = opened.status.st_uid == os.geteuid()
    if not ours and opened.status.st_uid != 0:
        return _untrusted(path, "it belongs to another user", _instead(path))
    if opened.status.st_nlink != 1:
        return _untrusted(path, "it has a second name (hard link)", _instead(path))
    if opened.status.st_mode & (_OTHERS if ours else _OTHERS_CHANGE):
        what = "others may read or change it" if ours else "others may change it"
        return _untrusted(
            path, what, f"Run `chmod {'600' if ours else 'go-w'} {display_path(path)}`."
        )
    return _folder_problem(path)


def _folder_problem(path: Path) -> ConfigError | None:
    """Whoever may rename a folder above the file may put another in its place."""
    place = path.absolute().parent
    real = Path(os.path.realpath(place))  # a link on the way leads through other folders, too
    for folder in dict.fromkeys((place, real, *place.parents, *real.parents)):
        status = folder.stat()
        if status.st_uid not in {0, os.geteuid()}:
            return _untrusted(path, "a folder above it belongs to another user", _instead(path))
        if not status.st_mode & _OTHERS_CHANGE or status.st_mode & stat.S_ISVTX:
            continue
        if folder in {place, real} or not is_group_private(folder, status):
            hint = f"Run `chmod go-w {display_path(folder)}`."
            return _untrusted(path, "others may change a folder above it", hint)
    return None


def _untrusted(path: Path, reason: str, hint: str) -> ConfigError:
    return ConfigError(
        f"the policy file {display_path(path)} cannot be used: {reason}", resolution_hint=hint
    )


def _instead(path: Path) -> str:
    return (
        f"Put a plain file of your own at {display_path(path)} (chmod 600), or name another one by "
        f"{FILE_VARIABLE}. `mcp-notarium policy check` tells whether it is in order."
    )


def _reason(path: Path, error: Exception) -> str:
    if path.is_symlink():
        return "it is a symbolic link, which is not followed"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{error} (at most {MAXIMUM_BYTES // 1024} KiB of UTF-8 text are read)"
