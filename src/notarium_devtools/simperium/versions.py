"""Keep the versions of one object, as many as a bucket keeps.

Pure: no clock, no randomness, no storage. Old versions go as the vendor describes it: the newest
sixty stay, then every tenth of those before, a hundred of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from notarium_devtools.simperium.jsondiff import Value


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold how much a bucket remembers. Numbers the vendor does not publish are our guess."""

    recent_versions: int = 60
    archived_versions: int = 100
    archive_step: int = 10
    change_log: int = 5_000
    ccid_memory: int = 10_000
    max_object_bytes: int = 1_000_000
    restart_versions: bool = True
    """Whether an id that is created again after its removal starts at version 1 again."""
    stale_delete_status: int = 405


@dataclass(frozen=True, slots=True)
class Stored:
    """Hold an object at one version."""

    id: str
    version: int
    value: Value


@dataclass(slots=True)
class Entity:
    """Hold one object with the versions that are still kept."""

    id: str
    version: int
    sequence: int
    versions: dict[int, Value]
    archived: list[int] = field(default_factory=list)
    _text: bytes = b""

    @property
    def head(self) -> Value:
        """Return the newest value."""
        return self.versions[self.version]

    @property
    def text(self) -> bytes:
        """Return the newest value as JSON text (ASCII), kept until the next version."""
        if not self._text:
            self._text = json_text(self.head)
        return self._text

    def advance(self, value: Value, *, sequence: int, limits: Limits) -> None:
        """Add a version and forget those that are too old."""
        self.version += 1
        self.sequence = sequence
        self.versions[self.version] = value
        self._text = b""
        leaving = self.version - limits.recent_versions
        if leaving in self.versions:
            self._archive(leaving, limits)

    def _archive(self, version: int, limits: Limits) -> None:
        if self.archived and version - self.archived[-1] < limits.archive_step:
            del self.versions[version]
            return
        self.archived.append(version)
        if len(self.archived) > limits.archived_versions:
            del self.versions[self.archived.pop(0)]


_IN_ASCII = json.JSONEncoder(separators=(",", ":"))
_IN_UNICODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def json_text(value: object) -> bytes:
    """Return compact JSON in ASCII, so that any text, even half a surrogate pair, has a form."""
    return _IN_ASCII.encode(value).encode("ascii")


def json_size(value: object) -> int:
    """Return how many bytes the value takes as compact JSON in UTF-8."""
    return len(_IN_UNICODE.encode(value).encode("utf-8", "surrogatepass"))
