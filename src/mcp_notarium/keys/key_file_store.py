"""Read the key file and its copy, and replace them atomically: a crash leaves the old or the new one.

``crypto/key_file_codec`` knows what the bytes mean, ``account/startup_table`` what to do about a bad file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.crypto import canonical_json, key_file_codec
from mcp_notarium.crypto.errors import KeyFileDamaged, KeyFileNewer
from mcp_notarium.crypto.key_file_codec import FileState, KeyFile
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import (
    StepHook,
    ignore_step,
    read_private,
    replace_private,
    sync_folder,
    temporary_pattern,
)
from mcp_notarium.system import SYSTEM

NOT_COPIED = (
    "The disk did not take the copy of the key file (`notarium_keys.json.bak`). The change is active "
    "all the same; the next start of a server writes the copy, and until then it is the old one."
)


@dataclass(frozen=True, slots=True)
class FileReading:
    """Hold how one file reads, and its content if it reads well."""

    state: FileState
    keyfile: KeyFile | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Hold the key file, its copy, a prepared one, and temporary files left by a crash (``temporary``)."""

    main: FileReading
    copy: FileReading
    prepared: FileReading
    temporary: tuple[Path, ...] = ()

    @property
    def valid(self) -> KeyFile | None:
        """Return what is active: the key file, or its copy where it is missing or damaged."""
        # defence: key-file-copy-takes-over
        if self.main.state in {FileState.MISSING, FileState.DAMAGED}:
            return self.copy.keyfile
        return self.main.keyfile

    @property
    def copy_stale(self) -> bool:
        """Check whether the copy has to be written again."""
        newer = self.copy.state is FileState.NEWER
        return (
            self.main.keyfile is not None and self.main.keyfile != self.copy.keyfile and not newer
        )

    @property
    def copy_ahead(self) -> KeyFile | None:
        """Return the copy if it says that it is newer than the key file.

        No crash leaves that, because the copy is written last: somebody put an old key file back.
        It proves nothing before a key has opened the one or the other.
        """
        main, copy = self.main.keyfile, self.copy.keyfile
        if main is None or copy is None or copy.vault_id != main.vault_id:
            return None
        # defence: key-file-older-than-copy =False
        return copy if copy.sequence > main.sequence else None

    @property
    def newer_version(self) -> int | None:
        """Return the format version of a file that a later release wrote."""
        return self.main.version or self.copy.version


def load(folder: AccountFolder) -> KeyFiles:
    """Read all key files. Raises ``OSError`` only for what is no readable plain file."""
    # Read the copy first: if both change meanwhile, it is the older one and not taken for a rollback.
    copy = _read_file(folder.key_copy)
    return KeyFiles(
        main=_read_file(folder.key_file),
        copy=copy,
        prepared=_read_file(folder.prepared_key_file),
        temporary=_temporary_files(folder),
    )


def prepare(folder: AccountFolder, keyfile: KeyFile, *, at: StepHook = ignore_step) -> None:
    """Write a key file that is not active yet."""
    replace_private(folder.prepared_key_file, key_file_codec.serialise(keyfile), at=at)


def commit(folder: AccountFolder) -> None:
    """Rename the prepared key file over the key file: the commit point. Raises ``OSError`` if that fails."""
    SYSTEM.move(folder.prepared_key_file, folder.key_file)


def make_durable(folder: AccountFolder, keyfile: KeyFile, *, at: StepHook = ignore_step) -> bool:
    """Flush the name of a key file that is active by now, then write the copy; see ``store``.

    Raises ``OSError`` if a power cut may still bring back the key file before.
    """
    sync_folder(folder.path)
    at("switch")
    return _try_store_copy(folder, keyfile, at)


def store(
    folder: AccountFolder,
    keyfile: KeyFile,
    *,
    check: Callable[[KeyFile], None],
    at: StepHook = ignore_step,
) -> bool:
    """Replace the key file, then its copy.

    ``check`` gets what the written bytes say; if it raises, or the disk does not return those bytes, the
    old key file stays active and nothing new is left. Returns False if the new one is active and the
    disk refused to flush its name, or the copy; the next start writes that.
    """
    content = key_file_codec.serialise(keyfile)
    check(key_file_codec.parse(content))
    steps: list[str] = []

    def record(step: str) -> None:
        at(step)
        steps.append(step)

    try:
        replace_private(folder.key_file, content, at=record)
    except OSError:
        if "switch" not in steps:
            raise
        return False
    return _try_store_copy(folder, keyfile, at)


def store_copy(folder: AccountFolder, keyfile: KeyFile, *, at: StepHook = ignore_step) -> None:
    """Write the copy; after that no older slot is left in the folder."""
    replace_private(
        folder.key_copy, key_file_codec.serialise(keyfile), at=lambda step: at(f"{step}_copy")
    )


def finish_interrupted_change(folder: AccountFolder, files: KeyFiles, *, now: float) -> None:
    """Finish a key-file change that a crash interrupted. Call it under the key lock, with the key proven.

    The key file wins over its copy: the rename of the key file is the commit point.
    """
    valid = files.valid
    if valid is None:
        return
    if files.main.keyfile is None:
        if files.main.state is FileState.DAMAGED:
            quarantine.move(folder, [folder.key_file], now=now)
        replace_private(folder.key_file, key_file_codec.serialise(valid))
    elif files.copy.keyfile != valid:
        if files.copy_ahead is not None:
            quarantine.move(folder, [folder.key_copy], now=now)
        sync_folder(
            folder.path
        )  # or a power cut brings back a key file of before, and its key is no more in use
        store_copy(folder, valid)
    remove_temporary(files)


def remove_temporary(files: KeyFiles) -> None:
    """Remove temporary key files. Only under the key lock: otherwise they may be in use."""
    for path in files.temporary:
        SYSTEM.remove(path)


def _try_store_copy(folder: AccountFolder, keyfile: KeyFile, at: StepHook) -> bool:
    # A caller that gets an error here would go on with the old key, and that opens nothing now.
    try:
        store_copy(folder, keyfile, at=at)
    except OSError:
        return False
    return True


def _read_file(path: Path) -> FileReading:
    raw = read_private(path, most=canonical_json.LARGEST)
    if raw is None:
        return FileReading(FileState.MISSING)
    try:
        return FileReading(FileState.OK, key_file_codec.parse(raw))
    except KeyFileNewer as newer:
        return FileReading(FileState.NEWER, version=newer.version)
    except KeyFileDamaged:
        return FileReading(FileState.DAMAGED)


def _temporary_files(folder: AccountFolder) -> tuple[Path, ...]:
    if not folder.path.is_dir():
        return ()
    names = (folder.key_file, folder.key_copy, folder.prepared_key_file)
    return tuple(
        sorted(
            path
            for name in {name.name for name in names}
            for place in ("", "quarantine/*/")
            for path in folder.path.glob(place + temporary_pattern(name))
        )
    )
