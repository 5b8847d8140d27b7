"""What the tools do under a policy: hidden parts, limits, budgets, tags that keep notes visible."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.policy import Field, Limits, Policy, Visibility
from mcp_notarium.errors import (
    CacheBusy,
    ConfirmationRequired,
    NotariumError,
    NoteNotFound,
    NotPermitted,
    StillLoading,
    VersionConflict,
)
from mcp_notarium.stores.contract import ChangePage, Entry
from mcp_notarium.tools import get, manage, save
from mcp_notarium.tools import list as list_
from mcp_notarium.tools.requests import GetRequest, ListRequest, ManageRequest, SaveRequest
from mcp_notarium.tools.save_answer import NOT_ALL_SHOWN
from support.memory_client import LIKE_VAULT
from support.sync_rig import quick_folder
from support.tool_harness import Caller, ToolHarness

NO_PRIVATE = Visibility(hidden_tags=("private",))


@pytest.fixture
def make_harness(tmp_path):
    """Makes a harness under a policy."""
    made = []

    def make(policy, **notes):
        folder = tmp_path / str(len(made))
        folder.mkdir(mode=0o700)
        harness = ToolHarness(folder, policy=policy)
        made.append(harness)
        for note_id, (text, *tags) in notes.items():
            harness.store.put(note_id, text, tags=tags)
        return harness

    yield make
    for harness in made:
        harness.close()


def listed(harness, **arguments):
    return asyncio.run(list_.handle(harness.app, ListRequest(**arguments), harness.caller))


def got(harness, **arguments):
    return asyncio.run(get.handle(harness.app, GetRequest(**arguments), harness.caller))


def saved(harness, **arguments):
    return asyncio.run(save.handle(harness.app, SaveRequest(**arguments), harness.caller))


def managed(harness, **arguments):
    return asyncio.run(manage.handle(harness.app, ManageRequest(**arguments), harness.caller))


def synced(harness):
    asyncio.run(harness.sync())
    return harness


def test_a_note_is_judged_by_the_id_it_has_and_not_by_one_that_the_agent_remembers(tmp_path):
    rules = Visibility(allowed_tags=("work",), allowed_ids=("old.md",), untagged=False)
    traits = {
        name: getattr(LIKE_VAULT, name) for name in ("changes", "write_guard", "ids", "retry")
    }
    harness = ToolHarness(tmp_path, policy=Policy(visibility=rules), **traits)
    harness.store.put("old.md", "text\n", tags=["work"])
    synced(harness)
    harness.store.rename("old.md", "new.md")
    synced(harness)
    note = harness.app.library.get("old.md")
    assert note.id == "new.md"
    with pytest.raises(NotPermitted):
        saved(harness, id="old.md", local_version=note.local_version, tags=[])
    assert harness.store.fields("new.md")["tags"] == ["work"]
    harness.close()


# Hidden parts.


def test_hidden_text_shows_nowhere(make_harness):
    harness = synced(
        make_harness(Policy(hidden_fields=frozenset({Field.TEXT})), a=("secretive " * 100, "x"))
    )
    harness.caller = Caller(agrees=None)
    row = listed(harness).content[0]
    assert (row.text, row.tags) == ("(hidden by the user's policy)", ["x"])
    note = got(harness, id="a")
    assert (note.text, note.text_is_partial, note.text_total_lines) == ("", True, None)
    trashed = managed(harness, action="trash", id="a", local_version=1)
    with pytest.raises(NotPermitted):
        listed(harness, query="secretive")
    with pytest.raises(NotPermitted):
        listed(harness, query="-secretive tag:x")
    assert listed(harness, query="tag:x trash:any").total_items == 1
    for change in (
        {"text": "new"},
        {"text_patch": '[{"operation":"deletion","line_number":1}]'},
        {"append": "x"},
        {"prepend": "x"},
        {"find": "secretive", "replace": "x"},
        {"find": "no such word", "replace": "x"},
    ):
        with pytest.raises(NotPermitted, match="is hidden and cannot be changed"):
            saved(harness, id="a", local_version=trashed.new_local_version, **change)
    answer = saved(harness, id="a", local_version=trashed.new_local_version, tags=["y"])
    assert (answer.text, answer.changed, answer.text_total_lines) == (None, None, None)
    whole = saved(harness, id="a", local_version=answer.local_version, tags=["z"], return_text=True)
    assert (whole.text, whole.text_total_lines) == ("", None)
    answer = whole
    with pytest.raises(Exception, match="Delete the note") as asked:
        managed(harness, action="delete_permanently", id="a", local_version=answer.local_version)
    assert "secretive" not in json.dumps(asked.value.to_dict())
    made = saved(harness, text="a new\u202e one")
    assert (made.text, made.findings) == (None, None)


def test_hidden_tags_show_nowhere_and_cannot_be_guessed(make_harness):
    harness = synced(make_harness(Policy(hidden_fields=frozenset({Field.TAGS})), a=("text", "x")))
    assert listed(harness).content[0].tags == []
    assert got(harness, id="a").tags == []
    for asking in (
        {"query": "tag:x"},
        {"query": "a OR tag:x"},
        {"query": "-tag:x"},
        {"query": "-has:tags"},
        {"tags": ["x"]},
    ):
        with pytest.raises(NotPermitted):
            listed(harness, **asking)
    harness.store.put("b", "text too", tags=["zymurgist"])
    synced(harness)
    for words in ("zymurgist", "zymurgisd", "zymur", "zymur*", "text AND zymurgist", '"zymurgist"'):
        found = listed(harness, query=words)
        assert (found.total_items, found.suggestions, found.corrected) == (0, None, None)
    # Beside other words it is a word like any that no note has.
    for words in ("text zymurgist", "text zymurgisd"):
        found = listed(harness, query=words)
        assert (found.total_items, found.have_all, found.corrected) == (2, 0, None)
        assert {tuple(row.lacks or ()) for row in found.content} == {(words.split()[1],)}
    assert listed(harness, query="text -zymurgist").total_items == 2
    for tags in (["x"], ["y"]):
        with pytest.raises(NotPermitted):
            saved(harness, id="a", local_version=1, tags=tags)
    assert saved(harness, id="a", local_version=1, text="new").tags == []
    assert harness.store.fields("a")["tags"] == ["x"]


# Limits.


def test_a_listing_shows_no_more_notes_than_permitted(make_harness):
    policy = Policy(limits=Limits(notes_per_call=2))
    harness = synced(make_harness(policy, a=("1",), b=("2",), c=("3",)))
    found = listed(harness, limit=100)
    assert (len(found.content), found.total_items, found.next_page) == (2, 3, 2)


def test_a_long_note_comes_in_parts_that_fit(make_harness):
    text = "".join(f"line {n} {'x' * 90}\n" for n in range(200)) + "y" * 9000
    harness = synced(make_harness(Policy(limits=Limits(bytes_per_call=4000)), a=(text,)))
    start, character, read = 1, None, ""
    while start is not None:
        part = got(harness, id="a", range_line_start=start, range_char_start=character)
        assert len(part.model_dump_json(exclude_none=True).encode()) <= 4000
        read += part.text
        start, character = part.next_range_line_start, part.next_range_char_start
    assert read == text


def test_a_session_that_has_read_enough_gets_no_text_by_saving_either(make_harness):
    harness = synced(make_harness(Policy(limits=Limits(bytes_per_session=5000)), a=("x" * 3000,)))
    budget = harness.app.usage_limits
    budget.charge_read(4990)
    with pytest.raises(NotPermitted):
        budget.charge_read(11)
    answer = saved(harness, id="a", local_version=1, trash=False, return_text=True)
    assert answer.unchanged
    assert answer.text == ""
    assert answer.text_is_partial
    answer = saved(harness, id="a", append="and more")
    assert answer.changed is None
    assert answer.note == NOT_ALL_SHOWN


def test_a_session_that_has_read_enough_cannot_search_by_replacing(make_harness):
    harness = synced(make_harness(Policy(limits=Limits(bytes_per_session=5000)), a=("text",)))
    saved(harness, id="a", find="text", replace="word")
    harness.app.usage_limits.record_read(5000)
    for guess in ("word", "other"):
        with pytest.raises(NotPermitted):
            saved(harness, id="a", find=guess, replace="x")
    assert harness.store.text("a") == "word"


def test_a_question_about_a_note_names_it_by_id_alone_when_enough_has_been_read(make_harness):
    text = "a secret first line\n" + "some more\n" * 200
    harness = synced(make_harness(Policy(limits=Limits(bytes_per_session=5000)), a=(text,)))
    for said, read in (("a secret first line", 0), ("note (id a)", 5000)):
        harness.app.usage_limits.record_read(read)
        with pytest.raises(ConfirmationRequired) as caught:
            saved(harness, id="a", local_version=1, text="short")
        question = str(caught.value.to_dict())
        assert said in question
        assert ("secret" in question) is (read == 0)


def test_writes_of_a_session_are_counted_and_refused_ones_given_back(make_harness):
    harness = synced(make_harness(Policy(limits=Limits(writes_per_session=2)), a=("text",)))
    saved(harness, id="a", local_version=1, trash=False)  # changes nothing, costs nothing
    with pytest.raises(Exception, match="not 9"):
        saved(harness, id="a", local_version=9, text="new")
    saved(harness, text="one")
    managed(harness, action="trash", id="a", local_version=1)
    with pytest.raises(NotPermitted):
        saved(harness, text="two")
    with pytest.raises(NotPermitted):
        managed(harness, action="untrash", id="a", local_version=2)
    assert listed(harness).total_items == 1


def test_nobody_is_asked_for_what_the_budget_refuses(make_harness):
    harness = synced(make_harness(Policy(limits=Limits(writes_per_session=0)), a=("text",)))
    harness.store.put("a", "text", trash=True)
    synced(harness)
    harness.caller = Caller(agrees=True)
    with pytest.raises(NotPermitted):
        managed(harness, action="delete_permanently", id="a", local_version=2)
    with pytest.raises(NotPermitted):
        saved(harness, text="x", tags=["who@example.com"])
    assert harness.caller.asked == []


def test_writes_of_an_hour_are_counted_across_sessions(make_harness):
    harness = synced(make_harness(Policy(limits=Limits(writes_per_hour=2))))
    saved(harness, text="one")
    harness.now += 1800
    saved(harness, text="two")
    other = type(harness.app.usage_limits)(
        harness.app.config.policy.limits, harness.app.cache, clock=harness.clock
    )
    with pytest.raises(NotPermitted) as refused:
        other.require_write()
    assert refused.value.details["retry_after_seconds"] == 1800
    harness.now += 1801
    other.require_write()
    saved(harness, text="three")
    harness.now -= 10 * 3600  # a clock that was wrong does not block for ten hours
    other.require_write()


def test_a_refused_write_is_reported_as_refused_although_its_count_cannot_be_undone(
    make_harness, monkeypatch
):
    harness = synced(make_harness(Policy(limits=Limits(writes_per_hour=2))))

    def busy(*_args):
        raise CacheBusy("another process is writing")

    def refused():
        with harness.app.usage_limits.write():
            monkeypatch.setattr(harness.app.cache.sync_state, "set", busy)
            raise VersionConflict("the note has moved on")

    with pytest.raises(VersionConflict):
        refused()


# Notes that are seen stay seen, hidden ones hidden.

tags = st.lists(
    st.sampled_from(["work", "private", "PRIVATE", " private", "x", "Work"]), max_size=4
)


@pytest.mark.attack(39)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "h", None]), tags), max_size=6))
def test_no_call_lifts_a_protecting_tag_or_hides_a_note(calls):
    rules = Visibility(hidden_tags=("private",), allowed_tags=("work",), untagged=False)
    with quick_folder() as folder:
        harness = ToolHarness(folder, policy=Policy(visibility=rules))
        harness.store.put("a", "text", tags=["work"])
        harness.store.put("h", "text", tags=["work", "private"])
        synced(harness)
        version = 1
        for note_id, wanted in calls:
            try:
                if note_id is None:
                    answer = saved(harness, text="new", tags=wanted)
                else:
                    answer = saved(harness, id=note_id, local_version=version, tags=wanted)
            except NotariumError:
                continue
            version = answer.local_version if answer.id == "a" else version
        assert harness.store.fields("h")["tags"] == ["work", "private"]
        for note_id in harness.store.ids() - {"h"}:
            assert rules.sees(note_id, harness.store.fields(note_id)["tags"])
        harness.close()


@pytest.mark.attack(39)
def test_a_protecting_tag_given_in_the_middle_of_a_write_is_kept_and_what_it_hides_not_shown(
    make_harness,
):
    harness = synced(make_harness(Policy(visibility=NO_PRIVATE), a=("one\ntwo\n", "x")))
    push = harness.remote.push

    async def raced(write):
        harness.remote.push = push
        harness.store.put("a", "one\ntwo\nsecretive\n", tags=["x", "private"])
        return await push(write)

    harness.remote.push = raced
    with pytest.raises(Exception, match="removed elsewhere"):
        saved(harness, id="a", local_version=1, tags=["x", "y"])
    assert "private" in harness.store.fields("a")["tags"]
    assert "secretive" in harness.store.text("a")
    assert harness.app.cache.notes.get("a") is None
    assert listed(harness).total_items == 0


def test_the_same_holds_while_the_repair_cannot_be_sent(make_harness):
    harness = synced(make_harness(Policy(visibility=NO_PRIVATE), a=("one\ntwo\n", "x")))
    push, pushes = harness.remote.push, []

    async def raced(write):
        pushes.append(write)
        if len(pushes) > 1:
            raise OSError("the network is gone")
        harness.store.put("a", "one\ntwo\nsecretive\n", tags=["x", "private"])
        return await push(write)

    harness.remote.push = raced
    with pytest.raises(Exception, match="removed elsewhere"):
        saved(harness, id="a", local_version=1, tags=["x", "y"])
    assert "private" not in harness.store.fields("a")["tags"]  # the store has lost it for now
    assert harness.app.cache.notes.get("a") is None
    harness.remote.push = push
    synced(synced(harness))
    assert "private" in harness.store.fields("a")["tags"]
    assert harness.app.cache.notes.get("a") is None


def test_merged_tags_that_would_hide_a_note_are_a_conflict(make_harness):
    rules = Visibility(allowed_tags=("work", "home"), untagged=False)
    harness = synced(make_harness(Policy(visibility=rules), a=("text", "work", "home")))
    harness.store.put("a", "text", tags=["home"])
    with pytest.raises(Exception, match="changed elsewhere"):
        saved(harness, id="a", local_version=1, tags=["work"])
    assert harness.store.fields("a")["tags"] == ["home"]


def test_nothing_is_listed_before_everything_is_here(make_harness, monkeypatch):
    monkeypatch.setattr("mcp_notarium.tools.sync_notice.FIRST_PAGE_SECONDS", 0.5)
    harness = make_harness(Policy(visibility=NO_PRIVATE), a=("text",), b=("text", "private"))
    with pytest.raises(StillLoading):
        listed(harness)
    numbers = manage.collect_stats(harness.app)
    assert numbers.db_total_notes is None
    assert numbers.sync_loaded is None
    assert got(harness, id="a").text == "text"
    for name in ("b", "nobody"):
        with pytest.raises(StillLoading, match="whether there is one with this id"):
            got(harness, id=name)
    synced(harness)
    assert listed(harness).total_items == 1
    for name in ("b", "nobody"):
        with pytest.raises(NoteNotFound, match="There is no note with this id"):
            got(harness, id=name)


def test_many_hidden_notes_that_vanish_stop_nothing(make_harness):
    notes = {f"h{n}": ("text", "private") for n in range(40)}
    harness = synced(make_harness(Policy(visibility=NO_PRIVATE), a=("text",), **notes))
    for note_id in notes:
        harness.store.remove(note_id)
    harness.store.forget_cursors()
    synced(harness)
    status = harness.app.scheduler.status()
    assert (status.state, status.last_error) == ("idle", None)
    assert harness.app.cache.notes.visibility.hidden_notes() == {}


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self):
        self.said = []

    def info(self, event, **facts):
        self.said.append((event, facts))

    warning = info


def test_log_lines_tell_nothing_of_hidden_notes(make_harness):
    harness = synced(
        make_harness(Policy(visibility=NO_PRIVATE), a=("text",), h=("text", "private"))
    )
    lines = harness.app.scheduler._runner._log = Lines()
    harness.store.put("h", "changed", tags=["private"])
    synced(harness)
    harness.store.remove("h")
    synced(harness)
    harness.app.cache.progress.mark_left_out(
        2
    )  # notes without a usable id, which may be hidden ones
    synced(harness)
    assert lines.said == []
    harness.store.put("a", "changed")
    harness.store.put("h", "again", tags=["private"])
    synced(harness)
    harness.store.put("a", "changed", tags=["private"])
    synced(harness)
    done = [facts for event, facts in lines.said if event == "sync.cycle_done"]
    assert done == [{"stored": 1, "removed": 0}, {"stored": 0, "removed": 1}]


def test_a_note_whose_tags_were_spoilt_a_moment_before_takes_no_text(make_harness, monkeypatch):
    rules = Visibility(hidden_tags=("private",))
    harness = synced(make_harness(Policy(visibility=rules), a=("text",)))
    get = harness.remote.get

    async def spoilt(note_id, **how):
        revision = await get(note_id, **how)
        spelt = {"raw": b"labels: private", "tags_understood": False}
        return replace(revision, etag="r2", server_version=2, **spelt)

    async def told(cursor, **_how):
        return ChangePage((Entry("a", "r2", 2),), cursor)

    monkeypatch.setattr(harness.remote, "get", spoilt)
    monkeypatch.setattr(harness.remote, "changes", told)
    with pytest.raises(NoteNotFound):
        saved(harness, id="a", local_version=1, text="new")
    assert harness.store.text("a") == "text"
    assert listed(harness).total_items == 0
