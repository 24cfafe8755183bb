"""Where and how Claude Code processes run: the project, the programs, a private folder, the environment."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.llm.backends.claude.binary import ClaudeBinary, find_claude, find_launcher
from ktx_cli.llm.backends.claude.environment import claude_environment
from ktx_cli.llm.caching import claude_environment as caching_environment
from ktx_cli.project.config import KtxConfig

_REFERENCE = re.compile(r"\s*env:\s*([A-Za-z_][A-Za-z0-9_]*)\s*")


@dataclass(frozen=True)
class Host:
    """What every process of one runtime shares. `scratch` is a private folder for prompts too long for a command
    line; `environment` is the whole environment a process gets."""

    project_dir: Path
    launcher: Path
    binary: Path
    restricted: bool
    scratch: Path
    environment: Mapping[str, str] = field(repr=False)


def claude_host(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Host, ClaudeBinary]:
    """Return the host and the binary for a project; raises `LlmError` when a program is missing."""
    binary = find_claude(
        cli_path=config.llm.provider.claude.cli_path, project_dir=project_dir, environ=environ, backend=backend
    )
    environment = claude_environment(
        environ, secret_names=secret_names(config), settings=caching_environment(config.llm.prompt_caching)
    )
    scratch = Path(tempfile.gettempdir())
    host = Host(project_dir, find_launcher(backend), binary.path, binary.knows_restricted, scratch, environment)
    return host, binary


def secret_names(config: KtxConfig) -> frozenset[str]:
    """Return the variables `ktx.yaml` names in `env:` references, wherever they stand."""
    return frozenset(_names(config.model_dump(mode="json")))


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        match = _REFERENCE.fullmatch(value)
        if match:
            yield match[1]
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)
