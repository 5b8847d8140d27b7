"""Declare the local notebook: its settings and what names an account. It needs no login and no network."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.crypto.account_identity import AccountIdentity
from mcp_notarium.stores.kind import StoreKind, StoreSettings, Truth, is_plain_id
from mcp_notarium.stores.local.tables import TABLES

if TYPE_CHECKING:
    from mcp_notarium.stores.context import Access, StoreContext
    from mcp_notarium.stores.contract import Store

NOTEBOOK, COPIES = "LOCAL_NOTEBOOK", "LOCAL_COPIES"


def _identity(settings: StoreSettings) -> AccountIdentity:
    name = unicodedata.normalize("NFC", settings.text(NOTEBOOK).strip())
    return AccountIdentity("local", "", name)


def _open(_settings: StoreSettings, context: StoreContext) -> Store:
    from mcp_notarium.stores.local.store import LocalStore  # noqa: PLC0415 - every start imports this

    return LocalStore(context.database)


def _access(_settings: StoreSettings) -> Access:
    from mcp_notarium.stores.context import Access  # noqa: PLC0415 - every start imports this module

    return Access()


KIND = StoreKind(
    name="local",
    title="the local notebook",
    place="here, in an encrypted notebook",
    truth=Truth.LOCAL,
    variables=(
        Variable(
            name=NOTEBOOK,
            purpose="Name of the notebook. Another name is another notebook.",
            kind=Kind.TEXT,
            default="notebook",
        ),
        Variable(
            name=COPIES,
            purpose="How many verified copies of the notebook are kept. One is made when a server stops "
            "after changes, or after the next start; `mcp-notarium restore` puts one back.",
            kind=Kind.COUNT,
            default="5",
            maximum=100,
        ),
    ),
    identity=_identity,
    open=_open,
    access=_access,
    tables=TABLES,
    titles=True,
    trash=True,
    properties=frozenset({"pinned"}),
    takes_id=is_plain_id,
    native_toolset="plain_notes_{names}",
    copies=lambda settings: int(settings.text(COPIES)),
)
