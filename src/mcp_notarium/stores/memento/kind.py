"""Declare Memento: its settings, what names an account, what the sandbox must allow.

Every start imports this module, so it imports what opens the file only when that is asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcp_notarium.config_variable import Kind, Trust, Variable
from mcp_notarium.stores.kind import AccountIdentity, StoreKind, StoreSettings, Truth

if TYPE_CHECKING:
    from mcp_notarium.stores.context import Access, StoreContext
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.memento.store import MementoStore

DATABASE, USER_ID = "MEMENTO_DATABASE", "MEMENTO_USER_ID"
PROPERTIES = frozenset({"pinned", "archived", "markdown"})
COLOR, DEFAULT_COLOR = "color", "default"
FIELDS = {
    COLOR: (
        *(DEFAULT_COLOR, "red", "orange", "yellow", "green"),
        *("teal", "blue", "purple", "pink", "gray"),
    ),
    "reminder": (),
    "isReminderDone": (),
    "reminderRecurrence": (),
    "reminderLocation": (),
}
"""Columns that are properties. The app's own tools set the colour, and only show the others."""

VARIABLES = (
    Variable(
        name=DATABASE,
        purpose="The SQLite file of the app, such as `/home/me/keep-notes/prisma/dev.db`.",
        kind=Kind.PATH,
        required=True,
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name=USER_ID,
        purpose="Id of a user of the app: only the notes of this user and of nobody are seen, and new ones "
        "belong to this user. It must be set if the app has several users.",
        kind=Kind.TEXT,
        trust=Trust.ENVIRONMENT,
    ),
)


def path_of(settings: StoreSettings) -> Path:
    """Return the path of the file, in a folder without symbolic links. The file itself may be no link, either."""
    path = Path(settings.text(DATABASE))
    return Path(os.path.realpath(path.parent), path.name)


def _identity(settings: StoreSettings) -> AccountIdentity:
    return AccountIdentity("memento", str(path_of(settings)), settings.text(USER_ID))


def _open(settings: StoreSettings, _context: StoreContext) -> Store:
    from mcp_notarium.stores.memento.store import MementoStore  # noqa: PLC0415 - see the top

    return MementoStore(path_of(settings), user_id=settings.text(USER_ID))


def _access(settings: StoreSettings) -> Access:
    """Allow the folder: SQLite keeps its journal next to the file, with the file's own mode."""
    from mcp_notarium.stores.context import Access  # noqa: PLC0415 - see the top

    return Access(write=(path_of(settings).parent,), attributes=True)


KIND = StoreKind(
    name="memento",
    title="Memento",
    place="in the file of Memento's app",
    truth=Truth.SHARED_FILE,
    variables=VARIABLES,
    identity=_identity,
    open=_open,
    access=_access,
    titles=True,
    adds_pictures=True,
    properties=PROPERTIES,
    fields=FIELDS,
    describe=lambda store: cast("MementoStore", store).describe(),
    native_toolset="memento",
    native=lambda store, index: cast("MementoStore", store).native(index),
)
