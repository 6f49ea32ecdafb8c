// Dialogs: questions with a consequence, the list of keys, menus.
import { h } from "./dom.ts";

/** Opens a modal dialog. It is removed when it closes, and the focus goes back to where it was. */
export function openDialog(title: string, body: Node[], options: { class?: string; onClose?: () => void } = {}): HTMLDialogElement {
  const heading = h("h2", { id: `dialog-${Date.now()}` }, title);
  const dialog = h("dialog", { class: `dialog ${options.class ?? ""}`, "aria-labelledby": heading.id }, heading, ...body);
  dialog.addEventListener("close", () => {
    dialog.remove();
    options.onClose?.();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // outside of it
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Asks a question that has a consequence. The button that does nothing has the focus. */
export function confirmDialog(title: string, text: string, action: string, danger: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    let agreed = false;
    const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const agree = h("button", {
      type: "button",
      class: danger ? "danger" : "primary",
      onclick: () => {
        agreed = true;
        dialog.close();
      },
    }, action);
    const dialog = openDialog(title, [h("p", { class: "dialog-text" }, text), h("div", { class: "dialog-actions" }, cancel, agree)], {
      onClose: () => resolve(agreed),
    });
    cancel.focus();
  });
}

const keys: [string, string][] = [
  ["Ctrl K", "Search commands and actions (Ctrl Shift K while you type into a command)"],
  ["/", "Filter the list"],
  ["↑ ↓ ← →", "Move in the list; fold and unfold sessions"],
  ["Enter", "Show the command; again: move to its terminal"],
  ["t", "Take over the keyboard of the command"],
  ["Ctrl Shift G", "Give the keyboard back"],
  ["f  or  Ctrl F", "Find in the whole log"],
  ["Home, End", "In the terminal: the first byte, the newest output"],
  ["Page Up, Page Down", "In the terminal: scroll"],
  ["x", "Export a recording"],
  ["p", "Play the log of an ended command"],
  ["i", "Show or hide the facts"],
  ["?", "This list"],
];

export function openKeys(): void {
  const rows = keys.flatMap(([key, meaning]) => [h("dt", {}, ...key.split("  ").map((part) => (part === "or" ? " or " : h("kbd", {}, part)))), h("dd", {}, meaning)]);
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = openDialog("Keys", [h("dl", { class: "keys" }, ...rows), h("div", { class: "dialog-actions" }, close)]);
  close.focus();
}

export interface MenuItem {
  label: string;
  detail?: string;
  danger?: boolean;
  run: () => void;
}

/** Closes the menu that is open. */
let closeMenu: (() => void) | undefined;

/** Opens a menu below a button, or closes the one that is open there. */
export function openMenu(button: HTMLElement, label: string, items: MenuItem[]): void {
  const wasOpen = button.getAttribute("aria-expanded") === "true";
  closeMenu?.();
  if (wasOpen) return;
  const close = () => {
    closeMenu = undefined;
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
  };
  const outside = (event: Event) => {
    if (!menu.contains(event.target as Node) && !button.contains(event.target as Node)) close();
  };
  const entries = items.map((item) =>
    h("button", {
      type: "button",
      role: "menuitem",
      class: item.danger ? "menu-item danger" : "menu-item",
      tabindex: "-1",
      onclick: () => {
        close();
        button.focus();
        item.run();
      },
    }, h("span", {}, item.label), item.detail ? h("span", { class: "menu-detail" }, item.detail) : null),
  );
  const menu = h("div", { class: "menu", role: "menu", "aria-label": label }, ...entries);
  menu.addEventListener("keydown", (event) => {
    const at = entries.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 }[event.key];
    if (to !== undefined) entries[(to + entries.length) % entries.length]!.focus();
    else if (event.key === "Escape" || event.key === "Tab") {
      close();
      button.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  button.after(menu);
  closeMenu = close;
  const box = button.getBoundingClientRect();
  menu.style.top = `${box.bottom + 4}px`;
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - menu.offsetWidth - 8))}px`;
  button.setAttribute("aria-expanded", "true");
  document.addEventListener("pointerdown", outside, true);
  entries[0]?.focus();
}
