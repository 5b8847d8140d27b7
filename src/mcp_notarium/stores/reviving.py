"""Define what a store with the trait ``revives`` does beside the contract: notes come back as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from mcp_notarium.stores.contract import Store


@dataclass(frozen=True, slots=True)
class Replaced:
    """Hold what a body replaces in a note.

    ``native``: that, as ``compose`` takes it in ``Content.native``; b'' if the body changes nothing. ``names``: what of
    it the ``Content`` does not say and a person would miss, in the user's words.
    """

    native: bytes = b""
    names: tuple[str, ...] = ()


async def find_replaced(store: Store, note_id: str, body: bytes) -> Replaced | None:
    """Return what a body of an update would replace now; None where the content says all. See ``RevivingStore``."""
    if not store.traits.revives:
        return None
    return await cast("RevivingStore", store).find_replaced(note_id, body)  # its trait says so


async def find_native(store: Store, note_id: str, body: bytes) -> bytes | None:
    """Return the ``native`` of :func:`find_replaced`; None where the content says all."""
    found = await find_replaced(store, note_id, body)
    return None if found is None else found.native


def name_parts(store: Store, native: bytes) -> tuple[str, ...]:
    """Name what a ``native`` holds that no ``Content`` says; nothing where the content says all. Pure."""
    return cast("RevivingStore", store).name_parts(native) if store.traits.revives else ()


class RevivingStore(Store, Protocol):
    """Reach a store with the trait ``revives``.

    ``push`` of an update raises ``VersionConflict`` if it would replace something else than ``PendingWrite.replaced``.
    """

    async def keepsake(self, note_id: str) -> bytes:
        """Return all that the store holds of a note, as ``compose`` takes it in ``Content.native`` of a new one.

        Raises ``NoteNotFound``.
        """

    async def find_replaced(self, note_id: str, body: bytes) -> Replaced:
        """Read what a composed body of an update would replace now.

        Raises ``NoteNotFound``, and ``VersionConflict`` if the body takes back a change that another one has followed.
        """

    def name_parts(self, native: bytes) -> tuple[str, ...]:
        """Name what a ``native`` holds that no ``Content`` says, in the user's words. Pure."""

    def overlay(self, natives: Sequence[str]) -> str:
        """Combine what several writes have replaced, the newest first, into the state before the oldest. Pure."""
