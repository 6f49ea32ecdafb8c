// A sandbox session of the AI SDK (package ai), with the commands and files of an executor:
//
//   const sandbox = sandboxSession(client, { workingDirectory: "/srv/project" });
//   await generateText({ model, tools: { bash: createBashTool() }, experimental_sandbox: sandbox, prompt });

import { concat } from "../bytes.js";
import type { Client } from "../client.js";
import { GapError, NotFoundError } from "../errors.js";
import type { Process } from "../process.js";
import * as protocol from "../protocol.js";
import { runShell, startShell, type ShellOptions } from "./shell.js";

export interface SessionOptions extends Omit<ShellOptions, "cwd"> {
  /** where commands run and relative paths begin; the server's directory if absent */
  workingDirectory?: string;
  /** what the model may be told about the executor */
  description?: string;
}

/** A command that is to run. */
export interface CommandOptions {
  command: string;
  workingDirectory?: string;
  env?: Record<string, string>;
  abortSignal?: AbortSignal;
}

/** A command that runs. As with a pipe, it waits when much of its output is not read. */
export interface SessionProcess {
  readonly stdout: ReadableStream<Uint8Array>;
  readonly stderr: ReadableStream<Uint8Array>;
  wait(): Promise<{ exitCode: number }>;
  kill(): Promise<void>;
}

interface FileOptions {
  path: string;
  abortSignal?: AbortSignal;
}

const maxUnread = 1 << 20; // bytes of a stream of a command; above, its other stream waits, too

/** sandboxSession is an Experimental_SandboxSession of the AI SDK. Commands run with /bin/sh, unless options.shell is another one. */
export function sandboxSession(client: Client, options: SessionOptions = {}) {
  const { workingDirectory, description, env, ...start } = options;
  const directory = workingDirectory ?? decodeURIComponent(new URL(client.info?.cwd ?? "file:///").pathname);
  const resolve = (path: string) => (path.startsWith("/") ? path : `${directory.replace(/\/+$/, "")}/${path}`);
  const shellOptions = (c: CommandOptions): ShellOptions => ({ ...start, cwd: resolve(c.workingDirectory ?? directory), env: { ...env, ...c.env } });

  const session = {
    description: description ?? `Commands run on a remote machine. Their working directory is ${directory}.`,

    async run(c: CommandOptions): Promise<{ exitCode: number; stdout: string; stderr: string }> {
      const { stdout, stderr, code } = await runShell(client, c.command, shellOptions(c), { signal: c.abortSignal });
      return { exitCode: code!, stdout, stderr };
    },

    async spawn(c: CommandOptions): Promise<SessionProcess> {
      c.abortSignal?.throwIfAborted();
      const process = await startShell(client, c.command, shellOptions(c));
      const kill = async () => void (await process.terminate());
      const aborted = () => void kill().catch(() => {});
      c.abortSignal?.addEventListener("abort", aborted, { once: true });
      if (c.abortSignal?.aborted) aborted(); // while it was started
      const [stdout, stderr] = split(process);
      return { stdout, stderr, kill, wait: async () => ({ exitCode: (await process.wait()).code }) };
    },

    /** null: there is no such file */
    async readFile(f: FileOptions): Promise<ReadableStream<Uint8Array> | null> {
      f.abortSignal?.throwIfAborted();
      const blocks = client.files.blocks(resolve(f.path));
      const first = await orNull(blocks.next());
      return first && streamOf(first, blocks, f.abortSignal);
    },

    async readBinaryFile(f: FileOptions): Promise<Uint8Array | null> {
      f.abortSignal?.throwIfAborted();
      return orNull(client.files.read(resolve(f.path)));
    },

    /** The lines from startLine to endLine, which are counted from 1, or all. */
    async readTextFile(f: FileOptions & { encoding?: string; startLine?: number; endLine?: number }): Promise<string | null> {
      const data = await session.readBinaryFile(f);
      if (!data) return null;
      const text = new TextDecoder(f.encoding ?? "utf-8").decode(data);
      if (f.startLine === undefined && f.endLine === undefined) return text;
      return text.split("\n").slice((f.startLine ?? 1) - 1, f.endLine).join("\n");
    },

    async writeFile(f: FileOptions & { content: ReadableStream<Uint8Array> }): Promise<void> {
      const pieces: Uint8Array[] = [];
      const reader = f.content.getReader();
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        f.abortSignal?.throwIfAborted();
        pieces.push(next.value);
      }
      await session.writeBinaryFile({ ...f, content: concat(pieces) });
    },

    /** Writes a file, and makes the directories above it that are missing. */
    async writeBinaryFile(f: FileOptions & { content: Uint8Array }): Promise<void> {
      f.abortSignal?.throwIfAborted();
      const path = resolve(f.path);
      await client.files.makeDirectory(path.slice(0, path.lastIndexOf("/")) || "/");
      await client.files.write(path, f.content);
    },

    async writeTextFile(f: FileOptions & { content: string; encoding?: string }): Promise<void> {
      if (f.encoding !== undefined && !/^utf-?8$/i.test(f.encoding)) throw new RangeError(`text is written in UTF-8, not in ${f.encoding}`);
      await session.writeBinaryFile({ ...f, content: new TextEncoder().encode(f.content) });
    },
  };
  return session;
}

async function orNull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (e) {
    if (e instanceof NotFoundError) return null;
    throw e;
  }
}

/** streamOf is what follows in an iterator, behind its first result. */
function streamOf(first: IteratorResult<Uint8Array>, blocks: AsyncGenerator<Uint8Array>, signal?: AbortSignal): ReadableStream<Uint8Array> {
  let next: Promise<IteratorResult<Uint8Array>> = Promise.resolve(first);
  return new ReadableStream({
    async pull(controller) {
      signal?.throwIfAborted();
      const { done, value } = await next;
      if (done) return controller.close();
      controller.enqueue(value);
      next = blocks.next();
      next.catch(() => {}); // the next pull says it
    },
    async cancel() {
      await blocks.return(undefined);
    },
  });
}

/** split makes two streams of the output of a process. */
function split(process: Process): [stdout: ReadableStream<Uint8Array>, stderr: ReadableStream<Uint8Array>] {
  const sinks = [0, 1].map(() => new TransformStream<Uint8Array, Uint8Array>({}, {}, new ByteLengthQueuingStrategy({ highWaterMark: maxUnread })));
  const writers = sinks.map((s) => s.writable.getWriter());
  // A stream that the program has cancelled takes no bytes, and the other one goes on.
  const passOn = async () => {
    for await (const event of process) {
      if (event.kind === "gap") throw new GapError(event.first, event.seq);
      if (event.kind !== "output") continue;
      const writer = writers[event.stream === protocol.StreamStderr ? 1 : 0]!;
      await writer.ready.catch(() => {});
      writer.write(event.data).catch(() => {});
    }
  };
  passOn().then(
    () => writers.forEach((w) => w.close().catch(() => {})),
    (e: unknown) => writers.forEach((w) => w.abort(e).catch(() => {})),
  );
  for (const w of writers) w.closed.catch(() => {});
  return [sinks[0]!.readable, sinks[1]!.readable];
}
