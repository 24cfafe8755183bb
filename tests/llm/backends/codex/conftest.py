"""Runtimes on the real `codex`, offline, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.claude_session import OfflineSession
from ktx_cli.testing.codex_session import NOT_INSTALLED, codex_binary, codex_offline
from ktx_cli.testing.model_server import ModelServer

needs_codex = pytest.mark.skipif(codex_binary() is None, reason=NOT_INSTALLED)
MODEL = "gpt-6.1-sol"


def config(attempts: int = 1, **codex: Any) -> KtxConfig:
    return KtxConfig.model_validate(
        {
            "llm": {"provider": {"backend": "codex", "codex": codex}, "models": {"default": MODEL}},
            "ingest": {"rateLimit": {"retry": {"maxAttempts": attempts, "baseDelayMs": 1}}},
        }
    )


def runtime(session: OfflineSession, project: Path, attempts: int = 1) -> RoutedRuntime:
    return create_runtime(config(attempts), project, session.environ)


@pytest.fixture
def session(model_server: ModelServer) -> Iterator[OfflineSession]:
    with codex_offline(model_server) as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
