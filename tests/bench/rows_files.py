"""Measure pictures and files: what showing a photo costs, and what files add to the first index of a vault."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from bench import corpus
from bench.measure import Figure, in_turn
from bench.processes import CONSOLE, DEADLINE, Speaker, WrongAnswer, surroundings
from bench.site import Site
from support.sample_files import photo, picture

FILES = 2000
_PHOTO = (4000, 3000)
"""Twelve megapixels."""


def files(site: Site) -> Iterator[Figure]:
    """Rows of a vault with as many notes, with and without files beside them."""
    bare, filled = (_vault(site, name, files) for name, files in (("bare", 0), ("filled", FILES)))
    for name, turned in (("first photo", False), ("another photo", True)):
        (filled / f"{name}.jpg").write_bytes(photo(_PHOTO, turned=turned))
    vaults = {"bare": bare, "filled": filled}
    taken = in_turn(
        [
            {name: partial(_load, site, vault, f"{name}{number}") for name, vault in vaults.items()}
            for number in range(2 * site.pace.syncs)
        ]
    )
    floors = {"no files": taken["bare"].median}
    yield Figure(
        "files",
        f"first index, {FILES:,} files",
        site.count,
        "s",
        taken["filled"].median,
        floors=floors,
    )
    with Speaker(CONSOLE, _settings(site, filled, "filled0")) as server:
        server.greet()
        server.tool("list", limit=1)
        server.tool("get", id=_name(0))
        if _decoders_in(server):
            raise WrongAnswer("a decoder is loaded though nobody has asked for a file")
        for row in ("first photo", "another photo"):
            used = server.cpu_ever(children=True)
            with _watched(server) as peak:
                answer = server.call("get", id=f"{row}.jpg")
            if not any(block["type"] == "image" for block in answer["content"]):
                raise WrongAnswer("no picture came")
            yield Figure(
                "files",
                f"{row}: processor time",
                site.count,
                "s",
                server.cpu_ever(children=True) - used,
            )
            yield Figure("files", f"{row}: memory of the copy", site.count, "MB", max(peak))
        yield Figure("files", "memory after two photos", site.count, "MB", server.memory())


def _vault(site: Site, name: str, files: int) -> Path:
    vault = site.folder / f"vault-{name}"
    for number, (_, fields) in enumerate(corpus.notes(site.count)):
        note = vault / _name(number)
        note.parent.mkdir(parents=True, exist_ok=True)
        shown = f"\n![[{number % FILES}.png]]\n" if files else "\n![[nothing.png]]\n"
        note.write_text(fields["content"] + shown)
    small = picture()
    for number in range(files):
        file = vault / "attachments" / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(small)
    return vault


def _name(number: int) -> str:
    return f"{number % 20:02}/{number}.md"


def _settings(site: Site, vault: Path, data: str) -> dict[str, str]:
    return surroundings(
        HOME=str(site.folder),
        NOTARIUM_STORE="vault",
        VAULT_PATH=str(vault),
        NOTARIUM_DATA_DIR=str(site.folder / f"data-{data}"),
        NOTARIUM_KEYCHAIN="off",
        DB_ENCRYPTION_KEY="raw:" + "5a" * 32,
        LOG_LEVEL="error",
    )


def _load(site: Site, vault: Path, data: str) -> None:
    """Launch, and wait until every note is listed."""
    with Speaker(CONSOLE, _settings(site, vault, data)) as server:
        server.greet()
        deadline = time.monotonic() + DEADLINE
        while server.tool("list", limit=1).get("total_items") != site.count:
            if time.monotonic() > deadline:
                raise WrongAnswer("the vault is never indexed")
            time.sleep(0.01)


def _decoders_in(server: Speaker) -> bool:
    return "/PIL/" in server.read_proc("maps")


@contextmanager
def _watched(server: Speaker) -> Iterator[list[float]]:
    """Watch how much memory the children of a server take, in MB, at most."""
    peaks, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.001):
            for child in server.children():
                with suppress(OSError, IndexError):
                    status = Path(f"/proc/{child}/status").read_text()
                    peaks.append(int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()
