"""The options for every Claude Code process that ktx starts: one function sets them all, leaving nothing to
defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.llm.backends.claude.binary import Host, logs_in
from ktx_cli.llm.backends.claude.launcher import KEYS, REAL_CLI
from ktx_cli.llm.backends.claude.session import HINT, PolicyError
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.schemas import changed_inside
from ktx_cli.project import EffortLevel

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions


SERVER: Final = "ktx"
PREFIX: Final = f"mcp__{SERVER}__"
STRUCTURED_OUTPUT: Final = "StructuredOutput"
"""The tool that Claude Code adds to a call with a schema."""

OBJECT_TURNS: Final = 6
"""Turns for a call with a schema: the five answers that Claude Code allows, and the final turn."""

MAX_ARGUMENT: Final = 96 * 1024
"""Maximum size of a system prompt on the command line, in bytes; a longer prompt goes into a file."""

BUFFER_BYTES: Final = 64 * 1024 * 1024

BUILT_IN_TOOLS: Final = (
    "Agent", "Task", "AskUserQuestion", "Bash", "BashOutput", "KillShell", "Read", "Edit", "MultiEdit", "Write",
    "NotebookEdit", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "TodoWrite", "TaskCreate", "TaskGet", "TaskList",
    "TaskOutput", "TaskStop", "TaskUpdate", "Skill", "SlashCommand", "ToolSearch", "SendMessage", "Monitor",
    "Workflow", "CronCreate", "CronDelete", "CronList", "EnterPlanMode", "ExitPlanMode", "EnterWorktree",
    "ExitWorktree", "ListAgents", "ListMcpResourcesTool", "ReadMcpResourceTool", "ScheduleWakeup", "ReportFindings",
)  # fmt: skip
"""Claude Code's own tools; `tools=[]` removes them, and this list also denies them by name."""

BUILT_IN_PLUGINS: Final = ("cc-plugin-agents-md", "cc-plugin-privacy", "cc-plugin-plugin-authoring")

LOCKDOWN_SETTINGS: Final[Mapping[str, Any]] = {
    "enabledPlugins": {f"{name}@builtin": False for name in BUILT_IN_PLUGINS},
    "autoMemoryEnabled": False,
}

COMMANDS_OFF: Final = "disable-slash-commands"
LOCKDOWN_ARGUMENTS: Final[Mapping[str, str | None]] = {"no-session-persistence": None, COMMANDS_OFF: None}


def needs_file(text: str) -> bool:
    """Return whether a text is too long for an argument, or contains a character that no argument may contain."""
    return "\0" in text or len(text.encode("utf-8", "replace")) > MAX_ARGUMENT


def argument(text: str) -> str:
    """Return a text that UTF-8 can represent: a lone surrogate, which a model can write, becomes `?`."""
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The purpose that a process is started for. Processes with equal specs are interchangeable.

    `tools` is name, description, schema and the read-only mark of each tool as one JSON text. `reuse`: it serves
    several calls, cleared in between; for that, Claude Code must accept commands, and each prompt is marked as none.
    """

    model: str
    system: str
    max_turns: int
    tools: str = "[]"
    schema: str | None = None
    stream: bool = False
    retries: int | None = None
    reuse: bool = False
    effort: EffortLevel | None = None

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
    """Return the options for a process. `server` provides its tools (None without tools); its logs go to `folder`."""
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
    effort = {} if spec.effort is None else {"effort": spec.effort}
    return {**kept, **effort, **({"restricted": None} if host.restricted else {})}


def launcher_environment(host: Host, *, folder: Path, retries: int | None) -> dict[str, str]:
    """Return the environment for the launcher: the child's variables, what to start, and which names to keep."""
    own = {**host.environment, **logs_in(folder)}
    if retries is not None:
        own["CLAUDE_CODE_MAX_RETRIES"] = str(retries)
    return {**own, REAL_CLI: str(host.binary), KEYS: json.dumps(sorted(own))}


DENIAL = "this call has no such tool"

OnDenial = Callable[[str, Any], None]
"""Called with the id and input of a denied tool."""


def guard_hooks(allowed: frozenset[str], on_denial: OnDenial) -> dict[Any, Any]:
    """Return the hooks of a process: every tool call passes here first, and a failing hook blocks it."""
    from claude_agent_sdk import HookMatcher

    async def before_tool(data: Any, tool_use_id: str | None, context: Any) -> Any:
        name = data.get("tool_name", "")
        if name in allowed:
            return {}
        on_denial(name, data.get("tool_input"))
        denial = {"permissionDecision": "deny", "permissionDecisionReason": DENIAL}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **denial}}

    return {"PreToolUse": [HookMatcher(matcher=None, hooks=[before_tool], on_failure="block")]}


def permission_callback(allowed: frozenset[str], on_denial: OnDenial) -> Any:
    """Return the permission callback. Under `dontAsk`, Claude Code does not call it today; the hook is the guard."""
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

    async def can_use_tool(name: str, arguments: dict[str, Any], context: Any) -> Any:
        if name in allowed:
            return PermissionResultAllow()
        on_denial(name, arguments)
        return PermissionResultDeny(message=DENIAL)

    return can_use_tool


SESSION_SOURCES: Final = ("none", "/login managed key")
"""`apiKeySource` of a local session: the subscription's, or the key that a console login manages."""


def isolation_error(message: str, *, backend: str, hint: str | None = None, **facts: Any) -> LlmError:
    """Return an isolation error."""
    return llm_error("isolation", backend=backend, message=message, hint=hint, **facts)


def route_error(message: str, *, backend: str) -> LlmError:
    """Return the error for a call that takes a route other than the local session; a policy may be the reason."""
    return isolation_error(message, backend=backend, hint=HINT, kind=PolicyError)


def check_init(init: Mapping[str, Any], allowed: frozenset[str], *, backend: str) -> None:
    """Check that a process's first frame shows only the call's tools, servers and plugins, and the session as its
    route.

    Slash commands, skills and agents may be listed: the host has them, but they cannot be used. Raises `LlmError`
    (`isolation`).
    """
    tools = frozenset(init.get("tools") or ())
    if tools != allowed:
        more, less = sorted(tools - allowed), sorted(allowed - tools)
        says = "; ".join(f"{word} {', '.join(names)}" for word, names in (("has", more), ("lacks", less)) if names)
        raise isolation_error(f"Claude Code started with tools other than those of this call: {says}", backend=backend)
    expected = {SERVER} if any(name.startswith("mcp__") for name in allowed) else set()
    servers = {server.get("name"): server.get("status") for server in init.get("mcp_servers") or ()}
    if set(servers) != expected or any(status != "connected" for status in servers.values()):
        found = ", ".join(f"{name} ({status})" for name, status in sorted(servers.items())) or "none"
        raise isolation_error(
            f"Claude Code started with MCP servers other than those of this call: {found}", backend=backend
        )
    plugins = [plugin for plugin in init.get("plugins") or () if plugin.get("path") != "builtin"]
    if plugins:
        names = ", ".join(sorted(str(plugin.get("name")) for plugin in plugins))
        raise isolation_error(f"Claude Code started with plugins: {names}", backend=backend)
    check_route(init, backend=backend)


def init_facts(init: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the first frame of a process reports about its start, as far as `check_init` checks it."""
    return {
        "tools": sorted(map(str, init.get("tools") or ())),
        "mcp_servers": sorted(str(server.get("name")) for server in init.get("mcp_servers") or ()),
        "plugins": sorted(str(plugin.get("name")) for plugin in init.get("plugins") or ()),
        "credentials": str(init.get("apiKeySource", "none")),
    }


def check_route(init: Mapping[str, Any], *, backend: str) -> None:
    """Check that the process uses the local session and sends its requests to Anthropic itself."""
    source = init.get("apiKeySource", "none")
    if source not in SESSION_SOURCES:
        message = f"Claude Code took its credentials from {source}, not from the local session"
        raise route_error(message, backend=backend)
    if init.get("served_by_anthropic") is False:
        raise route_error("Claude Code sends its requests to a provider other than Anthropic", backend=backend)


def check_result_route(model_usage: Mapping[str, Mapping[str, Any]] | None, *, backend: str) -> None:
    """Check the providers that a finished call reports."""
    providers = {str(usage.get("provider")) for usage in (model_usage or {}).values() if usage.get("provider")}
    foreign = sorted(providers - {"firstParty"})
    if foreign:
        raise route_error(f"Claude Code was served by {', '.join(foreign)}, not by Anthropic", backend=backend)


def foreign_hook(frame: Mapping[str, Any], *, backend: str) -> LlmError:
    """Return the error for a hook that is not ktx's: only managed settings can add one."""
    event = frame.get("hook_event") or frame.get("hook_event_name") or "unknown"
    message = f"a {event} hook from your organization's managed settings ran inside Claude Code"
    facts = {"hook_event": str(event), "origin": "managed settings"}
    return isolation_error(message, backend=backend, hint=HINT, kind=PolicyError, **facts)


_WORDS: Final = """
    $id $ref $defs definitions $comment title description default examples deprecated readOnly writeOnly nullable
    type enum const format contentEncoding contentMediaType contentSchema
    multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern
    items additionalItems maxItems minItems uniqueItems contains
    properties patternProperties additionalProperties required propertyNames maxProperties minProperties dependencies
    allOf anyOf oneOf not if then else
"""
KNOWN: Final = frozenset(_WORDS.split())
"""Keywords that the binary accepts; `$schema` is not one of them: it names another draft and does not describe
answers.
"""

DESCRIBED_WORDS: Final = (
    "prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "minContains",
    "maxContains", "pattern",
)  # fmt: skip
"""Keywords that constrain the answer: if they must be removed, the description states them for the model."""

FOREIGN_PATTERN: Final = re.compile(r"\(\?(?!:|=|!|<[=!A-Za-z_])|\\[AZz]")
"""Parts of a regular expression that JavaScript does not support."""


def binary_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema to send. It is not stricter than the given one, which the answer is checked
    against afterwards.
    """
    known = {word: value for word, value in schema.items() if _is_known(word, value)}
    kept = changed_inside(known, _rewritten)
    init_facts = {word: schema[word] for word in DESCRIBED_WORDS if word in schema and word not in kept}
    if "prefixItems" in schema:
        kept |= _tuple(schema)
    if init_facts:
        schema_text = f"JSON Schema: {json.dumps(init_facts, sort_keys=True)}"
        kept["description"] = f"{schema['description']}\n{schema_text}" if schema.get("description") else schema_text
    return kept


def _is_known(word: str, value: Any) -> bool:
    return word in KNOWN and not (word == "pattern" and FOREIGN_PATTERN.search(str(value)))


def _rewritten(part: Any) -> Any:
    return binary_schema(part) if isinstance(part, Mapping) else part


def _tuple(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a tuple's schema that can be expressed: the allowed items, but not their order."""
    first, rest = [_rewritten(part) for part in schema["prefixItems"]], schema.get("items", True)
    most = schema.get("maxItems")
    if rest is False or (isinstance(most, int) and most <= len(first)):
        longest = min(len(first), most) if isinstance(most, int) else len(first)
        return {"items": {"anyOf": first}, "maxItems": longest}
    return {} if rest is True else {"items": {"anyOf": [*first, _rewritten(rest)]}}
