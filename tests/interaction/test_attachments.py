"""Files that notes show, through a client: which there are, what of them is seen, and which may not be."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from contextlib import asynccontextmanager
from io import BytesIO

import pytest
from PIL import Image

from mcp_notarium.attachments import decoding
from mcp_notarium.audit.chain import AuditKeys
from mcp_notarium.domain.policy import Field, Limits, Policy, Visibility
from mcp_notarium.secret import Secret
from mcp_notarium.stores.vault import folder
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.get import ANSWER_BYTES, FEWER_FILES
from mcp_notarium.tools.toolsets import find_toolset
from notarium_devtools.trilium.records import Attachment as FileOfTrilium
from support.memento_file import MementoFile
from support.sample_files import CAMERA, pdf, picture
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.undo_places import PLACES

pytestmark = pytest.mark.anyio

PHOTO, PAPER = picture("JPEG"), pdf(["first page", "second page\nmore"])
FILES = {
    "Trip.md": "# Trip\n\n![[photo.jpg|300]] ![map](assets/map%20a.png)\n[[data.csv]] [paper](assets/paper.pdf)\n"
    "[[Nowhere]] ![](https://example.org/x.png) `![[code.png]]` ![[Other]]\n",
    "Other.md": "nothing",
    "assets/photo.jpg": PHOTO,
    "assets/map a.png": picture("PNG"),
    "assets/data.csv": "a,b\n1,2\n3,4\n",
    "assets/paper.pdf": PAPER,
    "assets/code.png": picture("PNG"),
    "assets/film.mp4": b"\0\0\0\x20ftyp\0",
}


class Vault:
    """A client of a vault, and what it gets."""

    def __init__(self, client, harness):
        self.client, self.harness = client, harness

    async def get(self, note_id, **more):
        """The answer, and the picture beside it."""
        result = await self.client.call_tool("get", {"id": note_id} | more)
        pictures = [one for one in result.content if one.type == "image"]
        if result.is_error:
            return json.loads(result.content[0].text), None
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content, base64.b64decode(pictures[0].data) if pictures else None

    async def is_missing(self, note_id):
        answer, shown = await self.get(note_id)
        return answer.get("category") == "NOT_FOUND" and shown is None


@asynccontextmanager
async def vault(folder, files=FILES, **policy):
    for path, data in files.items():
        place = folder / "vault" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data if isinstance(data, bytes) else data.encode())
    remote = VaultStore(folder / "vault")
    harness = ToolHarness(
        folder,
        remote=remote,
        policy=Policy(**policy),
        audit_keys=AuditKeys(Secret(b"1" * 32), Secret(b"2" * 32)),
    )
    await harness.sync()
    try:
        async with connected(harness.opened, toolset=find_toolset("with_paths")) as client:
            yield Vault(client, harness)
    finally:
        await remote.close()
        harness.close()


async def test_a_note_names_the_files_that_it_shows_or_links_to(tmp_path):
    async with vault(tmp_path) as notes:
        answer, _ = await notes.get("Trip.md")
        assert [(one["id"], one["kind"], one["size"]) for one in answer["files"]] == [
            ("assets/photo.jpg", "image/jpeg", len(PHOTO)),
            ("assets/map a.png", "image/png", len(FILES["assets/map a.png"])),
            ("assets/data.csv", "text/csv", 12),
            ("assets/paper.pdf", "application/pdf", len(PAPER)),
        ]
        assert [(one["lines"], "name" in one) for one in answer["files"]] == [
            ([3], False),
            ([3], False),
            ([4], False),
            ([4], False),
        ]
        assert "files" not in (await notes.get("Other.md"))[0]


async def test_several_notes_name_their_files_as_one_does_as_far_as_there_is_room(tmp_path):
    shown = [f"{number:03} {'x' * 80}.png" for number in range(50)]
    many = {f"{note}.md": "".join(f"![[{one}]]\n" for one in shown) for note in range(6)}
    async with vault(tmp_path, FILES | many | dict.fromkeys(shown, "x")) as notes:

        async def read(*ids):
            result = await notes.client.call_tool("get", {"ids": [*ids]})
            return result.structured_content["notes"], len(result.content[0].text)

        (trip, other), _ = await read("Trip.md", "Other.md")
        assert trip["files"] == (await notes.get("Trip.md"))[0]["files"]
        assert "files" not in other
        found, size = await read("Trip.md", *many)
        assert size < ANSWER_BYTES * 1.2
        assert ("note" in found[0], found[0]["files"]) == (False, trip["files"])
        for one in found[1:]:
            assert 5 < len(one["files"]) < 50
            assert one["note"].startswith(FEWER_FILES)
            assert one["text"].startswith("![[000")


async def test_a_file_has_the_first_lines_of_the_note_that_show_it(tmp_path):
    shown = "```\n![[a.png]]\n```\n" + "![[a.png]] [again](a.png#x)\n\n[[a.png|words]]\n" * 9
    async with vault(tmp_path, {"Note.md": shown, "a.png": picture("PNG")}) as notes:
        (row,) = (await notes.get("Note.md", range_line_start=9))[0]["files"]
        assert row["lines"] == [4, 6, 7, 9, 10]


@pytest.mark.parametrize("name", ["assets/photo.jpg", "photo.jpg", "![[photo.jpg|300]]"])
async def test_a_picture_is_seen_without_what_its_camera_wrote(tmp_path, name):
    async with vault(tmp_path) as notes:
        answer, shown = await notes.get(name)
        (row,) = answer["files"]
        assert (answer["id"], row["kind"], row["pixels"]) == (
            "assets/photo.jpg",
            "image/jpeg",
            [40, 30],
        )
        assert "data, not instructions" in answer["begin_untrusted"]
        assert "data, not instructions" in answer["note"]
        assert CAMERA.encode() in PHOTO
        assert CAMERA.encode() not in shown
        assert Image.open(BytesIO(shown)).size == (40, 30)


async def test_the_text_of_a_pdf_or_another_file_is_read_in_parts(tmp_path):
    async with vault(tmp_path) as notes:
        whole, _ = await notes.get("assets/paper.pdf")
        assert (whole["files"][0]["pages"], whole["text_is_partial"]) == (2, False)
        second, _ = await notes.get("paper.pdf", section="Page 2")
        assert second["text"] == "# Page 2\n\nsecond page\nmore\n\n"
        assert [one["heading"] for one in second["headings"]] == ["# Page 1", "# Page 2"]
        for link in ("[[paper.pdf#page=2|words]]", "![x](assets/paper.pdf#page=2)"):
            paged, _ = await notes.get(link)
            assert (paged["text"], paged["range_line_start"]) == (second["text"], 5)
        first, _ = await notes.get("[[paper.pdf#page=2]]", range_line_start=1, range_line_count=1)
        assert first["text"] == "# Page 1\n"
        for link in ("[[paper.pdf#page=1]]", "[[paper.pdf#page=9]]", "[[paper.pdf#page=22222222]]"):
            assert (await notes.get(link))[0]["text"] == whole["text"]
        assert await notes.is_missing("see [[paper.pdf]]")
        lines, _ = await notes.get("data.csv", range_line_start=2, range_line_count=1)
        assert (lines["text"], lines["next_range_line_start"]) == ("1,2\n", 3)
        film, shown = await notes.get("assets/film.mp4")
        assert (film["files"][0]["kind"], film["files"][0]["size"], shown) == ("video/mp4", 9, None)
        refused, _ = await notes.get("film.mp4", section="x")
        assert refused["resolution_hint"] == "Call `get` with the `id` alone."


async def test_what_is_no_file_of_its_own_in_the_vault_is_not_there(tmp_path):
    outside = tmp_path / "outside.png"
    outside.write_bytes(PHOTO)
    async with vault(tmp_path, FILES | {".hidden/a.png": PHOTO, ".trash/b.png": PHOTO}) as notes:
        folder = tmp_path / "vault"
        (folder / "link.png").symlink_to(outside)
        (folder / "loop").symlink_to(tmp_path)
        os.link(outside, folder / "hard.png")
        for name in (
            *("link.png", "loop/outside.png", "hard.png", ".hidden/a.png", ".trash/b.png"),
            *("../outside.png", "/etc/passwd", "assets/../../outside.png", "assets", "b.png"),
        ):
            assert await notes.is_missing(name), name


HIDDEN = {
    "Shown.md": "![[shared.png]]",
    "Secret.md": "#secret ![[shared.png]] ![[own.png]]",
    "closed/Note.md": "![[inner.png]]",
    "Open.md": "![[closed/inner.png]] ![[Shown.md]] ![[own.png]] ![[free.png]] ![[closed/lone.png]]",
    "closed/lone.png": PHOTO,
    "free.png": PHOTO,
    "shared.png": PHOTO,
    "own.png": PHOTO,
    "loose.png": PHOTO,
    "closed/inner.png": PHOTO,
}


async def test_the_files_of_hidden_notes_and_closed_folders_are_hidden(tmp_path):
    rules = Visibility(hidden_tags=("secret",), hidden_paths=("closed",))
    async with vault(tmp_path, HIDDEN, visibility=rules) as notes:
        # An agent may have written that link into a note of its own.
        for name in (
            "shared.png",
            "own.png",
            "loose.png",
            "closed/inner.png",
            "inner.png",
            "lone.png",
            "![[own.png]]",
        ):
            assert await notes.is_missing(name), name
        assert (await notes.get("free.png"))[1] is not None
        (row,) = (await notes.get("Open.md"))[0]["files"]
        assert row["id"] == "free.png"
        secret = tmp_path / "vault" / "Secret.md"
        secret.write_text("#secret ![[free.png]]")
        assert await notes.is_missing("free.png")
        secret.unlink()
        assert (await notes.get("own.png"))[1] is not None
    async with vault(tmp_path / "2", HIDDEN) as notes:
        assert (await notes.get("loose.png"))[1] is not None


LINKS = " ".join(f"[[Note {at}]]" for at in range(1001))
HIDING = {
    "Many.md": f"#secret {LINKS} ![[many.png]]",
    "a/Named.md": "#secret ![[b/named.png]]",
    "Html.md": "#secret <img width=3 src='b/of%20html.png'>",
    "Properties.md": "---\ntags: secret\ncover: [b/in list.png, c.png]\n---\n",
    "Forms.md": "#secret ![]( blank.png )\n[a]:\nbelow.png\n\n    ![[code.png]]\n<p style='background: url(css.png)'>",
    "Odd.md": "#secret ![](o((x)).png) ![](o\\(y.png) ![](o&#x20;z.png)",
    "Values.md": '---\ntags: secret\ncover: "caf\\u00e9.png"\nmore: {x: "my \\\n  plan.png"}\n---\n',
    "Latin.md": b"#secret \xe4 ![[latin.png]]",
    "Wide.md": "#secret ![[wide.png]]".encode("utf-16"),
    ".trash/Gone.md": "#secret ![[gone.png]]",
    "closed/Moved.md": "![](../was/moved.png)",
    "closed/Board.canvas": '{"nodes": [{"type": "file", "file": "card.png"}, {"type": "text", "text": "![[text.png]]"}]}',
}
HIDES = (
    *(
        "many.png",
        "named.png",
        "b/named.png",
        "a/b/named.png",
        "of html.png",
        "in list.png",
        "c.png",
    ),
    *("blank.png", "below.png", "code.png", "css.png"),
    *("o((x)).png", "o(y.png", "o z.png", "café.png", "my plan.png"),
    *("latin.png", "wide.png", "gone.png", "is/moved.png", "card.png", "text.png"),
)


async def test_whatever_a_hidden_note_may_show_is_hidden_wherever_it_lies(tmp_path):
    mine = {"Mine.md": " ".join(f"![[{one}]]" for one in (*HIDES, "free.png", "near/free.png"))}
    files = HIDING | mine | dict.fromkeys((*HIDES, "x/near/free.png", "closed/free.png"), PHOTO)
    rules = Visibility(hidden_tags=("secret",), hidden_paths=("closed",))
    async with vault(tmp_path, files, visibility=rules) as notes:
        assert [name for name in HIDES if not await notes.is_missing(name)] == []
        # Else a name that leads nowhere would tell that a hidden file has it, too.
        (row,) = (await notes.get("Mine.md"))[0]["files"]
        assert row["id"] == "x/near/free.png"
        unread = tmp_path / "vault" / "Unread.md"
        unread.write_bytes(bytes(64 << 20) + b"#secret ![[free.png]]")
        assert await notes.is_missing("free.png")
        unread.unlink()
        assert (await notes.get("free.png"))[1] is not None


LEFT = (".env", "notes/.hidden.png", "~$Plan.docx", "~syncthing~Plan.md", "Plan.md~", "Plan.md.bak")


async def test_what_no_app_shows_and_what_programs_leave_are_no_files_of_notes(tmp_path):
    links = " ".join(f"[[{one}]]" for one in LEFT)
    async with vault(tmp_path, {"Mine.md": links} | dict.fromkeys(LEFT, "words")) as notes:
        assert "files" not in (await notes.get("Mine.md"))[0]
        for name in LEFT:
            assert await notes.is_missing(name), name


async def test_a_file_that_is_just_being_written_is_read_whole(tmp_path, monkeypatch):
    async with vault(tmp_path) as notes:
        place, read = tmp_path / "vault" / "assets" / "photo.jpg", folder._read
        place.write_bytes(PHOTO[: len(PHOTO) // 2])

        def read_half(file, largest):
            monkeypatch.setattr(folder, "_read", read)
            half = read(file, largest)
            place.write_bytes(PHOTO)
            return half

        monkeypatch.setattr(folder, "_read", read_half)
        answer, shown = await notes.get("assets/photo.jpg")
        assert answer["files"][0]["size"] == len(PHOTO)
        assert Image.open(BytesIO(shown)).size == (40, 30)


async def test_no_file_is_looked_for_of_which_no_shown_note_speaks(tmp_path, monkeypatch):
    """Else the time of the answer would tell that there is one."""
    rules = Visibility(hidden_tags=("secret",))
    async with vault(tmp_path, HIDDEN, visibility=rules) as notes:
        monkeypatch.delattr(type(notes.harness.remote), "resolve_files")
        for name in ("loose.png", "none.png"):
            assert await notes.is_missing(name), name


async def test_two_files_are_decoded_at_a_time_also_when_their_callers_have_gone(
    tmp_path, monkeypatch
):
    running, most, real = [], [0], decoding.decode

    def slow(*given):
        running.append(given)
        most[0] = max(most[0], len(running))
        time.sleep(0.05)
        running.pop()
        return real(*given)

    monkeypatch.setattr(decoding, "decode", slow)
    async with vault(tmp_path) as notes:
        calls = [asyncio.ensure_future(notes.get(one)) for one in ("photo.jpg", "data.csv") * 3]
        await asyncio.sleep(0.02)
        for call in calls[:3]:
            call.cancel()
        for call in calls[3:]:
            assert "files" in (await call)[0]
    assert most == [2]


async def test_where_texts_are_hidden_files_are_too(tmp_path):
    async with vault(tmp_path, hidden_fields=frozenset({Field.TEXT})) as notes:
        assert "files" not in (await notes.get("Trip.md"))[0]
        assert await notes.is_missing("assets/photo.jpg")


async def test_a_picture_counts_for_the_limits_and_is_on_record(tmp_path):
    async with vault(tmp_path, limits=Limits(bytes_per_call=600)) as notes:
        refused, shown = await notes.get("photo.jpg")
        assert "may be read at a time" in refused["message"]
        assert "a picture comes whole" in refused["resolution_hint"]
        assert shown is None
    async with vault(tmp_path / "2") as notes:
        for _ in range(2):
            _, shown = await notes.get("photo.jpg")
        await notes.get("paper.pdf")
        log = notes.harness.app.audit
        log.flush(wait=True)
        first, again, other = log.table.records()
        files = [json.loads(one.facts)["files"] for one in (first, again, other)]
        assert files[0] == files[1] != files[2]
        assert first.bytes_out > 4 * len(shown) // 3


async def test_a_note_is_read_also_while_its_files_cannot_be_reached(tmp_path):
    async with vault(tmp_path) as notes:
        (tmp_path / "vault").rename(tmp_path / "elsewhere")
        answer, _ = await notes.get("Trip.md")
        assert "files" not in answer
        assert answer["text"] == FILES["Trip.md"]
        refused, _ = await notes.get("photo.jpg")
        assert refused["category"] != "INTERNAL"
        assert refused["resolution_hint"]


async def test_a_resource_shows_it_too(tmp_path):
    async with vault(tmp_path) as notes:
        found = await notes.client.read_resource("note://assets%2Fphoto.jpg")
        facts, shown = found.contents
        assert json.loads(facts.text)["files"][0]["kind"] == "image/jpeg"
        assert Image.open(BytesIO(base64.b64decode(shown.blob))).size == (40, 30)


def by_name(row):
    return row["name"], row["kind"], row.get("size")


@asynccontextmanager
async def trilium(folder, **policy):
    def put(place):
        link = '<a class="reference-link" href="#root/NOTE?viewMode=attachments&amp;attachmentId=Linked00001">a &amp; b.pdf</a>'
        image = f'<p>x</p><img src="api/attachments/ATTACHED/image/p.png">{link}'
        other = '<p>y</p><img src="api/attachments/Att0000002/image/p.png">'
        place.ids = [
            place.put("own", image),
            place.put("hidden", image, tags=["secret"]),
            place.put("foreign", other),
        ]
        document = place.sim.document
        for one in document.attachments.values():
            one.content = PHOTO
        document.attachments["Linked00001"] = FileOfTrilium(
            *("Linked00001", place.ids[0], "file", "application/pdf", "a & b.pdf", 20, b"%PDF", 0.0)
        )
        place.sim.write("Picture00001", "map.png", "x")
        place.sim.write("Picture00002", "secret.png", "x")
        for name in ("Picture00001", "Picture00002"):
            note = document.notes[name]
            note.type, note.mime, note.content = "image", "image/png", picture("PNG")
        document.set_attribute("Pic2l", "Picture00002", "label", "secret", "")
        place.sim.write("Canvas000001", "Board", "{}", kind="canvas", mime="application/json")
        svg = ("image", "image/svg+xml", "canvas-export.svg", b"<svg>board</svg>")
        document.attach("Canvas000001", *svg)
        shown = ("Picture00001", "Picture00002", "Canvas000001")
        shows = "".join(f'<img src="api/images/{one}/m.png">' for one in shown)
        place.ids.append(place.put("notes", f"<p>z</p>{shows}"))

    async with PLACES["trilium"](folder, put, policy=Policy(**policy)) as place:
        yield place, Vault(place.client, place.harness)


async def test_trilium_shows_attachments_of_the_note_and_notes_that_are_pictures(tmp_path):
    async with trilium(tmp_path, visibility=Visibility(hidden_tags=("secret",))) as (place, notes):
        own, hidden, foreign, shows = place.ids
        row, linked = (await notes.get(own))[0]["files"]
        lines = (await notes.get(own))[0]["text"].split("\n")
        at = [
            next(at for at, line in enumerate(lines, 1) if one in line)
            for one in ("](api", "a & b")
        ]
        first = {"id": f"{own}/Att0000001", "name": "p.png", "lines": at[:1], "size": len(PHOTO)}
        assert row == first | {"kind": "image/png"}
        second = {"id": f"{own}/Linked00001", "name": "a & b.pdf", "lines": at[1:], "size": 4}
        assert linked == second | {"kind": "application/pdf"}
        answer, shown = await notes.get(row["id"])
        assert answer["files"][0]["name"] == "p.png"
        assert (answer["files"][0]["kind"], answer["files"][0]["size"]) == (
            "image/jpeg",
            len(PHOTO),
        )
        assert shown is not None
        row, drawn = (await notes.get(shows))[0]["files"]
        assert (row["id"], row["name"]) == ("Picture00001/content", "m.png")
        assert drawn == row | {"id": "Canvas000001/content"}
        assert (await notes.get(drawn["id"]))[0]["text"] == "<svg>board</svg>"
        answer, shown = await notes.get(row["id"])
        assert (answer["files"][0]["name"], shown is not None) == ("map.png", True)
        (itself,) = (await notes.get("Picture00001"))[0]["files"]
        assert itself == {"id": row["id"], "name": "map.png", "kind": "image/png"}
        # The HTML of a note may name what another one has.
        for name in (
            *(f"{hidden}/Att0000002", f"{foreign}/Att0000002", f"{own}/Att0000002"),
            *("Picture00002/content", f"{own}/content", "Att0000001", f"{own}/Att0000009"),
        ):
            assert await notes.is_missing(name), name


async def test_trilium_says_what_a_file_is_whatever_the_words_of_a_link_are(tmp_path):
    async with trilium(tmp_path) as (place, notes):
        own, document = place.ids[0], place.sim.document
        document.attachments["Linked00001"].mime = "text/csv"
        for title in ("numbers", "numbers.txt"):
            document.attachments["Linked00001"].title = title
            answer, _ = await notes.get(f"{own}/Linked00001")
            assert by_name(answer["files"][0]) == (title, "text/csv", 4)
            (_, row) = (await notes.get(own))[0]["files"]
            assert by_name(row) == (title, "text/csv", None)


async def test_trilium_lists_what_no_text_shows_and_says_what_it_could_not_ask(tmp_path):
    async with trilium(tmp_path, visibility=Visibility(hidden_tags=("secret",))) as (place, notes):
        own, hidden, foreign, _ = place.ids
        document = place.sim.document
        beside = document.attach(own, "file", "application/x-own", "far\naway.bin", b"1234")
        text = document.attach(own, "file", "text/plain", "\u00e9.txt", "\u00e9".encode())
        secret = document.attach(hidden, "file", "text/plain", "s.txt", b"secret")
        document.attach(own, "viewConfig", "application/json", "viewConfig.json", b"{}")
        shown, _ = await notes.get(own)
        assert [*map(by_name, shown["files"])] == [
            ("p.png", "image/png", len(PHOTO)),
            ("a & b.pdf", "application/pdf", 4),
            ("far away.bin", "application/x-own", 4),
            ("\u00e9.txt", "text/plain", None),  # the server counts its characters
        ]
        assert ["lines" in row for row in shown["files"]] == [True, True, False, False]
        assert "note" not in shown
        both = await notes.client.call_tool("get", {"ids": [own, foreign]})
        assert both.structured_content["notes"][0]["files"] == shown["files"]
        found = await notes.client.read_resource(f"note://{own}")
        assert json.loads(found.contents[0].text)["files"] == shown["files"]
        many = [document.attach(foreign, "file", "text/plain", "t", b"") for _ in range(60)]
        first, _ = await notes.get(foreign)
        assert (len(first["files"]), first["note"]) == (50, "`files` are the first 50 of 60.")
        for one in many:
            del document.attachments[one.id]
        facts, _ = await notes.get(f"{own}/{beside.id}")
        assert by_name(facts["files"][0]) == ("far away.bin", "application/x-own", 4)
        assert (await notes.get(f"{own}/{text.id}"))[0]["text"] == "\u00e9"
        for name in (f"{own}/{secret.id}", f"{hidden}/{secret.id}"):
            assert await notes.is_missing(name)
        assert "files" not in (await notes.get(foreign))[0]  # it shows what another note has

        async def from_text():
            answer, _ = await notes.get(own)
            assert "did not say at once" in answer["note"]
            assert [*map(by_name, answer["files"])] == [
                ("p.png", "image/png", None),
                ("a & b.pdf", "application/pdf", None),
            ]

        place.sim.faults.delay(5, path=f"/etapi/notes/{own}/attachments", times=1)
        began = time.monotonic()
        await from_text()
        assert time.monotonic() - began < 3
        place.sim.reset_log()
        place.sim.faults.status(503, path="/etapi/*attachments*", times=99)
        unreached, _ = await notes.get(f"{own}/Att0000001")
        assert (unreached["category"], unreached["retryable"]) == ("BACKEND_API", True)
        assert len([one for one in place.sim.requests if "/attachments" in one.path]) == 1
        place.sim.stop_listening()
        await from_text()
        unreached, _ = await notes.get(f"{own}/{beside.id}")
        assert (unreached["category"], unreached["retryable"]) == ("BACKEND_API", True)


COPIED = (
    *("![x](api/attachments/{id}/image/x.png)", "[x](#root/a?viewMode=attachments&attachmentId={id})"),
    *('`src="href="#attachmentId={id}"`', '<p>x</p><img src="api/attachments/{id}/image/x.png">'),
)  # fmt: skip


@pytest.mark.parametrize("link", COPIED)
async def test_trilium_gives_no_note_a_copy_of_what_a_hidden_note_has(tmp_path, link):
    async with trilium(tmp_path, visibility=Visibility(hidden_tags=("secret",))) as (place, notes):
        own, hidden, foreign, _ = place.ids
        document = place.sim.document
        held = document.attach(hidden, "image", "image/png", "s.png", PHOTO).id

        async def save(attachment_id):
            version = (await notes.get(foreign))[0]["local_version"]
            text = link.format(id=attachment_id)
            more = {"id": foreign, "local_version": version, "text": text, "confirm": True}
            return json.loads((await notes.client.call_tool("save", more)).content[0].text)

        refused = await save(held)
        assert refused == await save("Missing00001")
        assert (refused["subcategory"], document.attachments_of(foreign)) == ("policy", [])
        place.sim.faults.status(500, path=f"/etapi/attachments/{held}", times=9)
        assert "nothing was saved" in (await save(held))["message"]
        assert "id" in await save("Linked00001")
        assert (await notes.get(f"{own}/Linked00001"))[0]["files"]


async def test_a_note_of_trilium_that_was_made_to_be_slow_is_read_at_once(tmp_path):
    def put(place):
        place.ids = [place.put("slow", f"<p>{'attachmentId=a ' * 12_000}</p>")]
        place.sim.document.attachments["a"] = FileOfTrilium(
            *("a", place.ids[0], "file", "text/plain", "a", 10, b"", 0.0)
        )

    async with PLACES["trilium"](tmp_path, put) as place:
        began = time.thread_time()
        (row,) = (await Vault(place.client, place.harness).get(place.ids[0]))[0]["files"]
        assert row["id"] == f"{place.ids[0]}/a"
        assert time.thread_time() - began < 1


async def test_memento_shows_the_pictures_of_a_note(tmp_path):
    data = [
        f"data:image/jpeg;base64,{base64.b64encode(PHOTO).decode()}",
        base64.b64encode(picture("PNG")).decode(),
        "https://example.org/x.png",
        5,
    ]

    def put(place):
        more = {"columns": {"images": json.dumps(data)}}
        place.ids = [place.put("one", "text", **more), place.put("two", "text")]
        place.ids.append(place.put("three", "text", tags=["secret"], **more))

    policy = Policy(visibility=Visibility(hidden_tags=("secret",)))
    async with PLACES["memento"](tmp_path, put, policy=policy) as place:
        notes = Vault(place.client, place.harness)
        one, two, three = place.ids
        rows = (await notes.get(one))[0]["files"]
        assert [row["id"] for row in rows] == [f"{one}/{at}" for at in (1, 2, 3, 4)]
        assert rows[0] == {"id": f"{one}/1", "kind": "image/jpeg", "size": len(PHOTO)}
        for row in rows[:2]:
            assert (await notes.get(row["id"]))[1] is not None
        elsewhere, shown = await notes.get(rows[2]["id"])
        assert (shown, "another address" in elsewhere["message"]) == (None, True)
        assert "files" not in (await notes.get(two))[0]
        for name in (f"{two}/1", f"{three}/1", f"{one}/5"):
            assert await notes.is_missing(name), name
        assert isinstance(place.app, MementoFile)
