"""``save`` of what an agent read a while ago, and of what it need not have read: both edits, or nothing."""

import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.patch import Operation, apply_patch
from mcp_notarium.domain.policy import Policy, Visibility
from mcp_notarium.errors import (
    ConfirmationRequired,
    NoteNotFound,
    OutcomeUnknown,
    PatchError,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.protocol.call_pipeline import failure
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.merge_bases import PER_NOTE
from mcp_notarium.stores.contract import Versions
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.tools import save
from mcp_notarium.tools.requests import SaveRequest, TitledSaveRequest
from mcp_notarium.tools.save_answer import LONGEST_LINE, MOST_SHOWN, NOT_ALL_SHOWN
from mcp_notarium.tools.tool import ToolNames
from support.cache_room import make
from support.memory_client import Fault
from support.sync_rig import quick_folder
from support.tool_harness import Caller, ToolHarness

pytestmark = pytest.mark.anyio

LOG = "Log\n\n" + "".join(f"entry {n}\n" for n in range(600))
LONG = " ".join(f"word{n}" for n in range(200))


async def write(harness, caller=None, **arguments):
    request = SaveRequest.model_validate(arguments)
    return await save.handle(harness.app, request, caller or harness.caller)


async def noted(harness, text, **fields):
    harness.store.put("n", text, **fields)
    await harness.sync()
    harness.remote.calls.clear()
    return harness.app.library.get("n").local_version


async def edited(harness, old, new):
    """Another device changes the note, and the change is here."""
    harness.store.edit("n", lambda text: text.replace(old, new))
    await harness.sync()


def modified(line, value):
    return [{"operation": "modification", "line_number": line, "value": value}]


def shown(answer):
    return [(part.line, part.text) for part in answer.changed]


# Without reading.


async def test_lines_are_appended_to_a_long_log_and_only_they_come_back(harness):
    await noted(harness, LOG)
    answer = await write(harness, id="n", append="entry 600")
    assert harness.store.text("n") == LOG + "entry 600\n"
    assert shown(answer) == [(601, "entry 598\nentry 599\nentry 600\n")]
    assert (answer.text, answer.text_total_lines) == (None, 603)
    assert len(answer.model_dump_json(exclude_none=True)) < 300


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "new"),
        ("Title", "Title\nnew"),
        ("Title\n", "Title\nnew\n"),
        ("Title\n\nbody\n", "Title\n\nnew\nbody\n"),
        ("\n\nTitle\nbody", "\n\nTitle\nnew\nbody"),
        (" \n", "new\n \n"),
        ("Title\r\nbody\r\n", "Title\r\nnew\r\nbody\r\n"),
    ],
)
async def test_prepended_lines_stand_below_the_title_line(harness, text, after):
    await noted(harness, text)
    await write(harness, id="n", prepend="new")
    assert harness.store.text("n") == after


async def test_prepended_lines_stand_first_where_the_title_is_no_line(tmp_path):
    harness = ToolHarness(tmp_path, titles=True)
    await noted(harness, "body\n", title="Title")
    request = TitledSaveRequest(id="n", prepend="new\nand more\n")
    answer = await save.handle(harness.app, request, harness.caller)
    assert harness.store.text("n") == "new\nand more\nbody\n"
    assert (answer.title, shown(answer)) == ("Title", [(1, "new\nand more\nbody\n")])
    harness.close()


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not seen"])
@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        ({"append": "last"}, "Title\nONE\ntwo\nthree\nlast\n"),
        ({"prepend": "first"}, "Title\nfirst\nONE\ntwo\nthree\n"),
        ({"find": "two\nthree", "replace": "2\n3"}, "Title\nONE\n2\n3\n"),
    ],
)
async def test_what_needs_no_reading_goes_into_the_newest_text(harness, arguments, after, seen):
    await noted(harness, "Title\none\ntwo\nthree\n")
    harness.store.edit("n", lambda text: text.replace("one", "ONE"))
    if seen:
        await harness.sync()
    answer = await write(harness, id="n", local_version=1, **arguments)
    assert harness.store.text("n") == after
    assert bool(answer.merged) is not seen


async def test_a_line_for_the_top_is_put_below_a_title_that_was_rewritten_meanwhile(harness):
    """The first attempt meets the same lines; the next is made from what is there."""
    await noted(harness, "Title\nbody\n")
    harness.store.put("n", "Another\ntext of\nsomebody\n")
    await write(harness, id="n", prepend="mine")
    assert harness.store.text("n") == "Another\nmine\ntext of\nsomebody\n"


async def test_an_appended_line_whose_answer_is_lost_is_there_once(harness):
    await noted(harness, LOG)
    harness.remote.faults.plan(Fault.LOST_ANSWER, on="push")
    with pytest.raises(OutcomeUnknown):
        await write(harness, id="n", append="once")
    harness.store.edit("n", lambda text: text + "theirs\n")
    await harness.sync()
    assert harness.store.text("n") == LOG + "once\ntheirs\n"
    assert harness.app.cache.journal.all() == []


@pytest.mark.parametrize(
    ("find", "found", "lines"),
    [
        ("nowhere", 0, []),
        ("\u202e", 0, []),
        ("a", 3, [1, 2, 4]),
        ("aXa", 2, [2, 2]),
        ("\n", 4, [1, 2, 3, 4]),
    ],
)
async def test_what_is_not_found_once_is_refused_with_its_lines(harness, find, found, lines):
    text = {"a": "a\nba\nb\nA a\n", "aXa": "b\naXaXa\n"}.get(find, "b\n\nc\nd\n")
    await noted(harness, text)
    with pytest.raises(PatchError) as caught:
        await write(harness, id="n", find=find, replace="x")
    assert caught.value.details == {"found": found, "line_numbers": lines}
    assert caught.value.tells_text, "it counts as reading"
    assert harness.store.text("n") == text


async def test_many_places_are_counted_and_ten_of_their_lines_named(harness):
    await noted(harness, "x\n" * 1000)
    with pytest.raises(PatchError, match=r"1000 times, from lines 1, 2, .*, 10 and 990 more") as it:
        await write(harness, id="n", find="x", replace="y")
    assert len(str(it.value.to_dict())) < 500


async def test_a_found_text_keeps_the_line_ends_of_the_note(harness):
    await noted(harness, "a\r\nb\r\nc\n")
    await write(harness, id="n", find="a\nb\n", replace="A\nB\nB\n")
    assert harness.store.text("n") == "A\r\nB\r\nB\r\nc\n"
    await write(harness, id="n", find="c\n", replace="")
    assert harness.store.text("n") == "A\r\nB\r\nB\r\n"


async def test_replacing_most_of_a_text_needs_consent_to_that_text(harness):
    await noted(harness, f"{LONG}\nend")
    with pytest.raises(ConfirmationRequired):
        await write(harness, id="n", find=LONG, replace="")

    class Slow(Caller):
        async def confirm(self, message):
            await edited(harness, "end", "end, and a line that nobody was asked about")
            return True

    with pytest.raises(VersionConflict, match="since the user was asked"):
        await write(harness, Slow(), id="n", find=LONG, replace="")
    assert harness.store.text("n").startswith(LONG)
    await write(harness, Caller(agrees=True), id="n", find=LONG, replace="")
    assert harness.store.text("n") == "\nend, and a line that nobody was asked about"


async def test_what_became_a_loss_of_most_while_the_call_waited_is_not_done_unasked(harness):
    kept = "".join(f"a line {n} that stays\n" for n in range(200))
    await noted(harness, kept + LONG)

    turn = harness.app.library.writing

    @asynccontextmanager
    async def later(key):
        harness.store.put("n", LONG)
        await harness.sync()
        async with turn(key):
            yield True

    harness.app.library.writing = later
    with pytest.raises(VersionConflict, match="so that the user must be asked; nothing was saved"):
        await write(harness, id="n", find=LONG, replace="")
    assert harness.store.text("n") == LONG


# At the version that was read.


@pytest.mark.parametrize(
    "arguments",
    [
        {"text_patch": modified(3, "THREE")},
        {"text": "one\ntwo\nTHREE\n"},
        {"text_patch": modified(3, "THREE"), "server_version": 1},
    ],
    ids=str,
)
async def test_a_late_edit_of_other_lines_is_merged_and_shows_both(harness, arguments):
    version = await noted(harness, "one\ntwo\nthree\n")
    await edited(harness, "one", "ONE")
    answer = await write(harness, id="n", local_version=version, **arguments)
    assert harness.store.text("n") == "ONE\ntwo\nTHREE\n"
    assert answer.merged
    assert shown(answer) == [(1, "ONE\ntwo\nTHREE\n")]
    assert harness.app.cache.journal.all() == []


async def test_late_tags_and_trash_are_merged_too(harness):
    version = await noted(harness, "one\n", tags=["a", "b"])
    harness.store.put("n", "two\n", tags=["a", "b", "theirs"])
    await harness.sync()
    answer = await write(harness, id="n", local_version=version, tags=["b", "mine"], trash=True)
    assert (answer.tags, answer.trash) == (["b", "theirs", "mine"], True)
    assert harness.store.text("n") == "two\n"
    same = await write(harness, id="n", local_version=version, tags=["a", "b"])
    assert (same.unchanged, same.tags) == (True, answer.tags)
    assert same.local_version == answer.local_version


async def test_overlap_is_a_conflict_with_both_texts_of_those_lines_and_nothing_is_written(harness):
    version = await noted(harness, "".join(f"line {n}\n" for n in range(1, 10)))
    await edited(harness, "line 1\n", "line 0\nline 1\n")
    await edited(harness, "line 5", "their 5\u202e")
    patch = [*modified(5, "my 5"), *modified(8, "my 8")]
    with pytest.raises(VersionConflict) as caught:
        await write(harness, id="n", local_version=version, text_patch=patch)
    details = caught.value.details
    assert details["overlaps"] == [{"line": 6, "yours": "my 5\n", "theirs": "their 5\u202e\n"}]
    assert details["hidden"] == ["bidi"]
    assert details["current_local_version"] == version + 2
    assert "push" not in harness.remote.calls
    sent = json.loads(failure(caught.value, ToolNames()).text)
    assert next(iter(sent)) == "begin_untrusted"
    assert caught.value.tells_text, "it counts as reading"
    patch = modified(6, "our 5")
    now = details["current_local_version"]
    await write(harness, id="n", local_version=now, text_patch=patch)
    assert "our 5\n" in harness.store.text("n"), "the answer was enough to decide"


async def test_a_conflict_shows_a_bounded_part_of_both_texts(harness):
    version = await noted(harness, "".join(f"line {n}\n" for n in range(500)))
    await edited(harness, "line", "their line")
    rest = "".join(f"line {n}\n" for n in range(400, 500))
    with pytest.raises(VersionConflict) as caught:
        await write(harness, id="n", local_version=version, text="my line\n" * 400 + rest)
    (overlap,) = caught.value.details["overlaps"]
    assert overlap["cut_off"]
    assert overlap["theirs"].startswith("their line 0\n")
    assert len(overlap["yours"]) + len(overlap["theirs"]) <= MOST_SHOWN
    many = await noted(harness, "".join(f"a {n}\nb {n}\nc\n" for n in range(20)))
    await edited(harness, "b", "their b")
    patch = [one for n in range(20) for one in modified(3 * n + 2, "mine")]
    with pytest.raises(VersionConflict) as caught:
        await write(harness, id="n", local_version=many, text_patch=patch)
    assert len(caught.value.details["overlaps"]) == 5
    assert caught.value.details["more_overlaps"] == 15


async def test_only_the_last_three_texts_are_kept_and_others_are_refused(harness):
    first = await noted(harness, "one\ntwo\n")
    for n in range(PER_NOTE):
        await edited(harness, "two", f"two\nmore {n}")
    answer = await write(harness, id="n", local_version=first, text="ONE\ntwo\n")
    assert answer.merged
    for n in range(PER_NOTE + 1):
        await edited(harness, "two", f"two\nand {n}")
    version = answer.local_version
    with pytest.raises(VersionConflict) as caught:
        await write(harness, id="n", local_version=version, text_patch=modified(1, "1"))
    assert "overlaps" not in caught.value.details
    with pytest.raises(VersionConflict):
        await write(harness, id="n", local_version=9999, text="x")


@pytest.mark.parametrize("keeps", [Versions.BY_ETAG, Versions.NONE], ids=["at the store", "here"])
async def test_a_text_that_our_own_write_replaced_is_a_base_too(tmp_path, keeps):
    harness = ToolHarness(tmp_path, versions=keeps)
    version = await noted(harness, "one\ntwo\nthree\n")
    await write(harness, id="n", local_version=version, text="ONE\ntwo\nthree\n")
    rows = harness.app.cache.database.number("SELECT count(*) FROM merge_bases")
    assert rows == 0, "it is a version, and kept once"
    await write(harness, id="n", local_version=version, text_patch=modified(3, "THREE"))
    assert harness.store.text("n") == "ONE\ntwo\nTHREE\n"
    harness.store.forget_versions("n")
    harness.app.cache.database.run("DELETE FROM note_versions")
    with pytest.raises(VersionConflict):
        await write(harness, id="n", local_version=version, text_patch=modified(2, "TWO"))
    harness.close()


async def test_what_needs_consent_is_never_merged_with_a_later_text(harness):
    version = await noted(harness, "Plan\n")
    await edited(harness, "Plan\n", "Plan\nand a secret\n")
    caller = Caller(agrees=True)
    with pytest.raises(VersionConflict):
        await write(harness, caller, id="n", local_version=version, tags=["new@example.org"])
    assert harness.store.fields("n")["tags"] == []
    assert caller.asked == [], "nobody is asked for what is refused all the same"


async def test_in_the_local_notebook_nobody_is_asked_about_a_text_of_before_either(tmp_path):
    cache = make(tmp_path, key=None, name="cache.sqlite")
    harness = ToolHarness(tmp_path, remote=LocalStore(cache.database), cache=cache)
    read = await write(harness, text=f"{LONG}\nend")
    await write(harness, id=read.id, append="of another agent")
    caller = Caller(agrees=True)
    with pytest.raises(VersionConflict):
        await write(harness, caller, id=read.id, local_version=read.local_version, text="end")
    assert caller.asked == []
    harness.close()


@pytest.mark.parametrize("compares", [False, True])
@pytest.mark.parametrize("since", ["edited", "so already", "hidden", "removed", "unreachable"])
async def test_nobody_is_asked_for_what_the_store_would_not_take_any_more(
    tmp_path, since, compares
):
    policy = Policy(visibility=Visibility(hidden_tags=("hidden",)))
    harness = ToolHarness(tmp_path, policy=policy, compares=compares)
    given = {"local_version": await noted(harness, "Plan\n"), "tags": ["new@example.org"]}
    match since:  # and nothing of it is known here
        case "edited":
            harness.store.put("n", "Plan\nand a secret\n")
        case "so already":
            harness.store.put("n", "Plan\n", tags=["new@example.org"])
        case "hidden":
            harness.store.put("n", "Plan\n", tags=["hidden"])
        case "removed":
            harness.store.remove("n")
        case _:
            harness.remote.faults.plan(Fault.UNAVAILABLE, times=9)
    caller = Caller(agrees=True)
    with pytest.raises((VersionConflict, NoteNotFound, StoreUnavailable)) as refused:
        await write(harness, caller, id="n", **given)
    assert (caller.asked, harness.app.cache.journal.all()) == ([], [])
    assert "nothing was saved" in refused.value.message
    known = harness.app.library.get("n")
    shown = {"edited": "Plan\nand a secret\n", "hidden": None, "removed": None}
    assert (known and known.text) == shown.get(since, "Plan\n")
    harness.close()


async def test_a_question_is_about_what_the_store_holds_when_it_is_asked(harness):
    await noted(harness, f"{LONG}\nend")
    harness.store.edit("n", lambda text: text + "\nof another device")  # it is not known here
    caller = Caller(agrees=True)
    await write(harness, caller, id="n", find=LONG, replace="")
    assert harness.store.text("n") == "\nend\nof another device"
    assert len(caller.asked) == 1
    assert f"({len(LONG) + 22} characters, 22 after)" in caller.asked[0]


@pytest.mark.parametrize(
    "given", [{"tags": ["new@example.org"]}, {"add_tags": ["new@example.org"]}]
)
@pytest.mark.parametrize("since", ["edited", "hidden", "removed", ""])
async def test_what_the_user_agrees_to_is_decided_by_what_the_store_holds_then(
    tmp_path, given, since
):
    policy = Policy(visibility=Visibility(hidden_tags=("hidden",)))
    harness = ToolHarness(tmp_path, policy=policy)
    given["local_version"] = await noted(harness, "Plan\n")
    put, remove = harness.store.put, harness.store.remove

    class Elsewhere(Caller):
        async def confirm(self, question):
            if since:  # and nothing of it is known here
                remove("n") if since == "removed" else put(
                    *("n", "Plan\nand a secret\n" if since == "edited" else "Plan\n"),
                    tags=["hidden"] if since == "hidden" else [],
                )
            return await super().confirm(question)

    caller = Elsewhere(agrees=True)
    if since:
        with pytest.raises((VersionConflict, NoteNotFound)):
            await write(harness, caller, id="n", **given)
    else:
        await write(harness, caller, id="n", **given)
    assert len(caller.asked) == 1
    shared = since != "removed" and "new@example.org" in harness.store.fields("n")["tags"]
    assert shared == (not since)
    harness.close()


async def test_nothing_of_a_note_that_was_hidden_or_removed_is_a_base(tmp_path):
    harness = ToolHarness(tmp_path)
    version = await noted(harness, "one\ntwo\n", tags=["later"])
    await edited(harness, "one", "ONE")
    count = "SELECT count(*) FROM merge_bases"
    database = harness.app.cache.database
    assert database.number(count) == 1
    harness.store.put("n", "one\ntwo\n", tags=["other"])
    await harness.sync()
    assert database.number(count) == 2
    apply_rules(Cache(database, Visibility(hidden_tags=("later",))))
    assert database.number(count) == 0, "what its texts were tagged with is hidden now"
    assert harness.app.library.get("n") is not None
    apply_rules(Cache(database))
    await harness.sync()
    await edited(harness, "one", "ONE")
    assert database.number(count) == 1
    harness.store.remove("n")
    await harness.sync()
    assert database.number(count) == 0
    with pytest.raises(NoteNotFound):
        await write(harness, id="n", local_version=version, text="x")
    harness.close()


# What comes back.


async def test_changed_places_far_apart_come_with_two_lines_around_each(harness):
    version = await noted(harness, LOG)
    patch = [*modified(10, "ten"), {"operation": "deletion", "line_number": 300}]
    patch += [*modified(500, "x" * 900), *modified(504, "y")]
    answer = await write(harness, id="n", local_version=version, text_patch=patch)
    ten, gone, long = shown(answer)
    assert ten == (8, "entry 5\nentry 6\nten\nentry 8\nentry 9\n")
    assert gone == (298, "entry 295\nentry 296\nentry 298\nentry 299\n")
    assert long[0] == 497
    assert long[1].split("\n")[2] == "x" * LONGEST_LINE + "…"
    assert long[1].endswith("\ny\nentry 502\nentry 503\n"), "close ones are one place"
    assert answer.note == NOT_ALL_SHOWN


async def test_where_a_long_line_has_changed_is_shown_not_its_beginning(harness):
    paragraph = " ".join(f"word{n}" for n in range(2000))
    await noted(harness, f"Title\n{paragraph}\n")
    answer = await write(harness, id="n", find="word1500 ", replace="WORD1500 ")
    ((line, text),) = shown(answer)
    shown_line = text.split("\n")[1]
    assert line == 1
    assert "word1499 WORD1500 word1501" in shown_line
    assert (shown_line[0], shown_line[-1]) == ("…", "…")
    assert len(shown_line) == LONGEST_LINE + 2
    assert answer.note == NOT_ALL_SHOWN
    answer = await write(harness, id="n", find=" word1999", replace=" the end")
    assert shown(answer)[0][1].split("\n")[1].endswith("word1998 the end")


async def test_a_text_that_was_there_lately_is_a_conflict_with_what_stands_there_now(harness):
    version = await noted(harness, "Plan\nmeet at 3\nbring cake\n")
    await edited(harness, "meet at 3", "meet at 4")
    with pytest.raises(VersionConflict, match="`find` looks for has changed") as caught:
        await write(harness, id="n", find="meet at 3", replace="meet at 5")
    assert caught.value.details["overlaps"] == [
        {"line": 2, "yours": "meet at 5\n", "theirs": "meet at 4\n"}
    ]
    assert caught.value.details["current_local_version"] > version
    with pytest.raises(PatchError, match="nowhere"):
        await write(harness, id="n", find="meet at 2", replace="meet at 5")
    await write(harness, id="n", find="meet at 4", replace="meet at 6")
    with pytest.raises(VersionConflict, match="`find` looks for has changed"):
        await write(harness, id="n", find="meet at 4", replace="meet at 7")
    await write(harness, id="n", find="bring cake", replace="sing\nbring cake")
    gone = {"id": "n", "find": "meet at 6\nbring cake", "replace": "x"}
    with pytest.raises(VersionConflict, match="`find` looks for has changed"):
        await write(harness, **gone)
    harness.remote.faults.plan(Fault.UNAVAILABLE, on="get")
    with pytest.raises(PatchError, match="nowhere"):
        await write(harness, **gone)


async def test_a_rewrite_of_everything_is_not_echoed_and_the_whole_text_only_on_request(harness):
    version = await noted(harness, LOG)
    text = "".join(f"another entry {n}\n" for n in range(3000))
    agreeing = Caller(agrees=True)
    answer = await write(harness, agreeing, id="n", local_version=version, text=text)
    assert answer.note == NOT_ALL_SHOWN
    assert MOST_SHOWN / 2 < len(answer.model_dump_json(exclude_none=True)) < MOST_SHOWN + 1000
    whole = await write(harness, id="n", append="x", return_text=True)
    assert whole.text.startswith("another entry 0\n")
    assert whole.changed is None


async def test_invisible_characters_of_a_text_are_named_though_it_is_not_shown(harness):
    made = await write(harness, text="a\nb\u202e\n")
    assert [(one.kind, one.first_line) for one in made.findings] == [("bidi", 2)]
    later = await write(harness, id=made.id, append="c\u200b")
    assert [(one.kind, one.first_line) for one in later.findings] == [
        ("bidi", 2),
        ("zero_width", 3),
    ]


# Any two edits.


@st.composite
def two_edits(draw):
    """A base, two patches of it, and whether they name a line in common; lines of a base differ."""
    total = draw(st.integers(1, 7))
    lines = st.lists(st.integers(1, total), unique=True, min_size=1, max_size=3)

    def patch(chosen, side):
        return [
            Operation("modification", line, f"{side} {line}")
            if draw(st.booleans())
            else Operation("modification", line, f"{side} {line}\n{side} more")
            for line in chosen
        ]

    mine, theirs = draw(lines), draw(lines)
    text = "".join(f"line {n}\n" for n in range(1, total + 1))
    return text, patch(mine, "mine"), patch(theirs, "theirs"), bool({*mine} & {*theirs})


@settings(max_examples=30, deadline=None)
@given(two_edits(), st.booleans(), st.booleans())
async def test_a_late_patch_is_both_edits_or_a_refusal_that_changes_nothing(edits, seen, whole):
    text, mine, theirs, overlap = edits
    both = None if overlap else apply_patch(text, [*mine, *theirs])
    with quick_folder() as folder:
        harness = ToolHarness(folder)
        version = await noted(harness, text)
        other = apply_patch(text, theirs)
        harness.store.put("n", other)
        if seen:
            await harness.sync()
        patch = [
            {"operation": one.kind, "line_number": one.line, "value": one.value} for one in mine
        ]
        change = {"text": apply_patch(text, mine)} if whole else {"text_patch": patch}
        try:
            answer = await write(harness, id="n", local_version=version, **change)
        except VersionConflict as error:
            assert overlap
            assert harness.store.text("n") == other
            found = error.details["overlaps"]
            assert all(each["theirs"] in other for each in found)
            assert any("mine" in each["yours"] for each in found)
        else:
            assert harness.store.text("n") == both
            assert answer.merged
        harness.close()
