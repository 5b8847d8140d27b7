"""Every action that needs a person's yes, every way it is answered or not, both eras, all settings.

Where nobody has agreed nothing is done at the note service, and the chain of records says why.
"""

import itertools
from dataclasses import replace

import anyio
import mcp_types as types
import pytest

from support.long import sample
from support.tool_client import connected

pytestmark = pytest.mark.anyio

LONG_TEXT = "".join(f"line {number} of a long note\n" for number in range(100))
ACTIONS = {
    "manage.delete_permanently": (
        "manage",
        {"action": "delete_permanently", "id": "trashed", "local_version": 1},
    ),
    "manage.reset_cache": ("manage", {"action": "reset_cache"}),
    "manage.rename_tag": ("manage", {"action": "rename_tag", "tag": "old", "new_tag": "new"}),
    "manage.undo": ("manage", {"action": "undo", "id": "edited"}),
    "manage.restore_version": (
        "manage",
        {"action": "restore_version", "id": "edited", "local_version": 2, "version": "r1"},
    ),
    "save by dropping most": ("save", {"id": "long", "local_version": 1, "text": "short"}),
    "save by sharing": (
        "save",
        {"id": "plain", "local_version": 1, "tags": ["friend@example.org"]},
    ),
    "save of a new shared note": ("save", {"text": "new", "tags": ["friend@example.org"]}),
}
IRREVERSIBLE = {"manage.delete_permanently", "save by sharing", "save of a new shared note"}
WHOLE = "manage.delete_permanently"
"""Its answers are all tried in every run."""
ANSWERS = {
    "accept": ("confirmed", "ok"),
    "accept without the field": ("declined", "declined"),
    "accept with false": ("declined", "declined"),
    "accept with a text": ("declined", "declined"),
    "decline": ("declined", "declined"),
    "cancel": ("declined", "declined"),
    "error": ("refused", "confirmation_required"),
    "late": ("timed_out", "confirmation_required"),
    "cannot ask": ("refused", "confirmation_required"),
    "cannot ask, confirm given": ("by_argument", "ok"),
    "no such method": ("refused", "confirmation_required"),
    "no such method, confirm given": ("by_argument", "ok"),
    "error, confirm given": ("refused", "confirmation_required"),
    "rejected, confirm given": ("refused", "confirmation_required"),
    "cannot ask, confirm false": ("refused", "confirmation_required"),
}


@pytest.fixture
async def harness(harness):
    harness.store.put("trashed", "x", trash=True)
    harness.store.put("long", LONG_TEXT)
    harness.store.put("plain", "x", tags=["old"])
    harness.store.put("edited", "one")
    await harness.sync()
    async with connected(harness.opened) as client:
        made = await client.call_tool("save", {"id": "edited", "append": "two"})
        assert not made.is_error
    return harness


CODES = {"error": -32600, "rejected": -1, "no such method": -32601}


def answering(answer):
    """The client's side of a question; None where it has none."""
    contents = {
        "accept": {"confirm": True},
        "accept with false": {"confirm": False},
        "accept with a text": {"confirm": "true"},
    }

    async def elicit(_context, _params):
        if answer == "late":
            await anyio.sleep_forever()
        if (code := CODES.get(answer.partition(",")[0])) is not None:
            return types.ErrorData(code=code, message="no")
        action = answer.split()[0]
        return types.ElicitResult(action=action, content=contents.get(answer))

    return None if answer.startswith("cannot") else elicit


async def asked(harness, era, answer, tool, arguments):
    given = {"confirm": answer.endswith("given")} if "confirm " in answer else {}
    options = {"elicitation_callback": answering(answer)}
    async with connected(harness.opened, era, seconds=50, **options) as client:
        return await client.call_tool(tool, arguments | given)


def last_record(harness):
    harness.app.audit.flush(wait=True)
    return list(harness.app.audit.table.records())[-1]


def cases():
    """All of it; in the short form one action in full, and a sample of what the others share with it."""
    every = [
        pytest.param((setting, era, action, answer), id=f"{setting}-{era}-{action}-{answer}")
        for setting, era, action, answer in itertools.product(
            ("ask", "strict", "trust", "deny"), ("legacy", "auto"), ACTIONS, ANSWERS
        )
        # In the newer era the answer travels with the call: none fails or is late.
        if era == "legacy" or (answer != "late" and answer.partition(",")[0] not in CODES)
    ]
    whole = [case for case in every if case.values[0][2] == WHOLE]
    return whole + sample("consent", [case for case in every if case not in whole], 25)


@pytest.mark.parametrize("case", cases())
async def test_nothing_is_done_unless_somebody_may_and_does_agree(harness, monkeypatch, case):
    setting, era, action, answer = case
    if answer == "late":
        monkeypatch.setattr("mcp_notarium.protocol.elicitation.ASKING_SECONDS", 0.02)
    harness.app = replace(harness.app, config=replace(harness.app.config, destructive=setting))
    before, epoch = harness.store.contents(), harness.app.cache.sync_state.get("sync.index_version")
    tool, arguments = ACTIONS[action]
    result = await asked(harness, era, answer, tool, arguments)

    decision, outcome = ANSWERS[answer]
    if setting == "deny":
        decision, outcome = "refused", "confirmation_required"
    elif answer.startswith(("cannot", "no such method")) and (
        setting == "strict" or (setting == "ask" and action in IRREVERSIBLE)
    ):  # whatever the argument says, it waits for a person at a terminal
        decision, outcome = "asked", "confirmation_required"
    record = last_record(harness)
    assert (record.decision, record.outcome) == (decision, outcome)
    assert bool(result.is_error) == (outcome != "ok")
    done = (harness.store.contents(), harness.app.cache.sync_state.get("sync.index_version")) != (
        before,
        epoch,
    )
    assert done == (outcome == "ok")


@pytest.mark.parametrize("action", ["save by sharing", "manage.delete_permanently"])
@pytest.mark.parametrize(
    ("setting", "answer", "looks"),
    [
        ("ask", "accept", True),
        ("trust", "accept", True),
        ("trust", "cannot ask", True),
        ("trust", "cannot ask, confirm false", True),
        ("trust", "cannot ask, confirm given", False),
        ("ask", "cannot ask, confirm given", True),
        ("strict", "cannot ask, confirm given", True),
        ("deny", "accept", False),
        ("deny", "cannot ask, confirm given", False),
    ],
)
async def test_the_store_is_looked_at_first_where_a_person_is_asked(
    harness, setting, answer, looks, action
):
    harness.app = replace(harness.app, config=replace(harness.app.config, destructive=setting))
    tool, arguments = ACTIONS[action]
    note_id = arguments["id"]
    harness.store.put(note_id, "another text", trash=note_id == "trashed")
    await asked(harness, "legacy", answer, tool, arguments)
    decision = last_record(harness).decision
    assert (decision in {"refused", "allowed"}) == (looks or setting == "deny"), decision
    assert (harness.app.library.get(note_id).text == "another text") == (setting != "deny")
