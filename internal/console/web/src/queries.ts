// Questions that output asks the terminal: its kind, its cursor, its colours. xterm.js answers them as if a person had
// typed the answer. Only the page that types may answer, and only to output that has just been written: a page that watches
// would type into the command, and a replayed log would answer questions of the past.
import type { IDisposable, Terminal } from "@xterm/xterm";

/** Swallows all questions of output unless `allowed`. */
export function guardQueries(terminal: Terminal, allowed: () => boolean): IDisposable {
  const { parser } = terminal;
  const swallow = () => !allowed();
  const isQuestion = (data: string) => data.includes("?") && swallow();
  const guards = [
    parser.registerCsiHandler({ final: "c" }, swallow), // device attributes
    parser.registerCsiHandler({ prefix: ">", final: "c" }, swallow),
    parser.registerCsiHandler({ prefix: "=", final: "c" }, swallow),
    parser.registerCsiHandler({ prefix: ">", final: "q" }, swallow), // version
    parser.registerCsiHandler({ final: "n" }, swallow), // status, cursor
    parser.registerCsiHandler({ prefix: "?", final: "n" }, swallow),
    parser.registerCsiHandler({ intermediates: "$", final: "p" }, swallow), // modes
    parser.registerCsiHandler({ prefix: "?", intermediates: "$", final: "p" }, swallow),
    parser.registerCsiHandler({ final: "t" }, () => true), // windows: never
    parser.registerDcsHandler({ intermediates: "$", final: "q" }, swallow), // settings
    parser.registerEscHandler({ final: "Z" }, swallow),
    ...[4, 10, 11, 12].map((code) => parser.registerOscHandler(code, isQuestion)), // colours
    parser.registerOscHandler(52, () => true), // the clipboard: never
  ];
  return { dispose: () => guards.forEach((guard) => guard.dispose()) };
}

/** The largest size of a terminal here (cast.ts): to scroll, insert or delete more lines than that empties the screen. */
const mostLines = 500;

/** Characters that one sequence may repeat. */
const mostRepeats = 4096;

/** Swallows sequences that repeat something more often than makes sense. xterm.js does what they say one by one: a single "scroll by
 * 2147483647 lines" would stop the page for minutes. */
export function guardCounts(terminal: Terminal): IDisposable {
  const guard = (final: string, most: number) =>
    terminal.parser.registerCsiHandler({ final }, ([count]) => typeof count === "number" && count > most);
  const guards = [..."STLMIZ"].map((final) => guard(final, mostLines)); // scroll, insert, delete, tabulators
  guards.push(guard("b", mostRepeats));
  return { dispose: () => guards.forEach((each) => each.dispose()) };
}
