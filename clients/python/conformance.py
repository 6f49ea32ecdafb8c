"""The client for the tests in clients/conformance: carries out commands from standard input, one JSON object per line.

docs/clients.md describes the commands.
"""

import asyncio
import hashlib
import json
import os
import sys
from typing import Any

import tetherexec
from tetherexec import _proxy

PROXY_VARIABLES = [name for upper in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY") for name in (upper, upper.lower())]

ERRORS = (  # the names of errors in answers; the first that fits
    (tetherexec.TakenOverError, "takenOver"),
    (tetherexec.ServerStoppedError, "serverStopped"),
    (tetherexec.SessionLostError, "sessionLost"),
    (tetherexec.AmbiguousError, "ambiguous"),
    (tetherexec.StdinClosedError, "stdinClosed"),
    (tetherexec.UnknownProcessError, "unknownProcess"),
    (tetherexec.NotFoundError, "notFound"),
    (tetherexec.GapError, "gap"),
    (tetherexec.PortError, "port"),
    (tetherexec.ConnectError, "connect"),
    (tetherexec.ClosedError, "closed"),
    (tetherexec.ServerError, "refused"),
)


def lines(first: int, last: int) -> bytes:
    """The numbers from first to last, a line each."""
    return b"".join(b"%d\n" % n for n in range(first, last + 1))


class Summary:
    """What was read of a stream."""

    def __init__(self) -> None:
        self.bytes, self.sha256 = 0, hashlib.sha256()

    def add(self, data: bytes) -> None:
        self.bytes += len(data)
        self.sha256.update(data)

    def report(self) -> dict:
        return {"bytes": self.bytes, "sha256": self.sha256.hexdigest()}


class Agent:
    def __init__(self) -> None:
        self.client: tetherexec.Client
        self.processes: dict[str, tetherexec.Process] = {}
        self.streams: dict[str, dict[str, Summary]] = {}
        self.last: dict[str, int] = {}  # the number of the last event of each process
        self.forwards: dict[str, tetherexec.Forward] = {}

    async def proxy(self, c: Any) -> dict:
        proxy = _proxy.proxy_for(c["scheme"] == "wss", c["host"], c["port"], c["env"])
        return {"proxy": str(proxy or "")}

    async def connect(self, c: Any) -> dict:
        for name in PROXY_VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(c.get("env", {}))
        self.client = await tetherexec.connect(c["url"], ttl=c.get("ttlMs", 30_000) / 1000, silence=c.get("silenceMs", 20_000) / 1000)
        return {"sessionId": self.client.session_id, "publicId": self.client.public_id}

    async def close(self, c: Any) -> dict:
        await self.client.close()
        return {}

    async def start(self, c: Any) -> dict:
        options: dict[str, Any] = {"cwd": c.get("cwd", "/"), "tty": c.get("tty", False), "stdin": c.get("stdin", False)}
        if "rows" in c:
            options["size"] = (c["rows"], c["cols"])
        name = c["process"]
        self.processes[name] = await self.client.start(c["argv"], **options)
        self.streams[name], self.last[name] = {}, 0
        return {"processId": self.processes[name].id}

    async def read(self, c: Any) -> dict:
        """Reads on: until so many bytes have come, until a text has come, or to the end."""
        name, process = c["process"], self.processes[c["process"]]
        enough, wanted, pause = c.get("bytes"), c.get("until", "").encode(), c.get("pauseMs", 0) / 1000
        got, tail, ended = 0, b"", False
        while (enough is None or got < enough) and not (wanted and wanted in tail):
            try:
                event = await anext(process)
            except StopAsyncIteration:
                ended = True
                break
            if isinstance(event, tetherexec.Gap):
                raise tetherexec.GapError(event.first, event.seq)
            if event.seq != self.last[name] + 1:
                raise AssertionError(f"event {event.seq} follows {self.last[name]}")
            self.last[name] = event.seq
            if isinstance(event, tetherexec.Output):
                self.streams[name].setdefault(event.stream, Summary()).add(event.data)
                got += len(event.data)
                tail = tail[-len(wanted) :] + event.data if wanted else b""
            if pause:
                await asyncio.sleep(pause)
        return {"streams": {s: v.report() for s, v in self.streams[name].items()}, "last": self.last[name], "ended": ended}

    async def wait(self, c: Any) -> dict:
        return {"code": (await self.processes[c["process"]].wait()).code}

    async def write(self, c: Any) -> dict:
        data = c["text"].encode() if "text" in c else lines(c["first"], c["last"])
        await self.processes[c["process"]].write(data)
        return {}

    async def closeStdin(self, c: Any) -> dict:
        await self.processes[c["process"]].close_stdin()
        return {}

    async def signal(self, c: Any) -> dict:
        await self.processes[c["process"]].signal(c["signal"])
        return {}

    async def resize(self, c: Any) -> dict:
        await self.processes[c["process"]].resize(c["rows"], c["cols"])
        return {}

    async def terminate(self, c: Any) -> dict:
        return {"running": await self.processes[c["process"]].terminate()}

    async def putFile(self, c: Any) -> dict:
        await self.client.files.write(c["path"], lines(c["first"], c["last"]))
        return {}

    async def getFile(self, c: Any) -> dict:
        summary = Summary()
        async for block in self.client.files.blocks(c["path"]):
            summary.add(block)
        return summary.report()

    async def list(self, c: Any) -> dict:
        return {"names": sorted(e["fileName"] for e in await self.client.files.list(c["path"]))}

    async def stat(self, c: Any) -> dict:
        facts = await self.client.files.stat(c["path"])
        return {"size": facts["size"], "isFile": facts["isFile"], "isDirectory": facts["isDirectory"]}

    async def forward(self, c: Any) -> dict:
        target = self.processes[c["process"]] if "process" in c else c["port"]
        forward = self.forwards[c["forward"]] = self.client.forward(target, host=c.get("host"))
        return {"port": (await forward.__aenter__()).port}

    async def stopForward(self, c: Any) -> dict:
        await self.forwards.pop(c["forward"]).__aexit__()
        return {}

    async def exchange(self, c: Any) -> dict:
        """Sends bytes to a port, and reads what comes back, to the end."""
        summary = Summary()
        async with await self.client.connect_port(c["port"], host=c.get("host")) as stream:

            async def send() -> None:
                try:
                    await stream.write(lines(c["first"], c["last"]))
                    await stream.write_eof()
                except tetherexec.PortError:
                    pass  # reading fails, too

            sending = asyncio.ensure_future(send())
            try:
                while data := await stream.read():
                    summary.add(data)
            finally:
                await sending
        return summary.report()

    async def carry_out(self, c: Any) -> dict:
        try:
            return {"id": c["id"], "result": await getattr(self, c["do"])(c)}
        except Exception as e:
            name = next((text for kind, text in ERRORS if isinstance(e, kind)), "other")
            return {"id": c["id"], "error": name, "message": str(e) or repr(e)}


async def main() -> None:
    agent = Agent()
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task] = set()

    async def answer(command: Any) -> None:
        sys.stdout.write(json.dumps(await agent.carry_out(command)) + "\n")
        sys.stdout.flush()

    while line := await reader.readline():
        task = asyncio.ensure_future(answer(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    for task in list(tasks):
        task.cancel()


asyncio.run(main())
