// The facts about a command: what it is, why it is silent, what it may do, what it was refused, how it ended.
import { h } from "./dom.ts";
import { commandText, clockText, durationText, pathText, sizeText, spanText, visibleText } from "./format.ts";
import type { Command } from "./inventory.ts";
import { decisionsOf, denialText, explained, type Line, limitTexts } from "./describe.ts";
import type { DescribeResult, SessionInfo, StateDetail } from "./protocol.ts";
import { sessionName } from "./rows.ts";
import { stateText } from "./state.ts";

export interface Subject {
  command: Command;
  session: SessionInfo | undefined;
  detail: StateDetail | undefined; // with evidence
  described: DescribeResult | undefined;
}

type Fact = [string, string | Node | undefined];

export class Facts {
  private drawn = new Map<string, string>();

  constructor(private readonly parent: HTMLElement) {
    this.clear();
  }

  clear(): void {
    this.drawn.clear();
    this.parent.replaceChildren(h("p", { class: "facts-empty" }, "Choose a command to see what it is, what it may do and what it was refused."));
  }

  /** Draws the sections that have changed, so that a selection in the others survives. */
  update(subject: Subject): void {
    const sections = sectionsOf(subject);
    const names = sections.map(([name]) => name).join();
    if (this.drawn.get("") !== names) {
      this.drawn.clear();
      this.drawn.set("", names);
      this.parent.replaceChildren(...sections.map(([name]) => h("section", { "data-section": name, "aria-label": name })));
    }
    sections.forEach(([name, content], i) => {
      const section = this.parent.children[i] as HTMLElement;
      const drawing = h("div", {}, h("h2", {}, name), ...content);
      const text = drawing.textContent ?? "";
      if (this.drawn.get(name) === text) return;
      this.drawn.set(name, text);
      section.replaceChildren(...drawing.childNodes);
    });
  }
}

function list(facts: Fact[]): HTMLElement {
  const known = facts.filter(([, value]) => value !== undefined && value !== "");
  return h("dl", {}, ...known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function sectionsOf(subject: Subject): [string, Node[]][] {
  const { info } = subject.command;
  const sections: [string, Node[]][] = [["Command", commandSection(subject)], ["State", stateSection(subject)]];
  if (info.state !== "running") sections.push(["Exit", exitSection(subject)]);
  sections.push(["Use", [list(useFacts(subject))]], ["Output", [list(outputFacts(subject))]]);
  const { described } = subject;
  if (!described) return sections;
  for (const [name, lines] of explained(described.text)) sections.push([name, [policyList(lines)]]);
  if (described.decisions.length > 0) sections.push(["Hosts", [decisionTable(described)]]);
  const limits = limitTexts(described);
  if (limits.length > 0) sections.push(["Limits", [list(limits)]]);
  return sections;
}

function commandSection({ command: { info }, session, described }: Subject): Node[] {
  return [
    h("pre", { class: "argv", tabindex: "0", "aria-label": "Command line" }, commandText(described?.process.argv ?? info.argv)),
    list([
      ["Directory", h("code", {}, pathText(info.cwd))],
      ["Started", clockText(info.startedAtMs)],
      ["Process", `${info.pid}, id ${visibleText(info.processId)}`],
      ["Terminal", info.tty ? "yes" : "no: pipes"],
      ["Session", session ? sessionName(session) : undefined],
      ["Client", session ? `${visibleText(session.clientName)}${session.attached ? "" : " (not connected)"}` : undefined],
      ["Watched by", info.observers > 1 ? `${info.observers} clients` : undefined],
    ]),
  ];
}

function stateSection({ command: { info }, detail }: Subject): Node[] {
  const nodes: Node[] = [h("p", { class: "state-line" }, detail && info.state === "running" ? visibleText(detail.text) : stateText(info))];
  if (info.state !== "running" || !detail?.evidence?.length) return nodes;
  nodes.push(h("ul", { class: "evidence" }, ...detail.evidence.map((e) => h("li", {}, h("code", {}, `${visibleText(e.command)} ${e.pid}`), ` ${visibleText(e.saw)}`))));
  return nodes;
}

function exitSection({ command: { info }, described }: Subject): Node[] {
  const usage = info.tetherUsage;
  const killed = usage?.memoryKill;
  return [
    list([
      ["Code", info.exitCode === undefined ? undefined : String(info.exitCode)],
      ["Ran for", usage ? durationText(usage.wallUs / 1000) : undefined],
      ["Blocked for", usage && usage.blockedUs > 0 ? durationText(usage.blockedUs / 1000) : undefined],
      ["Refused", described && denialText(described)],
      ["Ended by", described?.tetherLimit ? `its limit ${described.tetherLimit}` : killed ? "the system: no memory" : undefined],
      ["Why", described?.tetherFailure && visibleText(described.tetherFailure)],
      ["Still there", info.survivors?.map((s) => `${s.pid} ${visibleText(s.command)}: ${visibleText(s.reason)}`).join("; ")],
    ]),
  ];
}

function useFacts({ command: { info, cpuShare } }: Subject): Fact[] {
  const usage = info.tetherUsage;
  const cpuMs = usage?.userUs !== undefined && usage.systemUs !== undefined ? (usage.userUs + usage.systemUs) / 1000 : info.cpuMs;
  return [
    ["Processor", cpuMs === undefined ? undefined : `${durationText(cpuMs)}${cpuShare === undefined || cpuShare < 0.005 ? "" : `, now ${Math.round(cpuShare * 100)}%`}`],
    ["Memory", info.memoryBytes === undefined ? undefined : sizeText(info.memoryBytes)],
    ["Memory peak", usage?.memoryPeakBytes === undefined ? undefined : sizeText(usage.memoryPeakBytes)],
    ["Read", usage?.readBytes ? sizeText(usage.readBytes) : undefined],
    ["Written", usage?.writtenBytes ? sizeText(usage.writtenBytes) : undefined],
    ["Processes", usage?.processes === undefined ? undefined : String(usage.processes)],
  ];
}

function outputFacts({ command: { info, bytesPerSecond } }: Subject): Fact[] {
  return [
    ["Kept", `${sizeText(info.heldBytes)}${info.spooledBytes > 0 ? `, ${sizeText(info.spooledBytes)} on disk` : ""}`],
    ["Rate", info.state === "running" && bytesPerSecond >= 1024 ? `${sizeText(bytesPerSecond)}/s` : undefined],
    ["Not yet sent", info.unsentBytes > 0 ? sizeText(info.unsentBytes) : undefined],
    ["No longer kept", info.droppedBytes ? sizeText(info.droppedBytes) : undefined],
    ["Silent for", info.state === "running" && info.stateDetail ? spanText(info.stateDetail.silentMs) : undefined],
  ];
}

function policyList(lines: readonly Line[]): Node {
  return h("ul", { class: "policy" }, ...lines.map((line) => h("li", { class: line.more ? "more" : "" }, line.text)));
}

function decisionTable(described: DescribeResult): Node {
  const rows = decisionsOf(described).map((d) =>
    h("tr", { class: d.refused ? "denied" : "" }, h("td", {}, d.refused ? "refused" : "allowed"), h("td", {}, h("code", {}, d.host), d.count > 1 ? ` × ${d.count}` : ""), h("td", {}, d.why)));
  if (described.moreDecisions) rows.push(h("tr", {}, h("td", { colspan: "3" }, `and ${described.moreDecisions} more`)));
  const head = ["Decision", "Host", "Why"].map((name) => h("th", { scope: "col" }, name));
  return h("table", { class: "decisions" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
}
