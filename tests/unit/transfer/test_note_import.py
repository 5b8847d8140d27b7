"""An import writes each note once, keeps what the store can hold, and counts the rest before it writes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.domain.exported_note import TIDY_TAGS, UNREAD_TAGS, ExportedNote, export_note
from mcp_notarium.domain.note import Content, PendingWrite, Properties, PropertyPlace, flags
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import RateLimited, StoreRejected, StoreUnavailable
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.stores import registry
from mcp_notarium.stores.contract import Acknowledgement, Traits
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.transfer import formats, note_import
from mcp_notarium.transfer.note_import import ImportPlan, ImportResult
from support import exports
from support.memory_client import MemoryClient
from support.memory_store import MemoryStore
from support.sync_rig import Client, Crash

NOW = 1_700_000_000.0


def note(
    note_id: str = "note-1", text: str = "t", *, created: float = 1e9, **more: object
) -> ExportedNote:
    return ExportedNote(note_id, Content(text, **more), created, created + 1)  # type: ignore[arg-type]


NOTES = [
    note("note-1", "a", tags=("x", "y z"), title="A"),
    note("note-2", "b", trash=True, properties=flags("pinned")),
    note("Folder/Plan.md", "c", title="Plan"),
    note("", "no id"),
]


@pytest.fixture(name="local")
def _local(tmp_path: Path) -> Iterator[Client]:
    client = Client(tmp_path, None, remote=LocalStore)
    yield client
    client.close()


def transfer(client: Client) -> NoteTransfer:
    return NoteTransfer(client.cache, client.remote, client.writer)


def run(client: Client, notes: list[ExportedNote], kind: str) -> tuple[ImportPlan, ImportResult]:
    async def work() -> tuple[ImportPlan, ImportResult]:
        one = transfer(client)
        of = registry.kind(kind)
        planned = await note_import.plan(notes, one, of, now=NOW)
        return planned, await note_import.carry_out(planned, one, of, lambda _done, _total: None)

    return asyncio.run(work())


def all_of(client: Client) -> list[ExportedNote]:
    async def work() -> list[ExportedNote]:
        return [
            ExportedNote(one.id, one.content, one.created_at, one.modified_at)
            async for one in transfer(client).read_all()
        ]

    return asyncio.run(work())


def test_notes_keep_what_they_have_and_are_imported_once(local: Client) -> None:
    planned, done = run(local, NOTES, "local")
    assert (done.imported, planned.there, planned.losses) == (
        4,
        0,
        {note_import.FOLDER_TO_TAG: [NOTES[2]]},
    )
    held = all_of(local)
    tagged = replace(NOTES[2], content=replace(NOTES[2].content, tags=("folder:Folder",)))
    assert {(one.content, one.created_at, one.modified_at) for one in held} == {
        (one.content, one.created_at, one.modified_at) for one in (*NOTES[:2], tagged, *NOTES[3:])
    }
    assert {"note-1", "note-2"} < {one.id for one in held}
    planned, done = run(local, NOTES, "local")
    assert (done.imported, planned.there, planned.differ) == (0, 4, [])
    assert all_of(local) == held


def test_a_note_that_has_changed_stays_and_another_of_its_id_is_imported(local: Client) -> None:
    run(local, [NOTES[0]], "local")
    changed = replace(NOTES[0], content=Content("changed", title="A"))
    other = replace(NOTES[0], content=Content("other"), created_at=5e8, modified_at=6e8)
    planned, done = run(local, [changed], "local")
    assert (planned.there, planned.differ, done.imported) == (1, ["note-1"], 0)
    assert run(local, [other], "local")[1].imported == 1
    assert sorted(one.content.text for one in all_of(local)) == ["a", "other"]
    assert run(local, [changed, other], "local")[1].imported == 0


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
def test_a_local_import_that_is_killed_between_transactions_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(note_import, "_MOST_TOGETHER", 2)
    steps: list[str] = []

    def end(at: str) -> None:
        steps.append(at)
        if steps.count(step) == 2:
            raise Crash

    killed = Client(tmp_path, None, remote=LocalStore, on_step=end)
    with pytest.raises(Crash):
        run(killed, [note(f"note-{number}") for number in range(5)], "local")
    killed.close()
    after = Client(tmp_path, None, remote=LocalStore)
    there = 4 if step == "committed" else 2
    assert len(all_of(after)) == len(after.contents()) == there
    planned, done = run(after, [note(f"note-{number}") for number in range(5)], "local")
    assert (planned.there, done.imported, done.there) == (there, 5 - there, 0)
    assert {one.id for one in all_of(after)} == {f"note-{number}" for number in range(5)}
    after.close()


def test_several_notes_are_on_the_way_to_a_service_and_an_error_of_all_ends_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = MemoryStore()
    client = Client(tmp_path, service)
    asyncio.run(client.sync())
    push, on_the_way, most = MemoryClient.push, 0, 0

    async def slow(self: MemoryClient, write: PendingWrite) -> Acknowledgement:
        nonlocal on_the_way, most
        on_the_way += 1
        most = max(most, on_the_way)
        await asyncio.sleep(0.001)
        on_the_way -= 1
        if write.note_id == "note-9":
            raise StoreUnavailable("no network")
        return await push(self, write)

    monkeypatch.setattr(MemoryClient, "push", slow)
    notes = [note(f"note-{number}", f"text {number}") for number in range(20)]
    with pytest.raises(StoreUnavailable):
        run(client, notes, "simplenote")
    assert most == 4
    assert 6 <= len(service.contents()) < 13
    monkeypatch.undo()
    asyncio.run(client.run_cycles())
    planned, done = run(client, notes, "simplenote")
    assert planned.there + done.imported == len(service.contents()) == 20
    client.close()


def test_an_import_waits_for_a_service_that_is_asked_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_import, "_PAUSES", (0.0, 0.0))
    service = MemoryStore()
    client = Client(tmp_path, service)
    asyncio.run(client.sync())
    push, refusals = MemoryClient.push, 2

    async def slow_down(self: MemoryClient, write: PendingWrite) -> Acknowledgement:
        nonlocal refusals
        if refusals and write.content.text == "slow":
            refusals -= 1
            raise RateLimited("slow down", retry_after=0.001)
        return await push(self, write)

    monkeypatch.setattr(MemoryClient, "push", slow_down)
    notes = [note("note-1", "slow"), note("note-2")]
    assert run(client, notes, "simplenote")[1].imported == len(service.contents()) == 2
    refusals = 3
    with pytest.raises(RateLimited):
        run(client, [note("note-3", "slow")], "simplenote")
    client.close()


def test_notes_that_the_policy_hides_are_imported_once_and_exported(tmp_path: Path) -> None:
    client = Client(
        tmp_path, None, remote=LocalStore, rules=Visibility(hidden_tags=frozenset({"x"}))
    )
    planned, done = run(client, NOTES[:2], "local")
    assert (done.imported, done.hidden) == (1, 1)
    assert client.cache.notes.get("note-1") is None
    assert {one.id for one in all_of(client)} == {"note-1", "note-2"}
    planned, done = run(client, NOTES[:2], "local")
    assert (planned.there, done.imported, done.hidden) == (2, 0, 0)
    client.close()


def test_an_import_goes_on_after_one_note_is_refused(
    local: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = LocalStore.push

    async def refuse(self, write):  # type: ignore[no-untyped-def]
        if write.content.text == "b":
            raise StoreRejected("not this one")
        return await push(self, write)

    monkeypatch.setattr(LocalStore, "push", refuse)
    _, done = run(local, NOTES, "local")
    assert (done.imported, done.refused) == (3, [(NOTES[1], "not this one; nothing was saved")])
    monkeypatch.undo()
    planned, done = run(local, NOTES, "local")
    assert (planned.there, done.imported) == (3, 1)


def test_in_a_vault_paths_are_kept_and_names_are_given_once(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    client = Client(tmp_path, None, remote=VaultStore(tmp_path / "vault"))
    asyncio.run(client.sync())
    notes = [NOTES[2], note("a1", "one", title="Same"), note("a2", "two", title="Same"), NOTES[1]]
    planned, done = run(client, notes, "vault")
    assert (done.imported, done.refused) == (4, [])
    assert planned.losses == {
        note_import.NO_PROPERTY.format("pinned"): [NOTES[1]],
        note_import.NO_DATES: notes,
        note_import.OTHER_TITLE: [notes[2]],
    }
    files = {
        path.relative_to(tmp_path / "vault").as_posix()
        for path in (tmp_path / "vault").rglob("*.md")
    }
    assert files == {"Folder/Plan.md", "Same.md", "Same 2.md", ".trash/b.md"}
    planned, done = run(client, notes, "vault")
    assert (planned.there, done.imported) == (4, 0)
    asyncio.run(client.remote.close())
    client.close()


def test_in_a_vault_a_repeated_import_finds_the_names_it_has_given(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "Plan.md").write_text("another note")
    client = Client(tmp_path, None, remote=VaultStore(tmp_path / "vault"))
    asyncio.run(client.sync())
    notes = [note(f"a{number}", f"text {number}", title="plan") for number in range(13)]
    planned, done = run(client, notes, "vault")
    assert (done.imported, len([*(tmp_path / "vault").glob("*.md")])) == (13, 14)
    planned, done = run(client, notes, "vault")
    assert (planned.there, len(planned.new), done.imported) == (13, 0, 0)
    asyncio.run(client.remote.close())
    client.close()


def test_a_tag_that_a_store_refuses_is_written_as_a_word_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    client = Client(tmp_path, None, remote=VaultStore(tmp_path / "vault"))
    asyncio.run(client.sync())
    tagged = note("a1", "one", tags=("two words", "c++", "2024", "ok"))
    planned, done = run(client, [tagged, note("a2", "two", tags=("ok",))], "vault")
    assert done.imported == 2
    assert planned.losses[note_import.OTHER_TAGS] == [tagged]
    assert client.note("one.md").tags == ("two_words", "c", "ok")
    asyncio.run(client.remote.close())
    client.close()


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ((" work", "home "), ("work", "home")),
        (("a, b", ",", "c"), ("a", "b", "c")),
        (("#hash", "##x", "#", "c#"), ("hash", "x", "c#")),
        (("", "  ", "\n"), ()),
        (("two \t\nwords",), ("two words",)),
        (("Work", "work", "WORK"), ("Work",)),
        (("x" * 300,), ("x" * 256,)),
        (
            tuple(f"t{number}" for number in range(101)),
            tuple(f"t{number}" for number in range(100)),
        ),
    ],
)
def test_tags_of_other_programs_get_the_form_of_ours_and_that_is_told(
    local: Client, given: tuple[str, ...], held: tuple[str, ...]
) -> None:
    tagged = note("a1", tags=given)
    planned, done = run(local, [tagged, note("a2", tags=("two words", "ok"))], "local")
    assert (done.imported, planned.losses) == (2, {TIDY_TAGS: [tagged]})
    contents = {one.id: one.content.tags for one in all_of(local)}
    assert list(contents.values()) in ([held, ("two words", "ok")], [("two words", "ok"), held])


def test_a_note_without_dates_has_those_of_its_file_and_is_imported_once(
    local: Client, tmp_path: Path
) -> None:
    path = tmp_path / "given.json"
    listed = [{"id": "note-1", "text": "a"}, {"text": "b", "modified": "2020-01-01"}, {"text": "c"}]
    path.write_text(json.dumps({"version": 1, "notes": listed}))
    os.utime(path, (1.5e9, 1.5e9))
    given = exports.read(path)
    planned, done = run(local, given, "local")
    assert (done.imported, planned.losses) == (3, {note_import.UNDATED: [given[0], given[2]]})
    dates = {one.content.text: (one.created_at, one.modified_at) for one in all_of(local)}
    assert dates["a"] == dates["c"] == (1.5e9, 1.5e9)
    assert dates["b"] == (1577836800.0, 1577836800.0)
    os.utime(path, (1.6e9, 1.6e9))
    planned, done = run(local, exports.read(path), "local")
    assert (planned.there, done.imported) == (3, 0)


def vault_at(folder: Path) -> Client:
    (folder / "vault").mkdir(parents=True)
    client = Client(folder, None, remote=VaultStore(folder / "vault"))
    asyncio.run(client.sync())
    return client


def end(client: Client) -> None:
    asyncio.run(client.remote.close())
    client.close()


TREE = {
    "Top.md": "top\n",
    "Work/2024/Plan.md": "---\ntags: [a, b]\n---\nplan\n",
    "Work/Plan.md": "another plan\n",
    "My notes, old/größe (x) & 100%@home.md": "odd\n",
    "Work/folder/Deep/er/Note.md": "see [[Plan]] #inline\n",
    ".trash/Work/Gone.md": "gone\n",
}


def tree(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.md")}


@pytest.mark.slow("three accounts")
@pytest.mark.parametrize("name", formats.names())
@pytest.mark.parametrize("between", [True, False])
def test_folders_survive_vault_to_vault_and_through_a_local_notebook(
    tmp_path: Path, name: str, between: bool
) -> None:
    source = vault_at(tmp_path / "source")
    for at, text in TREE.items():
        path = tmp_path / "source" / "vault" / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    asyncio.run(source.run_cycles())

    def carried(client: Client, path: Path, *, paths: bool) -> list[ExportedNote]:
        async def work() -> list[ExportedNote]:
            return [export_note(one, paths=paths) async for one in transfer(client).read_all()]

        exports.write(name, path, asyncio.run(work()))
        return exports.read(path)

    notes = carried(source, tmp_path / "one", paths=True)
    end(source)
    if between:
        (tmp_path / "local").mkdir()
        local = Client(tmp_path / "local", None, remote=LocalStore)
        planned, done = run(local, notes, "local")
        assert done.imported == len(TREE)
        assert len(planned.losses[note_import.FOLDER_TO_TAG]) == len(TREE) - 1
        assert note_import.NO_FOLDER not in planned.losses
        tags = {one.content.title: one.content.tags for one in all_of(local)}
        assert "folder:My%20notes%2C%20old" in tags["größe (x) & 100%@home"]
        assert run(local, notes, "local")[1].imported == 0
        notes = carried(local, tmp_path / "two", paths=False)
        local.close()
    target = vault_at(tmp_path / "target")
    planned, done = run(target, notes, "vault")
    assert done.imported == len(TREE)
    assert tree(tmp_path / "target" / "vault") == TREE
    assert (note_import.FOLDER_FROM_TAG in planned.losses) is between
    planned, done = run(target, notes, "vault")
    assert (planned.there, planned.differ, done.imported) == (len(TREE), [], 0)
    end(target)


@pytest.mark.parametrize("folder", ["../..", "/etc", "a/../../b", ".obsidian", "~"])
def test_no_tag_leads_out_of_a_vault(tmp_path: Path, folder: str) -> None:
    client = vault_at(tmp_path)
    given = note("a1", "one", title="Name", tags=(f"folder:{folder}",))
    assert run(client, [given], "vault")[1].imported == 1
    (path,) = tmp_path.rglob("Name.md")
    assert path.is_relative_to(tmp_path / "vault")
    assert not any(part.startswith(".") for part in path.relative_to(tmp_path).parts)
    end(client)


def test_a_title_that_no_file_can_have_is_told_with_the_one_it_gets(tmp_path: Path) -> None:
    client = vault_at(tmp_path)
    notes = [
        note("a1", "x", title="???"),
        note("a2", "y", title="Plan"),
        note("a3", "z", title="Plan"),
    ]
    planned, _ = run(client, notes, "vault")
    assert planned.losses[note_import.OTHER_TITLE] == [notes[0], notes[2]]
    assert planned.titles == ["x", "Plan 2"]
    end(client)


def test_notes_without_an_id_are_all_imported_once(local: Client) -> None:
    notes = [note("", "a"), note("", "b"), note("", "b"), note("x", "c"), note("x", "d")]
    assert run(local, notes, "local")[1].imported == 5
    planned, done = run(local, [*notes, note("", "new")], "local")
    assert (planned.there, done.imported) == (5, 1)


BARE = replace(
    LocalStore.traits,
    titles=False,
    trash=False,
    tags=False,
    properties=frozenset(),
    other_properties=PropertyPlace.NOWHERE,
    max_note_bytes=99,
)


@pytest.mark.parametrize(
    ("given", "traits", "held", "loss"),
    [
        (note(title="T"), BARE, Content("T\nt"), note_import.TITLE_TO_TEXT),
        (note(text="# T\nt", title="T"), BARE, Content("# T\nt"), note_import.TITLE_TO_TEXT),
        (note(trash=True), BARE, None, note_import.NO_TRASH),
        (note(tags=("a",)), BARE, Content("t"), note_import.NO_TAGS),
        (
            note(properties=Properties({"pinned": "no"})),
            SimplenoteStore.traits,
            Content("t"),
            note_import.NO_PROPERTY.format("pinned"),
        ),
        (note(text="x" * 100), BARE, None, note_import.TOO_LARGE),
        (note(text="x" * 1_000_001), SimplenoteStore.traits, None, note_import.TOO_LARGE),
        (
            note(properties=flags("p")),
            BARE,
            Content("t"),
            note_import.NO_PROPERTY.format("p"),
        ),
        (
            note(tags=("a@example.org", "b", "@home")),
            replace(LocalStore.traits, shares_by_tag=True),
            Content("t", ("b", "@home")),
            note_import.SHARED,
        ),
    ],
)
def test_what_a_store_cannot_hold_is_counted(
    given: ExportedNote, traits: Traits, held: Content | None, loss: str
) -> None:
    lost: list[str] = []
    assert note_import.adapt(given, traits, lost) == held
    assert lost == [loss]


@pytest.mark.parametrize(
    ("front", "tags", "told"),
    [
        ("tags: [a, b]", ("a", "b"), []),
        ("tags: a, b", ("a", "b"), []),
        ("tags:\n  - a\n  - b/c", ("a", "b/c"), []),
        ("title: no tags", (), []),
        ('tags: [" a "]', ("a",), [TIDY_TAGS]),
        ('tags: ["b,c"]', ("b", "c"), [TIDY_TAGS]),
        ("tags:\n- '#d'", ("d",), [TIDY_TAGS]),
        ("tags: '#d'", ("d",), [TIDY_TAGS]),
        ("tags: [two words]", ("two", "words"), [TIDY_TAGS]),
        ("tags: [a, a]", ("a",), [TIDY_TAGS]),
        ("tags: [a, A]", ("a",), [TIDY_TAGS]),
        ('tags: [a, ""]', ("a",), [TIDY_TAGS]),
        ("tags: [a", (), [UNREAD_TAGS]),
        ("tags: {a: b}", (), [UNREAD_TAGS]),
    ],
)
def test_what_the_tags_of_another_program_become_is_told(
    local: Client, tmp_path: Path, front: str, tags: tuple[str, ...], told: list[str]
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "One.md").write_text(f"---\ncreated: 2024-01-31\n{front}\n---\ntext\n")
    given = exports.read(folder)
    planned, done = run(local, given, "local")
    losses = planned.losses
    losses.pop(note_import.TITLE_TO_TEXT, None)
    assert (done.imported, losses) == (1, dict.fromkeys(told, given))
    assert [one.content.tags for one in all_of(local)] == [tags]
