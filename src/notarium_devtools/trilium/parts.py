"""Answer requests about what belongs to a note: attributes, branches, attachments, revisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from notarium_devtools.http_server import Request, Response
from notarium_devtools.trilium.bodies import (
    Failure,
    check_properties,
    content_answer,
    invalid,
    json_answer,
    parse_body,
    revision_object,
)
from notarium_devtools.trilium.document import Document
from notarium_devtools.trilium.records import (
    Attachment,
    Attribute,
    Branch,
    Note,
    attribute_object,
    blob_id,
    branch_object,
    local_date,
    utc_date,
)
from notarium_devtools.trilium.versions import Version

Handler = Callable[[Request], Response]


_KEPT_AS_TEXT = frozenset(
    {
        "application/javascript",
        "application/x-javascript",
        "application/json",
        "application/x-sql",
        "image/svg+xml",
    }
)
"""Beside ``text/``: what is no UTF-8 in them is replaced."""


def _is_text(one: Attachment) -> bool:
    return one.mime.startswith("text/") or one.mime in _KEPT_AS_TEXT


def _length(one: Attachment) -> int:
    """Return what SQLite counts: of a text its characters up to a NUL."""
    if not _is_text(one):
        return len(one.content)
    return len(one.content.decode("utf-8", "replace").partition("\0")[0])


@dataclass(frozen=True, slots=True)
class Parts:
    """Answer requests over one document."""

    document: Document
    version: Version

    def note(self, note_id: str) -> Note:
        """Return a note. Raises ``Failure``."""
        note = self.document.notes.get(note_id)
        if note is None:
            raise Failure(404, "NOTE_NOT_FOUND", f"Note '{note_id}' not found.")
        return note

    def object(self, request: Request) -> dict[str, Any]:
        """Return the JSON object of a body."""
        body = parse_body(request, self.version)
        if not isinstance(body, dict):
            raise Failure(500, "GENERIC", "Cannot convert undefined or null to object")
        return body

    def attribute_handler(self, method: str, rest: list[str]) -> Handler | None:
        """Return what answers a request about attributes."""
        match method, rest:
            case "POST", []:
                return self._create_attribute
            case "GET", [one]:
                return lambda _request: json_answer(200, attribute_object(self._attribute(one)))
            case "PATCH", [one]:
                return lambda request: self._patch_attribute(request, one)
            case "DELETE", [one]:
                return lambda _request: self._delete_attribute(one)
        return None

    def _attribute(self, attribute_id: str) -> Attribute:
        one = self.document.attributes.get(attribute_id)
        if one is None:
            raise Failure(404, "ATTRIBUTE_NOT_FOUND", f"Attribute '{attribute_id}' not found.")
        return one

    def _create_attribute(self, request: Request) -> Response:
        body = self.object(request)
        check_properties(
            body, {"attributeId", "noteId", "type", "name", "value", "isInheritable", "position"}
        )
        if body.get("type") not in ("label", "relation"):
            raise invalid(
                "type",
                f"'{body.get('type')}' is not a valid attribute type, allowed types are: label, relation.",
            )
        self.note(body["noteId"])
        if body["type"] == "relation":
            self.note(body.get("value", ""))
        made = self.document.set_attribute(
            body.get("attributeId") or self.document.make_id(),
            body["noteId"],
            body["type"],
            body["name"],
            body.get("value", ""),
            inheritable=body.get("isInheritable", False),
            position=body.get("position"),
        )
        if (made.type, made.name) == ("relation", "template"):
            self._begin_with(self.note(made.note_id), self.note(made.value))
        return json_answer(201, attribute_object(made))

    def _begin_with(self, note: Note, template: Note) -> None:
        """Give a note that has none the text of its template, and copies of the notes below that."""
        if not note.content.strip():
            note.content = template.content
        if self.document.children(note.id):
            return
        for branch in self.document.children(template.id):
            one = self.note(branch.note_id)
            made = self.document.create(
                self.document.make_id(), one.title, one.type, one.mime, one.content
            )
            self.document.place(made.id, note.id)

    def _patch_attribute(self, request: Request, attribute_id: str) -> Response:
        one, body = self._attribute(attribute_id), self.object(request)
        check_properties(body, {"value", "position"})
        one.value, one.position = body.get("value", one.value), body.get("position", one.position)
        one.changed = self.document.clock()
        self.document.changes += 1
        return json_answer(200, attribute_object(one))

    def _delete_attribute(self, attribute_id: str) -> Response:
        if self.document.attributes.pop(attribute_id, None) is not None:
            self.document.changes += 1
        return Response(204)

    def branch_handler(self, method: str, rest: list[str]) -> Handler | None:
        """Return what answers a request about branches."""
        match method, rest:
            case "POST", []:
                return self._create_branch
            case "GET", [one]:
                return lambda _request: json_answer(200, branch_object(self._branch(one)))
            case "PATCH", [one]:
                return lambda request: self._patch_branch(request, one)
            case "DELETE", [one]:
                return lambda _request: self._delete_branch(one)
        return None

    def _branch(self, branch_id: str) -> Branch:
        branch = self.document.branches.get(branch_id)
        if branch is None:
            raise Failure(404, "BRANCH_NOT_FOUND", f"Branch '{branch_id}' not found.")
        return branch

    def _create_branch(self, request: Request) -> Response:
        body = self.object(request)
        for name in ("noteId", "parentNoteId"):
            if body.get(name) not in self.document.notes:
                raise invalid(name, f"Note '{body.get(name)}' does not exist.")
        status = (
            200 if f"{body['parentNoteId']}_{body['noteId']}" in self.document.branches else 201
        )
        branch = self.document.place(
            body["noteId"],
            body["parentNoteId"],
            position=body.get("notePosition"),
            prefix=body.get("prefix"),
            expanded=body.get("isExpanded", False),
        )
        return json_answer(status, branch_object(branch))

    def _patch_branch(self, request: Request, branch_id: str) -> Response:
        branch, body = self._branch(branch_id), self.object(request)
        check_properties(body, {"notePosition", "prefix", "isExpanded"})
        branch.position = body.get("notePosition", branch.position)
        branch.prefix = body.get("prefix", branch.prefix)
        branch.expanded = body.get("isExpanded", branch.expanded)
        self.document.changes += 1
        return json_answer(200, branch_object(branch))

    def _delete_branch(self, branch_id: str) -> Response:
        if branch_id in self.document.branches:
            self.document.unplace(self.document.branches[branch_id])
        return Response(204)

    def attachment_handler(self, method: str, rest: list[str]) -> Handler | None:  # noqa: PLR0911 - one line a route
        """Return what answers a request about attachments."""
        match method, rest:
            case "POST", []:
                return self._create_attachment
            case "GET", [one]:
                return lambda _request: json_answer(
                    200, self._attachment_object(self._attachment(one))
                )
            case "PATCH", [one]:
                return lambda request: self._patch_attachment(request, one)
            case "DELETE", [one]:
                return lambda _request: self._delete_attachment(one)
            case "GET", [one, "content"]:
                return lambda _request: self._attachment_content(one)
            case "PUT", [one, "content"]:
                return lambda request: self._put_attachment(request, one)
        return None

    def _attachment(self, attachment_id: str) -> Attachment:
        """Return what answers a request about attachments."""
        one = self.document.attachments.get(attachment_id)
        if one is None:
            raise Failure(404, "ATTACHMENT_NOT_FOUND", f"Attachment '{attachment_id}' not found.")
        return one

    def _attachment_content(self, attachment_id: str) -> Response:
        one = self._attachment(attachment_id)
        owner = self.document.notes.get(one.owner_id)
        if owner is not None and owner.protected:
            message = (
                f"Attachment '{one.id}' is protected and content cannot be read through ETAPI."
            )
            raise Failure(400, "ATTACHMENT_IS_PROTECTED", message)
        return content_answer(one)

    def _create_attachment(self, request: Request) -> Response:
        body = self.object(request)
        if "ownerId" not in body and not self.version.orphans:
            raise Failure(500, "GENERIC", "Missing owner ID.")
        owner = body.get("ownerId", "")
        if owner and owner not in self.document.notes:
            raise invalid("ownerId", f"Note '{owner}' does not exist.")
        for name in ("role", "mime", "title"):
            if not str(body.get(name) or "").strip():
                message = f"'{name}' must be given to initialize a Attachment entity"
                raise Failure(500, "GENERIC", message)
        content = body.get("content", "").encode()
        made = self.document.attach(owner, body["role"], body["mime"], body["title"], content)
        shown = self._attachment_object(made)
        return json_answer(201, {key: shown[key] for key in list(shown)[:9]})

    def _patch_attachment(self, request: Request, attachment_id: str) -> Response:
        one, body = self._attachment(attachment_id), self.object(request)
        check_properties(body, {"role", "mime", "title", "position"})
        one.role, one.mime = body.get("role", one.role), body.get("mime", one.mime)
        one.title, one.position = body.get("title", one.title), body.get("position", one.position)
        return json_answer(200, self._attachment_object(one))

    def _put_attachment(self, request: Request, attachment_id: str) -> Response:
        one, content = self._attachment(attachment_id), request.body
        if _is_text(one):
            content = content.decode("utf-8", "replace").encode()
        one.content = content
        self.document.changes += 2
        return Response(204)

    def _delete_attachment(self, attachment_id: str) -> Response:
        if self.document.attachments.pop(attachment_id, None) is not None:
            self.document.changes += 1
        return Response(204)

    def attachments_of(self, note_id: str) -> list[dict[str, Any]]:
        """Return a note's attachments."""
        self.note(note_id)
        return [self._attachment_object(one) for one in self.document.attachments_of(note_id)]

    def _attachment_object(self, one: Attachment) -> dict[str, Any]:
        since = one.unused_since
        return {
            "attachmentId": one.id,
            "ownerId": one.owner_id,
            "role": one.role,
            "mime": one.mime,
            "title": one.title,
            "position": one.position,
            "blobId": blob_id(one.content),
            "dateModified": local_date(one.changed),
            "utcDateModified": utc_date(one.changed),
            "utcDateScheduledForErasureSince": None if since is None else utc_date(since),
            "contentLength": _length(one),
        }

    def revisions_of(self, note_id: str) -> list[dict[str, Any]]:
        """Return a note's revisions, none of a protected one."""
        note = self.note(note_id)
        if note.protected:
            return []
        return [
            revision_object(note.id, old, self.version) | {"contentLength": len(old.content)}
            for old in note.revisions
        ]

    def deletions(self) -> list[dict[str, Any]]:
        """Return the deleted notes as the list of recent changes has them."""
        return [
            {
                "noteId": note.id,
                "current_isDeleted": 1,
                "current_title": note.title,
                "canBeUndeleted": self.document.can_be_undeleted(note.id),
            }
            for note in (one.note for one in self.document.deleted.values())
        ]

    def revision(self, rest: list[str]) -> Response:
        """Answer with a revision or its content."""
        for note in self.document.notes.values():
            for old in note.revisions:
                if [old.id] == rest:
                    return json_answer(200, revision_object(note.id, old, self.version))
                if [old.id, "content"] == rest:
                    return content_answer(old)
        raise Failure(404, "REVISION_NOT_FOUND", f"Revision '{rest[0]}' not found.")
