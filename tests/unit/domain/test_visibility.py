"""Which notes are seen: denying wins, nothing is seen by accident."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content, Properties
from mcp_notarium.domain.policy import EVERYTHING, Policy, Visibility
from mcp_notarium.errors import NotPermitted

tags = st.lists(st.sampled_from(["a", "A", "b", " b", "ü", "U\u0308", "x"]), max_size=4)
ids = st.sampled_from(["1", "2", "3", "a/1", "A/b/1", "ab/1"])
some_ids = st.lists(ids, max_size=2).map(tuple)
some_paths = st.lists(ids | st.sampled_from(["a", "a/B"]), max_size=2).map(tuple)
rules = st.builds(
    Visibility,
    hidden_tags=tags.map(tuple),
    hidden_ids=some_ids,
    allowed_tags=st.none() | tags.map(tuple),
    allowed_ids=st.none() | some_ids,
    hidden_paths=some_paths,
    allowed_paths=st.none() | some_paths,
    untagged=st.booleans(),
)


@pytest.mark.parametrize(
    ("rules", "note_id", "tags", "rule"),
    [
        (EVERYTHING, "1", (), None),
        (Visibility(hidden_tags=("private",)), "1", ("work", "Private"), 'hidden_tags "Private"'),
        (Visibility(hidden_tags=("private",)), "1", (" private ",), 'hidden_tags " private "'),
        (Visibility(hidden_tags=("private",)), "1", ("privates",), None),
        (Visibility(hidden_ids=("1",), allowed_ids=("1",)), "1", (), "hidden_ids"),
        (Visibility(hidden_tags=("p",), allowed_ids=("1",)), "1", ("p",), 'hidden_tags "p"'),
        (Visibility(hidden_tags=("p",), allowed_tags=("w",)), "1", ("w", "p"), 'hidden_tags "p"'),
        (Visibility(allowed_tags=("w",)), "1", ("W",), None),
        (Visibility(allowed_tags=("w",)), "1", ("x",), "allowed_tags"),
        (Visibility(allowed_tags=("w",), untagged=True), "1", (), None),
        (Visibility(allowed_tags=("w",), untagged=False), "1", (), "untagged"),
        (Visibility(untagged=False), "1", (" ",), "untagged"),
        (Visibility(untagged=False), "1", ("x",), None),
        (Visibility(allowed_ids=("1",)), "1", (), None),
        (Visibility(allowed_ids=("1",)), "2", (), "allowed_ids"),
        (Visibility(allowed_ids=("1",)), "2", ("x",), "allowed_ids"),
        (Visibility(allowed_ids=("1",), allowed_tags=("w",)), "1", ("x",), None),
        (Visibility(hidden_paths=("Private",)), "private/a/b.md", (), 'hidden_paths "Private"'),
        (Visibility(hidden_paths=("a/\u00fc",)), "A/U\u0308/x.md", (), 'hidden_paths "a/\u00fc"'),
        (Visibility(hidden_paths=("Private",)), "Private.md", (), None),
        (Visibility(hidden_paths=("Private",)), "Privates/a.md", (), None),
        (Visibility(hidden_paths=("Private",)), "a/Private/b.md", (), None),
        (Visibility(hidden_paths=("a/b.md",)), "a/b.md", ("w",), 'hidden_paths "a/b.md"'),
        (
            Visibility(hidden_paths=("a/b",), allowed_paths=("a",)),
            "a/b/x",
            (),
            'hidden_paths "a/b"',
        ),
        (Visibility(allowed_paths=("a",)), "a/x", (), None),
        (Visibility(allowed_paths=("a",)), "ab/x", ("w",), "allowed_paths"),
        (Visibility(allowed_paths=("a",), allowed_tags=("w",)), "b/x", ("w",), None),
        (Visibility(allowed_paths=("a",), allowed_tags=("w",), untagged=False), "a/x", (), None),
        (Visibility(allowed_paths=("a",), hidden_tags=("p",)), "a/x", ("p",), 'hidden_tags "p"'),
        (Visibility(allowed_ids=("1",), allowed_tags=("w",), untagged=False), "1", (), None),
    ],
)
def test_a_note_is_checked_by_its_id_and_tags(rules, note_id, tags, rule):
    assert rules.hidden_by(note_id, tags) == rule
    assert rules.sees(note_id, tags) == (rule is None)


def test_a_nested_tag_hides_as_those_above_it_and_is_not_allowed_as_they_are():
    rules = Visibility(hidden_tags=("Private", "a/b"), allowed_tags=("a", "private"))
    found = {tag: rules.hidden_by("1", (tag,)) for tag in ("private/x/y", "A/B/c", "a/bc", "a")}
    assert found == {
        "private/x/y": 'hidden_tags "private/x/y"',
        "A/B/c": 'hidden_tags "A/B/c"',
        "a/bc": "allowed_tags",
        "a": None,
    }
    assert rules.hiding_tags(("a", "a/b/c")) == ("a/b/c",)


@given(rules, ids, tags)
def test_rules_that_hide_nothing_say_so_and_others_have_a_digest(rules, note_id, tags):
    assert rules.has_rules == bool(rules.digest)
    if not rules.has_rules:
        assert rules.sees(note_id, tags)


@given(rules, rules, ids, tags)
def test_equal_digests_mean_equal_judgements(one, other, note_id, tags):
    if one.digest == other.digest:
        assert one.sees(note_id, tags) == other.sees(note_id, tags)


@example(Visibility(hidden_tags=("a",), allowed_tags=("a",)), "1", ["a"])
@given(rules, ids, tags)
def test_a_protecting_tag_hides_whatever_else_is_said(rules, note_id, tags):
    if rules.hiding_tags(tags):
        assert not rules.sees(note_id, tags)


@given(rules, ids, tags)
def test_a_closed_place_hides_whatever_else_is_said(rules, note_id, tags):
    parts = note_id.casefold().split("/")
    above = {"/".join(parts[: count + 1]) for count in range(len(parts))}
    if any(one.casefold() in above for one in rules.hidden_paths):
        assert not rules.sees(note_id, tags)
        assert rules.closes(note_id)
    elif rules.allowed_paths and any(one.casefold() in above for one in rules.allowed_paths):
        protected = rules.hiding_tags(tags) or note_id in rules.hidden_ids
        assert rules.sees(note_id, tags) == (not protected)


def test_order_and_spelling_do_not_change_the_digest():
    one = Visibility(hidden_tags=("a", "B"), hidden_ids=("1", "2"))
    assert one.digest == Visibility(hidden_tags=("b", "A ", "a"), hidden_ids=("2", "1")).digest


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        (EVERYTHING, None),
        (Visibility(hidden_paths=("b",)), None),
        (Visibility(hidden_tags=("private",)), "hidden_tags (its tags cannot be read)"),
        (Visibility(allowed_tags=("work",)), "allowed_tags (its tags cannot be read)"),
    ],
)
def test_a_note_with_unreadable_tags_is_hidden_where_tags_decide(rules, rule):
    """They may say ``private``, or may not say ``work``."""
    assert rules.hidden_by("a.md", ("work",), clear=False) == rule


@pytest.mark.parametrize(
    ("rule", "properties", "hidden"),
    [
        ("private", {"private": 1}, True),
        ("private", {"Private": None}, True),
        ("private", {"status": "private"}, False),
        ("status: secret", {"STATUS": "Secret"}, True),
        ("status: secret", {"status": "open"}, False),
        ("status: secret", {"status": ("open", "secret")}, True),
        ("rating: 4", {"rating": 4.0}, True),
        ("pinned", {"pinned": True}, True),
    ],
)
def test_a_property_hides_by_its_name_or_with_its_value(rule, properties, hidden):
    rules = Visibility(hidden_properties=(rule,))
    assert rules.has_rules
    assert rules.sees("a.md", (), properties) is not hidden
    if hidden:
        assert rules.hidden_by("a.md", (), properties).startswith('hidden_properties "')
    assert EVERYTHING.sees("a.md", (), properties)


def test_unreadable_properties_hide_where_properties_decide():
    rules = Visibility(hidden_properties=("private",))
    said = "hidden_properties (its properties cannot be read)"
    assert rules.hidden_by("a.md", (), clear=False) == said
    assert rules.digest == Visibility(hidden_properties=(" Private ",)).digest != ""


@pytest.mark.parametrize(
    "content",
    [
        Content("---\nprivate: yes\n---\nx\n"),
        Content("private:: 1\n"),
        Content("x\n", properties=Properties({"private": 1})),
    ],
)
def test_no_property_may_come_that_hides_the_note(content):
    policy = Policy(visibility=Visibility(hidden_properties=("private",)))
    policy.require_write("a.md", Content("x\n"), Content("y\n"))
    with pytest.raises(NotPermitted, match="property may not be given here"):
        policy.require_write("a.md", Content("x\n"), content)
