"""Ask each computer at the end what an agent may ask: for notes by their words, and by the ids that they had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.broken import words_of

if TYPE_CHECKING:
    from explorer.server import Server
    from explorer.world import World


async def ask(world: World, server: Server) -> None:
    """Ask a server for its notes; every one must be found."""
    held = server.contents()
    if hiding := world.oracle.hiding:
        hiding.judge_index(server, held)
    for note_id, content in held.items():
        words = [one for one in words_of(content.text) if one in world.oracle.authors]
        if words:
            newest = max(words, key=lambda one: int(one.lstrip("abehmtold")))
            await _find(world, server, note_id, newest)
    if server.policy.visibility.has_rules:  # an id from before may be closed
        return
    for old, new in world.oracle.earlier_ids.get(server.machine.name, {}).items():
        if new in held and old not in held:
            await _read(world, server, old, new)


async def _find(world: World, server: Server, note_id: str, word: str) -> None:
    found = await server.call("list", query=f"{word} trash:any")
    ids = [row.get("uuid") for row in found.value.get("content", ())]
    # An index that is being loaded says so.
    if found.ok and note_id not in ids and note_id in server.contents():
        world.oracle.breaks(
            f"a note is not found: {server.name} finds {ids} by {word}, not {note_id}"
        )


async def _read(world: World, server: Server, old: str, new: str) -> None:
    read = await server.call("get", id=old)
    if read.value.get("id") != new and new in server.contents():
        world.oracle.breaks(
            f"an id means its note no more: {server.name} asks for {old}, now {new}: {read.words}"
        )
