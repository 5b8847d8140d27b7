"""Hold the lowest cost of a passphrase that its algorithm can have, and let this process take it. The program refuses it."""

from mcp_notarium.crypto import kdf
from mcp_notarium.crypto.kdf import Argon2id, Pbkdf2Sha512

CHEAPEST = Argon2id(memory_kib=8, time_cost=1, lanes=1)
PRODUCTION = kdf.RANGES
"""What the program permits; the fixture ``production_costs`` has it."""


def permit_cheapest() -> None:
    """Lower the floors of this process."""
    (_, argon2), (_, pbkdf2) = PRODUCTION.values()
    kdf.RANGES = {Argon2id: (CHEAPEST, argon2), Pbkdf2Sha512: (Pbkdf2Sha512(1), pbkdf2)}
