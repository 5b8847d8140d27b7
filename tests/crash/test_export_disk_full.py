"""An export ends with a message while a server runs whose disk is full: nobody can store that a cycle has ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.needs import lacking
from support.small_disk import SmallDisk
from support.whole import Server, start, store_environment


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "disk", "12m")
    if not made.mounted:
        lacking("only root may mount a disk")
    yield made
    made.unmount()


@pytest.mark.slow("a server and an export on a full disk")
def test_an_export_beside_a_server_ends_with_a_message(tmp_path: Path, disk: SmallDisk) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "first.md").write_text("first")
    data = str(disk.folder / "data")
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(vault), NOTARIUM_DATA_DIR=data)
    with Server(env) as server:
        assert server.tool("list", limit=1)["total_items"] == 1
        server.process.send_signal(signal.SIGSTOP)  # before it looks at the request
        export = start(env, "export", str(tmp_path / "out.json"))
        time.sleep(3)  # it has requested a cycle, and waits
        assert export.poll() is None
        for number in range(20):
            (vault / f"{number}.md").write_text(f"word {number} " * 5000)
        filler = disk.fill()
        server.process.send_signal(signal.SIGCONT)
        try:
            assert export.wait(30) == 1
            said = export.stderr.read().decode()
        finally:
            export.kill()
            for pipe in (export.stdin, export.stdout, export.stderr):
                pipe.close()
        assert "the disk is full" in said
        assert not (tmp_path / "out.json").exists()
        filler.unlink()
        server.leave()
