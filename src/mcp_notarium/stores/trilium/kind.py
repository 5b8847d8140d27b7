"""Declare Trilium: its settings, what names an account, what it needs.

Every start imports this module, so it imports what talks to the server only when that is asked for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from mcp_notarium.config_variable import Kind, Trust, Variable
from mcp_notarium.domain.note import PropertyPlace
from mcp_notarium.stores.kind import AccountIdentity, Login, StoreKind, StoreSettings, Tree, Truth

if TYPE_CHECKING:
    from mcp_notarium.secret import Secret
    from mcp_notarium.stores.context import Access, LoginDialog, StoreContext
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.trilium.store import TriliumStore
    from mcp_notarium.stores.trilium.urls import Urls

URL, TOKEN, ALLOW_HTTP = "TRILIUM_URL", "TRILIUM_TOKEN", "TRILIUM_ALLOW_HTTP"
LOGIN_HINT = (
    "Run `mcp-notarium login` in a terminal, or make a token in Trilium "
    "(Options > ETAPI) and set TRILIUM_TOKEN in the client's configuration."
)

VARIABLES = (
    Variable(
        name=URL,
        purpose="Address of the Trilium server, as a browser shows it: `http://127.0.0.1:8080`.",
        kind=Kind.TEXT,
        required=True,
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name=TOKEN,
        purpose="ETAPI token (Options > ETAPI). Not needed after `mcp-notarium login`.",
        kind=Kind.TOKEN,
        has_file=True,
    ),
    Variable(
        name=ALLOW_HTTP,
        purpose="`on`: also plain http to a server of the local network, where others may read along.",
        kind=Kind.CHOICE,
        choices=("on", "off"),
        default="off",
        trust=Trust.ENVIRONMENT,
    ),
)


def urls_of(settings: StoreSettings) -> Urls:
    """Return the configured address. Raises ``ConfigError``."""
    from mcp_notarium.stores.trilium.urls import Urls  # noqa: PLC0415 - see the top

    return Urls.from_settings(settings.text(URL), plain_http=settings.text(ALLOW_HTTP) == "on")


def _identity(settings: StoreSettings) -> AccountIdentity:
    # Without an address it is nobody's account.
    address = urls_of(settings).endpoint() if settings.text(URL) else ""
    return AccountIdentity("trilium", address, "")


def _open(settings: StoreSettings, context: StoreContext) -> Store:
    from mcp_notarium.stores.trilium.store import TriliumStore  # noqa: PLC0415 - see the top

    return TriliumStore(
        urls=urls_of(settings),
        token=settings.secret(TOKEN),
        tokens=context.tokens,
        timeout=context.timeout,
    )


def _access(settings: StoreSettings) -> Access:
    from mcp_notarium.stores.context import network_access  # noqa: PLC0415 - see the top

    return network_access(urls_of(settings).port())


async def _log_in(settings: StoreSettings, seconds: float, dialog: LoginDialog) -> Secret:
    from mcp_notarium.stores.trilium import session  # noqa: PLC0415 - see the top

    return await session.log_in(settings, seconds, dialog)


KIND = StoreKind(
    name="trilium",
    title="Trilium",
    place="on your Trilium server",
    truth=Truth.REMOTE,
    variables=VARIABLES,
    identity=_identity,
    open=_open,
    access=_access,
    titles=True,
    tree=Tree.NOTES,
    keeps_files=True,
    other_properties=PropertyPlace.BESIDE,
    describe=lambda store: cast("TriliumStore", store).describe(now=time.time()),
    clock=lambda store: cast("TriliumStore", store).http.clock_difference,
    native_toolset="trilium",
    native=lambda store, index: cast("TriliumStore", store).native(index),
    login=Login(
        get_token=_log_in,
        variables=(TOKEN,),
        hint=LOGIN_HINT,
        unattended="In a script make a token in Trilium (Options > ETAPI), and name its file to `setup` by "
        "`--secret-file` (`TRILIUM_TOKEN` and the path).",
        logout="The token stays valid at the server. To end it, delete it in Trilium (Options > ETAPI).",
    ),
)
