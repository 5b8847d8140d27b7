"""Read the text of a file as a note, and compose the text that a save stores. Pure.

The text is the whole file, its front matter included: agents see and edit all properties. What an edit must not
spoil by accident is kept: the block of properties, how lines end, a byte order mark.

A page of Logseq has its tags in the properties at its very top (``tags:: a, b``). They lose their meaning below a block
of YAML, so none is put above them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import newline_of
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import UnfitContent
from mcp_notarium.markup.front_block import STARTS, is_foreign, looks_like_block, text_start
from mcp_notarium.markup.front_edit import change_tags
from mcp_notarium.markup.front_matter import (
    NotUnderstood,
    read_aliases,
    read_created,
    read_tags,
    require_readable,
)
from mcp_notarium.markup.obsidian_links import Links, find_targets
from mcp_notarium.stores.vault.paths import (
    UNTITLED,
    Place,
    leads_up,
    name_from,
    names_note,
    renamed_path,
    split_path,
    title_of,
)

if TYPE_CHECKING:
    from mcp_notarium.stores.vault.file_writer import NoteFile

VERSION = 3
EXACT = '{"exact":true}'
"""The native part of a content whose text and title the vault had before: nothing of them is completed."""
_BOM = "\ufeff"
_ENDS = "\\s\u2000-\u206f\u2e00-\u2e7f'!\"#$%&()*+,.:;<=>?@^`{|}~\\[\\]\\\\"
"""Characters that end a tag in a text, as in Obsidian."""
_TAG = re.compile(f"(?<!\\S)#([^{_ENDS}]+)")
_NAME = re.compile(f"[^{_ENDS}]+")
_PROPERTY = re.compile(r"(?:- |  )?([^\s:]++):: *(.*)")
"""A property of a page in Logseq: such lines stand at its top."""
_BRACKETED = re.compile(r"(?<!\S)#\[\[([^\[\]]+)\]\]")
_FENCE_OR_TAG = re.compile(
    rf"^[^\S\n]*(`{{3,}}|~{{3,}})|(?<![^\s`])#(?:[^{_ENDS}]|\[\[)", re.MULTILINE
)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_HTML_OR_CODE = re.compile(
    r"(?P<code>^[^\S\n]*(?P<fence>`{3,}|~{3,})(?:.|\n)*?(?:^[^\S\n]*(?P=fence)|\Z)"
    r"|(?P<ticks>`+)(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`))"
    r"|<!--(?:(?!<!--)(?:.|\n))*?-->|<(?P<raw>style|script)\b(?:(?!<(?P=raw))(?:.|\n))*?</(?P=raw)\s*>"
    r"|<[a-z][a-z0-9-]*(?:\s+[a-z_:@][\w.:-]*+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?)*+\s*/?>",
    re.IGNORECASE | re.MULTILINE,
)
"""Code, which is kept; else a comment, an element that is no text, or a tag with its attributes."""
_MARKUP = re.compile(r"^[\s#>*+\-]+")


_PAGE_PROPERTY = re.compile(r"(?P<indent>- |  )?(?P<key>[^\s:]++):: *(?P<value>[^\r\n]*)\r?\n?")


@dataclass(frozen=True, slots=True)
class Body:
    """Hold what a save writes: the text of the file, whether it lies in the trash, and a new ``path`` of the note."""

    text: str
    trash: bool
    path: str | None = None

    def to_bytes(self) -> bytes:
        """Return it as the body of a journal entry: a line of JSON, then the text.

        As JSON a text of millions of lines would take longer than all else of a save.
        """
        head = json.dumps({"trash": self.trash, "path": self.path})
        return head.encode() + b"\n" + self.text.encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Body:
        """Read it back."""
        head, _, text = body.partition(b"\n")
        return cls(text.decode(), **json.loads(head))


def etag_of(digest: str, path: str, *, trash: bool) -> str:
    """Return the etag of a note: the hash of its bytes, of its title, and of where it lies."""
    return hashlib.sha256(f"{digest}\0{trash}\0{title_of(path)}".encode()).hexdigest()[:32]


def content_of(path: str, text: str, *, trash: bool) -> tuple[Content, bool]:
    """Return a note's content, and whether its tags were understood."""
    tags, understood = find_tags(text)
    return Content(text, tags, trash=trash, title=title_of(path)), understood


def revision_of(place: Place, file: NoteFile) -> Revision:
    """Return the revision of a file."""
    path, trash = place
    content, understood = content_of(path, file.text, trash=trash)
    stated = read_created(file.text) if file.text.startswith(STARTS) else None
    return Revision(
        path,
        etag_of(file.digest, path, trash=trash),
        content,
        file.created if stated is None else stated,
        file.found.st_mtime,
        raw=b"",
        tags_understood=understood,
        identity=file.identity,
        links=find_links(file.text),
    )


@lru_cache(maxsize=2)
def find_links(text: str) -> Links:
    """Return what a note links to, and by which names other than its own others may link to it; kept as tags are."""
    aliases = read_aliases(text) if text.startswith(STARTS) else ()
    return Links(find_targets(text), (*aliases, *_page_names(text)))


def _page_names(text: str) -> Iterator[str]:
    """Yield the names that the properties at the top of a page in Logseq give it."""
    at = text_start(text) or len(_BOM) * text.startswith(_BOM)
    while stated := _PROPERTY.match(text, at):
        at = text.find("\n", at) + 1 or len(text)
        key, value = stated[1].casefold(), stated[2].rstrip("\r")
        names = [value] if key == "title" else value.split(",") if key == "alias" else []
        yield from filter(None, (name.strip().strip("[]").strip() for name in names))


def find_tags(text: str) -> tuple[tuple[str, ...], bool]:
    """Return the tags of the front matter and those in the text, each once; and if all were understood."""
    try:
        listed, understood = read_tags(text) if text.startswith(STARTS) else (), True
    except NotUnderstood:
        listed, understood = (), False  # defence: unreadable-tags-hide False=True
    kept: dict[str, str] = {}
    for tag in (*listed, *_inline_tags(text)):
        kept.setdefault(tag_key(tag), tag)
    return tuple(kept.values()), understood


@lru_cache(maxsize=2)
def _inline_tags(text: str) -> tuple[str, ...]:
    """Return the tags in a text; a save asks several times for those of two texts."""
    at = text_start(text) or len(_BOM) * text.startswith(_BOM)
    found: list[str] = []
    while stated := _PROPERTY.match(text, at):
        end = text.find("\n", at) + 1 or len(text)
        if stated[1].casefold() == "tags":
            found += _page_tags(stated[2].rstrip("\r"))
        found += _tags_of_line(text[at:end])
        at = end
    return (*found, *_tags_outside_code(text[at:])) if "#" in text else tuple(found)


def _tags_outside_code(text: str) -> Iterator[str]:
    """Yield the tags of a text that stand in no block of code. Lines without a tag are not looked at one by one."""
    fence, at = "", 0
    if "<" in text:
        text = _HTML_OR_CODE.sub(lambda one: one[0] if one["code"] else _blank(one[0]), text)
    while begin := _FENCE_OR_TAG.search(text, at):
        at = begin.end()
        if opened := begin[1]:
            if not fence:
                fence = opened
            elif opened.startswith(fence):
                fence = ""
        elif not fence:
            at = text.find("\n", at)
            at = len(text) if at < 0 else at
            yield from _tags_of_line(text[text.rfind("\n", 0, begin.start()) + 1 : at])


def _blank(html: str) -> str:
    """Return something that ends no line and begins no word, with as many line ends."""
    return "<>" + "\n" * html.count("\n")


def _tags_of_line(line: str) -> Iterator[str]:
    if "#" not in line:
        return
    shown = _CODE.sub(" ", line) if "`" in line else line
    if "[[" in shown:
        yield from filter(None, (name.strip() for name in _BRACKETED.findall(shown)))
    for found in _TAG.findall(shown):
        name = found.rstrip("/")
        if name and not name.isdecimal():
            yield name


def _page_tags(value: str) -> Iterator[str]:
    """Yield the tags of a page in Logseq; those that stand as ``#tag`` next to others are found in the text."""
    for part in value.split(","):
        name = part.strip().strip("[]#").strip()
        if name and not re.search(r"\s#|\]\s", name):
            yield name


def compose(base: Revision | None, content: Content) -> Body:
    """Compose what a save stores. Raises ``UnfitContent`` for an edit that a file cannot hold."""
    clean = content.cleaned()
    if base is not None and clean.native == EXACT:
        return Body(clean.text, clean.trash, _former_path(base, clean.title))
    if clean.title is not None and leads_up(clean.title):
        raise UnfitContent(
            "`..` in a title cannot be followed; nothing was saved",
            subcategory="title",
            resolution_hint="Write the folder from the top of the vault, as in `Work/Plan`.",
        )
    if base is None:
        return Body(_with_tags(clean.text, (), clean.tags), clean.trash)
    path = base.id
    if clean.title is not None and clean.title != base.content.title:
        path = _renamed(base.id, clean.title)
    old, text, tags = base.content.text, clean.text, clean.tags
    if text != old:
        text = _without_moved_mark(old, text)
        tags = (*tags, *_tags_below(old, text, tags))
        text = _keep_style(old, _keep_front_matter(old, text))
        _require_unbroken(old, text)  # defence: front-matter-stays-readable
    if tags != base.content.tags:
        text = _with_tags(text, base.content.tags, tags)
    return Body(text, clean.trash, None if path == base.id else path)


def forms(base: Revision, body: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Return path and text of the file that a composed body replaces, and its own."""
    made = Body.from_bytes(body)
    before, after = {"file": base.content.text}, {"file": made.text}
    if made.path is not None:
        before["path"], after["path"] = base.id, made.path
    return before, after


def _former_path(base: Revision, title: str | None) -> str | None:
    """Return the path that a title has named before, letter by letter; None: it names the present one."""
    if title is None or title == base.content.title:
        return None
    name = base.id.rpartition("/")[2]
    path = title.removeprefix("/") + name[name.rfind(".") :]
    if "/" not in title or split_path(path) is None:
        path = _renamed(base.id, title)
    return None if path == base.id else path


def _renamed(path: str, title: str) -> str:
    new = renamed_path(path, title)
    if new is None or split_path(new) is None:
        raise UnfitContent(
            "no note of this vault can have this name or folder; nothing was saved",
            subcategory="title",
            resolution_hint="Choose a title with words."
            if new is None
            else "Choose a shorter title.",
        )
    return new


def _without_moved_mark(old: str, text: str) -> str:
    """Take the byte order mark out of the middle of a text that got lines above it."""
    if not old.startswith(_BOM) or text.startswith(_BOM) or f"\n{_BOM}" in old:
        return text
    return text.replace(f"\n{_BOM}", "\n", 1)


def _keep_front_matter(old: str, text: str) -> str:
    """Give a text without front matter that of the note: an agent that rewrites the text means the text.

    Lines that were put above the block go below it. An empty block removes it.
    """
    held = _missing_front_matter(old, text)
    parts = _split_at(held, text)
    if parts is not None:
        return held + parts[0].removeprefix(_BOM) + parts[1]
    return held + text.removeprefix(_BOM) if held else text


def _missing_front_matter(old: str, text: str) -> str:
    """Return the block of a note if its new text begins with none; else ''. Text between two lines across the page is no block."""
    start = text_start(old)
    is_block = looks_like_block(old) or old[:start].lstrip(f"{_BOM}- \t\r\n").startswith("{")
    if not is_block or not start or text_start(text) or is_foreign(text):
        return ""
    held = old[:start]
    return held if held.endswith("\n") else f"{held}\n"


def _split_at(held: str, text: str) -> tuple[str, str] | None:
    """Return what stands above and below the block in a text; None if it is not there."""
    above, found, below = text.partition(held.removeprefix(_BOM)) if held else ("", "", "")
    return (above, below) if found and (not above or above.endswith("\n")) else None


def _tags_below(old: str, text: str, tags: tuple[str, ...]) -> list[str]:
    """Return the tags of the note's block that are missing because lines stand above it: nobody has taken these away."""
    if _split_at(_missing_front_matter(old, text), text) is None:
        return []
    keys = {tag_key(tag) for tag in tags}
    with suppress(NotUnderstood):
        return [tag for tag in read_tags(old) if tag_key(tag) not in keys]
    return []


def _keep_style(old: str, text: str) -> str:
    r"""Keep a byte order mark, and end lines with ``\r\n`` if all did."""
    if old.startswith(_BOM) and not text.startswith(_BOM):
        text = _BOM + text
    ended = old.count("\r\n")
    if ended and ended == old.count("\n"):
        text = re.sub(r"(?<!\r)\n", "\r\n", text)
    return text


def _require_unbroken(old: str, text: str) -> None:
    """Raise ``UnfitContent`` if an edit leaves a block that cannot be read, and the old one could."""
    try:
        require_readable(old)
    except NotUnderstood:
        return
    try:
        require_readable(text)
    except NotUnderstood:
        raise UnfitContent(
            "the front matter would not be readable YAML with mere keys and values; nothing was saved",
            subcategory="front_matter",
            resolution_hint="Close the block with a second `---` line, quote values that hold `: `, `#` or brackets, and keep "
            "it a mapping. A line across the page is `***`.",
        ) from None


def _with_tags(text: str, old: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """Return the text with these tags: what is missing goes into the front matter, what is left over goes.

    Tags that the text got in the same edit stay.
    """
    held, _ = find_tags(text)
    here, keys = {tag_key(tag) for tag in held}, {tag_key(tag) for tag in wanted}
    added = [tag for tag in wanted if tag_key(tag) not in here]
    removed = [tag for tag in old if tag_key(tag) in here - keys]
    if not added and not removed:
        return text
    for tag in added:
        if not _NAME.fullmatch(tag) or tag.isdecimal():
            raise UnfitContent(
                "a tag of a vault has letters, digits, `_`, `-` and `/` only, and not digits alone; "
                "nothing was saved",
                subcategory="tag_name",
                resolution_hint="Write the tag with these characters.",
            )
    try:
        pairs = zip(old, wanted, strict=True) if len(old) == len(wanted) else ()
        replaced = {one: new for one, new in pairs if one in removed and new in added}
        changed = change_page_tags(text, added=added, removed=removed, replaced=replaced)
        if changed is None:
            changed = change_tags(text, added=added, removed=removed, replaced=replaced)
        require_readable(changed)
    except NotUnderstood:
        raise UnfitContent(
            "the front matter of this note is no YAML that can be read, so it cannot take tags; nothing was saved",
            subcategory="front_matter",
            resolution_hint="Repair the block in the text first: between two `---` lines, as YAML. Or leave `tags` out.",
        ) from None
    found = {tag_key(tag) for tag in find_tags(changed)[0]}
    if left := [tag for tag in removed if tag_key(tag) in found]:
        raise UnfitContent(
            f"{len(left)} of the tags to remove stand in the text, as `#tag`; nothing was saved",
            subcategory="inline_tags",
            resolution_hint="Remove them there, with `find` and `replace` or `text_patch`.",
        )
    if not {tag_key(tag) for tag in added} <= found:
        raise UnfitContent(
            "the tags of this note are written in a form that cannot be changed here; nothing was saved",
            subcategory="front_matter",
            resolution_hint="Change them in the text, with `text_patch`.",
        )
    return changed


def name_for(content: Content) -> str:
    """Return the path of a new note without its ending: from its title, else from the first line with words."""
    folder, _, _ = (content.title or "").rpartition("/")
    if content.title and names_note(content.title):
        return name_from(content.title)
    return name_from(f"{folder}/{_first_words(content)}")


def _first_words(content: Content) -> str:
    for line in content.text[text_start(content.text) :].removeprefix(_BOM).splitlines():
        words = _MARKUP.sub("", line).strip().replace("/", " ")
        if names_note(words):
            return words
    return UNTITLED


def change_page_tags(
    text: str, *, added: Sequence[str], removed: Sequence[str], replaced: Mapping[str, str]
) -> str | None:
    """Return the text with tags added to its line ``tags::`` and removed from it; None if it begins with no property.

    ``replaced``: removed tags in whose place an added one comes. The line comes below the properties if there is none.
    """
    if looks_like_block(text):
        return None
    at = len(_BOM) * text.startswith(_BOM)
    kept, missing, last = [text[:at]], [*added], None
    becomes = dict.fromkeys(map(tag_key, removed), "")
    becomes |= {tag_key(old): new for old, new in replaced.items()}
    while stated := _PAGE_PROPERTY.match(text, at):
        last, at, line = stated, stated.end(), stated[0]
        if stated["key"].casefold() == "tags":
            value = _changed(stated["value"], becomes, missing)
            missing = []
            start, end = (one - stated.start() for one in stated.span("value"))
            blank = " " * (line[start - 1] == ":" and bool(value))
            stays = value or value == stated["value"] or stated["indent"] == "- "
            line = line[:start] + blank + value + line[end:] if stays else ""
        kept.append(line)
    if last is None or (missing and last["indent"]):  # a list begins the text
        return None
    if missing:
        newline = newline_of(text)
        line = f"tags:: {_changed('', {}, missing)}"
        kept.append(line + newline if last[0].endswith("\n") else newline + line)
    return "".join(kept) + text[at:]


def _changed(value: str, becomes: Mapping[str, str], added: Sequence[str]) -> str:
    """Return the tags of a line with each of these keys replaced, or gone for '', and the added ones behind them."""
    parts, placed = [], set[str]()
    for part in value.split(","):
        name = part.strip().strip("[]#").strip()
        new = becomes.get(tag_key(name), name) if name else name
        if new:
            parts.append(part.replace(name, new) if new != name else part)
            placed.add(new)
    kept = ",".join(parts).lstrip() if len(parts) < value.count(",") + 1 else ",".join(parts)
    more = [tag for tag in added if tag not in placed]
    if not kept.strip():
        return ", ".join(f"#{tag}" for tag in more) or kept  # other apps know a tag by its sign
    return (" #" if "#" in kept else ", ").join((kept, *more))
