"""Test the container image: its own commands, run without a container, give a server that starts."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.long import LONG

TOP = Path(__file__).parents[2]
LINES = [
    line.split(" ", 1)
    for line in (TOP / "Dockerfile").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
CUT = [word for word, _ in LINES].index("FROM", 1)
BUILD, RUN = LINES[:CUT], LINES[CUT:]
ENV = dict(pair.split("=") for word, text in RUN if word == "ENV" for pair in text.split())
ENTRY = next(json.loads(text) for word, text in RUN if word == "ENTRYPOINT")
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)


def test_image_runs_without_root_and_installs_by_hash():
    words = [word for word, _ in RUN]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert next(text for word, text in RUN if word == "USER") == "10001"
    installs = [text for word, text in LINES if word == "RUN" and "pip install" in text]
    assert all("--require-hashes" in one or "--no-deps /opt/wheel" in one for one in installs)


def test_what_is_copied_exists_and_may_be_sent_to_the_builder():
    allowed = {
        line[1:] for line in (TOP / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    copied = {
        name
        for word, text in BUILD
        if word == "COPY"
        for name in text.split()[:-1]
        if not name.startswith("--")
    }
    assert copied == allowed
    assert all((TOP / name).exists() for name in copied)


def test_compose_takes_power_away_and_keeps_the_key_out_of_the_environment():
    service = yaml.safe_load((TOP / "compose.yaml").read_text())["services"]["notarium"]
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["stdin_open"] is True
    assert "DB_ENCRYPTION_KEY" not in service["environment"]
    assert service["volumes"] == [f"notes:{ENV['NOTARIUM_DATA_DIR']}"]


@pytest.mark.skipif(not LONG, reason="installs all packages")
@pytest.mark.slow("installs all packages as the image does")
def test_commands_of_the_image_make_a_server_that_starts(tmp_path):
    """The folders of the image are below ``tmp_path``, and its Python is this one."""
    source, opt = tmp_path / "source", tmp_path / "opt"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "python"], check=True)
    path = f"{tmp_path}/python/bin:{os.environ['PATH']}"
    for word, text in BUILD:
        if word == "COPY":
            *names, target = text.split()
            copy(names, source / target, single=not target.endswith("/"))
        if word == "RUN":
            command = re.sub(r"/opt\b", str(opt), text)
            subprocess.run(
                ["sh", "-ec", command], cwd=source, env=os.environ | {"PATH": path}, check=True
            )
    entry = [one.replace("/opt", str(opt)) for one in ENTRY]
    done = subprocess.run(
        entry,
        input=INITIALIZE,
        env={"HOME": str(tmp_path)} | ENV | {"NOTARIUM_STORE": "memory"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"], done.stderr
    assert done.returncode == 0, shlex.join(entry)


def copy(names, target, *, single):
    for name in names:
        if (TOP / name).is_dir():
            shutil.copytree(TOP / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place = target if single else target / Path(name).name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / name, place)
