"""Test each row of the table of writes by stories that lead to it, made up but for what the row needs.

Whatever else happens in them: no text is lost or doubled, nothing is shown that is hidden, no entry stays, and a refused write has
changed nothing. A row that none of its stories reaches fails.
"""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import WriteKind
from mcp_notarium.stores.vault import folder as vault_folder
from mcp_notarium.sync import write_attempt, write_commit, write_decisions
from mcp_notarium.sync.write_decisions import DECISIONS, Attempt, Step
from support.long import LONG
from support.memory_client import ROWS
from support.sync_rig import quick_folder
from support.write_stories import OURS, Player

OVERWRITING = ["example", "events", "trilium", "vault"]
"""Stores where the last writer wins."""
UNNAMED = ["example", "events", "trilium", "memento"]
"""Stores that do not know a repeated write, and whose ids are no names."""
GUARDED = ["local", "memento"]
KNOWING = ["simplenote", "local"]
"""Stores that know a repeated write."""
NEW, TOP, LINE, GONE = ({"write": one} for one in ("create", "top", "line", "remove"))
CUT, LOST = {1: "cut"}, {1: "lost"}
RENAME, UNDO = {"store": "files", "write": "rename"}, {"store": "app", "write": "undo"}
HIDDEN, SHOWN = {"later": "hidden property"}, {"caller": "shown tags", "later": "shown tags"}
BARE = NEW | LOST | {"store": ["example", "events", "trilium"], "between": "no tags"}
COPIED = LINE | {"store": OVERWRITING, "at 1": "same line"}
REPAIRED = TOP | {"store": OVERWRITING, "at 1": "line"}
AIMS = (
    NEW,
    {"write": "again", "store": "vault", "at 1": "take"},
    NEW | {"store": "vault", "at 1": "take"},
    NEW | {1: "refused"},
    COPIED,
    COPIED | {"store": "vault", "at 2": "take"},
    COPIED | {2: "refused"},
    NEW | LOST | {"store": KNOWING, "between": "remove"},
    NEW | CUT,
    NEW | LOST,
    BARE | SHOWN | {"left": ()},
    BARE | {"left": ("ai", "also")},
    NEW | LOST | {"store": UNNAMED, "between": "line"},
    NEW | {"store": "vault", "twin": True, "at 2": "same line"},
    NEW | CUT | {"store": "vault", "between": "take"},
    NEW | CUT | {"store": "vault", "between": "take", "at 2": "take"},
    NEW | CUT | {"store": "vault", "at 2": "take"},
    NEW | CUT | {2: "refused"},
    TOP | {"before": "remove"},
    TOP,
    {"write": "same"},
    TOP | {"before": "line", "exact": True},
    SHOWN | {"write": "fewer tags", "before": "fewer tags"},
    TOP | {"before": "line"},
    LINE | {"before": "same line", "bulk": True},
    LINE | {"before": "same line"},
    RENAME | {"at 1": "take name"},
    UNDO | {"before": "set"},
    TOP | {"store": GUARDED, "at 1": "line"},
    TOP | {1: "refused"},
    REPAIRED,
    RENAME | {2: "refused"},
    REPAIRED | {2: "refused"},
    TOP | {"store": GUARDED, "twin": True, "at 2": "remove"},
    CUT | {"write": "tags", "between": "remove"},
    CUT | HIDDEN | {"write": "unpinned", "store": KNOWING, "between": "remove"},
    TOP | CUT | {"between": "remove"},
    CUT | HIDDEN | {"write": "unpinned", "store": KNOWING},
    TOP | CUT,
    LOST | {"write": "tags", "store": "simplenote", "at 1": "hide"},
    TOP | LOST,
    CUT | HIDDEN | {"write": "unpinned", "store": KNOWING, "between": "line"},
    TOP | CUT | {"between": "line"},
    LINE | {"store": "memento", "twin": True, "at 2": "same line"},
    RENAME | {2: "cut", "between": "rewrite hub"},
    CUT | HIDDEN | {"write": "unpinned line", "store": KNOWING, "between": "same line"},
    LINE | CUT | {"between": "same line"},
    RENAME | {"stop": "recorded", "between": "take name"},
    UNDO | CUT | {"between": "set"},
    TOP | CUT | {"store": GUARDED, "at 2": "line"},
    RENAME | {2: "cut", 3: "refused"},
    TOP | CUT | {2: "refused"},
    NEW,
    TOP,
    REPAIRED | {"at 2": "line"},
    NEW | {"store": OVERWRITING, "after 1": "line"},
    REPAIRED,
    REPAIRED | {"over 2": "line"},
    NEW | {"store": OVERWRITING, "after 1": "remove"},
    TOP | {"store": "example", "at 1": "line", "after 1": "remove"},
    TOP | {"store": "vault", "at 1": "exchange"},
    NEW | CUT | {"store": "simplenote", "after 2": "rewrite", 2: "seen late"},
    TOP | {"store": "simplenote", "after 1": "rewrite", 1: "seen late"},
    GONE | {"store": "vault", "at 1": "move", 1: "refused"},
    GONE | {"before": "remove", "informed": True},
    GONE,
    GONE | {"before": "line", "informed": True},
    GONE | {1: "refused"},
    GONE | LOST,
    GONE | CUT | {"store": KNOWING},
    GONE | CUT | {"store": UNNAMED},
    GONE | CUT | {"between": "line"},
    GONE | CUT | {"store": GUARDED, "at 2": "line"},
    GONE | CUT | {"store": KNOWING, 2: "refused"},
    GONE,
)
"""What each row needs, in the order of the rows; for one about new and changed notes two, of each one.

Numbers are faults of requests; ``store``, ``write``, ``stop``, ``twin`` and the like are fields of a story; the others are moments of acts.
"""
COPIES = {(number, WriteKind.CREATE) for number in (4, 5)}
COPIES |= {(number, WriteKind.UPDATE) for number in (36, 46, 55, 56, 57, 58)}
"""Rows whose stories, if nothing else happens, end with a conflict copy."""
KEPT = {59, 62, 63, 66, 67, 68, 69}
"""Rows whose stories end with the note that was to be removed."""
HALVES = [
    (number, kind)
    for number, row in enumerate(DECISIONS)
    for kind in ((row.kind,) if row.kind else (WriteKind.CREATE, WriteKind.UPDATE))
]
MOMENTS = ("before", "at 1", "after 1", "between", "at 2", "after 2", "at 3")
ACTS = ("line", "same line", "rewrite", "remove", "bring back", "hide", "take", "fewer tags")
FAULTS = ("unsent", "refused", "cut", "lost")


@st.composite
def stories(draw, aim):
    """What the row needs, and up to two misfortunes more."""
    stores = aim.get("store", sorted(ROWS))
    store = draw(st.sampled_from([stores] if isinstance(stores, str) else stores))
    story = {
        "store": store,
        "write": aim["write"],
        "caller": aim.get("caller", "all"),
        "later": aim.get("later", draw(st.sampled_from(["all", "all", "hidden tag"]))),
        "acts": {key: name for key, name in aim.items() if f"{key}".partition(" ")[0] in _WHEN},
        "faults": {key: name for key, name in aim.items() if isinstance(key, int)},
        "stop": aim.get("stop", ""),
        "twin": aim.get("twin", False),
        "informed": aim.get("informed", False),
        "exact": aim.get("exact", False),
        "bulk": aim.get("bulk", False),
    }
    story["more"] = draw(st.integers(0, 2))
    if story["twin"]:
        story["later"] = story["caller"]  # others with other rules have another index
    for _ in range(story["more"]):
        if draw(st.booleans()):
            moment, name = draw(st.sampled_from(MOMENTS)), draw(st.sampled_from(ACTS))
            story["acts"].setdefault(moment, name)
        elif draw(st.booleans()):
            number, name = draw(st.integers(1, 4)), draw(st.sampled_from(FAULTS))
            story["faults"].setdefault(number, name)
        else:
            steps = ["recorded", "pushed", "committed"]
            story["stop"] = story["stop"] or draw(st.sampled_from(steps))
    return story


_WHEN = ("before", "at", "after", "over", "between")


def compare(half, aim, player):
    """What a row decides is what comes of a story in which nothing else happens."""
    row, held = DECISIONS[half[0]], player.place.contents()
    ours = [one for one in held.values() if OURS in one.text]
    copies = sum(one.text.startswith(MARK) for one in held.values())
    assert copies == (half in COPIES), "another number of conflict copies"
    assert "left" not in aim or ours[0].tags == aim["left"], "other tags"
    if row.kind is WriteKind.DELETE:
        assert any("five" in one.text for one in held.values()) == (half[0] in KEPT)
    if row.attempt is Attempt.FIRST or (row.attempt, row.step) == (Attempt.FOLLOWING, Step.PUSH):
        refused = player.error is not None
        assert refused == (row.step is Step.REFUSE), "the caller is told something else"


@pytest.mark.parametrize(
    ("half", "aim"),
    [*zip(HALVES, AIMS, strict=True)],
    ids=[f"{number}-{kind}" for number, kind in HALVES],
)
def test_stories_that_lead_to_a_row_keep_every_promise(monkeypatch, half, aim):
    reached, row = set(), DECISIONS[half[0]]

    def decide(case):
        number = next(number for number, row in enumerate(DECISIONS) if row.covers(case))
        reached.add((number, case.kind))
        return write_decisions.decide(case)

    monkeypatch.setattr(write_attempt, "decide", decide)
    monkeypatch.setattr(write_commit, "decide", decide)
    monkeypatch.setattr(vault_folder, "SETTLED", 0.0)

    @settings(
        max_examples=100 if LONG else 12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(story=stories(aim))
    def play(story):
        with quick_folder() as folder:
            player = Player(story, folder)
            asyncio.run(player.play())
            if not story["more"]:
                compare(half, aim, player)

    play()
    assert half in reached, f"no story reaches {row}"
