// Recordings in the format asciicast, version 2: a line with a header, and a line for each event, all of them JSON. What this
// file writes is what `tether record` writes.
import type { Event } from "./follower.ts";

export interface CastEvent {
  at: number; // seconds since the start
  kind: "o" | "r";
  text: string;
}

export interface Recording {
  title: string;
  cols: number;
  rows: number;
  events: CastEvent[];
}

/** Limits of a recording that is played: it is all in memory. */
export const maxRecording = 64 << 20;
const maxEvents = 1_000_000;
const maxSize = 500;

export class CastError extends Error {}

/** Reads a recording. Events of other kinds are left out. */
export function parseCast(text: string): Recording {
  let end = lineEnd(text, 0);
  const header = parseLine(text.slice(text.charCodeAt(0) === 0xfeff ? 1 : 0, end), 1);
  if (!isObject(header) || header.version !== 2) {
    throw new CastError('line 1: this is no recording: the first line is not a JSON object with "version": 2');
  }
  const recording: Recording = {
    title: typeof header.title === "string" ? header.title.slice(0, 1000) : "",
    cols: sizeOf(header.width, 80),
    rows: sizeOf(header.height, 24),
    events: [],
  };
  let last = 0;
  for (let line = 2; end < text.length; line++) {
    const start = end + 1;
    end = lineEnd(text, start);
    if (text.slice(start, Math.min(end, start + 100)).trim() === "") continue;
    if (recording.events.length >= maxEvents) throw new CastError(`line ${line}: more than ${maxEvents} events`);
    const event = parseLine(text.slice(start, end), line);
    if (!Array.isArray(event) || typeof event[0] !== "number" || !Number.isFinite(event[0]) || typeof event[2] !== "string") {
      throw new CastError(`line ${line}: an event is [seconds, "o", "text"]`);
    }
    last = Math.max(last, event[0]); // a time that goes back is that of the event before
    if (event[1] === "o" || event[1] === "r") recording.events.push({ at: last, kind: event[1], text: event[2] });
  }
  return recording;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sizeOf(value: unknown, usual: number): number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? Math.min(value, maxSize) : usual;
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end < 0 ? text.length : end;
}

function parseLine(line: string, number: number): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new CastError(`line ${number}: this is not JSON`);
  }
}

/** The size at which the page shows a terminal. Programs can give their terminal any size, and a browser cannot hold 65,535 × 65,535
 * characters. */
export function shownSize(size: { cols: number; rows: number }): { cols: number; rows: number } {
  return { cols: sizeOf(size.cols, 80), rows: sizeOf(size.rows, 24) };
}

/** The new size in an event of kind "r"; undefined if it has none. */
export function parseSize(text: string): { cols: number; rows: number } | undefined {
  const match = /^(\d{1,5})x(\d{1,5})$/.exec(text);
  return match ? shownSize({ cols: Number(match[1]), rows: Number(match[2]) }) : undefined;
}

/** Makes a recording of the events of a log, page by page. */
export class CastWriter {
  private readonly decoders = new Map<string, TextDecoder>();
  private startMs: number | undefined;
  private last = 0;

  constructor(private readonly options: { title: string; cols: number; rows: number; startMs?: number; tty: boolean }) {
    this.startMs = options.startMs;
  }

  header(): string {
    const { title, cols, rows, startMs } = this.options;
    return JSON.stringify({ version: 2, width: cols, height: rows, timestamp: Math.floor((startMs ?? 0) / 1000), title }) + "\n";
  }

  /** The event of an output; undefined if it has no whole character. */
  event(event: Event): CastEvent | undefined {
    this.startMs ??= event.timeMs;
    let decoder = this.decoders.get(event.stream);
    if (!decoder) this.decoders.set(event.stream, (decoder = new TextDecoder("utf-8", { ignoreBOM: true })));
    let text = decoder.decode(event.bytes, { stream: true });
    if (text === "") return undefined;
    if (!this.options.tty) text = text.replaceAll("\n", "\r\n");
    this.last = Math.max(this.last, (event.timeMs - this.startMs) / 1000);
    return { at: this.last, kind: "o", text };
  }
}

/** The line of an event. */
export function castLine({ at, kind, text }: CastEvent): string {
  return `[${at.toFixed(3)},"${kind}",${JSON.stringify(text)}]\n`;
}
