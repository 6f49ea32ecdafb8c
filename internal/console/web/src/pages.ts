// The part of a log that is in the terminal: consecutive pieces of events, from some line on. It moves over the log as the
// person scrolls, and never grows beyond its limit.
import type { Event } from "./follower.ts";

/** Lines of the terminal that the held part may take. A terminal of 200 columns needs 2.4 KB for a line. */
export const maxLines = 20_000;

/** A piece of output: an event, or the rest of one from an offset on. */
export interface Piece {
  seq: number;
  offset: number; // bytes of the event before this piece
  stream: string;
  timeMs: number;
  bytes: Uint8Array;
  lines: number; // at most so many lines of the terminal
  rest?: boolean; // the event has bytes after this piece
}

const newline = 10;

/** At most how many lines of a terminal this output takes. */
export function countLines(bytes: Uint8Array, columns: number): number {
  let lines = Math.ceil(bytes.length / columns);
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) lines++;
  return lines;
}

export class Pages {
  pieces: Piece[] = [];
  lines = 0;

  constructor(
    private readonly columns: number,
    private readonly limit = maxLines,
  ) {}

  /** Where the held part begins: the event, and the bytes of it that are not held. */
  get first(): { seq: number; offset: number } | undefined {
    return this.pieces[0];
  }


  clear(): void {
    this.pieces = [];
    this.lines = 0;
  }

  /** The event after which the output behind the held part is to be read. */
  get readAfter(): number | undefined {
    const last = this.pieces.at(-1);
    return last && (last.rest ? last.seq - 1 : last.seq);
  }

  /** Adds the newest output, and gives up as much at the beginning of the held part as is too much. */
  append(events: readonly Event[]): Piece[] {
    const added = events.filter((event) => event.bytes.length > 0).map((event) => this.piece(event, 0));
    this.hold(added);
    return added;
  }

  /** Adds output behind the held part, as much as half of the limit allows, and gives up as much at its beginning as is too
   * much. */
  appendSome(events: readonly Event[]): Piece[] {
    const added: Piece[] = [];
    let room = Math.floor(this.limit / 2);
    for (const event of events) {
      const last = this.pieces.at(-1);
      const piece = this.piece(event, last && last.seq === event.seq ? last.offset + last.bytes.length : 0);
      if (piece.bytes.length === 0) continue;
      if (piece.lines > room) {
        if (room > 0) added.push(this.head(piece, room));
        break;
      }
      added.push(piece);
      room -= piece.lines;
    }
    this.hold(added);
    return added;
  }

  private hold(added: readonly Piece[]): void {
    for (const piece of added) {
      this.pieces.push(piece);
      this.lines += piece.lines;
    }
    let drop = 0;
    while (drop < this.pieces.length - 1 && this.lines > this.limit) this.lines -= this.pieces[drop++]!.lines;
    if (drop > 0) this.pieces.splice(0, drop);
    const only = this.pieces[0];
    if (only && only.lines > this.limit) {
      this.pieces[0] = this.tail(only, this.limit);
      this.lines += this.pieces[0].lines - only.lines;
    }
  }

  /** Adds output before the held part: the end of it, as much as half of the limit allows, cut at the beginning of a line.
   * To make room it gives up output at the end of the held part. It returns what was added, and whether the end has moved. */
  prepend(events: readonly Event[]): { added: Piece[]; cut: boolean } {
    const room = Math.floor(this.limit / 2);
    const added: Piece[] = [];
    let lines = 0;
    for (const event of events.toReversed()) {
      const first = this.first;
      const isCut = first && event.seq === first.seq;
      let piece = this.piece(isCut ? { ...event, bytes: event.bytes.subarray(0, first.offset) } : event, 0);
      if (piece.bytes.length === 0) continue;
      if (isCut) piece.rest = true;
      if (lines + piece.lines > room) {
        if (added.length > 0) break;
        piece = this.tail(piece, room);
      }
      added.unshift(piece);
      lines += piece.lines;
    }
    this.pieces.unshift(...added);
    this.lines += lines;
    let cut = false;
    while (this.lines > this.limit && this.pieces.length > added.length) {
      this.lines -= this.pieces.pop()!.lines;
      cut = true;
    }
    return { added, cut };
  }

  /** The last lines of a piece. */
  private tail(piece: Piece, lines: number): Piece {
    const low = this.search(piece.bytes.length, (at) => countLines(piece.bytes.subarray(at), this.columns) <= lines);
    const next = piece.bytes.indexOf(newline, low);
    const from = next >= 0 && next + 1 < piece.bytes.length ? next + 1 : low;
    const bytes = piece.bytes.subarray(from);
    return { ...piece, offset: piece.offset + from, bytes, lines: countLines(bytes, this.columns) };
  }

  /** The first lines of a piece. */
  private head(piece: Piece, lines: number): Piece {
    const high = this.search(piece.bytes.length, (at) => countLines(piece.bytes.subarray(0, at), this.columns) > lines);
    const end = piece.bytes.lastIndexOf(newline, high - 2);
    const bytes = piece.bytes.subarray(0, end >= 0 ? end + 1 : Math.max(1, high - 1));
    return { ...piece, bytes, lines: countLines(bytes, this.columns), rest: bytes.length < piece.bytes.length };
  }

  /** The first number from 0 on for which a condition holds that stays true. */
  private search(end: number, holds: (at: number) => boolean): number {
    let low = 0;
    let high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  private piece(event: Event, offset: number): Piece {
    const { seq, stream, timeMs } = event;
    const bytes = offset > 0 ? event.bytes.subarray(offset) : event.bytes;
    return { seq, offset, stream, timeMs, bytes, lines: countLines(bytes, this.columns) };
  }
}
