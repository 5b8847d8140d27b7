"""Test that the list of defences fits the sources and the page of attacks fits the tests.

The whole of it is run by hand: ``./scripts/undefended``.
"""

import re
from dataclasses import replace

import pytest

from support.long import dice
from support.needs import programs
from undefended.__main__ import take_out
from undefended.catalogue import DEFENCES
from undefended.defence import TOP, Defence, exists, faults
from undefended.trial import read_report

PAGE = (TOP / "docs" / "adversarial-tests.md").read_text(encoding="utf-8")
ROWS = {
    int(number): rest for number, rest in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
}
WITHOUT_DEFENCE = {23}
TEST = "unit/crypto/test_canonical_json.py::test_hostile_bytes_are_refused_as_damage"
PURE = [one for one in DEFENCES if all(test.startswith("unit/") for test in one.tests)]
(DRAWN,) = dice("undefended").sample(PURE, 1)
"""Another one each day, of those whose tests start nothing; the whole is ``./scripts/undefended``."""
REAL = next(one for one in DEFENCES if one.name == "no name twice in the key file")


def test_every_entry_fits_the_source_and_names_tests_that_exist():
    assert faults(DEFENCES) == []
    assert len(DEFENCES) > 150


def test_an_entry_that_does_not_fit_is_stale():
    stale = [
        replace(REAL, name="gone", old="words that stand nowhere"),
        replace(REAL, name="often", old="raise KeyFileDamaged("),
        replace(REAL, name="nowhere", file="crypto/nothing.py"),
        replace(REAL, name="no test", tests=("unit/crypto/test_canonical_json.py::test_nothing",)),
        replace(REAL, name="none", tests=()),
        REAL,
        REAL,
    ]
    said = "\n".join(faults(tuple(stale)))
    for name in ("gone", "often", "nowhere", "no test", "none"):
        assert f"{name}:" in said
    assert f"{REAL.name}: two entries" in said
    assert take_out(tuple(stale), say=lambda _line: None) == 1


def test_the_page_has_every_number_and_names_tests_that_exist():
    assert list(ROWS) == list(range(1, 52))
    for number, row in ROWS.items():
        tests = re.findall(r"`tests/([^`]+::[^`]+)`", row)
        assert tests, number
        assert [test for test in tests if not exists(test)] == [], number


def test_every_other_number_has_a_defence_to_remove():
    answered = {number for one in DEFENCES for number in one.items}
    assert set(ROWS) - answered == WITHOUT_DEFENCE
    assert all("no defence to remove" in ROWS[number] for number in WITHOUT_DEFENCE)


@pytest.mark.parametrize("page", ["adversarial-tests.md", "testing.md"])
def test_the_pages_name_the_numbers_without_a_defence(page):
    text = (TOP / "docs" / page).read_text(encoding="utf-8")
    but = re.findall(r"for each number(?: but ([\d, ]*\d))?", text)
    assert [{int(one) for one in said.split(",") if one} for said in but] == [WITHOUT_DEFENCE]


@pytest.mark.timeout(300)
@pytest.mark.slow("runs tests in a copy of the tree")
def test_a_removed_defence_is_noticed_and_a_harmless_change_is_not():
    programs("git")
    harmless = Defence("harmless", REAL.file, "_DIGITS = 16\n", "_DIGITS = 8 + 8\n", (TEST,))
    said = []
    assert take_out((DRAWN, harmless), say=said.append) == 1
    output = "\n".join(said)
    for test in DRAWN.tests:
        assert f"| {DRAWN.name} | {test} | yes |" in output
    assert f"| harmless | {TEST} | NO |" in output
    assert "1 of 2 defences are noticed missing by their tests\nSURVIVED  harmless" in output
    assert DRAWN.old in (TOP / "src/mcp_notarium" / DRAWN.file).read_text(encoding="utf-8")


REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one[x]"/>
<testcase classname="tests.unit.test_a" name="test_one[y]"><failure message="assert 1 == 2"/></testcase>
<testcase classname="tests.unit.test_a" name="test_two"><failure message="NameError: x"/></testcase>
<testcase classname="tests.unit.test_a" name="test_three"><error message="in a fixture"/></testcase>
<testcase classname="tests.unit.test_b" name="test_one"><skipped message="not here"/></testcase>
</testsuite></testsuites>"""


def test_only_a_test_that_ran_and_failed_of_itself_has_noticed(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    one, two, three = (f"unit/test_a.py::test_{name}" for name in ("one", "two", "three"))
    found = read_report(tmp_path / "report.xml", [one, two, three])
    assert (found.failed, found.passed) == ({one}, set())
    assert "test_two: NameError" in found.trouble
    assert "test_three could not be run" in found.trouble
    skipped = read_report(tmp_path / "report.xml", ["unit/test_b.py::test_one"])
    assert "was not run" not in skipped.trouble  # the rest of the report is trouble enough
    assert skipped.failed.isdisjoint({"unit/test_b.py::test_one"})
