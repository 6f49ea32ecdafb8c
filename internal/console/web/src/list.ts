// The list of sessions and commands: a tree for the keyboard and for screen readers, of which only the rows that are seen
// exist.
import { h, icon, set, text } from "./dom.ts";
import { percentText, shortCommand, sizeText, spanText } from "./format.ts";
import type { Command, Snapshot } from "./inventory.ts";
import { type Filter, type Row, rowsOf, sessionName } from "./rows.ts";
import { faceOf, stateText } from "./state.ts";
import { offsetsOf, visibleSpan } from "./virtual.ts";

const heights = { session: 38, command: 56 };
const margin = 6; // rows outside of the seen part

export class List {
  readonly element: HTMLElement;
  onSelect: (key: string) => void = () => {};
  ownSession: string | undefined;
  private readonly tree = h("div", { class: "tree", role: "tree", tabindex: "0", "aria-label": "Sessions and commands" });
  private readonly space = h("div", { class: "tree-space", role: "presentation" });
  private readonly empty = h("p", { class: "tree-empty", hidden: true });
  private readonly input = h("input", {
    type: "search", class: "filter", placeholder: "Filter commands", "aria-label": "Filter commands", autocomplete: "off", spellcheck: "false",
  });
  private readonly running = h("input", { type: "checkbox", id: "running-only" });
  private readonly total = h("span", { class: "list-total", "aria-live": "polite" });
  private readonly drawn = new Map<string, HTMLElement>();
  private readonly collapsed = new Set<string>();
  private snapshot: Snapshot | undefined;
  private rows: Row[] = [];
  private offsets: number[] = [0];
  private active = ""; // the row of the keyboard
  private selected = ""; // the command in the terminal
  private lastId = 0;

  constructor(parent: HTMLElement) {
    this.element = parent;
    this.tree.append(this.space);
    parent.append(
      h("div", { class: "list-head" },
        h("div", { class: "filter-box" }, icon("search"), this.input),
        h("div", { class: "list-options" }, h("label", { for: "running-only" }, this.running, " Running only"), this.total)),
      this.empty,
      this.tree,
    );
    this.input.addEventListener("input", () => this.arrange());
    this.input.addEventListener("keydown", (e) => this.filterKey(e));
    this.running.addEventListener("change", () => this.arrange());
    this.tree.addEventListener("scroll", () => this.draw(), { passive: true });
    this.tree.addEventListener("keydown", (e) => this.key(e));
    this.tree.addEventListener("click", (e) => this.click(e));
    this.tree.addEventListener("focus", () => this.draw());
    this.tree.addEventListener("blur", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.tree);
  }

  update(snapshot: Snapshot): void {
    this.snapshot = snapshot;
    this.arrange();
  }

  /** Marks a command as the one in the terminal. */
  select(key: string): void {
    this.selected = this.active = key;
    this.draw();
    this.reveal();
  }

  focusFilter(): void {
    this.input.focus();
    this.input.select();
  }

  focus(): void {
    this.tree.focus();
  }

  private get filter(): Filter {
    return { text: this.input.value, runningOnly: this.running.checked };
  }

  private arrange(): void {
    if (!this.snapshot) return;
    this.rows = rowsOf(this.snapshot, this.filter, this.collapsed, this.ownSession);
    this.offsets = offsetsOf(this.rows.map((row) => heights[row.kind]));
    this.space.style.height = `${this.offsets.at(-1)}px`;
    let running = 0;
    for (const { info } of this.snapshot.commands.values()) if (info.state === "running") running++;
    text(this.total, `${running} of ${this.snapshot.commands.size} running`);
    this.empty.hidden = this.rows.length > 0;
    if (this.rows.length === 0) {
      const filtered = this.input.value !== "" || this.running.checked;
      text(this.empty, filtered ? "No command matches." : "No client has started a command here yet. Commands appear as soon as they start.");
    }
    this.draw();
  }

  /** Makes the rows that are seen, and removes the others. */
  private draw(): void {
    const span = visibleSpan(this.offsets, this.tree.scrollTop, this.tree.clientHeight, margin);
    const wanted = new Set<string>();
    const show = (row: Row, i: number) => {
      wanted.add(row.id);
      let element = this.drawn.get(row.id);
      if (!element) {
        element = row.kind === "session" ? sessionRow() : commandRow();
        element.id = `row-${++this.lastId}`;
        this.drawn.set(row.id, element);
        this.space.append(element);
      }
      element.dataset.row = row.id;
      element.style.transform = `translateY(${this.offsets[i]}px)`;
      set(element, "aria-posinset", row.position);
      set(element, "aria-setsize", row.size);
      element.classList.toggle("active", row.id === this.active);
      if (row.kind === "session") fillSession(element, row);
      else fillCommand(element, row.command, row.id === this.selected);
    };
    for (let i = span.from; i < span.to; i++) show(this.rows[i]!, i);
    const at = this.activeIndex();
    if (at >= 0 && (at < span.from || at >= span.to)) show(this.rows[at]!, at);
    for (const [id, element] of this.drawn) {
      if (wanted.has(id)) continue;
      element.remove();
      this.drawn.delete(id);
    }
    set(this.tree, "aria-activedescendant", this.drawn.get(this.active)?.id);
  }

  private activeIndex(): number {
    return this.rows.findIndex((row) => row.id === this.active);
  }

  private click(event: MouseEvent): void {
    const element = (event.target as Element).closest<HTMLElement>("[data-row]");
    const row = this.rows.find((r) => r.id === element?.dataset.row);
    if (row) this.choose(row);
  }

  private choose(row: Row): void {
    this.active = row.id;
    if (row.kind === "command") this.onSelect(row.id);
    else this.toggle(row.id);
    this.draw();
  }

  private toggle(sessionId: string, open = this.collapsed.has(sessionId)): void {
    if (open) this.collapsed.delete(sessionId);
    else this.collapsed.add(sessionId);
    this.arrange();
  }

  private filterKey(event: KeyboardEvent): void {
    if (event.key === "Escape" && this.input.value !== "") this.input.value = "";
    else if (event.key === "ArrowDown" || event.key === "Enter") this.tree.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.arrange();
    const first = this.rows.findIndex((row) => row.kind === "command");
    if (document.activeElement === this.tree && first >= 0 && this.activeIndex() < 0) this.move(first);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const at = this.activeIndex();
    const row = this.rows[at];
    const page = Math.max(1, Math.floor(this.tree.clientHeight / heights.command) - 1);
    switch (event.key) {
      case "ArrowDown": this.move(at + 1); break;
      case "ArrowUp": this.move(at < 0 ? 0 : at - 1); break;
      case "PageDown": this.move(at + page); break;
      case "PageUp": this.move(at - page); break;
      case "Home": this.move(0); break;
      case "End": this.move(this.rows.length - 1); break;
      case "ArrowLeft":
        if (row?.kind === "session") this.toggle(row.id, false);
        else if (row) this.move(this.rows.findIndex((r) => r.id === row.command.info.sessionId));
        break;
      case "ArrowRight":
        if (row?.kind !== "session") return;
        if (row.open) this.move(at + 1);
        else this.toggle(row.id, true);
        break;
      case "Enter":
      case " ":
        if (row) this.choose(row);
        break;
      default: return;
    }
    event.preventDefault();
  }

  private move(to: number): void {
    const row = this.rows[Math.max(0, Math.min(this.rows.length - 1, to))];
    if (!row) return;
    this.active = row.id;
    this.reveal();
    this.draw();
    if (row.kind === "command") this.onSelect(row.id);
  }

  /** Scrolls so that the row of the keyboard is seen. */
  private reveal(): void {
    const at = this.activeIndex();
    if (at < 0) return;
    const top = this.offsets[at]!;
    const bottom = this.offsets[at + 1]!;
    if (top < this.tree.scrollTop) this.tree.scrollTop = top;
    else if (bottom > this.tree.scrollTop + this.tree.clientHeight) this.tree.scrollTop = bottom - this.tree.clientHeight;
  }

}

function sessionRow(): HTMLElement {
  return h("div", { class: "row session", role: "treeitem", "aria-level": "1" },
    h("span", { class: "fold" }, icon("chevron")),
    h("span", { class: "session-name" }),
    h("span", { class: "session-client" }),
    h("span", { class: "session-state" }));
}

function fillSession(element: HTMLElement, row: Row & { kind: "session" }): void {
  const { session } = row;
  const [, name, client, state] = element.children as unknown as HTMLElement[];
  set(element, "aria-expanded", String(row.open));
  element.classList.toggle("attached", session.attached);
  text(name!, sessionName(session));
  text(client!, session.label ? session.clientName : "");
  const age = spanText(Date.now() - session.createdAtMs);
  text(state!, session.attached ? age : `away${session.expiresInMs === undefined ? "" : `, ends in ${spanText(session.expiresInMs)}`}`);
  set(element, "title", `${sessionName(session)}: ${session.clientName}, ${session.attached ? "connected" : "not connected"}, opened ${age} ago`);
}

function commandRow(): HTMLElement {
  return h("div", { class: "row command", role: "treeitem", "aria-level": "2" },
    h("span", { class: "glyph" }),
    h("span", { class: "command-text" }),
    h("span", { class: "command-state" }),
    h("span", { class: "command-figures" }));
}

function fillCommand(element: HTMLElement, command: Command, selected: boolean): void {
  const { info } = command;
  const [glyph, line, state, figures] = element.children as unknown as HTMLElement[];
  const face = faceOf(info);
  set(element, "aria-selected", String(selected));
  element.classList.toggle("selected", selected);
  element.classList.toggle("ended", info.state !== "running");
  if (glyph!.dataset.icon !== face.icon) {
    glyph!.dataset.icon = face.icon;
    glyph!.replaceChildren(icon(face.icon));
  }
  glyph!.className = `glyph tone-${face.tone}`;
  text(line!, shortCommand(info.argv));
  text(state!, info.controlledBy ? `${info.controlledBy} types · ${faceOf(info).word}` : stateText(info));
  text(figures!, figuresText(command));
}

/** CPU, memory and output that waits for its client; of an ended command its age. */
function figuresText({ info, cpuShare }: Command): string {
  if (info.state !== "running") return `${spanText(Date.now() - info.startedAtMs)} ago`;
  if (info.blocked) return `${sizeText(info.unsentBytes || info.heldBytes)} waits`; // a client may be sent all of it and acknowledge nothing
  const parts: string[] = [];
  if (cpuShare !== undefined && cpuShare >= 0.001) parts.push(percentText(cpuShare));
  if (info.memoryBytes !== undefined) parts.push(sizeText(info.memoryBytes));
  if (info.unsentBytes > 0) parts.push(`${sizeText(info.unsentBytes)} waits`);
  return parts.join(" · ");
}
