from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, PendingWrite, WriteKind, WriteState, flags
from mcp_notarium.errors import CacheError
from support.cache_room import make, reopen


def intent(number=1, *, owner="me", lease_until=100.0, **more):
    write = PendingWrite(
        write_id=f"w{number}",
        note_id="n1",
        kind=WriteKind.UPDATE,
        base_etag="e1",
        content=Content("text \0 ż", ("a", "B"), trash=True, properties=flags("pinned")),
        body=b'{"content": "text"}',
        created_at=float(number),
        owner=owner,
        lease_until=lease_until,
    )
    return replace(write, **more)


def test_an_intent_survives_a_restart_exactly(tmp_path):
    cache = make(tmp_path)
    cache.journal.add(intent())
    copy = intent(2, kind=WriteKind.CREATE, base_etag=None, note_id="n2", copied=True)
    cache.journal.add(copy)
    cache.close()
    again = reopen(tmp_path)
    assert again.journal.get("w1") == intent()
    assert again.journal.all() == [intent(), copy]
    again.close()


def test_entries_come_oldest_first_and_rejected_ones_are_not_in_flight(cache):
    for number in (3, 1, 2):
        cache.journal.add(intent(number, note_id="odd" if number % 2 else "even"))
    assert [write.write_id for write in cache.journal.all()] == ["w1", "w2", "w3"]
    assert cache.journal.any_in_flight()
    cache.journal.reject("w2", "refused")
    assert [write.write_id for write in cache.journal.in_flight()] == ["w1", "w3"]
    assert cache.journal.count() == 3
    for write_id in ("w1", "w3"):
        cache.journal.reject(write_id, "refused")
    assert not cache.journal.any_in_flight()


def test_recording_an_intent_waits_for_the_disk(cache):
    cache.journal.add(intent())
    with pytest.raises(RuntimeError, match="durable"), cache.transaction():
        cache.journal.add(intent(2))
    with cache.transaction(durable=True):
        cache.journal.add(intent(3))
    assert [write.write_id for write in cache.journal.all()] == ["w1", "w3"]


def test_a_write_id_can_be_recorded_once_only(cache):
    cache.journal.add(intent())
    with pytest.raises(CacheError):
        cache.journal.add(intent(note_id="other"))
    assert cache.journal.get("w1").note_id == "n1"


def test_a_dropped_intent_is_gone_and_dropping_twice_is_harmless(cache):
    cache.journal.add(intent())
    cache.journal.drop("w1")
    cache.journal.drop("w1")
    assert cache.journal.get("w1") is None
    assert cache.journal.count() == 0


def test_a_drop_is_undone_with_its_transaction(cache):
    cache.journal.add(intent())
    with pytest.raises(ZeroDivisionError), cache.transaction():
        cache.journal.drop(1 / 0 if cache.journal.drop("w1") is None else "")
    assert cache.journal.get("w1") == intent()


def test_a_rejected_intent_stays_with_its_reason_and_cannot_be_claimed(cache):
    cache.journal.add(intent(lease_until=0.0))
    cache.journal.reject("w1", "too large")
    assert cache.journal.get("w1") == intent(
        lease_until=0.0, state=WriteState.REJECTED, reason="too large"
    )
    assert not cache.journal.claim("w1", owner="you", now=50.0, lease_until=60.0)


def test_a_lease_protects_an_intent_until_it_runs_out(cache):
    cache.journal.add(intent(lease_until=100.0))
    assert not cache.journal.claim("w1", owner="you", now=99.0, lease_until=150.0)
    assert cache.journal.get("w1").owner == "me"
    assert cache.journal.claim("w1", owner="you", now=100.0, lease_until=150.0)
    assert (cache.journal.get("w1").owner, cache.journal.get("w1").lease_until) == ("you", 150.0)


def test_an_owner_may_claim_its_own_again_and_renew_it(cache):
    cache.journal.add(intent(lease_until=100.0))
    assert cache.journal.claim("w1", owner="me", now=1.0, lease_until=200.0)
    assert cache.journal.renew("w1", owner="me", lease_until=300.0)
    assert cache.journal.get("w1").lease_until == 300.0
    assert not cache.journal.renew("w1", owner="you", lease_until=400.0)
    assert not cache.journal.renew("unknown", owner="me", lease_until=400.0)


def test_the_intent_of_a_process_that_is_gone_can_be_claimed_before_its_lease_ends(cache):
    cache.journal.add(intent(owner="dead", lease_until=1000.0))
    assert not cache.journal.claim(
        "w1", owner="you", now=1.0, lease_until=50.0, gone_owner="somebody else"
    )
    assert cache.journal.claim("w1", owner="you", now=1.0, lease_until=50.0, gone_owner="dead")


def test_of_two_processes_that_claim_at_once_one_succeeds(tmp_path, cache):
    cache.journal.add(intent(lease_until=0.0))
    other = reopen(tmp_path)
    taken = [
        where.journal.claim("w1", owner=name, now=10.0, lease_until=20.0)
        for where, name in ((cache, "a"), (other, "b"))
    ]
    assert taken == [True, False]
    other.close()


def test_lone_surrogates_in_an_intent_never_raise(cache):
    cache.journal.add(intent(content=Content("a\ud800", ("\udc00",))))
    assert cache.journal.get("w1").content.text == "a\ufffd"
