"""Find the vaults that Obsidian knows and the graphs that Logseq knows, as their apps list them for this user.

Only folders that are there are returned. A list that cannot be read is as good as none. Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from mcp_notarium.files.private_files import open_regular
from mcp_notarium.stores.kind import Place
from mcp_notarium.system import SYSTEM

_MOST_BYTES = 4 * 1024 * 1024
_LIST = "obsidian.json"
_GRAPH, _SUFFIX = "logseq_local_", ".transit"
_MOST_PLACES = 30


def find_places(environ: Mapping[str, str]) -> tuple[Place, ...]:
    """Return the places, those that were opened last first, each once."""
    found: dict[Path, Place] = {}
    for one in (*_vaults(environ), *_graphs()):
        with suppress(OSError, ValueError):
            path = Path(one.path)
            if path.is_absolute() and path.is_dir():
                found.setdefault(path.resolve(), one)
    return tuple(found.values())[:_MOST_PLACES]


def _vaults(environ: Mapping[str, str]) -> Iterator[Place]:
    for folder in _obsidian_folders(environ):
        yield from _read_list(folder / _LIST)


def _read_list(path: Path) -> list[Place]:
    """Return the vaults of a list: ``{"vaults": {ID: {"path": ..., "ts": milliseconds, "open": true}}}``."""
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        with open_regular(path, follow=True) as file:
            rows = list(json.loads(file.read(_MOST_BYTES))["vaults"].values())
        rows = [one for one in rows if isinstance(one.get("path"), str)]
        rows.sort(
            key=lambda one: (one.get("open") is True, float(one.get("ts") or 0)), reverse=True
        )
        return [Place(one["path"], _name(one["path"]), "Obsidian") for one in rows]
    return []


def _obsidian_folders(environ: Mapping[str, str]) -> list[Path]:
    home = Path.home()
    return [
        SYSTEM.app_folder(environ) / "obsidian",
        home / ".var/app/md.obsidian.Obsidian/config/obsidian",
        home / "snap/obsidian/current/.config/obsidian",
    ]


def _graphs() -> Iterator[Place]:
    """Yield Logseq's graphs of files: the name of each cache is the path of the graph."""
    with suppress(OSError):
        caches = list((Path.home() / ".logseq/graphs").glob(f"{_GRAPH}*{_SUFFIX}"))
        for one in sorted(caches, key=lambda path: path.stat().st_mtime, reverse=True):
            written = one.name.removeprefix(_GRAPH).removesuffix(_SUFFIX)
            path = written.replace("+3A+", ":").replace("++", "/")
            yield Place(path, _name(path), "Logseq")


def _name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
