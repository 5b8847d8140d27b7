"""Keep the notes of a simulated Trilium document: notes, branches, attributes, attachments, revisions.

What is deleted leaves a tombstone. Every change counts, as the server's entity changes do. It knows no HTTP.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import string
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from notarium_devtools.trilium.records import (
    Attachment,
    Attribute,
    Branch,
    Deleted,
    Note,
    OldState,
    attribute_object,
    blob_id,
    local_date,
    utc_date,
)
from notarium_devtools.trilium.texts import Scan, for_revision, show_downloaded
from notarium_devtools.trilium.versions import Version

ROOT, HIDDEN = "root", "_hidden"
_ALPHABET = string.ascii_letters + string.digits
REVISION_SECONDS = 600


_MARKERS = {("label", "template"), ("label", "workspacetemplate")}
"""Labels that make a note a template: its notes do not inherit them."""


_WEAK = ("_share", "_lbBookmarks")
"""Places that keep no note: it goes when it has no other."""


class Document:
    """Hold everything of one server. ``clock`` gives epoch seconds; ``make_id`` gives new ids."""

    def __init__(self, clock: Callable[[], float], version: Version) -> None:
        self.clock = clock
        self.started = clock()
        self.make_id: Callable[[], str] = _random_id
        self.version = version
        self.session_open = False
        """A person has a protected session open: then titles of protected notes are readable."""
        self.changes = 1
        self.notes: dict[str, Note] = {}
        self.branches: dict[str, Branch] = {}
        self.attributes: dict[str, Attribute] = {}
        self.attachments: dict[str, Attachment] = {}
        self.deleted: dict[str, Deleted] = {}
        self.wanted_images: dict[str, str] = {}
        """Addresses of images of other hosts that are to be fetched, and for which note."""
        self.looks_after: dict[str, float] = {}
        """Time at which the server looks for a note again, to show images of it that it has stored or fetched."""
        self.ended = False
        """It will find none then, and end itself: nothing is answered any more."""
        self.most_revisions = -1
        """An option of the server: how many revisions a note has, if no label says; below 0: all."""
        self.downloaded: dict[str, str] = {}
        """The attachments that were made of such images."""
        self._indexed: tuple[int, int, int] | None = None
        self._lists: tuple[
            dict[str, list[Branch]], dict[str, list[Branch]], dict[str, list[Attribute]]
        ] = ({}, {}, {})
        for note_id, title, parent in (
            (ROOT, "root", "none"),
            (HIDDEN, "Hidden Notes", ROOT),
            ("_options", "Options", HIDDEN),
        ):
            kind, mime = ("text", "text/html") if note_id == ROOT else ("doc", "")
            now = clock()
            self.notes[note_id] = Note(note_id, title, kind, mime, b"", now, now)
            branch = Branch(note_id, parent, 999_999_999 if note_id == HIDDEN else 10, now)
            self.branches[branch.id] = branch
        for name, value in (("docName", "hidden"), ("iconClass", "bx bx bx-hide")):
            self.set_attribute(f"{HIDDEN}_l{name}", HIDDEN, "label", name, value)

    def _index(
        self,
    ) -> tuple[dict[str, list[Branch]], dict[str, list[Branch]], dict[str, list[Attribute]]]:
        """Return branches above and below each note, and its attributes; tests change the tables themselves."""
        state = (self.changes, len(self.branches), len(self.attributes))
        if state != self._indexed:
            above, below = (
                defaultdict[str, list[Branch]](list),
                defaultdict[str, list[Branch]](list),
            )
            owned = defaultdict[str, list[Attribute]](list)
            for branch in self.branches.values():
                above[branch.note_id].append(branch)
                below[branch.parent_id].append(branch)
            for one in self.attributes.values():
                owned[one.note_id].append(one)
            self._indexed, self._lists = state, (above, below, owned)
        return self._lists

    # The tree

    def parents(self, note_id: str) -> list[Branch]:
        """Return the branches above a note."""
        return list(self._index()[0].get(note_id, ()))

    def children(self, note_id: str) -> list[Branch]:
        """Return the branches below a note, in their order."""
        found = self._index()[1].get(note_id, ())
        return sorted(found, key=lambda branch: branch.position)

    def below_root(self, note_id: str) -> bool:
        """Tell whether a note is in the visible tree. Raises ``RecursionError`` in a cycle cut off from it."""
        if note_id == ROOT:
            return True
        above = [branch.parent_id for branch in self.parents(note_id)]
        return note_id != HIDDEN and any(
            parent in self.notes and self.below_root(parent) for parent in above
        )

    def place(
        self,
        note_id: str,
        parent_id: str,
        *,
        position: int | None = None,
        prefix: str | None = None,
        expanded: bool = False,
    ) -> Branch:
        """Put a note below a parent, also below itself: the server checks no cycle here."""
        if position is None:
            taken = [b.position for b in self.children(parent_id) if b.note_id != HIDDEN]
            position = max(taken, default=0) + 10
        branch = Branch(note_id, parent_id, position, self.clock(), prefix, expanded)
        self.branches[branch.id] = branch
        self.changes += 1
        return branch

    def unplace(self, branch: Branch) -> None:
        """Remove a branch; with the last one that counts the note goes."""
        others = [one for one in self.parents(branch.note_id) if one != branch]
        if branch.note_id in self.notes and all(one.parent_id in _WEAK for one in others):
            self._bury(branch.note_id, [branch, *others])
        else:
            self.branches.pop(branch.id, None)
            self.changes += 1

    def delete(self, note_id: str) -> None:
        """Delete a note with all its places, and children that have no other parent."""
        if note_id in self.notes:
            self._bury(note_id, self.parents(note_id))

    def _bury(self, note_id: str, branches: list[Branch]) -> None:
        for branch in branches:
            self.branches.pop(branch.id, None)
        owned = self.owned(note_id)
        attached = self.attachments_of(note_id)
        for attribute in owned:
            del self.attributes[attribute.id]
        for one in attached:
            del self.attachments[one.id]
        below = self.children(note_id)
        note = self.notes.pop(note_id)
        self.deleted[note_id] = Deleted(note, branches, owned, attached, below)
        self.changes += 1 + len(branches) + len(owned) + len(attached)
        for branch in below:
            self.unplace(branch)

    def can_be_undeleted(self, note_id: str) -> bool:
        """Tell whether a note above a deleted one is there."""
        return any(one.parent_id in self.notes for one in self.deleted[note_id].branches)

    def undelete(self, note_id: str) -> list[str]:
        """Bring a deleted note back, with its labels and what went with it; return the ids of all: none where it has no place."""
        if not self.can_be_undeleted(note_id):
            return []
        gone = self.deleted.pop(note_id)
        gone.note.changed = self.clock()
        self.notes[note_id] = gone.note
        back = [one for one in gone.branches if one.parent_id in self.notes]
        self.branches |= {branch.id: branch for branch in back}
        self.attributes |= {attribute.id: attribute for attribute in gone.attributes}
        self.attachments |= {one.id: one for one in gone.attachments}
        self.changes += 1 + len(back) + len(gone.attributes) + len(gone.attachments)
        found = [note_id]
        for branch in gone.below:
            if branch.note_id in self.notes:
                self.branches[branch.id] = branch
            elif branch in self.deleted[branch.note_id].branches:
                found += self.undelete(branch.note_id)
        return found

    # Attributes

    def owned(self, note_id: str) -> list[Attribute]:
        """Return the attributes of a note itself, in their order."""
        found = self._index()[2].get(note_id, ())
        return sorted(found, key=lambda one: one.position)

    def effective(self, note_id: str) -> list[Attribute]:
        """Return owned and inherited attributes."""
        above: dict[str, None] = {}
        self._collect_above(note_id, above)
        inherited = [
            one
            for parent in above
            if parent != note_id
            for one in self.owned(parent)
            if one.inheritable
        ]
        return [*self.owned(note_id), *inherited, *self._from_templates(note_id)]

    def _from_templates(self, note_id: str) -> list[Attribute]:
        """Return what a note has from the notes that it names as its templates."""
        return [
            one
            for link in self.owned(note_id)
            if (link.type, link.name) == ("relation", "template") and link.value in self.notes
            for one in self.effective(link.value)
            if (one.type, one.name.lower()) not in _MARKERS
        ]

    def _collect_above(self, note_id: str, found: dict[str, None]) -> None:
        for branch in self.parents(note_id):
            if branch.parent_id not in found:
                found[branch.parent_id] = None
                self._collect_above(branch.parent_id, found)

    def set_attribute(
        self,
        attribute_id: str,
        note_id: str,
        kind: str,
        name: str,
        value: str,
        *,
        inheritable: bool = False,
        position: int | None = None,
    ) -> Attribute:
        """Add an attribute, or overwrite the one of that id."""
        if position is None:
            position = max((one.position for one in self.owned(note_id)), default=0) + 10
        name = re.sub(r"[^\w:]", "_", name) or "unnamed"
        one = Attribute(
            attribute_id, note_id, kind, name, value, position, inheritable, self.clock()
        )
        self.attributes[attribute_id] = one
        self.changes += 1
        return one

    # Content

    def create(
        self,
        note_id: str,
        title: str,
        kind: str,
        mime: str,
        content: bytes,
        *,
        created: float | None = None,
    ) -> Note:
        """Make a note, or overwrite the one of that id without a trace. Revisions of a deleted one come back."""
        now = self.clock()
        note = Note(note_id, title, kind, mime, content, now if created is None else created, now)
        before = self.notes.get(note_id)
        if note_id in self.deleted:
            before = self.deleted.pop(note_id).note
        note.revisions = [] if before is None else before.revisions
        self.notes[note_id] = note
        self.changes += 3
        return note

    def touch(self, note: Note) -> None:
        """Move a note's date."""
        note.changed, note.local_changed = self.clock(), ""
        self.changes += 1

    def set_content(self, note: Note, content: bytes) -> None:
        """Replace a note's content, and images in it as the server does. The same content changes nothing."""
        self.keep_old_state(note)
        if content == note.content:
            return
        note.content = content
        self.scan(note)
        self.touch(note)
        self.changes += 1

    def scan(self, note: Note) -> None:
        """Change and note what the server does in and about a text that was written."""
        if note.type == "text":
            note.content = Scan(self, note).run(note.content.decode("utf-8", "replace")).encode()

    def download_images(self, fetch: Callable[[str], bytes | None] | None = None) -> None:
        """Replace images of other hosts by attachments: what the server does seconds after a write.

        ``fetch`` gives the image at an address, None if there is none.
        """
        for address, note_id in self.wanted_images.items():
            image = b"downloaded" if fetch is None else fetch(address)
            note = self.notes.get(note_id)
            if note is None or image is None:
                continue
            title = address.rpartition("/")[2] or "image.png"
            made = self.attach(note_id, "image", "image/png", title, image)
            self.downloaded[address] = made.id
            note.content = show_downloaded(note.content.decode(), address, made).encode()
            self.scan(note)
            self.touch(note)
        self.wanted_images.clear()

    def attach(self, owner_id: str, role: str, mime: str, title: str, content: bytes) -> Attachment:
        """Make an attachment of a note or a revision."""
        made = Attachment(self.make_id(), owner_id, role, mime, title, 10, content, self.clock())
        self.attachments[made.id] = made
        self.changes += 2
        return made

    def attachments_of(self, owner_id: str) -> list[Attachment]:
        """Return the attachments of a note or a revision."""
        own = (one for one in self.attachments.values() if one.owner_id == owner_id)
        return sorted(own, key=lambda one: one.position)

    def keep_old_state(self, note: Note) -> None:
        """Keep a revision before a write, if this version of the server does and none is recent."""
        now = self.clock()
        recent = any(now - old.created < REVISION_SECONDS for old in note.revisions)
        versioned = note.type not in ("file", "image") and not self._label(
            note.id, "disableVersioning"
        )
        if (
            self.version.revisions
            and versioned
            and not recent
            and now - note.created >= REVISION_SECONDS
        ):
            self.add_revision(note)

    def add_revision(self, note: Note, *, description: str = "", source: str = "auto") -> None:
        """Keep what the note is now, with copies of its attachments."""
        revision_id, content = self.make_id(), note.content
        copies = [
            (one, self.attach(revision_id, one.role, one.mime, one.title, one.content))
            for one in self.attachments_of(note.id)
        ]
        if note.type == "text" and copies:
            content = for_revision(content.decode("utf-8", "replace"), copies).encode()
        old = OldState(
            revision_id, note.title, note.type, note.mime, content, note.changed, self.clock(),
            description, source,
        )  # fmt: skip
        note.revisions.insert(0, old)
        label = self._label(note.id, "versioningLimit")
        number = re.match(r"\s*(-?\d+)", label.value) if label is not None else None
        most = int(number[1]) if number else self.most_revisions
        if most >= 0:
            del note.revisions[most:]
        self.changes += 2

    def _label(self, note_id: str, name: str) -> Attribute | None:
        found = (one for one in self.effective(note_id) if (one.type, one.name) == ("label", name))
        return next(found, None)

    def visible_title(self, note: Note) -> str:
        """Return the title as the API shows it: ciphertext of a protected note, unless a session is open."""
        if note.protected and not self.session_open:
            return base64.b64encode(hashlib.sha256(note.title.encode()).digest()).decode()
        return note.title

    def totals(self) -> dict[str, int]:
        """Return how many rows the tables have; of branches and attributes those that are not deleted."""
        notes, deleted = len(self.notes), len(self.deleted)
        return {
            "totalNotes": notes + deleted,
            "deletedNotes": deleted,
            "activeNotes": notes,
            "protectedNotes": sum(note.protected for note in self.notes.values()),
            "totalRevisions": sum(len(note.revisions) for note in self.notes.values()),
            "totalBranches": len(self.branches),
            "totalAttributes": len(self.attributes),
        }

    # As JSON

    def note_object(self, note: Note) -> dict[str, Any]:
        """Return a note as the API shows it. It has no content."""
        parents, children = self.parents(note.id), self.children(note.id)
        return {
            "noteId": note.id,
            "isProtected": note.protected,
            "title": self.visible_title(note),
            "type": note.type,
            "mime": note.mime,
            "blobId": blob_id(note.content, salt=note.protected),
            "dateCreated": note.local_created or local_date(note.created),
            "dateModified": note.local_changed or local_date(note.changed),
            "utcDateCreated": utc_date(note.created),
            "utcDateModified": utc_date(note.changed),
            "parentNoteIds": [b.parent_id for b in parents if b.parent_id != "none"],
            "childNoteIds": [b.note_id for b in children],
            "parentBranchIds": [b.id for b in parents],
            "childBranchIds": [b.id for b in children],
            "attributes": [attribute_object(one) for one in self.effective(note.id)],
        }

    def visible_notes(self) -> Iterator[Note]:
        """Yield what a search can find: the tree without its hidden part, and ``_hidden`` itself."""
        for note in self.notes.values():
            if note.id == HIDDEN or self.below_root(note.id):
                yield note


def _random_id() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(12))
