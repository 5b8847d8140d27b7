"""Make a token from the password of a Trilium server, once.

Each login makes a token that never ends and stands in Trilium's options until somebody deletes it there. So
there is one request and no second try: ten wrong passwords lock logins for a quarter of an hour.
"""

from __future__ import annotations

import json

from mcp_notarium.errors import LoginRequired, RateLimited, StoreProtocolError
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import LoginDialog
from mcp_notarium.stores.http import HttpSession, Request
from mcp_notarium.stores.json_answers import parse_json
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.trilium import kind

TOKEN_NAME = "MCP Notarium"  # noqa: S105 - the name of a token
_LARGEST = 64 * 1024
_REFUSED = 401


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
    answer = parse_json(reply.body)
    token = answer.get("authToken") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.isascii() or not token:
        raise StoreProtocolError("Trilium answered a login without a token")
    return Secret(token)
