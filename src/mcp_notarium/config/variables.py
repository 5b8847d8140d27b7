"""List the variables: what can be configured, with which default, bounds and trust.

Names are a contract with every MCP client configuration out there: add, do not rename.
A test compares the table in ``docs/configuration.md`` with this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Trust(IntEnum):
    """Name the sources that may set a variable; each level includes the ones above it."""

    ENVIRONMENT = 1
    """Only the real environment: it decides to which host credentials are sent."""
    ENV_FILE = 2
    """Also the file named by ``--env-file``."""
    WORKING_FOLDER = 3
    """Also a ``.env`` in the working directory, which may be somebody else's repository."""


class Kind(StrEnum):
    """Name how the text of a variable is parsed."""

    TEXT = "text"
    NAME = "name"
    SECRET = "secret"  # noqa: S105 - the kind of a variable, not a value
    COUNT = "whole number"
    NUMBER = "number"
    CHOICE = "choice"
    PATH = "path"
    URL = "address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Describe one variable. ``minimum`` and ``maximum`` clamp."""

    name: str
    purpose: str
    kind: Kind
    default: str = ""
    minimum: int = 0
    maximum: int = 0
    choices: tuple[str, ...] = ()
    required: bool = False
    has_file: bool = False
    value_beats_file: bool = False
    trust: Trust = Trust.ENV_FILE
    bound_to: str = ""
    """Ignored in the working folder's ``.env`` if a better source sets this other variable."""

    @property
    def secret(self) -> bool:
        """Return whether the value is never shown."""
        return self.kind is Kind.SECRET

    @property
    def file_name(self) -> str:
        """Return the name of the variable that names a file holding the value."""
        return f"{self.name}_FILE"


ON_OFF = ("on", "off")
BUILT_IN_API_KEY = "e2f0978acfea407aa23fdf557478d3f2"
"""The application key of the Simplenote applications; it identifies the program, not a person."""

VARIABLES = (
    Variable(
        name="SIMPLENOTE_USERNAME",
        purpose="E-mail address of the Simplenote account.",
        kind=Kind.TEXT,
        required=True,
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name="SIMPLENOTE_PASSWORD",
        purpose="Password of the account. Not needed after `mcp-notarium login`.",
        kind=Kind.SECRET,
        has_file=True,
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name="SIMPLENOTE_TOKEN",
        purpose="Access token of the account, instead of a password.",
        kind=Kind.SECRET,
        has_file=True,
        trust=Trust.WORKING_FOLDER,
        # A token opens its own account whatever the username says: a repository's `.env` could
        # lead somebody's new notes into a stranger's account.
        bound_to="SIMPLENOTE_USERNAME",
    ),
    Variable(
        name="DB_ENCRYPTION_KEY",
        purpose="Passphrase of the encrypted database, or `raw:` and 64 hex digits "
        "(`mcp-notarium generate-key --file PATH` writes one to a file). It wins over its file variant and the keychain; "
        "in a `.env` of the working folder it is used only if the keychain has no key.",
        kind=Kind.SECRET,
        has_file=True,
        value_beats_file=True,
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name="DB_ENCRYPTION",
        purpose="Whether the database is encrypted. `off` leaves notes readable on disk "
        "and causes a warning at every start.",
        kind=Kind.CHOICE,
        default="on",
        choices=ON_OFF,
    ),
    Variable(
        name="DB_ENCRYPTION_KDF",
        purpose="Key derivation (KDF) of new key slots. Existing slots keep theirs; `rotate-key` "
        "keeps it too unless this is set.",
        kind=Kind.CHOICE,
        default="argon2id",
        choices=("argon2id", "pbkdf2-sha512"),
    ),
    Variable(
        name="DB_ENCRYPTION_KDF_ITERATIONS",
        purpose="Rounds of PBKDF2-HMAC-SHA512, if that KDF is chosen.",
        kind=Kind.COUNT,
        default="310000",
        minimum=210_000,
        maximum=10_000_000,
    ),
    Variable(
        name="DB_ON_UNREADABLE",
        purpose="What to do if the database cannot be read: refuse and say why, or move it to the "
        "quarantine (nothing is deleted; it may hold writes that never reached the note store) and load "
        "all notes again.",
        kind=Kind.CHOICE,
        default="refuse",
        choices=("refuse", "rebuild"),
    ),
    Variable(
        name="DB_CIPHER_MEMORY_SECURITY",
        purpose="Lock and wipe SQLCipher's memory. Searching becomes several times slower.",
        kind=Kind.CHOICE,
        default="off",
        choices=ON_OFF,
    ),
    Variable(
        name="SYNC_INTERVAL_SECONDS",
        purpose="Longest time between two checks for changes made elsewhere.",
        kind=Kind.NUMBER,
        default="300",
        minimum=60,
        maximum=86_400,
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name="API_TIMEOUT_SECONDS",
        purpose="Longest time one call of the note store may take.",
        kind=Kind.NUMBER,
        default="30",
        minimum=5,
        maximum=600,
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name="LOG_LEVEL",
        purpose="Level from which events are logged to stderr and to the log file.",
        kind=Kind.CHOICE,
        default="info",
        choices=("trace", "debug", "info", "warn", "error", "fatal"),
        trust=Trust.WORKING_FOLDER,
    ),
    Variable(
        name="LOG_FILE_PATH",
        purpose="File to which log lines are appended as JSON, in addition to stderr. "
        "Its folder must exist.",
        kind=Kind.PATH,
    ),
    Variable(
        name="NOTARIUM_DATA_DIR",
        purpose="Folder of the database and its key file.",
        kind=Kind.PATH,
    ),
    Variable(
        name="NOTARIUM_BACKEND",
        purpose="Note store to serve.",
        kind=Kind.NAME,
        default="simplenote",
    ),
    Variable(
        name="NOTARIUM_TOOLS",
        purpose="Set of tools offered to the agent.",
        kind=Kind.NAME,
        default="notarium",
    ),
    Variable(
        name="NOTARIUM_DESTRUCTIVE",
        purpose="Before an agent deletes permanently, shares a note or drops most of it: ask the person "
        "if the client can, else require `confirm: true`; always ask the person; or refuse.",
        kind=Kind.CHOICE,
        default="ask",
        choices=("ask", "elicit", "deny"),
    ),
    Variable(
        name="NOTARIUM_SANDBOX",
        purpose="Whether the server blocks its own access to files, ports and signals it does not need "
        "(Linux with Landlock and seccomp): if the system can; always, or refuse to start; never.",
        kind=Kind.CHOICE,
        default="auto",
        choices=("auto", "require", "off"),
    ),
    Variable(
        name="NOTARIUM_AUDIT_DAYS",
        purpose="How many calendar days the records of the audit log are kept.",
        kind=Kind.COUNT,
        default="365",
        minimum=1,
        maximum=36_500,
    ),
    Variable(
        name="NOTARIUM_POLICY_FILE",
        purpose="File with the rules on what agents may see and do (docs/policy.md), instead of "
        "`policy.toml` in NOTARIUM_DATA_DIR. It must exist.",
        kind=Kind.PATH,
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name="NOTARIUM_READ_ONLY",
        purpose="`on`: no tool changes anything, whatever the policy file says. `off` does not "
        "permit what the file forbids.",
        kind=Kind.CHOICE,
        default="off",
        choices=ON_OFF,
    ),
    Variable(
        name="NOTARIUM_KEYCHAIN",
        purpose="Whether the system's keychain may keep the key and the login.",
        kind=Kind.CHOICE,
        default="on",
        choices=ON_OFF,
    ),
    Variable(
        name="SIMPLENOTE_REQUEST_SOURCE",
        purpose="Program name sent to Simplenote when it e-mails a login code.",
        kind=Kind.NAME,
        default="mcp-notarium",
    ),
    Variable(
        name="SIMPERIUM_API_URL",
        purpose="Address of the note store. https, or plain http on this machine.",
        kind=Kind.URL,
        default="https://api.simperium.com/1",
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name="SIMPERIUM_AUTH_URL",
        purpose="Address that passwords are sent to. https, or plain http on this machine.",
        kind=Kind.URL,
        default="https://auth.simperium.com/1",
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name="SIMPLENOTE_APP_URL",
        purpose="Address that sends login codes. https, or plain http on this machine.",
        kind=Kind.URL,
        default="https://app.simplenote.com",
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name="SIMPERIUM_API_KEY",
        purpose="Application key sent with a password login.",
        kind=Kind.SECRET,
        default=BUILT_IN_API_KEY,
        trust=Trust.ENVIRONMENT,
    ),
)

BY_NAME = {variable.name: variable for variable in VARIABLES}
FILE_NAMES = {variable.file_name: variable for variable in VARIABLES if variable.has_file}


def secret_names() -> tuple[str, ...]:
    """Return the variables whose values are secrets, for wiping them from the environment."""
    return tuple(variable.name for variable in VARIABLES if variable.secret)
