"""Test a real, confined server over a simulated Trilium server."""

import re
import threading
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from notarium_devtools.trilium import TriliumSimulator
from support.whole import Server, call, run, store_environment

pytestmark = pytest.mark.slow("each test starts a server of its own")


@contextmanager
def serving():
    """A simulator in a thread of its own."""
    sim, ready, ended = TriliumSimulator(), threading.Event(), threading.Event()

    async def serve():
        async with sim.serving():
            ready.set()
            while not ended.is_set():  # noqa: ASYNC110 - set by another thread
                await anyio.sleep(0.02)

    thread = threading.Thread(target=anyio.run, args=(serve,), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield sim
    finally:
        ended.set()
        thread.join(10)


@pytest.fixture(name="sim")
def _sim():
    with serving() as sim:
        sim.write("Ab12cd34Ef56", "Plan", "<p>one</p><p>two</p>")
        yield sim


@pytest.fixture(name="env")
def _env(tmp_path, sim):
    return store_environment(
        tmp_path,
        "trilium",
        TRILIUM_URL=sim.url,
        TRILIUM_TOKEN=sim.token,
        NOTARIUM_DESTRUCTIVE="trust",
    )


def test_nobody_is_asked_about_a_note_that_the_app_has_changed_just_now(env, sim):
    sim.write("Ab12cd34Ef56", "Plan", f"<p>{'long ' * 200}</p>")
    with Server(env) as server:
        server.loaded(1)
        version = server.tool("get", id="Ab12cd34Ef56")["local_version"]
        drop = {"id": "Ab12cd34Ef56", "local_version": version, "text": "short"}
        assert server.error("save", **drop)["subcategory"] == "confirmation_required"
        sim.write("Ab12cd34Ef56", "Plan", f"<p>{'late ' * 200}</p>")
        assert server.error("save", **drop)["subcategory"] == "conflict"
        assert server.tool("get", id="Ab12cd34Ef56")["text"].startswith("late")
        assert server.leave() == 0


@pytest.mark.parametrize("form", ['"{}"', "'{}'", "  {}\n"])
def test_a_token_in_quotation_marks_or_between_blanks_is_the_token(env, sim, tmp_path, form):
    with Server(env | {"TRILIUM_TOKEN": form.format(sim.token)}) as server:
        server.loaded(1)
        assert server.leave() == 0
    path = tmp_path / "token"
    path.write_text(form.format(sim.token))
    named = env | {
        "TRILIUM_TOKEN": "",
        "TRILIUM_TOKEN_FILE": str(path),
        "NOTARIUM_DATA_DIR": str(tmp_path / "second"),
    }
    with Server(named) as server:
        server.loaded(1)
        assert server.leave() == 0


def test_notes_are_listed_read_changed_created_and_deleted(env, sim):
    with Server(env) as server:
        server.loaded(1)
        note = server.tool("get", id="Ab12cd34Ef56")
        assert (note["title"], note["text"]) == ("Plan", "one\n\ntwo")
        saved = server.tool(
            "save",
            id="Ab12cd34Ef56",
            local_version=note["local_version"],
            text="one\n\n**three**",
            tags=["todo"],
        )
        held = sim.document.notes["Ab12cd34Ef56"]
        assert held.content == b"<p>one</p><p><strong>three</strong></p>"
        assert [one.name for one in sim.document.owned("Ab12cd34Ef56")] == ["todo"]
        made = server.tool("save", title="New", text="- a\n- b")
        assert sim.document.notes[made["id"]].content == b"<ul><li>a</li><li>b</li></ul>"
        version = saved["local_version"]
        server.tool(
            "manage",
            action="delete_permanently",
            id="Ab12cd34Ef56",
            local_version=version,
            confirm=True,
        )
        assert "Ab12cd34Ef56" not in sim.document.notes
        assert server.leave() == 0


def test_an_edit_that_would_lose_something_is_refused_with_what(env, sim):
    sim.write("Ab12cd34Ef56", "Plan", '<p>a <span style="color:red">b</span></p>')
    with Server(env) as server:
        server.loaded(1)
        note = server.tool("get", id="Ab12cd34Ef56")
        version = note["local_version"]
        refusal = server.error("save", id="Ab12cd34Ef56", local_version=version, text="x")
        assert (refusal["category"], refusal["subcategory"]) == ("VALIDATION", "formatting")
        assert "style of <span>" in refusal["message"]
        assert server.leave() == 0


def test_a_policy_file_names_the_note_below_which_alone_notes_are_changed(env, sim):
    for name in ("Below1234567", "Other1234567"):
        sim.write(name, name, "<p>x</p>")
    sim.document.place("Below1234567", "Ab12cd34Ef56")
    sim.document.unplace(sim.document.branches["root_Below1234567"])
    policy = Path(env["NOTARIUM_DATA_DIR"]) / "policy.toml"
    policy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    policy.write_text('[notes]\nwritable_below = ["Ab12cd34Ef56"]\n')
    policy.chmod(0o600)
    with Server(env) as server:
        server.loaded(3)
        assert server.tool("save", id="Below1234567", append="more")["id"]
        refusal = server.error("save", id="Other1234567", append="more")
        assert (refusal["subcategory"], "by their ids" in refusal["resolution_hint"]) == (
            "policy",
            True,
        )
        assert server.leave() == 0
    assert sim.document.notes["Other1234567"].content == b"<p>x</p>"
    assert "writable_below" in run(env, "policy", "explain", "Other1234567", "save").stdout


def test_the_documented_profile_shows_and_opens_one_subtree_alone(env, sim):
    """``writable_below`` alone hides nothing; the label that docs/policy.md has to copy does."""
    told = (Path(__file__).parents[2] / "docs/policy.md").read_text()
    found = re.search(r"#(\w+)\(inheritable\)\n```\n.*?```toml\n(.*?)```", told, re.DOTALL)
    sim.write("Other1234567", "Other", "<p>x</p>")
    sim.write("Below1234567", "Below", "<p>x</p>")
    sim.document.place("Below1234567", "Ab12cd34Ef56")
    sim.document.unplace(sim.document.branches["root_Below1234567"])
    sim.document.set_attribute(
        "attr1234567", "Ab12cd34Ef56", "label", found[1], "", inheritable=True
    )
    policy = Path(env["NOTARIUM_DATA_DIR"]) / "policy.toml"
    policy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rules = found[2].replace("4BE5mh0k9dVe", "Ab12cd34Ef56")
    policy.write_text(f'{rules}[profiles.writer.notes]\nwritable_below = ["Ab12cd34Ef56"]\n')
    policy.chmod(0o600)
    for profile, seen in (("writer", 3), ("agent", 2)):
        with Server(env | {"NOTARIUM_PROFILE": profile}) as server:
            server.loaded(seen)
            assert server.tool("list")["total_items"] == seen
            assert server.tool("save", id="Below1234567", append="more")["id"]
            refused = server.error("save", id="Other1234567", append="more")
            assert (refused.get("subcategory") == "policy") == (profile == "writer")
            assert (refused["category"] == "NOT_FOUND") == (profile == "agent")
            assert server.leave() == 0
    assert sim.document.notes["Other1234567"].content == b"<p>x</p>"


def test_undo_and_restore_bring_back_the_html_as_it_was(env, sim):
    note_id = "Ab12cd34Ef56"
    html = '<p>one <u>two</u></p><figure class="image" style="width:50%;"><img src="api/images/y/y.png"></figure>'
    sim.write(note_id, "Plan", f"{html}<p>three</p>")

    def manage(server, action, current, **arguments):
        asked = {"id": note_id, "local_version": current, "confirm": True}
        answer = server.tool("manage", action=action, **asked, **arguments)
        return answer["new_local_version"]

    with Server(env) as server:
        server.loaded(1)
        first = server.tool("get", id=note_id)["local_version"]
        saved = server.tool("save", id=note_id, local_version=first, text="three")
        version = manage(server, "undo", saved["local_version"])
        assert sim.document.notes[note_id].content.decode() == f"{html}<p>three</p>"
        last = server.tool("save", id=note_id, local_version=version, text="three")["local_version"]
        manage(server, "restore_version", last, version=str(first))
        assert sim.document.notes[note_id].content.decode() == f"{html}<p>three</p>"
        assert server.leave() == 0


def test_doctor_names_the_version_of_the_server(env):
    with Server(env) as server:
        server.loaded(1)
        assert server.leave() == 0
    assert (
        "Trilium 0.102.1 (its clock: +0 s) is reachable, and the login is accepted"
        in run(env, "doctor").stdout
    )


def test_neither_log_nor_error_says_the_token_or_what_notes_say(env, sim, tmp_path):
    title, body, label = "Ti-canary-1a", "Bo-canary-2b", "La_canary_3c"
    words = (title, body, label, sim.token, sim.token.partition("_")[2])
    sim.write("Ab12cd34Ef56", title, f"<p>{body}</p>")
    sim.set_labels("Ab12cd34Ef56", label)
    log = tmp_path / "log"
    env = env | {"LOG_LEVEL": "trace", "LOG_FILE_PATH": str(log), "NOTARIUM_TOOLS": "both"}
    failures = []
    with Server(env) as server:
        server.loaded(1)
        note = server.tool("get", id="Ab12cd34Ef56")
        version = note["local_version"]
        text = f"{body}\n\n{body} more"
        server.tool("save", id="Ab12cd34Ef56", local_version=version, text=text)
        server.result("search_notes", query=body)
        server.result("update_note_content", noteId="Ab12cd34Ef56", content=f"<p>{body} new</p>")
        server.result("create_note", title=title, content=f"<p>{body}</p>")
        sim.faults.status(400, path="*/content", times=9, body=f"{body} {sim.token}".encode())
        failures += [server.error("save", text=f"{body} x", tags=["a b"])]
        failures += [server.ask(call(77, "get_note_content", noteId="Ab12cd34Ef56"))]
        sim.faults.clear()
        sim.etapi.tokens.clear()
        failures += [server.ask(call(78, "get_note_metadata", noteId="Ab12cd34Ef56"))]
        assert server.leave() == 0
        written = f"{log.read_text()} {server.errors()} {failures}"
    assert len(written) > 5000
    assert [word for word in words if word in written] == []
