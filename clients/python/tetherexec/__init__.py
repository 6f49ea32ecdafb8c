"""Runs processes on another machine through a tether server, and keeps them through network failures.

    async with await tetherexec.connect("ws://127.0.0.1:7777") as client:
        process = await client.start(["make", "test"], cwd="/srv/project")
        async for event in process:
            ...
"""

from . import protocol
from .client import Client, connect
from .errors import (
    AmbiguousError,
    ClosedError,
    ConnectError,
    FileChangedError,
    GapError,
    NotFoundError,
    PortError,
    ProtocolError,
    RecoveryTimeoutError,
    ServerError,
    ServerStoppedError,
    SessionLostError,
    StdinClosedError,
    TakenOverError,
    TetherError,
    UnknownProcessError,
    UnsupportedError,
)
from .files import Files, path_uri
from .ports import Forward, PortStream
from .process import Closed, Event, Exit, Gap, Output, Process

__all__ = [name for name in dir() if not name.startswith("_")]
