import os
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path

import pytest

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.keys.keychain import KEY, TOKEN, Keychain, _TimedCaller, find_session_bus
from mcp_notarium.secret import Secret
from support import needs
from support.keychains import backend
from support.whole import until

OWNER = "0123456789abcdef" * 4


ALLOWED = [
    ("keyring.backends.macOS", "Keyring"),
    ("keyring.backends.Windows", "WinVaultKeyring"),
    ("keyring.backends.SecretService", "Keyring"),
    ("keyring.backends.libsecret", "Keyring"),
    ("keyring.backends.kwallet", "DBusKeyring"),
    ("keyring.backends.kwallet", "DBusKeyringKWallet4"),
]
REFUSED = [
    ("keyrings.alt.file", "PlaintextKeyring"),
    ("keyrings.alt.file", "EncryptedKeyring"),
    ("keyring.backends.null", "Keyring"),
    ("keyring.backends.chainer", "ChainerBackend"),
    ("keyring.backends.SecretServiceX", "Keyring"),
    ("evil.keyring.backends.SecretService", "Keyring"),
    ("builtins", "Keyring"),
]


@pytest.mark.parametrize(("module", "name"), ALLOWED)
def test_real_keychains_keep_give_and_forget(module, name):
    one = backend(module, name)
    keychain = Keychain(lambda: one)
    assert keychain.usable
    assert keychain.get(KEY, OWNER) is None
    keychain.set(KEY, OWNER, Secret("s3cret"))
    assert keychain.get(KEY, OWNER) == Secret("s3cret")
    assert keychain.get(TOKEN, OWNER) is None
    keychain.delete(KEY, OWNER)
    assert keychain.get(KEY, OWNER) is None


@pytest.mark.attack(46)
@pytest.mark.parametrize(("module", "name"), REFUSED)
def test_an_unprotected_keychain_is_refused_by_name_and_never_used(module, name):
    refused = backend(module, name)
    keychain = Keychain(lambda: refused)
    assert not keychain.usable
    for act in (
        lambda: keychain.get(KEY, OWNER),
        lambda: keychain.set(KEY, OWNER, Secret("s3cret")),
        lambda: keychain.delete(KEY, OWNER),
    ):
        with pytest.raises(LockedError) as said:
            act()
        assert said.value.verdict is Verdict.KEYCHAIN_UNUSABLE
        assert name in said.value.message
    assert refused.kept == {}
    assert refused.reads == 0


def test_a_chain_is_used_by_its_first_real_member():
    plain = backend("keyrings.alt.file", "PlaintextKeyring")
    real = backend("keyring.backends.kwallet", "DBusKeyring")
    chain = backend("keyring.backends.chainer", "ChainerBackend", backends=[plain, real])
    keychain = Keychain(lambda: chain)
    keychain.set(KEY, OWNER, Secret("s3cret"))
    assert len(real.kept) == 1
    assert plain.kept == {}


def test_a_machine_without_a_keychain_has_no_secret_and_keeps_none():
    keychain = Keychain(lambda: backend("keyring.backends.fail", "Keyring"))
    assert not keychain.usable
    assert keychain.get(KEY, OWNER) is None
    keychain.delete(KEY, OWNER)
    with pytest.raises(LockedError):
        keychain.set(KEY, OWNER, Secret("s3cret"))


def test_the_key_is_read_once_per_process():
    one = backend("keyring.backends.kwallet", "DBusKeyring")
    keychain = Keychain(lambda: one)
    for _ in range(3):
        keychain.get(KEY, OWNER)
    assert one.reads == 1


def test_a_login_stored_by_another_process_is_read_again():
    one = backend("keyring.backends.kwallet", "DBusKeyring")
    ours, theirs = Keychain(lambda: one), Keychain(lambda: one)
    assert ours.get(TOKEN, OWNER) is None
    theirs.set(TOKEN, OWNER, Secret("t1"))
    assert ours.get(TOKEN, OWNER) == Secret("t1")
    theirs.set(TOKEN, OWNER, Secret("t2"))
    assert ours.get(TOKEN, OWNER) == Secret("t2")


def test_a_locked_keychain_is_a_verdict_that_repeats_nothing_it_said():
    def locked(*_given):
        raise RuntimeError("prompt dismissed for s3cret")

    one = backend("keyring.backends.SecretService", "Keyring", get_password=locked)
    with pytest.raises(LockedError) as said:
        Keychain(lambda: one).get(KEY, OWNER)
    assert said.value.verdict is Verdict.KEYCHAIN_UNUSABLE
    assert "s3cret" not in said.value.message
    assert "RuntimeError" in said.value.message


IMPATIENT = {KEY: 0.05, TOKEN: 0.05}


class Dialog:
    """A keychain that asks the person first; the person answers when told to."""

    def __init__(self):
        self.answered = threading.Event()
        self.shown = 0

    def get_password(self, *_given):
        self.shown += 1
        self.answered.wait(30)
        return "s3cret"

    def backend(self):
        return backend("keyring.backends.SecretService", "Keyring", get_password=self.get_password)


@pytest.mark.parametrize("kind", [KEY, TOKEN])
def test_a_dialog_that_nobody_answers_is_not_waited_for_without_end(kind):
    dialog = Dialog()
    one = dialog.backend()
    keychain = Keychain(lambda: one, timeouts=IMPATIENT)
    with pytest.raises(LockedError, match="does not answer") as said:
        keychain.get(kind, OWNER)
    assert said.value.verdict is Verdict.KEYCHAIN_UNUSABLE
    dialog.answered.set()


def test_no_second_dialog_opens_beside_an_open_one_whose_answer_ends_it():
    dialog = Dialog()
    one = dialog.backend()
    keychain = Keychain(lambda: one, timeouts=IMPATIENT)
    for _ in range(3):
        with pytest.raises(LockedError, match="does not answer"):
            keychain.get(KEY, OWNER)
    assert dialog.shown == 1
    assert not keychain.usable
    dialog.answered.set()
    until(lambda: keychain.usable)
    assert keychain.get(KEY, OWNER) == Secret("s3cret")


def test_a_thread_that_cannot_start_once_does_not_block_later_calls(monkeypatch):
    one = Dialog().backend()
    keychain = Keychain(lambda: one)

    def fail(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(LockedError, match="RuntimeError"):
            keychain.name  # noqa: B018 - asked for what it raises
    assert keychain.name


def test_an_answer_is_not_kept_after_the_call():
    class Answer:
        pass

    caller = _TimedCaller()
    answer = weakref.ref(caller.call(Answer, within=30))
    until(lambda: answer() is None)


def test_finding_the_keychain_is_not_waited_for_without_end_either():
    found = threading.Event()
    keychain = Keychain(lambda: found.wait(30), timeouts=IMPATIENT)
    assert not keychain.usable
    with pytest.raises(LockedError, match="does not answer"):
        keychain.get(TOKEN, OWNER)
    found.set()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (ModuleNotFoundError("keyrings.alt"), "not installed"),
        (AttributeError("no such class"), "AttributeError"),
        (RuntimeError("The Secret Service daemon is not running"), "RuntimeError"),
    ],
)
def test_a_backend_that_cannot_even_be_chosen_is_a_verdict(trouble, said):
    def choose():
        raise trouble

    keychain = Keychain(choose)
    assert not keychain.usable
    for act in (
        lambda: keychain.get(KEY, OWNER),
        lambda: keychain.set(TOKEN, OWNER, Secret("s3cret")),
        lambda: keychain.name,
    ):
        with pytest.raises(LockedError, match=said) as error:
            act()
        assert error.value.verdict is Verdict.KEYCHAIN_UNUSABLE


def test_a_locked_keychain_is_called_locked():
    class KeyringLocked(Exception):
        pass

    def locked(*_given):
        raise KeyringLocked("s3cret")

    one = backend("keyring.backends.SecretService", "Keyring", get_password=locked)
    with pytest.raises(LockedError, match="it is locked") as said:
        Keychain(lambda: one).get(KEY, OWNER)
    assert "s3cret" not in said.value.message


def test_entries_name_the_program_and_part_of_the_owner_hash_only():
    one = backend("keyring.backends.kwallet", "DBusKeyring")
    Keychain(lambda: one).set(TOKEN, OWNER, Secret("t"))
    assert list(one.kept) == [("mcp-notarium", "login-token:0123456789abcdef")]


def run_with(backend, code):
    """What the code prints in a new process, where the environment names this backend of ``keyring``."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={"PYTHON_KEYRING_BACKEND": f"keyring.backends.{backend}.Keyring"},
    ).stdout


def test_keyring_is_imported_only_when_it_is_asked_for():
    code = (
        "import sys; from mcp_notarium.keys import secret_places, keychain; from mcp_notarium.account import opener; "
        "keychain.system_keychain(); assert 'keyring' not in sys.modules; "
        "print(keychain.system_keychain().get('database-key', 'x'), 'keyring' in sys.modules)"
    )
    assert run_with("fail", code).split() == ["None", "True"]


def test_a_null_keychain_set_by_the_environment_is_refused():
    code = (
        "from mcp_notarium.keys import keychain\n"
        "from mcp_notarium.errors import LockedError\n"
        "try: keychain.system_keychain().get('database-key', 'x')\n"
        "except LockedError as e: print(int(e.verdict))"
    )
    assert run_with("null", code).strip() == "23"


ADDRESS = "DBUS_SESSION_BUS_ADDRESS"


LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="D-Bus sessions of Linux")


@pytest.fixture
def runtime(monkeypatch):
    """A runtime folder with a short path, as sockets need it, and nothing in the environment."""
    with tempfile.TemporaryDirectory(prefix="notarium-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        # Set first, so that what `find` sets is taken back as well.
        monkeypatch.setenv(ADDRESS, "")
        yield Path(folder)


@pytest.fixture
def listening(runtime):
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind(str(runtime / "bus"))
        yield runtime / "bus"


@LINUX_ONLY
def test_a_bus_at_its_usual_place_is_named(listening):
    find_session_bus()
    assert os.environ[ADDRESS] == f"unix:path={listening}"


@LINUX_ONLY
def test_the_bus_that_is_named_is_left_alone(listening, monkeypatch):
    monkeypatch.setenv(ADDRESS, "unix:path=/elsewhere")
    find_session_bus()
    assert os.environ[ADDRESS] == "unix:path=/elsewhere"


@LINUX_ONLY
def test_without_a_bus_nothing_is_named(runtime):
    find_session_bus()
    assert os.environ[ADDRESS] == ""


@LINUX_ONLY
def test_what_is_no_socket_is_no_bus(runtime):
    (runtime / "bus").write_text("")
    find_session_bus()
    assert os.environ[ADDRESS] == ""


@needs.POSIX
@LINUX_ONLY
def test_a_link_to_a_socket_is_no_bus(listening):
    listening.rename(listening.with_name("real"))
    listening.symlink_to(listening.with_name("real"))
    find_session_bus()
    assert os.environ[ADDRESS] == ""


@needs.POSIX
@LINUX_ONLY
def test_somebody_elses_bus_is_not_trusted(listening, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: listening.stat().st_uid + 1)
    find_session_bus()
    assert os.environ[ADDRESS] == ""
