"""Forwarded connections: to ports that the executor reaches. They survive lost connections between client and server."""

import asyncio
import base64
import contextlib
import logging
import socket
import struct
from typing import TYPE_CHECKING, Any, Callable

from . import protocol
from .errors import ConnectionLost, PortError, ProtocolError, ServerError, TetherError, UnsupportedError
from .process import Process

if TYPE_CHECKING:
    from .client import Client

log = logging.getLogger("tetherexec")

MAX_OPEN = 1024  # forwarded connections of a session; the next one waits
MAX_OPENING = 512  # requests that wait for their targets; other requests have room beside them
WINDOW = 1 << 20  # bytes of a connection that are kept in each direction: those that are not acknowledged, and those that are not read
BLOCK = 64 << 10  # bytes that are read from a local socket at a time


class PortStream:
    """A connection to a port that the executor reaches. When the connection to the server is lost, both ends go on where they were: no
    byte is lost, and none comes twice.
    """

    def __init__(self, client: "Client", host: str | None, port: int):
        self.id = client.new_id()
        self._client, self._host, self._port = client, host, port

        self._out = bytearray()  # what the target does not have yet, as far as the client knows
        self._acked = 0  # offset of its first byte
        self._sent = 0  # offset of the next byte to send
        self._limit = 0  # the server takes the bytes before it
        self._out_ended = False
        self._end_sent = False

        self._in = bytearray()  # what the program has not read
        self._received = 0  # offset behind the last byte that has come
        self._read = 0  # offset behind the last byte that the program has read
        self._reported = 0  # the last offset that the server was told
        self._report = False  # it is told again
        self._in_ended = False

        self._opened = False
        self._closing = False  # the program does not read any more
        self._aborted = False
        self._failure: Exception | None = None
        self._settled = asyncio.Event()  # the connection was opened, or has failed
        self._changed = asyncio.Event()  # bytes have come, or there is room for more, or it is over
        self._due = asyncio.Event()  # there may be something to send
        self._over = asyncio.Event()
        self._writing = asyncio.Lock()
        self._serving: asyncio.Future | None = None

    async def __aenter__(self) -> "PortStream":
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            await self.close()
        else:
            self.abort()

    # For the program.

    async def read(self, size: int = BLOCK) -> bytes:
        """The next bytes of the target, at most size; b"" at their end."""
        while not self._in:
            if self._in_ended:
                return b""
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._in[:size])
        del self._in[:size]
        self._read += len(data)
        self._due.set()
        return data

    async def write(self, data: bytes) -> None:
        """Sends bytes to the target. It waits while the target does not take more."""
        async with self._writing:
            rest = memoryview(data)
            while len(rest) > 0:
                self._check_writable()
                room = WINDOW - len(self._out)
                if room <= 0:
                    self._changed.clear()
                    await self._changed.wait()
                    continue
                self._out += rest[:room]
                rest = rest[room:]
                self._due.set()

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._out_ended:
            raise PortError("the end of the bytes for the target was sent already")

    async def write_eof(self) -> None:
        """Tells the target that no more bytes follow. It may go on sending."""
        async with self._writing:
            self._out_ended = True
            self._due.set()

    async def wait_closed(self) -> None:
        """Waits until both directions have ended and the target has everything. If the connection has failed, this raises the failure."""
        await self._over.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Ends the connection when the target has everything that was written; more of its bytes are dropped. It waits for that; abort
        does not. If the connection has failed, this raises the failure.
        """
        try:
            await self.write_eof()
            self._closing = True
            self._drop()
            await self._over.wait()
        except asyncio.CancelledError:
            self.abort()
            raise
        if self._failure is not None and not self._aborted:
            raise self._failure

    def abort(self, reason: str = "the program has aborted the connection") -> None:
        """Ends the connection at once. The target sees a reset, unless the connection has ended already."""
        if self._over.is_set():
            return
        self._aborted = self._aborted or self._failure is None
        self._fail(PortError(reason))
        if self._serving is not None:
            self._serving.cancel()

    # For the connection to the server.

    async def _run(self) -> None:
        """Serves the stream on one connection after the other, and lets the server forget it in the end."""
        error: BaseException | None = None
        self._serving = asyncio.ensure_future(self._client.through(self._serve_on, repeat=True))
        try:
            await asyncio.wait([self._serving])
            error = None if self._serving.cancelled() else self._serving.exception()
        finally:
            self._serving.cancel()
        if isinstance(error, Exception):
            self._fail(error)
        if self._opened or not isinstance(error, ServerError):
            params: dict[str, Any] = {"connectionId": self.id}
            if self._failure is not None:
                params["abort"] = True
            with contextlib.suppress(TetherError):  # the session ends its connections
                await self._client.call(protocol.METHOD_PORT_CLOSE, params, repeat=True)

    async def _serve_on(self, connection: Any) -> None:
        """Opens the connection to the target, or continues it, and sends until it is over."""
        params: dict[str, Any] = {"connectionId": self.id, "port": self._port, "limit": self._read + WINDOW}
        if self._host is not None:
            params["host"] = self._host
        if self._opened:
            params["received"] = self._received
        async with self._client._ports.opening:
            at = await connection.call(protocol.METHOD_PORT_OPEN, params)
        if not self._acked <= at["received"] <= self._acked + len(self._out):
            raise ProtocolError(f"the server wants to continue a forwarded connection at {at['received']}, where the client has no bytes")
        self._sent, self._limit, self._end_sent = at["received"], max(self._limit, at["limit"]), False
        self._report = self._opened  # what was acknowledged before may be lost
        self._opened = True
        self._settled.set()
        while not self._finished():
            message = self._next()
            if message is not None:
                await connection.notify(*message)
            elif connection.ended.is_set():
                raise ConnectionLost(str(connection.cause), sent=True)
            else:
                self._due.clear()
                await self._due.wait()

    def _finished(self) -> bool:
        if self._failure is not None:
            return True
        has_read = self._closing or self._in_ended and not self._in
        return has_read and self._out_ended and not self._out

    def _next(self) -> tuple[str, dict] | None:
        """The next message for the server, if there is one."""
        fresh = self._read - self._reported
        if self._report or fresh >= protocol.PORT_ACK_EVERY or fresh and self._in_ended and not self._in:
            self._reported, self._report = self._read, False
            return protocol.NOTE_PORT_ACK, {"connectionId": self.id, "offset": self._read, "limit": self._read + WINDOW}
        begin = self._sent - self._acked
        size = max(0, min(protocol.MAX_PORT_CHUNK, self._limit - self._sent))
        chunk = self._out[begin : begin + size]
        end = self._out_ended and not self._end_sent and begin + len(chunk) == len(self._out)
        if not chunk and not end:
            return None
        params = {"connectionId": self.id, "offset": self._sent, "chunk": base64.b64encode(chunk).decode()}
        if end:
            params["end"] = self._end_sent = True
        self._sent += len(chunk)
        return protocol.NOTE_PORT_WRITE, params

    def _notified(self, method: str, note: Any) -> None:
        if method == protocol.NOTE_PORT_DATA:
            self._take(note["offset"], base64.b64decode(note["chunk"], validate=True), bool(note.get("end")))
        elif method == protocol.NOTE_PORT_ACKED:
            if note["offset"] > self._sent:
                raise ProtocolError(f"the server acknowledges bytes up to {note['offset']}, which were not sent")
            if note["offset"] > self._acked:
                del self._out[: note["offset"] - self._acked]
                self._acked = note["offset"]
            self._limit = max(self._limit, note["limit"])
        else:
            self._fail(PortError(f"the target: {note['message']}"))
        self._changed.set()
        self._due.set()

    def _take(self, offset: int, chunk: bytes, end: bool) -> None:
        """Takes bytes of the target, without those that have come before."""
        if offset > self._received:
            raise ProtocolError(f"bytes from {self._received} to {offset} of a forwarded connection are missing")
        chunk = chunk[self._received - offset :]
        if chunk and self._in_ended or self._received + len(chunk) > self._read + WINDOW:
            raise ProtocolError("the server has sent more bytes of a forwarded connection than it may")
        self._received += len(chunk)
        self._in_ended = self._in_ended or end
        self._in += chunk
        if self._closing:
            self._drop()

    def _drop(self) -> None:
        """Drops bytes that the program does not read, so that the target can go on."""
        self._in.clear()
        self._read = self._received
        self._due.set()

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        self._settled.set()
        self._changed.set()
        self._due.set()


class Ports:
    """The forwarded connections of a client."""

    def __init__(self, client: "Client"):
        self._client = client
        self._streams: dict[str, PortStream] = {}
        self._tasks: set[asyncio.Task] = set()
        self._open = asyncio.Semaphore(MAX_OPEN)
        self.opening = asyncio.Semaphore(MAX_OPENING)

    async def connect(self, host: str | None, port: int) -> PortStream:
        if not self._client.has("ports"):
            raise UnsupportedError("the server does not forward ports")
        await self._open.acquire()
        stream = PortStream(self._client, host, port)
        self._streams[stream.id] = stream
        task = asyncio.ensure_future(stream._run())
        self._tasks.add(task)
        task.add_done_callback(lambda t: self._ended(stream, t))
        try:
            await stream._settled.wait()
        except asyncio.CancelledError:
            stream.abort()
            raise
        if not stream._opened:
            assert stream._failure is not None
            raise stream._failure
        return stream

    def _ended(self, stream: PortStream, task: asyncio.Task) -> None:
        if task.cancelled() or task.exception() is not None:
            stream._fail(PortError("the client has given the connection up"))
        self._tasks.discard(task)
        del self._streams[stream.id]
        self._open.release()
        stream._over.set()

    def notified(self, method: str, note: Any) -> None:
        """Handles a notification of the server. A connection that is not known has ended here."""
        stream = self._streams.get(note["connectionId"])
        if stream is not None:
            stream._notified(method, note)

    def connection_lost(self) -> None:
        for stream in self._streams.values():
            stream._due.set()

    def fail(self, failure: TetherError) -> None:
        for stream in self._streams.values():
            stream._fail(failure)

    async def wait(self) -> None:
        """Waits for the end of all connections, which have failed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def port_of(self, process: Process) -> tuple[str | None, int]:
        """The host and the port on which a process, or something that it has started, listens."""
        if not self._client.has("portList"):
            raise UnsupportedError("the server does not list ports")
        answer = await self._client.call(protocol.METHOD_PORT_LIST, {"sessionId": self._client.public_id}, repeat=True)
        found = [p for p in answer["listeners"] if p["processId"] == process.id]
        outside = {p["port"]: p["address"] for p in found if not p.get("inside")}
        if len(outside) > 1:
            raise PortError(f"process {process.id} listens on several ports: {', '.join(map(str, sorted(outside)))}")
        for port, address in outside.items():
            return None if address in ("0.0.0.0", "::") else address, port
        why = "has a network of its own, which connections do not reach" if found else "listens on no port"
        raise PortError(f"process {process.id} {why}")


class Forward:
    """Listens on a local address and forwards each connection to a target: `async with client.forward(5432) as f`."""

    def __init__(
        self, client: "Client", target: int | Process, host: str | None, local_host: str, local_port: int, on_error: Callable[[Exception], None] | None
    ):
        self.port = 0  # the local one
        self._client, self._target, self._host = client, target, host
        self._local = (local_host, local_port)
        self._on_error = on_error
        self._remote: tuple[str | None, int] = (host, 0)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task] = set()

    async def __aenter__(self) -> "Forward":
        if isinstance(self._target, Process):
            self._remote = await self._client._ports.port_of(self._target)
        else:
            self._remote = (self._host, self._target)
        self._server = await asyncio.start_server(self._accepted, *self._local)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: Any) -> None:
        """Stops listening, and resets the connections."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done = False
        try:
            stream = await self._client.connect_port(self._remote[1], host=self._remote[0])
            sending = asyncio.ensure_future(self._send(reader, stream))
            try:
                await self._receive(stream, writer)
                await stream.wait_closed()
            finally:
                stream.abort()
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            writer.close()
            await writer.wait_closed()
            done = True
        except (TetherError, OSError) as e:
            log.info("a forwarded connection has failed: %s", e)
            if self._on_error is not None:
                self._on_error(e)
        finally:
            if not done:
                _reset(writer)

    async def _send(self, reader: asyncio.StreamReader, stream: PortStream) -> None:
        try:
            while data := await reader.read(BLOCK):
                await stream.write(data)
            await stream.write_eof()
        except TetherError:
            pass  # _receive gets the bytes that came before, and then the same error
        except OSError as e:
            stream.abort(f"the local connection has failed: {e}")

    async def _receive(self, stream: PortStream, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # drain waits until the kernel has all bytes: a reset would drop the others
        while data := await stream.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
