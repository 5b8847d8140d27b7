"""Test that every tool and command says alike why a store can never work as it is set up, and what to do."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from support import short_pauses
from support.long import sample
from support.memento_file import MementoFile
from support.plain_user import PlainUser, plain_user
from support.services import running
from support.whole import Server, environment, run, store_environment, until

pytestmark = pytest.mark.slow("each test starts servers of its own")

Said = dict[str, Any]
MAIN = "import sys; from mcp_notarium.__main__ import main; sys.exit(main())\n"
PLACE = ("BACKEND_API", "place_unusable")
LOGIN = ("AUTH", "login_required")


def vault(folder: Path, _stack: ExitStack) -> tuple[dict[str, str], tuple[str, ...]]:
    """A folder that is not there."""
    env = store_environment(folder, "vault", VAULT_PATH=str(folder / "elsewhere"))
    return env, ("VAULT_PATH", "~/elsewhere", "correct VAULT_PATH or mount the drive")


def memento(folder: Path, _stack: ExitStack) -> tuple[dict[str, str], tuple[str, ...]]:
    """A file that is not there."""
    env = store_environment(folder, "memento", MEMENTO_DATABASE=str(folder / "dev.db"))
    return env, ("MEMENTO_DATABASE", "~/dev.db", "check MEMENTO_DATABASE and the file")


def no_database(folder: Path, _stack: ExitStack) -> tuple[dict[str, str], tuple[str, ...]]:
    """A file that is no database."""
    (folder / "dev.db").write_text("{}\n" * 1000)
    env = store_environment(folder, "memento", MEMENTO_DATABASE=str(folder / "dev.db"))
    return env, ("no SQLite database", "~/dev.db", "set it to the file of the app")


def other_user(folder: Path, _stack: ExitStack) -> tuple[dict[str, str], tuple[str, ...]]:
    """An app with users, of whom none is named."""
    app = MementoFile(folder / "dev.db")
    with app.opened() as database:
        for name in ("ada", "bob"):
            database.execute('INSERT INTO "User" (id, email) VALUES (?, ?)', (name, name))
    env = store_environment(folder, "memento", MEMENTO_DATABASE=str(app.path))
    return env, ("MEMENTO_USER_ID is not set", "ada", "set MEMENTO_USER_ID")


def no_user(folder: Path, _stack: ExitStack) -> tuple[dict[str, str], tuple[str, ...]]:
    """An app in which nobody has signed up, and a user in the settings."""
    given = {"MEMENTO_DATABASE": str(MementoFile(folder / "dev.db").path), "MEMENTO_USER_ID": "x"}
    return store_environment(folder, "memento", **given), (
        "no user yet",
        "leave MEMENTO_USER_ID out",
    )


def trilium(folder: Path, stack: ExitStack) -> tuple[dict[str, str], tuple[str, ...]]:
    """A token that the server does not know."""
    service = TriliumSimulator()
    stack.enter_context(running(service))
    given = {"TRILIUM_URL": service.url, "TRILIUM_TOKEN": "wrong"}
    return store_environment(folder, "trilium", **given), (
        "Trilium does not accept the token in TRILIUM_TOKEN",
        "put another token",
    )


def simplenote(folder: Path, stack: ExitStack) -> tuple[dict[str, str], tuple[str, ...]]:
    """A password that is not the account's."""
    service = Simulator()
    stack.enter_context(service.running())
    env = environment(service, folder, SIMPLENOTE_PASSWORD="wrong")
    return env, (
        "does not accept this username and password",
        "correct SIMPLENOTE_USERNAME and SIMPLENOTE_PASSWORD",
    )


WORLDS: dict[Callable[..., Any], tuple[str, str]] = {
    vault: PLACE,
    memento: PLACE,
    no_database: PLACE,
    other_user: PLACE,
    no_user: PLACE,
    trilium: LOGIN,
    simplenote: LOGIN,
}


def kind(error: Said) -> tuple[Any, ...]:
    """What a client decides by."""
    return (
        error["category"],
        error["subcategory"],
        error["retryable"],
        error["resolution_hint"],
    )


def says(said: str, words: tuple[str, ...]) -> bool:
    return all(one.lower() in said.lower() for one in words)


@pytest.mark.parametrize("world", WORLDS, ids=lambda one: one.__name__)
def test_all_tools_and_all_servers_say_the_same(
    tmp_path: Path, world: Callable[..., tuple[dict[str, str], tuple[str, ...]]]
) -> None:
    with ExitStack() as stack:
        env, words = world(tmp_path, stack)
        first = stack.enter_context(Server(env))
        until(lambda: "sync_last_error" in stats(first))
        second = stack.enter_context(Server(env))
        errors = [
            first.error("list"),
            first.error("save", text="x\n"),
            first.error("get", id="abc"),
            second.error("list"),
        ]
        assert {kind(one) for one in errors} == {
            (*WORLDS[world], False, errors[0]["resolution_hint"])
        }
        for one in errors:
            assert says(f"{one['message']} {one['resolution_hint']}", words), one
            assert one["resolution_hint"].startswith("Ask the user to ")
        for server in (first, second):
            seen = stats(server)
            assert seen["sync_error_subcategory"] == WORLDS[world][1]
            assert seen["sync_error_retryable"] is False
            assert seen["sync_error_hint"] == errors[0]["resolution_hint"]
            assert says(f"{seen['sync_last_error']} {seen['sync_error_hint']}", words)
        assert first.leave() == second.leave() == 0
        # A person reads the same, without a server and with one.
        done = run(env, "doctor", "--json")
        assert done.returncode == 1
        found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
        for name, state in (("sync", "warn"), ("service", "bad")):
            assert found[name]["state"] == state
            assert says(f"{found[name]['seen']} {found[name]['hint']}", words), found[name]
        assert says(run(env, "status").stdout, words[:1])


def test_a_list_of_old_notes_names_the_way_out_too(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "Plan.md").write_text("one\n")
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(tmp_path / "vault"))
    with Server(env) as server:
        server.loaded(1)
        assert server.leave() == 0
    (tmp_path / "vault").rename(tmp_path / "elsewhere")
    with Server(env) as server:
        until(lambda: "sync_last_error" in stats(server))
        answer = server.tool("list")
        assert answer["total_items"] == 1
        assert says(answer["sync"]["note"], ("~/vault", "Ask the user to correct VAULT_PATH"))
        assert server.leave() == 0


NOWHERE = "https://nosuch.invalid"
UNRESOLVED = ("at nosuch.invalid cannot be reached", "its name does not resolve")
CLOSED = ("at 127.0.0.1:9 cannot be reached", "connection refused")
UNREACHABLE: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "trilium": ({"TRILIUM_URL": NOWHERE, "TRILIUM_TOKEN": "any"}, UNRESOLVED),
    "trilium at a port": ({"TRILIUM_URL": "http://127.0.0.1:9", "TRILIUM_TOKEN": "any"}, CLOSED),
    "simplenote": (
        {
            "SIMPLENOTE_USERNAME": "ada@example.org",
            "SIMPLENOTE_TOKEN": "any",
            "SIMPERIUM_API_URL": NOWHERE,
        },
        UNRESOLVED,
    ),
    "simplenote by password": (
        {
            "SIMPLENOTE_USERNAME": "ada@example.org",
            "SIMPLENOTE_PASSWORD": "any",
            "SIMPERIUM_AUTH_URL": "http://127.0.0.1:9",
        },
        CLOSED,
    ),
}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_the_host_that_cannot_be_reached_is_named(tmp_path: Path, name: str) -> None:
    given, words = UNREACHABLE[name]
    env = store_environment(tmp_path, name.partition(" ")[0], **given, **short_pauses.MARKED)

    def doctor(*how: str) -> dict[str, Said]:
        found = json.loads(run(env, "doctor", *how, "--json").stdout)["findings"]
        return {one["name"]: one for one in found}

    assert says(doctor()["service"]["seen"], words)
    with Server(env) as server:
        until(lambda: "sync_last_error" in stats(server))
        for error in (server.error("list"), server.error("save", text="x\n")):
            assert says(error["message"], words), error
            assert (error["subcategory"], error["retryable"]) == ("unavailable", True)
            assert "in a few minutes" in error["resolution_hint"]
        assert says(stats(server)["sync_last_error"], words)
        assert server.leave() == 0
    assert says(doctor("--offline")["sync"]["seen"], words)


def test_a_password_in_an_address_is_never_shown(tmp_path: Path) -> None:
    address = "https://ada:hunter2@nosuch.invalid/notes"
    env = store_environment(tmp_path, "trilium", TRILIUM_URL=address, TRILIUM_TOKEN="any")
    for command in (
        ("doctor",),
        ("status",),
        ("--print-config-vars",),
        ("--print-config-vars", "--json"),
        (),
        ("setup", "--yes", "--store", "trilium", "--set", f"TRILIUM_URL={address}"),
    ):
        done = run(env, *command)
        said = done.stdout + done.stderr
        assert "TRILIUM_URL" in said, command
        assert "hunter2" not in said


def stats(server: Server) -> Said:
    """The numbers of ``get_stats``."""
    found: Said = server.tool("manage", action="get_stats")["stats"]
    return found


@pytest.fixture(name="user")
def _user() -> Iterator[PlainUser]:
    with plain_user() as user:
        yield user


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("mode", sample("modes", [0o000, 0o444, 0o111], 1), ids=oct)
def test_a_vault_that_may_not_be_read_is_named(user: PlainUser, mode: int) -> None:
    place = user.folder / "vault"
    place.mkdir()
    (place / "Plan.md").write_text("one\n")
    closed(user, place, mode)
    check_named(user, {"NOTARIUM_STORE": "vault", "VAULT_PATH": str(place)}, "~/vault")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_file_that_may_not_be_read_is_named(user: PlainUser) -> None:
    app = MementoFile(user.folder / "dev.db")
    closed(user, app.path, 0o000)
    check_named(user, {"NOTARIUM_STORE": "memento", "MEMENTO_DATABASE": str(app.path)}, "~/dev.db")


def closed(user: PlainUser, place: Path, mode: int) -> None:
    """Make a file or folder the user's own, with a mode that is not enough."""
    owner = user.folder.stat()
    os.chown(place, owner.st_uid, owner.st_gid)
    place.chmod(mode)


def check_named(user: PlainUser, settings: dict[str, str], shown: str) -> None:
    """What tools and doctor say of a place that the user may not read, before and after a first start."""
    env = user.env | store_environment(user.folder, settings["NOTARIUM_STORE"], **settings)
    env |= {name: user.env[name] for name in ("PYTHONHOME", "PYTHONPATH")}

    def doctor() -> list[str]:
        done = user.run(user.python(MAIN, "doctor", "--json"), env=env)
        found = json.loads(done.stdout)["findings"]
        return [f"{one['seen']} {one['hint']}" for one in found if one["state"] == "bad"]

    def named(said: str) -> bool:
        return says(said, (shown, "permission denied")) or says(said, (shown, "may not be read"))

    assert any(map(named, doctor()))
    with Server(env, command=user.python(MAIN), **user.options) as server:
        until(lambda: "sync_last_error" in stats(server))
        for error in (server.error("list"), server.error("save", text="x\n")):
            assert named(error["message"]), error
            assert (error["subcategory"], error["retryable"]) == ("place_unusable", False)
        assert server.leave() == 0
    assert any(map(named, doctor()))
