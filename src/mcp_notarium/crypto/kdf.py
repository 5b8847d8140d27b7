"""Derive a wrapping key from a passphrase: Argon2id, PBKDF2-HMAC-SHA512, or HKDF for random keys.

Parameters read from disk are hostile: :func:`derive` checks floor and ceiling before any work and
never retries with weaker ones. Nothing here reads a clock, a file or a setting.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from mcp_notarium.crypto.errors import KdfOutOfMemory, KeyFileDamaged
from mcp_notarium.secret import Secret

KEY_SIZE = 32
SALT_SIZE = 16
_SLOT_LABEL = b"mcp-notarium/v1/slot"


@dataclass(frozen=True, slots=True)
class Argon2id:
    """Hold parameters of Argon2id 1.3. The defaults are RFC 9106's second choice and our floor."""

    memory_kib: int = 65_536
    time_cost: int = 3
    lanes: int = 4

    @property
    def work(self) -> int:
        """Return memory times passes, in KiB; the time depends on it."""
        return self.memory_kib * self.time_cost


@dataclass(frozen=True, slots=True)
class Pbkdf2Sha512:
    """Hold parameters of PBKDF2-HMAC-SHA512, for those who need an approved algorithm."""

    iterations: int = 310_000


@dataclass(frozen=True, slots=True)
class HkdfSha256:
    """Name plain HKDF, for secrets that are 256 random bits already."""


Parameters = Argon2id | Pbkdf2Sha512 | HkdfSha256


@dataclass(frozen=True, slots=True)
class Bounds:
    """Hold the bounds for parameters from disk: the floor prevents weakening, the ceiling exhaustion.

    ``slots_at_ceiling``: a key file may cost as much work as this many slots at the ceiling. A wrong
    passphrase is tried on each slot, so a ceiling per slot is not enough.
    """

    argon2_floor: Argon2id
    argon2_ceiling: Argon2id
    pbkdf2_floor: int
    pbkdf2_ceiling: int
    slots_at_ceiling: int = 1

    def permits_together(self, parameters: Iterable[Parameters]) -> bool:
        """Tell whether slots with these parameters may be in one key file."""
        return sum(map(self._share, parameters)) <= self.slots_at_ceiling

    def _share(self, parameters: Parameters) -> Fraction:
        """Return their work, in slots at the ceiling."""
        match parameters:
            case Argon2id():
                return Fraction(parameters.work, self.argon2_ceiling.work)
            case Pbkdf2Sha512(iterations):
                return Fraction(iterations, self.pbkdf2_ceiling)
            case HkdfSha256():
                return Fraction(0)
            case _:
                assert_never(parameters)

    def refuses(self, parameters: Parameters) -> str | None:
        """Return why these parameters are refused, or None."""
        match parameters:
            case Argon2id():
                return self._refuses_argon2(parameters)
            case Pbkdf2Sha512(iterations):
                low, high = self.pbkdf2_floor, self.pbkdf2_ceiling
                return None if low <= iterations <= high else "PBKDF2 iterations out of bounds"
            case HkdfSha256():
                return None
            case _:
                assert_never(parameters)

    def _refuses_argon2(self, given: Argon2id) -> str | None:
        low, high = self.argon2_floor, self.argon2_ceiling
        for name, value, least, most in (
            ("memory", given.memory_kib, low.memory_kib, high.memory_kib),
            ("time cost", given.time_cost, low.time_cost, high.time_cost),
            ("lanes", given.lanes, low.lanes, high.lanes),
        ):
            if not least <= value <= most:
                return f"Argon2id {name} out of bounds"
        if given.memory_kib < 8 * given.lanes:
            return "Argon2id memory too small for its lanes"
        return None


PRODUCTION = Bounds(
    argon2_floor=Argon2id(),
    argon2_ceiling=Argon2id(memory_kib=1_048_576, time_cost=16, lanes=16),
    pbkdf2_floor=210_000,
    pbkdf2_ceiling=10_000_000,
)

CHEAPEST = Argon2id(memory_kib=8, time_cost=1, lanes=1)
"""For tests, together with ``bounds=TEST_BOUNDS``; refused wherever PRODUCTION is active."""

TEST_BOUNDS = Bounds(
    argon2_floor=CHEAPEST,
    argon2_ceiling=Argon2id(),
    pbkdf2_floor=1,
    pbkdf2_ceiling=310_000,
    slots_at_ceiling=8,
)


def normalise_passphrase(passphrase: Secret) -> Secret:
    """Return the passphrase in NFC: the same words typed on another machine are the same key.

    Raises ``UnicodeDecodeError`` if it is not UTF-8.
    """
    return Secret(unicodedata.normalize("NFC", passphrase.reveal_text()))


def derive(
    passphrase: Secret, *, salt: bytes, parameters: Parameters, bounds: Bounds = PRODUCTION
) -> Secret:
    """Derive a 32-byte wrapping key. The passphrase is taken byte for byte; normalise it before.

    Raises ``KeyFileDamaged`` for parameters out of bounds, before any work, and
    ``KdfOutOfMemory``.
    """
    if reason := bounds.refuses(parameters):  # defence: kdf-cost-before-work
        raise KeyFileDamaged(reason)
    match parameters:
        case Argon2id():
            return _argon2id(passphrase, salt, parameters)
        case Pbkdf2Sha512(iterations):
            return Secret(
                hashlib.pbkdf2_hmac("sha512", passphrase.reveal(), salt, iterations, KEY_SIZE)
            )
        case HkdfSha256():
            return hkdf(passphrase, salt=salt, label=_SLOT_LABEL)
        case _:
            assert_never(parameters)


def hkdf(secret: Secret, *, label: bytes, salt: bytes | None = None) -> Secret:
    """Derive 32 bytes by HKDF-SHA256 for one purpose; the label separates domains."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - start-up time
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - start-up time

    return Secret(HKDF(SHA256(), KEY_SIZE, salt, label).derive(secret.reveal()))


def _argon2id(passphrase: Secret, salt: bytes, parameters: Argon2id) -> Secret:
    from argon2.exceptions import HashingError  # noqa: PLC0415 - start-up time, raw keys skip it
    from argon2.low_level import Type, hash_secret_raw  # noqa: PLC0415 - start-up time, as above

    try:
        raw = hash_secret_raw(
            secret=passphrase.reveal(),
            salt=salt,
            time_cost=parameters.time_cost,
            memory_cost=parameters.memory_kib,
            parallelism=parameters.lanes,
            hash_len=KEY_SIZE,
            type=Type.ID,
        )
    except (HashingError, MemoryError):
        raise KdfOutOfMemory(parameters.memory_kib) from None
    return Secret(raw)


@dataclass(frozen=True, slots=True)
class KdfPolicy:
    """Hold the least cost of each algorithm, and the ``algorithm`` for a new passphrase.

    A new passphrase never costs less than the one it replaces, which somebody may have made expensive on purpose.

    ``algorithm`` is ``argon2id`` or ``pbkdf2-sha512``. Unless it is ``explicit``, the algorithm of the
    old passphrase stays.
    """

    argon2id: Argon2id
    pbkdf2: Pbkdf2Sha512
    algorithm: str
    explicit: bool

    def parameters_for(self, costs: Iterable[Parameters] = ()) -> Parameters:
        """Return the parameters for a passphrase that replaces slots of these ``costs``."""
        found = tuple(costs)
        argon = [one for one in found if isinstance(one, Argon2id)]
        rounds = [one.iterations for one in found if isinstance(one, Pbkdf2Sha512)]
        stays = (argon or rounds) and not self.explicit
        if bool(argon) if stays else self.algorithm == "argon2id":
            every = (self.argon2id, *argon)
            return Argon2id(
                memory_kib=max(one.memory_kib for one in every),
                time_cost=max(one.time_cost for one in every),
                lanes=max(one.lanes for one in every),
            )
        return Pbkdf2Sha512(max(self.pbkdf2.iterations, *rounds, 0))
