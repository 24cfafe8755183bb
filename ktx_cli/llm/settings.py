"""What a backend cannot do without, told from the configuration alone."""

from __future__ import annotations

from ktx_cli.core.errors import ConfigError
from ktx_cli.project.config import KtxConfig


def missing_setting(config: KtxConfig, backend: str) -> ConfigError | None:
    """Return the error for the first setting a backend lacks, None when it has all."""
    provider = config.llm.provider
    if backend == "anthropic" and not provider.anthropic.api_key:
        return _missing(backend, "anthropic.api_key", "env:ANTHROPIC_API_KEY")
    if backend == "gateway" and not provider.gateway.api_key:
        return _missing(backend, "gateway.api_key", "env:GATEWAY_API_KEY")
    if backend == "gateway" and not provider.gateway.base_url:
        return _missing(backend, "gateway.base_url", "URL")
    if backend == "vertex" and provider.vertex is None:
        return _missing(backend, "vertex.location", "europe-west1")
    return None


def secret_references(config: KtxConfig, backend: str) -> dict[str, str]:
    """Return the secrets a backend uses, by the setting that names them."""
    provider = config.llm.provider
    vertex = provider.vertex
    named = {
        "anthropic": ("anthropic.api_key", provider.anthropic.api_key),
        "gateway": ("gateway.api_key", provider.gateway.api_key),
        "vertex": ("vertex.access_token", vertex.access_token if vertex else None),
    }
    key, value = named.get(backend, ("", None))
    return {f"llm.provider.{key}": value} if value else {}


def _missing(backend: str, key: str, example: str) -> ConfigError:
    where = f"llm.provider.{key}"
    return ConfigError(f"the backend `{backend}` needs `{where}`", hint=f"ktx config set {where} {example}")
