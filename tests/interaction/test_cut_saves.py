"""A save of several requests that is cut after some of them: it is finished, and undone as a whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from notarium_devtools.http_faults import Where
from support.undo_places import PLACES, Place, Trilium

pytestmark = pytest.mark.anyio

LABELS: Where = {"path": "*/attributes*"}
CUTS: list[Where] = [{**LABELS, "nth": 2}, {**LABELS, "nth": 4}, {"method": "PATCH"}]


@pytest.mark.parametrize("cut", CUTS)
async def test_a_cut_save_is_undone_as_a_whole(cut: Where, tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        held = {"rating": "4", "draft": "1"}
        ids.append(place.put("one", "<p>x</p>", title="Plan", tags=["work"], properties=held))

    async with PLACES["trilium"](tmp_path, put) as place:
        assert isinstance(place, Trilium)
        before = place.raw(ids[0])
        place.sim.faults.status(500, **{**cut, "times": 1000})
        save = {"title": "New", "append": "y", "add_tags": ["a", "b"]}
        values = {"rating": 5, "draft": None}
        version = await place.version(ids[0])
        said = await place.call("save", id=ids[0], local_version=version, properties=values, **save)
        assert json.loads(said["error"])["subcategory"] == "in_doubt"
        place.sim.faults.clear()
        await place.harness.sync()
        note = await place.call("get", id=ids[0])
        assert (note["title"], note["text"]) == ("New", "x\n\ny")
        assert note["properties"] == {"rating": 5}
        assert {*note["tags"]} == {"work", "rating", "a", "b"}
        undone = await place.call("manage", action="undo", id=ids[0], confirm=True)
        assert undone["status"] == "undone", undone
        assert place.raw(ids[0]) == before
