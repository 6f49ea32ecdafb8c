import assert from "node:assert/strict";
import { test } from "node:test";
import { commandText, durationText, pathText, positionText, shortCommand, sizeText, spanText, visibleText } from "./format.ts";

test("sizes, spans and positions", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 50 << 20, 3 * 2 ** 40].map(sizeText), ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "50 MiB", "3.0 TiB"]);
  assert.deepEqual([500, 12_000, 3_700_000, 2e9].map(spanText), ["500 ms", "12 s", "1 h", "23 d"]);
  assert.deepEqual([999, 1234, 127_000].map(durationText), ["999 ms", "1.23 s", "2 min 7 s"]);
  assert.deepEqual([7, 67, 3607].map(positionText), ["0:07", "1:07", "1:00:07"]);
});

test("a command line cannot hide what it has", () => {
  assert.equal(commandText(["a", "b c", "it's"]), "a 'b c' 'it'\\''s'");
  assert.equal(commandText(["\x1b[31mrm\u202e"]), "'\ufffd[31mrm\ufffd'");
  assert.equal(visibleText("a\nb\tc"), "a↵b c");
  assert.equal(shortCommand(["/bin/bash", "-lc", "make test"]), "make test");
  assert.equal(shortCommand(["/usr/bin/make", "test"]), "make test");
});

test("paths of file URIs", () => {
  assert.equal(pathText("file:///srv/a%20b"), "/srv/a b");
  assert.equal(pathText("file:///C:/x"), "C:/x");
  assert.equal(pathText("file:///bad%ff"), "/bad%ff");
});
