"""A store that gives reasons to ask it again and never anything new is asked less and less often."""

import asyncio
import itertools

import pytest

from mcp_notarium.domain.note import Tombstone
from mcp_notarium.errors import CursorLost, StoreProtocolError, StoreUnavailable
from mcp_notarium.stores.contract import ChangePage, Entry
from support.long import sample
from support.sync_rig import in_step, running, until

NOTES = 3
FIRST = 120
"""Requests in the first minute, in an account of three notes."""
MOST = 240
"""Requests in the hour after it."""
MOST_FAILING = 2000
"""The same where the store names one new note after the other that it does not give: each of those is
asked for every five minutes."""
HOUR = 3600.0


class WrongAnswers:
    """Kinds of wrong answers, by name; each takes the place of methods of the client's store."""

    def __init__(self, client):
        self.remote = client.remote
        self.time = client.time
        self.truth = {
            name: getattr(self.remote, name) for name in ("changes", "list_page", "get", "push")
        }
        self.numbers = itertools.count(1)

    def end(self):
        for name, method in self.truth.items():
            setattr(self.remote, name, method)

    def feed(self, answer, *, get=None):
        """``answer(wait, number, cursor)`` is what the feed says; None: the truth."""

        async def changes(cursor, *, wait, base_of):
            outcome = answer(wait, next(self.numbers), cursor)
            if asyncio.iscoroutine(outcome):
                outcome = await outcome
            if outcome is None:
                return await self.truth["changes"](cursor, wait=wait, base_of=base_of)
            self.remote.calls.append("changes")
            await asyncio.sleep(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        self.remote.changes = changes
        if get is not None:
            self.remote.get = get

    def listing(self, change):
        """``change`` is applied to each entry; or it raises."""

        async def list_page(*, since, **asked):
            page = await self.truth["list_page"](since=None, **asked)
            entries = tuple(change(one, since) for one in page.entries)
            return type(page)(entries, page.cursor, page.next_mark, page.total)

        self.remote.list_page = list_page

    # The wrong.

    def an_unknown_place(self):
        self.feed(lambda *_: CursorLost("unknown"))

    def an_unknown_place_and_no_versions(self):
        self.an_unknown_place()
        self.listing(lambda one, _since: Entry(one.id, ""))

    def no_place_is_known_to_anybody(self):
        def unknown(one, since):
            if since is not None:
                raise CursorLost("unknown")
            return one

        self.an_unknown_place()
        self.listing(unknown)

    def an_unknown_place_for_those_who_wait(self):
        self.feed(lambda wait, *_: CursorLost("unknown") if wait else None)

    def an_unknown_place_after_a_second(self):
        self.feed(lambda wait, *_: self.later(CursorLost("unknown")) if wait else None)

    def an_unknown_place_and_nothing_in_turn(self):
        self.feed(
            lambda wait, number, cursor: (
                self.later(CursorLost("unknown") if number % 2 else ChangePage((), cursor))
                if wait
                else None
            )
        )

    def the_same_again(self):
        self.feed(lambda _wait, _number, cursor: ChangePage((Entry("n1", "r1", 1),), cursor))

    def the_same_again_at_another_place(self):
        self.feed(lambda _wait, number, _cursor: ChangePage((Entry("n1", "r1", 1),), f"c{number}"))

    def a_note_without_a_version(self):
        self.feed(lambda _wait, _number, cursor: ChangePage((Entry("n1", ""),), cursor))

    def an_older_version(self):
        self.feed(lambda _wait, number, _cursor: ChangePage((Entry("n1", "r0", 0),), f"c{number}"))

    def notes_that_are_not_there(self):
        self.feed(
            lambda _wait, number, _cursor: ChangePage((Entry(f"x{number}", "r1", 1),), f"c{number}")
        )

    def removals_of_notes_that_never_were(self):
        self.feed(
            lambda _wait, number, _cursor: ChangePage((Tombstone(f"x{number}"),), f"c{number}")
        )

    def notes_that_are_not_given(self):
        async def get(note_id, *, etag=None):
            if note_id.startswith("x"):
                self.remote.calls.append("get")
                raise StoreUnavailable("failing")
            return await self.truth["get"](note_id, etag=etag)

        self.feed(
            lambda _wait, number, _cursor: ChangePage(
                (Entry(f"x{number}", "r1", 1),), f"c{number}"
            ),
            get=get,
        )

    def entries_that_nobody_can_ask_for(self):
        self.feed(lambda _wait, number, _cursor: ChangePage((), f"c{number}", left_out=1))

    def nothing_at_once(self):
        self.feed(lambda _wait, _number, cursor: ChangePage((), cursor))

    def nonsense_for_those_who_wait(self):
        self.feed(lambda wait, *_: StoreProtocolError("nonsense") if wait else None)

    def nonsense_for_those_who_do_not_wait(self):
        self.feed(lambda wait, *_: None if wait else StoreProtocolError("nonsense"))

    def nonsense_and_the_same_in_turn(self):
        self.feed(
            lambda _wait, number, cursor: (
                StoreProtocolError("nonsense")
                if number % 2
                else ChangePage((Entry("n1", "r1", 1),), cursor)
            )
        )

    async def later(self, outcome):
        await self.time.sleep(1.1)
        return outcome


KINDS = sorted(
    name
    for name in vars(WrongAnswers)
    if not name.startswith("_") and name not in ("end", "feed", "listing", "later")
)


async def asked_for(client, seconds):
    """How many requests are made in so many seconds of the rig's time."""
    start, calls = client.time.now, len(client.remote.calls)
    made = 0
    while client.time.now < start + seconds and made < 2 * MOST_FAILING:
        await asyncio.sleep(0)
        made = len(client.remote.calls) - calls
    return made


OFTEN = ["an_unknown_place", "the_same_again"]
"""What is tried in every run: without its defence each of these is asked for without end."""
OTHERS = [kind for kind in KINDS if kind not in OFTEN]


@pytest.mark.parametrize("kind", OFTEN + sample("wrong answers", OTHERS, 4))
def test_reasons_without_news_are_followed_less_and_less_often(client, store, kind):
    for number in range(NOTES):
        store.put(f"n{number}", "text\n")
    client.remote.poll_seconds = 0.05

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            wrong = WrongAnswers(client)
            getattr(wrong, kind)()
            client.scheduler.wake()
            made = [await asked_for(client, seconds) for seconds in (60.0, HOUR)]
            wrong.end()
            store.put("n9", "at last\n")
            client.scheduler.wake()
            await until(in_step(store, client))
            return made

    first, hour = asyncio.run(scenario())
    failing = kind == "notes_that_are_not_given"
    assert first <= (MOST_FAILING if failing else FIRST)
    assert hour <= (MOST_FAILING if failing else MOST)


def test_feed_entries_about_our_own_writes_do_not_slow_down_listening(client, store):
    pauses = []

    async def scenario():
        async with running(client):
            await until(lambda: client.scheduler.status().complete)
            note = await client.create("0\n")
            for number in range(20):
                asked = client.remote.calls.count("changes")
                note = (await client.change(note, f"{number}\nmore\n")).note
                await until(lambda asked=asked: client.remote.calls.count("changes") > asked)
                pauses.append(client.scheduler._runner.backoff.pause)
            store.edit(note.id, lambda text: text + "from elsewhere\n")
            await until(in_step(store, client))

    asyncio.run(scenario())
    assert max(pauses) == 0.0
