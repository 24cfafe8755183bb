"""Runtimes on a fake and on the real `claude`, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ResultWarning
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.llm.usage import UsageFact
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.claude_session import OfflineSession, offline_session
from ktx_cli.testing.model_server import ModelServer
from tests.worlds.fake_claude import FakeClaude

MakeRuntime = Callable[..., RoutedRuntime]


def config(backend: str = "claude-code", **claude: Any) -> KtxConfig:
    return KtxConfig.model_validate(
        {
            "llm": {"provider": {"backend": backend, "claude": claude}, "models": {"default": "sonnet"}},
            "ingest": {"rateLimit": {"retry": {"maxAttempts": 1, "baseDelayMs": 1}}},
        }
    )


class Fake:
    """A runtime on a fake binary: `claude.play(...)` sets its scenario."""

    def __init__(self, folder: Path) -> None:
        self.claude = FakeClaude(folder / "fake")
        self.project = folder / "project"
        self.project.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        self.warnings: list[ResultWarning] = []
        self.facts: list[UsageFact] = []
        self.environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "USER": "u"}

    def runtime(self, backend: str = "claude-code", **claude: Any) -> RoutedRuntime:
        return create_runtime(
            config(backend, cli_path=str(self.claude.path), **claude),
            self.project,
            self.environ,
            warn=self.warnings.append,
            usage_sink=self.facts.append,
        )


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@pytest.fixture
def session(model_server: ModelServer) -> Iterator[OfflineSession]:
    """The real binary in an offline session."""
    with offline_session(model_server) as session:
        yield session


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
