"""Retention against a reference that knows the true time: no clock takes a record away too early."""

import itertools
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.audit.chain import AuditKeys
from mcp_notarium.audit.record import Act, Entry
from mcp_notarium.secret import Secret
from mcp_notarium.storage.audit_log import Trail
from mcp_notarium.storage.cache import Cache
from support.long import LONG
from support.sync_rig import open_cache, quick_folder

KEYS = AuditKeys(Secret(b"c" * 32), Secret(b"d" * 32), Secret(b"a" * 32))
HOUR, DAY, YEAR = 3600.0, 86_400.0, 365.25 * 86_400.0
DAYS = 10

PLACES = st.integers(0, 2)
"""Which of three processes; each has a connection of its own."""
WALL = st.sampled_from(
    [-15 * YEAR, -4 * YEAR, -9 * DAY, -60.0, 0.0, 60.0, 9 * DAY, YEAR, 15 * YEAR]
)
PASSING = st.sampled_from([HOUR, 0.5 * DAY, 1.5 * DAY, 4 * DAY, 6 * DAY, 6 * DAY, 40 * DAY])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["work", "kill", "leave"]), PLACES),
    st.tuples(st.just("all"), st.none()),
    st.tuples(st.just("pass"), PASSING),
    st.tuples(st.just("set the clock"), WALL),
)


@dataclass
class World:
    """The true time, the wall clock beside it, and when each record was really made."""

    caches: list[Cache]
    now: float = 1_700_000_000.0
    set_by: float = 0.0
    made: dict[int, float] = field(default_factory=dict)
    trails: dict[int, Trail] = field(default_factory=dict)

    def step(self, doing, what):
        if doing == "pass":
            self.now += what
        elif doing == "set the clock":
            self.set_by = what
        else:
            for place in range(3) if doing == "all" else [what]:
                if place not in self.trails:
                    self.trails[place] = self.trail(place)
                self.use(self.trails[place], doing, place)
        self.look()

    def trail(self, place):
        booted = self.now - 1e4 * (place + 1)  # no two processes need have the same zero
        return Trail(
            self.caches[place].database,
            KEYS,
            clock=lambda: self.now + self.set_by,
            stopwatch=lambda: self.now - booted,
            days=DAYS,
        )

    def use(self, trail, doing, place):
        if doing in {"work", "all"}:
            trail.open(Entry(at=self.now + self.set_by, act="tool.save"))
            trail.tidy()
            return
        if doing == "leave":
            trail.leave()
        del self.trails[place]

    def table(self):
        return Trail(self.caches[0].database, KEYS, clock=float, days=DAYS).table

    def look(self):
        """No record of the last days has gone; note when new ones were made."""
        there = {record.number for record in self.table().records()}
        for number in there - self.made.keys():
            self.made[number] = self.now
        gone = {number: self.now - at for number, at in self.made.items() if number not in there}
        assert all(age >= DAYS * DAY for age in gone.values()), gone


def world(place):
    first = open_cache(place)
    return World([first, first.another(), first.another()])


@settings(max_examples=1500 if LONG else 60, deadline=None)
@given(steps=st.lists(STEPS, min_size=20, max_size=50))
def test_no_record_of_the_last_days_goes_whatever_the_clocks_say(steps):
    with quick_folder() as place:
        one = world(place)
        try:
            for doing, what in steps:
                one.step(doing, what)
            assert one.table().verify(anchored=None).whole
        finally:
            for cache in one.caches:
                cache.close()


@settings(max_examples=200 if LONG else 8, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=20),
    visits=st.lists(st.floats(5.0, 24.0), min_size=1, max_size=4),
)
def test_records_go_once_servers_have_run_for_their_days_and_two_more(steps, visits):
    with quick_folder() as place:
        one = world(place)
        try:
            for doing, what in [*steps, ("work", 0)]:
                one.step(doing, what)
            newest, one.trails, watched = max(one.made), {}, 0.0
            for hours in itertools.cycle(visits):  # each day one, of so many
                trail = one.trail(0)
                one.now += hours * HOUR
                trail.leave()
                one.now += (24 - hours) * HOUR
                watched += hours
                if watched > (DAYS + 2) * 24:
                    break
            one.step("work", 0)
            left = [record for record in one.table().records() if record.act != Act.PRUNED]
            assert min(record.number for record in left) > newest
        finally:
            for cache in one.caches:
                cache.close()
