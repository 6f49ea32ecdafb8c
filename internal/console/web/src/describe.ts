// The answer to tether/process/describe, as people read it.
import { durationText, pathText, sizeText, visibleText } from "./format.ts";
import type { DescribeResult } from "./protocol.ts";

export interface Line {
  text: string;
  more: boolean; // belongs to the line before
}

/** The lines of the explanation, in the sections that its first words name. */
export function explained(text: readonly string[]): Map<string, Line[]> {
  const sections = new Map<string, Line[]>();
  let lines: Line[] = [];
  for (const raw of text) {
    const match = /^(\S+)\s+(.*)$/.exec(raw);
    if (match) {
      const [, name = "", rest = ""] = match;
      const section = name === "network" ? "Network" : "Sandbox";
      const known = sections.get(section);
      if (known) lines = known;
      else sections.set(section, (lines = []));
      lines.push({ text: visibleText(section === "Network" || name === "sandbox" ? rest : `${name}: ${rest}`), more: false });
    } else if (raw.trim() !== "") lines.push({ text: visibleText(raw.trim()), more: true });
  }
  return sections;
}

/** The limits that are in force, and by what. */
export function limitTexts(described: DescribeResult): [string, string][] {
  const limits = described.limits;
  if (!limits) return [];
  const count = (n: number) => String(n);
  const all: [string, { limit: unknown; by: string } | undefined, (n: number) => string][] = [
    ["Memory", limits.memoryBytes, sizeText],
    ["Processors", limits.cpus, count],
    ["Processes", limits.processes, count],
    ["Open files", limits.openFiles, count],
    ["Disk", limits.diskBytes, sizeText],
    ["Time", limits.timeMs, durationText],
  ];
  return all.flatMap(([name, value, text]) => (value ? [[name, `${text(Number(value.limit))} (${visibleText(value.by)})`] as [string, string]] : []));
}

/** What the sandbox has refused; undefined if it has refused nothing, or nobody knows. */
export function denialText(described: DescribeResult): string | undefined {
  if (!described.sandboxDenied) return undefined;
  const denial = described.tetherDenial;
  if (!denial) return "by the sandbox";
  const parts: string[] = [];
  if (denial.path) parts.push(`to ${denial.access ?? "use"} ${pathText(denial.path)}`);
  if (denial.syscall) parts.push(`a system call (${visibleText(denial.syscall)})`);
  if (denial.rule) parts.push(`by the rule “${visibleText(denial.rule)}”`);
  return parts.join(", ") || "by the sandbox";
}

/** The decisions about hosts: refused ones first. */
export function decisionsOf(described: DescribeResult): { refused: boolean; host: string; count: number; why: string }[] {
  return described.decisions
    .map((d) => ({
      refused: d.decision === "deny",
      host: `${visibleText(d.host)}:${d.port}`,
      count: d.count,
      why: visibleText(d.rule ? `rule ${d.rule}` : d.reason.replaceAll("_", " ")),
    }))
    .sort((a, b) => Number(b.refused) - Number(a.refused));
}
