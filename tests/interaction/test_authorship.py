"""Who made a version: the client whose call made it, also where the store has changed the text, and nobody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.audit.chain import OPEN, AuditEntry
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.tools import manage
from mcp_notarium.tools.requests import ManageRequest
from support.tool_harness import Caller
from support.undo_places import AGENT, PLACES, Place

pytestmark = pytest.mark.anyio
TEXT = "Plan #home\nmilk\n"


class Person(Caller):
    """The user at a terminal: no client, no question."""

    def __init__(self, place: Place) -> None:
        super().__init__(client=None)  # type: ignore[arg-type]
        log = place.harness.app.audit
        self.act = Act(log, lambda: AuditEntry(at=1, act="cli.undo", client="", outcome=OPEN))


@pytest.fixture(name="vault")
async def _vault(tmp_path: Path) -> AsyncIterator[Place]:
    def put(place: Place) -> None:
        place.put("x", TEXT)

    async with PLACES["vault"](tmp_path, put) as place:
        yield place


ID = "c-x/Plan.md"


async def save(place: Place, **arguments: Any) -> dict[str, Any]:
    answer = await place.call("save", **arguments)
    assert "error" not in answer, answer["error"]
    return answer


async def rows(place: Place, note_id: str = ID) -> list[tuple[str | None, str]]:
    answer = await place.call("manage", action="history", id=note_id)
    return [(row.get("by"), row["changed"]) for row in answer["history"]]


async def by_person(place: Place, **arguments: Any) -> str:
    request = ManageRequest.model_validate(arguments)
    answer = await manage.handle(place.harness.app, request, Person(place))
    return str(answer.status)  # type: ignore[union-attr]


async def elsewhere(place: Place, text: str) -> None:
    """Another program writes the file, and the index hears of it."""
    (place.folder / ID).write_text(text)  # type: ignore[attr-defined]
    await place.harness.sync()


async def test_what_a_person_restores_or_takes_back_is_not_credited_to_the_agent(vault):
    await save(vault, id=ID, append="see #garden")
    await save(vault, id=ID, append="and #more")
    last = (vault.folder / ID).read_text()
    second = (await vault.call("manage", action="history", id=ID))["history"][1]["version"]
    version = (await vault.call("get", id=ID))["local_version"]
    arguments = {"action": "restore_version", "id": ID, "local_version": version}
    assert await by_person(vault, **arguments, version=second) == "restored"
    assert [by for by, _ in await rows(vault)] == [None, AGENT, AGENT, None]
    refused = await vault.call("manage", action="undo", id=ID, confirm=True)
    assert "changed_since" in refused["error"]
    assert await by_person(vault, action="undo", id=ID) == "undone"
    assert [by for by, _ in await rows(vault)] == [None, None, AGENT, AGENT, None]
    assert (vault.folder / ID).read_text() == last


async def test_an_older_text_that_another_program_writes_again_is_not_ours_and_is_not_undone(vault):
    await save(vault, id=ID, append="see #garden")
    ours = (vault.folder / ID).read_text()
    await elsewhere(vault, "theirs\n")
    await elsewhere(vault, ours)
    assert [by for by, _ in await rows(vault)] == [None, AGENT, None]
    refused = await vault.call("manage", action="undo", id=ID, confirm=True)
    assert "changed_since" in refused["error"]
    assert (vault.folder / ID).read_text() == ours


async def test_a_new_title_shows_in_the_version_that_has_it_and_a_move_as_a_move(vault):
    version = (await vault.call("get", id=ID))["local_version"]
    offer = await save(vault, id=ID, local_version=version, title="Offer", rewrite_links=False)
    moved = await save(
        vault, id=offer["id"], local_version=offer["local_version"], title="Deep/Offer"
    )
    assert moved["id"] == "Deep/Offer.md"
    await save(vault, id=moved["id"], find="milk", replace="bread")
    assert await rows(vault, moved["id"]) == [
        (AGENT, "+1 -1 lines: bread"),
        (AGENT, "moved to another folder"),
        (AGENT, "title: Offer"),
        (None, "the first that is kept"),
    ]
    first = (await vault.call("manage", action="history", id=moved["id"]))["history"][-1]["version"]
    assert (await vault.call("get", id=moved["id"], version=first))["title"] == "Plan"
    assert (await vault.call("manage", action="undo", id=moved["id"], confirm=True))[
        "status"
    ] == "undone"
    assert (vault.folder / "Deep" / "Offer.md").read_text() == TEXT


async def test_an_undone_move_says_so(vault):
    version = (await vault.call("get", id=ID))["local_version"]
    moved = await save(vault, id=ID, local_version=version, title="Deep/Plan")
    undone = await vault.call("manage", action="undo", id=moved["id"], confirm=True)
    assert (undone["id"], undone["status"], undone["note"]) == (
        ID,
        "undone",
        "Changed: moved to another folder.",
    )


async def test_an_undo_whose_place_is_taken_is_refused_and_changes_nothing(vault):
    version = (await vault.call("get", id=ID))["local_version"]
    offer = await save(
        vault, id=ID, local_version=version, title="Offer", text="other\n", confirm=True
    )
    (vault.folder / ID).write_text("another note of the name\n")
    await vault.harness.sync()
    refused = await vault.call("manage", action="undo", id=offer["id"], confirm=True)
    assert "name_taken" in refused["error"]
    assert (vault.folder / offer["id"]).read_text() == "other\n"
