"""Test that docs/dependencies.md and pyproject.toml list the same packages."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (TOP / "docs/dependencies.md").read_text(encoding="utf-8")


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0]


def rows(heading):
    """The cells of the table under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_package_of_the_program_has_its_line():
    wanted = {name_of(one) for one in PROJECT["project"]["dependencies"]}
    assert sorted(row[0].strip("`") for row in rows("At run time")) == sorted(wanted)


def test_every_package_of_an_extra_has_its_line():
    extras = PROJECT["project"]["optional-dependencies"].values()
    wanted = sorted(name_of(one) for extra in extras for one in extra)
    assert sorted(row[0].strip("`") for row in rows("Extras")) == wanted


def test_every_package_of_a_group_has_its_line():
    wanted = sorted(
        (name_of(one), group)
        for group, members in PROJECT["dependency-groups"].items()
        for one in members
        if isinstance(one, str)
    )
    assert sorted((row[0].strip("`"), row[1]) for row in rows("Groups")) == wanted


def test_what_builds_in_isolation_is_in_the_group_that_is_locked():
    build = {name_of(one) for one in PROJECT["dependency-groups"]["build"]}
    assert {name_of(one) for one in PROJECT["build-system"]["requires"]} <= build


@pytest.mark.parametrize(
    "row", rows("At run time") + rows("Extras") + rows("Groups"), ids=lambda row: row[0]
)
def test_each_line_says_reason_licence_and_rights(row):
    reason, licence, rights = row[-3:]
    assert min(map(len, (reason, rights))) > 8
    assert re.fullmatch(
        r"(MIT|BSD-[23]-Clause|Apache-2\.0|MPL-2\.0|PSF-2\.0)( (OR|AND) [\w.-]+)*", licence
    )


@pytest.mark.parametrize("row", rows("At run time") + rows("Extras"), ids=lambda row: row[0])
def test_licences_are_those_the_packages_state(row):
    try:
        said = metadata.metadata(row[0].strip("`"))
    except metadata.PackageNotFoundError:
        assert row[0] in {"`sqlcipher3`", "`sqlcipher3-binary`"}
        return
    stated = said.get("License-Expression") or said.get("License")
    if stated:
        stated = stated.replace("Apache Software License", "Apache-2.0")
        assert row[-2] == stated.removesuffix(" License")
