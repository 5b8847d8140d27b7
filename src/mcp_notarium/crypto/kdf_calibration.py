"""How dear Argon2id may be on a machine: memory first, then passes. Pure; the caller measures.

Memory is what makes guessing expensive for somebody with special hardware, so it grows as far as it
may before a pass is added. Nothing below the floor is ever proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mcp_notarium.crypto.kdf import PRODUCTION, Argon2id, Bounds, Parameters, filled

Measure = Callable[[Argon2id], float]
"""Seconds that one derivation takes."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The dearest parameters within the limits, and the seconds they took."""

    parameters: Argon2id
    seconds: float


def propose(
    measure: Measure,
    *,
    target: float,
    most_memory_kib: int,
    beside: Iterable[Parameters] = (),
    bounds: Bounds = PRODUCTION,
) -> Proposal:
    """The dearest Argon2id that takes at most ``target`` seconds and ``most_memory_kib``.

    ``beside`` are the other slots of the key file, with which it must find room. The floor if even
    that takes longer: it is never gone below.
    """
    room = bounds.argon2_room(beside)
    best = Proposal(bounds.argon2_floor, measure(bounds.argon2_floor))
    memory_limit = min(most_memory_kib, bounds.argon2_ceiling.memory_kib)
    while (memory := best.parameters.memory_kib * 2) <= memory_limit:
        wanted = replace(best.parameters, memory_kib=memory)
        if filled(wanted) > room or (dearer := _tried(measure, wanted)).seconds > target:
            break
        best = dearer
    while best.parameters.time_cost < bounds.argon2_ceiling.time_cost:
        wanted = replace(best.parameters, time_cost=best.parameters.time_cost + 1)
        if filled(wanted) > room or (dearer := _tried(measure, wanted)).seconds > target:
            break
        best = dearer
    return best


def _tried(measure: Measure, parameters: Argon2id) -> Proposal:
    return Proposal(parameters, measure(parameters))
