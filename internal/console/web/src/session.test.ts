import assert from "node:assert/strict";
import { test } from "node:test";
import { CallError, type Connection, LostError } from "./connection.ts";
import { Session, type World } from "./session.ts";

/** A connection of a test: it answers by a function, and ends on demand. */
class Fake {
  calls: { method: string; params: any }[] = [];
  ended: Promise<string>;
  close!: (reason: string) => void;
  private pending: ((error: Error) => void)[] = [];

  constructor(private readonly answer: (method: string, params: any) => unknown) {
    this.ended = new Promise((resolve) => {
      this.close = (reason) => {
        resolve(reason);
        for (const reject of this.pending.splice(0)) reject(new LostError(reason));
      };
    });
  }

  call(method: string, params: any): Promise<unknown> {
    this.calls.push({ method, params });
    return new Promise((resolve, reject) => {
      try {
        const answer = this.answer(method, params);
        if (answer === undefined) this.pending.push(reject);
        else resolve(answer);
      } catch (error) {
        reject(error);
      }
    });
  }

  notify(): void {}
}

const hello = (id: string) => ({ sessionId: id, tether: { version: "1", publicId: `public ${id}`, ttlMs: 1, features: ["list"] } });

/** Runs a session over the given connections; undefined is a server that cannot be reached. */
function run(connections: (Fake | undefined)[], admitted = true): Session {
  const world: World = {
    open: async () => {
      const next = connections.shift();
      if (!next) throw new LostError("refused");
      return next as unknown as Connection;
    },
    admitted: async () => admitted || connections.length > 0,
  };
  return new Session(world);
}

const connected = (session: Session) =>
  new Promise<boolean>((resolve) => {
    session.onConnected = resolve;
  });

test("the session is resumed, and an idempotent call is sent again", async () => {
  const first = new Fake((method) => (method === "initialize" ? hello("one") : undefined));
  const second = new Fake((method) => (method === "initialize" ? hello("one") : { fine: true }));
  const session = run([first, undefined, second], false);
  const running = session.run();
  assert.equal(await connected(session), true);
  const call = session.call("tether/process/list", {});
  const once = session.call("tether/process/takeControl", {}, false);
  const failed = assert.rejects(once, LostError);
  const resumed = connected(session);
  first.close("cut");
  assert.equal(await resumed, false, "it is a new session");
  assert.equal(second.calls[0]!.params.resumeSessionId, "one");
  assert.deepEqual(await call, { fine: true });
  await failed;
  second.close("cut");
  await running;
  assert.equal(session.status.phase, "signedOut");
});

test("a session that the server has lost is replaced", async () => {
  const first = new Fake(() => hello("one"));
  const second = new Fake((_, params) => {
    if (params.resumeSessionId) throw new CallError(-32600, "unknown session id one", undefined);
    return hello("two");
  });
  const session = run([first, second], false);
  const running = session.run();
  await connected(session);
  const replaced = connected(session);
  first.close("cut");
  assert.equal(await replaced, true);
  assert.equal(session.info?.sessionId, "two");
  second.close("cut");
  await running;
});
