"""What a save took away stays for a day, however much is saved later; if it has no room, someone is asked before."""

from contextlib import asynccontextmanager

import anyio
import pytest

from mcp_notarium.storage.version_table import ROW_BYTES, VersionLimits
from support.undo_places import PLACES

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow("each makes forty notes or changes"),
]
BASE = "start\n" + "".join(f"base {number}\n" for number in range(30))
PRECIOUS = "".join(f"a line of the user, number {number}\n" for number in range(20))
ROOM = VersionLimits(size=8000)
STORES = ["local", "memory", "vault", "memento", "jotter", "trilium", "simplenote"]


@asynccontextmanager
async def opened(folder, store, text=BASE, *, limits=ROOM):
    """Open an account with little room for versions, and one note."""
    ids = []
    async with PLACES[store](folder, lambda place: ids.append(place.put("a", text))) as place:
        place.harness.app.cache.versions.limits = limits
        yield place, ids[0]


async def take_away(place, note_id):
    """Remove the user's lines; return the version that the note had with them."""
    held = await place.call("get", id=note_id)
    first = held["text"].count("\n", 0, held["text"].index("a line of the user")) + 1
    patch = [{"operation": "deletion", "line_number": first + at} for at in range(20)]
    given = {"id": note_id, "local_version": held["local_version"], "text_patch": patch}
    answer = await place.call("save", **given)
    assert "error" not in answer, answer
    return str(held["local_version"])


async def replace_many(place):
    """Save over other notes until long after the room is full; return how often that was refused."""
    refused = 0
    for number in range(40):
        made = await place.call("save", text=f"{number} " * 100)
        given = {"id": made["id"], "local_version": made["local_version"]}
        answer = await place.call("save", **given, text="other")
        if "error" in answer:
            assert "cannot be brought back" in answer["error"], answer
            refused += 1
    return refused


async def read_back(place, note_id, version):
    answer = await place.call("get", id=note_id, version=version)
    assert "error" not in answer, answer
    return all(line in answer["text"] for line in PRECIOUS.splitlines())


@pytest.mark.parametrize("writer", ["agent", "person"])
@pytest.mark.parametrize("store", STORES)
async def test_lines_that_a_save_took_away_are_not_pushed_out(tmp_path, store, writer):
    text = BASE if writer == "agent" else BASE + PRECIOUS
    text = "".join(f"<p>{line}</p>" for line in text.split("\n")) if store == "trilium" else text
    async with opened(tmp_path, store, text) as (place, note_id):
        assert "error" not in await place.call("save", id=note_id, append="of an agent")
        if writer == "agent":
            assert "error" not in await place.call("save", id=note_id, append=PRECIOUS)
        version = await take_away(place, note_id)
        refused = await replace_many(place)
        assert refused > 0
        assert await read_back(place, note_id, version)


@pytest.mark.parametrize("store", ["local", "memory", "vault", "memento", "jotter"])
async def test_what_only_adds_takes_no_room_from_that(tmp_path, store):
    async with opened(tmp_path, store) as (place, note_id):
        assert "error" not in await place.call("save", id=note_id, append=PRECIOUS)
        version = await take_away(place, note_id)
        for number in range(60):
            answer = await place.call("save", id=note_id, append=f"another {number}")
            assert "error" not in answer, answer
        assert await read_back(place, note_id, version)
        answer = await place.call("save", id=note_id, find="another 3\n", replace="")
        assert "error" not in answer, "there is room"


@pytest.mark.parametrize("store", ["local", "memory", "vault", "memento", "jotter"])
async def test_a_save_of_which_only_the_name_is_left_is_known_and_not_undone(tmp_path, store):
    limits = VersionLimits(size=ROW_BYTES + 10)
    async with opened(tmp_path, store, limits=limits) as (place, note_id):
        assert "error" not in await place.call("save", id=note_id, append="of an agent")
        history = (await place.call("manage", action="history", id=note_id))["history"]
        assert [row.get("by") for row in history] == ["agent 1"]
        before = place.raw(note_id)
        answer = await place.call("manage", action="undo", id=note_id, confirm=True)
        assert "error" in answer
        assert place.raw(note_id) == before


async def test_links_in_many_notes_have_room_together_or_someone_is_asked(tmp_path):
    one = ROW_BYTES + 700
    async with opened(tmp_path, "vault", limits=VersionLimits(size=3 * one)) as (place, note_id):
        for number in range(4):
            text = f"[[Plan]] {number} " + "x" * 600
            assert "error" not in await place.call("save", text=text)
        await place.harness.sync()
        held = await place.call("get", id=note_id)
        given = {"id": note_id, "local_version": held["local_version"], "title": "Other"}
        answer = await place.call("save", **given, rewrite_links=True)
        assert "Change links in 2 other notes?" in answer.get("error", ""), answer


@pytest.mark.parametrize("setting", ["what is added", "what is taken away"])
async def test_what_the_store_drops_by_itself_stays_here(tmp_path, setting):
    """Simplenote keeps the last sixty revisions, and every tenth one before them."""
    async with opened(tmp_path, "simplenote", limits=VersionLimits()) as (place, note_id):
        assert "error" not in await place.call("save", id=note_id, append=PRECIOUS)
        assert "error" not in await place.call("save", id=note_id, append="more")
        version = await take_away(place, note_id)
        assert int(version) % 10 != 1
        for number in range(70):
            more = {"append": f"another {number}"}
            if setting == "what is taken away" and number % 2:
                more = {"find": f"another {number - 1}\n", "replace": ""}
            assert "error" not in await place.call("save", id=note_id, **more)
        assert await read_back(place, note_id, version)
        pages, after = [], {}
        while True:
            answer = await place.call("manage", action="history", id=note_id, **after)
            pages += answer["history"]
            if "next_version" not in answer:
                break
            after = {"version": answer["next_version"]}
        names = [int(row["version"]) for row in pages]
        assert names == sorted(set(names), reverse=True), "each once, newest first"
        assert int(version) in names
        held = await place.call("get", id=note_id)
        given = {"id": note_id, "version": version, "local_version": held["local_version"]}
        answer = await place.call("manage", action="restore_version", **given, confirm=True)
        assert answer["status"] == "restored", answer
        assert PRECIOUS in place.raw(note_id)["content"]


@pytest.mark.parametrize("store", STORES)
async def test_of_two_saves_at_once_one_alone_takes_the_last_room(tmp_path, store):
    ids, limits = [], VersionLimits(size=ROW_BYTES + 1100)

    def put(place):
        texts = {name: f"<p>{name} {'x' * 400}</p>" for name in ("a", "b")}
        ids.extend(place.put(name, text, title=name) for name, text in texts.items())

    async with PLACES[store](tmp_path, put) as place:
        place.harness.app.cache.versions.limits = limits
        held = [await place.call("get", id=one) for one in ids]
        before = [place.raw(one) for one in ids]
        answers = []

        async def replace(note):
            given = {"id": note["id"], "local_version": note["local_version"]}
            answers.append(await place.call("save", **given, text="other\n"))

        async with anyio.create_task_group() as tasks:
            for note in held:
                tasks.start_soon(replace, note)
        assert sum("error" in one for one in answers) == 1
        for one, note, raw in zip(ids, held, before, strict=True):
            if place.raw(one) != raw:
                answer = await place.call("get", id=one, version=str(note["local_version"]))
                assert "x" * 400 in answer["text"]
        left = next(at for at, one in enumerate(ids) if place.raw(one) == before[at])
        given = {"id": ids[left], "local_version": held[left]["local_version"]}
        answer = await place.call("save", **given, text="another\n")
        assert "a version of it has no room" in answer["error"], "and then someone is asked"
