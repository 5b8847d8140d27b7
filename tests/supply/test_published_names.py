"""Test what registries and indexes read: addresses, names, versions and variables."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from mcp_notarium.config.common_variables import known_variables
from support.long import LONG

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SERVER = json.loads((TOP / "server.json").read_text(encoding="utf-8"))
(PACKAGE,) = SERVER["packages"]


def test_one_name_and_version_everywhere():
    (name,) = re.findall(r"mcp-name: (\S+)", (TOP / "README.md").read_text(encoding="utf-8"))
    assert SERVER["name"] == name
    assert PACKAGE["identifier"] == PROJECT["name"]
    assert {SERVER["version"], PACKAGE["version"]} == {PROJECT["version"]}


def test_readme_is_short_and_has_a_picture():
    text = (TOP / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    (picture,) = re.findall(r"!\[.+\]\((.+)\)", text)
    assert (TOP / picture).is_file()


def test_all_addresses_are_of_one_repository():
    source = PROJECT["urls"]["Source"]
    assert SERVER["repository"]["url"] == source
    assert all(url.startswith(source) for url in PROJECT["urls"].values())
    owner, name = source.removeprefix("https://github.com/").split("/")
    assert SERVER["name"] == f"io.github.{owner}/{name}"


def test_registry_asks_for_known_variables_and_hides_the_secret_ones():
    known = {one.name: one for one in known_variables()}
    asked = {one["name"]: one for one in PACKAGE["environmentVariables"]}
    assert {name: one.get("isSecret", False) for name, one in asked.items()} == {
        name: known[name].secret for name in asked
    }
    assert set(asked["NOTARIUM_STORE"]["choices"]) == set(known["NOTARIUM_STORE"].words)


@pytest.mark.skipif(not LONG, reason="downloads the schema")
@pytest.mark.slow("downloads the schema")
def test_registry_file_fits_the_published_schema(tmp_path):
    """The schema is the registry's own; a linter of its files brings it along."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run(
        [*command, "-r", str(TOP / "tests/supply/published.lock"), "-d", str(tmp_path)], check=True
    )
    (path,) = tmp_path.glob("skillsaw-*.whl")
    date = SERVER["$schema"].split("/")[-2]
    with zipfile.ZipFile(path) as wheel:
        name = f"skillsaw/schemas/mcp_registry/v{date.replace('-', '_')}/server.schema.json"
        schema = json.loads(wheel.read(name))
    assert schema["$id"] == SERVER["$schema"]
    jsonschema = importlib.import_module("jsonschema")  # slow, see support/json_schema.py
    validator = jsonschema.Draft7Validator(
        schema, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
    )
    validator.validate(SERVER)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(SERVER | {"description": "x" * 101})
