"""One connection to a server: a WebSocket with JSON-RPC on it."""

import asyncio
import inspect
import json
from typing import Any, Awaitable, Callable
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from . import protocol
from ._proxy import Tunnel, open_tunnel, proxy_for
from .errors import ConnectError, ConnectionLost, ProtocolError, ServerStoppedError, TakenOverError, server_error

try:  # websockets 13 and later
    from websockets.asyncio.client import connect as _connect, unix_connect as _unix_connect

    _HEADERS = "additional_headers"
except ImportError:  # 10 to 12
    from websockets.legacy.client import connect as _connect, unix_connect as _unix_connect

    _HEADERS = "extra_headers"

# websockets 15 and later look for proxies themselves, and disagree about NO_PROXY.
_NO_PROXY = {"proxy": None} if "proxy" in inspect.signature(_connect.__init__).parameters else {}

CONNECT_TIMEOUT = 10.0  # seconds, for TCP, TLS and the upgrade
MAX_MESSAGE = 64 << 20  # bytes of a message of the server
MAX_CALLS = 1024  # requests that wait for their answers on a connection

CLOSE_GOING_AWAY = 1001
CLOSE_POLICY = 1008
CLOSE_RESTART = 1012


async def open_socket(url: str, token: str | None, ssl: Any, silence: float) -> tuple[Any, Tunnel | None]:
    """Opens the WebSocket, perhaps in a tunnel. silence is after how many seconds without an answer to a ping the connection counts as
    lost."""
    options: dict[str, Any] = {
        "open_timeout": CONNECT_TIMEOUT,
        "ping_interval": silence / 2,
        "ping_timeout": silence / 2,
        "close_timeout": 1,
        "max_size": MAX_MESSAGE,
        "max_queue": 16,
        "compression": None,
    }
    if token:
        options[_HEADERS] = {"Authorization": f"Bearer {token}"}
    if ssl is not None:
        options["ssl"] = ssl
    try:
        if url.startswith("unix://"):
            return await _unix_connect(url.removeprefix("unix://"), "ws://localhost/", **options), None
        u = urlsplit(url)
        if u.scheme not in ("ws", "wss") or not u.hostname:
            raise ConnectError(f"the address {url} is not one of ws://, wss:// and unix://")
        tunnel = await _tunnel_to(url, u.scheme == "wss", u.hostname, u.port)
        try:
            if tunnel is not None:
                options["sock"] = tunnel.socket
                if u.scheme == "wss":
                    options["server_hostname"] = u.hostname
            return await _connect(url, **_NO_PROXY, **options), tunnel
        except BaseException:
            if tunnel is not None:
                await tunnel.close()
            raise
    except (OSError, asyncio.TimeoutError, TimeoutError, InvalidHandshake, InvalidURI, EOFError) as e:
        status = getattr(e, "status_code", 0) or getattr(getattr(e, "response", None), "status_code", 0)
        raise ConnectError(f"cannot connect to {url}: {e or type(e).__name__}", status) from e


async def _tunnel_to(url: str, secure: bool, host: str, port: int | None) -> Tunnel | None:
    """Opens a tunnel to the server if the environment names a proxy for it."""
    port = port or (443 if secure else 80)
    proxy = proxy_for(secure, host, port)
    if proxy is None:
        return None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await open_tunnel(proxy, host, port)
    except (OSError, EOFError) as e:  # a TimeoutError is an OSError
        why = str(e) or f"no answer within {CONNECT_TIMEOUT:g} s"
        raise ConnectError(f"cannot connect to {url}: the proxy at {proxy}, which the environment names, does not lead there: {why}") from e


class Connection:
    """A connection. It ends once; the session and its client outlive it."""

    def __init__(
        self,
        socket: Any,
        tunnel: Tunnel | None,
        on_notification: Callable[[str, Any], Awaitable[None]],
        on_request: Callable[[str, Any], Awaitable[Any]],
    ):
        self._socket, self._tunnel = socket, tunnel
        self._on_notification, self._on_request = on_notification, on_request
        self._calls: dict[int, tuple[str, asyncio.Future]] = {}
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._last_id = 0
        self._acks: dict[str, int] = {}
        self._ack_wanted = asyncio.Event()
        self._tasks: set[asyncio.Task] = set()
        self.ended = asyncio.Event()
        self.cause: Exception = ConnectionLost("the connection was lost", sent=True)
        self.replaced = False  # the server has carried out nothing that it has not answered
        self._spawn(self._read())
        self._spawn(self._send_acks())

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def call(self, method: str, params: Any = None) -> Any:
        """Sends a request and returns the result."""
        async with self._slots:
            if self.ended.is_set():
                raise ConnectionLost(str(self.cause), sent=False)
            self._last_id += 1
            number = self._last_id
            answer: asyncio.Future = asyncio.get_running_loop().create_future()
            self._calls[number] = (method, answer)
            try:
                await self._send({"id": number, "method": method, "params": params})
                return await answer
            finally:
                del self._calls[number]
                if answer.done() and not answer.cancelled():
                    answer.exception()  # seen, also if sending has failed first

    async def notify(self, method: str, params: Any) -> None:
        await self._send({"method": method, "params": params})

    async def _send(self, message: dict) -> None:
        try:
            await self._socket.send(json.dumps(message, ensure_ascii=False, separators=(",", ":")))
        except ConnectionClosed:
            await self.ended.wait()
            raise ConnectionLost(str(self.cause), sent=not self.replaced) from None

    def acknowledge(self, process_id: str, seq: int) -> None:
        """Acknowledges all events of a process up to seq, without waiting."""
        self._acks[process_id] = max(seq, self._acks.get(process_id, 0))
        self._ack_wanted.set()

    async def _send_acks(self) -> None:
        try:
            while True:
                await self._ack_wanted.wait()
                self._ack_wanted.clear()
                newest, self._acks = self._acks, {}
                for process_id, seq in newest.items():
                    await self.notify(protocol.METHOD_ACK, {"processId": process_id, "seq": seq})
        except ConnectionLost:
            return

    async def _read(self) -> None:
        """Handles messages in the order in which they come, until the connection ends."""
        try:
            async for message in self._socket:
                await self._handle(json.loads(message))
            self._over(None)
        except ConnectionClosed as e:
            self._over(e)
        except Exception as e:  # whatever it is: calls wait for the end of the connection
            self._over(ProtocolError(f"the server has sent a message that is not of the protocol: {e!r}"))
        except asyncio.CancelledError:
            self._over(None)
            raise
        finally:
            for task in list(self._tasks):
                if task is not asyncio.current_task():
                    task.cancel()
            await self._socket.close()

    async def _handle(self, message: dict) -> None:
        if "method" not in message:
            method, answer = self._calls.get(message["id"], ("", None))
            if answer is None or answer.done():
                return  # the call was cancelled
            if "error" in message:
                answer.set_exception(server_error(method, message["error"]))
            else:
                answer.set_result(message["result"])
        elif "id" in message:
            self._spawn(self._answer(message))
        elif message["method"] == protocol.NOTE_GOODBYE:
            self.cause = ServerStoppedError()
        else:
            await self._on_notification(message["method"], message.get("params"))

    async def _answer(self, message: dict) -> None:
        result = await self._on_request(message["method"], message.get("params"))
        if result is None:
            error = {"code": protocol.CODE_METHOD_NOT_FOUND, "message": f"the client does not implement `{message['method']}`"}
            reply = {"id": message["id"], "error": error}
        else:
            reply = {"id": message["id"], "result": result}
        try:
            await self._send(reply)
        except ConnectionLost:
            pass

    def _over(self, why: Exception | None) -> None:
        """Ends all calls. The close frame of the server says why, if there was one."""
        code = getattr(self._socket, "close_code", None)
        reason = getattr(self._socket, "close_reason", None) or ""
        if isinstance(self.cause, ServerStoppedError):
            pass
        elif code == CLOSE_POLICY and reason.endswith(protocol.REASON_RESUMED):
            self.cause = TakenOverError()
        elif code == CLOSE_GOING_AWAY and reason.endswith(protocol.REASON_STOPPING):
            self.cause = ServerStoppedError()
        elif isinstance(why, ProtocolError):
            self.cause = why
        else:
            self.replaced = code == CLOSE_RESTART and reason.endswith(protocol.REASON_REPLACED)
            self.cause = ConnectionLost(f"the connection was lost: {why or reason or 'the server has closed it'}", sent=True)
        self.ended.set()
        for _, answer in self._calls.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(str(self.cause), sent=not self.replaced))

    async def close(self) -> None:
        """Ends the connection and waits until nothing of it is left."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._socket.close()
        if self._tunnel is not None:
            await self._tunnel.close()
        if not self.ended.is_set():
            self._over(None)


__all__ = ["Connection", "open_socket"]
