"""Replace the operating system's keychain by classes with the names that ``keyring`` gives real ones."""

import json
from pathlib import Path

from mcp_notarium.files.private_files import replace_private
from mcp_notarium.keys.keychain import Keychain


class Store:
    """Keeps secrets in a dict and counts how often it is asked."""

    def __init__(self):
        self.kept = {}
        self.reads = 0

    def get_password(self, service, username):
        self.reads += 1
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password

    def delete_password(self, service, username):
        del self.kept[service, username]


def backend(module, name, **members):
    """An object of a class with this name, as a ``keyring`` backend would be."""
    return type(name, (Store,), {"__module__": module} | members)()


def working() -> Keychain:
    """A keychain that keeps what it is given."""
    one = backend("keyring.backends.kwallet", "DBusKeyring")
    return Keychain(lambda: one)


def locked() -> Keychain:
    """A keychain that refuses everything."""

    def refuse(*_given):
        raise OSError("locked")

    one = backend(
        "keyring.backends.kwallet",
        "DBusKeyring",
        get_password=refuse,
        set_password=refuse,
        delete_password=refuse,
    )
    return Keychain(lambda: one)


def stored_keychain(path: Path) -> Keychain:
    """Return a keychain kept in a file, so that it outlives the process."""

    def read(_self, service, username):
        return _entries(path).get(f"{service} {username}")

    def write(_self, service, username, password):
        _keep(path, _entries(path) | {f"{service} {username}": password})

    def remove(_self, service, username):
        kept = _entries(path)
        del kept[f"{service} {username}"]
        _keep(path, kept)

    one = backend(
        "keyring.backends.kwallet",
        "DBusKeyring",
        get_password=read,
        set_password=write,
        delete_password=remove,
    )
    return Keychain(lambda: one)


def _entries(path: Path) -> dict[str, str]:
    return json.loads(path.read_text()) if path.exists() else {}


def _keep(path: Path, entries: dict[str, str]) -> None:
    replace_private(path, json.dumps(entries).encode())
