"""Kill a copy, a restore and a re-encryption of the local notebook at every stop: no note is lost, and it can be repeated."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.account import copies, reencryption, repair
from mcp_notarium.files.private_files import StepHook, ignore_step
from mcp_notarium.storage import integrity
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.local.kind import TABLES
from support.account import folder_of, open_cheaply
from support.local_child import configured
from support.local_notebook import OtherProcess
from support.long import sample
from support.stories import KILLED, change_options, count_stops, run_killed

pytestmark = [pytest.mark.slow("kills processes one after the other"), pytest.mark.timeout(600)]
NOW = 1_763_683_200.0


def change_and_copy(home: Path, text: str, now: float) -> None:
    """A server that changes the note ``n1`` and stops."""
    with closing(open_cheaply(configured(home))) as opened:
        OtherProcess(Cache(opened.database)).put("n1", text)
        copies.copy_after_changes(opened, TABLES, keep=2, now=now)


def copy(home: Path, _at: StepHook) -> None:
    change_and_copy(home, "three", NOW + 50)


def restore(home: Path, at: StepHook) -> None:
    """Put the newest copy back."""
    repair.restore(configured(home), options=_later(at))


def reencrypt(home: Path, at: StepHook) -> None:
    """Write it under a new data key, which the same key opens."""
    reencryption.reencrypt(configured(home), options=_later(at))


def _later(at):
    return replace(change_options(at), clock=lambda: NOW + 100)


@pytest.fixture(scope="module", name="made")
def _made(tmp_path_factory):
    """A notebook that says "two", with copies that say "two" and "one"."""
    home = tmp_path_factory.mktemp("made") / "home"
    home.mkdir(mode=0o700)
    for number, text in enumerate(("one", "two")):
        change_and_copy(home, text, NOW + number)
    return home


def text_of(home):
    """What the notebook says; its pages and its copies are sound, but for one that is being made."""
    config = configured(home)
    with closing(open_cheaply(config)) as opened:
        assert integrity.check(opened.database) == ()
        (content,) = OtherProcess(Cache(opened.database)).contents().values()
    return content.text


def sound_copies(home):
    config = configured(home)
    with closing(open_cheaply(config)) as opened:
        data_key = opened.data_key
    found = copies.list_copies(folder_of(config))
    for one in found:
        copies.require_authentic(one.path, data_key)
    return len(found)


@pytest.mark.parametrize(
    ("act", "texts"), [(copy, {"two", "three"}), (restore, {"two"}), (reencrypt, {"two"})]
)
def test_killed_at_any_stop_every_note_is_there_and_the_next_one_does_it(
    made, tmp_path, act, texts
):
    shutil.copytree(made, tmp_path / "whole")
    last = count_stops(act, tmp_path / "whole")
    assert last > 10
    for number in sample(f"kills {act.__name__}", range(1, last + 1), 4):
        home = tmp_path / f"home-{number}"
        shutil.copytree(made, home)
        assert run_killed(act, home, number) == KILLED
        assert text_of(home) in texts
        if act is copy:
            assert sound_copies(home) in (2, 3)
            change_and_copy(home, "four", NOW + 60)
            assert text_of(home) == "four"
            assert sound_copies(home) == 2
        else:
            act(home, ignore_step)
            assert text_of(home) == "two"
        left = {path.name[:5] for path in folder_of(configured(home)).copies.iterdir()}
        assert left == {"20251"}
        shutil.rmtree(home)
