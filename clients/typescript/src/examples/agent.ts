// An agent: a model chooses commands, the executor runs them, and the model sees what they print.

import { connect } from "@tetherexec/client";

interface Step {
  command: string;
  output: string;
  code: number;
}

/** Chooses the next command; undefined: the task is done. This one follows a script. A real agent asks its language model here. */
function model(history: Step[]): string | undefined {
  const directory = history[0]?.output.trim();
  if (!directory) return "mktemp -d";
  if (history.length === 1) return `cd ${directory} && echo 'echo 1 failed; exit 1' > test.sh && sh test.sh`;
  if (history.at(-1)!.code !== 0) return `cd ${directory} && echo 'echo all passed' > test.sh && sh test.sh`; // it mends the test
  return history.length === 3 ? `rm -r ${directory}` : undefined;
}

const client = await connect(process.env.TETHER_URL ?? "ws://127.0.0.1:7777");
const history: Step[] = [];
for (let command = model(history); command; command = model(history)) {
  console.log("$", command);
  const child = await client.start(["/bin/sh", "-c", command]);
  const decoder = new TextDecoder();
  let output = "";
  for await (const event of child) {
    if (event.kind !== "output") continue;
    const text = decoder.decode(event.data, { stream: true }); // as it comes
    process.stdout.write(text);
    output += text;
  }
  const { code } = await child.wait();
  console.log("exit code", code);
  history.push({ command, output, code });
}
await client.close();
