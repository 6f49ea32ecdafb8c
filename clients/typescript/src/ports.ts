// Forwarded connections: to ports that the executor reaches. They survive lost connections between client and server.

import { ByteQueue, Signal, bytesOf, decode, encode } from "./bytes.js";
import type { Client } from "./client.js";
import type { Connection } from "./connection.js";
import { ConnectionLost, PortError, ProtocolError, ServerError, UnsupportedError } from "./errors.js";
import type { Process } from "./process.js";
import * as protocol from "./protocol.js";

const maxOpen = 1024; // forwarded connections of a session; the next one waits
const maxOpening = 512; // requests that wait for their targets; other requests have room beside them
/** Bytes of a connection that are kept in each direction: those that are not acknowledged, and those that are not read. */
export const windowSize = 1 << 20;

export interface PortOptions {
  /** a name or an address that the server may reach; absent: the server's own machine, by 127.0.0.1 or ::1 */
  host?: string;
}

/**
 * A PortStream is a connection to a port that the executor reaches. When the connection to the server is lost, both ends go on where
 * they were: no byte is lost, and none comes twice.
 */
export class PortStream implements AsyncIterable<Uint8Array> {
  private readonly outgoing = new ByteQueue(); // what the target does not have yet, as far as the client knows
  private acked = 0; // offset of its first byte
  private sent = 0; // offset of the next byte to send
  private limit = 0; // the server takes the bytes before it
  private outEnded = false;
  private endSent = false;

  private readonly incoming = new ByteQueue(); // what the program has not read
  private received = 0; // offset behind the last byte that has come
  private taken = 0; // offset behind the last byte that the program has read
  private reported = 0; // the last offset that the server was told
  private report = false; // it is told again
  private inEnded = false;

  private opened = false;
  private closing = false; // the program does not read any more
  private wasAborted = false;
  private ended = false;
  private failure?: Error;
  private readonly settled = new Signal(); // the connection was opened, or has failed
  private readonly changed = new Signal(); // bytes have come, or there is room for more, or it is over
  private readonly due = new Signal(); // there may be something to send
  private readonly over = new Signal();
  private readonly aborted = new Signal();
  private writing: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(
    private readonly client: Client,
    private readonly ports: Ports,
    readonly id: string,
    private readonly port: number,
    private readonly host: string | undefined,
  ) {}

  // For the program.

  /** The next bytes of the target; undefined at their end. */
  async read(): Promise<Uint8Array | undefined> {
    while (this.incoming.length === 0) {
      if (this.inEnded) return undefined;
      if (this.failure) throw this.failure;
      await this.changed.wait();
    }
    const data = this.incoming.shift();
    this.taken += data.length;
    this.due.send();
    return data;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (let data = await this.read(); data; data = await this.read()) yield data;
  }

  private inOrder(work: () => Promise<void>): Promise<void> {
    const next = this.writing.then(work);
    this.writing = next.catch(() => {});
    return next;
  }

  /** Sends bytes to the target. The promise waits while the target does not take more. */
  write(data: string | Uint8Array): Promise<void> {
    let rest: Uint8Array = bytesOf(data).slice(); // a program may use its buffer again
    return this.inOrder(async () => {
      while (rest.length > 0) {
        if (this.failure) throw this.failure;
        if (this.outEnded) throw new PortError("the end of the bytes for the target was sent already");
        const room = windowSize - this.outgoing.length;
        if (room > 0) {
          this.outgoing.push(rest.subarray(0, room));
          rest = rest.subarray(room);
          this.due.send();
        } else {
          await this.changed.wait();
        }
      }
    });
  }

  /** Tells the target that no more bytes follow. It may go on sending. */
  end(): Promise<void> {
    return this.inOrder(async () => {
      this.outEnded = true;
      this.due.send();
    });
  }

  /** Waits until both directions have ended and the target has everything. If the connection has failed, the promise is rejected. */
  async closed(): Promise<void> {
    while (!this.ended) await this.over.wait();
    if (this.failure) throw this.failure;
  }

  /**
   * Ends the connection when the target has everything that was written; more of its bytes are dropped. The promise waits for that;
   * abort does not. If the connection has failed, the promise is rejected.
   */
  async close(): Promise<void> {
    await this.end();
    this.closing = true;
    this.drop();
    while (!this.ended) await this.over.wait();
    if (this.failure && !this.wasAborted) throw this.failure;
  }

  /** Ends the connection at once. The target sees a reset, unless the connection has ended already. */
  abort(reason = "the program has aborted the connection"): void {
    if (this.ended) return;
    this.wasAborted ||= !this.failure;
    this.fail(new PortError(reason));
    this.aborted.send();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // For the connection to the server.

  /** @internal Serves the stream on one connection after the other, and lets the server forget it in the end. */
  async run(): Promise<void> {
    const serving = this.client.through((connection) => this.serveOn(connection), true);
    let refused = false;
    try {
      await Promise.race([serving, this.aborted.wait()]);
    } catch (e) {
      refused = e instanceof ServerError && !this.opened;
      this.fail(e as Error);
    }
    serving.catch(() => {}); // after an abort
    const abort = this.failure ? { abort: true } : {};
    // If that fails, the session has ended, and its connections with it.
    if (!refused) await this.client.call("tether/port/close", { connectionId: this.id, ...abort }, true).catch(() => {});
    this.ended = true;
    for (const signal of [this.over, this.changed]) signal.send();
  }

  /** @internal Waits until the target was reached, or cannot be reached. */
  async connected(): Promise<void> {
    while (!this.opened && !this.failure) await this.settled.wait();
    if (!this.opened) throw this.failure;
  }

  /** Opens the connection to the target, or continues it, and sends until it is over. */
  private async serveOn(connection: Connection): Promise<void> {
    if (this.failure) return;
    const params: protocol.PortOpenParams = { connectionId: this.id, port: this.port, limit: this.taken + windowSize };
    if (this.host !== undefined) params.host = this.host;
    if (this.opened) params.received = this.received;
    const at = await this.ports.opening.with(async () => {
      if (!this.failure) return (await connection.call(protocol.MethodPortOpen, params)) as protocol.PortOpenResult;
    });
    if (!at) return;
    if (at.received < this.acked || at.received > this.acked + this.outgoing.length) {
      throw new ProtocolError(`the server wants to continue a forwarded connection at ${at.received}, where the client has no bytes`);
    }
    this.sent = at.received;
    this.limit = Math.max(this.limit, at.limit);
    this.endSent = false;
    this.report = this.opened; // what was acknowledged before may be lost
    this.opened = true;
    this.settled.send();
    while (!this.finished()) {
      if (connection.cause) throw new ConnectionLost(connection.cause.message, true);
      const message = this.next();
      if (message) await connection.deliver(...message);
      else await this.due.wait();
    }
  }

  private finished(): boolean {
    if (this.failure) return true;
    const hasRead = this.closing || (this.inEnded && this.incoming.length === 0);
    return hasRead && this.outEnded && this.outgoing.length === 0;
  }

  /** The next message for the server, if there is one. */
  private next(): [method: string, params: protocol.PortAck | protocol.PortData] | undefined {
    const connectionId = this.id;
    const fresh = this.taken - this.reported;
    if (this.report || fresh >= protocol.PortAckEvery || (fresh > 0 && this.inEnded && this.incoming.length === 0)) {
      this.reported = this.taken;
      this.report = false;
      return [protocol.NotePortAck, { connectionId, offset: this.taken, limit: this.taken + windowSize }];
    }
    const begin = this.sent - this.acked;
    const chunk = this.outgoing.slice(begin, Math.max(0, Math.min(protocol.MaxPortChunk, this.limit - this.sent)));
    const end = this.outEnded && !this.endSent && begin + chunk.length === this.outgoing.length;
    if (chunk.length === 0 && !end) return undefined;
    const data: protocol.PortData = { connectionId, offset: this.sent, chunk: encode(chunk) };
    if (end) data.end = this.endSent = true;
    this.sent += chunk.length;
    return [protocol.NotePortWrite, data];
  }

  /** @internal */
  notified(method: string, params: unknown): void {
    if (method === protocol.NotePortData) {
      const { offset, chunk, end } = params as protocol.PortData;
      this.take(offset, decode(chunk), end ?? false);
    } else if (method === protocol.NotePortAcked) {
      const { offset, limit } = params as protocol.PortAck;
      if (offset > this.sent) throw new ProtocolError(`the server acknowledges bytes up to ${offset}, which were not sent`);
      if (offset > this.acked) {
        this.outgoing.drop(offset - this.acked);
        this.acked = offset;
      }
      this.limit = Math.max(this.limit, limit);
    } else {
      this.fail(new PortError(`the target: ${(params as protocol.PortFailed).message}`));
    }
    this.wake();
  }

  /** Takes bytes of the target, without those that have come before. */
  private take(offset: number, chunk: Uint8Array, end: boolean): void {
    if (offset > this.received) throw new ProtocolError(`bytes from ${this.received} to ${offset} of a forwarded connection are missing`);
    chunk = chunk.subarray(this.received - offset);
    if ((chunk.length > 0 && this.inEnded) || this.received + chunk.length > this.taken + windowSize) {
      throw new ProtocolError("the server has sent more bytes of a forwarded connection than it may");
    }
    this.received += chunk.length;
    this.inEnded ||= end;
    this.incoming.push(chunk);
    if (this.closing) this.drop();
  }

  /** Drops bytes that the program does not read, so that the target can go on. */
  private drop(): void {
    this.incoming.drop(this.incoming.length);
    this.taken = this.received;
    this.due.send();
  }

  /** @internal There may be something to do. */
  wake(): void {
    this.changed.send();
    this.due.send();
  }

  /** @internal */
  fail(failure: Error): void {
    this.failure ??= failure;
    this.settled.send();
    this.wake();
  }
}

/** Slots limit how many of something run at a time. */
class Slots {
  private readonly freed = new Signal();

  constructor(private free: number) {}

  async take(): Promise<void> {
    while (this.free === 0) await this.freed.wait();
    this.free--;
  }

  give(): void {
    this.free++;
    this.freed.send();
  }

  async with<T>(work: () => Promise<T>): Promise<T> {
    await this.take();
    try {
      return await work();
    } finally {
      this.give();
    }
  }
}

/** @internal Ports are the forwarded connections of a client. */
export class Ports {
  readonly forwards = new Set<{ close(): Promise<void> }>(); // that listen
  readonly opening = new Slots(maxOpening);
  private readonly open = new Slots(maxOpen);
  private readonly streams = new Map<string, PortStream>();

  constructor(private readonly client: Client) {}

  async connect(port: number, options: PortOptions): Promise<PortStream> {
    if (!this.client.has("ports")) throw new UnsupportedError("the server does not forward ports");
    await this.open.take();
    const stream = new PortStream(this.client, this, this.client.newId(), port, options.host);
    this.streams.set(stream.id, stream);
    void stream.run().then(() => {
      this.streams.delete(stream.id);
      this.open.give();
    });
    await stream.connected();
    return stream;
  }

  /** A connection that is not known has ended here. */
  notified(method: string, params: unknown): void {
    this.streams.get((params as { connectionId: string }).connectionId)?.notified(method, params);
  }

  /** The connection to the server was lost. */
  connectionLost(): void {
    for (const stream of this.streams.values()) stream.wake();
  }

  fail(failure: Error): void {
    for (const stream of this.streams.values()) stream.fail(failure);
  }

  /** The host and the port on which a process, or something that it has started, listens. */
  async portOf(process: Process): Promise<{ host?: string; port: number }> {
    if (!this.client.has("portList")) throw new UnsupportedError("the server does not list ports");
    const { listeners } = await this.client.call("tether/port/list", { sessionId: this.client.publicId }, true);
    const found = listeners.filter((l) => l.processId === process.id);
    const outside = new Map(found.filter((l) => !l.inside).map((l) => [l.port, l.address]));
    if (outside.size > 1) {
      throw new PortError(`process ${process.id} listens on several ports: ${[...outside.keys()].sort((a, b) => a - b).join(", ")}`);
    }
    for (const [port, address] of outside) return address === "0.0.0.0" || address === "::" ? { port } : { host: address, port };
    const why = found.length > 0 ? "has a network of its own, which connections do not reach" : "listens on no port";
    throw new PortError(`process ${process.id} ${why}`);
  }
}
