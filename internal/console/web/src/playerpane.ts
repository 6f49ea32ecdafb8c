// Playing a recording: the picture, and the controls below it.
import { type CastEvent, parseSize, type Recording } from "./cast.ts";
import { h, icon, set, text } from "./dom.ts";
import { positionText } from "./format.ts";
import { Player, speeds } from "./player.ts";
import { Screen } from "./screen.ts";

/** Text of one write, when the player jumps over much of a recording. */
const batch = 256 << 10;

export class PlayerPane {
  readonly element: HTMLElement;
  onClose: () => void = () => {};
  private readonly screen: Screen;
  private readonly player: Player;
  private readonly play = h("button", { type: "button", class: "icon-button play", onclick: () => this.toggle() });
  private readonly bar = h("input", { type: "range", class: "scrubber", min: "0", step: "0.1", "aria-label": "Position" });
  private readonly time = h("span", { class: "player-time" });
  private readonly speed: HTMLSelectElement;
  private frame = 0;
  private before = 0;

  constructor(parent: HTMLElement, recording: Recording, note: string) {
    this.player = new Player(recording);
    this.speed = h("select", { "aria-label": "Speed", class: "speed" }, ...speeds.map((speed) => h("option", { value: speed }, `${speed}×`)));
    const shorten = h("input", { type: "checkbox", id: "shorten-pauses", checked: true });
    const picture = h("div", { class: "screen" });
    const close = h("button", { type: "button", class: "button", onclick: () => this.onClose() }, icon("close"), "Close");
    this.element = h("section", { class: "player", "aria-label": "Recording" },
      h("div", { class: "toolbar" }, h("h2", { class: "title" }, recording.title || "Recording"), h("span", { class: "badge" }, "recording"), h("span", { class: "spring" }), close),
      note ? h("p", { class: "notice" }, note) : null,
      picture,
      h("div", { class: "player-bar" }, this.play, this.time, this.bar,
        h("label", { class: "player-option", for: "shorten-pauses" }, shorten, " Shorten pauses"), this.speed));
    parent.append(this.element);
    this.screen = new Screen(picture, "Recording");
    this.screen.setSize({ cols: recording.cols, rows: recording.rows });
    this.screen.terminal.attachCustomKeyEventHandler(() => false);
    shorten.addEventListener("change", () => {
      this.player.shorten = shorten.checked;
      this.draw();
    });
    this.speed.addEventListener("change", () => (this.player.speed = Number(this.speed.value)));
    this.bar.addEventListener("input", () => this.seek(Number(this.bar.value)));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.start();
    this.play.focus();
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.screen.dispose();
    this.element.remove();
  }

  private start(): void {
    if (this.player.atEnd) this.seek(0);
    this.player.playing = true;
    this.before = performance.now();
    this.frame = requestAnimationFrame((now) => this.tick(now));
    this.draw();
  }

  private toggle(): void {
    if (!this.player.playing) this.start();
    else {
      this.player.playing = false;
      cancelAnimationFrame(this.frame);
      this.draw();
    }
  }

  private tick(now: number): void {
    // A page that was hidden goes on where it was.
    const seconds = Math.min(0.25, Math.max(0, now - this.before) / 1000);
    this.before = now;
    if (this.screen.backlog < batch) this.show(this.player.advance(seconds));
    this.draw();
    if (this.player.playing) this.frame = requestAnimationFrame((next) => this.tick(next));
  }

  private seek(position: number): void {
    const { events, fresh } = this.player.seek(position);
    if (fresh) this.screen.clear();
    this.show(events);
    this.draw();
  }

  private show(events: readonly CastEvent[]): void {
    let waiting = "";
    for (const { kind, text } of events) {
      if (kind === "o") waiting += text;
      const size = kind === "r" ? parseSize(text) : undefined;
      if (size) {
        const shown = waiting;
        waiting = "";
        void this.screen.write(shown, () => this.screen.setSize(size));
      } else if (waiting.length > batch) {
        void this.screen.write(waiting);
        waiting = "";
      }
    }
    void this.screen.write(waiting);
  }

  private draw(): void {
    const { playing, position, duration, atEnd } = this.player;
    const name = playing ? "pause" : "play";
    if (this.play.dataset.icon !== name) {
      this.play.dataset.icon = name;
      this.play.replaceChildren(icon(name));
      set(this.play, "aria-label", playing ? "Pause" : atEnd ? "Play again" : "Play");
    }
    set(this.bar, "max", duration.toFixed(1));
    this.bar.value = String(position);
    set(this.bar, "aria-valuetext", `${positionText(position)} of ${positionText(duration)}`);
    text(this.time, `${positionText(position)} / ${positionText(duration)}`);
  }

  private key(event: KeyboardEvent): void {
    const inControl = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement || event.target instanceof HTMLButtonElement;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === " " && !inControl) this.toggle();
    else if (event.key === "ArrowLeft" && !inControl) this.seek(this.player.position - 5);
    else if (event.key === "ArrowRight" && !inControl) this.seek(this.player.position + 5);
    else if (event.key === "Escape") this.onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
