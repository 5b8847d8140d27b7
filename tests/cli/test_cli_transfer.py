"""A person moves notes between accounts by whole processes, also when one of them is killed in the middle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from notarium_devtools.simperium import Simulator
from support.whole import Server, environment, run, start, until

COUNT = 12


def fields(number: int) -> dict[str, Any]:
    return {
        "id": f"note-{number}",
        "created": "2020-01-02T03:04:05.250000+00:00",
        "modified": f"2021-01-02T03:04:{number:02}+00:00",
        "tags": ["work", "x@example.org"] if number == 1 else ["work"],
        "text": f"{number}\r\nü\n",
        **({"trash": True} if number == 2 else {}),
        **({"pinned": True} if number == 3 else {}),
    }


def output(env: dict[str, str], *arguments: str) -> dict[str, Any]:
    done = run(env, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exported(env: dict[str, str], path: Path) -> list[dict[str, Any]]:
    output(env, "export", str(path))
    notes: list[dict[str, Any]] = json.loads(path.read_text())["notes"]
    return sorted(notes, key=lambda note: note["modified"])


@pytest.mark.slow("ten processes, one after another")
def test_notes_go_from_a_notebook_to_the_service_and_back_and_none_is_imported_twice(
    tmp_path: Path,
) -> None:
    notes = [fields(number) for number in range(COUNT)]
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"version": 1, "notes": notes}))
    simulator = Simulator()
    with simulator.running():
        service = environment(simulator, tmp_path)
        local = service | {"NOTARIUM_STORE": "local"}
        assert output(local, "import", str(given), "--dry-run")["new"] == COUNT
        refused = run(local, "import", str(given))
        assert (refused.returncode, refused.stdout) == (1, "")
        assert output(local, "import", str(given), "--yes")["imported"] == COUNT
        assert output(local, "import", str(given), "--dry-run")["there"] == COUNT
        assert exported(local, tmp_path / "out.json") == notes
        output(local, "export", str(tmp_path / "out.zip"))

        simulator.latency = 0.02
        killed = start(service, "import", str(tmp_path / "out.zip"), "--yes")
        until(lambda: len(simulator.notes()) >= COUNT // 3)
        killed.kill()
        killed.wait(30)
        for pipe in (killed.stdin, killed.stdout, killed.stderr):
            pipe.close()
        simulator.latency = 0.0
        again = run(service, "import", str(tmp_path / "out.zip"), "--yes")
        assert again.returncode == 0, again.stderr
        assert "e-mail address as a tag" in again.stderr
        assert len(simulator.notes()) == COUNT
        assert simulator.note("note-3")["systemTags"] == ["pinned"]
        assert simulator.note("note-3")["creationDate"] == 1577934245.25
        notes[1]["tags"] = ["work"]
        assert exported(service, tmp_path / "back.json") == notes
        output(service, "export", str(tmp_path / "folder"))
    other = local | {"LOCAL_NOTEBOOK": "other"}
    assert output(other, "import", str(tmp_path / "folder"), "--yes")["imported"] == COUNT
    assert exported(other, tmp_path / "other.json") == notes
    read_only = run(other | {"NOTARIUM_READ_ONLY": "1"}, "import", str(given), "--yes")
    assert read_only.returncode == 1
    assert "can only be read" in read_only.stderr
    acts = run(other, "audit", "tail").stdout
    assert "cli.import " in acts
    assert "cli.export " in acts
    with Server(other) as server:
        assert server.tool("list", limit=1)["total_items"] == COUNT - 1
        assert server.leave() == 0
