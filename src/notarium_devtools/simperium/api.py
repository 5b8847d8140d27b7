"""Answer requests for the three hosts: from a parsed request to a response, without sockets.

Login host: plain-text errors. Account host: JSON errors. Data host: HTML errors. It reads and
writes buckets and never sleeps, except in a long poll, which waits through ``wait_for_change``.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NoReturn

from notarium_devtools.http_server import Request, Response
from notarium_devtools.simperium.accounts import Account, Accounts
from notarium_devtools.simperium.changes import SimperiumFaults, Value, feed_entries
from notarium_devtools.simperium.objects import Refused, SchemaRefused, Stored, json_text
from notarium_devtools.simperium.store import Bucket, Page

_JSON = "application/json; charset=utf-8"
_HTML = "text/html; charset=UTF-8"
_PLAIN = "text/plain; charset=utf-8"
_PAGE = "100"
_MAX_PAGE = 1_000

WaitForChange = Callable[[Bucket, str], Awaitable[None]]
"""Returns when the bucket's cv is no longer the given one, or after the longest wait."""


def failure(request: Request, status: int, reason: str = "") -> Response:
    """Return an error in the form of the addressed host."""
    if request.segments[:1] == ("account",):
        return Response(status, json_text({"error": reason}), _JSON)
    if request.segments[2:3] in {("authorize",), ("create",)}:
        return Response(status, reason.encode(), _PLAIN)
    title = f"{status}: {_phrase(status)}"
    page = f"<html><title>{title}</title><body>{title}</body></html>"
    return Response(status, page.encode(), _HTML)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        # Simperium has codes of its own, 440 for one.
        return "Unknown"


@dataclass(frozen=True, slots=True)
class Api:
    """Answer requests over one set of accounts."""

    accounts: Accounts
    faults: SimperiumFaults
    app_id: str
    api_key: str
    wait_for_change: WaitForChange

    async def respond(self, request: Request) -> Response:
        """Return the response, with the date of its clock; never raises for anything a client can send."""
        answer = await self._answer(request)
        date = ("Date", formatdate(self.accounts.clock(), usegmt=True))
        return replace(answer, headers=(*answer.headers, date))

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._routed(request)
        except SchemaRefused as refusal:
            body = {"field": refusal.field, "message": f"{refusal.field} {refusal.reason}"}
            return Response(refusal.status, json_text(body), _JSON)
        except Refused as refusal:
            return failure(request, refusal.status, refusal.reason)

    async def _routed(self, request: Request) -> Response:
        match request.segments:
            case ("account", action):
                return self._account_host(request, action)
            case ("1", app, "authorize" | "create" as action, *rest) if rest in ([], [""]):
                return self._login_host(request, app, action)
            case ("1", app, bucket, *rest):
                return await self._data_host(request, app, bucket, tuple(rest))
            case _:
                raise Refused(404, "Not Found")

    # The login host

    def _login_host(self, request: Request, app: str, action: str) -> Response:
        _only(request, "POST")
        key = request.headers.get("x-simperium-api-key")
        if key is None:
            raise Refused(400, "missing api key")
        if key != self.api_key or app != self.app_id:
            raise Refused(401, "invalid app credentials")
        posted = _posted(request.body)
        username, password = _texts(posted, "username", "password")
        enter = self.accounts.log_in if action == "authorize" else self.accounts.add
        account = enter(username, password)
        answer = {
            "username": account.username,
            "access_token": account.token,
            "userid": account.userid,
        }
        return Response(200, json_text(answer), _JSON)

    # The account host

    def _account_host(self, request: Request, action: str) -> Response:
        _only(request, "POST")
        posted = _posted(request.body)
        if action == "request-login":
            username, source = _texts(posted, "username", "request_source")
            self.accounts.send_code(username, source)
            return Response(200, b"{}", _JSON)
        if action == "complete-login":
            username, code = _texts(posted, "username", "auth_code")
            account = self.accounts.redeem_code(username, code)
            answer = {"username": account.username, "sync_token": account.token}
            return Response(200, json_text(answer), _JSON)
        raise Refused(404, "not-found")

    # The data host

    async def _data_host(
        self, request: Request, app: str, name: str, rest: tuple[str, ...]
    ) -> Response:
        account = self._who(request)
        if app != self.app_id:
            raise Refused(401, "token is for another app")
        bucket = self.accounts.bucket(account, name)
        match rest:
            case ("index",):
                _only(request, "GET")
                return self._index(request, bucket)
            case ("changes",):
                _only(request, "GET")
                return await self._changes(request, bucket)
            case ("i", object_id):
                return self._object(request, bucket, object_id, None)
            case ("i", object_id, "v", version):
                return self._object(request, bucket, object_id, _version(version))
            case _:
                raise Refused(404, "Not Found")

    def _who(self, request: Request) -> Account:
        token = request.headers.get("x-simperium-token", "")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if not token and scheme.lower() == "bearer":
            token = bearer.strip()
        account = self.accounts.by_token(token) if token else None
        if account is None:
            raise Refused(401, "Unauthorized")
        return account

    def _index(self, request: Request, bucket: Bucket) -> Response:
        limit = _number(request.query.get("limit") or _PAGE)
        page = bucket.page(
            limit=min(max(limit, 1), _MAX_PAGE),
            mark=request.query.get("mark") or None,
            since=request.query.get("since") or None,
        )
        body = _page_text(page, with_values=_switch(request.query, "data"))
        return Response(200, body, _JSON)

    async def _changes(self, request: Request, bucket: Bucket) -> Response:
        cv = request.query.get("cv")
        changes = bucket.changes_since(cv)
        if not changes and cv is not None and request.query.get("wait") != "0":
            await self.wait_for_change(bucket, cv)
            changes = bucket.changes_since(cv)
        return Response(200, json_text(feed_entries(changes, self.faults.feed)), _JSON)

    def _object(
        self, request: Request, bucket: Bucket, object_id: str, version: int | None
    ) -> Response:
        match request.method:
            case "GET":
                return _whole(bucket.read(object_id, version))
            case "POST":
                return self._write(request, bucket, object_id, version)
            case "DELETE":
                bucket.remove(object_id, base=version, **_stamps(request))
                return Response(200)
            case _:
                raise Refused(405, "Method Not Allowed")

    def _write(
        self, request: Request, bucket: Bucket, object_id: str, version: int | None
    ) -> Response:
        stored = bucket.write(
            object_id,
            _posted(request.body),
            base=version,
            replace=_switch(request.query, "replace"),
            **_stamps(request),
        )
        if _switch(request.query, "response"):
            return _whole(stored)
        return Response(200, headers=_version_header(stored))


def _whole(stored: Stored) -> Response:
    return Response(200, json_text(stored.value), _JSON, _version_header(stored))


def _version_header(stored: Stored) -> tuple[tuple[str, str], ...]:
    return (("X-Simperium-Version", str(stored.version)),)


def _page_text(page: Page, *, with_values: bool) -> bytes:
    parts = []
    for entity in page.entries:
        value = b'"d":' + entity.text + b"," if with_values else b""
        parts.append(b'{%b"id":%b,"v":%d}' % (value, json_text(entity.id), entity.version))
    mark = b"" if page.mark is None else b',"mark":' + json_text(page.mark)
    return b'{"current":%b,"index":[%b]%b}' % (json_text(page.current), b",".join(parts), mark)


def _stamps(request: Request) -> dict[str, str]:
    return {
        "ccid": request.query.get("ccid", "")[:256],
        "clientid": request.query.get("clientid", "")[:256],
    }


def _switch(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"1", "true"}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):  # noqa: PLR2004 - fits 32 bits
        raise Refused(400, "not a number")
    return int(text)


def _version(text: str) -> int:
    try:
        return _number(text)
    except Refused:
        raise Refused(404, "Not Found") from None


def _only(request: Request, method: str) -> None:
    if request.method != method:
        raise Refused(405, "Method Not Allowed")


def _posted(body: bytes) -> Value:
    # Parsed whatever the content type says: known clients label their JSON as a form.
    try:
        value: Any = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused(400, "Bad Request") from None
    if not isinstance(value, dict):
        raise Refused(400, "Bad Request")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _texts(posted: Value, *names: str) -> tuple[str, ...]:
    values = tuple(value for name in names if isinstance(value := posted.get(name), str))
    if len(values) < len(names):
        raise Refused(400, "missing " + " or ".join(names))
    return values
