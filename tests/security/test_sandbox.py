"""Test what a confined server can and cannot do, with real calls in the whole server."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from mcp_notarium.cli import doctor_checks
from mcp_notarium.errors import ConfigError
from mcp_notarium.sandbox import confinement, landlock, seccomp
from mcp_notarium.sandbox.confinement import Confinement
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.account import USERNAME, account
from support.confined_child import outcome
from support.needs import lacking
from support.simplenote_settings import simplenote
from support.whole import SERVE, Server, environment, run, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
CHILD = Path(__file__).parent.parent / "support" / "confined_child.py"


@pytest.fixture(autouse=True)
def _kernel():
    if landlock.version() < 6:
        lacking(f"Landlock {landlock.version()} of this kernel cannot show everything (6 can)")
    if missing := seccomp.explain_missing_support():
        lacking(missing)


def tried(tmp_path: Path, wanted: str) -> dict[str, str]:
    """Each attempt of the child and what came of it."""
    home = tmp_path / "home"
    home.mkdir()
    secret = home / "secret"
    secret.write_text("of the user")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = subprocess.run(
            [
                sys.executable,
                str(CHILD),
                str(tmp_path),
                str(secret),
                str(listening.getsockname()[1]),
                wanted,
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "PYTHONPATH": str(CHILD.parent.parent),
            },
            cwd=home,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    assert report["how"].startswith("Landlock" if wanted != "off" else "off")
    return report["found"]


def test_only_what_the_server_needs_is_left(tmp_path):
    found = tried(tmp_path, "require")
    assert {name: what for name, what in found.items() if name.startswith("always")} == {
        name: "done" for name in found if name.startswith("always")
    }
    forbidden = {name: what for name, what in found.items() if name.startswith("never")}
    refusals = {"EACCES", "EPERM", "EXDEV"}
    assert {name: what for name, what in forbidden.items() if what not in refusals} == {}


def test_all_of_it_is_possible_without(tmp_path):
    """The control: what is refused above is refused by nothing else."""
    found = tried(tmp_path, "off")
    assert {name: what for name, what in found.items() if what != "done"} == {}


def test_every_thread_of_a_real_server_is_confined(tmp_path):
    simulator = Simulator()
    simulator.load(prose(3, seed=2))
    with simulator.running():
        named = {  # a name, so that it has to be looked up
            "SIMPERIUM_API_URL": simulator.api_url,
            "SIMPERIUM_AUTH_URL": simulator.auth_url,
            "SIMPLENOTE_APP_URL": simulator.app_url,
        }
        named = {name: url.replace("127.0.0.1", "localhost") for name, url in named.items()}
        env = environment(simulator, tmp_path, NOTARIUM_SANDBOX="require", **named)
        with Server(env) as server:
            server.loaded(len(simulator.notes()))
            saved = server.tool("save", text="from the sandbox\n")
            simulator.edit(saved["id"], content="from elsewhere\n")
            until(lambda: "elsewhere" in str(server.tool("get", id=saved["id"])))
            tasks = [*Path(f"/proc/{server.process.pid}/task").iterdir()]
            states = [(task / "status").read_text() for task in tasks]
            assert server.leave() == 0
        assert len(tasks) > 1
        assert all("NoNewPrivs:\t1" in state and "Seccomp:\t2" in state for state in states)


def test_the_thread_that_reads_input_keeps_nothing_but_what_it_has_open(tmp_path):
    (tmp_path / "file").write_text("of the account")
    attempts = {
        "Landlock": (tmp_path / "file").read_bytes,
        "seccomp": lambda: socket.socketpair(socket.AF_VSOCK),
    }
    came = {}

    def alone() -> None:
        Confinement(account(tmp_path), "require").drop_all_rights()
        came.update({name: outcome(attempt) for name, attempt in attempts.items()})

    thread = threading.Thread(target=alone)
    thread.start()
    thread.join()
    assert came == {"Landlock": "EACCES", "seccomp": "EPERM"}
    assert attempts["Landlock"]()  # this one has kept it


def test_a_store_that_declares_it_sets_attributes_of_open_files_by_their_descriptors(tmp_path):
    path = tmp_path / "file"
    path.write_text("x")
    attempts = {
        "mode": lambda file: os.fchmod(file, 0o640),
        "dates": lambda file: os.utime(file, (1, 1)),
        "mode by path": lambda _file: path.chmod(0o666),
        "dates by path": lambda _file: os.utime(path, (2, 2)),
        "watch": lambda _file: call_watch(path),
    }
    came = {}

    def alone() -> None:
        seccomp.restrict(attributes=True)
        with path.open("rb") as file:
            for name, attempt in attempts.items():
                came[name] = outcome(partial(attempt, file.fileno()))

    thread = threading.Thread(target=alone)
    thread.start()
    thread.join()
    refused = dict.fromkeys(("mode by path", "dates by path", "watch"), "EPERM")
    assert came == {"mode": "done", "dates": "done"} | refused
    assert (path.stat().st_mode & 0o777, path.stat().st_mtime) == (0o640, 1)
    call_watch(path)


def call_watch(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    watching = libc.inotify_init1(0)
    try:
        if libc.inotify_add_watch(watching, bytes(path), 2) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
    finally:
        os.close(watching)


CONFINED_AND_BUSY = """
import sys, threading, time
from pathlib import Path
from mcp_notarium.sandbox.confinement import Confinement
from support.account import USERNAME, account

confined = threading.Event()

def work():
    Confinement(account(Path(sys.argv[1])), "require").drop_all_rights()
    confined.set()
    while True:
        time.sleep(0.0001)

threading.Thread(target=work, daemon=True).start()
confined.wait()
"""


def test_a_confined_thread_that_is_at_work_when_the_process_ends_does_not_abort_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CONFINED_AND_BUSY, str(tmp_path)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHILD.parent.parent)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


WITHOUT = {
    "Landlock": "from mcp_notarium.sandbox import landlock; landlock.version = lambda: 0",
    "seccomp": "from mcp_notarium.sandbox import seccomp; seccomp.explain_missing_support = lambda: 'none here'",
}


@pytest.mark.parametrize("missing", WITHOUT)
@pytest.mark.parametrize(("wanted", "code"), [("require", 1), ("auto", 0)])
def test_a_kernel_without_it_matters_only_where_it_is_required(tmp_path, wanted, code, missing):
    without = (
        f"import sys; {WITHOUT[missing]}\nfrom mcp_notarium.__main__ import main; sys.exit(main())"
    )
    simulator = Simulator()
    with simulator.running():
        done = subprocess.run(
            [sys.executable, "-c", without],
            env=environment(simulator, tmp_path, NOTARIUM_SANDBOX=wanted),
            input=json.dumps(HELLO).encode() + b"\n",
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert bool(done.stdout) is (code == 0)  # a refusal comes before the handshake
    assert (b"cannot be confined" in done.stderr) is (code == 1)


def test_a_server_without_landlock_still_takes_the_filter(tmp_path, monkeypatch):
    monkeypatch.setattr(landlock, "version", lambda: 0)
    monkeypatch.setattr(seccomp, "restrict", lambda **_needed: None)
    one = Confinement(account(tmp_path), "auto")
    one.enter()
    assert one.how == confinement.describe_effect("auto")
    assert one.how.startswith("not confined by Landlock: ")
    assert "; seccomp: programs, listening" in one.how


def _refuses(**_needed: bool) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("known", [True, False])
def test_a_filter_that_fails_is_reported_or_refused(tmp_path, monkeypatch, known):
    """Where the calls of the architecture are not known, Landlock alone is all that can be required."""
    monkeypatch.setattr(landlock, "restrict", lambda _allowed: 7)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setattr(seccomp, "restrict", _refuses)
    confinement = Confinement(account(tmp_path), "auto")
    confinement.enter()
    assert confinement.how.endswith("; not confined by seccomp: Operation not permitted")
    if not known:
        monkeypatch.setattr(seccomp, "architecture", lambda: None)
    required = Confinement(account(tmp_path), "require")
    with nullcontext() if not known else pytest.raises(ConfigError, match="cannot be confined"):
        required.enter()


@pytest.mark.parametrize(("wanted", "state"), [("auto", "warn"), ("require", "bad")])
def test_doctor_tells_that_there_is_no_filter(monkeypatch, wanted, state):
    monkeypatch.setattr(
        seccomp, "explain_missing_support", lambda: "this kernel has no seccomp filters"
    )
    seen = doctor_checks.check_sandbox(wanted)
    assert seen.state == state
    assert "this kernel has no seccomp filters" in seen.seen


def test_doctor_foresees_what_a_server_does(tmp_path):
    simulator = Simulator()
    simulator.load(prose(3, seed=2))
    with simulator.running():
        env = environment(simulator, tmp_path, LOG_FILE_PATH=str(tmp_path / "log"))
        with Server(env) as server:
            server.tool("list")
            assert server.leave() == 0
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    (confined,) = [line["state"] for line in lines if line["event"] == "server.confined"]
    assert doctor_checks.check_sandbox("auto").seen == f"auto: {confined}"


@pytest.mark.parametrize(
    ("kernel", "wanted", "state", "says"),
    [
        (0, "auto", "warn", "auto: not confined"),
        (0, "require", "bad", "this system has no Landlock"),
        (3, "auto", "ok", "auto: Landlock 3: files"),
        (3, "require", "bad", "knows no rules for the network"),
        (4, "require", "ok", "require: Landlock 4: files, network"),
        (6, "auto", "ok", "auto: Landlock 6: files, network, signals"),
        (6, "off", "warn", "NOTARIUM_SANDBOX=off"),
    ],
)
def test_doctor_tells_what_this_kernel_can(monkeypatch, kernel, wanted, state, says):
    monkeypatch.setattr(landlock, "version", lambda: kernel)
    seen = doctor_checks.check_sandbox(wanted)
    assert seen.state == state
    assert says in seen.seen
    assert ("signals" in seen.seen) is ("signals" in says)
    assert bool(seen.hint) is (state == "bad")


def test_the_option_stands_in_for_the_setting(tmp_path):
    simulator = Simulator()
    with simulator.running():
        env = environment(simulator, tmp_path, NOTARIUM_SANDBOX="off")
        with Server(env, command=[*SERVE, "serve", "--sandbox=require"]) as server:
            server.tool("list")
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            assert server.leave() == 0
    assert "NoNewPrivs:\t1" in status
    assert run(env, "serve", "--sandbox", "perhaps").returncode == 2


def test_neither_the_working_folder_nor_a_home_is_readable_for_being_on_the_path(
    tmp_path, monkeypatch
):
    home, here, library = tmp_path / "home", tmp_path / "project", tmp_path / "library"
    for folder in (home / "deep", here, library):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    monkeypatch.setattr(
        sys, "path", ["", str(here), str(home), str(tmp_path), "/", str(library), *sys.path]
    )
    read = confinement.find_allowed_access(account(tmp_path)).read
    assert library in read
    assert not {here, home, tmp_path, Path("/")} & {*read}


def test_only_the_ports_of_the_note_service_are_left(tmp_path):
    config = account(tmp_path, **simplenote(USERNAME, SIMPERIUM_API_URL="http://127.0.0.1:8123/1"))
    assert confinement.find_allowed_access(config).ports == (53, 443, 8123)


CONFINED_FOR_A_STORE = """
import json, sys
from pathlib import Path
from mcp_notarium.sandbox.confinement import Confinement
from support.account import account
from support.confined_child import connect, outcome
from support.other_kind import in_folder

place, near, far = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
vault, library, other = place / "vault", place / "library", place / "other"
config = account(place / "data", **in_folder(vault, library=library, port=near))
Confinement(config, sys.argv[4]).enter()
attempts = {
    "change a note": lambda: (vault / "note").write_text("x"),
    "rename a note": lambda: (vault / "note").rename(vault / "renamed"),
    "read the library": (library / "book").read_text,
    "connect to its port": lambda: connect(near),
    "never: change the library": lambda: (library / "book").write_text("x"),
    "never: read another folder": (other / "book").read_text,
    "never: change another folder": lambda: (other / "book").write_text("x"),
    "never: connect to another port": lambda: connect(far),
    "never: connect to the usual port": lambda: connect(443),
}
print(json.dumps({name: outcome(one) for name, one in attempts.items()}))
"""


@pytest.mark.parametrize("wanted", ["require", "off"])
def test_a_store_reaches_the_folders_and_the_port_it_needs_and_no_others(tmp_path, wanted):
    for name in ("data", "vault", "library", "other"):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / "book").write_text("of the user")
    with (
        socket.create_server(("127.0.0.1", 0)) as near,
        socket.create_server(("127.0.0.1", 0)) as far,
    ):
        ports = [str(one.getsockname()[1]) for one in (near, far)]
        done = subprocess.run(
            [sys.executable, "-c", CONFINED_FOR_A_STORE, str(tmp_path), *ports, wanted],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHILD.parent.parent)},
            cwd="/",
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    refused = {name for name, what in found.items() if what == "EACCES"}
    never = {name for name in found if name.startswith("never")}
    assert refused == (never if wanted == "require" else set())
    assert {what for name, what in found.items() if name not in refused} == {"done"}
