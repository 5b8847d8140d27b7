"""Tags are counted by their key, outside the trash, from the index alone."""

from mcp_notarium.domain.note import Content
from mcp_notarium.storage.note_lookup import TaggedNote, count_tags, find_tagged
from support import corpus
from support.cache_room import store


def note(number, *tags, trash=False):
    return corpus.make(f"id{number}", Content("text", tags, trash))


def test_tags_are_counted_over_spellings_and_without_the_trash(cache):
    store(
        cache,
        [
            note(1, "Work", "home", "work"),
            note(2, "work"),
            note(3, "WORK", trash=True),
            note(4, "zeta"),
            note(5, "gone", trash=True),
        ],
    )
    counted = [("Work", 2), ("home", 1), ("zeta", 1)]
    tags, total = count_tags(cache.database, limit=9)
    assert ([*tags.items()], total) == (counted, 3)
    pages = [count_tags(cache.database, limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [[*tags.items()] for tags, _ in pages] == [counted[:2], counted[2:], []]
    assert {total for _, total in pages} == {3}


def test_tags_that_are_taken_off_are_gone(cache):
    store(cache, [note(1, "old", "kept")])
    store(cache, [corpus.make("id1", Content("text", ("kept",)), version=2)])
    assert count_tags(cache.database, limit=9)[0] == {"kept": 1}
    assert find_tagged(cache.database, "old") == []


def test_the_notes_of_a_tag_are_found_in_every_spelling_and_in_the_trash(cache):
    store(
        cache, [note(1, "E\u0301t\u00e9"), note(2, "other"), note(3, "\u00e9T\u00c9", trash=True)]
    )
    assert find_tagged(cache.database, "été") == [
        TaggedNote("id1", trash=False, tags=("E\u0301t\u00e9",)),
        TaggedNote("id3", trash=True, tags=("éTÉ",)),
    ]
