// The rows of the list: sessions, and below each its commands.
import type { Command, Snapshot } from "./inventory.ts";
import type { SessionInfo } from "./protocol.ts";
import { commandText, visibleText } from "./format.ts";

export type Row =
  | { kind: "session"; id: string; session: SessionInfo; open: boolean; shown: number; position: number; size: number }
  | { kind: "command"; id: string; command: Command; position: number; size: number };

export interface Filter {
  text: string;
  runningOnly: boolean;
}

/** The name of a session for people. */
export function sessionName(s: SessionInfo): string {
  return visibleText(s.label || s.clientName || "unnamed client");
}

/** All rows in their order: attached sessions before others, running commands before ended ones, the newest first. */
export function rowsOf(snapshot: Snapshot, filter: Filter, closed: ReadonlySet<string>, own: string | undefined): Row[] {
  const bySession = new Map<string, Command[]>();
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const names = new Map(snapshot.sessions.map((s) => [s.sessionId, `${s.label ?? ""} ${s.clientName}`.toLowerCase()]));
  for (const command of snapshot.commands.values()) {
    const { info } = command;
    if (filter.runningOnly && info.state !== "running") continue;
    if (words.length > 0) {
      const text = `${commandText(info.argv)} ${info.processId} ${info.pid} ${names.get(info.sessionId) ?? ""}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    const list = bySession.get(info.sessionId);
    if (list) list.push(command);
    else bySession.set(info.sessionId, [command]);
  }
  const sessions = snapshot.sessions
    .filter((s) => s.sessionId !== own && (bySession.has(s.sessionId) || (words.length === 0 && !filter.runningOnly)))
    .sort((a, b) => Number(b.attached) - Number(a.attached) || b.createdAtMs - a.createdAtMs);
  const rows: Row[] = [];
  sessions.forEach((session, i) => {
    const commands = bySession.get(session.sessionId) ?? [];
    const open = !closed.has(session.sessionId);
    const { sessionId } = session;
    rows.push({ kind: "session", id: sessionId, session, open, shown: commands.length, position: i + 1, size: sessions.length });
    if (!open) return;
    const isRunning = (c: Command) => Number(c.info.state === "running");
    commands.sort((a, b) => isRunning(b) - isRunning(a) || b.info.startedAtMs - a.info.startedAtMs);
    commands.forEach((command, n) => {
      rows.push({ kind: "command", id: command.key, command, position: n + 1, size: commands.length });
    });
  });
  return rows;
}
