// The answer to tether/process/describe, as the page shows it.
import type { ProcessFacts, ProcessInfo } from "./protocol.ts";
import type { Size } from "./screen.ts";

export function factsOf(described: any): ProcessFacts {
  return described as ProcessFacts;
}

/** The size of a command's terminal, if the server knows it. */
export function sizeOf(described: any, info: ProcessInfo): Size | undefined {
  return info.tty ? described?.size : undefined;
}
