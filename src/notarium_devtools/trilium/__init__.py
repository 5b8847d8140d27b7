"""Simulate a Trilium server's ETAPI: a real HTTP server on loopback for the tests.

Use ``async with TriliumSimulator().serving() as sim:`` and send requests to ``sim.url``. It behaves like one of
the versions 0.103.0, 0.102.1, 0.93.0 and 0.63.6; ``tests/simulator/test_trilium_recorded.py`` and
``test_trilium_steps.py`` compare it with what real servers answered.
"""

from __future__ import annotations

from notarium_devtools.trilium.simulator import TriliumSimulator

__all__ = ["TriliumSimulator"]
