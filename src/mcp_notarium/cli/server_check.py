"""Start the server as a client does, and shake hands with it: the client of the official SDK plays the part.

It gets the few variables that clients pass on, and the home folder as its working folder.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

_SECONDS = 60.0
"""Seconds for an answer; a keychain may show a dialog to a person."""
_LIST = "list"


@dataclass(frozen=True, slots=True)
class Check:
    """Hold what a client saw: the tools, the seconds until it had them, and why notes cannot be read, if so."""

    tools: tuple[str, ...]
    seconds: float
    problem: str = ""


def check_server(entry: Mapping[str, Any]) -> Check:
    """Start the server of a client's entry, list its tools and ask for one note."""
    # The SDK takes half a second.
    from mcp import StdioServerParameters, stdio_client  # noqa: PLC0415

    parameters = StdioServerParameters(
        command=str(entry["command"]),
        args=[str(one) for one in entry.get("args") or ()],
        env={str(name): str(value) for name, value in (entry.get("env") or {}).items()},
        cwd=Path.home(),
    )
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        return asyncio.run(_shake_hands(partial(stdio_client, parameters, errlog=nowhere)))


async def _shake_hands(connect: Callable[[], Any]) -> Check:
    from mcp import Client  # noqa: PLC0415 - see above

    began = time.monotonic()
    try:
        async with Client(connect(), mode="legacy", read_timeout_seconds=_SECONDS) as client:
            tools = tuple(one.name for one in (await client.list_tools()).tools)
            seconds = time.monotonic() - began
            listing = next((name for name in tools if name.endswith(_LIST)), None)
            if listing is None:
                return Check(tools, seconds)
            result = await client.call_tool(listing, {"limit": 1})
            return Check(tools, seconds, _problem(result) if result.is_error else "")
    except Exception as error:  # noqa: BLE001 - whatever a client would meet
        return Check((), time.monotonic() - began, f"it did not answer ({type(error).__name__})")


def _problem(result: Any) -> str:
    import json  # noqa: PLC0415 - rarely needed

    text = str(getattr(result.content[0], "text", "")) if result.content else ""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text or "it refused"
