"""Read what the settings of Obsidian and Logseq say of a vault: places of notes and files, and types of properties.

The files are opened as notes are: no link is followed, no other file is read, and no more than a bounded part. A setting that
is missing or cannot be read is the app's default; a type that is not known counts as none. Each call that needs a setting
reads it again, and nothing of the files is logged.

Logseq's settings are EDN. Maps become dictionaries, whose keywords keep their colon (``":journals-directory"``); lists, vectors and sets become lists;
symbols, numbers and characters stay as they are written. Of a tagged value the tag is left out.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from mcp_notarium import logs
from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.date_formats import LONGEST, format_java, format_moment
from mcp_notarium.domain.properties import FORMS
from mcp_notarium.errors import InvalidRequest, StoreRejected
from mcp_notarium.markup.templates import DATE_FORMAT, PAGE_TITLE_FORMAT, TIME_FORMAT
from mcp_notarium.stores.extensions import DayPlace, TemplateSettings
from mcp_notarium.stores.vault.folder import NotANote, open_file, open_folder
from mcp_notarium.stores.vault.paths import split_path
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor

LARGEST = 256 * 1024
"""Bytes of a file of settings that is read; a larger one counts as missing."""
OBSIDIAN = ".obsidian"
_PERIODIC = "periodic-notes"
_JOURNALS, _JOURNAL_FORMAT = "journals", "yyyy_MM_dd"
_ASSETS = "assets"
_MARKDOWN = ".md"
_NOT_IN_PATHS = re.compile(r'[\x00-\x1f\x7f:*?"<>|]')
"""Characters that Obsidian puts into no file name."""


_DEEPEST = 32
_TOKEN = re.compile(
    r"""(?P<blank>[\s,]+|;[^\n]*)|(?P<text>\#?"(?:[^"\\]|\\.)*+")|(?P<drop>\#_)|(?P<open>\#?[{(\[])|(?P<close>[)}\]])"""
    r"""|(?P<tag>\#[\w.?/-]+)|(?P<word>\\.[\w]*|[^\s,;"(){}\[\]]+)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r"}
_CLOSING = {"{": "}", "(": ")", "[": "]"}


_FILE = "types.json"
_MOST = 5_000
"""Properties whose types are read."""
_LOG = logs.get("vault")


@dataclass(frozen=True, slots=True)
class _Daily:
    """Hold the settings of daily notes in Obsidian."""

    folder: str
    form: str
    template: str


_Target = Literal["shortest", "relative", "absolute"]
_FORMS: Mapping[str, _Target] = {"relative": "relative", "absolute": "absolute"}


@dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """Hold where the app puts attachments of a note, and how it links to them."""

    folder: str
    """As a path from the top; '' is the top."""
    wiki: bool
    """Links are wikilinks."""
    target: _Target
    """Form of the path by which a link names the file."""
    named: bool
    """A link shows the name of the file."""
    embeds_all: bool
    """It also embeds what is no picture."""
    outline: bool = False
    """Every line belongs to a block, as in Logseq."""


def read_attachment_settings(root: int, note: str) -> AttachmentSettings:
    """Return what the app's settings say for the note of this path; without an app, files lie next to their notes.

    Raises ``StoreRejected`` if that is a folder that can hold no notes: what lies there is never shown.
    """
    beside = note.rpartition("/")[0]
    app = read_json(root, "app.json")
    if app is None and not _is_obsidian(root):
        logseq = _read_logseq(root) is not None
        folder = _ASSETS if logseq else beside
        return AttachmentSettings(folder, False, "relative", True, logseq, logseq)  # noqa: FBT003 - named above
    said = _text(app, "attachmentFolderPath")
    below = _join(beside, said[2:]) if said.startswith("./") or said == "." else _join("", said)
    if below and split_path(f"{below}/any{_MARKDOWN}") is None:
        raise StoreRejected(
            "the settings of Obsidian put attachments into a folder in which nothing is shown",
            subcategory="attachment_folder",
            resolution_hint="Ask the user to choose another folder for attachments in Obsidian's settings for files and links.",
        )
    wiki = (app or {}).get("useMarkdownLinks") is not True
    form = _FORMS.get(_text(app, "newLinkFormat"), "shortest")
    return AttachmentSettings(below, wiki, form, False, True)  # noqa: FBT003 - named above


def _is_obsidian(root: int) -> bool:
    with suppress(OSError):
        os.close(open_folder(root, [OBSIDIAN], exact=False))
        return True
    return False


def place_day(root: int, day: datetime) -> DayPlace:
    """Return where the app keeps the note of a day. Raises ``InvalidRequest`` if that is no place for a note."""
    logseq = _read_logseq(root)
    daily = _read_daily(root)
    if daily is None and logseq is not None:
        return _place_journal(logseq, day)
    found = daily or _Daily("", DATE_FORMAT, "")
    _require_short(found.form)
    name = format_moment(found.form, day)
    path = _join(found.folder, name)
    title = path.rpartition("/")[2]
    return DayPlace(
        path=_checked(path),
        template=_with_ending(_join("", found.template)) if found.template else "",
        title=title.removesuffix(_MARKDOWN),
        date_format=found.form.rpartition("/")[2] or DATE_FORMAT,
    )


def read_templates(root: int) -> TemplateSettings | None:
    """Return where the templates of Obsidian lie, and how they write dates; None if no folder of them is set."""
    found = read_json(root, "templates.json")
    folder = _join("", _text(found, "folder"))
    if not folder:
        return None
    return TemplateSettings(
        folder,
        _text(found, "dateFormat") or DATE_FORMAT,
        _text(found, "timeFormat") or TIME_FORMAT,
    )


def _place_journal(settings: Mapping[str, Any], day: datetime) -> DayPlace:
    form = _edn_text(settings, ":journal/file-name-format") or _JOURNAL_FORMAT
    _require_short(form)
    if _edn_text(settings, ":preferred-format").lower() == "org":
        raise _nowhere(
            "Logseq writes the journals of this graph in Org mode, which is no note here."
        )
    folder = _edn_text(settings, ":journals-directory") or _JOURNALS
    path = _join(folder, format_java(form, day))
    defaults = settings.get(":default-templates")
    titles = _edn_text(settings, ":journal/page-title-format") or PAGE_TITLE_FORMAT
    return DayPlace(
        path=_checked(path),
        title=path.rpartition("/")[2].removesuffix(_MARKDOWN),
        block=_edn_text(defaults, ":journals") if isinstance(defaults, dict) else "",
        title_format=titles[:LONGEST],
    )


def _read_daily(root: int) -> _Daily | None:
    """Return the settings of daily notes; None if Obsidian has none. Those of Periodic Notes replace them."""
    found = _read_periodic(root) or read_json(root, "daily-notes.json")
    if found is None:
        return None
    template = _text(found, "template") or _text(found, "templatePath")
    return _Daily(_text(found, "folder"), _text(found, "format") or DATE_FORMAT, template)


def _read_periodic(root: int) -> Mapping[str, Any] | None:
    """Return the settings of the plugin Periodic Notes, if it is switched on and has daily notes, in either form it writes."""
    plugins = _read_any(root, (OBSIDIAN, "community-plugins.json"))
    if not isinstance(plugins, list) or _PERIODIC not in plugins:
        return None
    found = read_json(root, "plugins", _PERIODIC, "data.json")
    if found is None:
        return None
    sets = found.get("calendarSets")
    listed = [one for one in sets if isinstance(one, dict)] if isinstance(sets, list) else []
    active = [one for one in listed if one.get("id") == found.get("activeCalendarSet")] or listed[
        :1
    ]
    daily = active[0].get("day") if active else found.get("daily")
    return daily if isinstance(daily, dict) and daily.get("enabled") is True else None


def _read_logseq(root: int) -> Mapping[str, Any] | None:
    """Return the settings of the graph, if the vault is one of Logseq."""
    text = _read_file(root, ("logseq", "config.edn"))
    if text is None:
        return None
    with suppress(NotEdn):
        found = read_edn(text)
        return found if isinstance(found, dict) else {}
    return {}


def read_json(root: int, *parts: str) -> Mapping[str, Any] | None:
    """Return the object in a file of Obsidian's settings; None if there is none that can be read."""
    found = _read_any(root, (OBSIDIAN, *parts))
    return found if isinstance(found, dict) else None


def _read_any(root: int, parts: tuple[str, ...]) -> Any:
    text = _read_file(root, parts)
    if text is None:
        return None
    with suppress(ValueError, RecursionError):
        return json.loads(text.removeprefix("\ufeff"))
    return None


def _read_file(root: int, parts: tuple[str, ...]) -> str | None:
    """Return the text of a file of settings; None if there is none that can be read."""
    *folders, name = parts
    with suppress(OSError, NotANote, UnicodeDecodeError):
        with closing_descriptor(open_folder(root, folders, exact=False)) as parent:
            file, _ = open_file(parent, name, exact=False)
        with os.fdopen(file, "rb") as opened:
            data = opened.read(LARGEST + 1)
        return None if len(data) > LARGEST else data.decode()
    return None


def _text(found: Mapping[str, Any] | None, name: str) -> str:
    value = None if found is None else found.get(name)
    return value.strip() if isinstance(value, str) else ""


def _edn_text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return "" if not isinstance(value, str) or value in ("nil", "false") else value.strip()


def _join(folder: str, name: str) -> str:
    """Return the path as Obsidian writes it: composed letters, one ``/`` between parts, none at the ends."""
    path = unicodedata.normalize("NFC", f"{folder}/{name}").replace("\u00a0", " ")
    return "/".join(filter(None, path.replace("\\", "/").split("/")))


def _with_ending(path: str) -> str:
    return path if path.lower().endswith(_MARKDOWN) else f"{path}{_MARKDOWN}"


def _checked(path: str) -> str:
    """Return the path of a daily note. Raises ``InvalidRequest`` for one that no note of the vault can have."""
    whole = _with_ending(path)
    # defence: day-lies-in-the-vault =False
    if not path or split_path(whole) is None or _NOT_IN_PATHS.search(whole):
        raise _nowhere(
            "The settings for daily notes name a place that no note of this vault can have."
        )
    return whole


def _require_short(form: str) -> None:
    if len(form) > LONGEST:
        raise _nowhere(f"The format for daily notes has more than {LONGEST} characters.")


def _nowhere(message: str) -> InvalidRequest:
    return InvalidRequest(
        message,
        subcategory="daily_settings",
        http_status_code=422,
        resolution_hint="Ask the user to correct folder and date format of daily notes in their app. Any other note has its "
        "own id.",
    )


class NotEdn(ValueError):
    """Report that the text is no EDN that can be read."""


def read_edn(text: str) -> Any:
    """Return the first value of a text; None if there is none. Raises ``NotEdn``."""
    tokens = _tokens(text)
    return next(_values(tokens, None, 0), None)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotEdn("a text that does not end")
        at = found.end()
        if (kind := found.lastgroup) != "blank":
            yield str(kind), found[0]


def _values(tokens: Iterator[tuple[str, str]], closing: str | None, depth: int) -> Iterator[Any]:
    """Yield the values up to the closing bracket."""
    if depth > _DEEPEST:
        raise NotEdn("nested too deep")
    dropped = 0
    for kind, token in tokens:
        if kind == "drop":
            dropped += 1
            continue
        if kind == "tag":
            continue
        if kind == "close":
            if token != closing:
                raise NotEdn("brackets that do not fit")
            return
        value = _value(kind, token, tokens, depth)
        if dropped:
            dropped -= 1
        else:
            yield value
    if closing is not None:
        raise NotEdn("a bracket that is not closed")


def _value(kind: str, token: str, tokens: Iterator[tuple[str, str]], depth: int) -> Any:
    if kind == "text":
        return _ESCAPED.sub(_unescaped, token.removeprefix("#")[1:-1])
    if kind != "open":
        return token
    within = list(_values(tokens, _CLOSING[token[-1]], depth + 1))
    return (
        within
        if not token.startswith("{")
        else {
            key: value
            for key, value in zip(within[::2], within[1::2], strict=False)
            if isinstance(key, str)
        }
    )


def _unescaped(found: re.Match[str]) -> str:
    name = found[1]
    return chr(int(name[1:], 16)) if len(name) > 1 else _CHARACTERS.get(name, name)


class PropertyTypes:
    """Read the types, and log once that they cannot be read, until they can."""

    def __init__(self) -> None:
        self._told = False

    def read(self, root: int) -> dict[str, str]:
        """Return the type of each property by the key of its name; none if the file is not there or cannot be read."""
        types = (read_json(root, _FILE) or {}).get("types")
        if isinstance(types, Mapping):
            self._told = False
            named = [*types.items()][:_MOST]
            return {
                tag_key(name.strip()): kind
                for name, kind in named
                if isinstance(kind, str) and kind in FORMS
            }
        if not self._told and _is_there(root):
            self._told = True
            _LOG.warning(
                "vault.types_unreadable",
                message="The types of properties in .obsidian/types.json cannot be read, and are not used.",
            )
        return {}


def _is_there(root: int) -> bool:
    try:
        with closing_descriptor(open_folder(root, [OBSIDIAN], exact=False)) as folder:
            SYSTEM.look(folder, _FILE)
    except OSError:
        return False
    return True
