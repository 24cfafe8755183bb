"""The options of every Claude Code process ktx starts: one function, and nothing left to a default."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.llm.backends.claude.host import Host
from ktx_cli.llm.backends.claude.launcher import KEYS, REAL_CLI
from ktx_cli.llm.backends.claude.processes import logs_in

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

SERVER: Final = "ktx"
PREFIX: Final = f"mcp__{SERVER}__"
STRUCTURED_OUTPUT: Final = "StructuredOutput"
"""The tool Claude Code adds to a call with a schema."""

OBJECT_TURNS: Final = 6
"""Five answers Claude Code allows for a schema, and the turn that ends."""

MAX_ARGUMENT: Final = 96 * 1024
"""Bytes of a system prompt that still go on the command line; a longer one goes into a file."""

BUFFER_BYTES: Final = 64 * 1024 * 1024

BUILT_IN_TOOLS: Final = (
    "Agent",
    "Task",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "KillShell",
    "Read",
    "Edit",
    "MultiEdit",
    "Write",
    "NotebookEdit",
    "Glob",
    "Grep",
    "LS",
    "WebFetch",
    "WebSearch",
    "TodoWrite",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "Skill",
    "SlashCommand",
    "ToolSearch",
    "SendMessage",
    "Monitor",
    "Workflow",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "ListAgents",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "ScheduleWakeup",
    "ReportFindings",
)
"""Claude Code's own tools; `tools=[]` takes them away, this refuses them by name as well."""

BUILT_IN_PLUGINS: Final = ("cc-plugin-agents-md", "cc-plugin-privacy", "cc-plugin-plugin-authoring")

LOCKDOWN_SETTINGS: Final[Mapping[str, Any]] = {
    "enabledPlugins": {f"{name}@builtin": False for name in BUILT_IN_PLUGINS},
    "autoMemoryEnabled": False,
}

COMMANDS_OFF: Final = "disable-slash-commands"
LOCKDOWN_ARGUMENTS: Final[Mapping[str, str | None]] = {"no-session-persistence": None, COMMANDS_OFF: None}


def needs_file(text: str) -> bool:
    """Say whether a text is too long for an argument, or holds what none may hold."""
    return "\0" in text or len(text.encode("utf-8", "replace")) > MAX_ARGUMENT


def argument(text: str) -> str:
    """Return a text as UTF-8 can carry it: half a surrogate pair, which a model can write, becomes `?`."""
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What a process is started for. Processes of equal specs can stand in for each other.

    `tools` is name, description, schema and the read-only mark of each tool as one JSON text. `reuse`: it serves
    several calls, cleared in between; for that Claude Code must take commands, and each prompt is marked as none.
    """

    model: str
    system: str
    max_turns: int
    tools: str = "[]"
    schema: str | None = None
    stream: bool = False
    retries: int | None = None
    reuse: bool = False

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools, sorted."""
        return tuple(sorted(tool["name"] for tool in json.loads(self.tools)))

    @property
    def allowed(self) -> frozenset[str]:
        """The tool ids a process may use."""
        ids = frozenset(PREFIX + name for name in self.tool_names)
        return ids | {STRUCTURED_OUTPUT} if self.schema else ids


def build_options(
    spec: ProcessSpec,
    host: Host,
    *,
    server: Any,
    hooks: Any,
    can_use_tool: Any,
    stderr: Callable[[str], None],
    folder: Path,
    system_file: Path | None = None,
) -> ClaudeAgentOptions:
    """Return the options of a process; `server`: of its tools, None without tools; `folder`: for its logs."""
    from claude_agent_sdk import ClaudeAgentOptions

    ids = [PREFIX + name for name in spec.tool_names]
    return ClaudeAgentOptions(
        cwd=host.project_dir,
        cli_path=host.launcher,
        env=launcher_environment(host, folder=folder, retries=spec.retries),
        model=spec.model,
        max_turns=spec.max_turns,
        system_prompt=spec.system if system_file is None else {"type": "file", "path": str(system_file)},
        setting_sources=[],
        skills=[],
        plugins=[],
        tools=[],
        agents={},
        mcp_servers={SERVER: {"type": "sdk", "name": SERVER, "instance": server}} if ids else {},
        strict_mcp_config=True,
        allowed_tools=ids,
        disallowed_tools=list(BUILT_IN_TOOLS),
        permission_mode="dontAsk",
        can_use_tool=can_use_tool,
        hooks=hooks,
        output_format={"type": "json_schema", "schema": json.loads(spec.schema)} if spec.schema else None,
        verbatim_prompts=not spec.reuse,
        include_hook_events=True,
        include_partial_messages=spec.stream,
        settings=json.dumps(LOCKDOWN_SETTINGS, sort_keys=True),
        extra_args=_arguments(spec, host),
        max_buffer_size=BUFFER_BYTES,
        stderr=stderr,
    )


def _arguments(spec: ProcessSpec, host: Host) -> dict[str, str | None]:
    left_out = {COMMANDS_OFF} if spec.reuse else set()
    kept = {name: value for name, value in LOCKDOWN_ARGUMENTS.items() if name not in left_out}
    return {**kept, **({"restricted": None} if host.restricted else {})}


def launcher_environment(host: Host, *, folder: Path, retries: int | None) -> dict[str, str]:
    """Return the environment for the launcher: the child's own, what to start, and which names to keep."""
    own = {**host.environment, **logs_in(folder)}
    if retries is not None:
        own["CLAUDE_CODE_MAX_RETRIES"] = str(retries)
    return {**own, REAL_CLI: str(host.binary), KEYS: json.dumps(sorted(own))}
