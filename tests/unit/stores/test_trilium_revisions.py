"""Test that a revision of a Trilium note comes back as it was, with the links of the note and not of its copies."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.stores.trilium.revisions import Attachment, twin_of, with_own
from mcp_notarium.tools.catalog import TITLED
from notarium_devtools.trilium import TriliumSimulator
from notarium_devtools.trilium.records import Attachment as Stored
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID = "Ab12cd34Ef56"
IMAGE, FILE = "Img123456789", "Fil123456789"
LINK = f"#root/{ID}?viewMode=attachments&amp;attachmentId={FILE}"
HTML = (
    '<p>one</p><figure class="image image_resized" style="width:50%;">'
    f'<img src="api/attachments/{IMAGE}/image/pic.png" width="300" height="200">'
    "<figcaption>A caption</figcaption></figure>"
    f'<p><a class="reference-link" href="{LINK}">doc.pdf</a></p>'
    f'<p><a href="https://example.org"><img src="api/attachments/{IMAGE}/image/pic.png" width="30" height="20"></a></p>'
    "<p>two</p>"
)


@pytest.fixture(name="sim")
async def _sim(anyio_backend):
    async with TriliumSimulator().serving() as sim:
        for name, role, content in ((IMAGE, "image", b"png"), (FILE, "file", b"pdf")):
            attach(sim, name, ID, role, content)
        sim.write(ID, "Plan", HTML)
        sim.document.add_revision = lambda note, **more: add_revision(sim, note, **more)
        yield sim


def attach(sim, name, owner, role, content):
    made = Stored(name, owner, role, f"{role}/x", f"{role}.x", 10, content, sim.document.clock())
    sim.document.attachments[name] = made


def add_revision(sim, note, **more):
    """Keep a revision as the server does: with copies of the attachments, which its links name."""
    type(sim.document).add_revision(sim.document, note, **more)
    old = note.revisions[0]
    html = old.content.decode()
    for one in [a for a in sim.document.attachments.values() if a.owner_id == note.id]:
        copy = sim.document.make_id()
        attach(sim, copy, old.id, one.role, one.content)
        html = html.replace(f"attachments/{one.id}", f"attachments/{copy}")
        link = f'href="#root/{ID}?viewMode=attachments&amp;attachmentId={one.id}"'
        html = html.replace(link, f'href="api/attachments/{copy}/download"')
    note.revisions[0] = replace(old, content=html.encode())


@pytest.fixture(name="harness")
async def _harness(sim, tmp_path):
    remote = open_trilium(sim)
    harness = ToolHarness(tmp_path, remote=remote)
    harness.ticking = True
    await harness.sync()
    yield harness
    await remote.close()
    harness.close()


def stored(sim):
    return sim.document.notes[ID].content.decode()


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def rewrite(client, text):
    note = await call(client, "get", id=ID)
    version = note["local_version"]
    return await call(client, "save", id=ID, local_version=version, text=text, confirm=True)


async def test_undo_brings_back_the_html_and_links_the_notes_own_attachments(sim, harness):
    async with connected(harness.opened, toolset=TITLED) as client:
        await rewrite(client, "one\n\ntwo")
        assert stored(sim) == "<p>one</p><p>two</p>"
        assert "download" in sim.document.notes[ID].revisions[0].content.decode()
        answer = await call(client, "manage", action="undo", id=ID, confirm=True)
    assert stored(sim) == HTML
    assert answer["status"] == "undone"
    assert "Markdown" not in answer["note"]
    assert sim.document.attachments[IMAGE].unused_since is None


async def test_a_revision_of_the_server_is_restored_as_it_was(sim, harness):
    async with connected(harness.opened, toolset=TITLED) as client:
        saved = await rewrite(client, "one\n\ntwo")
        revision = sim.document.notes[ID].revisions[0].id
        asked = {"id": ID, "local_version": saved["local_version"], "confirm": True}
        await call(client, "manage", action="restore_version", version=revision, **asked)
    assert stored(sim) == HTML


async def test_the_revision_of_the_date_comes_back_and_not_a_newer_one_that_reads_the_same(
    sim, harness
):
    """A person has changed a width, which Markdown does not show, before the change and after another."""
    async with connected(harness.opened, toolset=TITLED) as client:
        await rewrite(client, "one\n\ntwo")
        wider = HTML.replace("50%", "80%")
        old = sim.document.notes[ID].revisions[0]
        type(sim.document).add_revision(sim.document, sim.document.notes[ID])
        revisions = sim.document.notes[ID].revisions
        revisions[0] = replace(revisions[0], content=wider.encode())
        assert revisions[1] is old
        await call(client, "manage", action="undo", id=ID, confirm=True)
    assert stored(sim) == HTML


async def test_an_undo_of_tags_alone_leaves_the_html(sim, harness):
    """An older revision reads the same, with another width."""
    type(sim.document).add_revision(sim.document, sim.document.notes[ID])
    (old,) = sim.document.notes[ID].revisions
    narrow = HTML.replace("50%", "80%").encode()
    sim.document.notes[ID].revisions[0] = replace(old, content=narrow, edited=old.edited - 1000)
    async with connected(harness.opened, toolset=TITLED) as client:
        note = await call(client, "get", id=ID)
        version = note["local_version"]
        await call(client, "save", id=ID, local_version=version, tags=["todo"])
        await call(client, "manage", action="undo", id=ID, confirm=True)
    assert stored(sim) == HTML
    assert sim.document.owned(ID) == []


@pytest.mark.parametrize("kept", [0, 25, 200])
async def test_an_undo_costs_as_much_however_many_revisions_there_are(sim, harness, kept):
    for number in range(kept):
        sim.document.notes[ID].content = f"<p>{number}</p>".encode()
        type(sim.document).add_revision(sim.document, sim.document.notes[ID])
    sim.write(ID, "Plan", "<p>one</p>")
    await harness.sync()
    async with connected(harness.opened, toolset=TITLED) as client:

        async def costs(**arguments):
            note = await call(client, "get", id=ID)
            await call(client, "save", id=ID, local_version=note["local_version"], **arguments)
            sim.reset_log()
            answer = await call(client, "manage", action="undo", id=ID, confirm=True)
            assert answer["status"] == "undone"
            return len(sim.requests)

        assert await costs(tags=["todo", "more"]) <= 6
        assert await costs(text="two", confirm=True) <= 9
        assert await costs(title="Other") <= 9
    assert (stored(sim), sim.document.notes[ID].title) == ("<p>one</p>", "Plan")


async def test_what_the_server_changes_again_is_said_to_be_undone_in_part(sim, harness):
    sim.document.notes[ID].content = b'<p>one</p><p><a href="http://x.org/#root/abcd">l</a></p>'
    sim.document.touch(sim.document.notes[ID])
    await harness.sync()
    async with connected(harness.opened, toolset=TITLED) as client:
        saved = await call(client, "save", id=ID, find="one", replace="two")
        assert "stored differently" in saved["note"]
        rows = (await call(client, "manage", action="history", id=ID))["history"]
        assert [bool(row.get("by")) for row in rows] == [True, False]
        answer = await call(client, "manage", action="undo", id=ID, confirm=True)
    assert answer["status"] == "undone in part"
    assert stored(sim) == '<p>one</p><p><a href="#root/abcd">l</a></p>'


@asynccontextmanager
async def older_server(tmp_path):
    """A server that lists no revisions, with a client of it."""
    async with TriliumSimulator("0.93.0").serving() as sim:
        sim.write(ID, "Plan", OLDER)
        remote = open_trilium(sim)
        harness = ToolHarness(tmp_path, remote=remote)
        harness.ticking = True
        await harness.sync()
        async with connected(harness.opened, toolset=TITLED) as client:
            yield sim, harness, client
        await remote.close()
        harness.close()


OLDER = (
    '<p>one</p><figure class="image"><img src="api/attachments/Pic1/image/p.png">'
    "<figcaption>A caption</figcaption></figure><p>two</p>"
)


async def test_without_a_list_of_revisions_an_undo_brings_back_the_html_that_was_kept_here(
    tmp_path,
):
    async with older_server(tmp_path) as (sim, _, client):
        await rewrite(client, "one")
        assert stored(sim) == "<p>one</p>"
        answer = await call(client, "manage", action="undo", id=ID, confirm=True)
        assert (answer["status"], stored(sim)) == ("undone", OLDER)


@pytest.mark.parametrize(
    ("kind", "mime", "text"),
    [
        ("code", "text/x-python", "x = 1\r\n\r\ny = 2"),
        ("mermaid", "text/vnd.mermaid", "graph TD;\nA-->B\n"),
        ("canvas", "application/json", '{"elements": []}'),
    ],
)
async def test_what_is_no_html_comes_back_whole_without_a_list_of_revisions(
    tmp_path, kind, mime, text
):
    async with older_server(tmp_path) as (sim, harness, client):
        note_id = f"Other{kind}1"
        sim.write(note_id, "Other", text, kind=kind, mime=mime)
        await harness.sync()
        await call(client, "save", id=note_id, append="more")
        answer = await call(client, "manage", action="undo", id=note_id, confirm=True)
        assert (answer["status"], "Markdown" in answer["note"]) == ("undone", False)
        assert sim.document.notes[note_id].content.decode() == text


async def test_where_nobody_has_the_html_question_and_answer_say_that_the_markdown_comes_back(
    tmp_path,
):
    async with older_server(tmp_path) as (sim, harness, client):
        await rewrite(client, "one")
        sim.write(ID, "Plan", "<p>theirs</p>")
        await harness.sync()
        note = await call(client, "get", id=ID)
        rows = (await call(client, "manage", action="history", id=ID))["history"]
        ours = {"local_version": note["local_version"], "version": rows[1]["version"]}
        wanted = {"action": "restore_version", "id": ID, **ours}
        refusal = await client.call_tool("manage", wanted)
        assert refusal.is_error
        assert "comes back as Markdown" in refusal.content[0].text
        answer = await call(client, "manage", confirm=True, **wanted)
        assert "comes back as Markdown" in answer["note"]
        assert answer["status"] == "restored in part"
        assert stored(sim) == "<p>one</p>"


async def test_the_content_of_a_revision_must_fit_its_hash(sim):
    sim.document.add_revision(sim.document.notes[ID])
    name = sim.document.notes[ID].revisions[0].id
    store = open_trilium(sim)
    sim.faults.status(200, path=f"*/revisions/{name}/content", times=2, body=b"<p>a login page</p>")
    with pytest.raises(StoreProtocolError):
        await store.get(ID, etag=name)
    assert (await store.list_versions(ID, before="", limit=9)).revisions == ()
    await store.close()


def test_an_attachment_that_the_note_has_no_longer_keeps_the_name_of_the_copy():
    """The server then makes one of the note's own of it, if it is linked in this form."""
    copy = Attachment("Copy1", "rev", "file", "doc.pdf", "blob1")
    own = [
        Attachment("Own1", "note", "file", "other.pdf", "blob2"),
        Attachment("Own2", "note", "image", "doc.pdf", "blob1"),
    ]
    assert twin_of(copy, own) == "Copy1"
    assert twin_of(copy, [*own, Attachment("Own3", "note", "file", "x.pdf", "blob1")]) == "Own3"
    html = '<a href="api/attachments/Copy1/download">doc</a>'
    linked = '<a href="#root/note?viewMode=attachments&amp;attachmentId=Copy1">doc</a>'
    assert with_own(html, "note", {"Copy1": "Copy1"}) == linked
    assert with_own(html, "note", {}) == html
