import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBase64 } from "./base64.ts";
import { Control } from "./control.ts";
import type { Screen } from "./screen.ts";

/** A control with the calls that it makes. They wait for release if the test says so. */
function controlOf(tty: boolean) {
  const screen = { terminal: { rows: 30, cols: 100, options: {} as Record<string, unknown> }, typing: false, setSize() {} };
  const calls: { method: string; params: any }[] = [];
  const gate = { held: undefined as (() => void)[] | undefined };
  const call = async <R>(method: string, params: any): Promise<R> => {
    calls.push({ method: method.slice(method.lastIndexOf("/") + 1), params });
    await new Promise<void>((go) => (gate.held ? gate.held.push(go) : go()));
    return { status: "accepted" } as R;
  };
  const errors: string[] = [];
  const control = new Control(call, { sessionId: "s", processId: "p" }, tty, screen as unknown as Screen, (message) => errors.push(message));
  return { control, screen, calls, errors, gate, methods: () => calls.map(({ method }) => method) };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

async function typed(tty: boolean, ...data: string[]): Promise<string> {
  const { control, calls } = controlOf(tty);
  await control.take();
  for (const text of data) {
    control.type(text);
    await settled();
  }
  return calls.filter(({ method }) => method === "write").map(({ params }) => new TextDecoder().decode(decodeBase64(params.chunk))).join("");
}

test("Enter ends a line, with a terminal and without", async () => {
  assert.equal(await typed(true, "a", "\r", "pasted\rlines\r"), "a\rpasted\rlines\r");
  assert.equal(await typed(false, "a", "\r", "pasted\rlines\r"), "a\npasted\nlines\n");
});

test("a new connection has control again, and gives its size again", async () => {
  const { control, calls, methods } = controlOf(true);
  await control.take();
  assert.deepEqual(methods(), ["takeControl", "resize"]);
  await control.resize();
  assert.equal(calls.length, 2, "the size is sent only if it changes");
  control.reconnected();
  await settled();
  assert.deepEqual(methods().slice(2), ["takeControl", "resize"]);
});

test("control that is granted after the person has left is given back", async () => {
  const { control, methods, gate, screen } = controlOf(true);
  gate.held = [];
  const taking = control.take();
  const leaving = control.leave();
  for (const go of gate.held) go();
  gate.held = undefined;
  await Promise.all([taking, leaving]);
  assert.deepEqual(methods(), ["takeControl", "giveControl"]);
  assert.equal(screen.typing, false);
});
