"""Test dates in moment.js's formats against what moment 2.30.1 wrote, in its English locale."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from mcp_notarium.domain.date_formats import format_java, format_moment

RECORDED = json.loads((Path(__file__).parent / "moment_recorded.json").read_text())


def test_every_recorded_format_is_written_as_moment_writes_it() -> None:
    wrong = [
        (form, at, theirs, ours)
        for form, at, theirs in RECORDED
        if (ours := format_moment(form, datetime.fromisoformat(at))) != theirs
    ]
    assert not wrong
    assert len(RECORDED) > 600


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("yyyy_MM_dd", "2026_11_08"),
        ("MMM do, yyyy", "Nov 8th, 2026"),
        ("EEE, MM/dd/yyyy", "Sun, 11/08/2026"),
        ("E, dd.MM.yyyy", "Sun, 08.11.2026"),
        ("EEEE, MMMM do, yyyy", "Sunday, November 8th, 2026"),
        ("yyyy年MM月dd日", "2026年11月08日"),
        ("yyyy'-W'ww", "2026-W45"),
        ("d/M/yy h:mm a", "8/11/26 3:04 pm"),
        ("D DDD", "312 312"),
        ("'it''s' d", "it's 8"),
        ("qq VV", "qq VV"),
        ("'open d", "op7n 8"),
    ],
)
def test_logseqs_formats_are_javas_letters(form: str, written: str) -> None:
    assert format_java(form, datetime.fromisoformat("2026-11-08T15:04:05+00:00")) == written
