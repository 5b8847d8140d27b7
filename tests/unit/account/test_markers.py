import stat
from dataclasses import replace

import pytest

from mcp_notarium.account import markers
from mcp_notarium.account.markers import PendingMarker
from mcp_notarium.domain.note import Content, PendingWrite, WriteKind
from mcp_notarium.storage.journal_table import PendingWrites
from support.account import account, fingerprint, folder_of, open_cheaply

WRITE = PendingWrite(
    write_id="w1",
    note_id="n1",
    kind=WriteKind.CREATE,
    base_etag=None,
    content=Content("text"),
    body=b"{}",
    created_at=1.0,
    owner="me",
    lease_until=2.0,
)


@pytest.fixture
def opened(tmp_path):
    cache = open_cheaply(account(tmp_path))
    yield cache
    cache.close()


def test_a_removed_marker_says_nothing(opened):
    opened.pending_marker.remove()
    assert not opened.pending_marker.is_set()
    assert markers.marked_generation(opened.pending_marker.folder) is None


def test_the_marker_is_set_after_a_clean_end_without_entries(tmp_path):
    cache = open_cheaply(account(tmp_path))
    cache.close()
    folder = folder_of(account(tmp_path))
    assert markers.marked_generation(folder) == cache.generation
    assert stat.S_IMODE(folder.pending_marker.stat().st_mode) == 0o600


@pytest.mark.parametrize("rejected", [False, True])
def test_the_marker_is_not_set_after_a_clean_end_with_an_entry_inside(tmp_path, rejected):
    cache = open_cheaply(account(tmp_path))
    cache.pending_marker.remove()
    pending = PendingWrites(cache.database)
    pending.add(WRITE)
    if rejected:
        pending.reject("w1", "too large")
    cache.close()
    assert not cache.pending_marker.is_set()


def test_the_marker_is_set_only_when_the_last_entry_is_gone(opened):
    opened.pending_marker.remove()
    pending = PendingWrites(opened.database)
    pending.add(WRITE)
    opened.pending_marker.set_if_empty(opened.database)
    assert not opened.pending_marker.is_set()
    pending.drop("w1")
    opened.pending_marker.set_if_empty(opened.database)
    assert opened.pending_marker.is_set()


def test_removing_it_inside_the_entrys_transaction_keeps_others_from_setting_it(opened, tmp_path):
    with opened.database.transaction(durable=True):
        opened.pending_marker.remove()
        PendingWrites(opened.database).add(WRITE)
    opened.pending_marker.set_if_empty(opened.database)
    assert not opened.pending_marker.is_set()


def test_removing_twice_is_fine(opened):
    opened.pending_marker.remove()
    opened.pending_marker.remove()


def test_a_marker_of_another_generation_does_not_count(opened):
    other = replace(opened.pending_marker, generation="0" * 16)
    assert not other.is_set()
    assert markers.marked_generation(other.folder) == opened.generation


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"null", b'{"generation":""}', b'{"generation":5}', b"x" * 1000, b"\xff"]
)
def test_whatever_else_is_in_the_file_is_no_marker(opened, raw):
    opened.pending_marker.folder.pending_marker.write_bytes(raw)
    assert not opened.pending_marker.is_set()
    assert markers.marked_generation(opened.pending_marker.folder) is None


def test_a_link_is_no_marker(opened, tmp_path):
    path = opened.pending_marker.folder.pending_marker
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert not opened.pending_marker.is_set()


def test_setting_never_raises_for_a_closed_database(opened):
    opened.pending_marker.remove()
    opened.database.close()
    opened.pending_marker.set_if_empty(opened.database)
    assert not opened.pending_marker.is_set()


def test_the_marker_is_set_while_the_cache_is_open(tmp_path):
    first = open_cheaply(account(tmp_path))
    assert first.pending_marker.is_set()
    first.close()
    again = open_cheaply(account(tmp_path))
    assert again.pending_marker.is_set()
    again.close()


def test_opening_a_cache_with_an_entry_inside_sets_no_marker(tmp_path):
    first = open_cheaply(account(tmp_path))
    first.pending_marker.remove()
    PendingWrites(first.database).add(WRITE)
    first.close()
    again = open_cheaply(account(tmp_path))
    assert not again.pending_marker.is_set()
    again.close()


def test_the_plain_cache_has_its_own_marker(tmp_path):
    config = account(tmp_path, db_encryption=False)
    open_cheaply(config).close()
    folder = folder_of(config)
    assert markers.marked_generation(folder) == ""
    assert PendingMarker(folder, "").is_set()
    assert "nothing_pending.json" in fingerprint(folder.path)
