"""Get a token from Simplenote: by password, or by a code sent by e-mail.

Each login is one request without a second try: a wrong password or code sent again locks the account
for a while. The service's refusals become a ``LoginRequired`` that says in the user's words what is
wrong; its own texts are compared with a fixed list and never quoted. This module keeps no token; see
``session``.
"""

from __future__ import annotations

import json
import re
from typing import Self

from mcp_notarium.errors import (
    ConfigError,
    InvalidRequest,
    LoginRequired,
    NotariumError,
    OtherAccount,
    RateLimited,
    StoreProtocolError,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import LoginDialog
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.json_answers import read_text
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.simplenote import kind
from mcp_notarium.stores.simplenote.kind import Urls

_LARGEST = 64 * 1024
_HEADER_VALUE = re.compile(rb"[\x21-\x7e]{1,4096}")
_CODE = re.compile(r"[0-9A-Z]{1,32}")
_PROMPT = "Code from the e-mail: "
_TRIES = 3
"""Codes that a person may type; Simplenote locks an address after a few more."""
_BY_CODE = "Run `mcp-notarium login` in a terminal: it sends you a code by e-mail instead."

_WRONG_KEY = LoginRequired(
    "Simplenote does not accept the app key that a login by password needs.",
    resolution_hint=_BY_CODE,
)
_WRONG_PASSWORD = LoginRequired(
    "Simplenote does not accept this username and password.",
    resolution_hint="Correct SIMPLENOTE_USERNAME and SIMPLENOTE_PASSWORD. Or: " + _BY_CODE,
)
_COMPROMISED = LoginRequired(
    "Simplenote refuses this password because it stands in a list of stolen passwords.",
    resolution_hint="Set a new password in Simplenote, then put it into the configuration.",
)
_UNVERIFIED = LoginRequired(
    "Simplenote wants the e-mail address of this account to be verified first.",
    resolution_hint="Open the verification link that Simplenote sent, then try again.",
)
_OLD_CODE = LoginRequired(
    "This code has expired or was never asked for.",
    resolution_hint="Run the command again: it sends a new one, which is good for a few minutes.",
)
_NO_CODE = LoginRequired(
    "Simplenote does not send a code to this address.",
    resolution_hint="Check SIMPLENOTE_USERNAME; it is the e-mail address of the account.",
)


class WrongCode(LoginRequired):
    """Report that the code is not that of the newest e-mail; another one can be typed."""

    resolution_hint = "Run the command again and enter the code of the newest e-mail."


class Authenticator:
    """Log in for one configuration; ``api_key`` (may be empty) is for passwords only."""

    def __init__(self, *, session: HttpSession, urls: Urls, api_key: Secret) -> None:
        self._session = session
        self._urls = urls
        self._api_key = api_key

    @classmethod
    def open(cls, *, urls: Urls, api_key: Secret, timeout: float) -> Self:
        """Open one with connections of its own; ``timeout`` in seconds. Close it after use."""
        return cls(
            session=HttpSession(bases=urls.all(), timeout=timeout), urls=urls, api_key=api_key
        )

    async def by_password(self, username: str, password: Secret) -> Secret:
        """Get a token. Raises ``LoginRequired``, ``RateLimited`` or what any request raises."""
        if not usable_in_header(self._api_key):
            raise _copy_of(_WRONG_KEY)
        body = {"username": normal_username(username), "password": password.reveal_text()}
        headers = {"x-simperium-api-key": self._api_key.reveal_text()}
        reply = await self._post(self._urls.authorize(), body, headers)
        if not reply.ok:
            raise _password_refusal(reply)
        return _token(reply, "access_token")

    async def request_code(self, username: str, *, request_source: str) -> None:
        """Request a code by e-mail; ``request_source`` is the name of this program.

        Raises ``LoginRequired``, ``RateLimited`` or what any request raises.
        """
        body = {"username": normal_username(username), "request_source": request_source}
        reply = await self._post(self._urls.account("request-login"), body, {})
        if not reply.ok:
            raise _copy_of(_NO_CODE)

    async def complete_code(self, username: str, code: str) -> Secret:
        """Turn the code from the e-mail into a token; sent once, in upper case.

        Raises ``InvalidRequest`` for what cannot be a code, and what ``request_code`` raises.
        """
        typed = "".join(code.split()).upper()
        if _CODE.fullmatch(typed) is None:
            raise InvalidRequest(
                "a login code is made of letters and digits",
                resolution_hint=WrongCode.resolution_hint,
            )
        body = {"username": normal_username(username), "auth_code": typed}
        reply = await self._post(self._urls.account("complete-login"), body, {})
        if not reply.ok:
            if read_text(reply.body, "error") == "request-not-found":
                raise _copy_of(_OLD_CODE)
            raise WrongCode("Simplenote does not accept this code.")
        return _token(reply, "sync_token")

    async def close(self) -> None:
        """Close connections."""
        await self._session.close()

    async def _post(self, url: str, body: dict[str, str], headers: dict[str, str]) -> Reply:
        request = Request(
            "POST",
            url,
            headers={"content-type": "application/json"} | headers,
            body=json.dumps(body).encode(),
            tries=1,
            largest=_LARGEST,
        )
        return await self._session.send(request)


async def log_in(settings: StoreSettings, seconds: float, dialog: LoginDialog) -> Secret:
    """Get a token by the password or the code that the user types; each request has ``seconds``.

    Raises ``ConfigError`` if no code comes, and what :class:`Authenticator` raises.
    """
    authenticator = Authenticator.open(
        urls=kind.urls_of(settings),
        api_key=settings.secret(kind.API_KEY) or Secret(""),
        timeout=seconds,
    )
    username = settings.text(kind.USERNAME)
    try:
        if dialog.by_password:
            password = dialog.ask_secret("Simplenote password: ")
            return await authenticator.by_password(username, password)
        code = dialog.waiting_code()
        if code is None or code.strip():  # else nobody could pass on the code of the e-mail
            source = settings.text(kind.REQUEST_SOURCE)
            await authenticator.request_code(username, request_source=source)
            dialog.say("Simplenote has sent a code to the account's e-mail address.")
        if code is None:
            code = dialog.ask_code(_PROMPT)
        if not code.strip():
            raise ConfigError(
                "no code was given",
                resolution_hint="Run the command again and give the code of the newest e-mail. With "
                "--code-stdin, keep standard input open until the e-mail has come.",
            )
        return await _complete(authenticator, username, code, dialog)
    finally:
        await authenticator.close()


async def _complete(
    authenticator: Authenticator, username: str, code: str, dialog: LoginDialog
) -> Secret:
    """Turn the code into a token; a person may type another one if it is wrong."""
    for _ in range(_TRIES - 1 if dialog.asks_person else 0):
        try:
            return await authenticator.complete_code(username, code)
        except (InvalidRequest, WrongCode) as error:
            said = error.message[:1].upper() + error.message[1:].rstrip(".")
            dialog.say(f"{said}. Type the one of the newest e-mail.")
            code = dialog.ask_code(_PROMPT)
    return await authenticator.complete_code(username, code)


def login_required(message: str) -> LoginRequired:
    """Return the error for a login that is missing or refused, with the way out."""
    return LoginRequired(message, resolution_hint=kind.LOGIN_HINT)


def other_account(message: str) -> OtherAccount:
    """Return the error for a login of another account, with the way out."""
    error = OtherAccount(
        message,
        resolution_hint="Put a token of SIMPLENOTE_USERNAME's account into "
        "SIMPLENOTE_TOKEN, or remove it and run `mcp-notarium login`. The cache was not changed. If "
        "it was filled with a wrong token, `mcp-notarium reset-cache` moves it to the quarantine and "
        "starts a new one.",
    )
    error.agent_hint = (
        "Ask the user to remove SIMPLENOTE_TOKEN and to run `mcp-notarium login` in a terminal."
    )
    return error


def normal_username(username: str) -> str:
    """Return an address in the form in which Simplenote knows it."""
    return username.strip().lower()


def usable_in_header(secret: Secret) -> bool:
    """Tell whether a token or key has only characters that a header can carry."""
    return _HEADER_VALUE.fullmatch(secret.reveal()) is not None


def _password_refusal(reply: Reply) -> NotariumError:
    said = reply.body[:200].decode("ascii", "replace").strip().lower()
    if "rate limited" in said:
        return RateLimited("Simplenote asks to wait before the next login")
    if said in ("missing api key", "invalid app credentials"):
        return _copy_of(_WRONG_KEY)
    if said == "compromised password":
        return _copy_of(_COMPROMISED)
    if said == "verification required":
        return _copy_of(_UNVERIFIED)
    if reply.status in (401, 403):
        return _copy_of(_WRONG_PASSWORD)
    return StoreProtocolError(f"Simplenote answered a login with status {reply.status}")


def _copy_of(refusal: LoginRequired) -> LoginRequired:
    """Make a new error with the same words: one that is raised twice would gather tracebacks."""
    return LoginRequired(refusal.message, resolution_hint=refusal.resolution_hint)


def _token(reply: Reply, key: str) -> Secret:
    token = read_text(reply.body, key)
    if not token.isascii() or not usable_in_header(Secret(token)):
        raise StoreProtocolError("Simplenote answered a login without a token")
    return Secret(token)
