// Find in the whole log: the server searches, the page jumps.
import { h, icon, set, text } from "./dom.ts";
import { visibleText } from "./format.ts";
import type { SearchLine, SearchResult } from "./protocol.ts";

const pageMatches = 200;
const maxKept = 2000; // matches in the list

type Call = <R>(method: string, params: object) => Promise<R>;

export interface Query {
  pattern: string; // as the server takes it
  source: string; // as it was typed
  regex: boolean;
  ignoreCase: boolean;
}

export interface Match {
  line: SearchLine;
  occurrence: number; // among the lines with the same text that begin in the same event
}

/** A pattern that matches a text literally. */
export function quotePattern(literal: string): string {
  return literal.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");
}

/** Numbers the matches, so that each can be found in its event. */
export function matchesOf(lines: readonly SearchLine[], before: readonly Match[]): Match[] {
  const seen = new Map<string, number>();
  const name = (line: SearchLine) => `${line.seq} ${line.text}`;
  for (const { line } of before) seen.set(name(line), (seen.get(name(line)) ?? 0) + 1);
  return lines
    .filter((line) => line.match)
    .map((line) => {
      const occurrence = seen.get(name(line)) ?? 0;
      seen.set(name(line), occurrence + 1);
      return { line, occurrence };
    });
}

export class Find {
  readonly element: HTMLElement;
  onJump: (match: Match, query: Query) => void = () => {};
  onClose: () => void = () => {};
  private call: Call | undefined;
  private target: { sessionId: string; processId: string } | undefined;
  private matches: Match[] = [];
  private nextLine: number | undefined;
  private at = -1;
  private generation = 0;
  private query: Query | undefined;
  private readonly input = h("input", { type: "search", class: "find-input", placeholder: "Find in the whole log", "aria-label": "Find in the whole log", autocomplete: "off", spellcheck: "false" });
  private readonly matchCase = h("button", { type: "button", class: "toggle", "aria-pressed": "false", title: "Match case" }, "Aa");
  private readonly regex = h("button", { type: "button", class: "toggle", "aria-pressed": "false", title: "Regular expression (RE2)" }, ".*");
  private readonly count = h("span", { class: "find-count", role: "status" });
  private readonly results = h("ol", { class: "find-results", "aria-label": "Lines that match" });

  constructor() {
    const button = (name: string, label: string, run: () => void) => h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick: run }, icon(name));
    this.element = h("div", { class: "find", hidden: true, role: "search" },
      h("div", { class: "find-bar" }, this.input, this.matchCase, this.regex, this.count,
        button("up", "Match before", () => this.step(-1)), button("down", "Next match", () => this.step(1)), button("close", "Close", () => this.close())),
      this.results);
    for (const toggle of [this.matchCase, this.regex]) {
      toggle.addEventListener("click", () => {
        set(toggle, "aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
        void this.search();
      });
    }
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        if (this.query?.source !== this.input.value) void this.search();
        else this.step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") this.close();
      else if (event.key === "ArrowDown") this.step(1);
      else if (event.key === "ArrowUp") this.step(-1);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** Begins for another command. */
  reset(call: Call, target: { sessionId: string; processId: string }): void {
    this.call = call;
    this.target = target;
    this.forget();
    if (!this.element.hidden) this.close();
  }

  open(): void {
    if (!this.target) return;
    this.element.hidden = false;
    this.input.focus();
    this.input.select();
  }

  close(): void {
    this.element.hidden = true;
    this.generation++;
    this.onClose();
  }

  private forget(): void {
    this.generation++;
    this.matches = [];
    this.nextLine = undefined;
    this.at = -1;
    this.query = undefined;
    this.results.replaceChildren();
    text(this.count, "");
  }

  private async search(): Promise<void> {
    const source = this.input.value;
    this.forget();
    if (source === "") return;
    const regex = this.regex.getAttribute("aria-pressed") === "true";
    const ignoreCase = this.matchCase.getAttribute("aria-pressed") !== "true";
    this.query = { source, pattern: regex ? source : quotePattern(source), regex, ignoreCase };
    text(this.count, "searching…");
    if (await this.more(1)) this.show(0);
  }

  /** Asks for the matches from a line on. */
  private async more(fromLine: number): Promise<boolean> {
    const generation = this.generation;
    const { query, target, call } = this;
    if (!query || !target || !call) return false;
    try {
      const params = { ...target, pattern: query.pattern, ignoreCase: query.ignoreCase, fromLine, maxMatches: pageMatches };
      const result = await call<SearchResult>("tether/process/search", params);
      if (generation !== this.generation) return false;
      const known = new Set(this.matches.map((match) => match.line.line));
      const added = matchesOf(result.lines.filter((line) => !known.has(line.line)), this.matches);
      for (const match of added) this.addResult(match);
      this.matches.push(...added);
      this.nextLine = this.matches.length < maxKept ? result.nextLine : undefined;
      this.tell();
      return added.length > 0;
    } catch (error) {
      if (generation === this.generation) text(this.count, error instanceof Error ? error.message : String(error));
      return false;
    }
  }

  private addResult(match: Match): void {
    const index = this.results.childElementCount;
    const { line } = match;
    const shown = visibleText(line.text.replace(/\x1b\[[0-9;:?]*[A-Za-z]/g, "")).slice(0, 300);
    this.results.append(
      h("li", {}, h("button", { type: "button", class: "find-result", onclick: () => this.show(index) },
        h("span", { class: "find-line" }, line.line), h("span", { class: `find-text stream-${line.stream}` }, shown))));
  }

  private step(by: number): void {
    if (this.matches.length === 0) {
      void this.search();
      return;
    }
    const to = this.at + by;
    if (to >= this.matches.length && this.nextLine !== undefined) {
      void this.more(this.nextLine).then((added) => added && this.show(to));
      return;
    }
    this.show((to + this.matches.length) % this.matches.length);
  }

  private show(index: number): void {
    const match = this.matches[index];
    if (!match || !this.query) return;
    this.results.children[this.at]?.firstElementChild?.removeAttribute("aria-current");
    this.at = index;
    const current = this.results.children[index]?.firstElementChild;
    current?.setAttribute("aria-current", "true");
    current?.scrollIntoView({ block: "nearest" });
    this.tell();
    this.onJump(match, this.query);
  }

  private tell(): void {
    const { length } = this.matches;
    if (length === 0) text(this.count, "no match");
    else text(this.count, `${Math.max(0, this.at) + 1} of ${length}${this.nextLine === undefined ? "" : "+"}`);
  }
}
