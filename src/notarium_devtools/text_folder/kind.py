"""Declare the text folder: its setting, what names an account, what the sandbox must allow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.stores.kind import AccountIdentity, Ids, StoreKind, StoreSettings, Truth

if TYPE_CHECKING:
    from mcp_notarium.stores.context import Access, StoreContext
    from mcp_notarium.stores.contract import Store

PATH = "TEXT_FOLDER_PATH"


def folder_of(settings: StoreSettings) -> Path:
    """Return the folder without symbolic links: two spellings of it are one account."""
    return Path(os.path.realpath(settings.text(PATH)))


def _identity(settings: StoreSettings) -> AccountIdentity:
    return AccountIdentity("text_folder", "", str(folder_of(settings)))


def _open(settings: StoreSettings, _context: StoreContext) -> Store:
    from notarium_devtools.text_folder.store import TextFolder  # noqa: PLC0415 - every start imports this

    return TextFolder(folder_of(settings))


def _access(settings: StoreSettings) -> Access:
    from mcp_notarium.stores.context import Access  # noqa: PLC0415 - every start imports this module

    return Access(write=(folder_of(settings),), attributes=True)


KIND = StoreKind(
    name="text_folder",
    title="the text folder",
    truth=Truth.SHARED_FILE,
    variables=(
        Variable(
            name=PATH,
            purpose="Folder of the notes, one `.txt` file each.",
            kind=Kind.PATH,
            required=True,
        ),
    ),
    identity=_identity,
    open=_open,
    access=_access,
    ids=Ids.NAMED,
)
