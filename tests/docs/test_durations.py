"""Test the durations by folder and the loop that ``./scripts/test`` prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from support import durations

TOP = Path(__file__).parents[2]


@pytest.mark.slow("a whole run of pytest")
def test_a_run_prints_its_folders_and_the_loop():
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--by-folder"),
            "tests/unit/test_threads.py",
        ],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "| `tests/unit` | " in done.stdout
    assert "fixed loop: " in done.stdout


def test_setup_call_and_teardown_count_for_the_folder_and_the_test_once():
    reports = [
        pytest.TestReport(node, ("", 0, ""), {}, "passed", None, when, duration=seconds)
        for node, when, seconds in (
            ("tests/a/test_x.py::test_b[c/d]", "setup", 1.0),
            ("tests/a/test_x.py::test_b[c/d]", "call", 2.0),
            ("tests/b/test_y.py::test_b", "call", 7.0),
            ("tests/b/test_y.py::test_b", "teardown", 0.5),
        )
    ]
    assert list(durations.as_table(durations.by_folder(reports)))[2:] == [
        "| `tests/b` | 1 | 7.5 |",
        "| `tests/a` | 1 | 3.0 |",
        "| all | 2 | 10.5 |",
    ]


def test_twice_the_work_takes_about_twice_the_seconds():
    one, two = (durations.seconds_of_loop(loops) for loops in (200_000, 800_000))
    assert 2 < two / one < 8


def test_the_ratio_is_the_run_divided_by_the_loop():
    assert durations.ratio(420, 0.5) == "Run: 420.0 s; fixed loop: 0.50 s; ratio: 840"
