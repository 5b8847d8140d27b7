"""Test what a write of a Trilium note costs, whose it is, and what becomes of an edit at the same moment."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from mcp_notarium.errors import (
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.contract import PushStatus
from notarium_devtools.trilium import TriliumSimulator
from support.journal_entries import make_write
from support.sync_rig import Client
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID = "Ab12cd34Ef56"
LISTING, OLDER = "0.102.1", "0.93.0"
"""A version that lists revisions, and one that does not."""


@pytest.fixture(name="sim", params=[LISTING, OLDER])
async def _sim(request, anyio_backend):
    async with TriliumSimulator(request.param).serving() as sim:
        sim.write(ID, "Plan", "<p>one</p><p>two</p>")
        yield sim


@pytest.fixture(name="store")
async def _store(sim):
    store = open_trilium(sim)
    yield store
    await store.close()


@pytest.fixture(name="client")
async def _client(sim, store, tmp_path):
    client = Client(tmp_path, None, remote=store)
    await client.sync()
    yield client
    client.close()


async def push(store, base, **changes):
    content = replace(base.content, **changes)
    return await store.push(make_write(store, ID, content, base, now=0.0))


def labels_of(sim):
    attributes = sim.document.attributes.values()
    return {one.name: one.value for one in attributes if one.note_id == ID}


def act_once(sim, method, end, act):
    """Let a person act right before the first request of this kind."""
    acts = iter([act])

    def before(request):
        if request.method == method and request.path.endswith(end):
            for one in acts:
                one()

    sim.before_request = before


def asked(sim):
    return [(one.method, one.path.rpartition("/")[2]) for one in sim.requests]


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"text": "one\n\nthree"}, 5),
        ({"title": "Plans"}, 5),
        ({"text": "one\n\nthree", "title": "Plans"}, 5),
        ({"tags": ("todo",)}, 3),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
async def test_a_save_takes_five_requests_at_most(sim, client, changes, most):
    for number in range(3):
        note = client.note(ID)
        sim.reset_log()
        varied = {
            key: (*note.tags, f"t{number}") if key == "tags" else f"{value} {number}"
            for key, value in changes.items()
        }
        await client.writer.save(note=note, content=replace(note.content, **varied))
        assert len(asked(sim)) <= most
        assert ("GET", "content") not in asked(sim)


async def test_a_note_that_has_changed_is_read_and_merged(sim, client):
    note = client.note(ID)
    sim.write(ID, "Plan", "<p>theirs</p><p>two</p>")
    saved = await client.writer.save(
        note=note, content=replace(note.content, text="one\n\ntwo\n\nthree")
    )
    assert saved.merged
    assert sim.document.notes[ID].content == b"<p>theirs</p><p>two</p><p>three</p>"


async def test_a_save_that_says_what_the_index_says_asks_the_server(sim, client):
    note = client.note(ID)
    sim.write(ID, "Plan", "<p>theirs</p>")
    saved = await client.writer.save(note=note, content=note.content)
    assert saved.note.text == "theirs"
    assert sim.document.notes[ID].content == b"<p>theirs</p>"


async def test_a_note_that_was_removed_meanwhile_is_said_to_be_gone(sim, client):
    note = client.note(ID)
    sim.document.delete(ID)
    with pytest.raises(Exception, match="removed") as refusal:
        await client.writer.save(note=note, content=replace(note.content, text="x"))
    assert refusal.value.subcategory != "protocol"
    assert ID not in client.contents()


@pytest.mark.parametrize(
    "changes", [{"title": "Plans"}, {"tags": ("todo",)}], ids=["title", "tags"]
)
async def test_title_and_tags_alone_send_no_text(sim, store, changes):
    base = await store.get(ID)
    sim.reset_log()
    await push(store, base, **changes)
    assert [one for one in asked(sim) if one[1] == "content"] == []


@pytest.mark.parametrize(
    "text",
    ["three\n\ntwo\n", "* a\n* b", "|a|b|\n|---|---|\n|1|2|", "_em_ and __strong__", "a  \nb"],
)
async def test_a_text_that_reads_otherwise_as_html_is_our_write(sim, store, text):
    """The server has stored the very HTML that was sent, whatever Markdown the agent has typed."""
    answer = await push(store, await store.get(ID), text=text)
    assert (answer.status, answer.alone) == (PushStatus.STORED, True)


async def test_a_note_counts_as_gone_after_an_answer_that_no_cache_has(sim, store):
    sim.document.delete(ID)
    with pytest.raises(NoteNotFound):
        await store.get(ID)
    first, second = (one for one in sim.requests if one.path.endswith(ID))
    assert (first.query, [*second.query]) == ({}, ["fresh"])


async def test_title_and_labels_that_are_asked_for_are_our_write(sim, store):
    answer = await push(store, await store.get(ID), title="Plans", tags=("b", "a"))
    assert answer.alone


@pytest.mark.parametrize("what", ["text", "title", "label"])
async def test_what_another_has_written_since_is_not_our_write(sim, store, what):
    acts = {
        "text": lambda: sim.write(ID, "Plan", "<p>theirs</p>"),
        "title": lambda: sim.write(ID, "Theirs", "<p>x</p>"),
        "label": lambda: sim.set_labels(ID, "theirs"),
    }
    base = await store.get(ID)
    seen = iter([1])

    def after_the_write(request):
        put = any(one.method == "PUT" for one in sim.requests)
        if put and request.path.endswith(ID) and next(seen, None):
            acts[what]()

    sim.before_request = after_the_write
    assert not (await push(store, base, text="x")).alone


async def test_an_edit_before_the_comparison_is_a_conflict(sim, store):
    base = await store.get(ID)
    act_once(sim, "GET", ID, lambda: sim.write(ID, "Plan", "<p>theirs</p>"))
    with pytest.raises(VersionConflict):
        await push(store, base, text="ours")
    assert sim.document.notes[ID].content == b"<p>theirs</p>"


@pytest.mark.parametrize("ours", [{"text": "ours\n\ntwo"}, {"title": "Ours"}])
@pytest.mark.parametrize(
    "theirs", [("Plan", "<p>one</p><p>theirs</p>"), ("Theirs", "<p>one</p><p>two</p>")]
)
async def test_an_edit_between_comparison_and_revision_is_a_conflict(sim, store, ours, theirs):
    """Also in the first save of a store, which no revision protects."""
    base = await store.get(ID)
    act_once(sim, "POST", "revision", lambda: sim.write(ID, *theirs))
    with pytest.raises(VersionConflict):
        await push(store, base, **ours)
    note = sim.document.notes[ID]
    assert (note.title, note.content.decode()) == theirs


async def test_where_no_revision_is_kept_the_edit_is_a_conflict_too(sim, store):
    sim.document.set_attribute("lim12345", ID, "label", "versioningLimit", "0")
    base = await store.get(ID)
    act_once(sim, "POST", "revision", lambda: sim.write(ID, "Plan", "<p>theirs</p>"))
    with pytest.raises(VersionConflict):
        await push(store, base, text="ours")
    assert sim.document.notes[ID].content == b"<p>theirs</p>"


async def test_nothing_is_compared_with_what_a_proxy_has_kept(sim, client):
    """It keeps every answer for some seconds, whatever it is told."""
    note, kept = client.note(ID), {}
    respond = sim.respond

    async def cached(request):
        address = (request.path, *sorted(request.query.items()))
        if request.method != "GET":
            return await respond(request)
        if address not in kept:
            kept[address] = await respond(request)
        return kept[address]

    await client.remote.get(ID)
    sim.respond = cached
    act_once(sim, "POST", "revision", lambda: sim.write(ID, "Plan", "<p>theirs</p>"))
    with pytest.raises(NotariumError):
        await client.writer.save(note=note, content=replace(note.content, text="ours\n\ntwo"))
    assert sim.document.notes[ID].content == b"<p>theirs</p>"


async def test_a_page_of_a_proxy_in_the_place_of_a_new_value_costs_no_old_one(sim, client):
    sim.document.set_attribute("old12345", ID, "label", "status", "old")
    await client.sync()
    note = client.note(ID)
    content = replace(note.content, properties=note.content.properties.having({"status": "new"}))
    sim.faults.status(200, path="*/attributes", method="POST", body=b"<form>Sign in</form>")
    with pytest.raises(OutcomeUnknown):
        await client.writer.save(note=note, content=content)
    assert labels_of(sim) == {"status": "old"}
    await client.writer.replay.finish_all()
    assert labels_of(sim) == {"status": "new"}


async def test_a_page_of_a_proxy_is_no_revision_that_the_server_keeps(sim, store):
    base = await store.get(ID)
    sim.faults.status(200, path="*/revision", method="POST", body=b"<form>Sign in</form>")
    with pytest.raises(StoreProtocolError):
        await push(store, base, text="ours")
    assert sim.document.notes[ID].content == b"<p>one</p><p>two</p>"


async def test_an_edit_between_comparison_and_revision_is_merged_if_it_is_elsewhere(sim, client):
    note = client.note(ID)
    theirs = "<p>one</p><p>theirs</p>"
    act_once(sim, "POST", "revision", lambda: sim.write(ID, "Plan", theirs))
    saved = await client.writer.save(note=note, content=replace(note.content, text="ours\n\ntwo"))
    assert saved.merged
    assert sim.document.notes[ID].content == b"<p>ours</p><p>theirs</p>"


@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
async def test_an_edit_before_the_revision_is_kept_if_the_write_is_never_answered(
    sim, client, fault
):
    note = client.note(ID)
    theirs = "<p>one</p><p>theirs</p>"
    act_once(sim, "POST", "revision", lambda: sim.write(ID, "Plan", theirs))
    getattr(sim.faults, fault)(method="PUT", times=1000)
    with suppress(NotariumError):
        await client.writer.save(note=note, content=replace(note.content, text="ours\n\ntwo"))
    sim.faults.clear()
    client.time.now += 100
    await client.run_cycles(2)
    texts = " ".join(content.text for content in client.contents().values())
    assert "theirs" in texts
    assert "ours" in texts


@pytest.mark.parametrize("ours", [{"text": "ours\n\ntwo"}, {"title": "Ours"}])
@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
async def test_an_edit_while_a_write_has_no_answer_is_not_overwritten(sim, store, fault, ours):
    base = await store.get(ID)
    method = "PATCH" if "title" in ours else "PUT"
    getattr(sim.faults, fault)(method=method)
    theirs = ("Theirs", "<p>theirs</p>")

    def write_after_it(request):
        put = [one for one in sim.requests if one.method == method]
        if put and request.method == "GET" and sim.document.notes[ID].title != theirs[0]:
            sim.write(ID, *theirs)

    sim.before_request = write_after_it
    with pytest.raises(OutcomeUnknown):
        await push(store, base, **ours)
    note = sim.document.notes[ID]
    assert (note.title, note.content.decode()) == theirs


@pytest.mark.parametrize("ours", [{"text": "ours\n\ntwo"}, {"title": "Ours"}])
@pytest.mark.parametrize(("fault", "sent"), [("cut_before", 2), ("cut_after", 1)])
async def test_a_write_without_an_answer_is_sent_again_only_if_it_was_not_done(
    sim, store, fault, sent, ours
):
    base = await store.get(ID)
    method = "PATCH" if "title" in ours else "PUT"
    getattr(sim.faults, fault)(method=method)
    answer = await push(store, base, **ours)
    assert (answer.status, answer.alone) == (PushStatus.STORED, True)
    assert len([one for one in asked(sim) if one[0] == method]) == sent


@pytest.mark.parametrize("edits", [False, True])
@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
async def test_a_deletion_without_an_answer_is_sent_again_only_over_the_same_note(
    sim, store, fault, edits
):
    base = await store.get(ID)
    getattr(sim.faults, fault)(method="DELETE")

    def write_after_it(request):
        sent = any(one.method == "DELETE" for one in sim.requests)
        if edits and sent and request.method == "GET" and ID in sim.document.notes:
            sim.write(ID, "Plan", "<p>theirs</p>")

    sim.before_request = write_after_it
    if edits and fault == "cut_before":
        with pytest.raises(OutcomeUnknown):
            await store.delete(ID, etag=base.etag, write_id="0d")
        assert sim.document.notes[ID].content == b"<p>theirs</p>"
    else:
        await store.delete(ID, etag=base.etag, write_id="0d")
        assert ID not in sim.document.notes
        sent = len([one for one in asked(sim) if one[0] == "DELETE"])
        assert sent == (2 if fault == "cut_before" else 1)


async def test_an_edit_before_a_write_that_never_arrived_is_a_conflict(sim, store):
    base = await store.get(ID)
    sim.faults.status(429, method="PUT", retry_after="0")
    act = iter([lambda: sim.write(ID, "Plan", "<p>theirs</p>")])

    def write_after_it(request):
        if request.method == "GET" and any(one.method == "PUT" for one in sim.requests):
            next(act, lambda: None)()

    sim.before_request = write_after_it
    with pytest.raises(VersionConflict):
        await push(store, base, text="ours")
    assert sim.document.notes[ID].content == b"<p>theirs</p>"


async def test_a_label_that_notes_below_inherit_is_not_removed(sim, store):
    """An undo would bring it back for this note alone."""
    sim.document.set_attribute("a1a1a1", ID, "label", "first", "")
    sim.document.set_attribute("b2b2b2", ID, "label", "second", "", inheritable=True)
    base = await store.get(ID)
    with pytest.raises(StoreRejected) as refused:
        await push(store, base, tags=("first",))
    assert refused.value.subcategory == "label_passed_on"
    kept = (await push(store, base, tags=("second",))).revision
    assert kept.content.tags == ("second",)


async def test_a_bookmark_in_the_text_is_no_tag():
    """The label that 0.103 makes of it by itself can be neither given nor taken."""
    async with TriliumSimulator("0.103.0").serving() as sim:
        sim.write(ID, "Plan", '<p><a id="here"></a>one</p><p>two</p>')
        store = open_trilium(sim)
        base = await store.get(ID)
        answer = await push(store, base, text=base.content.text + "\n\nthree", tags=("todo",))
        assert [one.name for one in sim.document.owned(ID) if one.type == "label"] == [
            "internalBookmark",
            "todo",
        ]
        assert answer.alone
        assert (answer.revision.content.tags, answer.revision.tags_understood) == (("todo",), True)
        await push(store, answer.revision, tags=())
        assert (await store.get(ID)).content.tags == ()
        with pytest.raises(StoreRejected):
            make_write(store, ID, replace(base.content, tags=("internalBookmark",)), base, now=0.0)
        await store.close()
