"""Where and how Claude Code processes run: the project, the programs, the environment, files for long prompts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ktx_cli.llm.backends.claude.binary import ClaudeBinary, find_claude, find_launcher
from ktx_cli.llm.backends.claude.environment import claude_environment
from ktx_cli.llm.caching import claude_environment as caching_environment
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.config.checks import values_of
from ktx_cli.project.layout import Layout
from ktx_cli.project.secrets import SecretRef
from ktx_cli.project.state import prepare_private_folder

SYSTEM_PREFIX: Final = "system-"


@dataclass(frozen=True)
class Host:
    """What every process of one runtime shares. `environment` is the whole environment a process gets."""

    project_dir: Path
    launcher: Path
    binary: Path
    restricted: bool
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
    host = Host(project_dir, find_launcher(backend), binary.path, binary.knows_restricted, environment)
    return host, binary


def write_system_file(host: Host, system: str) -> Path:
    """Write a system prompt to a file only this user can read, below `.ktx/`; those of dead processes go first."""
    layout = Layout(host.project_dir)
    prepare_private_folder(layout)
    layout.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in layout.scratch.glob(f"{SYSTEM_PREFIX}*"):
        pid = left.name.removeprefix(SYSTEM_PREFIX).partition("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)):
            left.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{SYSTEM_PREFIX}{os.getpid()}-", suffix=".txt", dir=layout.scratch)
    with os.fdopen(handle, "wb") as stream:
        stream.write(system.encode())
    return Path(name)


def is_alive(pid: int) -> bool:
    """Say whether a process of this machine lives; a number no process can have is that of none."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def secret_names(config: KtxConfig) -> frozenset[str]:
    """Return the variables `ktx.yaml` names in `env:` references, wherever they stand."""
    references = (SecretRef.parse(value) for _, _, value in values_of(config) if isinstance(value, str))
    return frozenset(one.name for one in references if one is not None and one.kind == "env")
