// The page: three columns, and what connects them.
import { parseCast } from "./cast.ts";
import { h, icon, set, text } from "./dom.ts";
import { openKeys } from "./dialog.ts";
import { Facts } from "./facts.ts";
import { commandText, shortCommand, spanText } from "./format.ts";
import { Inventory, type Snapshot } from "./inventory.ts";
import { List } from "./list.ts";
import { type Choice, openPalette } from "./palette.ts";
import { Pane } from "./pane.ts";
import type { DescribeResult, StateDetail } from "./protocol.ts";
import { sessionName } from "./rows.ts";
import type { Session, Status } from "./session.ts";
import { faceOf, stateText } from "./state.ts";
import { toast } from "./toast.ts";

/** Facts about the command in the terminal are asked for this often, while the page is seen. */
const factsMs = 2000;

const maxCastFile = 128 << 20;

type Column = "list" | "terminal" | "facts";

export class App {
  private readonly list: List;
  private readonly pane: Pane;
  private readonly facts: Facts;
  private readonly inventory: Inventory;
  private readonly banner = document.querySelector<HTMLElement>("#banner")!;
  private readonly lamp = document.querySelector<HTMLElement>("#lamp")!;
  private readonly columns = document.querySelector<HTMLElement>("#columns")!;
  private readonly file = h("input", { type: "file", accept: ".cast,.json,application/json", hidden: true, "aria-label": "Recording" });
  private selected = "";
  private detail: StateDetail | undefined;
  private described: DescribeResult | undefined;
  private asked = 0;
  private screenReader = false;

  constructor(private readonly session: Session) {
    const element = (id: string) => document.querySelector<HTMLElement>(id)!;
    this.list = new List(element("#list"));
    this.facts = new Facts(element("#facts"));
    this.pane = new Pane(element("#terminal"), session, {
      facts: () => this.toggleFacts(),
      back: () => this.column("list"),
    });
    this.inventory = new Inventory((method, params) => session.callNow(method, params));
    this.inventory.onChange = (snapshot) => this.update(snapshot);
    this.list.onSelect = (key) => this.select(key);
    session.onStatus = (status) => this.status(status);
    session.onNote = (method, params) => this.pane.note(method, params);
    session.onConnected = () => this.connected();
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("online", () => session.retryNow());
    element("#search").addEventListener("click", () => this.palette());
    element("#help").addEventListener("click", openKeys);
    for (const tab of document.querySelectorAll<HTMLElement>("#tabs button")) {
      tab.addEventListener("click", () => this.column(tab.dataset.column as Column));
    }
    document.body.append(this.file);
    this.file.addEventListener("change", () => void this.playFile(this.file.files?.[0]));
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      void this.playFile(event.dataTransfer?.files[0]);
    });
    this.column("list");
  }

  async run(): Promise<void> {
    void this.inventory.run();
    setInterval(() => this.status(this.session.status), 1000);
    await this.session.run();
  }

  private connected(): void {
    const { info } = this.session;
    this.list.ownSession = info?.tether.publicId;
    text(document.querySelector("#host")!, info?.tether.host ?? location.host);
    document.querySelector<HTMLElement>("#read-only")!.hidden = !this.session.readOnly;
    this.inventory.refresh();
    this.pane.reconnected();
  }

  /** Says whether there is a connection. */
  private status(status: Status): void {
    const { phase, reason, attempt, sinceMs } = status;
    const connected = phase === "connected";
    this.lamp.className = `lamp ${connected ? "on" : "off"}`;
    text(this.lamp, connected ? "connected" : phase === "signedOut" ? "signed out" : "no connection");
    document.body.classList.toggle("offline", !connected);
    this.banner.hidden = connected || (phase === "connecting" && attempt === 0);
    if (this.banner.hidden) return;
    const since = Date.now() - sinceMs;
    const words =
      phase === "signedOut"
        ? "The server does not know this browser any more. Run “tether console” for a new link."
        : `Connection lost: ${reason}. Commands go on; nothing they print is lost. Trying again`;
    const label = this.banner.querySelector("span") ?? this.banner.appendChild(h("span", {}, h("span"), h("span", { "aria-hidden": "true" })));
    // A screen reader reads the banner again when its words change: the time, which changes each second, is for the eye alone.
    text(label.children[0]!, words);
    text(label.children[1]!, phase === "signedOut" ? "" : `${since > 3000 ? ` for ${spanText(since)}` : ""}…`);
    if (phase !== "signedOut" && !this.banner.querySelector("button")) {
      this.banner.append(h("button", { type: "button", class: "button small", onclick: () => this.session.retryNow() }, "Try now"));
    } else if (phase === "signedOut") this.banner.querySelector("button")?.remove();
  }

  private update(snapshot: Snapshot): void {
    this.list.update(snapshot);
    document.body.classList.add("ready");
    const command = snapshot.commands.get(this.selected);
    if (!command) {
      if (this.selected && this.pane.shownKey === this.selected) this.pane.gone();
      return;
    }
    this.pane.update(command, command.info.size);
    if (performance.now() - this.asked > factsMs) void this.ask();
    this.drawFacts();
  }

  private select(key: string): void {
    const command = this.inventory.snapshot?.commands.get(key);
    if (!command) return;
    this.list.select(key);
    if (key !== this.selected) {
      this.selected = key;
      this.detail = this.described = undefined;
    }
    this.pane.show(command);
    this.pane.setScreenReader(this.screenReader);
    this.column("terminal");
    document.title = `${shortCommand(command.info.argv).slice(0, 60)} · tether`;
    void this.ask();
    this.drawFacts();
  }

  /** Asks what the list does not say about the command in the terminal. */
  private async ask(): Promise<void> {
    const key = this.selected;
    const command = this.inventory.snapshot?.commands.get(key);
    if (!command) return;
    this.asked = performance.now();
    const { sessionId, processId, state } = command.info;
    const target = { sessionId, processId };
    const [detail, described] = await Promise.all([
      state === "running" ? this.session.callNow<{ stateDetail: StateDetail }>("tether/process/state", target).catch(() => undefined) : undefined,
      this.session.has("describe") ? this.session.callNow<DescribeResult>("tether/process/describe", target).catch(() => undefined) : undefined,
    ]);
    if (key !== this.selected) return;
    this.detail = detail?.stateDetail;
    this.described = described ?? this.described;
    this.drawFacts();
  }

  private drawFacts(): void {
    const command = this.inventory.snapshot?.commands.get(this.selected);
    if (!command) return;
    const session = this.inventory.snapshot?.sessions.find((s) => s.sessionId === command.info.sessionId);
    this.facts.update({ command, session, detail: this.detail, described: this.described });
  }

  /** On a narrow page: the column that is seen. */
  private column(column: Column): void {
    this.columns.dataset.column = column;
    for (const tab of document.querySelectorAll<HTMLElement>("#tabs button")) {
      set(tab, "aria-current", tab.dataset.column === column ? "page" : undefined);
    }
  }

  private toggleFacts(): void {
    if (matchMedia("(max-width: 720px)").matches) this.column("facts");
    else document.body.classList.toggle("facts-toggled");
  }

  private key(event: KeyboardEvent): void {
    const { target } = event;
    const inTerminal = this.pane.hasTerminal(target);
    const command = event.ctrlKey || event.metaKey;
    const inDialog = document.querySelector("dialog[open]") !== null;
    if (command && event.shiftKey && event.code === "KeyG") this.pane.giveBack();
    else if (inDialog && !(command && event.code === "KeyK")) return;
    else if (inDialog) event.preventDefault(); // not the browser's own search either
    else if (command && event.code === "KeyK" && (event.shiftKey || !(inTerminal && this.pane.typing))) this.palette();
    else if (command && !event.shiftKey && event.code === "KeyF" && !(inTerminal && this.pane.typing)) this.pane.openFind();
    else if (command || event.altKey) return;
    else if (!inTerminal && (target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement)) return;
    else if (inTerminal && this.pane.typing) return;
    else {
      const run = this.shortcuts[event.key];
      if (!run) return;
      run();
    }
    event.preventDefault();
  }

  private readonly shortcuts: Record<string, () => void> = {
    "/": () => {
      this.column("list");
      this.list.focusFilter();
    },
    "?": openKeys,
    f: () => this.pane.openFind(),
    t: () => this.pane.takeOrGive(),
    x: () => void this.pane.save(),
    p: () => void this.pane.playLog(),
    i: () => this.toggleFacts(),
  };

  private palette(): void {
    const choices: Choice[] = [];
    const chosen = this.inventory.snapshot?.commands.get(this.selected);
    if (chosen) {
      choices.push({ label: "Find in the whole log", icon: "search", keys: "f", run: () => this.pane.openFind() });
      if (!this.session.readOnly && chosen.info.state === "running") {
        const typing = this.pane.typing;
        choices.push({ label: typing ? "Give the keyboard back" : "Take over the keyboard", icon: "keyboard", keys: typing ? "Ctrl Shift G" : "t", run: () => this.pane.takeOrGive() });
      }
      choices.push({ label: "Export a recording", icon: "save", keys: "x", run: () => void this.pane.save() });
      choices.push({ label: "Play the log", icon: "play", keys: "p", run: () => void this.pane.playLog() });
    }
    choices.push({ label: "Open a recording…", detail: "a .cast file", icon: "file", run: () => this.file.click() });
    choices.push({
      label: this.screenReader ? "Turn the screen reader mode of the terminal off" : "Turn the screen reader mode of the terminal on",
      icon: "info", run: () => this.pane.setScreenReader((this.screenReader = !this.screenReader)),
    });
    choices.push({ label: "Keys", icon: "info", keys: "?", run: openKeys });
    const sessions = new Map(this.inventory.snapshot?.sessions.map((s) => [s.sessionId, sessionName(s)]));
    for (const { info, key } of this.inventory.snapshot?.commands.values() ?? []) {
      choices.push({ label: commandText(info.argv).slice(0, 200), detail: `${sessions.get(info.sessionId) ?? ""} · ${stateText(info)}`, icon: faceOf(info).icon, run: () => this.select(key) });
    }
    openPalette(choices);
  }

  private async playFile(file: File | undefined): Promise<void> {
    this.file.value = "";
    if (!file) return;
    if (file.size > maxCastFile) {
      toast(`${file.name} is too large to be played here. In a terminal: tether play ${file.name}`);
      return;
    }
    try {
      const recording = parseCast(await file.text());
      this.pane.play({ ...recording, title: recording.title || file.name }, "");
      this.column("terminal");
    } catch (error) {
      toast(`${file.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

/** The page of a browser that the server does not know. */
export function showSignedOut(): void {
  const columns = document.querySelector("#columns")!;
  columns.replaceChildren(
    h("section", { class: "door", id: "terminal", tabindex: "-1" },
      icon("keyboard"),
      h("h1", {}, "This link does not work any more"),
      h("p", {}, "A link to the console works once and for a minute. For a new one, run"),
      h("pre", {}, h("code", {}, "tether console")),
      h("p", {}, "on the machine that you came from.")));
  document.body.classList.add("ready", "signed-out");
}
