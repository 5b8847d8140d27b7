"""Declare the vault: its setting, what names an account, what the sandbox must allow.

Every start imports this module, so it imports what opens files only when that is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.domain.properties import PropertyPlace
from mcp_notarium.stores.kind import AccountIdentity, Ids, Place, StoreKind, StoreSettings, Truth
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.stores.context import Access, StoreContext
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.vault.store import VaultStore

PATH = "VAULT_PATH"
_OTHERS_WRITE = "Other users of this machine can write the folder of the vault, and so what agents read. To change that: {}"


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
    from mcp_notarium.stores.vault import app_vaults  # noqa: PLC0415 - only `setup` asks

    return app_vaults.find_places(environ)


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
