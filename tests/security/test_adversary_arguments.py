"""Fill every text argument with the languages of the layers below it."""

from __future__ import annotations

import json
import re

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.whole import Server, environment

HOSTILE = [
    "'; DROP TABLE notes; --",
    '" OR 1=1 --',
    "x' UNION SELECT name, sql FROM sqlite_master --",
    '"',
    "'",
    "';--",
    '""" AND "',
    "*",
    "tea *",
    "NEAR(",
    "NEAR(tea milk, 5)",
    "text:tea",
    "notes_fts : tea",
    "{text tags} : tea",
    "^tea",
    "-",
    "AND OR NOT",
    "tea AND",
    "don't NOT",
    "project-x",
    "tag:\"'; --",
    "%_%",
    "tea\0milk",
    "\0",
    "\ud800",
    "\u202e\U000e0041",
    "../../../etc/passwd",
    "file:///etc/passwd",
    "${HOME} $(id) `id` {{7*7}} %s %(x)s {0.__class__}",
    "a" * 5000,
]
PLACES = {
    "list": ["query", "tags", "date_before", "date_after", "sort_by", "sort_order"],
    "get": ["id"],
    "save": ["id", "text", "tags", "text_patch"],
    "manage": ["action", "id"],
}
LISTS = {"tags", "text_patch"}
TALK_OF_SQL = re.compile(
    r"(?i)sqlite|syntax error|fts5|no such (column|table)|unterminated|SELECT "
)


def arguments(tool, place, text):
    value = [text] if place in LISTS else text
    if place == "text_patch":
        value = [{"operation": "addition", "line_number": 1, "value": text}]
    rest = {"get": {"id": "x"}, "save": {"id": "x", "local_version": 1, "text": "t"}}
    rest["manage"] = {"action": "trash", "id": "x", "local_version": 1}
    if place == "text_patch":
        rest["save"].pop("text")
    return rest.get(tool, {}) | {place: value}


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory):
    simulator = Simulator()
    simulator.load(prose(20, seed=5))
    with (
        simulator.running(),
        Server(environment(simulator, tmp_path_factory.mktemp("hostile"))) as server,
    ):
        server.loaded(sum(not note["deleted"] for note in simulator.notes().values()))
        server.notes = simulator.notes
        yield server
        assert server.leave() == 0


@pytest.mark.attack(30)
@pytest.mark.parametrize("tool", PLACES)
def test_no_argument_reaches_the_database_as_its_language(server, tool):
    before = server.notes()
    for place in PLACES[tool]:
        for text in HOSTILE:
            result = server.result(tool, **arguments(tool, place, text))
            if result.get("isError"):
                error = json.loads(result["content"][0]["text"])
                assert error["category"] in {"VALIDATION", "NOT_FOUND"}, error
                assert not TALK_OF_SQL.search(error["message"].replace(text, "")), error
    assert server.notes() == before
    assert server.tool("list")["total_items"] == sum(not n["deleted"] for n in before.values())


@pytest.mark.attack(30)
def test_a_megabyte_of_a_query_is_refused_and_of_a_text_is_kept_to_the_byte(server):
    refused = server.error("list", query="tea " * 250_000)
    assert refused["category"] == "VALIDATION"
    text = "'; DROP TABLE notes; -- \" NEAR( \U0001f600\n" * 25_000
    note = server.tool("save", text=text)
    assert server.notes()[note["id"]]["content"] == text
    found = server.tool("list", query='"drop table notes"')
    assert [row["uuid"] for row in found["content"]] == [note["id"]]
