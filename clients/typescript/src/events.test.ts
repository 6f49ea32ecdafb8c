// Tests without a server: how events and answers become one sequence. The tests with a server are in clients/conformance.

import assert from "node:assert/strict";
import { test } from "node:test";

import { decode, encode } from "./bytes.js";
import { backOffMs, pause } from "./client.js";
import type { Connection } from "./connection.js";
import { ConnectionLost, serverError } from "./errors.js";
import { nextBlock } from "./files.js";
import {
  AmbiguousError,
  Client,
  GapError,
  NotFoundError,
  Process,
  ServerError,
  SessionLostError,
  StdinClosedError,
  UnknownProcessError,
  UnsupportedError,
  pathURI,
  protocol,
} from "./index.js";
import { maxBuffered } from "./process.js";

const text = (s: string) => encode(new TextEncoder().encode(s));

function answer(chunks: [number, string][], nextSeq: number, exitCode: number | null = null, closed = false): protocol.ReadResult {
  return {
    chunks: chunks.map(([seq, chunk]) => ({ seq, stream: "stdout", chunk })),
    nextSeq,
    exited: exitCode !== null,
    exitCode,
    closed,
    failure: null,
    sandboxDenied: false,
  };
}

/** A process whose reads get the given answers. */
function scene(...answers: protocol.ReadResult[]) {
  const client = new Client("ws://127.0.0.1:1");
  const connection = { call: async () => answers.shift() } as unknown as Connection;
  client.through = (work) => work(connection);
  const process = new Process(client, "p");
  return {
    client,
    process,
    output: (seq: number, chunk: string) => process.notified(protocol.NoteProcessOutput, { seq, stream: "stdout", chunk }),
    over(exit: number, closed: number) {
      process.notified(protocol.NoteProcessExited, { seq: exit, exitCode: 0 });
      process.notified(protocol.NoteProcessClosed, { seq: closed });
    },
    async read() {
      const events = [];
      for await (const e of process) events.push(e);
      return events;
    },
  };
}

test("events in order, each once", async () => {
  const s = scene();
  s.output(1, text("a"));
  s.output(2, text("b"));
  s.output(2, text("b"));
  s.over(3, 4);
  const events = await s.read();
  assert.deepEqual(events.map((e) => [e.kind, e.seq]), [["output", 1], ["output", 2], ["exit", 3], ["closed", 4]]);
});

test("a missing event is read from the server", async () => {
  const s = scene(answer([[2, text("b")], [3, text("c")]], 6, 0, true));
  s.output(1, text("a"));
  s.output(3, text("c"));
  s.over(4, 5);
  assert.deepEqual((await s.read()).map((e) => e.seq), [1, 2, 3, 4, 5]);
});

test("the exit is the number without a chunk", async () => {
  const s = scene();
  s.process.take(answer([[1, text("a")], [3, text("late")]], 5, 7, true));
  assert.deepEqual((await s.read()).map((e) => e.kind), ["output", "exit", "output", "closed"]);
  assert.equal((await s.process.wait()).code, 7);
});

test("a page of a longer output", async () => {
  const s = scene();
  s.process.take(answer([[1, text("a")], [2, text("b")]], 3));
  s.output(3, text("c"));
  s.over(4, 5);
  assert.deepEqual((await s.read()).map((e) => e.seq), [1, 2, 3, 4, 5]);
});

test("lost output is a gap", async () => {
  const s = scene();
  s.process.take(answer([[5, text("e")]], 6));
  s.over(6, 7);
  assert.deepEqual((await s.read())[0], { kind: "gap", first: 1, seq: 4 });
  const other = scene();
  other.process.take(answer([[5, text("e")]], 6));
  await assert.rejects(other.process.communicate(), GapError);
});

test("output without a reader is bounded", async () => {
  const block = encode(new Uint8Array(1 << 20));
  const s = scene(answer([5, 6, 7, 8, 9].map((n) => [n, block]), 12, 0, true));
  for (let seq = 1; seq < 10; seq++) s.output(seq, block);
  assert.ok(s.client.buffered <= maxBuffered);
  s.over(10, 11);
  assert.equal((await s.process.wait()).code, 0);
  assert.deepEqual((await s.read()).map((e) => e.seq), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.equal(s.client.buffered, 0);
});

test("a lost session comes after the output", async () => {
  const s = scene();
  s.output(1, text("a"));
  s.process.fail(new SessionLostError("gone"));
  assert.equal((await s.process.next())?.seq, 1);
  await assert.rejects(s.process.next(), SessionLostError);
  await assert.rejects(s.process.wait(), SessionLostError);
});

test("one reader at a time", async () => {
  const s = scene();
  const first = s.process.next();
  await assert.rejects(s.process.next(), /read already/);
  s.output(1, text("a"));
  assert.equal((await first)?.seq, 1);
});

test("paths", () => {
  for (const [path, uri] of [
    ["/", "file:///"],
    ["/srv/a b", "file:///srv/a%20b"],
    ["/srv/50%", "file:///srv/50%25"],
    ["/srv/é#?", "file:///srv/%C3%A9%23%3F"],
    ["//srv", "file:///srv"],
  ] as const) {
    assert.equal(pathURI(path), uri);
  }
  assert.throws(() => pathURI("relative"), RangeError);
});

test("pauses", () => {
  const attached = serverError("initialize", { code: protocol.CodeSessionAttached, message: "attached" });
  for (let failed = 0; failed < 20; failed++) {
    const longest = backOffMs[Math.min(failed, backOffMs.length - 1)]!;
    assert.ok(pause(failed, undefined) <= longest * 1.25);
    assert.ok(pause(failed, undefined) >= longest * 0.75);
    assert.ok(pause(failed, attached) <= 250);
  }
});

test("errors", () => {
  for (const [error, kind] of [
    [{ code: -32004, message: "no" }, NotFoundError],
    [{ code: -32600, message: "unknown process id p" }, UnknownProcessError],
    [{ code: -32600, message: "x", data: { reason: "unknownProcess" } }, UnknownProcessError],
    [{ code: -32600, message: "x", data: { reason: "stdinClosed" } }, StdinClosedError],
    [{ code: -32603, message: "x" }, ServerError],
  ] as const) {
    assert.equal(serverError("m", error).constructor, kind);
  }
});

test("base64 without Buffer, as in browsers", () => {
  const data = new Uint8Array(100_000).map((_, i) => i);
  const expected = encode(data);
  const buffer = globalThis.Buffer;
  Object.defineProperty(globalThis, "Buffer", { value: undefined, configurable: true, writable: true });
  try {
    assert.equal(encode(data), expected);
    assert.equal(decode(expected).every((b, i) => b === data[i]), true);
  } finally {
    globalThis.Buffer = buffer;
  }
});

test("options that are undefined count as absent", async () => {
  const client = new Client("ws://127.0.0.1:1");
  const requests: protocol.StartParams[] = [];
  const connection = { call: async (_: string, params: protocol.StartParams) => (requests.push(params), {}) } as unknown as Connection;
  client.through = (work) => work(connection);
  const process = await client.start(["true"], { processId: undefined, cwd: undefined, env: undefined, tty: undefined, arg0: undefined });
  const { processId, cwd, env, tty } = requests[0]!;
  assert.deepEqual({ cwd, env, tty }, { cwd: "/", env: {}, tty: false });
  assert.ok(processId);
  assert.equal(process.id, processId);
});

test("a call whose answer is lost is sent again only if it may be", async () => {
  const client = new Client("ws://127.0.0.1:1");
  let sent = 0;
  const connection = {
    async call() {
      if (++sent === 1) throw new ConnectionLost("lost", true);
      return { ok: true };
    },
  } as unknown as Connection;
  client.ready = async () => connection;
  await assert.rejects(client.call("tether/session/end", { sessionId: null }), AmbiguousError);
  sent = 0;
  assert.deepEqual(await client.call("environment/status", {}, true), { ok: true });
  assert.equal(sent, 2);
});

test("run with input needs a server that can end it", async () => {
  const client = new Client("ws://127.0.0.1:1");
  client.through = () => assert.fail("a request was sent");
  await assert.rejects(client.run(["sort"], { input: "b\na\n" }), UnsupportedError);
});

test("a reader of a file that stops while the connection is lost", async () => {
  const client = new Client("ws://127.0.0.1:1");
  const answers: Record<string, unknown> = {
    [protocol.MethodFsGetMetadata]: { size: 4, modifiedAtMs: 1 },
    [protocol.MethodFsOpen]: {},
    [protocol.MethodFsReadBlock]: { chunk: text("xy"), eof: false },
  };
  let opened = 0;
  const connection = {
    async call(method: string) {
      if (method === protocol.MethodFsOpen) opened++;
      if (method === protocol.MethodFsClose) throw new ConnectionLost("lost", true);
      return answers[method];
    },
  } as unknown as Connection;
  client.ready = async () => connection;
  const blocks = client.files.blocks("/file");
  assert.equal((await blocks.next()).value?.length, 2);
  assert.deepEqual(await blocks.return(undefined), { value: undefined, done: true });
  assert.equal(opened, 1);
});

test("blocks of files are small on a slow link", () => {
  let [fast, slow] = [128 << 10, 128 << 10];
  for (let i = 0; i < 10; i++) [fast, slow] = [nextBlock(fast, 100), nextBlock(slow, 10_000)];
  assert.deepEqual([fast, slow], [1 << 20, 128 << 10]);
  assert.equal(nextBlock(1 << 20, 10_000), 512 << 10);
  assert.equal(nextBlock(1 << 20, 1000), 1 << 20);
});
