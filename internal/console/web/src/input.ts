// What a person types, as writes that take effect once each and in order, whatever happens to the connection.
import { encodeBase64 } from "./base64.ts";
import { CallError } from "./connection.ts";

/** Bytes that may wait: more is refused, so that a paste of gigabytes cannot fill the memory. */
const maxWaiting = 1 << 20;

/** Bytes of one write. */
const maxWrite = 64 << 10;

type Call = <R>(method: string, params: object) => Promise<R>;

/** A name that no other page chooses. */
export function randomId(): string {
  return crypto.getRandomValues(new Uint32Array(3)).join("-"); // randomUUID exists only on pages with TLS
}

export class Input {
  private waiting: Uint8Array[] = [];
  private bytes = 0;
  private sending = false;
  private count = 0;
  private readonly prefix = randomId();

  constructor(
    private readonly call: Call,
    private readonly target: { sessionId: string; processId: string },
    private readonly onError: (message: string) => void,
  ) {}

  /** Queues input. It returns false if there is too much of it. */
  write(bytes: Uint8Array): boolean {
    if (this.bytes + bytes.length > maxWaiting) return false;
    this.waiting.push(bytes);
    this.bytes += bytes.length;
    void this.send();
    return true;
  }

  private async send(): Promise<void> {
    if (this.sending) return;
    this.sending = true;
    try {
      while (this.waiting.length > 0) {
        const chunk = this.take();
        // The write id makes it safe to send the write again after a lost connection.
        const params = { ...this.target, chunk: encodeBase64(chunk), writeId: `${this.prefix}-${++this.count}` };
        const { status } = await this.call<{ status: string }>("tether/process/write", params);
        if (status === "stdinClosed") throw new Error("the command takes no more input");
        if (status === "unknownProcess") throw new Error("the command is gone");
      }
    } catch (error) {
      this.waiting = [];
      this.bytes = 0;
      this.onError(error instanceof CallError || error instanceof Error ? error.message : String(error));
    } finally {
      this.sending = false;
    }
  }

  private take(): Uint8Array {
    const parts: Uint8Array[] = [];
    let size = 0;
    while (this.waiting.length > 0 && size < maxWrite) {
      const first = this.waiting[0]!;
      const room = maxWrite - size;
      if (first.length > room) {
        parts.push(first.subarray(0, room));
        this.waiting[0] = first.subarray(room);
        size += room;
      } else {
        parts.push(first);
        this.waiting.shift();
        size += first.length;
      }
    }
    this.bytes -= size;
    const whole = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}
