"""Test new notes from templates where a tag makes a note a template, by a connected client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.domain.policy import Field, Policy, Visibility
from support.undo_places import PLACES, Place, Trilium

pytestmark = [pytest.mark.anyio, pytest.mark.slow("each test opens an account of its own")]
TAGGED = ["simplenote", "local", "trilium", "memento"]
BODY = "On {{date:YYYY}}, {{title}}: ask {{unknown}} at {{time:[x]}}"


async def _refusal(place: Place, **arguments: Any) -> dict[str, Any]:
    answer = await place.call("save", **arguments)
    return dict(json.loads(answer["error"]))


def _text(store: str, title: str) -> str:
    """A template's text; where notes have no title, it is the first line."""
    if store == "trilium":
        return f"<p>{BODY}</p>"
    return BODY if store != "simplenote" else f"{title}\n{BODY}"


@pytest.mark.parametrize("store", TAGGED)
async def test_a_note_begins_with_the_template_that_is_named_by_id_or_title(
    store: str, tmp_path: Path
) -> None:
    ids: dict[str, str] = {}

    def put(place: Place) -> None:
        for name, tags in (
            ("Meeting", ["Template", "work"]),
            ("Hidden one", ["template", "private"]),
            ("Twin", ["template"]),
            ("twin", ["template"]),
            ("Untagged", []),
        ):
            ids[name] = place.put(name + ".", _text(store, name), title=name, tags=tags)

    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    async with PLACES[store](tmp_path, put, policy) as place:
        titled = place.harness.app.library.traits.titles
        missing = json.loads((await place.call("get", id="daily:today"))["error"])
        filled = f"On {missing['details']['day'][:4]}, Standup: ask {{{{unknown}}}} at x"
        for name in (" meeting ", ids["Meeting"]):
            titles = {"title": "Standup", "text": "below"} if titled else {"text": "Standup\nbelow"}
            saved = await place.call("save", template=name, **titles)
            assert "error" not in saved, saved
            assert [one for one in saved["tags"] if one.lower() != "template"] == ["work"]
            assert len(saved["tags"]) == 1
            read = await place.call("get", id=saved["id"])
            lines = [line for line in read["text"].split("\n") if line]
            assert lines == ([] if titled else ["Meeting"]) + [filled, "below"]
        more = {"title": "Standup"} if titled else {"text": "Standup"}
        saved = await place.call("save", template="Meeting", tags=["mine"], **more)
        assert sorted(saved["tags"]) == ["mine", "work"]
        assert "Standup: ask" in (await place.call("get", id=saved["id"]))["text"]
        for name in ("untagged", ids["Untagged"]):
            assert "error" not in await place.call("save", template=name, **more)
        nameless = await _refusal(place, template="Meeting")
        assert nameless["category"] == "VALIDATION"
        assert "title" in nameless["resolution_hint"]
        for name in ("Nothing so", "Hidden one", ids["Hidden one"], "TWIN"):
            unknown = await _refusal(place, template=name, **more)
            assert unknown["subcategory"] == "template", unknown
            listed = {one["title"] for one in unknown["details"]["templates"]}
            assert listed == {"Meeting", "Twin", "twin"}
            assert unknown["untrusted_end"]
        on_old = await _refusal(place, template="Meeting", id=saved["id"], append="x")
        assert "new notes" in on_old["message"]


@pytest.mark.parametrize("field", [Field.TEXT, Field.TAGS])
async def test_a_hidden_field_tells_nothing_of_templates(field: Field, tmp_path: Path) -> None:
    def put(place: Place) -> None:
        place.put("a", "body", title="Meeting", tags=["template", "work"])

    policy = Policy(hidden_fields=frozenset({field}))
    async with PLACES["local"](tmp_path, put, policy) as place:
        unknown = await _refusal(place, template="Nothing so", title="x")
        assert "details" not in unknown or "templates" not in unknown["details"]
        if field is Field.TEXT:
            named = await _refusal(place, template="Meeting", title="x")
            assert named["subcategory"] == "template"
        else:
            made = await place.call("save", template="Meeting", title="x")
            assert (await place.call("get", id=made["id"]))["text"] == "body"
            notes = place.harness.app.library.find_tagged("work")
            assert len(notes) == 1


HTML = (
    '<p>Call <span style="color:red">{{title}}</span>&nbsp;on {{date:YYYY}}</p>'
    '<figure class="table"><table><tbody><tr><td colspan="2">kept</td></tr></tbody></table></figure>'
)


async def test_trilium_keeps_the_html_and_links_the_note_to_its_template(tmp_path: Path) -> None:
    ids = []

    def put(place: Place) -> None:
        ids.append(place.put("a", HTML, title="Call", tags=["template", "work"]))
        ids.append(place.put("b", "<p>top</p>", title="Project", tags=["template", "plan"]))
        ids.append(place.put("c", "<p>secret</p>", title="Below", tags=["private"]))
        assert isinstance(place, Trilium)
        document = place.sim.document
        for branch in document.parents(ids[2]):
            document.unplace(branch)
        document.place(ids[2], ids[1])
        note = document.create("Code00000001", "Script", "code", "text/x-python", b"# {{title}}")
        document.place(note.id, "root")
        note = document.create("File00000001", "Scan", "file", "application/pdf", b"%PDF")
        document.place(note.id, "root")

    async with PLACES["trilium"](tmp_path, put) as place:
        assert isinstance(place, Trilium)
        document = place.sim.document

        def links(note_id: str) -> list[str]:
            return [one.value for one in document.owned(note_id) if one.type == "relation"]

        saved = await place.call("save", template="Call", title='Ann & <Bo>"', text="- later")
        note = document.notes[saved["id"]]
        html = HTML.replace("{{title}}", "Ann &amp; &lt;Bo&gt;&quot;")
        content = note.content.decode()
        before, _, after = html.partition("{{date:YYYY}}")
        assert content.startswith(before)
        assert content[len(before) + 4 :] == after + "<ul><li>later</li></ul>"
        assert links(note.id) == [ids[0]]
        assert (note.title, saved["tags"]) == ('Ann & <Bo>"', ["work"])
        assert [one.name for one in document.owned(note.id) if one.type == "label"] == []

        saved = await place.call("save", template="Project", title="Roof")
        assert links(saved["id"]) == []
        assert document.children(saved["id"]) == []
        assert "without a relation" in saved["note"]
        assert saved["tags"] == ["plan"]

        saved = await place.call("save", template="Script", title="run.py", text="x = 1")
        note = document.notes[saved["id"]]
        assert (note.type, note.mime) == ("code", "text/x-python")
        assert note.content == b"# run.py\nx = 1"
        refused = await _refusal(place, template="Scan", title="x")
        assert "no text" in refused["message"]
