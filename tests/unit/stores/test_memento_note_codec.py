"""Test rows of Memento against revisions: checklists, labels, dates, and what a write changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content, flags
from mcp_notarium.errors import StoreProtocolError, StoreRejected
from mcp_notarium.stores.memento import checklist, note_codec

MILK = {"id": "1", "text": "milk", "checked": False, "extra": [1]}
EGGS = {"id": "2", "text": "eggs", "checked": True}
TEA = {"id": "3", "text": "tea\nand sugar", "checked": False}
ITEMS = (MILK, EGGS, TEA)


def row(**columns):
    return {
        "id": "c1", "title": None, "content": "text", "type": "text", "checkItems": None, "labels": None,
        "isPinned": 0, "isArchived": 0, "isMarkdown": 0, "createdAt": 1000, "updatedAt": 2000,
    } | columns  # fmt: skip


def listed(*items, content=""):
    return row(type="checklist", content=content, checkItems=note_codec.stringify(list(items)))


def columns_after(base_row, **changes):
    """What a save writes that changes these parts of the content."""
    base = note_codec.revision(base_row)
    parts = {
        name: changes.get(name, getattr(base.content, name))
        for name in Content.__dataclass_fields__
    }
    body = note_codec.compose(base, Content(**parts), now=5.0)
    return note_codec.read_change(body).columns


def items_after(base_row, text):
    return json.loads(columns_after(base_row, text=text)["checkItems"])


def test_items_are_lines_below_the_content():
    assert note_codec.revision(listed(*ITEMS)).content.text == (
        "- [ ] milk\n- [x] eggs\n- [ ] tea\n  and sugar"
    )
    assert note_codec.revision(listed(MILK, content="For Sunday\n")).content.text == (
        "For Sunday\n\n- [ ] milk"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [x] milk\n- [x] eggs\n- [ ] tea\n  and sugar", [MILK | {"checked": True}, EGGS, TEA]),
        ("- [ ] tea\n  and sugar\n- [ ] milk\n- [x] eggs", [TEA, MILK, EGGS]),
        ("- [ ] oat milk\n- [x] eggs", [MILK | {"text": "oat milk"}, EGGS]),
        ("- [x] eggs\n", [EGGS]),
        ("* [X] eggs\r\n  - [ ] milk\r\n\r\n", [EGGS, MILK]),
        ("Nothing is left", []),
    ],
)
def test_an_edited_item_stays_the_item_that_it_was(text, expected):
    assert items_after(listed(*ITEMS), text) == expected


@pytest.mark.parametrize(
    ("text", "content", "expected"),
    [
        ("Intro\n- [ ] milk\n- [x] eggs\n\nA remark", "Intro\n\nA remark", None),
        ("Intro\n- [ ] milk\n\n- [x] eggs\n", "Intro", None),
        ("- [ ] milk\nIntro\n- [x] eggs", "Intro", None),
        ("Intro\n- [x] eggs\n- [ ] milk\n- [x] eggs", "Intro", ["eggs", "milk", "eggs"]),
        ("- [ ] new\nIntro\n- [ ] milk\n- [x] eggs", "Intro", ["new", "milk", "eggs"]),
        ("Intro\n- [ ] milk\n\n  of oats\n- [x] eggs", "Intro", ["milk\n\nof oats", "eggs"]),
        (
            "Intro\n\n  indented\n\n- [x] eggs\n- [ ] milk",
            "Intro\n\n  indented\n",
            ["eggs", "milk"],
        ),
    ],
)
def test_item_lines_of_a_checklist_are_items_wherever_they_stand(text, content, expected):
    base = listed(MILK, EGGS, content="Intro")
    stored = base | columns_after(base, text=text)
    items = json.loads(stored["checkItems"])
    assert stored["content"] == content
    assert items == [MILK, EGGS] if expected is None else [one["text"] for one in items] == expected
    assert {one["id"] for one in items} >= {"1", "2"}
    changed = note_codec.revision(stored).content.text
    assert columns_after(stored, text=changed) == {}, "a second save changes nothing"


def test_a_new_line_is_a_new_item():
    made = items_after(listed(MILK, EGGS), "- [ ] milk\n- [ ] bread\n- [x] eggs")
    assert made[::2] == [MILK, EGGS]
    assert (made[1]["text"], made[1]["checked"]) == ("bread", False)
    assert made[1]["id"] not in ("1", "2")


def test_an_edit_of_the_content_leaves_the_items_and_one_of_the_items_the_content():
    base = listed(MILK, content="- [ ] is not an item")
    text = note_codec.revision(base).content.text
    assert columns_after(base, text=f"Above\n{text}") == {"content": "Above\n- [ ] is not an item"}
    assert items_after(base, f"{text}\n- [ ] bread")[0] == MILK
    changed = columns_after(listed(MILK, content="For Sunday"), text="For Sunday\n- [x] milk")
    assert list(changed) == ["checkItems", "content"]
    assert changed["content"] == "For Sunday"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (
            "For Sunday\n- [ ] milk\n- [x] eggs\n- [ ] tea\n  and sugar\n\nA remark",
            "For Sunday\n\nA remark",
        ),
        ("For Sunday\n- [ ] milk\n\n\n- [x] eggs\n\n- [ ] tea\n  and sugar\n", "For Sunday"),
        ("- [ ] milk\nFor Sunday\n- [x] eggs\n- [ ] tea\n\n  and sugar", "For Sunday"),
    ],
)
def test_items_are_found_wherever_their_lines_stand(text, content):
    base = listed(*ITEMS, content="For Sunday")
    stored = base | columns_after(base, text=text)
    assert stored["content"] == content
    items = json.loads(stored["checkItems"])
    assert [item["id"] for item in items] == [item["id"] for item in ITEMS]


def test_half_characters_of_items_stay_as_javascript_writes_them():
    half = r'[{"id":"1","text":"cut \ud83d","more":"\udc00"},{"id":"2","text":"tea"}]'
    base = row(type="checklist", content="", checkItems=half)
    assert note_codec.revision(base).content.text == "- [ ] cut \ufffd\n- [ ] tea"
    changed = columns_after(base, text="- [ ] cut \ufffd\n- [x] tea")
    assert changed["checkItems"] == half.replace('"tea"', '"tea","checked":true')


@pytest.mark.parametrize("text", ["a\r", "a\r\nb", "a\n", "a\n \n\n", "a\n- [ ] b", "\r", "\n"])
def test_whatever_an_item_says_it_stays_if_another_one_changes(text):
    odd = MILK | {"text": text}
    shown = note_codec.revision(listed(odd, TEA)).content.text
    assert items_after(listed(odd, TEA), f"{shown}!") == [odd, TEA | {"text": f"{TEA['text']}!"}]
    assert items_after(listed(odd, TEA), shown.replace("- [ ]", "- [x]", 1))[0] == odd | {
        "checked": True
    }


def test_lines_of_a_plain_note_stay_text():
    text = "- [ ] milk\n- [x] eggs"
    assert columns_after(row(), text=text) == {"content": text}


@pytest.mark.parametrize("junk", ["no json", '"text"', "[1]", '[{"text":1}]', "[" * 100_000])
def test_items_that_are_not_understood_stay(junk):
    base = row(type="checklist", checkItems=junk)
    assert note_codec.revision(base).content.text == "text"
    assert columns_after(base, text="new") == {"content": "new"}


_WORDS = st.text(alphabet="ab -[]x\n\r\u2028 ", max_size=12)
_ITEM = st.fixed_dictionaries({"id": _WORDS, "text": _WORDS, "checked": st.booleans()})


@given(_WORDS, st.lists(_ITEM, max_size=4), _WORDS)
def test_what_is_composed_reads_as_it_will_be_stored(content, items, text):
    base_row = listed(*items, content=content)
    base = note_codec.revision(base_row)
    wanted = Content(text)
    body = note_codec.compose(base, wanted, now=5.0)
    stored = base_row | note_codec.read_change(body).columns
    assert note_codec.revision(stored).content == note_codec.content_of("c1", body).content
    again = note_codec.compose(base, base.content, now=9.0)
    change = note_codec.read_change(again)
    assert (change.columns, change.at) == ({}, 2000)


MONDAY = {"id": "a", "text": "milk", "checked": True, "due": "monday"}
FRIDAY = {"id": "b", "text": "milk", "checked": False, "due": "friday"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [ ] milk", [FRIDAY]),
        ("- [x] milk", [MONDAY]),
        ("- [x] oat milk\n- [ ] milk", [MONDAY | {"text": "oat milk"}, FRIDAY]),
        ("- [ ] milk\n- [x] milk", [FRIDAY, MONDAY]),
        ("- [x] milk\n- [x] milk", [MONDAY, FRIDAY | {"checked": True}]),
    ],
)
def test_of_items_with_the_same_text_each_stays_itself(text, expected):
    _, found = checklist.split(text, "", [MONDAY, FRIDAY], seed="s")
    assert found == expected


def test_checklists_of_any_size_are_matched_at_once():
    items = [{"id": str(n), "text": f"item {n % 7}", "checked": False} for n in range(20_000)]
    text = checklist.render("", items[::-1])
    content, found = checklist.split(text, "", items, seed="s")
    assert (content, len(found)) == ("", 20_000)
    assert len({item["id"] for item in found}) == 20_000


@pytest.mark.parametrize(
    ("labels", "tags", "understood"),
    [
        (None, (), True),
        ("", (), True),
        ("[]", (), True),
        ('["two words","B","two words"]', ("two words", "B"), True),
        ('"work"', ("work",), True),
        ('["a",1]', ("a",), False),
        ('{"a":1}', (), False),
        ("junk", (), False),
        (b"\xff", (), False),
    ],
)
def test_labels_are_tags_and_what_is_none_is_told(labels, tags, understood):
    found = note_codec.revision(row(labels=labels))
    assert (found.content.tags, found.tags_understood) == (tags, understood)
    if understood:
        assert columns_after(row(labels=labels), tags=("new",)) == {"labels": '["new"]'}
        expected = {"labels": None} if tags else {}
        assert columns_after(row(labels=labels), tags=()) == expected
    else:
        with pytest.raises(StoreRejected):
            columns_after(row(labels=labels), tags=("new",))
    assert columns_after(row(labels=labels), text="x") == {"content": "x"}


def test_json_is_written_as_javascript_does():
    value = {"b": [1.0, 2.5, None, True], "ä": "\u2028<é>"}
    assert note_codec.stringify(value) == '{"b":[1,2.5,null,true],"ä":"\u2028<é>"}'


def test_a_whole_row_comes_back_from_its_full_copy():
    whole = row(
        images='["x"]', mood=b"\xff\x00", size=1.5, far=float("inf"), labels="[]", isPinned=1
    )
    body = note_codec.compose(
        None,
        Content(
            "text", properties=flags("pinned"), native=note_codec.full_copy(whole, ()).decode()
        ),
        now=5.0,
    )
    change = note_codec.read_change(body)
    assert change.columns == {
        name: one for name, one in whole.items() if name not in ("id", "updatedAt")
    }
    assert change.at == 5000


@pytest.mark.parametrize(
    "bad", [{"id": b"\xff"}, {"id": 5}, {"content": b"\xff"}, {"content": None}]
)
def test_a_row_that_is_no_note_is_refused(bad):
    with pytest.raises(StoreProtocolError):
        note_codec.revision(row(**bad))


@pytest.mark.parametrize(
    ("found", "written"),
    [
        ([], 1_700_000_000_123),
        ([5, 6.5, "junk"], 1_700_000_000_123),
        (["2026-11-20T21:09:52.649+00:00"], "2023-11-14T22:13:20.123+00:00"),
        (["2026-11-20T21:09:52.649Z", 5, "2026-11-20T21:09:52Z"], "2023-11-14T22:13:20.123Z"),
        (["2026-11-20T21:09:52.649"], "2023-11-14T22:13:20.123+00:00"),
        (["2026-11-20 21:09:52"], "2023-11-14 22:13:20.123"),
    ],
)
def test_dates_are_written_in_the_form_of_the_file(found, written):
    assert note_codec.write(1_700_000_000_123, note_codec.find_form(found)) == written


@pytest.mark.parametrize(
    ("date", "shown"),
    [
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (1_700_000_000_123.9, "2023-11-14T22:13:20.123Z"),
        ("2023-11-14T22:13:20.123+00:00", "2023-11-14T22:13:20.123Z"),
        ("2023-11-15T00:13:20+02:00", "2023-11-14T22:13:20.000Z"),
        ("2023-11-14 22:13:20", "2023-11-14T22:13:20.000Z"),
        ("junk", None),
        (None, None),
        (10**30, None),
        (float("nan"), None),
    ],
)
def test_dates_are_shown_as_the_app_shows_them(date, shown):
    assert note_codec.iso(date) == shown
