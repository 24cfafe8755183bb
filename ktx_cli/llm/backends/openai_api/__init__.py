"""The Responses API and Chat Completions: of OpenAI, and of servers that implement one of them."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.core import Hint, SettingPath
from ktx_cli.llm.registry import BackendKind, ProviderQuestion

_MAKER: Final = "ktx_cli.llm.backends.openai_api.backend:make"
_WITH_EFFORT: Final = re.compile(
    r"(?:^|[/.:])(?:gpt-(?:[5-9]|\d{2,})(?![0-9o])(?!.*-chat)|gpt-oss|o[1-9](?!\d)(?!-mini-2024|-preview))"
)


def is_effort_settable(model: str) -> bool:
    """Return whether the effort of a model can be set: for GPT-5 and later, gpt-oss, and the models from o1 on."""
    return _WITH_EFFORT.search(model.lower()) is not None


OPENAI: Final = BackendKind(
    name="openai",
    who="the OpenAI API",
    label="The OpenAI API, with an API key",
    maker=_MAKER,
    block="openai",
    keys={"api_key": "api_key", "base_url": "base_url"},
    secrets=("api_key",),
    questions=(ProviderQuestion("api_key", "Key", secret=True),),
    models={"default": "gpt-6.2-sol", "triage": "gpt-6-luna", "candidateExtraction": "gpt-6-luna"},
    is_effort_settable=is_effort_settable,
    caches_by_itself=True,
    charges_list_prices=True,
    source="openai_api",
    executor_type="responses",
    telemetry="openai",
    package="openai",
    module="openai",
)

OPENAI_COMPATIBLE: Final = BackendKind(
    name="openai-compatible",
    who="the server",
    label="A server with an OpenAI API: Ollama, vLLM, LM Studio, OpenRouter, Azure",
    maker=_MAKER,
    block="openai_compatible",
    keys={"api_key": "api_key", "base_url": "base_url", "auth": "auth", "api": "api"},
    secrets=("api_key",),
    questions=(
        ProviderQuestion("base_url", "URL of the API", "http://127.0.0.1:11434/v1"),
        ProviderQuestion("api_key", "Key, if the server requires one", optional=True, secret=True),
    ),
    free_ids=True,
    is_effort_settable=is_effort_settable,
    caches_by_itself=True,
    source="openai_compatible_api",
    executor_type="completions",
    telemetry="openai_compatible",
    credentials=Hint(
        "check {} and {}",
        SettingPath("llm.provider.openai_compatible.api_key"),
        SettingPath("llm.provider.openai_compatible.auth"),
    ),
    package="openai",
    module="openai",
)
