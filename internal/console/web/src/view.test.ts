import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeBase64 } from "./base64.ts";
import { maxLines } from "./pages.ts";
import type { LogEvent } from "./protocol.ts";
import type { Screen } from "./screen.ts";
import { View } from "./view.ts";

/** A terminal that keeps what is written. */
class FakeScreen {
  text = "";
  backlog = 0;
  live = false;
  following = false;
  onScroll: () => void = () => {};
  atTop = true;
  atBottom = true;
  written: { text: string; live: boolean }[] = [];
  readonly terminal = {
    cols: 80,
    options: {},
    buffer: { active: { type: "normal", baseY: 0, viewportY: 0 } },
    scrollToTop() {},
    scrollToLine() {},
  };

  async write(text: string, parsed?: () => void): Promise<void> {
    this.written.push({ text, live: this.live });
    this.text += text;
    parsed?.();
  }

  clear(): void {
    this.text = "";
    this.written = [];
  }

  mark(): { line: number; dispose(): void } {
    return { line: 0, dispose() {} };
  }

  center(): void {}
  toNewest(): void {}
}

/** A server with one log. */
class Server {
  log: LogEvent[] = [];
  observed = 0;
  held: { method: string; go: () => void }[] | undefined; // requests that wait until release

  /** Lets the requests of a method that wait go on. */
  async release(method: string): Promise<void> {
    for (const request of this.held ?? []) if (request.method === method) request.go();
    await settled();
  }

  append(text: string, stream = "stdout", kind?: string): LogEvent {
    const event = { seq: this.log.length + 1, timeMs: 1, kind, stream, chunk: encodeBase64(new TextEncoder().encode(text)) };
    this.log.push(event);
    return event;
  }

  call = async <R>(method: string, params: any): Promise<R> => {
    await new Promise<void>((go) => (this.held ? this.held.push({ method, go }) : go()));
    if (method === "tether/process/observe") return { observeId: ++this.observed } as R;
    if (method !== "tether/process/read") return {} as R;
    const bytes = (e: LogEvent) => (e.chunk ?? "").length;
    const events: LogEvent[] = [];
    let room = params.maxBytes as number;
    const before = this.log.filter((e) => params.beforeSeq !== undefined ? e.seq < params.beforeSeq : e.seq > params.afterSeq);
    if (params.beforeSeq !== undefined) before.reverse();
    for (const event of before) {
      if (events.length > 0 && room < bytes(event)) break;
      room -= bytes(event);
      events.push(event);
    }
    if (params.beforeSeq !== undefined) events.reverse();
    return { events, firstSeq: 1, nextSeq: this.log.length + 1 } as R;
  };

  /** Sends an event to a view that observes. */
  push(view: View, event: LogEvent): void {
    view.note("tether/process/output", { ...event, observeId: this.observed });
  }
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

function viewOf(server: Server, tty: boolean, shown?: "stdout" | "stderr"): { view: View; screen: FakeScreen } {
  const screen = new FakeScreen();
  const view = new View(server.call, { sessionId: "s", processId: "p" }, tty, screen as unknown as Screen, shown);
  return { view, screen };
}

/** Prints numbered lines to a view that follows, and slowly enough for all of them to be observed. */
async function print(server: Server, view: View, lines: number): Promise<void> {
  for (let i = 0; i < lines; i += 1000) {
    server.push(view, server.append(Array.from({ length: 1000 }, (_, n) => `${i + n}\n`).join("")));
    await settled();
  }
}

test("the first byte is reached after more output than the terminal keeps", async () => {
  const server = new Server();
  const { view, screen } = viewOf(server, false);
  await view.follow();
  await settled();
  assert.equal(view.state.mode, "observing");
  assert.equal(view.state.complete, true);
  await print(server, view, 5000);
  assert.equal(view.state.complete, true, "all of the output is in the terminal");
  await print(server, view, maxLines);
  assert.equal(view.state.mode, "observing");
  assert.equal(view.state.complete, false, "the terminal has lost its beginning");
  for (let i = 0; i < 10 && !view.state.complete; i++) await view.older();
  assert.ok(screen.text.startsWith("0\n1\n2\n"));
});

test("only output that was not shown before may be answered by the terminal", async () => {
  const server = new Server();
  for (let i = 0; i < 30; i++) server.append(`old ${i}\n`.repeat(2000), "pty");
  const { view, screen } = viewOf(server, true);
  await view.follow();
  await settled();
  assert.equal(screen.live, true);
  assert.ok(screen.written.every(({ live }) => !live));
  // Back, until the view has given up the newest output, and forward again.
  for (let i = 0; i < 20 && view.state.mode !== "history"; i++) await view.older();
  assert.equal(view.state.mode, "history");
  screen.written = [];
  for (let i = 0; i < 50 && view.state.mode === "history"; i++) {
    await view.newer();
    await settled();
  }
  assert.equal(view.state.mode, "observing");
  assert.ok(screen.written.length > 0 && screen.written.every(({ live }) => !live), "old output is taken for new output");
  server.push(view, server.append("new", "pty"));
  assert.deepEqual(screen.written.at(-1), { text: "new", live: true });
});

test("scrolling while the observation begins shows nothing twice", async () => {
  const server = new Server();
  server.append("a\n");
  const { view, screen } = viewOf(server, false);
  server.held = [];
  void view.first(); // all of the log, so the view goes on with an observation
  await server.release("tether/process/read");
  void view.newer(); // a scroll event before the observation is answered
  await server.release("tether/process/observe");
  server.push(view, server.append("b\n"));
  server.push(view, server.append("c\n"));
  await server.release("tether/process/read");
  await server.release("tether/process/observe");
  assert.equal(screen.text, "a\nb\nc\n");
  assert.equal(server.observed, 1);
});

test("newer output goes on although a page has nothing of the shown stream", async () => {
  const server = new Server();
  server.append("first error\n", "stderr");
  for (let i = 0; i < 20; i++) server.append("x".repeat(60_000));
  server.append("last error\n", "stderr");
  const { view, screen } = viewOf(server, false, "stderr");
  await view.first();
  for (let i = 0; i < 20 && view.state.mode === "history"; i++) await settled();
  assert.equal(screen.text, "first error\nlast error\n");
});
