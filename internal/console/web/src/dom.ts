// Building elements without markup: text is always text, so nothing that a command prints can become an element.

type Value = string | number | boolean | null | undefined | ((event: any) => void);
type Child = Node | string | number | null | undefined | false;

/** Makes an element. A function is the listener of the event whose name follows "on"; true sets an empty attribute, and
 * false, null and undefined none. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  add(element, ...children);
  return element;
}

/** Sets or removes an attribute. */
export function set(element: Element, name: string, value: string | number | boolean | null | undefined): void {
  if (value === false || value === null || value === undefined) element.removeAttribute(name);
  else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

export function add(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Changes the text of an element if it differs, so that a selection in it survives. */
export function text(element: Element, content: string): void {
  if (element.textContent !== content) element.textContent = content;
}

const paths: Record<string, string> = {
  running: "M8 3.2a4.8 4.8 0 1 0 0 9.6a4.8 4.8 0 0 0 0-9.6z",
  input: "M3 4.5l4 3.5-4 3.5M8.5 12H13",
  blocked: "M4 3v10M12 3v10M6.5 8h3",
  stopped: "M5.5 3.5v9M10.5 3.5v9",
  asleep: "M3.2 8h.1M8 8h.1M12.8 8h.1",
  done: "M3 8.5l3.2 3.2L13 4.8",
  failed: "M4 4l8 8M12 4l-8 8",
  refused: "M8 2.2l5 1.8v4c0 3-2.2 5-5 5.9C5.2 13 3 11 3 8V4zM6 6l4 4M10 6l-4 4",
  search: "M7 2.500a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9zM10.3 10.300L14 14",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  close: "M4 4l8 8M12 4l-8 8",
  down: "M8 3v9M4 8.500L8 12.500l4-4",
  up: "M8 13V4M4 7.500L8 3.500l4 4",
  play: "M5 3.200v9.600L12.5 8z",
  pause: "M5.5 3.500v9M10.5 3.500v9",
  save: "M8 2.500v7.500M4.8 7L8 10.200L11.2 7M3 13h10",
  info: "M8 7.200v4M8 4.600v.1M8 1.800a6.2 6.2 0 1 0 0 12.400a6.2 6.2 0 0 0 0-12.400z",
  keyboard: "M2 4.500h12v7H2zM4.5 7h.1M7 7h.1M9.5 7h.1M11.5 7h.1M5 9.300h6",
  chevron: "M6 4l4 4-4 4",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  back: "M9.5 3.500L5 8l4.5 4.5",
};

/** A drawing of 16 × 16 in the colour of the text. It says nothing to a screen reader: the text beside it does. */
export function icon(name: string): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `icon icon-${name}`);
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", paths[name] ?? paths.more!);
  svg.append(path);
  return svg;
}
