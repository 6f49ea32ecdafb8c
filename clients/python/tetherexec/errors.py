"""The errors of the client."""

from . import protocol


class TetherError(Exception):
    """The base of all errors of this package."""


class ServerError(TetherError):
    """The server has refused a request."""

    def __init__(self, method: str, code: int, message: str, reason: str = ""):
        super().__init__(message)
        self.method = method
        self.code = code  # such as protocol.CODE_NOT_FOUND
        self.reason = reason  # such as protocol.ERROR_UNKNOWN_PROCESS; may be empty


class NotFoundError(ServerError):
    """There is no such file."""


class UnknownProcessError(ServerError):
    """The server has no such process any more."""


class StdinClosedError(TetherError):
    """The process takes no more input."""


class UnsupportedError(TetherError):
    """The server does not have the feature."""


class AmbiguousError(TetherError):
    """The connection was lost after a request was sent and before it was answered: it may have been carried out."""


class GapError(TetherError):
    """Output was lost: the server no longer has the events from first to last."""

    def __init__(self, first: int, last: int):
        super().__init__(f"output was lost: the server no longer has the events {first} to {last}")
        self.first, self.last = first, last


class PortError(TetherError):
    """A forwarded connection has failed, for example because the target has reset it."""


class FileChangedError(TetherError):
    """The file was changed while it was read over several connections."""


class ConnectError(TetherError):
    """There is no connection to the server."""

    def __init__(self, message: str, status: int = 0):
        super().__init__(message)
        self.status = status  # with which HTTP has refused the WebSocket; 0: none


class ProtocolError(TetherError):
    """An answer of the server violates the protocol."""


class ClosedError(TetherError):
    """The program has closed the client."""

    def __init__(self) -> None:
        super().__init__("the client is closed")


class SessionLostError(TetherError):
    """The session is gone with everything in it, or the client cannot resume it."""


class RecoveryTimeoutError(SessionLostError):
    """The server did not come back before it drops the session."""


class TakenOverError(SessionLostError):
    """Another client has resumed the session, which goes on there."""

    def __init__(self) -> None:
        super().__init__("the session was taken over by another client")


class ServerStoppedError(SessionLostError):
    """The server was shut down on purpose, and its sessions have ended with it."""

    def __init__(self) -> None:
        super().__init__("the server was shut down, and its sessions have ended with it")


class ConnectionLost(TetherError):
    """A connection has ended before an answer came. Programs see it only if there is no other connection."""

    def __init__(self, message: str, sent: bool):
        super().__init__(message)
        self.sent = sent  # the request may have arrived


def server_error(method: str, error: dict) -> TetherError:
    """Turns the error of an answer into an exception."""
    code, message = int(error.get("code", 0)), str(error.get("message", ""))
    data = error.get("data")
    reason = data.get("reason", "") if isinstance(data, dict) else ""
    if code == protocol.CODE_NOT_FOUND:
        return NotFoundError(method, code, message, reason)
    if reason == protocol.ERROR_UNKNOWN_PROCESS or message.startswith("unknown process id "):
        return UnknownProcessError(method, code, message, reason)
    if reason == protocol.ERROR_STDIN_CLOSED or message == "stdin is closed":
        return StdinClosedError(message)
    return ServerError(method, code, message, reason)
