"""Test Ctrl+C in every command that changes something, at any instant: it says what was changed, and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.long import dice, sample
from support.talker import SERVE
from support.whole import Server, run, store_environment, until

pytestmark = pytest.mark.slow("each row runs real commands and kills them")

COMMANDS: dict[str, tuple[str, ...]] = {
    "rotate-key": ("rotate-key", "--new-key-file", "{new}"),
    "rotate-key --reencrypt": ("rotate-key", "--reencrypt", "--new-key-file", "{new}"),
    "restore": ("restore", "--yes"),
    "repair": ("repair",),
    "reset-cache": ("reset-cache", "--yes"),
    "backup": ("backup", "{out}"),
    "export": ("export", "{out}"),
    "import": ("import", "{notes}", "--yes"),
    "keys add": ("keys", "add", "--new-key-file", "{new}"),
}
BY_PYTHON = ("Fatal Python error", "Could not import runpy module", "_run_module_as_main")
"""What Python itself says if it meets the signal before the program runs."""
NEW = "seven quiet otters built a bridge of driftwood"


def interrupt(env: dict[str, str], command: Sequence[str], after: float) -> tuple[int, str]:
    """Run a command, and send it Ctrl+C after so many seconds; its exit code and what it said."""
    process = subprocess.Popen(
        [*SERVE, *command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    return process.returncode, said.decode()


@pytest.mark.parametrize("name", sample("interrupted", list(COMMANDS), 4))
def test_ctrl_c_says_what_was_changed_and_loses_nothing(tmp_path: Path, name: str) -> None:
    env = store_environment(tmp_path, "local", LOCAL_COPIES="2")
    key = env["DB_ENCRYPTION_KEY"]
    with Server(env) as server:
        for number in range(3):
            server.tool("save", text=f"note {number}\n")
        assert server.leave() == 0
    (tmp_path / "new").write_text(NEW)
    (tmp_path / "new").chmod(0o600)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "more.md").write_text("more\n")
    places = {"new": tmp_path / "new", "out": tmp_path / "out", "notes": notes}
    command = [part.format(**places) for part in COMMANDS[name]]
    draw = dice(name)
    for after in (draw.uniform(0.02, 0.25), draw.uniform(0.25, 0.6), draw.uniform(0.4, 1.2)):
        code, said = interrupt(env, command, after)
        if any(words in said for words in BY_PYTHON):
            assert "cli/" not in said, (after, said)
            continue
        assert "Traceback" not in said, (after, said)
        assert code in (-signal.SIGINT, 0, 130) or "already" in said or "exists" in said, said
        if code == 130:
            assert "Interrupted" in said, (after, said)
        elif code == -signal.SIGINT and "Interrupted" not in said:
            # Python itself met it, before the program ran or once it had said what it did.
            assert said == "" or said.endswith(".\n") or "--" in said, (after, said)
        for words in (key, NEW):
            status = run(env | {"DB_ENCRYPTION_KEY": words}, "status")
            if status.returncode == 0:
                break
        assert status.returncode == 0, (after, said, status.stdout, status.stderr)
        env["DB_ENCRYPTION_KEY"] = words
        with Server(env) as server:
            until(lambda: server.tool("list")["total_items"] >= 3)
            assert server.leave() == 0
        if "Nothing was changed" in said:
            assert words == key, (after, said)
        key = words if words == key else NEW
