"""Parse the text of a policy file (TOML) strictly. Pure: text in, ``Policy`` out.

Raises ``ConfigError`` that names the line and the key and says what to write instead. Nothing
unknown is passed over: a mistyped rule that did not hold would show what it should hide.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcp_notarium.domain.note import LONGEST_ID, clean_prefix
from mcp_notarium.domain.policy import TOOLS, Field, Limits, Mode, Policy, Visibility
from mcp_notarium.domain.write_scope import WriteScope
from mcp_notarium.errors import ConfigError

LONGEST_TAG = 256
MOST_ENTRIES = 10_000
MOST_IMPORTS = 100
LARGEST = 10**12
SMALLEST_ANSWER = 1_000
"""Bytes. A smaller answer could not hold an error."""

_CHECK = "Then run `mcp-notarium policy check`."
_LIMITS = {
    "notes_per_call": 1,
    "bytes_per_call": SMALLEST_ANSWER,
    "bytes_per_session": SMALLEST_ANSWER,
    "writes_per_session": 0,
    "writes_per_hour": 0,
}
"""Each limit and its smallest permitted value."""
_TABLES = {
    "tools": TOOLS,
    "notes": (
        *("hidden_tags", "hidden_ids", "allowed_tags", "allowed_ids"),
        *("hidden_paths", "allowed_paths", "hidden_properties"),
        *("untagged", "hidden_fields"),
        *("writable_tags", "writable_ids", "writable_paths", "writable_below"),
    ),
    "limits": tuple(_LIMITS),
}
_IMPORTS = "import_paths"
_PARTS = ("mode", _IMPORTS, *_TABLES)
_TOP = (*_PARTS, "profiles")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_AT_LINE = re.compile(r"\(at line (\d+)")


@dataclass(frozen=True, slots=True)
class PolicyText:
    """Hold a policy as its file has it."""

    policy: Policy
    lines: Mapping[str, int]
    """The line of each full key (``notes.hidden_tags``), from 1."""
    profiles: Mapping[str, Policy]
    """Permissions of each profile by itself, by name."""


def parse_policy(text: str) -> PolicyText:
    """Return the policy that ``text`` describes. Raises ``ConfigError``."""
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _syntax_error(str(error)) from None
    if not found:
        raise ConfigError(
            "the policy file is empty",
            resolution_hint="Put it back if it was cut short. Remove it, or write "
            'mode = "full", if nothing is to be limited.',
        )
    return _Reader(found, _lines(text)).read_file()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Read one file's values, or those of the profile ``at``; ``lines`` are those they stand in."""

    found: Mapping[str, Any]
    lines: Mapping[str, int]
    at: str = ""

    def read_file(self) -> PolicyText:
        self._require_known("", self.found, _TOP)
        policy, given = self._read()
        profiles = self._read_profiles(policy)
        hidden = [one for own, _ in profiles.values() for one in own.visibility.hidden_ids]
        followed = replace(policy.visibility, followed_ids=tuple(dict.fromkeys(hidden)))
        given += [key for _, keys in profiles.values() for key in keys]
        return PolicyText(
            replace(policy, visibility=followed),
            {key: self.lines.get(key, 0) for key in given},
            {name: own for name, (own, _) in profiles.items()},
        )

    def _read_profiles(self, policy: Policy) -> dict[str, tuple[Policy, list[str]]]:
        tables = self.found.get("profiles", {})
        write = "Write [profiles.NAME] on a line of its own, and what it limits below it."
        if not isinstance(tables, dict):
            raise self._wrong("profiles", "it must be a table of profiles", write)
        found = {}
        for name, table in tables.items():
            if not _NAME.fullmatch(name):
                hint = "Name it with letters, digits, - and _, 32 at most."
                raise self._wrong("profiles", "a profile has a name that cannot be used", hint)
            at = f"profiles.{name}."
            if not isinstance(table, dict):
                raise self._wrong(at[:-1], "it must be a table", write)
            self._require_known(at, table, _PARTS)
            found[name] = own = _Reader(table, self.lines, at)._read()  # noqa: SLF001 - of this class
            if not policy.narrowed(name, own[0]).tools:
                raise self._wrong(at[:-1], "no tool is left on", "Leave at least one on.")
        return found

    def _read(self) -> tuple[Policy, list[str]]:
        tables = {name: self._table(name) for name in _TABLES}
        policy = Policy(
            mode=self._mode(),
            switched_off=self._read_switched_off(tables["tools"]),
            visibility=self._visibility(tables["notes"]),
            hidden_fields=self._hidden_fields(tables["notes"]),
            writing=self._writing(tables["notes"]),
            import_paths=self._read_imports(),
            limits=Limits(
                **{name: self._number(name, tables["limits"]) for name in tables["limits"]}
            ),
        )
        if not policy.tools:
            raise self._wrong("tools", "no tool is left on", "Leave at least one on.")
        given = [one for one in ("mode", _IMPORTS) if one in self.found]
        given += [f"{name}.{key}" for name, table in tables.items() for key in table]
        return policy, [f"{self.at}{key}" for key in given]

    def _read_imports(self) -> tuple[tuple[str, ...], ...]:
        """Return the folders from which files may be kept; () if nothing is said of them."""
        if _IMPORTS not in self.found:
            return ()
        found, write = self.found[_IMPORTS], f'Write {_IMPORTS} = ["~/Pictures", "/srv/scans"].'
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self._wrong(_IMPORTS, "it must be a list of folders", write)
        if len(found) > MOST_IMPORTS or not all(map(_is_folder, found)):
            problem = f"an entry is no whole path of a folder below the home folder or a disk, or they are more than {MOST_IMPORTS}"
            raise self._wrong(_IMPORTS, problem, write)
        return (tuple(found),)

    def _table(self, name: str) -> Mapping[str, Any]:
        table = self.found.get(name, {})
        if not isinstance(table, dict):
            line = f"Write [{self.at}{name}] on a line of its own."
            raise self._wrong(name, "it must be a table", line)
        self._require_known(f"{name}.", table, _TABLES[name])
        return table

    def _require_known(self, prefix: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                what = "there is no such tool" if prefix == "tools." else "there is no such key"
                raise self._wrong(f"{prefix}{key}", what, f"Known here: {', '.join(known)}.")

    def _read_switched_off(self, table: Mapping[str, Any]) -> frozenset[str]:
        for name, on in table.items():
            if not isinstance(on, bool):
                raise self._wrong(
                    f"tools.{name}",
                    "it must be true or false",
                    "Write true or false without quotes.",
                )
        return frozenset(name for name, on in table.items() if not on)

    def _visibility(self, table: Mapping[str, Any]) -> Visibility:
        allowed_tags = self._names("allowed_tags", table, LONGEST_TAG, may_be_empty=False)
        untagged = self._read_untagged(table, needed=allowed_tags is not None)
        return Visibility(
            hidden_tags=self._names("hidden_tags", table, LONGEST_TAG) or (),
            hidden_ids=self._names("hidden_ids", table, LONGEST_ID) or (),
            allowed_tags=allowed_tags,
            allowed_ids=self._names("allowed_ids", table, LONGEST_ID, may_be_empty=False),
            hidden_paths=self._paths("hidden_paths", table) or (),
            allowed_paths=self._paths("allowed_paths", table, may_be_empty=False),
            hidden_properties=self._names("hidden_properties", table, LONGEST_TAG) or (),
            untagged=untagged,
        )

    def _writing(self, table: Mapping[str, Any]) -> WriteScope:
        return WriteScope(
            tags=self._names("writable_tags", table, LONGEST_TAG, may_be_empty=False),
            ids=self._names("writable_ids", table, LONGEST_ID, may_be_empty=False),
            paths=self._paths("writable_paths", table, may_be_empty=False),
            below=self._names("writable_below", table, LONGEST_ID, may_be_empty=False),
        )

    def _read_untagged(self, table: Mapping[str, Any], *, needed: bool) -> bool:
        say = 'Write untagged = "show" or untagged = "hide".'
        if "untagged" not in table:
            if needed:
                problem = "with it, `untagged` must say what becomes of notes without any tag"
                raise self._wrong("notes.allowed_tags", problem, say)
            return True
        if table["untagged"] not in ("show", "hide"):
            raise self._wrong("notes.untagged", "it must be show or hide", say)
        named = "allowed_ids" in table or "allowed_paths" in table
        if needed or table["untagged"] == "hide" or not named:
            return bool(table["untagged"] == "show")
        raise self._wrong(
            "notes.untagged",
            "`untagged` has no effect without allowed_tags",
            "Remove it, or add allowed_tags.",
        )

    def _hidden_fields(self, table: Mapping[str, Any]) -> frozenset[Field]:
        names = self._names("hidden_fields", table, LONGEST_TAG) or ()
        for name in names:
            if name not in set(Field):
                hint = f"Known: {', '.join(Field)}."
                raise self._wrong("notes.hidden_fields", f'there is no field "{name}"', hint)
        return frozenset(map(Field, names))

    def _names(
        self, key: str, table: Mapping[str, Any], longest: int, *, may_be_empty: bool = True
    ) -> tuple[str, ...] | None:
        if key not in table:
            return None
        names, full = table[key], f"notes.{key}"
        write = f'Write {key} = ["one", "two"].'
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self._wrong(full, "it must be a list of texts", write)
        if not names and not may_be_empty:
            none = "show no note" if key.startswith("allowed") else "let no note be changed"
            raise self._wrong(full, f"an empty list would {none}", f"{write} Or remove it.")
        if len(names) > MOST_ENTRIES:
            raise self._wrong(full, f"more than {MOST_ENTRIES} entries", "Use a tag instead.")
        if not all(0 < len(name.strip()) <= longest for name in names):
            raise self._wrong(full, f"an entry is empty or has more than {longest} letters", write)
        return tuple(name.strip() if longest == LONGEST_TAG else name for name in names)

    def _paths(
        self, key: str, table: Mapping[str, Any], *, may_be_empty: bool = True
    ) -> tuple[str, ...] | None:
        names = self._names(key, table, LONGEST_ID, may_be_empty=may_be_empty)
        cleaned = [clean_prefix(name) for name in names or ()]
        if None in cleaned:
            problem = "an entry is no folder or note inside the notes"
            write = 'Write it from the top of the notes, as in "Work/Projects" or "Work/plan.md".'
            raise self._wrong(f"notes.{key}", problem, write)
        return None if names is None else tuple(filter(None, cleaned))

    def _number(self, key: str, table: Mapping[str, Any]) -> int:
        number, least = table[key], _LIMITS[key]
        if type(number) is not int or not least <= number <= LARGEST:
            problem = f"it must be a whole number of at least {least}"
            raise self._wrong(f"limits.{key}", problem, "Remove the line for no limit.")
        return number

    def _mode(self) -> Mode:
        try:
            return Mode(self.found.get("mode", Mode.FULL))
        except ValueError:
            hint = f"Write mode = one of {', '.join(repr(str(one)) for one in Mode)}."
            raise self._wrong("mode", "there is no such mode", hint) from None

    def _wrong(self, key: str, problem: str, hint: str) -> ConfigError:
        key = f"{self.at}{key}" if self.at and key != self.at[:-1] else key
        below = (at for one, at in self.lines.items() if one.startswith(f"{key}."))
        line = self.lines.get(key) or min(below, default=0)
        above = key
        while above and not line:
            line, above = self.lines.get(above, 0), above.rpartition(".")[0]
        where = f"line {line}, " if line else ""
        return ConfigError(
            f"the policy file is wrong ({where}`{key}`): {problem}",
            resolution_hint=f"{hint} {_CHECK}",
            details={"key": key} | ({"line": line} if line else {}),
        )


def _syntax_error(said: str) -> ConfigError:
    """Return the error for text that is not TOML, without the reader's message, which quotes the file."""
    at = _AT_LINE.search(said)
    where = f"line {at[1]}" if at else "at its end"
    return ConfigError(
        f"the policy file is not TOML ({where})",
        resolution_hint="Put texts in quotation marks, lists in square brackets, and every key on "
        f"a line of its own. {_CHECK}",
        details={"line": int(at[1])} if at else {},
    )


def _is_folder(path: str) -> bool:
    """Tell whether a text is a whole path without ``..`` of something below the home folder, or below the top of a disk."""
    parts = [part for part in re.split(r"[/\\]", path) if part]
    whole = path.startswith(("/", "~/", "~\\")) or _DRIVE.match(path) is not None
    least = 1 if path.startswith("/") else 2
    clean = all(ord(one) >= ord(" ") for one in path) and not {".", ".."} & {*parts}
    return whole and clean and len(parts) >= least and len(path) <= LONGEST_ID


_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_DOTTED = r"((?:[\"']?[A-Za-z0-9_-]+[\"']?\s*\.\s*){0,3}[\"']?[A-Za-z0-9_-]+[\"']?)"
_TABLE_LINE = re.compile(rf"\s*\[\s*{_DOTTED}\s*\]")
_KEY_LINE = re.compile(rf"\s*{_DOTTED}\s*=")
_BETWEEN_WORDS = re.compile(r"[\"'\s]")


def _lines(text: str) -> dict[str, int]:
    """Return the line of each key, as far as single lines show it; for messages only."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if opening := _TABLE_LINE.match(line):
            table = _BETWEEN_WORDS.sub("", opening[1])
            found.setdefault(table, number)
        elif key := _KEY_LINE.match(line):
            dotted = _BETWEEN_WORDS.sub("", key[1])
            found.setdefault(f"{table}.{dotted}" if table else dotted, number)
    return found
