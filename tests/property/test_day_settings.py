"""Test settings of daily notes and templates as anything may write them: dates, EDN, places in a vault."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.domain.date_formats import format_java, format_moment
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.templates import Filling, has_code, names_title
from mcp_notarium.stores.vault import app_settings
from mcp_notarium.stores.vault.app_settings import NotEdn, read_edn
from mcp_notarium.stores.vault.paths import split_path

TIMES = st.datetimes(timezones=st.just(UTC))
PIECES = st.sampled_from(
    ["YYYY", "MM", "DD", "/", "//", "..", ".", "~", "[", "]", "[x]", "\\", "\0", "\n", ":", " ", "é", "日", "'", "a" * 90, "dddd",
     "C:", "con", ".md", ".trash", "node_modules", "logseq/bak", "%2e%2e", "\u202e", "LLLL", "X"]
)  # fmt: skip
ODD = st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40)
WHEN = datetime(2025, 6, 20, 15, 4, 5, tzinfo=UTC)


@given(ODD, TIMES)
def test_any_format_gives_a_text_for_any_time(form: str, when: datetime) -> None:
    assert isinstance(format_moment(form, when), str)
    assert isinstance(format_java(form, when), str)


@given(st.text(st.characters(exclude_characters="[]"), max_size=60), TIMES)
def test_what_stands_in_brackets_is_kept(text: str, when: datetime) -> None:
    assert format_moment(f"[{text}]", when) == text


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield root
    finally:
        os.close(root)


@pytest.fixture(name="vault", scope="module")
def _vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    vault = tmp_path_factory.mktemp("vault")
    (vault / ".obsidian").mkdir()
    (vault / "logseq").mkdir()
    return vault


@pytest.mark.attack(52)
@given(folder=ODD, form=ODD, template=ODD, when=TIMES)
def test_obsidians_settings_name_a_place_in_the_vault_or_are_refused(
    vault: Path, folder: str, form: str, template: str, when: datetime
) -> None:
    said = json.dumps({"folder": folder, "format": form, "template": template})
    (vault / ".obsidian" / "daily-notes.json").write_text(said)
    with _opened(vault) as root:
        _require_inside(root, when)


@given(folder=ODD, form=ODD, when=TIMES)
def test_logseqs_settings_name_a_place_in_the_vault_or_are_refused(
    vault: Path, folder: str, form: str, when: datetime
) -> None:
    (vault / ".obsidian" / "daily-notes.json").unlink(missing_ok=True)
    said = f":journals-directory {json.dumps(folder)} :journal/file-name-format {json.dumps(form)}"
    (vault / "logseq" / "config.edn").write_text(f"{{{said}}}")
    with _opened(vault) as root:
        _require_inside(root, when)


def _require_inside(root: int, when: datetime) -> None:
    try:
        place = app_settings.place_day(root, when)
    except InvalidRequest:
        return
    parts = split_path(place.path)
    assert parts is not None
    assert not {"..", ".", ""} & {*parts}
    assert not any(part.startswith(".") and not part.startswith("..") for part in parts)
    assert not place.path.startswith("/")


@pytest.mark.attack(52)
@given(st.binary(max_size=300) | ODD.map(str.encode))
def test_any_bytes_are_settings_or_none(vault: Path, said: bytes) -> None:
    names = (".obsidian/daily-notes.json", ".obsidian/templates.json", "logseq/config.edn")
    for name in names:
        (vault / name).write_bytes(said)
    with _opened(vault) as root:
        _require_inside(root, WHEN)
        app_settings.read_templates(root)


WORDS = st.from_regex(r":?[a-z][a-z0-9-]{0,8}(/[a-z]{1,5})?", fullmatch=True)
VALUES = st.recursive(
    WORDS | st.text(max_size=12).map(lambda text: ("text", text)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
GAPS = st.sampled_from([" ", ", ", "\n", " ; no value }]\n", " #_dropped ", " #_{:a [1 2]} "])


def _written(value: Any, gap: str) -> str:
    if isinstance(value, tuple):
        said = value[1].replace("\\", "\\\\").replace('"', '\\"')
        return f'"{said}"'
    if isinstance(value, list):
        return f"[{gap.join(['', *(_written(one, gap) for one in value), ''])}]"
    if isinstance(value, dict):
        pairs = [f"{key}{gap}{_written(one, gap)}" for key, one in value.items()]
        return f"{{{gap.join(['', *pairs, ''])}}}"
    return str(value)


def _read(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[1]
    if isinstance(value, list):
        return [_read(one) for one in value]
    return {key: _read(one) for key, one in value.items()} if isinstance(value, dict) else value


@given(VALUES, GAPS)
def test_edn_is_read_as_it_was_written(value: Any, gap: str) -> None:
    assert read_edn(_written(value, gap)) == _read(value)


@given(st.text('{}[]()":;#_\\ \na', max_size=80))
def test_any_text_is_edn_or_is_refused(text: str) -> None:
    try:
        read_edn(text)
    except NotEdn:
        return


_PLACES = re.compile(r"\{\{[ \t]*(title|date|time)[ \t]*(:[^\n{}]*)?[ \t]*\}\}", re.IGNORECASE)
TEMPLATE = st.lists(
    st.sampled_from(["{{date}}", "{{ TITLE }}", "{{time:HH}}", "{{date:[}}]}}", "{{x}}", "{{", "}}", "<% a %>", "# ", "\n", "---\n"])
    | st.text(max_size=8),
    max_size=10,
).map("".join)  # fmt: skip


@given(TEMPLATE, st.text(st.characters(exclude_characters="{}"), max_size=20))
def test_a_template_is_changed_at_its_places_alone(template: str, title: str) -> None:
    filled = Filling(WHEN, title, "[D]", "[T]").fill(template)
    at = 0
    for part in re.split(
        r"\{\{[ \t]*(?:title|date|time)[^\n{}]*\}\}", template, flags=re.IGNORECASE
    ):
        found = filled.find(part, at)
        assert found >= 0
        at = found + len(part)
    if not re.search(r"\{\{[ \t]*(title|date|time)", template, re.IGNORECASE):
        assert filled == template
    assert ("<% a %>" in template) <= has_code(template)
    assert names_title("{{title}}" + template)
