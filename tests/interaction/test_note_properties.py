"""Properties of notes through a client: shown with their types, set one by one, found, counted, and under the policy."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mcp_notarium.domain.policy import Field, Policy, Visibility
from support.log_events import capture
from support.undo_places import PLACES, Place

pytestmark = pytest.mark.anyio

HELD = {"status": "open", "due": "2026-12-01", "rating": "4"}
SHOWN = {"status": "open", "due": "2026-12-01"}
WITH_VALUES = ("local", "memory", "vault", "trilium")
"""Stores where a note can have a property of any name."""


def rows(answer: dict[str, Any]) -> list[str]:
    assert "error" not in answer, answer
    return [row["uuid"] for row in answer["content"]]


async def test_an_item_of_a_list_is_not_merged_below_a_property_that_came_meanwhile(
    tmp_path: Any,
) -> None:
    before = "---\npeople:\n  - Ann\n---\nbody\n"

    def write(place: Place, text: str = before) -> None:
        (place.folder / "N.md").write_text(text)

    async with PLACES["vault"](tmp_path, write) as place:
        write(place, before.replace("  - Ann\n", "  - Ann\nstatus: open\n"))
        answer = await place.call("save", id="N.md", properties={"people": ["Ann", "Bob"]})
        assert answer["properties"] == {"people": ["Ann", "Bob"], "status": "open"}


@pytest.mark.parametrize(
    "change", [{"find": "---\na: 1\n---\n", "replace": ""}, {"text": "body\n"}]
)
async def test_a_block_that_only_the_new_text_lacks_stays_and_that_is_said(
    change: dict[str, str], tmp_path: Any
) -> None:
    def write(place: Place) -> None:
        (place.folder / "N.md").write_text("---\na: 1\n---\nbody\n")

    async with PLACES["vault"](tmp_path, write) as place:
        version = (await place.call("get", id="N.md"))["local_version"]
        answer = await place.call("save", id="N.md", local_version=version, confirm=True, **change)
        assert answer["unchanged"]
        assert (await place.call("get", id="N.md"))["properties"] == {"a": 1}


async def found(place: Place, query: str) -> set[str]:
    return set(rows(await place.call("list", query=query)))


@pytest.mark.parametrize("store", WITH_VALUES)
async def test_properties_are_shown_set_removed_and_found(store: str, tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.append(place.put("one", "milk\n", properties=HELD, title="One"))
        ids.append(place.put("two", "bread status:active\n", title="Two"))

    async with PLACES[store](tmp_path, put) as place:
        one, two = ids
        shown = (await place.call("get", id=one))["properties"]
        assert shown | SHOWN == shown
        assert str(shown["rating"]) == "4"
        values = {"status": "done", "due": None, "rating": 4.5, "of": ["a", "b c"], "seen": True}
        answer = await place.call("save", id=one, properties=values)
        assert answer["properties"] == {
            "status": "done", "rating": 4.5, "of": ["a", "b c"], "seen": True
        }  # fmt: skip
        assert "note" not in answer
        again = await place.call("get", id=one)
        assert again["properties"] == answer["properties"]
        assert (await place.call("save", id=one, properties={"seen": True}))["unchanged"]
        assert (await place.call("save", id=two, properties={"gone": None}))["unchanged"]
        for query, expected in {
            "status:done": {one},
            "status:DONE milk": {one},
            "-status:done": {two},
            "status:active": set(),
            '"status:active"': {two},
            "has:rating": {one},
            "-has:rating": {two},
            "rating:>=4": {one},
            "rating:<4.5": set(),
            "rating:<=4.5": {one},
            "rating:4..5": {one},
            "seen:true": {one},
            'of:"b c"': {one},
            "of:a OR status:open": {one},
            "nothing:here bread": {two},
            "has:nothing": set(),
        }.items():
            assert await found(place, query) == expected, query
        [row] = (await place.call("list", query="rating:>4"))["content"]
        assert row["properties"] == {"rating": 4.5}


@pytest.mark.parametrize("store", WITH_VALUES)
async def test_dates_are_compared_as_dates(store: str, tmp_path: Any) -> None:
    days = ("2026-11-30", "2026-12-01", "2027-01-05")
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.extend(place.put(day, "x\n", properties={"due": day}, title=day) for day in days)

    async with PLACES[store](tmp_path, put) as place:
        for query, places in {
            "due:2026-12-01": [1],
            "due:2026-12": [1],
            "due:2026": [0, 1],
            "due:<2026-12-01": [0],
            "due:<=2026-12-01": [0, 1],
            "due:>2026-12": [2],
            "due:2026-12-01..2027-01-05": [1, 2],
            "-due:2026": [2],
            "has:due": [0, 1, 2],
        }.items():
            assert await found(place, query) == {ids[one] for one in places}, query
        refused = await place.call("list", query="due:>soon")
        assert "no number and no date" in refused["error"]
        assert "due:<2026-12-31" in refused["error"]


async def test_numbers_yes_and_no_and_named_days_are_found_as_people_mean_them(
    tmp_path: Any,
) -> None:
    """The words of the filter and those of the note need not be the same."""
    ids: dict[str, str] = {}

    def put(place: Place) -> None:
        today = datetime.fromtimestamp(place.harness.app.clock(), UTC).astimezone().date()
        day, of = timedelta(days=1), {"early": -8, "last": -1, "now": 0, "next": 1}
        for name, away in of.items():
            lines = f"due: {today + away * day}\n"
            lines += {"now": "rating: '5'\ndone: no\n", "next": "rating: 3\ndone: false\n"}.get(
                name, "done: Yes\n" if name == "last" else "done: true\nrating: [x, '4']\n"
            )
            task = f"- [ ] call 📅 {today + away * day}\n"
            ids[name] = place.put(name, f"---\n{lines}---\n{task}", title=name)

    async with PLACES["vault"](tmp_path, put) as place:
        for query, names in {
            "rating:>=4": {"now", "early"},
            "rating:>4": {"now"},
            "rating:5": {"now"},
            "rating:<=3": {"next"},
            "done:no": {"now", "next"},
            "done:false": {"now", "next"},
            "done:yes": {"last", "early"},
            "done:TRUE": {"last", "early"},
            "due:today": {"now"},
            "due:<tomorrow": {"now", "last", "early"},
            "due:yesterday": {"last"},
            "due:-1w..yesterday": {"last"},
            "due:>=Today": {"now", "next"},
            "due:+1d": {"next"},
            "task:due<today": {"last", "early"},
            "task:due:tomorrow task:open": {"next"},
            "-due:today": {"last", "early", "next"},
        }.items():
            assert await found(place, query) == {ids[one] for one in names}, query
        rows_of = {
            row["name"]: row
            for row in (await place.call("manage", action="list_properties"))["properties"]
        }
        assert rows_of["rating"]["kinds"] == ["list", "number", "text"]


@pytest.mark.parametrize("store", WITH_VALUES)
async def test_properties_in_use_are_counted(store: str, tmp_path: Any) -> None:
    def put(place: Place) -> None:
        for number in range(4):
            held = {"status": "open" if number else "done", "rating": str(number)}
            place.put(f"n{number}", "x\n", properties=held, title=f"N{number}")
        place.put("bare", "bare\n", title="Bare")

    async with PLACES[store](tmp_path, put) as place:
        [bare] = await found(place, "bare")
        await place.call("save", id=bare, properties={"of": ["a", "2026-12-01"]})
        answer = await place.call("manage", action="list_properties")
        assert answer["properties"].pop()["kinds"] == ["list"]
        assert answer["total"] == 3
        assert [row["name"] for row in answer["properties"]] == ["rating", "status"]
        status = answer["properties"][1]
        assert (status["notes"], status["kinds"]) == (4, ["text"])
        assert status["values"] == {"open": 3, "done": 1}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"a": {"b": 1}}, "a text, a number, true, false, a list of texts, or null"),
        ({"a": [["b"]]}, "a text, a number, true, false, a list of texts, or null"),
        ({"tags": ["x"]}, "Give `tags`"),
        ({"a\nb": 1}, "in one line"),
        ({"a": "x" * 5000}, "at most 4000 characters"),
        ({"pinned": "later"}, "properties.pinned"),
    ],
)
async def test_what_is_no_property_is_refused_with_what_is(
    values: dict[str, Any], words: str, tmp_path: Any
) -> None:
    async with PLACES["local"](tmp_path, lambda place: place.put("n", "x\n")) as place:
        [note_id] = await found(place, "")
        refused = await place.call("save", id=note_id, properties=values)
        assert words in refused["error"]


@pytest.mark.parametrize("store", ["simplenote", "memento"])
async def test_a_store_with_marks_alone_says_which(store: str, tmp_path: Any) -> None:
    ids: list[str] = []
    async with PLACES[store](tmp_path, lambda place: ids.append(place.put("n", "x\n"))) as place:
        refused = await place.call("save", id=ids[0], properties={"status": "open"})
        assert "no property status" in refused["error"]
        assert "markdown, pinned" in refused["error"]
        answer = await place.call("save", id=ids[0], properties={"pinned": True})
        assert answer["properties"] == {"pinned": True}
        assert await found(place, "has:pinned") == {ids[0]}
        assert await found(place, "pinned:true") == {ids[0]}
        answer = await place.call("save", id=ids[0], properties={"pinned": None})
        assert answer.get("properties", {}) == {}
        again = await place.call("save", id=ids[0], properties={"pinned": None, "nothing": None})
        assert "error" not in again, again


@pytest.mark.parametrize("tool", ["save", "manage"])
async def test_null_removes_a_property_called_like_a_mark(tool: str, tmp_path: Any) -> None:
    def put(place: Place) -> None:
        place.put("n", "---\npinned: true # mine\nstatus: open\n---\nx\n")

    changes = {"pinned": None, "status": "done"}
    async with PLACES["vault"](tmp_path, put) as place:
        [note_id] = await found(place, "")
        how = {"ids": [note_id], "action": "change", "confirm": True} if tool == "manage" else {}
        await place.call(tool, **how or {"id": note_id}, properties=changes)
        note = await place.call("get", id=note_id)
        assert note["text"] == "---\nstatus: done\n---\nx\n"


async def test_fields_of_memento_are_properties_and_those_of_the_app_alone_are_only_shown(
    tmp_path: Any,
) -> None:
    columns = {"color": "teal", "reminder": 1798135200123, "reminderRecurrence": "daily"}
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.append(place.put("one", "milk\n", columns=columns))
        ids.append(place.put("two", "bread\n"))

    async with PLACES["memento"](tmp_path, put) as place:
        note = await place.call("get", id=ids[0])
        assert note["properties"] == {
            "color": "teal", "reminder": "2026-12-24T18:00:00.123Z", "isReminderDone": False,
            "reminderRecurrence": "daily",
        }  # fmt: skip
        assert "in_app" not in note
        before = place.raw(ids[0])
        for query in ("color:TEAL", "reminder:2026-12", "reminder:<2027", "isReminderDone:no"):
            assert await found(place, query) == {ids[0]}, query
        answer = await place.call("save", id=ids[0], properties={"Color": "red", "reminder": None})
        assert "set only in the app" in answer["error"]
        assert "`archived`, `color`, `markdown`, `pinned`" in answer["error"]
        assert place.raw(ids[0]) == before
        answer = await place.call("save", id=ids[0], properties={"color": "mauve"})
        assert "one of default, red, orange" in answer["error"]
        answer = await place.call("save", id=ids[0], properties={"Color": "red"})
        assert answer["properties"]["color"] == "red"
        assert place.raw(ids[0]) == before | {"color": "red"}
        assert await found(place, "color:red") == {ids[0]}
        assert (await place.call("save", id=ids[0], properties={"color": "red"}))["unchanged"]
        for value in (None, "default"):
            await place.call("save", id=ids[1], properties={"color": "gray"})
            await place.call("save", id=ids[1], properties={"color": value})
            assert (place.raw(ids[1])["color"], await found(place, "color:gray")) == (
                "default",
                set(),
            )
        await place.call("manage", action="undo", id=ids[0], confirm=True)
        assert place.raw(ids[0]) == before
        answer = await place.call("manage", action="list_properties")
        assert {row["name"] for row in answer["properties"]} == note["properties"].keys()


async def test_a_page_for_everybody_of_simplenote_is_shown_and_left_to_its_app(
    tmp_path: Any,
) -> None:
    async with PLACES["simplenote"](tmp_path, lambda place: place.put("n", "milk\n")) as place:
        place.sim.put("out", content="bread\n", systemTags=["published", "odd"])  # type: ignore[attr-defined]
        await place.harness.sync()
        assert (await place.call("get", id="out"))["properties"] == {"published": True}
        assert await found(place, "published:yes") == {"out"}
        for note_id, value in (("n", True), ("out", None)):
            answer = await place.call("save", id=note_id, properties={"published": value})
            assert "set only in the app" in answer["error"]
        answer = await place.call("save", id="out", properties={"pinned": True, "published": True})
        assert answer["properties"] == {"pinned": True, "published": True}
        assert place.raw("out")["systemTags"] == ["odd", "pinned", "published"]


@pytest.mark.parametrize("store", ["simplenote", "memento"])
async def test_a_note_in_markdown_gets_a_block_for_a_property_of_any_name(
    store: str, tmp_path: Any
) -> None:
    ids: list[str] = []
    async with PLACES[store](tmp_path, lambda place: ids.append(place.put("n", "milk\n"))) as place:
        answer = await place.call(
            "save", id=ids[0], properties={"markdown": True, "status": "open"}
        )
        assert answer["properties"] == {"markdown": True, "status": "open"}
        assert ("first line" in answer.get("note", "")) == (store == "simplenote")
        note = await place.call("get", id=ids[0])
        assert note["text"] == "---\nstatus: open\n---\nmilk\n"
        assert "note" not in await place.call("save", id=ids[0], properties={"due": "2026-12-01"})
        assert await found(place, "status:open due:2026") == {ids[0]}
        await place.call("save", id=ids[0], properties={"status": None, "due": None})
        assert (await place.call("get", id=ids[0]))["text"] == "milk\n"


TYPES = {
    "done": "checkbox", "rating": "number", "due": "date", "at": "datetime", "of": "multitext", "code": "text",
    "color": "text", "odd": "rainbow", "private": "number",
}  # fmt: skip


async def test_a_value_gets_the_type_that_the_app_has_set_for_it(tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.extend(place.put(name, f"---\nrating: '{name}'\n---\nmilk\n") for name in "45")

    async with PLACES["vault"](tmp_path, put) as place:
        settings = tmp_path / "vault" / ".obsidian" / "types.json"
        settings.parent.mkdir()
        await place.call("save", id=ids[0], properties={"done": "yes"})
        assert "done: yes" not in (text := (await place.call("get", id=ids[0]))["text"])
        assert 'done: "yes"' in text  # without types
        settings.write_text(json.dumps({"types": TYPES}))
        values = {
            "done": "yes", "RATING": "5", "due": "2026-12-01", "at": "2026-12-01", "of": "one", "code": 7, "odd": "x"
        }  # fmt: skip
        answer = await place.call("save", id=ids[0], properties=values)
        assert "error" not in answer, answer
        assert (await place.call("get", id=ids[0]))["text"] == (
            "---\nrating: 5\ndone: true\ndue: 2026-12-01\nat: 2026-12-01T00:00:00\nof:\n  - one\n"
            'code: "7"\nodd: x\n---\nmilk\n'
        )
        for name, value, form in (
            ("done", "later", "true or false"),
            ("rating", "high", "a number"),
            ("due", "soon", "YYYY-MM-DD"),
            ("due", "2026-12-01T10:00", "YYYY-MM-DD"),
            ("code", ["a"], "a text"),
        ):
            for arguments in ({"id": ids[0]}, {"ids": ids, "action": "change"}):
                tool = "manage" if "action" in arguments else "save"
                refused = json.loads(
                    (await place.call(tool, **arguments, properties={name: value}))["error"]
                )
                assert form in refused["resolution_hint"], (name, value)
        done = await place.call(
            "manage", action="change", ids=ids, properties={"done": "no"}, confirm=True
        )
        assert "error" not in done, done
        assert "done: false\n" in (await place.call("get", id=ids[1]))["text"]
        listed = (await place.call("manage", action="list_properties"))["properties"]
        assert {row["name"]: row.get("type") for row in listed} == {
            name: None if name == "odd" else TYPES[name] for name in ("done", "rating", "due", "at", "of", "code", "odd")
        }  # fmt: skip
        # A type makes a name a filter before any note has it; the types are read anew each time.
        assert await found(place, "milk color:red") == set()
        settings.write_text('{"types": {"color": "secret words')
        assert await found(place, "milk color:red") == {*ids}
        assert (await place.call("save", id=ids[0], properties={"done": "later"}))["properties"]
        settings.unlink()
        settings.symlink_to(tmp_path / "elsewhere.json")
        (tmp_path / "elsewhere.json").write_text(json.dumps({"types": TYPES}))
        assert (await place.call("save", id=ids[0], properties={"done": "never"}))["properties"]


async def test_the_log_says_once_that_types_cannot_be_read_without_a_word_of_them(
    tmp_path: Any,
) -> None:
    with capture() as events:
        async with PLACES["vault"](tmp_path, lambda place: place.put("4", "milk\n")) as place:
            settings = tmp_path / "vault" / ".obsidian" / "types.json"
            settings.parent.mkdir()
            settings.write_text('{"types": {"color": "secret words')
            await found(place, "milk color:red")
            await found(place, "milk color:blue")
    told = [one for one in events if "types.json" in one.get("message", "")]
    assert [one["level"] for one in told] == ["warning"]
    assert "secret" not in str(told)


async def test_notes_whose_properties_cannot_be_read_are_counted_and_named(tmp_path: Any) -> None:
    broken = "---\nstatus: open: now\n---\nmilk\n"

    def put(place: Place) -> None:
        place.put("fine", "---\nstatus: open\nof: {a: 1}\n---\nmilk\n")
        place.put("broken", broken)
        place.put("unclosed", "---\nstatus: open\nmilk\n")
        place.put("toml", "+++\nstatus = 'open'\n+++\nmilk\n")
        place.put("line", "---\nmilk\n---\nbread\n")
        place.put("private", broken, tags=[])
        place.put("old", broken, trash=True)

    policy = Policy(visibility=Visibility(hidden_paths=("c-private",)))
    async with PLACES["vault"](tmp_path, put, policy) as place:
        for query in ("status:open", "-status:done milk", "has:status", "status:x OR milk"):
            answer = await place.call("list", query=query)
            assert "3 notes have properties at the top that cannot be read" in answer["note"]
            named = "“c-broken/Plan.md”, “c-toml/Plan.md”, “c-unclosed/Plan.md”"
            assert named in answer["note"]
            assert "begin_untrusted" in answer
        assert "note" not in await place.call("list", query="milk")
        assert "`+++`" in answer["note"]
        toml = json.loads(
            (await place.call("save", id="c-toml/Plan.md", properties={"a": 1}))["error"]
        )
        assert "`+++`" in toml["resolution_hint"]
        listed = await place.call("manage", action="list_properties")
        assert {row["name"] for row in listed["properties"]} == {"status", "of"}
        assert await found(place, '" ":x') == set()
        for name in ("broken", "toml", "unclosed"):
            note = await place.call("get", id=f"c-{name}/Plan.md")
            await place.call(
                "save", id=note["id"], text="---\nstatus: open\n---\n", local_version=note["local_version"]
            )  # fmt: skip
        answer = await place.call("list", query="status:open")
        assert (answer["total_items"], "note" in answer) == (4, False)


async def test_a_changed_value_keeps_its_form_and_a_key_that_stands_twice_is_refused(
    tmp_path: Any,
) -> None:
    text = '---\nstatus: \'open\' # mine\nof: ["a", b] # two\nlog: |\n  one\n  two\nrating: "4"\n---\nmilk\n'
    twice, ids = "---\nstatus: open\n# mine\nx: 1\nstatus: done\n---\nbread\n", list[str]()

    def put(place: Place) -> None:
        ids.extend((place.put("one", text), place.put("two", twice)))

    async with PLACES["vault"](tmp_path, put) as place:
        values = {"status": "isn't", "of": ["a", "c"], "log": "three\nfour", "rating": 5}
        await place.call("save", id=ids[0], properties=values)
        assert (await place.call("get", id=ids[0]))["text"] == text.replace("'open'", "'isn''t'") \
            .replace("b]", "c]").replace("|\n  one\n  two", "|-\n  three\n  four") \
            .replace('"4"', "5")  # fmt: skip
        for value in ("closed", None):
            refused = json.loads(
                (await place.call("save", id=ids[1], properties={"status": value}))["error"]
            )
            assert "in lines 2, 5" in refused["message"]
            assert "Remove all but one" in refused["resolution_hint"]
        await place.call("save", id=ids[1], properties={"x": 2})
        assert (await place.call("get", id=ids[1]))["text"] == twice.replace("x: 1", "x: 2")


@pytest.mark.parametrize("store", ["simplenote", "memento"])
async def test_a_block_at_the_top_of_any_note_holds_properties(store: str, tmp_path: Any) -> None:
    text, ids = "---\nstatus: open # mine\nx: 'y'\n---\nmilk\n", list[str]()
    async with PLACES[store](tmp_path, lambda place: ids.append(place.put("n", text))) as place:
        assert (await place.call("get", id=ids[0]))["properties"] == {"status": "open", "x": "y"}
        await place.call("save", id=ids[0], properties={"status": "done"})
        assert (await place.call("get", id=ids[0]))["text"] == text.replace("open", "done")
        assert await found(place, "status:done") == {ids[0]}


async def test_inherited_labels_are_shown_and_found_and_changed_only_above(tmp_path: Any) -> None:
    def put(place: Any) -> None:
        place.put("above", "<p>x</p>")
        place.put("below", "<p>y</p>")
        place.sim.document.place("Note000002", "Note000001")
        place.sim.document.set_attribute(
            "inhe", "Note000001", "label", "team", "red", inheritable=True
        )

    async with PLACES["trilium"](tmp_path, put) as place:
        assert (await place.call("get", id="Note000002"))["properties"] == {"team": "red"}
        assert await found(place, "team:red") == {"Note000001", "Note000002"}
        for values in ({"team": "blue"}, {"team": None}):
            refused = await place.call("save", id="Note000002", properties=values)
            assert "come from a note above" in refused["error"]
        answer = await place.call("save", id="Note000002", properties={"own": "1"})
        assert answer["properties"] == {"team": "red", "own": 1}


@pytest.mark.parametrize("store", WITH_VALUES)
@pytest.mark.parametrize("rule", ["private", "Status: Secret"])
async def test_a_note_with_a_hidden_property_does_not_exist(
    store: str, rule: str, tmp_path: Any
) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        hidden = {"private": "1"} if rule == "private" else {"status": "secret"}
        ids.append(place.put("hidden", "milk\n", properties=hidden, title="Hidden"))
        ids.append(place.put("seen", "milk\n", properties={"status": "open"}, title="Seen"))

    policy = Policy(visibility=Visibility(hidden_properties=(rule,)))
    async with PLACES[store](tmp_path, put, policy) as place:
        hidden, seen = ids
        assert await found(place, "") == {seen}
        assert await found(place, "milk") == {seen}
        absent, answer = [
            json.loads((await place.call("get", id=one))["error"]) for one in ("absent", hidden)
        ]
        assert answer["message"] == absent["message"]
        listed = await place.call("manage", action="list_properties")
        assert [row["name"] for row in listed["properties"]] == ["status"]
        value = {"private": 1} if rule == "private" else {"status": "secret"}
        refused = await place.call("save", id=seen, properties=value)
        assert "may not be given here" in refused["error"]
        assert place.harness.app.cache.notes.get(hidden) is None


@pytest.mark.parametrize(
    "text",
    [
        "---\n" + "".join(f"k{number}: 1\n" for number in range(250)) + "private: 1\n---\nmilk\n",
        "".join(f"k{number}:: 1\n" for number in range(1500)) + "private:: 1\n",
        "x:: 1\n" * 2500 + "private:: 1\n",
        "+++\nprivate = 1\n+++\nmilk\n",
        "---\nstatus: [x, [secret]]\n---\nmilk\n",
        "---\nbase: &b {private: 1}\n<<: *b\n---\nmilk\n",
        "---\nprivate: [\n---\nmilk\n",
    ],
    ids=[
        "many keys",
        "many fields",
        "one field often",
        "TOML",
        "a list in a list",
        "merged",
        "broken",
    ],
)
async def test_a_note_whose_properties_are_not_all_read_is_hidden(text: str, tmp_path: Any) -> None:
    def put(place: Place) -> None:
        place.put("odd", text)
        place.put("seen", "---\nstatus: open\n---\nbread\n", title="Seen")

    rules = Visibility(hidden_properties=("private", "status: secret"))
    async with PLACES["vault"](tmp_path, put, Policy(visibility=rules)) as place:
        assert [row["title"] for row in (await place.call("list"))["content"]] == ["Seen"]


@pytest.mark.parametrize("store", WITH_VALUES)
async def test_a_number_that_floats_do_not_hold_is_refused(store: str, tmp_path: Any) -> None:
    ids: list[str] = []
    async with PLACES[store](tmp_path, lambda place: ids.append(place.put("n", "x\n"))) as place:
        for number in (10**400, 2**53 + 1):
            refused = json.loads(
                (await place.call("save", id=ids[0], properties={"k": number}))["error"]
            )
            assert refused["category"] == "VALIDATION"
        assert "properties" not in await place.call("get", id=ids[0])


async def test_hidden_texts_hide_their_properties(tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.append(place.put("n", "milk\n", properties={"status": "open"}))

    policy = Policy(hidden_fields=frozenset({Field.TEXT}))
    async with PLACES["vault"](tmp_path, put, policy) as place:
        assert "properties" not in await place.call("get", id=ids[0])
        for tool, arguments in (
            ("list", {"query": "status:open"}),
            ("manage", {"action": "list_properties"}),
            ("save", {"id": ids[0], "properties": {"status": "done"}}),
        ):
            assert "hidden" in (await place.call(tool, **arguments))["error"], tool


@pytest.mark.parametrize("store", WITH_VALUES)
async def test_two_properties_changed_on_both_sides_are_merged(store: str, tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.append(place.put("n", "milk\n", properties={"a": "one", "b": "two"}))

    async with PLACES[store](tmp_path, put) as place:
        note = await place.call("get", id=ids[0])
        await place.call("save", id=ids[0], properties={"a": "mine"})
        later = await place.call(
            "save", id=ids[0], local_version=note["local_version"],
            tags=[*note["tags"], "t"], properties={"b": "theirs"},
        )  # fmt: skip
        assert "error" not in later, later
        assert later["properties"] == {"a": "mine", "b": "theirs"}


@pytest.mark.parametrize("store", sorted(PLACES.keys() - {"jotter"}))
async def test_notes_with_and_without_tags_and_tasks_are_found_in_every_store(
    store: str, tmp_path: Any
) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        box = '<ul class="todo-list"><li><label><input type="checkbox"><span>t</span></label></li></ul>'
        text = f"<p>milk</p>{box}" if store == "trilium" else "milk\n- [ ] t\n"
        ids.append(place.put("one", text, tags=["work"]))
        ids.append(place.put("two", "bread tags\n"))

    async with PLACES[store](tmp_path, put) as place:
        one, two = ids
        for query, expected in {
            "has:tags": {one},
            "-has:tags": {two},
            "has:tag milk": {one},
            "NOT has:TAGS": {two},
            "has:tags OR bread": {one, two},
            "-has:tags milk": set(),
            "has:tasks": {one},
            "-has:task": {two},
        }.items():
            assert await found(place, query) == expected, query


async def test_a_link_in_a_property_is_found_by_the_name_of_its_note(tmp_path: Any) -> None:
    ids: list[str] = []
    block = '---\npeople: ["[[Ann]]", "[[Work/Bob#x|B]]", Eve]\n---\n'

    def put(place: Place) -> None:
        ids.append(place.put("one", block))
        ids.append(place.put("two", "---\npeople: Ann Lee\n---\n"))

    async with PLACES["vault"](tmp_path, put) as place:
        for value in ("Ann", "ann", '"[[Ann]]"', "Work/Bob", "Eve"):
            assert await found(place, f"people:{value}") == {ids[0]}, value
        assert await found(place, "people:B") == set()
        error = json.loads((await place.call("manage", action="pin", id=ids[0]))["error"])
        assert "any by `save` with `properties`" in error["resolution_hint"]
        said = await place.call("list", query="task-todo:none")
        assert "`task-todo:` was searched for as text" in said["note"]


async def test_a_property_that_is_called_tasks_is_one(tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.append(place.put("one", "milk\n", properties={"tasks": "3"}))
        ids.append(place.put("two", "- [ ] t\n"))

    async with PLACES["vault"](tmp_path, put) as place:
        assert await found(place, "has:tasks") == {ids[0]}
        assert await found(place, "task:any") == {ids[1]}
