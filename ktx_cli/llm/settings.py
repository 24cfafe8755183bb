"""What a backend cannot do without, told from the configuration alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.core.errors import ConfigError, SecretError
from ktx_cli.core.text import one_line
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.secrets import SecretRef, is_variable, redact_url, resolve, resolve_plain

PROVIDER_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "anthropic": {"api_key": "api_key", "base_url": "base_url"},
    "vertex": {
        "api_key": "access_token",
        "base_url": "base_url",
        "location": "location",
        "project": "project",
    },
    "gateway": {"api_key": "api_key", "base_url": "base_url", "auth": "auth"},
}
"""What of a provider a person can set by a flag: the request's name -> the key below `llm.provider.<backend>`."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


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


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Messages API of a backend is. `base_url`: None for the provider's own."""

    base_url: str | None
    location: str = ""
    project: str | None = None


def resolved_place(config: KtxConfig, backend: str, *, project_dir: Path, environ: Mapping[str, str]) -> Place:
    """Return where a backend's requests go, references resolved.

    Raises `SecretError` for a reference to nothing, `ConfigError` for what cannot be part of an address.
    """
    provider, vertex = config.llm.provider, config.llm.provider.vertex

    def resolved(key: str, value: str | None) -> str | None:
        where = f"llm.provider.{backend}.{key}"
        if not value:
            return None
        found = resolve_plain(value, project_dir=project_dir, environ=environ, where=where).strip()
        return _address(found, backend, where) if key == "base_url" else _name(found, where)

    if backend == "gateway":
        return Place(resolved("base_url", provider.gateway.base_url))
    if backend == "vertex" and vertex is not None:
        location, project = resolved("location", vertex.location) or "", resolved("project", vertex.project)
        return Place(resolved("base_url", vertex.base_url), location, project)
    return Place(resolved("base_url", provider.anthropic.base_url) if backend == "anthropic" else None)


def resolved_keys(config: KtxConfig, backend: str, *, project_dir: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets a backend uses by setting, resolved, without the line's end a file or a shell leaves.

    Raises `SecretError` for one that is not there, or that no HTTP header can carry.
    """
    return {
        where: _sendable(resolve(value, project_dir=project_dir, environ=environ, where=where), value, where)
        for where, value in secret_references(config, backend).items()
    }


def _address(found: str, backend: str, where: str) -> str:
    """Return the address of an API as the SDK wants it: it adds `/v1/messages` itself, but for Vertex."""
    if not re.match(r"https?://[^/\s]+", found):
        shown = one_line(redact_url(found), 60)
        raise ConfigError(f"`{where}` is `{shown}`, which is not a URL", hint=f"ktx config set {where} https://HOST")
    found = found.rstrip("/")
    return found if backend == "vertex" else found.removesuffix("/v1")


def _name(found: str, where: str) -> str:
    if not _NAME.fullmatch(found):
        example = "europe-west1" if where.endswith("location") else "PROJECT"
        message = f"`{where}` is `{one_line(found, 60)}`, which is not a name of Google Cloud"
        raise ConfigError(message, hint=f"ktx config set {where} {example}")
    return found


def _sendable(key: str, configured: str, where: str) -> str:
    key = key.removesuffix("\n").removesuffix("\r")
    if key != key.strip():
        problem = "has a blank or a line break at its beginning or end"
    elif not (key.isascii() and key.isprintable()):
        problem = "has a character in it that no HTTP header can carry"
    else:
        return key
    reference = SecretRef.parse(configured)
    source = f"the secret `{reference}` of {where}" if reference else f"the secret of {where}"
    again = f"correct {reference}" if reference else f"ktx config set {where} env:NAME"
    if reference and reference.kind == "env" and is_variable(reference.name):
        again = f"export {reference.name}=..."
    raise SecretError(f"{source} {problem}", hint=f"{again}, with the key alone", details={"setting": where})


def _missing(backend: str, key: str, example: str) -> ConfigError:
    where = f"llm.provider.{key}"
    return ConfigError(f"the backend `{backend}` needs `{where}`", hint=f"ktx config set {where} {example}")
