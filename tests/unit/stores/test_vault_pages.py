"""Pages of a note's file: one version, one reading, never half a character, within limits."""

import asyncio
import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.errors import NoteNotFound
from mcp_notarium.stores.vault import native
from mcp_notarium.stores.vault.folder import NotANote, VaultFolder
from mcp_notarium.stores.vault.native import NotePages

CLUSTERS = (
    "\r\n",
    "e\u0301",
    "👩\u200d💻",
    "🇩🇪",
    "👍🏽",
    "한",
    "ก\u0e33",
    "क\u094dष",
    "\ufeff",
    "\0",
    "x",
)


class Vault:
    """A vault's pages; ``reads`` counts how often a file was read."""

    def __init__(self, root, monkeypatch):
        self.root, self.reads = root, 0
        self.notes = NotePages(VaultFolder(root))
        read = native.read_settled

        def counted(file, *, largest):
            self.reads += 1
            return read(file, largest=largest)

        monkeypatch.setattr(native, "read_settled", counted)

    def put(self, data, name="n.md"):
        (self.root / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    def page(self, start=0, most=20_000, name="n.md", *, tags=False):
        return self.notes._page(name, start=start, most=most, tags=tags)

    def all(self, most=20_000, name="n.md"):
        """Every page of a note."""
        found = [self.page(0, most, name)]
        while (start := found[-1].next_start) is not None:
            found.append(self.page(start, most, name))
        return found


@pytest.fixture
def vault(tmp_path, monkeypatch):
    return Vault(tmp_path, monkeypatch)


def test_a_page_tells_which_version_it_is_of_and_how_long_the_note_is(vault):
    vault.put("one\ntwo\nthree")
    page = asyncio.run(vault.notes.page("n.md", start=4, most=200, tags=False))
    assert (page.text, page.next_start) == ("two\nthree", None)
    assert (page.total_chars, page.total_lines) == (13, 3)
    assert page.token == "sha256:" + hashlib.sha256(b"one\ntwo\nthree").hexdigest()
    assert page.mtime_ms == (vault.root / "n.md").stat().st_mtime_ns // 1_000_000
    found = (vault.root / "n.md").stat()
    assert (page.identity or "").partition(":")[0] == str(found.st_ino)


@given(
    st.lists(st.sampled_from(CLUSTERS) | st.text(max_size=3), max_size=40),
    st.integers(8, 30),
)
def test_pages_put_together_are_the_text_and_none_ends_inside_a_visible_character(parts, most):
    text = "".join(parts)
    snapshot = native.Snapshot(
        (0,) * 5, "", 0, text, total_lines=0, tags=(), tags_understood=True, identity=None
    )
    found, at = [], 0
    while page := snapshot.cut(at, most):
        assert len(page) <= most
        found.append(page)
        at += len(page)
    assert "".join(found) == text
    joined = "|".join(found)
    whole = [one for one in CLUSTERS if len(one) > 1]
    assert all(joined.count(one) >= "".join(found).count(one) for one in whole)


def test_past_the_end_there_is_nothing_and_no_error(vault):
    vault.put("abc")
    for start in (3, 4, 2**53):
        page = vault.page(start)
        assert (page.text, page.next_start, page.total_chars) == ("", None, 3)
    vault.put("")
    assert (vault.page().text, vault.page().total_lines) == ("", 0)


def test_a_byte_order_mark_and_nul_are_characters_and_line_ends_stay(vault):
    vault.put(b"\xef\xbb\xbfa\0\r\nb\rc\n")
    page = vault.page()
    assert page.text == "\ufeffa\0\r\nb\rc\n"
    assert (page.total_chars, page.total_lines) == (9, 2)
    assert page.tags_understood


def test_bytes_that_are_no_utf8_are_replaced_and_leave_the_tags_unknown(vault):
    data = b"caf\xe9 #a \xe2\x82 \xf0\x9f\x98\x80" * 50
    vault.put(data)
    found = vault.all(200)
    assert "".join(one.text for one in found) == data.decode(errors="replace")
    assert found[0].token == "sha256:" + hashlib.sha256(data).hexdigest()
    assert not found[0].tags_understood


def test_tags_are_read_if_somebody_asks(vault):
    vault.put("#a\n" + "x" * 500)
    assert vault.page(most=200, tags=True).tags == ("a",)
    assert vault.page(200, tags=True).tags == ("a",)


def test_the_tags_of_a_file_that_is_too_large_for_the_index_are_unknown(vault, monkeypatch):
    monkeypatch.setattr(native.file_writer, "LARGEST", 500)
    vault.put("#a\n" + "x" * 500)
    page = vault.page(most=200, tags=True)
    assert (page.tags, page.tags_understood) == ((), False)


def test_pages_of_one_version_are_cut_from_one_reading(vault):
    vault.put("0123456789" * 100)
    assert len(vault.all(200)) == 5
    assert vault.reads == 1
    assert vault.notes.kept_bytes == 0  # it has been read to its end


def rewrite(path, data):
    path.write_bytes(data)


def replace_keeping_times(path, data):
    """Write as a sync tool does, which keeps size and date."""
    found = path.stat()
    other = path.with_name("other.tmp")
    other.write_bytes(data)
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.replace(path)


def rewrite_keeping_times(path, data):
    found = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize("edit", [rewrite, replace_keeping_times, rewrite_keeping_times])
def test_an_edit_between_two_pages_gives_another_token(vault, edit):
    vault.put("a" * 1000)
    first = vault.page(most=200)
    edit(vault.root / "n.md", b"b" * 1000)
    second = vault.page(200, most=200)
    assert second.token != first.token
    assert second.text == "b" * 200


def test_a_file_that_changes_all_the_time_is_never_kept(vault, monkeypatch):
    vault.put("a" * 1000)
    vault.page()
    monkeypatch.setattr("mcp_notarium.stores.vault.folder.LONGEST_WAIT", 0.1)
    now = (vault.root / "n.md").stat().st_ctime_ns / 1e9
    monkeypatch.setattr(native.time, "time", lambda: now + 0.01)
    assert vault.page(most=200).text
    assert vault.notes.kept_bytes == 0
    monkeypatch.setattr(native.time, "time", lambda: now + 1)
    os.utime(vault.root / "n.md", (now // 1, now // 1))  # a file system with coarse times
    assert vault.page(most=200).text
    assert vault.notes.kept_bytes == 0


def test_what_is_kept_stays_within_the_limits(vault, monkeypatch):
    for number in range(200):
        vault.put("x" * 1000, f"{number}.md")
        (vault.root / f"{number}.md").touch()
    monkeypatch.setattr(native, "SETTLED", 0.0)
    for number in range(200):
        vault.page(most=200, name=f"{number}.md")
        assert len(vault.notes._kept) <= native.MOST_NOTES
    assert len(vault.notes._kept) == native.MOST_NOTES
    vault.reads = 0
    vault.page(200, most=200, name="199.md")
    assert vault.reads == 0
    vault.page(200, most=200, name="0.md")
    assert vault.reads == 1
    monkeypatch.setattr(native, "MOST_BYTES", 10_500)
    for number in range(200):
        vault.page(most=200, name=f"{number}.md")
        assert vault.notes.kept_bytes <= 10_500
    assert len(vault.notes._kept) == 10
    vault.notes.forget()
    assert vault.notes.kept_bytes == 0


def test_a_file_beyond_the_limit_is_refused_and_nothing_is_kept(vault, monkeypatch):
    monkeypatch.setattr(native, "LARGEST", 999)
    vault.put("x" * 1000)
    with pytest.raises(NotANote):
        vault.page()


@pytest.mark.slow("it reads 50 MB, 2,500 pages")
def test_a_note_of_50_mb_is_read_once_in_2500_pages(vault):
    line = "Съешь ещё этих мягких французских булок 🥐\n"
    data = (line * (50_000_000 // len(line.encode()) + 1)).encode()
    vault.put(data)
    digest, start = hashlib.sha256(), 0
    while start is not None:
        page = vault.page(start)
        digest.update(page.text.encode())
        start = page.next_start
        assert vault.notes.kept_bytes in (len(data), 0)
    assert vault.reads == 1
    assert page.token == f"sha256:{digest.hexdigest()}"
    assert page.total_lines == len(data) // len(line.encode())


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../x.md",
        "/n.md",
        "a/../n.md",
        ".obsidian/x.md",
        "n.txt",
        "n.md/",
        "a\\n.md",
        "n.md\0",
    ],
)
def test_a_path_that_no_note_can_have_is_not_found(vault, path):
    vault.put("text")
    with pytest.raises(NoteNotFound):
        vault.page(name=path)
