"""A sandbox backend of Deep Agents (package deepagents), with the commands and files of an executor.

    agent = create_deep_agent(model=…, backend=TetherSandbox(client, cwd="/srv/project"))
    await agent.ainvoke(…)
"""

import asyncio
from typing import Any, Callable, Coroutine, Sequence, TypeVar

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from ..client import Client
from ..errors import NotFoundError, ServerError
from ._shell import MAX_OUTPUT, run_shell

T = TypeVar("T")


class TetherSandbox(BaseSandbox):
    """Runs commands and moves files through a client. BaseSandbox makes the other tools for files of these.

    The client belongs to an event loop. The methods whose names begin with "a" can be awaited in any loop; the others are for other
    threads.
    """

    def __init__(
        self,
        client: Client,
        *,
        shell: Sequence[str] = ("/bin/sh", "-c"),
        timeout: float | None = 1800,
        max_output: int = MAX_OUTPUT,
        loop: asyncio.AbstractEventLoop | None = None,
        **options: Any,
    ):
        """timeout, in seconds, is for commands that name none (those that name 0 have no limit); max_output is how many bytes of the output of a command are kept; loop is
        that of the client, the running one if absent. The options are those of Client.start, such as cwd, env and sandbox.
        """
        self._client, self._shell, self._timeout, self._max_output, self._options = client, shell, timeout, max_output, options
        self._loop = loop or asyncio.get_running_loop()

    @property
    def id(self) -> str:
        return self._client.public_id or "tether"

    def _wait(self, work: Callable[..., Coroutine[Any, Any, T]], *args: Any, **more: Any) -> T:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise RuntimeError("a method that blocks would wait for its own event loop for ever: await the one whose name begins with a, as agent.ainvoke does")
        return asyncio.run_coroutine_threadsafe(work(*args, **more), self._loop).result()

    async def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._wait(self._execute, command, timeout)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return await self._await(self._execute(command, timeout))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return self._wait(self._upload, files)

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return await self._await(self._upload(files))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return self._wait(self._download, paths)

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return await self._await(self._download(paths))

    async def _execute(self, command: str, timeout: float | None) -> ExecuteResponse:
        seconds = self._timeout if timeout is None else timeout or None
        ran = await run_shell(self._client, self._shell, command, timeout=seconds, limit=self._max_output, joined=True, **self._options)
        if ran.code is None:
            return ExecuteResponse(output=f"{ran.stdout}\n[the command was ended after {seconds:g} s]\n", exit_code=124, truncated=ran.truncated)
        return ExecuteResponse(output=ran.stdout, exit_code=ran.code, truncated=ran.truncated)

    async def _upload(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=await self._put(path, content)) for path, content in files]

    async def _put(self, path: str, content: bytes) -> str | None:
        try:
            await self._client.files.make_directory(path.rpartition("/")[0] or "/")
            await self._client.files.write(path, content)
            return None
        except (ServerError, ValueError) as e:
            return await self._reason(path, e)

    async def _download(self, paths: list[str]) -> list[FileDownloadResponse]:
        answers = []
        for path in paths:
            try:
                answers.append(FileDownloadResponse(path=path, content=await self._client.files.read(path), error=None))
            except (ServerError, ValueError) as e:
                answers.append(FileDownloadResponse(path=path, content=None, error=await self._reason(path, e)))
        return answers

    async def _reason(self, path: str, error: Exception) -> str:
        """The word of Deep Agents for an error."""
        if isinstance(error, ValueError):
            return "invalid_path"
        if isinstance(error, NotFoundError):
            return "file_not_found"
        try:
            if (await self._client.files.stat(path))["isDirectory"]:
                return "is_directory"
        except ServerError:
            pass
        return "permission_denied"
