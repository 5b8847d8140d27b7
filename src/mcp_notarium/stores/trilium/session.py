"""Send requests to one Trilium server with one token, name what its refusals mean, and make a token by a password.

The token is the configured one, else the stored one. A refused token is never tried as another account's:
there is one login to a server. Every request that changes something is sent at most as often as its caller
says that it may be repeated.

Each login makes a token that never ends and stands in Trilium's options until somebody deletes it there. So
there is one request and no second try: ten wrong passwords lock logins for a quarter of an hour.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any

from mcp_notarium.errors import (
    LoginRequired,
    NotariumError,
    OutcomeUnknown,
    RateLimited,
    StoreProtocolError,
    StoreRejected,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import LoginDialog, TokenStore
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.json_answers import parse_json, read_text
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.trilium import kind
from mcp_notarium.stores.trilium.kind import LOGIN_HINT, TOKEN

_REFUSED = 401
_BAD_REQUEST = 400
_NOT_FOUND = 404
_TOKEN = re.compile(rb"[\x21-\x7e]{1,4096}")
_MISSING = frozenset({"NOTE_NOT_FOUND"})
_NEW_TOKEN = (
    f"Put another token (Trilium: Options > ETAPI) into {TOKEN} in the client's configuration, or remove {TOKEN} there "
    "and run `mcp-notarium login` in a terminal."
)


class TriliumSession:
    """Send requests of one account."""

    def __init__(self, session: HttpSession, *, token: Secret | None, tokens: TokenStore) -> None:
        self._session = session
        self._configured = token or None
        self._tokens = tokens
        self._current: Secret | None = None

    async def send(self, request: Request) -> Reply:
        """Send a request and return the answer, whatever its status but 401.

        Raises ``LoginRequired`` if there is no token or it is refused, and what :meth:`HttpSession.send`
        raises; ``OutcomeUnknown`` for a write that an earlier try may have carried out.
        """
        token = self._current or self._read_token()
        reply = await self._send_with(token, request)
        if reply.status == _REFUSED:
            # Another process may have logged in since.
            token, refused = self._read_token(), token
            reply = reply if token == refused else await self._send_with(token, request)
        if reply.status == _REFUSED:
            self._current = None
            raise self._refusal("Trilium does not accept {}")
        self._current = token
        return reply

    async def close(self) -> None:
        """Close connections. Idempotent."""
        await self._session.close()

    async def _send_with(self, token: Secret, request: Request) -> Reply:
        # The form that every version knows: the oldest does not know "Bearer".
        headers = {**request.headers, "authorization": token.reveal_text()}
        reply = await self._session.send(replace(request, headers=headers))
        if reply.in_doubt and not reply.ok:
            raise OutcomeUnknown("the write was sent and no answer came back")
        return reply

    def _read_token(self) -> Secret:
        token = self._configured or self._stored_token()
        if token is None:
            raise login_required("there is no token for the Trilium server yet")
        if _TOKEN.fullmatch(token.reveal()) is None:
            raise self._refusal("{} has characters that no token has")
        return token

    def _refusal(self, words: str) -> LoginRequired:
        """Return the error for a token of no use; a configured one is used before that of a login."""
        if self._configured is None:
            return login_required(words.format("the token of the last login"))
        return LoginRequired(words.format(f"the token in {TOKEN}"), resolution_hint=_NEW_TOKEN)

    def _stored_token(self) -> Secret | None:
        try:
            return self._tokens.load() or None
        except NotariumError:
            return None


def login_required(message: str) -> LoginRequired:
    """Return the error for a token that is missing or refused, with the way out."""
    return LoginRequired(message, resolution_hint=LOGIN_HINT)


def is_missing(reply: Reply) -> bool:
    """Tell whether the note does not exist; an address that the server does not know is another 404."""
    return reply.status == _NOT_FOUND and read_text(reply.body, "code") in _MISSING


def date_of(reply: Reply) -> float | None:
    """Return the server's time of an answer, in epoch seconds; None if it does not say."""
    try:
        return parsedate_to_datetime(reply.headers["date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None


def value_of(reply: Reply) -> Any:
    """Return the JSON of a good answer. Raises ``StoreProtocolError``."""
    if not reply.ok:
        raise StoreProtocolError(f"Trilium answered with status {reply.status}")
    return parse_json(reply.body)


def refusal_of(reply: Reply) -> NotariumError:
    """Return the error for a write that was refused."""
    if read_text(reply.body, "code") == "NOTE_IS_PROTECTED":
        return protected_error()
    if reply.status == _BAD_REQUEST:
        return StoreRejected("Trilium refuses the note in this form")
    return StoreProtocolError(f"Trilium answered a write with status {reply.status}")


def protected_error() -> StoreRejected:
    """Return the error for a change of a note that is encrypted by Trilium."""
    return StoreRejected(
        "the note is protected in Trilium and cannot be changed from here",
        resolution_hint="Ask the user to change it in Trilium.",
    )


TOKEN_NAME = "MCP Notarium"  # noqa: S105 - the name of a token
_LARGEST = 64 * 1024


async def log_in(settings: StoreSettings, seconds: float, dialog: LoginDialog) -> Secret:
    """Return the token that the password gives. Raises ``LoginRequired`` or what a request raises."""
    urls = kind.urls_of(settings)
    password = dialog.ask_secret("Password of the Trilium server: ")
    session = HttpSession(bases=[urls.base], timeout=seconds, plain_http=urls.plain_http)
    body = json.dumps({"password": password.reveal_text(), "tokenName": TOKEN_NAME}).encode()
    request = Request(
        "POST",
        urls.api("auth", "login"),
        headers={"content-type": "application/json"},
        body=body,
        tries=1,
        largest=_LARGEST,
    )
    try:
        reply = await session.send(request)
    except RateLimited as error:
        raise RateLimited(
            "Trilium takes no logins for a while: there were too many wrong passwords",
            retry_after=error.retry_after,
        ) from None
    finally:
        await session.close()
    if reply.status == _REFUSED:
        raise LoginRequired(
            "Trilium does not accept this password.",
            resolution_hint="Run `mcp-notarium login` again. If the server has no password (a desktop, "
            "or single sign-on), make a token in Trilium (Options > ETAPI) and set TRILIUM_TOKEN.",
        )
    if not reply.ok:
        raise StoreProtocolError(f"Trilium answered a login with status {reply.status}")
    token = read_text(reply.body, "authToken")
    if not token.isascii() or not token:
        raise StoreProtocolError("Trilium answered a login without a token")
    return Secret(token)
