"""Answer ETAPI requests as one version of the server does: logins, notes, search, calendar."""

from __future__ import annotations

import base64
import re
import secrets
from dataclasses import dataclass, field

from notarium_devtools.http_server import Request, Response
from notarium_devtools.trilium.bodies import (
    Failure,
    NoAnswer,
    NoRoute,
    check_image,
    check_properties,
    content_answer,
    finish,
    flag,
    header,
    invalid,
    json_answer,
    parse_body,
    seconds_of,
)
from notarium_devtools.trilium.calendar import day_note, monday_of, read_day
from notarium_devtools.trilium.document import ROOT, Document
from notarium_devtools.trilium.parts import Handler, Parts
from notarium_devtools.trilium.records import Note, branch_object, utc_date
from notarium_devtools.trilium.search import Search
from notarium_devtools.trilium.versions import Version

_MIMES = {
    "text": "text/html",
    "code": "text/plain",
    "mermaid": "text/vnd.mermaid",
    "file": "application/octet-stream",
    "canvas": "application/json",
    "mindMap": "application/json",
    "relationMap": "application/json",
}
_CREATABLE = frozenset(
    {
        "parentNoteId", "title", "type", "mime", "content", "notePosition", "prefix", "isExpanded",
        "noteId", "dateCreated", "utcDateCreated",
    }
)  # fmt: skip
_PATCHABLE = frozenset({"title", "type", "mime", "dateCreated", "utcDateCreated"})
_ENTITY_ID = re.compile(r"[A-Za-z0-9_]{1,32}")
_UTC = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z")
MOST_LOGINS = 10

OBJECT = "[object Object]"


@dataclass
class Etapi:
    """Answer requests over one document."""

    document: Document
    version: Version
    password: str
    parts: Parts
    tokens: set[str] = field(default_factory=set)
    failed_logins: int = 0
    shortest_id: int = 4
    logins: list[str] = field(default_factory=list)
    """Names of the tokens that logins have made."""

    def issue_token(self) -> str:
        """Make a token, as a login or a person does."""
        token = f"{self.document.make_id()}_{base64.b64encode(secrets.token_bytes(32)).decode()}"
        self.tokens.add(token)
        return token

    async def respond(self, request: Request) -> Response:
        """Return the response. Raises ``NoAnswer``."""
        try:
            answer = self._route(request)
        except Failure as failure:
            body = {"status": failure.status, "code": failure.code, "message": failure.message}
            answer = json_answer(failure.status, body)
        except RecursionError:
            body = {"status": 500, "code": "GENERIC", "message": "Maximum call stack size exceeded"}
            answer = json_answer(500, body)
        except NoRoute:
            query = "&".join(f"{key}={value}" for key, value in request.query.items())
            target = request.path + (f"?{query}" if query else "")
            answer = json_answer(
                404, {"message": f"Router not found for request {request.method} {target}"}
            )
        return finish(request, answer)

    def _route(self, request: Request) -> Response:
        parts = [part for part in request.segments if part]
        head = parts[0].lower() if parts else ""
        if head == "api" and parts[1:] == ["setup", "status"]:
            body = {"isInitialized": True, "schemaExists": True, "syncVersion": self.version.sync}
            counted = (("trilium-max-entity-change-id", str(self.document.changes)),)
            return json_answer(200, body, counted)
        if head == "api":
            return Response(401, b"Logged in session not found", "text/plain; charset=utf-8")
        if head != "etapi":
            raise NoRoute
        handler = self._handler(request.method, parts[1:])
        if handler is None:
            raise NoRoute
        if parts[1:] != ["auth", "login"]:
            self._check_token(request)
        return handler(request)

    def _handler(self, method: str, parts: list[str]) -> Handler | None:  # noqa: C901, PLR0911, PLR0912 - one line a route
        method = "GET" if method == "HEAD" else method
        rest = parts[1:]
        new = self.version.revisions
        match method, parts:
            case "POST", ["auth", "login"]:
                return self._log_in
            case "POST", ["auth", "logout"]:
                return self._log_out
            case "GET", ["app-info"]:
                return self._app_info
            case "GET", ["metrics"] if new:
                return lambda _request: json_answer(200, {"database": self.document.totals()})
            case "POST", ["create-note"]:
                return self._create_note
            case "GET", ["notes"]:
                return self._search
            case "GET", ["notes", "history"] if new:
                return lambda _request: json_answer(200, self.parts.deletions())
            case _, ["notes", note_id]:
                return self._note_handler(method, note_id)
            case _, ["notes", note_id, what]:
                return self._part_handler(method, note_id, what)
            case _, ["attributes", *_]:
                return self.parts.attribute_handler(method, rest)
            case _, ["branches", *_]:
                return self.parts.branch_handler(method, rest)
            case "POST", ["refresh-note-ordering", _]:
                return lambda _request: Response(204)
            case _, ["attachments", *_]:
                return self.parts.attachment_handler(method, rest)
            case "GET", ["revisions", *_] if new:
                return lambda _request: self.parts.revision(rest)
            case "GET", ["inbox" | "calendar", *_]:
                return lambda _request: self._calendar(parts)
            case "PUT", ["backup", _]:
                return lambda _request: Response(204)
        return None

    # Logins

    def _check_token(self, request: Request) -> None:
        given = header(request, "authorization")
        if given.startswith("Basic "):
            user, _, given = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
            given = given if user == "etapi" else ""
        elif self.version.bearer:
            given = given.removeprefix("Bearer ")
        secrets_alone = {token.partition("_")[2] for token in self.tokens}
        if given not in self.tokens | secrets_alone:
            raise Failure(401, "NOT_AUTHENTICATED", "Not authenticated")

    def _log_in(self, request: Request) -> Response:
        limits: tuple[tuple[str, str], ...] = (("X-RateLimit-Limit", str(MOST_LOGINS)),)
        if self.failed_logins >= MOST_LOGINS:
            text = b"Too many requests, please try again later."
            limits = (*limits, ("Retry-After", "724"))
            return Response(429, text, "text/html; charset=utf-8", limits)
        body = parse_body(request, self.version)
        if not isinstance(body, dict):
            self.failed_logins += 1
            raise Failure(
                500,
                "GENERIC",
                "Cannot destructure property 'password' of 'req.body' as it is undefined.",
            )
        if body.get("password") != self.password:
            self.failed_logins += 1
            raise Failure(401, "WRONG_PASSWORD", "Wrong password.")
        self.logins.append(body.get("tokenName") or "ETAPI login")
        return json_answer(201, {"authToken": self.issue_token()}, limits)

    def _log_out(self, request: Request) -> Response:
        secret = header(request, "authorization").partition("_")[2]
        self.tokens = {token for token in self.tokens if token.partition("_")[2] != secret}
        return Response(204)

    def _app_info(self, _request: Request) -> Response:
        body = {
            "appVersion": self.version.number,
            "dbVersion": self.version.database,
            "nodeVersion": "v20.20.2",
            "syncVersion": self.version.sync,
            "buildDate": "2025-06-07T09:45:40Z",
            "buildRevision": "7cbff47078012e32279c110c49b904bd24dcecb3",
            "dataDirectory": "/data/trilium",
            "clipperProtocolVersion": "1.0",
            "utcDateTime": utc_date(self.document.started).replace(" ", "T"),
        }
        return json_answer(200, body)

    # Notes

    def _open_note(self, note_id: str, what: str = "cannot be modified") -> Note:
        note = self.parts.note(note_id)
        if note.protected:
            raise Failure(
                400, "NOTE_IS_PROTECTED", f"Note '{note_id}' is protected and {what} through ETAPI."
            )
        return note

    def _note_handler(self, method: str, note_id: str) -> Handler | None:
        match method:
            case "GET":
                return lambda _request: json_answer(
                    200, self.document.note_object(self.parts.note(note_id))
                )
            case "PATCH":
                return lambda request: self._patch_note(request, note_id)
            case "DELETE":
                return lambda _request: self._delete_note(note_id)
            case "OPTIONS":
                return lambda _request: self._options()
        return None

    def _options(self) -> Response:
        if self.version.express5:
            allow = "DELETE, GET, HEAD, PATCH"
            return Response(200, allow.encode(), "text/plain", (("Allow", allow),))
        allow = "GET,HEAD,PATCH,DELETE"
        return Response(200, allow.encode(), "text/html; charset=utf-8", (("Allow", allow),))

    def _part_handler(self, method: str, note_id: str, what: str) -> Handler | None:  # noqa: PLR0911 - see _handler
        match method, what:
            case "GET", "content":
                return lambda _request: content_answer(
                    self._open_note(note_id, "content cannot be read")
                )
            case "PUT", "content":
                return lambda request: self._put_content(request, note_id)
            case "POST", "revision":
                return lambda request: self._add_revision(request, note_id)
            case "GET", "attachments":
                return lambda _request: json_answer(200, self.parts.attachments_of(note_id))
            case "GET", "revisions" if self.version.revisions:
                return lambda _request: json_answer(200, self.parts.revisions_of(note_id))
            case "POST", "undelete" if self.version.revisions:
                return lambda _request: self._undelete(note_id)
        return None

    def _create_note(self, request: Request) -> Response:
        body = self.parts.object(request)
        check_properties(body, _CREATABLE)
        content, kind = body.get("content"), body.get("type")
        types = self.version.types
        if kind is not None and kind not in types.split(", "):
            raise invalid("type", f"'{kind}' is not a valid note type, allowed types are: {types}.")
        if "noteId" in body and not self._is_possible_id(body["noteId"]):
            raise invalid(
                "noteId",
                f"'{body['noteId']}' is not a valid entityId. Only alphanumeric characters are allowed of length 4 to 32..",
            )
        created = body.get("utcDateCreated")
        if created is not None and not _UTC.fullmatch(created):
            raise invalid(
                "utcDateCreated",
                f"Invalid UTC date time format in '{created}'. Correct format shoud follow example: '2023-08-21 23:38:51.110Z'.",
            )
        parent = body.get("parentNoteId")
        if parent is not None and parent not in self.document.notes:
            raise invalid("parentNoteId", f"Note '{parent}' does not exist.")
        for missing, message in (
            (content is None, "Note content must be set"),
            (kind is None, "Note type is a required param"),
            (parent is None, "noteId and parentNoteId are mandatory properties for Branch"),
            (str(parent).startswith("_"), f"Creating child notes into '{parent}' is not allowed."),
        ):
            if missing:
                raise Failure(500, "GENERIC", message)
        check_image(self.version, kind, body.get("mime", ""))
        note = self.document.create(
            body.get("noteId") or self.document.make_id(),
            body.get("title", "New note"),
            str(kind),
            body.get("mime", _MIMES.get(str(kind), "")),
            str(content).encode(),
            created=seconds_of(created) if created else None,
        )
        note.local_created = body.get("dateCreated", "") or header(
            request, "trilium-local-now-datetime"
        )
        note.local_changed = header(request, "trilium-local-now-datetime")
        if self.version.scans_creations:
            self.document.scan(note)
        position, prefix = body.get("notePosition"), body.get("prefix")
        branch = self.document.place(note.id, str(parent), position=position, prefix=prefix)
        return json_answer(
            201, {"note": self.document.note_object(note), "branch": branch_object(branch)}
        )

    def _is_possible_id(self, note_id: str) -> bool:
        return _ENTITY_ID.fullmatch(note_id) is not None and len(note_id) >= self.shortest_id

    def _patch_note(self, request: Request, note_id: str) -> Response:
        note = self._open_note(note_id)
        body = self.parts.object(request)
        check_properties(body, _PATCHABLE)
        for name in ("title", "type", "mime"):
            if name in body and not isinstance(body[name], str):
                raise invalid(name, f"'{body[name]}' is not a string.")
        check_image(self.version, body.get("type", note.type), body.get("mime", note.mime))
        self.document.keep_old_state(note)
        note.title, note.type = body.get("title", note.title), body.get("type", note.type)
        note.mime = body.get("mime", note.mime)
        if "utcDateCreated" in body:
            note.created = seconds_of(body["utcDateCreated"])
        self.document.touch(note)
        return json_answer(200, self.document.note_object(note))

    def _delete_note(self, note_id: str) -> Response:
        if note_id == ROOT:
            raise Failure(500, "GENERIC", "Can't delete root or hoisted branch/note")
        if self.document.looks_after.get(note_id, 0.0) > self.document.clock():
            self.document.ended = True
        self.document.delete(note_id)
        return Response(204)

    def _put_content(self, request: Request, note_id: str) -> Response:
        note = self._open_note(note_id)
        body = parse_body(request, self.version)
        if body is None or (isinstance(body, dict) and not note.is_text):
            raise Failure(500, "GENERIC", f"Cannot set null content to noteId '{note_id}'")
        if isinstance(body, bytes) and note.is_text:
            body = body.decode("utf-8", "replace")
        if not isinstance(body, str | bytes):
            body = OBJECT
        self.document.set_content(note, body.encode() if isinstance(body, str) else body)
        return Response(204)

    def _add_revision(self, request: Request, note_id: str) -> Response:
        body = parse_body(request, self.version)
        said = body.get("description", "") if isinstance(body, dict) else ""
        self.document.add_revision(self.parts.note(note_id), description=said, source="etapi")
        return Response(204)

    def _undelete(self, note_id: str) -> Response:
        if note_id in self.document.notes:
            raise Failure(400, "NOTE_NOT_DELETED", f"Note '{note_id}' is not deleted.")
        if note_id not in self.document.deleted:
            self.parts.note(note_id)
        if not self.document.undelete(note_id):
            message = f"Cannot undelete note '{note_id}' - no undeleted parent found."
            raise Failure(400, "CANNOT_UNDELETE", message)
        return json_answer(200, {"success": True})

    def _search(self, request: Request) -> Response:
        query = request.query
        if not query.get("search", "").strip():
            raise Failure(
                400, "SEARCH_QUERY_PARAM_MANDATORY", "'search' query parameter is mandatory."
            )
        fast, archived = flag(query, "fastSearch"), flag(query, "includeArchivedNotes")
        flag(query, "debug")
        direction = query.get("orderDirection", "asc")
        if direction not in ("asc", "desc"):
            message = f"Cannot parse order direction value '{direction}, allowed values are 'asc' and 'desc'."
            raise Failure(400, "SEARCH_PARAM_VALIDATION_ERROR", message)
        try:
            limit = int(float(query.get("limit", "0")))
        except ValueError:
            message = f"Cannot parse integer 'limit' value '{query['limit']}'."
            raise Failure(400, "SEARCH_PARAM_VALIDATION_ERROR", message) from None
        search = Search(self.document, words=self.version.express5)
        found = search.find(
            query["search"], fast=fast, archived=archived, below=query.get("ancestorNoteId")
        )
        order = query.get("orderBy", "").lower()
        if order in ("utcdatemodified", "datemodified"):
            found.sort(key=lambda note: note.changed, reverse=True)  # whatever the direction is
        elif order == "title":
            found.sort(key=lambda note: note.title.lower(), reverse=True)
        if limit > 0 and (order or self.version.limit_alone):
            found = found[:limit]
        return json_answer(200, {"results": [self.document.note_object(note) for note in found]})

    def _calendar(self, parts: list[str]) -> Response:
        """Answer a calendar request, which makes the note of a day unless it is there."""
        day = read_day(parts[-1])
        if parts[1] == "week-first-day" and not self.version.week_first_day:
            raise NoRoute
        if day is None:
            if self.version.hangs:
                raise NoAnswer
            raise Failure(400, "DATE_INVALID", f'Date "{parts[-1]}" is not valid.')
        made = day_note(self.document, monday_of(day) if parts[1] == "week-first-day" else day)
        return json_answer(200, self.document.note_object(made))
