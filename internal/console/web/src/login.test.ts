import assert from "node:assert/strict";
import { test } from "node:test";
import { isAdmitted } from "./login.ts";

test("a server that does not answer may know the browser", async () => {
  Object.assign(globalThis, {
    localStorage: { getItem: () => "key" },
    fetch: (_: string, { signal }: RequestInit) => new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
  });
  const awake = setTimeout(() => {}, 60_000); // node ends although a time limit of a signal is to come
  assert.equal(await isAdmitted(10), true);
  clearTimeout(awake);
});
