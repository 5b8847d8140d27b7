"""Test that a person reads in words what the audit log names; the names are found in the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mcp_notarium
from mcp_notarium.audit.chain import ActName
from mcp_notarium.report import words

SOURCES = Path(mcp_notarium.__file__).parent
DOCUMENT = SOURCES.parents[1] / "docs" / "audit.md"
NAMED = re.compile(r"\b(sub)?category(?:: str)? ?= ?\"(\w+)\"")
FEWEST = 60


def outcomes() -> set[str]:
    """Names that a failed act can have in the log: ``subcategory``, else ``category`` of its error."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    return {one[2] if one[1] else one[2].lower() for text in texts for one in NAMED.finditer(text)}


def test_every_reason_of_a_refusal_has_words() -> None:
    found = outcomes()
    assert len(found) >= FEWEST
    assert sorted(found - set(words.REASONS)) == []


@pytest.mark.parametrize("act", ActName)
def test_every_act_of_the_chain_has_words_and_is_documented(act: ActName) -> None:
    tool, command = act.removeprefix("tool."), act.removeprefix("cli.")
    assert act in words.OWN or tool in words.TOOLS or command in words.COMMANDS
    assert f"`{act}`" in DOCUMENT.read_text(encoding="utf-8")
