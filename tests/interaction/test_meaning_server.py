"""Test search by meaning through real, confined servers, with a model as small as can be."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from support.tiny_model import write_model
from support.whole import Server, run, store_environment, until

pytestmark = pytest.mark.slow("each test starts servers of its own")

NOTES = {
    "dog": "Our hound ran away\ncalled the neighbours\n",
    "car": "Voiture\ngarage on Monday\n",
    "bill": "Facture of the plumber\n",
}


@pytest.fixture(name="env")
def _env(tmp_path: Path) -> dict[str, str]:
    folder = write_model(tmp_path / "model")
    return store_environment(
        tmp_path, "local", NOTARIUM_MEANING_MODEL=str(folder), NOTARIUM_SANDBOX="require"
    )


def found(server: Server, **asked: object) -> list[tuple[str, str | None]]:
    answer = server.tool("list", **asked)
    return [(row["text"], row.get("by")) for row in answer["content"]]


def says_doctor(env: dict[str, str]) -> str:
    checks = json.loads(run(env, "doctor", "--json").stdout)["findings"]
    (seen,) = [one["seen"] for one in checks if one["name"] == "meaning"]
    return str(seen)


def test_other_words_for_the_same_find_a_note_and_the_row_says_so(env: dict[str, str]) -> None:
    with Server(env) as server:
        ids = {name: server.tool("save", text=text)["id"] for name, text in NOTES.items()}
        until(lambda: found(server, query="chien"), within=60)
        first, by = found(server, query="chien")[0]
        assert (first, by) == ("Our hound ran away", "meaning")
        assert server.tool("list", query="chien")["total_items"] == 1
        # What a note says counts as before, and strict parts stay strict.
        assert found(server, query="plumber")[0] == ("Facture of the plumber", None)
        assert found(server, query="chien -neighbours") == []
        assert found(server, query="chien tag:none") == []
        # A new text has a new meaning.
        server.tool("save", id=ids["dog"], text="Loaf\n", local_version=1)
        until(lambda: found(server, query="baking")[:1] == [("Loaf", "meaning")], within=60)
        assert server.leave() == 0
    assert "every note is found by its meaning too" in says_doctor(env)


def test_of_the_notes_that_filters_leave_the_nearest_are_found(env: dict[str, str]) -> None:
    with Server(env) as server:
        server.tool("save", text="puppy\n", tags=["mine"])  # less near than the others
        for _ in range(60):
            server.tool("save", text="dog\n")
        until(lambda: len(found(server, query="chien")) == 10, within=60)
        until(lambda: found(server, query="chien tag:mine") == [("puppy", "meaning")])
        assert server.tool("list", query="chien tag:mine")["total_items"] == 1
        assert found(server, query="chien -puppy tag:mine") == []
        answer = server.tool("list", query="chien after:2020-01-01", limit=100)
        assert (len(answer["content"]), answer["total_items"]) == (10, 10)
        assert server.leave() == 0


def test_a_query_of_any_characters_is_answered(env: dict[str, str]) -> None:
    with Server(env) as server:
        server.tool("save", text=NOTES["dog"])
        until(lambda: found(server, query="chien"), within=60)
        for query in ("hound \x00", "chien " * 60, "chien" * 800):
            assert found(server, query=query)
        assert server.leave() == 0


def test_files_of_a_model_may_be_links_out_of_its_folder(
    env: dict[str, str], tmp_path: Path
) -> None:
    for file in list((tmp_path / "model").iterdir()):
        file.symlink_to(file.rename(tmp_path / f"blob-{file.name}"))
    with Server(env) as server:
        server.tool("save", text=NOTES["dog"])
        until(lambda: found(server, query="chien"), within=60)
        assert server.leave() == 0


def test_notes_in_memory_are_found_by_meaning_too(env: dict[str, str]) -> None:
    with Server(env | {"NOTARIUM_STORE": "memory"}) as server:
        server.tool("save", text=NOTES["dog"])
        until(lambda: found(server, query="chien"), within=20)
        assert server.leave() == 0


def test_an_exact_title_stays_on_top(env: dict[str, str]) -> None:
    with Server(env) as server:
        for text in ("Puppy\nnothing else\n", *("dog hound puppy\n" for _ in range(4))):
            server.tool("save", text=text)
        until(lambda: found(server, query="chien"), within=60)
        assert found(server, query="puppy")[0] == ("Puppy", None)
        assert server.leave() == 0


def test_a_killed_server_leaves_nothing_half_done(env: dict[str, str]) -> None:
    with Server(env) as server:
        for text in NOTES.values():
            server.tool("save", text=text)
        until(lambda: found(server, query="chien"), within=60)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with Server(env) as server:
        wanted = ("Facture of the plumber", "meaning")
        until(lambda: found(server, query="rechnung")[:1] == [wanted], within=60)
        assert server.leave() == 0


@pytest.mark.parametrize("broken", ["folder", "model"])
def test_a_model_that_cannot_be_used_is_told_and_stops_nothing(
    env: dict[str, str], tmp_path: Path, broken: str
) -> None:
    if broken == "folder":
        env["NOTARIUM_MEANING_MODEL"] = str(tmp_path / "nowhere")
    else:
        (tmp_path / "model" / "model.onnx").write_bytes(b"no model at all")
    with Server(env) as server:
        server.tool("save", text=NOTES["dog"])
        assert found(server, query="hound") == [("Our hound ran away", None)]
        if broken == "folder":
            notices = server.tool("manage", action="get_stats")["stats"]["notices"]
            assert any("NOTARIUM_MEANING_MODEL" in one for one in notices)
        else:
            until(lambda: "meaning.unusable" in server.errors(), within=60)
        assert server.leave() == 0
    assert "search by meaning cannot use the folder" in says_doctor(env)


@pytest.mark.parametrize("store", ["local", "memory"])
def test_doctor_names_a_model_that_cannot_be_used_before_there_is_a_cache(
    tmp_path: Path, store: str
) -> None:
    def seen(**settings: str) -> tuple[str, str, str]:
        checks = json.loads(run(env | settings, "doctor", "--json").stdout)["findings"]
        (one,) = [one for one in checks if one["name"] == "meaning"]
        return one["state"], one["seen"], one["hint"]

    model = write_model(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    env = store_environment(tmp_path, store)
    for folder, why in (
        (tmp_path / "nope", "there is no such folder"),
        (tmp_path / "empty", "it has no model.onnx and no sentencepiece.bpe.model"),
    ):
        state, said, hint = seen(NOTARIUM_MEANING_MODEL=str(folder))
        assert (state, said.endswith(f"{folder}: {why}")) == ("warn", True), said
        assert "Let NOTARIUM_MEANING_MODEL name a folder with" in hint
    assert seen(NOTARIUM_MEANING_MODEL=str(model))[:2] == ("ok", "the model can be used")
    assert not (tmp_path / "data").exists()
    checks = json.loads(run(env, "doctor", "--json").stdout)["findings"]
    assert "meaning" not in [one["name"] for one in checks]
