import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_notarium.config import secret_names

KEY = "raw:5ec4e7" + "0" * 58


def child(code, **environment):
    """Run code in a fresh process and return what it printed; nothing is done to this one."""
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import os\nfrom mcp_notarium.sandbox import confinement as hardening\n{code}",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={"PATH": os.environ["PATH"]} | environment,
    )
    return ran.stdout.strip()


SHOW = "print(open('/proc/self/environ', 'rb').read().count(b'5ec4e7'))"


def test_a_wiped_variable_is_gone_from_the_environment_the_kernel_shows():
    code = f"hardening.wipe_environment('DB_ENCRYPTION_KEY')\n{SHOW}"
    assert child(SHOW, DB_ENCRYPTION_KEY=KEY) == "1"
    assert child(code, DB_ENCRYPTION_KEY=KEY) == "0"


def test_dropping_it_from_python_alone_would_not_do():
    code = f"os.environ.pop('DB_ENCRYPTION_KEY')\n{SHOW}"
    assert child(code, DB_ENCRYPTION_KEY=KEY) == "1"


def test_another_process_sees_nothing_either():
    code = (
        "import sys\n"
        "hardening.wipe_environment('DB_ENCRYPTION_KEY', 'SIMPLENOTE_PASSWORD')\n"
        "print('ready', flush=True)\nsys.stdin.readline()"
    )
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"from mcp_notarium.sandbox import confinement as hardening\n{code}",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"DB_ENCRYPTION_KEY": KEY, "SIMPLENOTE_PASSWORD": "s3cret-pass", "OTHER": "stays"},
    ) as process:
        assert process.stdout.readline() == "ready\n"
        environ = Path(f"/proc/{process.pid}/environ").read_bytes()
        process.communicate("go\n", timeout=30)
    assert b"5ec4e7" not in environ
    assert b"s3cret" not in environ
    assert b"OTHER=stays" in environ


def test_children_started_later_do_not_inherit_it():
    code = (
        "import subprocess, sys\n"
        "hardening.wipe_environment('DB_ENCRYPTION_KEY')\n"
        "print('DB_ENCRYPTION_KEY' in os.environ)\n"
        "sys.stdout.flush()\n"
        "subprocess.run(['env'])"
    )
    shown = child(code, DB_ENCRYPTION_KEY=KEY)
    assert shown.startswith("False")
    assert "DB_ENCRYPTION_KEY" not in shown


def test_wiping_what_is_not_set_does_nothing():
    assert child("hardening.wipe_environment('NOT_SET')\nprint('fine')") == "fine"


def test_a_hardened_process_writes_private_files_and_no_cores():
    code = (
        "import resource\n"
        "hardening.harden_process()\n"
        "print(oct(os.umask(0)), resource.getrlimit(resource.RLIMIT_CORE))"
    )
    assert child(code) == "0o77 (0, 0)"


def test_a_hardened_process_is_not_dumpable():
    code = (
        "import ctypes\n"
        "get = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n"
        "print(get(), end=' ')\nhardening.harden_process()\nprint(get())"
    )
    assert child(code) == "1 0"


def test_the_files_under_proc_of_a_hardened_process_belong_to_root():
    # Not dumpable: the kernel hands /proc/PID to root, so that a peer of the same user is refused.
    code = "hardening.SYSTEM.forbid_tracing()\ns = os.stat('/proc/self/environ')\nprint(s.st_uid, oct(s.st_mode))"
    uid, mode = child(code).split()
    assert uid == "0"
    assert stat.S_IMODE(int(mode, 8)) == 0o400


@pytest.mark.skipif(sys.platform != "linux", reason="a measure of Linux")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--print-config-vars"],
        ["generate-key"],
        ["policy", "show"],
    ],
)
def test_a_command_that_sees_a_secret_is_closed_to_others(arguments, tmp_path):
    shown = child(
        f"from mcp_notarium.__main__ import main\nmain({arguments!r})\n"
        "import ctypes\nprint('dumpable', ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))",
        HOME=str(tmp_path),
        SIMPLENOTE_USERNAME="someone@example.com",
        NOTARIUM_DATA_DIR=str(tmp_path / "cache"),
        NOTARIUM_KEYCHAIN="off",
        DB_ENCRYPTION_KEY=KEY,
    )
    assert shown.splitlines()[-1] == "dumpable 0"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    "act",
    ["from mcp_notarium.protocol import server as run; run._protect()", "main(['policy', 'show'])"],
)
def test_server_and_commands_overwrite_every_secret_of_their_environment(act, tmp_path):
    """Seen by the process itself, which is left readable for that."""
    secrets = {name: f"canary-of-{name}-5e1f" for name in secret_names()}
    code = "type(hardening.SYSTEM).forbid_tracing = lambda _: None\nfrom mcp_notarium.__main__ import main\n"
    look = "\nimport os\nprint('environ', open('/proc/self/environ', 'rb').read(), os.environ)"
    place = {"HOME": str(tmp_path), "NOTARIUM_DATA_DIR": str(tmp_path / "cache")}
    shown = child(
        code + act + look, **place, SIMPLENOTE_USERNAME="ada@example.org", **secrets
    ).rpartition("environ")[2]
    assert "ada@example.org" in shown
    assert {"DB_ENCRYPTION_KEY", "SIMPLENOTE_PASSWORD"} < secrets.keys()
    assert "canary" not in shown
