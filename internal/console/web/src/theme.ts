// The colours of the terminal, light and dark, after the setting of the system. The page's own colours are in style.css.
import type { ITheme } from "@xterm/xterm";

const light: ITheme = {
  background: "#fffefc",
  foreground: "#24292f",
  cursor: "#0b6b70",
  cursorAccent: "#fffefc",
  selectionBackground: "#bfe3e2",
  selectionInactiveBackground: "#dcebea",
  black: "#24292f",
  red: "#b3261e",
  green: "#1a7f4b",
  yellow: "#8a5a00",
  blue: "#1f5fbf",
  magenta: "#8e3a9d",
  cyan: "#0b6b70",
  white: "#6a7079",
  brightBlack: "#5d6470",
  brightRed: "#b5371f",
  brightGreen: "#18703f",
  brightYellow: "#7d5300",
  brightBlue: "#2a62c9",
  brightMagenta: "#9341a3",
  brightCyan: "#0d6f86",
  brightWhite: "#3d434b",
};

const dark: ITheme = {
  background: "#0f1315",
  foreground: "#dfe4e6",
  cursor: "#63c7c4",
  cursorAccent: "#0f1315",
  selectionBackground: "#27545a",
  selectionInactiveBackground: "#243f43",
  black: "#2a3136",
  red: "#f28b82",
  green: "#6fcf97",
  yellow: "#e6c06a",
  blue: "#82b1ff",
  magenta: "#d7a1e8",
  cyan: "#63c7c4",
  white: "#c9d0d3",
  brightBlack: "#8b959b",
  brightRed: "#ffab91",
  brightGreen: "#8fe0b0",
  brightYellow: "#f3d58d",
  brightBlue: "#a6c8ff",
  brightMagenta: "#e6bff3",
  brightCyan: "#8ce0dd",
  brightWhite: "#f4f7f8",
};

const query = matchMedia("(prefers-color-scheme: dark)");

export function terminalTheme(): ITheme {
  return query.matches ? dark : light;
}

/** Colours of found text. */
export function foundColors(): { match: string; active: string; line: string } {
  return query.matches
    ? { match: "#4a4420", active: "#8a6d12", line: "#1d2b2d" }
    : { match: "#fff0b8", active: "#ffd24d", line: "#eaf4f3" };
}

/** Calls a function when the colours change, until the function that it returns is called. */
export function onThemeChange(listener: () => void): () => void {
  query.addEventListener("change", listener);
  return () => query.removeEventListener("change", listener);
}

/** Whether the person has asked for less motion. */
export function reducedMotion(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
