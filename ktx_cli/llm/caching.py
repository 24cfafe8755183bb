"""Prompt caching: what `llm.promptCaching` asks for, and what of it a Claude Code backend cannot honour."""

from __future__ import annotations

from typing import Any, Literal

from ktx_cli.core.errors import ResultWarning
from ktx_cli.llm.roles import CLAUDE_BACKENDS, bindings
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.config.llm import PromptCaching

Part = Literal["system", "tools", "history"]


def ttl(prompt_caching: PromptCaching, part: Part, *, backend: str) -> str | None:
    """Return the lifetime of the cache mark on a part of a request, None for no mark."""
    wanted, lifetime = _parts(prompt_caching)[part]
    if not prompt_caching.enabled or not wanted:
        return None
    return "5m" if backend == "vertex" and prompt_caching.vertex_fallback_to_5m else lifetime


def _parts(prompt_caching: PromptCaching) -> dict[Part, tuple[bool, str]]:
    """Return by part whether it is cached, and for how long."""
    return {
        "system": (prompt_caching.cache_system, prompt_caching.system_ttl),
        "tools": (prompt_caching.cache_tools, prompt_caching.tools_ttl),
        "history": (prompt_caching.cache_history, prompt_caching.history_ttl),
    }


def claude_environment(caching: PromptCaching) -> dict[str, str]:
    """Return the variables that carry to Claude Code what it can honour: caching off, or one lifetime for all."""
    if _is_off(caching):
        return {"DISABLE_PROMPT_CACHING": "1"}
    if any(field.endswith("Ttl") for field in mapped_fields(caching)):
        return {"CLAUDE_CODE_PROMPT_CACHE_TTL": caching.system_ttl}
    return {}


def mapped_fields(caching: PromptCaching) -> list[str]:
    """Return the non-default fields a Claude Code backend honours, by another mechanism."""
    changed = _changed(caching)
    if _is_off(caching):
        return changed
    uniform = len({lifetime for _, lifetime in _parts(caching).values()}) == 1
    return [field for field in changed if field.endswith("Ttl")] if uniform else []


def ignored_fields(caching: PromptCaching) -> list[str]:
    """Return the non-default fields a Claude Code backend cannot honour, as they are called in `ktx.yaml`."""
    honoured = mapped_fields(caching)
    return [field for field in _changed(caching) if field not in honoured]


def divergence(config: KtxConfig) -> ResultWarning | None:
    """Return the warning about caching settings that a Claude Code backend behind any role ignores."""
    used = sorted({ref.backend for ref in bindings(config).values() if ref.backend in CLAUDE_BACKENDS})
    caching = config.llm.prompt_caching
    fields = ignored_fields(caching) if used else []
    if not fields:
        return None
    names = ", ".join(f"llm.promptCaching.{field}" for field in fields)
    return ResultWarning(
        "prompt_caching_ignored",
        f"the backend {' and '.join(f'`{name}`' for name in used)} cannot honour {names}",
        hint="Claude Code caches by its own rules; remove the settings, or give the role an API backend",
        fields=fields,
        mapped=mapped_fields(caching),
    )


def _is_off(caching: PromptCaching) -> bool:
    return not caching.enabled or not any(wanted for wanted, _ in _parts(caching).values())


def _changed(caching: PromptCaching) -> list[str]:
    defaults: dict[str, Any] = PromptCaching().model_dump(by_alias=True)
    now = caching.model_dump(by_alias=True)
    return [field for field, value in defaults.items() if now[field] != value]
