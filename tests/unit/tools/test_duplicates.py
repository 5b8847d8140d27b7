"""Duplicates: exact but for trailing white space, visible notes outside the trash, in pages."""

import pytest

from mcp_notarium.domain.policy import Field, Policy, Visibility
from mcp_notarium.errors import NotPermitted
from mcp_notarium.protocol.call_pipeline import success
from mcp_notarium.storage.note_lookup import hash_of
from mcp_notarium.tools import manage
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.tool import ToolNames
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio


async def found(harness, **arguments):
    request = ManageRequest(action="find_duplicates", **arguments)
    return await manage.handle(harness.app, request, harness.caller)


def named(answer):
    return [[note.id for note in group.notes] for group in answer.duplicates]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("one\ntwo", True),
        ("one  \r\ntwo\n\n", True),
        ("one\ntwo\t\n", True),
        (" one\ntwo", False),
        ("one\n\ntwo", False),
        ("One\ntwo", False),
        ("", False),
    ],
)
def test_only_white_space_at_ends_does_not_count(other, same):
    assert (hash_of(None, "one\ntwo\n") == hash_of(None, other)) is same


def test_a_title_counts_only_where_there_is_no_text():
    assert hash_of("a", "text") == hash_of("b", "text\n") == hash_of(None, "text")
    assert hash_of("a", "\n") == hash_of("a", "") != hash_of("b", "")
    assert hash_of(None, "a") != hash_of("a", "")


async def test_notes_that_say_the_same_come_together_the_newest_first(harness, monkeypatch):
    monkeypatch.setattr("mcp_notarium.storage.note_lookup.SLICE", 2)
    for number, text in enumerate(["twice", "thrice\n", "once", "twice\n", "thrice", "thrice "]):
        harness.store.put(f"n{number}", text, now=float(number))
    harness.store.put("trashed", "once", trash=True)
    await harness.sync()
    harness.remote.calls.clear()
    answer = await found(harness)
    assert named(answer) == [["n5", "n4", "n1"], ["n3", "n0"]]
    assert [(group.title, group.count) for group in answer.duplicates] == [
        ("thrice", 3),
        ("twice", 2),
    ]
    assert (answer.total, answer.next_page) == (2, None)
    assert answer.duplicates[0].notes[0].local_version == 1
    assert harness.remote.calls == []
    result = success(answer, ToolNames())
    assert result.value["begin_untrusted"].startswith(result.value["untrusted_end"])
    assert set(result.notes) == {"n5", "n4", "n3", "n1", "n0"}


async def test_groups_come_in_pages_and_name_some_notes_of_many(harness, monkeypatch):
    monkeypatch.setattr(manage, "MOST_GROUPS", 2)
    monkeypatch.setattr(manage, "MOST_NOTES", 3)
    for number in range(4):
        harness.store.put(f"many{number}", "many")
    for number in range(6):
        harness.store.put(f"two{number}", f"two {number // 2}")
    await harness.sync()
    pages = [await found(harness, page=page) for page in (1, 2, 3)]
    assert [len(page.duplicates) for page in pages] == [2, 2, 0]
    assert [(page.total, page.next_page) for page in pages] == [(4, 2), (4, None), (4, None)]
    assert (pages[0].duplicates[0].count, len(pages[0].duplicates[0].notes)) == (4, 3)


async def test_invisible_characters_of_a_title_are_named(harness):
    for name in "ab":
        harness.store.put(name, "pay\u202eload")
    await harness.sync()
    value = success(await found(harness), ToolNames()).value
    assert value["duplicates"][0]["hidden"] == ["bidi"]


async def test_a_hidden_note_has_no_duplicates_and_hidden_texts_are_not_compared(tmp_path):
    rules = Visibility(hidden_tags=("private",))
    harness = ToolHarness(tmp_path, policy=Policy(visibility=rules))
    harness.store.put("a", "same")
    harness.store.put("b", "same", tags=["private"])
    await harness.sync()
    assert (await found(harness)).total == 0
    harness.close()
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    blind = ToolHarness(other, policy=Policy(hidden_fields=frozenset({Field.TEXT})))
    blind.store.put("a", "same")
    await blind.sync()
    with pytest.raises(NotPermitted):
        await found(blind)
    blind.close()
