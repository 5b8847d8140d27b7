"""Declare Jotter: its settings, its login, what names an account, what the sandbox must allow.

Every start imports this module, so it imports what talks to the service only when that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mcp_notarium.config_variable import Kind, Trust, Variable
from mcp_notarium.stores.kind import AccountIdentity, Login, StoreKind, StoreSettings, Tree, Truth

if TYPE_CHECKING:
    from mcp_notarium.secret import Secret
    from mcp_notarium.stores.context import Access, LoginDialog, StoreContext
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.http_rules import Origin
    from notarium_devtools.jotter.store import Jotter

URL, TOKEN = "JOTTER_URL", "JOTTER_TOKEN"
TODO, DONE = "todo", "done"
FIELDS = {TODO: ("none", "open", DONE)}


def _origin(settings: StoreSettings) -> Origin:
    """Return scheme, host and port of the server. Raises ``ConfigError``."""
    from mcp_notarium.stores.http_rules import usable_origin  # noqa: PLC0415 - see the top

    return usable_origin(settings.text(URL))


def _identity(settings: StoreSettings) -> AccountIdentity:
    # Without an address it is nobody's account.
    address = "{}://{}:{}".format(*_origin(settings)) if settings.text(URL) else ""
    return AccountIdentity("jotter", address, "")


def _open(settings: StoreSettings, context: StoreContext) -> Store:
    from notarium_devtools.jotter.store import Jotter  # noqa: PLC0415 - see the top

    def token() -> Secret | None:
        return settings.secret(TOKEN) or context.tokens.load()

    return Jotter(settings.text(URL), token, timeout=context.timeout)


def _access(settings: StoreSettings) -> Access:
    from mcp_notarium.stores.context import network_access  # noqa: PLC0415 - see the top

    return network_access(_origin(settings)[2])


async def _get_token(settings: StoreSettings, seconds: float, dialog: LoginDialog) -> Secret:
    from notarium_devtools.jotter.store import Jotter  # noqa: PLC0415 - see the top

    token = dialog.ask_secret("Token of the Jotter server: ")
    store = Jotter(settings.text(URL), lambda: token, timeout=seconds)
    try:
        await store.list_page(since=None, mark=None, limit=1, with_content=False)
    finally:
        await store.close()
    return token


def _clock(store: Store) -> float | None:
    from notarium_devtools.jotter.store import Jotter  # noqa: PLC0415 - see the top

    return store.http.clock_difference if isinstance(store, Jotter) else None


KIND = StoreKind(
    name="jotter",
    title="Jotter",
    truth=Truth.REMOTE,
    variables=(
        Variable(
            name=URL,
            purpose="Address of the Jotter server.",
            kind=Kind.URL,
            required=True,
            trust=Trust.ENVIRONMENT,
        ),
        Variable(
            name=TOKEN,
            purpose="Token of the server. Not needed after `mcp-notarium login`.",
            kind=Kind.SECRET,
            has_file=True,
        ),
    ),
    identity=_identity,
    open=_open,
    access=_access,
    titles=True,
    trash=True,
    fields=FIELDS,
    tree=Tree.FOLDERS,
    native=lambda store, index: cast("Jotter", store).native(index),
    login=Login(
        get_token=_get_token,
        variables=(TOKEN,),
        hint=f"Run `mcp-notarium login` in a terminal, or set {TOKEN}.",
        unattended=f"Set {TOKEN}.",
        logout="The token stays valid at the server.",
    ),
    clock=_clock,
)
