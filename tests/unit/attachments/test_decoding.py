"""What is shown of a file: small pictures without their cameras' words, texts of PDFs, and of hostile files nothing but a sentence."""

from __future__ import annotations

import os
import queue
import resource
import socket
import sys
import threading
import time
import zlib
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from mcp_notarium.attachments import decoding, pdf_text, pictures
from mcp_notarium.attachments.decoding import Decoded, decode
from mcp_notarium.domain.file_names import any_ending_of, kind_of_name
from mcp_notarium.sandbox.confinement import confine_decoder
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.windows import Windows
from support.long import dice, sample
from support.sample_files import CAMERA, pdf, photo, picture, png, zeros

BROKEN = decoding._BROKEN
KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}


def shown(found: Decoded) -> Image.Image:
    """The picture that a model sees."""
    assert not found.problem
    assert found.picture_kind in ("image/png", "image/jpeg")
    assert len(found.picture) <= pictures.MOST_BYTES
    made = Image.open(BytesIO(found.picture))
    made.load()
    return made


@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P"])
def test_a_small_picture_is_shown_in_its_size_without_the_cameras_words(form, mode):
    if form == "JPEG" and mode in ("RGBA", "P"):
        mode = "CMYK"
    if form == "WEBP" and mode == "P":
        mode = "RGBA"
    data = picture(form, mode=mode)
    found = decode(data, "image/png")
    assert (found.kind, found.size, shown(found).size) == (KINDS[form], (40, 30), (40, 30))
    assert CAMERA.encode() not in found.picture
    assert not shown(found).getexif()
    assert shown(found).info.keys() <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


def test_a_large_photo_becomes_small_and_stands_upright_as_its_camera_was_held():
    found = decode(photo((4000, 3000), turned=True), "image/jpeg")
    assert found.size == (3000, 4000)
    assert shown(found).size == (1176, 1568)
    assert CAMERA.encode() not in found.picture


def test_a_picture_of_16_bits_is_as_bright_as_it_was():
    out = BytesIO()
    Image.new("I;16", (20, 20), 100 << 8).save(out, "PNG")
    assert shown(decode(out.getvalue(), "")).convert("L").getpixel((5, 5)) == 100


def test_of_an_animation_the_first_frame_is_shown():
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "lime", "blue")]
    for form in ("GIF", "WEBP"):
        out = BytesIO()
        frames[0].save(out, form, save_all=True, append_images=frames[1:], lossless=True)
        red, green, blue = (
            shown(decode(out.getvalue(), KINDS[form])).convert("RGB").getpixel((5, 5))
        )
        assert (red > 200, green < 60, blue < 60) == (True, True, True)


def test_detail_that_no_png_holds_in_its_bound_becomes_a_jpeg():
    noise = Image.frombytes("RGB", (1200, 1000), dice("noise").randbytes(1200 * 1000 * 3))
    out = BytesIO()
    noise.save(out, "PNG", compress_level=0)
    found = decode(out.getvalue(), "image/png")
    assert (found.picture_kind, shown(found).size) == ("image/jpeg", (1200, 1000))


def test_a_pdf_has_a_heading_for_each_page_and_its_text_makes_none():
    found = decode(pdf(["Costs\n# 12\n===\n~~~\n- # 1\n%%\n<!--", "", "\\(end\\)"]), "text/plain")
    assert (found.kind, found.pages, found.problem) == ("application/pdf", 3, "")
    assert found.text == (
        "# Page 1\n\nCosts\n\\# 12\n\\===\n\\~~~\n\\- # 1\n\\%%\n\\<!--\n\n# Page 2\n\n\n\n# Page 3\n\n(end)\n\n"
    )


def test_a_page_of_blank_lines_takes_no_time():
    began = time.thread_time()
    pdf_text._MARKUP.sub("", "\n" * 200_000 + " \t" * 100_000)
    assert time.thread_time() - began < 1


def test_what_a_pdf_lacks_is_said():
    assert decode(pdf(["", ""]), "").problem == decoding._NO_TEXT
    unread = decode(pdf(["one", bomb := zeros(90_000_000), "three"]), "")
    assert unread.text == "# Page 1\n\none\n\n# Page 2\n\n\n\n# Page 3\n\nthree\n\n"
    assert unread.problem == f"{decoding._UNREAD} 2."
    assert decode(pdf([bomb]), "").problem == f"{decoding._UNREAD} 1."
    locked = BytesIO()
    writer = pdf_text.pypdf.PdfWriter(clone_from=BytesIO(pdf(["secret"])))
    writer.encrypt("password", algorithm="AES-256")
    writer.write(locked)
    assert decode(locked.getvalue(), "").problem == decoding._LOCKED


def test_a_long_pdf_is_read_as_far_as_there_is_time(monkeypatch):
    monkeypatch.setattr(decoding, "_PDF_SECONDS", 1.0)
    real = pdf_text._text_of

    def slow(reader, number):
        if number == 3:
            time.sleep(30)
        return real(reader, number)

    monkeypatch.setattr(pdf_text, "_text_of", slow)
    found = decode(pdf(["one", "two", "three"]), "")
    assert found.text == "# Page 1\n\none\n\n# Page 2\n\ntwo\n\n"
    assert "first 2 of 3 pages" in found.problem


@pytest.mark.parametrize(
    ("name", "data", "kind", "text"),
    [
        ("a.txt", b"text\r\n", "text/plain", "text\r\n"),
        ("a.csv", b"\xef\xbb\xbfa,b\n", "text/csv", "a,b\n"),
        ("a.svg", b"<svg onload='x'/>", "text/xml", "<svg onload='x'/>"),
        ("a.canvas", b"{}", "application/json", "{}"),
        ("LICENSE", b"words", "application/octet-stream", "words"),
        (
            "a.docx",
            b"PK\x03\x04\0",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            None,
        ),
        ("a.YML", b"a: 1", "application/yaml", "a: 1"),
        ("a.txt", b"\xff\xfe", "text/plain", None),
        ("fake.png", b"not a picture \0", "application/octet-stream", None),
        ("fake.pdf", b"no PDF \0", "application/octet-stream", None),
    ],
)
def test_other_files_are_text_if_they_are_utf8(name, data, kind, text):
    found = decode(data, kind_of_name(name))
    assert (found.text, found.kind) == (text, kind)
    assert kind_of_name(f"x{any_ending_of(kind)}") == kind


def _row(width: int) -> int:
    return 1 + 3 * width


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_seen_though_what_its_camera_wrote_is_broken(form):
    out = BytesIO()
    Image.new("RGB", (40, 30)).save(out, form, exif=b"Exif\0\0broken words")
    assert shown(decode(out.getvalue(), "")).size == (40, 30)


def webp(chunk: bytes, data: bytes) -> bytes:
    """A WebP that begins with this chunk, and has nothing more."""
    said = b"WEBP" + chunk + len(data).to_bytes(4, "little") + data
    return b"RIFF" + len(said).to_bytes(4, "little") + said


HOSTILE = {
    "PNG of 3.6 gigapixels": png(60_000, 60_000, b""),
    "PNG of 80 megapixels": png(9000, 9000, zeros(_row(9000) * 9000)),
    "PNG with more data than pixels": png(10, 10, zeros(200_000_000)),
    "PNG with a huge comment": png(10, 10, zeros(310), (b"zTXt", b"k\0\0" + zeros(300_000_000))),
    "PNG with a huge profile": png(10, 10, zeros(310), (b"iCCP", b"k\0\0" + zeros(300_000_000))),
    "GIF of 4 gigapixels": b"GIF89a\xff\xff\xff\xff\x80\0\0" + b"\0\0\0\xff\xff\xff,\0\0\0\0\xff\xff\xff\xff\0\x02",
    "WebP canvas of 268 megapixels": webp(b"VP8X", b"\x02\0\0\0" + b"\xff\x3f\0" * 2) + webp(b"VP8L", b"\x2f\0\0\0\0")[12:],
    "WebP without losses of 268 megapixels": webp(b"VP8L", b"\x2f\xff\xff\xff\x0f"),
    "WebP with losses of 268 megapixels": webp(b"VP8 ", b"\x10\0\0\x9d\x01\x2a" + b"\xff\x3f" * 2),
    "WebP that is cut": picture("WEBP")[:40],
    "JPEG head alone": b"\xff\xd8\xff\xe0" + b"\0" * 100,
    "JPEG that says 4 gigapixels": b"\xff\xd8\xff\xc0\0\x11\x08\xff\xff\xff\xff\x03\x01\x11\0\x02\x11\1\x03\x11\1",
    "JPEG of a gigapixel": b"\xff\xd8\xff\xc2\0\x11\x08\x7d\0\x7d\0\x03\x01\x11\0\x02\x11\1\x03\x11\1\xff\xda\0\x0c\x03\1\0\2\x11\3\x11\0\x3f\0",
    "PDF whose pages are each other": pdf([], kids="2 0 R"),
    "PDF with a million pages": pdf(["x"], kids="4 0 R " * 200_000),
    "PDF whose page is a bomb": pdf([zeros(2_000_000_000)]),
    "PDF of deep lists": pdf(["x"], "[" * 100_000, root="/Names 6 0 R"),
    "PDF whose trailer is at itself": b"%PDF-1.7\ntrailer << /Root 1 0 R /Prev 9 >>\nstartxref\n9\n%%EOF",
    "PDF without anything": b"%PDF-",
}  # fmt: skip


GIGAPIXELS = ("PNG of 3.6 gigapixels", "GIF of 4 gigapixels", "JPEG of a gigapixel")


def test_a_picture_of_too_many_pixels_is_not_begun():
    for name in (one for one in HOSTILE if one.endswith(" megapixels") or one in GIGAPIXELS):
        assert decode(HOSTILE[name], "image/png").problem == decoding._TOO_MANY_PIXELS


def test_a_jpeg_may_have_fewer_pixels_where_no_system_limits_memory(monkeypatch):
    large = HOSTILE["JPEG of a gigapixel"].replace(b"\x7d\0\x7d\0", b"\x2f\0\x2f\0")
    for limited, problem in ((True, BROKEN), (False, decoding._TOO_MANY_PIXELS)):
        monkeypatch.setattr(type(SYSTEM), "limits_memory", limited)
        assert decode(large, "image/jpeg").problem == problem


@pytest.mark.slow("each may take the seconds that decoding may take")
@pytest.mark.parametrize("name", sample("hostile files", [*HOSTILE], 5))
def test_a_hostile_file_ends_in_time_and_leaves_nothing(name, monkeypatch):
    monkeypatch.setattr(decoding, "_PDF_SECONDS", 2.0)
    monkeypatch.setattr(decoding, "_PICTURE_SECONDS", 2.0)
    children, fork = [], os.fork
    monkeypatch.setattr(
        os, "fork", lambda: children.append(made) or made if (made := fork()) else 0
    )
    before, began = _resident(), time.monotonic()
    open_files = _open_files()
    found = decode(HOSTILE[name], "image/png")
    assert time.monotonic() - began < 8
    assert not found.picture or shown(found).size <= (1568, 1568)
    assert found.picture or found.problem or len(found.text or "") <= decoding.MOST_TEXT
    assert _resident() - before < 100_000_000
    assert _open_files() == open_files
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def _open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def _resident() -> int:
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_no_damage_to_a_file_does_more_than_hide_it(monkeypatch):
    monkeypatch.setattr(decoding, "_PDF_SECONDS", 5.0)
    chance = dice("damaged files")
    files = [picture(form) for form in KINDS] + [pdf(["some text", "more"])]
    for _ in range(4 if not sample("x", [1, 2], 1)[1:] else 400):
        data = bytearray(chance.choice(files))
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        found = decode(bytes(data[: chance.randint(1, len(data))]), "image/png")
        assert found.picture or found.problem or found.text is not None or not found.pages


def apart(work, *, confine=lambda: None, seconds=10.0, memory=1 << 28):
    """Run it in a copy that may take 256 MB, and say 1,000 bytes."""
    return SYSTEM.run_apart(work, confine=confine, seconds=seconds, memory=memory, most=1000)


def test_the_decoder_opens_no_note_writes_nothing_and_reaches_nobody(tmp_path):
    """What a decoder that was taken over could do."""
    note = tmp_path / "Note.md"
    note.write_text("secret")
    listening = socket.create_server(("127.0.0.1", 0))

    def tries():
        for attempt in (
            note.read_text,
            lambda: (tmp_path / "new").write_text("x"),
            lambda: socket.create_connection(listening.getsockname(), timeout=1),
            lambda: os.execv("/bin/true", ["true"]),
            lambda: next(tmp_path.iterdir()),
            lambda: socket.socket().listen(),
        ):
            try:
                attempt()
                yield b"done "
            except OSError:
                yield b"refused "

    with listening:
        answer, whole = apart(tries, confine=confine_decoder)
    assert (answer.split(), whole) == ([b"refused"] * 6, True)
    assert not (tmp_path / "new").exists()


def test_the_copy_has_no_open_file_but_its_pipe(tmp_path):
    with (tmp_path / "open").open("wb") as opened:

        def tries():
            for one in (0, 1, 2, opened.fileno()):
                try:
                    os.fstat(one)
                    yield b"open "
                except OSError:
                    yield b"closed "

        answer, _ = apart(tries)
    assert answer.split() == [b"closed"] * 4


def test_the_copy_is_ended_when_it_takes_too_long_or_too_much():
    def waits():
        yield b"first"
        time.sleep(60)

    began = time.monotonic()
    assert apart(waits, seconds=0.3) == (b"first", False)
    assert time.monotonic() - began < 5
    assert apart(grows) == (b"first", False)


def grows():
    yield b"first"
    yield bytes(1 << 30)[:1]


def test_the_limit_of_memory_holds_where_the_server_is_confined():
    """There the copy may not look at itself in /proc."""

    def server():
        yield repr(apart(grows)).encode()

    answer, _ = apart(server, confine=confine_decoder, memory=1 << 40)
    assert answer == repr((b"first", False)).encode()


@pytest.mark.skipif(sys.platform != "linux", reason="the others know no such signal")
def test_a_copy_ends_with_the_server(monkeypatch):
    def waits():
        time.sleep(60)
        yield b""

    def server():
        started, fork = queue.SimpleQueue(), os.fork
        os.fork = lambda: started.put(made) or made if (made := fork()) else 0
        threading.Thread(target=apart, args=(waits,)).start()
        yield str(started.get()).encode()

    answer, _ = apart(server)
    end = time.monotonic() + 5
    while _is_running(int(answer)):
        assert time.monotonic() < end
        time.sleep(0.01)


def _is_running(child: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_what_a_copy_says_fills_no_memory():
    def floods():
        for _ in range(300):
            yield bytes(1 << 20)

    before = _resident()
    assert apart(floods) == (b"", False)
    assert _resident() - before < 50_000_000


def test_a_copy_that_was_taken_over_can_show_no_other_kind_of_file(monkeypatch):
    monkeypatch.setattr(pictures, "shrink", lambda _data, _kind: (b"BM...", "image/png", (1, 1)))
    assert decode(picture("PNG"), "") == Decoded("image/png", problem=BROKEN)


def test_a_picture_costs_little(record_property):
    data = photo((4000, 3000))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert decode(data, "image/jpeg").picture
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record_property("seconds", seconds)
    floor = time.process_time()
    zlib.compress(data * 4, 9)
    assert seconds < max(1.0, 20 * (time.process_time() - floor))


def test_where_no_process_is_copied_the_same_is_shown_and_refused(monkeypatch):
    monkeypatch.setattr(decoding, "SYSTEM", Windows())
    assert shown(decode(picture("PNG"), "")).size == (40, 30)
    assert decode(pdf(["one", "two"]), "").pages == 2
    for data in (picture("PNG")[:60], pdf(["x"])[:40], HOSTILE["PNG of 3.6 gigapixels"]):
        assert decode(data, "").problem
    monkeypatch.setattr(decoding, "_PDF_SECONDS", -1.0)
    assert "first 1 of 2 pages" in decode(pdf(["one", "two"]), "").problem
