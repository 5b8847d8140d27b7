"""Define Simplenote as a ``Store``: the wiring of one account's login, reads, writes and tag list.

It merges nothing. Simperium merges a push over an old base silently, so the caller pushes against the
newest revision and compares the answer with what it sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.secret import Secret
from mcp_notarium.stores.contract import (
    Acknowledgement,
    Answer,
    BaseLookup,
    Capabilities,
    ChangePage,
    ListingPage,
)
from mcp_notarium.stores.http import HttpSession
from mcp_notarium.stores.json_answers import parse_json, to_json
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote.login import Authenticator
from mcp_notarium.stores.simplenote.reads import NoteReads
from mcp_notarium.stores.simplenote.session import AccountSession
from mcp_notarium.stores.simplenote.tag_list import TagList
from mcp_notarium.stores.simplenote.token_owner import AccountRecord, TokenOwner
from mcp_notarium.stores.simplenote.tokens import Tokens, TokenStore
from mcp_notarium.stores.simplenote.urls import Urls
from mcp_notarium.stores.simplenote.writes import NoteWrites

__all__ = ["AccountRecord", "SimplenoteStore", "TokenStore", "Urls"]


class SimplenoteStore:
    """Reach one Simplenote account. ``timeout``: seconds for one request with its retries.

    ``client_id`` names program and device and is stamped on every change. ``clock`` gives seconds
    that nobody sets. ``session`` is for tests; by default the store has connections of its own.
    """

    capabilities = Capabilities(
        change_feed=True,
        long_poll=True,
        delta_listing=True,
        idempotent_push=True,
        detects_stale_base=False,
        has_versions=True,
        trash_before_delete=True,
        shares_by_tag=True,
    )

    def __init__(
        self,
        *,
        urls: Urls,
        username: str,
        password: Secret | None,
        token: Secret | None,
        tokens: TokenStore,
        record: AccountRecord,
        api_key: Secret,
        client_id: str,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        session: HttpSession | None = None,
    ) -> None:
        session = session or HttpSession(bases=urls.all(), timeout=timeout)
        logins = Tokens(
            authenticator=Authenticator(session=session, urls=urls, api_key=api_key),
            username=username,
            password=password,
            token=token,
            store=tokens,
            owner=TokenOwner(session=session, urls=urls, record=record),
            clock=clock,
        )
        self._account = AccountSession(session=session, tokens=logins)
        self._reads = NoteReads(account=self._account, urls=urls)
        self._writes = NoteWrites(
            account=self._account, urls=urls, client_id=client_id, reads=self._reads
        )
        self._tags = TagList(account=self._account, urls=urls, client_id=client_id)

    async def list_page(
        self, *, since: str | None, mark: str | None, limit: int, with_content: bool
    ) -> ListingPage:
        """See ``Store.list_page``."""
        return await self._reads.list_page(
            since=since, mark=mark, limit=limit, with_content=with_content
        )

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:
        """See ``Store.changes``."""
        return await self._reads.changes(cursor, wait=wait, base_of=base_of)

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """See ``Store.get``."""
        return await self._reads.get(note_id, etag=etag)

    def compose(self, base: Revision | None, content: Content, *, now: float) -> str:
        """See ``Store.compose``. Content equal to the base's gives the base's own body."""
        fields = note_codec.fields_of(base) if base is not None else None
        return to_json(note_codec.compose_fields(fields, content, now=now))

    def revision_of(self, note_id: str, body: str) -> Revision:
        """See ``Store.revision_of``."""
        return note_codec.revision_from(
            note_id, note_codec.fields_from(parse_json(body.encode())), version=None
        )

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. New tags are put on Simplenote's tag list in the background."""
        acknowledged = await self._writes.push(write)
        if acknowledged.answer is Answer.STORED:
            self._list_tags(write)
        return acknowledged

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        """See ``Store.delete``."""
        await self._writes.delete(note_id, etag=etag, write_id=write_id)

    async def close(self) -> None:
        """See ``Store.close``."""
        try:
            await self._tags.close()
        finally:
            await self._account.close()

    def _list_tags(self, write: PendingWrite) -> None:
        async def earlier() -> Iterable[str]:
            if write.base_etag is None:
                return ()
            return (await self.get(write.note_id, etag=write.base_etag)).content.tags

        self._tags.list_tags(write.content.tags, earlier=earlier)
