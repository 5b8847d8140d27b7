import hashlib
import math
import random
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Note, Tombstone, flags
from mcp_notarium.search.parser import parse
from mcp_notarium.storage import fts_index, integrity
from mcp_notarium.storage.note_rows import BATCH
from mcp_notarium.storage.note_table import Applied, Counts
from support import corpus
from support.cache_room import find, make, reopen, store
from support.long import sample


def apply(cache, *changes):
    with cache.transaction():
        return cache.notes.apply(changes)


def note(number=1, text="one two\nthree", *, tags=("a", "B"), trash=False, version=1, **more):
    return corpus.make(f"id{number}", Content(text, tags, trash), version=version, **more)


def edited(revision, text=None, **more):
    content = revision.content if text is None else replace(revision.content, text=text)
    version = (revision.server_version or 0) + 1
    return replace(revision, content=content, etag=f"e{version}", server_version=version, **more)


def test_a_stored_revision_reads_back_as_note_and_as_base(either):
    revision = replace(
        note(created_at=12.75, modified_at=99.5, version=7),
        content=Content("one two\nthree", ("a", "B"), properties=flags("pinned", "x")),
        tags_understood=False,
        raw=bytes(range(256)),
    )
    assert apply(either, revision) == Applied(stored=1)
    assert either.notes.get("id1") == Note(
        id="id1",
        local_version=7,
        server_version=7,
        text="one two\nthree",
        tags=("a", "B"),
        trash=False,
        created_at=12,
        modified_at=99,
        properties=flags("pinned", "x"),
    )
    assert either.notes.base("id1") == revision
    assert either.notes.etag("id1") == revision.etag


def test_what_was_never_stored_is_none(cache):
    assert cache.notes.get("nobody") is None
    assert cache.notes.base("nobody") is None
    assert cache.notes.etag("nobody") is None
    assert cache.notes.get("lone \ud800") is None


def test_every_note_of_a_motley_corpus_survives_a_restart_exactly(tmp_path):
    revisions = list(corpus.revisions(150, mix=corpus.MOTLEY))
    cache = make(tmp_path)
    store(cache, revisions)
    cache.close()
    again = reopen(tmp_path)
    assert [again.notes.base(revision.id) for revision in revisions] == revisions
    assert again.notes.etags() == {revision.id: revision.etag for revision in revisions}
    again.close()


def test_applying_outside_a_transaction_is_an_error(cache):
    with pytest.raises(RuntimeError):
        cache.notes.apply([note()])
    with pytest.raises(RuntimeError):
        cache.notes.clear()
    assert cache.notes.get("id1") is None


def test_an_equal_etag_changes_nothing(cache):
    apply(cache, note())
    other_text = replace(note(), content=Content("never stored"))
    assert apply(cache, other_text) == Applied(unchanged=1)
    assert cache.notes.get("id1").text == "one two\nthree"
    assert cache.notes.get("id1").local_version == 1


def test_the_local_version_starts_with_the_servers_and_never_falls_behind_it(cache):
    numbers = []
    for version, etag in ((5, "a"), (6, "b"), (9, "c"), (None, "d"), (3, "e")):
        apply(cache, replace(note(), server_version=version, etag=etag))
        numbers.append(cache.notes.get("id1").local_version)
    assert numbers == [5, 6, 9, 10, 11]


def test_a_note_without_a_server_version_starts_at_one(cache):
    apply(cache, replace(note(), server_version=None))
    assert cache.notes.get("id1").local_version == 1


def test_a_stale_number_from_before_a_clear_never_matches_other_text(cache):
    numbered = note(1, version=4)
    own = replace(note(2), server_version=None)
    apply(cache, numbered, own)
    for text in ("second", "third"):
        apply(cache, replace(own, etag=text, content=Content(text)))
    assert cache.notes.get("id2").local_version == 3
    with cache.transaction():
        cache.notes.clear()
    apply(cache, replace(own, etag="fourth", content=Content("fourth")), numbered)
    assert cache.notes.get("id2").local_version > 3


def test_clearing_where_all_numbers_are_the_servers_gives_them_again(cache):
    apply(cache, note(version=4))
    with cache.transaction():
        cache.notes.clear()
    apply(cache, note(version=4))
    assert cache.notes.get("id1").local_version == 4


def test_clearing_leaves_nothing_to_find_and_a_sound_index(cache):
    store(cache, corpus.revisions(40))
    with cache.transaction():
        cache.notes.clear()
    assert cache.notes.counts() == Counts(0, 0)
    assert cache.notes.etags() == {}
    assert cache.search.find_words(parse("note"), limit=5).total == 0
    assert integrity.check(cache.database) == ()
    store(cache, corpus.revisions(40))
    assert cache.notes.counts().total == 40


def test_a_tombstone_removes_everything_of_its_note(cache):
    apply(cache, note(1), note(2))
    assert apply(cache, Tombstone("id1"), Tombstone("unknown")) == Applied(removed=1, unchanged=1)
    assert cache.notes.get("id1") is None
    for table in ("notes", "note_base", "note_tags"):
        assert {row[0] for row in cache.database.rows(f"SELECT pk FROM {table}")} == {2}
    assert cache.search.find_words(parse("one"), limit=5).total == 1
    assert integrity.check(cache.database) == ()


def test_changes_of_one_note_in_one_call_count_in_the_order_given(cache):
    first = note(text="first")
    done = apply(cache, first, edited(first, "second"), Tombstone("id1"), edited(first, "third"))
    assert done == Applied(stored=3, removed=1)
    assert cache.notes.get("id1").text == "third"


@pytest.mark.parametrize("many", [1, 9, BATCH + 7], ids=str)
def test_edits_and_removals_are_searchable_at_once_in_any_number(cache, many):
    before = [note(number, "wombat " + "x" * number) for number in range(2 * many)]
    apply(cache, *before)
    edits = [edited(revision, "platypus") for revision in before[:many]]
    apply(cache, *edits, *[Tombstone(revision.id) for revision in before[many:]])
    assert cache.search.find_words(parse("wombat"), limit=1).total == 0
    assert cache.search.find_words(parse("platypus"), limit=1).total == many
    assert cache.notes.counts() == Counts(many, 0)
    assert integrity.check(cache.database) == ()


@pytest.mark.parametrize("many", [1, 9, 10, 99, 211], ids=str)
def test_any_number_of_notes_is_stored_whole(cache, many):
    tagged = [note(n, f"text {n}", tags=tuple(map(str, range(n % 4)))) for n in range(many)]
    apply(cache, *tagged)
    assert [cache.notes.base(revision.id) for revision in tagged] == tagged
    assert cache.database.number("SELECT count(*) FROM note_tags") == sum(
        n % 4 for n in range(many)
    )


def parts_of_index(cache):
    return cache.database.number("SELECT count(DISTINCT segid) FROM notes_fts_idx")


def test_words_of_a_failed_write_are_not_in_the_index(cache, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(cache.notes.index, "_record_changes", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            apply(cache, *[note(number, "wombat") for number in range(300)])
    apply(cache, *[note(number, "platypus") for number in range(3)])
    assert cache.search.find_words(parse("platypus"), limit=1).total == 3
    assert cache.search.find_words(parse("wombat"), limit=1).total == 0
    assert integrity.check(cache.database) == ()


def test_single_writes_merge_nothing_and_sixteen_are_merged_at_rest(cache):
    for number in range(15):
        apply(cache, note(number, f"wombat {number}"))
    assert not cache.notes.index.tidy_due
    for number in range(15, 40):
        apply(cache, note(number, f"wombat {number}"))
    assert parts_of_index(cache) == 40
    assert cache.notes.index.tidy_due
    while cache.notes.index.tidy():
        pass
    assert parts_of_index(cache) < 4
    assert not cache.notes.index.tidy_due
    assert cache.search.find_words(parse("wombat"), limit=1).total == 40
    assert integrity.check(cache.database) == ()


def test_a_load_merges_nothing_however_many_pages_it_has(cache):
    for start in range(0, 17 * 251, 251):
        apply(cache, *[note(number, f"wombat {number}") for number in range(start, start + 251)])
    assert parts_of_index(cache) == 17
    assert cache.search.find_words(parse("wombat"), limit=1).total == 17 * 251


@pytest.mark.parametrize("many", [250, 251])
def test_merging_that_was_put_off_is_done_at_rest(cache, monkeypatch, many):
    shrunk = []
    shrink = cache.database.shrink
    monkeypatch.setattr(
        cache.database, "shrink", lambda: shrunk.append(parts_of_index(cache)) or shrink()
    )
    for start in range(0, 3 * many, many):
        apply(cache, *[note(number, f"wombat {number}") for number in range(start, start + many)])
    assert parts_of_index(cache) == 3
    while cache.notes.index.tidy():
        pass
    left = 1 if many > 250 else 3
    assert parts_of_index(cache) == left
    assert shrunk == [left], "its pages are let go of at the end"
    assert cache.search.find_words(parse("wombat"), limit=1).total == 3 * many
    assert integrity.check(cache.database) == ()


def secret_word(number):
    """A word of digits: the index does not stem it, and stores most of it in one piece."""
    return str(int(hashlib.sha256(f"{number}".encode()).hexdigest(), 16))[:16]


def in_index(cache, numbers):
    """Which of these notes' words stand anywhere in the index, live or left behind."""
    data = "SELECT block FROM notes_fts_data UNION ALL SELECT CAST(term AS BLOB) FROM notes_fts_idx"
    blocks = b"".join(row[0] for row in cache.database.rows(data))
    return {number for number in numbers if secret_word(number)[3:].encode() in blocks}


def say_merged(cache, *, days_ago):
    with cache.transaction():
        cache.database.run(
            "UPDATE search_index SET merged_at = unixepoch() - ?", (days_ago * 86_400,)
        )


def test_words_of_a_deleted_note_are_found_no_more_at_once_and_leave_the_index_at_rest(cache):
    apply(cache, *[note(number, secret_word(number)) for number in range(3)])
    say_merged(cache, days_ago=0)
    apply(cache, Tombstone("id0"))
    assert cache.search.find_words(parse(secret_word(0)), limit=1).total == 0
    assert find(cache, parse(secret_word(0)[2:9]), limit=1).total == 0
    assert list(cache.vocabulary.containing(secret_word(0)[2:], limit=1)) == []
    tidy_up(cache)
    assert in_index(cache, range(3)) == {1, 2}
    assert not cache.notes.index.tidy_due


def edit_one(cache, *, merged_days_ago):
    """Store ten notes and take the word out of the first; it was merged so many days ago."""
    apply(cache, *[note(number, secret_word(number)) for number in range(10)])
    say_merged(cache, days_ago=merged_days_ago)
    apply(cache, edited(note(0), "something else"))


def tidy_up(cache):
    while cache.notes.index.tidy():
        pass


def test_words_of_a_replaced_text_are_found_no_more_at_once(cache):
    edit_one(cache, merged_days_ago=0)
    assert cache.search.find_words(parse(secret_word(0)), limit=1).total == 0
    assert find(cache, parse(secret_word(0)[2:9]), limit=1).total == 0
    assert list(cache.vocabulary.containing(secret_word(0)[2:], limit=1)) == []
    assert cache.search.find_words(parse("something"), limit=1).total == 1
    assert integrity.check(cache.database) == ()


@pytest.mark.parametrize(("days", "gone"), [(0, False), (1, True), (-2, True)])
def test_words_of_a_replaced_text_leave_the_index_once_a_day(cache, days, gone):
    edit_one(cache, merged_days_ago=days)
    tidy_up(cache)
    assert in_index(cache, range(10)) == set(range(gone, 10))
    assert not cache.notes.index.tidy_due
    assert integrity.check(cache.database) == ()


@pytest.mark.parametrize("last_words", [0, 5], ids=["of the note itself", "of another note"])
def test_words_of_a_replaced_text_leave_the_index_at_rest_when_a_note_is_deleted(cache, last_words):
    edit_one(cache, merged_days_ago=0)
    apply(cache, Tombstone(f"id{last_words}"))
    tidy_up(cache)
    assert in_index(cache, range(10)) == set(range(1, 10)) - {last_words}


def test_a_text_that_is_replaced_during_the_merge_is_remembered(cache):
    edit_one(cache, merged_days_ago=1)
    assert cache.notes.index.tidy()
    apply(cache, edited(note(1), "something else"))
    tidy_up(cache)
    apply(cache, Tombstone("id9"))
    tidy_up(cache)
    assert in_index(cache, range(10)) == set(range(2, 9))


def test_words_of_many_deleted_notes_are_gone_from_the_index_after_tidying(cache):
    apply(cache, *[note(number, secret_word(number)) for number in range(60)])
    apply(cache, *[Tombstone(f"id{number}") for number in range(50)])
    assert cache.search.find_words(parse(secret_word(3)), limit=1).total == 0
    slices = 0
    while cache.notes.index.tidy():
        slices += 1
        assert slices < 50
    assert in_index(cache, range(60)) == set(range(50, 60))
    assert cache.search.find_words(parse(secret_word(55)), limit=1).total == 1
    assert integrity.check(cache.database) == ()


def long_text(dice):
    words = ["ribbon", "orchard", "harbour", "timber", "ledger", "meadow"]
    return " ".join(dice.choices(words, k=80))


def load_in_two(cache, dice):
    """Store 520 notes and merge them, so that FTS5 keeps them apart from what a few later writes say."""
    notes = [note(number, long_text(dice)) for number in range(520)]
    apply(cache, *notes[:260])
    apply(cache, *notes[260:])
    tidy_up(cache)
    return notes


def test_a_note_that_is_deleted_after_an_edit_and_a_merge_leaves_no_word(cache):
    dice = random.Random(1)
    load_in_two(cache, dice)
    for number in range(16):
        apply(cache, edited(note(number), long_text(dice)))
    tidy_up(cache)
    apply(cache, Tombstone("id5"))
    assert integrity.check(cache.database) == ()
    tidy_up(cache)
    assert integrity.check(cache.database) == ()


@pytest.mark.parametrize("seed", sample("histories of the index", range(3), 1))
def test_the_index_agrees_with_the_notes_after_each_step_of_any_history(tmp_path, seed):
    dice = random.Random(seed)
    caches = [make(tmp_path), reopen(tmp_path)]
    there = load_in_two(caches[0], dice)
    for number in range(520, 640):
        cache = dice.choice(caches)
        step = dice.choices(["edit", "add", "delete", "merge"], weights=[40, 5, 2, 8])[0]
        at = dice.randrange(20)
        if step == "edit":
            there[at] = edited(there[at], dice.choice([there[at].content.text, long_text(dice)]))
            apply(cache, there[at])
        elif step == "add":
            there.append(note(number, long_text(dice)))
            apply(cache, there[-1])
        elif step == "delete":
            apply(cache, Tombstone(there.pop(dice.choice([at, -1])).id))
        else:
            while cache.notes.index.tidy() and dice.random() < 0.5:
                pass
        assert integrity.walk(dice.choice(caches).database, deep=True) == ()
    for cache in caches:
        cache.close()


def test_words_of_a_deleted_note_leave_the_index_also_if_notes_are_saved_between_the_slices(cache):
    dice = random.Random(1)
    words = [f"word{number}" for number in range(3000)]
    texts = [" ".join(dice.choices(words, k=150)) for _ in range(3000)]
    texts[4:7] = map(secret_word, range(4, 7))
    apply(cache, *[note(number, text) for number, text in enumerate(texts)])
    tidy_up(cache)
    apply(cache, Tombstone("id5"))
    assert cache.notes.index.tidy()
    for number in range(3000, 3002):
        apply(cache, note(number, texts[number - 3000]))
    tidy_up(cache)
    assert in_index(cache, range(4, 7)) == {4, 6}
    assert integrity.check(cache.database) == ()


def test_a_whole_merge_goes_on_however_many_notes_are_saved_between_its_slices(cache, monkeypatch):
    monkeypatch.setattr(fts_index, "_SLICE_PAGES", 5)
    apply(cache, *[note(number, f"{secret_word(number)} " * 40) for number in range(1000)])
    tidy_up(cache)
    apply(cache, Tombstone("id5"))
    for number in range(1000, 1300):
        cache.notes.index.tidy()
        apply(cache, note(number))
    assert not in_index(cache, [5])
    assert parts_of_index(cache) < 30
    tidy_up(cache)
    assert parts_of_index(cache) == 1
    assert integrity.check(cache.database) == ()


@pytest.mark.parametrize("last", [10, 600], ids=["in one page", "in many pages"])
@pytest.mark.parametrize("large", ["a text, deleted again", "as many notes again"])
def test_words_of_deleted_notes_leave_the_index_also_after_a_write_as_large_as_all(
    cache, last, large
):
    apply(cache, *[note(number, secret_word(number)) for number in range(600)])
    for number in range(3):
        apply(cache, Tombstone(f"id{number}"))
        tidy_up(cache)
    apply(cache, *[Tombstone(f"id{number}") for number in range(last, 600)])
    tidy_up(cache)
    apply(cache, Tombstone("id3"), Tombstone("id4"))
    if large == "as many notes again":
        apply(
            cache, *[note(number, secret_word(number)[::-1]) for number in range(600, 600 + last)]
        )
    else:
        apply(cache, note(600, " ".join(map(secret_word, range(600, 600 + 3 * last)))))
        apply(cache, Tombstone("id600"))
    for _ in range(20):
        cache.notes.index.tidy()
    assert not cache.notes.index.tidy_due
    found = in_index(cache, range(2400))
    assert found <= set(range(5, last))
    assert len(found) > last / 3, "the others are looked for in the right place"
    assert integrity.check(cache.database) == ()


def test_a_merge_that_is_asked_for_when_one_begins_is_not_forgotten(cache, tmp_path, monkeypatch):
    elsewhere = reopen(tmp_path)
    apply(cache, *[note(number, secret_word(number)) for number in range(16)])
    transaction = cache.database.transaction

    def late():
        monkeypatch.undo()
        apply(elsewhere, Tombstone("id0"))
        return transaction()

    monkeypatch.setattr(cache.database, "transaction", late)
    tidy_up(cache)
    assert in_index(cache, range(16)) == set(range(1, 16))
    elsewhere.close()


def test_tidying_when_nothing_is_due_writes_nothing(cache):
    apply(cache, note())
    watcher = cache.database.number("SELECT total_changes()")
    assert cache.notes.index.tidy() is False
    assert cache.database.number("SELECT total_changes()") == watcher


def test_counts_follow_every_kind_of_change(cache):
    apply(cache, note(1), note(2, trash=True), note(3))
    assert cache.notes.counts() == Counts(active=2, trashed=1)
    apply(cache, edited(replace(note(1), content=Content("t", (), trash=True))))
    assert cache.notes.counts() == Counts(active=1, trashed=2)
    apply(cache, Tombstone("id2"), edited(note(1, "t", version=8)))
    assert cache.notes.counts() == Counts(active=2, trashed=0)
    assert cache.notes.counts().total == 2


def test_counts_of_a_transaction_that_failed_are_not_kept(cache):
    apply(cache, note(1))
    with pytest.raises(ZeroDivisionError), cache.transaction():
        cache.notes.apply([note(2) if cache.notes.counts().active else 1 / 0, _Explodes()])
    assert cache.notes.counts() == Counts(active=1, trashed=0)


class _Explodes:
    @property
    def id(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "text",
    ["", "\n", "no newline", "crlf\r\nlines\r\n", "nul \0 inside", "\ufeffbom", "🏖️ \u202e bidi"],
    ids=repr,
)
def test_text_goes_through_byte_for_byte(either, text):
    apply(either, note(text=text))
    assert either.notes.get("id1").text == text
    assert either.notes.base("id1") == note(text=text)


def test_words_after_a_nul_are_found(cache):
    apply(cache, note(text="before\0after"))
    assert cache.search.find_words(parse("after"), limit=1).total == 1


def test_lone_surrogates_become_replacement_characters_and_never_raise(either):
    broken = replace(note(text="a\ud800b", tags=("t\udfff",)), id="id\ud834", etag="e\udc00")
    apply(either, broken)
    found = either.notes.get("id\ufffd")
    assert (found.text, found.tags) == ("a\ufffdb", ("t\ufffd",))
    assert apply(either, broken) == Applied(unchanged=1)
    assert apply(either, Tombstone("id\ud834")) == Applied(removed=1)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e300, -5.5], ids=str)
def test_impossible_times_are_stored_as_possible_ones(cache, odd):
    apply(cache, note(modified_at=odd, created_at=odd))
    found = cache.notes.get("id1")
    assert abs(found.modified_at) < 10**12
    assert found.created_at == found.modified_at
    assert found.modified_at == -6 or odd != -5.5


def test_a_note_of_a_megabyte_is_stored_once(cache):
    before = cache.database.size_bytes()
    text = "".join(f"{number:x} " for number in range(170_000))
    apply(cache, note(text=text))
    assert cache.notes.base("id1").content.text == text
    stored = cache.database.row("SELECT length(raw) FROM note_base")[0]
    assert stored < 400
    assert cache.database.size_bytes() > before + len(text)


def test_several_hundred_notes_take_more_than_one_batch_and_lose_none(cache):
    many = [note(number, f"text {number}") for number in range(BATCH * 2 + 1)]
    assert apply(cache, *many) == Applied(stored=BATCH * 2 + 1)
    assert cache.notes.counts().active == BATCH * 2 + 1
