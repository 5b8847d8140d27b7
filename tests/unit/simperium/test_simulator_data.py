"""The notes an account is filled with."""

from __future__ import annotations

import pytest

from notarium_devtools.simperium import Bucket
from notarium_devtools.simperium.data import dirty, prose, tag_objects
from notarium_devtools.simperium.objects import NOTE


@pytest.fixture(scope="module")
def notes():
    return prose(300, seed=1)


def test_prose_is_the_same_for_the_same_seed_only(notes):
    assert prose(300, seed=1) == notes
    assert prose(300, seed=2) != notes


def test_every_prose_note_would_be_accepted_by_the_service(notes):
    bucket = Bucket(rules=NOTE)
    for number, note in enumerate(notes):
        bucket.write(f"n{number}", note)

    assert len(bucket) == 300


def test_prose_is_varied(notes):
    texts = [note["content"] for note in notes]
    years = {int(note["modificationDate"] // 31_557_600) for note in notes}

    assert len(set(texts)) == 300
    assert len(years) >= 8
    assert 5 <= sum(note["deleted"] for note in notes) <= 40
    assert {tag for note in notes for tag in note["systemTags"]} == {"pinned", "markdown"}
    assert all(note["creationDate"] <= note["modificationDate"] for note in notes)
    for word in ("Łódź", "Zwetschgen", "京都", "红楼梦", "번역", "ตลาด", "🍅"):
        assert any(word in text for text in texts), word


def test_there_is_prose_for_any_count():
    texts = [note["content"] for note in prose(1_500)]

    assert len(set(texts)) == 1_500
    assert prose(0) == []


def test_tag_objects_name_every_tag_once(notes):
    tags = tag_objects(notes)

    assert {tag["name"] for tag in tags.values()} == {tag for n in notes for tag in n["tags"]}
    assert tags["project%2Fatlas"]["name"] == "project/atlas"


def test_dirty_notes_hold_every_known_kind_of_dirt():
    dirt = dirty()
    notes = list(dirt.notes.values())
    texts = [note["content"] for note in notes]

    assert dirty() == dirt
    assert any(note.get("modificationDate", 0) > 1e12 for note in notes)
    assert any(note.get("deleted") == 1 and note["deleted"] is not True for note in notes)
    assert any(note.keys() == {"content"} for note in notes)
    assert any("syncdate" in note for note in notes)
    assert any("@" in tag for note in notes for tag in note.get("tags", ()))
    assert any("\r\n" in text for text in texts)
    assert any("\ud83d" in text for text in texts)
    assert any("." in note_id for note_id in dirt.notes)
    assert max(map(len, dirt.notes)) == 256
    names = [tag.get("name") for tag in dirt.tags.values()]
    assert names.count("a-b") == 2
