"""What must be true of a running Claude Code process, checked on what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.llm.backends.claude.managed import HINT
from ktx_cli.llm.backends.claude_code.options import SERVER
from ktx_cli.llm.errors import LlmError, llm_error

SESSION_SOURCES: Final = ("none", "/login managed key")
"""`apiKeySource` of a local session: the subscription's, or the key a console login manages."""


def isolation_error(message: str, *, backend: str, hint: str | None = None, **facts: Any) -> LlmError:
    """Return an isolation error."""
    return llm_error("isolation", backend=backend, message=message, hint=hint, **facts)


def check_init(init: Mapping[str, Any], allowed: frozenset[str], *, backend: str) -> None:
    """Check the first frame of a process: its tools, servers and plugins are those of the call, its route the session.

    Slash commands, skills and agents may be listed: they are what the host has, and cannot be used. Raises `LlmError`
    (`isolation`).
    """
    tools = frozenset(init.get("tools") or ())
    if tools != allowed:
        more, less = sorted(tools - allowed), sorted(allowed - tools)
        says = "; ".join(f"{word} {', '.join(names)}" for word, names in (("has", more), ("lacks", less)) if names)
        raise isolation_error(f"Claude Code started with other tools than this call's: {says}", backend=backend)
    expected = {SERVER} if any(name.startswith("mcp__") for name in allowed) else set()
    servers = {server.get("name"): server.get("status") for server in init.get("mcp_servers") or ()}
    if set(servers) != expected or any(status != "connected" for status in servers.values()):
        found = ", ".join(f"{name} ({status})" for name, status in sorted(servers.items())) or "none"
        raise isolation_error(f"Claude Code started with other MCP servers than this call's: {found}", backend=backend)
    plugins = [plugin for plugin in init.get("plugins") or () if plugin.get("path") != "builtin"]
    if plugins:
        names = ", ".join(sorted(str(plugin.get("name")) for plugin in plugins))
        raise isolation_error(f"Claude Code started with plugins: {names}", backend=backend)
    check_route(init, backend=backend)


def told(init: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the first frame of a process says it was started with, as far as `check_init` looks at it."""
    return {
        "tools": sorted(map(str, init.get("tools") or ())),
        "mcp_servers": sorted(str(server.get("name")) for server in init.get("mcp_servers") or ()),
        "plugins": sorted(str(plugin.get("name")) for plugin in init.get("plugins") or ()),
        "credentials": str(init.get("apiKeySource", "none")),
    }


def check_route(init: Mapping[str, Any], *, backend: str) -> None:
    """Check that the process runs on the local session and talks to Anthropic itself."""
    source = init.get("apiKeySource", "none")
    if source not in SESSION_SOURCES:
        raise isolation_error(
            f"Claude Code took its credentials from {source}, not from the local session",
            backend=backend,
            hint=HINT,
        )
    if init.get("served_by_anthropic") is False:
        raise isolation_error(
            "Claude Code sends its requests to another provider than Anthropic", backend=backend, hint=HINT
        )


def check_result_route(model_usage: Mapping[str, Mapping[str, Any]] | None, *, backend: str) -> None:
    """Check the providers a finished call names."""
    providers = {str(usage.get("provider")) for usage in (model_usage or {}).values() if usage.get("provider")}
    foreign = sorted(providers - {"firstParty"})
    if foreign:
        raise isolation_error(
            f"Claude Code was served by {', '.join(foreign)}, not by Anthropic", backend=backend, hint=HINT
        )


def foreign_hook(frame: Mapping[str, Any], *, backend: str) -> LlmError:
    """Return the error for a hook that ran and is not ktx's: only managed settings can bring one."""
    event = frame.get("hook_event") or frame.get("hook_event_name") or "unknown"
    return isolation_error(
        f"a {event} hook of an organisation's managed settings ran inside Claude Code",
        backend=backend,
        hint=HINT,
        hook_event=str(event),
        origin="managed settings",
    )
