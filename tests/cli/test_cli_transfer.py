"""A person moves notes between accounts by whole processes, also when one of them is killed in the middle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from support.sample_files import pdf, picture
from support.services import running
from support.whole import Server, environment, run, start, store_environment, until

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
        output(local, "export", "~/out.zip")  # as cmd and an older PowerShell give it

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


@pytest.mark.slow("six processes, one after another")
def test_a_person_reads_before_an_import_what_becomes_of_folders_tags_dates_and_titles(
    tmp_path: Path,
) -> None:
    vault = tmp_path / "vault"
    (vault / "Work" / "2024").mkdir(parents=True)
    (vault / "Work" / "2024" / "Plan.md").write_text("plan")
    place = store_environment(tmp_path, "vault", VAULT_PATH=str(vault))
    local = store_environment(tmp_path, "local")
    output(place, "export", str(tmp_path / "out"))
    assert (tmp_path / "out" / "Work" / "2024" / "Plan.md").is_file()
    told = run(local, "import", str(tmp_path / "out"), "--dry-run").stderr
    assert "1 note: the folder becomes a tag" in told
    given = tmp_path / "given.json"
    notes = [
        {"id": "n-01", "text": "x", "title": "???", "tags": [" a,b", "#c", ""]},
        {"id": "n-02", "text": "y", "title": "Plan", "created": "2020-01-01"},
        {"id": "n-03", "text": "z", "title": "Plan", "created": "2021-01-01"},
    ]
    given.write_text(json.dumps({"version": 1, "notes": notes}))
    told = run(local, "import", str(given), "--dry-run").stderr
    assert "1 note: tags in another form: no blanks around them" in told
    assert '1 note: no date in the export: the date of its file ("???")' in told
    told = run(place, "import", str(given), "--dry-run").stderr
    assert '("???" becomes "x", "Plan" becomes "Plan 2")' in told
    assert output(place, "import", str(given), "--yes")["titles"] == [
        ["n-01", "x"],
        ["n-03", "Plan 2"],
    ]
    assert (vault / "x.md").is_file()
    assert "  - b\n  - c\n" in (vault / "x.md").read_text()


@pytest.mark.slow("a dozen processes, one after another")
def test_files_go_with_the_notes_through_a_rotated_notebook_its_backup_and_trilium(
    tmp_path: Path,
) -> None:
    vault, back = tmp_path / "vault", tmp_path / "back"
    back.mkdir()
    shown = {"assets/plan.png": picture(), "assets/a paper.pdf": pdf(["a page"])}
    for path, data in shown.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_bytes(data)
    (vault / "Trip.md").write_text("![[plan.png]] [paper](assets/a%20paper.pdf)\n")
    size = sum(map(len, shown.values()))
    place = store_environment(tmp_path, "vault", VAULT_PATH=str(vault))
    local = store_environment(tmp_path, "local")
    left = output(place, "export", str(tmp_path / "app.zip"))["files_left_out"]
    assert [one[1:] for one in left] == [
        [path, "a simplenote export has no files"] for path in shown
    ]
    facts = output(place, "export", str(tmp_path / "out"))
    assert (facts["files"], facts["file_bytes"], facts["files_left_out"]) == (2, size, [])
    told = run(local, "import", str(tmp_path / "out"), "--dry-run")
    assert "2 files (0.0 MB) come along." in told.stderr
    assert not list((tmp_path / "data").rglob("*.png"))
    done = output(local, "import", str(tmp_path / "out"), "--yes")
    assert (done["files"], done["file_bytes"], done["files_imported"]) == (2, size, 2)
    assert run(local, "rotate-key", "--reencrypt").returncode == 0
    assert run(local, "backup", str(tmp_path / "notes.backup")).returncode == 0
    other = local | {"NOTARIUM_DATA_DIR": str(tmp_path / "elsewhere")}
    restored = run(other, "restore", "--backup", str(tmp_path / "notes.backup"), "--yes")
    assert restored.returncode == 0, restored.stderr
    assert output(other, "export", str(tmp_path / "out.json"))["path"] == str(tmp_path / "out.zip")
    here = store_environment(tmp_path, "vault", VAULT_PATH=str(back))
    service = TriliumSimulator()
    with running(service):
        trilium = store_environment(
            tmp_path, "trilium", TRILIUM_URL=service.url, TRILIUM_TOKEN=service.token
        )
        for env, given in ((trilium, "out.zip"), (here, "trilium")):
            assert output(env, "import", str(tmp_path / given), "--yes")["files_imported"] == 2
            again = output(env, "import", str(tmp_path / given), "--yes")
            assert (again["new"], again["there"], again["files"]) == (0, 1, 0)
            if env is trilium:
                assert output(env, "export", str(tmp_path / "trilium"))["files"] == 2
                service.faults.status(404, path="/etapi/notes/*/attachments", times=1)
                unasked = run(env, "export", str(tmp_path / "unasked"))
                assert unasked.returncode == 1
                assert "1 note may have files that no text shows" in unasked.stdout
    assert (back / "Trip.md").read_text() == "![](plan.png) [paper](a%20paper.pdf)"
    assert {one.name: one.read_bytes() for one in back.rglob("*.p*")} == {
        Path(path).name: data for path, data in shown.items()
    }
    with Server(here) as server:
        rows = server.tool("get", id="Trip.md")["files"]
        assert sorted(row["size"] for row in rows) == sorted(map(len, shown.values()))
        assert server.leave() == 0


@pytest.mark.slow("three processes, one of which tries again for a while")
def test_an_import_without_an_answer_ends_with_one_advice(tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"version": 1, "notes": [fields(0)]}))
    simulator = Simulator()
    with simulator.running():
        service = environment(simulator, tmp_path)
        simulator.faults.cut_after(method="POST", path="*/note-0*", times=99)
        cut = run(service, "import", str(given), "--yes")
        assert cut.returncode == 1
        assert "Run the same command again" in cut.stderr
        assert "Do not repeat" not in cut.stderr
        simulator.faults.clear()
        assert output(service, "import", str(given), "--yes")["there"] == 1
        assert len(simulator.notes()) == 1
