"""Test the checks of the soak: each kind of broken promise is reported."""

import json
from collections import Counter

import pytest

from notarium_devtools.simperium import Simulator
from soak import ending
from soak.measures import MB, MOST_FILES, MOST_WAL, Measures, Sample
from soak.promises import COPY, Promises
from soak.run import Outcome, seen


@pytest.fixture(name="simulator")
def _simulator():
    return Simulator()


@pytest.fixture(name="promises")
def _promises(simulator):
    promises = Promises()
    simulator.bucket().listeners.append(lambda change: promises.arrived(change.id, change.after))
    return promises


def saved(simulator, promises, note_id, *, creates=False):
    """An agent's write that arrived and was acknowledged; its token."""
    token = promises.token(creates=creates)
    there = "" if creates else simulator.note(note_id)["content"]
    simulator.put(note_id, content=f"{there}{token} words\n")
    promises.saved(token, note_id)
    return token


def test_kept_promises_are_not_complained_about(simulator, promises):
    saved(simulator, promises, "a", creates=True)
    gone = saved(simulator, promises, "a")
    promises.going_to_remove([gone])
    simulator.put("a", content=simulator.note("a")["content"].replace(gone, ""))
    promises.trashed("a", trash=False)
    assert promises.check(simulator.notes()) == []


def test_an_acknowledged_write_that_the_service_has_dropped_is_found(simulator, promises):
    saved(simulator, promises, "a", creates=True)
    token = saved(simulator, promises, "a")
    simulator.put("a", content=simulator.note("a")["content"].replace(f"{token} words\n", ""))
    assert [what for what in promises.check(simulator.notes()) if token in what]


def test_a_note_that_is_gone_although_nobody_deleted_it_is_found(simulator, promises):
    token = saved(simulator, promises, "a", creates=True)
    simulator.delete("a")
    assert [what for what in promises.check(simulator.notes()) if token in what]


def test_a_success_that_comes_before_the_service_has_the_write_is_found(simulator, promises):
    token = promises.token(creates=True)
    promises.saved(token, "a")
    simulator.put("a", content=f"{token}\n")
    assert promises.check(simulator.notes()) == [
        f"{token} was said to be saved and never reached the service"
    ]


def test_an_answer_without_what_it_says_is_saved_is_found_unless_somebody_took_it_away(
    simulator, promises
):
    kept, taken = (saved(simulator, promises, note, creates=True) for note in "ab")
    promises.going_to_remove([taken])
    for note, token in (("a", kept), ("b", taken)):
        promises.not_shown(token, note, 2)
    assert [what for what in promises.broken if kept in what]
    assert not [what for what in promises.broken if taken in what]


def test_a_line_of_another_device_that_was_written_over_is_found(simulator, promises):
    token = promises.token()
    simulator.put("a", content=f"first\n{token}\n")
    promises.written_elsewhere(token)
    simulator.put("a", content="first\n")
    assert [what for what in promises.check(simulator.notes()) if token in what]


def test_a_note_that_was_made_twice_is_found_and_a_conflict_copy_is_none(simulator, promises):
    token = saved(simulator, promises, "a", creates=True)
    simulator.put("b", content=COPY + simulator.note("a")["content"])
    assert promises.check(simulator.notes()) == []
    simulator.put("c", content=simulator.note("a")["content"])
    assert promises.check(simulator.notes()) == [f"the note of {token} is there 2 times: a, c"]


def test_a_conflict_copy_that_was_made_twice_is_found(simulator, promises):
    for note_id in "ab":
        simulator.put(note_id, content=f"{COPY}one\n")
    assert len(promises.check(simulator.notes())) == 1


def test_a_line_that_was_written_twice_is_found(simulator, promises):
    saved(simulator, promises, "a", creates=True)
    token = saved(simulator, promises, "a")
    simulator.put("a", content=simulator.note("a")["content"] + f"{token} words\n")
    assert promises.check(simulator.notes()) == [f"{token} stands 2 times in note a"]


def test_a_trashing_or_a_deletion_that_never_happened_is_found(simulator, promises):
    saved(simulator, promises, "a", creates=True)
    promises.trashed("a", trash=True)
    promises.removed("a", simulator.notes())
    assert len(promises.check(simulator.notes())) == 2


def life(*, grows=0.0, files=10, more_files=0, samples=200):
    """A server's life: ``grows`` bytes and ``more_files`` descriptors from one end to the other."""
    return [
        Sample(n / 2, int(80 * MB + grows * n / samples), files + more_files * n // samples)
        for n in range(samples)
    ]


def measured(**how):
    measures = Measures()
    for sample in life(**how):
        measures.add(1, sample)
    return measures


def test_a_server_of_one_size_is_not_complained_about():
    assert measured().check() == []


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({"grows": 40 * MB}, "memory of a server grew"),
        ({"more_files": 30}, "open files of a server grew"),
        ({"files": MOST_FILES + 1}, "files open"),
        ({"grows": 400 * MB, "samples": 20}, "MB of memory"),
    ],
)
def test_a_leak_is_found(how, word):
    assert [what for what in measured(**how).check() if word in what]


def test_a_log_that_is_never_moved_into_the_database_is_found():
    measures = Measures()
    measures.add_wal(MOST_WAL + 1)
    assert len(measures.check()) == 1


def record(number, outcome, note="a", refers=0):
    said = {"act": "tool.save", "number": number, "outcome": outcome, "refers": refers}
    return json.dumps(said | {"notes": [note]})


def test_an_act_without_a_record_is_found():
    chain = [record(1, ""), record(2, "ok", refers=1), record(3, ""), record(4, "ok", refers=3)]
    assert ending.unrecorded(chain, Counter(a=2)) == []
    assert ending.unrecorded(chain, Counter(a=3)) != []
    assert ending.unrecorded(chain[:2], Counter(a=2)) != []
    assert ending.unrecorded(chain, Counter(a=2, b=1)) != []


def test_an_outcome_may_be_missing_where_the_server_was_killed():
    assert ending.unrecorded([record(1, "")], Counter(a=1)) == []


def test_notes_that_differ_are_named():
    here = {"a": ("x", [], False), "b": ("x", [], False), "c": ("x", [], True)}
    there = {"b": ("x", [], False), "c": ("x", [], False), "d": ("y", [], False)}
    assert ending.differences(here, there) == ["a: too much", "c: other", "d: missing"]


def test_a_failed_run_says_how_to_repeat_it():
    text = Outcome("word", 1.0, Counter(kills=2), Measures(), ["it broke"]).text()
    assert "BROKEN: it broke" in text
    assert "--seed word" in text


@pytest.mark.parametrize("missing", ["kills", "clock jumps", "fault: late", "acknowledged writes"])
def test_a_run_in_which_something_never_happened_is_not_enough(missing):
    counts = Counter({"kills": 1, "clock jumps": 1, "fault: late": 1, "acknowledged writes": 40})
    assert seen(counts, writes=40)
    counts[missing] -= 1
    assert not seen(+counts, writes=40)
