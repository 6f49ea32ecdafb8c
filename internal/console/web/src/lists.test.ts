import assert from "node:assert/strict";
import { test } from "node:test";
import { compare } from "./inventory.ts";
import { matchScore } from "./palette.ts";
import type { ProcessInfo, SessionInfo } from "./protocol.ts";
import { rowsOf } from "./rows.ts";
import { offsetsOf, visibleSpan } from "./virtual.ts";

const session = (sessionId: string, attached: boolean, createdAtMs: number): SessionInfo => ({ sessionId, clientName: `client ${sessionId}`, attached, createdAtMs, ttlMs: 1, processes: 1 });

function process(sessionId: string, processId: string, more: Partial<ProcessInfo> = {}): ProcessInfo {
  return {
    sessionId, processId, argv: ["make", processId], cwd: "file:///", pid: 1, tty: false, startedAtMs: 1, state: "running", nextSeq: 1, sentSeq: 0,
    heldBytes: 0, unsentBytes: 0, spooledBytes: 0, blocked: false, observers: 0, ...more,
  };
}

test("rows: attached sessions and running commands first, filtered by words", () => {
  const sessions = [session("old", true, 1), session("own", true, 9), session("away", false, 8), session("new", true, 2)];
  const processes = [process("old", "a", { state: "closed", startedAtMs: 9 }), process("old", "b"), process("away", "c"), process("new", "d")];
  const snapshot = compare(undefined, sessions, processes, 0);
  const ids = (filter = { text: "", runningOnly: false }, closed = new Set<string>()) => rowsOf(snapshot, filter, closed, "own").map((row) => row.id);
  assert.deepEqual(ids(), ["new", "new/d", "old", "old/b", "old/a", "away", "away/c"]);
  assert.deepEqual(ids(undefined, new Set(["old"])), ["new", "new/d", "old", "away", "away/c"]);
  assert.deepEqual(ids({ text: "MAKE b", runningOnly: false }), ["old", "old/b"]);
  assert.deepEqual(ids({ text: "", runningOnly: true }), ["new", "new/d", "old", "old/b", "away", "away/c"]);
});

test("shares of a processor come from two answers", () => {
  const first = compare(undefined, [], [process("s", "p", { cpuMs: 1000, heldBytes: 10 })], 0);
  const second = compare(first, [], [process("s", "p", { cpuMs: 1500, heldBytes: 2010 })], 1000);
  const command = second.commands.get("s/p")!;
  assert.equal(command.cpuShare, 0.5);
  assert.equal(command.bytesPerSecond, 2000);
});

test("of ten thousand rows only those that are seen exist", () => {
  const offsets = offsetsOf(Array.from({ length: 10_000 }, (_, i) => (i % 100 === 0 ? 38 : 56)));
  const span = visibleSpan(offsets, 200_000, 800, 6);
  assert.ok(span.to - span.from < 30);
  assert.ok(offsets[span.from]! <= 200_000 && offsets[span.to]! >= 200_800);
  assert.deepEqual(visibleSpan(offsetsOf([]), 0, 800, 6), { from: 0, to: 0 });
});

test("the palette finds letters in their order, words first", () => {
  assert.equal(matchScore("xyz", "make test"), undefined);
  assert.ok(matchScore("test", "make test")! > matchScore("test", "make latest")!);
  assert.ok(matchScore("mtst", "make test") !== undefined);
});
