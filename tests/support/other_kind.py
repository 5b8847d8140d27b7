"""Declare kinds of stores that are not Simplenote, to test what the program does by itself."""

from dataclasses import replace
from pathlib import Path

from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.stores.context import Access, StoreContext
from mcp_notarium.stores.kind import AccountIdentity, StoreKind, StoreSettings, Truth
from mcp_notarium.stores.simplenote import kind as simplenote
from support.memory_client import MemoryClient
from support.memory_store import MemoryStore

FOLDER, LIBRARY, PORT = "OTHER_FOLDER", "OTHER_LIBRARY", "OTHER_PORT"


def named_alike() -> StoreKind:
    """Return another kind whose accounts have the endpoints and names of Simplenote's."""

    def identity(settings: StoreSettings) -> AccountIdentity:
        return replace(simplenote.KIND.identity(settings), kind="other")

    return replace(simplenote.KIND, name="other", identity=identity)


def _identity(settings: StoreSettings) -> AccountIdentity:
    return AccountIdentity("folder", "", settings.text(FOLDER))


def _open(_settings: StoreSettings, _context: StoreContext) -> MemoryClient:
    return MemoryClient(MemoryStore())


def _access(settings: StoreSettings) -> Access:
    return Access(
        read=(Path(settings.text(LIBRARY)),),
        write=(Path(settings.text(FOLDER)),),
        ports=(int(settings.text(PORT)),),
    )


KIND = StoreKind(
    name="folder",
    title="Folder",
    truth=Truth.SHARED_FILE,
    variables=(
        Variable(name=FOLDER, purpose="Changed.", kind=Kind.PATH, required=True),
        Variable(name=LIBRARY, purpose="Read.", kind=Kind.PATH),
        Variable(name=PORT, purpose="Asked.", kind=Kind.COUNT, default="1", maximum=65_535),
    ),
    identity=_identity,
    open=_open,
    access=_access,
)
"""Needs one folder, one folder to read, one port; it knows no login."""


def in_folder(folder: Path, *, library: Path = Path("/nonexistent"), port: int = 1) -> dict:
    """Return the two fields of a configuration for :data:`KIND`."""
    texts = {FOLDER: str(folder), LIBRARY: str(library), PORT: str(port)}
    return {"store": KIND, "store_settings": StoreSettings(texts)}
