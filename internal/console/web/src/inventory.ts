// What the server has: its sessions and commands, asked for once a second at most.
import type { ProcessInfo, SessionInfo } from "./protocol.ts";

/** A second, or longer if the answers take long: the page uses at most a tenth of its time on the list. */
const pauseMs = 1000;
const pausePerAnswer = 9;
const longestPauseMs = 10_000;

export interface Command {
  info: ProcessInfo;
  key: string;
  cpuShare: number | undefined; // of one processor, since the last answer
  bytesPerSecond: number;
}

export interface Snapshot {
  sessions: SessionInfo[];
  commands: Map<string, Command>;
}

/** Names a command on this server. */
export function keyOf(p: { sessionId: string; processId: string }): string {
  return `${p.sessionId}/${p.processId}`;
}

/** Puts an answer beside the one before it, to see what has changed since. */
export function compare(before: Snapshot | undefined, sessions: SessionInfo[], processes: ProcessInfo[], elapsedMs: number): Snapshot {
  const commands = new Map<string, Command>();
  for (const info of processes) {
    const key = keyOf(info);
    const old = before?.commands.get(key)?.info;
    const written = (p: ProcessInfo) => p.heldBytes + (p.droppedBytes ?? 0);
    let cpuShare: number | undefined;
    if (info.state === "running" && info.cpuMs !== undefined && old?.cpuMs !== undefined && elapsedMs > 0) {
      cpuShare = Math.max(0, info.cpuMs - old.cpuMs) / elapsedMs;
    }
    const bytesPerSecond = old && elapsedMs > 0 ? (Math.max(0, written(info) - written(old)) * 1000) / elapsedMs : 0;
    commands.set(key, { info, key, cpuShare, bytesPerSecond });
  }
  return { sessions, commands };
}

type Call = <R>(method: string, params: object) => Promise<R>;

export class Inventory {
  snapshot: Snapshot | undefined;
  onChange: (snapshot: Snapshot) => void = () => {};
  private answeredAt = 0;
  private wake: () => void = () => {};

  constructor(private readonly call: Call) {}

  /** Asks until the page is closed; while nobody sees the page, it does not ask. */
  async run(): Promise<void> {
    document.addEventListener("visibilitychange", () => this.refresh());
    for (;;) {
      if (document.hidden) await new Promise<void>((resolve) => (this.wake = resolve));
      const asked = performance.now();
      try {
        const [sessions, list] = await Promise.all([
          this.call<{ sessions: SessionInfo[] }>("tether/session/list", {}),
          this.call<{ processes: ProcessInfo[] }>("tether/process/list", { sessionId: null }),
        ]);
        const now = performance.now();
        this.snapshot = compare(this.snapshot, sessions.sessions, list.processes, now - this.answeredAt);
        this.answeredAt = now;
        this.onChange(this.snapshot);
      } catch {
        // The session says in its banner that there is no connection.
      }
      const took = performance.now() - asked;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(longestPauseMs, Math.max(pauseMs, took * pausePerAnswer)));
        this.wake = () => {
          clearTimeout(timer);
          setTimeout(resolve, Math.max(0, pauseMs - took));
        };
      });
    }
  }

  /** Asks soon, because something has changed. */
  refresh(): void {
    this.wake();
  }
}
