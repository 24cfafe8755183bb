"""Which backend and which model serve a role: `llm.models`, and the backend a model may name itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.core.text import did_you_mean
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.project.config import ROLES, SUPPORTED_BACKENDS, KtxConfig

NO_BACKEND: Final = "none"
CLAUDE_BACKENDS: Final = ("claude-code", "claude-cli")
OWN_DEFAULT: Final[Mapping[str, str]] = {"claude-code": "sonnet", "claude-cli": "sonnet"}
"""The model of a backend that can do without `llm.models.default`."""


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A backend and the bare model id it gets."""

    backend: str
    model: str

    def __str__(self) -> str:
        return f"{self.backend}:{self.model}"


def parse_model_ref(text: str, backend: str, *, where: str = "llm.models") -> ModelRef:
    """Return what a model string means where `backend` is the configured one.

    Only the text before the first colon routes, and only when it is a backend's name. Any other prefix is part of
    the model id on `gateway` (`qwen3:8b`), elsewhere a `ConfigError` that names the backends. `/` never routes.
    """
    value = text.strip()
    prefix, colon, rest = value.partition(":")
    route = prefix.strip().lower()
    if colon and route in SUPPORTED_BACKENDS:
        backend, value = route, rest.strip()
    elif colon and backend != "gateway":
        near = did_you_mean(route, SUPPORTED_BACKENDS)
        hint = f"did you mean `{near}:{rest}`?" if near else f"backends: {', '.join(SUPPORTED_BACKENDS)}"
        raise ConfigError(f"`{where}` is `{text}`, and `{prefix}` is no backend", hint=hint)
    if not value:
        wanted = f"{route}:MODEL" if colon and route in SUPPORTED_BACKENDS else "MODEL"
        hint = f"{where} {wanted}" if where.startswith("--") else f"ktx config set {where} {wanted}"
        raise ConfigError(f"`{where}` is `{text}`, which names no model", hint=hint)
    return ModelRef(backend, value)


def model_for(config: KtxConfig, role: str, *, model: str | None = None) -> ModelRef:
    """Return backend and model of a role; `model` replaces what `llm.models` says.

    Raises `LlmError` (`no_backend`) when none is configured, `ConfigError` for a role without a model,
    `UsageError` for an empty `model`.
    """
    if role not in ROLES:
        raise ValueError(f"there is no role {role!r}")
    if model is not None and not model.strip():
        raise UsageError("`--model` is empty", hint="--model MODEL, or without it for the role's own")
    backend = config.llm.provider.backend
    configured = model or config.llm.models.get(role) or config.llm.models.get("default")
    where = f"llm.models.{role if config.llm.models.get(role) else 'default'}"
    if not configured:
        configured = OWN_DEFAULT.get(backend)
    if not configured and backend == NO_BACKEND:
        raise no_backend()
    if backend not in (NO_BACKEND, *SUPPORTED_BACKENDS):
        raise unsupported(backend)
    if not configured:
        raise ConfigError(f"the backend `{backend}` needs `llm.models.default`", hint=f"ktx config set {where} MODEL")
    found = parse_model_ref(configured, backend, where="--model" if model else where)
    if found.backend == NO_BACKEND:
        raise no_backend()
    if found.backend not in SUPPORTED_BACKENDS:
        raise unsupported(found.backend)
    return found


def bindings(config: KtxConfig) -> dict[str, ModelRef]:
    """Return backend and model of every role; {} when no backend is configured for the default role."""
    if config.llm.provider.backend == NO_BACKEND and not config.llm.models:
        return {}
    found: dict[str, ModelRef] = {}
    for role in ROLES:
        try:
            found[role] = model_for(config, role)
        except LlmError as error:
            if error.code != "no_backend":
                raise
    return found


def require_runnable(config: KtxConfig) -> None:
    """Raise `ConfigError` when `ktx.yaml` names a backend, for all roles or for one, that no version here can run."""
    backend = config.llm.provider.backend
    if backend not in (NO_BACKEND, *SUPPORTED_BACKENDS):
        raise unsupported(backend)
    for role, text in config.llm.models.items():
        parse_model_ref(text, backend, where=f"llm.models.{role}")


def no_backend() -> LlmError:
    """Return the error for a call where nothing is configured."""
    return llm_error("no_backend", backend=NO_BACKEND)


def unsupported(backend: str) -> ConfigError:
    """Return the error for a backend that is no backend, or that this version has no code for."""
    return ConfigError(
        f"the backend `{backend}` is not supported",
        hint=f"ktx config set llm.provider.backend claude-code; supported: {', '.join(SUPPORTED_BACKENDS)}",
        code="not_supported",
    )
