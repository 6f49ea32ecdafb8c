// Processes: their events in order, their input, their end.

import { Signal, bytesOf, concat, decode, encode } from "./bytes.js";
import type { Client } from "./client.js";
import type { Connection } from "./connection.js";
import { GapError, ProtocolError, ServerError, StdinClosedError, UnknownProcessError, UnsupportedError, type TetherError } from "./errors.js";
import * as protocol from "./protocol.js";

/** maxBuffered is how much output of a process waits for its reader; later output stays on the server. */
export const maxBuffered = 4 << 20;
const maxBufferedEvents = 8192;
const ackEvents = 32; // after so many events, or bytes of output, the client acknowledges
const ackBytes = 256 << 10;
const maxWrite = 256 << 10; // bytes of input in a request
const backpressureMs = 250; // for how long the connection waits for a reader that is behind

/** A piece of output. stream is "stdout", "stderr" or "pty". */
export interface Output {
  kind: "output";
  seq: number;
  stream: string;
  data: Uint8Array;
}

/** The process has exited. Output that other processes hold open may follow. */
export interface Exit {
  kind: "exit";
  seq: number;
  code: number;
  /** the sandbox probably caused the failure */
  sandboxDenied: boolean;
  denial?: protocol.DenialFact | null;
  /** the limit because of which the server has ended the command */
  limit?: string | null;
  /** why the code is not the command's own */
  failure?: string | null;
  usage?: protocol.Usage | null;
}

/** The output has ended. Nothing follows. */
export interface Closed {
  kind: "closed";
  seq: number;
}

/** The events from first to seq are lost. It happens with servers that do not keep all output. */
export interface Gap {
  kind: "gap";
  first: number;
  seq: number;
}

export type Event = Output | Exit | Closed | Gap;

type ExitFacts = Pick<protocol.ProcessExited, "sandboxDenied" | "tetherDenial" | "tetherLimit" | "tetherFailure" | "tetherUsage">;

function exitOf(seq: number, code: number, facts: ExitFacts): Exit {
  return {
    kind: "exit",
    seq,
    code,
    sandboxDenied: facts.sandboxDenied ?? false,
    denial: facts.tetherDenial,
    limit: facts.tetherLimit,
    failure: facts.tetherFailure,
    usage: facts.tetherUsage,
  };
}

const sizeOf = (e: Event) => (e.kind === "output" ? e.data.length : 0);

/**
 * A Process on the executor. `for await (const event of process)` gives its events in order, each once.
 *
 * Only one reader at a time: events are delivered once. Output that is not read stays on the server, which
 * blocks the command when there is too much of it.
 */
export class Process implements AsyncIterable<Event> {
  sandboxType = "";
  /** those in force */
  limits?: protocol.LimitsInForce | null;

  private events: Event[] = []; // contiguous: the last one is tail
  private bytes = 0; // of output in events
  private tail = 0; // the last event that is buffered or was delivered
  private highest = 0; // the highest number that is known to exist
  private delivered = 0;
  private exit?: Exit;
  private closedSeq = 0;
  private failure?: TetherError;

  private acked = 0;
  private unacked = 0; // bytes that were delivered since
  private reading = false; // a program has begun to read
  private waiting = false; // it is waiting for the next event
  private idle = false; // it does not read: the connection does not wait for it
  private paused?: Connection;
  private readonly changed = new Signal();
  private readonly room = new Signal();
  private readonly exited = new Signal(); // the exit is known, or the process is lost
  private writing: Promise<unknown> = Promise.resolve();

  /** @internal From now on it is caught up with after each lost connection. */
  started = false;

  constructor(
    private readonly client: Client,
    readonly id: string,
  ) {}

  // Events from the connection.

  /** @internal */
  notified(method: string, params: unknown, connection?: Connection): void {
    const seq = (params as { seq: number }).seq;
    let event: Event;
    if (method === protocol.NoteProcessOutput) {
      const note = params as protocol.ProcessOutput;
      event = { kind: "output", seq, stream: note.stream, data: decode(note.chunk) };
    } else if (method === protocol.NoteProcessExited) {
      const note = params as protocol.ProcessExited;
      event = this.exit ??= exitOf(seq, note.exitCode, note);
      this.exited.send();
    } else {
      event = { kind: "closed", seq };
      this.closedSeq = seq;
    }
    this.highest = Math.max(this.highest, seq);
    if (seq === this.tail + 1) {
      const fits = this.hasRoom(event);
      if (!fits && this.reading && !this.idle && connection) this.backpressure(connection);
      // Some messages still come after a pause: they are few.
      if (fits || this.paused) this.append(event);
    }
    this.changed.send(); // other events: the reader gets them from the server when it comes to them
  }

  private hasRoom(event: Event): boolean {
    const size = sizeOf(event);
    if (this.events.length === 0) return true;
    return this.bytes + size <= maxBuffered && this.events.length < maxBufferedEvents && this.client.hasRoom(size);
  }

  /** Makes the connection, and so the server, wait for a reader that is behind, but not for long: other processes wait, too. */
  private backpressure(connection: Connection): void {
    if (this.paused || !connection.pause()) return;
    this.paused = connection;
    void this.room.wait(backpressureMs).then((inTime) => {
      if (!inTime) this.idle = true;
      this.paused = undefined;
      connection.resume();
    });
  }

  private append(event: Event): void {
    this.events.push(event);
    this.tail = event.seq;
    this.bytes += sizeOf(event);
    this.client.buffered += sizeOf(event);
  }

  /** @internal Takes the answer to a process/read, which covers all events up to its nextSeq. */
  take(answer: protocol.ReadResult): void {
    if (answer.failure != null) throw new ProtocolError(`the server cannot read the output of ${this.id}: ${answer.failure}`);
    const last = answer.nextSeq - 1;
    this.highest = Math.max(this.highest, last);
    const found = new Map<number, Event>();
    for (const c of answer.chunks) {
      if (c.seq > this.tail) found.set(c.seq, { kind: "output", seq: c.seq, stream: c.stream, data: decode(c.chunk) });
    }
    if (answer.closed && last > this.tail) {
      found.set(last, { kind: "closed", seq: last });
      this.closedSeq = last;
    }
    if (answer.exited && !this.exit) {
      // The answer does not say when the process has exited. Only the exit and lost output have no chunk.
      let seq = last;
      while (seq > this.tail && found.has(seq)) seq--;
      if (seq <= this.tail || answer.exitCode == null) throw new ProtocolError(`the exit of ${this.id} has no number or no code`);
      this.exit = exitOf(seq, answer.exitCode, answer);
      this.exited.send();
    }
    if (this.exit && this.tail < this.exit.seq && this.exit.seq <= last) found.set(this.exit.seq, this.exit);
    for (const seq of [...found.keys()].sort((a, b) => a - b)) {
      if (seq > this.tail + 1) this.append({ kind: "gap", first: this.tail + 1, seq: seq - 1 });
      this.append(found.get(seq)!);
    }
    if (this.tail < last) this.append({ kind: "gap", first: this.tail + 1, seq: last });
    this.changed.send();
  }

  /**
   * @internal Reads what was missed, up to 1 MiB. On a new connection, later events follow as notifications.
   *
   * Without maxBytes the answer describes the process as of the last event in it. With it, the answer may say that the
   * process is closed although more output follows.
   */
  async catchUp(connection: Connection): Promise<void> {
    const params: protocol.ReadParams = { processId: this.id, afterSeq: this.tail, maxBytes: null, waitMs: 0 };
    this.take((await connection.call(protocol.MethodProcessRead, params)) as protocol.ReadResult);
  }

  /** @internal */
  fail(e: TetherError): void {
    this.failure ??= e;
    for (const signal of [this.exited, this.changed, this.room]) signal.send();
  }

  // Events for the program.

  [Symbol.asyncIterator](): AsyncIterator<Event> {
    return {
      next: async () => {
        const value = await this.next();
        return value ? { value, done: false } : { value: undefined, done: true };
      },
    };
  }

  /** The next event; undefined after Closed. */
  async next(): Promise<Event | undefined> {
    if (this.waiting) throw new Error(`the events of process ${this.id} are being read already`);
    this.reading = this.waiting = true;
    try {
      for (;;) {
        const event = this.events.shift();
        if (event) {
          this.deliver(event);
          return event;
        }
        if (this.closedSeq > 0 && this.delivered >= this.closedSeq) return undefined;
        if (this.failure) throw this.failure;
        if (this.highest > this.tail) {
          await this.fetch();
          continue;
        }
        this.idle = false; // it has caught up
        await this.changed.wait();
      }
    } finally {
      this.waiting = false;
    }
  }

  /** Asks the server for events that had no room here, or did not come. */
  private async fetch(): Promise<void> {
    try {
      await this.client.through((connection) => this.catchUp(connection), true);
    } catch (e) {
      if (!(e instanceof UnknownProcessError)) throw e;
      if (this.highest > this.tail) this.append({ kind: "gap", first: this.tail + 1, seq: this.highest }); // the server has removed it
    }
  }

  private deliver(event: Event): void {
    this.delivered = event.seq;
    this.bytes -= sizeOf(event);
    this.client.buffered -= sizeOf(event);
    this.unacked += sizeOf(event);
    if (this.bytes <= maxBuffered / 2) this.room.send();
    const final = event.kind === "closed";
    if (final || event.seq >= this.acked + ackEvents || this.unacked >= ackBytes) this.acknowledge();
    if (final) this.client.finished(this, this.delivered);
  }

  /** @internal */
  acknowledge(): void {
    if (this.delivered === 0) return;
    this.acked = this.delivered;
    this.unacked = 0;
    this.client.acknowledge(this.id, this.delivered);
  }

  /** The bytes of the output, of one stream or of all. Lost output is a GapError. */
  async *output(stream?: string): AsyncGenerator<Uint8Array> {
    for await (const e of this) {
      if (e.kind === "gap") throw new GapError(e.first, e.seq);
      if (e.kind === "output" && (stream === undefined || e.stream === stream)) yield e.data;
    }
  }

  /** Reads all output: that on standard output or the terminal, that on standard error, and the exit. */
  async communicate(): Promise<{ stdout: Uint8Array; stderr: Uint8Array; exit: Exit }> {
    const stdout: Uint8Array[] = [];
    const stderr: Uint8Array[] = [];
    for await (const e of this) {
      if (e.kind === "gap") throw new GapError(e.first, e.seq);
      if (e.kind === "output") (e.stream === protocol.StreamStderr ? stderr : stdout).push(e.data);
    }
    return { stdout: concat(stdout), stderr: concat(stderr), exit: await this.wait() };
  }

  /** Reads all output and drops it. */
  async discardOutput(): Promise<void> {
    while (await this.next());
  }

  /** Waits for the exit. It does not read: a command with much output needs a reader besides. */
  async wait(): Promise<Exit> {
    while (!this.exit) {
      if (this.failure) throw this.failure;
      await this.exited.wait();
    }
    return this.exit;
  }

  // Input and control.

  /** inOrder carries out requests about the input one after the other. */
  private inOrder<T>(work: () => Promise<T>): Promise<T> {
    const next = this.writing.then(work);
    this.writing = next.catch(() => {});
    return next;
  }

  /** Writes to standard input. The bytes arrive once and in order, also over lost connections. */
  write(data: string | Uint8Array): Promise<void> {
    const bytes = bytesOf(data);
    return this.inOrder(async () => {
      for (let at = 0; at < bytes.length; at += maxWrite) {
        const chunk = encode(bytes.subarray(at, at + maxWrite));
        const { status } = await this.client.call("process/write", { processId: this.id, chunk, writeId: this.client.newId() }, true);
        if (status === protocol.WriteStdinClosed) throw new StdinClosedError(`process ${this.id} takes no more input`);
        if (status !== protocol.WriteAccepted) {
          throw new ServerError(protocol.MethodProcessWrite, protocol.CodeInvalidRequest, `input was not accepted: ${status}`);
        }
      }
    });
  }

  /** Ends standard input after all earlier writes. On a terminal it types the end-of-file character. */
  async closeStdin(): Promise<void> {
    await this.inOrder(async () => {
      this.need("closeStdin");
      await this.client.call("tether/process/closeStdin", { processId: this.id, ...this.onceId() }, this.client.has("once"));
    });
  }

  /** Sends a signal, such as "SIGTERM". */
  async signal(name: protocol.SignalAny = "SIGINT"): Promise<void> {
    if (!this.client.has("signal")) {
      if (name !== "SIGINT") throw new UnsupportedError("the server knows only the signal SIGINT");
      await this.client.call("process/signal", { processId: this.id, signal: "interrupt" });
      return;
    }
    await this.client.call("tether/process/signal", { processId: this.id, signal: name, ...this.onceId() }, this.client.has("once"));
  }

  /** An id by which the server carries a request out once, however often it is sent. */
  private onceId(): { onceId?: string } {
    return this.client.has("once") ? { onceId: this.client.newId() } : {};
  }

  private need(feature: string): void {
    if (!this.client.has(feature)) throw new UnsupportedError(`the server does not have ${feature}`);
  }

  /** Changes the size of the terminal. */
  async resize(rows: number, cols: number): Promise<void> {
    this.need("resize");
    await this.client.call("tether/process/resize", { processId: this.id, rows, cols }, true);
  }

  /** Ends the process and all that it started. Returns whether it was still running. */
  async terminate(): Promise<boolean> {
    return (await this.client.call("process/terminate", { processId: this.id }, true)).running;
  }
}
