"""The command line of one `claude --print`."""

from __future__ import annotations

import json
from pathlib import Path

from ktx_cli.llm.backends.claude.host import Host
from ktx_cli.llm.backends.claude_code.options import LOCKDOWN_SETTINGS, needs_file


def command_line(
    host: Host, *, model: str, system: str, system_file: Path, schema: str | None, max_turns: int
) -> list[str]:
    """Return the arguments; a system prompt that cannot be one of them is in `system_file`."""
    command = [str(host.binary), "--print", "--output-format", "json", "--verbose", "--model", model]
    command.append("--disable-slash-commands")
    if needs_file(system):
        command += ["--system-prompt-file", str(system_file)]
    else:
        command += ["--system-prompt", system]
    command += ["--tools", "", "--strict-mcp-config", "--setting-sources=", "--no-session-persistence"]
    command += ["--settings", json.dumps(LOCKDOWN_SETTINGS, sort_keys=True), "--max-turns", str(max_turns)]
    if host.restricted:
        command.append("--restricted")
    if schema is not None:
        command += ["--json-schema", schema]
    return command
