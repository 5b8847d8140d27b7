"""Begin notes from templates as Trilium does: with the template's HTML, and a relation by which they inherit its labels. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from html import escape

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.markup import html_codec
from mcp_notarium.markup.templates import TAG, Filling
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium.note_codec import HTML, MIMES, pairs_of, values_of

NOT_LINKED = (
    "Notes lie below the template: Trilium would copy these too, so the note is without them, and without a relation to "
    "the template."
)
_NOT_INHERITED = {TAG, "workspacetemplate"}


def copy(template: Revision, filling: Filling, *, linked: bool) -> Content | None:
    """Return what a note begins with; None if the template is no text.

    ``linked``: it inherits the labels of the template, as a note that Trilium makes. Else they are its own.
    """
    held = json.loads(template.raw)
    if held.get("unread") or held["type"] not in MIMES:
        return None
    labels = [one for one in pairs_of(held) if one[0].lower() not in _NOT_INHERITED]
    said = {"type": held["type"], "mime": held["mime"]}
    if linked:
        said |= {"template": template.id, "inherited": labels}
    text = template.content.text
    if held["type"] == HTML:
        # defence: title-is-no-markup escape()
        title = filling.title and escape(filling.title)
        said["begins"] = replace(filling, title=title).fill(held["html"])
        text = html_codec.to_markdown(said["begins"])
    else:
        text = filling.fill(text)
    return Content(
        text,
        tuple(dict.fromkeys(name for name, _ in labels)),
        properties=values_of(labels),
        native=to_json(said).decode(),
    )
