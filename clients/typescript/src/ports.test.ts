// Tests of forwarded ports beside those in clients/conformance. One needs a server, at TETHER_URL.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as dial, createServer, type AddressInfo } from "node:net";
import { test } from "node:test";

import { ByteQueue } from "./bytes.js";
import { connect } from "./index.js";

const url = process.env.TETHER_URL;

test("a queue of bytes has what was put into it", () => {
  const all = Uint8Array.from({ length: 30_000 }, (_, i) => i);
  const queue = new ByteQueue();
  let [begin, end] = [0, 0];
  for (let step = 1; begin < all.length; step++) {
    const more = Math.min(all.length - end, (step * 977) % 6000);
    queue.push(all.subarray(end, end + more));
    end += more;
    const [at, size] = [(step * 31) % (end - begin + 1), (step * 1013) % 9000];
    assert.deepEqual(queue.slice(at, size), all.slice(begin + at, Math.min(begin + at + size, end)));
    if (step % 3 === 0 && queue.length > 0) {
      const first = queue.shift();
      assert.deepEqual(first, all.slice(begin, begin + first.length));
      begin += first.length;
    } else {
      const gone = Math.min(end - begin, (step * 499) % 5000);
      queue.drop(gone);
      begin += gone;
    }
    assert.equal(queue.length, end - begin);
  }
});

test("the end of a client ends its forwards", { skip: url ? false : "there is no server: TETHER_URL is not set" }, async () => {
  const target = createServer((socket) => socket.on("error", () => {})).listen(0, "127.0.0.1");
  await once(target, "listening");
  const client = await connect(url!);
  const forward = await client.forward((target.address() as AddressInfo).port);
  const socket = dial(forward.port, "127.0.0.1");
  const reset = new Promise<NodeJS.ErrnoException>((resolve) => socket.on("error", resolve));
  await once(target, "connection");
  await client.close();
  assert.equal((await reset).code, "ECONNRESET");
  const late = dial(forward.port, "127.0.0.1");
  assert.equal(((await once(late, "error").catch((e) => [e]))[0] as NodeJS.ErrnoException).code, "ECONNREFUSED");
  target.close();
});
