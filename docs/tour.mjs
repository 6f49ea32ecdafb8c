// A command that outlives its connection, in one page and without a library.
//
//   node --experimental-websocket docs/tour.mjs ws://127.0.0.1:PORT
//
// (Node 22 and later need no flag.) This client starts a command that counts, closes the connection
// after the second line, connects again a second later and asks for the output that it missed.

const url = process.argv[2];
if (!url) throw new Error("usage: node --experimental-websocket docs/tour.mjs ws://127.0.0.1:PORT");

// connect opens a connection and does the handshake. onEvent is called with each notification.
async function connect(resumeSessionId, onEvent) {
  const socket = new WebSocket(url);
  const waiting = new Map();
  let lastId = 0;
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.method) return onEvent(message);
    const { resolve, reject } = waiting.get(message.id);
    waiting.delete(message.id);
    message.error ? reject(new Error(message.error.message)) : resolve(message.result);
  };
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error(`cannot connect to ${url}`));
  });
  const call = (method, params) => {
    const id = ++lastId;
    socket.send(JSON.stringify({ id, method, params }));
    return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  };
  const { sessionId } = await call("initialize", { clientName: "tour", resumeSessionId });
  socket.send(JSON.stringify({ method: "initialized" }));
  return { sessionId, call, hangUp: () => socket.close() };
}

const show = ({ seq, chunk }) => console.log(`  seq ${seq}: ${Buffer.from(chunk, "base64").toString().trim().replaceAll("\n", ", ")}`);

console.log("connected:");
let lastSeq = 0;
let enough;
const untilSecondLine = new Promise((resolve) => (enough = resolve));
const first = await connect(null, ({ method, params }) => {
  if (method === "process/closed") enough(); // on a slow machine, the command may end before
  if (method !== "process/output" || params.seq <= lastSeq || lastSeq >= 2) return;
  show(params);
  lastSeq = params.seq;
  if (lastSeq === 2) enough();
});
await first.call("process/start", {
  processId: "count",
  argv: ["/bin/sh", "-c", "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.4; done; exit 7"],
  cwd: "file:///",
  env: {},
  tty: false,
});
await untilSecondLine;
first.hangUp();
console.log("connection lost");
await new Promise((resolve) => setTimeout(resolve, 1000));

let closed;
const untilClosed = new Promise((resolve) => (closed = resolve));
const early = []; // notifications that arrive before the read below is answered
let live = (event) => early.push(event);
const second = await connect(first.sessionId, (event) => live(event));
const missed = await second.call("process/read", { processId: "count", afterSeq: lastSeq, waitMs: 0 });
console.log("back; meanwhile:");
missed.chunks.forEach(show);
if (missed.exited) console.log(`  exit code ${missed.exitCode}`); // if the command has ended meanwhile
if (missed.closed) closed();
lastSeq = missed.nextSeq - 1;

console.log("and live again:");
live = ({ method, params }) => {
  if (params.seq <= lastSeq) return; // this client has it already
  lastSeq = params.seq;
  if (method === "process/output") show(params);
  if (method === "process/exited") console.log(`  seq ${params.seq}: exit code ${params.exitCode}`);
  if (method === "process/closed") closed();
};
early.forEach(live);
await untilClosed;
second.hangUp();
