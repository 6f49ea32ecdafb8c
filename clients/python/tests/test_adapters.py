"""The adapters behind stand-ins for the interfaces of the frameworks, which docs/clients.md names. Their commands run on the server at
TETHER_URL.
"""

import asyncio
import os
import sys
import tempfile
import types
import unittest
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import tetherexec

URL = os.environ.get("TETHER_URL")


# The OpenAI Agents SDK: the module agents.


@dataclass
class ShellCallOutcome:
    type: Literal["exit", "timeout"]
    exit_code: int | None = None


@dataclass
class ShellCommandOutput:
    stdout: str = ""
    stderr: str = ""
    outcome: ShellCallOutcome = field(default_factory=lambda: ShellCallOutcome(type="exit"))
    command: str | None = None
    provider_data: dict[str, Any] | None = None


@dataclass
class ShellResult:
    output: list[ShellCommandOutput]
    max_output_length: int | None = None
    provider_data: dict[str, Any] | None = None


@dataclass
class ShellActionRequest:
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@dataclass
class ShellCallData:
    call_id: str
    action: ShellActionRequest
    status: str | None = None
    raw: Any = None


@dataclass
class ShellCommandRequest:
    ctx_wrapper: Any
    data: ShellCallData


# Deep Agents: the modules deepagents.backends.protocol and deepagents.backends.sandbox.


@dataclass
class ExecuteResponse:
    output: str
    exit_code: int | None = None
    truncated: bool = False


@dataclass
class FileUploadResponse:
    path: str
    error: str | None = None


@dataclass
class FileDownloadResponse:
    path: str
    content: bytes | None = None
    error: str | None = None


class BaseSandbox(ABC):
    @property
    @abstractmethod
    def id(self) -> str: ...

    @abstractmethod
    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse: ...

    @abstractmethod
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]: ...

    @abstractmethod
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]: ...

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return await asyncio.to_thread(self.execute, command, timeout=timeout)


def stand_in(name: str, *members: type) -> types.ModuleType:
    module = types.ModuleType(name)
    for member in members:
        setattr(module, member.__name__, member)
    sys.modules[name] = module
    return module


stand_in("agents", ShellCallOutcome, ShellCommandOutput, ShellResult)
stand_in("deepagents")
stand_in("deepagents.backends")
stand_in("deepagents.backends.protocol", ExecuteResponse, FileDownloadResponse, FileUploadResponse)
stand_in("deepagents.backends.sandbox", BaseSandbox)

from tetherexec.adapters._shell import Kept  # noqa: E402
from tetherexec.adapters.deepagents import TetherSandbox  # noqa: E402
from tetherexec.adapters.openai_agents import shell_executor  # noqa: E402


@unittest.skipUnless(URL, "there is no server: TETHER_URL is not set")
class WithServer(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = await tetherexec.connect(str(URL))
        self.dir = tempfile.TemporaryDirectory()

    async def asyncTearDown(self) -> None:
        await self.client.close()
        self.dir.cleanup()


class OpenAIAgents(WithServer):
    async def shell(self, *commands: str, timeout_ms: int | None = None, max_output_length: int | None = None) -> ShellResult:
        action = ShellActionRequest(list(commands), timeout_ms, max_output_length)
        executor = shell_executor(self.client, cwd=self.dir.name, env={"GREETING": "hello"})
        return await executor(ShellCommandRequest(None, ShellCallData("call_1", action)))

    async def test_commands(self) -> None:
        got = await self.shell('pwd; echo "$GREETING"', "echo wrong >&2; exit 3")
        self.assertEqual(
            got.output,
            [
                ShellCommandOutput(f"{self.dir.name}\nhello\n", "", ShellCallOutcome("exit", 0), 'pwd; echo "$GREETING"'),
                ShellCommandOutput("", "wrong\n", ShellCallOutcome("exit", 3), "echo wrong >&2; exit 3"),
            ],
        )
        self.assertIsNone(got.max_output_length)

    async def test_time_is_over(self) -> None:
        got = await self.shell("echo begun; exec sleep 1000", "echo never", timeout_ms=1000)
        self.assertEqual([o.outcome for o in got.output], [ShellCallOutcome("timeout")])

    async def test_much_output(self) -> None:
        got = await self.shell("seq 1 100000", max_output_length=100)
        self.assertEqual(got.max_output_length, 100)
        self.assertTrue(got.output[0].stdout.startswith("1\n2\n") and got.output[0].stdout.endswith("\n100000\n"), got.output[0].stdout)
        self.assertIn("bytes were left out", got.output[0].stdout)

    async def test_cancelled(self) -> None:
        running = asyncio.ensure_future(self.shell("echo $$ > pid; exec sleep 1000"))
        while not os.path.exists(f"{self.dir.name}/pid"):
            await asyncio.sleep(0.01)
        running.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await running
        states = [p["state"] for p in (await self.client.call("tether/process/list", {}))["processes"] if p["sessionId"] == self.client.public_id]
        while "running" in states:
            listed = await self.client.call("tether/process/list", {})
            states = [p["state"] for p in listed["processes"] if p["sessionId"] == self.client.public_id]


class DeepAgents(WithServer):
    async def test_commands(self) -> None:
        sandbox = TetherSandbox(self.client, cwd=self.dir.name)
        self.assertEqual(sandbox.id, self.client.public_id)
        self.assertEqual(await sandbox.aexecute("pwd; echo x >&2; exit 4"), ExecuteResponse(f"{self.dir.name}\nx\n", 4, False))
        late = await sandbox.aexecute("exec sleep 1000", timeout=1)
        self.assertEqual((late.exit_code, late.output), (124, "\n[the command was ended after 1 s]\n"))
        much = await TetherSandbox(self.client, max_output=100).aexecute("seq 1 100000")
        self.assertTrue(much.truncated and much.output.endswith("\n100000\n"), much)

    async def test_from_a_thread(self) -> None:
        sandbox = TetherSandbox(self.client)
        self.assertEqual(await asyncio.to_thread(sandbox.execute, "echo hello"), ExecuteResponse("hello\n", 0, False))
        with self.assertRaisesRegex(RuntimeError, "ainvoke"):
            sandbox.execute("echo hello")

    async def test_files(self) -> None:
        sandbox = TetherSandbox(self.client)
        new, missing = f"{self.dir.name}/a/b/new", f"{self.dir.name}/missing"
        self.assertEqual(
            await sandbox.aupload_files([(new, b"\xffnew"), (f"{self.dir.name}/a", b""), ("relative", b"")]),
            [FileUploadResponse(new), FileUploadResponse(f"{self.dir.name}/a", "is_directory"), FileUploadResponse("relative", "invalid_path")],
        )
        self.assertEqual(
            await asyncio.to_thread(sandbox.download_files, [new, missing, f"{self.dir.name}/a"]),
            [
                FileDownloadResponse(new, b"\xffnew"),
                FileDownloadResponse(missing, None, "file_not_found"),
                FileDownloadResponse(f"{self.dir.name}/a", None, "is_directory"),
            ],
        )


class Output(unittest.TestCase):
    def test_short_output_is_whole(self) -> None:
        kept = Kept(10)
        for byte in "aé€".encode():
            kept.add(bytes([byte]))
        self.assertEqual((kept.text(), kept.dropped), ("aé€", 0))

    def test_middle_is_left_out(self) -> None:
        kept = Kept(4)
        kept.add(b"abc")
        kept.add(b"defgh")
        self.assertEqual(kept.text(), "ab\n[4 bytes were left out]\ngh")


if __name__ == "__main__":
    unittest.main()
