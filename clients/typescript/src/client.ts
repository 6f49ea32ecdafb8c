// The client: a session with a server, which survives its connections.

import { Signal } from "./bytes.js";
import { Connection } from "./connection.js";
import {
  AmbiguousError,
  ClosedError,
  ConnectError,
  ConnectionLost,
  ProtocolError,
  RecoveryTimeoutError,
  ServerError,
  ServerStoppedError,
  SessionLostError,
  TakenOverError,
  TetherError,
  UnknownProcessError,
  UnsupportedError,
} from "./errors.js";
import { Files } from "./files.js";
import { Forward, type ForwardOptions } from "./forward.js";
import { Ports, type PortOptions, type PortStream } from "./ports.js";
import { Process, type Exit } from "./process.js";
import * as protocol from "./protocol.js";
import { openSocket } from "./socket.js";

const initializeTimeoutMs = 10_000;
const referenceTtlMs = 30_000; // how long a server without tether's additions keeps a session without a connection
const parallelCatchUp = 8; // processes that are caught up with at the same time
export const backOffMs = [0, 50, 100, 200, 400, 800, 1000]; // before the attempts to connect again; the last one stays
const attachedPauseMs = 200; // the longest pause while another connection has the session
const jitter = 0.25;
const startingPauseMs = 50; // between questions about a process that is being started
const startingLimitMs = 10_000;
const maxBuffered = 64 << 20; // bytes of output of all processes that wait for their readers
const maxFinalAcks = 256;
const refusals = [400, 401, 403, 404]; // status codes of an upgrade after which the client tries once more only

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** within fails with an error if work takes too long. */
async function within<T>(ms: number, work: Promise<T>, late: () => TetherError): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(late()), ms)));
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

export interface Options {
  /** of this client, for lists */
  name?: string;
  /** a bearer token; not in browsers */
  token?: string;
  /** asks the server to keep the session so long without a connection */
  ttlMs?: number;
  /** names the session in lists */
  label?: string;
  /** after how long without a sign of the server the connection counts as lost; 20 s if absent */
  silenceMs?: number;
  /** decides about hosts that no rule of a command's network decides about; absent: they are denied */
  networkPolicy?: (processId: string, question: protocol.NetworkQuestion) => Promise<boolean> | boolean;
}

export interface StartOptions extends Partial<Omit<protocol.StartParams, "argv" | "size" | "pipeStdin">> {
  /** rows and columns of the terminal */
  size?: [number, number];
  /** keeps standard input open for write */
  stdin?: boolean;
}

/** Opens a session with the server at ws://, wss:// or, under Node, unix://. */
export async function connect(url: string, options: Options = {}): Promise<Client> {
  const client = new Client(url, options);
  await client.open();
  return client;
}

/**
 * A Client is a session with a server. When the connection is lost, it connects again by itself, catches up with the output of
 * each process, and repeats the requests that are safe to repeat; calls made meanwhile wait.
 */
export class Client {
  /** a secret: whoever has it can resume the session */
  sessionId = "";
  /** names the session in lists */
  publicId = "";
  info?: protocol.EnvironmentInfo;
  readonly files = new Files(this);
  /** @internal */
  readonly ports = new Ports(this);
  /** @internal bytes of output that wait for readers */
  buffered = 0;

  private grantedMs = referenceTtlMs;
  private features = new Set<string>();
  private readonly processes = new Map<string, Process>();
  private readonly finalAcks = new Map<string, number>(); // of processes that are over; they are repeated on the next connection
  private readonly ids = crypto.randomUUID().slice(0, 8);
  private lastId = 0;
  private connection?: Connection;
  private readonly changed = new Signal(); // a connection, or the failure
  private failure?: TetherError;

  constructor(
    readonly url: string,
    private readonly options: Options = {},
  ) {}

  /** Reports whether the server has announced a feature. */
  has(feature: string): boolean {
    return this.features.has(feature);
  }

  /** An id that the session has not used. */
  newId(): string {
    return `${this.ids}-${++this.lastId}`;
  }

  // Connections.

  /** @internal */
  async open(): Promise<void> {
    this.install(await this.attempt(null));
    void this.keep();
  }

  /** Connects and opens the session, or resumes it. */
  private async attempt(sessionId: string | null): Promise<Connection> {
    const socket = await openSocket(this.url, this.options.token);
    const connection: Connection = new Connection(
      socket,
      { notified: (method, params) => this.notified(connection, method, params), asked: (method, params) => this.asked(method, params) },
      this.options.silenceMs ?? 20_000,
    );
    try {
      const late = () => new ConnectError(`the server did not answer initialize within ${initializeTimeoutMs / 1000} s`);
      await within(initializeTimeoutMs, this.initialize(connection, sessionId), late);
      return connection;
    } catch (e) {
      connection.close();
      throw e;
    }
  }

  private async initialize(connection: Connection, sessionId: string | null): Promise<void> {
    const params: protocol.InitializeParams = {
      clientName: this.options.name ?? "@tetherexec/client",
      resumeSessionId: sessionId,
      tether: { ttlMs: this.options.ttlMs ?? null, acks: true, goodbye: true, label: this.options.label },
    };
    const result = (await connection.call(protocol.MethodInitialize, params)) as protocol.InitializeResult;
    if (sessionId !== null && result.sessionId !== sessionId) throw new ProtocolError("the server has resumed another session");
    this.sessionId = result.sessionId;
    this.info = result.environmentInfo;
    const tether = result.tether as protocol.TetherInfo | undefined; // other servers have none
    this.publicId = tether?.publicId ?? "";
    this.features = new Set(tether?.features);
    this.grantedMs = tether?.ttlMs ?? referenceTtlMs;
    connection.notify(protocol.MethodInitialized, {});
  }

  private install(connection: Connection): void {
    this.connection = connection;
    for (const [id, seq] of this.finalAcks) this.acknowledge(id, seq);
    for (const process of this.processes.values()) process.acknowledge();
    this.changed.send();
  }

  /** Replaces each connection that ends, until the session is lost or the client is closed. */
  private async keep(): Promise<void> {
    try {
      while (!this.failure) {
        const connection = this.connection!;
        await connection.ended;
        if (this.failure) return;
        this.connection = undefined;
        this.ports.connectionLost();
        const next = await this.recover(connection.cause!);
        if (this.failure) next.close();
        else this.install(next);
      }
    } catch (e) {
      this.fail(e instanceof TetherError ? e : new SessionLostError(`the client has failed: ${e}`));
    }
  }

  private async recover(lost: TetherError): Promise<Connection> {
    if (lost instanceof TakenOverError || lost instanceof ServerStoppedError) throw lost;
    // Both ends start their clocks separately.
    const limitMs = this.grantedMs - Math.min(this.grantedMs / 6, 30_000);
    const deadline = Date.now() + limitMs;
    let last: unknown;
    let refused = 0;
    const late = () =>
      new RecoveryTimeoutError(`${lost.message}; the server did not come back within ${limitMs / 1000} s` + (last ? `; last attempt: ${last}` : ""));
    for (let failed = 1; ; failed++) {
      if (this.failure) throw this.failure;
      const resuming = this.resume();
      try {
        return await within(Math.max(deadline - Date.now(), 0), resuming, late);
      } catch (e) {
        if (e instanceof RecoveryTimeoutError) resuming.then((late) => late.close()).catch(() => {});
        if (!(e instanceof ConnectError || e instanceof ConnectionLost || e instanceof ServerError)) throw e;
        last = e;
      }
      if (last instanceof ConnectError && refusals.includes(last.status)) refused++;
      if (refused > 1 || (last instanceof ServerError && !worthRetrying(last))) {
        throw new SessionLostError(`${lost.message}; the session could not be resumed: ${(last as Error).message}`, { cause: last });
      }
      await sleep(Math.min(pause(failed, last), Math.max(deadline - Date.now(), 0)));
      if (Date.now() >= deadline) throw late();
    }
  }

  /** One attempt: connect, resume the session, catch up with all processes. */
  private async resume(): Promise<Connection> {
    const connection = await this.attempt(this.sessionId);
    try {
      const due = [...this.processes.values()].filter((p) => p.started);
      const workers = Array.from({ length: parallelCatchUp }, async () => {
        for (let p = due.shift(); p; p = due.shift()) await this.catchUp(p, connection);
      });
      await Promise.all(workers);
      if (connection.cause) throw new ConnectionLost(connection.cause.message, true);
      return connection;
    } catch (e) {
      connection.close();
      throw e;
    }
  }

  private async catchUp(process: Process, connection: Connection): Promise<void> {
    try {
      await process.catchUp(connection);
    } catch (e) {
      if (e instanceof ConnectionLost) throw e;
      this.giveUp(process, new TetherError(`process ${process.id} could not be continued: ${e}`), !(e instanceof UnknownProcessError));
    }
  }

  /** Fails a process that cannot be continued, and ends it on the server if that knows it. */
  private giveUp(process: Process, e: TetherError, known: boolean): void {
    this.processes.delete(process.id);
    process.fail(e);
    if (known) this.call("process/terminate", { processId: process.id }, true).catch(() => {});
  }

  private fail(e: TetherError): void {
    this.failure ??= e;
    for (const process of this.processes.values()) process.fail(this.failure);
    this.processes.clear();
    this.ports.fail(this.failure);
    this.changed.send();
  }

  /**
   * Ends the session with all its processes, and the connection. With keepSession the session stays until its time is over, and
   * another client can resume it.
   */
  async close(options: { keepSession?: boolean } = {}): Promise<void> {
    if (!this.failure && !options.keepSession && this.has("endSession")) {
      const ending = this.call("tether/session/end", { sessionId: null });
      await within(initializeTimeoutMs, ending, () => new TetherError("late")).catch(() => {});
    }
    this.fail(new ClosedError());
    this.connection?.close();
    await Promise.all([...this.ports.forwards].map((forward) => forward.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // Requests.

  /** @internal The connection, once there is one. */
  async ready(): Promise<Connection> {
    for (;;) {
      if (this.failure) throw this.failure;
      if (this.connection && !this.connection.cause) return this.connection;
      if (this.connection) await sleep(0); // keep has not seen yet that it has ended
      else await this.changed.wait();
    }
  }

  /**
   * Calls work with the connection, and again with the next one if it is lost meanwhile. Without repeat, that is done only if the
   * request surely was not carried out; otherwise the error is AmbiguousError.
   */
  async through<T>(work: (connection: Connection) => Promise<T>, repeat: boolean): Promise<T> {
    for (;;) {
      const connection = await this.ready();
      try {
        return await work(connection);
      } catch (e) {
        if (!(e instanceof ConnectionLost)) throw e;
        if (e.sent && !repeat) throw new AmbiguousError(`it is not known whether the request was carried out: ${e.message}`, { cause: e });
      }
    }
  }

  /**
   * Sends a request and returns its result. repeat says that it has the same effect once or twice: if the answer is lost, it is sent
   * again, and the error is AmbiguousError otherwise.
   */
  call<M extends keyof protocol.ExecRequests>(
    method: M,
    params: protocol.ExecRequests[M]["params"],
    repeat = false,
  ): Promise<protocol.ExecRequests[M]["result"]> {
    return this.through((connection) => connection.call(method, params) as Promise<protocol.ExecRequests[M]["result"]>, repeat);
  }

  private notified(connection: Connection, method: string, params: unknown): void {
    if (method === protocol.NoteProcessOutput || method === protocol.NoteProcessExited || method === protocol.NoteProcessClosed) {
      this.processes.get((params as { processId: string }).processId)?.notified(method, params, connection);
    } else if (method === protocol.NotePortData || method === protocol.NotePortAcked || method === protocol.NotePortFailed) {
      this.ports.notified(method, params);
    }
  }

  /** Answers a request of the server. */
  private async asked(method: string, params: unknown): Promise<unknown> {
    if (method !== protocol.MethodNetworkPolicyRequest) return undefined;
    const question = params as protocol.NetworkPolicyParams;
    let allowed = false;
    try {
      allowed = (await this.options.networkPolicy?.(question.processId, question.request)) ?? false;
    } catch {
      // what cannot be decided is denied
    }
    const decision: protocol.NetworkAnswer = allowed ? { type: "allow" } : { type: "deny", reason: "not_allowed" };
    return { decision };
  }

  /** @internal */
  acknowledge(processId: string, seq: number): void {
    if (this.has("ack")) this.connection?.notify(protocol.MethodAck, { processId, seq });
  }

  /** @internal All events of a process were delivered. */
  finished(process: Process, seq: number): void {
    this.processes.delete(process.id);
    this.finalAcks.set(process.id, seq);
    // The server forgets a process 30 s after its last acknowledgement.
    for (const id of this.finalAcks.keys()) {
      if (this.finalAcks.size <= maxFinalAcks) break;
      this.finalAcks.delete(id);
    }
  }

  /** @internal */
  hasRoom(size: number): boolean {
    return this.buffered + size <= maxBuffered;
  }

  // Processes.

  /**
   * Starts a command, once, also if the connection is lost meanwhile. env is added to the environment that envPolicy makes of the
   * server's own; without a policy commands inherit everything. Other options are members of StartParams.
   */
  async start(argv: string[], options: StartOptions = {}): Promise<Process> {
    const { size, stdin, ...rest } = options;
    const more = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as typeof rest;
    const params: protocol.StartParams = {
      processId: this.newId(),
      argv,
      cwd: this.info?.cwd ?? "/",
      env: {},
      envPolicy: { inherit: "all", ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] },
      tty: false,
      pipeStdin: stdin ?? false,
      ...more,
    };
    if (size) params.size = { rows: size[0], cols: size[1] };
    if (this.processes.has(params.processId)) throw new RangeError(`there is a process ${params.processId} already`);
    const process = new Process(this, params.processId);
    this.processes.set(process.id, process);
    try {
      await this.startOnce(process, params);
    } catch (e) {
      this.processes.delete(process.id);
      throw e;
    }
    return process;
  }

  private async startOnce(process: Process, params: protocol.StartParams): Promise<void> {
    try {
      await this.through((connection) => this.startOn(connection, process, params), false);
    } catch (e) {
      if (!(e instanceof AmbiguousError)) throw e;
      await this.through((connection) => this.startAgain(connection, process, params), true);
    }
  }

  private async startOn(connection: Connection, process: Process, params: protocol.StartParams): Promise<void> {
    const result = (await connection.call(protocol.MethodProcessStart, params)) as protocol.StartResult;
    process.sandboxType = result.sandboxType ?? "";
    process.limits = result.tetherLimits;
    process.started = true;
    // The next connection may have been made without it.
    if (connection.cause) throw new ConnectionLost(connection.cause.message, true);
  }

  /** Completes a start whose answer was lost. At most one process is started, because its id is used once. */
  private async startAgain(connection: Connection, process: Process, params: protocol.StartParams): Promise<void> {
    if (this.has("retryStart")) {
      await this.startOn(connection, process, { ...params, retry: true });
      await process.catchUp(connection);
      return;
    }
    try {
      await this.adopt(connection, process);
    } catch (e) {
      if (!(e instanceof UnknownProcessError)) throw e;
      try {
        await this.startOn(connection, process, params);
      } catch (e) {
        if (!(e instanceof ServerError) || !e.message.includes("already exists")) throw e;
        await this.adopt(connection, process); // the first start arrived late
      }
    }
  }

  /** Catches up with a process whose start was not answered. */
  private async adopt(connection: Connection, process: Process): Promise<void> {
    const deadline = Date.now() + startingLimitMs;
    for (;;) {
      try {
        await process.catchUp(connection);
        process.started = true;
        return;
      } catch (e) {
        if (!(e instanceof ServerError) || !e.message.includes("is starting") || Date.now() > deadline) throw e;
      }
      await sleep(startingPauseMs);
    }
  }

  /** Starts a command, writes input to it, and returns its output, its errors and its exit. */
  async run(argv: string[], options: StartOptions & { input?: string | Uint8Array } = {}): Promise<{ stdout: Uint8Array; stderr: Uint8Array; exit: Exit }> {
    const { input, ...start } = options;
    if (input !== undefined && !this.has("closeStdin")) {
      throw new UnsupportedError("the server cannot end the input of a command, which would wait for more");
    }
    const process = await this.start(argv, { ...start, stdin: input !== undefined });
    if (input !== undefined) {
      // A command may end before it has read all of its input.
      void process.write(input).then(() => process.closeStdin()).catch(() => {});
    }
    return process.communicate();
  }

  // Ports.

  /** Connects to a port that the executor reaches. */
  connectPort(port: number, options: PortOptions = {}): Promise<PortStream> {
    return this.ports.connect(port, options);
  }

  /**
   * Listens on a local port, and forwards each connection to the target: a port, or the only one on which a process listens. Not in
   * browsers, where connectPort is all there is.
   */
  forward(target: number | Process, options: ForwardOptions = {}): Promise<Forward> {
    return new Forward(this, options).listen(target);
  }
}

function worthRetrying(e: ServerError): boolean {
  return e.code === protocol.CodeSessionAttached || e.message === "JSON-RPC transport closed";
}

/** pause is how long to wait before the next attempt. */
export function pause(failed: number, e: unknown): number {
  let ms = backOffMs[Math.min(failed, backOffMs.length - 1)]!;
  if (e instanceof ServerError && e.code === protocol.CodeSessionAttached) ms = Math.min(ms, attachedPauseMs);
  return ms * (1 - jitter + 2 * jitter * Math.random());
}
