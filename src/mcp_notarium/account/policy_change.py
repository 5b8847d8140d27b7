"""Open the account's cache under the present policy of what agents may see.

If the policy has changed, visibility is computed again first, alone: while any other process has the cache
open, that is refused. An unchanged policy costs one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mcp_notarium.account import opener
from mcp_notarium.account.opener import OpenedCache
from mcp_notarium.config import Config
from mcp_notarium.errors import CacheDamaged, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import KEY_LOCK_SECONDS, describe_holders, key_lock
from mcp_notarium.storage.cache import Cache, apply_rules


def open_with_policy(config: Config, *, whole: bool = False) -> OpenedCache:
    """Open as :func:`opener.open_cache`. Also raises ``LockedError`` (BUSY) while others have it open."""
    first = opener.open_cache(config, guarded=True, whole=whole)
    try:
        if _holds(first, config):
            return first
    except BaseException:
        first.close()
        raise
    # Two servers are often started at once: the one that waits must not hold the lock of the other.
    first.close()
    folder = check_folder(config.account_dir)
    with _turn(folder):
        opened = opener.open_cache(config, guarded=True)
        try:
            if not _holds(opened, config):
                _settle_alone(opened, folder, config)
        except BaseException:
            opened.close()
            raise
        return _remembering(opened, first)


def _remembering(opened: OpenedCache, first: OpenedCache) -> OpenedCache:
    """Return the cache as it is open now, with the first opening's results and notices."""
    return replace(
        opened,
        created=opened.created or first.created,
        rebuilt=opened.rebuilt or first.rebuilt,
        notices=tuple(dict.fromkeys((*first.notices, *opened.notices))),
    )


def _holds(opened: OpenedCache, config: Config) -> bool:
    return Cache(opened.database, config.policy.visibility).notes.gate.matches_index


def _settle_alone(opened: OpenedCache, folder: AccountFolder, config: Config) -> None:
    with key_lock(folder):
        try:
            opened.server_lock.exclude()
        except LockedError as error:
            if error.verdict is not Verdict.BUSY:
                raise
            raise _others(folder) from None
        try:
            apply_rules(Cache(opened.database, config.policy.visibility))
        except CacheDamaged as error:
            raise opener.damage_error(config) from error
        finally:
            opened.server_lock.share()


@contextmanager
def _turn(folder: AccountFolder) -> Iterator[None]:
    """Let one process at a time check whether the policy has changed."""
    import filelock  # noqa: PLC0415 - only where rules have changed

    lock = filelock.FileLock(folder.policy_lock, mode=0o600)
    try:
        lock.acquire(timeout=KEY_LOCK_SECONDS, poll_interval=0.02)
    except filelock.Timeout:
        raise _others(folder) from None
    try:
        yield
    finally:
        lock.release()


def _others(folder: AccountFolder) -> LockedError:
    return LockedError(
        Verdict.BUSY,
        "another MCP Notarium server works with this cache under other rules of what agents may see"
        + describe_holders(folder.server_lock),
        resolution_hint="If the policy file was changed, close all MCP clients that use this account "
        "and start them again. Clients with rules of their own need a cache of their own: give them "
        "another NOTARIUM_DATA_DIR.",
        agent_hint="Ask the user to close all MCP clients that use this account and to start them "
        "again.",
    )
