"""The chain in the database: appended in one transaction with the head it follows, never changed."""

import os
from contextlib import suppress

import pytest

from mcp_notarium.account.chain_copy import carry_over
from mcp_notarium.audit.chain import OPEN, ActName, AuditEntry, AuditKeys, ChainMac, Head
from mcp_notarium.audit.verification import MOST_FAULTS, FaultKind
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import CacheDamaged, CacheError, CacheFull, NotRecorded, RollbackSeen
from mcp_notarium.secret import Secret
from mcp_notarium.storage import audit_log
from mcp_notarium.storage.audit_log import MOST_WAITING, Act, AuditLog, AuditTable, Steps
from support import cache_room, corpus

KEYS = AuditKeys(Secret(b"c" * 32), Secret(b"d" * 32), Secret(b"a" * 32))
OTHER = AuditKeys(Secret(b"C" * 32), Secret(b"D" * 32), Secret(b"A" * 32))
DAY = 86_400.0


@pytest.fixture
def cache(tmp_path):
    made = cache_room.make(tmp_path)
    yield made
    made.close()


@pytest.fixture
def table(cache):
    return AuditTable(cache.database, KEYS.chain_mac)


def entries(count, *, at=1000.0):
    return [AuditEntry(at=at + n, act="tool.get", notes=(f"n{n}",)) for n in range(count)]


def audit_log_of(cache, *, now=1000.0, days=365):
    return AuditLog(cache.database, KEYS, clock=lambda: now, days=days)


def tamper(cache, sql):
    """What somebody with the key could do to the file."""
    with cache.database.schema_change():
        for name in ("audit_never_changed", "audit_without_gap", "audit_oldest_first"):
            cache.database.run(f"DROP TRIGGER IF EXISTS {name}")
    for statement in sql.split(";"):
        cache.database.run(statement)


def test_records_follow_each_other_over_several_appends(table):
    table.append(entries(3), durable=True)
    head = table.append(entries(2), durable=False)
    assert head.count == 5
    assert table.head() == head
    assert [record.number for record in table.records()] == [1, 2, 3, 4, 5]
    assert table.verify(anchored=head, expected=head).whole


def test_the_end_of_the_chain_has_its_time_and_an_empty_one_has_none(table):
    assert table.end() == (Head(), 0)
    head = table.append(entries(3), durable=True)
    assert table.end() == (head, 1_002_000)


def test_a_gap_among_the_newest_records_is_seen(cache, table):
    assert not table.has_gap()
    table.append(entries(3), durable=True)
    assert not table.has_gap()
    tamper(cache, "DELETE FROM audit WHERE number = 2")
    assert table.has_gap()


def test_many_records_are_read_in_slices_and_all_of_them(table, monkeypatch):
    monkeypatch.setattr(audit_log, "_SLICE", 3)
    table.append(entries(10), durable=True)
    assert [record.number for record in table.records()] == list(range(1, 11))
    assert [record.number for record in table.records(first=4, last=8)] == [4, 5, 6, 7, 8]
    assert table.first_number_since(1004.0) == 5
    assert table.first_number_since(9999.0) == 11


COPY = (
    "INSERT INTO audit SELECT 9, at_ms, client, act, digest, notes, decision, outcome, bytes_out, "
    "refers, facts, previous, mac FROM audit WHERE number = 1"
)
SWAP = (
    "UPDATE audit SET number = 90 - number WHERE number > 2; "
    "UPDATE audit SET number = number - 83 WHERE number > 80"
)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE audit SET outcome = 'ok' WHERE number = 2", "UPDATE"),
        ("DELETE FROM audit WHERE number = 2", "DELETE"),
        (COPY, "INSERT"),
    ],
)
def test_database_refuses_to_change_what_is_recorded(cache, table, sql, says):
    table.append(entries(3), durable=True)
    with pytest.raises(CacheError):
        cache.database.run(sql)
    assert table.verify(anchored=None).whole, says


@pytest.mark.parametrize(
    ("sql", "kind", "number"),
    [
        ("UPDATE audit SET notes = '[]' WHERE number = 2", FaultKind.EDITED, 2),
        ("DELETE FROM audit WHERE number = 2", FaultKind.DELETED, 2),
        ("DELETE FROM audit WHERE number = 1", FaultKind.DELETED, 1),
        ("DELETE FROM audit WHERE number = 4", FaultKind.TAIL_CUT, 4),
        ("DELETE FROM audit", FaultKind.TAIL_CUT, 1),
        (SWAP, FaultKind.REORDERED, 3),
        ("UPDATE audit SET client = CAST(x'ff41' AS TEXT) WHERE number = 2", FaultKind.EDITED, 2),
        (f"UPDATE audit SET previous = '{'x' * 64}' WHERE number = 2", FaultKind.EDITED, 2),
        (f"UPDATE audit SET number = {(1 << 63) - 1} WHERE number = 4", FaultKind.DELETED, 4),
    ],
)
def test_changes_in_the_file_are_found(cache, table, sql, kind, number):
    head = table.append(entries(4), durable=True)
    tamper(cache, sql)
    found = table.verify(anchored=head)
    assert (kind, number) in {(fault.kind, fault.number) for fault in found.faults}


def test_what_is_put_in_before_the_first_record_is_found(cache, table):
    head = table.append(entries(3), durable=True)
    with cache.database.schema_change():
        for statement in (
            "CREATE TABLE unchecked AS SELECT * FROM audit",
            "INSERT INTO unchecked SELECT * FROM audit WHERE number = 2",
            "UPDATE unchecked SET number = 0 WHERE rowid = 4",
            "DROP TABLE audit",
            "ALTER TABLE unchecked RENAME TO audit",
        ):
            cache.database.run(statement)
    found = table.verify(anchored=head)
    assert (FaultKind.EDITED, 0) in {(fault.kind, fault.number) for fault in found.faults}


def test_a_record_that_is_no_text_is_shown_by_its_bytes(cache, table):
    table.append(entries(3), durable=True)
    tamper(cache, "UPDATE audit SET client = CAST(x'ff41' AS TEXT) WHERE number = 2")
    assert [record.client for record in table.records()] == ["", "\\xffA", ""]


def test_a_chain_that_was_begun_is_not_begun_again(table):
    for why in ("created", "opened again"):
        table.begin(1.0, facts={"why": why})
    assert [record.facts for record in table.records()] == ['{"why":"created"}']


def test_of_very_many_faults_a_hundred_are_named(cache, table):
    head = table.append(entries(2400), durable=True)
    tamper(cache, "DELETE FROM audit WHERE number % 2; UPDATE audit SET act = 'x'")
    foreign = table.verify(anchored=head)
    assert {fault.kind for fault in foreign.faults} == {FaultKind.DELETED, FaultKind.FOREIGN}
    table.append(entries(1), durable=True)  # one that is valid: so the others were changed
    found = table.verify(anchored=None)
    assert len(found.faults) == MOST_FAULTS
    assert {fault.kind for fault in found.faults} == {FaultKind.DELETED, FaultKind.EDITED}
    assert found.head.count == 2401


def cut(table, anchored, *, left):
    """What a start records of a chain that lacks what its anchor knows."""
    facts = {"missing": anchored.count - left, "upto": left, "anchor": str(anchored)}
    return AuditEntry(at=9, act=ActName.CUT, facts=facts)


def test_a_cut_that_is_on_record_is_told_once_and_only_until_it_is_accepted(cache, table):
    anchored = table.append(entries(4), durable=True)
    tamper(cache, "DELETE FROM audit WHERE number > 2")
    table.append([cut(table, anchored, left=2), *entries(3)], durable=True)
    found = table.verify(anchored=anchored)
    assert [(fault.kind, fault.number) for fault in found.faults] == [(FaultKind.TAIL_CUT, 3)]
    other = Head(4, "0" * 64)  # of an anchor that the record does not name
    kinds = [fault.kind for fault in table.verify(anchored=other).faults]
    assert kinds == [FaultKind.TAIL_CUT, FaultKind.FOREIGN]
    accepted = table.append([AuditEntry(at=9, act=ActName.ACCEPTED)], durable=True)
    assert table.verify(anchored=accepted).whole


def test_chain_of_another_cache_is_foreign(cache, table):
    table.append(entries(3), durable=True)
    found = AuditTable(cache.database, OTHER.chain_mac).verify(anchored=None)
    assert [fault.kind for fault in found.faults] == [FaultKind.FOREIGN]


def test_failed_append_leaves_the_chain_as_it_was(cache, table):
    before = table.append(entries(2), durable=True)
    with suppress(RuntimeError), cache.transaction(durable=True):
        table.append(entries(2), durable=True)
        raise RuntimeError
    assert table.head() == before


def test_pruning_takes_the_oldest_and_says_so(cache, table):
    table.append(entries(3, at=DAY), durable=True)
    table.append(entries(2, at=50 * DAY), durable=True)
    assert table.prune(3, at=60 * DAY) == 3
    assert [record.number for record in table.records()] == [4, 5, 6]
    assert [record.act for record in table.records()][-1] == ActName.PRUNED
    found = table.verify(anchored=table.head())
    assert found.whole
    assert "3" in found.notes[0]
    assert table.prune(3, at=60 * DAY) == 0
    tamper(cache, "DELETE FROM audit WHERE number = 4")
    assert not table.verify(anchored=None).whole


def test_pruning_keeps_the_newest_record(table):
    table.append(entries(3), durable=True)
    assert table.prune(3, at=DAY) == 2
    assert [record.number for record in table.records()] == [3, 4]
    assert table.verify(anchored=None).whole


def test_the_only_record_is_not_pruned(table):
    table.append(entries(1), durable=True)
    assert table.prune(1, at=DAY) == 0
    assert [record.number for record in table.records()] == [1]
    assert table.first() == 1


def test_verifying_shows_every_record_to_whoever_counts_them(cache, table):
    table.append(entries(3), durable=True)
    tamper(cache, "UPDATE audit SET act = 'x' WHERE number = 2")
    seen = []
    assert not table.verify(anchored=None, also=lambda record: seen.append(record.act)).whole
    assert seen == ["tool.get", "x", "tool.get"]


def test_many_records_go_in_several_transactions(table, monkeypatch):
    monkeypatch.setattr(audit_log, "_MOST_PRUNED", 4)
    table.append(entries(10), durable=True)
    assert [table.prune(9, at=DAY) for _ in range(4)] == [4, 4, 1, 0]
    assert table.verify(anchored=None).whole


class Days:
    """A calendar and a stopwatch that go together; ``day`` may be set."""

    def __init__(self):
        self.day = 1_000.0

    def audit_log(self, cache, *, days=365):
        return AuditLog(
            cache.database,
            KEYS,
            clock=lambda: self.day * DAY,
            days=days,
            stopwatch=lambda: self.day * DAY,
        )


def numbers(table):
    return [record.number for record in table.records()]


def test_records_go_when_their_days_are_over(cache, table):
    calendar = Days()
    audit_log = calendar.audit_log(cache)
    for _ in range(3):
        audit_log.record_begin(AuditEntry(at=audit_log.now(), act="the first day"))
    for _ in range(365):
        calendar.day += 1
        audit_log.tidy()
        audit_log.record_begin(AuditEntry(at=audit_log.now(), act="every day"))
    assert numbers(table)[:3] == [1, 2, 3]
    calendar.day += 0.5
    audit_log.tidy()
    assert numbers(table)[0] == 4
    assert table.verify(anchored=None).whole
    calendar.day += 0.1
    audit_log.tidy()
    assert numbers(table)[-1] == 4 + 365  # the one that says so, once


def test_expired_records_are_looked_for_every_ten_minutes(cache, table):
    calendar, minute = Days(), 1 / 24 / 60
    audit_log = calendar.audit_log(cache, days=1)
    for minutes in (0, 5, 60):
        at = audit_log.now() + minutes * 60
        audit_log.record_begin(AuditEntry(at=at, act="a day ago"))
    calendar.day += 1 + minute
    audit_log.tidy()
    assert numbers(table)[0] == 2
    calendar.day += 5 * minute
    audit_log.tidy()
    assert numbers(table)[0] == 2
    calendar.day += 6 * minute
    audit_log.tidy()
    assert numbers(table)[0] == 3


def test_a_record_with_an_old_date_stays_as_long_as_an_older_record_that_is_young(cache, table):
    calendar = Days()
    audit_log = calendar.audit_log(cache, days=10)
    audit_log.record_begin(AuditEntry(at=audit_log.now(), act="today"))
    audit_log.record_begin(
        AuditEntry(at=audit_log.now() - 20 * DAY, act="behind a clock that was set back")
    )
    audit_log.tidy()
    assert numbers(table) == [1, 2]


def test_days_without_a_server_count_and_the_newest_record_stays(cache, table):
    calendar = Days()
    audit_log = calendar.audit_log(cache, days=10)
    for _ in range(3):
        audit_log.record_begin(AuditEntry(at=audit_log.now(), act="before a holiday"))
    calendar.day += 30
    calendar.audit_log(cache, days=10).tidy()
    assert [(one.number, one.act) for one in table.records()] == [
        (3, "before a holiday"),
        (4, ActName.PRUNED),
    ]


def test_another_process_that_is_writing_is_not_waited_for(cache, table):
    calendar, other = Days(), cache.open_another()
    audit_log = calendar.audit_log(cache, days=1)
    for _ in range(3):
        audit_log.record_begin(AuditEntry(at=audit_log.now(), act="a day ago"))
    calendar.day += 1.5
    with other.transaction():
        audit_log.tidy()
    assert numbers(table) == [1, 2, 3]
    audit_log.tidy()
    assert numbers(table) == [3, 4]
    other.close()


def test_chain_is_carried_over_under_another_key_with_a_link(tmp_path, table):
    old = table.append(entries(1200), durable=True)
    other = cache_room.make(tmp_path, name="other.db")
    target = AuditTable(other.database, OTHER.chain_mac)
    carry_over(table, target, at=5.0, why="reencrypt", anchored=old)
    found = target.verify(anchored=None, expected=old)
    assert found.whole
    assert found.head.count == 1201
    earlier = next(table.records(first=700, last=700))
    (fault,) = target.verify(anchored=None, expected=Head(700, earlier.mac)).faults
    assert (fault.kind, fault.number) == (FaultKind.UNEXPECTED, 700)
    assert f"of that time only {old} can be compared" in fault.words
    assert [r.mac_input() for r in target.records(last=1200)] == [
        r.mac_input() for r in table.records()
    ]
    other.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE audit SET act = 'x' WHERE number = 2",
        "UPDATE audit SET client = CAST(x'ff41' AS TEXT) WHERE number = 2",
        "DELETE FROM audit WHERE number > 2",
    ],
)
def test_carrying_over_does_not_make_a_broken_chain_good(tmp_path, cache, table, damage):
    old = table.append(entries(4), durable=True)
    tamper(cache, damage)
    other = cache_room.make(tmp_path, name="other.db")
    target = AuditTable(other.database, OTHER.chain_mac)
    carry_over(table, target, at=5.0, why="reencrypt", anchored=old)
    found = target.verify(anchored=None)
    assert [fault.kind for fault in found.faults] == [FaultKind.CARRIED]
    other.close()


def test_pruned_chain_is_carried_over_whole(tmp_path, table):
    table.append(entries(700, at=DAY), durable=True)
    table.append(entries(600, at=50 * DAY), durable=True)
    table.prune(700, at=60 * DAY)
    other = cache_room.make(tmp_path, name="other.db")
    target = AuditTable(other.database, ChainMac(None))
    carry_over(table, target, at=5.0, why="x", anchored=table.head())
    assert target.verify(anchored=target.head()).whole
    other.close()


@pytest.mark.parametrize("rescuing", [True, False])
def test_a_chain_is_rescued_up_to_the_page_that_cannot_be_read(tmp_path, cache, table, rescuing):
    old = table.append(entries(1200), durable=True)
    cache.close()
    with (tmp_path / "cache.db").open("r+b") as file:
        file.seek(-5 * 4096, os.SEEK_END)  # the end of the file is of the newest records
        file.write(bytes(4096))
    damaged = cache_room.reopen(tmp_path)
    source = AuditTable(damaged.database, KEYS.chain_mac)
    other = cache_room.make(tmp_path, name="other.db")
    target = AuditTable(other.database, OTHER.chain_mac)
    options = {"at": 5.0, "why": "repair", "anchored": old}
    if rescuing:
        assert not carry_over(source, target, rescuing=True, **options)
        found = target.verify(anchored=None)
        assert 100 < found.head.count < 1200
        assert [fault.kind for fault in found.faults] == [FaultKind.CARRIED]
        assert "not all of it could be read" in found.faults[0].words
    else:
        with pytest.raises(CacheDamaged):
            carry_over(source, target, **options)
    damaged.close()
    other.close()


def test_empty_chain_carried_over_begins_a_new_one(tmp_path, table):
    other = cache_room.make(tmp_path, name="other.db")
    target = AuditTable(other.database, OTHER.chain_mac)
    carry_over(table, target, at=5.0, why="x", anchored=None)
    assert [record.act for record in target.records()] == [ActName.BEGUN]
    other.close()


def test_reads_wait_in_memory_and_keep_their_order_before_an_act(cache):
    audit_log = audit_log_of(cache)
    audit_log.buffer(AuditEntry(at=1, act="one"))
    audit_log.buffer(AuditEntry(at=2, act="two"))
    assert audit_log.table.head() == Head()
    assert audit_log.record_begin(AuditEntry(at=3, act="three")) == 3
    assert [record.act for record in audit_log.table.records()] == ["one", "two", "three"]
    assert audit_log.waiting == 0


def test_an_act_and_its_outcome_wait_for_the_disk_and_a_read_does_not(cache, monkeypatch):
    audit_log, flushed, run = audit_log_of(cache), [], cache.database.run

    def watched(sql, *parameters):
        if sql == "COMMIT":
            flushed.append(cache.database.number("PRAGMA synchronous"))
        return run(sql, *parameters)

    monkeypatch.setattr(cache.database, "run", watched)
    for number in range(2):
        audit_log.buffer(AuditEntry(at=1, act="read"))
        audit_log.flush()
        audit_log.record_begin(AuditEntry(at=2, act="act"))
        audit_log.buffer(AuditEntry(at=3, act="read"))
        audit_log.flush()
        audit_log.record_outcome(AuditEntry(at=4, act="act", refers=number))
    assert flushed == [1, 2, 1, 2] * 2


def test_a_note_is_known_by_the_id_that_it_had_before(cache):
    audit_log = audit_log_of(cache)
    cache_room.store(cache, [corpus.make("old.md", Content("text"))])
    with cache.transaction():
        cache.notes.rename("old.md", "new.md")
    assert audit_log.has_note("old.md")
    assert audit_log.has_note("new.md")
    assert not audit_log.has_note("other.md")
    cache.close()
    assert not audit_log.has_note("new.md")  # who asks writes a record, and must not fail


def act_of(audit_log):
    return Act(audit_log, lambda: AuditEntry(at=1, act="act", outcome=OPEN))


def test_an_act_is_in_its_first_transaction_only(cache):
    audit_log = audit_log_of(cache)
    act = act_of(audit_log)
    for key in ("one", "two"):
        with act.transaction():
            cache.sync_state.set(key, "x")
    assert act.begun == 1
    assert audit_log.table.head().count == 1
    assert cache.sync_state.get("two") == "x"


def test_an_act_that_has_begun_alone_is_not_recorded_by_its_transactions(cache):
    audit_log = audit_log_of(cache)
    act = Act(audit_log, lambda: AuditEntry(at=1, act="act", client="some client", outcome=OPEN))
    act.begin()
    with act.transaction(durable=False):
        cache.sync_state.set("key", "x")
    assert (act.begun, act.client) == (1, "some client")
    assert audit_log.table.head().count == 1


def test_calls_and_notes_are_recorded_by_keyed_digests(cache):
    audit_log = audit_log_of(cache)
    assert audit_log.digest("get", {"id": "x"}) == KEYS.digest("get", {"id": "x"}) != ""
    assert audit_log.note_reference("my secret plan") == KEYS.note("my secret plan")
    assert "plan" not in audit_log.note_reference("my secret plan")


def test_neither_act_nor_reads_are_stored_by_a_transaction_that_is_undone(cache):
    audit_log = audit_log_of(cache)
    act = act_of(audit_log)
    audit_log.buffer(AuditEntry(at=1, act="read"))
    with pytest.raises(ZeroDivisionError), act.transaction():
        cache.sync_state.set("key", str(1 / 0))
    assert act.begun == 0
    assert audit_log.table.head() == Head()
    assert audit_log.waiting == 1
    with pytest.raises(NotRecorded), act.transaction():
        raise CacheFull("no room")
    act.begin()
    assert [record.act for record in audit_log.table.records()] == ["read", "act"]


def test_flush_does_not_wait_for_another_process_and_comes_again(cache):
    audit_log = audit_log_of(cache)
    other = cache.open_another()
    audit_log.buffer(AuditEntry(at=1, act="one"))
    with other.transaction():
        assert not audit_log.flush()
    assert audit_log.waiting == 1
    assert audit_log.flush()
    assert audit_log.flush()  # nothing is left to store
    assert audit_log.table.head().count == 1
    other.close()


def full(*_args, **_options):
    raise CacheFull("no room")


def test_act_that_cannot_be_recorded_is_refused(cache, monkeypatch):
    audit_log = audit_log_of(cache)
    monkeypatch.setattr(audit_log.table, "append", full)
    with pytest.raises(NotRecorded) as caught:
        audit_log.record_begin(AuditEntry(at=1, act="tool.save"))
    assert caught.value.to_dict()["details"] == {"reason": "disk_full"}
    assert caught.value.retryable


@pytest.mark.parametrize("changes", [True, False])
def test_where_something_is_missing_no_change_begins(cache, changes):
    audit_log = audit_log_of(cache)
    refusal = RollbackSeen("something is missing")
    audit_log.refusal = lambda: refusal
    if changes:
        with pytest.raises(RollbackSeen), audit_log.recording_begin(AuditEntry(at=1, act="save")):
            pytest.fail("it has begun")
        with pytest.raises(RollbackSeen):
            audit_log.record_begin(AuditEntry(at=1, act="save"))
        assert audit_log.table.head() == Head()
    else:
        assert audit_log.record_begin(AuditEntry(at=1, act="audit verify"), changes=False) == 1


def test_damage_is_reported_as_damage(cache, monkeypatch):
    audit_log = audit_log_of(cache)

    def damaged(*_args, **_options):
        raise CacheDamaged("broken")

    monkeypatch.setattr(audit_log.table, "append", damaged)
    with pytest.raises(CacheDamaged):
        audit_log.record_begin(AuditEntry(at=1, act="tool.save"))


def test_outcome_that_cannot_be_stored_now_comes_later_and_lost_reads_are_counted(
    cache, monkeypatch
):
    audit_log = audit_log_of(cache)
    with monkeypatch.context() as patch:
        patch.setattr(audit_log.table, "append", full)
        for _ in range(MOST_WAITING + 2):
            audit_log.buffer(AuditEntry(at=1, act="tool.get"))
        audit_log.record_outcome(AuditEntry(at=2, act="tool.save"))
        assert audit_log.waiting == MOST_WAITING
    assert audit_log.flush(wait=True)
    records = list(audit_log.table.records())
    assert records[0].act == ActName.GAP
    assert records[0].facts == '{"not_recorded":3}'
    assert records[-1].act == "tool.save"
    assert audit_log.table.verify(anchored=None).whole


def test_save_is_the_one_that_an_earlier_call_has_begun_however_many_were_taken_back():
    first, second, third = Steps(), Steps(), Steps()
    second.earlier, third.earlier = first, second
    begun = first.next()
    assert (third.next(), third.repeats) == (begun, False)
    begun.draft = "what is to be saved"
    again = Steps()
    again.earlier = second
    assert (again.next(), again.repeats) == (begun, True)
    assert again.next() not in first.made
