"""Proxies that the environment names, and tunnels through them."""

import asyncio
import base64
import contextlib
import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Mapping
from urllib.parse import unquote, urlsplit

MAX_ANSWER = 16 << 10  # bytes of the answer of a proxy to CONNECT
BLOCK = 64 << 10  # bytes that are passed on at a time

PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}

Receive = Callable[[int], Awaitable[bytes]]
Send = Callable[[bytes], Awaitable[None]]


class ProxyError(OSError):
    """A proxy does not make a tunnel."""


@dataclass(frozen=True)
class Proxy:
    kind: str  # http, https or socks5
    host: str
    port: int
    user: str | None = None
    password: str = ""

    def __str__(self) -> str:
        return _join(self.host, self.port)


def proxy_for(secure: bool, host: str, port: int, env: Mapping[str, str] = os.environ) -> Proxy | None:
    """Returns the proxy for a connection to a server, if the environment names one. A server on this machine is reached without."""
    address = _address(host)
    host = _ascii(host.lower()).rstrip(".")
    if address.is_loopback or address.is_unspecified if address else host == "localhost" or host.endswith(".localhost"):
        return None
    proxy = _named(env, "HTTPS_PROXY") if secure else _named(env, "HTTP_PROXY")
    if not secure and "REQUEST_METHOD" in env:  # in a CGI program HTTP_PROXY is the header Proxy of a request
        proxy = None
    proxy = proxy or _named(env, "ALL_PROXY")
    if proxy is None or any(_covers(entry, host, address, port) for entry in _variable(env, "NO_PROXY").split(",")):
        return None
    return proxy


def _variable(env: Mapping[str, str], name: str) -> str:
    """Returns the value of a variable. Its name in lower case counts if that in upper case is not set."""
    return env.get(name, env.get(name.lower(), "")).strip()


def _named(env: Mapping[str, str], variable: str) -> Proxy | None:
    """Returns the proxy in a variable. A value that cannot be used is ignored."""
    value = _variable(env, variable)
    if not value:
        return None
    try:
        u = urlsplit(value if "://" in value else f"http://{value}")
        if not u.hostname or u.scheme not in PORTS:
            return None
        user = None if u.username is None else unquote(u.username)
        return Proxy(u.scheme.removesuffix("h"), u.hostname, u.port or PORTS[u.scheme], user, unquote(u.password or ""))
    except ValueError:
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _covers(entry: str, host: str, address: Any, port: int) -> bool:
    """Reports whether an entry of NO_PROXY covers a host: *, an address, a range of addresses, or a name with all below it. With a port
    it is for that port only."""
    entry = entry.strip().lower()
    name, colon, number = entry.rpartition(":")
    if colon and (":" not in name or name.startswith("[") and name.endswith("]")):
        entry = name
        if number != str(port):
            return False
    entry = entry.strip("[]")
    if entry == "*":
        return True
    try:
        network = ipaddress.ip_network(_address(entry) or entry, strict=False)
    except ValueError:
        network = None
    if network is not None or address is not None:
        return network is not None and address is not None and address in network
    try:
        entry = _ascii(entry.removeprefix("*").strip("."))
    except UnicodeError:
        return False
    return entry != "" and (host == entry or host.endswith("." + entry))


def _ascii(name: str) -> str:
    return name if name.isascii() else name.encode("idna").decode()


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Tunnel:
    """A connection to a server through a proxy."""

    def __init__(self, sock: socket.socket, relay: "asyncio.Task[None] | None" = None):
        self.socket = sock
        self._relay = relay

    async def close(self) -> None:
        """Ends the tunnel, and waits until nothing of it is left."""
        if self._relay is not None:
            self._relay.cancel()
            await asyncio.gather(self._relay, return_exceptions=True)
        self.socket.close()


async def open_tunnel(proxy: Proxy, host: str, port: int) -> Tunnel:
    """Connects to a server through a proxy, which also resolves the name of the server."""
    host = _ascii(host)
    sock = await _connect(proxy.host, proxy.port)
    try:
        if proxy.kind == "https":
            return await _secure_tunnel(proxy, sock, host, port)
        loop = asyncio.get_running_loop()

        async def receive(n: int) -> bytes:
            return await loop.sock_recv(sock, n)

        async def send(data: bytes) -> None:
            await loop.sock_sendall(sock, data)

        await (_by_socks if proxy.kind == "socks5" else _by_connect)(proxy, host, port, receive, send)
        return Tunnel(sock)
    except BaseException:
        sock.close()
        raise


async def _connect(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    problem: OSError = ProxyError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as e:
            problem = e
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise problem


async def _secure_tunnel(proxy: Proxy, sock: socket.socket, host: str, port: int) -> Tunnel:
    """Makes a tunnel through a proxy that is reached by TLS. The library for WebSockets needs a plain socket, so a task passes the bytes on."""
    reader, writer = await asyncio.open_connection(sock=sock, ssl=ssl.create_default_context(), server_hostname=proxy.host)
    try:

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        await _by_connect(proxy, host, port, reader.read, send)
    except BaseException:
        writer.close()
        raise
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    return Tunnel(theirs, asyncio.ensure_future(_relay(reader, writer, ours)))


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ours: socket.socket) -> None:
    """Passes bytes on in both directions until one of them ends."""
    loop = asyncio.get_running_loop()

    async def out() -> None:
        while data := await loop.sock_recv(ours, BLOCK):
            writer.write(data)
            await writer.drain()

    async def back() -> None:
        while data := await reader.read(BLOCK):
            await loop.sock_sendall(ours, data)

    ways = [asyncio.ensure_future(out()), asyncio.ensure_future(back())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        ours.close()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _exactly(receive: Receive, n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = await receive(n - len(data))
        if not more:
            raise ProxyError("the proxy has closed the connection")
        data += more
    return data


async def _by_connect(proxy: Proxy, host: str, port: int, receive: Receive, send: Send) -> None:
    """Asks an HTTP proxy for a tunnel."""
    target = _join(host, port)
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
    if proxy.user is not None:
        login = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        head += f"Proxy-Authorization: Basic {login}\r\n"
    await send(f"{head}\r\n".encode())
    answer = b""
    while not answer.endswith((b"\r\n\r\n", b"\n\n")):  # byte by byte: what follows belongs to the tunnel
        if len(answer) >= MAX_ANSWER:
            raise ProxyError("the proxy's answer to CONNECT is too long")
        answer += await _exactly(receive, 1)
    version, _, rest = answer.partition(b" ")
    status = rest[:3].decode("ascii", "replace")
    if not version.startswith(b"HTTP/1.") or not status.isdigit():
        raise ProxyError("the proxy's answer to CONNECT is not HTTP")
    if not status.startswith("2"):
        raise ProxyError(f"the proxy refuses the tunnel with status {status}")


SOCKS_FAILURES = {
    1: "general failure",
    2: "its rules forbid it",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "the connection was refused",
    6: "the time is over",
}


async def _by_socks(proxy: Proxy, host: str, port: int, receive: Receive, send: Send) -> None:
    """Asks a SOCKS5 proxy for a tunnel (RFC 1928, RFC 1929)."""
    user, password = (proxy.user or "").encode(), proxy.password.encode()
    if max(len(user), len(password)) > 255:
        raise ProxyError("the user or the password for the proxy is too long")
    await send(b"\x05\x01\x00" if proxy.user is None else b"\x05\x02\x00\x02")
    version, method = await _exactly(receive, 2)
    if version != 5:
        raise ProxyError("the proxy does not speak SOCKS5")
    if method == 2 and proxy.user is not None:
        await send(bytes((1, len(user))) + user + bytes((len(password),)) + password)
        if (await _exactly(receive, 2))[1] != 0:
            raise ProxyError("the proxy refuses the user or the password")
    elif method != 0:
        raise ProxyError("the proxy wants another way to log in")
    address = _address(host)
    if address is not None:
        to = (b"\x01" if address.version == 4 else b"\x04") + address.packed
    else:
        name = host.encode()
        if len(name) > 255:
            raise ProxyError("the name of the server is too long")
        to = bytes((3, len(name))) + name
    await send(b"\x05\x01\x00" + to + port.to_bytes(2, "big"))
    _, failure, _, kind = await _exactly(receive, 4)
    if failure:
        raise ProxyError(f"the proxy refuses the tunnel: {SOCKS_FAILURES.get(failure, f'reason {failure}')}")
    length = {1: 4, 4: 16}.get(kind) or (await _exactly(receive, 1))[0]
    await _exactly(receive, length + 2)
