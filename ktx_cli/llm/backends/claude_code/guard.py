"""What stops a tool call: a hook that denies by default, and the permission callback that says the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DENIAL = "this call has no such tool"

OnDenial = Callable[[str, Any], None]
"""Told the id of a tool that was denied, and its input."""


def guard_hooks(allowed: frozenset[str], on_denial: OnDenial) -> dict[Any, Any]:
    """Return the hooks of a process: every tool call passes here first, and a hook that breaks blocks it."""
    from claude_agent_sdk import HookMatcher

    async def before_tool(data: Any, tool_use_id: str | None, context: Any) -> Any:
        name = data.get("tool_name", "")
        if name in allowed:
            return {}
        on_denial(name, data.get("tool_input"))
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": DENIAL,
            }
        }

    return {"PreToolUse": [HookMatcher(matcher=None, hooks=[before_tool], on_failure="block")]}


def permission_callback(allowed: frozenset[str], on_denial: OnDenial) -> Any:
    """Return the permission callback. Under `dontAsk` Claude Code does not call it today; the hook is what guards."""
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

    async def can_use_tool(name: str, arguments: dict[str, Any], context: Any) -> Any:
        if name in allowed:
            return PermissionResultAllow()
        on_denial(name, arguments)
        return PermissionResultDeny(message=DENIAL)

    return can_use_tool
