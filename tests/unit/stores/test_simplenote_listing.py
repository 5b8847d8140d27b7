"""What a listing says about its own size."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.stores.contract import Entry
from mcp_notarium.stores.json_answers import DEEPEST
from mcp_notarium.stores.simplenote.note_codec import page_from


def _answer(**fields: Any) -> dict[str, Any]:
    entries = [{"id": f"n{number}", "v": 1} for number in range(3)]
    return {"index": entries, "current": "cv1"} | fields


@pytest.mark.parametrize(
    ("fields", "total"),
    [
        ({}, None),
        ({"count": 2325, "mark": "m"}, 2325),
        ({"count": 2325}, 2325),
        ({"count": 3}, 3),
        ({"count": 3, "mark": "m"}, None),
        ({"count": 2}, None),
        ({"count": True}, None),
        ({"count": "3"}, None),
        ({"count": -1}, None),
        ({"count": 10**12}, None),
    ],
)
def test_a_count_is_believed_only_where_it_can_be_that_of_the_whole_listing(
    fields: dict[str, Any], total: int | None
) -> None:
    assert page_from(_answer(**fields), mark=None, with_content=False).total == total


@pytest.mark.parametrize("odd", ["", ".", "..", "x" * 257, "ü" * 129, "a\ud83d"])
@pytest.mark.parametrize("with_content", [True, False])
def test_a_note_that_cannot_be_asked_for_is_left_out_and_counted(
    odd: str, *, with_content: bool
) -> None:
    items = [{"id": "a", "v": 1}, {"id": odd, "v": 1}, {"id": "b", "v": 2}]
    page = page_from(_answer(index=items, mark="m"), mark=None, with_content=with_content)
    assert [entry.id for entry in page.entries] == ["a", "b"]
    assert page.left_out == 1
    assert page.next_mark == "m"


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, {"v": 1}, {"id": 7, "v": 1}])
def test_what_is_no_entry_is_left_out_and_counted_beside_others(odd: Any) -> None:
    items = [odd, {"id": "a", "v": 1}]
    page = page_from(_answer(index=items), mark=None, with_content=True)
    assert [entry.id for entry in page.entries] == ["a"]
    assert page.left_out == 1
    with pytest.raises(StoreProtocolError):
        page_from(_answer(index=[odd]), mark=None, with_content=True)


@pytest.mark.parametrize("odd", [None, True, 1.5, -1, "1", [], {}, 10**18])
def test_a_note_without_a_version_number_is_asked_for_by_itself(odd: Any) -> None:
    items = [
        {"id": "a", "v": odd, "d": {"content": "x"}},
        {"id": "b", "v": 1, "d": {"content": ""}},
    ]
    first, second = page_from(_answer(index=items), mark=None, with_content=True).entries
    assert first == Entry("a", "")
    assert isinstance(second, Revision)


@pytest.mark.parametrize("place", ["mark", "current"])
def test_a_place_too_long_to_be_kept_is_refused(place: str) -> None:
    assert page_from(_answer(**{place: "m" * 1024}), mark=None, with_content=True)
    with pytest.raises(StoreProtocolError):
        page_from(_answer(**{place: "m" * 1025}), mark=None, with_content=True)


def test_a_note_nested_too_deeply_does_not_affect_other_notes() -> None:
    deep: Any = "x"
    for _ in range(DEEPEST + 1):
        deep = [deep]
    answer = {
        "current": "c",
        "index": [
            {"id": "odd", "v": 1, "d": {"content": "odd", "foreign": deep}},
            {"id": "good", "v": 1, "d": {"content": "good"}},
        ],
    }
    odd, good = page_from(answer, mark=None, with_content=True).entries
    assert isinstance(odd, Entry)
    assert isinstance(good, Revision)
