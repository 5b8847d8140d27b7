"""Cards of a canvas get another path, and no other character changes."""

import json

import pytest

from mcp_notarium.stores.vault.canvases import NotACanvas, count_cards, move_cards

CARD = {"id": "1", "type": "file", "file": "Work/Plan.md", "subpath": "#Costs", "x": 0.0}
OTHERS = [
    {"type": "text", "text": '"file": "Work/Plan.md" and [[Plan]]', "file": "Work/Plan.md"},
    {"type": "file", "file": "Plan.md"},
    {"type": "file", "file": "Work/Plan.md.md", "inner": {"type": "file", "file": "Work/Plan.md"}},
    {"type": "link", "url": "file: Work/Plan.md"},
]


@pytest.mark.parametrize("indent", [None, "\t"])
def test_only_cards_of_the_file_change(indent: str | None) -> None:
    canvas = {"file": "Work/Plan.md", "edges": [], "nodes": [CARD, *OTHERS, CARD]}
    text = json.dumps(canvas, indent=indent).replace("\n", "\r\n") + "  "
    assert count_cards(text, "Work/Plan.md") == 2
    moved = move_cards(text, "Work/Plan.md", 'New/A "b".md')
    then = CARD | {"file": 'New/A "b".md'}
    assert json.loads(moved) == canvas | {"nodes": [then, *OTHERS, then]}
    assert move_cards(moved, 'New/A "b".md', "Work/Plan.md") == text


def test_a_path_may_be_escaped_and_decomposed() -> None:
    text = '{"nodes":[{"type":"file","file":"Caf\\u0065\\u0301\\/x.md"}]}'
    assert move_cards(text, "Caf\u00e9/x.md", "y.md") == '{"nodes":[{"type":"file","file":"y.md"}]}'


@pytest.mark.parametrize("text", ["{", "[]", '{"nodes": 1}', "[" * 100_000, "x"])
def test_what_is_no_canvas_is_told(text: str) -> None:
    with pytest.raises(NotACanvas):
        count_cards(text, "a.md")


@pytest.mark.parametrize("text", ["", "\n", "{}", '{"nodes": [1, {"type": "file", "file": 2}]}'])
def test_a_canvas_without_cards_has_none(text: str) -> None:
    assert count_cards(text, "a.md") == 0
