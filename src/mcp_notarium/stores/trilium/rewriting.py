"""Tell whether the server has made a text of the one that it was sent. Pure.

Within the write it makes attachments of embedded images and files, takes over attachments of another owner, and
shortens links to its own address. Everything else it stores as it is.
"""

from __future__ import annotations

import re
from html import unescape

_NEAR = tuple(
    (re.compile(pattern), near)
    for pattern, near in (
        (r'src="[^"]*/api/attachments/', 'src="api/attachments/'),
        (r'src="[^"]*/api/images/', 'src="api/images/'),
        (r'href="[^"]*#root', 'href="#root'),
    )
)
_PART = re.compile(
    r"""(?P<image><img[^<>]*?)\ssrc=["'](?:(?P<data>data:image/)|(?!api/))[^"'<>]+["']"""
    r"""|(?P<own>api/attachments/\w+/image)"""
    r"""|(?P<file><a[^<>]*?\shref=["']data:[^;"'<>]+;base64,[^"'<>]+["'][^<>]*>)"""
    r"""(?P<title>(?:[^<\n]|<(?!/?a\b))*)</a>"""
    r"""|(?P<link>href="[^"]+attachmentId=\w+[^"]*")""",
    re.IGNORECASE,
)
"""What the server may replace."""
_TAG = re.compile(r"<[^<>]*>")
_IMAGE = re.compile(r' src="api/attachments/\w+/image/[^"]*"')
_OWN = re.compile(r"api/attachments/\w+/image")
_LINK = re.compile(r'href="#root/(\w+)\?viewMode=attachments&(?:amp;)?attachmentId=\w+"')


def is_made_of(stored: str, sent: str, *, note_id: str) -> bool:
    """Tell whether a note has this text because it was sent that one."""
    stored, sent = _shortened(stored), _shortened(sent)
    here = done = 0
    for part in _PART.finditer(sent):
        same = sent[done : part.start()]
        if not stored.startswith(same, here):
            return False
        end = _end_of(part, stored, here + len(same), note_id)
        if end is None:
            return False
        here, done = end, part.end()
    return stored[here:] == sent[done:]


def _shortened(html: str) -> str:
    for pattern, near in _NEAR:
        html = pattern.sub(near, html)
    return html


def _end_of(part: re.Match[str], stored: str, here: int, note_id: str) -> int | None:
    """Return where a part ends in the stored text: as it was sent, or as the server writes it; None: neither."""
    if stored.startswith(part[0], here):
        return here + len(part[0])
    opening, made = "", _LINK
    if part["image"]:
        # Of an embedded image the server drops what stands before its source.
        opening, made = "<img" if part["data"] else part["image"].rstrip(), _IMAGE
    elif part["own"]:
        made = _OWN
    elif part["file"]:
        opening = '<a class="reference-link" '
    if not stored.startswith(opening, here):
        return None
    found = made.match(stored, here + len(opening))
    if found is None or (made is _LINK and found[1] != note_id):
        return None
    return found.end() if not part["file"] else _end_of_title(part["title"], stored, found.end())


def _end_of_title(title: str, stored: str, here: int) -> int | None:
    """Return where a link to a file ends: of its words the server keeps the bare text."""
    end = stored.find("</a>", here)
    if end < 0 or not stored.startswith(">", here):
        return None
    words = stored[here + 1 : end].split()
    return end + len("</a>") if words == unescape(_TAG.sub("", title)).split() else None
