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
    body="{}",
    created_at=1.0,
    owner="me",
    lease_until=2.0,
)


@pytest.fixture
def opened(tmp_path):
    cache = open_cheaply(account(tmp_path))
    yield cache
    cache.close()


def test_an_open_cache_promises_nothing(opened):
    assert not opened.pending_marker.stands()
    assert markers.promised_generation(opened.pending_marker.folder) is None


def test_a_clean_end_without_intents_promises_that_none_is_inside(tmp_path):
    cache = open_cheaply(account(tmp_path))
    cache.close()
    folder = folder_of(account(tmp_path))
    assert markers.promised_generation(folder) == cache.generation
    assert stat.S_IMODE(folder.pending_marker.stat().st_mode) == 0o600


def test_opening_withdraws_the_promise(tmp_path):
    open_cheaply(account(tmp_path)).close()
    cache = open_cheaply(account(tmp_path))
    assert not cache.pending_marker.stands()
    cache.close()
    assert cache.pending_marker.stands()


@pytest.mark.parametrize("rejected", [False, True])
def test_a_clean_end_with_an_intent_inside_promises_nothing(tmp_path, rejected):
    cache = open_cheaply(account(tmp_path))
    pending = PendingWrites(cache.database)
    pending.add(WRITE)
    if rejected:
        pending.reject("w1", "too large")
    cache.close()
    assert not cache.pending_marker.stands()


def test_renewing_needs_the_last_intent_to_be_gone(opened):
    pending = PendingWrites(opened.database)
    pending.add(WRITE)
    assert not opened.pending_marker.renew(opened.database)
    pending.drop("w1")
    assert opened.pending_marker.renew(opened.database)
    assert opened.pending_marker.stands()


def test_withdrawing_inside_the_intents_transaction_keeps_others_from_renewing(opened, tmp_path):
    opened.pending_marker.renew(opened.database)
    with opened.database.transaction(durable=True):
        opened.pending_marker.withdraw()
        PendingWrites(opened.database).add(WRITE)
    assert not opened.pending_marker.stands()
    assert not opened.pending_marker.renew(opened.database)


def test_withdrawing_twice_is_fine(opened):
    opened.pending_marker.withdraw()
    opened.pending_marker.withdraw()


def test_a_promise_about_another_generation_does_not_count(opened):
    opened.pending_marker.renew(opened.database)
    other = replace(opened.pending_marker, generation="0" * 16)
    assert not other.stands()
    assert markers.promised_generation(other.folder) == opened.generation


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"null", b'{"generation":""}', b'{"generation":5}', b"x" * 1000, b"\xff"]
)
def test_whatever_else_stands_in_the_file_promises_nothing(opened, raw):
    opened.pending_marker.folder.pending_marker.write_bytes(raw)
    assert not opened.pending_marker.stands()
    assert markers.promised_generation(opened.pending_marker.folder) is None


def test_a_link_in_its_place_promises_nothing(opened, tmp_path):
    opened.pending_marker.renew(opened.database)
    path = opened.pending_marker.folder.pending_marker
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert not opened.pending_marker.stands()


def test_renewing_never_raises_for_a_closed_database(opened):
    opened.database.close()
    assert not opened.pending_marker.renew(opened.database)


def test_where_every_intent_withdraws_it_the_promise_stands_while_the_cache_is_open(tmp_path):
    first = open_cheaply(account(tmp_path), guarded=True)
    assert first.pending_marker.stands()
    first.close()
    again = open_cheaply(account(tmp_path), guarded=True)
    assert again.pending_marker.stands()
    again.close()


def test_a_guarded_cache_with_an_intent_inside_promises_nothing(tmp_path):
    first = open_cheaply(account(tmp_path))
    PendingWrites(first.database).add(WRITE)
    first.close()
    again = open_cheaply(account(tmp_path), guarded=True)
    assert not again.pending_marker.stands()
    again.close()


def test_the_plain_cache_has_its_own_promise(tmp_path):
    config = account(tmp_path, db_encryption=False)
    open_cheaply(config).close()
    folder = folder_of(config)
    assert markers.promised_generation(folder) == ""
    assert PendingMarker(folder, "").stands()
    assert "nothing_pending.json" in fingerprint(folder.path)
