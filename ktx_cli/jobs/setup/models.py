"""The model flags of `ktx setup`: the settings they stand for, and whether every role goes where they say."""

from __future__ import annotations

from collections.abc import Mapping

from ktx_cli.core.errors import ConfigError, ResultWarning, UsageError
from ktx_cli.llm.roles import NO_BACKEND, parse_model_ref
from ktx_cli.llm.settings import PROVIDER_KEYS
from ktx_cli.project.config import KtxConfig


def model_settings(
    config: KtxConfig, backend: str | None, model: str | None, provider: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings that change, by dotted name.

    Raises `UsageError` for a provider's field that the backend has not.
    """
    chosen = backend or config.llm.provider.backend
    wanted = {"llm.provider.backend": backend, "llm.models.default": model}
    known = PROVIDER_KEYS.get(chosen, {})
    for name, value in provider.items():
        if name not in known:
            raise _no_field(chosen, name)
        wanted[f"llm.provider.{chosen}.{known[name]}"] = value
    return {
        dotted: value for dotted, value in wanted.items() if value is not None and value != _current(config, dotted)
    }


def _current(config: KtxConfig, dotted: str) -> str | None:
    if dotted == "llm.models.default":
        return config.llm.models.get("default")
    found: object = config
    for key in dotted.split("."):
        found = getattr(found, key, None)
    return found if isinstance(found, str) else None


def _no_field(backend: str, name: str) -> UsageError:
    having = [other for other, keys in PROVIDER_KEYS.items() if name in keys]
    flag = f"--llm-{name.replace('_', '-')}"
    return UsageError(
        f"the backend `{backend}` takes no {flag}",
        hint=f"{flag} goes with --llm-backend {' or '.join(having)}",
    )


def require_routes(config: KtxConfig, backend: str) -> list[ResultWarning]:
    """Return a warning for every role whose model names another backend than the one set up.

    Raises `ConfigError` where that of the default role does.
    """
    warnings = []
    for role, text in config.llm.models.items():
        where = f"llm.models.{role}"
        if backend == NO_BACKEND and ":" not in text:
            continue
        route = parse_model_ref(text, backend, where=where).backend
        if route == backend:
            continue
        if role == "default":
            hint = f"ktx config set {where} MODEL"
            if backend == NO_BACKEND:
                hint = f"remove {where} from ktx.yaml, then ktx setup --llm-backend {NO_BACKEND}"
            raise ConfigError(f"`{where}` is `{text}`, which goes to `{route}`", hint=hint)
        warnings.append(
            ResultWarning(
                "role_on_other_backend",
                f"`{where}` is `{text}`, which goes to `{route}`, not to `{backend}`",
                hint=f"ktx config set {where} MODEL",
            )
        )
    return warnings
