"""Opens the account's cache under the person's rules of what agents may see.

A cache that was filled under other rules is brought under these first, alone: while any other
process has it open, that is refused. Rules that have not changed cost one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mcp_notarium.account import opener
from mcp_notarium.account.opener import OpenedCache
from mcp_notarium.config import Config
from mcp_notarium.errors import CacheDamaged, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, trusted
from mcp_notarium.files.lock_holders import named
from mcp_notarium.files.locks import KEY_LOCK_SECONDS, key_lock
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.policy_update import settle


def open_ruled(config: Config, *, whole: bool = False) -> OpenedCache:
    """See :func:`opening.open_cache`. Raises ``LockedError`` (BUSY) as well while others are there."""
    first = opener.open_cache(config, guarded=True, whole=whole)
    try:
        if _holds(first, config):
            return first
    except BaseException:
        first.close()
        raise
    # Two servers are often started at once: whoever waits for the other must not be in its way.
    first.close()
    folder = trusted(config.account_dir)
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
    """The cache as it is open now, with what the first opening has done and has to say."""
    return replace(
        opened,
        created=opened.created or first.created,
        rebuilt=opened.rebuilt or first.rebuilt,
        notices=tuple(dict.fromkeys((*first.notices, *opened.notices))),
    )


def _holds(opened: OpenedCache, config: Config) -> bool:
    return Cache(opened.database, config.policy.visibility).notes.gate.in_force


def _settle_alone(opened: OpenedCache, folder: AccountFolder, config: Config) -> None:
    with key_lock(folder):
        try:
            opened.presence.exclude()
        except LockedError as error:
            if error.verdict is not Verdict.BUSY:
                raise
            raise _others(folder) from None
        try:
            settle(Cache(opened.database, config.policy.visibility))
        except CacheDamaged as error:
            raise opener.damaged(config) from error
        finally:
            opened.presence.share()


@contextmanager
def _turn(folder: AccountFolder) -> Iterator[None]:
    """One process at a time looks whether it has to change the rules."""
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
        + named(folder.server_lock),
        resolution_hint="If the policy file was changed, close all MCP clients that use this account "
        "and start them again. Clients with rules of their own need a cache of their own: give them "
        "another NOTARIUM_DATA_DIR.",
        agent_hint="Ask the user to close all MCP clients that use this account and to start them "
        "again.",
    )
