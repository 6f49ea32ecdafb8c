"""The shell tool of the OpenAI Agents SDK (package openai-agents), with commands that run on an executor.

    agent = Agent(name="builder", tools=[ShellTool(executor=shell_executor(client, cwd="/srv/project"))])
"""

from typing import Any, Awaitable, Callable, Sequence

from ..client import Client
from ._shell import MAX_OUTPUT, run_shell


def shell_executor(
    client: Client, *, shell: Sequence[str] = ("/bin/sh", "-c"), timeout: float | None = 1800, **options: Any
) -> Callable[[Any], Awaitable[Any]]:
    """An executor for agents.ShellTool. The commands of a request run one after the other; one that is not ready in time is ended, and the
    commands behind it do not run. timeout, in seconds, is for requests that name none. The options are those of Client.start, such as
    cwd, env and sandbox.
    """

    async def execute(request: Any) -> Any:  # an agents.ShellCommandRequest
        from agents import ShellCallOutcome, ShellCommandOutput, ShellResult

        action = request.data.action
        seconds = timeout if action.timeout_ms is None else action.timeout_ms / 1000
        limit = action.max_output_length or MAX_OUTPUT
        output = []
        for command in action.commands:
            ran = await run_shell(client, shell, command, timeout=seconds, limit=limit, **options)
            outcome = ShellCallOutcome(type="timeout") if ran.code is None else ShellCallOutcome(type="exit", exit_code=ran.code)
            output.append(ShellCommandOutput(command=command, stdout=ran.stdout, stderr=ran.stderr, outcome=outcome))
            if ran.code is None:
                break
        return ShellResult(output=output, max_output_length=action.max_output_length)

    return execute
