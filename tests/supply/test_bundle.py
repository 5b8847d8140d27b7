"""Test the MCPB bundle: the official packer takes it, and it starts as a client would start it."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mcp_notarium.config.common_variables import known_variables
from support.long import LONG

TOP = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def folder(tmp_path):
    """The folder that is packed."""
    command = [sys.executable, TOP / "scripts/bundle.py", tmp_path / "bundle"]
    subprocess.run(command, check=True)
    return tmp_path / "bundle"


def test_client_asks_for_known_variables_and_hides_the_secret_ones(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    known = {one.name: one for one in known_variables()}
    env = manifest["server"]["mcp_config"]["env"]
    asked = manifest["user_config"]
    assert env == {name.upper(): f"${{user_config.{name}}}" for name in asked}
    assert {name: one.get("sensitive", False) for name, one in asked.items()} == {
        name: known[name.upper()].secret for name in asked
    }
    assert all("default" in one for one in asked.values()), "a client would leave the placeholder"


def test_bundle_has_the_sources_and_the_locked_versions(folder):
    sources = {path.relative_to(TOP) for path in (TOP / "src/mcp_notarium").rglob("*.py")}
    assert sources <= {path.relative_to(folder) for path in folder.rglob("*.py")}
    assert not [*folder.rglob("*.pyc"), *folder.rglob(".env")]
    lock = (TOP / "requirements.lock").read_text()
    locked = [line.rstrip(" \\") for line in lock.splitlines() if "==" in line]
    project = (folder / "pyproject.toml").read_text()
    assert all(json.dumps(one) in project for one in locked)


@pytest.mark.parametrize("checkout", [True, False])
def test_only_the_files_of_the_package_are_packed(tmp_path, checkout):
    """Somebody's key beside the sources goes to nobody, whether git can tell what is ours or not."""
    there, package = tmp_path / "there", Path("src/mcp_notarium")
    there.mkdir()
    for name in (
        "scripts/bundle.py",
        "pyproject.toml",
        "server.json",
        "requirements.lock",
        "LICENSE",
        "README.md",
    ):
        (there / name).parent.mkdir(exist_ok=True)
        shutil.copy(TOP / name, there / name)
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TOP / package, there / package, ignore=caches)
    ours = {path.relative_to(there) for path in (there / package).rglob("*") if path.is_file()}
    if checkout:
        for words in (["init", "-q"], ["add", "-A", "--force", "."]):
            subprocess.run(["git", "-C", there, *words], check=True)
    (there / package / "x").mkdir()
    for name in ("my.key", "x/.env.local", ".env", "notes.md", "report/page.bak", "x/key.pem"):
        (there / package / name).write_text("mine")
    command = [sys.executable, there / "scripts/bundle.py", tmp_path / "bundle"]
    subprocess.run(command, check=True)
    packed = [path for path in (tmp_path / "bundle" / package).rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path / "bundle") for path in packed} == ours


@pytest.mark.skipif(not (LONG and shutil.which("npm")), reason="installs the packer and packages")
@pytest.mark.slow("installs the packer, then all packages of the server")
def test_packed_bundle_starts_as_a_client_starts_it(tmp_path):
    subprocess.run([TOP / "scripts/bundle", tmp_path], check=True, capture_output=True)
    place = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / "mcp-notarium.mcpb") as bundle:
        bundle.extractall(place)
    manifest = json.loads((place / "manifest.json").read_text())
    started = manifest["server"]["mcp_config"]
    chosen = {name: one["default"] for name, one in manifest["user_config"].items()}
    chosen["notarium_store"] = "memory"
    env = {
        name: chosen[value.removeprefix("${user_config.").removesuffix("}")]
        for name, value in started["env"].items()
    }
    done = subprocess.run(
        [UV, *(one.replace("${__dirname}", str(place)) for one in started["args"])],
        input=json.dumps(INITIALIZE) + "\n",
        env=dict(os.environ) | {"HOME": str(tmp_path)} | env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert answer["result"]["serverInfo"]["name"]
    assert done.returncode == 0, done.stderr


def test_two_packings_have_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    command = [sys.executable, TOP / "scripts/bundle.py", "--same-bytes"]
    for number, names in enumerate((["b", "a/c"], ["a/c", "b"])):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as packed:
            for name in names:
                packed.writestr(zipfile.ZipInfo(name, (2001 + number, 1, 1, 0, 0, 0)), name * 99)
        done = [tmp_path / f"{number}.zip", tmp_path / f"{number}.mcpb"]
        subprocess.run([*command, *done], check=True)
    one, other = (tmp_path / f"{number}.mcpb" for number in range(2))
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as bundle:
        assert {name: bundle.read(name) for name in bundle.namelist()} == {
            "a/c": b"a/c" * 99, "b": b"b" * 99
        }  # fmt: skip


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", "/home/zoë/.config/Claude/Claude Extensions/notarium"),
        ("darwin", "/Users/Zoë/Library/Application Support/Claude/Claude Extensions/notarium"),
        ("win32", r"C:\Users\Zoë O'Brien\AppData\Roaming\Claude\Claude Extensions\notarium"),
    ],
)
def test_command_of_the_manifest_is_words_for_each_system(folder, platform, place):
    """As a client makes it: overrides of its platform, then placeholders, then words without a shell."""
    manifest = json.loads((folder / "manifest.json").read_text())
    assert platform in manifest["compatibility"]["platforms"]
    config = manifest["server"]["mcp_config"]
    config |= config.get("platform_overrides", {}).get(platform, {})
    words = [config["command"], *config["args"]]
    words = [one.replace("${__dirname}", place) for one in words]
    assert words == ["uv", "run", "--directory", place, "src/notarium_bundle.py"]
    assert (folder / words[-1]).is_file()
    assert not {"sh", "bash", "cmd", "python", "python3", "py"} & set(words)
    uses = {text for text in config["env"].values() if not text.startswith("${user_config.")}
    assert uses == set()
