"""The files of the executor."""

import asyncio
import base64
import contextlib
import hashlib
import os
import time
from typing import TYPE_CHECKING, Any, AsyncIterator
from urllib.parse import quote_from_bytes

from . import protocol
from .errors import ConnectionLost, FileChangedError, TetherError

if TYPE_CHECKING:
    from .client import Client

BLOCK = 1 << 20  # bytes of a file in a message, at most
FIRST_BLOCK = 128 << 10


def path_uri(path: str | bytes) -> str:
    """The URI of an absolute path of a POSIX system."""
    raw = os.fsencode(path)
    if raw.startswith(b"file:"):
        return raw.decode()
    if not raw.startswith(b"/"):
        raise ValueError(f"{path!r} is not an absolute path")
    return "file:///" + quote_from_bytes(raw.lstrip(b"/"), safe="/!$&'()*+,:;=@~-._")


def next_block(block: int, took: float) -> int:
    """How large the next block is. On a slow link blocks stay small: behind a large one, the sign that the server is there comes so late
    that the connection counts as lost, again and again.
    """
    if took < 0.5:
        return min(2 * block, BLOCK)
    return max(block // 2, FIRST_BLOCK) if took > 2 else block


class Files:
    """Reads and changes the files of an executor. Paths are absolute."""

    def __init__(self, client: "Client"):
        self._client = client

    async def stat(self, path: str, *, mode: bool = False) -> protocol.MetadataResult:
        """The kind, the size and the times of a file. With mode, also the permissions."""
        params: dict[str, Any] = {"path": path_uri(path)}
        if mode:
            params["tetherMode"] = True
        return await self._client.call(protocol.METHOD_FS_GET_METADATA, params, repeat=True)

    async def list(self, path: str) -> list[protocol.DirectoryEntry]:
        """The names in a directory."""
        return (await self._client.call(protocol.METHOD_FS_READ_DIRECTORY, {"path": path_uri(path)}, repeat=True))["entries"]

    async def read(self, path: str) -> bytes:
        """The content of a file."""
        content = bytearray()
        async for block in self.blocks(path):
            content.extend(block)
        return bytes(content)

    async def blocks(self, path: str) -> AsyncIterator[bytes]:
        """The content of a file in blocks. After a lost connection it goes on where it was, if the file has not changed."""
        offset, before, size = 0, None, FIRST_BLOCK
        while True:
            connection = await self._client._ready()
            handle = self._client.new_id()[-32:]
            try:
                facts = await connection.call(protocol.METHOD_FS_GET_METADATA, {"path": path_uri(path)})
                now = (facts["size"], facts["modifiedAtMs"])
                if offset and now != before:
                    raise FileChangedError(f"{path} was changed while it was read")
                before = now
                await connection.call(protocol.METHOD_FS_OPEN, {"handleId": handle, "path": path_uri(path), "mode": "read"})
                try:
                    while True:
                        params = {"handleId": handle, "offset": offset, "len": size}
                        begun = time.monotonic()
                        answer = await connection.call(protocol.METHOD_FS_READ_BLOCK, params)
                        size = next_block(size, time.monotonic() - begun)
                        block = base64.b64decode(answer["chunk"], validate=True)
                        offset += len(block)
                        if block:
                            yield block
                        if answer["eof"]:
                            return
                finally:
                    if not connection.ended.is_set():
                        with contextlib.suppress(TetherError):  # handles end with their connection
                            await connection.call(protocol.METHOD_FS_CLOSE, {"handleId": handle})
            except ConnectionLost:
                continue  # the next connection goes on

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replaces the content of a file, or creates it, all or nothing. mode are the permissions of a new file."""
        if not self._client.has("upload"):
            params = {"path": path_uri(path), "dataBase64": base64.b64encode(data).decode()}
            await self._client.call(protocol.METHOD_FS_WRITE_FILE, params)
            return
        upload = self._client.new_id()
        params = {"uploadId": upload, "path": path_uri(path), "size": len(data)}
        if mode is not None:
            params["mode"] = mode
        opened = await self._client.call(protocol.METHOD_UPLOAD_OPEN, params, repeat=True)
        offset, size = 0, FIRST_BLOCK
        try:
            while offset < len(data):
                block = data[offset : offset + min(size, opened["maxBlock"])]
                params = {"uploadId": upload, "offset": offset, "chunk": base64.b64encode(block).decode()}
                begun = time.monotonic()
                await self._client.call(protocol.METHOD_UPLOAD_WRITE, params, repeat=True)
                size = next_block(size, time.monotonic() - begun)
                offset += len(block)
            digest = hashlib.sha256(data).hexdigest()
            await self._client.call(protocol.METHOD_UPLOAD_COMMIT, {"uploadId": upload, "sha256": digest}, repeat=True)
        except BaseException as e:
            aborting = asyncio.ensure_future(self._client.call(protocol.METHOD_UPLOAD_ABORT, {"uploadId": upload}, repeat=True))
            aborting.add_done_callback(lambda t: t.cancelled() or t.exception())
            if isinstance(e, Exception):  # a program that cancels does not wait
                await asyncio.wait([aborting])
            raise

    async def make_directory(self, path: str) -> None:
        """Creates a directory, and those above it that are missing."""
        await self._client.call(protocol.METHOD_FS_CREATE_DIRECTORY, {"path": path_uri(path), "recursive": True}, repeat=True)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or with recursive a directory with all that is in it."""
        params = {"path": path_uri(path), "recursive": recursive, "force": False}
        await self._client.call(protocol.METHOD_FS_REMOVE, params)
