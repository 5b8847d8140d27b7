"""Keep files by ``save``, through a client: by path and as base64, into every store that keeps them, and back by ``undo``."""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import json
import os
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from mcp_notarium.audit.chain import AuditKeys
from mcp_notarium.domain.policy import Limits, Mode, Policy, Visibility
from mcp_notarium.domain.write_scope import WriteScope
from mcp_notarium.errors import NotPermitted, OutcomeUnknown
from mcp_notarium.files import import_folders
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.version_table import VersionLimits
from mcp_notarium.stores.local import attachments as local_files
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.vault import attachment_writer
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools import save
from mcp_notarium.tools.toolsets import find_toolset
from support.cache_room import make
from support.local_notebook import OtherProcess
from support.sample_files import pdf, photo, picture
from support.talker import SERVE
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.whole import RAW_KEY, Server, run, store_environment

pytestmark = pytest.mark.anyio
PNG = picture("PNG")
OTHER = picture("PNG", (50, 50))


def sent(data: bytes, name: str = "plan.png", kind: str = "image/png") -> str:
    return f"data:{kind};name={quote(name)};base64,{base64.b64encode(data).decode()}"


class Notes:
    """A client of an account, and what it gets."""

    def __init__(self, client, harness, folder: Path) -> None:
        self.client, self.harness, self.folder = client, harness, folder

    async def call(self, tool: str, **arguments):
        result = await self.client.call_tool(tool, arguments)
        return json.loads(next(one.text for one in result.content if one.type == "text"))

    async def text(self, note_id: str) -> str:
        return (await self.call("get", id=note_id))["text"]

    async def seen(self, file_id: str) -> bool:
        result = await self.client.call_tool("get", {"id": file_id})
        return any(one.type == "image" for one in result.content)

    def files(self) -> dict[str, bytes]:
        """What lies in the vault and is no note."""
        found = (one for one in self.folder.rglob("*") if one.is_file())
        return {
            one.relative_to(self.folder).as_posix(): one.read_bytes()
            for one in found
            if one.suffix not in (".md", ".json", ".edn")
        }


@asynccontextmanager
async def opened(folder, files=None, **policy):
    """A vault with these files; None: the local notebook."""
    keys = AuditKeys(Secret(b"1" * 32), Secret(b"2" * 32))
    folder.mkdir(exist_ok=True)
    vault = folder / "vault"
    cache: Cache | None = None
    if files is None:
        rules = Policy(**policy).visibility.stored
        cache = make(folder, key=None, name="cache.sqlite", rules=rules)
        remote: VaultStore | LocalStore = LocalStore(cache.database)
    else:
        vault.mkdir(exist_ok=True)
        for path, data in files.items():
            place = vault / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data if isinstance(data, bytes) else data.encode())
        remote = VaultStore(vault)
    harness = ToolHarness(
        folder, remote=remote, cache=cache, policy=Policy(**policy), audit_keys=keys
    )
    await harness.sync()
    name = "titled" if files is None else "with_paths"
    try:
        async with connected(harness.opened, toolset=find_toolset(name)) as client:
            yield Notes(client, harness, vault)
    finally:
        await remote.close()
        harness.close()


def obsidian(**settings) -> dict[str, str | bytes]:
    return {".obsidian/app.json": json.dumps(settings)}


OTHER_ACCOUNTS = """
[vault]
key = "file"
DB_ENCRYPTION_KEY_FILE = "~/Pictures/other.txt"
NOTARIUM_STORE = "vault"
VAULT_PATH = "{0}/other"

[memento]
NOTARIUM_STORE = "memento"
MEMENTO_DATABASE = "~/Pictures/m/memento.db"
MEMENTO_USER_ID = "me"
"""


def account(folder: Path, store: str) -> dict[str, str]:
    """The environment of a server that may keep files from some folders of a home."""
    (folder / "Pictures").mkdir()
    (folder / "Pictures" / "day out.jpg").write_bytes(photo((800, 600)))
    (folder / "vault" / ".obsidian").mkdir(parents=True)
    (folder / "data").mkdir(mode=0o700)
    rules = folder / "Pictures" / "rules.toml"
    rules.write_text('import_paths = ["~/Pictures", "~/vault", "~/data"]\n')
    rules.chmod(0o600)
    for name, text in (("key.txt", RAW_KEY), ("own.env", "LOG_LEVEL=info\n")):
        (folder / "Pictures" / name).write_text(text)
        (folder / "Pictures" / name).chmod(0o600)
    settings = folder / "Pictures" / "settings"
    for place in ("settings/Claude/its.json", "other/note.jpg", "m/memento.db-wal", "other.txt"):
        (folder / "Pictures" / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / "Pictures" / place).write_bytes(PNG)
    # Accounts that are in no `accounts.toml`: a client's file says all of one, and names a file that says the rest.
    (folder / "Pictures" / "fourth.env").write_text(
        f"VAULT_PATH={folder / 'Pictures' / 'fourth'}\n"
    )
    (folder / "Pictures" / "fourth.env").chmod(0o600)
    third = {"NOTARIUM_STORE": "vault", "VAULT_PATH": str(folder / "Pictures" / "third")}
    fourth = ["serve", "--env-file", str(folder / "Pictures" / "fourth.env")]
    servers = {
        "notes": {"command": "mcp-notarium", "args": ["serve"], "env": third},
        "more": {"command": "mcp-notarium", "args": fourth},
        "fifth": {
            "command": "mcp-notarium",
            "args": 5,
            "env": {"XDG_DATA_HOME": f"{folder}/Pictures/fifth", "ELSE": f"{folder}/Pictures"},
        },
        "nowhere": {"command": "mcp-notarium", "args": ["--env-file", "/a\0b"]},
        "half": {"command": "mcp-notarium", "env": {"LOG_FILE_PATH": "/\ud800"}},
        "broken": {
            "command": "mcp-notarium",
            "env": {"NOTARIUM_STORE": "trilium", "TRILIUM_URL": "x"},
        },
        "other": {"command": "else", "args": ["serve"], "env": {"X": str(folder / "Pictures")}},
    }
    (settings / "Claude" / "claude_desktop_config.json").write_text(
        json.dumps({"mcpServers": servers})
    )
    (folder / ".cursor").mkdir()
    (folder / ".cursor" / "mcp.json").write_text('{"mcpServers":' * 9999 + "0" + "}" * 9999)
    for place in ("third", "fourth", "fifth/mcp-notarium"):
        (folder / "Pictures" / place).mkdir(parents=True)
        (folder / "Pictures" / place / "note.jpg").write_bytes(PNG)
    (settings / "mcp-notarium").mkdir(mode=0o700)
    accounts = settings / "mcp-notarium" / "accounts.toml"
    accounts.write_text(OTHER_ACCOUNTS.format(folder / "Pictures"))
    accounts.chmod(0o600)
    (folder / "vault" / "own.jpg").write_bytes(PNG)
    (folder / "data" / "own.jpg").write_bytes(PNG)
    more = {"VAULT_PATH": str(folder / "vault")} if store == "vault" else {}
    more |= {"NOTARIUM_DESTRUCTIVE": "trust", "NOTARIUM_POLICY_FILE": str(rules)}
    more["DB_ENCRYPTION_KEY_FILE"] = str(folder / "Pictures" / "key.txt")
    more["XDG_CONFIG_HOME"] = str(settings)
    env = store_environment(folder, store, **more)
    return {name: value for name, value in env.items() if name != "DB_ENCRYPTION_KEY"}


@pytest.mark.slow("it starts a server of its own for each store")
@pytest.mark.parametrize("store", ["local", "vault"])
async def test_an_agent_keeps_a_photo_sees_it_and_takes_it_back(tmp_path, store):
    """As typed: the policy file, a started and confined server, and the commands of a person."""
    env = account(tmp_path, store)
    named = [*SERVE, "--env-file", str(tmp_path / "Pictures" / "own.env")]
    with Server(env, command=named) as server:
        made = server.tool(
            "save", title="Trip", text="It was fine.\n", file="~/Pictures/day out.jpg"
        )
        note_id, [row] = made["id"], made["files"]
        assert row["kind"] == "image/jpeg"
        shown = server.result("get", id=row["id"])
        assert [one["type"] for one in shown["content"]] == ["text", "image"]
        note = server.tool("get", id=note_id)
        assert [one["id"] for one in note["files"]] == [row["id"]]
        assert note["text"].startswith("It was fine.\n")
        whole = str(tmp_path / "Pictures" / "day out.jpg")
        again = server.tool("save", id=note_id, file=whole)
        assert (again["unchanged"], again["files"][0]["id"]) == (True, row["id"])
        closed = [
            "~/Pictures/rules.toml",
            "~/Pictures/key.txt",
            "~/Pictures/own.env",
            "~/data/own.jpg",
            "~/Pictures/settings/Claude/its.json",
            "~/Pictures/other/note.jpg",
            *("~/Pictures/third/note.jpg", "~/Pictures/fourth/note.jpg", "~/Pictures/fourth.env"),
            *("~/Pictures/fifth/mcp-notarium/note.jpg", "~/Pictures/other.txt"),
            "~/Pictures/m/memento.db-wal",
            *(["~/vault/own.jpg"] if store == "vault" else []),
        ]
        for path in (*closed, "~/Documents/x.jpg"):
            refused = server.error("save", id=note_id, file=path)
            assert (refused["subcategory"], bool(refused["resolution_hint"])) == ("policy", True)
        undone = server.tool("manage", action="undo", id=note_id, confirm=True)
        assert undone["note"].endswith("Its file went, too.")
        assert server.tool("get", id=note_id)["text"] == "It was fine.\n"
        assert server.error("get", id=row["id"])["category"] == "NOT_FOUND"
        redone = server.tool("manage", action="undo", id=note_id, confirm=True)
        assert redone["note"].endswith("Its file is back.")
        assert server.result("get", id=row["id"])["content"][-1]["type"] == "image"
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 0
    facts = json.loads(run(env, "status", "--json").stdout)
    size = len((tmp_path / "Pictures" / "day out.jpg").read_bytes())
    expected = (1, size) if store == "local" else (None, None)
    assert (facts.get("files"), facts.get("files_bytes")) == expected


@pytest.mark.slow("it starts two servers")
async def test_a_file_outlives_a_new_data_key_and_goes_with_its_note(tmp_path):
    env = account(tmp_path, "local")
    with Server(env) as server:
        made = server.tool("save", text="x\n", file="~/Pictures/day out.jpg")
        assert server.leave() == 0
    assert run(env, "rotate-key", "--reencrypt").returncode == 0
    note_id, file_id = made["id"], made["files"][0]["id"]
    with Server(env) as server:
        assert server.result("get", id=file_id)["content"][-1]["type"] == "image"
        version = server.tool("get", id=note_id)["local_version"]
        note = server.tool("manage", action="trash", id=note_id, local_version=version)
        gone = {"id": note_id, "local_version": note["new_local_version"], "confirm": True}
        server.tool("manage", action="delete_permanently", **gone)
        assert server.leave() == 0
    facts = json.loads(run(env, "status", "--json").stdout)
    assert (facts["files"], facts["files_bytes"]) == (0, 0)


@pytest.mark.parametrize("files", [None, {}], ids=["local", "vault"])
async def test_a_file_is_sent_as_base64_once_and_undone(tmp_path, files):
    async with opened(tmp_path, files) as notes:
        made = await notes.call("save", title="Plan", text="# Plan\n\n## A\n\nx\n\n## B\n\ny\n")
        saved = await notes.call("save", id=made["id"], section="A", file=sent(PNG, "a plan.png"))
        file_id = saved["files"][0]["id"]
        assert saved["files"] == (await notes.call("get", id=made["id"]))["files"]
        assert await notes.seen(file_id)
        lines = (await notes.text(made["id"])).split("\n")
        place = next(at for at, line in enumerate(lines) if "plan.png" in line)
        assert lines.index("## A") < place < lines.index("## B")
        version = saved["local_version"]
        again = await notes.call("save", id=made["id"], file=sent(PNG, "a plan.png"))
        assert (again["unchanged"], again["local_version"]) == (True, version)
        second = await notes.call("save", id=made["id"], file=sent(OTHER, "a plan.png"))
        assert second["files"][0]["id"] != file_id
        undone = await notes.call("manage", action="undo", id=made["id"], confirm=True)
        assert undone["note"].endswith("Its file went, too.")
        assert await notes.seen(file_id)
        assert not await notes.seen(second["files"][0]["id"])


@pytest.mark.parametrize("files", [None, {}], ids=["local", "vault"])
async def test_a_call_that_was_cut_off_after_its_file_is_made_again(tmp_path, files, monkeypatch):
    async with opened(tmp_path, files) as notes:
        note = (await notes.call("save", title="Plan", text="x\n"))["id"]
        store = notes.harness.remote
        keep = store.keep_file

        async def cut(*call):
            await keep(*call)
            raise OutcomeUnknown("cut off")

        with monkeypatch.context() as patch:
            patch.setattr(store, "keep_file", cut)
            assert (await notes.call("save", id=note, file=sent(PNG)))["resolution_hint"]
        assert await notes.text(note) == "x\n"
        both = [notes.call("save", id=note, file=sent(PNG)) for _ in range(2)]
        first, second = await asyncio.gather(*both)
        assert first["files"] == second["files"]
        text = await notes.text(note)
        assert len(text.split("plan.png](")) == 2
        assert len(notes.files()) == (0 if files is None else 1)


@pytest.mark.parametrize("files", [None, {}], ids=["local", "vault"])
async def test_the_file_of_an_undo_that_ended_goes_with_the_next_file(tmp_path, files, monkeypatch):
    async with opened(tmp_path, files) as notes:
        one = await notes.call("save", title="One", text="one\n", file=sent(PNG))
        undo = {"action": "undo", "id": one["id"], "confirm": True}
        with monkeypatch.context() as patch:
            patch.setattr(notes.harness.app.library.files, "settle_files", None)  # it ends there
            assert (await notes.call("manage", **undo))["category"] == "INTERNAL"
        assert "plan" not in await notes.text(one["id"])
        await notes.call("save", id=one["id"], file=sent(OTHER, "other.png"))
        rows = notes.harness.app.cache.change_records.kept_files()
        assert [row.discarded for row in sorted(rows, key=lambda row: "plan" not in row.id)] == [
            True,
            False,
        ]
        assert "plan.png" not in notes.files()


@pytest.mark.parametrize("ends", ["cancelled", "killed"])
async def test_a_file_that_an_ended_undo_did_not_take_stays_as_before(tmp_path, monkeypatch, ends):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        await notes.call("save", id="Note.md", file=sent(PNG))
        undo = {"action": "undo", "id": "Note.md", "confirm": True}
        with monkeypatch.context() as patch:
            place = (
                (save, "require_consent")
                if ends == "cancelled"
                else (notes.harness.app.library.files, "settle_files")
            )
            patch.setattr(*place, None)
            assert (await notes.call("manage", **undo))["category"] == "INTERNAL"
        if ends == "killed":
            assert (await notes.call("manage", **undo))["status"] == "undone"
        version = (await notes.call("get", id="Note.md"))["local_version"]
        await notes.call("save", id="Note.md", local_version=version, text="y\n")
        await notes.call("save", id="Note.md", file=sent(OTHER, "other.png"))
        assert notes.files() == {"plan.png": PNG, "other.png": OTHER}


@pytest.mark.parametrize("files", [None, {}], ids=["local", "vault"])
async def test_a_file_that_another_note_shows_stays(tmp_path, files):
    async with opened(tmp_path, files) as notes:
        one = await notes.call("save", title="One", text="one\n", file=sent(PNG))
        text = await notes.text(one["id"])
        await notes.call("save", title="Two", text=text)
        undone = await notes.call("manage", action="undo", id=one["id"], confirm=True)
        assert "Its file stays" in undone["note"]
        if files is not None:
            assert notes.files() == {"plan.png": PNG}


async def test_a_file_that_a_person_put_there_is_not_discarded(tmp_path):
    async with opened(tmp_path, {"Note.md": "x\n", "plan.png": PNG}) as notes:
        saved = await notes.call("save", id="Note.md", file=sent(PNG))
        assert saved["files"][0]["id"] == "plan.png"
        await notes.call("manage", action="undo", id="Note.md", confirm=True)
        assert notes.files() == {"plan.png": PNG}


async def test_a_file_that_a_person_put_there_after_an_undo_is_not_discarded(tmp_path):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        for _ in range(2):
            await notes.call("save", id="Note.md", file=sent(PNG))
            await notes.call("manage", action="undo", id="Note.md", confirm=True)
            (notes.folder / "plan.png").write_bytes(PNG)
        for _ in range(2):
            undone = await notes.call("manage", action="undo", id="Note.md", confirm=True)
            assert "file" not in undone.get("note", "")
        assert notes.files() == {"plan.png": PNG, ".trash/plan.png": PNG}


async def test_a_file_that_a_person_put_there_between_undo_and_redo_is_not_discarded(tmp_path):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        await notes.call("save", id="Note.md", file=sent(PNG))
        undo = {"action": "undo", "id": "Note.md", "confirm": True}
        await notes.call("manage", **undo)
        (notes.folder / "plan.png").write_bytes(PNG)
        assert "Its file is back" in (await notes.call("manage", **undo))["note"]
        assert "Its file stays" in (await notes.call("manage", **undo))["note"]
        assert notes.files() == {"plan.png": PNG, ".trash/plan.png": PNG}


async def test_a_file_whose_folder_could_not_be_flushed_has_moved_all_the_same(
    tmp_path, monkeypatch
):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        await notes.call("save", id="Note.md", file=sent(PNG))
        flush = attachment_writer.file_writer.SYSTEM.flush_names

        def refused(folder):
            trash = notes.folder / ".trash"
            if trash.exists() and os.fstat(folder).st_ino == trash.stat().st_ino:
                raise OSError(errno.EIO, "simulated")
            flush(folder)

        monkeypatch.setattr(attachment_writer.file_writer.SYSTEM, "flush_names", refused)
        undo = {"action": "undo", "id": "Note.md", "confirm": True}
        assert "Its file went" in (await notes.call("manage", **undo))["note"]
        assert "Its file is back" in (await notes.call("manage", **undo))["note"]
        assert notes.files() == {"plan.png": PNG}


@pytest.mark.parametrize("rules", [{}, {"visibility": Visibility(hidden_tags=("secret",))}])
async def test_a_file_to_which_a_known_note_links_since_a_moment_ago_stays(tmp_path, rules):
    async with opened(tmp_path, {"Note.md": "x\n", "Known.md": "y\n"}, **rules) as notes:
        saved = await notes.call("save", id="Note.md", file=sent(PNG))
        await notes.harness.sync()
        name = saved["files"][0]["id"]
        (notes.folder / "Known.md").write_text(f"y ![[{name}]]\n")
        undone = await notes.call("manage", action="undo", id="Note.md", confirm=True)
        assert ("Its file stays" in undone["note"]) != bool(rules)
        assert notes.files() == {name: PNG}


@pytest.mark.parametrize("rules", [{}, {"visibility": Visibility(hidden_tags=("secret",))}])
async def test_an_undo_says_that_a_person_has_removed_the_file(tmp_path, rules):
    async with opened(tmp_path, {"Note.md": "x\n"}, **rules) as notes:
        await notes.call("save", id="Note.md", file=sent(PNG))
        (place,) = notes.folder.glob("*.png")
        place.unlink()
        undo = {"action": "undo", "id": "Note.md", "confirm": True}
        undone = await notes.call("manage", **undo)
        gone = "is shown here no more" if rules else "was gone already"
        assert undone["note"].endswith(f"Its file {gone}.")
        await notes.call("save", id="Note.md", file=sent(OTHER))
        (place,) = notes.folder.glob("*.png")
        await notes.call("save", title="Two", text=f"![[{place.name}]]")
        place.unlink()
        said = (await notes.call("manage", **undo))["note"]
        assert ("was gone already" in said, "Its file stays" in said) == (not rules, bool(rules))


async def test_a_file_that_was_changed_since_stays(tmp_path):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        await notes.call("save", id="Note.md", file=sent(PNG))
        (notes.folder / "plan.png").write_bytes(OTHER)
        undone = await notes.call("manage", action="undo", id="Note.md", confirm=True)
        assert "Its file stays" in undone["note"]
        assert notes.files() == {"plan.png": OTHER}
        await notes.call("save", id="Note.md", file=sent(PNG, "map.png"))
        (notes.folder / "map.png").unlink()
        (notes.folder / "map.png").mkdir()
        undone = await notes.call("manage", action="undo", id="Note.md", confirm=True)
        assert "Its file stays" in undone["note"]
        again = await notes.call("manage", action="undo", id="Note.md", confirm=True)
        assert "gone or changed" in again["note"]


LOGSEQ = {"logseq/config.edn": "{}", "pages/a.md": "x\n"}
PLACES = [
    ({}, "Work/a.md", "Work/plan b.png", "![plan b.png](plan%20b.png)"),
    (obsidian(), "Work/a.md", "plan b.png", "![[plan b.png]]"),
    (obsidian(attachmentFolderPath="/"), "Work/a.md", "plan b.png", "![[plan b.png]]"),
    (obsidian(attachmentFolderPath="./"), "Work/a.md", "Work/plan b.png", "![[plan b.png]]"),
    (
        obsidian(attachmentFolderPath="./sub", newLinkFormat="absolute"),
        "Work/a.md",
        "Work/sub/plan b.png",
        "![[Work/sub/plan b.png]]",
    ),
    (
        obsidian(attachmentFolderPath="Files/In", newLinkFormat="relative"),
        "Work/a.md",
        "Files/In/plan b.png",
        "![[../Files/In/plan b.png]]",
    ),
    (
        obsidian(attachmentFolderPath="Fi", newLinkFormat="relative", useMarkdownLinks=True),
        "Work/a.md",
        "Fi/plan b.png",
        "![](../Fi/plan%20b.png)",
    ),
    (
        obsidian(attachmentFolderPath="Fi") | {"old/plan b.png": OTHER},
        "Work/a.md",
        "Fi/plan b.png",
        "![[Fi/plan b.png]]",
    ),
    (LOGSEQ, "pages/a.md", "assets/plan b.png", "- ![plan b.png](../assets/plan%20b.png)"),
    (
        LOGSEQ | {"pages/a.md": "- a\n\t- b\n"},
        "pages/a.md",
        "assets/plan b.png",
        "- ![plan b.png](../assets/plan%20b.png)",
    ),
]


@pytest.mark.parametrize(("settings", "note", "path", "link"), PLACES)
async def test_a_file_goes_where_the_app_puts_files(tmp_path, settings, note, path, link):
    async with opened(tmp_path, {note: "x\n"} | settings) as notes:
        saved = await notes.call("save", id=note, file=sent(PNG, "plan b.png"))
        assert saved["files"][0]["id"] == path
        assert (notes.folder / path).read_bytes() == PNG
        assert (await notes.text(note)).splitlines()[-1] == link
        assert await notes.seen(path)
        # A note that moves goes on to show its file.
        moved = await notes.call(
            "save",
            id=note,
            local_version=saved["local_version"],
            title="Else/Where/New",
            rewrite_links=True,
        )
        assert [one["id"] for one in (await notes.call("get", id=moved["id"]))["files"]] == [path]
        assert (notes.folder / path).read_bytes() == PNG


async def test_names_in_the_local_notebook_differ_in_more_than_letter_case(tmp_path):
    async with opened(tmp_path) as notes:
        note = (await notes.call("save", title="A", text="a\n"))["id"]
        called = [(PNG, "a.png"), (OTHER, "A.PNG"), (PNG, "A.png"), (OTHER, "a.png")]
        saved = [await notes.call("save", id=note, file=sent(*one)) for one in called]
        ids = [one["files"][0]["id"].partition("/")[2] for one in saved]
        assert ids == ["a.png", "A 2.PNG", "a.png", "A 2.PNG"]


async def test_an_undo_says_how_many_files_went(tmp_path):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        for data, name in ((PNG, "a.png"), (OTHER, "b.png")):
            await notes.call("save", id="Note.md", file=sent(data, name))
        saved = await notes.call("save", id="Note.md", append="y")
        both = await notes.text("Note.md")
        for text in ("y\n", both):
            saved = await notes.call(
                "save", id="Note.md", text=text, local_version=saved["local_version"]
            )
        undo = {"action": "undo", "id": "Note.md", "confirm": True}
        assert (await notes.call("manage", **undo))["note"].endswith("Its 2 files went, too.")
        assert sorted(notes.files()) == [".trash/a.png", ".trash/b.png"]
        assert (await notes.call("manage", **undo))["note"].endswith("Its 2 files are back.")


async def test_a_taken_name_is_left_alone_in_any_letter_case(tmp_path):
    held = {"Note.md": "x\n", "PLAN.png": OTHER}
    async with opened(tmp_path, held) as notes:
        saved = await notes.call("save", id="Note.md", file=sent(PNG))
        assert saved["files"][0]["id"] == "plan 2.png"
        assert notes.files() == {"PLAN.png": OTHER, "plan 2.png": PNG}


@pytest.mark.parametrize(
    ("name", "data", "kept"),
    [
        ("../../.ssh/plan.png", PNG, "plan.png"),
        ("C:\\temp\\con.png", PNG, "con_.png"),
        (".hidden[a]#^|%.png", PNG, "hidden a.png"),
        ("", PNG, "file.png"),
        ("plan.jpg", PNG, "plan.png"),
        ("plan.png", b"no picture", "plan.png"),
        ("paper", pdf(["x"]), "paper.pdf"),
        ("paper", b"no picture", "paper.bin"),
        ("", b"no picture", "file.bin"),
    ],
)
async def test_a_name_is_one_of_a_file_and_says_what_the_bytes_are(tmp_path, name, data, kept):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        saved = await notes.call("save", id="Note.md", file=sent(data, name))
        assert [*notes.files()] == [saved["files"][0]["id"]] == [kept]
        assert (saved["files"][0]["kind"] == "image/png") == (data == PNG)
        # A link to a name without an ending means a note.
        assert [one["id"] for one in (await notes.call("get", id="Note.md"))["files"]] == [kept]


REFUSED = [
    ({"id": "Note.md", "file": "data:image/png,abc"}, "base64,"),
    ({"id": "Note.md", "file": "data:image/png;base64,%%%"}, "base64,"),
    ({"id": "Note.md", "file": sent(b"")}, "base64,"),
    ({"id": "Note.md", "file": sent(b"x" * 262_200)}, "import_paths"),
    ({"id": "Note.md", "file": "/etc/passwd"}, "import_paths"),
    ({"id": "Note.md", "file": "plan.png"}, "the whole path"),
    ({"id": "Note.md", "file": "~nobody here/plan.png"}, "import_paths"),
    ({"id": "Note.md", "file": "file:///home/me/plan.png"}, "without `file://`"),
    ({"id": "Note.md", "file": "https://example.org/plan.png"}, "saved"),
    ({"id": "Note.md", "file": sent(b"# x", "note.md", "text/markdown")}, "another name"),
    ({"id": "Note.md", "file": sent(PNG), "append": "x"}, "two calls"),
    ({"id": "Note.md", "file": sent(PNG), "title": "New"}, "two calls"),
    ({"id": "Note.md", "file": sent(PNG), "section": "None"}, ""),
    ({"id": "Nowhere.md", "file": sent(PNG)}, "`list`"),
    ({"file": sent(PNG)}, "`id`"),
]


@pytest.mark.parametrize(("arguments", "hint"), REFUSED)
async def test_a_refusal_says_what_to_do_and_keeps_nothing(tmp_path, arguments, hint):
    async with opened(tmp_path, {"Note.md": "# x\n"}) as notes:
        refused = await notes.call("save", **arguments)
        assert hint in refused["resolution_hint"]
        assert notes.files() == {}
        assert await notes.text("Note.md") == "# x\n"


@pytest.mark.parametrize(
    ("files", "rules"),
    [
        ({}, {"mode": Mode.READ_ONLY}),
        ({}, {"writing": WriteScope(paths=("Work",))}),
        (obsidian(attachmentFolderPath="Files"), {"writing": WriteScope(paths=("Note.md",))}),
        (
            obsidian(attachmentFolderPath="Closed"),
            {"visibility": Visibility(hidden_paths=("Closed",))},
        ),
        (obsidian(attachmentFolderPath=".hidden"), {}),
        (obsidian(attachmentFolderPath="../out"), {}),
    ],
)
async def test_no_file_goes_where_rules_or_settings_close(tmp_path, files, rules):
    async with opened(tmp_path, files | {"Note.md": "x\n"}, **rules) as notes:
        refused = await notes.call("save", id="Note.md", file=sent(PNG))
        assert refused["resolution_hint"]
        assert notes.files() == {}
        assert not (tmp_path / "out").exists()


async def test_the_name_of_a_hidden_file_cannot_be_told(tmp_path):
    """A taken name would be one with a number, and a link with a path."""
    hiding = {"visibility": Visibility(hidden_tags=("secret",))}
    found = []
    for at, more in enumerate(({}, {"Secret.md": "#secret ![[plan.png]]", "plan.png": OTHER})):
        files = obsidian() | {"Note.md": "x\n"} | more
        async with opened(tmp_path / str(at), files, **hiding) as notes:
            saved = await notes.call("save", id="Note.md", file=sent(PNG))
            assert await notes.seen(saved["files"][0]["id"])
            found.append((saved["files"], await notes.text("Note.md")))
    assert found[0] == found[1]


@pytest.mark.parametrize("files", [None, {}], ids=["local", "vault"])
async def test_a_file_that_a_hidden_note_shows_stays_and_nothing_tells_so(tmp_path, files):
    hiding, told = {"visibility": Visibility(hidden_tags=("secret",))}, []
    for shown in (False, True):
        async with opened(tmp_path / str(shown), files, **hiding) as notes:
            note = await notes.call("save", title="Note", text="x\n", file=sent(PNG))
            name = note["files"][0]["id"]
            if shown and files is None:
                OtherProcess(notes.harness.app.cache).put(
                    "5ec4e7aa", f"![]({name})", tags=("secret",)
                )
            elif shown:
                (notes.folder / "Secret.md").write_text(f"#secret ![[{name}]]\n")
            undone = await notes.call("manage", action="undo", id=note["id"], confirm=True)
            assert (await notes.call("get", id=name))["category"] == "NOT_FOUND"
            if files is not None:
                assert name in notes.files() or not shown
            redone = await notes.call("manage", action="undo", id=note["id"], confirm=True)
            again = [
                (await notes.call("manage", action="undo", id=note["id"], confirm=True))["note"]
                for _ in range(2)
            ]
            told.append([undone["note"], redone["note"], *again])
            database = notes.harness.app.cache.database
            kept = "SELECT count(*) FROM notebook_files WHERE discarded_at IS NULL"
            assert notes.files() == {name: PNG} if files is not None else database.number(kept)
    assert told[0] == told[1]


async def test_a_path_reaches_nothing_outside_of_the_permitted_folders(tmp_path):
    allowed, outside, home = tmp_path / "in", tmp_path / "out", tmp_path / "home"
    for folder in (allowed / "sub", allowed / ".hidden", outside):
        folder.mkdir(parents=True)
    for place in (allowed / "sub" / "a.png", allowed / ".hidden" / "b.png", outside / "c.png"):
        place.write_bytes(PNG)
    (allowed / ".d.png").write_bytes(PNG)
    (allowed / "link.png").symlink_to(outside / "c.png")
    (allowed / "way").symlink_to(outside)
    os.link(outside / "c.png", allowed / "hard.png")
    os.mkfifo(allowed / "pipe.png")
    (allowed / "other").symlink_to(allowed / "sub")
    (tmp_path / "typed").symlink_to(allowed)
    paths = ((str(tmp_path / "typed"), str(tmp_path / "home")),)
    async with opened(home, {"Note.md": "x\n", "own.png": PNG}, import_paths=paths) as notes:
        for path in (
            *("link.png", "way/c.png", "hard.png", "pipe.png", ".hidden/b.png", ".d.png", "sub"),
            *("other/a.png", "../out/c.png", "sub/../../out/c.png", "", "missing.png"),
            *("../home/vault/own.png", "nul\0.png", "half\ud800.png"),
        ):
            for base in (tmp_path / "typed", allowed):
                refused = await notes.call("save", id="Note.md", file=f"{base}/{path}")
                assert refused["resolution_hint"], path
                assert refused["category"] != "INTERNAL", path
                assert len(refused["message"] + refused["resolution_hint"]) < 300, path
                assert str(tmp_path) not in json.dumps(refused)
        assert notes.files() == {"own.png": PNG}
        for base in (tmp_path / "typed", allowed):
            saved = await notes.call("save", id="Note.md", file=f"{base}/sub/a.png")
            assert saved["files"][0]["id"] == "a.png"


async def test_no_file_that_the_system_makes_as_it_is_read_is_kept(tmp_path):
    """Such as the environment of a process, with the keys in it: they have no size."""
    async with opened(tmp_path, {"Note.md": "x\n"}, import_paths=(("/proc/self",),)) as notes:
        refused = await notes.call("save", id="Note.md", file="/proc/self/environ")
        assert refused["resolution_hint"]
        assert notes.files() == {}


async def test_a_second_name_that_goes_while_the_file_is_opened_is_seen(tmp_path, monkeypatch):
    allowed, outside = tmp_path / "in", tmp_path / "out.png"
    allowed.mkdir()
    outside.write_bytes(PNG)
    os.link(outside, allowed / "a.png")
    open_file = import_folders.SYSTEM.open_file

    def opened_once(folder, name):
        file = open_file(folder, name)
        (allowed / "a.png").unlink()
        return file

    monkeypatch.setattr(import_folders.SYSTEM, "open_file", opened_once)
    found = import_folders.find_folders([[str(allowed)]])
    with pytest.raises(NotPermitted):
        import_folders.read_file(f"{allowed}/a.png", found, closed=(), largest=len(PNG))
    assert outside.read_bytes() == PNG


async def test_a_closed_place_is_closed_wherever_it_lies(tmp_path):
    home = tmp_path / "wide" / "home"
    home.mkdir(parents=True)
    (tmp_path / "wide" / "open.png").write_bytes(PNG)
    paths = ((str(tmp_path / "wide"),),)
    async with opened(home, {"Note.md": "x\n", "own.png": PNG}, import_paths=paths) as notes:
        for path in ("home/vault/own.png", "home/cache.sqlite"):
            refused = await notes.call("save", id="Note.md", file=f"{tmp_path}/wide/{path}")
            assert refused["subcategory"] == "policy"
        assert (await notes.call("save", id="Note.md", file=f"{tmp_path}/wide/open.png"))["files"]


async def test_what_a_file_is_kept_for_is_recorded_before(tmp_path, monkeypatch):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        log, store = notes.harness.app.audit, notes.harness.remote
        keep, seen = store.keep_file, []

        async def watched(*call):
            log.flush(wait=True)
            seen.append([json.loads(one.facts) for one in log.table.records()])
            return await keep(*call)

        monkeypatch.setattr(store, "keep_file", watched)
        await notes.call("save", id="Note.md", file=sent(PNG))
        log.flush(wait=True)
        [begun], done = seen[0], [json.loads(one.facts) for one in log.table.records()]
        assert begun["files"] == done[-1]["files"]
        # Nobody can look for a file by it.
        assert begun["files"] != [hashlib.sha256(PNG).hexdigest()]


async def test_what_an_undo_takes_away_or_brings_back_is_recorded(tmp_path):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        log = notes.harness.app.audit

        async def named(**more):
            log.flush(wait=True)
            before = sum(1 for _ in log.table.records())
            await notes.call("manage", id="Note.md", **more)
            log.flush(wait=True)
            made = log.table.records(first=before + 1)
            return [json.loads(one.facts).get("files") for one in made]

        await notes.call("save", id="Note.md", file=sent(PNG))
        log.flush(wait=True)
        kept = [json.loads(one.facts)["files"] for one in log.table.records()]
        undo = {"action": "undo", "confirm": True}
        assert await named(action="undo") == [None]  # nobody has agreed
        assert await named(**undo) == kept
        history = await notes.call("manage", action="history", id="Note.md")
        shows = {
            "version": history["history"][1]["version"],
            "local_version": history["new_local_version"],
        }
        assert await named(action="restore_version", confirm=True, **shows) == kept
        assert await named(**undo) == kept
        assert await named(**undo) == kept
        (notes.folder / "plan.png").write_bytes(OTHER)
        assert await named(**undo) == [kept[0], None]


@pytest.mark.parametrize("removed", [False, True])
async def test_a_save_that_is_refused_keeps_no_file(tmp_path, monkeypatch, removed):
    once = Limits(writes_per_session=1)
    async with opened(tmp_path, obsidian(), limits=once) as notes:
        keep = notes.harness.remote.keep_file

        async def kept_and_removed(*call):
            kept = await keep(*call)
            (notes.folder / kept.id).unlink()
            return kept

        if removed:
            monkeypatch.setattr(notes.harness.remote, "keep_file", kept_and_removed)
        refused = await notes.call("save", title="New", text="x\n", file=sent(PNG))
        assert "The note was made" in refused["message"]
        assert (refused["details"]["id"], refused["subcategory"]) == ("New.md", "policy")
        assert notes.files() == ({} if removed else {".trash/plan.png": PNG})


@pytest.mark.parametrize("files", [None, {}], ids=["local", "vault"])
async def test_a_file_that_a_note_shows_already_counts_as_a_change(tmp_path, files):
    async with opened(tmp_path, files, limits=Limits(writes_per_session=3)) as notes:
        note = (await notes.call("save", title="New", text="x\n"))["id"]
        before = f"{note}/" if files is None else ""
        names = [f"{number}.png" for number in range(3)]
        links = "\n".join(f"![{name}]({before}{name})" for name in names)
        await notes.call("save", id=note, append=links)
        kept = [await notes.call("save", id=note, file=sent(PNG, name)) for name in names]
        assert kept[0]["files"][0]["id"] == f"{before}0.png"
        assert [one.get("subcategory") for one in kept[1:]] == ["policy", "policy"]
        assert [await notes.seen(f"{before}{name}") for name in names] == [True, False, False]


async def test_a_cancelled_call_that_kept_its_file_counts_and_the_next_one_takes_it(
    tmp_path, monkeypatch
):
    async with opened(tmp_path, {"Note.md": "x\n"}, limits=Limits(writes_per_session=2)) as notes:
        store, there = notes.harness.remote, asyncio.Event()
        keep = store.keep_file

        async def hanging(*call):
            await keep(*call)
            there.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(store, "keep_file", hanging)
            call = asyncio.create_task(notes.call("save", id="Note.md", file=sent(PNG)))
            await there.wait()
            call.cancel()
            await asyncio.wait([call])
        saved = await notes.call("save", id="Note.md", file=sent(PNG))
        assert notes.files() == {saved["files"][0]["id"]: PNG}
        refused = await notes.call("save", id="Note.md", file=sent(OTHER))
        assert refused["subcategory"] == "policy"
        assert notes.files() == {"plan.png": PNG}


async def test_no_file_is_kept_with_a_change_that_a_person_must_agree_to(tmp_path):
    async with opened(tmp_path, {"Note.md": "---\ntags: [a]\n---\nx\n"}) as notes:
        notes.harness.app.cache.versions.limits = VersionLimits(days=0)
        both = {"id": "Note.md", "remove_tags": ["a"], "file": sent(PNG)}
        for more in ({}, {"confirm": True}):
            refused = await notes.call("save", **both, **more)
            assert "two calls" in refused["resolution_hint"]
        assert notes.files() == {}
        assert (await notes.call("save", id="Note.md", file=sent(PNG)))["files"]


async def test_a_file_that_is_exchanged_while_it_is_discarded_stays(tmp_path, monkeypatch):
    async with opened(tmp_path, {"Note.md": "x\n"}) as notes:
        await notes.call("save", id="Note.md", file=sent(PNG))
        move, others = attachment_writer.file_writer.move, [OTHER]

        def exchanged(*call):
            if others:
                (notes.folder / "plan.png").write_bytes(others.pop())
            move(*call)

        monkeypatch.setattr(attachment_writer.file_writer, "move", exchanged)
        undone = await notes.call("manage", action="undo", id="Note.md", confirm=True)
        assert "Its file stays" in undone["note"]
        assert notes.files() == {"plan.png": OTHER}


async def test_half_a_file_that_a_killed_server_has_left_is_no_note(tmp_path, monkeypatch):
    monkeypatch.setattr(attachment_writer.file_writer, "LEFT_BEHIND", 0.0)
    name = f".notarium-{'a' * 64}--0123abcd.file.tmp"
    async with opened(tmp_path, {"Note.md": "x\n", name: b"\x89PNG half"}):
        pass
    assert [one.name for one in (tmp_path / "vault").iterdir()] == ["Note.md"]


async def test_a_file_that_moved_with_its_folder_is_still_the_one_that_was_kept(tmp_path):
    files = obsidian(attachmentFolderPath="./") | {"Work/Note.md": "x\n"}
    async with opened(tmp_path, files) as notes:
        await notes.call("save", id="Work/Note.md", file=sent(PNG))
        rows = notes.harness.app.cache.change_records
        assert [one.id for one in rows.kept_files()] == ["Work/plan.png"]
        moving = {"action": "move_folder", "folder": "Work", "new_folder": "Old"}
        await notes.call("manage", **moving, confirm=True)
        assert notes.files() == {"Old/plan.png": PNG}
        assert [one.id for one in rows.kept_files()] == ["Old/plan.png"]


async def test_the_local_notebook_has_bounds(tmp_path):
    async with opened(tmp_path) as notes:
        made = await notes.call("save", title="A", text="a\n", file=sent(PNG))
        note, database = made["id"], notes.harness.app.cache.database

        def fill(note_id, size, discarded=None):
            """A file of so many bytes, of which none are there."""
            with database.join_or_begin():
                row = (note_id, "big", "text/plain", f"{note_id:0>64}", size, 1.0, discarded)
                database.run(
                    "INSERT OR REPLACE INTO notebook_files VALUES (?, ?, ?, ?, ?, ?, ?)", row
                )

        async def refusal(**arguments):
            answer = await notes.call("save", file=sent(OTHER, "other.png"), **arguments)
            assert (answer["subcategory"], bool(answer["resolution_hint"])) == ("too_large", True)
            return answer["message"]

        fill(note, local_files.LARGEST_NOTE - len(PNG) - len(OTHER) + 1)
        assert "100 MiB" in await refusal(id=note)
        fill(note, 0)
        fill("beside", local_files.LARGEST_NOTEBOOK - len(PNG) - len(OTHER) + 1)
        message = await refusal(title="C", text="c\n")
        assert "The note was made" in message
        assert "1024 MiB" in message
        same = await notes.call("save", title="B", text="b\n", file=sent(PNG))
        assert same["files"]  # the same bytes are stored once
        assert database.number("SELECT count(DISTINCT digest) FROM notebook_file_parts") == 1
        fill("beside", local_files.LARGEST_NOTEBOOK, discarded=2.0)
        assert (await notes.call("save", id=note, file=sent(OTHER)))["files"]
        assert database.number("SELECT count(*) FROM notebook_files WHERE note_id = 'beside'") == 0


async def test_files_of_the_local_notebook_go_with_their_note(tmp_path):
    async with opened(tmp_path) as notes:
        made = await notes.call("save", title="A", text="a\n", file=sent(PNG))
        other = await notes.call("save", title="B", text="b\n", file=sent(PNG))
        database = notes.harness.app.cache.database
        for one, left in ((made, 1), (other, 0)):
            at = {"id": one["id"], "local_version": one["local_version"]}
            await notes.call("manage", action="trash", **at)
            assert await notes.seen(one["files"][0]["id"])
            library = notes.harness.app.library
            await library.remove(library.get(one["id"]), act=None)
            assert not await notes.seen(one["files"][0]["id"])
            assert database.number("SELECT count(*) FROM notebook_files") == left
            parts = database.number("SELECT count(DISTINCT digest) FROM notebook_file_parts")
            assert parts == left


async def test_a_damaged_file_is_not_shown(tmp_path):
    async with opened(tmp_path) as notes:
        made = await notes.call("save", title="A", text="a\n", file=sent(PNG))
        notes.harness.app.cache.database.run("UPDATE notebook_file_parts SET data = ?", (OTHER,))
        assert not await notes.seen(made["files"][0]["id"])
