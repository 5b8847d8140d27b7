"""Test that the scripts find each version of the interpreters once, and no broken shim."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
HERE = "{}.{}.{}".format(*sys.version_info)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the scripts are for a POSIX shell")


def placed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def said(path, call):
    """What a function of the script says with these programs first on the path."""
    done = subprocess.run(
        ["sh", "-c", f"set -eu; . scripts/_interpreters; {call}"],
        cwd=TOP,
        env={"PATH": f"{path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [line.split(" ", 1) for line in done.stdout.splitlines()]


def test_each_version_is_found_once_the_newest_first_on_the_path_and_where_pyenv_keeps_them(
    tmp_path,
):
    for name, version in {
        "python3.14": "3.14.1",
        "python3.13": "3.13.9",
        "python3": "3.13.9",
    }.items():
        placed(tmp_path / name, f"echo {version} /made/{name}")
    placed(tmp_path / "python3.11", "echo 'pyenv: python3.11: command not found' >&2; exit 127")
    placed(tmp_path / "pyenv", f"echo '{tmp_path}/py env'")
    placed(tmp_path / "py env/versions/3.13.10/bin/python", "echo 3.13.10 /made/of pyenv")
    code, found = said(tmp_path, "interpreters")
    assert code == 0
    made = [line for line in found if line[1].startswith("/made/")]
    assert made == [
        ["3.14.1", "/made/python3.14"],
        ["3.13.10", "/made/of pyenv"],
        ["3.13.9", made[2][1]],
    ]
    versions = [tuple(map(int, version.split("."))) for version, _ in found]
    assert versions == sorted(set(versions), reverse=True)


def test_an_interpreter_says_its_version_only_if_it_is_promised(tmp_path):
    assert said(tmp_path, f"version_of '{sys.executable}'") == (0, [[HERE, sys.executable]])
    assert said(tmp_path, f"promised='3.9 2.7'; version_of '{sys.executable}'") == (1, [])
    assert said(tmp_path, f"version_of '{tmp_path}/python'")[0] != 0


def test_the_versions_of_the_scripts_are_those_that_the_package_names(tmp_path):
    promised = said(tmp_path, "printf '%s\\n' $promised")[1]
    named = (TOP / "pyproject.toml").read_text(encoding="utf-8").split('"')
    prefix = "Programming Language :: Python :: 3."
    assert {one for (one,) in promised} == {n.split()[-1] for n in named if n.startswith(prefix)}
