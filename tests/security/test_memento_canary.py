"""Put a marker into everything that Memento's file holds, go every way at TRACE, and search every output."""

import json
import shutil
import time

import pytest

from support.leaks import assert_clean
from support.memento_file import MementoFile
from support.talker import call
from support.whole import RAW_KEY, Server, run, store_environment, until

TITLE, BODY, LABEL = "Ti-canary-11aa title", "Bo-canary-22bb sentence", "La-canary-33cc"
ITEM, IMAGE, PLACE = "It-canary-44dd item", "SW1jYW5hcnk1NWVl", "Pl-canary-66ff place"
NAME, MAIL = "Na-canary-77aa", "canary-88bb@example.org"
QUERY, NEW = "Qu-canary-99cc", "Ne-canary-aadd text"
WORDY_ID = "id-canary-bbee-made-of-words"
WORDS = [
    "canary-11aa", "canary-22bb", "canary-33cc", "canary-44dd", IMAGE, "canary-66ff", "canary-77aa", "canary-88bb",
    "canary-99cc", "canary-aadd", "5a5a5a5a5a5a",
]  # fmt: skip


@pytest.fixture(name="app")
def _app(tmp_path):
    (tmp_path / "prisma").mkdir()
    app = MementoFile(tmp_path / "prisma" / "dev.db")
    app.run("INSERT INTO \"User\" VALUES ('u1', ?, ?, 1)", (NAME, MAIL))
    items = json.dumps([{"id": "1", "text": ITEM, "checked": False}])
    beside = {
        "labels": json.dumps([LABEL]),
        "images": json.dumps([IMAGE]),
        "reminderLocation": PLACE,
    }
    for note_id in ("cabc1234567890", WORDY_ID, "clist1234567890"):
        listed = {"type": "checklist", "checkItems": items} if "list" in note_id else {}
        app.put(note_id, BODY, title=TITLE, **beside, **listed)
    return app


def ways(server, app):
    """Read, change, search, delete and restore by every tool. Returns the errors that the agent gets."""
    errors = []

    def native(tool, **arguments):
        answer = server.ask(call(time.monotonic_ns(), tool, **arguments))
        errors.extend([json.dumps(answer["error"])] if "error" in answer else [])

    def ours(tool, **arguments):
        result = server.result(tool, **arguments)
        shows_a_note = "untrusted" in str(result) and "rejected" not in str(result)
        if result.get("isError") and not shows_a_note:
            errors.append(json.dumps(result))
        return result.get("structuredContent") or {}

    server.loaded(3)
    for note_id in ("clist1234567890", WORDY_ID):
        note = ours("get", id=note_id)
        ours(
            "save", id=note_id, local_version=note["local_version"], text=note["text"] + f"\n{NEW}"
        )
        ours("save", id=note_id, local_version=note["local_version"], text=f"{NEW} instead")
    ours("list", query=f"{QUERY} OR tag:{LABEL}")
    native("create_note", content=NEW, title=TITLE, labels=[LABEL], images=[IMAGE])
    native("update_note", id=WORDY_ID, content=NEW, confirm=True)
    native("update_note", id=WORDY_ID, colour=NEW)
    native("search_notes", query=QUERY)
    native("get_note", id=NEW)
    native("toggle_pin", id=WORDY_ID)
    native("delete_note", id="cabc1234567890")
    (kept,) = ours("manage", action="history", id="cabc1234567890")["history"]
    ours(
        "manage",
        action="restore_version",
        id="cabc1234567890",
        version=kept["version"],
        confirm=True,
    )
    app.run(
        'CREATE TRIGGER loud BEFORE INSERT ON "Note" '
        "BEGIN SELECT RAISE(ABORT, 'canary-22bb canary-aadd'); END"
    )
    ours("save", text=NEW, tags=[LABEL])
    native("create_note", content=NEW)
    return errors


def misfortunes(server, app):
    """The same with a file that is gone, damaged, and of another user's. Returns the errors."""
    errors = []

    def fail():
        errors.append(json.dumps(server.error("save", text=NEW, tags=[LABEL])))
        errors.append(
            json.dumps(server.ask(call(time.monotonic_ns(), "search_notes", query=QUERY))["error"])
        )

    def state():
        return server.tool("manage", action="get_stats")["stats"]["sync_state"]

    away = app.path.rename(app.path.with_name("away.db"))
    until(lambda: state() == "backing_off")
    fail()
    shutil.copy(away, app.path)
    with app.path.open("r+b") as file:
        file.seek(100)
        file.write(BODY.encode() * 400)
    fail()
    away.replace(app.path)
    app.run("INSERT INTO \"User\" VALUES ('u2', ?, ?, 1)", (f"{NAME} 2", f"2{MAIL}"))
    fail()
    assert all("MEMENTO_USER_ID is not set: \\u201cu1" in one for one in errors[-2:])
    return errors


@pytest.mark.slow("one story at every level of the log")
def test_neither_logs_nor_errors_say_what_the_file_holds(tmp_path, app):
    log = tmp_path / "log"
    env = store_environment(
        tmp_path, "memento", MEMENTO_DATABASE=str(app.path), NOTARIUM_TOOLS="both", LOG_LEVEL="trace",
        LOG_FILE_PATH=str(log),
    )  # fmt: skip
    assert RAW_KEY.count("5a") > 6
    with Server(env) as server:
        errors = ways(server, app)
        errors += misfortunes(server, app)
        assert server.leave() == 0
        written = server.errors().encode()
    assert len(errors) > 9
    for arguments in (
        ["status", "--json"],
        ["doctor"],
        ["audit", "tail", "-n", "99", "--json"],
        ["audit", "export"],
    ):
        done = run(env, *arguments)
        written += done.stdout.encode() + done.stderr.encode()
    assert "“u1” (notes: 1)".encode() in written, "doctor says whose notes there are"
    assert b"sync.cycle_failed" in log.read_bytes()
    said_by_the_agent = ("canary-99cc", "canary-aadd")  # an error repeats an unknown id
    of_the_file = [word for word in WORDS if word not in said_by_the_agent]
    assert_clean("errors of an agent", "\n".join(errors).encode(), of_the_file)
    for flow, output in {"standard streams": written, "log": log.read_bytes()}.items():
        assert_clean(flow, output, [*WORDS, "canary-bbee"])
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            assert_clean(path.name, path.read_bytes(), [*WORDS, "canary-bbee"])
