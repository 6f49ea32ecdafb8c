// The middle of the page: the terminal of one command, what can be done with it, and what is to be said about it.
import { Control } from "./control.ts";
import { h, icon, text } from "./dom.ts";
import { Find } from "./find.ts";
import { commandText, sizeText } from "./format.ts";
import type { Command } from "./inventory.ts";
import { castFile, download, recordingOf } from "./logfile.ts";
import { PlayerPane } from "./playerpane.ts";
import { type Recording, shownSize } from "./cast.ts";
import { Screen, type Size } from "./screen.ts";
import type { Session } from "./session.ts";
import type { Shown } from "./streams.ts";
import { toast } from "./toast.ts";
import { Toolbar } from "./toolbar.ts";
import { confirmDialog } from "./dialog.ts";
import { View } from "./view.ts";

const unknownSize: Size = { cols: 80, rows: 24 };

export interface Surroundings {
  facts(): void;
  back(): void;
}

export class Pane {
  private command: Command | undefined;
  private screen: Screen | undefined;
  private view: View | undefined;
  private control: Control | undefined;
  private player: PlayerPane | undefined;
  private ownSize: Size | undefined; // of the command's terminal
  private readonly find = new Find();
  private readonly toolbar: Toolbar;
  private readonly place = h("div", { class: "screen" });
  private readonly notice = h("div", { class: "notice", role: "status", hidden: true });
  private readonly mode = h("span", { class: "mode" });
  private readonly newest = h("button", { type: "button", class: "button small", hidden: true, onclick: () => void this.view?.follow() }, icon("down"), "Newest output");
  private readonly streams = h("div", { class: "segments", role: "group", "aria-label": "Streams" });
  private readonly size = h("span", { class: "size" });
  private readonly live: HTMLElement;
  private readonly welcome = h("div", { class: "welcome" },
    h("p", { class: "welcome-title" }, "Choose a command"),
    h("p", {}, "Its output appears here, from the newest line back to the first byte."),
    h("p", { class: "welcome-keys" }, h("kbd", {}, "Ctrl K"), " searches, ", h("kbd", {}, "?"), " lists all keys."));

  constructor(
    private readonly parent: HTMLElement,
    private readonly session: Session,
    surroundings: Surroundings,
  ) {
    this.toolbar = new Toolbar({
      find: () => this.find.open(),
      save: () => void this.save(),
      play: () => void this.playLog(),
      facts: () => surroundings.facts(),
      back: () => surroundings.back(),
    });
    const stream = (shown: Shown, label: string) =>
      h("button", { type: "button", "data-stream": shown, "aria-pressed": String(shown === "all"), onclick: () => this.showStream(shown) }, label);
    this.streams.append(stream("all", "All"), stream("stdout", "Output"), stream("stderr", "Errors"));
    const status = h("div", { class: "status" }, this.mode, this.newest, h("span", { class: "spring" }), this.streams, this.size);
    this.live = h("div", { class: "live", hidden: true }, this.toolbar.element, this.notice, this.find.element, this.place, status);
    this.find.onJump = (match, query) => void this.jump(match.line, match.occurrence, query);
    this.find.onClose = () => {
      this.screen?.clearHighlight();
      this.screen?.terminal.focus();
    };
    parent.append(this.welcome, this.live);
  }

  get shownKey(): string | undefined {
    return this.command?.key;
  }

  /** Shows a command. */
  show(command: Command): void {
    this.closePlayer();
    if (this.command?.key === command.key) {
      this.screen?.terminal.focus();
      return;
    }
    this.leave();
    this.command = command;
    this.welcome.hidden = true;
    this.live.hidden = false;
    const { info } = command;
    const target = { sessionId: info.sessionId, processId: info.processId };
    const call = this.session.call.bind(this.session);
    const screen = new Screen(this.place, `Terminal of ${commandText(info.argv).slice(0, 100)}`);
    const control = new Control(call, target, info.tty, screen, toast);
    const view = new View(call, target, info.tty, screen);
    Object.assign(this, { screen, control, view });
    if (info.size) this.setOwnSize(info.size); // before the output, which was printed for it
    screen.terminal.attachCustomKeyEventHandler((event) => this.key(event));
    screen.terminal.onData((data) => control.type(data));
    screen.terminal.onBinary((data) => control.typeBinary(data));
    screen.terminal.onResize(() => {
      void control.resize();
      this.tell();
    });
    screen.onLink = (link) => void this.openLink(link);
    control.onChange = () => {
      if (!control.state.mine) screen.setSize(this.ownSize);
      if (this.command) this.toolbar.update(this.command);
      if (control.state.mine) screen.terminal.focus();
      this.tell();
    };
    view.onState = () => this.tell();
    this.streams.hidden = info.tty;
    this.markStream("all");
    this.toolbar.show(command, control, this.session.readOnly);
    this.find.reset(call, target);
    void view.follow();
  }

  /** What the list says about the command now. */
  update(command: Command, size: Size | undefined): void {
    this.command = command;
    const { controlledBy } = command.info;
    const { control } = this;
    if (control && !control.state.mine) control.told(controlledBy, false);
    if (size) this.setOwnSize(size);
    this.toolbar.update(command);
    this.tell();
  }

  /** The command is no longer in the list. What the terminal has of it stays. */
  gone(): void {
    if (this.control?.state.mine) this.control.told(undefined, false);
    text(this.mode, "This command is no longer on the server.");
  }

  note(method: string, params: any): void {
    if (method === "tether/process/control" && this.view?.owns(params?.observeId)) {
      this.control?.told(params.mine ? "You" : (params.holder ?? undefined), params.mine === true);
    } else this.view?.note(method, params);
  }

  reconnected(): void {
    this.view?.reconnected();
    this.control?.reconnected();
    if (this.command && this.control) this.toolbar.show(this.command, this.control, this.session.readOnly);
  }

  openFind(): void {
    if (this.command && !this.player) this.find.open();
  }

  takeOrGive(): void {
    if (!this.player) this.toolbar.toggleControl();
  }

  giveBack(): void {
    void this.control?.give();
  }

  get typing(): boolean {
    return this.control?.state.mine === true;
  }

  /** Whether an event comes from the terminal. */
  hasTerminal(target: EventTarget | null): boolean {
    return target instanceof Node && this.place.contains(target);
  }

  setScreenReader(on: boolean): void {
    if (this.screen) this.screen.terminal.options.screenReaderMode = on;
  }

  async save(): Promise<void> {
    const { command, screen } = this;
    if (!command || !screen) return;
    const size = this.ownSize ?? unknownSize;
    toast("Reading the log…");
    try {
      const { file, tooLarge } = await castFile(this.session.call.bind(this.session), command.info, size, () => {});
      const name = `${command.info.processId.replace(/[^\w.-]+/g, "-").slice(0, 60)}.cast`;
      download(file, name);
      toast(tooLarge ? `Exported the first ${sizeText(file.size)}. For all of it: tether record ${command.info.processId} -o ${name}` : `Exported ${name}, ${sizeText(file.size)}.`);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error));
    }
  }

  async playLog(): Promise<void> {
    const { command } = this;
    if (!command) return;
    try {
      const { recording, tooLarge } = await recordingOf(this.session.call.bind(this.session), command.info, this.ownSize ?? unknownSize);
      this.play(recording, tooLarge ? "The log is long: this is its beginning." : "");
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error));
    }
  }

  play(recording: Recording, note: string): void {
    this.closePlayer();
    if (recording.events.length === 0) {
      toast("There is nothing to play: the recording has no output.");
      return;
    }
    this.live.hidden = true;
    this.welcome.hidden = true;
    this.player = new PlayerPane(this.parent, recording, note);
    this.player.onClose = () => this.closePlayer();
  }

  private closePlayer(): void {
    if (!this.player) return;
    this.player.dispose();
    this.player = undefined;
    this.live.hidden = this.command === undefined;
    this.welcome.hidden = this.command !== undefined;
  }

  private leave(): void {
    void this.control?.leave();
    this.view?.stop();
    this.screen?.dispose();
    this.ownSize = undefined;
  }

  private setOwnSize(size: Size): void {
    this.ownSize = shownSize(size);
    if (!this.control?.state.mine) this.screen?.setSize(this.ownSize);
  }

  private showStream(shown: Shown): void {
    this.markStream(shown);
    this.view?.show(shown);
  }

  private markStream(shown: Shown): void {
    for (const button of this.streams.children) button.setAttribute("aria-pressed", String((button as HTMLElement).dataset.stream === shown));
  }

  private async jump(line: Parameters<View["jump"]>[0], occurrence: number, query: { pattern: string; source: string; regex: boolean; ignoreCase: boolean }): Promise<void> {
    const at = await this.view?.jump(line, occurrence);
    if (at === undefined) return;
    this.screen?.highlight(query.source, query.regex, query.ignoreCase, at);
    this.screen?.center(at);
  }

  private async openLink(link: string): Promise<void> {
    const shown = link.length > 300 ? `${link.slice(0, 300)}…` : link;
    if (await confirmDialog("Open this address?", shown, "Open", false)) window.open(link, "_blank", "noopener,noreferrer");
  }

  /** Keys in the terminal. It returns whether xterm.js gets them. */
  private key(event: KeyboardEvent): boolean {
    const { screen, view, control } = this;
    if (!screen || !view) return false;
    if (control?.state.mine) {
      const ours = event.ctrlKey && event.shiftKey && (event.code === "KeyK" || event.code === "KeyG");
      return !ours;
    }
    if (event.type !== "keydown") return false;
    const { terminal } = screen;
    if (event.ctrlKey && event.code === "KeyC" && terminal.hasSelection()) return false; // the browser copies
    if (event.ctrlKey || event.altKey || event.metaKey) return false;
    switch (event.key) {
      case "PageUp": terminal.scrollPages(-1); break;
      case "PageDown": terminal.scrollPages(1); break;
      case "ArrowUp": terminal.scrollLines(-1); break;
      case "ArrowDown": terminal.scrollLines(1); break;
      case "Home": void (view.state.complete ? terminal.scrollToTop() : view.first()); break;
      case "End": void (view.state.mode === "history" ? view.follow() : screen.toNewest()); break;
      default:
        if (event.key.length === 1) event.preventDefault();
        return false;
    }
    event.preventDefault();
    return false;
  }

  /** Says how the output is followed, and who types. */
  private tell(): void {
    const { view, control, command, screen } = this;
    if (!view || !control || !command || !screen) return;
    const { mode, message, complete, evicted, busy } = view.state;
    const rate = command.bytesPerSecond > 1024 ? ` (${sizeText(command.bytesPerSecond)}/s)` : "";
    const words = {
      loading: "Loading…",
      observing: "Following",
      skimming: `Too fast to read${rate}: this is the newest output. Scroll up for all of it.`,
      history: busy ? "Reading the log…" : complete ? "From the first byte" : "Older output",
      ended: complete ? "All of the output" : "The end of the output",
      failed: message,
    }[mode];
    text(this.mode, evicted && complete && mode !== "skimming" ? `${words}. The server no longer has what came before.` : words);
    this.mode.className = `mode mode-${mode}`;
    this.place.setAttribute("aria-busy", String(busy || mode === "loading"));
    this.newest.hidden = mode !== "history";
    text(this.size, command.info.tty ? `${screen.terminal.cols} × ${screen.terminal.rows}` : "");
    const { holder, mine } = control.state;
    this.notice.hidden = holder === undefined;
    this.notice.classList.toggle("mine", mine);
    text(this.notice, mine ? "You type into this command. Ctrl Shift G gives the keyboard back." : holder ? `${holder} types into this command.` : "");
    this.place.classList.toggle("typing", mine);
  }
}
