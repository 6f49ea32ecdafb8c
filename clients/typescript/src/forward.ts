// Local ports, under Node.js: each connection to one is forwarded to a target.

import type { Server, Socket } from "node:net";

import type { Client } from "./client.js";
import type { PortOptions, PortStream } from "./ports.js";
import { Process } from "./process.js";

export interface ForwardOptions extends PortOptions {
  /** where the client listens; any free port of 127.0.0.1 if absent */
  localPort?: number;
  localHost?: string;
  /** is called for each connection that has failed */
  onError?: (e: Error) => void;
}

/** A Forward listens on a local address and forwards each connection to a target. */
export class Forward {
  /** the local one */
  port = 0;
  private server!: Server;
  private readonly sockets = new Set<Socket>();

  /** @internal */
  constructor(
    private readonly client: Client,
    private readonly options: ForwardOptions,
  ) {}

  /** @internal */
  async listen(target: number | Process): Promise<Forward> {
    const net = await import("node:net");
    const { port, host } = target instanceof Process ? await this.client.ports.portOf(target) : { port: target, host: this.options.host };
    this.server = net.createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => void this.accepted(socket, port, { host }));
    await new Promise<void>((resolve, reject) => {
      this.server.once("error", reject);
      this.server.listen(this.options.localPort ?? 0, this.options.localHost ?? "127.0.0.1", () => {
        this.server.off("error", reject);
        resolve();
      });
    });
    this.server.on("error", (e) => this.options.onError?.(e));
    this.port = (this.server.address() as { port: number }).port;
    this.client.ports.forwards.add(this);
    return this;
  }

  /** Stops listening, and resets the connections. The end of the client does so, too. */
  async close(): Promise<void> {
    if (!this.client.ports.forwards.delete(this)) return;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const socket of this.sockets) socket.resetAndDestroy();
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private async accepted(socket: Socket, port: number, to: PortOptions): Promise<void> {
    this.sockets.add(socket);
    let stream: PortStream | undefined;
    let failure = "the local connection was closed";
    socket.once("close", () => {
      this.sockets.delete(socket);
      if (!socket.readableEnded || !socket.writableFinished) stream?.abort(failure);
    });
    socket.on("error", (e) => (failure = `the local connection has failed: ${e.message}`)); // close follows
    try {
      stream = await this.client.connectPort(port, to);
      if (socket.destroyed) stream.abort();
      send(socket, stream);
      await receive(stream, socket);
      await stream.closed();
    } catch (e) {
      if (!socket.destroyed) socket.resetAndDestroy();
      this.options.onError?.(e as Error);
    }
  }
}

/** send passes on what comes from the socket. */
function send(socket: Socket, stream: PortStream): void {
  // If writing fails, receive gets the bytes that came before, and then the same error.
  socket.on("data", (data) => {
    socket.pause();
    void stream.write(data).then(() => socket.resume()).catch(() => {});
  });
  socket.on("end", () => void stream.end());
  socket.resume();
}

/** receive passes on what comes from the target, until it ends. */
async function receive(stream: PortStream, socket: Socket): Promise<void> {
  for await (const data of stream) {
    // Only one block at a time: a reset would drop those that the kernel does not have.
    await new Promise((resolve) => socket.write(data, resolve));
  }
  socket.end();
}
