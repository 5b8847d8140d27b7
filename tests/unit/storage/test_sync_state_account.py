"""The account of a cache: a mark of its token, and notes to try another one on."""

from __future__ import annotations

import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_state import AccountRecord
from support.sync_rig import open_cache


@pytest.fixture(name="cache")
def _cache(tmp_path):
    cache = open_cache(tmp_path)
    yield cache
    cache.close()


def _put(cache: Cache, note_id: str, at: float, *tags: str, trash: bool = False) -> None:
    revision = Revision(note_id, "1", Content(note_id, tags, trash), at, at, raw=b"{}")
    with cache.transaction():
        cache.notes.apply([revision])


def test_a_token_is_recognised_and_does_not_stand_in_the_cache(cache: Cache) -> None:
    record = AccountRecord(cache.database)
    assert not record.recognises(Secret("a" * 32))
    assert record.proven is record.on_trust is False
    record.remember(Secret("a" * 32), on_trust=True)
    assert record.recognises(Secret("a" * 32))
    assert not record.recognises(Secret("b" * 32))
    assert record.on_trust
    assert not record.proven
    rows = cache.database.rows("SELECT value FROM sync_metadata")
    assert not any("a" * 32 in row[0] for row in rows)
    record.remember(Secret("a" * 32), on_trust=False)
    assert AccountRecord(cache.database).proven


def test_the_same_token_leaves_a_different_mark_each_time(cache: Cache) -> None:
    record, marks = AccountRecord(cache.database), set()
    for token in ("x", "y", "x"):
        record.remember(Secret(token), on_trust=False)
        marks.add(cache.sync_state.get("account_mark"))
        record.remember(Secret(token), on_trust=False)
        marks.add(cache.sync_state.get("account_mark"))
    assert len(marks) == 3


def test_sample_notes_are_new_and_old_notes_neither_shared_nor_in_the_trash(cache: Cache) -> None:
    record = AccountRecord(cache.database)
    assert record.sample_notes() == []
    _put(cache, "shared", 1.5, "somebody@example.com")
    _put(cache, "trashed", 2.5, trash=True)
    assert sorted(record.sample_notes()) == [("shared", 1.5), ("trashed", 2.5)]
    for number in range(20):
        _put(cache, f"n{number:02}", 1000.25 + number)
    wanted = {"n00", "n01", "n02", "n03", "n16", "n17", "n18", "n19"}
    assert {note_id for note_id, _ in record.sample_notes()} == wanted
    assert ("n00", 1000.25) in record.sample_notes()
