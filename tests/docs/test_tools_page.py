"""The page about the tools says what the tools say."""

from pathlib import Path

from notarium_devtools.tools_page import document

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"


def test_page_is_what_the_tools_say_today():
    assert PAGE.read_text(encoding="utf-8") == document()
