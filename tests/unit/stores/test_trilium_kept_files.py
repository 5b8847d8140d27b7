"""Test how a file becomes an attachment of a Trilium note, also where requests and answers are lost."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

import pytest

from mcp_notarium.errors import NotariumError, NoteNotFound, StoreProtocolError, StoreRejected
from mcp_notarium.stores.extensions import Restored
from mcp_notarium.stores.trilium.attachments import with_held
from mcp_notarium.stores.trilium.revisions import attachment
from notarium_devtools.trilium import TriliumSimulator
from support.journal_entries import make_write
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
ID = "Ab12cd34Ef56"
PNG = b"\x89PNG\r\n\x1a\n picture \x00\xff"
OTHER = b"\x89PNG another"


@pytest.fixture(name="sim")
async def _sim(anyio_backend):
    async with TriliumSimulator().serving() as sim:
        sim.write(ID, "Plan", "<p>a</p>")
        yield sim


@pytest.fixture(name="store")
async def _store(sim):
    store = open_trilium(sim)
    yield store
    await store.close()


async def keep(store, data=PNG, name="a plan.png", kind="image/png"):
    return await store.keep_file(await store.get(ID), name, kind, data)


def held(sim) -> list[tuple[str, str, bytes]]:
    return [(one.role, one.title, one.content) for one in sim.document.attachments_of(ID)]


@pytest.mark.parametrize(
    ("sent", "made"),
    [
        ((PNG, "a (b).png", "image/png"), ("image", "image/png", "![a (b).png](api/attachments/{}/image/a%20%28b%29.png)")),
        ((PNG, "p.pdf", "application/pdf"), ("file", "application/pdf", "[p.pdf](#root/Ab12cd34Ef56?viewMode=attachments&attachmentId={})")),
        (("é".encode(), "t.txt", "text/plain"), ("file", "text/plain", "[t.txt](#root/Ab12cd34Ef56?viewMode=attachments&attachmentId={})")),
        ((b"\xe9", "t.txt", "text/plain"), ("file", "application/octet-stream", "[t.txt](#root/Ab12cd34Ef56?viewMode=attachments&attachmentId={})")),
        ((PNG, "p.heic", "image/heic"), ("file", "image/heic", "[p.heic](#root/Ab12cd34Ef56?viewMode=attachments&attachmentId={})")),
    ],
)  # fmt: skip
async def test_a_file_has_the_form_that_the_app_gives_it(sim, store, sent, made):
    (data, name, _), (role, mime, link) = sent, made
    kept = await keep(store, *sent)
    (one,) = sim.document.attachments_of(ID)
    assert (one.role, one.title, one.mime, one.content) == (role, name, mime, data)
    assert (kept.id, kept.link) == (f"{ID}/{one.id}", link.format(one.id))
    base = await store.get(ID)
    shows = replace(base.content, text=f"a\n\n{kept.link}\n")
    answer = await store.push(make_write(store, ID, shows, base, now=0.0))
    assert answer.alone
    assert [one.id for one in await store.list_attachments(answer.revision)] == [kept.id]
    assert one.unused_since is None


REQUESTS = [("POST", "*/attachments"), ("PUT", "*/attachments/*/content"), ("GET", "*/attachments/*"), ("GET", "*/attachments")]  # fmt: skip


@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("fault", ["cut_before", "cut_after", "cut_answer", "bad_gateway"])
@pytest.mark.parametrize("place", REQUESTS)
async def test_a_call_that_fails_anywhere_is_repeated_and_makes_one_file(
    sim, store, fault, place, times
):
    getattr(sim.faults, fault)(method=place[0], path=place[1], times=times)
    try:
        await keep(store)
    except NotariumError:
        assert times > 1
    sim.faults.clear()
    kept = await keep(store)
    assert held(sim) == [("image", "a plan.png", PNG)]
    assert kept.id.endswith(sim.document.attachments_of(ID)[0].id)
    second = await keep(store, OTHER)
    assert held(sim)[1:] == [("image", "a plan 2.png", OTHER)]
    assert second.id != kept.id


@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_a_call_that_ends_at_any_request_is_repeated_by_another_server(sim, method, path):
    """As after a kill: nothing is in memory any more."""
    killed, other = open_trilium(sim), open_trilium(sim)
    sim.faults.delay(30, after=True, method=method, path=path)
    call = asyncio.create_task(keep(killed))
    await asyncio.wait([call], timeout=0.2)
    call.cancel()
    await asyncio.wait([call])
    sim.faults.clear()
    assert (await keep(other)).link
    assert held(sim) == [("image", "a plan.png", PNG)]
    await killed.close()
    await other.close()


async def test_a_note_that_cannot_show_it_gets_no_file(sim, store):
    sim.write("Code12345678", "Code", "x")
    sim.document.notes["Code12345678"].type = "code"
    revisions = [await store.get(one) for one in (ID, "Code12345678")]
    sim.protect(ID)
    for revision in revisions:
        with pytest.raises(StoreRejected) as refused:
            await store.keep_file(revision, "p.png", "image/png", PNG)
        assert refused.value.resolution_hint
    sim.document.delete(ID)
    with pytest.raises(NoteNotFound):
        await store.keep_file(revisions[0], "p.png", "image/png", PNG)
    assert not sim.document.attachments


@pytest.mark.parametrize(("status", "hint"), [(413, "smaller"), (400, "")])
async def test_what_refuses_the_bytes_is_said(sim, store, status, hint):
    sim.faults.status(status, method="PUT", path="*/attachments/*")
    with pytest.raises(StoreRejected) as refused:
        await keep(store)
    assert hint in (refused.value.resolution_hint or "")


async def test_what_is_not_kept_as_it_was_sent_is_an_error(sim, store):
    def change() -> None:
        for one in sim.document.attachments_of(ID):
            one.content = OTHER

    sim.faults.call(change, method="GET", path="*/attachments/*")
    with pytest.raises(StoreProtocolError):
        await keep(store)


async def test_only_the_own_file_with_these_bytes_goes(sim, store):
    sim.write("Other1234567", "Other", "<p>b</p>")
    theirs = sim.document.attach("Other1234567", "image", "image/png", "a.png", PNG)
    kept, digest = await keep(store), hashlib.sha256(PNG).hexdigest()
    with pytest.raises(NoteNotFound):
        await store.discard_file(f"{ID}/{theirs.id}", digest)
    sim.faults.cut_after(method="DELETE", times=1)
    assert await store.discard_file(kept.id, digest)
    assert held(sim) == []
    assert await store.restore_file(kept.id, digest) is Restored.LOST
    assert theirs.id in sim.document.attachments
    assert store.marks_of(kept.id)[0] in kept.link


async def test_files_of_another_note_are_not_listed(sim, store):
    sim.document.attach("Other0000001", "file", "text/plain", "secret.txt", b"x")
    mine = sim.document.attach(ID, "file", "application/pdf", "a.pdf", b"%PDF")
    revision = await store.get(ID)
    told = [one.id for one in await store.ask_attachments(revision, seconds=5)]
    assert told == [f"{ID}/{mine.id}"]
    # A proxy may answer with what it has kept of another address.
    rows = [one | {"ownerId": "Other0000001"} for one in sim.etapi.parts.attachments_of(ID)]
    assert with_held(revision, [attachment(one) for one in rows]) == []


async def test_all_files_of_a_note_are_told(sim, store):
    made = [sim.document.attach(ID, "file", "text/plain", f"{at}", b"") for at in range(1001)]
    told = await store.ask_attachments(await store.get(ID), seconds=5)
    assert [one.id for one in told] == [f"{ID}/{one.id}" for one in made]
