"""Test the notes of days in a simulated Trilium, which makes them when its calendar is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.domain.policy import Limits, Mode, Policy, Visibility
from mcp_notarium.tools.toolsets import find_toolset
from notarium_devtools.trilium import TriliumSimulator
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
DAY = "2025-06-20"
ID = f"daily:{DAY}"
OPEN = Policy()


class Account:
    """A client of an account at the simulator."""

    sim: TriliumSimulator
    client: Any
    harness: ToolHarness

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        return dict(result.structured_content or json.loads(result.content[0].text))

    def asked(self) -> list[str]:
        """The addresses of the calendar that were asked for."""
        return [one.path for one in self.sim.requests if "/calendar/" in one.path]

    def days(self) -> list[str]:
        """The notes of the day."""
        attributes = self.sim.document.attributes.values()
        return [one.note_id for one in attributes if (one.name, one.value) == ("dateNote", DAY)]


@asynccontextmanager
async def opened(folder: Path, policy: Policy = OPEN, **more: Any) -> AsyncIterator[Account]:
    account = Account()
    async with TriliumSimulator().serving() as account.sim:
        if more.get("put"):
            more["put"](account.sim)
        remote = open_trilium(account.sim)
        account.harness = ToolHarness(folder, remote=remote, policy=policy)
        await account.harness.sync()
        try:
            async with connected(
                account.harness.opened, toolset=find_toolset("titled"), seconds=60
            ) as account.client:
                yield account
        finally:
            await remote.close()
            account.harness.close()


def _with_calendar(sim: TriliumSimulator) -> None:
    """A journal with a template for days."""
    sim.write("Journal00001", "Journal", "")
    sim.write("Template0001", "Day template", "<h2>Tasks</h2><ul><li>[...]</li></ul>")
    document = sim.document
    document.set_attribute("a1", "Journal00001", "label", "calendarRoot", "")
    document.set_attribute("a2", "Journal00001", "relation", "dateTemplate", "Template0001")


async def test_only_a_save_makes_a_note_and_asks_the_calendar(tmp_path: Path) -> None:
    async with opened(tmp_path) as account:
        assert (await account.call("get", id=ID))["category"] == "NOT_FOUND"
        assert (await account.call("manage", action="history", id=ID))["category"] == "NOT_FOUND"
        assert account.asked() == []
        saved = await account.call("save", id=ID, append="milk")
        assert account.asked() == [f"/etapi/calendar/days/{DAY}"]
        assert [saved["id"]] == account.days()
        assert (saved["title"], saved["tags"]) == ("20 - Friday", ["dateNote"])
        assert account.sim.document.notes[saved["id"]].content == b"<p>milk</p>"
        await account.call("save", id=ID, append="bread")
        assert len(account.asked()) == 1
        assert len(account.days()) == 1


async def test_the_calendars_template_stands_above_what_is_appended(tmp_path: Path) -> None:
    async with opened(tmp_path, put=_with_calendar) as account:
        saved = await account.call("save", id=ID, append="milk")
        content = account.sim.document.notes[saved["id"]].content.decode()
        assert content == "<h2>Tasks</h2><ul><li>[...]</li></ul><p>milk</p>"
        alone = await account.call("save", id="daily:2025-06-21", text="only this")
        assert account.sim.document.notes[alone["id"]].content == b"<p>only this</p>"


async def test_a_day_that_the_app_has_made_meanwhile_is_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as account:
        made = account.sim.write("Day000000001", "20 - Friday", "<p>theirs</p>")
        account.sim.document.set_attribute("d1", made.id, "label", "dateNote", DAY)
        assert (await account.call("get", id=ID))["text"].strip() == "theirs"
        await account.call("save", id=ID, append="ours")
        assert account.days() == [made.id]
        assert account.asked() == []


async def test_a_day_elsewhere_in_the_label_is_another_note(tmp_path: Path) -> None:
    def put(sim: TriliumSimulator) -> None:
        sim.write("Other0000001", "other", f"<p>{DAY}</p>")
        sim.document.set_attribute("d1", "Other0000001", "label", "dateNote", "2025-06-21")
        sim.document.set_attribute("d2", "Other0000001", "label", "due", DAY)

    async with opened(tmp_path, put=put) as account:
        assert (await account.call("get", id=ID))["category"] == "NOT_FOUND"
        assert (await account.call("get", id="daily:2025-06-21"))["id"] == "Other0000001"


@pytest.mark.parametrize("lie", ["another day", "no note", "a protected note"])
async def test_an_answer_that_is_not_the_day_is_not_written_to(lie: str, tmp_path: Path) -> None:
    async with opened(tmp_path) as account:
        other = account.sim.write("Other0000001", "other", "<p>theirs</p>")
        labelled = "2025-06-21" if lie == "another day" else DAY
        if lie != "no note":
            account.sim.document.set_attribute("d1", other.id, "label", "dateNote", labelled)
        if lie == "a protected note":
            account.sim.protect(other.id)
        said = json.dumps(account.sim.document.note_object(other)) if lie != "no note" else "{}"
        account.sim.faults.status(200, path="*/calendar/*", body=said.encode(), times=9)
        refused = await account.call("save", id=ID, append="milk")
        assert refused.get("category") not in (None, "INTERNAL"), refused
        assert "nothing was" in refused["message"]
        assert other.content == b"<p>theirs</p>"


async def test_without_an_answer_nothing_is_said_to_be_saved_and_a_second_call_makes_one_note(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as account:
        account.sim.faults.cut_after(path="*/calendar/*", times=10)
        refused = await account.call("save", id=ID, append="milk")
        assert "nothing was saved" in refused["message"].lower()
        account.sim.faults.clear()
        saved = await account.call("save", id=ID, append="milk")
        assert account.days() == [saved["id"]]
        assert account.sim.document.notes[saved["id"]].content == b"<p>milk</p>"


@pytest.mark.parametrize(
    "rules",
    [Visibility(hidden_tags=("private",)), Visibility(allowed_tags=("dateNote",))],
)
async def test_where_rules_hide_notes_no_day_is_made_and_none_betrayed(
    rules: Visibility, tmp_path: Path
) -> None:
    answers = []
    for there in (True, False):

        def put(sim: TriliumSimulator, *, there: bool = there) -> None:
            if there:
                sim.write("Day000000001", "20 - Friday", "<p>secret</p>")
                tags = sim.document.set_attribute
                tags("d1", "Day000000001", "label", "dateNote", DAY)
                tags("d2", "Day000000001", "label", "private", "")

        policy = Policy(visibility=rules)
        if there and rules.allowed_tags:
            continue
        (tmp_path / str(there)).mkdir()
        async with opened(tmp_path / str(there), policy, put=put) as account:
            before = len(account.sim.requests)
            said = [await account.call("get", id=ID), await account.call("save", id=ID, append="x")]
            assert said[1]["subcategory"] == "policy"
            assert account.asked() == []
            answers.append(
                (said, [(one.method, one.path) for one in account.sim.requests[before:]])
            )
    assert all(said == answers[0] for said in answers)


async def test_a_day_that_is_seen_is_changed_under_such_rules(tmp_path: Path) -> None:
    def put(sim: TriliumSimulator) -> None:
        sim.write("Day000000001", "20 - Friday", "<p>open</p>")
        sim.document.set_attribute("d1", "Day000000001", "label", "dateNote", DAY)

    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    async with opened(tmp_path, policy, put=put) as account:
        await account.call("save", id=ID, append="milk")
        assert b"milk" in account.sim.document.notes["Day000000001"].content


async def test_making_counts_as_a_write_and_needs_the_right_to(tmp_path: Path) -> None:
    async with opened(tmp_path, Policy(limits=Limits(writes_per_session=2))) as account:
        await account.call("save", id=ID, append="milk")
        refused = await account.call("save", id="daily:2025-06-21", append="milk")
        assert "limit" in json.dumps(refused).lower()
        assert len(account.asked()) == 1
    (tmp_path / "second").mkdir()
    async with opened(tmp_path / "second", Policy(mode=Mode.READ_ONLY)) as account:
        missing = await account.call("get", id=ID)
        assert "`save`" not in missing["resolution_hint"]
        assert "message" in await account.call("save", id=ID, append="milk")
        assert account.asked() == []


async def test_the_audit_log_knows_of_the_call_before_the_calendar_is_asked(tmp_path: Path) -> None:
    async with opened(tmp_path) as account:
        known: list[list[str]] = []

        def look(request: Any) -> None:
            if "/calendar/" in request.path:
                table = account.harness.app.audit.table
                known.append([one.act for one in table.records() if one.outcome == ""])

        account.sim.before_request = look
        await account.call("save", id=ID, append="milk")
        assert known == [["tool.save"]]


async def test_calls_at_once_make_one_note(tmp_path: Path) -> None:
    async with opened(tmp_path) as account:
        items = [f"item {number}" for number in range(4)]
        await asyncio.gather(*(account.call("save", id=ID, append=item) for item in items))
        [note_id] = account.days()
        content = account.sim.document.notes[note_id].content.decode()
        assert all(item in content for item in items)
