// Figures and command lines as people read them.

const units = ["KiB", "MiB", "GiB", "TiB"];

/** A number of bytes, such as "1.4 MiB". */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${Math.max(0, Math.round(bytes))} B`;
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** A span of time in its largest unit, such as "12 s" or "3 h". */
export function spanText(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A measured time, such as "0.43 s" or "2 min 7 s". */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A position in a recording, such as "1:07". */
export function positionText(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** A share of one processor, such as "0.4%" or "250%". */
export function percentText(share: number): string {
  const percent = share * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)}%`;
}

/** The words of a command as a shell would take them, with what a terminal would execute made visible. */
export function commandText(argv: readonly string[]): string {
  return argv.map(quoted).join(" ");
}

function quoted(word: string): string {
  const visible = visibleText(word);
  return /^[\w@%+=:,./…-]+$/.test(visible) ? visible : `'${visible.replaceAll("'", "'\\''")}'`;
}

/** Text without control characters and without marks that change the direction of text. */
export function visibleText(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) =>
    c === "\n" ? "↵" : c === "\t" ? " " : "\ufffd",
  );
}

/** The path of a file URI; other text is returned as it is. */
export function pathText(uri: string): string {
  if (!uri.startsWith("file://")) return visibleText(uri);
  let path = uri.slice("file://".length);
  try {
    path = decodeURIComponent(path);
  } catch {
    // Bytes that are not UTF-8 stay escaped.
  }
  return visibleText(/^\/[A-Za-z]:/.test(path) ? path.slice(1) : path);
}

/** The short name of a command for a list: the script of a shell instead of the shell. */
export function shortCommand(argv: readonly string[]): string {
  const shell = /(^|\/)(ba|z|da|k)?sh$/;
  if (argv.length === 3 && shell.test(argv[0] ?? "") && /^-[a-z]*c$/.test(argv[1] ?? "")) {
    return visibleText((argv[2] ?? "").trim());
  }
  const [first = "", ...rest] = argv;
  return commandText([first.slice(first.lastIndexOf("/") + 1) || first, ...rest]);
}

/** The time of day of a moment. */
export function clockText(timeMs: number): string {
  return new Date(timeMs).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}
