"""Tests without a server: what is left of a connection, a command or a file when something goes wrong."""

import asyncio
import json
import unittest
from typing import Any

import tetherexec
from tetherexec import protocol
from tetherexec._connection import Connection
from tetherexec.errors import ConnectionLost
from tetherexec.files import BLOCK, FIRST_BLOCK, next_block

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


class Server:
    """A connection to a server that answers each request from a table; a request that is not there gets no answer."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requests: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.ended = asyncio.Event()

    async def call(self, method: str, params: Any = None) -> Any:
        self.requests.put_nowait((method, params))
        answer = self.answers.get(method.rpartition("/")[2])
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def next(self, method: str) -> Any:
        """The parameters of the next request with this method."""
        async with asyncio.timeout(PATIENCE):
            while True:
                name, params = await self.requests.get()
                if name == method:
                    return params


def client_of(server: Server, *features: str) -> tetherexec.Client:
    client = tetherexec.Client("ws://127.0.0.1:1")
    client._connection, client._features = server, frozenset(features)  # type: ignore[assignment]
    return client


async def forgotten(client: tetherexec.Client) -> None:
    async with asyncio.timeout(PATIENCE):
        while client._processes:
            await asyncio.sleep(0)


class Connections(unittest.IsolatedAsyncioTestCase):
    async def ends_with(self, message: str, notified: Any = None) -> None:
        socket = Socket()
        connection = Connection(socket, None, notified, notified)
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

    async def test_call_whose_answer_is_lost(self) -> None:
        lost = [ConnectionLost("lost", True)]

        class Losing(Server):
            async def call(self, method: str, params: Any = None) -> Any:
                if lost:
                    raise lost.pop()
                return {}

        with self.assertRaises(tetherexec.AmbiguousError):
            await client_of(Losing()).call(protocol.METHOD_SESSION_END, {"sessionId": None})
        lost.append(ConnectionLost("lost", True))
        self.assertEqual(await client_of(Losing()).call("environment/status", repeat=True), {})


class Commands(unittest.IsolatedAsyncioTestCase):
    async def test_run_that_is_cancelled_ends_the_command(self) -> None:
        server = Server(start={}, terminate={"running": True})
        client = client_of(server)
        running = asyncio.ensure_future(client.run(["sleep", "1000"]))
        process_id = (await server.next(protocol.METHOD_PROCESS_START))["processId"]
        while not client._processes[process_id]._reading:
            await asyncio.sleep(0)
        running.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await running
        self.assertEqual((await server.next(protocol.METHOD_PROCESS_TERMINATE))["processId"], process_id)
        self.assertEqual((client._processes, client._buffered), ({}, 0))

    async def test_start_that_is_cancelled_and_then_refused_is_forgotten(self) -> None:
        server = Server()
        client = client_of(server)
        answer: asyncio.Future = asyncio.get_running_loop().create_future()

        async def call(method: str, params: Any = None) -> Any:
            server.requests.put_nowait((method, params))
            return await answer

        server.call = call  # type: ignore[method-assign]
        starting = asyncio.ensure_future(client.start(["true"]))
        await server.next(protocol.METHOD_PROCESS_START)
        starting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await starting
        answer.set_exception(tetherexec.ServerError(protocol.METHOD_PROCESS_START, -32600, "no such program"))
        await forgotten(client)

    async def test_run_with_input_needs_a_server_that_can_end_it(self) -> None:
        with self.assertRaises(tetherexec.UnsupportedError):
            async with asyncio.timeout(PATIENCE):
                await client_of(Server(start={}, write={})).run(["sort"], input=b"b\na\n")


class FilesOfAServer(unittest.IsolatedAsyncioTestCase):
    async def test_reader_that_stops_while_the_connection_is_lost(self) -> None:
        server = Server(getMetadata={"size": 2, "modifiedAtMs": 1}, open={}, readBlock={"chunk": "eHk=", "eof": False}, close=ConnectionLost("lost", sent=True))
        blocks = client_of(server).files.blocks("/file")
        self.assertEqual(await anext(blocks), b"xy")
        await blocks.aclose()  # type: ignore[attr-defined]
        await server.next(protocol.METHOD_FS_CLOSE)

    async def test_write_that_is_cancelled_is_aborted(self) -> None:
        server = Server(open={"maxBlock": 1 << 20}, abort={})
        writing = asyncio.ensure_future(client_of(server, "upload").files.write("/file", b"x"))
        upload = (await server.next(protocol.METHOD_UPLOAD_WRITE))["uploadId"]
        writing.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await writing
        self.assertEqual((await server.next(protocol.METHOD_UPLOAD_ABORT))["uploadId"], upload)

    async def test_blocks_are_small_on_a_slow_link(self) -> None:
        fast = slow = FIRST_BLOCK
        for _ in range(10):
            fast, slow = next_block(fast, 0.1), next_block(slow, 10)
        self.assertEqual((fast, slow), (BLOCK, FIRST_BLOCK))
        self.assertEqual(next_block(BLOCK, 10), BLOCK // 2)
        self.assertEqual(next_block(BLOCK, 1), BLOCK)


if __name__ == "__main__":
    unittest.main()
