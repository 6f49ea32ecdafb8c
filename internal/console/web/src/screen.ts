// One xterm.js terminal: its size, colours and links, and what the rest of the page needs of it.
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { type IMarker, Terminal } from "@xterm/xterm";
import { maxLines } from "./pages.ts";
import { guardCounts, guardQueries } from "./queries.ts";
import { styledDocument } from "./sheets.ts";
import { foundColors, onThemeChange, terminalTheme } from "./theme.ts";

const fontFamily = 'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const fontSize = 13;

/** Letters shrink so that all columns of a command's terminal fit, down to this size; below it, the person scrolls sideways. */
const readableFont = 10;

/** So that all of its lines fit, they shrink further: the newest line is the last one. */
const smallestFont = 7;

export interface Size {
  cols: number;
  rows: number;
}

/** For so long after its place or its content has changed, the terminal stays at the newest line, unless the person scrolls. The browser moves the
 * scroll bar within a frame or two, which take seconds on a very busy machine. */
const holdMs = 5000;

/** What a link may open: pages, and nothing that runs. */
function isPage(link: string): boolean {
  try {
    return ["http:", "https:"].includes(new URL(link).protocol);
  } catch {
    return false;
  }
}

export class Screen {
  readonly terminal: Terminal;
  /** Text that was written and is not in the terminal yet. */
  backlog = 0;
  /** The output that is being written is new: it was not shown before. */
  live = false;
  /** The terminal shows the newest output, not a part of the log that the person has chosen. */
  following = false;
  /** This page types into the command. */
  typing = false;
  onScroll: () => void = () => {};
  onLink: (link: string) => void = () => {};
  private readonly fitter = new FitAddon();
  private readonly finder = new SearchAddon();
  private readonly resizes = new ResizeObserver(() => {
    if (this.atBottom) this.hold();
    this.fit();
  });
  private readonly stopThemes: () => void;
  private fixed: Size | undefined;
  private heldUntil = 0;
  private highlightAgain: () => void = () => {}; // in the colours of now

  constructor(
    private readonly parent: HTMLElement,
    label: string,
  ) {
    const open = (_: unknown, link: string) => isPage(link) && this.onLink(link);
    this.terminal = new Terminal({
      allowProposedApi: true, // decorations of the search add-on
      cursorBlink: false,
      cursorInactiveStyle: "none",
      disableStdin: true,
      documentOverride: styledDocument,
      fontFamily,
      fontSize,
      lineHeight: 1.2,
      linkHandler: { activate: open, allowNonHttpProtocols: false },
      minimumContrastRatio: 4.5,
      scrollback: maxLines + 2000,
      theme: terminalTheme(),
    });
    this.terminal.loadAddon(this.fitter);
    this.terminal.loadAddon(this.finder);
    this.terminal.loadAddon(new WebLinksAddon(open));
    this.terminal.open(parent);
    this.terminal.textarea?.setAttribute("aria-label", label);
    guardCounts(this.terminal);
    guardQueries(this.terminal, () => this.live && this.typing);
    this.terminal.onScroll(() => this.onScroll());
    this.parent.querySelector(".xterm-viewport")?.addEventListener("scroll", () => {
      // When its place or its content changes, the browser may move the scroll bar. xterm.js takes that for the person, and leaves the newest line.
      if (this.following && performance.now() < this.heldUntil && !this.atBottom) this.terminal.scrollToBottom();
      this.onScroll();
    });
    for (const type of ["wheel", "pointerdown", "keydown"]) this.terminal.element?.addEventListener(type, () => (this.heldUntil = 0), { capture: true, passive: true });
    this.stopThemes = onThemeChange(() => {
      this.terminal.options.theme = terminalTheme();
      this.highlightAgain();
    });
    this.resizes.observe(parent);
    this.fit();
  }

  /** Writes text. The promise resolves when the terminal has it; `parsed` is called before the terminal takes what is
   * written next. */
  write(text: string, parsed?: () => void): Promise<void> {
    if (text === "" && !parsed) return Promise.resolve();
    this.backlog += text.length;
    return new Promise((resolve) => {
      this.terminal.write(text, () => {
        this.backlog -= text.length;
        parsed?.();
        resolve();
      });
    });
  }

  /** Empties the terminal, in order with what is written before and after. */
  clear(): void {
    void this.write("\x1bc");
  }

  /** The line in which the cursor is now, wherever later output moves it. */
  mark(): IMarker | undefined {
    return this.terminal.registerMarker(0);
  }

  /** Shows a command's own size, with letters that fit; undefined: as many lines and columns as fit. */
  setSize(size: Size | undefined): void {
    if (size?.cols === this.fixed?.cols && size?.rows === this.fixed?.rows) return;
    this.fixed = size;
    this.fit();
  }

  /** The size that fits the place of the terminal at the usual size of letters. */
  proposal(): Size | undefined {
    const before = this.terminal.options.fontSize;
    this.terminal.options.fontSize = fontSize;
    const size = this.fitter.proposeDimensions();
    this.terminal.options.fontSize = before;
    return size && Number.isFinite(size.cols) && Number.isFinite(size.rows)
      ? { cols: Math.max(2, size.cols), rows: Math.max(1, size.rows) }
      : undefined;
  }

  fit(): void {
    if (this.parent.clientWidth === 0 || this.parent.clientHeight === 0) return;
    const natural = this.proposal();
    if (!natural) return;
    const { cols, rows } = this.fixed ?? natural;
    const forColumns = Math.max(readableFont, (fontSize * natural.cols) / cols);
    const forRows = Math.max(smallestFont, (fontSize * natural.rows) / rows);
    const size = this.fixed ? Math.floor(Math.min(fontSize, forColumns, forRows) * 2) / 2 : fontSize;
    if (this.terminal.options.fontSize !== size) this.terminal.options.fontSize = size;
    if (this.terminal.cols !== cols || this.terminal.rows !== rows) this.terminal.resize(cols, rows);
  }

  get atTop(): boolean {
    return this.terminal.buffer.active.viewportY === 0;
  }

  get atBottom(): boolean {
    const { viewportY, baseY } = this.terminal.buffer.active;
    return viewportY >= baseY;
  }

  /** Highlights text near the middle of the screen and elsewhere. Patterns that only the server understands are left out. */
  highlight(pattern: string, regex: boolean, ignoreCase: boolean, line: number): void {
    const { match, active } = foundColors();
    this.highlightAgain = () => this.highlight(pattern, regex, ignoreCase, line);
    this.terminal.select(0, line, 0);
    try {
      this.finder.findNext(pattern, {
        regex,
        caseSensitive: !ignoreCase,
        incremental: true,
        decorations: {
          matchBackground: match,
          matchOverviewRuler: match,
          activeMatchBackground: active,
          activeMatchColorOverviewRuler: active,
        },
      });
    } catch {
      this.terminal.clearSelection();
    }
  }

  clearHighlight(): void {
    this.highlightAgain = () => {};
    this.finder.clearDecorations();
    this.terminal.clearSelection();
  }

  /** Goes to the newest line, and stays there. */
  toNewest(): void {
    this.hold();
    this.terminal.scrollToBottom();
  }

  private hold(): void {
    this.heldUntil = performance.now() + holdMs;
  }

  /** Scrolls so that a line of the buffer is in the middle. */
  center(line: number): void {
    this.heldUntil = 0;
    this.terminal.scrollToLine(Math.max(0, line - Math.floor(this.terminal.rows / 2)));
  }

  /** Ends the terminal. Its place and the colours outlive it, and would keep it in memory. xterm.js 5.5 asks its renderer for
   * sizes in a timeout after it was opened and in a frame after a reset, and fails if the renderer has ended by then. */
  dispose(): void {
    this.resizes.disconnect();
    this.stopThemes();
    this.parent.replaceChildren();
    this.terminal.write("", () => requestAnimationFrame(() => setTimeout(() => this.terminal.dispose())));
  }
}
