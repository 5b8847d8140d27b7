"""Kill a process while it stores: committed notes are there, and the cursor fits them."""

import os
import random
import signal

from mcp_notarium.search.parser import parse
from mcp_notarium.storage import integrity
from support.cache_room import child, make, reopen

STORING = """
cache = reopen(Path(sys.argv[1]))
cache.database.set_checkpointer(True)
done = int(cache.sync_state.cursor() or 0)
say("from", done)
for start in range(done, 100_000, 30):
    fresh = [corpus.make(f"id{n}", corpus.Content(f"text {n} " * 60), version=1)
             for n in range(start, start + 30)]
    again = [corpus.make(f"id{n}", corpus.Content(f"changed in {start}"), version=start)
             for n in range(max(0, start - 20), start)]
    store(cache, [*fresh, *again], cursor=str(start + 30))
    say(start + 30)
"""


def stored_before_death(folder, *, commits):
    """Kill the storing process a random moment after so many commits; its last word."""
    process = child(STORING, folder)
    assert process.stdout.readline().startswith("from")
    said = [process.stdout.readline() for _ in range(commits)]
    os.kill(process.pid, signal.SIGKILL)
    rest = process.communicate(timeout=30)[0].splitlines()
    assert process.returncode == -signal.SIGKILL
    whole = [line for line in [*said, *rest] if line.strip().isdigit()]
    return int(whole[-1])


def test_a_killed_process_leaves_a_sound_file_whose_cursor_fits_its_notes(tmp_path):
    make(tmp_path).close()
    dice = random.Random(11)
    for _ in range(4):
        at_least = stored_before_death(tmp_path, commits=dice.randint(2, 9))
        cache = reopen(tmp_path)
        cursor = int(cache.sync_state.cursor())
        assert cursor >= at_least
        assert cache.notes.counts().active == cursor
        assert cache.notes.etags().keys() == {f"id{number}" for number in range(cursor)}
        assert cache.search.find_words(parse("changed"), limit=1).total == 20 * (cursor // 30 - 1)
        assert integrity.check(cache.database) == ()
        cache.close()
