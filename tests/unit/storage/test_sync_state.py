import pytest

from mcp_notarium.errors import CacheError
from mcp_notarium.secret import Secret
from mcp_notarium.storage.sync_state import LoadProgress, Metrics, SyncState
from support.cache_room import make, reopen


def test_cursor_and_progress_survive_a_restart(tmp_path):
    cache = make(tmp_path)
    halfway = LoadProgress(anchor_cursor="c1", mark="m3", total=900)
    assert cache.sync_state.cursor() is None
    assert cache.sync_state.progress() == LoadProgress()
    cache.sync_state.set_cursor("c9")
    cache.sync_state.set_progress(halfway)
    cache.close()
    again = reopen(tmp_path)
    assert again.sync_state.cursor() == "c9"
    assert again.sync_state.progress() == halfway
    again.sync_state.set_cursor(None)
    assert again.sync_state.cursor() is None
    again.close()


def test_the_cursor_is_undone_with_the_transaction_it_belongs_to(cache):
    cache.sync_state.set_cursor("before")
    with pytest.raises(ZeroDivisionError), cache.transaction():
        cache.sync_state.set_cursor(1 / 0 if cache.sync_state.set_cursor("after") is None else "")
    assert cache.sync_state.cursor() == "before"


def test_any_key_can_be_set_replaced_and_removed(cache):
    state = cache.sync_state
    state.set("k", "1")
    state.set("k", "2")
    assert state.get("k") == "2"
    state.set("k", None)
    state.set("k", None)
    assert state.get("k") is None


def test_failures_are_counted_in_a_row_and_a_success_ends_the_row(cache):
    state = cache.sync_state
    assert state.metrics() == Metrics()
    state.record_cycle(at=10.0, duration_ms=5, status="ok")
    state.record_cycle(at=20.0, duration_ms=6, status="failed", error="timeout")
    state.record_cycle(at=30.0, duration_ms=7, status="failed", error="refused")
    assert state.metrics() == Metrics(10.0, 7, "failed", 2, "refused")
    assert state.record_cycle(at=40.0, duration_ms=8, status="ok") == Metrics(40.0, 8, "ok")


def test_a_login_token_is_kept_in_an_encrypted_cache(tmp_path):
    cache = make(tmp_path)
    assert cache.sync_state.can_store_login
    assert cache.sync_state.login_token() is None
    cache.sync_state.set_login_token(Secret("tok-123"))
    cache.close()
    again = reopen(tmp_path)
    assert again.sync_state.login_token() == Secret("tok-123")
    again.sync_state.set_login_token(None)
    assert again.sync_state.login_token() is None
    again.close()


def test_a_login_token_never_reaches_a_plain_cache(tmp_path):
    cache = make(tmp_path, key=None)
    assert not cache.sync_state.can_store_login
    with pytest.raises(CacheError) as refusal:
        cache.sync_state.set_login_token(Secret("tok-123"))
    assert "tok-123" not in f"{refusal.value!r}{refusal.value.to_dict()}"
    cache.sync_state.set("login_token", "put there by hand")
    assert cache.sync_state.login_token() is None
    cache.sync_state.set_login_token(None)
    assert cache.sync_state.get("login_token") is None
    cache.close()


def test_a_database_that_is_only_read_keeps_nothing_and_does_not_fail(tmp_path):
    cache = make(tmp_path)
    cache.sync_state.set("k", "1")
    cache.close()
    state = SyncState(cache.database.reopen(read_only=True))
    state.set("k", "2")
    state.set("k", None)
    assert state.get("k") == "1"
    state._db.close()
