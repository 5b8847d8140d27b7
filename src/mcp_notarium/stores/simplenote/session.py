"""Send requests to the data host for one account: each carries the token, which is renewed once.

It judges logins and nothing else; every other status is returned to the caller.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_notarium.errors import (
    LoginRequired,
    OutcomeUnknown,
    StoreProtocolError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.simplenote.tokens import Tokens

_REFUSED = frozenset({401, 403})


class AccountSession:
    """Send requests for one account through one :class:`HttpSession`."""

    def __init__(self, *, session: HttpSession, tokens: Tokens) -> None:
        self._session = session
        self._tokens = tokens

    async def send(self, request: Request) -> Reply:
        """Send a request; return the answer, whatever its status but 401 and 403.

        Raises ``LoginRequired`` when a renewed token is refused as well or there is none, and
        what :meth:`HttpSession.send` raises. For a write, ``OutcomeUnknown`` as soon as an earlier
        try may have arrived.
        """
        token = await self._token(request)
        reply = await self._send_with(token, request)
        if reply.status not in _REFUSED:
            return reply
        renewed = await self._token(request, refused=token)
        reply = await self._send_with(renewed, request)
        self._tokens.record_use(renewed, accepted=reply.status not in _REFUSED)
        if reply.status in _REFUSED:
            raise LoginRequired("Simplenote does not accept the login any more")
        return reply

    async def close(self) -> None:
        """Close connections."""
        await self._session.close()

    async def _token(self, request: Request, refused: Secret | None = None) -> Secret:
        try:
            if refused is None:
                return await self._tokens.current()
            return await self._tokens.renewed(refused)
        except (StoreTimeout, StoreProtocolError) as error:
            if not request.write:
                raise
            # Nothing was sent, and after either of these a write counts as perhaps sent.
            raise StoreUnavailable("Simplenote did not answer a login as it should") from error

    async def _send_with(self, token: Secret, request: Request) -> Reply:
        headers = {**request.headers, "x-simperium-token": token.reveal_text()}
        reply = await self._session.send(replace(request, headers=headers))
        if reply.in_doubt and reply.status in _REFUSED:
            raise OutcomeUnknown("the write was sent and no answer came back")
        return reply
