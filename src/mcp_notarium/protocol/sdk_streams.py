"""Connect the SDK to the transport: the streams it reads from and writes to.

Nothing in a result can end the process: what no encoding can carry becomes U+FFFD.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mcp_notarium.domain.text_normalization import replace_surrogates
from mcp_notarium.protocol.jsonrpc import INVALID_REQUEST, Refusal
from mcp_notarium.protocol.transport import Transport


class _Stream:
    """What both streams have in common: closing one closes nothing of ours."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def aclose(self) -> None:
        """Nothing to do: the descriptor belongs to the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class Incoming(_Stream):
    """The read stream the SDK is given."""

    async def receive(self) -> SessionMessage | Exception:
        """The next message. Raises ``EndOfStream`` at the end."""
        while True:
            message = await self._transport.next()
            try:
                return SessionMessage(
                    jsonrpc_message_adapter.validate_python(message, by_name=False)
                )
            except ValidationError:
                request_id = message.get("id")
                if "method" in message and request_id is not None:
                    refusal = Refusal(INVALID_REQUEST, "Invalid request", request_id)
                    await self._transport.send(refusal.encoded(), answers=request_id)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Outgoing(_Stream):
    """The write stream the SDK is given."""

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        message = item.message
        answers = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        await self._transport.send(encode(message), answers=answers)


def encode(message: JSONRPCMessage) -> bytes:
    """The message as a line."""
    if isinstance(message, JSONRPCError) and message.id is None:
        return Refusal(message.error.code, message.error.message).encoded()
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (ValueError, UnicodeError):
        form = _clean(message.model_dump(by_alias=True, exclude_unset=True))
        return json.dumps(form, separators=(",", ":"), default=str).encode() + b"\n"


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
