"""Compare our HTML of Markdown with what Trilium's own importer makes of it: both have to read the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_notarium.markup import html_codec

ROWS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "trilium_importer_recorded.json").read_text("utf-8")
)["rows"]
OTHERWISE = {
    "para2": "a line break in Markdown is one here, and a space there",
    "quote": "a line break is one here",
    "admonition-title": "older importers know no title; a line break is one here",
    "admonition-lower": "older importers know no small letters",
    "admonition-other": "a line break is one here",
    "ordered-start": "the importer drops the first number",
    "ordered-todo": "a numbered list has no tasks here",
    "todo-mixed": "two lists here",
    "h1": "the importer moves headings down, because the title is the first",
    "setext": "the importer moves headings down",
    "fence-empty": "the importer drops an empty block",
    "table-br": "HTML in Markdown is text here",
    "html": "HTML in Markdown is text here",
    "html-block": "HTML in Markdown is text here",
    "comment": "HTML in Markdown is text here",
    "details": "HTML in Markdown is text here",
    "links": "a bare address stays text here",
    "image": "an image of another host is a link here, because the server would fetch it",
    "footnote": "footnotes are text here",
    "wikilink": "links between notes by name are text here",
    "mark": "the importer strikes what stands between single tildes",
    "math": "the oldest importer knows no formula of several lines",
    "math-money": "the importer takes amounts of money for a formula",
}
"""Where ours reads otherwise, and why."""
CODE = "fence-"
"""Importers know different sets of languages, and some as the type of another; the code itself is compared."""


@pytest.mark.parametrize("version", ["0.103.0", "0.102.1", "0.93.0"])
def test_markdown_reads_as_after_an_import_by_trilium(version: str) -> None:
    wrong = []
    for name, markdown, html, older in ROWS:
        theirs = html_codec.to_markdown(older.get(version, html))
        ours = html_codec.to_markdown(html_codec.to_html(markdown))
        if name.startswith(CODE):
            theirs, ours = (_without_language(text) for text in (theirs, ours))
        if theirs != ours and name not in OTHERWISE:
            wrong.append(f"{name}: {ours!r} instead of {theirs!r}")
    assert not wrong, "\n".join(wrong)


def _without_language(markdown: str) -> str:
    return "\n".join("```" if "```" in line else line for line in markdown.split("\n"))


def test_nothing_is_excused_that_reads_alike() -> None:
    for name, markdown, html, older in ROWS:
        ours = html_codec.to_markdown(html_codec.to_html(markdown))
        read = [html_codec.to_markdown(one) for one in (html, *older.values())]
        assert name not in OTHERWISE or any(one != ours for one in read), name
