"""Define the contract of every store as tests: subclass ``StoreContract`` and give it a bench.

Tests that need something a store need not have ask ``traits`` and nothing else. A store with a trait of ``PARTS``
inherits that part as well.
"""

from __future__ import annotations

from collections.abc import Callable

from contract.attached import AttachmentsContract
from contract.bench import Bench, OnABench
from contract.beside import BesideContract
from contract.days import DaysContract
from contract.failing import FailingContract
from contract.keeping import KeepingContract
from contract.reading import ReadingContract
from contract.reviving import RevivingContract
from contract.tree import TreeContract
from contract.writing import WritingContract
from mcp_notarium.stores.contract import Traits

__all__ = [
    "AttachmentsContract",
    "Bench",
    "BesideContract",
    "KeepingContract",
    "RevivingContract",
    "StoreContract",
    "TreeContract",
]
PARTS: dict[type[OnABench], Callable[[Traits], object]] = {
    AttachmentsContract: lambda traits: traits.attachments,
    BesideContract: lambda traits: traits.ids.paths,
    KeepingContract: lambda traits: traits.keeps_files,
    RevivingContract: lambda traits: traits.revives,
    TreeContract: lambda traits: traits.tree,
}
"""Which trait brings a part."""


class StoreContract(ReadingContract, WritingContract, DaysContract, FailingContract):
    """Subclass, give ``open_bench``, inherit the tests."""

    async def test_the_parts_of_the_contract_are_those_of_the_traits(self, bench: Bench) -> None:
        for part, brings in PARTS.items():
            assert isinstance(self, part) == bool(brings(bench.store.traits)), part.__name__
