"""A write without an answer whose note the policy hides by now: it shows nothing, doubles nothing, and keeps its text."""

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import NotariumError, OutcomeUnknown
from mcp_notarium.storage.journal_table import WriteState
from mcp_notarium.stores.vault.store import VaultStore
from support.memory_client import ROWS, Fault
from support.sync_rig import Client, quick_folder, raced

AI_ONLY = Visibility(allowed_tags=("ai",), untagged=False)


async def cycles(client):
    for _ in range(3):
        await client.sync()
        client.time.now += 100


async def unanswered(client, content, *, note=None, fault=Fault.TIMEOUT):
    client.faults.plan(fault, on="push")
    with pytest.raises(OutcomeUnknown):
        await client.writer.save(note=note, content=content)


@pytest.mark.parametrize("row", ["trilium", "example", "memento", "simplenote"])
def test_the_tag_that_shows_a_new_note_is_not_put_back(clients, store, row):
    client = clients(traits=ROWS[row], rules=AI_ONLY)

    async def scenario():
        await unanswered(client, Content("milk\n", ("ai",)), fault=Fault.LOST_ANSWER)
        (note_id,) = store.ids()
        store.put(note_id, "milk\n", now=client.time.now + 5)  # the person takes the tag off
        await cycles(client)
        store.edit(note_id, lambda text: text + "secret\n")
        await cycles(client)

    asyncio.run(scenario())
    assert [*store.contents().values()] == [Content("milk\nsecret\n")]
    assert (client.contents(), client.cache.journal.all()) == ({}, [])


def test_a_store_that_takes_a_new_note_as_a_whole_gets_no_tag_back(clients, store):
    client = clients(traits=ROWS["memento"])

    async def scenario():
        await unanswered(client, Content("milk\n", ("shop", "home")), fault=Fault.LOST_ANSWER)
        (note_id,) = store.ids()
        store.put(note_id, "milk\n", tags=["shop"], now=client.time.now + 5)
        await cycles(client)

    asyncio.run(scenario())
    assert [*store.contents().values()] == [Content("milk\n", ("shop",))]


@pytest.mark.parametrize("row", ["trilium", "example"])
@pytest.mark.parametrize(
    "case",
    [
        (Visibility(hidden_tags=("private",)), ("t", "private"), "t private new"),
        (Visibility(allowed_tags=("t",), untagged=False), (), "new"),
        (Visibility(allowed_tags=("t", "new"), untagged=False), (), ""),
    ],
    ids=["hidden tag", "allowed tag", "new tag that shows it"],
)
def test_a_tag_given_right_after_a_push_over_hiding_tags_stays_unless_it_shows_the_note(
    clients, store, row, case
):
    rules, hiding, left = case
    client = clients(traits=ROWS[row], rules=rules)

    def act():
        store.put("n1", "one\nsecret\n", tags=hiding, now=8.0)

    def after():
        store.put("n1", store.text("n1"), tags=("t", "new"), now=9.0)

    async def scenario():
        store.put("n1", "one\n", tags=("t",), now=5.0)
        await client.sync()
        note = client.note("n1")
        raced(client, act, after=after)
        with suppress(NotariumError):
            await client.writer.save(note=note, content=replace(note.content, text="one\nours\n"))
        await cycles(client)

    asyncio.run(scenario())
    assert {*store.contents()["n1"].tags} == {*left.split()}
    assert "n1" not in client.contents()
    assert "secret" in store.text("n1")


@pytest.mark.parametrize("row", ["local", "simplenote"])
@pytest.mark.parametrize("since", ["nothing", "edited", "removed"])
def test_a_property_that_hides_a_note_is_not_taken_off(clients, store, since, row):
    store.put("n", "one\n")
    store.overwrite("n", store.fields("n") | {"properties": ["pinned"]})
    client = clients(traits=ROWS[row])

    async def scenario():
        await client.sync()
        note = client.note("n")
        wanted = replace(note.content, text="one\ntwo\n", properties=Content("").properties)
        await unanswered(client, wanted, note=note)
        client.close()
        if since == "edited":
            store.edit("n", lambda text: "zero\n" + text)
        if since == "removed":
            store.remove("n")
        later = clients(traits=ROWS[row], rules=Visibility(hidden_properties=("pinned",)))
        await cycles(later)
        return later

    later = asyncio.run(scenario())
    assert later.contents() == {}
    assert [store.fields(one)["properties"] for one in store.ids()] == [["pinned"]] * (
        since != "removed"
    )
    (kept,) = later.cache.journal.all()
    assert (kept.state, kept.content.text) == (WriteState.REJECTED, "one\ntwo\n")
    assert "hides by now" in kept.reason


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.TIMEOUT])
@pytest.mark.parametrize("row", ROWS)
def test_a_write_of_a_note_whose_id_is_hidden_since_stands_once(clients, store, row, fault):
    store.put("open.md", "one\n")
    client = clients(traits=ROWS[row])

    async def scenario():
        await client.sync()
        note = client.note("open.md")
        await unanswered(client, Content("one\ntwo\n"), note=note, fault=fault)
        client.close()
        rules = Visibility(hidden_ids=("open.md",))
        later = clients(traits=ROWS[row], rules=rules, owner_ended=lambda _: True)
        await cycles(later)
        return later

    later = asyncio.run(scenario())
    assert {one: held.text for one, held in store.contents().items()} == {"open.md": "one\ntwo\n"}
    assert (later.contents(), later.cache.journal.all()) == ({}, [])


class Killed(BaseException):
    """Stands for the end of the process."""


@asynccontextmanager
async def vault(place, *, rules=Visibility(), killed=()):  # noqa: B008 - frozen
    """A client of the folder ``vault``; ``killed``: the step of a write at which its process ends."""

    def step(name):
        if name in killed:
            raise Killed

    account = place / "account"
    account.mkdir(mode=0o700, exist_ok=True)
    remote = VaultStore(place / "vault")
    client = Client(
        *(account, None),
        remote=remote,
        rules=rules,
        on_step=step,
        owner_ended=lambda _: True,
    )
    try:
        yield client
    finally:
        await remote.close()
        client.close()


def put(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (1_600_000_000,) * 2)


async def killed(place, name, change):
    """A change of a note whose process was killed when it was recorded, and not sent."""
    async with vault(place, killed=("recorded",)) as client:
        await client.sync()
        note = client.note(name)
        with pytest.raises(Killed):
            await client.writer.save(note=note, content=change(note.content))


def files(place):
    """What the notes of the folder say, by their paths."""
    root = place / "vault"
    return {str(one.relative_to(root)): one.read_text() for one in root.rglob("*.md")}


@pytest.mark.parametrize("theirs", ["", "zero\n"])
@pytest.mark.parametrize(
    ("before", "after", "title", "rules"),
    [
        ("one\n", "one\n", "Home/Plan", Visibility(hidden_paths=("Work",))),
        ("one\n", "one\ntwo\n", "Work/Other", Visibility(hidden_paths=("Work/Plan.md",))),
        ("one\n#private\n", "one\n", "Plan", Visibility(hidden_tags=("private",))),
        (
            "---\ntags: [private]\n---\none\n",
            "---\ntags: []\n---\none\n",
            "Plan",
            Visibility(hidden_tags=("private",)),
        ),
    ],
    ids=["folder", "name", "tag in the text", "tag in front matter"],
)
def test_no_renaming_and_no_edit_shows_a_file_that_is_hidden_since(
    before, after, title, rules, theirs
):
    async def scenario(place):
        file = place / "vault" / "Work" / "Plan.md"
        put(file, before)
        await killed(
            place, "Work/Plan.md", lambda held: replace(held, text=after, title=title, tags=())
        )
        held = before + theirs
        put(file, held)
        async with vault(place, rules=rules) as later:
            await cycles(later)
            assert later.contents() == {}
            kept = [one.content.text for one in later.cache.journal.all()]
        held_now = files(place)
        assert held_now.pop("Work/Plan.md") == held
        # In the folder that is hidden there is room for a copy.
        assert [*held_now.values(), *kept] == [after]

    with quick_folder() as place:
        asyncio.run(scenario(place))


@pytest.mark.parametrize("added", ["- [ ] milk\n", "my own news\n\n- [ ] milk\n"])
def test_a_file_with_one_of_our_lines_is_not_the_note_that_was_to_have_its_name(added):
    async def scenario(place):
        root = place / "vault"
        put(root / "A.md", "a long text\nof many lines\n")
        await killed(place, "A.md", lambda held: replace(held, title="B", text=held.text + added))
        (root / "A.md").unlink()
        put(root / "B.md", "- [ ] milk\n- [ ] eggs\n")
        async with vault(place) as later:
            await cycles(later)
            assert later.cache.journal.all() == []
        ours = "a long text\nof many lines\n" + added
        assert sorted(files(place).values()) == sorted([ours, "- [ ] milk\n- [ ] eggs\n"])

    with quick_folder() as place:
        asyncio.run(scenario(place))
