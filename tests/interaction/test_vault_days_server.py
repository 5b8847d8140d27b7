"""Test notes of days with real, confined servers over a vault, several at once and killed in between."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.whole import Server, store_environment, until

pytestmark = pytest.mark.slow("each test starts servers of its own")
SERVERS = 3


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    settings = {"folder": "Daily", "format": "YYYY-MM-DD dddd", "template": "Day"}
    (vault / ".obsidian" / "daily-notes.json").write_text(json.dumps(settings))
    (vault / "Day.md").write_text("# {{title}}\n\n## Log\n")
    return vault


@pytest.fixture(name="env")
def _env(tmp_path: Path, vault: Path) -> dict[str, str]:
    return store_environment(tmp_path, "vault", VAULT_PATH=str(vault), TZ="Asia/Tokyo")


def test_a_confined_server_makes_todays_note_as_the_app_does(
    env: dict[str, str], vault: Path
) -> None:
    tokyo = [datetime.now(UTC) + timedelta(hours=9)]
    with Server(env) as server:
        server.loaded(1)
        assert server.error("get", id="daily:today")["category"] == "NOT_FOUND"
        saved = server.tool("save", id="daily:today", append="- milk")
        tokyo.append(datetime.now(UTC) + timedelta(hours=9))
        names = {f"{at:%Y-%m-%d %A}" for at in tokyo}  # midnight may have passed
        [path] = (vault / "Daily").iterdir()
        assert path.stem in names
        assert saved["id"] == f"Daily/{path.name}"
        assert path.read_text() == f"# {path.stem}\n\n## Log\n- milk\n"
        (vault / ".obsidian" / "daily-notes.json").write_text('{"folder": "Other"}')
        moved = server.tool("save", id="daily:2031-01-01", append="x")
        assert moved["id"] == "Other/2031-01-01.md"
        assert server.leave() == 0


def test_servers_that_save_at_once_make_one_note_and_lose_no_line(
    env: dict[str, str], vault: Path
) -> None:
    servers = [Server(env) for _ in range(SERVERS)]
    try:
        servers[0].loaded(1)
        for number in range(1, 6):
            answers: list[dict[str, object]] = []
            threads = [
                threading.Thread(
                    target=lambda s=server, w=which, n=number, a=answers: a.append(
                        s.result("save", id=f"daily:2031-02-0{n}", append=f"- server {w}")
                    )
                )
                for which, server in enumerate(servers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            [path] = [one for one in (vault / "Daily").iterdir() if f"02-0{number}" in one.name]
            text = path.read_text()
            assert text.count("## Log") == 1
            for answer in answers:
                assert not answer.get("isError"), answer
            assert sorted(text.split("## Log\n")[1].split()) == sorted(
                word for which in range(SERVERS) for word in ("-", "server", str(which))
            )
        for server in servers:
            assert server.leave() == 0
    finally:
        for server in servers:
            server.__exit__(None, None, None)


@pytest.mark.timeout(240)
def test_a_server_that_is_killed_makes_no_second_note_and_no_line_twice(
    env: dict[str, str], vault: Path
) -> None:
    confirmed: dict[int, bool] = {}
    for number in range(1, 13):
        server = Server(env)
        until(lambda server=server: "sync" not in server.tool("list"))

        def save(server: Server = server, number: int = number) -> None:
            with suppress(Exception):  # it is killed meanwhile
                answer = server.result("save", id=f"daily:2031-03-{number:02d}", append="- milk")
                confirmed[number] = not answer.get("isError")

        thread = threading.Thread(target=save)
        thread.start()
        time.sleep(0.004 * number)
        server.process.kill()
        thread.join()
        server.__exit__(None, None, None)
    with Server(env) as server:
        until(lambda: "sync" not in server.tool("list"))
        until(lambda: server.tool("manage", action="get_stats")["stats"].get("pending", 0) == 0)
        for number in range(1, 13):
            server.tool("save", id=f"daily:2031-03-{number:02d}", append="- bread")
            [path] = [one for one in (vault / "Daily").iterdir() if f"03-{number:02d}" in one.name]
            text = path.read_text()
            assert text.count("## Log") == text.count("bread") == 1
            assert text.count("milk") == 1 or (
                text.count("milk") == 0 and not confirmed.get(number)
            )
        assert server.leave() == 0
