"""Test daily notes and templates of vaults as Obsidian and Logseq have them, by a connected client."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.domain.policy import Field, Policy, Visibility
from mcp_notarium.stores.vault.app_settings import LARGEST
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.toolsets import find_toolset
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio
ID = "daily:2025-06-20"
ALL = Policy()
Files = dict[str, str | bytes | dict[str, Any] | list[Any]]


class Account:
    """A vault with a client connected to its account."""

    def __init__(self, folder: Path) -> None:
        self.vault = folder / "vault"
        self.vault.mkdir()
        self.client: Any = None
        self.harness: Any = None

    def write(self, files: Files) -> None:
        for name, said in files.items():
            path = self.vault / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(said) if isinstance(said, dict | list) else said
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        return dict(
            result.structured_content
            if result.structured_content is not None
            else json.loads(result.content[0].text)
        )

    def read(self, path: str) -> str:
        return (self.vault / path).read_bytes().decode()

    def notes(self) -> set[str]:
        return {str(one.relative_to(self.vault)) for one in self.vault.rglob("*.md")}


@pytest.fixture(name="account")
def _account(tmp_path: Path) -> Account:
    return Account(tmp_path)


@asynccontextmanager
async def opened(
    account: Account, files: Files, policy: Policy = ALL, *, loaded: bool = True
) -> Any:
    account.write(files)
    harness = ToolHarness(account.vault.parent, remote=VaultStore(account.vault), policy=policy)
    account.harness = harness
    if loaded:
        await harness.sync()
    try:
        async with connected(
            harness.opened, toolset=find_toolset("with_paths"), seconds=60
        ) as client:
            account.client = client
            yield account
    finally:
        await harness.remote.close()
        harness.close()


DAILY = ".obsidian/daily-notes.json"
PERIODIC = ".obsidian/plugins/periodic-notes/data.json"
PLUGINS = ".obsidian/community-plugins.json"
TEMPLATES = ".obsidian/templates.json"
LOGSEQ = "logseq/config.edn"


def daily(folder: str = "", form: str = "", template: str = "") -> dict[str, str]:
    """Settings as Obsidian writes them."""
    return {"folder": folder, "format": form, "template": template}


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({}, "2025-06-20.md"),
        ({DAILY: {}}, "2025-06-20.md"),
        ({DAILY: {"folder": "Daily"}}, "Daily/2025-06-20.md"),
        ({DAILY: daily("/Daily//Notes/", "YYYY/MM-MMMM/YYYY-MM-DD-dddd")}, "Daily/Notes/2025/06-June/2025-06-20-Friday.md"),
        ({DAILY: daily(form="[Day] Do MMM, gggg-[W]ww")}, "Day 20th Jun, 2025-W25.md"),
        ({DAILY: daily("Tage", "DD.MM.YYYY[.md]")}, "Tage/20.06.2025.md"),
        ({DAILY: daily("Daily"), PERIODIC: {"daily": {"enabled": True, "folder": "P"}}}, "Daily/2025-06-20.md"),
        ({DAILY: daily("Daily"), PLUGINS: ["periodic-notes"], PERIODIC: {"daily": {"enabled": True, "folder": "P"}}}, "P/2025-06-20.md"),
        ({DAILY: daily("Daily"), PLUGINS: ["periodic-notes"], PERIODIC: {"daily": {"enabled": False, "folder": "P"}}}, "Daily/2025-06-20.md"),
        ({PLUGINS: ["other"], PERIODIC: {"daily": {"enabled": True, "folder": "P"}}}, "2025-06-20.md"),
        ({PLUGINS: ["periodic-notes"], PERIODIC: {"calendarSets": [{"id": "Work", "day": {"enabled": True, "folder": "W", "format": "D-M-YY"}}, {"id": "Home", "day": {}}], "activeCalendarSet": "Work"}}, "W/20-6-25.md"),
        ({LOGSEQ: "{}"}, "journals/2025_06_20.md"),
        ({LOGSEQ: '{:meta/version 1 ; settings\n :journal/page-title-format "MMM do, yyyy"\n :journals-directory "days"\n #_:hidden #_["x"] :journal/file-name-format "yyyy-MM-dd", :feature/enable-journals? true}'}, "days/2025-06-20.md"),
        ({LOGSEQ: '{:journal/file-name-format "yyyy-MM-dd'}, "journals/2025_06_20.md"),
        ({LOGSEQ: "{}", DAILY: daily("Daily")}, "Daily/2025-06-20.md"),
        # What cannot be read is as if it were not there.
        ({DAILY: "{broken"}, "2025-06-20.md"),
        ({DAILY: b"\xff\xfe{}"}, "2025-06-20.md"),
        ({DAILY: ["a"]}, "2025-06-20.md"),
        ({DAILY: {"folder": 7, "format": None, "template": ["x"]}}, "2025-06-20.md"),
        ({DAILY: "[" * 100_000}, "2025-06-20.md"),
        ({DAILY: '{"folder": "x", "a": "' + "a" * LARGEST + '"}'}, "2025-06-20.md"),
        ({LOGSEQ: "{" * 50_000}, "journals/2025_06_20.md"),
        ({DAILY: "\ufeff" + json.dumps(daily("Daily"))}, "Daily/2025-06-20.md"),
    ],
)  # fmt: skip
async def test_a_daily_note_is_made_where_the_app_makes_it(
    account: Account, files: Files, path: str
) -> None:
    async with opened(account, files):
        saved = await account.call("save", id=ID, append="milk")
        assert saved["id"] == path
        assert account.notes() == {path}
        assert account.read(path) == "milk"
        assert (await account.call("get", id=ID))["id"] == path


@pytest.mark.attack(52)
@pytest.mark.parametrize(
    "settings",
    [
        daily("../outside"),
        daily(form="../../YYYY"),
        daily("a/../../b"),
        daily(form="[..]/YYYY"),
        daily(".obsidian"),
        daily(".trash"),
        daily("node_modules/x"),
        daily(form="[.]YYYY"),
        daily(form="YYYY\x00MM"),
        daily("a\x00b"),
        daily(form="HH:mm"),
        daily(form="YYYY-MM-DD?"),
        daily(form="YYYY" * 300),
        daily(form="YYYY-MM-DD/" * 28),
        daily(form="dddd" * 74),
        daily("/".join("a" * 64)),
        daily("x" * 300),
        daily(form="[]"),
    ],
)  # fmt: skip
async def test_settings_that_lead_nowhere_are_refused_and_nothing_is_made(
    account: Account, settings: dict[str, str]
) -> None:
    async with opened(account, {DAILY: settings, "Plan.md": "x"}):
        before = {str(one) for one in account.vault.parent.rglob("*") if "cache" not in str(one)}
        for tool, more in (("save", {"append": "milk"}), ("get", {})):
            refused = await account.call(tool, id=ID, **more)
            assert refused["subcategory"] == "daily_settings", refused
            assert "folder and date format" in refused["resolution_hint"]
        after = {str(one) for one in account.vault.parent.rglob("*") if "cache" not in str(one)}
        assert after == before


@pytest.mark.parametrize(
    "settings",
    [
        '{:journals-directory "../x"}',
        '{:journals-directory "logseq/bak"}',
        '{:journal/file-name-format "' + "yyyy/" * 61 + '"}',
    ],
)
async def test_settings_of_logseq_that_lead_nowhere_are_refused(
    account: Account, settings: str
) -> None:
    async with opened(account, {LOGSEQ: settings}):
        refused = await account.call("save", id=ID, append="milk")
        assert refused["subcategory"] == "daily_settings"
        assert account.notes() == set()


def _symlink(path: Path, target: Path) -> None:
    path.symlink_to(target)


def _hard_link(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def _pipe(path: Path, _target: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, _target: Path) -> None:
    path.mkdir()


@pytest.mark.attack(52)
@pytest.mark.parametrize("make", [_symlink, _hard_link, _pipe, _folder])
@pytest.mark.parametrize("name", [DAILY, LOGSEQ, PERIODIC])
async def test_settings_that_are_no_file_of_the_vault_are_not_read(
    account: Account, make: Callable[[Path, Path], None], name: str
) -> None:
    outside = account.vault.parent / "outside"
    said = (
        '{:journals-directory "secret"}'
        if name == LOGSEQ
        else json.dumps({"folder": "secret", "daily": {"enabled": True, "folder": "secret"}})
    )
    outside.write_text(said)
    (account.vault / name).parent.mkdir(parents=True)
    make(account.vault / name, outside)
    async with opened(account, {PLUGINS: ["periodic-notes"]}):
        saved = await account.call("save", id=ID, append="milk")
        assert saved["id"] == "2025-06-20.md"
        assert outside.read_text() == said


@pytest.mark.attack(52)
async def test_a_settings_folder_that_is_a_link_is_not_followed(account: Account) -> None:
    outside = account.vault.parent / "outside"
    outside.mkdir()
    (outside / "daily-notes.json").write_text(json.dumps(daily("secret")))
    (account.vault / ".obsidian").symlink_to(outside)
    async with opened(account, {}):
        assert (await account.call("save", id=ID, append="milk"))["id"] == "2025-06-20.md"


TEMPLATE = (
    "---\ntags: [daily]\ncreated: {{date}}\n---\n# {{title}}\n{{date:dddd, MMMM Do}} at {{TIME}} ({{time:H}})\n"
    "{{ date }} {{unknown}}\n\n## Log\n"
)
FILLED = (
    "---\ntags: [daily]\ncreated: 20-06-2025\n---\n# 20-06-2025\nFriday, June 20th at 15.06 (15)\n"
    "20-06-2025 {{unknown}}\n\n## Log\n"
)


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", ["Templates/Day", "Templates/Day.md", "/Templates/Day", "Day"])
async def test_the_apps_template_is_filled_before_the_change(account: Account, name: str) -> None:
    files: Files = {
        DAILY: daily("Daily", "YYYY/DD-MM-YYYY", name),
        TEMPLATES: {"folder": "Templates", "timeFormat": "HH.mm", "dateFormat": "YY"},
        "Templates/Day.md": TEMPLATE,
    }
    async with opened(account, files):
        saved = await account.call("save", id=ID, append="- milk")
        path = "Daily/2025/20-06-2025.md"
        assert saved["id"] == path
        assert account.read(path) == FILLED + "- milk\n"
        assert saved["tags"] == ["daily"]
        assert "note" not in saved
        assert account.read("Templates/Day.md") == TEMPLATE
        found = await account.call("save", id="daily:2025-06-21", find="## Log", replace="## Day")
        assert account.read(found["id"]).endswith("## Day\n")
        patched = await account.call("save", id="daily:2025-06-22", prepend="first")
        assert "---\nfirst\n\n# 22-06-2025" in account.read(patched["id"])
        alone = await account.call("save", id="daily:2025-06-23", text="only this")
        assert account.read(alone["id"]) == "only this"


@pytest.fixture(name="utc")
def _utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    import time  # noqa: PLC0415

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.attack(52)
async def test_templaters_code_is_never_run_and_told(account: Account) -> None:
    code = "# <% tp.file.title %>\n<%* await tp.system.prompt() -%>\n"
    files: Files = {
        DAILY: daily(template="T/Day"),
        TEMPLATES: {"folder": "T"},
        "T/Day.md": code,
    }
    async with opened(account, files):
        saved = await account.call("save", id=ID, append="milk")
        assert account.read("2025-06-20.md").startswith(code)
        assert "not run" in saved["note"]
        made = await account.call("save", title="New", template="Day")
        assert account.read("New.md") == code
        assert "not run" in made["note"]


@pytest.mark.parametrize("block", ["---\nx: [\n---\n", "---\nx: {{date}\n---\n", "---\nopen\n"])
async def test_a_template_with_unreadable_front_matter_is_taken_as_it_is(
    account: Account, block: str
) -> None:
    async with opened(account, {DAILY: daily(template="Day"), "Day.md": block}):
        saved = await account.call("save", id=ID, append="milk")
        assert account.read(saved["id"]).startswith(block)


async def test_a_template_that_is_not_there_is_told(account: Account) -> None:
    async with opened(account, {DAILY: daily(template="Gone")}):
        saved = await account.call("save", id=ID, append="milk")
        assert "template" in saved["note"]
        assert account.read("2025-06-20.md") == "milk"


PAGE = (
    "title:: Templates\n\n- ## Other\n  template:: Other\n\t- no\n"
    "- Notes of mine\n\t- ## Day\n\t  id:: 65a0\n\t  template:: %s\n%s"
    "\t\t- ← <%% Yesterday %%> | <%%tomorrow%%> →\n\t\t  collapsed:: true\n"
    "\t\t- ```\n\t\t  - no block\n\t\t  ```\n"
    "\t\t\t- <%% current page %%> <%% 2024-02-29 %%> at <%% time %%>\n\t- ## After\n"
)
JOURNAL = (
    "- ← [[Thu, 19-06-2025]] | [[Sat, 21-06-2025]] →\n  collapsed:: true\n"
    "- ```\n  - no block\n  ```\n\t- [[Fri, 20-06-2025]] [[Thu, 29-02-2024]] at 15:06\n"
)


@pytest.mark.usefixtures("utc")
async def test_logseqs_journal_begins_with_the_block_of_its_template(account: Account) -> None:
    settings = '{:default-templates {:journals "Day"} :journal/page-title-format "EEE, dd-MM-yyyy"}'
    alone = "\t  template-including-parent:: false\n"
    async with opened(account, {LOGSEQ: settings, "pages/T.md": PAGE % ("day", alone)}):
        saved = await account.call("save", id=ID, append="- milk")
        assert account.read("journals/2025_06_20.md") == JOURNAL + "- milk\n"
        assert "note" not in saved
        account.write({"pages/T.md": PAGE % ("Day", "") + "\t- <% next friday %>\n"})
        await account.harness.sync()
        await account.call("save", id="daily:2025-06-21", append="- milk")
        assert account.read("journals/2025_06_21.md").startswith("- ## Day\n\t- ← [[Fri, 20-06")
        made = await account.call("save", template="other", title="pages/X")
        assert account.read(made["id"]) == "- ## Other\n\t- no\n"
        made = await account.call("save", template="DAY", title="pages/Y", text="- below")
        assert "[[Y]] [[Thu, 29-02-2024]]" in account.read(made["id"])
        assert account.read(made["id"]).endswith("\n- below\n")
        unknown = await account.call("save", template="nope", title="pages/Z")
        assert unknown["details"]["templates"] == ["Day", "Other"], unknown
        whole = "template:: Day\n\n- <% next friday %>\n- <%%>\n"
        account.write({"pages/T.md": whole})
        await account.harness.sync()
        told = await account.call("save", id="daily:2025-06-22", append="- milk")
        assert account.read("journals/2025_06_22.md") == "- <% next friday %>\n- <%%>\n- milk\n"
        assert "not filled" in told["note"]
        text = await account.call("save", id="daily:2025-06-23", text="- alone")
        assert account.read("journals/2025_06_23.md") == "- alone"
        assert "note" not in text


@pytest.mark.parametrize("hides", [True, False])
async def test_a_hidden_template_of_logseq_is_as_one_that_is_missing(
    account: Account, *, hides: bool
) -> None:
    files: Files = {LOGSEQ: '{:default-templates {:journals "Day"}}'}
    if hides:
        files |= {"private/T.md": "- template:: Day\n\t- secret\n"}
    policy = Policy(visibility=Visibility(hidden_paths=("private",)))
    async with opened(account, files, policy):
        saved = await account.call("save", id=ID, append="- milk")
        assert "was not found" in saved["note"]
        assert account.read(saved["id"]) == "- milk"
    (account.vault.parent / "second").mkdir()
    empty = Account(account.vault.parent / "second")
    async with opened(empty, {LOGSEQ: '{:default-templates {:journals ""}}'}):
        assert "note" not in await empty.call("save", id=ID, append="- milk")


async def test_journals_in_org_mode_are_refused(account: Account) -> None:
    async with opened(account, {LOGSEQ: '{:preferred-format "Org"}'}):
        refused = await account.call("save", id=ID, append="x")
        assert "Org" in refused["message"]
        assert account.notes() == set()


async def test_a_note_that_the_app_has_just_made_is_found_and_changed(account: Account) -> None:
    async with opened(account, {DAILY: daily("Daily")}):
        account.write({"Daily/2025-06-20.md": "theirs\n"})
        assert (await account.call("get", id=ID))["text"] == "theirs\n"
        account.write({"Daily/2025-06-21.md": "theirs\n"})
        await account.call("save", id="daily:2025-06-21", append="ours")
        assert account.read("Daily/2025-06-21.md") == "theirs\n\nours\n"


async def test_a_note_made_while_ours_is_drafted_is_merged_into(account: Account) -> None:
    async with opened(account, {DAILY: daily(template="Day"), "Day.md": "# Day\n"}):
        push = account.harness.remote.push

        async def raced(write: Any) -> Any:
            account.harness.remote.push = push
            account.write({"2025-06-20.md": "theirs\n"})
            return await push(write)

        account.harness.remote.push = raced
        saved = await account.call("save", id=ID, append="ours")
        assert saved["id"] == "2025-06-20.md"
        assert account.read("2025-06-20.md") == "theirs\n\nours\n"
        assert account.notes() == {"2025-06-20.md", "Day.md"}


async def test_a_file_that_is_no_note_in_the_place_is_said(account: Account) -> None:
    (account.vault / "2025-06-20.md").symlink_to("Plan.md")
    async with opened(account, {"Plan.md": "plan"}):
        refused = await account.call("save", id=ID, append="x")
        assert refused["category"] != "INTERNAL"
        assert account.notes() == {"2025-06-20.md", "Plan.md"}
        assert account.read("Plan.md") == "plan"


async def test_a_daily_note_in_the_trash_is_not_written_to(account: Account) -> None:
    async with opened(account, {".trash/2025-06-20.md": "old"}):
        refused = await account.call("save", id=ID, append="x")
        assert "trash" in refused["message"]
        assert account.read(".trash/2025-06-20.md") == "old"
        version = (await account.call("get", id=ID))["local_version"]
        await account.call("manage", action="untrash", id=ID, local_version=version)
        saved = await account.call("save", id=ID, append="x")
        assert account.read(saved["id"]) == "old\n\nx"


async def test_before_all_notes_are_here_nothing_is_made_without_its_template(
    account: Account,
) -> None:
    files: Files = {DAILY: daily(template="Day"), "Day.md": "# Day\n", "2025-06-20.md": "theirs\n"}
    files |= {TEMPLATES: {"folder": "T"}, "T/A.md": "a"}
    async with opened(account, files, loaded=False):
        assert (await account.call("save", id=ID, append="milk"))["id"] == "2025-06-20.md"
        for asked in ({"id": "daily:2025-06-21", "append": "x"}, {"title": "New", "template": "A"}):
            assert (await account.call("save", **asked))["subcategory"] == "loading"
        assert account.notes() == {"Day.md", "2025-06-20.md", "T/A.md"}
        await account.harness.sync()
        await account.call("save", id="daily:2025-06-21", append="x")
        assert account.read("2025-06-21.md") == "# Day\nx\n"


# The policy.


async def test_where_tags_hide_notes_a_new_day_betrays_none(
    account: Account, tmp_path: Path
) -> None:
    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    answers = []
    for number, files in enumerate(({"2025-06-20.md": "#private diary"}, {})):
        (tmp_path / str(number)).mkdir()
        one = Account(tmp_path / str(number))
        async with opened(one, files, policy):
            said = [await one.call("get", id=ID)]
            saved = await one.call("save", id=ID, append="milk")
            again = await one.call("save", id=ID, append="bread")
            assert again["id"] == saved["id"] == (await one.call("get", id=ID))["id"]
            assert one.read(saved["id"]) == "milk\n\nbread"
            digits = saved["id"].removeprefix("2025-06-20 ").removesuffix(".md")
            assert len(digits) == 10
            said += [
                {
                    **found,
                    "id": "",
                    "created_at": 0,
                    "modified_at": 0,
                    "begin_untrusted": "",
                    "untrusted_end": "",
                }
                for found in (saved, again)
            ]
            answers.append(json.dumps(said).replace(digits, ""))
            if files:
                assert one.read("2025-06-20.md") == "#private diary"
    assert answers[0] == answers[1]


async def test_a_note_of_a_day_that_is_seen_is_changed_under_such_a_policy(
    account: Account,
) -> None:
    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    async with opened(account, {"2025-06-20.md": "open\n"}, policy):
        await account.call("save", id=ID, append="milk")
        assert account.read("2025-06-20.md") == "open\n\nmilk\n"


@pytest.mark.parametrize("rule", ["Daily", "Daily/2025-06-20.md"])
async def test_a_place_that_the_policy_closes_takes_no_new_day(account: Account, rule: str) -> None:
    policy = Policy(visibility=Visibility(hidden_paths=(rule,)))
    for there in (False, True):
        (account.vault.parent / str(there)).mkdir()
        one = Account(account.vault.parent / str(there))
        files: Files = {DAILY: daily("Daily")} | ({"Daily/2025-06-20.md": "x"} if there else {})
        async with opened(one, files, policy):
            assert (await one.call("get", id=ID))["category"] == "NOT_FOUND"
            refused = await one.call("save", id=ID, append="milk")
            assert refused["subcategory"] == "policy"
            assert one.notes() == ({"Daily/2025-06-20.md"} if there else set())


@pytest.mark.parametrize(
    "policy",
    [
        Policy(visibility=Visibility(hidden_paths=("Secret",))),
        Policy(visibility=Visibility(hidden_tags=("secret",))),
        Policy(hidden_fields=frozenset({Field.TEXT})),
    ],
)
async def test_a_hidden_template_gives_nothing(account: Account, policy: Policy) -> None:
    files: Files = {
        DAILY: daily(template="Secret/Day"),
        TEMPLATES: {"folder": "Secret"},
        "Secret/Day.md": "#secret words\n",
        "2025-06-25.md": "x",
    }
    async with opened(account, files, policy):
        refused = await account.call("save", title="New", text="x", template="Day")
        assert refused["subcategory"] == "template"
        assert "templates" not in refused.get("details", {})
        await account.call("save", id=ID, append="milk")
        made = await account.call("save", id="daily:2025-06-22", tags=["x"])
        assert made["tags"] == ["x"]
        others = [account.read(one) for one in account.notes() - {"Secret/Day.md"}]
        assert not any("words" in text for text in others)


# Templates for new notes.


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    "name", ["Meeting", "meeting.md", "Work/Meeting", "Templates/Work/Meeting.md", " Meeting "]
)
async def test_a_new_note_begins_with_a_template(account: Account, name: str) -> None:
    files: Files = {
        TEMPLATES: {"folder": "Templates", "dateFormat": "DD.MM.YYYY"},
        "Templates/Work/Meeting.md": "# {{title}} {{date}} {{time}}\n\n{{date:YYYY}}\n",
        "Meeting.md": "no template",
    }
    async with opened(account, files):
        made = await account.call("save", title="Work/Kickoff", template=name)
        assert made["id"] == "Work/Kickoff.md"
        assert account.read("Work/Kickoff.md") == "# Kickoff 15.06.2025 15:06\n\n2025\n"
        more = await account.call("save", title="Second", template=name, text="Present: Ann")
        assert account.read(more["id"]) == "# Second 15.06.2025 15:06\n\n2025\n\nPresent: Ann\n"


async def test_an_unknown_template_names_those_that_there_are(account: Account) -> None:
    files: Files = {TEMPLATES: {"folder": "T"}, "T/A.md": "a", "T/x/B.md": "b", "T/y/B.md": "c"}
    async with opened(account, files):
        for wrong in ("None", "B", "../T/A/x", "T"):
            refused = await account.call("save", title="New", template=wrong)
            assert refused["details"]["templates"] == ["T/A.md", "T/x/B.md", "T/y/B.md"]
            assert "begin_untrusted" in refused
        assert (await account.call("save", title="New", template="y/B"))["id"] == "New.md"
        assert account.read("New.md") == "c"


async def test_an_empty_template_or_text_takes_nothing_away(account: Account) -> None:
    files: Files = {TEMPLATES: {"folder": "T"}, "T/Empty.md": "", "T/A.md": "a\n"}
    async with opened(account, files):
        for number, (template, text, stored) in enumerate(
            (("Empty", "x", "x"), ("A", "", "a\n"), ("Empty", "", ""), ("A", None, "a\n"))
        ):
            more = {} if text is None else {"text": text}
            await account.call("save", title=f"New{number}", template=template, **more)
            assert account.read(f"New{number}.md") == stored


async def test_many_templates_are_named_in_part(account: Account) -> None:
    files: Files = {TEMPLATES: {"folder": "T"}}
    files |= {f"T/{number:03}.md": "x" for number in range(60)}
    async with opened(account, files):
        refused = await account.call("save", title="New", template="none")
        assert len(refused["details"]["templates"]) == 50


async def test_what_a_template_cannot_be_used_for_is_refused(account: Account) -> None:
    files: Files = {TEMPLATES: {"folder": "T"}, "T/A.md": "# {{title}}\n", "Plan.md": "x"}
    async with opened(account, files):
        titled = await account.call("save", template="A")
        assert "`title`" in titled["resolution_hint"]
        existing = await account.call("save", id="Plan.md", template="A", append="x")
        assert existing["message"] == "`template` is for new notes."
        day = await account.call("save", id=ID, template="A", append="x")
        assert "from the app" in day["message"]
        renamed = await account.call("save", id=ID, title="Other", append="x")
        assert "from the app" in renamed["message"]
        assert account.notes() == {"T/A.md", "Plan.md"}


async def test_without_a_folder_for_templates_none_is_there(account: Account) -> None:
    async with opened(account, {"T/A.md": "x"}):
        refused = await account.call("save", title="New", template="A")
        assert (refused["subcategory"], "Obsidian" in refused["resolution_hint"]) == (
            "template",
            True,
        )


async def test_tags_of_a_page_of_logseq_stay_among_its_properties(account: Account) -> None:
    page = "title:: X\r\ntags:: a, [[two words]]\r\nkind:: b\r\n\r\n- TODO c\r\n"
    files: Files = {"pages/P.md": page, "pages/Q.md": "title:: Y\n- z", "pages/R.md": "tags:: a"}
    async with opened(account, files):
        saved = await account.call("save", id="pages/P.md", add_tags=["new"], remove_tags=["a"])
        assert saved["tags"] == ["two words", "new"]
        assert account.read("pages/P.md") == page.replace("a, [[two words]]", "[[two words]], new")
        await account.call("manage", action="undo", id="pages/P.md", confirm=True)
        assert account.read("pages/P.md") == page
        await account.call("manage", action="rename_tag", tag="a", new_tag="x", confirm=True)
        assert account.read("pages/P.md") == page.replace("a,", "x,")
        await account.call("save", id="pages/Q.md", add_tags=["new", "more"])
        assert account.read("pages/Q.md") == "title:: Y\ntags:: #new, #more\n- z"
        await account.call("save", id="pages/Q.md", remove_tags=["new"])
        assert account.read("pages/Q.md") == "title:: Y\ntags:: #more\n- z"
        await account.call("save", id="pages/R.md", remove_tags=["x"])
        assert account.read("pages/R.md") == ""
