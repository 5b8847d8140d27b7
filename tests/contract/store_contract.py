"""Define the contract of every store as tests: subclass ``StoreContract`` and give it a bench.

Tests that need something a store need not have ask ``traits`` and nothing else. A store with a trait of ``PARTS``
inherits that part as well.
"""

from __future__ import annotations

from contract.attached import AttachmentsContract
from contract.bench import Bench
from contract.days import DaysContract
from contract.failing import FailingContract
from contract.keeping import KeepingContract
from contract.reading import ReadingContract
from contract.reviving import RevivingContract
from contract.tree import TreeContract
from contract.writing import WritingContract

__all__ = [
    "AttachmentsContract",
    "Bench",
    "KeepingContract",
    "RevivingContract",
    "StoreContract",
    "TreeContract",
]
PARTS = {
    "attachments": AttachmentsContract,
    "keeps_files": KeepingContract,
    "revives": RevivingContract,
    "tree": TreeContract,
}


class StoreContract(ReadingContract, WritingContract, DaysContract, FailingContract):
    """Subclass, give ``open_bench``, inherit the tests."""

    async def test_the_parts_of_the_contract_are_those_of_the_traits(self, bench: Bench) -> None:
        for trait, part in PARTS.items():
            has = bool(getattr(bench.store.traits, trait))
            assert isinstance(self, part) == has, f"`{trait}` brings {part.__name__}"
