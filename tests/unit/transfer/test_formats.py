"""Exports are private and whole, hostile files are refused, and the files of other programs are read."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import time
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from mcp_notarium.domain.exported_note import ExportedNote, free_name
from mcp_notarium.domain.note import Content, flags
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.transfer import formats
from support import exports

NOTE = ExportedNote("n-0001", Content("text\n", ("a",), title="Title"), 1e9, 1.1e9)
NO_TITLE = replace(NOTE, content=Content("First: line/\nx", ("two words", "b"), trash=True))


def write(path: Path, *notes: ExportedNote, name: str = "markdown") -> Path:
    exports.write(name, path, notes)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InvalidRequest) as raised:
        exports.read(path)
    assert "nothing was imported" in raised.value.message
    return raised.value.message


@pytest.mark.parametrize("name", formats.names())
def test_an_export_is_private_and_overwrites_nothing(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "out", NOTE, NO_TITLE, name=name)
    found = [path, *path.rglob("*")]
    assert {stat.S_IMODE(one.stat().st_mode) for one in found if one.is_file()} == {0o600}
    assert {stat.S_IMODE(one.stat().st_mode) for one in found if one.is_dir()} <= {0o700}
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "elsewhere")
    for taken in (path, dangling):
        with pytest.raises(ConfigError, match="is there already"):
            write(taken, NOTE, name=name)
    assert {one.name for one in tmp_path.iterdir()} == {"out", "link"}


def test_what_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def fail(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exports.write("markdown", tmp_path / "out", [NOTE], fail)
    assert list(tmp_path.iterdir()) == []


def test_the_next_export_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    (tmp_path / ".out.0123456789ab.tmp" / "trash").mkdir(parents=True)
    (tmp_path / ".out.0123456789ab.tmp" / "a.md").touch()
    write(tmp_path / "out", NOTE)
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_names_of_files_are_safe_everywhere_and_differ_in_more_than_case() -> None:
    taken: dict[str, int] = {}
    titles = [
        "a/../b",
        "A B",
        "a   b",
        "",
        "...",
        "NUL.txt",
        "x" * 500,
        "\u202etxt.exe",
        "ß\0\n",
        "com¹",
    ]
    made = [free_name("", title, ".md", taken) for title in titles]
    assert made[:6] == [
        "a .. b.md",
        "A B.md",
        "a b 2.md",
        "Untitled.md",
        "Untitled 2.md",
        "NUL_.txt.md",
    ]
    assert len(made[6]) == 63
    assert made[7:] == ["txt.exe.md", "ß.md", "com¹_.md"]


def test_a_zip_is_what_the_app_writes(tmp_path: Path) -> None:
    path = write(tmp_path / "out.zip", NOTE, NO_TITLE, name=formats.guess(tmp_path / "out.zip"))
    with zipfile.ZipFile(path) as file:
        assert {*file.namelist()} == {"source/notes.json", "Title.txt", "trash/First line.txt"}
        assert file.read("Title.txt").decode() == "Title\ntext\n\n\nTags:\n  a"
        lists = json.loads(file.read("source/notes.json"))
    assert [one["id"] for one in lists["activeNotes"]] == ["n-0001"]
    assert lists["trashedNotes"][0]["lastModified"] == "2004-11-09T11:33:20.000Z"
    assert lists["activeNotes"][0]["content"].startswith("Title\n")


def test_the_app_gets_dates_in_milliseconds_and_we_all_of_them(tmp_path: Path) -> None:
    exact = replace(NOTE, created_at=1e9 + 0.123456, modified_at=1.1e9 + 0.5)
    path = write(tmp_path / "out.zip", exact, name="simplenote")
    with zipfile.ZipFile(path) as file:
        (fields,) = json.loads(file.read("source/notes.json"))["activeNotes"]
    assert fields["creationDate"] == "2001-09-09T01:46:40.123Z"
    assert exports.read(path) == [exact]


def test_a_zip_of_the_app_is_read(tmp_path: Path) -> None:
    note = {
        "id": "n1", "content": "one\r\ntwo", "creationDate": "2020-01-02T03:04:05.678Z",
        "lastModified": "2021-01-02T03:04:05.000Z", "pinned": True, "tags": ["b", "a"],
        "collaboratorEmails": ["x@example.org"], "publicURL": "https://simp.ly/p/x", "title": "no",
    }  # fmt: skip
    path = tmp_path / "notes.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../../evil.txt", "x")
        file.writestr("source/notes.json", json.dumps({"activeNotes": [note], "trashedNotes": []}))
    (read,) = exports.read(path)
    content = Content("one\ntwo", ("b", "a", "x@example.org"), properties=flags("pinned"))
    assert read == ExportedNote("n1", content, 1577934245.678, 1609556645.0)


def test_a_folder_of_other_markdown_is_read_and_links_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    (root / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "x.md").write_text("hidden")
    (root / "sub" / "Plan B.md").write_text("---\ntags: [x]\n---\ntext")
    (root / "picture.png").write_bytes(b"\xff")
    (root / "link.md").symlink_to("/etc/passwd")
    (root / "linked").symlink_to(root / "sub")
    (read,) = exports.read(root)
    assert (read.id, read.content.title) == ("sub/Plan B.md", "Plan B")
    assert read.content.text == "---\ntags: [x]\n---\ntext"
    assert read.content.tags == ("x",)


@pytest.mark.parametrize("name", ["a.b.markdown", "a.b.MD"])
def test_every_ending_of_a_note_makes_one_and_is_not_in_its_title(
    tmp_path: Path, name: str
) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    (root / name).write_text("text")
    (read,) = exports.read(root)
    assert (read.id, read.content.title, read.content.text) == (name, "a.b", "text")


@pytest.mark.parametrize(
    ("block", "tags"),
    [
        ("tags: [work, 'to do/now']", ("work", "to", "do/now")),
        ("tags:\n  - work\n  - '#home'\n  - work", ("work", "home")),
        ("tags: work, home", ("work", "home")),
        ("title: Plan\nTag: work", ("work",)),
        ("tags:", ()),
        ("tags: {a: b}", ()),
        ("tags: [work", ()),
        ("nothing: here", ()),
    ],
)
def test_tags_in_the_front_matter_of_another_program_are_tags_and_stay_in_the_text(
    tmp_path: Path, block: str, tags: tuple[str, ...]
) -> None:
    text = f"---\n{block}\n---\nBody.\n"
    (tmp_path / "a.md").write_text(text)
    (read,) = exports.read(tmp_path)
    assert (read.content.text, read.content.tags) == (text, tags)


def test_the_front_matter_of_another_program_says_when_a_note_was_made(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ncreated: 2019-05-06\n---\nBody.\n")
    os.utime(tmp_path / "a.md", (1.6e9, 1.6e9))
    (read,) = exports.read(tmp_path)
    assert (read.created_at, read.modified_at, read.dated) == (1557100800.0, 1.6e9, True)
    for block in ("created: someday", "title: x"):
        (tmp_path / "a.md").write_text(f"---\n{block}\n---\nBody.\n")
        os.utime(tmp_path / "a.md", (1.6e9, 1.6e9))
        (read,) = exports.read(tmp_path)
        assert (read.created_at, read.dated) == (1.6e9, False), block


def test_files_lie_in_the_folders_of_their_notes(tmp_path: Path) -> None:
    deep = "/".join(["x" * 60] * 40)
    given = [
        replace(NOTE, id="Work/2024/Title.md", folder="Work/2024"),
        replace(NO_TITLE, id="a:b/x.md", folder="a:b"),
        replace(NOTE, id="n-0002", folder=deep),
        replace(NOTE, id="n-0003", folder="../.."),
    ]
    path = write(tmp_path / "out", *given)
    files = {one.relative_to(path).as_posix() for one in path.rglob("*.md")}
    assert files == {
        "Work/2024/Title.md",
        "trash/a b/First line.md",
        "Title.md",
        "Untitled/Untitled/Title.md",
    }
    assert {stat.S_IMODE(one.stat().st_mode) for one in path.rglob("*") if one.is_dir()} == {0o700}
    assert sorted(exports.read(path), key=lambda note: note.id) == sorted(
        given, key=lambda note: note.id
    )


def test_a_note_that_a_person_has_put_into_a_folder_is_in_that_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "out", NOTE)
    (path / "Work").mkdir()
    (path / "Title.md").rename(path / "Work" / "Title.md")
    assert exports.read(path) == [replace(NOTE, folder="Work")]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_front_matter_is_known_after_an_editor_has_changed_the_line_ends(
    tmp_path: Path, mark: str
) -> None:
    write(tmp_path / "out", NOTE)
    (file,) = (tmp_path / "out").iterdir()
    file.write_bytes(f"{mark}{file.read_text()}".replace("\n", "\r\n").encode())
    (read,) = exports.read(tmp_path / "out")
    assert read == replace(NOTE, content=replace(NOTE.content, text="text\r\n"))


def test_of_a_folder_only_files_are_read_and_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "note.md").write_text("text")
    assert [one.id for one in exports.read(tmp_path)] == ["note.md"]
    open_ = os.open

    def closed(path: str, *rest: int, **options: int) -> int:
        if path == "sub.md":
            raise PermissionError(13, "no", path)
        return open_(path, *rest, **options)

    monkeypatch.setattr(os, "open", closed)
    assert "cannot be read" in refusal(tmp_path)


def zipped(
    data: bytes, name: str = "source/notes.json", *, method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        file.writestr(name, data)
    return out.getvalue()


def notes_of(**fields: object) -> bytes:
    return json.dumps({"version": 1, "notes": [{"id": "a", "text": "b"} | fields]}).encode()


DEEP = b'{"notes":' + b"[" * 100_000
DAMAGED = {
    "it is not JSON": b"x",
    "not JSON in UTF-8": b'{"notes": "\xff"}',
    "not a JSON object": b"[1]",
    "form that is known": b"{}",
    "nested too deeply": DEEP,
    "version 1": b'{"version": 2, "notes": []}',
    "note 1 is not an object": b'{"version": 1, "notes": [1]}',
    "`text` must be a string": notes_of(text=None),
    "`tags` must be a list": notes_of(tags="a"),
    "`created` must be a date": notes_of(created="soon"),
    "the id is too long": notes_of(id="x" * 2000),
    "`activeNotes` must be a list": b'{"activeNotes": 1}',
    "`content` must be a string": b'{"activeNotes": [{"id": "a"}]}',
    "has no notes.json or source/notes.json": zipped(b"{}", "other.json"),
    "damaged or locked": zipped(b"x" * 5000)[:60],
    "(NotImplementedError)": zipped(b"x" * 5000, method=zipfile.ZIP_LZMA),
    "(UnicodeDecodeError)": zipped(b"{}", "\u00e9.json").replace("\u00e9".encode(), b"\xff\xff"),
}


@pytest.mark.parametrize("why", DAMAGED)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path: Path, why: str) -> None:
    path = tmp_path / "export"
    path.write_bytes(DAMAGED[why])
    assert why in refusal(path)


FRONT = {
    "not UTF-8": b"\xff",
    "has no end": b"---\nnotarium: 1\nid: x\n",
    "another version": b"---\nnotarium: 2\n---\n",
    "plain list": b"---\nnotarium: 1\nx: {a: b}\n---\n",
    "is not a plain": b"---\nnotarium: 1\nx: " + b"[" * 50_000 + b"\n---\n",
    "a plain list of": b"---\nnotarium: 1\nx: &a [y]\nz: *a\n---\n",
    "`modified` must be": b"---\nnotarium: 1\nmodified: [a]\n---\n",
}


@pytest.mark.parametrize("why", FRONT)
def test_a_damaged_front_matter_is_refused_with_file_and_reason(tmp_path: Path, why: str) -> None:
    (tmp_path / "bad.md").write_bytes(FRONT[why])
    said = refusal(tmp_path)
    assert why in said
    assert "bad.md" in said


def test_a_zip_bomb_and_files_that_are_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "LARGEST_DOCUMENT", 1 << 20)
    monkeypatch.setattr(formats, "LARGEST_NOTE", 1000)
    bomb = tmp_path / "bomb.zip"
    bomb.write_bytes(zipped(b" " * (64 << 20)))
    assert bomb.stat().st_size < 1 << 20
    assert "more than 1 MB" in refusal(bomb)
    (tmp_path / "large.json").write_bytes(b" " * (1 << 20) + b"{}")
    assert "more than 1 MB" in refusal(tmp_path / "large.json")
    large = replace(NOTE, content=Content("x" * (1 << 20)))
    with pytest.raises(ConfigError, match="which `import` does not read"):
        write(tmp_path / "new.json", large, name="json")
    assert not (tmp_path / "new.json").exists()
    (tmp_path / "note.json").write_bytes(notes_of(text="x" * 1001))
    assert "note 'a' is too large" in refusal(tmp_path / "note.json")
    largest = write(tmp_path / "largest", replace(NOTE, content=Content("x" * 1000)))
    assert len(exports.read(largest)) == 1
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.md").write_bytes(b"x" * 1001)
    assert "too large" in refusal(tmp_path / "folder")


def test_a_small_zip_with_many_values_is_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "LARGEST_DOCUMENT", formats.LARGEST_DOCUMENT // 16)
    monkeypatch.setattr(formats, "MOST_VALUES", formats.MOST_VALUES // 16)
    path = tmp_path / "many.zip"
    path.write_bytes(zipped(b'{"notes":[' + b"{}," * 375_000 + b"{}]}"))
    assert path.stat().st_size < 10_000
    tracemalloc.start()
    try:
        assert "more values than 250,000" in refusal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * formats.LARGEST_DOCUMENT


@pytest.mark.parametrize("one", [b"{}", b"[]", b"1", b'"a\\"b"', b'{"a":1}', b'"\\\\"'])
def test_every_kind_of_value_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: bytes
) -> None:
    path = tmp_path / "many.json"
    path.write_bytes(b'{"notes":[' + b", ".join([one] * 1000) + b"]}")
    monkeypatch.setattr(formats, "MOST_VALUES", 1000)
    assert "more values than 1,000" in refusal(path)
    monkeypatch.setattr(formats, "MOST_VALUES", 2002)
    assert "more values" not in refusal(path)


def test_commas_in_texts_are_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ', [{ \\" \n,' * 1000
    written = write(tmp_path / "out.json", replace(NOTE, content=Content(text)), name="json")
    monkeypatch.setattr(formats, "MOST_VALUES", 10)
    assert [one.content.text for one in exports.read(written)] == [text]
    monkeypatch.setattr(formats, "MOST_VALUES", 7)
    assert "more values than 7" in refusal(written)


def test_a_string_without_an_end_takes_no_longer_than_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "open.json"
    path.write_bytes(b'{"' + b'\\",' * 1_000_000)
    monkeypatch.setattr(formats, "MOST_VALUES", 1000)
    began = time.process_time()
    assert "not JSON" in refusal(path)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", formats.names())
def test_too_many_notes_or_tags_are_refused_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    two = [replace(NOTE, id=one, content=Content(one, tags=("a", "b"))) for one in ("n1", "n2")]
    path = write(tmp_path / "out", *two, name=name)
    monkeypatch.setattr(formats, "MOST_NOTES", 1)
    assert "more notes than 1" in refusal(path)
    monkeypatch.undo()
    monkeypatch.setattr(formats, "MOST_VALUES", 3)
    assert "than 3" in refusal(path)


def test_folders_are_read_to_a_depth_that_no_person_has(tmp_path: Path) -> None:
    def nest(root: Path, levels: int) -> None:
        root.mkdir()
        here = os.open(root, os.O_RDONLY)
        for _ in range(levels):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        with os.fdopen(os.open("note.md", os.O_CREAT | os.O_WRONLY, dir_fd=here), "w") as file:
            file.write("text")
        os.close(here)

    nest(tmp_path / "fits", formats.DEEPEST)
    assert [one.content.title for one in exports.read(tmp_path / "fits")] == ["note"]
    nest(tmp_path / "deep", formats.DEEPEST + 1)
    assert "more than 100 folders" in refusal(tmp_path / "deep")
    nest(tmp_path / "deepest", 3000)
    assert "more than 100 folders" in refusal(tmp_path / "deepest")
    subprocess.run(["rm", "-rf", tmp_path / "deepest"], check=True)  # deeper than Python removes


@pytest.mark.parametrize("becomes", ["nothing", "a link"])
@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("First.md", "the folder 'sub' cannot be read"),
        ("sub/Second.md", "in cannot be read: no"),  # such file, or a directory
    ],
)
def test_a_folder_that_goes_before_it_is_read_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str, at: str, said: str
) -> None:
    root = tmp_path / "in"
    (root / "sub").mkdir(parents=True)
    (root / "First.md").write_text("first")
    (root / "sub" / "Second.md").write_text("second")
    open_below = formats.SYSTEM.open_below

    def go(top: Path, path: str) -> io.BufferedReader:
        if path == at:
            (root / "sub").rename(tmp_path / "was")
            if becomes == "a link":
                (root / "sub").symlink_to(tmp_path / "was")
        return open_below(top, path)

    monkeypatch.setattr(formats.SYSTEM, "open_below", go)
    assert said in refusal(root)


def with_files(path: Path, name: str, *files: tuple[str, bytes]) -> Path:
    """An export of a note that links to these files."""
    with formats.writing(name, path) as export:
        made = [export.put_file(*one, 1e9) for one in files]
        shown = tuple(replace(one, links=((one.path, True),)) for one in made)
        text = "".join(f"![x]({quote(one.path)})\n" for one in made)
        note = replace(NOTE, content=Content(text, title="Title"), folder="A/B", files=shown)
        export.put_notes([note], lambda _done, _total: None)
    return export.path


@pytest.mark.parametrize("name", ["markdown", "json"])
def test_files_are_private_named_for_every_system_and_found_again(
    tmp_path: Path, name: str
) -> None:
    same = [
        ("a/Plan.png", b"1"),
        ("plan.PNG", b"2"),
        ("plan.md", b"3"),
        (".x\0..", b""),
        ("Plan.png", b"1"),
    ]
    path = with_files(tmp_path / "out", name, *same)
    found = [path, *path.rglob("*")]
    assert {stat.S_IMODE(one.stat().st_mode) for one in found if one.is_file()} == {0o600}
    with formats.reading(path) as export:
        (note,) = export.notes
        read = {one.path: export.read_file(one) for one in note.files}
        assert read == {
            "files/Plan.png": b"1", "files/plan 2.PNG": b"2", "files/plan 3.txt": b"3", "files/x": b"",
        }  # fmt: skip
        assert all(one.links for one in note.files)
    if name == "markdown":
        assert "![x](../../files/plan%202.PNG)" in (path / "A" / "B" / "Title.md").read_text()
    else:
        assert path.name == "out.zip"
        with pytest.raises(ConfigError, match=r"out.zip is there already|out is there already"):
            with_files(tmp_path / "out", name, *same)
        assert {one.name for one in tmp_path.iterdir()} == {"out.zip"}


def changed_zip(path: Path, at: Path, **members: bytes) -> Path:
    """The zip with other bytes in some of its files, and with its list of notes as it was."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(at, "w", zipfile.ZIP_DEFLATED) as new:
        for one in old.namelist():
            new.writestr(one, members.get(one.rpartition("/")[2].partition(".")[0], old.read(one)))
    return at


def test_a_file_of_an_export_that_lies_is_refused_alone(tmp_path: Path) -> None:
    good = with_files(tmp_path / "out.json", "json", ("a.bin", b"a" * 99), ("b.bin", b"b" * 99))
    other = changed_zip(good, tmp_path / "other.zip", a=b"x" * 99)
    bomb = changed_zip(good, tmp_path / "bomb.zip", a=b"a" * (32 << 20))
    data = bomb.read_bytes()
    bomb.write_bytes(data.replace((32 << 20).to_bytes(4, "little"), (99).to_bytes(4, "little")))
    for path, why in ((other, "not the file that was exported"), (bomb, "BadZipFile")):
        tracemalloc.start()
        with formats.reading(path) as export:
            first, second = export.notes[0].files
            with pytest.raises(formats.UnfitFile, match=why):
                export.read_file(first)
            assert export.read_file(second) == b"b" * 99
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "kept"),
    [("falcon.png", "falcon.png"), ("con.png", "con_.png"), ("conout$.x", "conout$_.x")],
)
def test_a_file_has_no_name_of_a_device_and_else_its_own(
    tmp_path: Path, name: str, kept: str
) -> None:
    with formats.writing("markdown", tmp_path / "out") as export:
        assert export.put_file(name, b"x", 1.0).path == f"files/{kept}"


def test_a_folder_that_becomes_a_link_before_its_files_are_read_leads_nowhere(
    tmp_path: Path,
) -> None:
    for name in ("in/sub/own.png", "elsewhere/own.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "in" / "Note.md").write_text("![[sub/own.png]]")
    with formats.reading(tmp_path / "in") as export:
        (file,) = export.notes[0].files
        assert export.read_file(file) == b"mine"
        (tmp_path / "in" / "sub").rename(tmp_path / "was")
        (tmp_path / "in" / "sub").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(formats.UnfitFile, match="cannot be read"):
            export.read_file(file)
        with pytest.raises(FileNotFoundError):
            export.open("../elsewhere/own.png")


def test_a_note_names_no_file_outside_the_export_and_none_behind_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret")
    root = tmp_path / "notes"
    (root / "sub").mkdir(parents=True)
    (root / "link.png").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    (root / ".hidden.png").write_bytes(b"hidden")
    (root / "own.png").write_bytes(b"own")
    names = (
        "../secret.png",
        "link.png",
        "folder/secret.png",
        ".hidden.png",
        str(secret),
        "own.png",
    )
    text = " ".join(f"![[{one}]] ![]({one})" for one in names)
    (root / "sub" / "a.md").write_text(text)
    listed = "".join(f"- {one}\n" for one in names)
    (root / "b.md").write_text(f"---\nnotarium: 1\nid: b\nfiles:\n{listed}---\n")
    with formats.reading(root) as export:
        shown = {one.path for note in export.notes for one in note.files if one.size is not None}
        assert shown == {"own.png"}
    given = tmp_path / "given.zip"
    files = [{"path": one, "digest": ""} for one in (*names, "files/../../secret.png")]
    given.write_bytes(zipped(notes_of(files=files), "notes.json"))
    with formats.reading(given) as export:
        assert {one.size for one in export.notes[0].files} == {None}
        with pytest.raises(formats.UnfitFile):
            export.read_file(export.notes[0].files[0])
    for wrong in ("x", [1], [{"path": 1}], [{"path": "a", "digest": 1}]):
        given.write_bytes(notes_of(files=wrong))
        assert "note 1" in refusal(given)


def test_too_many_files_or_bytes_are_refused_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_files(tmp_path / "out", "markdown", ("a.bin", b"a" * 99), ("b.bin", b"b" * 99))
    monkeypatch.setattr(formats, "MOST_FILES", 1)
    assert "more files than 1" in refusal(path)
    monkeypatch.undo()
    monkeypatch.setattr(formats, "LARGEST_FILES", 197)
    assert "more bytes of files than 197" in refusal(path)
    monkeypatch.setattr(formats, "LARGEST_FILES", 198)
    assert len(exports.read(path)[0].files) == 2


def test_an_export_with_files_that_ends_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def fail(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    def begin(name: str) -> None:
        with formats.writing(name, tmp_path / "out") as export:
            export.put_file("a.png", b"a", 1e9)
            fail(0, 0)

    for name in ("markdown", "json"):
        with pytest.raises(KeyboardInterrupt):
            begin(name)
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_or_no_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "nothing")


def test_a_document_is_in_memory_as_text_and_as_values_and_no_third_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = [replace(NOTE, id=f"{n}", content=Content(f"{n} " * 200)) for n in range(1500)]
    write(tmp_path / "out.json", *notes, name="json")
    size = (tmp_path / "out.json").stat().st_size
    monkeypatch.setattr(formats, "LARGEST_DOCUMENT", size)  # a buffer of this size is reserved
    tracemalloc.start()
    try:
        assert len(exports.read(tmp_path / "out.json")) == len(notes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * size
