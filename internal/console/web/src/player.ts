// The clock of a recording: which events are due, at which speed, with pauses shortened. It knows no screen.
import type { CastEvent, Recording } from "./cast.ts";

export const speeds = [1, 2, 4, 8, 16];

/** A pause is shortened to this many seconds. */
const longestPause = 1;

/** After the last event the picture stays so long. */
const rest = 0.5;

/** The times of events, with pauses shortened. */
export function timesOf(events: readonly CastEvent[], shorten: boolean): Float64Array {
  const times = new Float64Array(events.length);
  let saved = 0;
  let before = 0;
  for (let i = 0; i < events.length; i++) {
    const { at } = events[i]!;
    if (shorten && at - before > longestPause) saved += at - before - longestPause;
    times[i] = at - saved;
    before = at;
  }
  return times;
}

export class Player {
  speed = 1;
  playing = false;
  /** The position in seconds. */
  position = 0;
  private next = 0; // the first event that was not shown yet
  private times: Float64Array;
  private shortened = true;

  constructor(readonly recording: Recording) {
    this.times = timesOf(recording.events, true);
  }

  get duration(): number {
    return this.times.length === 0 ? 0 : this.times[this.times.length - 1]! + rest;
  }

  get atEnd(): boolean {
    return this.position >= this.duration;
  }

  /** Whether pauses are shortened. The event that is shown stays the same when that changes. */
  get shorten(): boolean {
    return this.shortened;
  }

  set shorten(shorten: boolean) {
    if (shorten === this.shortened) return;
    const since = this.next > 0 ? this.position - this.times[this.next - 1]! : 0;
    this.shortened = shorten;
    this.times = timesOf(this.recording.events, shorten);
    const base = this.next > 0 ? this.times[this.next - 1]! : 0;
    const limit = this.next < this.times.length ? this.times[this.next]! : this.duration;
    this.position = Math.min(base + Math.max(0, since), limit);
  }

  /** Lets time pass, and returns the events that are due. */
  advance(seconds: number): CastEvent[] {
    if (!this.playing) return [];
    this.position = Math.min(this.duration, this.position + seconds * this.speed);
    if (this.atEnd) this.playing = false;
    return this.due();
  }

  /** Goes to a position. It returns the events that lead there, and whether they begin with the first one. */
  seek(position: number): { events: CastEvent[]; fresh: boolean } {
    const target = Math.max(0, Math.min(position, this.duration));
    const fresh = target < this.position;
    if (fresh) this.next = 0;
    this.position = target;
    return { events: this.due(), fresh };
  }

  private due(): CastEvent[] {
    const from = this.next;
    while (this.next < this.times.length && this.times[this.next]! <= this.position) this.next++;
    return this.recording.events.slice(from, this.next);
  }
}
