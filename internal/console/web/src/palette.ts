// The palette: every command and every action, found by some letters of its name.
import { h, icon, set } from "./dom.ts";

export interface Choice {
  label: string;
  detail?: string;
  icon: string;
  keys?: string;
  run: () => void;
}

/** How well letters match a text: higher is better, undefined is not at all. Letters must come in order. */
export function matchScore(letters: string, text: string): number | undefined {
  const wanted = letters.toLowerCase();
  const within = text.toLowerCase();
  const whole = within.indexOf(wanted);
  if (whole >= 0) return 1000 - whole + (whole === 0 || !/\w/.test(within[whole - 1]!) ? 500 : 0);
  let score = 0;
  let at = -1;
  for (const letter of wanted) {
    if (letter === " ") continue;
    const next = within.indexOf(letter, at + 1);
    if (next < 0) return undefined;
    score -= next - at;
    at = next;
  }
  return score;
}

const shown = 50;

export function openPalette(choices: Choice[]): void {
  let found: Choice[] = [];
  let active = 0;
  const results = h("div", { class: "palette-results", role: "listbox", id: "palette-results", "aria-label": "Results" });
  const input = h("input", {
    type: "text", class: "palette-input", placeholder: "Search commands and actions", role: "combobox", autocomplete: "off", spellcheck: "false",
    "aria-label": "Search commands and actions", "aria-controls": "palette-results", "aria-expanded": "true", "aria-autocomplete": "list",
  });
  const dialog = h("dialog", { class: "palette", "aria-label": "Search commands and actions" }, input, results);
  const draw = () => {
    results.replaceChildren(
      ...found.map((choice, i) =>
        h("div", {
          class: i === active ? "choice active" : "choice", role: "option", id: `choice-${i}`, "aria-selected": String(i === active),
          onclick: () => choose(i),
          onpointermove: () => {
            if (active === i) return;
            active = i;
            draw();
          },
        }, icon(choice.icon), h("span", { class: "choice-label" }, choice.label), h("span", { class: "choice-detail" }, choice.detail ?? ""),
          choice.keys ? h("kbd", {}, choice.keys) : null),
      ),
    );
    if (found.length === 0) results.append(h("p", { class: "palette-none", role: "presentation" }, "Nothing matches."));
    set(input, "aria-activedescendant", found.length > 0 ? `choice-${active}` : undefined);
  };
  const search = () => {
    const letters = input.value.trim();
    found = choices
      .map((choice) => ({ choice, score: letters ? matchScore(letters, `${choice.label} ${choice.detail ?? ""}`) : 0 }))
      .filter((match): match is { choice: Choice; score: number } => match.score !== undefined)
      .sort((a, b) => b.score - a.score)
      .slice(0, shown)
      .map((match) => match.choice);
    active = 0;
    draw();
  };
  const choose = (i: number) => {
    const choice = found[i];
    dialog.close();
    choice?.run();
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") active = Math.min(found.length - 1, active + 1);
    else if (event.key === "ArrowUp") active = Math.max(0, active - 1);
    else if (event.key === "Enter") {
      event.preventDefault();
      choose(active);
      return;
    } else return;
    event.preventDefault();
    draw();
    results.children[active]?.scrollIntoView({ block: "nearest" });
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  search();
}
