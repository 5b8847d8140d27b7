"""Measure what a key costs at a start: raw, and a passphrase under each of the two KDFs."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator

from bench.measure import Figure, in_turn, turned
from bench.processes import CONSOLE, Speaker
from bench.site import PLAIN, Site
from mcp_notarium.crypto.kdf import Argon2id, Pbkdf2Sha512, derive
from mcp_notarium.secret import Secret

_PASSPHRASE = "five words that nobody would guess"
_KINDS: dict[str, dict[str, str]] = {
    "raw key": {},
    "Argon2id": {"DB_ENCRYPTION_KEY": _PASSPHRASE, "DB_ENCRYPTION_KDF": "argon2id"},
    "PBKDF2": {"DB_ENCRYPTION_KEY": _PASSPHRASE, "DB_ENCRYPTION_KDF": "pbkdf2-sha512"},
    "no key": PLAIN,
}


def keys(site: Site) -> Iterator[Figure]:
    """The first correct ``list`` of a loaded cache under each kind of key, and the stretching alone."""
    settings = {
        name: site.loaded(f"key-{number}", changes)
        for number, (name, changes) in enumerate(_KINDS.items())
    }
    times: dict[str, list[float]] = {name: [] for name in settings}
    for number in range(site.pace.starts):
        for name in turned(settings, number):
            times[name].append(_first_list(site, settings[name]))
    ms = {name: statistics.median(taken) * 1000 for name, taken in times.items()}
    stretched = {"Argon2id": _stretched(Argon2id()), "PBKDF2": _stretched(Pbkdf2Sha512())}
    for name, value in ms.items():
        floors = {} if name == "no key" else {"without a key": ms["no key"]}
        row = f"first list, warm, {name}"
        yield Figure("keys", row, site.count, "ms", value, floors=floors)
    for name, value in stretched.items():
        yield Figure("keys", f"stretching alone, {name}", site.count, "ms", value)


def _first_list(site: Site, settings: dict[str, str]) -> float:
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        answer = server.tool("list")
        took = server.age
        site.demand(answer)
        return took


def _stretched(parameters: Argon2id | Pbkdf2Sha512) -> float:
    def once() -> None:
        derive(Secret(_PASSPHRASE.encode()), salt=os.urandom(16), parameters=parameters)

    once()
    return in_turn([{"kdf": once}] * 5)["kdf"].median * 1000
