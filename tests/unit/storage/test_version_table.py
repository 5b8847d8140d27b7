"""Versions are limited by age and size, belong to the id of their note, and go when it goes."""

from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Tombstone, flags
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.version_table import ROW_BYTES, Makers, VersionLimits
from support import corpus
from support.cache_room import store

DAY = 86_400.0
NOW = 1_700_000_000.0
PINNED = flags("pinned")


def note(note_id, text="words", *tags):
    content = Content(text, tags, title=f"of {text}", properties=PINNED)
    return replace(corpus.make(note_id, content), etag="r1")


def keep(cache, revision, number, *, at=NOW, in_store=False, stays=False):
    facts = {"number": number, "at": at, "by": "agent 1", "made": "r2"}
    with cache.transaction():
        cache.versions.keep(revision, **facts, in_store=in_store, stays=stays)


def kept(cache):
    return cache.database.rows("SELECT note_id, number FROM note_versions ORDER BY pk")


def texts(cache):
    return cache.database.rows(
        "SELECT note_id, number FROM note_versions WHERE text IS NOT NULL ORDER BY pk"
    )


def limited(cache, *, at=NOW, **limits):
    return Cache(cache.database, limits=VersionLimits(**limits), clock=lambda: at)


def end_cycle(cache):
    cache.progress.record_cycle(serving=0, duration_ms=1, status="ok", error=None)


def test_a_version_is_read_with_its_text_or_with_its_name_in_the_store(cache):
    keep(cache, replace(note("a", "zwölf", "x"), server_version=7, modified_at=5.0), 3)
    keep(cache, note("a", "newer"), 4, at=NOW + 1, in_store=True)
    newest, oldest = cache.versions.of("a")
    assert (newest.local_version, newest.etag, newest.made) == (4, "r1", "r2")
    assert (oldest.local_version, oldest.server_version, oldest.modified_at) == (3, 7, 5.0)
    assert (oldest.replaced_at, oldest.replaced_by) == (NOW, "agent 1")
    assert cache.versions.get("a", 3) == (oldest, note("a", "zwölf", "x").content)
    assert cache.versions.get("a", 4) == (newest, None)
    assert "newer" not in repr(cache.database.rows("SELECT * FROM note_versions"))
    assert cache.versions.get("a", 5) is None


def test_versions_go_when_their_days_are_over(cache):
    few = limited(cache, days=10)
    keep(few, note("a"), 1, at=NOW - 10 * DAY - 1)
    keep(few, note("a"), 2, at=NOW - 10 * DAY + 1)
    end_cycle(few)
    assert kept(few) == [("a", 2)]
    end_cycle(limited(cache, days=10, at=NOW + DAY))
    assert kept(few) == []


def test_the_oldest_go_first_when_all_are_too_large(cache):
    small = limited(cache, size=2 * (ROW_BYTES + 1000))
    text = "x" * 1000
    for number, note_id in enumerate("abc"):
        keep(small, note(note_id, text), 1, at=NOW + number * 2 * DAY)
    assert texts(small) == [("b", 1), ("c", 1)]
    keep(small, note("d", text), 1, at=NOW + 6 * DAY, in_store=True)
    assert texts(small) == [("c", 1)], "a row counts, too"
    keep(small, note("e", text * 9), 1, at=NOW + 8 * DAY)
    assert texts(small) == [("c", 1)], "one that is too large alone is not kept"


def test_of_the_last_change_to_a_note_the_name_is_left(cache):
    small = limited(cache, size=2 * (ROW_BYTES + 1000))
    for number in range(1, 4):
        keep(small, note("a", "x" * 900), number, at=NOW + number)
    keep(small, note("b", "x" * 1900), 1, at=NOW + 4)
    assert kept(small) == [("a", 3), ("b", 1)]
    version, content = small.versions.get("a", 3)
    assert (version.replaced_by, version.made, content) == ("agent 1", "r2", None)
    keep(small, note("b", "x" * 1900), 2, at=NOW + 5)
    assert kept(small) == [("b", 2)], "a name goes, too, if it has no room"


def test_what_a_change_took_away_stays_for_a_day(cache):
    small = limited(cache, size=3 * (ROW_BYTES + 1000))
    text = "x" * 1000
    keep(small, note("a", text), 1, at=NOW)
    keep(small, note("a", text), 2, at=NOW + 0.5, stays=True)
    for number in range(1, 9):
        assert small.versions.has_room(1000, now=NOW + number)
        keep(small, note("b", text), number, at=NOW + number)
    keep(small, note("b", text), 9, at=NOW + 9, stays=True)
    assert texts(small) == [("a", 2), ("b", 8), ("b", 9)]
    keep(small, note("c", text), 1, at=NOW + 10, stays=True)
    assert texts(small) == [("a", 2), ("b", 9), ("c", 1)]
    assert not small.versions.has_room(1000, now=NOW + 11)
    keep(small, note("d", text), 1, at=NOW + 11, stays=True)
    keep(small, note("a", text), 3, at=NOW + 12)
    assert texts(small) == [("a", 2), ("b", 9), ("c", 1)], "what has no room is not kept"
    assert small.versions.has_room(1000, now=NOW + DAY + 9)
    keep(small, note("a", text), 4, at=NOW + DAY + 9.5, stays=True)
    assert texts(small) == [("c", 1), ("a", 4)]


def test_a_deleted_note_stays_for_a_day(cache):
    small = limited(cache, size=2 * (ROW_BYTES + 1000))
    full_copy = b"k" * 995
    with small.transaction():
        small.versions.keep(
            note("a"), number=3, at=NOW, by="x", made=None, in_store=False, full_copy=full_copy
        )
    for number in range(4, 12):
        keep(small, note("a", "x" * 1000), number, at=NOW + number)
    assert ("a", 3) in kept(small)
    assert small.versions.removed("a")[0].content.native == full_copy.decode()


def test_versions_are_counted_when_a_sixteenth_more_may_be_there(cache):
    def add(versions, numbers):
        for number in numbers:
            keep(versions, note("a", "x" * 700), number, at=NOW + number, stays=number == 1)
        return [number for _, number in kept(versions)]

    large = limited(cache, size=64 * 1000)
    assert add(large, range(1, 66)) == [*range(1, 66)]
    assert add(large, [66]) == [1, *range(4, 67)], "what a change of the day took away stays"
    assert add(large, range(67, 71)) == [1, *range(4, 71)]
    another_process = limited(cache, size=64 * 1000)
    assert add(another_process, [71]) == [1, *range(9, 72)]


def test_with_no_days_nothing_is_kept(cache):
    keep(cache, note("a"), 1)
    none = limited(cache, days=0, at=NOW + 1)
    keep(none, note("a"), 2, at=NOW + 1)
    assert kept(cache) == [("a", 1)]
    end_cycle(none)
    assert kept(cache) == []


@pytest.mark.parametrize("emptied", [False, True])
def test_the_versions_of_a_removed_note_go_with_it(cache, emptied):
    store(cache, [note("a"), note("b")])
    keep(cache, note("a"), 1)
    keep(cache, note("b"), 1)
    if emptied:
        with cache.transaction():
            cache.notes.clear()
    assert kept(cache) == [("a", 1), ("b", 1)]
    store(cache, [Tombstone("a")])
    assert kept(cache) == [("b", 1)]


def test_versions_follow_a_renamed_note_and_no_former_note_of_that_name(cache):
    store(cache, [note("a")])
    keep(cache, note("a", "of a"), 1)
    keep(cache, note("b", "of a note that is gone"), 1)
    with cache.transaction():
        cache.notes.rename("a", "b")
    assert kept(cache) == [("b", 1)]
    assert cache.versions.get("b", 1)[1].text == "of a"


@pytest.mark.parametrize("emptied", [False, True])
def test_the_versions_of_a_note_go_when_it_becomes_hidden(cache, emptied):
    ruled = Cache(cache.database, Visibility(hidden_tags=("private",)))
    apply_rules(ruled)
    store(ruled, [note("a"), note("b")])
    keep(ruled, note("a"), 1)
    keep(ruled, note("b"), 1)
    if emptied:
        with ruled.transaction():
            ruled.notes.clear()
    store(ruled, [replace(note("a", "words", "private"), etag="r2")])
    assert kept(ruled) == [("b", 1)]


def test_versions_that_new_rules_hide_go_with_the_rules(cache):
    store(cache, [note("tagged", "w", "private"), note("untagged"), note("other")])
    keep(cache, note("tagged"), 1)
    keep(cache, note("untagged", "w", "Private"), 1)
    keep(cache, replace(note("untagged"), tags_understood=False), 2)
    keep(cache, note("not loaded", "w", "private"), 1)
    keep(cache, note("other"), 1)
    apply_rules(Cache(cache.database, Visibility(hidden_tags=("private",))))
    assert kept(cache) == [("other", 1)]


def test_who_made_a_text_stays_when_an_undo_makes_it_again():
    makers = Makers([(2, "a", "a person"), (1, "b", "agent"), (0, "a", "agent")])
    assert (makers.of("a"), makers.of("a", number=1), makers.of("c")) == ("a person", "agent", "")


def test_an_older_text_that_another_program_writes_again_is_not_credited_to_who_made_it_first():
    # 1 is the agent's creation, 2 the agent's change, 3 came from elsewhere over it, and 4 is what 2 was.
    makers = Makers([(2, None, ""), (1, "b", "agent"), (0, "a", "agent")])
    assert [makers.of(etag, number=n) for n, etag in ((1, "a"), (2, "b"), (3, "c"), (4, "b"))] == [
        "agent", "agent", "", "",
    ]  # fmt: skip
