// WebSockets: the library ws under Node, the browser's own elsewhere.

import type { Duplex } from "node:stream";

import { ConnectError } from "./errors.js";

/** connectTimeoutMs bounds an attempt: TCP, TLS and the upgrade. */
const connectTimeoutMs = 10_000;

/** maxMessage is the size of the largest message of a server. */
const maxMessage = 64 << 20;

/** Above maxBuffered, a message waits in browsers before it counts as sent. */
const maxBuffered = 1 << 20;
const pollMs = 10;

/** A Socket is an open WebSocket. */
export interface Socket {
  /** sent is called when the message is on its way, or the connection has ended. */
  send(text: string, sent?: () => void): void;
  /** Ends the connection without waiting for the peer. */
  drop(): void;
  /** Stops the reading of messages, and goes on with it. Browsers cannot do that. */
  pause?(): void;
  resume?(): void;
  onMessage: (text: string) => void;
  onEnd: (code: number, reason: string) => void;
}

/** openSocket connects to ws://, wss:// or, under Node, unix://. */
export async function openSocket(url: string, token: string | undefined): Promise<Socket> {
  if (!/^(ws|wss|unix):\/\//.test(url)) throw new ConnectError(`the address ${url} is not one of ws://, wss:// and unix://`);
  if (typeof process !== "undefined" && process.versions?.node) return openNodeSocket(url, token);
  if (token !== undefined || url.startsWith("unix://")) {
    throw new ConnectError("browsers have neither tokens nor unix sockets for WebSockets");
  }
  return openBrowserSocket(url);
}

async function openNodeSocket(url: string, token: string | undefined): Promise<Socket> {
  const { WebSocket } = await import("ws");
  const target = url.startsWith("unix://") ? `ws+unix://${url.slice("unix://".length)}:/` : url;
  const tunnel = await tunnelTo(url);
  const ws = new WebSocket(target, {
    ...(tunnel ? { createConnection: tunnel } : {}),
    headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
    handshakeTimeout: connectTimeoutMs,
    maxPayload: maxMessage,
    perMessageDeflate: false,
  });
  const socket: Socket = {
    send: (text, sent) => ws.send(text, () => sent?.()), // an error ends the connection, too
    drop: () => ws.terminate(),
    pause: () => ws.pause(),
    resume: () => ws.resume(),
    onMessage: () => {},
    onEnd: () => {},
  };
  return new Promise((resolve, reject) => {
    let status = 0;
    const failed = (why: string) => reject(new ConnectError(`cannot connect to ${url}: ${why}`, status));
    ws.on("unexpected-response", (request, response) => {
      status = response.statusCode ?? 0;
      failed(`the server answered with the status ${status}`);
      request.destroy();
    });
    ws.on("error", (e) => failed(e.message || String(e)));
    ws.on("open", () => resolve(socket));
    ws.on("message", (data) => socket.onMessage(data.toString()));
    ws.on("close", (code, reason) => {
      failed("the server has closed the connection");
      socket.onEnd(code, reason.toString());
    });
  });
}

/** tunnelTo opens a tunnel to the server if the environment names a proxy for it. It returns how the WebSocket gets its connection. */
async function tunnelTo(url: string): Promise<((options: object) => Duplex) | undefined> {
  if (url.startsWith("unix://")) return undefined;
  const { addressOf, openTunnel, proxyFor } = await import("./proxy.js");
  const u = new URL(url);
  const secure = u.protocol === "wss:";
  const port = Number(u.port) || (secure ? 443 : 80);
  const proxy = proxyFor(secure, u.hostname, port);
  if (!proxy) return undefined;
  let socket: Awaited<ReturnType<typeof openTunnel>>;
  try {
    socket = await openTunnel(proxy, u.hostname, port, connectTimeoutMs);
  } catch (e) {
    const why = `the proxy at ${addressOf(proxy)}, which the environment names, does not lead there: ${e instanceof Error ? e.message : e}`;
    throw new ConnectError(`cannot connect to ${url}: ${why}`);
  }
  if (!secure) return () => socket;
  const tls = await import("node:tls");
  const net = await import("node:net");
  const host = u.hostname.replace(/^\[|\]$/g, "");
  return () => tls.connect({ socket, servername: net.isIP(host) ? "" : host });
}

function openBrowserSocket(url: string): Promise<Socket> {
  const ws = new WebSocket(url);
  const socket: Socket = {
    send: (text, sent) => {
      ws.send(text);
      const check = () => {
        if (ws.bufferedAmount <= maxBuffered || ws.readyState !== ws.OPEN) sent?.();
        else setTimeout(check, pollMs); // there is no event
      };
      check();
    },
    drop: () => ws.close(),
    onMessage: () => {},
    onEnd: () => {},
  };
  return new Promise((resolve, reject) => {
    const failed = (why: string) => {
      clearTimeout(timer);
      reject(new ConnectError(`cannot connect to ${url}: ${why}`));
    };
    const timer = setTimeout(() => {
      failed("the server did not answer in time");
      ws.close();
    }, connectTimeoutMs);
    ws.onopen = () => {
      clearTimeout(timer);
      resolve(socket);
    };
    ws.onmessage = (e) => socket.onMessage(String(e.data));
    ws.onclose = (e) => {
      failed("the connection was refused");
      socket.onEnd(e.code, e.reason);
    };
  });
}
