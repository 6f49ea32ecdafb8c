// Short messages that go away, also for screen readers.
import { h } from "./dom.ts";

const shownMs = 6000;
const most = 4;

const place = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

export function toast(message: string): void {
  if (!place.isConnected) document.body.append(place);
  const element = h("div", { class: "toast" }, message);
  place.append(element);
  while (place.childElementCount > most) place.firstElementChild?.remove();
  setTimeout(() => element.remove(), shownMs);
}
