// One connection to a server: a WebSocket with JSON-RPC on it.

import { Signal } from "./bytes.js";
import { ConnectionLost, ProtocolError, ServerStoppedError, TakenOverError, serverError, type TetherError } from "./errors.js";
import * as protocol from "./protocol.js";
import type { Socket } from "./socket.js";

const maxCalls = 1024; // requests that wait for their answers on a connection

const closeGoingAway = 1001;
const closePolicy = 1008;
const closeRestart = 1012;

interface Call {
  method: string;
  resolve: (result: unknown) => void;
  reject: (e: TetherError) => void;
}

/** Handlers of messages that are no answers. */
export interface Handlers {
  notified(method: string, params: unknown): void;
  /** undefined: the client does not know the request. */
  asked(method: string, params: unknown): Promise<unknown>;
}

/** A Connection ends once; the session and its client outlive it. */
export class Connection {
  /** why it has ended; undefined: it has not */
  cause?: TetherError;
  /** The server has carried out nothing that it has not answered. */
  replaced = false;
  readonly ended: Promise<void>;

  private end!: () => void;
  private readonly calls = new Map<number, Call>();
  private readonly delivering = new Set<() => void>();
  private readonly slot = new Signal();
  private lastId = 0;
  private goodbye = false;
  private received: number; // when the last message came
  private readonly watch: ReturnType<typeof setInterval>;

  constructor(
    private readonly socket: Socket,
    private readonly handlers: Handlers,
    silenceMs: number,
  ) {
    this.ended = new Promise((resolve) => (this.end = resolve));
    this.received = Date.now();
    socket.onMessage = (text) => this.message(text);
    socket.onEnd = (code, reason) => this.over(code, reason);
    this.watch = setInterval(() => this.check(silenceMs), silenceMs / 4);
  }

  /** Sends a request and returns the result. */
  async call(method: string, params: unknown): Promise<unknown> {
    while (this.calls.size >= maxCalls && !this.cause) await this.slot.wait();
    if (this.cause) throw new ConnectionLost(this.cause.message, false);
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      this.calls.set(id, { method, resolve, reject });
      this.socket.send(JSON.stringify({ id, method, params }));
    });
  }

  notify(method: string, params: unknown): void {
    if (!this.cause) this.socket.send(JSON.stringify({ method, params }));
  }

  /** Sends a notification and waits until it is on its way, or the connection has ended. */
  deliver(method: string, params: unknown): Promise<void> {
    return new Promise((resolve) => {
      if (this.cause) return resolve();
      this.delivering.add(resolve);
      this.socket.send(JSON.stringify({ method, params }), () => {
        this.delivering.delete(resolve);
        resolve();
      });
    });
  }

  pause(): boolean {
    if (!this.socket.pause || this.cause) return false;
    this.socket.pause();
    return true;
  }

  resume(): void {
    this.received = Date.now();
    if (!this.cause) this.socket.resume?.();
  }

  /** Ends the connection. */
  close(): void {
    this.over(0, "");
  }

  /** check asks for a sign of life when nothing has come for a while, and ends a connection that stays silent. */
  private check(silenceMs: number): void {
    const silent = Date.now() - this.received;
    if (silent >= silenceMs) {
      this.fail(new ConnectionLost(`the connection was lost: nothing was heard from the server for ${silenceMs / 1000} s`, true));
    } else if (silent >= silenceMs / 2) {
      this.call(protocol.MethodEnvironmentStatus, {}).catch(() => {});
    }
  }

  private message(text: string): void {
    if (this.cause) return;
    this.received = Date.now();
    try {
      this.handle(JSON.parse(text));
    } catch (e) {
      this.fail(new ProtocolError(`the server has sent a message that is not of the protocol: ${e}`));
    }
  }

  private handle(m: { id?: number; method?: string; params?: unknown; result?: unknown; error?: protocol.ErrorObject }): void {
    if (m.method === undefined) {
      const call = this.calls.get(m.id!);
      if (!call) return;
      this.calls.delete(m.id!);
      this.slot.send();
      if (m.error) call.reject(serverError(call.method, m.error));
      else call.resolve(m.result);
    } else if (m.id !== undefined) {
      void this.answer(m.id, m.method, m.params);
    } else if (m.method === protocol.NoteGoodbye) {
      this.goodbye = true;
    } else {
      this.handlers.notified(m.method, m.params);
    }
  }

  private async answer(id: number, method: string, params: unknown): Promise<void> {
    const result = await this.handlers.asked(method, params);
    const error = { code: protocol.CodeMethodNotFound, message: `the client does not implement \`${method}\`` };
    if (!this.cause) this.socket.send(JSON.stringify(result === undefined ? { id, error } : { id, result }));
  }

  /** over ends the connection. The close frame of the server says why, if there was one. */
  private over(code: number, reason: string): void {
    if (this.goodbye || (code === closeGoingAway && reason.endsWith(protocol.ReasonStopping))) {
      this.fail(new ServerStoppedError());
    } else if (code === closePolicy && reason.endsWith(protocol.ReasonResumed)) {
      this.fail(new TakenOverError());
    } else {
      this.replaced = code === closeRestart && reason.endsWith(protocol.ReasonReplaced);
      this.fail(new ConnectionLost(`the connection was lost: ${reason || "the server has closed it"}`, true));
    }
  }

  private fail(cause: TetherError): void {
    if (this.cause) return;
    this.cause = cause;
    clearInterval(this.watch);
    this.socket.drop();
    for (const call of this.calls.values()) call.reject(new ConnectionLost(cause.message, !this.replaced));
    this.calls.clear();
    for (const resolve of this.delivering) resolve();
    this.slot.send();
    this.end();
  }
}
