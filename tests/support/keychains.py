"""Stand-ins for the operating system's keychain: classes named as ``keyring`` names real ones."""

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
