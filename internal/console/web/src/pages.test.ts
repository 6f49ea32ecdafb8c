import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "./follower.ts";
import { countLines, Pages, type Piece } from "./pages.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A log of numbered lines, cut into events of some lines each. */
function logOf(lines: number, perEvent: number): Event[] {
  const events: Event[] = [];
  for (let first = 0; first < lines; first += perEvent) {
    let text = "";
    for (let i = first; i < Math.min(lines, first + perEvent); i++) text += `line ${i}\n`;
    events.push({ seq: events.length + 1, timeMs: 0, kind: "output", stream: "stdout", bytes: encoder.encode(text) });
  }
  return events;
}

const textOf = (pieces: readonly Piece[]) => pieces.map((piece) => decoder.decode(piece.bytes)).join("");

test("lines of a terminal are never counted too low", () => {
  assert.equal(countLines(encoder.encode("a\n\nb"), 80), 3);
  assert.equal(countLines(encoder.encode("x".repeat(801)), 80), 11);
  assert.equal(countLines(new Uint8Array(), 80), 0);
});

test("going back to the first byte passes each byte, whatever the sizes of events", () => {
  for (const perEvent of [1, 7, 100, 1000]) {
    const log = logOf(1000, perEvent);
    const pages = new Pages(80, 200);
    pages.append(log);
    let seen = textOf(pages.pieces);
    for (let guard = 0; guard < 2000; guard++) {
      const first = pages.first!;
      if (first.seq === 1 && first.offset === 0) break;
      // What the server answers to beforeSeq: some events before the first one that is held.
      const before = log.filter((e) => e.seq < (first.offset > 0 ? first.seq + 1 : first.seq)).slice(-5);
      const { added } = pages.prepend(before);
      assert.ok(added.length > 0);
      assert.ok(pages.lines <= 200 + added[0]!.lines, `${pages.lines} lines are held`);
      seen = textOf(added) + seen;
    }
    assert.equal(seen, textOf(new Pages(80, 1e9).append(log)));
  }
});

test("going forward passes each byte", () => {
  for (const perEvent of [1, 7, 100, 1000]) {
    const log = logOf(1000, perEvent);
    const pages = new Pages(80, 200);
    let seen = textOf(pages.appendSome(log.slice(0, 3)));
    for (let guard = 0; guard < 2000; guard++) {
      const after = pages.readAfter!;
      const page = log.filter((e) => e.seq > after).slice(0, 5);
      if (page.length === 0) break;
      const added = pages.appendSome(page);
      assert.ok(added.length > 0);
      assert.ok(pages.lines <= 210, `${pages.lines} lines are held`);
      seen += textOf(added);
    }
    assert.equal(seen, textOf(new Pages(80, 1e9).append(log)));
  }
});

test("new output moves the beginning, at lines", () => {
  const pages = new Pages(80, 100);
  for (const event of logOf(1000, 3)) pages.append([event]);
  assert.ok(pages.lines <= 100);
  assert.match(textOf(pages.pieces), /^line \d+\n/);
  assert.ok(textOf(pages.pieces).endsWith("line 999\n"));
});

test("going back within a large event and forward again passes each byte", () => {
  const log = logOf(400, 400);
  const pages = new Pages(80, 200);
  pages.append(log);
  let guard = 0;
  while (pages.first!.offset > 0) {
    assert.ok(guard++ < 20);
    pages.prepend(log);
  }
  let seen = textOf(pages.pieces);
  for (guard = 0; guard < 20; guard++) {
    const after = pages.readAfter!;
    seen += textOf(pages.appendSome(log.filter((e) => e.seq > after)));
  }
  assert.equal(seen, decoder.decode(log[0]!.bytes));
});
