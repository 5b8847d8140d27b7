"""Test the traps of ETAPI: what real servers did, and what the store makes of it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from contract.bench import nothing_known
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import (
    ConfigError,
    CursorLost,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    StoreProtocolError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.contract import ChangePage, Entry, PushStatus
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.trilium import note_codec, note_reader, session
from mcp_notarium.stores.trilium.kind import ALLOW_HTTP, KIND, TOKEN, URL
from mcp_notarium.stores.trilium.urls import Urls
from notarium_devtools.trilium import TriliumSimulator
from notarium_devtools.trilium.bodies import json_answer
from support.journal_entries import make_write
from support.native_index import OpenIndex
from support.simplenote_client import MemoryTokens
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID = "Ab12cd34Ef56"
VERSIONS = ["0.102.1", "0.93.0", "0.63.6"]


@pytest.fixture(name="sim")
async def _sim(anyio_backend):
    async with TriliumSimulator().serving() as sim:
        yield sim


@pytest.fixture(name="store")
async def _store(sim):
    store = open_trilium(sim)
    yield store
    await store.close()


def pending(store, content, *, base=None, note_id=ID):
    return make_write(store, note_id, content, base, now=0.0)


async def listing(store, *, with_content=False):
    return await store.list_page(since=None, mark=None, limit=100, with_content=with_content)


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_serves_a_note_through_its_whole_life(version):
    async with TriliumSimulator(version).serving() as sim:
        store = open_trilium(sim)
        new = pending(store, Content("one\n\n- two", ("todo",), title="Plan"))
        made = (await store.push(new)).revision
        assert sim.document.notes[ID].content == b"<p>one</p><ul><li>two</li></ul>"
        changed = replace(made.content, text="one more\n\n- two", tags=("done",), title="Plans")
        kept = (await store.push(pending(store, changed, base=made))).revision
        assert kept.content == changed
        assert [entry.etag for entry in (await listing(store)).entries] == [kept.etag]
        (old,) = sim.document.notes[ID].revisions
        assert old.content == b"<p>one</p><ul><li>two</li></ul>"
        await store.delete(ID, etag=kept.etag, write_id="0d")
        assert ID not in sim.document.notes
        assert (await store.describe(now=time.time() - 95)).startswith(
            f"Trilium {version} (its clock: +9"
        )
        await store.close()


async def test_an_existing_id_is_never_posted(sim, store):
    sim.write(ID, "Theirs", "<p>theirs</p>")
    answer = await store.push(pending(store, Content("ours")))
    assert answer.status is PushStatus.REPEATED
    assert answer.revision.content.text == "theirs"
    assert not [one for one in sim.requests if one.method == "POST"]


async def test_a_creation_without_an_answer_is_sent_once(sim, store):
    sim.faults.cut_after(method="POST", path="*/create-note")
    write = pending(store, Content("ours"))
    with pytest.raises(OutcomeUnknown):
        await store.push(write)
    sim.write(ID, "Edited since", "<p>since</p>")
    assert (await store.push(write)).revision.content.text == "since"
    assert len([one for one in sim.requests if one.path.endswith("create-note")]) == 1


async def test_a_note_that_moved_is_not_overwritten(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    base = await store.get(ID)
    sim.write(ID, "Plan", "<p>theirs</p>")
    with pytest.raises(VersionConflict):
        await store.push(pending(store, replace(base.content, text="ours"), base=base))
    with pytest.raises(VersionConflict):
        await store.delete(ID, etag=base.etag, write_id="0d")
    assert sim.document.notes[ID].content == b"<p>theirs</p>"


async def test_a_revision_is_kept_before_each_overwrite(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    base = await store.get(ID)
    sim.reset_log()
    await store.push(pending(store, replace(base.content, text="b"), base=base))
    changes = [(one.method, one.path.rpartition("/")[2]) for one in sim.requests]
    assert [one for one in changes if one[0] != "GET"] == [("POST", "revision"), ("PUT", "content")]


async def test_no_revision_means_no_overwrite(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    base = await store.get(ID)
    sim.faults.status(400, path="*/revision")
    with pytest.raises(StoreRejected):
        await store.push(pending(store, replace(base.content, text="b"), base=base))
    assert sim.document.notes[ID].content == b"<p>a</p>"


async def test_protected_notes_are_neither_listed_nor_read_nor_written(sim, store):
    sim.write(ID, "Secret plan", "<p>a</p>")
    base = await store.get(ID)
    sim.protect(ID)
    for session_open in (False, True):
        sim.document.session_open = session_open
        page = await listing(store, with_content=True)
        assert (page.entries, page.left_out) == ((), 1)
        with pytest.raises(NoteNotFound):
            await store.get(ID)
        with pytest.raises(StoreRejected):
            await store.push(pending(store, replace(base.content, text="b"), base=base))
        with pytest.raises(VersionConflict):
            await store.delete(ID, etag=base.etag, write_id="0d")


async def test_a_note_that_is_protected_while_it_is_read_is_not_shown(sim, store):
    sim.write(ID, "Secret plan", "<p>a</p>")
    sim.before_request = lambda request: (
        sim.protect(ID) if request.path.endswith("/content") else None
    )
    with pytest.raises((NoteNotFound, StoreProtocolError)):
        await store.get(ID)


@pytest.mark.parametrize("rows", [{"results": []}, {"results": {}}, {}, [], {"results": [5]}])
async def test_a_listing_that_failed_removes_nothing(sim, store, rows):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.faults.status(200, path="*/notes", body=json.dumps(rows).encode())
    with pytest.raises(StoreProtocolError):
        await listing(store)


async def test_a_cycle_cut_off_from_the_root_makes_the_listing_walk_the_tree(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.write("Child12345", "Child", "")
    sim.document.place("Child12345", ID)
    sim.document.place(ID, "Child12345")  # a circle within the tree
    before = await listing(store, with_content=True)
    sim.write("Loop1Loop1", "A", "")
    sim.write("Loop2Loop2", "B", "")
    sim.document.place("Loop1Loop1", "Loop2Loop2")
    sim.document.place("Loop2Loop2", "Loop1Loop1")
    for note_id in ("Loop1Loop1", "Loop2Loop2"):
        del sim.document.branches[f"root_{note_id}"]
    sim.document.set_attribute("inhe1234", "root", "label", "all", "", inheritable=True)
    sim.reset_log()
    after = await listing(store, with_content=True)
    assert [one.status for one in sim.requests if one.path.endswith("/notes")] == [500, 500]
    assert {one.id for one in after.entries} == {one.id for one in before.entries}
    assert {one.content.tags for one in after.entries} == {("all",)}
    assert (await store.get("Loop1Loop1")).id == "Loop1Loop1"  # so it is not removed here


async def test_a_server_that_is_down_is_not_walked(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.faults.status(503, times=1000)
    with pytest.raises(StoreUnavailable):
        await listing(store)
    assert len(sim.requests) < 10


async def test_system_notes_and_the_root_are_no_notes(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    page = await listing(store)
    assert [entry.id for entry in page.entries] == [ID]
    assert (page.left_out, page.total) == (0, 1)
    for note_id in ("root", "_hidden", "_options", "none"):
        with pytest.raises(NoteNotFound):
            await store.get(note_id)


async def test_archived_notes_and_clones_are_listed_once(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.write("Parent1234", "Parent", "")
    sim.document.place(ID, "Parent1234")
    sim.set_labels(ID, "archived")
    assert sorted(entry.id for entry in (await listing(store)).entries) == sorted(
        (ID, "Parent1234")
    )


async def test_inherited_labels_are_tags_and_change_the_etag(sim, store):
    sim.write("Parent1234", "Parent", "")
    sim.write(ID, "Plan", "<p>a</p>")
    sim.document.place(ID, "Parent1234")
    sim.set_labels(ID, "own")
    before = await store.get(ID)
    sim.document.set_attribute("inhe1234", "Parent1234", "label", "private", "", inheritable=True)
    after = await store.get(ID)
    assert after.content.tags == ("own", "private")
    assert after.etag != before.etag
    assert after.modified_at == before.modified_at  # no date tells it
    with pytest.raises(StoreRejected) as refusal:
        store.compose(after, replace(after.content, tags=("own",)), now=0.0)
    assert refusal.value.subcategory == "inherited_tags"
    body = store.compose(after, replace(after.content, tags=("private", "own", "more")), now=0.0)
    assert json.loads(body)["labels"] == [["own", ""], ["more", ""]]


async def test_a_label_with_a_value_is_kept_and_not_removed(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.document.set_attribute("prio1234", ID, "label", "priority", "high")
    sim.document.set_attribute("defi1234", ID, "label", "label:priority", "promoted,text")
    base = await store.get(ID)
    assert base.content.tags == ("priority",)
    assert base.tags_understood
    with pytest.raises(StoreRejected) as refusal:
        store.compose(base, replace(base.content, tags=()), now=0.0)
    assert refusal.value.subcategory == "label_value"


async def test_a_label_that_is_no_tag_is_said_to_be_there(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.document.set_attribute("oddl1234", ID, "label", "x", "")
    sim.document.attributes["oddl1234"].name = "to do"  # as very old servers kept it
    found = await store.get(ID)
    assert (found.content.tags, found.tags_understood) == ((), False)


@pytest.mark.parametrize("tag", ["to do", "a-b", "label:x", ""])
async def test_a_tag_that_trilium_would_rename_is_refused(store, tag):
    with pytest.raises(StoreRejected) as refusal:
        store.compose(None, Content("a", (tag,)), now=0.0)
    assert refusal.value.subcategory == "tag_name"


async def test_code_goes_through_as_it_is_and_is_no_markdown(sim, store):
    code = "def f():\r\n\treturn '<b>' * 2\n\n"
    sim.write(ID, "f.py", code, kind="code", mime="text/x-python")
    base = await store.get(ID)
    assert base.content.text == code
    await store.push(pending(store, replace(base.content, text=code + "x"), base=base))
    assert sim.document.notes[ID].content.decode() == code + "x"
    assert sim.document.notes[ID].mime == "text/x-python"


@pytest.mark.parametrize(("kind", "mime"), [("file", "application/pdf"), ("image", "image/png")])
async def test_files_are_listed_and_not_read(sim, store, kind, mime):
    sim.write(ID, "Scan", "\x00\x01", kind=kind, mime=mime)
    (base,) = (await listing(store, with_content=True)).entries
    assert base.content.title == "Scan"
    assert base.content.text == f"({kind} {mime}: the content is not shown here)"
    assert not [one for one in sim.requests if one.path.endswith("/content")]
    await store.push(pending(store, replace(base.content, title="Scan 2"), base=base))
    assert sim.document.notes[ID].content == b"\x00\x01"
    with pytest.raises(StoreRejected):
        store.compose(base, replace(base.content, text="x"), now=0.0)


async def test_a_note_that_is_too_large_is_listed_and_never_changed(sim, store, monkeypatch):
    monkeypatch.setattr(note_reader, "LARGEST_CONTENT", 1000)
    sim.write(ID, "Large", "<p>" + "x" * 2000)
    base = await store.get(ID)
    assert "not shown" in base.content.text
    with pytest.raises(StoreRejected):
        store.compose(base, replace(base.content, text="x"), now=0.0)


async def test_an_edit_that_would_lose_something_is_refused_with_what(sim, store):
    sim.write(ID, "Plan", '<p>a <span style="color:red">b</span></p><p>c</p>')
    base = await store.get(ID)
    with pytest.raises(StoreRejected, match="style of <span>") as refusal:
        store.compose(base, replace(base.content, text="x\n\nc"), now=0.0)
    assert refusal.value.subcategory == "formatting"
    body = store.compose(base, replace(base.content, text="a b\n\nd"), now=0.0)
    assert json.loads(body)["content"].startswith('<p>a <span style="color:red">b</span></p>')


async def test_embedded_images_that_the_server_replaces_are_its_own_doing(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.document.notes[ID].content = b'<p>a</p><p><img src="data:image/png;base64,AAAA"></p>'
    base = await store.get(ID)
    assert base.content.text == "a\n\n![](embedded-image-1)"
    text = base.content.text.replace("a\n", "b\n")
    answer = await store.push(pending(store, replace(base.content, text=text), base=base))
    assert answer.alone
    assert "api/attachments/" in answer.revision.content.text


@pytest.mark.parametrize("other", ["text", "title", "labels"])
async def test_another_edit_is_not_taken_for_the_replacing_of_images(sim, store, other):
    image = '<p><img src="data:image/png;base64,AAAA"></p>'
    sim.write(ID, "Plan", "<p>a</p>")
    sim.document.notes[ID].content = f"<p>a</p>{image}".encode()
    base = await store.get(ID)

    once = iter([1])

    def edit(request):
        put = [one for one in sim.requests if one.method == "PUT"]
        if request.method == "GET" and put and next(once, None):
            stored = sim.document.notes[ID].content.decode()
            text = stored + "<p>theirs</p>" if other == "text" else stored
            sim.write(ID, "Theirs" if other == "title" else "Plan", text)
            if other == "labels":
                sim.set_labels(ID, "theirs")

    sim.before_request = edit
    text = base.content.text.replace("a\n", "b\n")
    answer = await store.push(pending(store, replace(base.content, text=text), base=base))
    assert not answer.alone


async def test_a_protected_note_of_the_same_id_is_not_posted_either(sim, store):
    sim.write(ID, "Theirs", "<p>theirs</p>")
    sim.protect(ID)
    with pytest.raises(NoteNotFound):
        await store.push(pending(store, Content("ours")))
    assert sim.document.notes[ID].content == b"<p>theirs</p>"


async def test_images_of_other_hosts_that_the_server_fetches_later_are_news(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.write(ID, "Plan", '<p>a</p><p><img src="https://example.com/x.png"></p>')
    before = await store.get(ID)
    sim.document.download_images()
    after = await store.get(ID)
    assert after.etag != before.etag


@pytest.mark.parametrize(
    ("kind", "text", "age", "waits"),
    [
        ("text", '<p><img src="data:image/png;base64,aGk="></p>', 0.0, True),
        ("text", '<p>a</p><p><IMG SRC="https://example.com/x.png"></p>', 3.0, True),
        ("text", '<p><img src="data:image/png;base64,aGk="></p>', 9.0, False),
        ("text", "<p>a</p>", 0.0, False),
        ("code", "<img>", 0.0, False),
    ],
)
async def test_a_note_stays_until_the_server_has_looked_after_its_images(kind, text, age, waits):
    """A server that finds no note then ends itself."""
    now, slept = [1_790_000_000.25], []

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    async with TriliumSimulator(clock=lambda: now[0]).serving() as sim:
        store = open_trilium(sim, sleep=sleep)
        sim.write(ID, "Plan", "", kind=kind)
        sim.write(ID, "Plan", text, kind=kind)
        now[0] += age
        base = await store.get(ID)
        await store.delete(ID, etag=base.etag, write_id="0d")
        assert ID not in sim.document.notes
        assert (bool(slept), sim.document.ended) == (waits, False)
        assert sum(slept) <= 8.0
        await store.close()


async def test_a_note_that_changes_while_its_deletion_waits_is_not_deleted(sim):
    async def sleep(_seconds):
        sim.write(ID, "Plan", "<p>theirs</p>")

    sim.write(ID, "Plan", "")
    sim.write(ID, "Plan", '<p><img src="data:image/png;base64,aGk="></p>')
    store = open_trilium(sim, sleep=sleep)
    base = await store.get(ID)
    with pytest.raises(VersionConflict):
        await store.delete(ID, etag=base.etag, write_id="0d")
    assert sim.document.notes[ID].content == b"<p>theirs</p>"
    await store.close()


async def test_a_note_with_others_below_it_is_not_deleted(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.write("Child12345", "Child", "")
    sim.document.place("Child12345", ID)
    base = await store.get(ID)
    with pytest.raises(StoreRejected) as refusal:
        await store.delete(ID, etag=base.etag, write_id="0d")
    assert refusal.value.subcategory == "has_children"
    assert ID in sim.document.notes


async def test_a_write_that_fails_half_way_promises_nothing(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    base = await store.get(ID)
    sim.faults.status(400, method="PATCH")
    with pytest.raises(OutcomeUnknown):
        await store.push(pending(store, replace(base.content, text="b", title="Other"), base=base))


async def test_a_path_that_the_server_does_not_know_is_no_missing_note(sim, store):
    sim.faults.status(404, path="*/notes/*", body=b'{"message":"Router not found"}')
    with pytest.raises(StoreProtocolError):
        await store.get(ID)


async def test_content_and_date_of_a_note_are_of_one_moment(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    changed = iter(["<p>b</p>"])

    def edit(request):
        if request.path.endswith("/content"):
            for text in changed:
                sim.write(ID, "Plan", text)

    sim.before_request = edit
    found = await store.get(ID)
    assert found.content.text == "b"
    assert found.etag == (await store.get(ID)).etag


@pytest.mark.parametrize(
    ("status", "body"),
    [(204, b""), (200, b""), (200, b"<form>Sign in</form>"), (200, b"<p>another note</p>")],
)
async def test_a_content_that_is_not_the_notes_is_an_error_and_never_written(
    sim, store, status, body
):
    sim.write(ID, "Plan", "<p>a</p><p>b</p>")
    base = await store.get(ID)
    sim.faults.status(status, path="*/content", times=99, body=body, method="GET")
    with pytest.raises(StoreProtocolError) as error:
        await store.get(ID)
    assert "proxy" in error.value.resolution_hint
    answer = await store.push(pending(store, replace(base.content, tags=("todo",)), base=base))
    assert answer.revision.content.tags == ("todo",)
    assert answer.revision.content.text == "a\n\nb"
    assert sim.document.notes[ID].content == b"<p>a</p><p>b</p>"


@pytest.mark.parametrize(
    ("changes", "path", "answer"),
    [
        ({"text": "b"}, "*/content", (200, b"<form>Sign in</form>")),
        ({"text": "b"}, "*/content", (204, b"")),
        ({"tags": ("x",)}, "*/attributes", (200, b"<form>Sign in</form>")),
    ],
    ids=["a page for a text", "what a text gets", "a page for a label"],
)
async def test_a_write_that_was_answered_and_not_done_is_in_doubt(
    sim, store, changes, path, answer
):
    sim.write(ID, "Plan", "<p>a</p>")
    base = await store.get(ID)
    for method in ("PUT", "POST"):
        sim.faults.status(answer[0], path=path, method=method, body=answer[1])
    with pytest.raises(OutcomeUnknown):
        await store.push(pending(store, replace(base.content, **changes), base=base))


async def test_a_failing_note_does_not_hide_the_others(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    sim.write("Bad1Bad1Bad1", "Bad", "")
    sim.document.notes["Bad1Bad1Bad1"].content = b"\xff"
    page = await listing(store, with_content=True)
    kinds = {entry.id: type(entry) for entry in page.entries}
    assert kinds["Bad1Bad1Bad1"] is Entry
    assert kinds[ID] is not Entry


async def test_the_count_of_changes_tells_when_to_list(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    cursor = (await listing(store)).cursor
    sim.reset_log()
    assert await store.changes(cursor, wait=False, base_of=nothing_known) == ChangePage((), cursor)
    assert [one.path for one in sim.requests] == ["/api/setup/status"]
    sim.document.set_attribute("priv1234", ID, "label", "private", "")  # moves no date
    with pytest.raises(CursorLost):
        await store.changes(cursor, wait=False, base_of=nothing_known)


@pytest.mark.parametrize("fault", [{"status": 404}, {"status": 503}, {"status": 200}])
async def test_a_server_that_does_not_tell_its_count_is_listed_each_time(sim, store, fault):
    sim.faults.status(path="*/status", **fault)
    cursor = (await listing(store)).cursor
    with pytest.raises(CursorLost):
        await store.changes(cursor, wait=False, base_of=nothing_known)


async def test_no_calendar_address_is_ever_asked_for(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    await listing(store, with_content=True)
    assert not [one for one in sim.requests if "calendar" in one.path or "inbox" in one.path]


async def test_every_content_has_the_one_type_that_is_safe(sim, store):
    types = []
    sim.before_request = lambda request: (
        types.append(request.headers.get("content-type")) if request.method == "PUT" else None
    )
    sim.write(ID, "Plan", "<p>a</p>")
    base = await store.get(ID)
    await store.push(pending(store, replace(base.content, text="b"), base=base))
    assert types == ["text/plain; charset=utf-8"]


async def test_a_token_that_another_process_stored_is_used(sim):
    tokens = MemoryTokens(Secret("old_token"))
    store = open_trilium(sim, token="", tokens=tokens)
    with pytest.raises(LoginRequired):
        await listing(store)
    tokens.token = Secret(sim.token)
    await listing(store)
    await store.close()


class Dialog:
    by_password = False

    def __init__(self, password):
        self.password = password

    def ask_secret(self, _prompt):
        return Secret(self.password)


async def test_a_login_makes_one_token_by_the_password(sim):
    settings = StoreSettings({URL: sim.url + "/etapi/"})
    token = await session.log_in(settings, 5.0, Dialog(sim.password))
    assert token.reveal_text() in sim.etapi.tokens
    assert sim.etapi.logins == ["MCP Notarium"]


async def test_a_wrong_password_is_sent_once(sim):
    settings = StoreSettings({URL: sim.url})
    with pytest.raises(LoginRequired):
        await session.log_in(settings, 5.0, Dialog("wrong"))
    assert len(sim.requests) == 1
    sim.etapi.failed_logins = 10
    with pytest.raises(RateLimited) as refusal:
        await session.log_in(settings, 5.0, Dialog(sim.password))
    assert refusal.value.retry_after == 724


@pytest.mark.parametrize(
    ("address", "allowed", "endpoint"),
    [
        ("http://127.0.0.1:8080", False, "http://127.0.0.1:8080"),
        ("http://localhost:8080/etapi/", False, "http://localhost:8080"),
        ("https://Notes.Example.org/trilium//", False, "https://notes.example.org:443/trilium"),
        ("http://192.168.1.5:8080/ETAPI", True, "http://192.168.1.5:8080"),
        ("http://nas:8080", True, "http://nas:8080"),
        ("http://nas.local", True, "http://nas.local:80"),
        ("http://192.168.1.5:8080", False, None),
        ("http://nas:8080", False, None),
        ("http://8.8.8.8:8080", True, None),
        ("http://notes.example.org", True, None),
        ("http://0.0.0.0:8080", True, None),
        ("https://user:secret@notes.example.org", True, None),
        ("notes.example.org", True, None),
        ("https://notes.example.org/?x=1", True, None),
    ],
)
def test_addresses_have_one_form_and_plain_http_stays_near(address, allowed, endpoint):
    settings = StoreSettings({URL: address, ALLOW_HTTP: "on" if allowed else "off"})
    if endpoint is None:
        with pytest.raises(ConfigError) as refusal:
            KIND.identity(settings)
        assert "secret" not in str(refusal.value)
    else:
        assert KIND.identity(settings).endpoint == endpoint
        assert (
            Urls.from_settings(address, plain_http=allowed)
            .api("app-info")
            .endswith("/etapi/app-info")
        )


def test_only_the_environment_says_where_a_token_goes():
    trusts = {variable.name: variable.trust for variable in KIND.variables}
    assert trusts[URL] == trusts[ALLOW_HTTP] == 1
    assert {variable.name for variable in KIND.variables if variable.secret} == {TOKEN}


def test_the_id_of_a_content_is_the_one_that_trilium_makes():
    assert note_codec.blob_id(b"") == "z4PhNX7vuL3xVChQ1m2A"


async def test_an_empty_note_is_made_with_an_empty_content(sim, store):
    await store.push(pending(store, Content("", title="Empty")))
    assert (sim.document.notes[ID].title, sim.document.notes[ID].content) == ("Empty", b"")


async def test_a_change_with_an_old_date_is_noticed(sim, store):
    """Another device that syncs late writes old dates."""
    sim.write(ID, "Plan", "<p>a</p>")
    (before,) = (await listing(store)).entries
    sim.write(ID, "Plan", "<p>b</p>")
    sim.document.notes[ID].changed = 1e9
    (after,) = (await listing(store)).entries
    assert after.etag != before.etag


async def test_a_database_that_was_put_back_is_listed(sim, store):
    sim.write(ID, "Plan", "<p>a</p>")
    cursor = (await listing(store)).cursor
    sim.document.changes -= 2
    with pytest.raises(CursorLost):
        await store.changes(cursor, wait=False, base_of=nothing_known)


def test_facts_of_a_strange_server_are_unknown():
    said = note_codec.server_facts({"appVersion": "1\n2"}, date=None, now=0.0)
    assert said == "of unknown version (its clock: unknown)"


async def test_the_clock_is_that_of_the_answer_and_not_of_the_server_start(sim, store):
    """``app-info`` says for ever when the server was started."""
    facts = {"appVersion": "0.103.0", "utcDateTime": "2026-01-01T00:00:00.000Z"}
    sim.etapi._app_info = lambda _request: json_answer(200, facts)
    said = await store.describe(now=sim.document.clock() - 30)
    assert said.startswith("Trilium 0.103.0 (its clock: +")
    assert 28 <= int(said.partition("+")[2].partition(" ")[0]) <= 31


CANARY = "Ca-canary-5171"


@pytest.mark.parametrize("status", [400, 401, 404, 409, 429, 500])
@pytest.mark.parametrize("body", ["text", "json", "code"])
async def test_no_error_says_the_token_or_what_a_note_says(sim, status, body):
    store = open_trilium(sim)
    sim.write(ID, CANARY, f"<p>{CANARY}</p>")
    base = await store.get(ID)
    answers = {
        "text": CANARY,
        "json": json.dumps({"message": f"{CANARY} {sim.token}"}),
        "code": json.dumps({"code": CANARY, "message": sim.token}),
    }
    sim.faults.status(status, times=1000, body=answers[body].encode())
    edit = replace(base.content, text=f"{CANARY} changed")
    for call in (
        listing(store),
        store.get(ID),
        store.push(pending(store, edit, base=base)),
        store.push(pending(store, edit, note_id="New1234567")),
        store.delete(ID, etag=base.etag, write_id="0d"),
        store.describe(now=0.0),
        store.native(OpenIndex()).search(CANARY),
        store.native(OpenIndex()).text(ID),
        store.native(OpenIndex()).note(ID),
    ):
        with pytest.raises(NotariumError) as failure:
            await call
        error: BaseException | None = failure.value
        while error is not None:
            said = f"{error!r} {error.to_dict() if isinstance(error, NotariumError) else error}"
            assert CANARY not in said
            assert sim.token not in said
            error = error.__cause__ or error.__context__
    await store.close()
