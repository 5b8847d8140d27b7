"""Test the real program against GNOME Keyring: unlocked, locked, silent, hung and missing."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support import needs
from support.account import fingerprint
from support.long import sample
from support.real_keychain import PROGRAMS, Session
from support.terminal import Terminal
from support.whole import DEADLINE, RAW_KEY, Server, account_folder, environment, run

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the keychain of Linux desktops"),
    pytest.mark.timeout(120),
]

UNUSABLE = 23
IMPATIENT = [
    sys.executable,
    "-c",
    (
        "import sys; from mcp_notarium.keys import keychain; "
        "keychain.TIMEOUTS = {keychain.KEY: 1.5, keychain.TOKEN: 0.5}; "
        "from mcp_notarium.__main__ import main; sys.exit(main())"
    ),
]
"""The program as it is, with less time for a dialog."""


@dataclass
class KeychainAccount:
    """One account, one session with a keychain, and the program with both."""

    simulator: Simulator
    session: Session
    folder: Path

    def env(self, **changes: str | None) -> dict[str, str]:
        """With nothing but the keychain to open the cache and to log in, unless changed."""
        settings: dict[str, str | None] = {
            "DB_ENCRYPTION_KEY": None,
            "SIMPLENOTE_PASSWORD": None,
            "NOTARIUM_KEYCHAIN": "on",
        }
        return environment(self.simulator, self.folder, **settings | self.session.env | changes)

    def keyed(self, **changes: str | None) -> dict[str, str]:
        """With the key and the password in the environment."""
        given = {"DB_ENCRYPTION_KEY": RAW_KEY, "SIMPLENOTE_PASSWORD": self.simulator.password}
        return self.env(**given | changes)

    @property
    def cache(self) -> Path:
        return account_folder(self.simulator, self.folder)

    def fill(self, **changes: str | None) -> None:
        """Make the cache, by the key in the environment."""
        with Server(self.keyed(**changes)) as server:
            server.loaded(sum(not note["deleted"] for note in self.simulator.notes().values()))
            assert server.leave() == 0

    def enable(self) -> None:
        done = run(self.keyed(), "keychain", "enable")
        assert done.returncode == 0, done.stderr
        assert "Secret Service opens the cache" in done.stderr

    def use(self, text: str, **changes: str | None) -> None:
        """Start a server, find the notes, and save one at the service."""
        with Server(self.env(**changes)) as server:
            assert server.tool("list", query="lighthouse")["total_items"] == 1
            saved = server.tool("save", text=text)
            assert self.simulator.notes()[saved["id"]]["content"] == text
            assert server.leave() == 0

    def refused(self, said: str, command: list[str] | None = None, **changes: str | None) -> None:
        """A server answers what is wrong and what to do, and leaves the cache as it was."""
        before = fingerprint(self.cache)
        with Server(self.env(**changes), command=command) as server:
            error = server.error("list")
            assert error["details"]["verdict"] == "keychain_unusable"
            assert said in error["message"]
            assert "`mcp-notarium doctor` names other ways" in error["resolution_hint"]
            assert server.leave() == 1
        assert fingerprint(self.cache) == before


@pytest.fixture(name="simulator", scope="module")
def _simulator() -> Iterator[Simulator]:
    needs.programs(*PROGRAMS)
    simulator = Simulator()
    simulator.put("diary", content="Diary\nToday I saw a lighthouse.\n", tags=[])
    with simulator.running():
        yield simulator


@pytest.fixture(name="enabled", scope="module")
def _enabled(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a cache that the keychain opens, and the login in it; tests work on copies."""
    home = tmp_path_factory.mktemp("enabled")
    with Session(home) as session:
        account = KeychainAccount(simulator, session, home)
        account.fill()
        account.enable()
    return home


@pytest.fixture
def account(simulator: Simulator, tmp_path: Path, enabled: Path) -> Iterator[KeychainAccount]:
    """The cache that the keychain opens, in a session in which it is unlocked."""
    shutil.copytree(enabled, tmp_path, dirs_exist_ok=True)
    with Session(tmp_path) as session:
        yield KeychainAccount(simulator, session, tmp_path)


@pytest.fixture
def empty_account(simulator: Simulator, tmp_path: Path) -> Iterator[KeychainAccount]:
    """No cache yet, and an unlocked keychain with nothing in it."""
    with Session(tmp_path) as session:
        yield KeychainAccount(simulator, session, tmp_path)


@pytest.mark.slow("restarts the keychain and servers")
def test_the_keychain_keeps_key_and_login_over_restarts_of_everything(
    empty_account: KeychainAccount,
) -> None:
    account = empty_account
    account.fill()
    assert account.session.secrets().keys() == {"login-token"}
    account.enable()
    kept = account.session.secrets()
    assert kept.keys() == {"login-token", "database-key"}
    assert kept["database-key"].startswith("raw:")
    assert kept["database-key"] != RAW_KEY
    account.use("saved with nothing in the environment")
    account.session.log_out()
    account.session.log_in()
    assert account.session.secrets() == kept
    account.use("saved after a new login to the desktop")
    for secret in kept.values():
        assert secret.encode() not in account.session.files
    doctor = json.loads(run(account.env(), "doctor", "--json", "--offline").stdout)["findings"]
    (seen,) = (one for one in doctor if one["name"] == "keychain")
    assert (seen["state"], seen["seen"]) == ("ok", "Secret Service")


def test_a_key_made_in_the_keychain_opens_a_new_cache(empty_account: KeychainAccount) -> None:
    account = empty_account
    assert run(account.env(), "generate-key", "--keychain").returncode == 0
    with Server(account.env(SIMPLENOTE_PASSWORD=account.simulator.password)) as server:
        server.tool("list")
        assert server.leave() == 0
    account.use("saved by the keychain alone")
    again = run(account.env(), "generate-key", "--keychain")
    assert again.returncode != 0
    account.use("saved by the same key")


def test_set_up_keeps_the_key_of_an_account_in_the_keychain_and_nowhere_else(
    empty_account: KeychainAccount,
) -> None:
    session, folder = empty_account.session, empty_account.folder
    bare = {"HOME": str(folder), "PATH": "/usr/bin:/bin", **session.env}
    done = run(bare, "setup", "--yes", "--store", "local", "--client", "none")
    assert done.returncode == 0, done.stderr
    assert "The key is in the system's keychain." in done.stderr
    (secret,) = session.secrets().values()
    settings = folder / ".config" / "mcp-notarium"
    assert [path.name for path in settings.iterdir()] == ["accounts.toml"]
    assert 'key = "keychain"' in (settings / "accounts.toml").read_text()
    assert secret not in (settings / "accounts.toml").read_text() + done.stdout + done.stderr
    with Server(
        bare, command=[sys.executable, "-m", "mcp_notarium", "--account", "local"]
    ) as server:
        server.tool("save", text="opened by the keychain")
        assert server.leave() == 0
    assert run(bare, "status").returncode == 0


@pytest.mark.slow("five commands and a server, one after another")
def test_the_key_moves_into_the_keychain_once_there_is_another_way_in(
    account: KeychainAccount,
) -> None:
    assert run(account.keyed(), "keychain", "disable").returncode == 0
    before = fingerprint(account.cache)
    done = run(account.keyed(), "rotate-key", "--keychain")
    assert done.returncode == 1
    assert "keys recovery create" in done.stderr
    assert fingerprint(account.cache) == before
    assert "database-key" not in account.session.secrets()
    with Terminal(account.keyed(), "keys", "recovery", "create") as screen:
        screen.shows(" of 9: ")
        (paper,) = re.findall(r"(?:[0-9A-Z]{4}-){8}[0-9A-Z]{4}", screen.screen)
        (number,) = re.findall(r"Type group (\d) of 9", screen.screen)
        screen.type(paper.split("-")[int(number) - 1] + "\n")
        assert screen.ends() == 0, screen.screen
    done = run(account.keyed(), "rotate-key", "--keychain")
    assert done.returncode == 0, done.stderr
    assert "in Secret Service and nowhere else" in done.stderr
    assert "came from DB_ENCRYPTION_KEY" in done.stderr
    account.use("saved by the keychain alone")
    listed = json.loads(run(account.env(), "keys", "list", "--json").stdout)["slots"]
    assert [(one["type"], one["label"]) for one in listed] == [
        ("recovery", "on paper"),
        ("keychain", "Secret Service"),
    ]
    account.use("saved by the key on paper", DB_ENCRYPTION_KEY=paper)
    kept = account.session.secrets()["database-key"]
    assert run(account.env(), "rotate-key", "--keychain").returncode == 0
    assert account.session.secrets()["database-key"] != kept
    account.use("saved by the next key of the keychain")


@pytest.mark.parametrize("way", [(), ("--reencrypt", "--drop-other-keys")], ids=str)
def test_the_keychain_never_gets_a_key_that_somebody_has_typed(
    account: KeychainAccount, way: tuple[str, ...]
) -> None:
    kept = account.session.secrets()["database-key"]
    words = "nine hungry lamps by the river"
    done = run(account.env(), "rotate-key", "--new-key-stdin", *way, stdin=words + "\n")
    assert done.returncode == 0, done.stderr
    assert 'slot 2 ("Secret Service", keychain) still opens the cache' in done.stderr
    assert account.session.secrets()["database-key"] == kept
    account.use("saved by the keychain")
    account.use("saved by the words", DB_ENCRYPTION_KEY=words)
    assert run(account.keyed(), "status").returncode == 11


def test_the_bus_at_its_usual_place_is_found_without_its_address(account: KeychainAccount) -> None:
    account.use("started by a client that passes on little", DBUS_SESSION_BUS_ADDRESS=None)


def test_a_locked_keychain_is_said_at_once_and_nothing_is_lost(account: KeychainAccount) -> None:
    account.session.lock()
    account.refused("it is locked")
    status = run(account.env(), "status", "--json")
    assert status.returncode == UNUSABLE
    assert "Unlock" in json.loads(status.stdout)["resolution_hint"]
    account.session.log_out()
    account.session.log_in()
    account.use("saved after it was unlocked")


def test_a_locked_keychain_stops_no_server_that_has_its_key_from_elsewhere(
    account: KeychainAccount,
) -> None:
    account.session.lock()
    with Server(account.keyed()) as server:
        server.tool("save", text="the login went into the encrypted cache")
        assert server.leave() == 0
    account.use("and is still there", DB_ENCRYPTION_KEY=RAW_KEY)


@pytest.mark.parametrize(
    "command", [("keychain", "enable"), ("generate-key", "--keychain")], ids=" ".join
)
def test_nothing_is_put_into_a_locked_keychain(
    account: KeychainAccount, command: tuple[str, ...]
) -> None:
    before, kept = fingerprint(account.cache), account.session.secrets()
    account.session.lock()
    done = run(account.keyed(), *command)
    assert done.returncode == UNUSABLE
    assert fingerprint(account.cache) == before
    account.session.log_out()
    account.session.log_in()
    assert account.session.secrets() == kept


def test_a_locked_keychain_is_not_taken_out_and_its_login_not_called_forgotten(
    account: KeychainAccount,
) -> None:
    account.session.lock()
    before = fingerprint(account.cache)
    for command in (("keychain", "disable"), ("logout",)):
        done = run(account.keyed(), *command)
        assert done.returncode == UNUSABLE
    assert (account.cache / "notarium_keys.json").read_bytes()
    assert before["notarium_keys.json"] == fingerprint(account.cache)["notarium_keys.json"]
    account.session.log_out()
    account.session.log_in()
    account.use("saved with both")
    assert run(account.keyed(), "keychain", "disable").returncode == 0
    assert run(account.keyed(), "logout").returncode == 0
    assert account.session.secrets() == {}


@pytest.mark.slow("waits until the program gives up")
def test_a_dialog_that_nobody_answers_is_not_waited_for_without_end(
    account: KeychainAccount,
) -> None:
    account.session.lock()
    with account.session.deaf_dialog():
        account.refused("it does not answer", IMPATIENT)
        _require_status_in_time(account)


@pytest.mark.slow("waits until the program gives up")
def test_a_keychain_that_hangs_is_not_waited_for_without_end(account: KeychainAccount) -> None:
    account.session.signal(signal.SIGSTOP)
    account.refused("it does not answer", IMPATIENT)
    _require_status_in_time(account)
    with Server(account.keyed(), command=IMPATIENT) as server:
        server.tool("save", text="a login that hangs is repeated by password")
        assert server.leave() == 0
    account.session.signal(signal.SIGCONT)
    account.use("saved when it had woken up")


def _require_status_in_time(account: KeychainAccount) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [*IMPATIENT, "status"],
        env=account.env(),
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == UNUSABLE
    assert time.monotonic() - began > 1.5


@pytest.mark.parametrize("way", ["no daemon", "no bus", "no address"])
def test_a_session_without_the_keychain_says_so_and_the_other_key_still_opens(
    account: KeychainAccount, tmp_path_factory: pytest.TempPathFactory, way: str
) -> None:
    gone: dict[str, str | None] = {}
    if way == "no daemon":
        account.session.log_out()
    elif way == "no bus":
        gone = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent/bus"}
    else:
        empty = str(tmp_path_factory.mktemp("runtime"))
        gone = {"DBUS_SESSION_BUS_ADDRESS": None, "XDG_RUNTIME_DIR": empty}
    account.refused("no keychain runs in this session", **gone)
    with Server(account.keyed(**gone)) as server:
        server.tool("save", text="the login went into the encrypted cache")
        assert server.leave() == 0
    account.use("and is still there", DB_ENCRYPTION_KEY=RAW_KEY, **gone)


def test_without_any_keychain_enable_says_so_and_changes_nothing(account: KeychainAccount) -> None:
    account.session.log_out()
    before = fingerprint(account.cache)
    done = run(account.keyed(), "keychain", "enable")
    assert done.returncode == UNUSABLE
    assert fingerprint(account.cache) == before


@pytest.mark.attack(46)
def test_another_keychain_than_last_time_is_distinguished_from_a_missing_key(
    account: KeychainAccount, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Session(tmp_path_factory.mktemp("elsewhere")) as elsewhere:
        account.refused("Secret Service knows no key for this account", **elsewhere.env)
    account.use("saved where the keychain is")


PLAIN = """\
from pathlib import Path
from keyring.backend import KeyringBackend

class PlaintextKeyring(KeyringBackend):
    priority = 9
    kept = Path(__file__).with_name("kept.txt")

    def get_password(self, service, username):
        self.kept.open("a").write(f"asked {service} {username}\\n")
        return "raw:" + "5a" * 32

    def set_password(self, service, username, password):
        self.kept.open("a").write(f"{service} {username} {password}\\n")

    def delete_password(self, service, username):
        self.kept.open("a").write(f"removed {service} {username}\\n")
"""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder with a package that keeps secrets in a plain file, as ``keyrings.alt`` does."""
    package = tmp_path / "site" / "keyrings" / "alt"
    package.mkdir(parents=True)
    (package / "file.py").write_text(PLAIN)
    return tmp_path / "site"


def _chosen(way: str, session: Session, plain: Path) -> dict[str, str | None]:
    """The three ways to make ``keyring`` use another backend, and one that is not there."""
    match way:
        case "null":
            return {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
        case "plain":
            return {
                "PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring",
                "PYTHONPATH": str(plain),
            }
        case "plain by file":
            settings = session.home / ".config" / "python_keyring" / "keyringrc.cfg"
            settings.parent.mkdir(parents=True)
            settings.write_text(
                "[backend]\ndefault-keyring=keyrings.alt.file.PlaintextKeyring\n"
                f"keyring-path={plain}\n"
            )
            # A confined server cannot read that folder; here it is to be refused for what it is.
            return {"NOTARIUM_SANDBOX": "off"}
    return {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}


@pytest.mark.parametrize(
    ("way", "said"),
    sample(
        "backends",
        [
            ("null", "keyring.backends.null.Keyring` is not a keychain"),
            ("plain", "keyrings.alt.file.PlaintextKeyring` is not a keychain"),
            ("plain by file", "keyrings.alt.file.PlaintextKeyring` is not a keychain"),
            ("not installed", "not installed"),
        ],
        2,
    ),
)
@pytest.mark.slow("six commands and a server for each")
def test_an_unprotected_keychain_backend_is_refused_and_gets_no_secret(
    account: KeychainAccount, plain: Path, way: str, said: str
) -> None:
    kept = account.session.secrets()
    chosen = _chosen(way, account.session, plain)
    account.refused(said, **chosen)
    before = fingerprint(account.cache)
    for command in (
        ("keychain", "enable"),
        ("keychain", "disable"),
        ("generate-key", "--keychain"),
    ):
        done = run(account.keyed(**chosen), *command)
        assert done.returncode == UNUSABLE
        assert said in done.stderr
    assert fingerprint(account.cache) == before
    with Server(account.keyed(**chosen)) as server:
        server.tool("save", text="the login went into the encrypted cache")
        assert server.leave() == 0
    doctor = json.loads(run(account.keyed(**chosen), "doctor", "--json", "--offline").stdout)
    (seen,) = (one for one in doctor["findings"] if one["name"] == "keychain")
    assert seen["state"] == "warn"
    assert said in seen["seen"]
    assert not list(plain.rglob("kept.txt"))
    assert account.session.secrets() == kept
