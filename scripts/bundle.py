"""Write the folder that ``scripts/bundle`` packs: ``python scripts/bundle.py FOLDER``.

``--same-bytes PACKED OUT`` writes a packed bundle with its files sorted and dated by ``SOURCE_DATE_EPOCH``.
The host's uv installs the versions of requirements.lock and runs the sources, so nothing is built on the user's machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
PACKAGE = "src/mcp_notarium"
KINDS = re.compile(r"\w+\.py|static_replies\.json|page\.(css|html)|py\.typed")
ENTRY = "src/notarium_bundle.py"
TITLES = {
    "NOTARIUM_STORE": "Store",
    "DB_ENCRYPTION_KEY": "Passphrase",
    "SIMPLENOTE_USERNAME": "Simplenote account",
    "SIMPLENOTE_PASSWORD": "Simplenote password",
    "VAULT_PATH": "Vault folder",
    "TRILIUM_URL": "Trilium address",
    "TRILIUM_TOKEN": "Trilium token",
    "MEMENTO_DATABASE": "Memento database",
}
"""What a person reads above each question."""


def main(folder: Path) -> None:
    """Write manifest, project file, sources, licence and README."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    server = json.loads((TOP / "server.json").read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)
    for name in [*find_sources(), "LICENSE", "README.md"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, folder / name)
    (folder / ENTRY).write_text(
        "from mcp_notarium.__main__ import main\n\nraise SystemExit(main())\n", encoding="utf-8"
    )
    (folder / "pyproject.toml").write_text(project_file(project), encoding="utf-8")
    (folder / "manifest.json").write_text(
        json.dumps(manifest(project, server), indent=2) + "\n", encoding="utf-8"
    )


def find_sources() -> list[str]:
    """Return the files of the package: those that git tracks, or without a checkout of our own those of its kinds.

    A key or a file of settings that somebody has put beside them is none.
    """
    command = ["git", "-C", str(TOP), "ls-files", "-z", "--full-name", "--", PACKAGE]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = ""
    tracked = [name for name in listed.split("\0") if name.startswith(f"{PACKAGE}/")]
    if tracked:
        return [name for name in tracked if (TOP / name).is_file()]
    files = (TOP / PACKAGE).rglob("*")
    return sorted(
        str(path.relative_to(TOP))
        for path in files
        if path.is_file() and KINDS.fullmatch(path.name)
    )


def project_file(project: dict[str, Any]) -> str:
    """Return a project without a package of its own, with the locked versions."""
    lock = (TOP / "requirements.lock").read_text(encoding="utf-8")
    locked = re.findall(r"^([a-z0-9][^\\\n]*?) *\\?$", lock, re.MULTILINE)
    return "\n".join(
        [
            "[project]",
            f"name = {json.dumps(project['name'] + '-bundle')}",
            f"version = {json.dumps(project['version'])}",
            f"requires-python = {json.dumps(project['requires-python'])}",
            f"dependencies = {json.dumps(locked, indent=2)}",
            "",
            "[tool.uv]",
            "package = false",
            "",
        ]
    )


def manifest(project: dict[str, Any], server: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest: it asks for the variables of server.json."""
    (package,) = server["packages"]
    variables = package["environmentVariables"]
    return {
        "manifest_version": "0.4",
        "name": project["name"],
        "display_name": server["title"],
        "version": project["version"],
        "description": server["description"],
        "author": {"name": "The authors of MCP Notarium"},
        "repository": {"type": "git", "url": project["urls"]["Source"]},
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {
            "type": "uv",
            "entry_point": ENTRY,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", ENTRY],
                "env": {
                    one["name"]: f"${{user_config.{one['name'].lower()}}}" for one in variables
                },
            },
        },
        "tools_generated": True,
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": project["requires-python"]},
        },
        "user_config": {one["name"].lower(): question(one) for one in variables},
    }


def question(variable: dict[str, Any]) -> dict[str, Any]:
    """Return how a client asks for one variable; the server takes an empty value for none."""
    choices = variable.get("choices")
    path = variable.get("format") == "filepath"
    folder = variable["name"] == "VAULT_PATH"
    found = {
        "type": ("directory" if folder else "file") if path else "string",
        "title": TITLES[variable["name"]],
        "description": variable["description"]
        + (f" One of: {', '.join(choices)}." if choices else ""),
        "required": False,
        "default": variable.get("default", ""),
    }
    return found | ({"sensitive": True} if variable.get("isSecret") else {})


def write_same_bytes(packed: Path, out: Path) -> None:
    """Write the archive again without what differs from one packing to the next."""
    made = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(out, "w") as new:
        for name in sorted(old.namelist()):
            entry = zipfile.ZipInfo(name, made)
            entry.external_attr = 0o100644 << 16
            new.writestr(entry, old.read(name), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    if sys.argv[1] == "--same-bytes":
        write_same_bytes(*map(Path, sys.argv[2:]))
    else:
        main(Path(sys.argv[1]))
