"""Read a text note as the server does after it was written: images, files and links in it.

The patterns look at the HTML as text, as the server's do: what stands before ``src`` in an embedded image is lost.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import quote

from notarium_devtools.trilium.records import Attachment, Note, blob_id

if TYPE_CHECKING:
    from notarium_devtools.trilium.document import Document

_IMAGE = re.compile(r"""<img[^>]*?\ssrc=['"]([^'">]+)['"]""", re.IGNORECASE)
_DATA = re.compile(r"data:(image/[a-z+]+);base64,")
_FILE = re.compile(
    r"""<a[^>]*?\shref=['"]data:([^;'">]+);base64,([^'">]+)['"][^>]*>(.*?)</a>""", re.IGNORECASE
)
_SHOWN_IMAGE = re.compile(r'src="[^"]*api/attachments/(\w+)/image')
_LINKED_FILE = re.compile(r'href="[^"]+attachmentId=(\w+)')
_LINKS = (
    ("imageLink", re.compile(r'src="[^"]*api/images/(\w+)/')),
    ("internalLink", re.compile(r'href="[^"]*#root[\w/]*/(\w+)/?"')),
    ("includeNoteLink", re.compile(r'<section class="include-note[^>]+data-note-id="(\w+)"[^>]*>')),
)
_SECONDS_TO_IMAGES = 5.0
_BOOKMARK = re.compile(r'<a\s+id="([^"]+)"(?![^>]*href=)[^>]*>')
_RELATIVE = (
    (re.compile(r'src="[^"]*/api/attachments/'), 'src="api/attachments/'),
    (re.compile(r'src="[^"]*/api/images/'), 'src="api/images/'),
    (re.compile(r'href="[^"]*#root'), 'href="#root'),
)


@dataclass(frozen=True, slots=True)
class Scan:
    """Read the text of one note, and change what the server changes."""

    document: Document
    note: Note

    def run(self, text: str) -> str:
        """Return the text as it is kept."""
        text = _replace_each(_IMAGE, self._image, text)
        text = _replace_each(_FILE, self._file, text)
        for pattern, near in _RELATIVE:
            text = pattern.sub(near, text)
        if self.document.version.bookmarks:
            self._keep_bookmarks(text)
        text = self._own_attachments(text)
        self._keep_links(text)
        return text

    def _image(self, found: re.Match[str]) -> str:
        address = found[1]
        embedded = _DATA.match(address)
        if embedded:
            self._look_later()
            content = base64.b64decode(address[embedded.end() :] + "==")
            made = self._attach("image", embedded[1], "inline image", content)
            made.title += f".{embedded[1].partition('/')[2].partition('+')[0]}"
            return f'<img src="api/attachments/{made.id}/image/inline%20image"'
        if "api/images/" in address or re.search(r"api/attachments/.+/image", address):
            return found[0]
        self._look_later()
        known = self.document.attachments.get(self.document.downloaded.get(address, ""))
        if known is None:
            self.document.wanted_images.setdefault(address, self.note.id)
            return found[0]
        return show_downloaded(found[0], address, known)

    def _look_later(self) -> None:
        self.document.looks_after[self.note.id] = self.document.clock() + _SECONDS_TO_IMAGES

    def _file(self, found: re.Match[str]) -> str:
        title = " ".join(unescape(re.sub(r"<[^>]*>", "", found[3])).split())
        made = self._attach("file", found[1].lower(), title, base64.b64decode(found[2] + "=="))
        address = f"#root/{self.note.id}?viewMode=attachments&attachmentId={made.id}"
        return f'<a class="reference-link" href="{address}">{title}</a>'

    def _attach(self, role: str, mime: str, title: str, content: bytes) -> Attachment:
        return self.document.attach(self.note.id, role, mime, title, content)

    def _keep_bookmarks(self, text: str) -> None:
        found = dict.fromkeys(_BOOKMARK.findall(text))
        self._keep_attributes("label", [("internalBookmark", name) for name in found])

    def _keep_links(self, text: str) -> None:
        found = [(name, target) for name, link in _LINKS for target in link.findall(text)]
        notes = self.document.notes
        self._keep_attributes("relation", [one for one in found if one[1] in notes])

    def _keep_attributes(self, kind: str, wanted: list[tuple[str, str]]) -> None:
        """Give the note exactly these attributes of those that the server makes from a text."""
        made_here = {"internalBookmark"} if kind == "label" else {name for name, _ in _LINKS}
        held = {
            (one.name, one.value): one
            for one in self.document.owned(self.note.id)
            if one.type == kind and one.name in made_here
        }
        for name, value in dict.fromkeys(wanted):
            if (name, value) not in held:
                self.document.set_attribute(
                    self.document.make_id(), self.note.id, kind, name, value
                )
        for key, one in held.items():
            if key not in wanted:
                del self.document.attributes[one.id]
                self.document.changes += 1

    def _own_attachments(self, text: str) -> str:
        """Schedule what the text no longer shows, and take over what belongs to others."""
        document = self.document
        shown = dict.fromkeys([*_SHOWN_IMAGE.findall(text), *_LINKED_FILE.findall(text)])
        for one in document.attachments_of(self.note.id):
            if document.version.spares_roles and one.role not in ("file", "image"):
                continue
            if (one.id in shown) != (one.unused_since is not None):
                continue
            one.unused_since = None if one.id in shown else document.clock()
            document.changes += 1
        for attachment_id in shown:
            other = document.attachments.get(attachment_id)
            if other is not None and other.owner_id != self.note.id:
                text = self._take_over(text, other)
        return text

    def _take_over(self, text: str, other: Attachment) -> str:
        """Show an equal attachment of the note's own instead: the first image of it, and all links."""
        own = next(
            (
                one
                for one in self.document.attachments_of(self.note.id)
                if one.role == other.role and blob_id(one.content) == blob_id(other.content)
            ),
            None,
        )
        own = own or self._attach(other.role, other.mime, other.title, other.content)
        own.unused_since = None
        text = text.replace(
            f"api/attachments/{other.id}/image", f"api/attachments/{own.id}/image", 1
        )
        address = f"#root/{self.note.id}?viewMode=attachments&amp;attachmentId={own.id}"
        link = re.compile(f'href="[^"]+attachmentId={other.id}[^"]*"')
        return link.sub(f'href="{address}"', text)


def _replace_each(
    pattern: re.Pattern[str], change: Callable[[re.Match[str]], str], text: str
) -> str:
    """Replace what a pattern finds as the server does: it goes on where the match ended before, in a text that is shorter."""
    end = 0
    while found := pattern.search(text, end):
        end = found.end()
        text = text[: found.start()] + change(found) + text[end:]
    return text


def show_downloaded(text: str, address: str, image: Attachment) -> str:
    """Return a text that shows an attachment where it showed an image of another host."""
    source = re.compile(rf"""\s+src=["']{re.escape(address)}["']""", re.IGNORECASE)
    return source.sub(f' src="api/attachments/{image.id}/image/{quote(image.title)}"', text)


def for_revision(text: str, copies: list[tuple[Attachment, Attachment]]) -> str:
    """Return a text as a revision keeps it: it shows the copies, which belong to the revision."""
    for own, copy in copies:
        text = text.replace(f"attachments/{own.id}", f"attachments/{copy.id}")
        link = re.compile(f'href="[^"]*attachmentId={own.id}[^"]*"', re.IGNORECASE)
        text = link.sub(f'href="api/attachments/{copy.id}/download"', text)
    return text
