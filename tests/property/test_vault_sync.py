"""Two servers and another program write one folder of files at once: no line is lost.

Real files, the real writer and scheduler. The other program renames files over notes, as editors do, and
writes into them in place.
"""

import asyncio
import os
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    NotariumError,
    OutcomeUnknown,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault import folder as vault_folder
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.sync.listing_pages import reload_index
from support.long import LONG, dice
from support.sync_rig import Client, quick_folder

SAVES = 120 if LONG else 30
EDITS = 600 if LONG else 150
NOTES = ("Alpha", "Beta", "Gamma")
START = "".join(f"line {number}\n" for number in range(8))


def with_line(text, line, rng):
    """The text with one line more, anywhere below its title."""
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randint(1, len(lines)) if lines else 0, f"{line}\n")
    return "".join(lines)


def exchange(folder, one, other):
    return file_writer.rename(folder, one, folder, other, exchange=True)


class WatchedVault(VaultStore):
    """Counts the writes that have met somebody else's, or displaced it."""

    met = 0

    async def push(self, write):
        try:
            answer = await super().push(write)
        except VersionConflict:
            self.met += 1
            raise
        self.met += answer.displaced is not None
        return answer


@dataclass
class Editor:
    """The other program. ``sure``: lines that were in a note's file when it looked afterwards.

    A line that it writes into a file which is not the note's any more came between comparison and push:
    only such a one may be lost.
    """

    rng: random.Random
    folder: Path | None = None
    sure: set = field(default_factory=set)

    def run(self):
        for number in range(EDITS):
            path = self.folder / f"{self.rng.choice(NOTES)}.md"
            line = f"editor {number}"
            edit = self.rng.choice((self.rename, self.append, self.write_in_place))
            if edit(path, line):
                self.sure.add(line)
            time.sleep(self.rng.random() * 0.01)

    def rename(self, path, line):
        """Exchange, look at what came off, and put back the lines that were not seen before."""
        seen = path.read_text()
        wanted = with_line(seen, line, self.rng)
        while True:
            temporary = path.with_name(".editor.tmp")
            temporary.write_text(wanted)
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                assert exchange(folder, temporary.name, path.name)
            finally:
                os.close(folder)
            displaced = temporary.read_text()
            temporary.unlink()
            unseen = [one for one in displaced.splitlines() if one not in wanted.splitlines()]
            if displaced == seen or not unseen:
                return True
            seen = path.read_text()
            missing = [one for one in unseen if one not in seen.splitlines()]
            if not missing:
                return True
            wanted = seen + "".join(f"{one}\n" for one in missing)

    def append(self, path, line):
        with path.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())
            return os.fstat(file.fileno()).st_ino == path.stat().st_ino

    def write_in_place(self, path, line):
        with path.open("r+b", buffering=0) as file:
            wanted = with_line(file.read().decode(), line, self.rng)
            os.pwrite(file.fileno(), wanted.encode(), 0)
            return os.fstat(file.fileno()).st_ino == path.stat().st_ino


async def agent(client, name, rng, promised, refusals):
    """Save line after line; ``promised`` has those that a save has confirmed, or will finish later."""
    for number in range(SAVES):
        line = f"{name} {number}"
        try:
            if number % 6 == 5:
                await client.create(f"Plan\n{line}\n")
            else:
                note = client.note(rng.choice(NOTES) + ".md")
                await client.change(note, with_line(note.text, line, rng))
        except (VersionConflict, StoreUnavailable) as refusal:
            refusals.append(refusal.message)
            await client.sync()
        except OutcomeUnknown:  # the editor came again, and the merge waits for the next cycle
            promised.add(line)
        else:
            promised.add(line)
        if number % 5 == 0:
            await client.sync()


@pytest.mark.slow("two agents and an editor race for some seconds over real files")
def test_no_promised_line_and_no_line_of_another_program_is_lost(monkeypatch):
    monkeypatch.setattr(vault_folder, "SETTLED", 0.002)
    editor, promised, refusals = Editor(dice("editor")), set(), []
    with quick_folder() as place:
        folder = editor.folder = place / "notes"
        folder.mkdir()
        for name in NOTES:
            (folder / f"{name}.md").write_text(f"{name}\n{START}")
        for name in ("one", "two"):
            (place / name).mkdir(mode=0o700)
        clients = [
            Client(place / name, None, remote=WatchedVault(folder)) for name in ("one", "two")
        ]

        async def race():
            for client in clients:
                await client.sync()
            thread = threading.Thread(target=editor.run)
            thread.start()
            try:
                agents = [
                    agent(client, f"agent{number}", dice(f"agent {number}"), promised, refusals)
                    for number, client in enumerate(clients)
                ]
                await asyncio.gather(*agents)
            finally:
                await asyncio.to_thread(thread.join)
            for client in clients * 3:
                await client.run_cycles(2)

        asyncio.run(race())
        paths = [path for path in folder.iterdir() if path.suffix == ".md"]
        texts = {path.name: path.read_text() for path in paths}
        held = [client.contents() for client in clients]
        unfinished = [write for client in clients for write in client.cache.journal.all()]
        for client in clients:
            client.close()
        assert [path.name for path in folder.iterdir() if path.suffix != ".md"] == []
    lines = {line for text in texts.values() for line in text.splitlines()}
    assert promised - lines == set()
    assert editor.sure - lines == set()
    assert unfinished == []
    assert all({one: content.text for one, content in all_.items()} == texts for all_ in held)
    assert all("nothing was saved" in message for message in refusals)
    assert len(promised) > SAVES
    assert len(editor.sure) > EDITS / 2
    assert sum(client.remote.met for client in clients), "nobody came between"


class Disguise:
    """Another program that moves files about; the one under the rule always has ``SECRET`` in it."""

    SECRET = "the code is 1234\n"

    def __init__(self, folder, rng):
        self.folder = folder
        self.rng = rng
        self.path("Secret").write_text(self.SECRET)
        for name in NOTES:
            self.path(name).write_text(START)

    def path(self, name):
        return self.folder / f"{name}.md"

    def act(self):
        """Do what a person or an editor does to one or two files."""
        one, other = self.rng.sample(sorted(self.folder.glob("*.md")), 2)
        match self.rng.choice(
            ("rename", "exchange", "move over", "save", "save", "edit", "backup")
        ):
            case "rename":
                self.move(one, self.path(f"Name {self.rng.randrange(9)}"))
            case "exchange":
                folder = os.open(self.folder, os.O_RDONLY)
                assert exchange(folder, one.name, other.name)
                os.close(folder)
            case "move over" if len([*self.folder.glob("*.md")]) > 3:
                self.move(one, other)
            case "save":
                self.save(one, one)
            case "edit":
                with one.open("a") as file:
                    file.write("more\n")
            case "backup":
                self.save(self.move(one, one.with_suffix(".old.md")), one)

    def move(self, old, new):
        if new.exists() and self.SECRET in new.read_text():
            return old
        return old.rename(new)

    def save(self, source, target):
        temporary = self.folder / ".editor.tmp"
        temporary.write_text(source.read_text() + "saved\n")
        temporary.rename(target)


def test_a_file_that_a_rule_hides_by_its_name_is_never_seen_whatever_happens_to_files():
    rng = dice("disguise")
    with quick_folder() as place:
        folder = place / "notes"
        folder.mkdir()
        disguise = Disguise(folder, rng)
        rules = Visibility(hidden_ids=("Secret.md",))

        def look(client):
            texts = [content.text for content in client.contents().values()]
            assert not [text for text in texts if disguise.SECRET in text]

        async def story(client):
            for number in range(15):
                await client.sync()
                look(client)
                if rng.random() < 0.2:
                    await reload_index(client.cache, client.remote)
                if rng.random() < 0.3 and (ids := sorted(client.contents())):
                    note = client.note(rng.choice(ids))
                    with suppress(NotariumError):
                        await client.change(note, with_line(note.text, f"agent {number}", rng))
                    look(client)
                await client.sync()
                disguise.act()
                client.time.now += 4000  # a sweep is due

        for _ in range(2):  # and again after a restart
            client = Client(place, None, remote=WatchedVault(folder), rules=rules)
            asyncio.run(story(client))
            client.close()
        assert any(disguise.SECRET in path.read_text() for path in folder.glob("*.md"))
