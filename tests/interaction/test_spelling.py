"""Misspelt words through a connected client: searched as what they mean, and told; never by hidden notes."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from mcp_notarium.domain.policy import PERMISSIVE, Field, Policy
from mcp_notarium.domain.visibility import Visibility
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
