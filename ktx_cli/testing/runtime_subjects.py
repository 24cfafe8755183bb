"""All ktx backends as subjects of the runtime contract, each with its real client and a scripted server."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.llm import RoutedRuntime, UsageSink, create_runtime, find_claude, find_codex, kind_of
from ktx_cli.project import SUPPORTED_BACKENDS, KtxConfig
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.codex_session import NOT_INSTALLED, PINNED, codex_binary, codex_offline
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_contract import Family, Subject

_BY_EXECUTOR: Mapping[str, Family] = {
    "messages": "messages",
    "responses": "messages",
    "completions": "messages",
    "generate_content": "generate",
    "claude_sdk": "session",
    "claude_print": "print",
    "codex_app_server": "app_server",
}
FAMILIES: Mapping[str, Family] = {name: _BY_EXECUTOR[kind_of(name).executor_type] for name in SUPPORTED_BACKENDS}
"""The kind of client of each backend."""

PROVIDER = """
backend: {backend}
anthropic: {{api_key: sk-made-up, base_url: '{url}'}}
gateway: {{api_key: made-up, base_url: '{url}'}}
gemini: {{api_key: made-up, base_url: '{url}'}}
openai: {{api_key: sk-made-up, base_url: '{url}/v1'}}
openai_compatible: {{api_key: made-up, base_url: '{url}/v1'}}
bedrock:
  {{region: eu-central-1, access_key_id: AKIAMADEUP, secret_access_key: made-up, base_url: '{url}'}}
vertex: {{project: shelf, location: europe-west1, access_token: made-up, base_url: '{url}/v1'}}
"""
MODEL = "claude-sonnet-5-5"
OPENAI_MODEL = "gpt-6.2-sol"
OPENAI_APIS = ("responses", "completions")
"""What runs a unit of work on the backends that use the `openai` package."""

OPENAI_MODELS = (*OPENAI_APIS, "codex_app_server")

ATTEMPTS = 3
"""The maximum number of attempts per call; the binary of `claude-code` gets as many, and keeps its own delays."""


def subject_config(backend: str, url: str, **changes: Any) -> KtxConfig:
    """Return a configuration that sends every call of a backend to the server at `url`."""
    retry = {"maxAttempts": ATTEMPTS, "baseDelayMs": 1, "jitter": False}
    return KtxConfig.model_validate(
        {
            "llm": {
                "provider": subject_provider(backend, url),
                "models": {"default": subject_model(backend)},
                "effort": {"writer": "high"},
                **changes,
            },
            "ingest": {"rateLimit": {"retry": retry}},
        }
    )


def subject_provider(backend: str, url: str) -> dict[str, Any]:
    """Return `llm.provider` with which every call of a backend goes to the server at `url`."""
    provider: dict[str, Any] = yaml.load(PROVIDER.format(backend=backend, url=url), where="the provider")
    return provider


def subject_model(backend: str) -> str:
    """Return the model that a subject is configured with."""
    kind = kind_of(backend)
    suggested = kind.models.get("default") if kind.client == "requests" else None
    return suggested or (OPENAI_MODEL if kind.executor_type in OPENAI_MODELS else MODEL)


def _package(backend: str) -> str:
    """Return the package through which a backend sends its own requests."""
    if FAMILIES[backend] == "generate":
        return "google-genai"
    return "openai" if kind_of(backend).executor_type in OPENAI_APIS else "anthropic"


def executables() -> dict[str, str]:
    """Return the software that runs each backend: its name, version and origin, without the path.

    Codex, which may not be installed, has the version for which results are recorded.
    """
    return {
        backend: f"codex {PINNED} (npm package)" if family == "app_server" else _executable(backend, Path.cwd(), {})[0]
        for backend, family in FAMILIES.items()
    }


def missing(backend: str) -> str | None:
    """Return why the software of a backend cannot be run here, None if it can."""
    return NOT_INSTALLED if FAMILIES[backend] == "app_server" and codex_binary() is None else None


@contextlib.contextmanager
def open_subject(backend: str, **settings: Any) -> Iterator[Subject]:
    """Yield a subject. Its server and, for a local session, its offline session live as long as the context.

    `settings`: changes to the settings of the backend's provider.
    """
    open_session = codex_offline if FAMILIES[backend] == "app_server" else offline_session
    with ModelServer() as server, open_session(server) as session:
        config = subject_config(backend, server.url)
        for name, value in settings.items():
            setattr(getattr(config.llm.provider, kind_of(backend).block), name, value)

        def make(usage_sink: UsageSink) -> RoutedRuntime:
            return create_runtime(config, session.home, session.environ, usage_sink=usage_sink)

        executable, path = _executable(backend, session.home, session.environ)
        yield Subject(backend, FAMILIES[backend], server, make, executable, path, subject_model(backend))


def _executable(backend: str, project_dir: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the name, version, origin and path of the software that runs a backend."""
    if FAMILIES[backend] in ("messages", "generate"):
        package = _package(backend)
        place = importlib.metadata.distribution(package).locate_file(package)
        return f"{package} {importlib.metadata.version(package)} (installed package)", str(place)
    if FAMILIES[backend] == "app_server":
        codex = find_codex(cli_path=None, project_dir=project_dir, environ=environ)
        return f"codex {codex.version_text} ({codex.origin})", str(codex.path)
    binary = find_claude(cli_path=None, project_dir=project_dir, environ=environ, backend=backend)
    return f"claude {binary.version_text} ({binary.origin})", str(binary.path)
