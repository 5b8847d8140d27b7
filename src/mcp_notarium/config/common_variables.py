"""List the variables that hold for every store; each store declares its own.

Names are a contract with every MCP client configuration out there: add, do not rename.
A test compares the tables in ``docs/configuration.md`` with these.
"""

from __future__ import annotations

from mcp_notarium.config_variable import Kind, Trust, Variable
from mcp_notarium.stores import registry

ON_OFF = ("on", "off")
STORE = "NOTARIUM_STORE"


def _list_kdfs() -> tuple[str, ...]:
    from mcp_notarium.crypto.kdf import NAMES  # noqa: PLC0415 - only where one is set

    return NAMES


COMMON = (
    Variable(
        name=STORE,
        purpose="Where the notes live.",
        kind=Kind.CHOICE,
        default=registry.DEFAULT,
        choices=registry.names(),
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
        choices=_list_kdfs,
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
        choices=("trace", "debug", "info", "warn", "error", "critical"),
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
        name="NOTARIUM_MEANING_MODEL",
        purpose="Folder of a multilingual E5 model in ONNX (docs/meaning.md): `list` then finds "
        "notes by their meaning as well. Needs `mcp-notarium[meaning]`.",
        kind=Kind.PATH,
    ),
    Variable(
        name="NOTARIUM_TOOLS",
        purpose="Tools offered to the agent: ours (docs/tools.md), those native to the store "
        "(docs/native-tools.md), or both.",
        kind=Kind.CHOICE,
        default="notarium",
        choices=("notarium", "native", "both"),
    ),
    Variable(
        name="NOTARIUM_NATIVE_NAMES",
        purpose="Spelling of the notebooks' native tools: `AddNote` or `add_note`.",
        kind=Kind.CHOICE,
        default="pascal",
        choices=("pascal", "snake"),
    ),
    Variable(
        name="NOTARIUM_TOOL_PREFIX",
        purpose="Letters, digits and `_` before the name of every tool, as `notes_` in `notes_list`: some "
        "clients refuse two servers with a tool of the same name.",
        kind=Kind.PREFIX,
    ),
    Variable(
        name="NOTARIUM_DESTRUCTIVE",
        purpose="Who agrees to what an agent needs consent for (docs/tools.md): the user, where the client can ask. Where it "
        "cannot: `ask` takes `confirm: true`, the model's word, for what can be taken back, and a person at a terminal for what "
        "cannot; `strict` always the person; `trust` always the model's word. `deny` refuses.",
        kind=Kind.CHOICE,
        default="ask",
        choices=("ask", "strict", "trust", "deny"),
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
        name="NOTARIUM_VERSION_DAYS",
        purpose="How many days the database keeps what a save has replaced; 0: nothing is kept, so a save that replaces something asks first.",
        kind=Kind.COUNT,
        default="90",
        minimum=0,
        maximum=36_500,
    ),
    Variable(
        name="NOTARIUM_VERSION_MB",
        purpose="How many megabytes of that the database keeps at most; the oldest goes first, but nothing that must stay for a day.",
        kind=Kind.COUNT,
        default="64",
        minimum=1,
        maximum=100_000,
    ),
    Variable(
        name="NOTARIUM_POLICY_FILE",
        purpose="File with the rules on what agents may see and do (docs/policy.md), instead of "
        "`policy.toml` in NOTARIUM_DATA_DIR. It must exist.",
        kind=Kind.PATH,
        trust=Trust.ENVIRONMENT,
    ),
    Variable(
        name="NOTARIUM_PROFILE",
        purpose="Profile of the policy file that narrows what the agents of this server may see and do "
        "(docs/policy.md). `serve --profile` wins over it.",
        kind=Kind.NAME,
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
)


def known_variables() -> tuple[Variable, ...]:
    """Return the variables of every store, then the common ones."""
    return (*(one for kind in registry.kinds() for one in kind.variables), *COMMON)


def secret_names() -> tuple[str, ...]:
    """Return the variables whose values are secrets, for wiping them from the environment."""
    return tuple(variable.name for variable in known_variables() if variable.secret)
