// The terminal of one command: it follows the newest output, and reaches back to the first byte. Only a part of the log is in
// the terminal at a time; the rest is fetched when the person scrolls there.
import type { IMarker } from "@xterm/xterm";
import type { Event, Sink, Target } from "./follower.ts";
import { Follower, readEvent } from "./follower.ts";
import { Pages, type Piece } from "./pages.ts";
import type { ReadResult, SearchLine } from "./protocol.ts";
import type { Screen } from "./screen.ts";
import { Streams, type Shown } from "./streams.ts";

/** Bytes of one page of the log. */
const pageBytes = 256 << 10;

/** Bytes of newest output that a terminal is opened with. */
const tailBytes = 256 << 10;

export type Mode = "loading" | "observing" | "skimming" | "history" | "ended" | "failed";

export interface ViewState {
  mode: Mode;
  message: string;
  /** The terminal begins with the first byte that the server still has. */
  complete: boolean;
  /** Output before that is gone. */
  evicted: boolean;
  busy: boolean;
}

type Call = <R>(method: string, params: object) => Promise<R>;

export class View {
  state: ViewState = { mode: "loading", message: "", complete: false, evicted: false, busy: false };
  onState: (state: ViewState) => void = () => {};
  private follower: Follower | undefined;
  private pages: Pages;
  private streams: Streams;
  private generation = 0;
  private busy = false;

  constructor(
    private readonly call: Call,
    readonly target: Target,
    readonly tty: boolean,
    private readonly screen: Screen,
    private shown: Shown = "all",
  ) {
    this.pages = new Pages(screen.terminal.cols);
    this.streams = new Streams(shown);
    screen.terminal.options.convertEol = !tty;
    screen.onScroll = () => this.scrolled();
  }

  /** Shows the newest output and follows it. */
  async follow(): Promise<void> {
    const generation = this.begin();
    this.change({ mode: "loading", message: "" });
    const page = await this.read(generation, { beforeSeq: Number.MAX_SAFE_INTEGER, maxBytes: tailBytes });
    if (!page) return;
    const events = page.events.map((e) => readEvent(e));
    const { added } = this.pages.prepend(events);
    this.restart();
    await this.put(added);
    if (generation !== this.generation) return;
    this.screen.toNewest();
    this.reach(page);
    this.goOn(events.at(-1)?.seq ?? page.nextSeq - 1, events);
  }

  /** Shows only one of the streams, or all. */
  show(shown: Shown): void {
    this.shown = shown;
    void this.follow();
  }

  stop(): void {
    this.generation++;
    this.follower?.stop();
    this.follower = undefined;
    this.screen.onScroll = () => {};
  }

  /** A new connection is there. */
  reconnected(): void {
    if (this.follower) void this.follower.attach();
    else if (this.state.mode === "loading" || this.state.mode === "failed") void this.follow();
  }

  note(method: string, params: any): void {
    this.follower?.note(method, params);
  }

  owns(observeId: number): boolean {
    return this.follower?.owns(observeId) === true;
  }

  /** Goes to the first byte. */
  async first(): Promise<void> {
    const generation = this.begin();
    this.change({ mode: "loading", message: "" });
    const page = await this.read(generation, { afterSeq: 0, maxBytes: pageBytes });
    if (!page) return;
    await this.open(page, generation);
    if (generation !== this.generation) return;
    this.screen.terminal.scrollToTop();
    this.scrolled(); // the page may not fill the terminal
  }

  /** Goes to a line that a search has found. */
  async jump(found: SearchLine, occurrence: number): Promise<number | undefined> {
    const generation = this.begin();
    this.change({ mode: "loading", message: "" });
    const before = await this.read(generation, { beforeSeq: found.seq, maxBytes: pageBytes / 2 });
    const after = await this.read(generation, { afterSeq: found.seq - 1, maxBytes: pageBytes / 2 });
    if (!before || !after) return undefined;
    this.pages.prepend(before.events.map((e) => readEvent(e)));
    this.pages.appendSome(after.events.map((e) => readEvent(e)));
    const { pieces } = this.pages;
    const at = pieces.findIndex((piece) => piece.seq >= found.seq);
    if (at < 0) return undefined;
    this.restart();
    const marker = await this.putAndMark(pieces, at, found, occurrence);
    if (generation !== this.generation) return undefined;
    this.reach(before);
    this.change({ mode: "history" });
    if (!marker || marker.line < 0) return undefined;
    this.screen.center(marker.line);
    return marker.line;
  }

  /** Older output, when the person has scrolled to the beginning of what the terminal has. */
  async older(): Promise<void> {
    const first = this.pages.first;
    if (this.busy || !first || this.state.complete) return;
    const generation = this.generation;
    if (this.state.mode === "skimming") this.pause();
    let more = false;
    this.setBusy(true);
    try {
      const page = await this.read(generation, { beforeSeq: first.offset > 0 ? first.seq + 1 : first.seq, maxBytes: pageBytes });
      if (!page || first !== this.pages.first) return; // the beginning has moved meanwhile
      const { added, cut } = this.pages.prepend(page.events.map((e) => readEvent(e)));
      if (added.length === 0) {
        this.reach(page);
        return;
      }
      if (cut) this.pause();
      const top = this.screen.terminal.buffer.active.viewportY;
      const pieces = this.pages.pieces.slice();
      // All of it is queued at once: new output that arrives meanwhile comes behind it.
      let marker: IMarker | undefined;
      this.restart();
      void this.put(added, () => (marker = this.screen.mark()));
      await this.put(pieces.slice(added.length), () => (this.screen.live = this.follower !== undefined));
      if (generation !== this.generation) return;
      if (marker && marker.line >= 0) this.screen.terminal.scrollToLine(marker.line + top);
      marker?.dispose();
      this.reach(page);
      more = true;
    } finally {
      this.setBusy(false);
    }
    if (more) this.scrolled(); // the page may have nothing of the streams that are shown
  }

  /** Newer output, when the person has scrolled to the end of what the terminal has. */
  async newer(): Promise<void> {
    const last = this.pages.readAfter;
    if (this.busy || this.follower || last === undefined || this.state.mode !== "history") return;
    const generation = this.generation;
    let more = false;
    this.setBusy(true);
    try {
      const page = await this.read(generation, { afterSeq: last, maxBytes: pageBytes / 2 });
      if (!page) return;
      const events = page.events.map((e) => readEvent(e));
      const before = this.pages.first;
      const added = this.pages.appendSome(events);
      await this.put(added);
      if (generation !== this.generation) return;
      more = added.length > 0 && (this.screen.terminal.buffer.active.baseY === 0 || !added.some((piece) => this.streams.shows(piece.stream)));
      if (before !== this.pages.first) this.change({ complete: false });
      this.goOnAtEnd(page, events);
    } finally {
      this.setBusy(false);
    }
    if (more) this.scrolled(); // without lines to scroll by, no event would ask for the next page
  }

  /** The follower of the newest output, from here on. */
  private goOn(afterSeq: number, events: readonly Event[]): void {
    if (events.at(-1)?.kind === "closed") {
      this.change({ mode: "ended" });
      return;
    }
    const generation = this.generation;
    const mine = () => generation === this.generation;
    const sink: Sink = {
      events: (events) => mine() && this.append(events),
      skip: (_, lost) => mine() && this.skip(lost),
      mode: (mode) => mine() && this.change({ mode }),
      failed: (message) => mine() && this.change({ mode: "failed", message }),
      backlog: () => this.screen.backlog,
    };
    this.follower = new Follower(this.call, this.target, afterSeq, sink);
    void this.screen.write("", () => mine() && (this.screen.live = this.follower !== undefined)); // behind the old output
    void this.follower.attach();
  }

  /** Adds the newest output. What the terminal gives up at its beginning is to be fetched again when the person scrolls there. */
  private append(events: readonly Event[]): void {
    const before = this.pages.first;
    const added = this.pages.append(events);
    if (this.state.complete && this.pages.first !== (before ?? added[0])) this.change({ complete: false });
    void this.put(added);
  }

  /** What follows does not continue what the terminal has. */
  private skip(lost: boolean): void {
    this.pages.clear();
    if (!this.tty) this.screen.clear();
    this.streams = new Streams(this.shown);
    this.change({ complete: false, evicted: this.state.evicted || lost });
  }

  /** Leaves the newest output: the person reads older output. */
  private pause(): void {
    this.follower?.stop();
    this.follower = undefined;
    this.screen.live = false;
    this.change({ mode: "history" });
  }

  private begin(): number {
    this.follower?.stop();
    this.follower = undefined;
    this.pages = new Pages(this.screen.terminal.cols);
    return ++this.generation;
  }

  private restart(): void {
    this.streams = new Streams(this.shown);
    this.screen.live = false;
    this.screen.clear();
  }

  private async open(page: ReadResult, generation: number): Promise<void> {
    const events = page.events.map((e) => readEvent(e));
    this.restart();
    await this.put(this.pages.appendSome(events));
    if (generation !== this.generation) return;
    this.reach(page);
    this.change({ mode: "history" });
    this.goOnAtEnd(page, events);
  }

  /** Follows from here on if the terminal has all of a page, and the page is the newest. */
  private goOnAtEnd(page: ReadResult, events: readonly Event[]): void {
    const output = events.findLast((event) => event.bytes.length > 0);
    const shown = this.pages.readAfter ?? 0;
    if (output && output.seq > shown) return;
    const end = events.at(-1)?.seq ?? Math.max(shown, page.nextSeq - 1);
    if (end + 1 >= page.nextSeq) this.goOn(end, events);
  }

  /** Notes how far back the terminal reaches. */
  private reach(page: ReadResult): void {
    const first = this.pages.first;
    const complete = !first || (first.seq <= page.firstSeq && first.offset === 0);
    this.change({ complete, evicted: page.firstSeq > 1 });
  }

  private put(pieces: readonly Piece[], parsed?: () => void): Promise<void> {
    return this.screen.write(pieces.map((piece) => this.streams.text(piece)).join(""), parsed);
  }

  /** Writes pieces, and marks the line that was found in one of them. */
  private async putAndMark(pieces: readonly Piece[], at: number, found: SearchLine, occurrence: number): Promise<IMarker | undefined> {
    const piece = pieces[at]!;
    const inside = piece.seq === found.seq ? lineStart(piece.bytes, found.text, (found.offset ?? 0) > 0, occurrence) : 0;
    const before = { ...piece, bytes: piece.bytes.subarray(0, inside) };
    const after = { ...piece, bytes: piece.bytes.subarray(inside) };
    let marker: IMarker | undefined;
    void this.put([...pieces.slice(0, at), before], () => (marker = this.screen.mark()));
    await this.put([after, ...pieces.slice(at + 1)]);
    return marker;
  }

  private scrolled(): void {
    if (this.state.mode === "loading" || this.busy) return;
    const { active } = this.screen.terminal.buffer;
    if (active.type === "alternate") return;
    if (this.state.mode === "skimming" && !this.screen.atBottom) this.pause(); // the person wants to read this
    if (this.screen.atTop && active.baseY > 0) void this.older();
    else if (this.screen.atBottom && this.state.mode === "history") void this.newer();
  }

  private async read(generation: number, params: object): Promise<ReadResult | undefined> {
    try {
      const page = await this.call<ReadResult>("tether/process/read", { ...this.target, ...params });
      return generation === this.generation ? page : undefined;
    } catch (error) {
      if (generation === this.generation) {
        this.change({ mode: "failed", message: error instanceof Error ? error.message : String(error) });
      }
      return undefined;
    }
  }

  private setBusy(busy: boolean): void {
    this.busy = busy;
    this.change({ busy });
  }

  private change(changes: Partial<ViewState>): void {
    this.state = { ...this.state, ...changes };
    this.screen.following = ["observing", "skimming", "ended"].includes(this.state.mode);
    this.onState(this.state);
  }
}

/** Where in an event a line begins: the occurrence of its text at the beginning of a line, counted from 0. */
export function lineStart(bytes: Uint8Array, line: string, middle: boolean, occurrence: number): number {
  const text = new TextEncoder().encode(line);
  let best = 0;
  for (let from = 0; from <= bytes.length - text.length; ) {
    const at = indexOf(bytes, text, from);
    if (at < 0) break;
    if (middle || at === 0 || bytes[at - 1] === 10) {
      best = at;
      if (occurrence-- <= 0) break;
    }
    from = at + 1;
  }
  return best;
}

function indexOf(bytes: Uint8Array, wanted: Uint8Array, from: number): number {
  if (wanted.length === 0) return bytes.indexOf(10, from); // an empty line is its end
  for (let at = bytes.indexOf(wanted[0]!, from); at >= 0; at = bytes.indexOf(wanted[0]!, at + 1)) {
    let i = 1;
    while (i < wanted.length && bytes[at + i] === wanted[i]) i++;
    if (i === wanted.length) return at;
  }
  return -1;
}
