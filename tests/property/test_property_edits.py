"""A changed property is what PyYAML reads; every other key, comment and byte is as before."""

from __future__ import annotations

from datetime import timedelta, timezone

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_notarium.markup.front_block import find_block
from mcp_notarium.markup.front_entries import read_block
from mcp_notarium.markup.front_matter import NotUnderstood
from mcp_notarium.markup.properties import REMOVE, change_properties, read_properties
from mcp_notarium.markup.property_values import OtherValue, UnfitProperty, key_of, read_quoted

WORDS = st.one_of(
    st.sampled_from(
        [
            "yes",
            "no",
            "null",
            "~",
            "true",
            "5",
            "0x1f",
            "1_000",
            "1:30",
            ".5",
            "5.",
            "1e3",
            "-",
            "-x",
            "---",
            "...",
            "?y",
            ":z",
            "a:b",
            "=�",
            "a,b",
            "[x]",
            "{{t}}",
            "#h",
        ]
    ).filter(lambda one: one.isprintable()),
    st.sampled_from(
        [
            "",
            " a",
            "a ",
            "a: b",
            "a #b",
            'say "x"',
            "back\\slash",
            "[[Link]]",
            "two\nlines",
            "tab\tin",
            "<<",
        ]
    ),
    st.sampled_from(
        [
            "2026-02-30",
            "\x85",
            "\u2028",
            "\ufeff",
            "🎅 x",
            "é",
            "it's",
            "'q'",
            "!t",
            "%d",
            "@at",
            "`c`",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
).filter(lambda one: isinstance(read_quoted(one), str))
ZONES = st.none() | st.integers(-14 * 60, 14 * 60).map(lambda one: timezone(timedelta(minutes=one)))
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(
    WORDS,
    NUMBERS,
    st.booleans(),
    st.none(),
    st.dates(),
    st.datetimes(timezones=ZONES),
    st.lists(WORDS, max_size=4).map(tuple),
)
NAMES = st.one_of(
    st.sampled_from(["due", "my key", "a: b", "- x", "yes", "1", "2026-01-01", "🎅", '"q"', "# h", "{a", "é"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9),
).filter(
    lambda one: one == one.strip() and key_of(one) not in {"tags", "tag", "aliases", "alias", "<<", ""}
    and not set(one) & set("\ufeff\ufffe\uffff")
)  # fmt: skip
NESTED = st.recursive(
    WORDS | NUMBERS | st.booleans() | st.none() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def loaded(text):
    block = find_block(text)
    assert block is not None
    return yaml.safe_load(text[block[0] : block[1]].replace("\r\n", "\n"))


def plain(value):
    return list(value) if isinstance(value, tuple) else value


def one_of_each_key(names):
    return len({key_of(name) for name in names}) == len(names)


def has_parts(text, name):
    block = read_block(text)
    return block is not None and isinstance(block.find(name).value, OtherValue)


@given(
    st.dictionaries(NAMES, NESTED, max_size=5),
    st.data(),
    st.sampled_from([True, False, None]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(["", "Text\n---\n", "\nText\r\n"]),
)
def test_of_a_dumped_block_one_key_changes(front, data, flow, end, mark, body):  # noqa: PLR0917
    assume(one_of_each_key(list(front)))
    dumped = yaml.safe_dump(front, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    top = mark + f"---\n{dumped}---\n".replace("\n", end)
    assume(loaded(top) == front)
    name = data.draw(st.sampled_from(list(front)) | NAMES if front else NAMES)
    assume(one_of_each_key([*front, name]) or name in front)
    value = data.draw(VALUES | st.just(REMOVE))
    text = top + body
    try:
        changed = change_properties(text, {name: value})
    except UnfitProperty:
        assert has_parts(text, name)
        return
    wanted = {key: one for key, one in front.items() if key != name or value is not REMOVE}
    if value is not REMOVE:
        wanted[name] = plain(value)
    assert changed.startswith(mark)
    assert changed.endswith(body)
    if not wanted and name in front:
        assert changed == mark + body
        return
    assert loaded(changed) == wanted
    assert list(loaded(changed)) == list(wanted)
    if value is not REMOVE:
        read = read_properties(changed)[name]
        assert (type(read), read) == (type(value), value)
        assert change_properties(changed, {name: value}) == changed


FRAGMENTS = [
    "{k}: plain # a comment\n",
    "{k}: 'it''s' # a comment\n",
    '{k}: "a \\"quoted\\" text"   # a comment\n',
    "{k}:\n",
    "{k}:   # nothing yet\n",
    "{k} : spaced\n",
    "{k}: >-\n  folded\n  text\n\n",
    "{k}: | # literal\n  one\n\n  two\n",
    "{k}: |+\n  kept\n\n",
    "{k}:\n  - one # first\n  # between\n  - 'two'\n\n",
    "{k}:\n- one\n- 2\n",
    "{k}: # a list\n    - one\n    - two # last\n",
    "{k}: [one, 'two', 3] # flow\n",
    "{k}: [one,\n  two, # within\n  three]\n",
    "{k}: []\n",
    "{k}: two\n  lines\n",
    "{k}:\n  below # its key\n",
    '{k}: "over\n  lines" # after\n',
    "{k}: 2026-12-01\n",
    "{k}: {{a: 1, b: [2]}}\n",
    "{k}:\n  deep:\n    - x: 1\n      y: 2\n  # in it\n",
    "{k}: &own_{k} value\n",
    "{k}: !!str 5\n",
    "'{k}': quoted name\n",
    '"{k}": quoted name\n',
    "{k}: *used\n",
    "? {k}\n: asked\n",
]
COMMENTS = ["", "", "\n", "# comment: x\n"]


@given(
    st.lists(
        st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(COMMENTS)), min_size=1, max_size=6
    ),
    st.data(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_of_a_block_by_hand_one_key_changes_and_no_byte_around_it(parts, data, end):
    head = "# top\nanchor: &used shared\n"
    pieces = [(one.format(k=f"k{number}"), after) for number, (one, after) in enumerate(parts)]
    at = data.draw(st.integers(0, len(pieces)))
    value = data.draw(VALUES | st.just(REMOVE))
    before = "---\n" + head + "".join(a + b for a, b in pieces[:at])
    own = pieces[at][0] if at < len(pieces) else ""
    after = "".join([*(pieces[at][1:] if own else ()), *(a + b for a, b in pieces[at + 1 :])])
    before, own, after = (one.replace("\n", end) for one in (before, own, after + "---\nText\n"))
    text, name = before + own + after, f"k{at}"
    old = loaded(text)
    try:
        changed = change_properties(text, {name: value})
    except UnfitProperty:
        assert has_parts(text, name)
        return
    wanted = {key: one for key, one in old.items() if key != name or value is not REMOVE}
    if value is not REMOVE:
        wanted[name] = plain(value)
    assert loaded(changed) == wanted
    if own:
        assert changed.startswith(before)
        assert changed.endswith(after.lstrip() if value is REMOVE else after)
    elif value is not REMOVE:
        fence = f"---{end}Text{end}"
        assert changed.startswith(text.removesuffix(fence))
    else:
        assert changed == text


@given(st.text(), NAMES, VALUES)
def test_a_property_of_a_note_without_a_block_comes_and_goes(body, name, value):
    body = body.replace("::", ":")
    assume(not body.startswith(("---", "+++", "\ufeff")))
    changed = change_properties(body, {name: value})
    assert changed.endswith(body)
    assert loaded(changed) == {name: plain(value)}
    assert (
        change_properties(
            changed,
            {name.upper(): REMOVE} if key_of(name.upper()) == key_of(name) else {name: REMOVE},
        )
        == body
    )


LINES = st.sampled_from(
    [
        "Some text",
        "- item",
        "> quote",
        "```",
        "- [ ] task [k:: 1]",
        "`k:: 1`",
        "",
        "other:: 1",
        "a (x:: 2) b",
    ]
)
FIELDS = [
    "k:: {v}",
    "K:: {v}",
    "- k:: {v}",
    "> k:: {v}",
    "**k**:: {v}",
    "see [k:: {v}] there",
    "(k:: {v})",
    "1. a [k:: {v}]",
]


@given(
    st.lists(LINES, max_size=4),
    st.sampled_from(FIELDS),
    st.lists(LINES, max_size=4),
    VALUES | st.just(REMOVE),
    st.sampled_from(["old", "", "1, 2", "[[Old]]"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_field_in_the_text_changes_in_its_place(above, form, below, value, old, end):  # noqa: PLR0917
    before, after = (end.join(lines) for lines in (["Top", *above, ""], ["", *below]))
    text = before + form.format(v=old) + after
    assume("k" in read_properties(text) or "K" in read_properties(text))
    others = {name: one for name, one in read_properties(text).items() if key_of(name) != "k"}
    try:
        changed = change_properties(text, {"k": value})
    except UnfitProperty:
        assert isinstance(value, str | tuple)
        return
    head, tail = form.partition("{v}")[0::2]
    read = {key_of(name): one for name, one in read_properties(changed).items()}
    if value is REMOVE:
        assert read == {key_of(name): one for name, one in others.items()}
        assert len(text) - len(changed) <= len(form.format(v=old) + end)
        return
    wanted = (
        None if value == () else value[0] if isinstance(value, tuple) and len(value) == 1 else value
    )
    if isinstance(wanted, str):
        wanted = read_quoted(wanted)
    assert read.pop("k") == wanted
    assert read == {key_of(name): one for name, one in others.items()}
    assert changed.startswith(before + head.rstrip())
    assert changed.endswith(tail + after)


@given(
    st.text(st.sampled_from("ab:-# \n\t[]{}&*!|>'\"%@`,\\\r?<.1"), max_size=40),
    st.text("ab", min_size=1, max_size=2),
    VALUES | st.just(REMOVE),
)
def test_any_block_is_changed_as_pyyaml_reads_it_or_not_at_all(inner, name, value):
    text = f"---\n{inner}\n---\nText"
    try:
        old = loaded(text)
        if old is not None:
            assert isinstance(old, dict)
        changed = change_properties(text, {name: value})
    except (NotUnderstood, UnfitProperty, yaml.YAMLError, AssertionError, ValueError, TypeError):
        return
    assume("::" not in inner)
    wanted = dict(old or {})
    same = [key for key in wanted if isinstance(key, str) and key_of(key) == name]
    assume("<<" not in inner)
    if value is REMOVE:
        for key in same:
            del wanted[key]
    else:
        wanted[same[-1] if same else name] = plain(value)
    assert changed.endswith("Text")
    if changed != "Text":
        assert (loaded(changed) or {}) == wanted
    else:
        assert not wanted
