"""Run gnome-keyring on a private D-Bus, apart from the machine's session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from support.whole import DEADLINE, until

PASSWORD = "the login password of the desktop"
PROGRAMS = ("dbus-daemon", "gnome-keyring-daemon")
_BUS = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
"""No folder of services: nothing starts by itself, no dialog of the machine is ever shown."""


class Session:
    """A person's session: a home, a bus, and a keychain that is running or not.

    Use it as a context manager; it ends the processes it started.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        # Not below pytest's folder: the path of a socket may have 107 bytes.
        self.runtime = Path(tempfile.mkdtemp(prefix="notarium-"))
        self._bus: subprocess.Popen[bytes] | None = None
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start_bus()
            self.log_in()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.log_out()
        _ended(self._bus)
        shutil.rmtree(self.runtime)

    @property
    def env(self) -> dict[str, str]:
        """What a program needs to find the keychain."""
        return self.bare_env | {"DBUS_SESSION_BUS_ADDRESS": self.address}

    @property
    def bare_env(self) -> dict[str, str]:
        """The same without the address of the bus, which lies at its usual place."""
        return {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime)}

    @property
    def address(self) -> str:
        """Where the bus listens."""
        return f"unix:path={self.runtime / 'bus'}"

    @property
    def files(self) -> bytes:
        """Everything the keychain has written."""
        folder = self.home / ".local/share/keyrings"
        return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())

    def log_in(self) -> None:
        """Start the keychain and unlock it, as a desktop does."""
        self._daemon = subprocess.Popen(
            [
                "gnome-keyring-daemon",
                "--foreground",
                "--unlock",
                "--components=secrets",
                f"--control-directory={self.runtime / 'control'}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"]} | self.env,
        )
        assert self._daemon.stdin
        self._daemon.stdin.write(PASSWORD.encode())
        self._daemon.stdin.close()
        until(lambda: self._locked() is False)

    def log_out(self) -> None:
        """Stop the keychain; what it keeps stays in its files."""
        _ended(self._daemon)
        self._daemon = None

    def signal(self, number: int) -> None:
        """Send the keychain a signal."""
        assert self._daemon
        self._daemon.send_signal(number)

    def lock(self) -> None:
        """Lock the keychain, as a person or an idle time does."""
        with self._collection() as collection:
            collection.lock()
        until(lambda: self._locked() is True)

    def secrets(self) -> dict[str, str]:
        """What the unlocked keychain holds for our program, by kind of secret."""
        with self._collection() as collection:
            found = list(collection.search_items({"service": "mcp-notarium"}))
            return {
                item.get_attributes()["username"].partition(":")[0]: item.get_secret().decode()
                for item in found
            }

    @contextmanager
    def deaf_dialog(self) -> Iterator[None]:
        """A desktop whose dialog to unlock the keychain is answered by nobody."""
        from jeepney.bus_messages import message_bus  # noqa: PLC0415 - Linux only
        from jeepney.io.blocking import open_dbus_connection  # noqa: PLC0415 - Linux only

        with closing(open_dbus_connection(self.address)) as bus:
            asked = message_bus.RequestName("org.gnome.keyring.SystemPrompter")
            assert bus.send_and_get_reply(asked).body == (1,)
            yield

    def _start_bus(self) -> None:
        configuration = self.runtime / "bus.conf"
        configuration.write_text(_BUS.format(path=self.runtime / "bus"))
        self._bus = subprocess.Popen(
            ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._bus.stdout
        assert self._bus.stdout.readline(), "the bus did not start"

    @contextmanager
    def _collection(self) -> Iterator[Any]:
        import secretstorage  # noqa: PLC0415 - Linux only
        from jeepney.io.blocking import open_dbus_connection  # noqa: PLC0415 - Linux only

        with closing(open_dbus_connection(self.address)) as bus:
            yield secretstorage.Collection(bus)

    def _locked(self) -> bool | None:
        """Whether the keychain is locked; None while it is starting."""
        import secretstorage  # noqa: PLC0415 - Linux only

        with (
            suppress(secretstorage.exceptions.SecretStorageException),
            self._collection() as collection,
        ):
            return bool(collection.is_locked())
        return None


def _ended(process: subprocess.Popen[bytes] | None) -> None:
    if process is None:
        return
    process.kill()
    process.wait(DEADLINE)
    if process.stdout:
        process.stdout.close()
