"""List all entries: the removed defence, and the tests that must fail."""

from __future__ import annotations

from undefended.defence import Defence
from undefended.entries_agents import AGENTS
from undefended.entries_cache import CACHE
from undefended.entries_keys import KEYS
from undefended.entries_process import PROCESS
from undefended.entries_redaction import REDACTION
from undefended.entries_service import SERVICE
from undefended.entries_start import START
from undefended.entries_transfer import TRANSFER
from undefended.entries_vault import VAULT

DEFENCES: tuple[Defence, ...] = (
    *KEYS,
    *CACHE,
    *PROCESS,
    *START,
    *REDACTION,
    *SERVICE,
    *AGENTS,
    *VAULT,
    *TRANSFER,
)
