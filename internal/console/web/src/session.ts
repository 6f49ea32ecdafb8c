// The page's session: it survives its connections, as the one of the Go client does. One loop dials, resumes and gives up;
// all calls wait for it.
import { CallError, Connection, LostError } from "./connection.ts";
import type { InitializeResult } from "./protocol.ts";

export type Phase = "connecting" | "connected" | "recovering" | "signedOut" | "stopped";

export interface Status {
  phase: Phase;
  reason: string; // why there is no connection
  attempt: number;
  sinceMs: number;
}

/** How long the server keeps the session without a connection. */
const ttlMs = 120_000;

/** Pauses before the attempts; the last one repeats. */
const pausesMs = [0, 100, 200, 500, 1000, 2000, 4000];

/** How long a call waits for a connection before it fails. */
const callPatienceMs = 30_000;

/** What the session needs of the world, so that a test can give it another one. */
export interface World {
  open(onNote: (method: string, params: any) => void): Promise<Connection>;
  /** Whether the server still lets this page in. Asked when a connection could not be opened. */
  admitted(): Promise<boolean>;
}

export class Session {
  status: Status = { phase: "connecting", reason: "", attempt: 0, sinceMs: Date.now() };
  info: InitializeResult | undefined;
  onStatus: (status: Status) => void = () => {};
  onNote: (method: string, params: any) => void = () => {};
  /** A connection is there. fresh: the server has a new session, and knows nothing of the old one. */
  onConnected: (fresh: boolean) => void = () => {};
  private connection: Connection | undefined;
  private waiters: ((connection: Connection) => void)[] = [];
  private skipPause: () => void = () => {};

  constructor(private readonly world: World) {}

  get readOnly(): boolean {
    return this.info?.tether.readOnly === true;
  }

  has(feature: string): boolean {
    return this.info?.tether.features.includes(feature) === true;
  }

  /** Runs until the page is closed or signed out. */
  async run(): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      const pause = pausesMs[Math.min(attempt, pausesMs.length - 1)]!;
      if (pause > 0) await this.sleep(pause * (0.8 + 0.4 * Math.random()));
      try {
        const connection = await this.world.open((method, params) => this.onNote(method, params));
        const fresh = await this.shakeHands(connection);
        attempt = -1;
        this.connection = connection;
        this.change("connected", "", 0);
        this.onConnected(fresh);
        for (const waiter of this.waiters.splice(0)) waiter(connection);
        const reason = await connection.ended;
        this.connection = undefined;
        this.change("recovering", reason, 0);
      } catch (error) {
        if (error instanceof LostError && !(await this.world.admitted())) {
          this.change("signedOut", "the server does not know this browser", attempt + 1);
          return;
        }
        const phase = this.info ? "recovering" : "connecting";
        this.change(phase, error instanceof Error ? error.message : String(error), attempt + 1);
      }
    }
  }

  /** Tries again now: the browser says that there is a network again, or the person asks for it. */
  retryNow(): void {
    this.skipPause();
  }

  /** Calls a method. If the connection ends before the answer, an idempotent call is sent again on the next one. */
  async call<R>(method: string, params: object, idempotent = true): Promise<R> {
    const deadline = Date.now() + callPatienceMs;
    for (;;) {
      const connection = this.connection ?? (await this.next(deadline));
      try {
        return await connection.call<R>(method, params);
      } catch (error) {
        if (!(error instanceof LostError) || !idempotent || Date.now() > deadline) throw error;
        if (this.connection === connection) await connection.ended;
      }
    }
  }

  /** Calls a method if there is a connection, and does not wait for one. */
  async callNow<R>(method: string, params: object): Promise<R> {
    if (!this.connection) throw new LostError("no connection");
    return this.connection.call<R>(method, params);
  }

  private next(deadline: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiters = this.waiters.filter((waiter) => waiter !== settle);
        reject(new LostError("no connection to the server"));
      }, deadline - Date.now());
      const settle = (connection: Connection) => {
        clearTimeout(timer);
        resolve(connection);
      };
      this.waiters.push(settle);
    });
  }

  /** Resumes the session, or opens a new one if the server has none with this id. */
  private async shakeHands(connection: Connection): Promise<boolean> {
    const params = { clientName: "tether console", tether: { ttlMs, goodbye: false } };
    const old = this.info?.sessionId;
    try {
      if (old) {
        try {
          this.info = await connection.call<InitializeResult>("initialize", { ...params, resumeSessionId: old });
          connection.notify("initialized", {});
          return false;
        } catch (error) {
          // -32010: attached to a connection that looks alive. The next attempt takes it over.
          if (!(error instanceof CallError) || error.code === -32010) throw error;
          if (/attached/.test(error.message)) throw error;
        }
      }
      this.info = await connection.call<InitializeResult>("initialize", params);
      connection.notify("initialized", {});
      return true;
    } catch (error) {
      connection.close("the handshake failed");
      throw error;
    }
  }

  private change(phase: Phase, reason: string, attempt: number): void {
    const sinceMs = this.status.phase === phase ? this.status.sinceMs : Date.now();
    this.status = { phase, reason, attempt, sinceMs };
    this.onStatus(this.status);
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.skipPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
