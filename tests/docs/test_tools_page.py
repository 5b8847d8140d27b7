"""Test that docs/tools.md is the generated page."""

from pathlib import Path

from notarium_devtools.tools_page import document

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"


def test_page_is_what_the_tools_say_today():
    assert PAGE.read_text(encoding="utf-8") == document()
