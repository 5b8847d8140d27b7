"""An undo or a restore is refused if a person has changed the note since, also in what its text and title do not show.

No sync has brought that change here.
"""

import pytest

from support.undo_places import PLACES

pytestmark = [pytest.mark.anyio, pytest.mark.slow("each opens a store and a client")]
ITEMS = '[{"id":"i1","text":"milk","checked":false,"due":"monday"}]'
FIGURE = (
    '<p>one</p><figure class="image image_resized" style="width:50%;">'
    '<img src="api/attachments/ATTACHED/image/p.png"></figure>'
)
CHECKED = {"checkItems": [{"id": "i1", "text": "milk", "checked": True}]}


def set_columns(place, note_id, **columns):
    """Set columns as the app does: with a new date."""
    named = ", ".join(f'"{name}" = ?' for name in columns)
    sql = f'UPDATE "Note" SET {named}, "updatedAt" = "updatedAt" + 1500 WHERE "id" = ?'
    place.app.run(sql, (*columns.values(), note_id))


def recolour(place, note_id):
    set_columns(place, note_id, color="green")


def postpone(place, note_id):
    set_columns(
        place, note_id, checkItems=ITEMS.replace("monday", "friday").replace("false", "true")
    )


def resize(place, note_id):
    html = place.sim.document.notes[note_id].content.decode()
    assert "width:50%" in html
    place.sim.write(note_id, "Plan", html.replace("width:50%", "width:90%"))


def annotate(place, note_id):
    held = dict(place.sim.bucket().read(note_id).value)
    place.sim.put(note_id, **(held | {"extra": {"a": [2]}}))


CASES = {
    "colour": ("memento", "one", {"color": "red"}, ("update_note", {"color": "blue"}), recolour),
    "colour after a save": ("memento", "one", {"color": "red"}, ("save", {"append": "x"}), recolour),
    "date of an item": (
        "memento", "", {"type": "checklist", "checkItems": ITEMS, "color": "red"}, ("update_note", CHECKED), postpone,
    ),
    "size of an image": ("trilium", FIGURE, {}, ("save", {"find": "one", "replace": "two"}), resize),
    "a field of another program": ("simplenote", "one", {}, ("save", {"find": "one", "replace": "two"}), annotate),
}  # fmt: skip


@pytest.mark.parametrize("action", ["undo", "restore_version"])
@pytest.mark.parametrize("case", CASES)
async def test_what_a_person_changed_since_stays(tmp_path, case, action):
    store, text, columns, (tool, arguments), change = CASES[case]
    ids = []
    async with PLACES[store](
        tmp_path, lambda place: ids.append(place.put("a", text, columns=columns))
    ) as place:
        given = {"id": ids[0]}
        answer = await place.call(tool, **given, **arguments)
        assert "error" not in answer, answer
        history = (await place.call("manage", action="history", **given))["history"]
        if action == "restore_version":
            given |= {
                "version": history[-1]["version"],
                "local_version": await place.version(ids[0]),
            }
        change(place, ids[0])
        theirs = place.raw(ids[0])
        answer = await place.call("manage", action=action, confirm=True, **given)
        assert "error" in answer, answer
        assert "changed" in answer["error"]
        assert place.raw(ids[0]) == theirs
        assert "error" in await place.call("manage", action="undo", confirm=True, id=ids[0])
        assert place.raw(ids[0]) == theirs, "nor by a second call, which knows of the change"


async def test_an_undo_asks_trilium_for_everything_once(tmp_path):
    ids, asked = [], []

    def put(place):
        ids.append(place.put("a", "<p>x</p>", tags=["old"]))
        for number in range(25):
            place.sim.document.add_revision(place.sim.document.notes[ids[0]])
            place.sim.write(ids[0], "Plan", f"<p>x{number}</p>")

    async with PLACES["trilium"](tmp_path, put) as place:
        respond, given = place.sim.respond, {"id": ids[0]}

        async def count(request):
            asked.append(request.method)
            return await respond(request)

        place.sim.respond = count
        for change, most in (({"tags": ["new", "more"]}, 6), ({"append": "more"}, 7)):
            before = place.raw(ids[0])
            version = await place.version(ids[0])
            answer = await place.call("save", **given, local_version=version, **change)
            assert "error" not in answer, answer
            asked.clear()
            answer = await place.call("manage", action="undo", confirm=True, **given)
            assert answer["status"] == "undone"
            assert len(asked) <= most, asked
            assert place.raw(ids[0]) == before


MEETS = {
    "a save": ("save", {"append": "y"}),
    "an undo": ("manage", {"action": "undo", "confirm": True}),
    "the deletion": ("manage", {"action": "delete_permanently", "confirm": True}),
    "nobody": ("list", None),
}


@pytest.mark.parametrize("met", MEETS)
async def test_a_note_that_another_program_removed_can_be_made_again_whatever_met_that(
    tmp_path, met
):
    ids, (tool, arguments) = [], MEETS[met]
    async with PLACES["memento"](
        tmp_path, lambda place: ids.append(place.put("a", "one"))
    ) as place:
        assert "error" not in await place.call("save", id=ids[0], append="of the agent")
        place.app.run('DELETE FROM "Note"')
        if arguments is not None:
            version = await place.version(ids[0])
            given = {"id": ids[0], **arguments}
            if tool == "manage":
                given["local_version"] = version
            await place.call(tool, **given)
        await place.harness.sync()
        answer = await place.call("manage", action="history", id=ids[0])
        (row,) = answer["history"]
        asks = {"id": ids[0], "version": row["version"], "confirm": True}
        answer = await place.call("manage", action="restore_version", **asks)
        assert answer["status"] == "restored", answer
        assert place.raw(ids[0])["content"] == "one\nof the agent"
