"""Make a picture small enough for a model, without the metadata of its file. For the copy of the process only.

A camera writes into a file where and when a picture was taken, and by whom: the new file is made of pixels alone.
"""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

from PIL import (
    GifImagePlugin,
    Image,
    ImageOps,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    WebPImagePlugin,
)

from mcp_notarium.domain.file_names import PICTURES

LONGEST_SIDE = 1568
"""Pixels of the long side, beyond which models scale a picture down themselves."""
MOST_BYTES = 750_000
"""Bytes of a picture that is shown: 1,000,000 as base64."""
MOST_PIXELS = 64_000_000
"""Pixels that are decoded; of a large JPEG only an eighth of each side is. More are a bomb, or a scan that takes a gigabyte."""
_MOST_COMPRESSED, _MOST_UNLIMITED = 8 * MOST_PIXELS, 2 * MOST_PIXELS
"""Pixels of the file itself; the second, where no system limits memory: a JPEG of several scans is unpacked as a whole before it is made
smaller, with up to eight bytes for each pixel."""
_QUALITIES = (85, 70, 50, 30)
_WHITE = "white"
_LOADED = (GifImagePlugin, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, WebPImagePlugin)
"""Decoders that are imported here, because the copy of the process imports nothing."""

Image.MAX_IMAGE_PIXELS = None  # a warning of Pillow's own; the size is checked below
Image.preinit()


class TooManyPixels(ValueError):
    """Report that the picture has more pixels than are decoded."""


def shrink(
    data: bytes, kind: str, *, memory_limited: bool = True
) -> tuple[bytes, str, tuple[int, int]]:
    """Return the first frame as the bytes of a small PNG or JPEG, its kind, and the size of the original in pixels.

    ``memory_limited``: nothing but this process is lost if the picture takes too much. Raises ``TooManyPixels``, and whatever a broken file makes Pillow raise.
    """
    # Opening a WebP takes the memory of its canvas.
    if kind == "image/webp" and _canvas(data) > MOST_PIXELS:  # defence: canvas-before-open =False
        raise TooManyPixels
    with Image.open(BytesIO(data), formats=[PICTURES[kind]]) as found:
        width, height = found.size
        # defence: fewer-pixels-without-limit =False
        if not memory_limited and width * height > _MOST_UNLIMITED:
            raise TooManyPixels
        if width * height > _MOST_COMPRESSED:
            raise TooManyPixels
        # A square would be wider or higher than what is made, and the file be decoded at full size.
        larger = max(1.0, max(width, height) / LONGEST_SIDE)
        found.draft("RGB", (max(1, int(width / larger)), max(1, int(height / larger))))
        # defence: picture-bomb-refused =False
        if found.width * found.height > MOST_PIXELS:
            raise TooManyPixels
        picture = _plain(found)
    turned = (picture.width > picture.height) != (width > height)
    size = (height, width) if turned else (width, height)
    if (kind != "image/jpeg" or picture.mode == "RGBA") and (made := _save(picture, "PNG")):
        return made, "image/png", size
    flat = picture
    if picture.mode == "RGBA":
        flat = Image.new("RGB", picture.size, _WHITE)
        flat.paste(picture, mask=picture.getchannel("A"))
    for quality in _QUALITIES:
        if made := _save(flat, "JPEG", quality=quality):
            return made, "image/jpeg", size
    flat.thumbnail((LONGEST_SIDE // 2, LONGEST_SIDE // 2))
    return _save(flat, "JPEG", quality=_QUALITIES[-1]) or b"", "image/jpeg", size


def _canvas(data: bytes) -> int:
    """Return the pixels that a WebP says to have; 0 if it says none."""
    sizes = data[20:30]
    match data[12:16]:
        case b"VP8X":
            width, height = (int.from_bytes(sizes[at : at + 3], "little") for at in (4, 7))
        case b"VP8L":
            bits = int.from_bytes(sizes[1:5], "little")
            width, height = bits & 0x3FFF, bits >> 14 & 0x3FFF
        case b"VP8 ":
            width, height = (int.from_bytes(sizes[at : at + 2], "little") & 0x3FFF for at in (6, 8))
            return width * height
        case _:
            return 0
    return (width + 1) * (height + 1)


def _plain(found: Image.Image) -> Image.Image:
    """Return the pixels as they are seen, small, in a mode that both formats know, without the metadata of the file."""
    if found.mode.startswith("I;16"):
        found = found.point(lambda value: value * (1 / 256)).convert("L")
    has_alpha = found.mode in ("RGBA", "LA", "PA") or "transparency" in found.info
    mode = "RGBA" if has_alpha else "RGB"
    made = found if found.mode == mode else found.convert(mode)
    made.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
    with suppress(Exception):  # what a camera wrote may be broken where the picture is not
        made = ImageOps.exif_transpose(made)
    made.info = {}  # defence: picture-facts-removed
    return made


def _save(picture: Image.Image, form: str, **how: int) -> bytes:
    """Return the file; b"" if it is too large."""
    out = BytesIO()
    picture.save(out, form, **how)
    return out.getvalue() if out.tell() <= MOST_BYTES else b""
