"""Another device of the account: the truth it reads and the edits it makes."""

from __future__ import annotations

import pytest

from notarium_devtools.simperium import Refused, Simulator, whole_note

NOW = 1_700_000_000.0


@pytest.fixture
def sim():
    return Simulator(clock=lambda: NOW)


def test_put_with_fields_makes_a_whole_note_and_later_changes_only_them(sim):
    assert sim.put("a", content="one", tags=["x"], modificationDate=5) == 1
    assert sim.note("a") == whole_note(
        {"content": "one", "tags": ["x"], "modificationDate": 5}, now=NOW
    )

    assert sim.put("a", content="two") == 2
    assert (sim.note("a")["tags"], sim.note("a")["modificationDate"]) == (["x"], NOW)


def test_put_with_an_object_stores_it_exactly(sim):
    sim.put("a", {"content": "odd", "creationDate": "yesterday"})
    sim.put("a", {"content": "bare"})

    assert sim.note("a") == {"content": "bare"}


def test_what_is_read_and_what_was_put_can_be_changed_without_harm(sim):
    mine = {"content": "x", "tags": ["a"]}
    sim.put("a", mine)
    mine["tags"].append("b")
    sim.note("a")["tags"].append("c")
    sim.notes()["a"]["tags"].append("d")

    assert sim.note("a")["tags"] == ["a"]


def test_edit_merges_as_the_service_does(sim):
    sim.put("a", content="b")
    sim.edit("a", content="bc", tags=["t"])

    assert sim.edit("a", content="bd", base=1) == 3
    assert (sim.note("a")["content"], sim.note("a")["tags"]) == ("bcd", ["t"])
    with pytest.raises(Refused):
        sim.edit("a", content="x", base=9)


def test_trash_keeps_and_delete_removes(sim):
    sim.put("a", content="x")
    sim.put("b", content="y")

    assert sim.trash("a") == 2
    sim.delete("b")

    assert {key: note["deleted"] for key, note in sim.notes().items()} == {"a": True}
    with pytest.raises(Refused):
        sim.delete("b")


def test_an_absent_note_is_a_key_error(sim):
    with pytest.raises(KeyError):
        sim.note("a")
    with pytest.raises(KeyError):
        sim.version("a")


def test_load_gives_the_same_ids_every_time_and_the_newest_stands_first(sim):
    notes = [whole_note({"content": str(day)}, now=day) for day in (20, 10, 30)]

    ids = sim.load(notes)

    assert Simulator().load(notes) == ids
    assert [sim.note(key)["content"] for key in ids] == ["20", "10", "30"]
    first, *_ = sim.bucket().page(limit=9).entries
    assert first.id == ids[2]


def test_publishing_waits_for_the_service_to_run(sim):
    sim.put("a", {**whole_note({}, now=NOW), "systemTags": ["published"]})

    assert sim.version("a") == 1
    sim.publish("a")
    assert sim.note("a")["publishURL"].startswith("http")
