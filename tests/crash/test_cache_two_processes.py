"""Let two processes write to one cache: no row is lost, no total is wrong."""

from mcp_notarium.search.parser import parse
from mcp_notarium.storage import integrity
from support.cache_room import child, make, reopen

WRITING = """
folder, name = Path(sys.argv[1]), sys.argv[2]
cache = reopen(folder)
cache.database.set_checkpointer(name == "first")
for number in range(40):
    with cache.transaction(durable=number % 10 == 0):
        total = int(cache.sync_state.get("total") or 0)
        cache.notes.apply([corpus.make(f"{name}{number}-{n}", corpus.Content(f"{name} {n}"))
                           for n in range(5)])
        cache.notes.apply([corpus.make("shared", corpus.Content(f"{name} {number}"),
                                       version=total + 1)])
        cache.sync_state.set("total", str(total + 1))
    if number % 7 == 0:
        cache.notes.index.tidy()
cache.close()
say("done")
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    make(tmp_path).close()
    both = [child(WRITING, tmp_path, name) for name in ("first", "second")]
    for process in both:
        said, complaint = process.communicate(timeout=60)
        assert said.strip() == "done", complaint
    cache = reopen(tmp_path)
    assert cache.sync_state.get("total") == "80"
    assert cache.notes.counts().active == 2 * 40 * 5 + 1
    assert cache.notes.get("shared").local_version == 80
    for name in ("first", "second"):
        assert cache.search.find_words(parse(name), limit=1).total >= 200
    assert integrity.check(cache.database) == ()
    cache.close()
