// Shell commands as models want them: text of bounded length, and an end in bounded time.

import type { Client, StartOptions } from "../client.js";
import { GapError } from "../errors.js";
import * as protocol from "../protocol.js";

/** maxOutput is how many bytes of a stream are kept if a model names no limit: half of them from its beginning, half from its end. */
const maxOutput = 1 << 20;

export interface ShellOptions extends StartOptions {
  /** the program that a command is given to, with its arguments before the command; /bin/sh -c if absent */
  shell?: string[];
}

export interface Ran {
  stdout: string;
  stderr: string;
  /** undefined: the time of the command was over */
  code?: number;
}

/** The beginning and the end of an output. */
class Kept {
  private readonly pieces: Uint8Array[] = [];
  private readonly tail: Uint8Array[] = [];
  private room: number;
  private tailSize = 0;
  private dropped = 0;

  constructor(private readonly half: number) {
    this.room = half;
  }

  add(data: Uint8Array): void {
    const first = data.subarray(0, this.room);
    this.room -= first.length;
    if (first.length > 0) this.pieces.push(first);
    const rest = data.subarray(first.length);
    if (rest.length === 0) return;
    this.tail.push(rest);
    this.tailSize += rest.length;
    while (this.tailSize > this.half) {
      const over = Math.min(this.tailSize - this.half, this.tail[0]!.length);
      this.tail[0] = this.tail[0]!.subarray(over);
      if (this.tail[0].length === 0) this.tail.shift();
      this.tailSize -= over;
      this.dropped += over;
    }
  }

  text(): string {
    const decoder = new TextDecoder();
    const read = (pieces: Uint8Array[], more: boolean) => pieces.map((p) => decoder.decode(p, { stream: true })).join("") + (more ? "" : decoder.decode());
    if (this.dropped === 0) return read(this.pieces, true) + read(this.tail, false);
    return `${read(this.pieces, false)}\n[${this.dropped} bytes were left out]\n${read(this.tail, false)}`;
  }
}

/** Starts a command of a shell. */
export function startShell(client: Client, command: string, options: ShellOptions) {
  const { shell, ...start } = options;
  return client.start([...(shell ?? ["/bin/sh", "-c"]), command], start);
}

/** Runs a command. After timeoutMs, and when the signal is aborted, it is terminated; an abort rejects the promise at once. */
export async function runShell(
  client: Client,
  command: string,
  options: ShellOptions,
  limits: { timeoutMs?: number; maxOutput?: number; signal?: AbortSignal },
): Promise<Ran> {
  const { timeoutMs, signal } = limits;
  signal?.throwIfAborted();
  const process = await startShell(client, command, options);
  const end = () => void process.terminate().catch(() => {});
  let late = false;
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => (stop = () => reject(signal!.reason)));
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => ((late = true), end()), timeoutMs);
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop(); // while it was started
  const half = Math.max(1, Math.floor((limits.maxOutput || maxOutput) / 2));
  const [stdout, stderr] = [new Kept(half), new Kept(half)];
  const read = async () => {
    for await (const event of process) {
      if (event.kind === "gap") throw new GapError(event.first, event.seq);
      if (event.kind === "exit") clearTimeout(timer);
      if (event.kind === "output") (event.stream === protocol.StreamStderr ? stderr : stdout).add(event.data);
    }
    return process.wait();
  };
  try {
    const { code } = await Promise.race([read(), aborted]);
    return { stdout: stdout.text(), stderr: stderr.text(), ...(late ? {} : { code }) };
  } catch (e) {
    end(); // a command that is not waited for has no purpose
    throw e;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}
