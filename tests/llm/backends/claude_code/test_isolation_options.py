"""The options of every process, spied on where the SDK is entered; and the proof that the spy sees each of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions
from pydantic import BaseModel

from ktx_cli.llm.agent_loop import CallRecord, CallSpec
from ktx_cli.llm.backends.claude.binary import ClaudeBinary, Host, find_launcher
from ktx_cli.llm.backends.claude.launcher import DENIED, KEYS, REAL_CLI, claude_environment
from ktx_cli.llm.backends.claude_code.backend import ClaudeCodeBackend
from ktx_cli.llm.backends.claude_code.isolation import BUILT_IN_TOOLS, SERVER
from ktx_cli.llm.tools import RuntimeTool

BINARY = Path("/opt/claude")
SEED_LIST = ("Agent", "Task", "AskUserQuestion", "Bash", "Read", "Edit", "Write", "Glob", "Grep", "WebFetch")


class Query(BaseModel):
    q: str


TOOLS = {"look": RuntimeTool("look", "Look up.", Query, lambda query: "found", read_only=True)}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

CALLS: dict[str, CallSpec] = {
    "text": CallSpec("text", "claude-code", "default", "sonnet", "p", "system"),
    "object": CallSpec("object", "claude-code", "default", "sonnet", "p", "system", schema=SCHEMA, check=dict),
    "loop": CallSpec("loop", "claude-code", "default", "sonnet", "p", "system", TOOLS, 7),
    "probe": CallSpec("probe", "claude-code", "default", "sonnet", "p"),
}
KINDS = [*CALLS, "account"]


class StopError(Exception):
    """Ends a call where the SDK would be entered."""


def spy(project: Path, kind: str, environ: dict[str, str] | None = None) -> ClaudeAgentOptions:
    """Return the options a call of a kind enters the SDK with."""
    seen: list[ClaudeAgentOptions] = []

    def connect(options: ClaudeAgentOptions) -> Any:
        seen.append(options)
        raise StopError

    async def go() -> None:
        host = Host(
            project, find_launcher("claude-code"), BINARY, True, claude_environment(environ or dict(os.environ))
        )
        backend = ClaudeCodeBackend(
            host,
            ClaudeBinary(BINARY, "test", (2, 1, 329), True),
            pool_size=1,
            retries=2,
            allow_managed=True,
            observe=lambda signal: None,
            warn=lambda warning: None,
            connect=connect,
        )
        if kind == "account":
            await backend.account()
            return
        spec = CALLS[kind]
        record = CallRecord(spec, run_id="r", command="c", emit=lambda event: None, usage_sink=lambda fact: None)
        await backend.run(spec, record)

    with pytest.raises(Exception) as caught:
        asyncio.run(go())
    assert "StopError" in repr((caught.value, caught.value.__cause__, caught.value.__context__)) + str(caught.value)
    [options] = seen
    return options


def check(options: ClaudeAgentOptions, kind: str, project: Path) -> None:
    """Assert everything that isolates a call."""
    spec = CALLS.get(kind)
    ids = [f"mcp__ktx__{name}" for name in (spec.tools if spec else ())]
    for name in ("setting_sources", "skills", "plugins", "tools"):
        assert getattr(options, name) == [], name
    assert options.agents == {}
    assert options.strict_mcp_config is True
    assert isinstance(options.mcp_servers, dict)
    assert list(options.mcp_servers) == ([SERVER] if ids else [])
    assert all(server["type"] == "sdk" for server in options.mcp_servers.values())
    assert options.allowed_tools == ids
    assert not any("*" in name for name in options.allowed_tools)
    assert set(options.disallowed_tools) >= {*SEED_LIST, "WebSearch", "TodoWrite", "Skill", "SlashCommand"}
    assert options.permission_mode == "dontAsk"
    assert options.can_use_tool is not None
    assert asyncio.run(options.can_use_tool("Bash", {}, None)).behavior == "deny"  # type: ignore[arg-type]
    assert options.hooks is not None
    [matcher] = options.hooks["PreToolUse"]
    assert (matcher.matcher, matcher.on_failure, len(matcher.hooks)) == (None, "block", 1)
    said: Any = asyncio.run(matcher.hooks[0]({"tool_name": "Bash"}, None, None))  # type: ignore[arg-type]
    assert said["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert options.verbatim_prompts is True
    assert options.include_hook_events is True
    assert options.extra_args == {"no-session-persistence": None, "disable-slash-commands": None, "restricted": None}
    settings = json.loads(options.settings or "{}")
    assert settings["autoMemoryEnabled"] is False
    plugins = ("cc-plugin-agents-md", "cc-plugin-privacy", "cc-plugin-plugin-authoring")
    assert settings["enabledPlugins"] == {f"{name}@builtin": False for name in plugins}
    assert options.cli_path == find_launcher("claude-code")
    assert options.env[REAL_CLI] == str(BINARY)
    assert set(json.loads(options.env[KEYS])) == set(options.env) - {REAL_CLI, KEYS}
    assert not set(DENIED) & set(options.env)
    for name in ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"):
        assert options.env[name] == "1"
    assert {"HOME", "PATH"} <= set(options.env)
    assert options.cwd == project
    assert options.max_turns == {"loop": 7, "object": 6}.get(kind, 1)
    assert (options.output_format is not None) == (kind == "object")
    assert options.fallback_model is None
    assert not (options.resume or options.continue_conversation or options.fork_session)
    assert options.add_dirs == []
    assert options.max_buffer_size == 64 * 1024 * 1024
    assert options.stderr is not None


@pytest.mark.requirement(
    "R16", "R17", "R18", "R19", "R20", "R21", "R22", "R23", "R24", "R25", "R26", "R31", "R32", "R33", "R39", "R55",
    "R57", "R61", "R63", "C12", "C13"
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_every_call_is_isolated(tmp_path: Path, kind: str) -> None:
    check(spy(tmp_path, kind), kind, tmp_path)


@pytest.mark.requirement("R33", "R34", "R61")
@pytest.mark.parametrize("kind", KINDS)
def test_no_denied_variable_is_passed_on(tmp_path: Path, kind: str) -> None:
    environ = {**dict.fromkeys(DENIED, "leak"), "HOME": "/h", "PATH": "/bin", "CLAUDE_CODE_OAUTH_TOKEN": "t"}
    options = spy(tmp_path, kind, environ)
    check(options, kind, tmp_path)
    assert "leak" not in options.env.values()
    assert options.env["CLAUDE_CODE_OAUTH_TOKEN"] == "t"


@pytest.mark.requirement("R25")
def test_the_list_of_the_binarys_own_tools_has_no_double() -> None:
    assert len(set(BUILT_IN_TOOLS)) == len(BUILT_IN_TOOLS)


def replaced(**facts: Any) -> Callable[[ClaudeAgentOptions], ClaudeAgentOptions]:
    return lambda options: dataclasses.replace(options, **facts)


def without_argument(name: str) -> Callable[[ClaudeAgentOptions], ClaudeAgentOptions]:
    def change(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        return dataclasses.replace(options, extra_args={k: v for k, v in options.extra_args.items() if k != name})

    return change


def settings_changed(change_it: Callable[[dict[str, Any]], Any]) -> Callable[[ClaudeAgentOptions], ClaudeAgentOptions]:
    def change(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        settings = json.loads(options.settings or "{}")
        change_it(settings)
        return dataclasses.replace(options, settings=json.dumps(settings))

    return change


def env_changed(change_it: Callable[[dict[str, str]], Any]) -> Callable[[ClaudeAgentOptions], ClaudeAgentOptions]:
    def change(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        env = dict(options.env)
        change_it(env)
        return dataclasses.replace(options, env=env)

    return change


def hook_changed(**facts: Any) -> Callable[[ClaudeAgentOptions], ClaudeAgentOptions]:
    def change(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        assert options.hooks is not None
        matcher = dataclasses.replace(options.hooks["PreToolUse"][0], **facts)
        return dataclasses.replace(options, hooks={"PreToolUse": [matcher]})

    return change


async def allow_all(*args: Any) -> Any:
    from claude_agent_sdk import PermissionResultAllow

    return PermissionResultAllow()


async def say_nothing(*args: Any) -> Any:
    return {}


async def deny_nothing(*args: Any) -> Any:
    return {"hookSpecificOutput": {"permissionDecision": "allow"}}


MUTATIONS: dict[str, Callable[[ClaudeAgentOptions], ClaudeAgentOptions]] = {
    "setting_sources left to its default": replaced(setting_sources=None),
    "setting_sources with the user's": replaced(setting_sources=["user"]),
    "skills left to their default": replaced(skills=None),
    "all skills": replaced(skills="all"),
    "a plugin": replaced(plugins=[{"type": "local", "path": "/p"}]),
    "tools left to their default": replaced(tools=None),
    "a built-in tool": replaced(tools=["Bash"]),
    "agents left to their default": replaced(agents=None),
    "servers of the host's configuration": replaced(strict_mcp_config=False),
    "no server": replaced(mcp_servers={}),
    "another server": replaced(mcp_servers={"jira": {"type": "stdio", "command": "jira"}}),
    "servers from a file": replaced(mcp_servers="/etc/mcp.json"),
    "allowed_tools empty": replaced(allowed_tools=[]),
    "allowed_tools by pattern": replaced(allowed_tools=["mcp__ktx__*"]),
    "allowed_tools with one more": replaced(allowed_tools=["mcp__ktx__look", "Read"]),
    "disallowed_tools empty": replaced(disallowed_tools=[]),
    "permission_mode left to its default": replaced(permission_mode=None),
    "permission_mode bypassed": replaced(permission_mode="bypassPermissions"),
    "no permission callback": replaced(can_use_tool=None),
    "a permission callback that allows": replaced(can_use_tool=allow_all),
    "no hooks": replaced(hooks=None),
    "a hook for one tool": hook_changed(matcher="Bash"),
    "a hook that may fail": hook_changed(on_failure=None),
    "a hook that says nothing": hook_changed(hooks=[say_nothing]),
    "a hook that allows": hook_changed(hooks=[deny_nothing]),
    "prompts interpreted": replaced(verbatim_prompts=False),
    "no hook events": replaced(include_hook_events=False),
    **{
        f"--{name} left out": without_argument(name)
        for name in ("no-session-persistence", "disable-slash-commands", "restricted")
    },
    "no settings": replaced(settings=None),
    "auto-memory": settings_changed(lambda settings: settings.pop("autoMemoryEnabled")),
    **{
        f"the plug-in {name}": settings_changed(
            lambda settings, name=name: settings["enabledPlugins"].pop(f"{name}@builtin")
        )
        for name in ("cc-plugin-agents-md", "cc-plugin-privacy", "cc-plugin-plugin-authoring")
    },
    "no launcher": replaced(cli_path=None),
    "the binary without the launcher": replaced(cli_path=BINARY),
    "an empty environment": replaced(env={}),
    "a denied variable": env_changed(lambda env: env.update(ANTHROPIC_API_KEY="k")),
    "a name the launcher does not expect": env_changed(lambda env: env.update(EXTRA="x")),
    "the launcher not told what to start": env_changed(lambda env: env.pop(REAL_CLI)),
    "the launcher not told what to keep": env_changed(lambda env: env.pop(KEYS)),
    "auto-memory by the environment": env_changed(lambda env: env.pop("CLAUDE_CODE_DISABLE_AUTO_MEMORY")),
    "another folder": replaced(cwd=Path("/")),
    "more folders": replaced(add_dirs=["/"]),
    "another budget": replaced(max_turns=0),
    "another model when busy": replaced(fallback_model="haiku"),
    "an earlier session": replaced(resume="x"),
    "the last session": replaced(continue_conversation=True),
}


@pytest.mark.requirement("R31")
@pytest.mark.table("name", MUTATIONS)
def test_removing_one_option_is_noticed(tmp_path: Path, name: str) -> None:
    options = spy(tmp_path, "loop")
    check(options, "loop", tmp_path)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        check(MUTATIONS[name](options), "loop", tmp_path)


@pytest.mark.requirement("R31")
def test_every_option_that_is_set_has_a_mutation(tmp_path: Path) -> None:
    """A field that differs from the SDK's default is changed by a mutation, or cannot open anything."""
    harmless = {"model", "system_prompt", "output_format", "include_partial_messages", "max_buffer_size", "stderr"}
    options, plain = spy(tmp_path, "loop"), ClaudeAgentOptions()
    names = [field.name for field in dataclasses.fields(ClaudeAgentOptions)]
    passed = {name for name in names if getattr(options, name) != getattr(plain, name)}
    changed = set()
    for mutate in MUTATIONS.values():
        mutated = mutate(options)
        changed |= {name for name in names if getattr(mutated, name) != getattr(options, name)}
    assert passed - harmless <= changed
