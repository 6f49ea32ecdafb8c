// The way in: the code after the # of the address becomes a cookie that scripts cannot read, and a key that only this page's
// origin can. The server wants both.

const keyName = "tether-console-key";

/** How long the server may take to say whether it knows this browser. The page tries to connect only after that. */
const patienceMs = 10_000;

async function post(body: object, signal?: AbortSignal): Promise<Response> {
  return fetch("login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
    signal: signal ?? null,
  });
}

/** The code in the part of an address that begins with #. */
export function codeOf(hash: string): string | null {
  return new URLSearchParams(hash.slice(1)).get("code");
}

/** Exchanges the code of the address, if it has one, and removes it from the address and the history. It returns false if
 * the server refuses the code. */
export async function signIn(): Promise<boolean> {
  const code = codeOf(location.hash);
  if (!code) return localStorage.getItem(keyName) !== null;
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await post({ code });
  if (!answer.ok) return isAdmitted();
  const { key } = (await answer.json()) as { key: string };
  localStorage.setItem(keyName, key);
  return true;
}

/** The address of the socket beside this page. What the page's own address asks for, such as a host behind a gateway, goes along. */
export function socketURL(): string {
  const url = new URL("socket", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  const query = new URLSearchParams(location.search);
  query.set("key", localStorage.getItem(keyName) ?? "");
  url.search = query.toString();
  return url.href;
}

/** Whether the server still knows this browser. A server that cannot be reached, or does not answer, may know it. */
export async function isAdmitted(ms = patienceMs): Promise<boolean> {
  const key = localStorage.getItem(keyName);
  if (!key) return false;
  try {
    return (await post({ key }, AbortSignal.timeout(ms))).status !== 403;
  } catch {
    return true;
  }
}
