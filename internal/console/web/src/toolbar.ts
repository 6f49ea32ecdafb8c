// What a person can do with the command in the terminal.
import type { Control } from "./control.ts";
import { confirmDialog, openMenu, type MenuItem } from "./dialog.ts";
import { h, icon, set, text } from "./dom.ts";
import { shortCommand } from "./format.ts";
import type { Command } from "./inventory.ts";
import { faceOf, isAlive, stateText } from "./state.ts";

const signals: [string, string][] = [
  ["SIGINT", "interrupt"],
  ["SIGTERM", "please end"],
  ["SIGHUP", "hang up"],
  ["SIGQUIT", "quit, with a core dump"],
  ["SIGUSR1", ""],
  ["SIGUSR2", ""],
  ["SIGSTOP", "stop"],
  ["SIGCONT", "go on"],
  ["SIGKILL", "end now"],
];

export interface Actions {
  find(): void;
  save(): void;
  play(): void;
  facts(): void;
  back(): void;
}

export class Toolbar {
  readonly element: HTMLElement;
  private command: Command | undefined;
  private control: Control | undefined;
  private readOnly = false;
  private readonly title = h("h2", { class: "title" });
  private readonly pill = h("span", { class: "pill" });
  private readonly take = h("button", { type: "button", class: "button primary", onclick: () => this.toggleControl() });
  private readonly interrupt = h("button", { type: "button", class: "button", title: "Interrupt the command", onclick: () => void this.control?.interrupt() }, "Ctrl-C");
  private readonly menu = h("button", { type: "button", class: "button", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => this.openSignals() }, "Signal");
  private readonly endButton = h("button", { type: "button", class: "button danger", onclick: () => void this.end() }, "End…");
  private readonly playButton: HTMLButtonElement;

  constructor(actions: Actions) {
    const small = (name: string, label: string, run: () => void, kind = "") =>
      h("button", { type: "button", class: `icon-button ${kind}`, "aria-label": label, title: label, onclick: run }, icon(name));
    this.playButton = small("play", "Play the log", () => actions.play());
    this.element = h("div", { class: "toolbar" },
      small("back", "Back to the list", () => actions.back(), "narrow-only"),
      this.title, this.pill, h("span", { class: "spring" }),
      h("div", { class: "actions", role: "group", "aria-label": "Control" }, this.take, this.interrupt, this.menu, this.endButton),
      h("div", { class: "actions", role: "group", "aria-label": "Log" },
        small("search", "Find in the whole log", () => actions.find()),
        small("save", "Export a recording", () => actions.save()),
        this.playButton,
        small("info", "Facts", () => actions.facts(), "facts-button")));
  }

  show(command: Command, control: Control, readOnly: boolean): void {
    this.control = control;
    this.readOnly = readOnly;
    this.update(command);
  }

  update(command: Command): void {
    this.command = command;
    const { info } = command;
    const face = faceOf(info);
    const alive = isAlive(info);
    text(this.title, shortCommand(info.argv));
    set(this.title, "title", shortCommand(info.argv));
    const words = stateText(info);
    if (this.pill.dataset.words !== words) {
      this.pill.dataset.words = words;
      this.pill.className = `pill tone-${face.tone}`;
      this.pill.replaceChildren(icon(face.icon), h("span", {}, words));
    }
    const mine = this.control?.state.mine === true;
    for (const button of [this.take, this.interrupt, this.menu, this.endButton]) button.hidden = !alive || this.readOnly;
    const label = mine ? "Give back" : "Take over";
    if (this.take.dataset.label !== label) {
      this.take.dataset.label = label;
      this.take.replaceChildren(icon("keyboard"), label);
    }
    this.element.classList.toggle("without-control", !alive || this.readOnly);
    set(this.take, "aria-pressed", String(mine));
    set(this.take, "title", mine ? "Stop typing into this command (Ctrl Shift G)" : "Type into this command (t)");
    this.playButton.hidden = alive;
  }

  toggleControl(): void {
    if (!this.control || this.take.hidden) return;
    void (this.control.state.mine ? this.control.give() : this.control.take());
  }

  private openSignals(): void {
    const { control } = this;
    if (!control) return;
    const items: MenuItem[] = signals.map(([signal, detail]) => ({
      label: signal, detail, danger: signal === "SIGKILL", run: () => void control.signal(signal),
    }));
    if (!control.tty) items.push({ label: "Close input", detail: "the command reads the end of its input", run: () => void control.closeInput() });
    openMenu(this.menu, "Signals", items);
  }

  private async end(): Promise<void> {
    const { control, command } = this;
    if (!control || !command) return;
    const name = shortCommand(command.info.argv);
    const what = `${name.length > 120 ? `${name.slice(0, 120)}…` : name} and all that it has started are asked to end, and are killed if they do not. Its client sees that it has ended.`;
    if (await confirmDialog("End this command?", what, "End it", true)) await control.end();
  }
}
