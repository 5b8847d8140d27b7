"""Which request meets which fault."""

from __future__ import annotations

from notarium_devtools.http_faults import CutAfter, Faults, Status
from notarium_devtools.simperium import SimperiumFaults

INDEX = "/1/app/note/index"


def test_a_rule_fires_from_its_nth_match_as_often_as_configured():
    faults = Faults()
    rule = faults.status(503, method="GET", path="*/index", nth=2, times=2)

    met = [bool(faults.meeting("GET", INDEX, {})) for _ in range(5)]

    assert met == [False, True, True, False, False]
    assert (rule.matched, rule.fired) == (5, 2)


def test_other_methods_and_paths_neither_fire_nor_count():
    faults = Faults()
    rule = faults.status(503, method="POST", path="*/i/*")

    assert faults.meeting("GET", "/1/app/note/i/a", {}) == ()
    assert faults.meeting("POST", INDEX, {}) == ()
    assert rule.matched == 0
    assert faults.meeting("POST", "/1/app/note/i/a/v/3", {}) == (Status(503),)


def test_a_rule_may_ask_for_a_parameter():
    faults = Faults()
    faults.add(CutAfter(), query={"mark": "?*"})

    assert faults.meeting("GET", INDEX, {}) == ()
    assert faults.meeting("GET", INDEX, {"mark": ""}) == ()
    assert faults.meeting("GET", INDEX, {"mark": "m"}) == (CutAfter(),)


def test_clear_ends_all_of_it():
    faults = SimperiumFaults()
    faults.forget_cv()
    faults.distort_feed(aggregate=True)

    faults.clear()

    assert faults.meeting("GET", "/1/app/note/changes", {}) == ()
    assert faults.feed.aggregate is False
