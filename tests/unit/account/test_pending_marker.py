import stat
from dataclasses import replace

import pytest

from mcp_notarium.account import pending_marker
from mcp_notarium.account.pending_marker import Certificate
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.storage.pending_writes import PendingWrites
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
    assert not opened.certificate.stands()
    assert pending_marker.standing_for(opened.certificate.folder) is None


def test_a_clean_end_without_intents_promises_that_none_is_inside(tmp_path):
    cache = open_cheaply(account(tmp_path))
    cache.close()
    folder = folder_of(account(tmp_path))
    assert pending_marker.standing_for(folder) == cache.generation
    assert stat.S_IMODE(folder.certificate.stat().st_mode) == 0o600


def test_opening_withdraws_the_promise(tmp_path):
    open_cheaply(account(tmp_path)).close()
    cache = open_cheaply(account(tmp_path))
    assert not cache.certificate.stands()
    cache.close()
    assert cache.certificate.stands()


@pytest.mark.parametrize("rejected", [False, True])
def test_a_clean_end_with_an_intent_inside_promises_nothing(tmp_path, rejected):
    cache = open_cheaply(account(tmp_path))
    pending = PendingWrites(cache.database)
    pending.add(WRITE)
    if rejected:
        pending.reject("w1", "too large")
    cache.close()
    assert not cache.certificate.stands()


def test_renewing_needs_the_last_intent_to_be_gone(opened):
    pending = PendingWrites(opened.database)
    pending.add(WRITE)
    assert not opened.certificate.renew(opened.database)
    pending.drop("w1")
    assert opened.certificate.renew(opened.database)
    assert opened.certificate.stands()


def test_withdrawing_inside_the_intents_transaction_keeps_others_from_renewing(opened, tmp_path):
    opened.certificate.renew(opened.database)
    with opened.database.transaction(durable=True):
        opened.certificate.withdraw()
        PendingWrites(opened.database).add(WRITE)
    assert not opened.certificate.stands()
    assert not opened.certificate.renew(opened.database)


def test_withdrawing_twice_is_fine(opened):
    opened.certificate.withdraw()
    opened.certificate.withdraw()


def test_a_promise_about_another_generation_does_not_count(opened):
    opened.certificate.renew(opened.database)
    other = replace(opened.certificate, generation="0" * 16)
    assert not other.stands()
    assert pending_marker.standing_for(other.folder) == opened.generation


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"null", b'{"generation":""}', b'{"generation":5}', b"x" * 1000, b"\xff"]
)
def test_whatever_else_stands_in_the_file_promises_nothing(opened, raw):
    opened.certificate.folder.certificate.write_bytes(raw)
    assert not opened.certificate.stands()
    assert pending_marker.standing_for(opened.certificate.folder) is None


def test_a_link_in_its_place_promises_nothing(opened, tmp_path):
    opened.certificate.renew(opened.database)
    path = opened.certificate.folder.certificate
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert not opened.certificate.stands()


def test_renewing_never_raises_for_a_closed_database(opened):
    opened.database.close()
    assert not opened.certificate.renew(opened.database)


def test_where_every_intent_withdraws_it_the_promise_stands_while_the_cache_is_open(tmp_path):
    first = open_cheaply(account(tmp_path), guarded=True)
    assert first.certificate.stands()
    first.close()
    again = open_cheaply(account(tmp_path), guarded=True)
    assert again.certificate.stands()
    again.close()


def test_a_guarded_cache_with_an_intent_inside_promises_nothing(tmp_path):
    first = open_cheaply(account(tmp_path))
    PendingWrites(first.database).add(WRITE)
    first.close()
    again = open_cheaply(account(tmp_path), guarded=True)
    assert not again.certificate.stands()
    again.close()


def test_the_plain_cache_has_its_own_promise(tmp_path):
    config = account(tmp_path, db_encryption=False)
    open_cheaply(config).close()
    folder = folder_of(config)
    assert pending_marker.standing_for(folder) == ""
    assert Certificate(folder, "").stands()
    assert "nothing_pending.json" in fingerprint(folder.path)
