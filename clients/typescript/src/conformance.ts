// The agent for the tests in clients/conformance: carries out commands from standard input, one JSON object per line.
// docs/clients.md describes the commands.

import { createHash, type Hash } from "node:crypto";
import { createInterface } from "node:readline";

import * as tether from "./index.js";
import { addressOf, proxyFor } from "./proxy.js";

const proxyVariables = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"].flatMap((name) => [name, name.toLowerCase()]);

/** The names of errors in answers; the first that fits. */
const errors: [new (...args: never[]) => Error, string][] = [
  [tether.TakenOverError, "takenOver"],
  [tether.ServerStoppedError, "serverStopped"],
  [tether.SessionLostError, "sessionLost"],
  [tether.AmbiguousError, "ambiguous"],
  [tether.StdinClosedError, "stdinClosed"],
  [tether.UnknownProcessError, "unknownProcess"],
  [tether.NotFoundError, "notFound"],
  [tether.GapError, "gap"],
  [tether.PortError, "port"],
  [tether.ConnectError, "connect"],
  [tether.ClosedError, "closed"],
  [tether.ServerError, "refused"],
];

/** lines are the numbers from first to last, a line each. */
function lines(first: number, last: number): string {
  let text = "";
  for (let n = first; n <= last; n++) text += `${n}\n`;
  return text;
}

/** A Summary is what was read. */
class Summary {
  private bytes = 0;
  private readonly hash: Hash = createHash("sha256");

  add(data: Uint8Array): void {
    this.bytes += data.length;
    this.hash.update(data);
  }

  report() {
    return { bytes: this.bytes, sha256: this.hash.copy().digest("hex") };
  }
}

/** A Command is a line of the input. */
interface Command {
  id: number;
  do: string;
  url: string;
  ttlMs?: number;
  silenceMs?: number;
  process: string;
  argv: string[];
  cwd?: string;
  tty?: boolean;
  stdin?: boolean;
  rows: number;
  cols: number;
  bytes?: number;
  until?: string;
  pauseMs?: number;
  text?: string;
  first: number;
  last: number;
  signal: tether.protocol.SignalAny;
  path: string;
  env?: Record<string, string>;
  scheme: string;
  host: string;
  port: number;
  forward: string;
}

/** A Started process, and what was read of it. */
interface Started {
  process: tether.Process;
  streams: Map<string, Summary>;
  last: number;
}

let client: tether.Client;
const started = new Map<string, Started>();
const forwards = new Map<string, tether.Forward>();

const commands: Record<string, (c: Command) => Promise<unknown>> = {
  async proxy(c) {
    const proxy = proxyFor(c.scheme === "wss", c.host, c.port, c.env);
    return { proxy: proxy ? addressOf(proxy) : "" };
  },
  async connect(c) {
    for (const name of proxyVariables) delete process.env[name];
    Object.assign(process.env, c.env);
    client = await tether.connect(c.url, { ttlMs: c.ttlMs, silenceMs: c.silenceMs });
    return { sessionId: client.sessionId, publicId: client.publicId };
  },
  close: () => client.close(),
  async start(c) {
    const process = await client.start(c.argv, {
      cwd: c.cwd ?? "/",
      tty: c.tty ?? false,
      stdin: c.stdin ?? false,
      ...(c.rows ? { size: [c.rows, c.cols] } : {}),
    });
    started.set(c.process, { process, streams: new Map(), last: 0 });
    return { processId: process.id };
  },
  async read(c) {
    const s = started.get(c.process)!;
    const wanted = Buffer.from(c.until ?? "");
    let got = 0;
    let tail = Buffer.alloc(0);
    let ended = false;
    while ((c.bytes === undefined || got < c.bytes) && !(wanted.length > 0 && tail.includes(wanted))) {
      const event = await s.process.next();
      if (!event) {
        ended = true;
        break;
      }
      if (event.kind === "gap") throw new tether.GapError(event.first, event.seq);
      if (event.seq !== s.last + 1) throw new Error(`event ${event.seq} follows ${s.last}`);
      s.last = event.seq;
      if (event.kind === "output") {
        if (!s.streams.has(event.stream)) s.streams.set(event.stream, new Summary());
        s.streams.get(event.stream)!.add(event.data);
        got += event.data.length;
        if (wanted.length > 0) tail = Buffer.concat([tail.subarray(Math.max(0, tail.length - wanted.length)), event.data]);
      }
      if (c.pauseMs) await new Promise((resolve) => setTimeout(resolve, c.pauseMs));
    }
    const streams = Object.fromEntries([...s.streams].map(([name, summary]) => [name, summary.report()]));
    return { streams, last: s.last, ended };
  },
  wait: async (c) => ({ code: (await started.get(c.process)!.process.wait()).code }),
  write: (c) => started.get(c.process)!.process.write(c.text ?? lines(c.first, c.last)),
  closeStdin: (c) => started.get(c.process)!.process.closeStdin(),
  signal: (c) => started.get(c.process)!.process.signal(c.signal),
  resize: (c) => started.get(c.process)!.process.resize(c.rows, c.cols),
  terminate: async (c) => ({ running: await started.get(c.process)!.process.terminate() }),
  putFile: (c) => client.files.write(c.path, lines(c.first, c.last)),
  async getFile(c) {
    const summary = new Summary();
    for await (const block of client.files.blocks(c.path)) summary.add(block);
    return summary.report();
  },
  list: async (c) => ({ names: (await client.files.list(c.path)).map((e) => e.fileName).sort() }),
  async stat(c) {
    const { size, isFile, isDirectory } = await client.files.stat(c.path);
    return { size, isFile, isDirectory };
  },
  async forward(c) {
    const forward = await client.forward(c.process ? started.get(c.process)!.process : c.port, { host: c.host });
    forwards.set(c.forward, forward);
    return { port: forward.port };
  },
  stopForward: (c) => forwards.get(c.forward)!.close(),
  /** Sends bytes to a port, and reads what comes back, to the end. */
  async exchange(c) {
    const stream = await client.connectPort(c.port, { host: c.host });
    const summary = new Summary();
    const sending = stream.write(lines(c.first, c.last)).then(() => stream.end());
    sending.catch(() => {}); // reading fails, too
    for await (const data of stream) summary.add(data);
    await stream.close();
    return summary.report();
  },
};

async function carryOut(c: Command): Promise<unknown> {
  try {
    const command = commands[c.do];
    if (!command) throw new Error(`unknown command ${c.do}`);
    return { id: c.id, result: (await command(c)) ?? {} };
  } catch (e) {
    const name = errors.find(([kind]) => e instanceof kind)?.[1] ?? "other";
    return { id: c.id, error: name, message: String(e) };
  }
}

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  void carryOut(JSON.parse(line)).then((answer) => process.stdout.write(JSON.stringify(answer) + "\n"));
});
input.on("close", () => process.exit(0));
