"""Stores that rewrite what they are given and cannot prove that nobody else wrote (``alone`` is False)."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import OutcomeUnknown
from support.memory_client import LIKE_EXAMPLE, LIKE_MEMENTO, LIKE_TRILIUM, Fault, MemoryClient

REWRITERS = {
    "blanks": lambda text: "".join(f"{line.rstrip()}\n" for line in text.splitlines()),
    "letters": lambda text: text.replace("(c)", "©"),
    "cut": lambda text: text[:6],
    "nothing": lambda _text: "",
    "upper": str.upper,
    "footer": lambda text: f"{text}sent by a proxy\n",
}
CHANGED = "Title\none (c)\nadded  \n"
rows = pytest.mark.parametrize(
    "traits", [LIKE_TRILIUM, LIKE_EXAMPLE, LIKE_MEMENTO], ids=["trilium", "example", "cas"]
)


class Unproven(MemoryClient):
    async def push(self, write):
        return replace(await super().push(write), alone=False)


def rewrite(store, name, *, tags=tuple):
    store.rewrite = lambda fields: (
        fields | {"text": REWRITERS[name](fields["text"]), "tags": list(tags(fields["tags"]))}
    )


def count(client):
    return client.remote.calls.count("push")


@rows
@pytest.mark.parametrize("lost", [False, True], ids=["answered", "answer lost"])
@pytest.mark.parametrize("name", REWRITERS)
def test_a_save_ends_after_a_copy_and_a_repair_at_most(clients, store, traits, name, lost):
    client = clients(remote=Unproven(store, traits=traits))
    store.put("n1", "Title\none\n", now=5.0)

    async def scenario():
        await client.sync()
        rewrite(store, name)
        if lost:
            client.remote.faults.plan(Fault.LOST_ANSWER, on="push")
            with pytest.raises(OutcomeUnknown):
                await client.change(client.note("n1"), CHANGED)
        else:
            await client.change(client.note("n1"), CHANGED)
        await client.run_cycles(3)
        ended = count(client)
        await client.run_cycles(2)
        assert count(client) == ended <= 3

    asyncio.run(scenario())
    assert len(store.ids()) <= 2
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []
    for content in store.contents().values():
        lines = content.text.splitlines()
        assert len(lines) == len({line.rstrip() for line in lines}), "a line is doubled"


@rows
def test_blanks_that_a_store_strips_are_reported_and_nothing_else_is_sent(clients, store, traits):
    client = clients(remote=Unproven(store, traits=traits))
    store.put("n1", "x\n", now=5.0)

    async def scenario():
        await client.sync()
        rewrite(store, "blanks")
        return await client.change(client.note("n1"), "x\nadded  \n")

    saved = asyncio.run(scenario())
    assert (saved.differs, saved.merged, saved.copy_id) == ("line 2", False, None)
    assert (count(client), store.text("n1")) == (1, "x\nadded\n")


@pytest.mark.parametrize("traits", [LIKE_TRILIUM, LIKE_EXAMPLE], ids=["trilium", "example"])
def test_a_repair_that_had_to_wait_is_known_as_one_and_not_repaired_again(clients, store, traits):
    client = clients(remote=Unproven(store, traits=traits))
    store.put("n1", "x\n", now=5.0)
    push = client.remote.push

    async def last_before_the_network_fails(write):
        client.remote.push = push
        answer = await push(write)
        client.remote.faults.plan(Fault.UNAVAILABLE, on="push")
        return answer

    async def scenario():
        await client.sync()
        rewrite(store, "footer", tags=lambda _tags: ())
        client.remote.push = last_before_the_network_fails
        wanted = Content("x\nadded\n", ("new",))
        with pytest.raises(OutcomeUnknown, match="not stored"):
            await client.writer.save(note=client.note("n1"), content=wanted)
        (entry,) = client.cache.journal.all()
        assert entry.repair
        await client.run_cycles(4)
        assert count(client) == 3, "the save, and its repair twice"

    asyncio.run(scenario())
    assert client.cache.journal.all() == []
    assert client.contents() == store.contents()
    assert client.cache.sync_state.differences().count == 1
