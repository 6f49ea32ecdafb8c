// The errors of the client.

import { CodeNotFound, ErrorStdinClosed, ErrorUnknownProcess, type ErrorObject } from "./protocol.js";

/** TetherError is the base of all errors of this package. */
export class TetherError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server has refused a request. */
export class ServerError extends TetherError {
  constructor(
    readonly method: string,
    /** such as CodeNotFound */
    readonly code: number,
    message: string,
    /** such as ErrorUnknownProcess; may be empty */
    readonly reason: string = "",
  ) {
    super(message);
  }
}

/** There is no such file. */
export class NotFoundError extends ServerError {}

/** The server has no such process any more. */
export class UnknownProcessError extends ServerError {}

/** The process takes no more input. */
export class StdinClosedError extends TetherError {}

/** The server does not have the feature. */
export class UnsupportedError extends TetherError {}

/** The connection was lost after a request was sent and before it was answered: it may have been carried out. */
export class AmbiguousError extends TetherError {}

/** Output was lost: the server no longer has the events from first to last. */
export class GapError extends TetherError {
  constructor(
    readonly first: number,
    readonly last: number,
  ) {
    super(`output was lost: the server no longer has the events ${first} to ${last}`);
  }
}

/** A forwarded connection has failed, for example because the target has reset it. */
export class PortError extends TetherError {}

/** The file was changed while it was read over several connections. */
export class FileChangedError extends TetherError {}

/** There is no connection to the server. */
export class ConnectError extends TetherError {
  constructor(
    message: string,
    /** with which HTTP has refused the WebSocket; 0: not known */
    readonly status: number = 0,
  ) {
    super(message);
  }
}

/** An answer of the server violates the protocol. */
export class ProtocolError extends TetherError {}

/** The program has closed the client. */
export class ClosedError extends TetherError {
  constructor() {
    super("the client is closed");
  }
}

/** The session is gone with everything in it, or the client cannot resume it. */
export class SessionLostError extends TetherError {}

/** The server did not come back before it drops the session. */
export class RecoveryTimeoutError extends SessionLostError {}

/** Another client has resumed the session, which goes on there. */
export class TakenOverError extends SessionLostError {
  constructor() {
    super("the session was taken over by another client");
  }
}

/** The server was shut down on purpose, and its sessions have ended with it. */
export class ServerStoppedError extends SessionLostError {
  constructor() {
    super("the server was shut down, and its sessions have ended with it");
  }
}

/** A connection has ended before an answer came. Programs see it only if there is no other connection. */
export class ConnectionLost extends TetherError {
  constructor(
    message: string,
    /** the request may have arrived */
    readonly sent: boolean,
  ) {
    super(message);
  }
}

/** serverError turns the error of an answer into an exception. */
export function serverError(method: string, e: ErrorObject): TetherError {
  const data = e.data as { reason?: unknown } | null | undefined;
  const reason = typeof data?.reason === "string" ? data.reason : "";
  if (e.code === CodeNotFound) return new NotFoundError(method, e.code, e.message, reason);
  if (reason === ErrorUnknownProcess || e.message.startsWith("unknown process id ")) {
    return new UnknownProcessError(method, e.code, e.message, reason);
  }
  if (reason === ErrorStdinClosed || e.message === "stdin is closed") return new StdinClosedError(e.message);
  return new ServerError(method, e.code, e.message, reason);
}
