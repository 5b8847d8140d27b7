"""Serve resources and subscriptions through the SDK, in both eras, and tell which subscribed ones have changed.

Reading and subscribing go through the call pipeline, as calls that no client can make by a name. A list
without a cursor names no note, so that it can be answered before anything is opened. Changes reach a client
of the handshake era as notifications after ``resources/subscribe``, one of the modern era in the stream of
its ``subscriptions/listen``.

Another process may be the one that syncs, so the database is asked: every second whether anything was
written at all, and only then what of the subscribed was. A note that appears or goes has changed. A hidden
note is not in the index, so it never changes here.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

from mcp_notarium.errors import NotariumError
from mcp_notarium.protocol.call_audit import CallResult
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.tools import resources
from mcp_notarium.tools.resources import Asked, Resource
from mcp_notarium.tools.tool import Tool
from mcp_notarium.tools.untrusted_text import enclose

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.protocol.app_holder import AppHolder


CHANGE_SECONDS = 1.0
"""Seconds between two looks."""
LISTING: Final = ""
"""Stands for the list of resources, which has no URI."""


class ChangeWatch:
    """Watch the resources of one connection. ``tell`` is given the URI of each that has changed."""

    def __init__(self, holder: AppHolder, tell: Callable[[str], Awaitable[None]]) -> None:
        self._holder = holder
        self._tell = tell
        self._watched: Counter[str] = Counter()
        self._states: dict[str, object] = {}
        self._stamp: object = None
        self._wanted = anyio.Event()

    @property
    def count(self) -> int:
        """Return how many resources are watched."""
        return len(self._watched)

    @contextmanager
    def watching(self, uris: Iterable[str]) -> Iterator[None]:
        """Watch these inside the ``with`` block."""
        uris = list(uris)
        self.add(uris)
        try:
            yield
        finally:
            self.remove(uris)

    def add(self, uris: Iterable[str]) -> None:
        """Watch these, as they are now."""
        new = [uri for uri in uris if uri not in self._watched]
        self._watched.update(uris)
        if (app := self._holder.opened) is not None and new:
            self._states |= _states(app, new)
        self._wanted.set()

    def remove(self, uris: Iterable[str]) -> None:
        """Forget these, once each."""
        self._watched.subtract(uris)
        self._watched = +self._watched
        self._states = {uri: self._states.get(uri) for uri in self._watched}
        if not self._watched:
            self._wanted = anyio.Event()

    async def keep_looking(self) -> None:
        """Watch until cancelled."""
        while True:
            await self._wanted.wait()
            await anyio.sleep(CHANGE_SECONDS)
            for uri in self._look():
                await self._tell(uri)

    def _look(self) -> list[str]:
        """Return what has changed since it was looked at last."""
        app = self._holder.opened
        try:
            if app is None or (stamp := (id(app), app.library.stamp())) == self._stamp:
                return []
            states = _states(app, self._watched)
        except NotariumError:  # a call will meet it as well, and say so
            return []
        changed = [uri for uri, state in states.items() if state != self._states.get(uri)]
        self._stamp, self._states = stamp, states
        return changed


def _states(app: App, uris: Iterable[str]) -> dict[str, object]:
    """Return for each resource a value that is another one when it has changed."""
    ids = {uri: resources.note_id_of(uri) for uri in uris}
    etags = app.library.etags([note_id for note_id in ids.values() if note_id is not None])
    states: dict[str, object] = {}
    for uri, note_id in ids.items():
        if note_id is not None:
            states[uri] = etags.get(note_id)
        elif uri == resources.TAGS:
            states[uri] = resources.tag_counts(app)
        else:
            states[uri] = resources.newest_notes(app)
    return states


MOST_SUBSCRIBED = 1_000
"""Resources that one connection may be subscribed to."""
MOST_STREAMS = 32
STATIC = CacheHint(ttl_ms=3_600_000, scope="public")

Context = ServerRequestContext[Any, Any]
Answer = Callable[[Context, types.CallToolRequestParams, Tool], Awaitable[CallResult]]


class SdkResources:
    """Answer the requests on resources of one connection; ``answer`` has a call answered."""

    def __init__(self, pipeline: CallPipeline, answer: Answer) -> None:
        self._answer_call = answer
        self._offered = pipeline.toolset.resources
        self._names = pipeline.toolset.names
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus, max_subscriptions=MOST_STREAMS)
        self._subscribed: dict[str, ServerSession] = {}
        self._watch = ChangeWatch(pipeline.holder, self._tell)

    @asynccontextmanager
    async def lifespan(self, _server: object) -> AsyncIterator[None]:
        """Watch for changes while the connection lasts, if anybody subscribes."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch.keep_looking)
            yield
            tasks.cancel_scope.cancel()

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return the resources that there always are; behind them, page by page, the notes."""
        if params is None or params.cursor is None:
            listed = [self._form(one) for one in self._offered if not one.is_template]
            shows_notes = resources.shows_notes(self._offered)
            return types.ListResourcesResult(
                resources=[types.Resource.model_validate(form) for form in listed],
                next_cursor="1" if shows_notes else None,
                ttl_ms=STATIC.ttl_ms,
                cache_scope=STATIC.scope,
            )
        if not resources.shows_notes(self._offered) or not params.cursor.isdecimal():
            raise MCPError(types.INVALID_PARAMS, "Unknown cursor")
        arguments = {"limit": resources.PAGE, "page": int(params.cursor[:15])}
        answer = await self._answer(context, (resources.LISTING, arguments), "resources/list")
        value = answer.value or {}
        page, rows = value.get("next_page"), value["content"]
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=resources.uri_of(row["uuid"]),
                    name=name,
                    mime_type=resources.MIME_TYPE,
                )
                for row, name in zip(rows, resources.display_names(rows), strict=True)
            ],
            next_cursor=None if page is None else str(page),
        )

    async def list_templates(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the templates."""
        forms = [self._form(one) for one in self._offered if one.is_template]
        templates = [types.ResourceTemplate.model_validate(form) for form in forms]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the resource, as the JSON of the tool that it stands for."""
        answer = await self._answer(context, resources.reading(params.uri), "resources/read")
        content = types.TextResourceContents(
            uri=resources.shown_uri(params.uri), mime_type=resources.MIME_TYPE, text=answer.text
        )
        contents: list[types.TextResourceContents | types.BlobResourceContents] = [content]
        if answer.picture[0]:
            data, kind = base64.b64encode(answer.picture[0]).decode(), answer.picture[1]
            contents.append(types.BlobResourceContents(uri=content.uri, mime_type=kind, blob=data))
        return types.ReadResourceResult(contents=contents)

    async def subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Notify this client of changes from now on."""
        self._require_room(1)
        await self._answer(context, resources.subscribing(params.uri), "resources/subscribe")
        if params.uri not in self._subscribed:
            self._watch.add([params.uri])
        self._subscribed[params.uri] = context.session
        return types.EmptyResult()

    async def unsubscribe(
        self, _context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Stop that."""
        if self._subscribed.pop(params.uri, None) is not None:
            self._watch.remove([params.uri])
        return types.EmptyResult()

    async def stream_changes(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Stream changes of what is permitted of this, until the client ends it."""
        wanted = params.notifications
        uris = list(dict.fromkeys(wanted.resource_subscriptions or ()))
        self._require_room(len(uris))
        permitted = [uri for uri in uris if await self._is_permitted(context, uri)]
        listing = bool(wanted.resources_list_changed) and resources.shows_notes(self._offered)
        honored = types.SubscriptionFilter(
            resource_subscriptions=permitted or None,
            resources_list_changed=listing or None,
        )
        with self._watch.watching([*permitted, LISTING] if listing else permitted):
            return await self._streams(
                context, params.model_copy(update={"notifications": honored})
            )

    def _form(self, one: Resource) -> dict[str, str]:
        return {
            "uriTemplate" if one.is_template else "uri": one.uri,
            "name": one.name,
            "title": one.title,
            "description": self._names.in_text(one.description),
            "mimeType": resources.MIME_TYPE,
        }

    async def _answer(self, context: Context, asked: Asked, method: str) -> CallResult:
        """Return the pipeline's answer. Raises its error as one of the protocol."""
        tool, arguments = asked
        params = types.CallToolRequestParams(name=method, arguments=arguments)
        answer = await self._answer_call(context, params, tool)
        if answer.is_error:
            facts = json.loads(answer.text)
            wrong = facts["category"] in {"VALIDATION", "NOT_FOUND"}
            code = types.INVALID_PARAMS if wrong else types.INTERNAL_ERROR
            said = facts["message"]
            raise MCPError(code, enclose(said, facts) if answer.tells_names else said, data=facts)
        return answer

    async def _is_permitted(self, context: Context, uri: str) -> bool:
        try:
            await self._answer(context, resources.subscribing(uri), "subscriptions/listen")
        except MCPError:
            return False
        return True

    def _require_room(self, more: int) -> None:
        if self._watch.count + more > MOST_SUBSCRIBED:
            raise MCPError(types.INVALID_PARAMS, f"At most {MOST_SUBSCRIBED} subscriptions")

    async def _tell(self, uri: str) -> None:
        """Tell its subscriber, if it has one."""
        if (session := self._subscribed.get(uri)) is not None:
            await session.send_resource_updated(uri)
        event = ResourcesListChanged() if uri == LISTING else ResourceUpdated(uri)
        await self._bus.publish(event)
