"""Cache marks, and what a Claude Code backend does not support."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.llm.settings import claude_environment, divergence, ignored_fields, mapped_fields, ttl
from ktx_cli.project.config.blocks import PromptCaching
from ktx_cli.project.config.model import KtxConfig


def caching(**fields: Any) -> PromptCaching:
    return PromptCaching.model_validate(fields)


OFF = {"DISABLE_PROMPT_CACHING": "1"}
LONG = {"systemTtl": "1h", "toolsTtl": "1h", "historyTtl": "1h"}


@pytest.mark.requirement("R57", "R58", "R59")
@pytest.mark.table(
    ("fields", "ignored", "mapped", "environment"),
    [
        ({}, [], [], {}),
        ({"enabled": True, "systemTtl": "5m", "historyTtl": "5m"}, [], [], {}),
        ({"enabled": False}, [], ["enabled"], OFF),
        ({"enabled": False, "toolsTtl": "1h"}, [], ["enabled", "toolsTtl"], OFF),
        (
            {"cacheSystem": False, "cacheTools": False, "cacheHistory": False},
            [],
            ["cacheSystem", "cacheTools", "cacheHistory"],
            OFF,
        ),
        ({"cacheSystem": False}, ["cacheSystem"], [], {}),
        ({"cacheTools": False, "cacheHistory": False}, ["cacheTools", "cacheHistory"], [], {}),
        (LONG, [], [*LONG], {"CLAUDE_CODE_PROMPT_CACHE_TTL": "1h"}),
        ({"systemTtl": "1h", "toolsTtl": "1h"}, ["systemTtl", "toolsTtl"], [], {}),
        ({"systemTtl": "1h"}, ["systemTtl"], [], {}),
        ({"vertexFallbackTo5m": True}, ["vertexFallbackTo5m"], [], {}),
        ({**LONG, "cacheTools": False}, ["cacheTools"], [*LONG], {"CLAUDE_CODE_PROMPT_CACHE_TTL": "1h"}),
    ],
)
def test_what_claude_code_honours(
    fields: dict[str, Any], ignored: list[str], mapped: list[str], environment: dict[str, str]
) -> None:
    given = caching(**fields)
    assert ignored_fields(given) == ignored
    assert mapped_fields(given) == mapped
    assert claude_environment(given) == environment


@pytest.mark.requirement("R58")
@pytest.mark.table(
    ("backend", "models", "used"),
    [
        ("claude-code", {}, "`claude-code`"),
        ("claude-cli", {}, "`claude-cli`"),
        ("anthropic", {"default": "m"}, None),
        ("anthropic", {"default": "m", "triage": "claude-cli:haiku"}, "`claude-cli`"),
        ("claude-code", {"triage": "claude-cli:haiku"}, "`claude-cli` and `claude-code`"),
        ("gateway", {"default": "claude-code/x"}, None),
        ("none", {}, None),
        ("none", {"repair": "claude-code:haiku"}, "`claude-code`"),
    ],
)
def test_the_warning_is_about_a_backend_behind_any_role(backend: str, models: dict[str, str], used: str | None) -> None:
    llm = {"provider": {"backend": backend}, "models": models, "promptCaching": {"cacheTools": False, **LONG}}
    warning = divergence(KtxConfig.model_validate({"llm": llm}))
    if used is None:
        assert warning is None
        return
    assert warning is not None
    assert warning.code == "prompt_caching_ignored"
    assert warning.message == f"the backend {used} does not support llm.promptCaching.cacheTools"
    assert warning.details == {"fields": ["cacheTools"], "mapped": [*LONG]}


def test_a_provider_that_caches_by_itself_ignores_every_setting() -> None:
    models = {"default": "m", "triage": "claude-code:haiku"}
    llm = {"provider": {"backend": "openai"}, "models": models, "promptCaching": LONG}
    warning = divergence(KtxConfig.model_validate({"llm": llm}))
    assert warning is not None and warning.message.startswith(
        "the backend `openai` does not support llm.promptCaching."
    )
    assert warning.details == {"fields": [*LONG], "mapped": []}
    assert divergence(KtxConfig.model_validate({"llm": {**llm, "promptCaching": {}}})) is None


@pytest.mark.requirement("R58")
@pytest.mark.table("fields", [{}, {"enabled": False}, LONG])
def test_defaults_and_what_is_honoured_warn_nothing(fields: dict[str, Any]) -> None:
    llm = {"provider": {"backend": "claude-code"}, "promptCaching": fields}
    assert divergence(KtxConfig.model_validate({"llm": llm})) is None


@pytest.mark.table(
    ("fields", "backend", "expected"),
    [
        ({}, "anthropic", ("5m", "5m", "5m")),
        (LONG, "vertex", ("1h", "1h", "1h")),
        ({**LONG, "vertexFallbackTo5m": True}, "vertex", ("5m", "5m", "5m")),
        ({**LONG, "vertexFallbackTo5m": True}, "anthropic", ("1h", "1h", "1h")),
        ({"enabled": False}, "anthropic", (None, None, None)),
        ({"cacheSystem": False, "historyTtl": "1h"}, "gateway", (None, "5m", "1h")),
        ({"cacheTools": False, "vertexFallbackTo5m": True}, "vertex", ("5m", None, "5m")),
    ],
)
def test_lifetimes_of_the_marks(fields: dict[str, Any], backend: str, expected: tuple[str | None, ...]) -> None:
    given = caching(**fields)
    found = (
        ttl(given, "system", backend=backend),
        ttl(given, "tools", backend=backend),
        ttl(given, "history", backend=backend),
    )
    assert found == expected
