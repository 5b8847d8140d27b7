"""Test a damaged page that no start examines: met by a running server, and known to all afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import ServerLock
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.whole import Server, account_folder, environment, run, until

PAGE = 4096
NOTES = 4  # the page on which the table of notes begins; a start looks at 1, 2, 3, middle and last
NAMES = 5  # the index of the notes' ids
LISTING = 6  # an index that only listings read
TOOLS = {
    "list": {},
    "get": {"id": "x"},
    "save": {"text": "x"},
    "manage": {"action": "get_stats"},
}
SPOILT = b"\xa5" * PAGE
PLAIN = {"DB_ENCRYPTION": "off", "DB_ENCRYPTION_KEY": None}


@pytest.fixture(name="simulator", scope="module")
def _simulator():
    simulator = Simulator()
    simulator.load(prose(40, seed=3))
    with simulator.running():
        yield simulator


def _active(simulator: Simulator) -> int:
    return sum(not note["deleted"] for note in simulator.notes().values())


def _filled(simulator: Simulator, folder: Path, **changes: str | None) -> Path:
    with Server(environment(simulator, folder, **changes)) as server:
        server.loaded(_active(simulator))
        assert server.leave() == 0
    return folder


@pytest.fixture(name="encrypted", scope="module")
def _encrypted(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _filled(simulator, tmp_path_factory.mktemp("encrypted"))


@pytest.fixture(name="plain", scope="module")
def _plain(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _filled(simulator, tmp_path_factory.mktemp("plain"), **PLAIN)


@pytest.fixture(name="folder")
def _folder(simulator: Simulator, encrypted: Path, tmp_path: Path) -> AccountFolder:
    shutil.copytree(encrypted, tmp_path, dirs_exist_ok=True)
    return AccountFolder(account_folder(simulator, tmp_path))


@pytest.fixture(name="plain_folder")
def _plain_folder(simulator: Simulator, plain: Path, tmp_path: Path) -> AccountFolder:
    shutil.copytree(plain, tmp_path, dirs_exist_ok=True)
    return AccountFolder(account_folder(simulator, tmp_path))


def _spoil(folder: AccountFolder, page: int) -> None:
    """Overwrite a page that no start looks at."""
    path = next(path for path in folder.path.iterdir() if ".sqlite" in path.name)
    body = bytearray(path.read_bytes())
    assert page not in {1, 2, 3, len(body) // PAGE // 2, len(body) // PAGE}
    body[(page - 1) * PAGE : page * PAGE] = SPOILT
    path.write_bytes(body)


def _criticals(server: Server) -> list[dict[str, str]]:
    lines = [json.loads(line) for line in server.errors().splitlines() if line.startswith("{")]
    return [line for line in lines if line["level"] == "critical"]


def _meet(env: dict[str, str]) -> dict[str, object]:
    """Start a server that opens the cache, and have it meet the damage; gives the error after it has tried again."""
    with Server(env) as server:
        assert server.error("list")["subcategory"] == "busy"
        error = server.error("list")
        assert server.leave() == 1
    return error


def _set_aside(folder: AccountFolder) -> bool:
    """Whether the damaged database is in the quarantine, its damage included, and not here."""
    kept, here = (
        [path.read_bytes() for path in place if path.name.endswith((".encrypted", ".sqlite"))]
        for place in (folder.quarantine.rglob("*"), folder.path.iterdir())
    )
    assert sum(SPOILT in body for body in (*kept, *here)) == 1
    return any(SPOILT in body for body in kept)


def _reports(env: dict[str, str]) -> tuple[dict[str, object], dict[str, str]]:
    """Return the reports of ``status`` and ``doctor``, which must agree."""
    status, doctor = run(env, "status", "--json"), run(env, "doctor", "--offline", "--json")
    facts, findings = json.loads(status.stdout), json.loads(doctor.stdout)["findings"]
    assert status.returncode == doctor.returncode == facts["exit_code"]
    (cache,) = [one for one in findings if one["name"] == "cache"]
    if facts["exit_code"]:
        assert cache["seen"] == f"{facts['verdict']}: {facts['message']}"
        assert cache["hint"] == facts["resolution_hint"]
    return facts, cache


@pytest.mark.parametrize(("tool", "page"), [("list", NOTES), ("get", NAMES), ("save", NOTES)])
def test_damage_met_by_any_tool_is_repaired_by_the_server_itself(
    simulator: Simulator,
    folder: AccountFolder,
    tmp_path: Path,
    tool: str,
    page: int,
) -> None:
    _spoil(folder, page)
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        first = server.error(tool, **TOOLS[tool])
        # A write that was sent already is not to be repeated, and that is said as well.
        assert first["subcategory"] == ("in_doubt" if tool == "save" else "busy")
        until(lambda: server.tool("list")["total_items"] == _active(simulator))
        stats = server.tool("manage", action="get_stats")["stats"]
        assert "repaired" in str(stats["notices"])
        until(lambda: not server.tool("manage", action="get_stats")["stats"]["pending_writes"])
        assert server.leave() == 0
        assert not _criticals(server)
    assert _set_aside(folder)
    assert not folder.damage_marker.exists()
    assert _reports(env)[0]["verdict"] == "ok"
    acts = run(env, "audit", "tail", "-n", "50").stdout
    assert "chain.carried" in acts


def test_sync_that_meets_it_has_it_repaired_too(
    simulator: Simulator, folder: AccountFolder, tmp_path: Path
) -> None:
    _spoil(folder, NOTES)
    simulator.put("from-another-device", content="written elsewhere")
    with Server(environment(simulator, tmp_path)) as server:
        until(lambda: list(folder.quarantine.glob("2*/*.encrypted")))
        server.loaded(_active(simulator))
        assert server.leave() == 0
    assert _set_aside(folder)


def test_beside_a_second_server_it_is_repaired_when_that_lets_go(
    simulator: Simulator, folder: AccountFolder, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _spoil(folder, LISTING)
    # A second server that is at work might meet the damage first.
    other = ServerLock(folder)
    other.share()
    with Server(env) as server:
        error = server.error(
            "list"
        )  # it has met the damage itself, or waited for a start that sync began
        assert "busy" in (error["subcategory"], error.get("details", {}).get("verdict"))
        other.release()
        server.loaded(_active(simulator))
        assert server.leave() == 0
    assert _set_aside(folder)


def test_the_next_start_repairs_what_an_earlier_process_met(
    simulator: Simulator, folder: AccountFolder, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _spoil(folder, NOTES)
    folder.damage_marker.touch(mode=0o600)
    with Server(env) as server:
        server.loaded(_active(simulator))
        assert server.leave() == 0
    assert _set_aside(folder)
    assert _reports(env)[0]["verdict"] == "ok"


def test_the_way_out_works_while_the_locked_server_is_still_there(
    simulator: Simulator, plain_folder: AccountFolder, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, **PLAIN)
    _spoil(plain_folder, LISTING)
    with Server(env) as server:
        server.error("list")
        assert server.error("list")["details"]["exit_code"] == 13
        done = run(env, "reset-cache", "--yes")
        assert done.returncode == 0, done.stderr
        assert server.leave() == 1
    assert _set_aside(plain_folder)
    assert not plain_folder.damage_marker.exists()
    with Server(env) as server:
        server.loaded(_active(simulator))
        assert server.leave() == 0
    assert _reports(env)[0]["verdict"] == "ok"


@pytest.mark.parametrize("page", [NOTES, LISTING, 12])
def test_status_and_doctor_find_it_before_anybody_meets_it(
    simulator: Simulator, folder: AccountFolder, tmp_path: Path, page: int
) -> None:
    _spoil(folder, page)
    env = environment(simulator, tmp_path)
    facts, _cache = _reports(env)
    assert facts["verdict"] == "database_damaged"
    assert f"page {page}" in str(facts["message"])
    assert "mcp-notarium repair" in str(facts["resolution_hint"])
    with Server(env) as server:
        server.loaded(_active(simulator))
        assert server.leave() == 0


def test_reset_cache_sets_a_damaged_cache_aside_that_nobody_has_met_yet(
    simulator: Simulator, folder: AccountFolder, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _spoil(folder, 12)
    refused = run(env, "reset-cache")
    assert refused.returncode == 1
    assert "quarantine" in refused.stderr
    assert not _set_aside(folder)
    done = run(env, "reset-cache", "--yes")
    assert done.returncode == 0, done.stderr
    assert "WARNING" in done.stderr
    assert _set_aside(folder)
    assert json.loads(run(env, "status", "--json").stdout)["notes"] == _active(simulator)


def test_a_mark_on_a_sound_cache_goes_with_the_next_start(
    simulator: Simulator, folder: AccountFolder, tmp_path: Path
) -> None:
    folder.damage_marker.touch(mode=0o600)
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(_active(simulator))
        assert server.leave() == 0
    assert not folder.damage_marker.exists()


def test_an_unencrypted_cache_has_a_way_out_that_works(
    simulator: Simulator, plain_folder: AccountFolder, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, **PLAIN)
    _spoil(plain_folder, NOTES)
    error = _meet(env)
    assert error["details"] == {"verdict": "database_damaged", "exit_code": 13}
    assert "mcp-notarium doctor" in str(error["resolution_hint"])
    assert "reset-cache" in str(_reports(env)[0]["resolution_hint"])
    repair = run(env, "repair")
    assert repair.returncode == 1
    assert "mcp-notarium reset-cache" in repair.stderr
    done = run(env, "reset-cache", "--yes")
    assert done.returncode == 0, done.stderr
    assert _set_aside(plain_folder)
    assert json.loads(run(env, "status", "--json").stdout)["notes"] == _active(simulator)


def test_an_unencrypted_cache_is_rebuilt_if_the_settings_ask_for_that(
    simulator: Simulator, plain_folder: AccountFolder, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path, **PLAIN, DB_ON_UNREADABLE="rebuild")
    _spoil(plain_folder, NOTES)
    with Server(env) as server:
        assert server.error("list")["subcategory"] == "busy"
        server.loaded(_active(simulator))
        assert server.leave() == 0
    assert _set_aside(plain_folder)


def test_a_damaged_unencrypted_cache_can_be_quarantined(
    simulator: Simulator, plain_folder: AccountFolder, tmp_path: Path
) -> None:
    env = environment(simulator, tmp_path)
    _spoil(plain_folder, NOTES)
    assert "mcp-notarium reset-cache" in str(_reports(env)[0]["resolution_hint"])
    done = run(env, "reset-cache", "--yes")
    assert done.returncode == 0, done.stderr
    assert _set_aside(plain_folder)
