// Proxies that the environment names, and tunnels through them. Only under Node.js.

import * as net from "node:net";
import * as tls from "node:tls";
import { domainToASCII } from "node:url";

const maxAnswer = 16 << 10; // bytes of the answer of a proxy to CONNECT

const ports: Record<string, number> = { "http:": 80, "https:": 443, "socks5:": 1080, "socks5h:": 1080 };

export interface Proxy {
  kind: "http" | "https" | "socks5";
  host: string;
  port: number;
  user?: string;
  password: string;
}

type Environment = Record<string, string | undefined>;

/** The address of a proxy, for messages. */
export const addressOf = (proxy: Proxy) => join(proxy.host, proxy.port);

/** Returns the proxy for a connection to a server, if the environment names one. A server on this machine is reached without. */
export function proxyFor(secure: boolean, host: string, port: number, env: Environment = process.env): Proxy | undefined {
  const address = unmapped(host);
  const name = host.toLowerCase().replace(/\.$/, "");
  if (isThisMachine(name, address)) return undefined;
  // In a CGI program HTTP_PROXY is the header Proxy of a request.
  const own = secure ? named(env, "HTTPS_PROXY") : env.REQUEST_METHOD === undefined ? named(env, "HTTP_PROXY") : undefined;
  const proxy = own ?? named(env, "ALL_PROXY");
  if (!proxy || variable(env, "NO_PROXY").split(",").some((entry) => covers(entry, name, address, port))) return undefined;
  return proxy;
}

/** Returns the value of a variable. Its name in lower case counts if that in upper case is not set. */
function variable(env: Environment, name: string): string {
  return (env[name] ?? env[name.toLowerCase()] ?? "").trim();
}

/** Returns the proxy in a variable. A value that cannot be used is ignored. */
function named(env: Environment, name: string): Proxy | undefined {
  const value = variable(env, name);
  if (value === "") return undefined;
  try {
    // The URLs of other schemes than http have no normal form: the host and the port are those of an http URL.
    const [, scheme, rest] = /^(?:([a-z0-9+.-]+):\/\/)?(.*)$/is.exec(value)!;
    const kind = `${(scheme ?? "http").toLowerCase()}:`;
    const usual = ports[kind];
    const u = new URL(`http://${rest}`);
    if (usual === undefined || u.hostname === "") return undefined;
    const explicit = /:(\d+)$/.exec(rest!.split(/[/?#]/)[0]!);
    return {
      kind: kind.replace(/h?:$/, "") as Proxy["kind"],
      host: unbracketed(u.hostname),
      port: explicit ? Number(explicit[1]) : usual,
      user: u.username === "" && u.password === "" ? undefined : decodeURIComponent(u.username),
      password: decodeURIComponent(u.password),
    };
  } catch {
    return undefined;
  }
}

const unbracketed = (host: string) => host.replace(/^\[|\]$/g, "");
const join = (host: string, port: number) => (net.isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`);

/** Returns an IP address, as IPv4 if it stands for such an address; undefined if the host is none. */
function unmapped(host: string): string | undefined {
  host = unbracketed(host);
  if (!net.isIPv6(host)) return net.isIPv4(host) ? host : undefined;
  const normal = unbracketed(new URL(`http://[${host.replace(/%.*/, "")}]`).hostname);
  const mapped = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(normal);
  if (!mapped) return normal;
  const [high, low] = [parseInt(mapped[1]!, 16), parseInt(mapped[2]!, 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

function isThisMachine(name: string, address: string | undefined): boolean {
  if (address !== undefined) return address.startsWith("127.") || ["0.0.0.0", "::", "::1"].includes(address);
  return name === "localhost" || name.endsWith(".localhost");
}

/** Reports whether an entry of NO_PROXY covers a host: *, an address, a range of addresses, or a name with all below it. With a port
 * it is for that port only. */
function covers(entry: string, name: string, address: string | undefined, port: number): boolean {
  entry = entry.trim().toLowerCase();
  const withPort = /^(\[.*\]|[^:]*):([^:]*)$/.exec(entry);
  if (withPort) {
    entry = withPort[1]!;
    if (withPort[2] !== String(port)) return false;
  }
  entry = unbracketed(entry);
  if (entry === "*") return true;
  const [, base, length] = /^(.*?)(?:\/(\d{1,3}))?$/.exec(entry)!;
  const range = unmapped(base!);
  if (range !== undefined || address !== undefined) {
    if (range === undefined || address === undefined) return false;
    const kind = net.isIPv6(range) ? "ipv6" : "ipv4";
    const most = kind === "ipv6" ? 128 : 32;
    if (Number(length ?? most) > most || net.isIPv6(address) !== (kind === "ipv6")) return false;
    const list = new net.BlockList();
    list.addSubnet(range, Number(length ?? most), kind);
    return list.check(address, kind);
  }
  entry = entry.replace(/^\*/, "").replace(/^\.+|\.+$/g, "");
  if (!/^[\x00-\x7f]*$/.test(entry)) entry = domainToASCII(entry);
  return entry !== "" && (name === entry || name.endsWith(`.${entry}`));
}

/** Connects to a server through a proxy, which also resolves the name of the server. */
export async function openTunnel(proxy: Proxy, host: string, port: number, timeoutMs: number): Promise<net.Socket> {
  const to = { host: proxy.host, port: proxy.port };
  const socket = proxy.kind === "https" ? tls.connect({ ...to, servername: net.isIP(proxy.host) ? "" : proxy.host }) : net.connect(to);
  const timer = setTimeout(() => socket.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)), timeoutMs);
  // An error after the tunnel was made is that of the WebSocket, which listens by then.
  let fail!: (e: Error) => void;
  const failed = new Promise<never>((_, reject) => (fail = reject));
  const ended = () => fail(new Error("the proxy has closed the connection"));
  socket.once("error", fail).once("close", ended);
  try {
    const made = (proxy.kind === "socks5" ? bySocks : byConnect)(new Bytes(socket), proxy, unbracketed(host), port);
    await Promise.race([made, failed]);
    socket.setNoDelay(true);
    return socket;
  } catch (e) {
    socket.on("error", () => {}).destroy();
    throw e;
  } finally {
    clearTimeout(timer);
    socket.off("error", fail).off("close", ended);
  }
}

/** Bytes reads exactly what it is asked for: what follows belongs to the tunnel. */
class Bytes {
  constructor(readonly socket: net.Socket) {}

  async read(n: number): Promise<Buffer> {
    for (;;) {
      const got = this.socket.read(n) as Buffer | null;
      if (got) return got;
      await new Promise<void>((resolve) => this.socket.once("readable", resolve));
    }
  }
}

/** Asks an HTTP proxy for a tunnel. */
async function byConnect(bytes: Bytes, proxy: Proxy, host: string, port: number): Promise<void> {
  const target = join(host, port);
  const login = Buffer.from(`${proxy.user}:${proxy.password}`).toString("base64");
  const authorization = proxy.user === undefined ? "" : `Proxy-Authorization: Basic ${login}\r\n`;
  bytes.socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${authorization}\r\n`);
  let answer = "";
  while (!/\r?\n\r?\n$/.test(answer)) {
    if (answer.length >= maxAnswer) throw new Error("the proxy's answer to CONNECT is too long");
    answer += (await bytes.read(1)).toString("latin1");
  }
  const status = /^HTTP\/1\.\d (\d{3})/.exec(answer)?.[1];
  if (status === undefined) throw new Error("the proxy's answer to CONNECT is not HTTP");
  if (!status.startsWith("2")) throw new Error(`the proxy refuses the tunnel with status ${status}`);
}

const socksFailures = [
  "",
  "general failure",
  "its rules forbid it",
  "the network is unreachable",
  "the host is unreachable",
  "the connection was refused",
  "the time is over",
];

/** Asks a SOCKS5 proxy for a tunnel (RFC 1928, RFC 1929). */
async function bySocks(bytes: Bytes, proxy: Proxy, host: string, port: number): Promise<void> {
  const send = (...parts: (number[] | Buffer)[]) => bytes.socket.write(Buffer.concat(parts.map((part) => Buffer.from(part))));
  const [user, password, name] = [Buffer.from(proxy.user ?? ""), Buffer.from(proxy.password), Buffer.from(host)];
  if (Math.max(user.length, password.length) > 255) throw new Error("the user or the password for the proxy is too long");
  if (name.length > 255) throw new Error("the name of the server is too long");
  send(proxy.user === undefined ? [5, 1, 0] : [5, 2, 0, 2]);
  const [version, method] = await bytes.read(2);
  if (version !== 5) throw new Error("the proxy does not speak SOCKS5");
  if (method === 2 && proxy.user !== undefined) {
    send([1, user.length], user, [password.length], password);
    if ((await bytes.read(2))[1] !== 0) throw new Error("the proxy refuses the user or the password");
  } else if (method !== 0) {
    throw new Error("the proxy wants another way to log in");
  }
  send([5, 1, 0], addressBytes(host) ?? Buffer.concat([Buffer.from([3, name.length]), name]), [port >> 8, port & 255]);
  const [, failure, , kind] = await bytes.read(4);
  if (failure) throw new Error(`the proxy refuses the tunnel: ${socksFailures[failure] ?? `reason ${failure}`}`);
  const length = kind === 1 ? 4 : kind === 4 ? 16 : (await bytes.read(1))[0]!;
  await bytes.read(length + 2);
}

/** Returns an IP address as SOCKS5 writes it; undefined if the host is a name. */
function addressBytes(host: string): Buffer | undefined {
  const address = unmapped(host);
  if (address === undefined) return undefined;
  if (net.isIPv4(address)) return Buffer.from([1, ...address.split(".").map(Number)]);
  const [front, back] = address.split("::");
  const groups = (text: string | undefined) => (text ? text.split(":").map((group) => parseInt(group, 16)) : []);
  const [first, last] = [groups(front), groups(back)];
  const all = [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
  return Buffer.from([4, ...all.flatMap((group) => [group >> 8, group & 255])]);
}
