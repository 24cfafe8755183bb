"""Runtimes whose API backends all talk to one address of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.project.config.model import KtxConfig
from tests.worlds.raw_model_server import RawServer

ENVIRON = {"THE_KEY": "sk-of-the-config", "THE_TOKEN": "token-of-the-config"}


def configured(backend: str, url: str, *, provider: Mapping[str, Any], **llm: Any) -> KtxConfig:
    """A configuration that leads every API backend to one address; nothing is tried twice."""
    providers: dict[str, Any] = {
        "backend": backend,
        "anthropic": {"api_key": "env:THE_KEY", "base_url": url},
        "gateway": {"api_key": "env:THE_KEY", "base_url": url},
        "vertex": {
            "project": "the-project",
            "location": "europe-west1",
            "access_token": "env:THE_TOKEN",
            "base_url": f"{url}/v1",
        },
    }
    providers[backend] = {**providers[backend], **provider}
    models = {"default": "claude-sonnet-5-5"}
    return KtxConfig.model_validate(
        {
            "llm": {"provider": providers, "models": models, **llm},
            "ingest": {"rateLimit": {"retry": {"maxAttempts": 1}}},
        }
    )


@pytest.fixture
def runtime(tmp_path: Path) -> Callable[..., RoutedRuntime]:
    """Make a runtime: backend, address; `provider` replaces settings of the backend, keywords parts of `llm`."""

    def make(
        backend: str,
        url: str,
        *,
        provider: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        **llm: Any,
    ) -> RoutedRuntime:
        config = configured(backend, url, provider=provider or {}, **llm)
        return create_runtime(config, tmp_path, {**ENVIRON, **(environ or {})}, **(options or {}))

    return make


@pytest.fixture
def raw_server() -> Iterator[Callable[..., RawServer]]:
    """Start raw servers that end with the test."""
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(RawServer(*answers))
