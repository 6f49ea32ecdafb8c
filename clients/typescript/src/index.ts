// Runs processes on another machine through a tether server, and keeps them through network failures.

export { Client, connect, type Options, type StartOptions } from "./client.js";
export * from "./errors.js";
export { Files, pathURI } from "./files.js";
export { type Forward, type ForwardOptions } from "./forward.js";
export { PortStream, type PortOptions } from "./ports.js";
export { Process, type Closed, type Event, type Exit, type Gap, type Output } from "./process.js";
export * as protocol from "./protocol.js";
