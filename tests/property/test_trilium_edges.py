"""Edit 157 kinds of HTML: nothing changes beside the edit, and what is added is a block of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.patch import Operation, append, apply_patch, prepend
from mcp_notarium.markup.html_codec import WouldLose, to_markdown
from mcp_notarium.markup.markdown_to_html import segments
from support.long import LONG, sample
from support.trilium_html import edit, to_html
from support.trilium_kinds import KINDS, WORD

ADDED = (
    "Call Bob.",
    "---",
    "===",
    "two\nlines",
    "## Head",
    "> quote",
    "> [!TIP]\n> tip",
    "- item",
    "* item",
    "1. item",
    "- [ ] item",
    "```python\nx = 1\n```",
    "| a | b |\n| --- | --- |\n| c | d |",
    "![p](https://example.com/p.png)",
    "**a** & <b>",
)
LISTS = ("- ", "* ", "1. ")
REFUSED = {
    "table with lists": "several lines in a cell of a table in line 3",
    "unclosed bold": "<b> in line 1",
    "stray end": "</b> in line 1",
    "crossed": "<i> in line 1",
    "unfinished tag": "in line 3",
    "attributes twice": '<p class="a" class="b"> in line 3',
    "list in list without item": "formatting that Markdown cannot say in line 1",
}
"""Kinds that have a line which cannot be edited, and what the refusal says."""
BOX = re.compile(r"^(?:\s|>|-|\*)*\[([ x])\]", re.MULTILINE)
MARKER = re.compile(r"^(\s*)(?:[-*](?= |$)|\d+[.)])", re.MULTILINE)


def _edits(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield edits of a note: what is done, with what, and the Markdown that is wanted."""
    shown = to_markdown(source)
    for word in WORD.findall(shown):
        if source.count(word) == 1:
            yield "word", word, shown.replace(word, "new word")
    for box in BOX.finditer(shown):
        place = box.start(1)
        tick = " " if box[1] == "x" else "x"
        yield "tick", str(place), shown[:place] + tick + shown[place + 1 :]
    for added in ADDED:
        yield "append", added, append(shown, added, form=Form.MARKDOWN)
        yield "prepend", added, prepend(shown, added, below_title=False, form=Form.MARKDOWN)


def _blocks(markdown: str) -> list[str]:
    """Return the blocks of a text; markers of lists say nothing here."""
    return [MARKER.sub(r"\1-", one) for one in segments(markdown)]


def _is_exact(done: str, what: str, source: str, wanted: str, made: str) -> bool:
    if done == "word":
        return made == source.replace(what, "new word")
    if done == "tick":
        bare = [text.replace(' checked="checked"', "") for text in (made, source)]
        return bare[0] == bare[1] and to_markdown(made) == wanted
    return _only_adds(source, made) and _is_own_block(done, what, source, made)


def _only_adds(source: str, made: str) -> bool:
    """Tell whether the note is what it was, with something put into one place."""
    first = next((n for n, one in enumerate(source) if made[n : n + 1] != one), len(source))
    rest = source[first:]
    return made.endswith(rest) and len(made) >= len(source)


def _is_own_block(done: str, added: str, source: str, made: str) -> bool:
    old, new, now = (
        _blocks(to_markdown(source)),
        _blocks(to_markdown(to_html(added))),
        _blocks(to_markdown(made)),
    )
    apart, joined = [*new, *old], [*_blocks("\n".join([*new, *old[:1]])), *old[1:]]
    if done == "append":
        apart, joined = [*old, *new], [*old[:-1], *_blocks("\n".join([*old[-1:], *new]))]
    return now == apart or (added.startswith(LISTS) and now == joined)


@pytest.mark.slow("a thousand edits")
def test_an_edit_is_exact_beside_it_or_refused_with_what_is_in_the_way() -> None:
    count, refused, inexact = Counter[str](), dict[str, set[str]](), []
    for kind, source in KINDS.items():
        edits = list(_edits(source))
        for done, what, wanted in edits if kind in REFUSED else sample(kind, edits, 15):
            try:
                made = edit(source, wanted)
            except WouldLose as refusal:
                count["refused"] += 1
                refused.setdefault(kind, set()).update(refusal.lines.values())
                continue
            count["exact"] += 1
            if not _is_exact(done, what, source, wanted, made):
                inexact.append((kind, done, what, made))
    assert not inexact
    assert refused.keys() == REFUSED.keys()
    for kind, said in REFUSED.items():
        assert any(said in one for one in refused[kind]), (kind, refused[kind])
    assert count["refused"] == 19
    assert count["exact"] == 5135 or not LONG


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_between_other_blocks_is_exact(kind: str) -> None:
    source = f"<h2>above</h2>{KINDS[kind]}<p>below</p>"
    shown = to_markdown(source)
    for word in ("above", "below"):
        assert edit(source, shown.replace(word, "other")) == source.replace(word, "other")
    for done, what, wanted in _edits(source):
        if done not in ("word", "tick"):
            continue
        try:
            made = edit(source, wanted)
        except WouldLose:
            assert kind in REFUSED, what
        else:
            assert _is_exact(done, what, source, wanted, made), what


@pytest.mark.parametrize("kind", sample("lines between blocks", list(KINDS), 40))
@pytest.mark.parametrize("added", ["new", "---", "- new", "> new"])
def test_a_line_between_blocks_is_a_block_of_its_own(kind: str, added: str) -> None:
    source = f"<p>top</p>{KINDS[kind]}<p>end</p>"
    lines = to_markdown(source).split("\n")
    for line in (2, 3, len(lines) - 1):
        wanted = apply_patch(
            "\n".join(lines), [Operation("addition", line, added)], form=Form.MARKDOWN
        )
        try:
            made = edit(source, wanted)
        except WouldLose:
            assert kind in REFUSED
            continue
        assert _only_adds(source, made), made
        now, before = (_blocks(to_markdown(html)) for html in (made, source))
        if added.startswith(LISTS):
            now = [line for block in now for line in block.split("\n")]
        new = _blocks(to_markdown(to_html(added)))[0]
        assert now.count(new) == before.count(new) + 1, made


parts = st.lists(st.sampled_from(sorted(KINDS.keys() - REFUSED.keys() - {"unclosed div", "unclosed paragraphs"})), min_size=1, max_size=4)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(parts, st.sampled_from(ADDED), st.sampled_from(["append", "prepend"]))
def test_whatever_a_note_has_what_is_added_is_a_block_of_its_own(
    kinds: list[str], added: str, done: str
) -> None:
    source = "".join(KINDS[kind] for kind in dict.fromkeys(kinds))
    shown = to_markdown(source)
    parts = segments(shown)
    assume("\n\n".join(parts) == shown)
    put = (
        append
        if done == "append"
        else lambda text, value, **more: prepend(text, value, below_title=False, **more)
    )
    made = edit(source, put(shown, added, form=Form.MARKDOWN))
    assert _only_adds(source, made)
    assert _is_own_block(done, added, source, made), (to_markdown(made), source)


TAGS = ("p", "b", "u", "ul", "ol", "li", "div", "blockquote", "pre", "code", "table", "tr", "td", "figure", "a", "h2", "aside", "br", "dl", "dt")  # fmt: skip
scraps = st.one_of(
    st.builds("<{}{}>".format, st.sampled_from(TAGS),
              st.sampled_from(["", ' class="todo-list"', ' class="admonition tip"', ' href="#root/x"', ' a="1" a="2"', " /"])),
    st.builds("</{}>".format, st.sampled_from(TAGS)),
    st.sampled_from([" ", "\n", "w0q", "&nbsp;", "&nbsp", "&amp", "<", "<!-- c -->", "a < b", "*", "_", "- ", "1. ", ">", "|", "---", "\\", "&#65;"]),
    st.sampled_from(sorted(KINDS.values())),
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(st.lists(scraps, max_size=10).map("".join), st.sampled_from(ADDED))
@example("<u>a </u>&nbsp;w0q", "x")
@example("a w0q< b&#65;_&amp", "x")
def test_no_scrap_of_html_is_changed_beside_an_edit(source: str, added: str) -> None:
    shown = to_markdown(source)
    for word in WORD.findall(shown):
        if source.count(word) == shown.count(word) == 1:
            with suppress(WouldLose):
                made = edit(source, shown.replace(word, "new word"))
                assert made == source.replace(word, "new word")
    for wanted in (
        append(shown, added, form=Form.MARKDOWN),
        prepend(shown, added, below_title=False, form=Form.MARKDOWN),
    ):
        with suppress(WouldLose):
            assert _only_adds(source, edit(source, wanted))


@pytest.mark.parametrize(
    ("source", "added", "made"),
    [
        ("<p>Call Ann.</p>", "Call Bob.", "<p>Call Ann.</p><p>Call Bob.</p>"),
        ("<p>A</p>", "---", "<p>A</p><hr>"),
        ("<p>A</p>", "===", "<p>A</p><p>===</p>"),
        ("<p>A</p>", "b\nc", "<p>A</p><p>b<br>c</p>"),
        ("<p>A</p>", "```py\nx\n```", '<p>A</p><pre><code class="language-text-x-python">x</code></pre>'),
        ("<p>A</p>", "> [!note]\n> b", '<p>A</p><aside class="admonition note"><p>b</p></aside>'),
        ("<p>A</p>", "> [!WARNING]\n> ## b\n>\n> c", '<p>A</p><aside class="admonition warning"><h2>b</h2><p>c</p></aside>'),
        ("<p>A</p>", "> [!TIP] b\n> c", '<p>A</p><aside class="admonition tip"><p><strong>b</strong></p><p>c</p></aside>'),
        ("<p>A</p>", "> [!TIP] b", '<p>A</p><aside class="admonition tip"><p>b</p></aside>'),
        ("<p>A</p>", "> [!INFO]\n> b", "<p>A</p><blockquote><p>[!INFO]<br>b</p></blockquote>"),
        ('<ul><li data-list-item-id="e1">a</li></ul>', "* b", '<ul><li data-list-item-id="e1">a</li><li>b</li></ul>'),
        ("<ul><li>a</li></ul>", "b", "<ul><li>a</li></ul><p>b</p>"),
        ("<ul><li>a</li></ul>", "1. b", "<ul><li>a</li></ul><ol><li>b</li></ol>"),
        ("<ol><li>a</li></ol>", "1. b", "<ol><li>a</li><li>b</li></ol>"),
        ('<section class="include-note" data-note-id="Ab12cd34Ef56" data-box-size="medium">&nbsp;</section>', "b",
         '<section class="include-note" data-note-id="Ab12cd34Ef56" data-box-size="medium">&nbsp;</section><p>b</p>'),
    ],
)  # fmt: skip
def test_an_appended_line_becomes_the_html_that_trilium_writes(
    source: str, added: str, made: str
) -> None:
    assert edit(source, append(to_markdown(source), added, form=Form.MARKDOWN)) == made


def test_nothing_is_put_into_an_element_that_does_not_end() -> None:
    source = "<p>a</p><table><tr><th>"
    with pytest.raises(WouldLose, match="<table>") as refusal:
        edit(source, append(to_markdown(source), "b", form=Form.MARKDOWN))
    assert refusal.value.broken
    with pytest.raises(WouldLose, match="an element without an end"):
        edit("a<li>", append(to_markdown("a<li>"), "b", form=Form.MARKDOWN))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("<div>" * 70 + "a", "elements nested more than 60 deep"),
        ("<p>a</p><p>" + "*" * 60_000 + "</p>", "formatting: there are more than 50000 marks"),
        ("<p>a</p><ul><li>b</li><li>c <u>d</u></li></ul>", "<u> in line 4"),
        ("<p>a</p><p><u>b</u> c</p>", "<u> in line 3"),
    ],
)
def test_a_refusal_names_the_line_if_it_is_about_one(source: str, said: str) -> None:
    shown = to_markdown(source)
    wanted = shown.replace("c d", "x").replace("b c", "x") if "<u>" in source else f"{shown}\n\nx"
    with pytest.raises(WouldLose) as refusal:
        edit(source, wanted)
    assert [*refusal.value.lines.values()] == [said]


def test_a_box_joins_a_list_of_boxes_only() -> None:
    bullets, boxes = "<ul><li>a</li></ul>", to_html("- [ ] b")
    both = edit(bullets, append(to_markdown(bullets), "- [ ] b", form=Form.MARKDOWN))
    assert both == bullets + boxes
    more = edit(both, append(to_markdown(both), "- [x] c", form=Form.MARKDOWN))
    assert more == bullets + to_html("- [ ] b\n- [x] c")
    assert (
        edit(boxes, append(to_markdown(boxes), "- d", form=Form.MARKDOWN))
        == boxes + "<ul><li>d</li></ul>"
    )


IDS = '<ul><li data-list-item-id="e1">a</li><li data-list-item-id="e2"><u>b</u></li></ul>'


def test_a_line_in_the_middle_of_a_list_parts_it_and_keeps_the_items() -> None:
    wanted = apply_patch(to_markdown(IDS), [Operation("addition", 2, "new")], form=Form.MARKDOWN)
    assert edit(IDS, wanted) == IDS.replace("</li><li", "</li></ul><p>new</p><ul><li", 1)


@pytest.mark.parametrize(
    ("added", "made"), [("- b", "<li><u>b</u></li>"), ("text\n\n- a\n- b", None)]
)
def test_a_copy_of_an_item_has_no_id(added: str, made: str | None) -> None:
    text = edit(IDS, append(to_markdown(IDS), added, form=Form.MARKDOWN))
    assert text.startswith(IDS[:-5])
    assert len(re.findall("data-list-item-id", text)) == 2
    assert made is None or text == IDS[:-5] + made + "</ul>"


def test_an_admonition_changes_its_type() -> None:
    source = '<aside class="admonition note" style="color:red;"><p>a <u>b</u></p></aside>'
    made = edit(source, to_markdown(source).replace("NOTE", "TIP"))
    assert made == source.replace("admonition note", "admonition tip")


@pytest.mark.parametrize("name", ["python", "sh", "javascript", "cpp", "mermaid", "unheard-of", ""])
def test_the_language_of_code_is_shown_as_it_was_written(name: str) -> None:
    markdown = f"```{name}\nx\n```"
    assert to_markdown(to_html(markdown)) == markdown
