"""Read small text files of the configuration: secret files, ``--env-file`` and a ``.env``.

Reads only regular files of at most 64 KiB. A file is opened once, and what was opened is checked.
Links are followed for files a person named, never for a ``.env`` found in the working folder. Writes
nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.errors import ConfigError
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import open_regular
from mcp_notarium.system import SYSTEM, Access

MAXIMUM_BYTES = 64 * 1024

_COPY = "Put a copy of your own in its place, or name a file by `--env-file`."
_NAME_IT = "Name a file by `--env-file` instead."


@dataclass(frozen=True, slots=True)
class TextFile:
    """Hold a file that was read."""

    text: str
    status: os.stat_result
    """The result of ``fstat``."""
    access: Access
    """Rights of its users."""

    @property
    def readable_by_others(self) -> bool:
        """Return whether others may read it."""
        return self.access.others_read

    @property
    def foreign(self) -> bool:
        """Return whether it belongs to neither us nor root."""
        return self.access.owner == "other"


def read_text_file(path: Path, *, follow: bool) -> TextFile:
    """Read a file, through a symbolic link only if ``follow``. Does not check modes. Raises ``OSError`` or ``ValueError``."""
    with open_regular(path, follow=follow) as file:
        status = os.fstat(file.fileno())
        access = SYSTEM.access(file.fileno(), status)
        content = file.read(MAXIMUM_BYTES + 1)
    if len(content) > MAXIMUM_BYTES:
        raise ValueError("it is too large")
    return TextFile(_decode(content), status, access)


def read_named_file(path: Path, *, called: str, name: str) -> TextFile:
    """Read the file that a person named by ``called`` (a variable or an option).

    ``name`` is how the message calls the file. Raises ``ConfigError`` if it cannot be read.
    """
    try:
        return read_text_file(path, follow=True)
    except FileNotFoundError as error:
        raise ConfigError(
            f"the file named by {called} does not exist: {name}",
            resolution_hint=f"Check the path in {called}, and put the file there.",
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the file named by {called} cannot be read: {name}: {_describe_error(error)}",
            resolution_hint=f"Point {called} to a readable text file of at most "
            f"{MAXIMUM_BYTES // 1024} KiB, or remove it.",
        ) from error


def read_found_file(path: Path) -> TextFile:
    """Read a file that was found, not named: it and its folder must be ours, not writable by others.

    Raises ``FileNotFoundError``, or ``ConfigError`` that says why the file is not trusted and what
    would change that.
    """
    in_folder = _find_folder_problem(path.parent)
    try:
        opened = read_text_file(path, follow=False)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise _open_error(path, _describe_error(error)) from error
    if problem := _find_file_problem(path, opened.access) or in_folder:  # defence: dotenv-of-others
        raise problem
    return opened


def _open_error(path: Path, reason: str) -> ConfigError:
    # Systems differ in what they call the refusal to follow a link.
    if path.is_symlink():
        return ConfigError("it is a symbolic link, which is not followed", resolution_hint=_COPY)
    return ConfigError(reason)


def _find_file_problem(path: Path, access: Access) -> ConfigError | None:
    if access.owner != "user":
        return ConfigError("it belongs to another user", resolution_hint=_COPY)
    if access.others_change:
        return _writable_error("others may write to it", path, folder=False)
    return None


def _decode(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ValueError("it is not UTF-8 text")
    return text


def _find_folder_problem(folder: Path) -> ConfigError | None:
    try:
        access = SYSTEM.access(folder, folder.stat())
    except OSError:
        return ConfigError("its folder cannot be examined", resolution_hint=_NAME_IT)
    if access.owner == "other":
        return ConfigError("its folder belongs to another user", resolution_hint=_NAME_IT)
    if access.others_change:
        return _writable_error("others may write to its folder", folder, folder=True)
    return None


def _writable_error(reason: str, path: Path, *, folder: bool) -> ConfigError:
    command = SYSTEM.explain_privacy(path, display_path(path), folder=folder, reading=False)
    return ConfigError(reason, resolution_hint=f"Run `{command}`, or name a file by `--env-file`.")


def _describe_error(error: Exception) -> str:
    # Only our own words or the system's: a decoding error quotes the file.
    if isinstance(error, OSError):
        return os_errors.describe(error)
    return str(error)
