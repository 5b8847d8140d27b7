"""Test cancelled saves through the real server: sent ones are finished, no other is sent, and what is called again stands once."""

import threading

import pytest

from notarium_devtools.http_faults import Hold
from support.talker import SERVE, Talker, call
from support.whole import Server, store_environment, until

pytestmark = pytest.mark.timeout(90)

NOTE = "*/note/i/*"


@pytest.fixture
def talker(account):
    with Talker(SERVE, env=account.environment()) as made:
        made.greet()
        yield made
        made.hang_up()
        assert made.leave()[0] == 0


def ready(talker):
    """The notes are here and the SDK serves."""
    talker.ask(call("ready", "list"))
    assert not talker.ask(call("trash", "manage", action="get_stats"))["result"]["isError"]


CALLED_OFF = {
    "jsonrpc": "2.0",
    "method": "notifications/cancelled",
    "params": {"requestId": "first"},
}


def call_off(talker, *ids):
    """Call these off; returns when the server has taken note of it."""
    method = "notifications/cancelled"
    for request_id in ids:
        message = {"jsonrpc": "2.0", "method": method, "params": {"requestId": request_id}}
        talker.send(message)
    talker.send({"jsonrpc": "2.0", "id": "heard", "method": "ping"})
    while talker.receive().get("id") != "heard":
        pass


def saved(talker):
    """One more save; returns when all are over."""
    answer = talker.ask(call("last", "save", text="last\n"))["result"]
    assert not answer["isError"], answer

    def pending():
        stats = talker.ask(call("stats", "manage", action="get_stats"))["result"]
        return stats["structuredContent"]["stats"]["pending_writes"]

    until(lambda: pending() == 0)


def texts(account):
    """What has been stored since the beginning."""
    notes = account.simulator.notes()
    return sorted(notes[note_id]["content"] for note_id in notes.keys() - {"shopping", "diary"})


@pytest.mark.parametrize("many", [6, 60])
def test_of_saves_called_off_in_the_order_they_came_only_those_sent_are_stored(
    account, talker, many
):
    sent = min(many, 5)
    ready(talker)
    release = threading.Event()
    faults = account.simulator.faults
    pushes = faults.add(Hold(release), method="POST", path=NOTE, times=sent)
    talker.send(*(call(number, "save", text=f"{number}\n") for number in range(many)))
    until(lambda: pushes.matched == sent)
    call_off(talker, *range(many))
    talker.ask(
        call("read", "manage", action="get_stats")
    )  # the server has read what came before it
    assert pushes.matched == sent
    release.set()
    saved(talker)
    assert pushes.matched == sent + 1
    assert texts(account) == [*(f"{number}\n" for number in range(sent)), "last\n"]


def test_what_is_called_off_when_it_is_sent_and_saved_again_makes_one_note(account, talker):
    ready(talker)
    release = threading.Event()
    pushes = account.simulator.faults.add(Hold(release), method="POST", path=NOTE, times=1)
    talker.send(call(7, "save", text="7\n"))
    until(lambda: pushes.matched == 1)
    call_off(talker, 7)
    talker.send(call(8, "save", text="7\n"))
    release.set()
    again = talker.receive()
    assert (again["id"], again["result"]["isError"]) == (8, False)
    assert texts(account) == ["7\n"]
    assert not talker.ask(call(9, "save", text="7\n"))["result"]["isError"]
    assert texts(account) == ["7\n", "7\n"], "that one is meant"


def test_an_undo_called_off_before_it_is_sent_is_another_one_when_it_is_called_again(
    account, talker
):
    ready(talker)
    before = account.simulator.note("shopping")["content"]
    undo = {"action": "undo", "id": "shopping", "confirm": True}
    assert not talker.ask(call(1, "save", id="shopping", append="one"))["result"]["isError"]
    release = threading.Event()
    read = account.simulator.faults.add(Hold(release), method="GET", path="*/i/shopping")
    talker.send(call(7, "manage", **undo))
    until(lambda: read.fired)
    call_off(talker, 7)
    release.set()
    saved(talker)
    assert not talker.ask(call(2, "save", id="shopping", append="two"))["result"]["isError"]
    answer = talker.ask(call(8, "manage", **undo))["result"]
    assert not answer["isError"], answer
    assert account.simulator.note("shopping")["content"] == f"{before}one\n"


def test_save_called_off_while_it_waits_to_be_tried_again_is_not_sent(account, talker):
    ready(talker)
    refusals = account.simulator.faults.status(429, method="POST", path=NOTE, retry_after="1")
    talker.send(call(7, "save", text="7\n"))
    until(lambda: refusals.fired)
    call_off(talker, 7)
    saved(talker)
    assert refusals.matched == 2
    assert texts(account) == ["last\n"]


def test_save_called_off_while_the_login_takes_long_is_not_sent(account, talker):
    release = threading.Event()
    logins = account.simulator.faults.add(Hold(release), path="*/authorize*")
    pushes = account.simulator.faults.add(Hold(release), method="POST", path=NOTE)
    talker.send(call(7, "save", text="7\n"))
    until(lambda: logins.fired)
    call_off(talker, 7)
    release.set()
    saved(talker)
    assert pushes.matched == 1
    assert texts(account) == ["last\n"]


TEXT = "# One\nred\n# Two\n"
REPEATED = {
    "the end": ({"append": "blue\n"}, "blue"),
    "a section": ({"section": "One", "append": "blue"}, "blue"),
    "a place": ({"find": "red", "replace": "red blue"}, "blue"),
}
"""Changes that would be made twice, and what would stand twice then."""


@pytest.mark.parametrize("store", ["local", "vault"])
def test_what_is_called_off_when_it_is_answered_and_called_again_stands_once(tmp_path, store):
    folder = tmp_path / "vault"
    folder.mkdir()
    with Server(store_environment(tmp_path, store, VAULT_PATH=str(folder))) as server:

        def text(note_id):
            return server.tool("get", id=note_id)["text"]

        def twice(tool, **arguments):
            for number in ("first", "again"):
                answer = server.ask(call(number, tool, **arguments))["result"]
                assert not answer["isError"], answer
                if number == "first":
                    call_off(server, number)
            return answer["structuredContent"]

        for name, (change, word) in REPEATED.items():
            note = server.tool("save", text=f"{name}\n{TEXT}")["id"]
            changed = twice("save", id=note, **change)
            assert word in str(changed["changed"])
            assert text(note).count(word) == 1
            server.tool("save", id=note, **change)
            assert text(note).count(word) == 2, "that one is meant"
            twice("manage", action="undo", id=note, confirm=True)
            assert text(note).count(word) == 1
        before = server.tool("list")["total_items"]
        made = twice("save", text="a new note\n")
        assert server.tool("list")["total_items"] == before + 1
        assert server.tool("save", text="a new note\n")["id"] != made["id"], "that one is meant"


@pytest.mark.parametrize("store", ["local", "vault"])
def test_what_was_changed_since_and_is_called_again_is_left_to_the_caller(tmp_path, store):
    (folder := tmp_path / "vault").mkdir()
    with Server(store_environment(tmp_path, store, VAULT_PATH=str(folder))) as server:
        note = server.tool("save", text="note\n")["id"]
        line = {"id": note, "append": "- water"}
        server.ask(call("first", "save", **line))
        call_off(server, "first")
        server.tool("save", id=note, find="- water", replace="- water (2l)")
        refused = server.error("save", **line)
        assert refused["subcategory"] == "conflict"
        assert server.tool("get", id=note)["text"].count("water") == 1
        server.tool("save", **line)
        assert server.tool("get", id=note)["text"].count("water") == 2, "that one is meant"
        made = server.ask(call("first", "save", text="new\n"))["result"]["structuredContent"]
        call_off(server, "first")
        named = {"id": made["id"], "local_version": made["local_version"]}
        if store == "local":
            server.tool("manage", action="trash", **named)
            assert server.tool("save", text="new\n")["id"] != made["id"], "that one is in the trash"


def test_an_id_means_the_call_that_has_had_it_last(tmp_path):
    with Server(store_environment(tmp_path, "local")) as server:
        note = server.tool("save", text="note\n")["id"]
        line = {"id": note, "append": "- water"}
        server.ask(call(7, "save", **line))
        server.send(call("7", "list"))
        call_off(server, 7)
        server.tool("save", **line)
        assert server.tool("get", id=note)["text"].count("water") == 2


def test_a_line_that_reached_its_file_when_it_was_called_off_stands_once(tmp_path):
    (file := tmp_path / "vault" / "Log.md").parent.mkdir()
    with Server(store_environment(tmp_path, "vault", VAULT_PATH=str(file.parent))) as server:
        file.write_text("one\n")
        server.loaded(1)
        server.send(call("first", "save", id=file.name, append="two\n"))
        until(lambda: "two" in file.read_text())
        server.send(CALLED_OFF, call("again", "save", id=file.name, append="two\n"))
        while (answer := server.receive())["id"] != "again":
            pass
        assert not answer["result"]["isError"], answer
        assert file.read_text().count("two") == 1
