"""Test what `scripts/try_system.py` puts into the report that a person sends. Running it whole takes minutes; the workflows do."""

import getpass
from pathlib import Path

import pytest

from support.scripts import script

RESULTS = """<testsuites><testsuite name="pytest" hostname="secret-host"><properties><property name="a save" value="16 ms"/><property name="hypothesis-statistics-x" value="bm90ZQ=="/></properties>
<testcase classname="tests.system.test_this_system" name="test_one"/>
<testcase classname="tests.system.test_this_system" name="test_two[C:\\Users\\Ada]"><failure message="OSError: [Errno 2] /home/ada/Diary.md">
def test_two(): the text of a note</failure></testcase>
<testcase classname="tests.cli.test_client_files" name="test_three"><skipped message="/home/ada"/></testcase>
<testcase classname="tests.cli.test_client_files" name="test_four"><error message="failed on setup with &quot;x&quot;"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(name="trying")
def _trying():
    with script("try_system") as module:
        yield module


def test_of_a_failure_the_report_has_the_test_and_the_kind_and_nothing_it_said(trying):
    lines, well = trying.results(RESULTS)
    assert not well
    assert lines == [
        "tests",
        "  system.test_this_system: 1 passed, 1 failed, 0 skipped",
        "  cli.test_client_files: 0 passed, 1 failed, 1 skipped",
        "failures",
        "  cli.test_client_files: test_four: failed",
        "  system.test_this_system: test_two: OSError",
        "times",
        "  a save: 16 ms",
    ]


def test_all_is_well_only_if_tests_ran_and_none_failed(trying):
    passed = '<testcase classname="tests.a" name="test_b"/>'
    for inside, expected in ((passed, True), ("", False)):
        text = f"<testsuites><testsuite>{inside}</testsuite></testsuites>"
        assert trying.results(text)[1] is expected
    assert trying.results("<testsuites/>") == (["no tests ran"], False)


def test_names_of_the_user_and_of_folders_are_taken_out(trying, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ada.lovelace")
    said = trying.scrubbed(f"at {Path.home()}/x of Ada.Lovelace in {trying.TOP}/tests")
    assert said == "at .../x of ... in .../tests"


def test_every_part_that_it_runs_exists_and_every_tool_is_locked(trying):
    assert all([*trying.TOP.glob(one)] for one in trying.TESTS)
    locked = {one.name for one in trying.pins(trying.TOP / "requirements-dev.lock")}
    assert locked >= trying.TOOLS


def test_only_what_is_locked_is_installed_and_by_its_hash(trying, monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(trying, "PLACE", tmp_path)
    monkeypatch.setattr(trying.venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(trying, "run", lambda command, _log: commands.append(command))
    trying.install(tmp_path / "python", tmp_path / "log")
    locked, ours = commands
    assert {"--no-deps", "--require-hashes", ":all:"} <= {*locked}
    assert {"--no-deps", "--no-build-isolation", str(trying.TOP)} <= {*ours}
    found = trying.pins(tmp_path / "packages.txt")
    assert {one.name for one in found} == trying.TOOLS | {
        one.name for one in trying.pins(trying.TOP / "requirements.lock")
    }
    assert all(one in trying.pins(trying.TOP / "requirements-dev.lock") for one in found)
