"""What may be used and written under a policy."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import ACTIONS, PERMISSIVE, TOOLS, Field, Mode, Policy, Visibility
from mcp_notarium.errors import NotPermitted
from mcp_notarium.report import words
from mcp_notarium.tools import catalog, manage

tags = st.lists(st.sampled_from(["work", "Work", "private", "PRIVATE", "x"]), max_size=3).map(tuple)


def test_every_tool_and_action_of_a_policy_is_handled_and_named_in_the_report():
    assert tuple(tool.name for tool in catalog.TOOLS) == TOOLS
    assert set(manage._ACTIONS) == set(ACTIONS)
    assert {*TOOLS, *(f"manage.{one}" for one in ACTIONS)} - set(words.TOOLS) == {"manage"}


def refusal(require: Callable[..., None], *arguments: object) -> NotPermitted | None:
    """Return the error that the requirement raises, or None."""
    try:
        require(*arguments)
    except NotPermitted as error:
        return error
    return None


@pytest.mark.parametrize(
    ("mode", "permitted"),
    [
        (Mode.FULL, {"save", *ACTIONS}),
        (Mode.WRITE, {"save", *ACTIONS} - {"delete_permanently", "reset_cache"}),
        (
            Mode.READ_ONLY,
            {
                *(
                    "history",
                    "list_tags",
                    "list_properties",
                    "find_duplicates",
                    "list_folders",
                    "find_problems",
                ),
                "get_stats",
            },
        ),
    ],
)
def test_a_mode_permits_these_changes_and_all_reading(mode, permitted):
    policy = Policy(mode=mode)
    found = {action for action in ACTIONS if not refusal(policy.require_use, "manage", action)}
    found |= set() if refusal(policy.require_use, "save") else {"save"}
    assert found == permitted
    policy.require_use("list")
    policy.require_use("get")


def test_tools_that_are_off_or_could_never_be_used_do_not_exist():
    assert PERMISSIVE.tools == TOOLS
    assert Policy(switched_off=frozenset({"manage"})).tools == ("list", "get", "save")
    assert PERMISSIVE.read_only().tools == ("list", "get", "manage")
    assert refusal(Policy(switched_off=frozenset({"get"})).require_use, "get")


@given(
    st.builds(
        Visibility,
        hidden_tags=st.just(("private",)),
        allowed_tags=st.none() | st.just(("work",)),
        untagged=st.booleans(),
    ),
    tags,
    tags,
)
def test_only_notes_that_stay_visible_may_be_written(rules, before, after):
    policy = Policy(visibility=rules)
    found = refusal(policy.require_write, "1", Content("", before), Content("", after))
    assert (found is None) == rules.sees("1", after)


def test_what_cannot_be_taken_back_needs_the_full_mode():
    PERMISSIVE.require_irreversible()
    for mode in (Mode.WRITE, Mode.READ_ONLY):
        assert "cannot be taken back" in refusal(Policy(mode=mode).require_irreversible).message


def test_what_is_forbidden_is_not_offered():
    assert PERMISSIVE.offers("manage", "delete_permanently")
    assert PERMISSIVE.forbidden_actions == frozenset()
    careful = Policy(mode=Mode.WRITE, switched_off=frozenset({"get"}))
    assert careful.forbidden_actions == {"delete_permanently", "reset_cache"}
    offered = [careful.offers("save"), careful.offers("get"), careful.offers("manage", "trash")]
    assert offered == [True, False, True]
    assert not careful.offers("manage", "reset_cache")
    assert not PERMISSIVE.read_only().offers("save")


def test_policies_that_are_spelled_differently_mean_the_same_and_hide_their_rules():
    one = Policy(visibility=Visibility(hidden_tags=("Diary", "diary")))
    other = Policy(visibility=Visibility(hidden_tags=("diary",)))
    assert one.meaning == other.meaning != PERMISSIVE.meaning
    assert "iary" not in str(one.meaning)
    assert one.meaning["mode"] == "full"


def test_refusals_say_which_tags_are_wanted_and_who_can_change_that():
    narrow = Policy(visibility=Visibility(allowed_tags=("work", "home"), untagged=False))
    found = refusal(narrow.require_write, "1", None, Content(""))
    assert '"work", "home"' in found.resolution_hint
    assert "policy file" in found.resolution_hint
    protecting = Policy(visibility=Visibility(hidden_tags=("private",)))
    found = refusal(protecting.require_write, "1", None, Content("", ("Private",)))
    assert '"Private"' in found.message


def test_new_notes_are_refused_where_only_certain_ones_are_open():
    policy = Policy(visibility=Visibility(allowed_ids=("1",)))
    assert refusal(policy.require_write, "new", None, Content("", ("any",)))
    policy.require_write("1", Content(""), Content("", ("any",)))


def test_a_note_may_be_written_only_in_a_place_that_is_open():
    closed = Policy(visibility=Visibility(hidden_paths=("Private",), hidden_tags=("private",)))
    found = refusal(closed.require_write, "private/new.md", None, Content(""))
    assert "Private" not in found.message + found.resolution_hint
    closed.require_write("Work/new.md", None, Content(""))
    narrow = Policy(visibility=Visibility(allowed_paths=("Work",), allowed_tags=("home",)))
    found = refusal(narrow.require_write, "new.md", None, Content("", ("x",)))
    assert '"home"' in found.resolution_hint
    narrow.require_write("new.md", None, Content("", ("home",)))
    narrow.require_write("Work/new.md", None, Content(""))
    found = refusal(
        Policy(visibility=Visibility(allowed_paths=("Work",))).require_write,
        "new.md",
        None,
        Content(""),
    )
    assert '"Work"' in found.resolution_hint


def test_hidden_parts_can_be_neither_changed_nor_looked_for():
    policy = Policy(hidden_fields=frozenset({Field.TEXT}))
    assert refusal(policy.require_edit, Field.TEXT)
    assert refusal(policy.require_filter, Field.TEXT)
    policy.require_edit(Field.TAGS)
    policy.require_filter(Field.TAGS)
    assert policy.shown_tags(("work",)) == ["work"]


@pytest.mark.parametrize("part", [Field.TEXT, Field.TAGS])
def test_a_file_is_read_whole_or_not_at_all(part):
    PERMISSIVE.require_whole()
    found = refusal(Policy(hidden_fields=frozenset({part})).require_whole)
    assert f"{part} of notes is hidden" in found.message


def test_hidden_tags_of_visible_notes_are_not_shown():
    assert Policy(hidden_fields=frozenset({Field.TAGS})).shown_tags(("work",)) == []
