"""Test that a third-party client for the real service works against the simulator."""

from __future__ import annotations

import pytest
from simplenote import simplenote as library

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose

# The client lets go of refused answers without closing them; Python 3.14 warns of that.
pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")


@pytest.fixture
def sim(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    # The client carries an application key of its own; the simulator is told to accept that one.
    with Simulator(api_key=library.API_KEY.decode()).running() as simulator:
        app = f"{simulator.url}/1/{simulator.app_id}"
        monkeypatch.setattr(library, "AUTH_URL", f"{app}/authorize/")
        monkeypatch.setattr(library, "DATA_URL", f"{app}/note")
        yield simulator


@pytest.fixture
def client(sim):
    return library.Simplenote(sim.username, sim.password)


def done(answer):
    value, status = answer
    assert status == 0, value
    return value


def test_it_logs_in(client, sim):
    assert client.get_token() == sim.token


def test_a_wrong_password_is_refused(sim):
    with pytest.raises(library.SimplenoteLoginFailed):
        library.Simplenote(sim.username, "wrong").get_token()


def test_a_dead_token_is_noticed(client, sim):
    client.get_token()
    sim.change_password("a new long password")

    with pytest.raises(library.SimplenoteLoginFailed):
        client.get_note_list()


def test_it_adds_a_note(client, sim):
    note = done(client.add_note({"content": "first line\nsecond", "tags": ["b", "a"]}))

    assert note["version"] == 1
    assert sim.note(note["key"])["content"] == "first line\nsecond"
    assert sim.note(note["key"])["tags"] == ["b", "a"]


def test_it_reads_a_note_with_its_tags_and_version(client, sim):
    sim.put("abc", content="text", tags=["z", "a"])
    sim.edit("abc", content="text 2")

    note = done(client.get_note("abc"))

    assert (note["content"], note["tags"], note["version"]) == ("text 2", ["a", "z"], 2)


def test_it_updates_a_note_from_its_version(client, sim):
    note = done(client.add_note("one"))
    sim.edit(note["key"], content="one\nfrom elsewhere")

    merged = done(client.update_note({**note, "content": "zero one"}))

    assert merged["version"] == 3
    assert merged["content"] == "zero one\nfrom elsewhere"


def test_it_reads_older_versions_and_misses_unknown_ones(client, sim):
    note = done(client.add_note("one"))
    sim.edit(note["key"], content="two")

    assert done(client.get_note(note["key"], version=1))["content"] == "one"
    refusal, status = client.get_note(note["key"], version=7)
    assert (refusal.code, status) == (404, -1)
    refusal.close()


def test_it_lists_every_note_over_several_pages(client, sim, monkeypatch):
    monkeypatch.setattr(library, "NOTE_FETCH_LENGTH", 7)
    sim.load(prose(40))

    notes = done(client.get_note_list())

    assert {note["key"]: note["content"] for note in notes} == {
        key: note["content"] for key, note in sim.notes().items()
    }
    assert len(notes) == 40
    assert client.current == sim.bucket().current


def test_it_lists_without_data_by_tag_and_since(client, sim):
    sim.put("a", content="x", tags=["red"])
    done(client.get_note_list())
    sim.put("b", content="y", tags=["blue"])

    assert [n["key"] for n in done(client.get_note_list(data=False))] == ["b", "a"]
    assert [n["key"] for n in done(client.get_note_list(tags=["red"]))] == ["a"]


def test_it_lists_what_changed_since(client, sim):
    sim.put("a", content="x")
    done(client.get_note_list())
    sim.put("b", content="y")

    assert [n["key"] for n in done(client.get_note_list(since=client.current))] == ["b"]


def test_it_trashes_and_deletes_a_note(client, sim):
    note = done(client.add_note("to go"))

    done(client.trash_note(note["key"]))
    assert sim.note(note["key"])["deleted"] is True

    assert done(client.delete_note(note["key"])) == {}
    assert sim.notes() == {}


def test_it_learns_that_a_note_is_gone(client):
    refusal, status = client.get_note("nosuchnote")

    assert (refusal.code, status) == (404, -1)
    refusal.close()
