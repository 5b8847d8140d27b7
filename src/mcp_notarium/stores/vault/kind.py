"""Declare the vault: its setting, the vaults that apps know, what names an account, what the sandbox must permit.

Every start imports this module, so it imports what opens files only when that is asked for.

Of the vaults that apps know, only folders that are there are returned. A list that cannot be read is as good as none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.domain.note import PropertyPlace
from mcp_notarium.stores.kind import AccountIdentity, Ids, Place, StoreKind, StoreSettings, Truth
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.stores.context import Access, StoreContext
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.vault.store import VaultStore

PATH = "VAULT_PATH"
_OTHERS_WRITE = "Other users of this machine can write the folder of the vault, and so what agents read. To change that: {}"


_MOST_BYTES = 4 * 1024 * 1024
_LIST = "obsidian.json"
_GRAPH, _SUFFIX = "logseq_local_", ".transit"
_MOST_PLACES = 30


def folder_of(settings: StoreSettings) -> Path:
    """Return the folder without symbolic links: two spellings of it are one account."""
    return Path(os.path.realpath(settings.text(PATH)))


def _identity(settings: StoreSettings) -> AccountIdentity:
    return AccountIdentity("vault", "", str(folder_of(settings)))


def _open(settings: StoreSettings, context: StoreContext) -> Store:
    from mcp_notarium.stores.vault.store import VaultStore  # noqa: PLC0415 - every start imports this

    return VaultStore(folder_of(settings), context.memory)


def _access(settings: StoreSettings) -> Access:
    from mcp_notarium.stores.context import Access  # noqa: PLC0415 - every start imports this module

    return Access(write=(folder_of(settings),), attributes=True, watch=True)


def _notices(settings: StoreSettings) -> tuple[str, ...]:
    """Say that other users can write the folder: what they write is shown to agents as the user's notes."""
    folder = folder_of(settings)
    try:
        found = folder.stat()
        access = SYSTEM.access(folder, found)
    except OSError:
        return ()
    shared = access.others_change and not SYSTEM.is_group_private(folder, found)
    if not shared and access.owner != "other":
        return ()
    return (_OTHERS_WRITE.format(_command(folder, shared=shared)),)


def _command(folder: Path, *, shared: bool) -> str:
    from mcp_notarium.files.os_errors import display_path  # noqa: PLC0415 - every start imports this module

    quoted = display_path(folder)
    if shared:
        return SYSTEM.explain_privacy(folder, quoted, folder=True, reading=False)
    return SYSTEM.explain_ownership(folder, quoted)


def _takes_id(note_id: str) -> bool:
    from mcp_notarium.stores.vault.paths import split_path  # noqa: PLC0415 - every start imports this

    return split_path(note_id) is not None


def _places(environ: Mapping[str, str]) -> tuple[Place, ...]:

    return find_places(environ)


async def _describe(store: Store) -> str:
    return await cast("VaultStore", store).describe()


KIND = StoreKind(
    name="vault",
    title="the vault",
    place="in Markdown files (Obsidian ...)",
    places=_places,
    truth=Truth.SHARED_FILE,
    variables=(
        Variable(
            name=PATH,
            purpose="Folder of Markdown files: an Obsidian vault, a Logseq graph, any other.",
            kind=Kind.PATH,
            required=True,
        ),
    ),
    identity=_identity,
    open=_open,
    access=_access,
    ids=Ids.PATHS,
    titles=True,
    other_properties=PropertyPlace.IN_TEXT,
    trash=True,
    keeps_files=True,
    takes_id=_takes_id,
    describe=_describe,
    notices=_notices,
    native_toolset="vault",
    native=lambda store, index: cast("VaultStore", store).native(index),
)


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
    from mcp_notarium.files.private_files import open_regular  # noqa: PLC0415 - only `setup` asks

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
