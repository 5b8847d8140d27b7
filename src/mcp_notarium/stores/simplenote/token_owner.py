"""Decide whether a token is of the account whose notes the index holds.

The data host answers any token with that token's notes and names no account. So a token that
Simplenote did not give us for the configured user name is tried, before its first use, on notes that
the index has: ids are random, and under another account they do not exist. The result is stored in the
database; asking again costs nothing until the token changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_notarium.errors import OtherAccount, StoreProtocolError
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import AccountRecord, SampleNote
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.json_answers import parse_json
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote.login import other_account
from mcp_notarium.stores.simplenote.urls import NOTES, Urls

_REFUSED = frozenset({401, 403})
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
