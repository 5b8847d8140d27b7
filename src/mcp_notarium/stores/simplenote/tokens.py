"""Which token to use now: the one given, the one stored, or a new one by password.

None is used before it is known to be of the account whose notes the cache holds; see ``belonging``.

Many requests may be refused at once and one of them renews for all. A refused password is not
sent again for minutes, growing to an hour, so that a wrong setting never locks the account. A service
that only asks to slow down says itself for how long. A token that comes fresh from a login and is
refused (for one note, say) is no reason to log in again for a while: that would help no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mcp_notarium.errors import LoginRequired, NotariumError, RateLimited
from mcp_notarium.secret import Secret
from mcp_notarium.stores.simplenote.login import Authenticator, usable_in_header
from mcp_notarium.stores.simplenote.token_owner import Belonging

FIRST_PAUSE = 5 * 60.0
LONGEST_PAUSE = 60 * 60.0
VAIN_PAUSE = 60.0
"""Seconds without a login for a token that a login has just given; twice as many each time, up to
``LONGEST_PAUSE``."""


class TokenStore(Protocol):
    """Where a token outlives the process. It may decline to store, by raising a NotariumError."""

    def load(self) -> Secret | None:
        """The stored token, read anew each time: another process may have logged in."""

    def store(self, token: Secret) -> None:
        """Keep this token instead of any other."""

    def forget(self) -> None:
        """Keep none."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What the service said to the password, and how long we leave it in peace (seconds)."""

    message: str
    hint: str | None
    limited: bool
    pause: float
    until: float


@dataclass(frozen=True, slots=True)
class _Vain:
    """A token that a login gave and that is refused all the same; none is made for it ``until`` then."""

    token: Secret
    pause: float
    until: float


class Tokens:
    """The tokens of one account. ``clock`` gives seconds that nobody sets: pauses are measured by it."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        username: str,
        password: Secret | None,
        token: Secret | None,
        store: TokenStore,
        belonging: Belonging,
        clock: Callable[[], float],
    ) -> None:
        self._authenticator = authenticator
        self._username = username
        self._password = password or None
        self._given = token or None
        self._store = store
        self._belonging = belonging
        self._clock = clock
        self._current: Secret | None = None
        self._refusal: _Refusal | None = None
        self._made: Secret | None = None
        self._vain: _Vain | None = None
        self._turn = asyncio.Lock()

    async def current(self) -> Secret:
        """The token to use.

        Raises ``LoginRequired`` if there is none to be had, ``OtherAccount`` if it is another
        account's, and what a request raises if that cannot be found out now.
        """
        async with self._turn:
            if self._current is None:
                self._current = await self._given_one() or await self._another(self._given)
            return self._current

    async def renewed(self, refused: Secret) -> Secret:
        """Another token than ``refused``, which the service just refused.

        Raises ``LoginRequired`` if there is no other way in, and like :meth:`current`.
        """
        async with self._turn:
            if self._current is not None and self._current != refused:
                return self._current  # somebody was faster
            self._current = None
            self._current = await self._another(refused)
            if self._current == refused:
                self._note_vain(refused)
            return self._current

    def tried(self, renewed: Secret, *, accepted: bool) -> None:
        """What became of the request that a renewed token was for."""
        if accepted:
            self._vain = None
        elif renewed == self._made:
            self._note_vain(renewed)

    async def _given_one(self) -> Secret | None:
        """The configured token; None if there is none, or none that the service accepts."""
        given = _usable(self._given)
        if given is None or self._belonging.recognises(given):
            return given
        logged_in = self._stored() == given
        return given if await self._belonging.holds(given, from_service=logged_in) else None

    async def _another(self, refused: Secret | None) -> Secret:
        """The stored token, unless it is the refused one, or a new one by password."""
        stored = _usable(self._stored())
        if (
            stored is not None
            and stored != refused
            and await self._belonging.holds(stored, from_service=True)
        ):
            return stored
        if refused is not None and self._is_vain(refused):
            self._current = refused  # other requests may well be served with it
            raise LoginRequired("Simplenote does not accept the login for this")
        made = await self._log_in()
        if not await self._belonging.holds(made, from_service=True):
            raise LoginRequired("Simplenote does not accept the login any more")
        return made

    def _stored(self) -> Secret | None:
        try:
            return self._store.load() or None
        except NotariumError:
            return None

    async def _log_in(self) -> Secret:
        if self._password is None:
            raise LoginRequired("Simplenote does not accept the login, or there is none yet")
        self._check_pause()
        try:
            token = await self._authenticator.by_password(self._username, self._password)
        except (LoginRequired, RateLimited) as error:
            self._remember(error)
            raise
        self._refusal, self._made = None, token
        try:
            self._store.store(token)
        except NotariumError:
            return token  # it lives as long as the process
        return token

    def _is_vain(self, refused: Secret) -> bool:
        vain = self._vain
        return vain is not None and vain.token == refused and self._clock() < vain.until

    def _note_vain(self, token: Secret) -> None:
        if not self._is_vain(token):
            pause = min(LONGEST_PAUSE, self._vain.pause * 2) if self._vain else VAIN_PAUSE
            self._vain = _Vain(token, pause, self._clock() + pause)

    def _check_pause(self) -> None:
        refusal, now = self._refusal, self._clock()
        if refusal is None or now >= refusal.until:
            return
        if refusal.limited:
            raise RateLimited(refusal.message, retry_after=refusal.until - now)
        raise LoginRequired(refusal.message, resolution_hint=refusal.hint)

    def _remember(self, error: NotariumError) -> None:
        pause = FIRST_PAUSE
        if self._refusal is not None:
            pause = min(LONGEST_PAUSE, self._refusal.pause * 2)
        asked = error.retry_after if isinstance(error, RateLimited) else None
        self._refusal = _Refusal(
            message=error.message,
            hint=error.resolution_hint,
            limited=isinstance(error, RateLimited),
            pause=pause,
            until=self._clock() + (pause if asked is None else asked),
        )


def _usable(token: Secret | None) -> Secret | None:
    """The token itself. Raises ``LoginRequired`` for one that no header can carry."""
    if token is not None and not usable_in_header(token):
        raise LoginRequired("the configured token has characters that no token has")
    return token
