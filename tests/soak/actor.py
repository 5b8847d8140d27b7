"""Run a participant of a soak on a thread of its own."""

from __future__ import annotations

import threading


class Actor:
    """Does :meth:`act` once started. ``failure``: what it ended by, if it did not end well."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._acting, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, within: float) -> None:
        """Wait for the end; raises what it ended by, or ``TimeoutError``."""
        self._thread.join(within)
        if self.failure is not None:
            raise self.failure
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name} does not come to an end")

    def act(self) -> None:
        """Until the run is over."""
        raise NotImplementedError

    def _acting(self) -> None:
        try:
            self.act()
        except BaseException as failure:  # noqa: BLE001 - raised by join()
            self.failure = failure
