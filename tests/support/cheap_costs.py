"""Hold the lowest cost of a passphrase that its algorithm can have, and bounds that permit it. The program refuses it."""

from mcp_notarium.crypto.kdf import Argon2id, Bounds, Pbkdf2Sha512

CHEAPEST = Argon2id(memory_kib=8, time_cost=1, lanes=1)
TEST_BOUNDS = Bounds(
    ((CHEAPEST, Argon2id()), (Pbkdf2Sha512(1), Pbkdf2Sha512(310_000))), slots_at_ceiling=8
)
