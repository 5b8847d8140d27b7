"""Test that what the server makes of a text within the write is ours, and what a person makes of it right after is not."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.stores.trilium.write_steps import is_made_of
from notarium_devtools.trilium import TriliumSimulator
from support.journal_entries import make_write
from support.sync_rig import Client
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID = "Ab12cd34Ef56"
IMAGE = "data:image/png;base64,iVBORw0KGgo="
FILE = "data:text/plain;base64,aGVsbG8="
DOWNLOADED = "https://example.org/known.png"
LINK = '<a class="reference-link" href="#root/{}?viewMode=attachments&attachmentId=Abcd1234efgh">{}</a>'
REWRITTEN = {
    "an embedded image": f'<img src="{IMAGE}">',
    "an embedded image with a style before": f'<figure><img alt="q" style="x:y;"  src="{IMAGE}" width="1"></figure>',
    "an embedded image in other quotes": f"<img src='{IMAGE}'>",
    "three embedded images": f'<img src="{IMAGE}"> <img src="{IMAGE}"> <IMG SRC="{IMAGE}">',
    "a file": f'<a href="{FILE}">p</a>',
    "a file of marked words": f'<a class="x" href="{FILE}" title="t"><b>a</b>  &amp; &lt;b&gt;&nbsp;c </a>',
    "two files and an image": f'<a href="{FILE}">a</a><a href="{IMAGE}">b</a><img src="{IMAGE}">',
    "a link to a note": '<a href="http://127.0.0.1:8080/#root/abcd/efgh">l</a>',
    "a link of two": '<a href="https://x.org/?a=1#root/abcd#root/efgh">l</a>',
    "an image by its whole address": '<img src="http://x.org/api/attachments/abcd1234efgh/image/x.png">',
    "an older image": '<img src="http://x.org/api/images/abcd1234efgh/x.png">',
    "words that look so": 'href="http://x.org/#root/a" src="http://x.org/api/images/b"',
    "an image that was fetched before": f'<img alt="a"   src="{DOWNLOADED}" width="2">',
    "an attachment of another note": '<img src="api/attachments/Other1234567/image/o.png"> '
    '<a href="#root/OtherNote1234?viewMode=attachments&amp;attachmentId=Other1234567">o</a>',
    "all of it": f'<a href="http://x/#root/a">l</a><img src="{IMAGE}">é<a href="{FILE}">p</a><img src="{DOWNLOADED}">',
}  # fmt: skip


@pytest.fixture(name="sim", params=["0.103.0", "0.102.1", "0.93.0"])
async def _sim(request, anyio_backend):
    async with TriliumSimulator(request.param).serving() as sim:
        document = sim.document
        sim.write("OtherNote1234", "Other", "<p>o</p>")
        sim.write(ID, "Plan", "<p>one</p>")
        other = document.attach("OtherNote1234", "image", "image/png", "o.png", b"other")
        document.attachments["Other1234567"] = replace(other, id="Other1234567")
        fetched = document.attach(ID, "image", "image/png", "known.png", b"known")
        document.downloaded[DOWNLOADED] = fetched.id
        yield sim


@pytest.mark.parametrize("name", REWRITTEN)
async def test_a_save_beside_what_the_server_rewrites_is_ours_and_makes_no_copy(
    tmp_path, sim, name
):
    note = sim.document.notes[ID]
    note.content = f"<p>one</p><p>{REWRITTEN[name]}</p>".encode()
    store = open_trilium(sim)
    client = Client(tmp_path, None, remote=store)
    await client.sync()
    held = client.note(ID)
    notes = set(sim.document.notes)
    base, text = await store.get(ID), held.text.replace("one", "two", 1)
    saved = await client.writer.save(note=held, content=replace(held.content, text=text))
    sent = store.compose(base, replace(held.content, text=text), now=0.0)
    assert note.content.startswith(b"<p>two</p>")
    assert note.content.decode() not in sent.decode(), "the server has rewritten nothing"
    assert not saved.merged
    assert set(sim.document.notes) == notes
    client.close()
    await store.close()


@pytest.mark.parametrize("name", REWRITTEN)
async def test_what_a_person_adds_to_what_the_server_has_rewritten_is_not_ours(sim, name):
    note = sim.document.notes[ID]
    note.content = f"<p>one</p><p>{REWRITTEN[name]}</p>".encode()
    store = open_trilium(sim)
    base = await store.get(ID)
    seen = iter([1])

    def after_the_write(request):
        put = any(one.method == "PUT" for one in sim.requests)
        if put and request.path.endswith(ID) and next(seen, None):
            sim.write(ID, "Plan", note.content.decode() + "<p>theirs</p>")

    sim.before_request = after_the_write
    content = replace(base.content, text=base.content.text.replace("one", "two", 1))
    assert not (await store.push(make_write(store, ID, content, base, now=0.0))).alone
    await store.close()


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (f'<img src="{IMAGE}">', '<img src="https://example.org/x.png">'),
        (f'<img src="{IMAGE}">', ""),
        (f'<a href="{FILE}">p</a>', LINK.format(ID, "other words")),
        (f'<a href="{FILE}">p</a>', LINK.format("Other1234567", "p")),
        (f'<a href="{FILE}">p</a>', f'<a href="{FILE}x">p</a>'),
        ('<a href="http://x/#root/a">l</a>', '<a href="#root/b">l</a>'),
        (f'<img src="{IMAGE}"><p>a</p>', '<img src="api/attachments/A1/image/x"><p>b</p>'),
        (f'<p>a</p><img src="{IMAGE}">', '<p>b</p><img src="api/attachments/A1/image/x">'),
    ],
)
def test_another_text_was_not_made_of_ours(sent, stored):
    assert not is_made_of(stored, sent, note_id=ID)
    assert is_made_of(sent, sent, note_id=ID)


@pytest.mark.parametrize(
    "part",
    [
        "<img ", '<img src="', "<img src='x ", " src=", 'src="', '<a href="', f'<a href="{FILE}">', 'href="#root',
        f'<img src="{IMAGE}">', "api/attachments/a/image", '<img src="x">', "<a\n", "data:;base64,", "attachmentId=",
    ],
)  # fmt: skip
def test_a_large_text_is_compared_at_once(part):
    sent = part * (1_000_000 // len(part))
    begun = time.process_time()
    assert is_made_of(sent, sent, note_id=ID)
    assert not is_made_of(sent + "x", sent, note_id=ID)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("kind", "mime"), [("code", "text/plain"), ("text", "text/html")])
async def test_a_byte_order_mark_stays(sim, kind, mime):
    """The server takes one off what it is sent."""
    sim.write(ID + "b", "Plan", "\ufeffone", kind=kind, mime=mime)
    store = open_trilium(sim)
    base = await store.get(ID + "b")
    content = Content("\ufeffone\n\ntwo", title="Plan")
    answer = await store.push(make_write(store, ID + "b", content, base, now=0.0))
    assert answer.alone
    assert sim.document.notes[ID + "b"].content.decode().startswith("\ufeff")
    await store.close()
