"""The client: a session with a server, which survives its connections."""

import asyncio
import logging
import random
import secrets
from typing import Any, Awaitable, Callable, Mapping, Sequence

from . import protocol
from ._connection import Connection, open_socket
from .errors import (
    AmbiguousError,
    ClosedError,
    ConnectError,
    ConnectionLost,
    ProtocolError,
    RecoveryTimeoutError,
    ServerError,
    ServerStoppedError,
    SessionLostError,
    TakenOverError,
    TetherError,
    UnknownProcessError,
    UnsupportedError,
)
from .files import Files
from .ports import Forward, Ports, PortStream
from .process import Process

log = logging.getLogger("tetherexec")

INITIALIZE_TIMEOUT = 10.0  # seconds
REFERENCE_TTL_MS = 30_000  # how long a server without tether's additions keeps a session without a connection
PARALLEL_CATCH_UP = 8  # processes that are caught up with at the same time
BACK_OFF = (0, 0.05, 0.1, 0.2, 0.4, 0.8, 1)  # seconds before the attempts to connect again; the last one stays
ATTACHED_PAUSE = 0.2  # the longest pause while another connection has the session
JITTER = 0.25
STARTING_PAUSE = 0.05  # between questions about a process that is being started
STARTING_LIMIT = 10.0
MAX_BUFFERED = 64 << 20  # bytes of output of all processes that wait for their readers
REFUSALS = (400, 401, 403, 404)  # status codes of an upgrade after which the client tries once more only

NetworkPolicy = Callable[[str, protocol.NetworkQuestion], Awaitable[bool]]


async def connect(url: str, **options: Any) -> "Client":
    """Opens a session with the server at ws://, wss:// or unix://. The options are those of Client."""
    client = Client(url, **options)
    await client._open()
    return client


class Client:
    """A session with a server. When the connection is lost, the client connects again by itself, catches up with the output of
    each process, and repeats the requests that are safe to repeat; calls made meanwhile wait.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "tetherexec (Python)",
        token: str | None = None,
        ssl: Any = None,
        ttl: float | None = None,
        label: str | None = None,
        silence: float = 20.0,
        network_policy: NetworkPolicy | None = None,
    ):
        """ttl asks the server to keep the session for so many seconds without a connection; silence is after how many seconds
        without a sign of the server the connection counts as lost; network_policy decides about hosts that no rule decides about.
        """
        self.url, self.name = url, name
        self.session_id = ""  # a secret: whoever has it can resume the session
        self.public_id = ""  # names the session in lists
        self.info: protocol.EnvironmentInfo | None = None
        self.connections = 0  # how many there were
        self.files = Files(self)
        self._token, self._ssl, self._silence, self._network_policy = token, ssl, silence, network_policy
        self._ttl_ms = None if ttl is None else int(ttl * 1000)
        self._label = label
        self._granted_ms = REFERENCE_TTL_MS
        self._features: frozenset[str] = frozenset()
        self._processes: dict[str, Process] = {}
        self._ports = Ports(self)
        self._buffered = 0
        self._final_acks: dict[str, int] = {}  # of processes that are over; they are repeated on the next connection
        self._ids = secrets.token_hex(4)
        self._last_id = 0
        self._connection: Connection | None = None
        self._changed = asyncio.Event()  # a connection, or the failure
        self._failure: TetherError | None = None
        self._keeper: asyncio.Task | None = None

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def has(self, feature: str) -> bool:
        """Reports whether the server has announced a feature."""
        return feature in self._features

    def new_id(self) -> str:
        """An id that the session has not used."""
        self._last_id += 1
        return f"{self._ids}-{self._last_id}"

    # Connections.

    async def _open(self) -> None:
        self._install(await self._attempt(None))
        self._keeper = asyncio.ensure_future(self._keep())

    async def _attempt(self, session_id: str | None) -> Connection:
        """Connects and opens the session, or resumes it."""
        socket, tunnel = await open_socket(self.url, self._token, self._ssl, self._silence)
        connection = Connection(socket, tunnel, self._notified, self._asked)
        try:
            async with asyncio.timeout(INITIALIZE_TIMEOUT):
                await self._initialize(connection, session_id)
            return connection
        except TimeoutError:
            await connection.close()
            raise ConnectError(f"the server did not answer initialize within {INITIALIZE_TIMEOUT:g} s") from None
        except BaseException:
            await connection.close()
            raise

    async def _initialize(self, connection: Connection, session_id: str | None) -> None:
        params: dict[str, Any] = {
            "clientName": self.name,
            "resumeSessionId": session_id,
            "tether": {"ttlMs": self._ttl_ms, "acks": True, "goodbye": True},
        }
        if self._label is not None:
            params["tether"]["label"] = self._label
        result = await connection.call(protocol.METHOD_INITIALIZE, params)
        if session_id is not None and result["sessionId"] != session_id:
            raise ProtocolError("the server has resumed another session")
        self.session_id, self.info = result["sessionId"], result.get("environmentInfo")
        tether = result.get("tether") or {}
        self.public_id = tether.get("publicId", "")
        self._features = frozenset(tether.get("features", ()))
        self._granted_ms = tether.get("ttlMs", REFERENCE_TTL_MS)
        await connection.notify(protocol.METHOD_INITIALIZED, {})

    def _install(self, connection: Connection) -> None:
        self._connection = connection
        self.connections += 1
        for process_id, seq in self._final_acks.items():
            self._acknowledge(process_id, seq)
        for process in self._processes.values():
            process._acknowledge()
        self._changed.set()

    async def _keep(self) -> None:
        """Replaces each connection that ends, until the session is lost or the client is closed."""
        try:
            while True:
                connection = self._connection
                assert connection is not None
                await connection.ended.wait()
                self._changed.clear()
                self._connection = None
                self._ports.connection_lost()
                await connection.close()
                log.info("connection lost: %s", connection.cause)
                self._install(await self._recover(connection))
        except TetherError as e:
            self._fail(e)
        except Exception as e:  # a mistake here must not leave callers waiting
            log.exception("the client has failed")
            self._fail(SessionLostError(f"the client has failed: {e!r}"))

    async def _recover(self, lost: Connection) -> Connection:
        if isinstance(lost.cause, (TakenOverError, ServerStoppedError)):
            raise lost.cause
        # Both ends start their clocks separately.
        limit = (self._granted_ms - min(self._granted_ms / 6, 30_000)) / 1000
        last: Exception | None = None
        refusals = failed = 0
        try:
            async with asyncio.timeout(limit):
                while True:
                    try:
                        return await self._resume()
                    except (ConnectError, ConnectionLost, ServerError) as e:
                        last = e
                    failed += 1
                    if isinstance(last, ConnectError) and last.status in REFUSALS:
                        refusals += 1
                    if refusals > 1 or isinstance(last, ServerError) and not _worth_retrying(last):
                        raise SessionLostError(f"{lost.cause}; the session could not be resumed: {last}") from last
                    await asyncio.sleep(_pause(failed, last))
        except TimeoutError:
            text = f"the server did not come back within {limit:g} s"
            raise RecoveryTimeoutError(f"{lost.cause}; {text}" + (f"; last attempt: {last}" if last else "")) from last

    async def _resume(self) -> Connection:
        """One attempt: connect, resume the session, catch up with all processes."""
        connection = await self._attempt(self.session_id)
        slots = asyncio.Semaphore(PARALLEL_CATCH_UP)

        async def catch_up(process: Process) -> None:
            async with slots:
                try:
                    await process._catch_up(connection)
                except ConnectionLost:
                    raise
                except (TetherError, ValueError, KeyError, TypeError) as e:
                    self._give_up(process, TetherError(f"process {process.id} could not be continued: {e}"), known=not isinstance(e, UnknownProcessError))

        try:
            due = [p for p in self._processes.values() if p._started]
            outcomes = await asyncio.gather(*(catch_up(p) for p in due), return_exceptions=True)
            for e in outcomes:
                if isinstance(e, BaseException):
                    raise e
            if connection.ended.is_set():
                raise ConnectionLost(str(connection.cause), sent=True)
            return connection
        except BaseException:
            await connection.close()
            raise

    def _give_up(self, process: Process, error: TetherError, known: bool) -> None:
        """Fails a process that cannot be continued, and ends it on the server."""
        self._processes.pop(process.id, None)
        process._fail(error)
        if known:
            task = asyncio.ensure_future(self.call(protocol.METHOD_PROCESS_TERMINATE, {"processId": process.id}, repeat=True))
            task.add_done_callback(lambda t: t.cancelled() or t.exception())

    def _fail(self, error: TetherError) -> None:
        self._failure = self._failure or error
        for process in list(self._processes.values()):
            process._fail(self._failure)
        self._processes.clear()
        self._ports.fail(self._failure)
        self._changed.set()

    async def close(self, end_session: bool = True) -> None:
        """Ends the session with all its processes, and the connection. With end_session=False the session stays until its time is
        over, and another client can resume it.
        """
        if self._failure is None and end_session and self.has("endSession"):
            try:
                async with asyncio.timeout(INITIALIZE_TIMEOUT):
                    await self.call(protocol.METHOD_SESSION_END, {"sessionId": None})
            except (TetherError, TimeoutError):
                pass
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._fail(ClosedError())
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        await self._ports.wait()

    # Requests.

    async def _ready(self) -> Connection:
        """The connection, once there is one."""
        while True:
            if self._failure is not None:
                raise self._failure
            connection = self._connection
            if connection is not None and not connection.ended.is_set():
                return connection
            if connection is not None:
                await asyncio.sleep(0)  # the task that replaces it has not run yet
                continue
            await self._changed.wait()

    async def through(self, do: Callable[[Connection], Awaitable[Any]], repeat: bool) -> Any:
        """Calls do with the connection, and again with the next one if it is lost meanwhile. Without repeat, that is done only if
        the request surely was not carried out; otherwise the error is AmbiguousError.
        """
        while True:
            connection = await self._ready()
            try:
                return await do(connection)
            except ConnectionLost as e:
                if e.sent and not repeat:
                    raise AmbiguousError(f"it is not known whether the request was carried out: {e}") from e

    async def call(self, method: str, params: Any = None, repeat: bool = False) -> Any:
        """Sends a request and returns its result. repeat says that it has the same effect once or twice: if the answer is lost, it is
        sent again, and the error is AmbiguousError otherwise.
        """
        return await self.through(lambda connection: connection.call(method, params), repeat)

    async def _notified(self, method: str, params: Any) -> None:
        if method in (protocol.NOTE_PROCESS_OUTPUT, protocol.NOTE_PROCESS_EXITED, protocol.NOTE_PROCESS_CLOSED):
            process = self._processes.get(params["processId"])
            if process is not None:
                await process._notified(method, params)
        elif method in (protocol.NOTE_PORT_DATA, protocol.NOTE_PORT_ACKED, protocol.NOTE_PORT_FAILED):
            self._ports.notified(method, params)

    async def _asked(self, method: str, params: Any) -> Any:
        """Answers a request of the server; None: the client does not know it."""
        if method != protocol.METHOD_NETWORK_POLICY_REQUEST:
            return None
        allowed = False
        if self._network_policy is not None:
            try:
                allowed = await self._network_policy(params["processId"], params["request"])
            except Exception:  # what cannot be decided is denied
                log.exception("the network policy of the program has failed")
        return {"decision": {"type": "allow"} if allowed else {"type": "deny", "reason": "not_allowed"}}

    def _acknowledge(self, process_id: str, seq: int) -> None:
        if self.has("ack") and self._connection is not None:
            self._connection.acknowledge(process_id, seq)

    def _finished(self, process: Process) -> None:
        """All events of a process were delivered."""
        self._processes.pop(process.id, None)
        self._final_acks[process.id] = process._delivered
        while len(self._final_acks) > 256:  # the server forgets a process 30 s after its last acknowledgement
            self._final_acks.pop(next(iter(self._final_acks)))

    def _has_room(self, size: int) -> bool:
        return self._buffered + size <= MAX_BUFFERED

    # Processes.

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        env_policy: protocol.EnvPolicy | None = None,
        tty: bool = False,
        size: tuple[int, int] | None = None,
        stdin: bool = False,
        sandbox: protocol.Sandbox | None = None,
        limits: protocol.Limits | None = None,
        process_id: str | None = None,
        **more: Any,
    ) -> Process:
        """Starts a command, once, also if the connection is lost meanwhile. env is added to the environment that env_policy makes of
        the server's own; without a policy commands inherit everything. size is rows and columns of a terminal; stdin keeps standard
        input open for write. Other arguments are members of protocol.StartParams.
        """
        if cwd is None:
            cwd = (self.info or {}).get("cwd") or "/"
        params: dict[str, Any] = {
            "processId": process_id or self.new_id(),
            "argv": list(argv),
            "cwd": cwd,
            "env": dict(env or {}),
            "envPolicy": env_policy
            or {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []},
            "tty": tty,
            "pipeStdin": stdin,
            **more,
        }
        if size is not None:
            params["size"] = {"rows": size[0], "cols": size[1]}
        if sandbox is not None:
            params["sandbox"] = sandbox
        if limits is not None:
            params["limits"] = limits
        if params["processId"] in self._processes:
            raise ValueError(f"there is a process {params['processId']} already")
        process = Process(self, params["processId"])
        self._processes[process.id] = process
        starting = asyncio.ensure_future(self._start(process, params))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:  # a command that starts nevertheless is ended
            starting.add_done_callback(lambda t: self._start_was_cancelled(process, t))
            raise
        except BaseException:
            self._processes.pop(process.id, None)
            raise
        return process

    def _start_was_cancelled(self, process: Process, starting: asyncio.Future) -> None:
        if starting.cancelled() or starting.exception():
            self._processes.pop(process.id, None)
        else:
            self._give_up(process, TetherError("the start was cancelled"), known=True)
            process._drop()

    async def _start(self, process: Process, params: dict) -> None:
        try:
            await self.through(lambda connection: self._start_on(connection, process, params), repeat=False)
        except AmbiguousError:
            await self.through(lambda connection: self._start_again(connection, process, params), repeat=True)

    async def _start_on(self, connection: Connection, process: Process, params: dict) -> None:
        result = await connection.call(protocol.METHOD_PROCESS_START, params)
        process.sandbox_type, process.limits = result.get("sandboxType", ""), result.get("tetherLimits")
        process._started = True
        if connection.ended.is_set():  # the next connection may have been made without it
            raise ConnectionLost(str(connection.cause), sent=True)

    async def _start_again(self, connection: Connection, process: Process, params: dict) -> None:
        """Completes a start whose answer was lost. At most one process is started, because its id is used once."""
        if self.has("retryStart"):
            await self._start_on(connection, process, {**params, "retry": True})
            await process._catch_up(connection)
            return
        try:
            await self._adopt(connection, process)
        except UnknownProcessError:
            try:
                await self._start_on(connection, process, params)
            except ServerError as e:
                if "already exists" not in str(e):
                    raise
                await self._adopt(connection, process)  # the first start arrived late

    async def _adopt(self, connection: Connection, process: Process) -> None:
        """Catches up with a process whose start was not answered."""
        deadline = asyncio.get_running_loop().time() + STARTING_LIMIT
        while True:
            try:
                await process._catch_up(connection)
            except ServerError as e:
                if "is starting" not in str(e) or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(STARTING_PAUSE)
                continue
            process._started = True
            return

    async def run(self, argv: Sequence[str], *, input: bytes | None = None, **options: Any) -> tuple[bytes, bytes, Any]:
        """Starts a command, writes input to it, and returns its output, its errors and its exit. If it is cancelled, it ends the
        command.
        """
        if input is not None and not self.has("closeStdin"):
            raise UnsupportedError("the server cannot end the input of a command, which would wait for more")
        process = await self.start(argv, stdin=input is not None, **options)
        try:
            return await self._feed_and_read(process, input)
        except BaseException:  # the program has no other way to end the command
            self._give_up(process, TetherError("the run of the command was given up"), known=True)
            process._drop()
            raise

    async def _feed_and_read(self, process: Process, input: bytes | None) -> tuple[bytes, bytes, Any]:
        if input is None:
            return await process.communicate()

        async def feed() -> None:
            try:
                await process.write(input)
                await process.close_stdin()
            except TetherError:
                pass  # the command has not read all of it

        feeding = asyncio.ensure_future(feed())
        try:
            return await process.communicate()
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    # Ports.

    async def connect_port(self, port: int, *, host: str | None = None) -> PortStream:
        """Connects to a port of a host, a name or an address that the server may reach; without one to the server's own machine, by
        127.0.0.1 or ::1.
        """
        return await self._ports.connect(host, port)

    def forward(
        self,
        target: int | Process,
        *,
        host: str | None = None,
        local_port: int = 0,
        local_host: str = "127.0.0.1",
        on_error: Callable[[Exception], None] | None = None,
    ) -> Forward:
        """Listens on local_port of local_host, and forwards each connection to the target: a port of host, or the only port on which a
        process listens. `async with client.forward(5432) as f` listens on any free port, f.port, until the end of the block.
        on_error is called for each connection that has failed.
        """
        return Forward(self, target, host, local_host, local_port, on_error)


def _worth_retrying(error: ServerError) -> bool:
    return error.code == protocol.CODE_SESSION_ATTACHED or str(error) == "JSON-RPC transport closed"


def _pause(failed: int, error: Exception | None) -> float:
    """How long to wait before the next attempt."""
    pause = BACK_OFF[min(failed, len(BACK_OFF) - 1)]
    if isinstance(error, ServerError) and error.code == protocol.CODE_SESSION_ATTACHED:
        pause = min(pause, ATTACHED_PAUSE)
    return pause * random.uniform(1 - JITTER, 1 + JITTER)
