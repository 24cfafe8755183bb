"""An organisation's managed settings for Claude Code: they stay in force under every isolation, so they are looked for.

The files are looked for before a prompt is sent and after a call; what they do is seen by hook events and by the route
of a call (`isolation.py`). Settings of a device management system leave no file and are seen by their effects alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import listing
from ktx_cli.llm.errors import LlmError, llm_error

FOLDERS: Final[Mapping[str, str]] = {
    "linux": "/etc/claude-code",
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": "C:/Program Files/ClaudeCode",
}
"""Where a system keeps them, by `sys.platform`."""

REMOTE: Final = "remote-settings.json"
"""What Claude Code keeps of the settings its server sends, in its configuration folder."""

HINT: Final = (
    "ask the organisation, or accept its policy for ktx: ktx config set llm.provider.claude.allow_managed_policy true"
)


def system_folder() -> Path:
    """Return the folder of the system's managed files."""
    return Path(FOLDERS.get(sys.platform, FOLDERS["linux"]))


def managed_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the managed files that are there and say something, sorted."""
    system = system_folder()
    found = [system / "managed-settings.json", system / "managed-mcp.json", system / "CLAUDE.md"]
    drop_ins = system / "managed-settings.d"
    found += sorted(drop_ins.glob("*.json")) if drop_ins.is_dir() else []
    found.append(config_folder(environ) / REMOTE)
    return sorted(path for path in found if _says_something(path))


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder Claude Code keeps its own files in."""
    named = environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path(environ.get("HOME") or Path.home()) / ".claude"


def check_managed(
    environ: Mapping[str, str], *, backend: str, allowed: bool, warn: Callable[[ResultWarning], None]
) -> None:
    """Raise `LlmError` (`isolation`) where managed files are in force; `allowed` makes it a warning."""
    files = managed_files(environ)
    if not files:
        return
    error = managed_error(files, backend=backend)
    if not allowed:
        raise error
    warn(ResultWarning("managed_policy", error.message, paths=[str(path) for path in files]))


def managed_error(files: list[Path], *, backend: str) -> LlmError:
    """Return the error that names the files."""
    names = [str(path) for path in files]
    return llm_error(
        "isolation",
        backend=backend,
        message=f"an organisation's managed Claude Code settings are in force: {listing(names)}",
        hint=HINT,
        origin=names,
    )


def _says_something(path: Path) -> bool:
    """Say whether a file is there and not empty; one that cannot be read counts."""
    try:
        text = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return False
    except OSError:
        return path.exists() or not os.access(path.parent, os.X_OK)
    if path.suffix != ".json":
        return bool(text)
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return True
    return value not in ({}, {"settings": {}}, {"settings": None}) if isinstance(value, dict) else True
