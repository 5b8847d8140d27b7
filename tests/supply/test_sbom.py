"""The bills of materials: of the lock, and of what a machine has really loaded."""

import hashlib
import json
import os
import re
import ssl
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from cryptography.hazmat.backends.openssl import backend
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from mcp_notarium.cli import main as command
from mcp_notarium.cli.cyclonedx import Component, bill, native, package
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.storage import driver
from support.whole import run

TOP = Path(__file__).parents[2]


def problem(text):
    """What the official schema has against it, None if nothing."""
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    done = run({"PATH": os.environ["PATH"], "HOME": str(home)}, "doctor", "--sbom")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(home.iterdir()) == []
    return done.stdout


@pytest.fixture(scope="module")
def loaded(printed):
    return json.loads(printed)


def by_ref(document):
    return {part["bom-ref"]: part for part in document["components"]}


def test_what_is_loaded_is_said_in_a_form_that_scanners_read(printed):
    assert problem(printed) is None


def test_schema_check_finds_what_is_wrong(loaded):
    assert problem(json.dumps(loaded | {"more": 1})) is not None


def test_native_libraries_are_named_with_the_versions_they_say_themselves(loaded):
    parts, facts = by_ref(loaded), driver.facts()
    inside = facts.distribution.split()[0]
    sqlite = ".".join(map(str, facts.sqlite_version))
    cipher = facts.cipher_version.split()[0]
    assert parts[f"native:sqlite@{sqlite}#{inside}"]["cpe"].startswith(
        f"cpe:2.3:a:sqlite:sqlite:{sqlite}:"
    )
    assert f"native:sqlcipher@{cipher}#{inside}" in parts
    for said, carrier in (
        (facts.provider, inside),
        (ssl.OPENSSL_VERSION, "python"),
        (backend.openssl_version_text(), "cryptography"),
    ):
        version = re.search(r"\d+\.\d+\.\d+", said)[0]
        assert f"native:openssl@{version}#{carrier}" in parts
    assert parts["platform:python"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert parts["native:argon2"]["properties"][0]["value"] == "0x13"


def test_every_package_that_is_needed_is_there_in_the_version_installed(loaded):
    parts = by_ref(loaded)
    listed = {part["name"]: part["version"] for part in parts.values() if "pypi" in part["bom-ref"]}
    assert listed == {name: metadata.version(name) for name in listed}
    for name in ("mcp", "cryptography", "argon2-cffi-bindings", "pydantic-core", "httpcore"):
        assert name in listed
    assert not {"pytest", "mypy", "pip-audit", "hatchling", "mcp-notarium"} & set(listed)
    main = loaded["metadata"]["component"]
    assert main["name"] == "mcp-notarium"
    needed = {one["ref"]: one["dependsOn"] for one in loaded["dependencies"] if "dependsOn" in one}
    assert any(ref.startswith("pkg:pypi/httpx@") for ref in needed[main["bom-ref"]])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")
def test_files_that_are_mapped_have_their_digests(loaded):
    files = {
        part["properties"][0]["value"]: part["hashes"][0]["content"]
        for part in loaded["components"]
        if part["type"] == "file"
    }
    driver.module()
    ours = [path for path in files if "/sqlcipher3/" in path]
    assert ours
    assert any("/cryptography/" in path for path in files)
    for path in ours:
        assert files[path] == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_a_driver_that_cannot_be_used_is_no_reason_to_print_half_a_bill(monkeypatch, capsys):
    def refuse():
        raise LockedError(Verdict.CRYPTO_UNSUITABLE, "two drivers", resolution_hint="x")

    monkeypatch.setattr(driver, "facts", refuse)
    assert command.run(["doctor", "--sbom"]) == 21
    assert capsys.readouterr().out == ""


def test_bill_of_the_lock_is_valid_the_same_each_time_and_complete(tmp_path):
    texts = []
    for name, seed in (("one.json", "1"), ("two.json", "2")):
        code = (
            f"import sbom, pathlib; pathlib.Path({str(tmp_path / name)!r}).write_text(sbom.made())"
        )
        subprocess.run(
            [sys.executable, "-c", code],
            env=dict(os.environ) | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(TOP / "scripts")},
            check=True,
        )
        texts.append((tmp_path / name).read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert problem(texts[0]) is None
    document = json.loads(texts[0])
    lock = (TOP / "requirements.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    assert {part["name"]: part["version"] for part in document["components"]} == pinned
    digests = {
        digest["content"]
        for part in document["components"]
        for reference in part["externalReferences"]
        for digest in reference["hashes"]
    }
    assert digests == set(re.findall(r"sha256:([0-9a-f]{64})", lock))


def test_names_are_those_of_the_index_and_unknown_licences_are_left_out():
    part = package("Some_Package.x", "1.0", licence="a licence\nof several lines")
    assert (part.name, part.purl) == ("some-package-x", "pkg:pypi/some-package-x@1.0")
    main = Component(ref="main", name="main", version="1", needs=(part.ref, "unknown"))
    document = bill(
        main,
        [part, native("zlib", "1.3", vendor="zlib", inside="python", licence="Zlib")],
        phase="build",
        serial="8c5b0c0e-4d6c-4f52-9d1c-3a4b5c6d7e8f",
    )
    assert problem(json.dumps(document)) is None
    assert "licenses" not in by_ref(document)[part.ref]
    assert document["dependencies"][0] == {"ref": "main", "dependsOn": [part.ref]}
