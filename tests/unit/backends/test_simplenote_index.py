"""What a listing says about its own size."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_notarium.backends.simplenote.index import page_from


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
