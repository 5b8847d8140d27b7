"""Turn the bytes of a file into what a model can be shown: a small picture, a text, or facts alone.

Pictures and PDFs are decoded in a copy of this process (``system.forked``), which can open no file but the program's, reach no
network, and has a limit of time and memory; where a system copies no process, here, under the limits of pixels and pages.
What comes back is checked as anything from outside.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mcp_notarium.domain.file_names import HEAD, PDF, PICTURES, kind_of
from mcp_notarium.sandbox.confinement import confine_decoder
from mcp_notarium.system import SYSTEM

LARGEST = 64 * 1024 * 1024
"""Bytes of a file that is decoded."""
MOST_TEXT = 8 * 1024 * 1024
"""Bytes of a text that is kept."""
_PICTURE_SECONDS, _PDF_SECONDS = 10.0, 20.0
_MEMORY = 768 * 1024 * 1024
"""Bytes that decoding may take: a picture of the most pixels has three or four for each, and once more while it is turned."""
_BROKEN = "The file is damaged, or needs more time or memory than decoding may take."
_TOO_MANY_PIXELS = "The picture has more pixels than are decoded here."
_MOST_NAMED = 20
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LOCKED = "The PDF opens with a password only."
_NO_TEXT = "The PDF has no text: its pages are pictures."
_UNREAD = "Pages that are damaged, or larger than is decoded here, could not be read:"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Hold what can be shown of a file."""

    kind: str
    picture: bytes = b""
    picture_kind: str = ""
    size: tuple[int, int] | None = None
    """Width and height of a picture, as its file has them."""
    text: str | None = None
    """That of a PDF has a heading for each page."""
    pages: int | None = None
    problem: str = ""
    """Reason that this is not all of the file; '' if it is."""


def decode(data: bytes, promised: str) -> Decoded:
    """Return what can be shown of a file that is said to be of a kind. Blocks for seconds; never raises for what the bytes are."""
    kind = kind_of(data[:HEAD], promised)
    if kind in PICTURES:
        return _decode_picture(data, kind)
    if kind == PDF:
        return _decode_pdf(data)
    return _decode_text(data, kind)


def _decode_text(data: bytes, kind: str) -> Decoded:
    if len(data) > MOST_TEXT:
        return Decoded(kind)
    try:
        text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8-sig")
    except UnicodeDecodeError:
        return Decoded(kind)
    if "\0" in text:
        return Decoded(kind)
    return Decoded(kind if kind.partition("/")[0] != "image" else "text/xml", text=text)


def _decode_picture(data: bytes, kind: str) -> Decoded:
    from mcp_notarium.attachments import pictures  # noqa: PLC0415 - slow, and seldom needed

    def work() -> Iterator[bytes]:
        try:
            made, made_kind, size = pictures.shrink(data, kind, memory_limited=SYSTEM.limits_memory)
        except pictures.TooManyPixels:
            yield _line({"problem": _TOO_MANY_PIXELS})
            return
        yield _line({"kind": made_kind, "size": size})
        yield made

    answer, whole = _run(work, seconds=_PICTURE_SECONDS, most=pictures.MOST_BYTES + HEAD)
    line, _, made = answer.partition(b"\n")
    match _facts(line):
        case {"problem": str(problem)} if whole:
            return Decoded(kind, problem=problem)
        case {"kind": str(made_kind), "size": [int(width), int(height)]} if whole and made:
            if made_kind in PICTURES and kind_of(made[:HEAD], "") == made_kind:
                return Decoded(kind, made, made_kind, size=(width, height))
    return Decoded(kind, problem=_BROKEN)


def _decode_pdf(data: bytes) -> Decoded:
    from mcp_notarium.attachments import pdf_text  # noqa: PLC0415 - slow, and seldom needed

    pdf_text.load()

    def work() -> Iterator[bytes]:
        size = 0
        try:
            for number, total, text in pdf_text.read_pages(data):
                line = _line({"page": number, "pages": total, "text": text})
                size += len(line)
                if size > MOST_TEXT:
                    return
                yield line
        except pdf_text.Locked:
            yield _line({"problem": _LOCKED})

    answer, whole = _run(work, seconds=_PDF_SECONDS, most=MOST_TEXT)
    rows = [_facts(line) for line in answer.split(b"\n")[:-1]]
    if rows and isinstance(problem := rows[-1].get("problem"), str):
        return Decoded(PDF, problem=problem)
    pages: list[str | None] = []
    total = 0
    for row in rows:
        match row:
            case {"page": int(number), "pages": int(total), "text": str() | None as text} if (
                number == len(pages) + 1
            ):
                pages.append(text)
    if not pages:
        return Decoded(PDF, problem=_BROKEN)
    problem = " ".join(_problems(pages, total, whole=whole))
    if not any(text and text.strip() for text in pages):
        return Decoded(PDF, pages=total, problem=problem)
    joined = "".join(f"# Page {at}\n\n{text or ''}\n\n" for at, text in enumerate(pages, 1))
    return Decoded(PDF, text=joined, pages=total, problem=problem)


def _problems(pages: Sequence[str | None], total: int, *, whole: bool) -> Iterator[str]:
    """Yield what keeps text back; None stands for a page that could not be read."""
    unread = [str(at) for at, text in enumerate(pages, 1) if text is None]
    if len(unread) < len(pages) and not any(text and text.strip() for text in pages):
        yield _NO_TEXT
    if unread:
        more = ", ..." if len(unread) > _MOST_NAMED else ""
        yield f"{_UNREAD} {', '.join(unread[:_MOST_NAMED])}{more}."
    if len(pages) < total or not whole:
        yield _cut(len(pages), total)


def _cut(read: int, total: int) -> str:
    return (
        f"Only the first {read} of {total} pages could be read in the time and room that there is."
    )


def _run(work: Callable[[], Iterator[bytes]], *, seconds: float, most: int) -> tuple[bytes, bool]:
    """Return what is yielded, and whether that is all."""
    try:
        return SYSTEM.run_apart(
            work, confine=confine_decoder, seconds=seconds, memory=_MEMORY, most=most
        )
    except Exception:  # noqa: BLE001 - where it runs here, a broken file raises whatever its decoder does
        return b"", False


def _facts(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _line(facts: dict[str, object]) -> bytes:
    return json.dumps(facts).encode() + b"\n"
