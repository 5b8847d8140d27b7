"""Misspelt words through a connected client: searched as what they mean, and told; never by hidden notes."""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager

import anyio
import pytest

from mcp_notarium.domain.policy import PERMISSIVE, Field, Policy, Visibility
from mcp_notarium.storage import vocabulary
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio

MEANT = {
    # A letter is missing.
    "graph": "grph", "object": "objct", "community": "comunity", "calendar": "calendr",
    "archivos": "archvos", "recherche": "recherhe", "straßenbahn": "straenbahn",
    "аутентификация": "аутентфикация", "заметка": "замтка", "ημερολόγιο": "ημερολογο",
    # A letter stands twice, or once where it is double.
    "selenium": "sellenium", "tandoori": "tandori", "boulettes": "bouletes", "cursor": "currsor",
    "documento": "documentto", "kalender": "kallender", "проект": "проеект", "βιβλίο": "βιβλλιο",
    # Two letters are swapped, also over the middle and at the ends.
    "publish": "pubilsh", "lighthouse": "lihgthouse", "domain": "domian", "heredocs": "heredcos",
    "receive": "recieve", "lesezeichen": "lesezeihcen", "bisect": "bisetc", "zebra": "ezbra",
    "voiture": "voitrue", "телефон": "телеофн", "ποίημα": "πιοημα",
    # A letter is wrong.
    "mountain": "mountein", "separate": "seperate", "concert": "consert", "fenêtre": "fenetra",
    "ventana": "vemtana", "schlüssel": "schlössel", "билет": "белет", "θάλασσα": "θελασσα",
    # The first letter is wrong.
    "password": "oassword", "umbrella": "ymbrella", "quittung": "auittung", "dimanche": "simanche",
    "крокодил": "прокодил",
    # An umlaut is spelled out, or not.
    "bäume": "baeume", "größe": "groesse", "müller": "mueller", "överföring": "oeverfoering",
    "goethe": "göthe", "uebung": "übung",
    # The key beside is hit.
    "backup": "bavkup", "network": "netwprk", "janvier": "janvuer", "rechnung": "rechnumg",
    "viernes": "viermes", "погода": "пошода", "κουζίνα": "κουζονα",
    # Two mistakes in a long word; letters too many.
    "datenwiederherstellung": "datenwiderhestellung", "infrastructure": "infrastrukture",
    "refrigerator": "refridgerator", "necessary": "neccesary", "photographie": "fotographie",
    "вдохновение": "вдахнавение", "δημοκρατία": "δυμοκρατηα",
}  # fmt: skip

PLACES = ("harbour", "meadow", "kitchen", "library")


@asynccontextmanager
async def asked(folder, *notes, policy: Policy = PERMISSIVE, hidden=()):
    """Give what calls ``list`` at a server of these notes; ``hidden`` ones have the tag ``private``."""
    folder.mkdir(exist_ok=True)
    harness = ToolHarness(folder, policy=policy)
    for number, text in enumerate(notes):
        harness.store.put(f"n{number}", text)
    for number, text in enumerate(hidden):
        harness.store.put(f"h{number}", text, tags=["private"])
    await harness.sync()
    async with connected(harness.opened) as client:

        async def ask(query, **more):
            answer = await client.call_tool("list", {"query": query, **more})
            assert not answer.is_error
            return answer.structured_content

        yield ask
    harness.close()


@pytest.fixture(scope="module", name="filler")
def _filler():
    """Notes that have the words that are meant, each with one of four others."""
    return [f"{word}\n{PLACES[number % 4]}" for number, word in enumerate(MEANT)]


@pytest.mark.parametrize(("meant", "typed"), MEANT.items(), ids=MEANT.values())
async def test_a_misspelt_word_is_searched_as_what_it_means_beside_others_and_alone(
    tmp_path, filler, meant, typed
):
    async with asked(tmp_path, *filler) as ask:
        place = PLACES[list(MEANT).index(meant) % 4]
        answer = await ask(f"{typed} {place}")
        assert answer["corrected"] == {typed: meant}
        assert answer["content"][0]["text"].split()[0] == meant
        assert "lacks" not in answer["content"][0]
        alone = await ask(typed)
        assert meant in (alone.get("corrected", {}).get(typed), *alone.get("suggestions", ()))


async def test_the_commonest_near_word_is_meant_and_a_second_mistake_or_another_start_makes_it_less(
    tmp_path,
):
    notes = [*["an object here"] * 9, "objc there", *["a table, a fable, a cable"] * 3, "tables"]
    notes += [*["mordante"] * 3, *["merdante"] * 12, *["kurvun"] * 3, *["kurvon"] * 2]
    async with asked(tmp_path, *notes) as ask:
        answer = await ask("objct")
        assert (answer["corrected"], answer["total_items"]) == ({"objct": "object"}, 9)
        for query in ("mordanto", "mordanto here"):
            assert (await ask(query))["corrected"] == {"mordanto": "mordante"}
        # Two words may be meant nearly alike: neither is searched alone.
        answer = await ask("kurvin")
        assert (answer["total_items"], "corrected" in answer) == (0, False)
        assert answer["suggestions"] == ["kurvun", "kurvon"]
        answer = await ask("xable")
        assert (answer["total_items"], "corrected" in answer) == (0, False)
        assert answer["suggestions"] == ["table", "cable", "fable"]


async def test_what_is_found_by_the_word_itself_stands_above_what_its_correction_finds(tmp_path):
    notes = [*["river bank"] * 3, "river lighthouse", "lighthouse", *["meadow"] * 9]
    async with asked(tmp_path, *notes) as ask:
        answer = await ask("lihgthouse river")
        assert answer["corrected"] == {"lihgthouse": "lighthouse"}
        first, *rest = answer["content"]
        assert (first["text"], "lacks" in first) == ("river lighthouse", False)
        assert _plain(rest, "lighthouse")["lacks"] == ["river"]
        assert _plain(rest, "river bank")["lacks"] == ["lihgthouse"]
        assert answer["total_items"] == 5


def _plain(rows, text):
    return next(row for row in rows if row["text"] == text)


async def test_a_word_that_one_note_has_is_searched_as_it_is_and_a_much_commoner_one_offered(
    tmp_path,
):
    notes = [*["a calendar"] * 50, "my calender", *["a lantern"] * 49, "my lanterm"]
    async with asked(tmp_path, *notes) as ask:
        answer = await ask("calender")
        assert (answer["total_items"], answer["suggestions"]) == (1, ["calendar"])
        assert "corrected" not in answer
        answer = await ask("lanterm")
        assert answer["total_items"] == 1
        assert "suggestions" not in answer


@pytest.mark.parametrize(
    "query", ['"lihgthouse"', "lihgthouse*", "-lihgthouse meadow", "123456789", "cta", "route66b"]
)
async def test_what_is_quoted_short_or_a_number_is_searched_as_it_is_typed(tmp_path, query):
    notes = ["lighthouse 123456788 cat route67b", "meadow", "meadow", "field"]
    async with asked(tmp_path, *notes) as ask:
        answer = await ask(query)
        assert "corrected" not in answer
        assert "lighthouse 123456788" not in json.dumps(answer)


async def test_a_word_inside_another_one_is_not_misspelt(tmp_path):
    async with asked(tmp_path, "Dampfschifffahrt", *["schief"] * 9) as ask:
        answer = await ask("schiff")
        assert (answer["total_items"], answer["inside_words"]) == (1, True)
        assert "corrected" not in answer


async def test_parts_of_an_identifier_are_corrected_apart(tmp_path):
    async with asked(tmp_path, "group_concat joins rows", *["concat"] * 3, "rows") as ask:
        answer = await ask("gropu_concat")
        assert answer["corrected"] == {"gropu": "group"}
        assert answer["content"][0]["text"] == "group_concat joins rows"


@pytest.mark.parametrize("joint", [" ", " AND "], ids=["any", "all"])
async def test_each_of_many_words_that_find_nothing_gets_a_suggestion_if_one_is_near(
    tmp_path, joint
):
    dead = [f"quxwv{letter}zzkj" for letter in "abcdefghijkl"]
    notes = ["table cable fable sable", "gable"]
    async with asked(tmp_path, *notes) as ask:
        answer = await ask(joint.join([*dead, "zable"]))
        assert answer["total_items"] == 0
        assert answer["suggestions"] == ["cable", "fable", "gable"]


@pytest.mark.parametrize("visible", [0, 1])
async def test_words_of_hidden_notes_are_neither_searched_nor_offered_nor_counted(
    tmp_path, visible
):
    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    seen = ["meadow field", "zymurgy", *["zymurgist"] * visible]
    hidden = ["zymurgists zymurgist meadow"] * 60
    async with asked(tmp_path / "with", *seen, policy=policy, hidden=hidden) as ask:
        there = [_said(await ask(query)) for query in HIDDEN_QUERIES]
    async with asked(tmp_path / "without", *seen, policy=policy) as ask:
        assert there == [_said(await ask(query)) for query in HIDDEN_QUERIES]
    assert ("zymurgist" in json.dumps(there)) == bool(visible)


HIDDEN_QUERIES = ("zymurgisd", "zymurgisd meadow", "zymurgistt", "symurgist field", "meadwo")


def _said(answer):
    return {
        name: value
        for name, value in answer.items()
        if name not in ("begin_untrusted", "untrusted_end")
    }


async def test_words_of_a_note_that_becomes_hidden_are_gone_with_it(tmp_path):
    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    harness = ToolHarness(tmp_path, policy=policy)
    harness.store.put("a", "zymurgist")
    harness.store.put("b", "meadow")
    await harness.sync()
    async with connected(harness.opened) as client:
        found = await client.call_tool("list", {"query": "zymurgisd"})
        assert found.structured_content["corrected"] == {"zymurgisd": "zymurgist"}
        harness.store.put("a", "zymurgist", tags=["private"])
        await harness.sync()
        found = await client.call_tool("list", {"query": "zymurgisd"})
        assert _said(found.structured_content) == {"content": [], "total_items": 0}
    harness.close()


async def test_words_outside_the_limits_of_the_query_are_not_meant(tmp_path):
    harness = ToolHarness(tmp_path)
    harness.store.put("a", "calendar", tags=["old"])
    harness.store.put("b", "a kalendar", tags=["new"])
    harness.store.put("c", "calendar", trash=True)
    await harness.sync()
    async with connected(harness.opened) as client:

        async def corrected(query):
            return (await client.call_tool("list", {"query": query})).structured_content.get(
                "corrected"
            )

        assert await corrected("calender tag:old") == {"calender": "calendar"}
        assert await corrected("kalender tag:new") == {"kalender": "kalendar"}
        assert await corrected("calender tag:none") is None
        # A word that only notes outside of the limits have is corrected within them.
        assert await corrected("kalendar tag:old AND calendar") is None
        assert await corrected("calender trash:yes") == {"calender": "calendar"}
    harness.close()


async def test_words_of_hidden_tags_are_neither_searched_nor_offered(tmp_path):
    harness = ToolHarness(tmp_path, policy=Policy(hidden_fields=frozenset({Field.TAGS})))
    harness.store.put("a", "meadow", tags=["zymurgist"])
    harness.store.put("b", "field")
    await harness.sync()
    async with connected(harness.opened) as client:
        for query in ("zymurgisd", "zymurgisd meadow"):
            said = json.dumps((await client.call_tool("list", {"query": query})).structured_content)
            assert "zymurgist" not in said
    harness.close()


async def test_the_answer_says_that_words_are_still_being_read(tmp_path, monkeypatch):
    monkeypatch.setattr(vocabulary, "_LONGEST_WAIT", 0.05)
    going, read = threading.Event(), vocabulary._read_terms

    def read_late(database):
        assert going.wait(10)
        return read(database)

    monkeypatch.setattr(vocabulary, "_read_terms", read_late)
    async with asked(tmp_path, "lighthouse", "meadow", "Dampfschifffahrt") as ask:
        for query in ("lihgthouse", "schiff", "lihgthouse meadow"):
            answer = await ask(query)
            assert "corrected" not in answer
            assert "still being read" in answer["note"]
        assert "note" not in await ask("-lighthouse")
        going.set()
        with anyio.fail_after(5):
            while "note" in (answer := await ask("lihgthouse")):
                pass
        assert answer["corrected"] == {"lihgthouse": "lighthouse"}
