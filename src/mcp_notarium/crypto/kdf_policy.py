"""Decide what deriving a key from a passphrase costs. Pure; the caller measures.

A new passphrase never costs less than the one it replaces. Somebody has raised the cost on purpose
(``keys calibrate``) or needs an approved algorithm, and a change of the passphrase must not take that
back without being asked to.

Calibration raises the cost of guessing to what a machine can afford: memory first, then passes. Memory
is what makes guessing expensive for somebody with special hardware. Nothing below the floor is proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mcp_notarium.crypto import kdf
from mcp_notarium.crypto.kdf import PRODUCTION, Argon2id, Bounds, Parameters, filled

Measure = Callable[[Argon2id], float]
"""Seconds that one derivation takes."""


@dataclass(frozen=True, slots=True)
class KdfPolicy:
    """Hold the least cost of each algorithm, and the algorithm ``wanted`` for a new passphrase.

    ``wanted`` is ``argon2id`` or ``pbkdf2-sha512``; ``chosen``: somebody has asked for it, else the
    algorithm of the old passphrase stays.
    """

    argon2id: kdf.Argon2id
    pbkdf2: kdf.Pbkdf2Sha512
    wanted: str
    chosen: bool

    def parameters_for(self, costs: Iterable[kdf.Parameters]) -> kdf.Parameters:
        """Return the parameters for a passphrase that replaces slots of these ``costs``, at least as costly."""
        found = tuple(costs)
        argon = [one for one in found if isinstance(one, kdf.Argon2id)]
        rounds = [one.iterations for one in found if isinstance(one, kdf.Pbkdf2Sha512)]
        stays = (argon or rounds) and not self.chosen
        if bool(argon) if stays else self.wanted == "argon2id":
            every = (self.argon2id, *argon)
            return kdf.Argon2id(
                memory_kib=max(one.memory_kib for one in every),
                time_cost=max(one.time_cost for one in every),
                lanes=max(one.lanes for one in every),
            )
        return kdf.Pbkdf2Sha512(max(self.pbkdf2.iterations, *rounds, 0))


@dataclass(frozen=True, slots=True)
class Proposal:
    """Hold the costliest parameters within the limits, and the seconds they took."""

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
    """Return the costliest Argon2id within ``target`` seconds and ``most_memory_kib``.

    ``beside`` are the other slots of the key file, whose work counts against the same ceiling. The floor
    is returned if even that takes longer.
    """
    room = bounds.argon2_work_left(beside)
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
