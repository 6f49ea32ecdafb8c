"""Tests without a server: what is left of a connection, a command or a file when something goes wrong."""

import asyncio
import json
import unittest
from typing import Any

import tetherexec
from tetherexec._connection import Connection
from tetherexec.errors import ConnectionLost

PATIENCE = 30  # seconds; no test takes so long unless it hangs


class Socket:
    """A WebSocket to a server that the test plays."""

    close_code, close_reason = None, None

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[str] = asyncio.Queue()

    def __aiter__(self) -> "Socket":
        return self

    async def __anext__(self) -> str:
        return await self.incoming.get()

    async def send(self, text: str) -> None:
        pass

    async def close(self) -> None:
        pass


class Connections(unittest.IsolatedAsyncioTestCase):
    async def ends_with(self, message: str, notified: Any = None) -> None:
        socket = Socket()
        connection = Connection(socket, notified, notified)
        call = asyncio.ensure_future(connection.call("environment/status"))
        while not connection._calls:
            await asyncio.sleep(0)
        socket.incoming.put_nowait(message)
        async with asyncio.timeout(PATIENCE):
            with self.assertRaises(ConnectionLost):
                await call
        self.assertIsInstance(connection.cause, tetherexec.ProtocolError)
        await connection.close()

    async def test_message_that_cannot_be_decoded(self) -> None:
        await self.ends_with("[" * 200_000)  # RecursionError
        await self.ends_with('{"id":1,"error":{"code":1e999}}')  # OverflowError

    async def test_handler_that_fails(self) -> None:
        async def notified(method: str, params: Any) -> None:
            raise RuntimeError(method)

        await self.ends_with(json.dumps({"method": "process/output", "params": {}}), notified)


if __name__ == "__main__":
    unittest.main()
