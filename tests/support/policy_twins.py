"""Two accounts under one policy: one with notes that it hides, one without them at all.

``Twins`` lets other devices edit both accounts and agents call the tools of both, and compares every
answer byte for byte. What is hidden in the one is removed from the other, what is shown again is made
there again, with the same revision number, so that nothing but the policy could tell them apart.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from mcp_notarium.domain.note import PendingWrite, Revision
from mcp_notarium.domain.policy import Policy
from mcp_notarium.errors import (
    LoginRequired,
    NotariumError,
    RateLimited,
    StoreRejected,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.protocol.call_pipeline import success
from mcp_notarium.stores.contract import Acknowledgement, Traits
from mcp_notarium.tools.catalog import NOTARIUM
from mcp_notarium.tools.tool import ToolNames
from support.memory_client import LIKE_SIMPERIUM, Fault
from support.memory_store import Fields, Kept, MemoryStore, content_of
from support.tool_harness import Caller, ToolHarness

TOOLS = NOTARIUM.by_name()
WORDS = (
    *("tea", "milk", "garden", "gardener", "gardens", "zymurgy", "zymurgist", "report", "reports"),
    *("Schifffahrt", "会議の資料", "naïve", "ledger", "ledgers", "++"),
)
TYPED = (*WORDS, "gardem", "zymurgi", "zymurgisz", "repord", "fahrt", "ledgre", "nothing", "会議")
TAGS = ("work", "Work", "home", "private", "Private", "other")
IDS = tuple(f"note{number:02}" for number in range(14))
FAILURES = (StoreUnavailable, StoreTimeout, LoginRequired, RateLimited, StoreRejected)
NAMES = tuple(f"name{number:02}" for number in range(6))
UNKNOWN_IDS = ("nobody", "note99", "../x")
LAST = "the last one"


def same_word(answer: str) -> str:
    """The answer with one word in the place of those that were drawn for its boundaries and for a change of many notes."""
    answer = re.sub(r'("change_id": ?")[0-9a-f]{16}"', r'\g<1>0"', answer)
    drawn = re.search(r'"untrusted_end": ?"([0-9a-f]{16})"', answer)
    return answer.replace(drawn[1], "0" * 16) if drawn else answer


class Twin(ToolHarness):
    """Hold one of the two accounts; ``before_push`` lets another device write right before a push."""

    def __init__(self, folder: Path, policy: Policy, traits: Traits) -> None:
        facts = {each.name: getattr(traits, each.name) for each in fields(traits)}
        super().__init__(folder, policy=policy, **facts)
        self.caller = Caller(agrees=True, client="")
        self.before_push: list[Any] = []
        self.failing: dict[str, type[NotariumError]] = {}
        self.last_change = "none"
        push, delete, get = self.remote.push, self.remote.delete, self.remote.get

        async def failing_get(note_id: str, *, etag: str | None = None) -> Revision:
            if note_id in self.failing:
                raise self.failing[note_id]("this note cannot be had")
            return await get(note_id, etag=etag)

        async def raced_push(write: PendingWrite) -> Acknowledgement:
            self._race(write.note_id)
            return await push(write)

        async def raced_delete(note_id: str, *, etag: str, write_id: str) -> None:
            self._race(note_id)
            await delete(note_id, etag=etag, write_id=write_id)

        self.remote.get = failing_get  # type: ignore[method-assign]
        self.remote.push = raced_push  # type: ignore[method-assign]
        self.remote.delete = raced_delete  # type: ignore[method-assign]

    def _race(self, note_id: str) -> None:
        for edit in self.before_push:
            edit(note_id)
        self.before_push.clear()

    async def answer(self, tool: str, arguments: dict[str, Any]) -> str:
        """What an agent is told, as text. ``LAST`` stands for the last change of many notes."""
        if arguments.get("change_id") == LAST:
            arguments = arguments | {"change_id": self.last_change}
        try:
            request = TOOLS[tool].request.model_validate(arguments)
            self.app.cache.follow()
            self.app.config.policy.require_use(tool, getattr(request, "action", None))
            made = await TOOLS[tool].handle(self.app, request, self.caller)
        except ValidationError as error:
            return f"arguments: {error.error_count()}"
        except NotariumError as error:
            return json.dumps({"error": error.to_dict()}, ensure_ascii=False)
        return self._seen(made)

    def _seen(self, made: BaseModel) -> str:
        value = success(made, ToolNames()).value
        assert value is not None
        value.pop("memory_rss_mb", None)
        self.last_change = value.get("change_id", self.last_change)
        return json.dumps(value, ensure_ascii=False)


class Twins:
    """``one`` has everything, ``other`` only what the policy shows, under the policy ``without`` if there is one.

    ``hidden_names``: every id and identity of the notes that were hidden by id when the server looked.
    """

    def __init__(
        self,
        folder: Path,
        policy: Policy,
        *,
        seed: int,
        traits: Traits = LIKE_SIMPERIUM,
        without: Policy | None = None,
    ) -> None:
        self.policy = policy
        self.traits = traits
        self.dice = random.Random(seed)
        self.one = self._made(folder / "one", policy, traits)
        self.other = self._made(folder / "other", without or policy, traits)
        self.hidden_names: set[str | int] = {*policy.visibility.hidden_ids}
        self.versions: dict[str, int] = {}
        self.calls: list[str] = []
        self.answers: list[str] = []

    @staticmethod
    def _made(folder: Path, policy: Policy, traits: Traits) -> Twin:
        folder.mkdir(mode=0o700)
        return Twin(folder, policy, traits)

    def close(self) -> None:
        self.one.close()
        self.other.close()

    # Other devices.

    def shows(self, note_id: str, fields: Fields) -> bool:
        names = {note_id, self.one.store.kept(note_id).identity}
        return (
            self.policy.visibility.sees(note_id, fields["tags"]) and not names & self.hidden_names
        )

    def edit(self, note_id: str, **fields: Any) -> None:
        """Another device changes or makes a note, seen or not."""
        self.one.now = self.other.now = self.one.now + 1
        self.put(self.one.store, note_id, fields)
        self.mirror(note_id)

    def put(self, store: MemoryStore, note_id: str, fields: dict[str, Any]) -> None:
        known = store.fields(note_id) if note_id in store.ids() else {"text": "", "tags": []}
        wanted = {"trash": False} | {k: known[k] for k in ("text", "tags", "trash") if k in known}
        wanted |= fields
        store.put(note_id, wanted.pop("text"), now=self.one.now, **wanted)

    def mirror(self, note_id: str) -> None:
        """Make the other account what it would be without what is hidden."""
        one, other = self.one.store, self.other.store
        if note_id in one.ids() and self.shows(note_id, one.fields(note_id)):
            kept = other._notes.setdefault(note_id, Kept())
            kept.head = one.kept(note_id).head - 1
            other._commit(note_id, one.fields(note_id))
        elif note_id in other.ids():
            other.remove(note_id)

    def remove(self, note_id: str) -> None:
        """Another device removes a note for good."""
        if note_id in self.one.store.ids():
            self.one.store.remove(note_id)
            self.mirror(note_id)

    def fail_a_hidden_note(self) -> None:
        """The service cannot give one of the hidden notes any more, and tells of changes only.

        It is one that was hidden before, and stays so: nobody could know of a change of that.
        """
        store, found = self.one.store, self.one.app.cache.notes.visibility.hidden_notes()
        there = sorted(store.ids() & found.keys())
        hidden = [i for i in there if not self.shows(i, store.fields(i))]
        if hidden:
            self.one.failing[self.dice.choice(hidden)] = self.dice.choice(FAILURES)
            for note_id in self.one.failing:
                self.put(store, note_id, {"text": self.some_text()})
            for twin in (self.one, self.other):
                twin.remote.faults.plan(Fault.WITHOUT_CONTENT, on="changes")

    def healed(self) -> None:
        """The service gives every note again."""
        self.one.failing.clear()

    async def sync(self) -> None:
        for twin in (self.one, self.other):
            await twin.sync()
            twin.app.cache.follow()

    # Renames.

    def rename(self) -> None:
        """Another device renames, exchanges, replaces or writes anew some notes."""
        self._spread_hidden_names()
        store, ids = self.one.store, sorted(self.one.store.ids())
        before = {note_id: store.kept(note_id).identity for note_id in self.other.store.ids()}
        one, two, free = *self.dice.sample(ids, 2), self.dice.choice([*IDS, *NAMES])
        act = self.dice.choice(
            ("rename", "rename", "exchange", "exchange", "move_over", "write_anew")
        )
        self.calls.append(f"{act} {one} {two} {free}")
        match act:
            case "rename" if free not in ids:
                store.rename(one, free)
            case "exchange":
                store.exchange(one, two)
            case "move_over":
                store.move_over(one, two)
            case "write_anew":
                store.write_anew(one)
                if one in before:
                    self.other.store.write_anew(one)
                    before[one] = store.kept(one).identity
        self._spread_hidden_names()
        self._move_mirrored(before)

    def _spread_hidden_names(self) -> None:
        for _ in range(2):
            for note_id in self.one.store.ids():
                names = {note_id, self.one.store.kept(note_id).identity}
                if names & self.hidden_names:
                    self.hidden_names |= names

    def _move_mirrored(self, before: dict[str, int]) -> None:
        """Do the same in the other account, as far as it has the notes (id to their identity in the one)."""
        one, other = self.one.store, self.other.store
        after = {
            one.kept(note_id).identity: note_id
            for note_id in one.ids()
            if self.shows(note_id, one.fields(note_id))
        }
        moved = {old: after[same] for old, same in before.items() if after.get(same, old) != old}
        kept = {new: other._notes.pop(old) for old, new in moved.items()}
        other._notes |= kept
        for note_id in kept:
            other._record_moved(note_id)
        now = {note_id: same for same, note_id in after.items()}
        for note_id in {*other.ids(), *now} - {*kept}:
            if note_id not in now or now[note_id] != before.get(note_id):
                self.mirror(note_id)
                if note_id in before and note_id in now:  # another note in its place
                    other.write_anew(note_id)

    # Agents.

    async def call(self, tool: str, **arguments: Any) -> str:
        """The answer of both; fails if they differ."""
        self.one.now = self.other.now = self.one.now + 1
        answer = await self.one.answer(tool, arguments)
        other = await self.other.answer(tool, arguments)
        self.calls.append(f"{tool} {arguments}")
        assert same_word(answer) == same_word(other), (self.calls[-5:], answer, other)
        self.answers.append(answer)
        self._learn(answer)
        return answer

    def _learn(self, answer: str) -> None:
        """Remember versions, as an agent does."""
        if not answer.startswith("{"):
            return
        value = json.loads(answer)
        for row in [value, *value.get("content", ())]:
            note_id, version = row.get("id") or row.get("uuid"), row.get("local_version")
            if note_id and (version := version or row.get("new_local_version")):
                self.versions[note_id] = version

    def in_step(self) -> None:
        """Neither cache nor account holds anything of what is hidden that the other has not."""
        seen = {
            note_id: content_of(fields)
            for note_id in self.one.store.ids()
            if self.shows(note_id, fields := self.one.store.fields(note_id))
        }
        assert seen == self.other.store.contents()

    # Dice.

    def some_text(self) -> str:
        return "\n".join(
            " ".join(self.dice.choices(WORDS, k=self.dice.randint(1, 5)))
            for _ in range(self.dice.randint(1, 4))
        )

    def some_tags(self, most: int = 3) -> list[str]:
        return self.dice.sample(TAGS, self.dice.randint(0, most))

    def some_id(self) -> str:
        named = NAMES if self.traits.ids.named else ()
        return self.dice.choice((*IDS, *IDS, *self.versions, *UNKNOWN_IDS, *named))

    def some_version(self, note_id: str) -> int:
        return self.versions.get(note_id, 1) + self.dice.choice((0, 0, 0, 0, 1, -1))

    def some_query(self) -> str:
        words = self.dice.choices(TYPED, k=self.dice.randint(1, 3))
        forms = (
            *(" ".join(words), f'"{" ".join(words)}"', f"{words[0]}*", f"-{words[0]}", words[0]),
            *(f"{words[0]} OR {words[-1]}", f"tag:{self.dice.choice(TAGS)} {words[0]}"),
            *(f"-tag:{self.dice.choice(TAGS)}", "trash:any", f"{words[0]} after:2020-01-01"),
        )
        return self.dice.choice(forms)

    def some_listing(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "query": self.some_query() if self.dice.random() < 0.8 else None,
            "tags": self.some_tags(1) or None,
            "trash_status": self.dice.choice((None, 0, 1, 2)),
            "limit": self.dice.choice((1, 2, 5, 100)),
            "page": self.dice.choice((1, 1, 2, 3, 50)),
            "preview_lines": self.dice.choice((None, 1, 5)),
            "sort_by": self.dice.choice((None, "created_at", "modified_at")),
            "sort_order": self.dice.choice((None, "ASC", "DESC")),
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def some_saving(self) -> dict[str, Any]:
        if self.dice.random() < 0.25:
            return {"text": self.some_text(), "tags": self.some_tags()}
        note_id = self.some_id()
        what: dict[str, Any] = self.dice.choice(
            (
                {"text": self.some_text()},
                {"tags": self.some_tags()},
                {"trash": self.dice.random() < 0.5},
                {"text": self.some_text(), "tags": self.some_tags()},
                {
                    "text_patch": [
                        {"operation": "addition", "line_number": 1, "value": self.some_text()}
                    ]
                },
                {"append": self.some_text()},
                {"prepend": self.some_text(), "return_text": True},
                {"find": self.some_text().split("\n")[0] or "a", "replace": self.some_text()},
            )
        )
        return {"id": note_id, "local_version": self.some_version(note_id), "confirm": True} | what

    def some_managing(self) -> dict[str, Any]:
        action = self.dice.choice(("trash", "untrash", "delete_permanently", "get_stats"))
        if self.dice.random() < 0.4:
            action = self.dice.choice(("list_tags", "find_duplicates", "rename_tag"))
        if action in ("get_stats", "list_tags", "find_duplicates"):
            return {"action": action}
        if action == "rename_tag":
            old, new = (self.dice.choice(self.some_tags() or ["home"]) for _ in range(2))
            return {"action": action, "tag": old, "new_tag": new, "confirm": True}
        note_id = self.some_id()
        version = self.some_version(note_id)
        return {"action": action, "id": note_id, "local_version": version, "confirm": True}

    def some_change_of_many(self) -> dict[str, Any]:
        """A change of some or all notes, told or done, or the undo of the last one."""
        options = {"dry_run": self.dice.random() < 0.2, "confirm": True}
        if self.dice.random() < 0.3:
            return {"action": "undo", "change_id": LAST} | options
        which: dict[str, Any] = {"ids": [self.some_id() for _ in range(self.dice.randint(1, 6))]}
        if self.dice.random() < 0.4:
            which = {"query": self.some_query()}
        action = self.dice.choice(("change", "change", "trash", "untrash"))
        tags = {"add_tags": self.some_tags(2), "remove_tags": self.some_tags(2)}
        return {"action": action} | which | (tags if action == "change" else {}) | options

    def some_history(self) -> tuple[str, dict[str, Any]]:
        """A call that reads or brings back what a note was; versions are often those of hidden notes."""
        note_id = self.some_id()
        newest = self.versions.get(note_id, 1)
        asked = {"id": note_id, "version": str(max(1, newest - self.dice.randint(-2, 3)))}
        version = {"local_version": self.some_version(note_id), "confirm": True}
        return self.dice.choice(
            (
                ("get", asked),
                ("manage", {"action": "history", "id": note_id}),
                ("manage", {"action": "history"} | asked),
                ("manage", {"action": "undo", "id": note_id, "confirm": True}),
                ("manage", {"action": "restore_version"} | asked | version),
            )
        )

    async def agent_acts(self) -> None:
        """One random call of a tool, now and then while another device edits the same note."""
        if self.dice.random() < 0.1 and not self.traits.ids.named:
            self.race()
        elif self.dice.random() < 0.15:
            await self.comes_too_late()
        roll = self.dice.random()
        if roll < 0.2:
            tool, arguments = self.some_history()
            await self.call(tool, **arguments)
        elif roll < 0.45:
            await self.call("list", **self.some_listing())
        elif roll < 0.65:
            note_id = self.some_id()
            version = self.dice.choice((None, self.some_version(note_id)))
            await self.call("get", id=note_id, local_version=version)
        elif roll < 0.85:
            await self.call("save", **self.some_saving())
        elif roll < 0.99:
            await self.call("manage", **self.some_managing())
        else:
            await self.call("manage", action="reset_cache", confirm=True)
            await self.sync()
        self.one.before_push.clear()
        self.other.before_push.clear()

    async def comes_too_late(self) -> None:
        """An agent works on what it has just read, and another device has been there meanwhile."""
        self.one.app.cache.follow()
        seen = sorted(self.one.app.cache.notes.etags())
        if not seen:
            return
        note_id = self.dice.choice(seen)
        read = json.loads(await self.call("get", id=note_id))
        self.device_acts(note_id)
        what = self.dice.choice(
            (
                {"text": read["text"] + "\n" + self.some_text()},
                {"tags": [*read["tags"], "home"]},
                {"trash": not read["trash"]},
            )
        )
        if self.dice.random() < 0.3:
            action = self.dice.choice(("trash", "untrash", "delete_permanently"))
            version = read["local_version"]
            await self.call("manage", action=action, id=note_id, local_version=version)
        else:
            await self.call("save", id=note_id, local_version=read["local_version"], **what)

    def race(self) -> None:
        """The next write meets a device that has just hidden the note."""
        hiding = self.hiding_tags()

        def hide(note_id: str) -> None:
            if note_id in self.one.store.ids():
                self.put(self.one.store, note_id, {"tags": hiding})

        def gone(note_id: str) -> None:
            if note_id in self.other.store.ids():
                self.other.store.remove(note_id)

        if hiding is not None:
            self.one.before_push.append(hide)
            self.other.before_push.append(gone)

    def hiding_tags(self) -> list[str] | None:
        """Tags that hide any note under the policy; None if none do."""
        rules = self.policy.visibility
        choices = [tags for tags in (["private"], ["other"], []) if not rules.sees("any", tags)]
        named = (rules.allowed_ids, rules.allowed_paths) != (None, None)
        return self.dice.choice(choices) if choices and not named else None

    def device_acts(self, note_id: str | None = None) -> None:
        """One random edit from another device."""
        note_id = note_id or self.dice.choice((*IDS, *self.versions))
        if note_id in self.one.failing:
            return
        roll = self.dice.random()
        if roll < 0.45:
            self.edit(note_id, text=self.some_text())
        elif roll < 0.85:
            self.edit(note_id, tags=self.some_tags(2))
        elif roll < 0.93:
            self.edit(note_id, trash=self.dice.random() < 0.5)
        else:
            self.remove(note_id)
