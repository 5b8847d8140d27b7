"""Relay TCP connections, and count requests and the bytes of both directions, headers included."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress

_READ = 1 << 16
_BEGINNINGS = (b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ")


class Relay:
    """Listens on 127.0.0.1 and passes on to ``port``, in a thread of its own, to the process's end."""

    def __init__(self, port: int) -> None:
        self.bytes = 0
        self.requests = 0
        self._to = port
        self._port: Future[int] = Future()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port.result(10)}"

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port.set_result(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._to)
        await asyncio.gather(
            self._pass_on(reader, there_writer), self._pass_on(there_reader, writer)
        )

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_READ):
                self.bytes += len(chunk)
                self.requests += chunk.startswith(_BEGINNINGS)  # one at a time on a connection
                writer.write(chunk)
                await writer.drain()
        writer.close()
