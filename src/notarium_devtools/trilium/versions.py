"""Say what differs between the versions of the server that are simulated."""

from __future__ import annotations

from dataclasses import dataclass

_TYPES = (
    "text, code, render, file, image, search, relationMap, book, noteMap, mermaid, canvas, webView, "
    "launcher, doc, contentWidget, mindMap, spreadsheet, llmChat"
)
_OLDER_TYPES = _TYPES.replace("spreadsheet, llmChat", "geoMap, aiChat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Hold what differs. ``database`` and ``sync`` are its own numbers."""

    number: str
    database: int
    sync: int
    express5: bool = False
    """The newer body parser: a content that it cannot read is refused and not "[object Object]"."""
    bearer: bool = True
    revisions: bool = False
    """Revisions, history and undelete can be asked for, and writes keep a revision by themselves."""
    labelled_revisions: bool = False
    """A revision has a description, and says what made it."""
    scans_creations: bool = True
    """The text of a new note is read for links and images, as that of a write is."""
    bookmarks: bool = False
    """A bookmark in a text becomes a label."""
    spares_roles: bool = False
    """An attachment that is neither file nor image is never scheduled for erasure."""
    image_mimes: bool = False
    """An image note has to have the type of an image."""
    types: str = _TYPES
    hangs: bool = False
    """A calendar request that it cannot serve gets no answer at all."""
    limit_alone: bool = True
    """``limit`` counts without ``orderBy``."""
    malformed: int = 500
    """The status of JSON that cannot be parsed."""
    orphans: bool = False
    """An attachment may belong to no note."""
    week_first_day: bool = True


VERSIONS = {
    version.number: version
    for version in (
        Version(
            number="0.103.0",
            database=238,
            sync=39,
            express5=True,
            revisions=True,
            labelled_revisions=True,
            scans_creations=False,
            bookmarks=True,
            spares_roles=True,
            image_mimes=True,
        ),
        Version(
            number="0.102.1",
            database=235,
            sync=37,
            express5=True,
            revisions=True,
            scans_creations=False,
        ),
        Version(number="0.93.0", database=230, sync=35, hangs=True, types=_OLDER_TYPES),
        Version(
            number="0.63.6",
            database=228,
            sync=32,
            bearer=False,
            limit_alone=False,
            malformed=400,
            orphans=True,
            week_first_day=False,
        ),
    )
}
