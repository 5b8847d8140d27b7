"""Test what ``./scripts/coverage`` says of branches that no test takes."""

import re
from pathlib import Path

import pytest

from support.scripts import script

TOP = Path(__file__).parents[2]


@pytest.fixture(name="branches")
def _branches():
    with script("branches") as module:
        yield module


def report(*, lines=(), branches=(), taken=4, name="audit/chain.py"):
    """What coverage says of one file of four branches."""
    sums = {"num_branches": 4, "covered_branches": taken}
    one = {"summary": sums, "missing_lines": list(lines), "missing_branches": list(branches)}
    return {"files": {f"src/mcp_notarium/{name}": one}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (report(), None),
        (report(branches=[[7, 9]], taken=3), "7->9"),
        (report(branches=[[7, -3]], taken=3), "7->exit"),
        (report(lines=[8], branches=[[7, 8], [8, 9]], taken=2), "8, 7->8"),
        (report(lines=[8]), "8"),
    ],
)
def test_what_no_test_takes_is_named_by_its_lines(branches, found, said):
    faults = [one for one in branches.faults(branches.read(found)) if "chain.py" in one]
    assert faults == ([] if said is None else [f"audit: audit/chain.py: never taken: {said}"])


def test_a_file_that_need_not_be_whole_is_no_fault(branches):
    found = branches.read(report(lines=[8], name="cli/cache.py"))
    assert not [one for one in branches.faults(found) if "never taken" in one]


def test_a_file_that_must_be_whole_and_that_no_test_has_read_is_a_fault(branches):
    said = [*branches.faults(branches.with_unread(branches.read(report())))]
    assert "audit: audit/export.py: never taken: all of it" in said
    assert not [one for one in said if "chain.py" in one]


def test_every_pattern_has_its_files_and_one_without_is_a_fault(branches):
    package = TOP / "src" / "mcp_notarium"
    patterns = [pattern for group in branches.WHOLE.values() for pattern in group]
    assert all(list(package.glob(pattern)) for pattern in patterns)
    said = list(branches.faults(branches.read(report())))
    assert [one.split(" there is no ")[1] for one in said] == [
        pattern for pattern in patterns if pattern != "audit/*.py"
    ]


def test_the_page_has_a_row_for_each_package_and_each_part_that_must_be_whole(branches):
    (table,) = re.findall(
        r"\n\| package \| (?:.*\n)(?:\|.*\n)*", (TOP / branches.PAGE).read_text(encoding="utf-8")
    )
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in table.splitlines()[3:]}
    packages = {f"`{one.parent.name}`" for one in TOP.glob("src/mcp_notarium/*/__init__.py")}
    assert packages | {"all"} < {*rows}
    for group in branches.WHOLE:
        (row,) = (row for name, row in rows.items() if name.startswith(f"{group}: "))
        assert row.endswith("| 100.0 % |")


def test_the_table_adds_up_the_files_of_a_package(branches):
    found = branches.read(
        {"files": report(taken=3)["files"] | report(name="audit/export.py")["files"]}
    )
    table = list(branches.as_table(found))
    assert "| `audit` | 8 | 87.5 % |\n" in table
    assert "| all | 8 | 87.5 % |\n" in table


@pytest.mark.slow("runs pytest with coverage")
def test_a_check_whose_tests_leave_branches_out_ends_with_1_and_names_them(
    branches, monkeypatch, capsys
):
    monkeypatch.setenv("NOTARIUM_TEST_JOBS", "0")
    monkeypatch.setattr(branches, "CHECKED", ("tests/unit/audit/test_export.py",))
    assert branches.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert re.search(r"^audit: audit/verification\.py: never taken: \d", said, re.MULTILINE)
    assert "audit/export.py" not in said
