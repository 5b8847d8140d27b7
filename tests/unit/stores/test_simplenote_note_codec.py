"""Note objects: whatever an account holds can be read, and writing touches only what changed."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content, flags
from mcp_notarium.errors import StoreProtocolError, UnfitContent
from mcp_notarium.stores.json_answers import parse_json, to_json
from mcp_notarium.stores.simplenote.kind import Urls, is_possible_id
from mcp_notarium.stores.simplenote.note_codec import (
    compose_fields,
    etag_of,
    fields_from,
    fields_of,
    is_note,
    page_from,
    revision_from,
    version_of,
)

NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


WHOLE: dict[str, Any] = {
    "content": "one\r\ntwo",
    "tags": ["Work", "home"],
    "systemTags": ["markdown", "pinned", "future-mark"],
    "creationDate": 1_600_000_000,
    "modificationDate": 1_700_000_000.25,
    "deleted": 0,
    "shareURL": "",
    "publishURL": "abc",
    "savedate": 1.5,
    "junk": {"a": [None, 1, 1.0, True]},
}


def read(**changes: Any):
    return revision_from("n", WHOLE | changes, version=7)


def content_of(fields: Any) -> Content:
    return revision_from("n", fields, version=7).content


def test_whole_note_is_read() -> None:
    revision = read()
    properties = flags("pinned", "markdown")
    assert revision.content == Content("one\r\ntwo", ("Work", "home"), properties=properties)
    assert (revision.etag, revision.server_version) == ("7", 7)
    assert (revision.created_at, revision.modified_at) == (1_600_000_000.0, 1_700_000_000.25)


@pytest.mark.parametrize(
    ("stored", "wanted", "written"),
    [
        (["markdown", "pinned", "later"], {"markdown"}, ["markdown", "later"]),
        (["later", "markdown"], {"markdown", "pinned"}, ["later", "markdown", "pinned"]),
        ([7, "later", None], {"pinned"}, [7, "later", None, "pinned"]),
        ("pinned", {"pinned"}, ["pinned"]),
        (None, {"markdown"}, ["markdown"]),
    ],
)
def test_other_system_tags_stay_as_they_are(stored: Any, wanted: set[str], written: Any) -> None:
    fields = WHOLE | {"systemTags": stored}
    content = replace(content_of(fields), properties=flags(*wanted))
    composed = compose_fields(fields, content, now=5.0)
    assert composed == fields | {"systemTags": written, "modificationDate": 5.0}
    assert content_of(composed) == content


def test_a_new_note_has_its_properties() -> None:
    content = Content("x", properties=flags("pinned"))
    assert compose_fields(None, content, now=5.0)["systemTags"] == ["pinned"]


def test_every_field_and_number_type_is_kept() -> None:
    assert json.dumps(fields_of(read())) == json.dumps(WHOLE)


@pytest.mark.parametrize("text", ["", "one\r\ntwo", "汉 \x00 \u2028", "x" * 100_000])
def test_raw_does_not_repeat_the_text(text: str) -> None:
    revision = read(content=text)
    assert len(revision.raw) == len(read(content="").raw)
    assert fields_of(revision) == WHOLE | {"content": text}


@pytest.mark.parametrize("tags", ["private", {"0": "private"}, [["private"]], ["work", 7], None])
def test_tags_of_another_form_are_not_understood(tags: Any) -> None:
    assert not read(tags=tags).tags_understood


def test_tags_that_are_texts_or_missing_are_understood() -> None:
    assert read().tags_understood
    assert read(tags=["\udc00"]).tags_understood
    assert revision_from("n", {"content": "words"}, version=1).tags_understood


@pytest.mark.parametrize(
    ("deleted", "trash"),
    [(True, True), (False, False), (1, True), (0, False), (1.0, True), (None, False), ("0", False)],
)
def test_deleted_is_a_flag_of_any_type(deleted: Any, trash: bool) -> None:
    assert read(deleted=deleted).content.trash is trash


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000_123, 1_700_000_000.123),
        (1_700_000_000_123_456, 1_700_000_000.123456),
        (0, 0.0),
        (-5, 0.0),
        (True, 1_600_000_000.0),
        ("1700000000", 1_600_000_000.0),
        (None, 1_600_000_000.0),
        (10**400, 1_600_000_000.0),
    ],
)
def test_dates_are_seconds_whatever_the_unit(date: Any, seconds: float) -> None:
    revision = read(modificationDate=date)
    assert math.isclose(revision.modified_at, seconds, abs_tol=1e-6)
    assert fields_of(revision)["modificationDate"] == date


def test_missing_dates_stand_in_for_each_other() -> None:
    bare = revision_from("n", {"content": "x"}, version=1)
    assert (bare.created_at, bare.modified_at) == (0.0, 0.0)
    only = revision_from("n", {"content": "x", "modificationDate": 5}, version=1)
    assert (only.created_at, only.modified_at) == (5.0, 5.0)


@pytest.mark.parametrize("content", [None, 5, ["x"], {"a": 1}])
def test_content_that_is_no_text_reads_as_empty(content: Any) -> None:
    revision = read(content=content)
    assert revision.content.text == ""
    assert fields_of(revision)["content"] == content


@pytest.mark.parametrize("tags", [None, "Work", 5, {"Work": 1}])
def test_tags_that_are_no_list_read_as_none(tags: Any) -> None:
    assert read(tags=tags, systemTags=tags).content.tags == ()


def test_tags_that_are_no_text_are_left_out() -> None:
    assert read(tags=["a", 1, None, "b"]).content.tags == ("a", "b")


def test_lone_surrogates_read_as_replacements_and_stay_in_raw() -> None:
    revision = read(content="x\ud83d", tags=["\udc00"], systemTags=["\udc00"])
    assert revision.content == Content("x\ufffd", ("\ufffd",))
    assert fields_of(revision)["content"] == "x\ud83d"


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@NO_DEADLINE
@given(st.dictionaries(st.sampled_from(sorted(WHOLE)), ANYTHING))
def test_any_object_is_a_revision(fields: dict[str, Any]) -> None:
    revision = revision_from("n", fields, version=1)
    revision.content.text.encode()
    assert 0 <= revision.created_at <= 1e11
    assert 0 <= revision.modified_at <= 1e11
    assert fields_of(revision) == {"content": ""} | fields


# Composing


def test_new_note_has_every_field_the_service_wants() -> None:
    assert compose_fields(None, Content("x", ("a",), trash=False), now=5) == {
        "content": "x",
        "tags": ["a"],
        "systemTags": [],
        "creationDate": 5.0,
        "modificationDate": 5.0,
        "deleted": False,
        "shareURL": "",
        "publishURL": "",
    }


def changed(content: Content, **base: Any) -> dict[str, Any]:
    before = WHOLE | base
    content = replace(content, properties=flags("pinned", "markdown"))
    after = compose_fields(before, content, now=9.0)
    assert before == WHOLE | base, "the base itself must not change"
    assert list(after)[: len(before)] == list(before)
    return {key: value for key, value in after.items() if before.get(key) != value}


def test_edit_touches_only_what_changed() -> None:
    assert changed(Content("new", ("Work", "home"))) == {"content": "new", "modificationDate": 9.0}
    assert changed(Content("one\r\ntwo", ("home",))) == {"tags": ["home"], "modificationDate": 9.0}


@pytest.mark.parametrize(("tags", "edited"), [(None, ["b"]), (["a", 5], None), ("Work", None)])
def test_no_edit_takes_strange_tags_away(tags: Any, edited: list[Any] | None) -> None:
    seen = read(tags=tags).content.tags
    assert changed(Content("new", seen), tags=tags).keys() == {"content", "modificationDate"}
    with nullcontext() if edited else pytest.raises(UnfitContent, match="not known here"):
        assert changed(Content("new", ("b",)), tags=tags)["tags"] == edited


@pytest.mark.parametrize("old", [0, False])
def test_trashing_keeps_the_type_of_the_flag(old: Any) -> None:
    after = compose_fields(
        WHOLE | {"deleted": old}, Content("one\r\ntwo", ("Work", "home"), trash=True), now=9
    )
    assert after["deleted"] == 1
    assert type(after["deleted"]) is type(old)


def test_missing_flag_becomes_a_boolean_only_when_needed() -> None:
    base = {"content": "x"}
    assert "deleted" not in compose_fields(base, Content("y"), now=9)
    assert compose_fields(base, Content("x", trash=True), now=9)["deleted"] is True


def test_content_equal_to_the_base_changes_nothing_at_all() -> None:
    assert changed(Content("one\r\ntwo", ("Work", "home"))) == {}
    assert compose_fields({"content": "\ud83d"}, Content("\ufffd"), now=9) == {"content": "\ud83d"}


def test_surrogates_of_an_edit_are_replaced() -> None:
    assert changed(Content("a\ud83d", ("b\udc00",)))["content"] == "a\ufffd"
    assert changed(Content("a\ud83d", ("b\udc00",)))["tags"] == ["b\ufffd"]


@NO_DEADLINE
@given(st.text(st.characters(codec=None)), st.lists(st.text(max_size=4), max_size=3), st.booleans())
def test_composed_body_reads_as_the_content(text: str, tags: list[str], trash: bool) -> None:
    wanted = Content(text, tuple(tags), trash)
    for base in (None, WHOLE):
        body = to_json(compose_fields(base, wanted, now=9))
        seen = revision_from("n", parse_json(body), version=None)
        again = compose_fields(fields_of(seen), seen.content, now=10)
        assert seen.content.text == "".join(
            "\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text
        )
        assert (seen.content.tags, seen.content.trash) == (wanted.tags, trash)
        assert to_json(again) == body


# Versions, ids, urls


@pytest.mark.parametrize("etag", ["", "-1", "1.0", "1*", "x", "٣", "9" * 19, " 1"])
def test_foreign_etag_is_no_version(etag: str) -> None:
    assert version_of(etag) is None


def test_etag_and_version_belong_together() -> None:
    assert version_of(etag_of(12)) == 12


@pytest.mark.parametrize("note_id", ["", ".", "..", "...", "x" * 257, "é" * 129, "\ud800"])
def test_impossible_id_is_reported(note_id: str) -> None:
    assert not is_possible_id(note_id)


def test_ids_are_percent_encoded_once() -> None:
    urls = Urls(api="https://a.example/1/", app_id="app")
    url = urls.item("tag", "a%20b/../c?d", version=3, query={"ccid": "x&y"})
    assert url == "https://a.example/1/app/tag/i/a%2520b%2F..%2Fc%3Fd/v/3?ccid=x%26y"
    assert urls.bucket("note", "index", {}) == "https://a.example/1/app/note/index"


# Listings


def listing(**changes: Any) -> dict[str, Any]:
    index = [{"id": "a", "v": 2, "d": WHOLE}, {"id": "b", "v": 1, "d": None}]
    return {"current": "cv1", "index": index, "mark": "m1"} | changes


def test_page_is_read_and_a_bare_note_is_an_entry() -> None:
    page = page_from(listing(), mark=None, with_content=True)
    assert (page.cursor, page.next_mark) == ("cv1", "m1")
    assert [(type(e).__name__, e.id, e.etag) for e in page.entries] == [
        ("Revision", "a", "2"),
        ("Entry", "b", "1"),
    ]


@pytest.mark.parametrize("mark", ["", None, "m0"])
def test_missing_empty_or_repeated_mark_ends_the_listing(mark: Any) -> None:
    assert page_from(listing(mark=mark), mark="m0", with_content=True).next_mark is None


def test_empty_page_with_a_new_mark_continues() -> None:
    assert page_from(listing(index=[]), mark="m0", with_content=True).next_mark == "m1"


@pytest.mark.parametrize(
    "answer",
    [
        [],
        None,
        {},
        {"index": [], "current": ""},
        {"index": []},
        {"index": {}, "current": "c"},
        {"index": ["x"], "current": "c"},
        {"index": [{"v": 1}], "current": "c"},
        {"index": [{"id": 5, "v": 1}], "current": "c"},
    ],
)
def test_strange_listing_is_refused_whole(answer: Any) -> None:
    with pytest.raises(StoreProtocolError):
        page_from(answer, mark=None, with_content=True)


@NO_DEADLINE
@given(ANYTHING)
def test_any_value_is_a_page_or_a_protocol_error(answer: Any) -> None:
    try:
        page_from(answer, mark=None, with_content=True)
    except StoreProtocolError:
        return


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://api.example", "https://api.example/1"),
        ("https://api.example/", "https://api.example/1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/1"),
        ("https://api.example/1", "https://api.example/1"),
        ("https://api.example/proxy/1", "https://api.example/proxy/1"),
    ],
)
def test_a_simperium_host_without_a_path_means_version_1(given: str, used: str) -> None:
    urls = Urls.from_settings(api=given, auth=given, app="https://app.example")
    assert (urls.api, urls.auth, urls.app) == (used, used, "https://app.example")


@pytest.mark.parametrize(
    "value", [{}, {"content": None}, {"content": 5}, {"content": ["x"]}, [], None]
)
def test_an_object_without_a_text_is_no_note(value: Any) -> None:
    with pytest.raises(StoreProtocolError):
        fields_from(value)
    assert not is_note(value)
