"""Test what a vault's texts read as, and which bytes a save changes in them."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import StoreRejected
from mcp_notarium.markup.front_block import find_block
from mcp_notarium.stores.vault import note_codec
from mcp_notarium.stores.vault.note_codec import Body, compose, find_tags


def revision(text: str, path: str = "Sub/Note.md") -> Revision:
    content, understood = note_codec.content_of(path, text, trash=False)
    return Revision(path, "e", content, 0.0, 0.0, b"", tags_understood=understood)


def edited(text: str, new: str | None = None, **fields: object) -> str:
    """What a save makes of a text."""
    base = revision(text)
    values = {"text": new if new is not None else text, "tags": base.content.tags, **fields}
    content = Content(title=base.content.title, **values)  # type: ignore[arg-type]
    return compose(base, content).text


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("---\ntags: [a, b]\n---\n", ("a", "b")),
        ("---\ntags:\n- a\n- 'b c'\n---\n", ("a", "b", "c")),
        ('---\ntag: "a, #b"\nTAGS: c\n---\n', ("a", "b", "c")),
        ("\ufeff---\r\ntags: a\r\n---\r\n", ("a",)),
        ('---\n"t\\u0061gs": a\n---\n', ("a",)),
        ("---\ntags: null\n---\n#x", ("x",)),
        ("---\ntags:\n---", ()),
        ('<p style="color: #EEE">x</p> #b', ("b",)),
        ("<img alt='\n#no' src=x> #yes", ("yes",)),
        ("<!--\n#no\n--> #yes `<!--` #too -->", ("yes", "too")),
        ("<style>\na { color: #fff }\n</style>\n#yes", ("yes",)),
        ("```\n<!--\n```\n#yes\n-->", ("yes",)),
        ("a < b #yes > c <!-- #open", ("yes", "open")),
        ("+++\n # no\n #no\n+++\n#yes", ("yes",)),
        ("---\n# tags: [a]\n---\n", ()),
        ("---\ntags: [a]\n", ()),
        ("text\n---\ntags: [a]\n---\n", ()),
        ("#one #Two/three #ONE a#b ##c # d #12 #1a #x-y_z, (#no) #end.", ("one", "Two/three", "1a", "x-y_z", "end")),
        ("#汉字 #ÄÖ #😀", ("汉字", "ÄÖ", "😀")),
        ("```\n#no\n```\n#yes\n~~~~\n#no\n```\n~~~~\n`#no` ``#no ` #no`` #two", ("yes", "two")),
        ("tags:: a, [[b]], #c\n- x", ("a", "b", "c")),
        ("title:: x\ntags:: private, [[b c]]\n\ntags:: no\n", ("private", "b c")),
        ("- title:: x\r\n  Tags:: a\r\n- b\r\n- tags:: no\r\n", ("a",)),
        ("x\ntags:: no\n", ()),
        ("tags:: #a #[[b c]]\n- d #[[e f]] `#[[no]]` [[no]]\n", ("b c", "a", "e f")),
        ("[[note#heading]] https://x.org/#part", ()),
    ],
)  # fmt: skip
def test_tags_of_a_text(text: str, tags: tuple[str, ...]) -> None:
    assert find_tags(text) == (tags, True)


@pytest.mark.parametrize(
    "front",
    [
        "tags: [a\n", "tags: {a: b}\n", "tags: [[a]]\n", "- tags\n", "tags: *x\n", "<<: {tags: a}\n", "tags: a\n\tb: c\n",
        "? [tags]\n: a\n", "tags: " + "[" * 2000 + "\n", "tags: a\n" + "x: y\n" * 20_000,
    ],
)  # fmt: skip
def test_tags_that_cannot_be_read_hide_a_note_where_tags_matter(front: str) -> None:
    text = f"---\n{front}---\n#inline\n"
    tags, understood = find_tags(text)
    assert ("inline" in tags, understood) == (True, False) or find_block(text) is None
    with pytest.raises(StoreRejected):
        edited(text, tags=("inline", "new"))


KEPT = "# first\ntitle: 'x: y'   # why\ndate: 2024-01-02\n"


@pytest.mark.parametrize(
    ("lines", "tags", "changed"),
    [
        ("tags: [a, 'b',c] # end\n", ("a", "c", "d"), "tags: [a, c, d] # end\n"),
        ("tags: [a, 'b',c] # end\n", ("d", "b", "c"), "tags: [d, 'b',c] # end\n"),
        ("tags:\n- a # one\n- b\n", ("yes", "b"), 'tags:\n- "yes" # one\n- b\n'),
        ("tag: a\ntags: [a, b]\n", ("d", "b"), "tag: d\ntags: [b]\n"),
        ("tags: [a]\n", (), "tags: []\n"),
        ("tags: []\n", ("a",), "tags: [a]\n"),
        ("tags:\n", ("a", "b"), "tags:\n  - a\n  - b\n"),
        ("tags: null\n", ("a",), "tags:\n  - a\n"),
        (
            "tags:\n  - a # one\n  # two\n  - 'b'\n",
            ("b", "c"),
            "tags:\n  # two\n  - 'b'\n  - 'c'\n",
        ),
        ("tags:\n- a\n- b\n", ("a",), "tags:\n- a\n"),
        ("tags:\n- a\n", (), "tags: []\n"),
        ("tags:\n- a\n# one\n- b\n", (), "tags: []\n# one\n"),
        ("tags: a, b\n", ("b", "c"), "tags:\n  - b\n  - c\n"),
        ("tags: a, 2026-01-01\n", ("2026-01-01",), 'tags:\n  - "2026-01-01"\n'),
        ("tags: a, b # one\n", ("b",), "tags: b # one\n"),
        ("tags: a\n", (), "tags: []\n"),
        ("tag: a\ntags: [b]\n", ("a",), "tag: a\ntags: []\n"),
        ("", ("a",), "tags:\n  - a\n"),
        ("tags: [a]\n", ("a", "yes", "2024a", "😀"), 'tags: [a, "yes", 2024a, 😀]\n'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_the_tags_that_change_are_written_anew(
    lines: str, tags: tuple[str, ...], changed: str, end: str
) -> None:
    before = f"---\n{KEPT}{lines}zz: [1,  2]\n---\nbody #here\n".replace("\n", end)
    after = f"---\n{KEPT}{changed}zz: [1,  2]\n---\nbody #here\n".replace("\n", end)
    if not lines:
        after = f"---\n{KEPT}zz: [1,  2]\n{changed}---\nbody #here\n".replace("\n", end)
    assert edited(before, tags=(*tags, "here")) == after
    assert find_tags(after) == ((*tags, "here"), True)


def test_a_note_without_a_block_gets_one() -> None:
    assert edited("\ufeffbody\r\n", tags=("a",)) == "\ufeff---\r\ntags:\r\n  - a\r\n---\r\nbody\r\n"
    assert edited("", tags=("a",)) == "---\ntags:\n  - a\n---\n"


def test_a_tag_in_the_text_cannot_be_removed_by_the_field() -> None:
    with pytest.raises(StoreRejected) as refused:
        edited("a #x #y\n", tags=("y",))
    assert refused.value.subcategory == "inline_tags"
    assert edited("a #x #y\n", "a #y\n", tags=("y",)) == "a #y\n"


@pytest.mark.parametrize("tag", ["two words", "a,b", "12", "x.y", "#x", ""])
def test_a_tag_that_a_vault_cannot_hold_is_refused(tag: str) -> None:
    with pytest.raises(StoreRejected):
        edited("text\n", tags=(tag,))


FRONT = "---\na: 1\ntags: [x]\n---\n"
TOML = "+++\ntitle = 'x'\n+++\n"


@pytest.mark.parametrize(
    ("text", "new", "stored"),
    [
        (f"{FRONT}body\n", "new body\n", f"{FRONT}new body\n"),
        (f"{FRONT}body\n", f"above\n{FRONT}body\n", f"{FRONT}above\nbody\n"),
        (f"{FRONT}body\n", "---\n---\nbody\n", "---\n---\nbody\n"),
        (f"{FRONT}body\n", "---\na: 2\n---\nbody\n", "---\na: 2\n---\nbody\n"),
        ("---\na: 1\n---", "body\n", "---\na: 1\n---\nbody\n"),
        ("one\r\ntwo\r\n", "one\nthree\n", "one\r\nthree\r\n"),
        ("one\r\ntwo\n", "one\nthree\r\n", "one\nthree\r\n"),
        ("\ufeffone\n", "two\n", "\ufefftwo\n"),
        (f"\ufeff{FRONT}one\n", "two\n", f"\ufeff{FRONT}two\n"),
        (f"\ufeff{FRONT}one\n", f"above\n\ufeff{FRONT}one\n", f"\ufeff{FRONT}above\none\n"),
        ("\ufeffone\r\n", "above\r\n\ufeffone\r\n", "\ufeffabove\r\none\r\n"),
        ("\ufeffone\n\ufefftwo\n", "one\n\ufefftwo\n", "\ufeffone\n\ufefftwo\n"),
        ("one\n", "no end", "no end"),
        (f"{TOML}body\n", "new body\n", f"{TOML}new body\n"),
        (f"{TOML}body\n", f"above\n{TOML}body\n", f"{TOML}above\nbody\n"),
        (f"{FRONT}body\n", f"{TOML}body\n", f"{TOML}body\n"),
        (f"{FRONT}body\n", "---\n\na line across\n", f"{FRONT}---\n\na line across\n"),
        ("---\n\nbody\n\n---\nend\n", "\nbody\n\n---\nend\n", "\nbody\n\n---\nend\n"),
        ("---\nbody\n---\nend\n", "# T\n---\nbody\n---\nend\n", "# T\n---\nbody\n---\nend\n"),
        ("---\n{a: 1}\n---\nbody\n", "new\n", "---\n{a: 1}\n---\nnew\n"),
    ],
)
def test_what_an_edit_keeps(text: str, new: str, stored: str) -> None:
    assert edited(text, new) == stored


@pytest.mark.parametrize("tags", [(), ("new",)], ids=str)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "mark"])
def test_lines_above_the_block_take_no_tag_out_of_it(mark: str, tags: tuple[str, ...]) -> None:
    """Read as it stands such a text has none of them, and a merge takes that for a removal."""
    old, new = f"{mark}{FRONT}body\n", f"above #inline\n{mark}{FRONT}body\n"
    stored = edited(old, new, tags=("inline", *tags))
    assert stored.endswith("---\nabove #inline\nbody\n")
    assert set(find_tags(stored)[0]) == {"x", "inline", *tags}
    for said in (f"{mark}{FRONT}below\n", "anew\n"):  # there `tags` says what is meant
        assert "x" not in find_tags(edited(old, said, tags=tags))[0]


def test_an_edit_that_breaks_the_block_is_refused_and_one_that_mends_it_is_not() -> None:
    with pytest.raises(StoreRejected) as refused:
        edited(f"{FRONT}body\n", "---\na: b: c\n---\nbody\n")
    assert refused.value.subcategory == "front_matter"
    broken = "---\na: b: c\n---\nbody\n"
    assert edited(broken, broken.replace("body", "text")) == broken.replace("body", "text")
    assert edited(broken, f"{FRONT}body\n") == f"{FRONT}body\n"


@pytest.mark.parametrize("text", ["---\na: 1\nbody\n", "+++\na = 1\nbody\n", "---\n\nb c:\n"])
def test_a_block_that_is_never_closed_is_neither_written_nor_given_a_second_one(text: str) -> None:
    for old in (f"{FRONT}body\n", "body\n"):
        with pytest.raises(StoreRejected, match="front matter"):
            edited(old, text)
    with pytest.raises(StoreRejected, match="cannot take tags"):
        edited(text, tags=("new",))
    assert edited(text, f"{text}more\n") == f"{text}more\n"


def test_toml_gets_no_second_block_for_tags() -> None:
    for base in (None, revision(f"{TOML}body\n")):
        with pytest.raises(StoreRejected):
            compose(base, Content(f"{TOML}body\n", ("new",)))


@pytest.mark.parametrize(
    ("title", "path"),
    [
        (None, None),
        ("Note", None),
        ("Sub/Note", None),
        ("Note?", None),
        ("note", "Sub/note.md"),
        ("Other.md", "Sub/Other.md"),
        ("Sub 2/Other", "Sub 2/Other.md"),
        ("/Note", "Note.md"),
        (".obsidian/x", "obsidian/x.md"),
    ],
)
def test_a_title_is_the_name_of_the_file(title: str | None, path: str | None) -> None:
    body = compose(revision("text\n"), Content("text\n", title=title))
    assert (body.text, body.path) == ("text\n", path)
    assert Body.from_bytes(body.to_bytes()) == body
    assert compose(revision("x", "a.markdown"), Content("x", title="b")).path == "b.markdown"


def test_a_title_that_no_file_can_have_is_refused() -> None:
    for title in (
        "/".join(["long" * 20] * 20),
        "Logseq/bak/Note",
        "..",
        "/",
        "Work/",
        "???",
        ".md",
        "Work/.MD",
        "x/../Secret/Key",
        "../x",
        "x/.. ",
    ):
        with pytest.raises(StoreRejected) as refused:
            compose(revision("text\n"), Content("text\n", title=title))
        assert refused.value.subcategory == "title"


def test_a_new_note_with_a_title_that_leads_up_is_refused() -> None:
    for title in ("x/../Secret/Key", "../x", "x/.."):
        with pytest.raises(StoreRejected):
            compose(None, Content("text\n", title=title))
    assert compose(None, Content("text\n", title="..")).path is None


_FRONT = st.lists(
    st.sampled_from(
        [
            "tags: [a, 'b']", "tags:", "  - a", "  - b # c", "- d", "tag: x, y", "title: 'q'", "# note", "date: 2024-01-01", "z: {a: [1]}",
            "", "list:", "\tx", "tags: 'a b'", 'tags: "c"',
        ]
    ),
    max_size=7,
)  # fmt: skip
_NAMES = st.lists(
    st.sampled_from(["a", "b", "d", "new", "x/y", "ÄÖ", "null", "1a"]), max_size=4, unique=True
)


@given(
    lines=_FRONT,
    tags=_NAMES,
    end=st.sampled_from(["\n", "\r\n"]),
    body=st.sampled_from(["", "b\n", "#in\n"]),
)
@example(lines=["tags:", "- d", "tag: x, y"], tags=["d"], end="\n", body="")
@example(lines=["tag: x, y", "  - b # c"], tags=["x"], end="\n", body="")
def test_a_change_of_tags_leaves_everything_else_or_is_refused(
    lines: list[str], tags: list[str], end: str, body: str
) -> None:
    text = end.join(["---", *lines, "---", ""]) + body.replace("\n", end)
    base = revision(text)
    keys = {tag_key(tag) for tag in tags}
    try:
        made = compose(base, Content(text, tuple(tags), title="Note"))
    except StoreRejected:
        return
    found, understood = find_tags(made.text)
    assert {tag_key(tag) for tag in found} == keys
    if made.text == text:
        return
    assert understood
    assert made.text.endswith(body.replace("\n", end))
    if base.tags_understood and (block := find_block(text)) and (now := find_block(made.text)):
        before, after = (
            yaml.load(whole[at[0] : at[1]], yaml.CBaseLoader) or {}
            for whole, at in ((text, block), (made.text, now))
        )
        for name in ("tags", "tag") if isinstance(before, dict) else ():
            for one in (before, after):
                one.pop(name, None)
        assert before == after
        kept = [line for line in lines if line.startswith(("#", "title", "date", "z", "list"))]
        assert [line for line in made.text.split(end) if line in kept] == kept


@given(
    text=st.text(
        st.sampled_from("-\n\r \ta#:`~[]'{}*&!%@,.\ufeff\0é") | st.characters(), max_size=60
    ),
    front=st.booleans(),
)
def test_any_text_is_a_note_and_an_edit_of_nothing_changes_nothing(text: str, front: bool) -> None:
    text = f"---\n{text}\n---\n" if front else text
    text = text.encode("utf-8", "replace").decode()
    base = revision(text)
    body = compose(base, base.content)
    assert Body.from_bytes(body.to_bytes()) == Body(text, trash=False)
    again = compose(None, base.content)
    assert again.text == text


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (Content("x", title="My: note"), "My note"),
        (Content("x", title="a/b"), "a/b"),
        (Content("# A/B *c*\n"), "A B c"),
        (Content(f"{FRONT}\n\n- [ ] do it\n"), "do it"),
        (Content("\ufeff\n"), "Untitled"),
        (Content("???\nfirst words\n", title=".md"), "first words"),
        (Content("a/b\n", title="Work/.md"), "Work/a b"),
        (Content("", title="Work/.md"), "Work/Untitled"),
        (Content("---\n---\n"), "Untitled"),
    ],
)
def test_the_name_of_a_new_note(content: Content, name: str) -> None:
    assert note_codec.name_for(content) == name
