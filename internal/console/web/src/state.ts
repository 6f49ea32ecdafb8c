// What a command is doing, in words, a drawing and a tone: never by colour alone.
import type { ProcessInfo } from "./protocol.ts";
import { spanText } from "./format.ts";

export type Tone = "live" | "wait" | "bad" | "calm";

export interface Face {
  icon: string;
  word: string;
  tone: Tone;
}

const activities: Record<string, Face> = {
  usingCpu: { icon: "running", word: "running", tone: "live" },
  running: { icon: "running", word: "running", tone: "live" },
  unknown: { icon: "running", word: "running", tone: "live" },
  waitingForInput: { icon: "input", word: "waiting for input", tone: "wait" },
  outputNotRead: { icon: "blocked", word: "blocked: output not read", tone: "bad" },
  blockedOnPipe: { icon: "blocked", word: "blocked on a pipe", tone: "wait" },
  stopped: { icon: "stopped", word: "stopped", tone: "wait" },
  sleeping: { icon: "asleep", word: "sleeping", tone: "calm" },
  waitingForDisk: { icon: "asleep", word: "waiting for the disk", tone: "calm" },
  waitingOnNetwork: { icon: "asleep", word: "waiting on the network", tone: "calm" },
  waitingForEvents: { icon: "asleep", word: "waiting for events", tone: "calm" },
  waitingForLock: { icon: "asleep", word: "waiting for a lock", tone: "calm" },
  waitingForSignal: { icon: "asleep", word: "waiting for a signal", tone: "calm" },
  waitingForChild: { icon: "asleep", word: "waiting for a child", tone: "calm" },
  waiting: { icon: "asleep", word: "waiting", tone: "calm" },
  zombie: { icon: "stopped", word: "ended, not collected", tone: "calm" },
  outputHeld: { icon: "stopped", word: "exited, output still open", tone: "calm" },
};

/** What a command is doing. */
export function faceOf(p: ProcessInfo): Face {
  if (p.state !== "running") {
    if (p.sandboxDenied) return { icon: "refused", word: "refused by the sandbox", tone: "bad" };
    if (p.exitCode === 0) return { icon: "done", word: "exited 0", tone: "calm" };
    return { icon: "failed", word: `exited ${p.exitCode ?? "?"}`, tone: "bad" };
  }
  if (p.blocked) return activities.outputNotRead!;
  return activities[p.stateDetail?.activity ?? "running"] ?? activities.running!;
}

/** The word of the state, with how long a command has been silent, unless its output is not read. */
export function stateText(p: ProcessInfo): string {
  const face = faceOf(p);
  const silent = p.stateDetail?.silentMs ?? 0;
  return p.state === "running" && !p.blocked && silent >= 5000 ? `${face.word} · silent ${spanText(silent)}` : face.word;
}

/** Whether a command can still be typed into or signalled. */
export function isAlive(p: ProcessInfo): boolean {
  return p.state === "running";
}
