"""Test that the markers of defences fit their table, and the page of attacks the tests.

The whole of it is run by hand: ``./scripts/undefended``.
"""

import re
from dataclasses import replace

import pytest

from support.long import dice
from support.needs import programs
from undefended import defence
from undefended.__main__ import take_out
from undefended.defence import TOP, Custom, Defence, Marker, Row, exists, faults
from undefended.trial import read_report

PAGE = (TOP / "docs" / "adversarial-tests.md").read_text(encoding="utf-8")
ROWS = {
    int(number): rest for number, rest in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
}
WITHOUT_DEFENCE = {23}
TEST = "unit/crypto/test_canonical_json.py::test_hostile_bytes_are_refused_as_damage"
DEFENCES = defence.defences()
PURE = [one for one in DEFENCES if all(test.startswith("unit/") for test in one.row.tests)]
(DRAWN,) = dice("undefended").sample(PURE, 1)
"""Another one each day, of those whose tests start nothing; the whole is ``./scripts/undefended``."""
REAL = Marker("key-file-size", "crypto/canonical_json.py", 1)


def test_every_marker_fits_the_source_and_has_tests_that_exist():
    rows = defence.read_table(defence.TABLE.read_text(encoding="utf-8"))
    assert faults(defence.places(), rows) == []
    assert len(DEFENCES) > 300
    assert len(defence.CUSTOM) <= defence.MOST_CUSTOM


def test_what_does_not_fit_is_a_fault():
    there = [
        replace(REAL, name="nowhere", file="crypto/nothing.py"),
        replace(REAL, name="no-code", line=10_000),
        replace(REAL, name="odd-word", line=27, word="nonsense"),
        replace(REAL, name="same", line=27, word="raw=raw"),
        replace(REAL, name="long" * 10, line=27),
        Custom("gone", REAL.file, "words that stand nowhere", ""),
        Custom("often", REAL.file, "KeyFileDamaged(", ""),
        replace(REAL, name="twice", line=27),
        replace(REAL, name="twice", line=27),
    ]
    rows = [Row(one.name, (TEST,)) for one in there[:-1]]
    rows += [Row("untested", ("unit/crypto/test_canonical_json.py::test_nothing",)), rows[0]]
    said = "\n".join(faults([*there, replace(REAL, name="unlisted", line=27)], rows))
    for name in ("nowhere", "no-code", "odd-word", "same", "gone", "often", "long" * 10):
        assert f"{name}:" in said
    assert "twice: two places" in said
    assert "nowhere: two rows" in said
    assert "unlisted: no row in defences.txt" in said
    assert "untested: no marker" in said
    assert "untested: no test unit/" in said


def test_a_marker_is_about_its_line_or_the_next_code_below(tmp_path):
    package = tmp_path / defence.PACKAGE
    package.mkdir(parents=True)
    (package / "a.py").write_text(
        "work()  # defence: first\n# defence: second =None\n# more\n\nx = work()\n"
    )
    assert list(defence.find_markers(tmp_path)) == [
        Marker("first", "a.py", 1),
        Marker("second", "a.py", 5, "=None"),
    ]


def test_the_page_has_every_number_and_names_tests_that_exist():
    assert list(ROWS) == list(range(1, 53))
    for number, row in ROWS.items():
        tests = re.findall(r"`tests/([^`]+::[^`]+)`", row)
        assert tests, number
        assert [test for test in tests if not exists(test)] == [], number


def test_every_other_number_has_a_defence_to_remove():
    answered = {number for one in DEFENCES for number in one.row.numbers}
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
    harmless = Defence(
        Custom("harmless", REAL.file, "_DIGITS = 16\n", "_DIGITS = 8 + 8\n"),
        Row("harmless", (TEST,)),
    )
    source = TOP / defence.PACKAGE / DRAWN.place.file
    before = source.read_bytes()
    said = []
    assert take_out((DRAWN, harmless), say=said.append) == 1
    output = "\n".join(said)
    for test in DRAWN.row.tests:
        assert f"| {DRAWN.name} | {test} | yes |" in output
    assert f"| harmless | {TEST} | NO |" in output
    assert "1 of 2 defences are noticed missing by their tests\nSURVIVED  harmless" in output
    assert source.read_bytes() == before


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
