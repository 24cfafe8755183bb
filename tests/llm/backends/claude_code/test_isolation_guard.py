"""The guard: what a call may not use is denied by the hook and by the permission callback."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ktx_cli.llm.backends.claude_code.isolation import BUILT_IN_TOOLS, guard_hooks, permission_callback

ALLOWED = frozenset({"mcp__ktx__look", "StructuredOutput"})
FOREIGN = [*BUILT_IN_TOOLS, "mcp__jira__search", "mcp__ktx__other", "mcp__ktx__look ", "MCP__KTX__LOOK", ""]


def guard(denied: list[str]) -> tuple[Any, Any, Any]:
    def note(name: str, arguments: Any) -> None:
        denied.append(name)

    [matcher] = guard_hooks(ALLOWED, note)["PreToolUse"]
    return matcher, matcher.hooks[0], permission_callback(ALLOWED, note)


@pytest.mark.requirement("R4", "R24")
def test_every_tool_passes_the_hook_and_a_broken_hook_blocks() -> None:
    matcher, _, _ = guard([])
    assert matcher.matcher is None
    assert matcher.on_failure == "block"


@pytest.mark.requirement("R4", "R24", "R61")
@pytest.mark.table("name", FOREIGN)
def test_denied(name: str) -> None:
    denied: list[str] = []
    _, hook, callback = guard(denied)
    said = asyncio.run(hook({"tool_name": name, "tool_input": {}}, "id", None))
    assert said["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert asyncio.run(callback(name, {}, None)).behavior == "deny"
    assert denied == [name, name]


@pytest.mark.requirement("R24")
def test_a_frame_without_a_tool_is_denied() -> None:
    _, hook, _ = guard([])
    assert asyncio.run(hook({}, None, None))["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.requirement("R24")
@pytest.mark.table("name", sorted(ALLOWED))
def test_allowed(name: str) -> None:
    denied: list[str] = []
    _, hook, callback = guard(denied)
    assert asyncio.run(hook({"tool_name": name}, "id", None)) == {}
    assert asyncio.run(callback(name, {}, None)).behavior == "allow"
    assert denied == []
