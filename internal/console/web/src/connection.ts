// One connection: JSON-RPC on a WebSocket. It is over when the socket is; session.ts replaces it.

/** An error that the server has answered. */
export class CallError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly reason: string | undefined,
  ) {
    super(message);
  }
}

/** The connection has ended before the answer came. */
export class LostError extends Error {}

/** A request that is unanswered for this long, while nothing at all arrives, is proof that the connection is dead. */
const patienceMs = 10_000;

interface Waiting {
  resolve: (result: any) => void;
  reject: (error: Error) => void;
  sentAt: number;
}

export class Connection {
  /** Resolves with the reason when the connection has ended. */
  readonly ended: Promise<string>;
  private waiting = new Map<number, Waiting>();
  private lastId = 0;
  private lastMessageAt = performance.now();
  private over: string | undefined;
  private end!: (reason: string) => void;
  private watch: ReturnType<typeof setInterval>;

  private constructor(
    private readonly socket: WebSocket,
    private readonly onNote: (method: string, params: any) => void,
  ) {
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
    socket.onmessage = (event) => this.receive(event.data);
    socket.onclose = (event) => this.close(event.reason || "the connection was closed");
    socket.onerror = () => this.close("the connection failed");
    this.watch = setInterval(() => this.check(), 1000);
  }

  /** Opens a connection. */
  static open(url: string, onNote: (method: string, params: any) => void): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(url);
      const timer = setTimeout(() => {
        socket.onclose = null;
        socket.close();
        reject(new LostError("the server does not answer"));
      }, patienceMs);
      socket.onopen = () => {
        clearTimeout(timer);
        resolve(new Connection(socket, onNote));
      };
      socket.onclose = () => {
        clearTimeout(timer);
        reject(new LostError("no connection to the server"));
      };
    });
  }

  /** Sends a request and resolves with its result. */
  call<R>(method: string, params: object): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.over !== undefined) {
        reject(new LostError(this.over));
        return;
      }
      const id = ++this.lastId;
      this.waiting.set(id, { resolve, reject, sentAt: performance.now() });
      this.socket.send(JSON.stringify({ id, method, params }));
    });
  }

  /** Sends a notification. */
  notify(method: string, params: object): void {
    if (this.over === undefined) this.socket.send(JSON.stringify({ method, params }));
  }

  close(reason: string): void {
    if (this.over !== undefined) return;
    this.over = reason;
    clearInterval(this.watch);
    this.socket.onmessage = this.socket.onclose = this.socket.onerror = null;
    this.socket.close();
    for (const { reject } of this.waiting.values()) reject(new LostError(reason));
    this.waiting.clear();
    this.end(reason);
  }

  private receive(data: unknown): void {
    this.lastMessageAt = performance.now();
    if (typeof data !== "string" || this.over !== undefined) return;
    const message = JSON.parse(data);
    if (message.method !== undefined) {
      // The server asks nothing of a console. A request would be refused like this.
      if (message.id !== undefined) {
        this.socket.send(JSON.stringify({ id: message.id, error: { code: -32601, message: "a console has no methods" } }));
        return;
      }
      this.onNote(message.method, message.params);
      return;
    }
    const waiting = this.waiting.get(message.id);
    if (!waiting) return;
    this.waiting.delete(message.id);
    if (message.error) {
      const { code, message: text, data: details } = message.error;
      waiting.reject(new CallError(code, text, details?.reason));
    } else waiting.resolve(message.result);
  }

  /** A browser does not tell a page about pings. So the answers to the page's own requests have to prove that the
   * connection is alive. */
  private check(): void {
    const now = performance.now();
    if (now - this.lastMessageAt < patienceMs) return;
    for (const { sentAt } of this.waiting.values()) {
      if (now - sentAt > patienceMs) {
        this.close("the server does not answer");
        return;
      }
    }
  }
}
