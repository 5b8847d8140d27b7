"""See that what is broken on purpose is found, and told in words."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress

import pytest

from explorer.kept import KEPT
from explorer.run import forget_loaded, replayed, seeded, shorten, tell
from explorer.shares import ALL_BREAKS
from support.long import LONG, sample

QUICK = (
    "hidden notes are shown",
    "the outcome of an act is not recorded",
    "what was removed stays",
    "the notebook stores over any base",
    "files are not exchanged",
    "the feed's removals are passed over",
    "a call that fails has no end in the audit chain",
    "a merge takes the last tag that shows a note",
    "changes of notes are refused",
    "undos are refused",
    "a person agrees once for all changes of a note",
    "what a person has decided is not recorded",
    *sample(
        "breaks of acts",
        (
            "a renamed tag takes the others away",
            "newly hidden notes stay",
            "the key file is not flushed",
            "what is for a section goes to the end",
            "one note alone is undone",
            "an undo takes nothing back",
        ),
        2,
    ),
)
SHOWN = {name: one for one in KEPT for name in one.shows}
"""By a break that few schedules show: one that does."""
MOST = 5_000
"""Schedules in which a break has to be found; most are found in the first hundred."""


@pytest.fixture
def broken_product(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget what the whole product has loaded, and then the broken one."""
    forget_loaded()
    yield monkeypatch
    forget_loaded()


def _takes_the_same(old: object, new: object) -> bool:
    """Tell whether what is put in the place of a function can be called as that is."""
    if not (inspect.isfunction(old) and inspect.isfunction(new)):
        return True
    parameters = inspect.signature(old).parameters.values()
    named = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    others = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    for calls in ((others, named), (others[:1], named | dict.fromkeys(others[1:]))):
        with suppress(TypeError):
            inspect.signature(new).bind(*calls[0], **calls[1])
            return True
    return False


@pytest.mark.parametrize("name", ALL_BREAKS)
def test_each_break_breaks_what_is_there(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:

        def put(target: object, attribute: str, new: object) -> None:
            assert _takes_the_same(getattr(target, attribute), new), attribute
            patch.setattr(target, attribute, new)

        ALL_BREAKS[name].make(put)


@pytest.mark.slow("explores until a fault is found")
@pytest.mark.parametrize("name", sorted(ALL_BREAKS.keys() - SHOWN) if LONG else QUICK)
def test_what_is_broken_on_purpose_is_found_and_told_in_words(
    name: str, broken_product: pytest.MonkeyPatch
) -> None:
    broken = ALL_BREAKS[name]
    broken.make(broken_product.setattr)
    outcomes = (seeded(broken.world, "breaks", number) for number in range(MOST))
    found = next((one for one in outcomes if one.fault), None)
    assert found is not None
    shortest = shorten(found)
    assert any(word in shortest.fault for word in broken.words), shortest.fault
    assert len(shortest.schedule) <= len(found.schedule)
    assert shortest.fault in tell(shortest)
    again = replayed(shortest.world, shortest.schedule)
    assert again.fault == shortest.fault
    assert again.digest == shortest.digest


@pytest.mark.slow("the first one loads a world")
@pytest.mark.parametrize("name", sample("shown", list(SHOWN), 12))
def test_a_kept_schedule_shows_what_is_broken(
    name: str, broken_product: pytest.MonkeyPatch
) -> None:
    broken, kept = ALL_BREAKS[name], SHOWN[name]
    broken.make(broken_product.setattr)
    found = replayed(kept.world, kept.schedule, rests=False)
    assert any(word in found.fault for word in broken.words), tell(found)
