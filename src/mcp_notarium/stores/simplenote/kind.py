"""Declare Simplenote: its settings, what names an account, what it needs.

Every start imports this module, so it imports what talks to the service only when that is asked for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import quote, urlencode, urlsplit

from mcp_notarium.config_variable import Kind, Trust, Variable
from mcp_notarium.secret import Secret
from mcp_notarium.stores.kind import (
    AccountIdentity,
    Login,
    StoreKind,
    StoreSettings,
    Truth,
    is_plain_id,
)

if TYPE_CHECKING:
    from mcp_notarium.domain.exported_note import DocumentFormat
    from mcp_notarium.stores.context import Access, LoginDialog, StoreContext
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.simplenote.store import SimplenoteStore

USERNAME, PASSWORD, TOKEN = "SIMPLENOTE_USERNAME", "SIMPLENOTE_PASSWORD", "SIMPLENOTE_TOKEN"
REQUEST_SOURCE, API_KEY = "SIMPLENOTE_REQUEST_SOURCE", "SIMPERIUM_API_KEY"
API_URL, AUTH_URL, APP_URL = "SIMPERIUM_API_URL", "SIMPERIUM_AUTH_URL", "SIMPLENOTE_APP_URL"
PROPERTIES = frozenset({"pinned", "markdown"})
"""Those of ``systemTags`` that a person sets; all others stay as they are."""
FIELDS: dict[str, tuple[str, ...]] = {"published": ()}
"""Rest of ``systemTags`` that is shown: that the note is on a page that everybody can read, which only the app decides."""
LOGIN_HINT = (
    "Run `mcp-notarium login` in a terminal, or set "
    "SIMPLENOTE_PASSWORD or SIMPLENOTE_TOKEN in the client's configuration."
)
_API_KEY = "e2f0978acfea407aa23fdf557478d3f2"
"""The application key of the Simplenote applications; it identifies the program, not a person."""

VARIABLES = (
    Variable(
        name=USERNAME,
        purpose="E-mail address of the Simplenote account.",
        kind=Kind.EMAIL,
        required=True,
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name=PASSWORD,
        purpose="Password of the account. Not needed after `mcp-notarium login`.",
        kind=Kind.SECRET,
        has_file=True,
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name=TOKEN,
        purpose="Access token of the account, instead of a password.",
        kind=Kind.TOKEN,
        has_file=True,
        trust=Trust.WORKING_FOLDER,
        # A token opens its own account whatever the username says: a repository's `.env` could
        # lead somebody's new notes into a stranger's account.
        bound_to=USERNAME,
    ),
    Variable(
        name=REQUEST_SOURCE,
        purpose="Program name sent to Simplenote when it e-mails a login code.",
        kind=Kind.NAME,
        default="mcp-notarium",
    ),
    Variable(
        name=API_URL,
        purpose="Address of the note store. https, or plain http on this machine.",
        kind=Kind.URL,
        default="https://api.simperium.com/1",
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name=AUTH_URL,
        purpose="Address that passwords are sent to. https, or plain http on this machine.",
        kind=Kind.URL,
        default="https://auth.simperium.com/1",
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name=APP_URL,
        purpose="Address that sends login codes. https, or plain http on this machine.",
        kind=Kind.URL,
        default="https://app.simplenote.com",
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name=API_KEY,
        purpose="Application key sent with a password login.",
        kind=Kind.TOKEN,
        default=_API_KEY,
        trust=Trust.ENVIRONMENT,
    ),
)


APP_ID = "chalk-bump-f49"
"""Simplenote's public name at Simperium; every client sends it."""

LONGEST_ID = 256
_HTTP, _HTTPS = 80, 443
NOTES = "note"
"""The bucket of notes."""


def urls_of(settings: StoreSettings) -> Urls:
    """Return the configured addresses."""
    return Urls.from_settings(
        api=settings.text(API_URL), auth=settings.text(AUTH_URL), app=settings.text(APP_URL)
    )


def normalise_username(username: str) -> str:
    """Return the name without outer spaces, in lower case, in Unicode form NFC."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", username.strip()).casefold())


def _identity(settings: StoreSettings) -> AccountIdentity:
    name = normalise_username(settings.text(USERNAME))
    return AccountIdentity("simplenote", urls_of(settings).endpoint(), name)


def _open(settings: StoreSettings, context: StoreContext) -> Store:
    from mcp_notarium.stores.simplenote.store import SimplenoteStore  # noqa: PLC0415 - see the top

    return SimplenoteStore(
        urls=urls_of(settings),
        username=settings.text(USERNAME),
        password=settings.secret(PASSWORD),
        token=settings.secret(TOKEN),
        tokens=context.tokens,
        record=context.record,
        api_key=settings.secret(API_KEY) or Secret(""),
        client_id=context.client_id,
        timeout=context.timeout,
    )


def _access(settings: StoreSettings) -> Access:
    from mcp_notarium.stores.context import network_access  # noqa: PLC0415 - see the top

    return network_access(*urls_of(settings).ports())


async def _log_in(settings: StoreSettings, seconds: float, dialog: LoginDialog) -> Secret:
    from mcp_notarium.stores.simplenote import login  # noqa: PLC0415 - see the top

    return await login.log_in(settings, seconds, dialog)


def _export_format() -> DocumentFormat:
    from mcp_notarium.stores.simplenote.export_file import FORMAT  # noqa: PLC0415 - see the top

    return FORMAT


KIND = StoreKind(
    name="simplenote",
    title="Simplenote",
    place="at Simplenote, in your account",
    truth=Truth.REMOTE,
    variables=VARIABLES,
    identity=_identity,
    open=_open,
    access=_access,
    trash=True,
    properties=PROPERTIES,
    fields=FIELDS,
    takes_id=is_plain_id,
    export_format=_export_format,
    clock=lambda store: cast("SimplenoteStore", store).http.clock_difference,
    login=Login(
        get_token=_log_in,
        variables=(PASSWORD, TOKEN),
        hint=LOGIN_HINT,
        unattended="In a script give `--code-stdin` and the code of the e-mail on standard input.",
        logout="Simplenote cannot end a single login. Change the account's password to end all of them.",
    ),
)


@dataclass(frozen=True, slots=True)
class Urls:
    """Hold the three hosts: for notes, for passwords, for codes by e-mail."""

    api: str = "https://api.simperium.com/1"
    auth: str = "https://auth.simperium.com/1"
    app: str = "https://app.simplenote.com"
    app_id: str = APP_ID

    @classmethod
    def from_settings(cls, *, api: str, auth: str, app: str) -> Self:
        """Make URLs from settings: a Simperium host named without a path means its version 1."""
        return cls(api=_add_version(api), auth=_add_version(auth), app=app)

    def all(self) -> tuple[str, str, str]:
        """Return every base URL, for the list of hosts that may be contacted."""
        return self.api, self.auth, self.app

    def endpoint(self) -> str:
        """Return the address of the notes in one form: host in lower case, the port always named."""
        parts = urlsplit(self.api)
        return f"{parts.scheme}://{parts.hostname}:{_port(self.api)}{parts.path.rstrip('/')}"

    def ports(self) -> tuple[int, ...]:
        """Return the ports of all addresses."""
        return tuple(map(_port, self.all()))

    def authorize(self) -> str:
        """Return the URL that turns a password into a token. The slash at the end belongs to it."""
        return f"{self.auth.rstrip('/')}/{self.app_id}/authorize/"

    def account(self, verb: str) -> str:
        """Return the URL for requesting or sending a code."""
        return f"{self.app.rstrip('/')}/account/{verb}"

    def bucket(self, bucket: str, verb: str, query: Mapping[str, str]) -> str:
        """Return the URL of ``index`` or ``changes`` of a bucket."""
        return f"{self._base(bucket)}/{verb}{_query(query)}"

    def item(
        self, bucket: str, item_id: str, *, version: int | None, query: Mapping[str, str]
    ) -> str:
        """Return the URL of one object, or of one version of it."""
        path = f"{self._base(bucket)}/i/{quote(item_id, safe='')}"
        return f"{path}{'' if version is None else f'/v/{version}'}{_query(query)}"

    def _base(self, bucket: str) -> str:
        return f"{self.api.rstrip('/')}/{self.app_id}/{bucket}"


def is_possible_id(item_id: str) -> bool:
    """Tell whether the service can have an object of this id at all.

    Ids of dots alone are left out: in a path they would mean another resource.
    """
    try:
        length = len(item_id.encode())
    except UnicodeEncodeError:
        return False
    return 0 < length <= LONGEST_ID and item_id.strip(".") != ""


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (_HTTP if parts.scheme == "http" else _HTTPS)


def _add_version(base: str) -> str:
    return base if urlsplit(base).path.strip("/") else f"{base.rstrip('/')}/1"


def _query(query: Mapping[str, str]) -> str:
    return f"?{urlencode(query)}" if query else ""
