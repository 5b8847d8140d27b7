"""Properties of the Trilium codec: nothing is lost that an edit does not touch."""

from __future__ import annotations

import html

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mcp_notarium.markup.html_codec import WouldLose, to_markdown
from mcp_notarium.markup.markdown_to_html import segments
from support.trilium_html import edit, to_html

WORDS = st.text(st.sampled_from("abz0189 *_`[]()#<>&$~|\\!+-.=:\"'é漢\xa0\t"), max_size=12)


def element(tag: str, inner: str, attributes: str = "") -> str:
    return f"<{tag}{attributes}>{inner}</{tag}>"


text = WORDS.map(lambda words: html.escape(words, quote=False))
inline = st.recursive(
    text,
    lambda inner: st.one_of(
        st.builds(
            element, st.sampled_from(["strong", "b", "em", "i", "s", "u", "sub", "code"]), inner
        ),
        inner.map(lambda held: element("span", held, ' style="color:hsl(0,75%,60%);"')),
        inner.map(lambda held: element("a", held, ' class="reference-link" href="#root/Ab12cd34"')),
        inner.map(lambda held: element("a", held, ' href="https://example.com/a_b?c=d&amp;e"')),
        st.just('<img src="api/attachments/x1/image/a%20b.png" width="3" height="4">'),
        st.just('<img alt="A*" src="data:image/png;base64,AAAA">'),
        st.just('<span class="math-tex">\\(a_b^2\\)</span>'),
        st.just("<br>"),
        st.lists(inner, max_size=3).map("".join),
    ),
    max_leaves=5,
)
items = st.lists(inline.map(lambda held: element("li", held)), min_size=1, max_size=3).map("".join)
ticked = inline.map(
    lambda held: (
        '<li><label class="todo-list__label"><input type="checkbox" checked="checked" disabled="disabled">'
        f'<span class="todo-list__label__description">{held}</span></label></li>'
    )
)
rows = st.lists(
    st.lists(inline.map(lambda held: element("td", held)), min_size=2, max_size=2).map(
        lambda cells: element("tr", "".join(cells))
    ),
    min_size=1,
    max_size=3,
).map("".join)
block = st.one_of(
    st.builds(element, st.sampled_from(["p", "h2", "h3"]), inline),
    inline.map(lambda held: element("p", held, ' style="text-align:right;"')),
    st.builds(element, st.sampled_from(["ul", "ol"]), items),
    ticked.map(lambda held: element("ul", held, ' class="todo-list"')),
    inline.map(lambda held: element("blockquote", element("p", held))),
    rows.map(lambda held: f'<figure class="table"><table><tbody>{held}</tbody></table></figure>'),
    text.map(
        lambda held: f'<pre><code class="language-text-x-python">{held}\n\n{held}</code></pre>'
    ),
    st.just(
        '<figure class="image" style="width:50%;"><img src="api/attachments/y/image/y.png"></figure>'
    ),
    st.just(
        '<section class="include-note" data-note-id="Ab12cd34" data-box-size="medium">&nbsp;</section>'
    ),
    st.just("<hr>"),
    st.just("<p>&nbsp;</p>"),
    st.just("\n"),
)
document = st.lists(block, max_size=6).map("".join)


@settings(deadline=None, max_examples=30)
@given(document)
@example("<ul><li>a</li></ul><ul><li>b</li></ul>")
def test_a_note_that_was_not_edited_keeps_its_bytes(source: str) -> None:
    assert edit(source, to_markdown(source)) == source


@settings(deadline=None, max_examples=30)
@given(st.text())
@example("<p>a<b>b</p>c</b>")
@example("<!-- x --><p/>&#0;&bogus;&amp")
def test_anything_is_read_and_kept(source: str) -> None:
    assert edit(source, to_markdown(source)) == source


def _only_order_is_lost(source: str, wanted: str) -> str:
    """Skip a note whose blocks Markdown cannot keep apart; no other edit of it is taken, either."""
    with pytest.raises(WouldLose, match="an order of blocks that Markdown cannot say"):
        edit(source, wanted)
    assume(condition=False)
    return ""


@settings(deadline=None, max_examples=30)
@given(document, WORDS, st.data())
def test_a_new_paragraph_changes_nothing_around_it(
    source: str, words: str, data: st.DataObject
) -> None:
    new = to_markdown(to_html(f"new {words}"))
    held = to_markdown(source)
    shown = segments(held)
    assume("\n\n".join(shown) == held)
    place = data.draw(st.integers(0, len(shown)))
    wanted = "\n\n".join([*shown[:place], new, *shown[place:]])
    assume(segments(wanted) == [*shown[:place], new, *shown[place:]])
    try:
        made = edit(source, wanted)
    except WouldLose:
        made = _only_order_is_lost(source, wanted)
    assert made.replace(to_html(new), "", 1) == source


@settings(deadline=None, max_examples=30)
@given(st.lists(block, min_size=1, max_size=5), st.data())
def test_an_edit_changes_its_own_block_or_is_refused(
    blocks: list[str], data: st.DataObject
) -> None:
    source = "".join(blocks)
    lines = to_markdown(source).split("\n")
    number = data.draw(st.integers(0, len(lines) - 1))
    assume(
        lines[number] and not lines[number].startswith(("```", "|"))
    )  # what follows a row is dropped
    lines[number] += " zq"
    try:
        made = edit(source, "\n".join(lines))
    except WouldLose:
        return
    kept = [block for block in blocks if block in made]
    assert len(kept) >= len(blocks) - 1
    assert "zq" in to_markdown(made)


@settings(deadline=None, max_examples=30)
@given(st.text(st.sampled_from('ab \n*_`[]()#<>&$~|\\!+-.=:1>\t"é'), max_size=40))
@example("- a\n- b\n\n* c\n")
@example("$$\nx\n$$\n\n`` ` ``")
def test_what_was_stored_reads_the_same_when_it_is_stored_again(markdown: str) -> None:
    stored = to_html(markdown)
    shown = to_markdown(stored)
    assert edit(stored, shown) == stored
    assert to_markdown(to_html(shown)) == shown


@settings(deadline=None, max_examples=30)
@given(st.text(st.sampled_from('ab \n*_`[]()#<>&$~|\\!+-.=:1>\t"é\u3000\x0b'), max_size=40))
@example("- #")
@example(">\t\t1 ")
@example("\u3000indented\u3000\n\n> \x0b\n> *a\u2028*")
def test_every_block_that_was_made_here_can_be_edited_here(markdown: str) -> None:
    stored = to_html(markdown)
    shown = to_markdown(stored)
    assume(shown and segments(shown + "\n\nnew") == [*segments(shown), "new"])
    for number, segment in enumerate(segments(shown)):
        others = segments(shown)
        others[number] = f"edited {number}"
        assert f"edited {number}" in edit(stored, "\n\n".join(others)), segment


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=60))
def test_no_markdown_makes_an_active_element(markdown: str) -> None:
    attack = f"{markdown}<script>x</script><img src=x onerror=y>![a](https://example.com/x.png)"
    made = to_html(attack).lower()
    assert "<script" not in made
    assert "<img" not in made
    assert 'href="javascript' not in to_html("[a](javascript:x)")


@pytest.mark.parametrize(
    ("source", "old", "new", "lost"),
    [
        ('<p>a <span style="color:red">b</span></p>', "a b", "c", "style of <span>"),
        ("<p>a <u>b</u></p>", "a b", "b c", "<u>"),
        ('<table><tbody><tr><td colspan="2">b</td></tr></tbody></table>', "|  |\n| --- |\n| b |",
         "|  |  |\n| --- | --- |\n| b | c |", "colspan of <td>"),
        ("<p>a<!-- hidden --> b</p>", "a b", "c", "a comment of the HTML"),
        ('<p>a <mark class="marker-yellow">b</mark></p>', "a b", "c", "class of <mark>"),
        ("<table><tbody><tr><td><p>a</p><p>b</p></td></tr></tbody></table>", "a b", "a c",
         "several lines in a cell of a table"),
        ('<figure class="image"><img src="api/images/y/y.png"></figure>', "png)", "png) x", "<figure>"),
        ("<ul><li>a<ul><li>b <u>c</u></li></ul></li></ul>", "a\n  - b", "a b", "<u>"),
        ("<blockquote><p>a long first line</p><p>c <u>b</u></p></blockquote>", ">\n>", "\nnew\n\n>", "<u>"),
        ("<ul><li>a<ul><li><mark>b</mark> c</li></ul></li><li>d</li></ul>", "  - b c\n- d", "- d\n  - b c", "<mark>"),
        ("<ul><li>a<ul><li>H<sub>2</sub>O</li></ul></li><li>d</li></ul>", "  - H2O\n- d", "- d\n  - H2O", "<sub>"),
        ("<ul><li>a<ul><li><mark>b</mark></li></ul></li><li>d</li></ul>", "  - b\n- d", "- d\n  b", "<mark>"),
        ('<ul><li>a<ul><li><span class="text-big">b</span> c</li></ul></li><li>d</li></ul>', "  - b c\n- d",
         "- d\n  - b c", "<span>"),
    ],
)  # fmt: skip
def test_an_edit_that_would_lose_something_says_what(
    source: str, old: str, new: str, lost: str
) -> None:
    with pytest.raises(WouldLose) as refusal:
        edit(source, to_markdown(source).replace(old, new))
    assert lost in refusal.value.what
    rest = source + "<p>other</p>"
    assert edit(rest, to_markdown(rest).replace("other", "edited")) == source + "<p>edited</p>"


@pytest.mark.parametrize(
    ("source", "old", "new", "made"),
    [
        ('<p>See <a class="reference-link" href="#root/x1">A</a>.</p>', "See", "Read",
         '<p>Read <a class="reference-link" href="#root/x1">A</a>.</p>'),
        ('<p>x <img src="api/attachments/i/image/a%20b.png" width="5"> y</p>', " y", " z",
         '<p>x <img src="api/attachments/i/image/a%20b.png" width="5"> z</p>'),
        ('<p>x <img src="data:image/png;base64,AAAA"> y</p>', " y", " z",
         '<p>x <img src="data:image/png;base64,AAAA"> z</p>'),
        ('<p>is <span class="math-tex">\\(a*b\\)</span></p>', "is", "was",
         '<p>was <span class="math-tex">\\(a*b\\)</span></p>'),
        ("<p>a&nbsp;</p><p>&nbsp;</p><p>b</p>", "a", "c", "<p>c&nbsp;</p><p>&nbsp;</p><p>b</p>"),
        ('<ul><li data-list-item-id="e1">a</li><li data-list-item-id="e2">b</li></ul>', "b", "c",
         '<ul><li data-list-item-id="e1">a</li><li data-list-item-id="e2">c</li></ul>'),
        ("<p>a</p>", "a", "![x](https://example.com/y.png)",
         '<p><a href="https://example.com/y.png">x</a></p>'),
    ],
)  # fmt: skip
def test_an_edit_keeps_what_its_markdown_shows(source: str, old: str, new: str, made: str) -> None:
    assert edit(source, to_markdown(source).replace(old, new)) == made


@pytest.mark.parametrize(
    "part",
    [
        "<a ",
        "<!--",
        "<!",
        "</",
        "<",
        "&",
        "<a x='",
        "<p ",
        "-= ",
        "#",
        "\u3000",
        "*_",
        "\\(",
        "`",
        "<ul><li>",
    ],
)
def test_no_note_takes_long_to_read(part: str) -> None:
    """With time that grows with the square, each of these takes minutes and meets the limit of a test."""
    to_markdown(f"<p>{part * (60_000 // len(part))}x</p>-->")


@pytest.mark.parametrize("mark", ["[", "~~a"])
def test_no_markdown_takes_long_to_write(mark: str) -> None:
    """Parsed, 60,000 of these take seconds, and nothing else runs meanwhile."""
    text = mark * 60_000
    made = to_html(text)
    assert made.startswith("<p>")
    assert to_html(to_markdown(made)) == made
    assert edit("<p>a</p>", "a") == "<p>a</p>"
    with pytest.raises(WouldLose, match="marks"):
        edit("<p>a</p>", text)


@pytest.mark.parametrize("value", ["'x'", "a b", "&lt;&quot;", ""])
def test_an_attribute_keeps_its_quotes(value: str) -> None:
    source = f'<p>a <img alt="{value}" src="api/images/y/y.png"> b</p>'
    assert edit(source, to_markdown(source).replace("a ", "c ", 1)) == source.replace(
        "a <", "c <", 1
    )


def test_an_edited_block_that_has_a_twin_does_not_pass_for_a_removed_one() -> None:
    figure = '<figure class="image" style="width:{}%;"><img src="api/images/y/y.png"></figure>'
    source = "".join(map(figure.format, (50, 60, 70)))
    shown = to_markdown(source)
    for number in range(3):
        lines = shown.split("\n\n")
        lines[number] += " zq"
        with pytest.raises(WouldLose):
            edit(source, "\n\n".join(lines))
    assert edit(source, "\n\n".join(shown.split("\n\n")[1:])) in {
        source.replace(figure.format(width), "") for width in (50, 60, 70)
    }


TABLE = (
    '<figure class="table" style="width:80%;"><table><colgroup><col style="width:30%;"></colgroup>'
    "<thead><tr><th>h</th><th>i</th></tr></thead><tbody>{}</tbody></table></figure>"
)
ROW = '<tr><td style="color:red">{}</td><td><ul><li>x</li><li>y</li></ul></td></tr>'
BOX = (
    '<li data-list-item-id="e"><label class="todo-list__label"><input type="checkbox"{} disabled="disabled">'
    '<span class="todo-list__label__description">{}</span></label></li>'
)
TODO = '<ul class="todo-list">{}</ul>'
RED = '<span style="color:red">red</span>'
SQUARE = '<ul style="list-style-type:square;">{}</ul>'
FORMULA = '<span class="math-tex">\\(a\\)</span>'
EMPTY_ABOVE = TODO.format(BOX.replace("</li>", "<ul><li>b</li></ul></li>").replace('"{}', '"'))


@pytest.mark.parametrize(
    ("source", "old", "new", "made"),
    [
        (TABLE.format(ROW.format("a")), "| a |", "| b |", TABLE.format(ROW.format("b"))),
        (TABLE.format(ROW.format("a")), "y |", "y |\n| b | c |",
         TABLE.format(ROW.format("a") + "<tr><td>b</td><td>c</td></tr>")),
        (TABLE.format(ROW.format("a") + ROW.format("b")), "| a | - x - y |\n", "",
         TABLE.format(ROW.format("b"))),
        (TODO.format(BOX.format("", "a") + BOX.format("", RED)), "- [ ] a", "- [x] a",
         TODO.format(BOX.format("", "a").replace('<input type="checkbox"', '<input type="checkbox" checked="checked"') + BOX.format("", RED))),
        (TODO.format(BOX.format(' checked="checked"', RED)), "[x]", "[ ]", TODO.format(BOX.format("", RED))),
        (TODO.format(BOX.format("", RED)), "red", "red\n- [ ] b",
         TODO.format(BOX.format("", RED) + BOX.format("", "b").replace(' data-list-item-id="e"', ""))),
        (TODO.format(BOX.format("", RED) + BOX.format("", "b")), "- [ ] red\n- [ ] b", "- [ ] b\n- [ ] red",
         TODO.format(BOX.format("", "b") + BOX.format("", RED))),
        (f"<ul><li>a {RED}<ul><li>b <u>c</u></li><li>d</li></ul></li></ul>", "- d", "- e",
         f"<ul><li>a {RED}<ul><li>b <u>c</u></li><li>e</li></ul></li></ul>"),
        (f"<p>a {RED} b &nbsp; c</p>", "a red", "a dark red", f"<p>a dark {RED} b &nbsp; c</p>"),
        (f"<p>a {RED} b</p>", "red", "blue", f"<p>a {RED.replace('>red', '>blue')} b</p>"),
        (f"<p>a {RED} b. Next</p>", "a red b. ", "", "<p>Next</p>"),
        (f"<p><strong>Hint: {RED}</strong>&nbsp;x</p>", "Hint", "Note", f"<p><strong>Note: {RED}</strong>&nbsp;x</p>"),
        (f'<p>a <a class="reference-link" href="#root/x1">{RED} b</a></p>', "b]", "c]",
         f'<p>a <a class="reference-link" href="#root/x1">{RED} c</a></p>'),
        (f'<figure class="image"><img src="api/images/y/y.png"><figcaption>a {RED}</figcaption></figure>',
         "a red", "b red",
         f'<figure class="image"><img src="api/images/y/y.png"><figcaption>b {RED}</figcaption></figure>'),
        (f'<aside class="admonition tip"><p>a {RED}</p><p>b</p></aside>', "b", "c",
         f'<aside class="admonition tip"><p>a {RED}</p><p>c</p></aside>'),
        (f"<h2>1. a {RED}</h2>", "a red", "b red", f"<h2>1. b {RED}</h2>"),
        (f"<p>1. a {RED}<br>- b</p>", "- b", "- c", f"<p>1. a {RED}<br>- c</p>"),
        (f'<p>a<a id="bookmark"></a> {RED}</p>', "red", "blue",
         f'<p>a<a id="bookmark"></a> {RED.replace(">red", ">blue")}</p>'),
        ("<p>H<sub>2</sub>O</p><p>b</p><p>c</p>", "H2O\n\nb\n\nc", "b\n\nc 2", "<p>b</p><p>c 2</p>"),
        ("<p>a <u>b</u></p><ul><li>c</li></ul>", "a b\n\n- c", "- c\n\na b", "<ul><li>c</li></ul><p>a <u>b</u></p>"),
        (SQUARE.format("<li>a</li>"), "- a", "- a\n- b", SQUARE.format("<li>a</li><li>b</li>")),
        (SQUARE.format("<li>a</li><li>b</li>"), "- b", "\nc\n\n- b",
         f"{SQUARE.format('<li>a</li>')}<p>c</p>{SQUARE.format('<li>b</li>')}"),
        (TODO.format(BOX.format("", f"1. a {RED}")), "a red", "b red", TODO.format(BOX.format("", f"1. b {RED}"))),
        (TODO.format(BOX.format("", "")), "- [ ]", "- [ ] a", TODO.format(BOX.format("", "a"))),
        (TODO.format(BOX.format("", "&nbsp;")), "- [ ]", "- [x] a",
         TODO.format(BOX.format("", "&nbsp;a").replace('"checkbox"', '"checkbox" checked="checked"'))),
        (EMPTY_ABOVE.format(""), "- [ ]\n  - b", "- [ ] a\n  - b", EMPTY_ABOVE.format("a")),
        (f'<p><a id="b"></a>a {RED}</p>', "red", "red ", f'<p><a id="b"></a>a {RED}</p>'),
        (SQUARE.format(f"<li>a</li><li>{RED}</li>"), "a\n", "a \n", SQUARE.format(f"<li>a</li><li>{RED}</li>")),
        (EMPTY_ABOVE.format(""), "- b", "- c", EMPTY_ABOVE.format("").replace(">b<", ">c<")),
        ("<ul><li>a</li></ul>" + TODO.format(BOX.format("", f"7{FORMULA}") + BOX.format("", "b")), "* [ ] b", "* [x] b",
         "<ul><li>a</li></ul>" + TODO.format(BOX.format("", f"7{FORMULA}")
         + BOX.format("", "b").replace('"checkbox"', '"checkbox" checked="checked"'))),
    ],
)  # fmt: skip
def test_an_edit_changes_as_little_as_it_says(source: str, old: str, new: str, made: str) -> None:
    shown = to_markdown(source)
    assert old in shown
    assert edit(source, shown.replace(old, new, 1)) == made


formatted = st.one_of(
    block,
    inline.map(lambda held: f'<aside class="admonition tip"><p>{held}</p><p>x</p></aside>'),
    st.just('<figure class="image"><img src="api/images/y/y.png"><figcaption>a</figcaption></figure>'),
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.lists(formatted, max_size=3).map("".join),
    st.lists(formatted, max_size=3).map("".join),
    st.sampled_from(
        [
            "<p>{}</p>",
            "<p>a <u>b {}</u> c</p>",
            f"<h2>{RED} {{}}</h2>",
            f"<ul><li>{RED}</li><li><p>{{}}</p></li></ul>",
            f"<ol><li>a<ul><li>{RED} {{}}</li></ul></li></ol>",
            TODO.format(BOX.format("", RED) + BOX.format(' checked="checked"', "{}")),
            TABLE.format(ROW.format("{}") + ROW.format(RED)),
            f"<blockquote><p>{RED}</p><p>{{}}</p></blockquote>",
            f'<aside class="admonition"><p style="color:red">{{}}</p><p>{RED}</p></aside>',
            '<pre><code class="language-text-x-python">{}</code></pre>',
        ]
    ),
)
def test_a_word_that_changes_changes_nothing_else(before: str, after: str, around: str) -> None:
    source = before + around.replace("{}", "zq") + after
    wanted = to_markdown(source).replace("zq", "new word")
    try:
        made = edit(source, wanted)
    except WouldLose:
        made = _only_order_is_lost(source, wanted)
    assert made == source.replace("zq", "new word")


def test_what_the_importer_puts_into_the_label_of_a_task_stands_below_it() -> None:
    nested = TODO.format(BOX.format("", "a" + TODO.format(BOX.format(' checked="checked"', "{}"))))
    source = nested.replace("{}", "b")
    assert to_markdown(source) == "- [ ] a\n  - [x] b"
    assert edit(source, "- [ ] a\n  - [x] c") == nested.replace("{}", "c")
    assert edit(source, "- [ ] a") == TODO.format(BOX.format("", "a"))
    assert edit(source, "> all new\n\n1. z") == to_html("> all new\n\n1. z")
    with pytest.raises(WouldLose, match="<span>"):
        edit(nested.replace("{}", RED), "> all new\n\n1. red")
