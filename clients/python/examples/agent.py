"""An agent: a model chooses commands, the executor runs them, and the model sees what they print."""

import asyncio
import os
import sys

import tetherexec


def model(history: list[dict]) -> str | None:
    """Chooses the next command; None: the task is done. This one follows a script. A real agent asks its language model here."""
    match history:
        case []:
            return "mktemp -d"
        case [made]:
            return f"cd {made['output'].strip()} && echo 'echo 1 failed; exit 1' > test.sh && sh test.sh"
        case [*_, last] if last["code"] != 0:  # it mends the test
            return f"cd {history[0]['output'].strip()} && echo 'echo all passed' > test.sh && sh test.sh"
        case _:
            return f"rm -r {history[0]['output'].strip()}" if len(history) == 3 else None


async def main() -> None:
    async with await tetherexec.connect(os.environ.get("TETHER_URL", "ws://127.0.0.1:7777")) as client:
        history: list[dict] = []
        while command := model(history):
            print("$", command)
            process = await client.start(["/bin/sh", "-c", command])
            output = b""
            async for event in process:
                if isinstance(event, tetherexec.Output):  # as it comes
                    output += event.data
                    sys.stdout.write(event.data.decode(errors="replace"))
            code = (await process.wait()).code
            print("exit code", code)
            history.append({"command": command, "output": output.decode(errors="replace"), "code": code})


asyncio.run(main())
