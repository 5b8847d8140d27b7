"""Convert HTML as the store of a Trilium server does: with the addresses of its own images."""

from __future__ import annotations

from functools import partial

from mcp_notarium.markup import html_codec
from mcp_notarium.stores.trilium.note_codec import OWN_IMAGES

edit = partial(html_codec.edit, images=OWN_IMAGES)
to_html = partial(html_codec.to_html, images=OWN_IMAGES)
