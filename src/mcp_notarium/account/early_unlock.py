"""Stretch the passphrase in a thread while the rest of the program is still being imported.

Stretching takes a fifth of a second in which Python has nothing to do. The thread only reads; it decides
and reports nothing. Start-up inspects everything itself, and uses the result only for the same key file and
the same passphrase. A keychain is not asked, because it may ask a person each time.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.files.account_folder import AccountFolder, find_problem
from mcp_notarium.keys import key_file

if TYPE_CHECKING:
    from mcp_notarium.account.inspection import OpeningSettings
    from mcp_notarium.crypto.data_key import DataKey
    from mcp_notarium.crypto.key_slots import KeyFile
    from mcp_notarium.secret import Secret


class EarlyUnlock:
    """Run one attempt to unlock the account's key file, in a thread of its own. Fails in silence."""

    def __init__(self, settings: OpeningSettings, *, bounds: kdf.Bounds = kdf.PRODUCTION) -> None:
        self._settings = settings
        self._bounds = bounds
        self._tried: KeyFile | None = None
        self._outcome: DataKey | Exception | None = None
        self._forgotten = False
        self._thread = threading.Thread(target=self._try, name="early unlock", daemon=True)

    def begin(self) -> None:
        """Start the thread, if the settings themselves hold the deciding key."""
        settings = self._settings
        if settings.db_encryption and settings.db_key is not None and not settings.db_key_yields:
            with suppress(RuntimeError):  # the system allows no more threads
                self._thread.start()

    def unlock(
        self, found: KeyFile, passphrase: Secret, *, bounds: kdf.Bounds = kdf.PRODUCTION
    ) -> DataKey:
        """Unlock as :func:`key_slots.unlock` does; wait for the thread and use its result, once."""
        if self._thread.is_alive():
            self._thread.join()
        outcome, self._outcome = self._outcome, None
        same = (found, passphrase, bounds) == (self._tried, self._settings.db_key, self._bounds)
        if outcome is None or not same:
            return key_slots.unlock(found, passphrase, bounds=bounds)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def forget(self) -> None:
        """Drop a result that was not used."""
        self._forgotten, self._outcome = True, None

    def _try(self) -> None:
        key = self._settings.db_key
        with suppress(Exception):  # start-up meets it again, and says what it is
            folder = AccountFolder(self._settings.account_dir)
            if key is None or find_problem(folder) is not None:
                return
            there = AccountFolder(folder.path.resolve())
            self._tried = key_file.load(there, bounds=self._bounds).valid
            if self._tried is not None:
                self._outcome = self._unlocked(self._tried, key)
            if self._forgotten:
                self._outcome = None

    def _unlocked(self, found: KeyFile, key: Secret) -> DataKey | Exception:
        try:
            return key_slots.unlock(found, key, bounds=self._bounds)
        except Exception as error:  # noqa: BLE001 - raised where the key file is unlocked
            return error
