"""What the system does not let us do with a cache, as a refusal that names the place in the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp_notarium.errors import CacheError, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, find_obstacle
from mcp_notarium.files.private_files import disk_errors

_UNUSABLE = "the cache folder cannot be used"


@contextmanager
def reached(folder: AccountFolder) -> Iterator[None]:
    """Turn ``OSError``, and a database that the system does not let be opened, into a refusal.

    Raises ``CacheFull`` or ``LockedError`` (UNSAFE_PATH) for them; other errors pass.
    """
    with disk_errors(_UNUSABLE):
        try:
            yield
        except CacheError as error:
            # SQLite says only that it cannot; what is in the way is known to the folder.
            obstacle = find_obstacle(folder) if type(error) is CacheError else None
            if obstacle is None:
                raise
            raise LockedError(
                Verdict.UNSAFE_PATH, obstacle.reason, resolution_hint=obstacle.command
            ) from error
