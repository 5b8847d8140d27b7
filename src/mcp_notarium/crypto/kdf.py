"""Derive a wrapping key from a passphrase: Argon2id, PBKDF2-HMAC-SHA512, or HKDF for random keys.

All that is known of an algorithm is in its class, so another one needs a class and its rows of ``ALGORITHMS`` and
``RANGES``. The names are those of key files, settings and options; a class has the numbers that a key file has of it.
Parameters read from disk are hostile: :func:`derive` checks floor and ceiling before any work and
never retries with weaker ones. Nothing here reads a clock, a file or a setting.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from mcp_notarium.crypto.errors import KdfOutOfMemory, KeyFileDamaged
from mcp_notarium.secret import Secret

KEY_SIZE = 32
SALT_SIZE = 16
_SLOT_LABEL = b"mcp-notarium/v1/slot"


@dataclass(frozen=True, slots=True)
class Parameters(ABC):
    """Hold the cost of one algorithm: a higher number never makes guessing cheaper. ``str`` says it in a few words."""

    name: ClassVar[str]
    for_passphrases: ClassVar[bool] = True

    @property
    def work(self) -> int:
        """Return the number that the time depends on."""
        return 0

    @property
    def fault(self) -> str | None:
        """Return why no algorithm could work with this cost, or None."""
        return None

    @abstractmethod
    def derive(self, secret: Secret, salt: bytes) -> Secret:
        """Derive 32 bytes. Raises ``KdfOutOfMemory``."""


@dataclass(frozen=True, slots=True)
class Argon2id(Parameters):
    """Hold parameters of Argon2id 1.3. The defaults are RFC 9106's second choice and our floor."""

    name = "argon2id"
    memory_kib: int = 65_536
    time_cost: int = 3
    lanes: int = 4

    @property
    def work(self) -> int:
        """Return memory times passes, in KiB."""
        return self.memory_kib * self.time_cost

    @property
    def fault(self) -> str | None:
        """See ``Parameters.fault``."""
        return "memory too small for its lanes" if self.memory_kib < 8 * self.lanes else None

    def derive(self, secret: Secret, salt: bytes) -> Secret:
        """See ``Parameters.derive``."""
        from argon2.exceptions import HashingError  # noqa: PLC0415 - start-up time, raw keys skip it
        from argon2.low_level import Type, hash_secret_raw  # noqa: PLC0415 - start-up time, as above

        try:
            raw = hash_secret_raw(
                secret=secret.reveal(),
                salt=salt,
                time_cost=self.time_cost,
                memory_cost=self.memory_kib,
                parallelism=self.lanes,
                hash_len=KEY_SIZE,
                type=Type.ID,
            )
        except (HashingError, MemoryError):
            raise KdfOutOfMemory(self.memory_kib) from None
        return Secret(raw)

    def __str__(self) -> str:
        return (
            f"Argon2id {self.memory_kib // 1024} MiB, {self.time_cost} passes, {self.lanes} lanes"
        )


@dataclass(frozen=True, slots=True)
class Pbkdf2Sha512(Parameters):
    """Hold parameters of PBKDF2-HMAC-SHA512, for those who need an approved algorithm."""

    name = "pbkdf2-sha512"
    iterations: int = 310_000

    @property
    def work(self) -> int:
        """Return the iterations."""
        return self.iterations

    def derive(self, secret: Secret, salt: bytes) -> Secret:
        """See ``Parameters.derive``."""
        raw = hashlib.pbkdf2_hmac("sha512", secret.reveal(), salt, self.iterations, KEY_SIZE)
        return Secret(raw)

    def __str__(self) -> str:
        return f"PBKDF2-SHA512, {self.iterations:,} rounds"


@dataclass(frozen=True, slots=True)
class HkdfSha256(Parameters):
    """Name plain HKDF, for secrets that are 256 random bits already."""

    name = "hkdf-sha256"
    for_passphrases = False

    def derive(self, secret: Secret, salt: bytes) -> Secret:
        """See ``Parameters.derive``."""
        return hkdf(secret, salt=salt, label=_SLOT_LABEL)

    def __str__(self) -> str:
        return "none needed (random key)"


ALGORITHMS: dict[str, type[Parameters]] = {
    one.name: one for one in (Argon2id, Pbkdf2Sha512, HkdfSha256)
}
"""By name, the best first."""
NAMES = tuple(name for name, one in ALGORITHMS.items() if one.for_passphrases)
"""Those for passphrases; the first is the default."""


RANGES: dict[type[Parameters], tuple[Parameters, Parameters]] = {
    Argon2id: (Argon2id(), Argon2id(memory_kib=1_048_576, time_cost=16, lanes=16)),
    Pbkdf2Sha512: (Pbkdf2Sha512(210_000), Pbkdf2Sha512(10_000_000)),
}
"""Floor and ceiling of each algorithm for passphrases: the floor prevents weakening, the ceiling exhaustion."""


def permit_together(parameters: Iterable[Parameters]) -> bool:
    """Tell whether slots of one key file may have these parameters: a wrong passphrase is tried on each.

    All together they may cost what one slot at the ceiling costs.
    """
    one_slot = math.prod(high.work for _, high in RANGES.values())
    work = sum(
        each.work * (one_slot // RANGES[type(each)][1].work)
        for each in parameters
        if each.for_passphrases
    )
    return work <= one_slot


def refuse(parameters: Parameters) -> str | None:
    """Return why these parameters are refused, or None."""
    if not parameters.for_passphrases:
        return None
    least, most = map(asdict, RANGES[type(parameters)])
    for name, number in asdict(parameters).items():
        if not least[name] <= number <= most[name]:
            return f"{parameters.name}: {name} out of bounds"
    return parameters.fault


def to_fields(parameters: Parameters) -> dict[str, str | int]:
    """Return the parameters as a key file has them."""
    return {"algorithm": parameters.name} | asdict(parameters)


def from_fields(found: Any, number: Callable[[Any], int]) -> Parameters:
    """Parse what a key file has; ``number`` reads each number. Raises ``KeyFileDamaged``."""
    name = found.get("algorithm") if isinstance(found, dict) else None
    kind = ALGORITHMS.get(name) if isinstance(name, str) else None
    if kind is None or not asdict(kind()).keys() <= found.keys():
        raise KeyFileDamaged("a slot names an unknown key derivation")
    return replace(kind(), **{one: number(found[one]) for one in asdict(kind())})


def normalise_passphrase(passphrase: Secret) -> Secret:
    """Return the passphrase in NFC: the same words typed on another machine are the same key.

    Raises ``UnicodeDecodeError`` if it is not UTF-8.
    """
    return Secret(unicodedata.normalize("NFC", passphrase.reveal_text()))


def derive(passphrase: Secret, *, salt: bytes, parameters: Parameters) -> Secret:
    """Derive a 32-byte wrapping key. The passphrase is taken byte for byte; normalise it before.

    Raises ``KeyFileDamaged`` for parameters out of bounds, before any work, and
    ``KdfOutOfMemory``.
    """
    if reason := refuse(parameters):  # defence: kdf-cost-before-work
        raise KeyFileDamaged(reason)
    return parameters.derive(passphrase, salt)


def hkdf(secret: Secret, *, label: bytes, salt: bytes | None = None) -> Secret:
    """Derive 32 bytes by HKDF-SHA256 for one purpose; the label separates domains."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - start-up time
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - start-up time

    return Secret(HKDF(SHA256(), KEY_SIZE, salt, label).derive(secret.reveal()))


@dataclass(frozen=True, slots=True)
class KdfPolicy:
    """Hold the algorithm for a new passphrase, and the least ``costs`` that are not an algorithm's default.

    A new passphrase never costs less than the one it replaces, which somebody may have made expensive on purpose.
    The algorithm of the old passphrase stays unless the new one is ``explicit``.
    """

    algorithm: str
    explicit: bool
    costs: tuple[Parameters, ...] = ()

    def parameters_for(self, costs: Iterable[Parameters] = ()) -> Parameters:
        """Return the parameters for a passphrase that replaces slots of these ``costs``."""
        found = [one for one in costs if one.for_passphrases]
        names = [name for name in NAMES if any(one.name == name for one in found)]
        kind = ALGORITHMS[self.algorithm if self.explicit or not names else names[0]]
        least = next((one for one in self.costs if type(one) is kind), kind())
        every = [asdict(one) for one in (least, *found) if type(one) is kind]
        dearest = {name: max(one[name] for one in every) for name in asdict(least)}
        return replace(least, **dearest)
