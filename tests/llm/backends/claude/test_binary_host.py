"""What every process of a runtime shares: the environment for a project, and the file for a long system prompt."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.backends.claude.binary import (
    Host,
    bundled_binary,
    claude_host,
    is_alive,
    secret_names,
    write_system_file,
)
from ktx_cli.project.config.model import KtxConfig

SECRETS: dict[str, Any] = {
    "connections": {
        "warehouse": {"driver": "postgres", "url": "env:WAREHOUSE_URL"},
        "other": {"driver": "sqlite", "path": "env_file.db"},
    },
    "llm": {
        "provider": {
            "backend": "claude-code",
            "anthropic": {"api_key": "env:TEAM_KEY"},
            "gateway": {"api_key": "env:GATEWAY_TOKEN"},
            "vertex": {"location": "eu", "access_token": "env:VERTEX_TOKEN_OF_MINE"},
        }
    },
}


@pytest.mark.requirement("R33")
def test_every_variable_ktx_yaml_names_is_dropped(tmp_path: Path) -> None:
    config = KtxConfig.model_validate(SECRETS)
    names = {"WAREHOUSE_URL", "TEAM_KEY", "GATEWAY_TOKEN", "VERTEX_TOKEN_OF_MINE"}
    assert secret_names(config) == names
    environ = {**dict.fromkeys(names, "secret"), "HOME": "/home/me", "EDITOR": "vi", "ANTHROPIC_API_KEY": "sk"}
    host, binary = claude_host("claude-code", config, project_dir=tmp_path, environ=environ)
    assert "secret" not in host.environment.values()
    assert "ANTHROPIC_API_KEY" not in host.environment
    assert (host.environment["HOME"], host.environment["EDITOR"]) == ("/home/me", "vi")
    assert (host.binary, host.restricted, binary.origin) == (bundled_binary(), True, "claude-agent-sdk")


@pytest.mark.requirement("R57", "R59")
@pytest.mark.parametrize(
    ("caching", "expected"),
    [
        ({}, {}),
        ({"enabled": False}, {"DISABLE_PROMPT_CACHING": "1"}),
        ({"systemTtl": "1h", "toolsTtl": "1h", "historyTtl": "1h"}, {"CLAUDE_CODE_PROMPT_CACHE_TTL": "1h"}),
        ({"historyTtl": "1h"}, {}),
    ],
)
def test_caching_that_can_be_mapped_is_in_the_environment(
    caching: dict[str, Any], expected: dict[str, str], tmp_path: Path
) -> None:
    config = KtxConfig.model_validate({"llm": {"promptCaching": caching}})
    host, _ = claude_host("claude-cli", config, project_dir=tmp_path, environ={"CLAUDE_CODE_PROMPT_CACHE_TTL": "x"})
    names = ("DISABLE_PROMPT_CACHING", "CLAUDE_CODE_PROMPT_CACHE_TTL")
    assert {name: host.environment[name] for name in names if name in host.environment} == expected


def test_the_environment_is_not_shown(tmp_path: Path) -> None:
    host, _ = claude_host("claude-cli", KtxConfig(), project_dir=tmp_path, environ={"SECRET": "of the user"})
    assert "of the user" not in repr(host)


def host_of(folder: Path) -> Host:
    return Host(folder, Path("/launcher"), Path("/claude"), True, {})


@pytest.mark.requirement("R62")
def test_a_long_system_prompt_goes_into_a_private_file_below_the_project(tmp_path: Path) -> None:
    text = "Sei genau. " * 20_000
    path = write_system_file(host_of(tmp_path), text)
    assert path.is_relative_to(tmp_path / ".ktx")
    assert path.read_text("utf-8") == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0


@pytest.mark.requirement("R62")
def test_files_of_dead_processes_are_swept_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    folder = write_system_file(host_of(tmp_path), "mine").parent
    ended = subprocess.Popen(["true"])
    ended.wait()
    gone = [folder / f"system-{ended.pid}-a.txt", folder / f"system-{10**30}-b.txt"]
    stays = [folder / f"system-{os.getpid()}-c.txt", folder / "system-²-d.txt", folder / "system-x-e.txt"]
    for path in (*gone, *stays):
        path.write_text("x")
    write_system_file(host_of(tmp_path), "next")
    assert [path.exists() for path in (*gone, *stays)] == [False] * 2 + [True] * 3


def test_who_is_alive() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(ended.pid)
    assert not is_alive(10**30)
