"""What stretching a new passphrase costs: never less than it cost for what it takes the place of. Pure.

Somebody has made guessing dearer on purpose (``keys calibrate``), or needs an approved algorithm. A
change of the passphrase must not take that back without being asked to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mcp_notarium.crypto import kdf


@dataclass(frozen=True, slots=True)
class Stretching:
    """The least that each algorithm costs from now on, and which is ``wanted`` for a new passphrase.

    ``wanted`` is ``argon2id`` or ``pbkdf2-sha512``; ``chosen``: somebody has asked for it, else that
    of the old passphrase stays.
    """

    argon2id: kdf.Argon2id
    pbkdf2: kdf.Pbkdf2Sha512
    wanted: str
    chosen: bool

    def in_place_of(self, costs: Iterable[kdf.Parameters]) -> kdf.Parameters:
        """The parameters for a passphrase that replaces slots of these ``costs``, at least as dear."""
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
