"""Test wheel and sdist: the same bytes from the same sources, and the right content."""

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from support.long import sample

TOP = Path(__file__).parents[2]
LEFT_OUT = {".git", "dist", ".hypothesis"}
KINDS = sample("builds", ["sdist", "wheel"], 1)
"""What is built, twice; both in the long form."""
EPOCH = "1767225600"

pytestmark = pytest.mark.timeout(180)


def sources(folder, *, mode, mtime):
    """A copy of the sources that differs in all that must not count."""
    shutil.copytree(
        TOP,
        folder,
        ignore=lambda _at, names: [
            name
            for name in names
            if name in LEFT_OUT
            or name.startswith(".venv")
            or name.endswith(("_cache", "__pycache__"))
        ],
    )
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (mtime, mtime))
            path.chmod((0o755 if os.access(path, os.X_OK) else 0o644) & ~mode)


def build(folder, *, umask, zone, epoch=EPOCH):
    """File name to SHA-256 of what is built there."""
    environment = dict(os.environ) | {
        "SOURCE_DATE_EPOCH": epoch,
        "TZ": zone,
        "PYTHONHASHSEED": str(random.randrange(1, 9999)),
    }
    kinds = [word for kind in KINDS for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", *kinds, "-d", "out"]
    subprocess.run(
        command, cwd=folder, env=environment, umask=umask, check=True, capture_output=True
    )
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "out").iterdir())
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two folders with what was built in them, and the digests of both builds."""
    one, two = (tmp_path_factory.mktemp(name) / name for name in ("here", "elsewhere"))
    sources(one, mode=0o022, mtime=1_500_000_000)
    sources(two, mode=0o077, mtime=1_700_000_000)
    bill = one / "sbom/mcp-notarium.cdx.json"
    for folder in (one, two):
        (folder / "sbom").mkdir(exist_ok=True)
    bill.write_text("{}")  # test_sbom.py tests the real one
    shutil.copy(bill, two / "sbom")
    old_bytecode = two / "src/mcp_notarium/__pycache__"
    old_bytecode.mkdir()
    (old_bytecode / "errors.cpython-311.pyc").write_bytes(b"old")
    (two / "src/mcp_notarium/.env").write_text("SIMPLENOTE_PASSWORD=mine\n")
    return one, (
        build(one, umask=0o022, zone="UTC"),
        build(two, umask=0o077, zone="Pacific/Auckland"),
    )


@pytest.mark.slow("builds twice")
def test_two_builds_give_the_same_bytes(built):
    _, (first, second) = built
    assert len(first) == len(KINDS)
    assert first == second


@pytest.mark.slow("builds twice")
def test_the_time_of_the_commit_is_what_counts(built):
    folder, (first, _) = built
    again = build(folder, umask=0o022, zone="UTC", epoch="1767312000")
    assert again.keys() == first.keys()
    assert all(again[name] != first[name] for name in first)
    build(folder, umask=0o022, zone="UTC")  # what the other tests read


@pytest.mark.skipif("wheel" not in KINDS, reason="not drawn this time")
def test_wheel_has_the_package_and_nothing_else(built):
    folder, _ = built
    (path,) = (folder / "out").glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    assert "mcp_notarium/py.typed" in names
    assert "mcp_notarium/protocol/static_replies.json" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert any(name.endswith(".dist-info/sboms/mcp-notarium.cdx.json") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"mcp_notarium"}
    assert not [n for n in names if "test" in n or n.endswith((".pyc", ".env"))]
    package = TOP / "src/mcp_notarium"
    sourced = {str(path.relative_to(TOP / "src")) for path in package.rglob("*.py")}
    assert sourced <= set(names)
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["meaning"]]
    assert metadata.count("\nRequires-Dist: ") == len(wanted)
    assert metadata.startswith("Metadata-Version: 2.4\n")
    links = re.findall(r"\]\(([^)]+)\)", metadata)
    assert links, "README"
    assert all(link.startswith("https://") for link in links)


@pytest.mark.skipif("sdist" not in KINDS, reason="not drawn this time")
def test_sdist_is_complete(built):
    folder, _ = built
    (path,) = (folder / "out").glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {member.name.split("/", 1)[1] for member in sdist.getmembers() if member.isfile()}
    assert "sbom/mcp-notarium.cdx.json" in names
    done = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a checkout")
    assert {name for name in done.stdout.split("\n") if name} - names <= {".gitattributes"}


def test_nothing_else_is_at_the_top_of_the_tree():
    done = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a checkout")
    top = {name for name in done.stdout.split("\n") if name and "/" not in name}
    assert {Path(name).suffix for name in top} <= {
        "",
        ".md",
        ".toml",
        ".lock",
        ".yml",
        ".yaml",
        ".json",
    }
