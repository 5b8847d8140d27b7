"""Define the contract of every store as tests: subclass ``StoreContract`` and give it a bench.

Tests that need something a store need not have ask ``traits`` and nothing else.
"""

from __future__ import annotations

from contract.bench import Bench
from contract.days import DaysContract
from contract.failing import FailingContract
from contract.keeping import KeepingContract
from contract.reading import ReadingContract
from contract.writing import WritingContract

__all__ = ["Bench", "StoreContract"]


class StoreContract(
    ReadingContract, WritingContract, DaysContract, KeepingContract, FailingContract
):
    """Subclass, give ``open_bench``, inherit the tests."""
