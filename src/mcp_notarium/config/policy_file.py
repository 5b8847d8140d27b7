"""Find and read the policy file, and tell where each of its rules comes from.

The file is ``policy.toml`` in the data folder, or the one that NOTARIUM_POLICY_FILE names. It must
be a plain file that only the user (or root) may change, in a folder of which the same is true. An
unusable file is an error and never passed over. ``domain/policy`` says what the rules mean.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcp_notarium.config.text_files import MAXIMUM_BYTES, TextFile, read_text_file
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.errors import ConfigError
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.system import SYSTEM

FILE_NAME = "policy.toml"
FILE_VARIABLE = "NOTARIUM_POLICY_FILE"
READ_ONLY_VARIABLE = "NOTARIUM_READ_ONLY"
PROFILE_VARIABLE = "NOTARIUM_PROFILE"

_NO_FOLDER = {errno.ENOTDIR, errno.ENAMETOOLONG}


@dataclass(frozen=True, slots=True)
class FoundPolicy:
    """Hold a policy, its file (None: there is none), and the lines of its rules.

    ``looked_at`` is the path of the file, also if there is none. ``read_only``: the environment forbids
    writing, whatever the file says. ``profiles``: what each profile permits by itself.
    """

    policy: Policy
    looked_at: Path
    path: Path | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    read_only: bool = False
    profiles: Mapping[str, Policy] = field(default_factory=dict)

    def of_profile(self, name: str) -> FoundPolicy:
        """Return the policy that holds for a client with this profile. Raises ``ConfigError`` if there is none."""
        if name not in self.profiles:
            raise _missing_profile(self, name)
        return replace(self, policy=self.policy.narrowed(name, self.profiles[name]))


def _missing_profile(found: FoundPolicy, name: str) -> ConfigError:
    """Return the error for a profile that is not in the file."""
    where = display_path(found.looked_at)
    if found.path is None:
        message = f"there is no profile {name}, because there is no policy file at {where}"
    else:
        known = ", ".join(found.profiles) or "none"
        message = f"the policy file {where} has no profile {name}; it has: {known}"
    return ConfigError(
        message,
        resolution_hint=f"Add [profiles.{name}] to the file, or name another profile by --profile or "
        f"{PROFILE_VARIABLE} in the client's server entry.",
        details={"profile": name, "profiles": [*found.profiles]},
    )


def find_policy(*, named: Path | None, data_dir: Path, read_only: bool) -> FoundPolicy:
    """Return the active policy. Raises ``ConfigError`` if its file cannot be trusted."""
    found = read_policy(named or data_dir / FILE_NAME, named=named is not None)
    if not read_only:
        return found
    return replace(found, policy=found.policy.read_only(), read_only=True)


def refuse_misplaced_file(found: FoundPolicy, *, account_dir: Path) -> None:
    """Raise ``ConfigError`` for a policy file in the account's folder, where none is read.

    Whoever put it there believes that its rules hold.
    """
    misplaced = account_dir / FILE_NAME
    if not os.path.lexists(misplaced):
        return
    if found.path is not None and os.path.realpath(found.path) == os.path.realpath(misplaced):
        return
    if found.path is None:
        hint = f"Run `mv {display_path(misplaced)} {display_path(found.looked_at)}`: there it holds for all accounts."
    else:
        hint = f"{display_path(found.path)} holds. Put the rules in there, and remove {display_path(misplaced)}."
    raise ConfigError(
        f"a policy file lies in an account's folder, where it is not read: {display_path(misplaced)}",
        resolution_hint=hint,
    )


def refuse_paths(found: FoundPolicy, store: str) -> None:
    """Raise ``ConfigError`` for rules on paths where notes have none: they would hide nothing, or all."""
    policies = (found.policy, *found.profiles.values())
    names_paths = any(one.visibility.names_paths or one.writing.names_paths for one in policies)
    if found.path is None or not names_paths:
        return
    raise ConfigError(
        f"the policy file {display_path(found.path)} has rules on paths, and the notes of {store} have none",
        resolution_hint="Remove hidden_paths, allowed_paths and writable_paths, or give this server a NOTARIUM_DATA_DIR and a "
        "policy file of its own.",
    )


def refuse_trees(found: FoundPolicy, store: str) -> None:
    """Raise ``ConfigError`` for rules on what stands below notes where nothing does: nothing could be changed."""
    policies = (found.policy, *found.profiles.values())
    if found.path is None or not any(one.writing.tops for one in policies):
        return
    raise ConfigError(
        f"the policy file {display_path(found.path)} has writable_below, and the notes of {store} have none below them",
        resolution_hint="Remove writable_below, or give this server a NOTARIUM_DATA_DIR and a policy file of its own.",
    )


def read_policy(path: Path, *, named: bool) -> FoundPolicy:
    """Return the policy of one file; the permissive one if it is missing and was not ``named``."""
    try:
        opened = read_text_file(path, follow=False)
    except FileNotFoundError:
        if named:
            raise _policy_error(path, "it does not exist", _replace_hint(path)) from None
        return FoundPolicy(PERMISSIVE, path)
    except (OSError, ValueError) as error:
        if not named and isinstance(error, OSError) and error.errno in _NO_FOLDER:
            return FoundPolicy(PERMISSIVE, path)  # whoever needs the folder refuses it
        raise _policy_error(path, _describe_error(path, error), _replace_hint(path)) from error
    if problem := _find_problem(path, opened):  # defence: untrusted-policy-stops
        raise problem
    from mcp_notarium.domain.policy_parser import parse_policy  # noqa: PLC0415 - only where there is such a file

    text = parse_policy(opened.text)
    return FoundPolicy(text.policy, path, path, text.lines, profiles=text.profiles)


def _find_problem(path: Path, opened: TextFile) -> ConfigError | None:
    """Return why the file or a folder above it may not be trusted, and the command that repairs it."""
    access = opened.access
    if access.owner == "other":
        return _policy_error(path, "it belongs to another user", _replace_hint(path))
    if opened.status.st_nlink != 1:
        return _policy_error(path, "it has a second name (hard link)", _replace_hint(path))
    # defence: policy-file-private
    ours = access.owner == "user"
    if not access.is_private if ours else access.others_change:
        what = "others may read or change it" if ours else "others may change it"
        command = SYSTEM.explain_privacy(path, display_path(path), folder=False, reading=ours)
        return _policy_error(path, what, f"Run `{command}`.")
    return _find_folder_problem(path)


def _find_folder_problem(path: Path) -> ConfigError | None:
    """Return why a folder above the file may not be trusted.

    Whoever may rename such a folder may put another file in its place.
    """
    place = path.absolute().parent
    real = Path(os.path.realpath(place))  # a link on the way leads through other folders, too
    # defence: policy-link-folders -*real.parents
    for folder in dict.fromkeys((place, real, *place.parents, *real.parents)):
        status = folder.stat()
        access = SYSTEM.access(folder, status)
        if access.owner == "other":
            return _policy_error(
                path, "a folder above it belongs to another user", _replace_hint(path)
            )
        if not access.others_replace:
            continue
        shared = not SYSTEM.is_group_private(folder, status)
        if folder in {place, real} or shared:  # defence: policy-folders -shared
            quoted = display_path(folder)
            command = SYSTEM.explain_privacy(folder, quoted, folder=True, reading=False)
            return _policy_error(path, "others may change a folder above it", f"Run `{command}`.")
    return None


def _policy_error(path: Path, reason: str, hint: str) -> ConfigError:
    return ConfigError(
        f"the policy file {display_path(path)} cannot be used: {reason}", resolution_hint=hint
    )


def _replace_hint(path: Path) -> str:
    return (
        f"Put a plain file of your own at {display_path(path)} (chmod 600), or name another one by "
        f"{FILE_VARIABLE}. `mcp-notarium policy check` tells whether it is in order."
    )


def _describe_error(path: Path, error: Exception) -> str:
    if path.is_symlink():
        return "it is a symbolic link, which is not followed"
    if isinstance(error, OSError):
        return os_errors.describe(error)
    return f"{error} (at most {MAXIMUM_BYTES // 1024} KiB of UTF-8 text are read)"
