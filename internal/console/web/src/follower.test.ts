import assert from "node:assert/strict";
import { test } from "node:test";
import { CallError, LostError } from "./connection.ts";
import { encodeBase64 } from "./base64.ts";
import { type Event, Follower, type Sink } from "./follower.ts";
import type { LogEvent } from "./protocol.ts";

/** A server with one log, of which events can be lost on their way. */
class Server {
  log: LogEvent[] = [];
  calls: { method: string; params: any }[] = [];
  observations = new Map<number, number>(); // by id: the next event
  private lastId = 0;
  down = false;

  append(text: string, kind?: string): void {
    this.log.push({ seq: this.log.length + 1, timeMs: 1, kind, stream: "stdout", chunk: encodeBase64(new TextEncoder().encode(text)) });
  }

  call = async <R>(method: string, params: any): Promise<R> => {
    this.calls.push({ method, params });
    if (this.down) throw new LostError("no connection");
    switch (method) {
      case "tether/process/observe":
        this.observations.set(++this.lastId, params.afterSeq + 1);
        return { observeId: this.lastId, nextSeq: this.log.length + 1 } as R;
      case "tether/process/unobserve":
        this.observations.delete(params.observeId);
        return {} as R;
      case "tether/process/read":
        return { events: this.log.slice(-2), firstSeq: 1, nextSeq: this.log.length + 1 } as R;
    }
    throw new CallError(-32601, method, undefined);
  };

  /** Sends what its observations lack. */
  push(to: Follower): void {
    for (const [id, next] of this.observations) {
      for (const event of this.log.slice(next - 1)) {
        const method = `tether/process/${event.kind ?? "output"}`;
        to.note(method, { ...event, observeId: id });
        if (!this.observations.has(id)) break;
        this.observations.set(id, event.seq + 1);
      }
    }
  }
}

function collect(): Sink & { text: string; skips: number[]; modes: string[]; failure: string } {
  return {
    text: "",
    skips: [],
    modes: [],
    failure: "",
    events(events: Event[]) {
      for (const event of events) this.text += new TextDecoder().decode(event.bytes);
    },
    skip(firstSeq) {
      this.skips.push(firstSeq);
    },
    mode(mode) {
      this.modes.push(mode);
    },
    failed(message) {
      this.failure = message;
    },
    backlog: () => 0,
  };
}

const target = { sessionId: "s", processId: "p" };

test("each event comes once and in order across connections", async () => {
  const server = new Server();
  const sink = collect();
  const follower = new Follower(server.call, target, 0, sink);
  server.append("a");
  await follower.attach();
  server.append("b");
  server.push(follower);
  // The connection is lost: its observation is gone, and events are printed meanwhile.
  const old = [...server.observations.keys()][0]!;
  server.observations.clear();
  server.append("c");
  server.down = true;
  await follower.attach();
  server.down = false;
  await follower.attach();
  // A late message of the old connection, and one that was sent twice.
  follower.note("tether/process/output", { ...server.log[1], observeId: old });
  server.push(follower);
  follower.note("tether/process/output", { ...server.log[2], observeId: [...server.observations.keys()][0] });
  server.append("d", "closed");
  server.push(follower);
  assert.equal(sink.text, "abcd");
  assert.deepEqual(sink.skips, []);
  assert.equal(sink.modes.at(-1), "ended");
});

test("what the server no longer has is told", async () => {
  const server = new Server();
  const sink = collect();
  const follower = new Follower(server.call, target, 0, sink);
  await follower.attach();
  follower.note("tether/process/evicted", { observeId: 1, firstSeq: 41 });
  follower.note("tether/process/output", { observeId: 1, seq: 41, timeMs: 1, stream: "stdout", chunk: "eA==" });
  assert.deepEqual(sink.skips, [41]);
  assert.equal(sink.text, "x");
});

test("too much output is skimmed, and observed again when it is slow", async () => {
  const server = new Server();
  const sink = collect();
  const follower = new Follower(server.call, target, 0, sink, () => 0); // all of it comes at the same time
  await follower.attach();
  const flood = "x".repeat(64 << 10);
  for (let i = 0; i < 20; i++) server.append(flood);
  server.push(follower);
  assert.equal(sink.modes.at(-1), "skimming");
  assert.equal(server.observations.size, 0, "the server still sends");
  server.append("the end\n");
  while (sink.modes.at(-1) !== "observing") await new Promise((resolve) => setTimeout(resolve, 5));
  server.append("more\n");
  server.push(follower);
  assert.ok(sink.text.endsWith("the end\nmore\n"));
  assert.equal(follower.last, server.log.length);
});

test("skimming waits for a terminal that is behind", async () => {
  const server = new Server();
  const sink = collect();
  const follower = new Follower(server.call, target, 0, sink);
  await follower.attach();
  server.append("x".repeat(800 << 10));
  let backlog = 2 << 20; // a page that is not seen writes slowly
  sink.backlog = () => backlog;
  server.push(follower);
  assert.equal(sink.modes.at(-1), "skimming");
  const shown = sink.text.length;
  for (let i = 0; i < 10; i++) {
    server.append("y".repeat(50 << 10));
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assert.equal(sink.text.length, shown);
  backlog = 0;
  while (sink.modes.at(-1) !== "observing") await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(follower.last, server.log.length);
});

test("a command that is gone is an error", async () => {
  const sink = collect();
  const refuse = async <R>(): Promise<R> => {
    throw new CallError(-32600, "unknown process p", "unknownProcess");
  };
  await new Follower(refuse, target, 0, sink).attach();
  assert.equal(sink.failure, "unknown process p");
});
