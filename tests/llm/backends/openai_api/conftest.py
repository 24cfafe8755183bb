"""Runtimes whose OpenAI backends talk to one address of this machine, and servers that reject parts of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.backends.openai_api import abilities
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.model_server import ModelServer

ENVIRON = {"THE_KEY": "sk-of-the-config"}
MODELS = {"openai": "gpt-6.2-sol", "openai-compatible": "qwen3:8b"}


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """Forget what servers lack: another test may get the same port."""
    abilities._FOUND.clear()
    yield
    abilities._FOUND.clear()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def runtime(tmp_path: Path) -> Callable[..., RoutedRuntime]:
    """Make a runtime: backend, address; `provider` replaces settings of the backend, keywords parts of `llm`."""

    def make(
        backend: str,
        url: str,
        *,
        provider: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        attempts: int = 1,
        options: Mapping[str, Any] | None = None,
        **llm: Any,
    ) -> RoutedRuntime:
        own = {"api_key": "env:THE_KEY", "base_url": f"{url}/v1", **(provider or {})}
        settings = {
            "provider": {"backend": backend, backend.replace("-", "_"): own},
            "models": {"default": MODELS[backend]},
            **llm,
        }
        retry = {"maxAttempts": attempts, "baseDelayMs": 1, "jitter": False}
        config = KtxConfig.model_validate({"llm": settings, "ingest": {"rateLimit": {"retry": retry}}})
        return create_runtime(config, tmp_path, {**ENVIRON, **(environ or {})}, **(options or {}))

    return make
