"""Test that every change of a chain without its key is found: edit, delete, reorder, insert, cut."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.audit.chain import (
    ActName,
    AuditEntry,
    ChainMac,
    Head,
    Record,
    append_to_chain,
    rechain,
)
from mcp_notarium.audit.verification import ChainVerifier, FaultKind
from mcp_notarium.secret import Secret

OURS = ChainMac(Secret(bytes(range(32))))
OTHER = ChainMac(Secret(bytes(range(1, 33))))
TEXT = st.text(max_size=8)
ENTRIES = st.builds(
    AuditEntry,
    at=st.integers(0, 2**33).map(float),
    act=st.text(min_size=1, max_size=8),
    client=TEXT,
    digest=TEXT,
    notes=st.lists(TEXT, max_size=3).map(tuple),
    bytes_out=st.integers(0, 2**40),
    facts=st.dictionaries(TEXT, st.integers(0, 9), max_size=2),
)


def chain(entries, *, chain_mac=OURS, head=None):
    made, head = [], head or Head()
    for entry in entries:
        record, head = append_to_chain(entry, head, chain_mac)
        made.append(record)
    return made, head


def check(records, *, chain_mac=OURS, **heads):
    looking = ChainVerifier(chain_mac, **heads)
    for record in records:
        looking.feed(record)
    return looking.result()


CHAINS = st.lists(ENTRIES, min_size=3, max_size=12).map(chain)


@given(CHAINS)
def test_an_untouched_chain_is_whole(made):
    records, head = made
    found = check(records, anchored=head, expected=head)
    assert found.whole
    assert found.head == head


@pytest.mark.attack(50)
@given(CHAINS, st.data())
def test_an_edited_record_is_found_at_its_place(made, data):
    records, head = made
    at = data.draw(st.integers(0, len(records) - 1))
    name = data.draw(st.sampled_from([f.name for f in fields(Record) if f.name != "number"]))
    old = getattr(records[at], name)
    new = old + 1 if isinstance(old, int) else data.draw(TEXT.filter(lambda text: text != old))
    records[at] = replace(records[at], **{name: new})
    found = check(records, anchored=head)
    assert any(fault.number == at + 1 for fault in found.faults)
    assert found.faults[0].kind in {FaultKind.EDITED, FaultKind.FOREIGN}


@pytest.mark.attack(50)
@given(CHAINS, st.data())
def test_a_deleted_record_is_found_where_it_stood(made, data):
    records, head = made
    at = data.draw(st.integers(0, len(records) - 2))
    del records[at]
    found = check(records, anchored=head)
    assert [(fault.kind, fault.number) for fault in found.faults] == [(FaultKind.DELETED, at + 1)]


@given(CHAINS, st.data())
def test_a_deleted_record_is_found_even_if_the_others_are_renumbered(made, data):
    records, _ = made
    at = data.draw(st.integers(0, len(records) - 2))
    del records[at]
    found = check([replace(record, number=n) for n, record in enumerate(records, 1)])
    assert not found.whole
    assert found.faults[0].number == at + 1


@pytest.mark.attack(50)
@given(CHAINS, st.data())
def test_two_records_that_changed_places_are_found_and_named(made, data):
    records, head = made
    one, two = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=2, max_size=2)))
    records[one], records[two] = (
        replace(records[two], number=one + 1),
        replace(records[one], number=two + 1),
    )
    found = check(records, anchored=head)
    reordered = {fault.number for fault in found.faults if fault.kind is FaultKind.REORDERED}
    assert reordered == {one + 1, two + 1} or found.faults[0].kind is FaultKind.FOREIGN


@given(CHAINS, ENTRIES, st.data())
def test_an_inserted_record_is_found(made, entry, data):
    records, _ = made
    at = data.draw(st.integers(0, len(records)))
    before = records[at - 1].mac if at else "0" * 64
    forged, _ = append_to_chain(entry, Head(at, before), OTHER)
    later = [replace(record, number=record.number + 1) for record in records[at:]]
    found = check([*records[:at], forged, *later])
    assert any(fault.number == at + 1 for fault in found.faults) or found.faults[0].kind is (
        FaultKind.FOREIGN
    )


@given(CHAINS, st.data())
def test_a_record_of_ours_from_another_time_is_found_in_its_place(made, data):
    """The MAC fits the record, but not the place: only the link tells."""
    records, _ = made
    at = data.draw(st.integers(1, len(records) - 1))
    strange, _ = append_to_chain(AuditEntry(at=0, act="x"), Head(at, "ab" * 32), OURS)
    records[at] = strange
    found = check(records)
    assert (FaultKind.INSERTED, at + 1) in {(fault.kind, fault.number) for fault in found.faults}


@given(CHAINS, st.data())
def test_a_cut_tail_is_found_by_the_anchor_and_by_a_head_noted_elsewhere(made, data):
    records, head = made
    left = data.draw(st.integers(0, len(records) - 1))
    for heads in ({"anchored": head}, {"expected": head}):
        found = check(records[:left], **heads)
        assert [(f.kind, f.number) for f in found.faults] == [(FaultKind.TAIL_CUT, left + 1)]


@given(CHAINS, st.booleans())
def test_the_beginning_of_all_chains_is_no_head_to_know_one_by(made, carried):
    """Also where a chain of no records was carried over."""
    records, head = made
    if carried:
        facts = {"old_count": 0, "old_head": Head().mac, "faults": []}
        record, _ = append_to_chain(AuditEntry(at=0, act=ActName.CARRIED, facts=facts), head, OURS)
        records = [*records, record]
    assert [f.kind for f in check(records, expected=Head()).faults] == [FaultKind.UNEXPECTED]
    assert check([], expected=Head()).whole


@given(CHAINS, CHAINS)
def test_a_chain_rebuilt_with_the_key_does_not_fit_the_anchor(made, other):
    records, head = made
    again, longer = chain([AuditEntry(at=1, act="x")] * (len(records) + 1))
    assert longer.count > head.count
    for heads in ({"anchored": head}, {"expected": head}):
        found = check(again, **heads)
        assert {fault.kind for fault in found.faults} <= {FaultKind.FOREIGN, FaultKind.UNEXPECTED}
        assert found.faults


@given(CHAINS)
def test_a_chain_of_another_key_is_foreign(made):
    records, _ = made
    found = check(records, chain_mac=OTHER)
    assert [fault.kind for fault in found.faults] == [FaultKind.FOREIGN]


@given(CHAINS, st.data())
def test_what_was_pruned_is_no_fault_and_what_went_beside_it_is(made, data):
    records, head = made
    upto = data.draw(st.integers(1, len(records) - 1))
    facts = {"upto": upto, "head": records[upto - 1].mac}
    mark, after = append_to_chain(AuditEntry(at=1, act=ActName.PRUNED, facts=facts), head, OURS)
    whole = [*records, mark]
    assert check(whole[upto:], anchored=head).whole
    assert check(whole[upto:], anchored=after, expected=Head(upto, records[upto - 1].mac)).whole
    too_much = check(whole[upto + 1 :])
    assert [(f.kind, f.number) for f in too_much.faults] == [(FaultKind.DELETED, upto + 1)]
    assert not check(records[upto:]).whole  # nobody said that they were pruned


@given(CHAINS)
def test_new_macs_keep_the_content_of_the_records(made):
    records, _ = made
    previous, again = "0" * 64, []
    for record in records:
        again.append(rechain(record, previous, OTHER))
        previous = again[-1].mac
    assert check(again, chain_mac=OTHER).whole
    assert [r.mac_input() for r in again] == [r.mac_input() for r in records]
