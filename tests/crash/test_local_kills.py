"""Kill a copy, a restore and a re-encryption of the local notebook at every stop: no note is lost, and it can be repeated."""

import shutil
from contextlib import closing

import pytest

from mcp_notarium.account import copies
from mcp_notarium.storage import integrity
from mcp_notarium.storage.cache import Cache
from support import local_kill_child
from support.account import folder_of, open_cheaply
from support.account_child import KILLED, forked
from support.local_child import configured
from support.local_kill_child import NOW
from support.local_notebook import OtherProcess
from support.long import sample

pytestmark = [pytest.mark.slow("kills processes one after the other"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module", name="made")
def _made(tmp_path_factory):
    """A notebook that says "two", with copies that say "two" and "one"."""
    home = tmp_path_factory.mktemp("made") / "home"
    home.mkdir(mode=0o700)
    for number, text in enumerate(("one", "two")):
        local_kill_child.copy(home, text, now=NOW + number)
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


def kill(made, place, action, number):
    """A home in which it was killed at stop ``number``."""
    home = place / f"{action}-{number}"
    shutil.copytree(made, home)
    process = forked(local_kill_child.killed, home, action, number)
    process.join(60)
    assert process.exitcode == KILLED
    return home


@pytest.mark.parametrize(
    ("action", "texts"),
    [("copy", {"two", "three"}), ("restore", {"two"}), ("reencrypt", {"two"})],
)
def test_killed_at_any_stop_every_note_is_there_and_the_next_one_does_it(
    made, tmp_path, action, texts
):
    shutil.copytree(made, tmp_path / "whole")
    last = local_kill_child.killed(tmp_path / "whole", action, 0)
    assert last > 10
    for number in sample(f"kills {action}", range(1, last + 1), 4):
        home = kill(made, tmp_path, action, number)
        assert text_of(home) in texts
        if action == "copy":
            assert sound_copies(home) in (2, 3)
            local_kill_child.copy(home, "four", now=NOW + 60)
            assert text_of(home) == "four"
            assert sound_copies(home) == 2
        else:
            getattr(local_kill_child, action)(home)
            assert text_of(home) == "two"
        left = {path.name[:5] for path in folder_of(configured(home)).copies.iterdir()}
        assert left == {"20251"}
        shutil.rmtree(home)
