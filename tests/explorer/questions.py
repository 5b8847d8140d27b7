"""Ask each computer at the end what an agent may ask: for notes by their words, and by the ids that they had before.

Then let each server serve: nothing goes wrong any more, and nobody else writes, so it refuses nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from explorer.broken import words_of
from mcp_notarium.domain.policy import Mode

if TYPE_CHECKING:
    from explorer.server import Answer, Server
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
    found = await _ask(world, server, "list", query=f"{word} trash:any")
    ids = [row.get("uuid") for row in found.value.get("content", ())]
    if note_id not in ids and note_id in server.contents():
        world.oracle.breaks(
            f"a note is not found: {server.name} finds {ids} by {word}, not {note_id}"
        )


async def _read(world: World, server: Server, old: str, new: str) -> None:
    read = await server.call("get", id=old)
    if read.value.get("id") != new and new in server.contents():
        world.oracle.breaks(
            f"an id means its note no more: {server.name} asks for {old}, now {new}: {read.words}"
        )


async def serve(world: World, server: Server, note_id: str) -> None:
    """Demand what a user expects of a server: it lists and reads a note, adds a line, tells what was there before, and takes the line back."""
    before = server.contents()[note_id]
    listed = await _ask(world, server, "list", query="trash:any")
    if note_id not in [row.get("uuid") for row in listed.value["content"]]:
        raise world.oracle.breaks(f"a note is not listed: {server.name} lists no {note_id}")
    await _count(world, server)
    await _ask(world, server, "get", id=note_id)
    if server.policy.mode is Mode.READ_ONLY:
        return
    word = world.word(server.name)
    saved = await _ask(world, server, "save", id=note_id, append=f"{word}\n")
    if saved.value.get("conflict_copy_id") or word not in words_of(server.contents()[note_id].text):
        raise world.oracle.breaks(f"a line is not added: {server.name}, {note_id}: {saved.text}")
    told = await _ask(world, server, "manage", action="history", id=note_id)
    versions = told.value["history"]
    if len(versions) < 2 or versions[0].get("by") != server.name:
        raise world.oracle.breaks(
            f"a history lacks what a save has just made: {server.name}, {note_id}: {versions}"
        )
    await _ask(world, server, "manage", action="undo", id=note_id, confirm=True)
    if (now := server.contents()[note_id]) != before:
        stays = word in words_of(now.text)
        what = "takes nothing back" if stays else "does not give back what was there"
        raise world.oracle.breaks(
            f"an undo {what}: {server.name} has {now} of {note_id}, not {before}"
        )


async def _count(world: World, server: Server) -> None:
    """Demand that lists tell how many notes there are, how many in the trash, and how many with each tag."""
    there = [*server.contents().values()]
    wanted = {"trash:any": len(there)}
    if world.place.traits.trash:
        wanted["trash:yes"] = sum(one.trash for one in there)
    tags = Counter(tag for one in there for tag in {*one.tags})
    wanted |= {f"tag:{tag} trash:any": count for tag, count in tags.most_common(2)}
    for query, count in wanted.items():
        told = (await _ask(world, server, "list", query=query)).value["total_items"]
        if told != count:
            raise world.oracle.breaks(
                f"a list tells a wrong number: {server.name} tells of {told} notes for {query}, not of {count}"
            )


async def _ask(world: World, server: Server, tool: str, **arguments: Any) -> Answer:
    """Call a tool. Raises ``Broken`` if it is refused."""
    answer = await server.call(tool, **arguments)
    if not answer.ok:
        what = arguments.get("action", tool)
        raise world.oracle.breaks(
            f"a server does not serve: {server.name} refuses {what} {arguments.get('id', '')}: {answer.words}"
        )
    return answer
