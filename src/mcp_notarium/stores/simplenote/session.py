"""Send requests for one account: each carries a token of that very account, which is chosen here and renewed once.

The token is the configured one, the stored one, or a new one by password. Many requests may be refused at once; one of
them renews the token for all. A refused password is not sent again for minutes, growing to an hour, so that a wrong
setting never locks the account. A token that a login has just given and that is refused (for one note, say) is no
reason to log in again for a while.

The data host answers any token with that token's notes and names no account. So a token that
Simplenote did not give us for the configured user name is tried, before its first use, on notes that
the index has: ids are random, and under another account they do not exist. The result is stored in the
database; asking again costs nothing until the token changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mcp_notarium.errors import (
    LoginRequired,
    NotariumError,
    OtherAccount,
    OutcomeUnknown,
    RateLimited,
    StoreProtocolError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import AccountRecord, SampleNote, TokenStore
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.json_answers import parse_json
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote.kind import NOTES, Urls
from mcp_notarium.stores.simplenote.login import (
    Authenticator,
    login_required,
    other_account,
    usable_in_header,
)

_UNKNOWN = frozenset({400, 404})
"""Other programs round the date of creation to a whole number."""


class TokenOwner:
    """Check tokens for one index: read single notes with the token in question."""

    def __init__(self, *, session: HttpSession, urls: Urls, record: AccountRecord) -> None:
        self._session = session
        self._urls = urls
        self._record = record

    def recognises(self, token: Secret) -> bool:
        """Tell whether the token was checked before, without any request."""
        return self._record.recognises(token)

    async def accepts(self, token: Secret, *, from_service: bool) -> bool:
        """Tell whether the token may be used; False if the service refuses it.

        ``from_service``: Simplenote gave it to us for this user name. Raises ``OtherAccount``
        if it is of another account than the index's notes, and what a request raises.
        """
        record = self._record
        if from_service and (not record.on_trust or record.recognises(token)):
            record.remember(token, on_trust=False)
            return True
        if record.recognises(token):
            return True
        sample_notes = record.sample_notes()
        if sample_notes:
            found = await self._finds_samples(token, sample_notes)
            if found is None:
                return False
            if not found:
                raise _other_account_error("SIMPLENOTE_TOKEN" if not from_service else "the login")
        elif not from_service and (record.proven or record.unfinished):
            raise _unprovable_error()
        trusted = record.on_trust if sample_notes else True
        record.remember(token, on_trust=trusted and not from_service)
        return True

    async def _finds_samples(
        self, token: Secret, sample_notes: Sequence[SampleNote]
    ) -> bool | None:
        """Tell whether at least half of the notes exist under this token; None if it is refused.

        Not all of them: some may have been removed elsewhere since.
        """
        found = missed = 0
        for sample in sample_notes:
            reply = await self._read(token, sample[0])
            if reply.status in _REFUSED:
                return None
            if _is_sample_note(reply, sample):
                found += 1
            else:
                missed += 1
            if 2 * max(found, missed) > len(sample_notes):
                break
        return found >= missed

    async def _read(self, token: Secret, note_id: str) -> Reply:
        url = self._urls.item(NOTES, note_id, version=None, query={})
        headers = {"x-simperium-token": token.reveal_text()}
        return await self._session.send(Request("GET", url, headers=headers))


def _is_sample_note(reply: Reply, sample: SampleNote) -> bool:
    """Tell whether this is the note. An id alone is no proof: welcome notes of new users share it."""
    if reply.status in _UNKNOWN:
        return False
    if not reply.ok:
        raise StoreProtocolError(f"Simplenote answered with status {reply.status}")
    fields = note_codec.fields_from(parse_json(reply.body, deepest=None))
    created = note_codec.revision_from(sample[0], fields, version=None).created_at
    return "creationDate" not in fields or abs(created - sample[1]) < note_codec.SAME_SECOND


def _other_account_error(named: str) -> OtherAccount:
    return other_account(f"{named} is of another account than the notes in this cache")


def _unprovable_error() -> OtherAccount:
    return other_account(
        "SIMPLENOTE_TOKEN cannot be proven to be of this account: no note is here to try it on"
    )


_REFUSED = frozenset({401, 403})
FIRST_PAUSE = 5 * 60.0
LONGEST_PAUSE = 60 * 60.0
RELOGIN_PAUSE = 10 * 60.0
"""Seconds without another login after the token of a login was refused. They double each time, up to
``LONGEST_PAUSE``, until a renewed token is accepted."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Hold why the service refused the password, and the pause before the next try (seconds).

    Never the exception: the frames of its traceback hold the password.
    """

    message: str
    resolution_hint: str | None
    rate_limited: bool
    pause: float
    until: float


@dataclass(kw_only=True, repr=False, eq=False)
class Tokens:
    """Choose tokens for one account."""

    authenticator: Authenticator
    username: str
    password: Secret | None
    token: Secret | None
    store: TokenStore
    owner: TokenOwner
    clock: Callable[[], float]
    """Gives seconds that nobody sets: it measures pauses."""

    def __post_init__(self) -> None:
        """Begin without a token."""
        self._current: Secret | None = None
        self._refusal: _Refusal | None = None
        self._from_login: Secret | None = None
        self._no_login_until = 0.0
        self._relogin_pause = RELOGIN_PAUSE
        self._lock = asyncio.Lock()

    async def current(self) -> Secret:
        """Return the token to use.

        Raises ``LoginRequired`` if there is none to be had, ``OtherAccount`` if it is another
        account's, and what a request raises if that cannot be found out now.
        """
        async with self._lock:
            if self._current is None:
                self._current = await self._configured_token() or await self._next_token(
                    self.token or None
                )
            return self._current

    async def renew(self, refused: Secret) -> Secret:
        """Return another token than ``refused``, which the service just refused.

        Raises ``LoginRequired`` if there is no other way in, and like :meth:`current`.
        """
        async with self._lock:
            if self._current is not None and self._current != refused:
                return self._current  # another request was faster
            self._current = None
            self._current = await self._next_token(refused)
            if self._current == refused:
                self.record_use(refused, accepted=False)
            return self._current

    def record_use(self, renewed: Secret, *, accepted: bool) -> None:
        """Record whether the service accepted a renewed token."""
        if accepted:
            self._no_login_until, self._relogin_pause = 0.0, RELOGIN_PAUSE
        elif renewed == self._from_login and self.clock() >= self._no_login_until:
            self._no_login_until = self.clock() + self._relogin_pause
            self._relogin_pause = min(LONGEST_PAUSE, self._relogin_pause * 2)

    async def _configured_token(self) -> Secret | None:
        """Return the configured token; None if there is none, or the service refuses it."""
        configured = _check_usable(self.token or None)
        if configured is None or self.owner.recognises(configured):
            return configured
        logged_in = self._stored_token() == configured
        return configured if await self.owner.accepts(configured, from_service=logged_in) else None

    async def _next_token(self, refused: Secret | None) -> Secret:
        """Return the stored token, unless it is the refused one, or a new one by password."""
        stored = _check_usable(self._stored_token())
        if (
            stored is not None
            and stored != refused
            and await self.owner.accepts(stored, from_service=True)
        ):
            return stored
        if refused == self._from_login and self.clock() < self._no_login_until:
            self._current = refused  # other requests may well be served with it
            raise login_required("Simplenote does not accept the login for this")
        made = await self._log_in()
        if not await self.owner.accepts(made, from_service=True):
            raise login_required("Simplenote does not accept the login any more")
        return made

    def _stored_token(self) -> Secret | None:
        try:
            return self.store.load() or None
        except NotariumError:
            return None

    async def _log_in(self) -> Secret:
        if not self.password:
            raise login_required("Simplenote does not accept the login, or there is none yet")
        self._check_pause()
        try:
            token = await self.authenticator.by_password(self.username, self.password)
        except (LoginRequired, RateLimited) as error:
            self._remember(error)
            raise
        self._refusal, self._from_login = None, token
        try:
            self.store.store(token)
        except NotariumError:
            return token  # it lives as long as the process
        return token

    def _check_pause(self) -> None:
        refusal, now = self._refusal, self.clock()
        if refusal is None or now >= refusal.until:
            return
        if refusal.rate_limited:
            raise RateLimited(refusal.message, retry_after=refusal.until - now)
        raise LoginRequired(refusal.message, resolution_hint=refusal.resolution_hint)

    def _remember(self, error: NotariumError) -> None:
        pause = min(LONGEST_PAUSE, self._refusal.pause * 2) if self._refusal else FIRST_PAUSE
        asked = error.retry_after if isinstance(error, RateLimited) else None
        self._refusal = _Refusal(
            error.message,
            error.resolution_hint,
            isinstance(error, RateLimited),
            pause,
            self.clock() + (pause if asked is None else asked),
        )


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
            raise login_required("Simplenote does not accept the login any more")
        return reply

    async def close(self) -> None:
        """Close connections."""
        await self._session.close()

    async def _token(self, request: Request, refused: Secret | None = None) -> Secret:
        try:
            if refused is None:
                return await self._tokens.current()
            return await self._tokens.renew(refused)
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


def _check_usable(token: Secret | None) -> Secret | None:
    """Return the token. Raises ``LoginRequired`` for one that no header can carry."""
    if token is not None and not usable_in_header(token):
        raise login_required("the configured token has characters that no token has")
    return token
