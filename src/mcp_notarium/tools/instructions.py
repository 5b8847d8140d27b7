"""Narrow the instructions for the model to the tools that are there. Light: the handshake imports it."""

from __future__ import annotations

from collections.abc import Collection


def instructions_without(instructions: str, gone: Collection[str]) -> str:
    """Return the instructions without the lines that name a tool that is ``gone``."""
    lines = instructions.split("\n")
    return "\n".join(line for line in lines if not any(f"`{name}`" in line for name in gone))
