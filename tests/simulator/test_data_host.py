"""Test the data host over real HTTP: objects, versions, listings, texts of refusals."""

from __future__ import annotations

import json
from urllib.parse import quote

import httpx
import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import dirty


def test_a_post_with_response_answers_the_object_and_its_version(wire, note):
    answer = wire.post("i/a?response=1", note("hello"))

    assert answer.status_code == 200
    assert answer.headers["X-Simperium-Version"] == "1"
    assert answer.json() == note("hello")


def test_a_post_without_response_answers_nothing_but_the_version(wire, note):
    answer = wire.post("i/a", note())

    assert (answer.content, answer.headers["X-Simperium-Version"]) == (b"", "1")


def test_get_answers_the_bare_object_at_any_kept_version(wire, note):
    wire.post("i/a", note("one"))
    wire.post("i/a", {"content": "two"})

    newest, older = wire.get("i/a"), wire.get("i/a/v/1")

    assert (newest.json()["content"], newest.headers["X-Simperium-Version"]) == ("two", "2")
    assert (older.json()["content"], older.headers["X-Simperium-Version"]) == ("one", "1")


@pytest.mark.parametrize("path", ["i/none", "i/a/v/9", "i/a/v/0", "i/a/v/x", "i/a/b", "none", ""])
def test_what_is_not_there_is_404_in_html(wire, note, path):
    wire.post("i/a", note())

    answer = wire.get(path)

    assert answer.status_code == 404
    assert "<title>404: Not Found</title>" in answer.text
    assert answer.headers["Content-Type"].startswith("text/html")


def test_a_stale_post_is_merged_and_answered_200(wire, note):
    wire.post("i/a", note("b"))
    wire.post("i/a/v/1", {"content": "bc"})

    answer = wire.post("i/a/v/1?response=1", {"content": "bd"})

    assert (answer.status_code, answer.headers["X-Simperium-Version"]) == (200, "3")
    assert answer.json()["content"] == "bcd"


def test_refused_posts_carry_their_status(wire, note):
    wire.post("i/a?ccid=c1", note())

    assert wire.post("i/a?ccid=c1", {"content": "x"}).status_code == 409
    assert wire.post("i/a", note()).status_code == 412
    assert wire.post("i/a/v/7", {"content": "x"}).status_code == 404
    assert wire.post("i/b/v/1", note()).status_code == 404
    assert wire.post("i/b", [1]).status_code == 400
    assert wire.ask("POST", "i/b", content=b"{").status_code == 400
    assert wire.ask("POST", "i/b", content=b'{"content": NaN}').status_code == 400
    assert wire.ask("POST", "i/a", content=b'{"junk": NaN}').status_code == 400
    assert wire.ask("POST", "i/b", content=b"[" * 100_000).status_code == 400
    assert wire.ask("PUT", "i/a", json=note()).status_code == 405


def test_a_schema_refusal_names_the_field(wire):
    answer = wire.post("i/a", {"content": "only"})

    assert answer.status_code == 400
    assert answer.json()["field"] == "creationDate"


def test_too_large_a_note_is_413(note):
    simulator = Simulator(max_note_bytes=5_000)
    simulator.put("a", note())
    with simulator.running():
        answer = httpx.post(
            f"{simulator.api_url}/{simulator.app_id}/note/i/a",
            headers={"X-Simperium-Token": simulator.token},
            json={"content": "x" * 5_001},
            trust_env=False,
            verify=False,
        )

    assert answer.status_code == 413
    assert simulator.version("a") == 1


def test_replace_is_asked_for_by_parameter(wire, sim, note):
    sim.put("a", {**note(), "junk": 1})

    wire.post("i/a?replace=1", note("new"))

    assert sim.note("a") == note("new")


def test_delete_wants_the_trash_first_and_the_newest_version(wire, note):
    wire.post("i/a", note())
    untrashed = wire.delete("i/a")
    wire.post("i/a", {"deleted": True})
    stale = wire.delete("i/a/v/1")
    guarded = wire.delete("i/a/v/2")

    assert (untrashed.status_code, stale.status_code, guarded.status_code) == (400, 405, 200)
    assert guarded.content == b""
    assert wire.delete("i/a").status_code == 404
    assert wire.get("i/a/v/1").status_code == 404


def test_a_tag_object_needs_no_trash(wire):
    wire.post("i/work", {"name": "Work"}, bucket="tag")

    assert wire.delete("i/work", bucket="tag").status_code == 200


def test_bucket_names_ignore_case_and_app_ids_do_not(wire, sim, note):
    wire.post("i/a", note(), bucket="Note")

    assert wire.get("i/a", bucket="nOTE").status_code == 200
    other = wire.client.get(
        f"{sim.api_url}/another-app/note/i/a", headers={"X-Simperium-Token": sim.token}
    )
    assert other.status_code == 401


def test_ids_are_percent_decoded_exactly_once(wire, sim):
    sim.bucket("tag").force_write("a%20b", {"name": "a b"})

    assert wire.get("i/a%2520b", bucket="tag").status_code == 200
    assert wire.get("i/a%20b", bucket="tag").status_code == 400
    assert wire.get("i/a%2Fb", bucket="tag").status_code == 400
    assert wire.get("i/%ff", bucket="tag").status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Simperium-Token": ""},
        {"X-Simperium-Token": "0" * 32},
        {"X-Simperium-Token": "", "Authorization": "Basic dTpw"},
    ],
)
def test_without_a_good_token_everything_is_401(wire, headers):
    assert wire.get("index", headers=headers).status_code == 401
    assert wire.post("i/a", {}, headers=headers).status_code == 401


def test_the_older_bearer_header_works_too(wire, sim):
    headers = {"X-Simperium-Token": "", "Authorization": f"BEARER {sim.token}"}

    assert wire.get("index", headers=headers).status_code == 200


def test_the_index_lists_ids_and_versions_and_with_data_the_objects(wire, sim, note):
    sim.put("a", note("one"))
    sim.put("b", note("two", deleted=True))

    bare, full = wire.get("index").json(), wire.get("index?data=true").json()

    assert bare == {
        "current": sim.bucket().current,
        "index": [{"id": "b", "v": 1}, {"id": "a", "v": 1}],
    }
    assert [entry["d"] for entry in full["index"]] == [sim.note("b"), sim.note("a")]


def test_the_index_shows_the_newest_object_after_an_edit(wire, sim, note):
    sim.put("a", note("one"))
    wire.get("index?data=1")
    sim.edit("a", content="two")

    [entry] = wire.get("index?data=1").json()["index"]

    assert (entry["v"], entry["d"]) == (2, sim.note("a"))


def test_pages_are_100_by_default_and_1000_at_most(wire, sim, note):
    sim.load({f"n{number}": note(str(number)) for number in range(1_200)})

    assert len(wire.get("index").json()["index"]) == 100
    assert len(wire.get("index?limit=5000").json()["index"]) == 1_000
    assert wire.get("index?limit=ten").status_code == 400


def test_the_last_of_repeated_marks_counts(wire, sim, note):
    sim.load({f"n{number}": note(str(number)) for number in range(6)})
    first = wire.get("index?limit=2").json()["mark"]
    second = wire.get(f"index?limit=2&mark={first}").json()["mark"]

    last = wire.get(f"index?limit=2&mark={first}&mark={second}").json()

    assert [entry["id"] for entry in last["index"]] == ["n1", "n0"]
    assert "mark" not in last


def test_a_write_between_two_pages_is_missed_and_moves_current(wire, sim, note):
    sim.load({f"n{number}": note(str(number)) for number in range(4)})
    rule = sim.between_pages(lambda: sim.edit("n0", content="jumped"))

    first = wire.get("index?limit=2").json()
    second = wire.get(f"index?limit=2&mark={first['mark']}").json()

    assert rule.fired == 1
    assert [entry["id"] for entry in second["index"]] == ["n1"]
    assert second["current"] != first["current"]
    changed = wire.get(f"index?since={first['current']}").json()
    assert [entry["id"] for entry in changed["index"]] == ["n0"]


def test_an_unknown_since_is_404(wire):
    assert wire.get("index?since=000000000000000000000000").status_code == 404


def test_dirty_notes_come_out_as_they_went_in(wire, sim):
    dirt = dirty()
    sim.load(dirt.notes)
    sim.bucket("tag").load(dirt.tags)

    listed = wire.get("index?limit=1000&data=1").json()["index"]

    assert {entry["id"]: entry["d"] for entry in listed} == dirt.notes
    for note_id, value in dirt.notes.items():
        assert json.loads(wire.get(f"i/{quote(note_id, safe='')}").content) == value


def test_two_accounts_see_their_own_notes_only(wire, sim, note):
    other = sim.add_account("other@example.com", "another long password")
    sim.put("mine", note())

    answer = wire.get("index", headers={"X-Simperium-Token": other.token})

    assert answer.json()["index"] == []
    sim.device("other@example.com").put("theirs", content="x")
    assert sorted(sim.notes()) == ["mine"]
