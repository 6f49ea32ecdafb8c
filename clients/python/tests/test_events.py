"""Tests without a server: how events and answers become one sequence. The tests with a server are in clients/conformance."""

import asyncio
import base64
import unittest

import tetherexec
from tetherexec import Closed, Exit, Gap, Output, protocol
from tetherexec.client import ATTACHED_PAUSE, BACK_OFF, JITTER, _pause
from tetherexec.errors import server_error
from tetherexec.process import MAX_BUFFERED


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def answer(*chunks: tuple[int, bytes], following: int, code: int | None = None, closed: bool = False) -> dict:
    return {
        "chunks": [{"seq": seq, "stream": "stdout", "chunk": encoded(data)} for seq, data in chunks],
        "nextSeq": following,
        "exited": code is not None,
        "exitCode": code,
        "closed": closed,
        "failure": None,
        "sandboxDenied": False,
    }


class Events(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.client = tetherexec.Client("ws://127.0.0.1:1")
        self.process = tetherexec.Process(self.client, "p")
        self.answers: list[dict] = []  # of process/read

        async def through(do, repeat=True):
            await do(self)

        self.client.through = through  # type: ignore[method-assign]

    async def call(self, method: str, params: dict) -> dict:
        self.assertEqual((method, params["afterSeq"]), (protocol.METHOD_PROCESS_READ, self.process._tail))
        return self.answers.pop(0)

    async def output(self, seq: int, data: bytes) -> None:
        await self.process._notified(protocol.NOTE_PROCESS_OUTPUT, {"seq": seq, "stream": "stdout", "chunk": encoded(data)})

    async def over(self, exit_seq: int, closed_seq: int) -> None:
        await self.process._notified(protocol.NOTE_PROCESS_EXITED, {"seq": exit_seq, "exitCode": 0})
        await self.process._notified(protocol.NOTE_PROCESS_CLOSED, {"seq": closed_seq})

    async def read(self) -> list:
        async with asyncio.timeout(30):
            return [event async for event in self.process]

    async def test_in_order(self) -> None:
        await self.output(1, b"a")
        await self.output(2, b"b")
        await self.output(2, b"b")  # twice
        await self.over(3, 4)
        self.assertEqual(await self.read(), [Output(1, "stdout", b"a"), Output(2, "stdout", b"b"), Exit(3, 0), Closed(4)])

    async def test_missing_event_is_read(self) -> None:
        await self.output(1, b"a")
        await self.output(3, b"c")
        await self.over(4, 5)
        self.answers = [answer((2, b"b"), (3, b"c"), following=6, code=0, closed=True)]
        self.assertEqual([e.seq for e in await self.read()], [1, 2, 3, 4, 5])

    async def test_exit_is_the_number_without_a_chunk(self) -> None:
        self.process._take(answer((1, b"a"), (3, b"late"), following=5, code=7, closed=True))
        events = await self.read()
        self.assertEqual([type(e) for e in events], [Output, Exit, Output, Closed])
        self.assertEqual((await self.process.wait()).code, 7)

    async def test_page_of_a_longer_output(self) -> None:
        self.process._take(answer((1, b"a"), (2, b"b"), following=3))
        await self.output(3, b"c")
        await self.over(4, 5)
        self.assertEqual([e.seq for e in await self.read()], [1, 2, 3, 4, 5])

    async def test_lost_output_is_a_gap(self) -> None:
        self.process._take(answer((5, b"e"), following=6))
        await self.over(6, 7)
        events = await self.read()
        self.assertEqual(events[0], Gap(1, 4))
        with self.assertRaises(tetherexec.GapError):
            self.process = tetherexec.Process(self.client, "q")
            self.process._take(answer((5, b"e"), following=6))
            await self.process.communicate()

    async def test_output_without_a_reader_is_bounded(self) -> None:
        block = b"x" * (1 << 20)
        for seq in range(1, 10):
            await self.output(seq, block)
        self.assertLessEqual(self.process._bytes, MAX_BUFFERED)
        self.assertEqual(self.process._highest, 9)
        await self.over(10, 11)
        self.assertEqual((await self.process.wait()).code, 0)
        self.answers = [answer(*((n, block) for n in range(5, 10)), following=12, code=0, closed=True)]
        self.assertEqual([e.seq for e in await self.read()], list(range(1, 12)))
        self.assertEqual(self.client._buffered, 0)

    async def test_lost_session_comes_after_the_output(self) -> None:
        await self.output(1, b"a")
        self.process._fail(tetherexec.SessionLostError("gone"))
        self.assertEqual((await anext(self.process)).seq, 1)
        with self.assertRaises(tetherexec.SessionLostError):
            await anext(self.process)
        with self.assertRaises(tetherexec.SessionLostError):
            await self.process.wait()

    async def test_one_reader_at_a_time(self) -> None:
        first = asyncio.ensure_future(anext(self.process))
        await asyncio.sleep(0)
        with self.assertRaises(RuntimeError):
            await anext(self.process)
        await self.output(1, b"a")
        self.assertEqual((await first).seq, 1)


class Rules(unittest.TestCase):
    def test_paths(self) -> None:
        for path, uri in {
            "/": "file:///",
            "/srv/a b": "file:///srv/a%20b",
            "/srv/50%": "file:///srv/50%25",
            "/srv/é#?": "file:///srv/%C3%A9%23%3F",
            b"/srv/\xff": "file:///srv/%FF",
            "//srv": "file:///srv",
        }.items():
            self.assertEqual(tetherexec.path_uri(path), uri)
        with self.assertRaises(ValueError):
            tetherexec.path_uri("relative")

    def test_pauses(self) -> None:
        attached = server_error("initialize", {"code": protocol.CODE_SESSION_ATTACHED, "message": "attached"})
        for failed in range(20):
            longest = BACK_OFF[min(failed, len(BACK_OFF) - 1)]
            self.assertLessEqual(_pause(failed, None), longest * (1 + JITTER))
            self.assertGreaterEqual(_pause(failed, None), longest * (1 - JITTER))
            self.assertLessEqual(_pause(failed, attached), ATTACHED_PAUSE * (1 + JITTER))

    def test_errors(self) -> None:
        for error, kind in (
            ({"code": -32004, "message": "no"}, tetherexec.NotFoundError),
            ({"code": -32600, "message": "unknown process id p"}, tetherexec.UnknownProcessError),
            ({"code": -32600, "message": "x", "data": {"reason": "unknownProcess"}}, tetherexec.UnknownProcessError),
            ({"code": -32600, "message": "x", "data": {"reason": "stdinClosed"}}, tetherexec.StdinClosedError),
            ({"code": -32603, "message": "x"}, tetherexec.ServerError),
        ):
            self.assertIs(type(server_error("m", error)), kind)

    def test_every_member_of_a_start_is_in_the_schema(self) -> None:
        self.assertLessEqual({"processId", "argv", "cwd", "env", "tty"}, protocol.StartParams.__required_keys__)
        self.assertIn("limits", protocol.StartParams.__optional_keys__)


if __name__ == "__main__":
    unittest.main()
