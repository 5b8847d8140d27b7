"""What a person would be asked about: refused before, if the store would not take it now, and nothing is recorded."""

import asyncio
from contextlib import nullcontext

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NotariumError, NoteNotFound, StoreUnavailable, VersionConflict
from support.memory_client import ROWS, Fault

WANTED = Content("one\ntwo\n")
CHANGES = {
    "": (nullcontext(), nullcontext()),
    "edited": (pytest.raises(VersionConflict), pytest.raises(VersionConflict)),
    "so already": (pytest.raises(VersionConflict), pytest.raises(VersionConflict)),
    "removed": (pytest.raises(NoteNotFound), nullcontext()),
    "unreachable": (pytest.raises(StoreUnavailable), pytest.raises(StoreUnavailable)),
}
"""What another device does that is not known here, and what becomes of a change and of a removal: a note that is gone is one."""


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("since", CHANGES)
@pytest.mark.parametrize("removes", [False, True])
def test_what_the_store_would_not_take_now_is_refused(clients, store, row, since, removes):
    store.put("n", "one\n", trash=removes)
    client = clients(traits=ROWS[row])
    expected = CHANGES[since][removes]
    if removes and since == "removed" and ROWS[row].ids.named:
        expected = pytest.raises(NotariumError)  # it may be there under another name

    async def scenario():
        await client.sync()
        note = client.note("n")
        match since:
            case "edited":
                store.put("n", "zero\none\n", trash=removes)
            case "so already":
                store.put("n", WANTED.text, trash=removes)
            case "removed":
                store.remove("n")
            case "unreachable":
                client.faults.plan(Fault.UNAVAILABLE, times=9)
        held = store.contents()
        with expected:
            await client.writer.foresee(note, None if removes else WANTED)
        assert store.contents() == held

    asyncio.run(scenario())
    assert client.cache.journal.all() == []
