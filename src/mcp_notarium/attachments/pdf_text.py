"""Read the text of a PDF, page by page. For the copy of the process only."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from io import BytesIO

import pypdf
from pypdf import PdfReader
from pypdf.errors import PyPdfError

MOST_PAGES = 5_000
_MARKUP = re.compile(
    r"^(?=[^\S\n]*+(?:(?:- )?#|`{3}|~{3}|%%|<|=++[^\S\n]*$|-++[^\S\n]*$))", re.MULTILINE
)
"""Before what would be read as a heading, or would hide those of the pages below: the fence of code, a comment, HTML."""
logging.getLogger("pypdf").setLevel(logging.CRITICAL + 1)  # it quotes the file
_NOT_SHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Locked(ValueError):
    """Report that the file is encrypted, and opens only with a password."""


def read_pages(data: bytes) -> Iterator[tuple[int, int, str | None]]:
    """Yield the number of each page (from 1), how many there are, and its text, with blanks before what looks like markup.

    The text of a page that is broken, or over a limit of pypdf's, is None. Raises ``Locked``, and whatever a broken file makes pypdf raise.
    """
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Locked
    total = len(reader.pages)
    for number in range(1, min(total, MOST_PAGES) + 1):
        yield number, total, _text_of(reader, number)


def _text_of(reader: PdfReader, number: int) -> str | None:
    try:
        text = reader.pages[number - 1].extract_text()
    except (PyPdfError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return None
    text = _NOT_SHOWN.sub("", text).encode("utf-8", "replace").decode()
    return _MARKUP.sub("\\\\", text.strip("\n"))


def load() -> None:
    """Import what reading a page imports first: the copy of the process imports nothing."""
    for _ in read_pages(_SMALLEST):
        pass


def _one_page() -> bytes:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(10, 10)
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


_SMALLEST = _one_page()
