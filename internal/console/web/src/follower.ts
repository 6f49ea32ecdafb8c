// Follows one command: each event once and in order, on whatever connection there is. When more arrives than anybody can
// read, it stops the observation and looks at the newest page of the log some times a second: the command, its client and
// this page are all spared the rest, which stays in the log.
import { decodeBase64 } from "./base64.ts";
import { CallError } from "./connection.ts";
import type { LogEvent, ReadResult } from "./protocol.ts";

/** Above this many bytes in one window of time, the follower skims. */
const skimWindowMs = 250;
const skimBytes = 768 << 10;

/** A look at the newest page, while skimming. */
const lookMs = 60;
const lookBytes = 96 << 10; // more than the largest event, so that some output is always before an exit

/** So many pages in a row that continue the one before: the output is slow enough to be observed again. */
const calmLooks = 12;

/** One event of a log. */
export interface Event {
  seq: number;
  timeMs: number;
  kind: "output" | "exited" | "closed";
  stream: string;
  bytes: Uint8Array;
  exitCode?: number;
}

export interface Target {
  sessionId: string;
  processId: string;
}

export interface Sink {
  /** Events that continue the last ones. */
  events(events: Event[]): void;
  /** The events from here on do not continue the last ones: what is between was skipped, or the server no longer has it. */
  skip(firstSeq: number, lost: boolean): void;
  /** How the output is followed has changed. */
  mode(mode: "observing" | "skimming" | "ended"): void;
  /** The command cannot be followed. */
  failed(message: string): void;
  /** Bytes that are received and not shown yet. */
  backlog(): number;
}

type Call = <R>(method: string, params: object) => Promise<R>;

/** Reads the event of an answer or of a notification. */
export function readEvent(e: LogEvent, kind?: Event["kind"]): Event {
  const found = kind ?? (e.kind === "exited" || e.kind === "closed" ? e.kind : "output");
  return {
    seq: e.seq,
    timeMs: e.timeMs,
    kind: found,
    stream: e.stream ?? "stdout",
    bytes: e.chunk ? decodeBase64(e.chunk) : new Uint8Array(),
    exitCode: e.exitCode,
  };
}

const notes: Record<string, Event["kind"]> = {
  "tether/process/output": "output",
  "tether/process/exited": "exited",
  "tether/process/closed": "closed",
};

export class Follower {
  /** The last event that was delivered. */
  last: number;
  private observeId: number | undefined;
  private stopped = false;
  private ended = false;
  private skimming = false;
  private windowStart = 0;
  private windowBytes = 0;
  private attaching = false;

  constructor(
    private readonly call: Call,
    private readonly target: Target,
    afterSeq: number,
    private readonly sink: Sink,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.last = afterSeq;
  }

  /** Begins, and begins again on a new connection: after the last event that was delivered. */
  async attach(): Promise<void> {
    this.observeId = undefined;
    if (this.stopped || this.ended || this.skimming || this.attaching) return;
    this.attaching = true;
    try {
      const { observeId } = await this.call<{ observeId: number }>("tether/process/observe", {
        ...this.target,
        afterSeq: this.last,
      });
      if (this.stopped || this.skimming) this.unobserve(observeId);
      else {
        this.observeId = observeId;
        this.sink.mode("observing");
      }
    } catch (error) {
      if (error instanceof CallError) this.fail(error.message);
      // Any other error is that of the connection: the next one attaches again.
    } finally {
      this.attaching = false;
    }
  }

  /** Whether a notification with this number is about this observation. */
  owns(observeId: number): boolean {
    return observeId === this.observeId;
  }

  stop(): void {
    this.stopped = true;
    if (this.observeId !== undefined) this.unobserve(this.observeId);
    this.observeId = undefined;
  }

  /** Takes a notification of the connection. */
  note(method: string, params: any): void {
    if (params?.observeId !== this.observeId || this.observeId === undefined || this.stopped) return;
    if (method === "tether/process/evicted") {
      if (params.firstSeq > this.last + 1) {
        this.sink.skip(params.firstSeq, true);
        this.last = params.firstSeq - 1;
      }
      return;
    }
    const kind = notes[method];
    if (!kind) return;
    const event = readEvent(params, kind);
    this.deliver([event]);
    this.measure(event.bytes.length);
  }

  /** Delivers what follows the last event; what was delivered before is dropped. */
  private deliver(events: Event[]): void {
    const due = events.filter((event) => event.seq > this.last);
    if (due.length === 0) return;
    if (due[0]!.seq > this.last + 1) this.sink.skip(due[0]!.seq, true);
    this.last = due[due.length - 1]!.seq;
    this.sink.events(due);
    if (due[due.length - 1]!.kind === "closed") {
      this.ended = true;
      this.observeId = undefined;
      this.sink.mode("ended");
    }
  }

  /** Notices that there is more output than anybody can read. */
  private measure(bytes: number): void {
    const now = this.now();
    if (now - this.windowStart > skimWindowMs) {
      this.windowStart = now;
      this.windowBytes = 0;
    }
    this.windowBytes += bytes;
    if (!this.ended && !this.skimming && (this.windowBytes > skimBytes || this.sink.backlog() > skimBytes)) {
      void this.skim();
    }
  }

  private async skim(): Promise<void> {
    this.skimming = true;
    if (this.observeId !== undefined) this.unobserve(this.observeId);
    this.observeId = undefined;
    this.sink.mode("skimming");
    let calm = 0;
    while (!this.stopped && !this.ended && calm < calmLooks) {
      const started = this.now();
      try {
        if (await this.look()) calm++;
        else calm = 0;
      } catch (error) {
        if (error instanceof CallError) {
          this.fail(error.message);
          return;
        }
        calm = 0;
      }
      await new Promise((resolve) => setTimeout(resolve, Math.max(20, lookMs - (this.now() - started))));
    }
    this.skimming = false;
    this.windowBytes = 0;
    await this.attach();
  }

  /** Shows the newest page. It reports whether that page continues the last one. */
  private async look(): Promise<boolean> {
    if (this.sink.backlog() > skimBytes) return false; // a hidden page shows less than it would read
    const page = await this.call<ReadResult>("tether/process/read", {
      ...this.target,
      beforeSeq: Number.MAX_SAFE_INTEGER,
      maxBytes: lookBytes,
    });
    if (this.stopped) return false;
    const events = page.events.map((e) => readEvent(e)).filter((event) => event.seq > this.last);
    if (events.length === 0) return true;
    const continues = events[0]!.seq === this.last + 1;
    if (!continues) {
      this.sink.skip(events[0]!.seq, false);
      this.last = events[0]!.seq - 1;
    }
    this.deliver(events);
    return continues;
  }

  private fail(message: string): void {
    this.stopped = true;
    this.sink.failed(message);
  }

  private unobserve(observeId: number): void {
    this.call("tether/process/unobserve", { observeId }).catch(() => {}); // it ends with the connection, too
  }
}
