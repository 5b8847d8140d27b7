"""Find and read the policy file, and tell where each of its rules comes from.

The file is ``policy.toml`` in the data folder, or the one that NOTARIUM_POLICY_FILE names. It must
be a plain file that only the user (or root) may change, in a folder of which the same is true. An
unusable file is an error and never passed over. ``domain/policy`` says what the rules mean.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcp_notarium.config.text_files import MAXIMUM_BYTES, TextFile, read_text_file
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.errors import ConfigError
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.stores.kind import StoreKind
from mcp_notarium.system import SYSTEM

FILE_NAME = "policy.toml"
FILE_VARIABLE = "NOTARIUM_POLICY_FILE"
READ_ONLY_VARIABLE = "NOTARIUM_READ_ONLY"
PROFILE_VARIABLE = "NOTARIUM_PROFILE"

_BELOW = "writable_below"

_NO_FOLDER = {errno.ENOTDIR, errno.ENAMETOOLONG}


@dataclass(frozen=True, slots=True)
class FoundPolicy:
    """Hold a policy and its file."""

    policy: Policy
    looked_at: Path
    """The path of the file, also if there is none."""
    path: Path | None = None
    """None: there is no file."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each rule, from 1."""
    read_only: bool = False
    """The environment forbids writing, whatever the file says."""
    profiles: Mapping[str, Policy] = field(default_factory=dict)
    """Permissions of each profile by itself."""

    def of_profile(self, name: str) -> FoundPolicy:
        """Return the policy that holds for a client with this profile. Raises ``ConfigError`` if there is none."""
        if name not in self.profiles:
            raise _missing_profile(self, name)
        return replace(self, policy=self.policy.narrowed(name, self.profiles[name]))

    def of_account(self, store: StoreKind, profile: str = "") -> FoundPolicy:
        """Return the policy that holds in an account of this store, for clients with this profile ('' for none).

        Rules of other profiles are not asked about. Raises ``ConfigError`` if one that holds cannot be held to there.
        """
        found = self.of_profile(profile) if profile else self  # defence: profile-narrows =self
        own = {"": self.policy} | ({profile: self.profiles[profile]} if profile else {})
        for name, policy in own.items():
            if unfit := list_unfit(policy, store):  # defence: unfit-rule-refused =()
                raise _unfit_error(self, store, unfit, name)
        return found


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

    The person who put it there believes that its rules hold.
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


def list_unfit(policy: Policy, store: StoreKind) -> tuple[str, ...]:
    """Return the rules that an account of this store cannot hold to; ``policy`` without one that it narrows.

    A rule on places of notes that have none would hide nothing or everything, or let nothing be changed.
    """
    seen, writing = policy.visibility, policy.writing
    paths = {
        "hidden_paths": seen.hidden_paths,
        "allowed_paths": seen.allowed_paths,
        "writable_paths": writing.paths,
    }
    rules = ({} if store.ids.paths else paths) | ({} if store.tree else {_BELOW: writing.below})
    return tuple(name for name, value in rules.items() if value)


def explain_unfit(rules: Sequence[str], store: StoreKind) -> str:
    """Return why an account of this store cannot hold to these rules."""
    below, paths = [one for one in rules if one == _BELOW], [one for one in rules if one != _BELOW]
    lacking = [*(["paths"] if paths else []), *(["notes below them"] if below else [])]
    return f"{', '.join([*paths, *below])}: the notes of {store.title} have no {' and no '.join(lacking)}"


class UnfitPolicy(ConfigError):
    """Report rules of the policy, or profile in use, that the account cannot hold to. ``found`` has all profiles."""

    def __init__(
        self, message: str, *, found: FoundPolicy, hint: str, rules: Sequence[str]
    ) -> None:
        super().__init__(message, resolution_hint=hint, details={"rules": [*rules]})
        self.found = found


def _unfit_error(
    found: FoundPolicy, store: StoreKind, rules: Sequence[str], profile: str
) -> UnfitPolicy:
    """Return the error for rules of the policy ('') or of a profile."""
    where = display_path(found.looked_at)
    whose = f"the profile {profile} of the policy file" if profile else "the policy file"
    if profile:
        fit = [one for one, own in found.profiles.items() if not list_unfit(own, store)]
        others = f" ({', '.join(fit)})" if fit else ""
        hint = f"Name a profile without these rules{others}, or take them out of this one."
    else:
        hint = (
            "Rules above the profiles hold for every account of the data folder. Write these below [profiles.NAME.notes] instead, and "
            "give that profile to each client of the accounts that they are for (`mcp-notarium install --profile NAME`): they bind no "
            f"other client. Or put them into a file that {FILE_VARIABLE} names in the server entries of those clients."
        )
    return UnfitPolicy(
        f"{whose} {where} has rules that this account cannot hold to ({explain_unfit(rules, store)})",
        found=found,
        hint=f"{hint} `mcp-notarium policy check` tells what suits which account.",
        rules=rules,
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
            return FoundPolicy(PERMISSIVE, path)  # who needs the folder refuses it
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
    ours = access.owner == "user"
    # defence: policy-file-private
    if not access.is_private if ours else access.others_change:
        what = "others may read or change it" if ours else "others may change it"
        command = SYSTEM.explain_privacy(path, display_path(path), folder=False, reading=ours)
        return _policy_error(path, what, f"Run `{command}`.")
    return _find_folder_problem(path)


def _find_folder_problem(path: Path) -> ConfigError | None:
    """Return why a folder above the file may not be trusted: a user who may rename it may put in another file."""
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
    mode = " (chmod 600)" if SYSTEM.has_modes else ""
    return (
        f"Put a plain file of your own at {display_path(path)}{mode}, or name another one by "
        f"{FILE_VARIABLE}. `mcp-notarium policy check` tells whether it is in order."
    )


def _describe_error(path: Path, error: Exception) -> str:
    if path.is_symlink():
        return "it is a symbolic link, which is not followed"
    if isinstance(error, OSError):
        return os_errors.describe(error)
    return f"{error} (at most {MAXIMUM_BYTES // 1024} KiB of UTF-8 text are read)"
