import assert from "node:assert/strict";
import { test } from "node:test";
import { CastWriter, castLine, parseCast, parseSize, shownSize } from "./cast.ts";
import { lineStart } from "./view.ts";
import { matchesOf, quotePattern } from "./find.ts";
import { Player, timesOf } from "./player.ts";
import { Streams } from "./streams.ts";
import type { SearchLine } from "./protocol.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const event = (timeMs: number, stream: string, chunk: Uint8Array) => ({ seq: 1, timeMs, kind: "output" as const, stream, bytes: chunk });

test("a log becomes a recording, and is read again", () => {
  const writer = new CastWriter({ title: 'echo "a"', cols: 80, rows: 24, startMs: 1000, tty: false });
  const euro = bytes("€");
  let text = writer.header();
  for (const e of [event(1500, "stdout", bytes("a\n")), event(2000, "stdout", euro.subarray(0, 1)), event(2500, "stderr", bytes("e")), event(2400, "stdout", euro.subarray(1))]) {
    const line = writer.event(e);
    if (line) text += castLine(line);
  }
  const recording = parseCast(text);
  assert.equal(recording.title, 'echo "a"');
  assert.deepEqual(recording.events, [
    { at: 0.5, kind: "o", text: "a\r\n" },
    { at: 1.5, kind: "o", text: "e" },
    { at: 1.5, kind: "o", text: "€" },
  ]);
});

test("what is no recording is refused with its line", () => {
  const header = '{"version":2,"width":80,"height":24}\n';
  const refused: [string, RegExp][] = [
    ["", /line 1: this is not JSON/],
    ['{"version":1}\n', /line 1: this is no recording/],
    [header + "nonsense", /line 2: this is not JSON/],
    [header + '[1,"o","a"]\n\n["1","o","a"]', /line 4: an event is/],
  ];
  for (const [text, message] of refused) assert.throws(() => parseCast(text), message);
  assert.equal(parseCast('{"version":2,"width":1e9,"height":-1}').cols, 500);
  assert.equal(parseCast(header + '[5,"o","a"]\n[3,"x","b"]\n[4,"o","c"]').events[1]!.at, 5);
  assert.deepEqual(parseSize("120x40"), { cols: 120, rows: 40 });
  assert.equal(parseSize("0x"), undefined);
});

test("the player: speed, shortened pauses, seeking", () => {
  const events = [0.1, 0.2, 30, 30.5].map((at, i) => ({ at, kind: "o" as const, text: String(i) }));
  assert.deepEqual([...timesOf(events, false)], [0.1, 0.2, 30, 30.5]);
  assert.deepEqual([...timesOf(events, true)].map((t) => Math.round(t * 10) / 10), [0.1, 0.2, 1.2, 1.7]);
  const player = new Player({ title: "", cols: 80, rows: 24, events });
  const texts = (due: { text: string }[]) => due.map((e) => e.text).join("");
  player.playing = true;
  assert.equal(texts(player.advance(0.15)), "0");
  player.speed = 16;
  assert.equal(texts(player.advance(0.1)), "123");
  assert.ok(player.playing);
  player.advance(1);
  assert.ok(!player.playing && player.atEnd);
  const back = player.seek(0.15);
  assert.deepEqual([back.fresh, texts(back.events)], [true, "0"]);
  assert.equal(texts(player.seek(1.3).events), "12");
  player.shorten = false;
  assert.ok(player.position >= 30 && player.position < 30.5);
});

test("streams are decoded apart, and standard error is told apart", () => {
  const streams = new Streams();
  const euro = bytes("€");
  assert.equal(streams.text({ stream: "stdout", bytes: euro.subarray(0, 2) }), "");
  assert.equal(streams.text({ stream: "stderr", bytes: bytes("\x1b[31mbad\x1b[0m!") }), "\x1b[3;91m\x1b[31mbad\x1b[0m\x1b[3;91m!\x1b[23;39m");
  assert.equal(streams.text({ stream: "stdout", bytes: euro.subarray(2) }), "€");
  assert.equal(streams.text({ stream: "pty", bytes: new Uint8Array([0xff, 0x41]) }), "\ufffdA");
  assert.equal(new Streams("stdout").text({ stream: "stderr", bytes: bytes("x") }), "");
  assert.equal(streams.text({ stream: "pty", bytes: bytes("a" + "\u0301".repeat(1000) + "b") }).length, 10);
});

test("a found line is found in its event", () => {
  const lines = [2, 3, 7].map((line): SearchLine => ({ line, seq: 4, stream: "stdout", text: "same", match: true }));
  assert.deepEqual(matchesOf(lines, []).map((match) => match.occurrence), [0, 1, 2]);
  assert.deepEqual(matchesOf(lines.slice(2), matchesOf(lines.slice(0, 2), [])).map((match) => match.occurrence), [2]);
  const chunk = bytes("not same\nsame\nother\nsame\n\n");
  assert.deepEqual([0, 1].map((n) => lineStart(chunk, "same", false, n)), [9, 20]);
  assert.equal(lineStart(chunk, "", false, 0), 25);
  assert.equal(quotePattern("a.b(c)"), "a\\.b\\(c\\)");
});

test("the size of a terminal is one that a browser can show", () => {
  assert.deepEqual(shownSize({ cols: 132, rows: 50 }), { cols: 132, rows: 50 });
  assert.deepEqual(shownSize({ cols: 65_535, rows: 65_535 }), { cols: 500, rows: 500 });
  assert.deepEqual(shownSize({ cols: 0, rows: 0 }), { cols: 80, rows: 24 });
});
