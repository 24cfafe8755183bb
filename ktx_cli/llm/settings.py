"""Resolves the backend and model that serve a role, from `llm.models` or a backend in a model name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ktx_cli.core import (
    Command,
    ConfigError,
    Hint,
    ResultWarning,
    SecretError,
    Suggestion,
    UsageError,
    did_you_mean,
    one_line,
)
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.project import (
    ROLES,
    SUPPORTED_BACKENDS,
    EffortLevel,
    KtxConfig,
    PromptCaching,
    SecretRef,
    is_variable,
    missing_settings,
    redact_url,
    resolve,
    resolve_plain,
)

NO_BACKEND: Final = "none"


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A backend and its bare model id."""

    backend: str
    model: str

    def __str__(self) -> str:
        return f"{self.backend}:{self.model}"


def parse_model_ref(text: str, backend: str, *, where: str = "llm.models") -> ModelRef:
    """Return the backend and model that a model string means if `backend` is the configured backend.

    Only the text before the first colon routes, and only if it is a backend's name. Any other prefix is part of the
    model id (`qwen3:8b`) on a backend with such ids, elsewhere a `ConfigError` that lists the backends. `/` never
    routes.
    """
    value = text.strip()
    if SecretRef.parse(value) is not None:
        message = f"`{where}` is `{text}`, but a model cannot be a secret reference"
        raise ConfigError(
            message, hint="write the name of the model; only settings of `llm.provider` accept references"
        )
    prefix, colon, rest = value.partition(":")
    route = prefix.strip().lower()
    if colon and route in SUPPORTED_BACKENDS:
        backend, value = route, rest.strip()
    elif colon and not _has_free_ids(backend):
        near = did_you_mean(route, SUPPORTED_BACKENDS)
        hint: str = f"backends: {', '.join(SUPPORTED_BACKENDS)}"
        if near:
            hint = Hint("did you mean `{}`?", Suggestion(f"{near}:{rest}", where))
        raise ConfigError(f"`{where}` is `{text}`, but `{prefix}` is not a backend", hint=hint)
    if not value:
        wanted = f"{route}:MODEL" if colon and route in SUPPORTED_BACKENDS else "MODEL"
        hint = f"{where} {wanted}" if where.startswith("--") else Command("config", "set", where, wanted)
        raise ConfigError(f"`{where}` is `{text}`, which does not name a model", hint=hint)
    return ModelRef(backend, value)


def _has_free_ids(backend: str) -> bool:
    from ktx_cli.llm.registry import find_kind

    kind = find_kind(backend)
    return kind is not None and kind.free_ids


def model_for(config: KtxConfig, role: str, *, model: str | None = None) -> ModelRef:
    """Return the backend and model of a role; `model` replaces the model in `llm.models`.

    Raises `LlmError` (`no_backend`) if none is configured, `ConfigError` for a role without a model, `UsageError` for
    an empty `model`.
    """
    if role not in ROLES:
        raise ValueError(f"there is no role {role!r}")
    if model is not None and not model.strip():
        raise UsageError("`--model` is empty", hint="pass --model MODEL, or omit it to use the role's model")
    backend = config.llm.provider.backend
    configured = model or config.llm.models.get(role) or config.llm.models.get("default")
    where = f"llm.models.{role if config.llm.models.get(role) else 'default'}"
    if not configured:
        from ktx_cli.llm.registry import find_kind

        kind = find_kind(backend)
        configured = kind.default_model if kind else None
    if not configured and backend == NO_BACKEND:
        raise no_backend()
    if backend not in (NO_BACKEND, *SUPPORTED_BACKENDS):
        raise unsupported(backend)
    if not configured:
        message = f"the backend `{backend}` requires `llm.models.default`"
        raise ConfigError(message, hint=Command("config", "set", where, "MODEL"))
    found = parse_model_ref(configured, backend, where="--model" if model else where)
    if found.backend == NO_BACKEND:
        raise no_backend()
    if found.backend not in SUPPORTED_BACKENDS:
        raise unsupported(found.backend)
    return found


def effort_of(config: KtxConfig, role: str, ref: ModelRef) -> EffortLevel | None:
    """Return how much a role's model thinks, or None if its effort cannot be set.

    Raises `ConfigError` if `llm.effort` sets it for the role, but its model does not support it.
    """
    effort = config.llm.effort
    by_role: dict[str, EffortLevel | None] = {
        "triage": effort.triage,
        "candidateExtraction": effort.candidate_extraction,
        "writer": effort.writer,
        "curator": effort.curator,
        "reconcile": effort.reconcile,
        "repair": effort.repair,
    }
    own = by_role.get(role)
    if has_effort(ref):
        return own or effort.default
    if own is None:
        return None
    where = f"llm.effort.{role}"
    message = f"`{where}` is `{own}`, but the model `{ref}` does not support effort"
    raise ConfigError(message, hint=f"give the role a newer model in llm.models.{role}, or remove `{where}`")


def has_effort(ref: ModelRef) -> bool:
    """Return whether the effort of a model can be set."""
    from ktx_cli.llm.registry import kind_of

    return kind_of(ref.backend).is_effort_settable(ref.model)


def bindings(config: KtxConfig) -> dict[str, ModelRef]:
    """Return the backend and model of every role; {} if no backend is configured for the default role."""
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


def distinct_models(config: KtxConfig, roles: Collection[str] | None = None) -> dict[ModelRef, tuple[str, ...]]:
    """Return every backend and model of some roles (all if None) with their roles, the default role's first."""
    found: dict[ModelRef, tuple[str, ...]] = {}
    for role, ref in bindings(config).items():
        if roles is None or role in roles:
            found[ref] = (*found.get(ref, ()), role)
    return found


def require_runnable(config: KtxConfig) -> None:
    """Raise `ConfigError` if `ktx.yaml` names a backend that this version cannot run, for all roles or for one."""
    backend = config.llm.provider.backend
    if backend not in (NO_BACKEND, *SUPPORTED_BACKENDS):
        raise unsupported(backend)
    for role, text in config.llm.models.items():
        ref = parse_model_ref(text, backend, where=f"llm.models.{role}")
        if role in ROLES:
            effort_of(config, role, ref)


def no_backend() -> LlmError:
    """Return the error for a call if no backend is configured."""
    return llm_error("no_backend", backend=NO_BACKEND)


def unsupported(backend: str) -> ConfigError:
    """Return the error for an unknown backend, or one that this version does not implement."""
    supported = Command("config", "set", "llm.provider.backend", "claude-code")
    hint = Hint("{}; supported: {}", supported, ", ".join(SUPPORTED_BACKENDS))
    return ConfigError(f"the backend `{backend}` is not supported", hint=hint, code="not_supported")


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


def missing_setting(config: KtxConfig, backend: str) -> ConfigError | None:
    """Return the error for the first missing setting of a backend, None if it is complete."""
    for key, example in missing_settings(config.llm.provider, backend):
        where = f"llm.provider.{key}"
        hint = Command("config", "set", where, example)
        return ConfigError(f"the backend `{backend}` requires `{where}`", hint=hint)
    return None


def secret_references(config: KtxConfig, backend: str) -> dict[str, str]:
    """Return the secrets that a backend uses, by setting."""
    from ktx_cli.llm.registry import find_kind

    kind = find_kind(backend)
    block = getattr(config.llm.provider, kind.block) if kind and kind.block else None
    if kind is None or block is None:
        return {}
    return {f"llm.provider.{kind.block}.{key}": value for key in kind.secrets if (value := getattr(block, key))}


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """The location of a backend's API. `base_url`: None for the provider's own. `profile`: in the files of AWS."""

    base_url: str | None
    location: str = ""
    project: str | None = None
    profile: str | None = None


def resolved_place(config: KtxConfig, backend: str, *, project_dir: Path, environ: Mapping[str, str]) -> ApiAddress:
    """Return where a backend's requests go, with references resolved.

    Raises `SecretError` for a broken reference, `ConfigError` for a value that cannot be part of a URL.
    """
    provider, vertex = config.llm.provider, config.llm.provider.vertex

    def resolved(key: str, value: str | None) -> str | None:
        where = f"llm.provider.{backend.replace('-', '_')}.{key}"
        if not value:
            return None
        found = resolve_plain(value, project_dir=project_dir, environ=environ, where=where).strip()
        if key == "profile":
            return found or None
        return _address(found, backend, where) if key == "base_url" else _name(found, where)

    if backend == "vertex" and vertex is not None:
        location, project = resolved("location", vertex.location) or "", resolved("project", vertex.project)
        return ApiAddress(resolved("base_url", vertex.base_url), location, project)
    if backend == "bedrock":
        bedrock = provider.bedrock
        location, profile = resolved("region", bedrock.region) or "", resolved("profile", bedrock.profile)
        return ApiAddress(resolved("base_url", bedrock.base_url), location, profile=profile)
    direct = {
        "anthropic": provider.anthropic.base_url,
        "gateway": provider.gateway.base_url,
        "openai": provider.openai.base_url,
        "openai-compatible": provider.openai_compatible.base_url,
        "gemini": provider.gemini.base_url,
    }
    return ApiAddress(resolved("base_url", direct.get(backend)))


def resolved_keys(config: KtxConfig, backend: str, *, project_dir: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the resolved secrets of a backend by setting, without the trailing line break from a file or shell.

    Raises `SecretError` for one that does not exist or that no HTTP header can carry.
    """
    return {
        where: _sendable(resolve(value, project_dir=project_dir, environ=environ, where=where), value, where)
        for where, value in secret_references(config, backend).items()
    }


def _address(found: str, backend: str, where: str) -> str:
    """Return the base URL of an API as the SDK expects it.

    The one of Anthropic appends `/v1/messages` itself, except for Vertex; that of Google also appends a version, and
    that of OpenAI only the name of the API.
    """
    if not re.match(r"https?://[^/\s]+", found):
        shown = one_line(redact_url(found), 60)
        message = f"`{where}` is `{shown}`, which is not a URL"
        raise ConfigError(message, hint=Command("config", "set", where, "https://HOST"))
    found = found.rstrip("/")
    if backend.startswith("openai"):
        found = re.sub(r"/(?:chat/completions|responses)$", "", found)
        return found if re.match(r"https?://[^/]+/", found) else f"{found}/v1"
    return found if backend == "vertex" else re.sub(r"/v1(?:beta)?$", "", found)


def _name(found: str, where: str) -> str:
    if not _NAME.fullmatch(found):
        examples = {"location": "europe-west1", "region": "us-east-1"}
        example = examples.get(where.rpartition(".")[2], "PROJECT")
        kind = "AWS region" if where.endswith("region") else "Google Cloud name"
        message = f"`{where}` is `{one_line(found, 60)}`, which is not a valid {kind}"
        raise ConfigError(message, hint=Command("config", "set", where, example))
    return found


def _sendable(key: str, configured: str, where: str) -> str:
    key = key.removesuffix("\n").removesuffix("\r")
    if key != key.strip():
        problem = "begins or ends with a space or a line break"
    elif not (key.isascii() and key.isprintable()):
        problem = "contains a character that HTTP headers do not allow"
    else:
        return key
    reference = SecretRef.parse(configured)
    source = f"the secret `{reference}` of {where}" if reference else f"the secret of {where}"
    again = f"correct {reference}" if reference else Command("config", "set", where, "env:NAME")
    if reference and reference.kind == "env" and is_variable(reference.name):
        again = Command(f"{reference.name}=...", program="export")
    raise SecretError(
        f"{source} {problem}", hint=Hint("{}, with nothing but the key", again), details={"setting": where}
    )


Part = Literal["system", "tools", "history"]


def ttl(prompt_caching: PromptCaching, part: Part, *, backend: str) -> str | None:
    """Return the lifetime of the cache mark on a part of a request, or None for no mark."""
    wanted, lifetime = _parts(prompt_caching)[part]
    if not prompt_caching.enabled or not wanted:
        return None
    return "5m" if backend == "vertex" and prompt_caching.vertex_fallback_to_5m else lifetime


def _parts(prompt_caching: PromptCaching) -> dict[Part, tuple[bool, str]]:
    """Return for each part whether it is cached, and for how long."""
    return {
        "system": (prompt_caching.cache_system, prompt_caching.system_ttl),
        "tools": (prompt_caching.cache_tools, prompt_caching.tools_ttl),
        "history": (prompt_caching.cache_history, prompt_caching.history_ttl),
    }


def claude_environment(caching: PromptCaching) -> dict[str, str]:
    """Return the variables that pass the supported settings to Claude Code: caching off, or one lifetime for all."""
    if _is_off(caching):
        return {"DISABLE_PROMPT_CACHING": "1"}
    if any(field.endswith("Ttl") for field in mapped_fields(caching)):
        return {"CLAUDE_CODE_PROMPT_CACHE_TTL": caching.system_ttl}
    return {}


def mapped_fields(caching: PromptCaching) -> list[str]:
    """Return the non-default fields that a Claude Code backend supports by another mechanism."""
    changed = _changed(caching)
    if _is_off(caching):
        return changed
    uniform = len({lifetime for _, lifetime in _parts(caching).values()}) == 1
    return [field for field in changed if field.endswith("Ttl")] if uniform else []


def ignored_fields(caching: PromptCaching) -> list[str]:
    """Return the non-default fields that a Claude Code backend does not support, by their names in `ktx.yaml`."""
    honoured = mapped_fields(caching)
    return [field for field in _changed(caching) if field not in honoured]


def divergence(config: KtxConfig) -> ResultWarning | None:
    """Return the warning about caching settings that a backend of some role ignores."""
    caching = config.llm.prompt_caching
    if not _changed(caching):
        return None
    from ktx_cli.llm.registry import kind_of

    kinds = [kind_of(name) for name in sorted({ref.backend for ref in bindings(config).values()})]
    others = [kind for kind in kinds if kind.caches_by_itself]
    claude = [kind for kind in kinds if kind.client == "session" and kind not in others]
    claude = claude if ignored_fields(caching) else []
    if not (claude or others):
        return None
    fields, mapped = (_changed(caching), []) if others else (ignored_fields(caching), mapped_fields(caching))
    names = ", ".join(f"llm.promptCaching.{field}" for field in fields)
    backends = " and ".join(f"`{kind.name}`" for kind in (*claude, *others))
    message = f"the backend {backends} does not support {names}"
    hint = "Claude Code uses its own caching rules; remove the settings, or give the role an API backend"
    if others:
        hint = "the provider uses its own caching rules; remove the settings"
    return ResultWarning("prompt_caching_ignored", message, hint=hint, fields=fields, mapped=mapped)


def _is_off(caching: PromptCaching) -> bool:
    return not caching.enabled or not any(wanted for wanted, _ in _parts(caching).values())


def _changed(caching: PromptCaching) -> list[str]:
    defaults: dict[str, Any] = PromptCaching().model_dump(by_alias=True)
    now = caching.model_dump(by_alias=True)
    return [field for field, value in defaults.items() if now[field] != value]
