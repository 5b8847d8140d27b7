"""Make pictures and PDFs for tests: good ones by Pillow or by hand, and hostile ones by hand."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from PIL import Image

CAMERA = "taken at home, by the owner"


def picture(form: str = "PNG", size: tuple[int, int] = (40, 30), mode: str = "RGB") -> bytes:
    """Return a picture of one colour, with a camera's words in it where its format has a place for them."""
    exif = Image.Exif()
    exif[0x010E] = CAMERA
    out = BytesIO()
    Image.new(mode, size, 90 if mode in ("L", "P") else (200, 90, 30, 120)[: len(mode)]).save(
        out, form, exif=exif, comment=CAMERA.encode()
    )
    return out.getvalue()


def photo(size: tuple[int, int], *, turned: bool = False) -> bytes:
    """Return a JPEG with much detail; ``turned``: the camera was held upright."""
    width, height = size
    noise = Image.frombytes("L", (160, 120), random.Random(1).randbytes(160 * 120))
    exif = Image.Exif()
    exif[0x0112] = 6 if turned else 1
    exif[0x010E] = CAMERA
    out = BytesIO()
    noise.convert("RGB").resize((width, height)).save(out, "JPEG", quality=90, exif=exif)
    return out.getvalue()


def png(width: int, height: int, data: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """Return a PNG by hand, with 8 bits for each of three colours."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), *more, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(said)) + kind + said + struct.pack(">I", zlib.crc32(kind + said))
        for kind, said in chunks
    )


def zeros(size: int) -> bytes:
    """Return so many zeros, compressed a thousandfold."""
    made = zlib.compressobj(9)
    parts = [made.compress(bytes(min(1 << 20, size - at))) for at in range(0, size, 1 << 20)]
    return b"".join(parts) + made.flush()


def pdf(pages: Sequence[str | bytes], *more: str, kids: str = "", root: str = "") -> bytes:
    """Return a PDF by hand, each page with these lines, or with this stream of commands, compressed.

    ``more``: further objects; ``kids``: other pages than these; ``root``: more entries of the catalogue.
    """
    numbers = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects: list[Any] = [
        f"<< /Type /Catalog /Pages 2 0 R {root} >>",
        f"<< /Type /Pages /Kids [{kids or numbers}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for page in pages:
        stream = page if isinstance(page, bytes) else zlib.compress(_commands(page).encode())
        at = len(objects) + 2
        objects += [
            (
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] "
                f"/Resources << /Font << /F1 3 0 R >> >> /Contents {at} 0 R >>"
            ),
            f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode()
            + stream
            + b"\nendstream",
        ]
    objects += more
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        said = one if isinstance(one, bytes) else one.encode()
        out += b"%d 0 obj\n%s\nendobj\n" % (number, said)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += (
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    )
    return bytes(out)


def _commands(page: str) -> str:
    lines = " ".join(f"({line}) Tj T*" for line in page.split("\n"))
    return f"BT /F1 12 Tf 20 200 Td 14 TL {lines} ET"
