"""Inject faults that only Simperium has: a change feed that forgets, repeats or reorders."""

from __future__ import annotations

from notarium_devtools.http_faults import Faults, Rule
from notarium_devtools.simperium.changes import Distortions


class SimperiumFaults(Faults):
    """Hold the active rules, and the form of the change feed."""

    def __init__(self) -> None:
        super().__init__()
        self.feed = Distortions()

    def forget_cv(self, *, nth: int = 1, times: int = 1) -> Rule:
        """Answer 404 to ``GET /changes`` as if the cv had aged out."""
        return self.status(404, method="GET", path="*/changes", nth=nth, times=times)

    def distort_feed(
        self, *, aggregate: bool = False, duplicate: bool = False, reorder: bool = False
    ) -> None:
        """Send such entries in the change feed from now on; without arguments, normal ones."""
        self.feed = Distortions(aggregate=aggregate, duplicate=duplicate, reorder=reorder)

    def clear(self) -> None:
        """Drop every rule and distortion."""
        super().clear()
        self.feed = Distortions()
