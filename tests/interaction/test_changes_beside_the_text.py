"""What an undo or a restore changes beside the text is named: in the question, in the answer and in the history."""

import pytest

from support.undo_places import PLACES

pytestmark = [pytest.mark.anyio, pytest.mark.slow("each opens a store and a client")]
PICTURE, OTHER = '["data:image/png;base64,AAAA"]', '["data:,of the user"]'
ITEMS = '[{"id":"i1","text":"milk","checked":false,"due":"monday"}]'
COLUMNS = {"images": PICTURE, "color": "red"}
FIGURE = '<p>one</p><figure class="image"><img src="api/attachments/ATTACHED/image/p.png"></figure>'


def opened(store, folder, ids, text="one\n", **columns):
    return PLACES[store](folder, lambda place: ids.append(place.put("a", text, columns=columns)))


async def changes(place, note_id):
    history = (await place.call("manage", action="history", id=note_id))["history"]
    return [row["changed"] for row in history]


async def told(place, **arguments):
    """Return the question that comes without consent, and what is said after it is given."""
    asked = await place.call("manage", **arguments)
    assert "confirmation" in asked["error"], asked
    done = await place.call("manage", **arguments, confirm=True)
    assert "error" not in done, done
    return asked["error"], done["note"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"color": "blue"}, "color set"),
        ({"images": None}, "pictures"),
        ({"images": ["data:,new"], "color": "default"}, "color removed, pictures"),
        (
            {"checkItems": [{"id": "i1", "text": "milk", "checked": False}]},
            "items of the checklist",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
async def test_an_undo_names_what_it_changes_in_the_app(tmp_path, change, name):
    ids = []
    kind = {"type": "checklist", "checkItems": ITEMS} if "checkItems" in change else {}
    async with opened("memento", tmp_path, ids, "", **COLUMNS, **kind) as place:
        before = place.raw(ids[0])
        assert "error" not in await place.call("update_note", id=ids[0], **change)
        assert (await changes(place, ids[0]))[0] == name
        question, answer = await told(place, action="undo", id=ids[0])
        back = name.replace("removed", "set")
        assert f"({back})?" in question
        assert answer == f"Changed: {back}."
        assert (await changes(place, ids[0]))[0] == back
        assert place.raw(ids[0]) == before


async def test_a_restore_names_what_it_replaces_of_the_users_own(tmp_path):
    ids = []
    async with opened("memento", tmp_path, ids, **COLUMNS) as place:
        assert "error" not in await place.call("update_note", id=ids[0], color="blue", images=None)
        place.app.run(
            'UPDATE "Note" SET color = ?, images = ?, updatedAt = updatedAt + 5000',
            ("green", OTHER),
        )
        await place.harness.sync()
        assert "error" not in await place.call("save", id=ids[0], append="of an agent")
        history = (await place.call("manage", action="history", id=ids[0]))["history"]
        given = {"id": ids[0], "version": history[-1]["version"]}
        given["local_version"] = await place.version(ids[0])
        question, answer = await told(place, action="restore_version", **given)
        assert "(-1 line, color set, pictures)?" in question
        assert answer == "Changed: -1 line, color set, pictures."


async def test_what_the_text_alone_had_names_nothing_else(tmp_path):
    ids = []
    async with opened("memento", tmp_path, ids, **COLUMNS) as place:
        assert "error" not in await place.call("save", id=ids[0], append="more")
        assert (await changes(place, ids[0]))[0] == "+1 line: more"
        question, answer = await told(place, action="undo", id=ids[0])
        assert "(-1 line)?" in question
        assert answer == "Changed: -1 line."


async def test_formatting_that_no_text_shows_is_named(tmp_path):
    ids = []
    async with opened("trilium", tmp_path, ids, FIGURE) as place:
        html = place.sim.document.notes[ids[0]].content.decode()
        wide = html.replace('class="image"', 'class="image image_resized" style="width:50%;"')
        answer = await place.call("update_note_content", noteId=ids[0], content=wide)
        assert place.sim.document.notes[ids[0]].content.decode() != html, answer
        assert (await changes(place, ids[0]))[0] == "formatting"
        question, answer = await told(place, action="undo", id=ids[0])
        assert "(formatting)?" in question
        assert answer == "Changed: formatting."


async def test_a_note_that_was_deleted_and_made_again_has_nothing_to_undo(tmp_path):
    ids = []
    async with opened("memento", tmp_path, ids, **COLUMNS) as place:
        assert "error" not in await place.call("save", id=ids[0], append="more")
        before = place.raw(ids[0])
        await place.call("delete_note", id=ids[0])
        (row,) = (await place.call("manage", action="history", id=ids[0]))["history"]
        given = {"id": ids[0], "version": row["version"], "confirm": True}
        answer = await place.call("manage", action="restore_version", **given)
        assert answer["status"] == "restored"
        answer = await place.call("manage", action="undo", id=ids[0], confirm=True)
        assert "nothing_to_undo" in answer["error"]
        assert place.raw(ids[0]) == before
        assert "error" not in await place.call("save", id=ids[0], append="and more")
        answer = await place.call("manage", action="undo", id=ids[0], confirm=True)
        assert answer["status"] == "undone"
        assert place.raw(ids[0]) == before
