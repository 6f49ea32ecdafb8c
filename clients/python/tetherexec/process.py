"""Processes: their events in order, their input, their end."""

import asyncio
import base64
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AsyncIterator, Union

from . import protocol
from .errors import GapError, ProtocolError, ServerError, StdinClosedError, TetherError, UnknownProcessError, UnsupportedError

if TYPE_CHECKING:
    from .client import Client

MAX_BUFFERED = 4 << 20  # bytes of output of a process that wait for its reader; later output stays on the server
MAX_BUFFERED_EVENTS = 8192
ACK_EVENTS = 32  # after so many events, or bytes of output, the client acknowledges
ACK_BYTES = 256 << 10
MAX_WRITE = 256 << 10  # bytes of input in a request
BACKPRESSURE = 0.25  # for how many seconds the connection waits for a reader that is behind


@dataclass(frozen=True)
class Output:
    """A piece of output. stream is "stdout", "stderr" or "pty"."""

    seq: int
    stream: str
    data: bytes


@dataclass(frozen=True)
class Exit:
    """The process has exited. Output that other processes hold open may follow."""

    seq: int
    code: int
    sandbox_denied: bool = False  # the sandbox probably caused the failure
    denial: protocol.DenialFact | None = None
    limit: str | None = None  # the limit because of which the server has ended the command
    failure: str | None = None  # why the code is not the command's own
    usage: protocol.Usage | None = None


@dataclass(frozen=True)
class Closed:
    """The output has ended. Nothing follows."""

    seq: int


@dataclass(frozen=True)
class Gap:
    """The events from first to seq are lost. It happens with servers that do not keep all output."""

    first: int
    seq: int


Event = Union[Output, Exit, Closed, Gap]


def _exit_of(seq: int, facts: Any) -> Exit:
    return Exit(
        seq,
        facts["exitCode"],
        bool(facts.get("sandboxDenied")),
        facts.get("tetherDenial"),
        facts.get("tetherLimit"),
        facts.get("tetherFailure"),
        facts.get("tetherUsage"),
    )


class Process:
    """A process on the executor. `async for event in process` gives its events in order, each once.

    Only one reader at a time: events are delivered once. Output that is not read stays on the server, which
    blocks the command when there is too much of it.
    """

    def __init__(self, client: "Client", process_id: str):
        self.id = process_id
        self.sandbox_type = ""
        self.limits: protocol.LimitsInForce | None = None  # those in force
        self._client = client
        self._started = False  # from now on it is caught up with after each lost connection

        self._events: deque[Event] = deque()  # contiguous: the last one is _tail
        self._bytes = 0  # of output in _events
        self._tail = 0  # the last event that is buffered or was delivered
        self._highest = 0  # the highest number that is known to exist
        self._delivered = 0
        self._exit: Exit | None = None
        self._closed_seq = 0
        self._failure: TetherError | None = None

        self._acked = 0
        self._unacked = 0  # bytes that were delivered since
        self._reading = False  # a program has begun to read
        self._waiting = False  # it is waiting for the next event
        self._idle = False  # its reader does not read: the connection does not wait for it
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._over = asyncio.Event()  # the exit is known, or the process is lost
        self._writing = asyncio.Lock()

    # Events from the connection.

    async def _notified(self, method: str, note: Any) -> None:
        seq = note["seq"]
        event: Event
        if method == protocol.NOTE_PROCESS_OUTPUT:
            event = Output(seq, note["stream"], base64.b64decode(note["chunk"], validate=True))
        elif method == protocol.NOTE_PROCESS_EXITED:
            event = self._exit = self._exit or _exit_of(seq, note)
            self._over.set()
        else:
            event, self._closed_seq = Closed(seq), seq
        self._highest = max(self._highest, seq)
        if seq == self._tail + 1 and not self._has_room(event) and self._reading and not self._idle:
            await self._wait_for_room(event)
        if seq == self._tail + 1 and self._has_room(event):
            self._append(event)
        self._changed.set()  # other events: the reader gets them from the server when it comes to them

    def _has_room(self, event: Event) -> bool:
        size = len(event.data) if isinstance(event, Output) else 0
        if not self._events:
            return True
        return self._bytes + size <= MAX_BUFFERED and len(self._events) < MAX_BUFFERED_EVENTS and self._client._has_room(size)

    async def _wait_for_room(self, event: Event) -> None:
        """Makes the connection, and so the server, wait for a reader that is behind, but not for long: other processes wait, too."""
        try:
            async with asyncio.timeout(BACKPRESSURE):
                while not self._has_room(event):
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            self._idle = True

    def _append(self, event: Event) -> None:
        self._events.append(event)
        self._tail = event.seq
        if isinstance(event, Output):
            self._bytes += len(event.data)
            self._client._buffered += len(event.data)

    def _take(self, answer: Any) -> None:
        """Takes the answer to a process/read, which covers all events up to its nextSeq."""
        if answer.get("failure") is not None:
            raise ProtocolError(f"the server cannot read the output of {self.id}: {answer['failure']}")
        last = answer["nextSeq"] - 1
        self._highest = max(self._highest, last)
        found: dict[int, Event] = {}
        for chunk in answer["chunks"]:
            if chunk["seq"] > self._tail:
                found[chunk["seq"]] = Output(chunk["seq"], chunk["stream"], base64.b64decode(chunk["chunk"], validate=True))
        if answer["closed"] and last > self._tail:
            found[last] = Closed(last)
            self._closed_seq = last
        if answer["exited"] and self._exit is None:
            # The answer does not say when the process has exited. Only the exit and lost output have no chunk.
            seq = next((n for n in range(last, self._tail, -1) if n not in found), 0)
            if not seq:
                raise ProtocolError(f"the exit of {self.id} has no number")
            self._exit = _exit_of(seq, answer)
            self._over.set()
        if self._exit and self._tail < self._exit.seq <= last:
            found[self._exit.seq] = self._exit
        for seq in sorted(found):
            if seq > self._tail + 1:
                self._append(Gap(self._tail + 1, seq - 1))
            self._append(found[seq])
        if self._tail < last:
            self._append(Gap(self._tail + 1, last))
        self._changed.set()

    async def _catch_up(self, connection: Any) -> None:
        """Reads what was missed, up to 1 MiB. On a new connection, later events follow as notifications.

        Without maxBytes the answer describes the process as of the last event in it. With it, the answer may say that the
        process is closed although more output follows.
        """
        params = {"processId": self.id, "afterSeq": self._tail, "maxBytes": None, "waitMs": 0}
        self._take(await connection.call(protocol.METHOD_PROCESS_READ, params))

    def _fail(self, error: TetherError) -> None:
        self._failure = self._failure or error
        self._over.set()
        self._changed.set()
        self._room.set()

    def _drop(self) -> None:
        """Forgets the output that no program will read."""
        self._client._buffered -= self._bytes
        self._bytes = 0
        self._events.clear()

    # Events for the program.

    def __aiter__(self) -> "Process":
        return self

    async def __anext__(self) -> Event:
        if self._waiting:
            raise RuntimeError(f"the events of process {self.id} are being read already")
        self._reading = self._waiting = True
        try:
            event = await self._next()
        finally:
            self._waiting = False
        if event is None:
            raise StopAsyncIteration
        return event

    async def _next(self) -> Event | None:
        while True:
            if self._events:
                event = self._events.popleft()
                self._deliver(event)
                return event
            if self._closed_seq and self._delivered >= self._closed_seq:
                return None
            if self._failure:
                raise self._failure
            if self._highest > self._tail:
                await self._fetch()
                continue
            self._idle = False  # it has caught up
            self._changed.clear()
            await self._changed.wait()

    async def _fetch(self) -> None:
        """Asks the server for events that had no room here, or did not come."""
        try:
            await self._client.through(self._catch_up, repeat=True)
        except UnknownProcessError:  # the server has removed it
            if self._highest > self._tail:
                self._append(Gap(self._tail + 1, self._highest))

    def _deliver(self, event: Event) -> None:
        self._delivered = event.seq
        if isinstance(event, Output):
            self._bytes -= len(event.data)
            self._client._buffered -= len(event.data)
            self._unacked += len(event.data)
        if self._bytes <= MAX_BUFFERED // 2:
            self._room.set()
        final = isinstance(event, Closed)
        if final or event.seq >= self._acked + ACK_EVENTS or self._unacked >= ACK_BYTES:
            self._acknowledge()
        if final:
            self._client._finished(self)

    def _acknowledge(self) -> None:
        if self._delivered:
            self._acked, self._unacked = self._delivered, 0
            self._client._acknowledge(self.id, self._delivered)

    async def output(self, stream: str | None = None) -> AsyncIterator[bytes]:
        """The bytes of the output, of one stream or of all. Lost output is a GapError."""
        async for event in self:
            if isinstance(event, Gap):
                raise GapError(event.first, event.seq)
            if isinstance(event, Output) and stream in (None, event.stream):
                yield event.data

    async def communicate(self) -> tuple[bytes, bytes, Exit]:
        """Reads all output: that on standard output or the terminal, that on standard error, and the exit."""
        out, err = bytearray(), bytearray()
        async for event in self:
            if isinstance(event, Gap):
                raise GapError(event.first, event.seq)
            if isinstance(event, Output):
                (err if event.stream == protocol.STREAM_STDERR else out).extend(event.data)
        return bytes(out), bytes(err), await self.wait()

    async def discard_output(self) -> None:
        """Reads all output and drops it."""
        async for _ in self:
            pass

    async def wait(self) -> Exit:
        """Waits for the exit. It does not read: a command with much output needs a reader besides."""
        await self._over.wait()
        if self._exit is None:
            assert self._failure is not None
            raise self._failure
        return self._exit

    # Input and control.

    async def write(self, data: bytes) -> None:
        """Writes to standard input. The bytes arrive once and in order, also over lost connections."""
        async with self._writing:
            for at in range(0, len(data), MAX_WRITE):
                params = {
                    "processId": self.id,
                    "chunk": base64.b64encode(data[at : at + MAX_WRITE]).decode(),
                    "writeId": self._client.new_id(),
                }
                result = await self._client.call(protocol.METHOD_PROCESS_WRITE, params, repeat=True)
                status = result.get("status", protocol.WRITE_ACCEPTED)
                if status == protocol.WRITE_STDIN_CLOSED:
                    raise StdinClosedError(f"process {self.id} takes no more input")
                if status != protocol.WRITE_ACCEPTED:
                    raise ServerError(protocol.METHOD_PROCESS_WRITE, protocol.CODE_INVALID_REQUEST, f"input was not accepted: {status}")

    async def close_stdin(self) -> None:
        """Ends standard input after all earlier writes. On a terminal it types the end-of-file character."""
        async with self._writing:
            await self._once(protocol.METHOD_PROCESS_CLOSE_STDIN, "closeStdin", {"processId": self.id})

    async def signal(self, name: str = "SIGINT") -> None:
        """Sends a signal, such as "SIGTERM"."""
        if not self._client.has("signal"):
            if name.upper().removeprefix("SIG") != "INT":
                raise UnsupportedError("the server knows only the signal SIGINT")
            await self._client.call(protocol.METHOD_PROCESS_SIGNAL, {"processId": self.id, "signal": "interrupt"})
            return
        await self._once(protocol.METHOD_PROCESS_SIGNAL_ANY, "signal", {"processId": self.id, "signal": name})

    async def _once(self, method: str, feature: str, params: dict) -> None:
        """Sends a request with an id, by which the server carries it out once, however often it is sent."""
        if not self._client.has(feature):
            raise UnsupportedError(f"the server does not have {method}")
        once = self._client.has("once")
        if once:
            params["onceId"] = self._client.new_id()
        await self._client.call(method, params, repeat=once)

    async def resize(self, rows: int, cols: int) -> None:
        """Changes the size of the terminal."""
        if not self._client.has("resize"):
            raise UnsupportedError("the server cannot change the size of a terminal")
        await self._client.call(protocol.METHOD_PROCESS_RESIZE, {"processId": self.id, "rows": rows, "cols": cols}, repeat=True)

    async def terminate(self) -> bool:
        """Ends the process and all that it started. Returns whether it was still running."""
        result = await self._client.call(protocol.METHOD_PROCESS_TERMINATE, {"processId": self.id}, repeat=True)
        return bool(result["running"])
