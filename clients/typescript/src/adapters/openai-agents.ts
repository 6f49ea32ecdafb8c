// The shell of the OpenAI Agents SDK (package @openai/agents), with commands that run on an executor:
//
//   const agent = new Agent({ name: "builder", tools: [shellTool({ shell: tetherShell(client, { cwd: "/srv/project" }) })] });

import type { Client } from "../client.js";
import { runShell, type ShellOptions } from "./shell.js";

/** What a model asks for. */
export interface ShellAction {
  commands: string[];
  timeoutMs?: number;
  maxOutputLength?: number;
}

/** The output of a command, and how it ended. */
export interface ShellOutput {
  stdout: string;
  stderr: string;
  outcome: { type: "exit"; exitCode: number } | { type: "timeout" };
}

/**
 * The commands of an action run one after the other; one that is not ready in time is ended, and the commands behind it do not run.
 * timeoutMs is for actions that name none; 30 minutes if absent.
 */
export function tetherShell(client: Client, options: ShellOptions & { timeoutMs?: number } = {}) {
  const { timeoutMs: usual = 30 * 60_000, ...start } = options;
  return {
    async run(action: ShellAction): Promise<{ output: ShellOutput[]; maxOutputLength?: number }> {
      const output: ShellOutput[] = [];
      for (const command of action.commands) {
        const limits = { timeoutMs: action.timeoutMs ?? usual, maxOutput: action.maxOutputLength };
        const { stdout, stderr, code } = await runShell(client, command, start, limits);
        output.push({ stdout, stderr, outcome: code === undefined ? { type: "timeout" } : { type: "exit", exitCode: code } });
        if (code === undefined) break;
      }
      return action.maxOutputLength === undefined ? { output } : { output, maxOutputLength: action.maxOutputLength };
    },
  };
}
