"""Find single facts about driver, files and database, each in one way. Decides nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from mcp_notarium.account import markers
from mcp_notarium.account.startup_facts import Driver, Identity, Sample, SchemaSeen
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_slots import KeyFile
from mcp_notarium.errors import LockedError
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import read_private
from mcp_notarium.keys.key_file import KeyFiles
from mcp_notarium.storage import driver, integrity, schema
from mcp_notarium.storage.database import Database

_DAY = 86_400
_MAGIC = b"SQLite format 3\x00"
_PAGE = integrity.PAGE_SIZE


def driver_seen() -> Driver:
    """Describe the SQLCipher driver for the start-up table."""
    if len(driver.installed()) > 1:
        return Driver(doubled=True)
    try:
        found = driver.facts()
    except LockedError:
        return Driver(present=False)
    return Driver(
        cipher_version=_numbers(found.cipher_version),
        fts5=found.fts5,
        temp_store=found.temp_store,
    )


def has_log(path: Path | None) -> bool:
    """Check whether a write-ahead log that is not empty lies beside the database."""
    if path is None:
        return False
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def sample(path: Path, data_key: DataKey, keyfile: KeyFile, *, every: bool) -> Sample:
    """Check some pages (or ``every`` one) of an encrypted database against the key file's keys."""
    found = integrity.sample(path, data_key.page_mac_key(), keyfile.database_salt, every=every)
    return Sample(
        size=found.size,
        salt_ok=found.salt_ok,
        good=found.good,
        bad=found.bad,
        bad_pages=found.bad_pages,
        plaintext_magic=found.plaintext_magic,
    )


def plain_sample(path: Path) -> Sample:
    """Read size and first bytes of a plain database."""
    head = read_private(path, most=len(_MAGIC) - 1) or b""
    return Sample(size=path.stat().st_size, plaintext_magic=head == _MAGIC)


def worth_opening(found: Sample, *, log: bool) -> bool:
    """Check whether nothing is known against the file; a log may repair what a crash tore."""
    whole = found.bad == 0 and found.size % _PAGE == 0
    return found.good > 0 and (whole or log)


def inside(database: Database) -> tuple[SchemaSeen, Identity | None]:
    """Read schema and identity of an open database; no identity if it is not one of ours."""
    state = schema.state(database)
    seen = SchemaSeen(version=state.version, program=schema.SCHEMA_VERSION, ours=state.ours)
    return seen, _identity(database) if state.ours else None


def nothing_pending(folder: AccountFolder, files: KeyFiles, *, plain: bool) -> bool:
    """Check whether no write is pending in anything that a rebuild would set aside; False in doubt."""
    promised = markers.pending_marker_generation(folder)
    if promised is None:
        return False
    if plain:
        return promised == ""
    concerned = set(folder.generations())
    if files.prepared.keyfile is not None:
        concerned.discard(files.prepared.keyfile.generation)
    if files.valid is not None:
        concerned.add(files.valid.generation)
    return concerned <= {promised}


def rebuilt_recently(folder: AccountFolder, keyfile: KeyFile | None, *, now: float) -> bool:
    """Check whether this cache replaced one that was set aside within the last 24 hours.

    Two clients with different keys would otherwise rebuild each other's cache for ever.
    """
    moved = quarantine.find_last_use(folder)
    if moved is None or moved < now - _DAY:
        return False
    if folder.plain_database.exists():
        return True
    return keyfile is not None and keyfile.created >= now - _DAY


def day(epoch: int | None) -> str | None:
    """Return the UTC day of a time in epoch seconds."""
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d")


def _identity(database: Database) -> Identity:
    rows: dict[str, object] = dict(
        database.rows(
            "SELECT key, value FROM sync_metadata WHERE key IN "
            "('owner_identity_hash', 'vault_id', 'generation', 'key_sequence')"
        )
    )
    sequence = str(rows.get("key_sequence", ""))
    return Identity(
        owner_hash=str(rows.get("owner_identity_hash", "")),
        vault_id=str(rows.get("vault_id", "")),
        generation=str(rows.get("generation", "")),
        sequence=int(sequence) if sequence.isdecimal() else 0,
    )


def _numbers(version: str) -> tuple[int, ...]:
    head = version.split(" ", maxsplit=1)[0]
    return tuple(int(part) for part in head.split(".") if part.isdecimal())
