// The adapters behind stand-ins for the interfaces of the frameworks, which docs/clients.md names. Their commands run on the server at
// TETHER_URL.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { connect, type Client } from "../index.js";
import { sandboxSession } from "./ai-sdk.js";
import { tetherShell } from "./openai-agents.js";

const url = process.env.TETHER_URL;

/** Experimental_SandboxSession of the AI SDK. */
type SandboxSession = {
  readonly description: string;
  readonly readFile: (o: { path: string; abortSignal?: AbortSignal }) => PromiseLike<ReadableStream<Uint8Array> | null>;
  readonly readBinaryFile: (o: { path: string; abortSignal?: AbortSignal }) => PromiseLike<Uint8Array | null>;
  readonly readTextFile: (o: {
    path: string;
    encoding?: string;
    startLine?: number;
    endLine?: number;
    abortSignal?: AbortSignal;
  }) => PromiseLike<string | null>;
  readonly writeFile: (o: { path: string; content: ReadableStream<Uint8Array>; abortSignal?: AbortSignal }) => PromiseLike<void>;
  readonly writeBinaryFile: (o: { path: string; content: Uint8Array; abortSignal?: AbortSignal }) => PromiseLike<void>;
  readonly writeTextFile: (o: { path: string; content: string; encoding?: string; abortSignal?: AbortSignal }) => PromiseLike<void>;
  readonly spawn: (o: SandboxCommand) => PromiseLike<{
    readonly pid?: number;
    readonly stdout: ReadableStream<Uint8Array>;
    readonly stderr: ReadableStream<Uint8Array>;
    wait(): PromiseLike<{ exitCode: number }>;
    kill(): PromiseLike<void>;
  }>;
  readonly run: (o: SandboxCommand) => PromiseLike<{ exitCode: number; stdout: string; stderr: string }>;
};
type SandboxCommand = { command: string; workingDirectory?: string; env?: Record<string, string>; abortSignal?: AbortSignal };

/** A tool of the AI SDK that uses the sandbox of its call. */
const bash = {
  execute: ({ command }: { command: string }, o: { experimental_sandbox?: SandboxSession; abortSignal?: AbortSignal }) =>
    o.experimental_sandbox!.run({ command, abortSignal: o.abortSignal }),
};

/** Shell of the OpenAI Agents SDK. */
interface Shell {
  run(action: { commands: string[]; timeoutMs?: number; maxOutputLength?: number }): Promise<{
    output: { stdout: string; stderr: string; outcome: { type: "timeout" } | { type: "exit"; exitCode: number | null } }[];
    maxOutputLength?: number;
    providerData?: Record<string, unknown>;
  }>;
}

/** scene is a test with a client and a directory. */
function scene(name: string, play: (client: Client, directory: string) => Promise<void>): void {
  test(name, { skip: url ? false : "there is no server: TETHER_URL is not set" }, async () => {
    const client = await connect(url!);
    const directory = await mkdtemp(join(tmpdir(), "adapters-"));
    try {
      await play(client, directory);
    } finally {
      await client.close();
      await rm(directory, { recursive: true });
    }
  });
}

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new TextDecoder().decode(await new Response(stream).arrayBuffer());
}

scene("AI SDK: commands", async (client, directory) => {
  const sandbox: SandboxSession = sandboxSession(client, { workingDirectory: directory, env: { A: "1", B: "1" } });
  assert.match(sandbox.description, new RegExp(directory));
  assert.deepEqual(await bash.execute({ command: "pwd; echo wrong >&2; exit 3" }, { experimental_sandbox: sandbox }), {
    exitCode: 3,
    stdout: `${directory}\n`,
    stderr: "wrong\n",
  });
  const { stdout } = await sandbox.run({ command: "pwd; echo $A$B", workingDirectory: "/", env: { B: "2" } });
  assert.equal(stdout, "/\n12\n");
});

scene("AI SDK: an abort ends the command", async (client, directory) => {
  const sandbox: SandboxSession = sandboxSession(client, { workingDirectory: directory });
  const abort = new AbortController();
  const running = sandbox.run({ command: "mkfifo gate; echo ready; exec sleep 1000", abortSignal: abort.signal });
  while (!(await client.files.list(directory)).some((e) => e.fileName === "gate"));
  abort.abort(new Error("enough"));
  await assert.rejects(Promise.resolve(running), /enough/);
  await assert.rejects(Promise.resolve(sandbox.run({ command: "true", abortSignal: abort.signal })), /enough/);
});

scene("AI SDK: a process that runs", async (client) => {
  const sandbox: SandboxSession = sandboxSession(client);
  const short = await sandbox.spawn({ command: "seq 1 300000; echo wrong >&2; exit 5" });
  const [stdout, stderr] = await Promise.all([textOf(short.stdout), textOf(short.stderr)]);
  assert.equal(stdout.length, Array.from({ length: 300_000 }, (_, i) => `${i + 1}\n`).join("").length);
  assert.equal(stderr, "wrong\n");
  assert.deepEqual(await short.wait(), { exitCode: 5 });
  const long = await sandbox.spawn({ command: "echo ready; exec sleep 1000" });
  const reader = long.stdout.getReader();
  assert.equal(new TextDecoder().decode((await reader.read()).value), "ready\n");
  await long.kill();
  assert.deepEqual(await long.wait(), { exitCode: 143 });
  assert.equal((await reader.read()).done, true);
});

scene("AI SDK: files", async (client, directory) => {
  const sandbox: SandboxSession = sandboxSession(client, { workingDirectory: directory });
  await sandbox.writeTextFile({ path: "a/b/text", content: "one\ntwo\nthree\n" });
  assert.equal(await readFile(join(directory, "a/b/text"), "utf8"), "one\ntwo\nthree\n");
  assert.equal(await sandbox.readTextFile({ path: "a/b/text" }), "one\ntwo\nthree\n");
  assert.equal(await sandbox.readTextFile({ path: join(directory, "a/b/text"), startLine: 2, endLine: 2 }), "two");
  const data = new Uint8Array(500_000).map((_, i) => i);
  await sandbox.writeFile({ path: "data", content: new Blob([data]).stream() });
  assert.deepEqual(new Uint8Array((await sandbox.readBinaryFile({ path: "data" }))!), data);
  assert.deepEqual(new Uint8Array(await new Response(await sandbox.readFile({ path: "data" })).arrayBuffer()), data);
  for (const read of [sandbox.readFile, sandbox.readBinaryFile, sandbox.readTextFile]) assert.equal(await read({ path: "missing" }), null);
  await assert.rejects(Promise.resolve(sandbox.writeTextFile({ path: "x", content: "x", encoding: "latin1" })), RangeError);
});

scene("OpenAI Agents SDK", async (client, directory) => {
  const shell: Shell = tetherShell(client, { cwd: directory });
  assert.deepEqual(await shell.run({ commands: ["pwd", "echo wrong >&2; exit 3"] }), {
    output: [
      { stdout: `${directory}\n`, stderr: "", outcome: { type: "exit", exitCode: 0 } },
      { stdout: "", stderr: "wrong\n", outcome: { type: "exit", exitCode: 3 } },
    ],
  });
  const late = await shell.run({ commands: ["exec sleep 1000", "echo never"], timeoutMs: 1000 });
  assert.deepEqual(late.output, [{ stdout: "", stderr: "", outcome: { type: "timeout" } }]);
  const { output, maxOutputLength } = await shell.run({ commands: ["seq 1 100000"], maxOutputLength: 100 });
  assert.equal(maxOutputLength, 100);
  assert.match(output[0]!.stdout, /^1\n2\n[^]*bytes were left out[^]*\n100000\n$/);
});
