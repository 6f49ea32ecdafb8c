"""Shell commands as models want them: text of bounded length, and an end in bounded time."""

import asyncio
from dataclasses import dataclass
from typing import Any, Sequence

from .. import protocol
from ..client import Client
from ..errors import GapError, TetherError
from ..process import Gap, Output

MAX_OUTPUT = 1 << 20  # bytes of a stream that are kept: half of them from its beginning, half from its end


class Kept:
    """The beginning and the end of an output."""

    def __init__(self, limit: int):
        self._half = max(limit // 2, 1)
        self._head, self._tail = bytearray(), bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        over = len(self._tail) - self._half
        if over > 0:
            del self._tail[:over]
            self.dropped += over

    def text(self) -> str:
        if not self.dropped:
            return (self._head + self._tail).decode(errors="replace")
        return f"{self._head.decode(errors='replace')}\n[{self.dropped} bytes were left out]\n{self._tail.decode(errors='replace')}"


@dataclass(frozen=True)
class Ran:
    """A command that has run. The code is None if its time was over."""

    stdout: str
    stderr: str
    code: int | None
    truncated: bool


async def run_shell(
    client: Client, shell: Sequence[str], command: str, *, timeout: float | None, limit: int = MAX_OUTPUT, joined: bool = False, **options: Any
) -> Ran:
    """Runs a command. After timeout seconds it is terminated, and what it has printed is kept. joined gives it one pipe for both
    streams, so that they keep their order; a server without that joins them in the order in which it reads them. The options are
    those of Client.start.
    """
    out = Kept(limit)
    err = out if joined else Kept(limit)
    if joined:
        options = {"oneStream": True, **options}
    process = await client.start([*shell, command], **options)

    async def read() -> None:
        async for event in process:
            if isinstance(event, Gap):
                raise GapError(event.first, event.seq)
            if isinstance(event, Output):
                (err if event.stream == protocol.STREAM_STDERR else out).add(event.data)

    reading = asyncio.ensure_future(read())
    try:
        finished, _ = await asyncio.wait([reading], timeout=timeout)
        if not finished:
            await process.terminate()
        await reading
    except BaseException:  # a command that cannot be read, or is not waited for, has no purpose
        reading.cancel()
        client._give_up(process, TetherError("the command was given up"), known=True)
        process._drop()
        raise
    code = (await process.wait()).code if finished else None
    return Ran(out.text(), "" if joined else err.text(), code, bool(out.dropped or err.dropped))
