"""The Messages API: direct, on Vertex, or behind a gateway."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.core import Command, Hint, SettingPath
from ktx_cli.llm.registry import BackendKind, ProviderQuestion

OLDEST_WITH_EFFORT: Final = (4, 6)
_MAKER: Final = "ktx_cli.llm.backends.anthropic_api.backend:make"
_KEY: Final = ProviderQuestion("api_key", "Key", secret=True)
_IDS: Final = {"default": "claude-sonnet-5-5", "triage": "claude-haiku-5-5", "candidateExtraction": "claude-haiku-5-5"}


def is_effort_settable(model: str) -> bool:
    """Return whether the effort of a model can be set: for Anthropic models from version 4.6 on."""
    found = re.search(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?", model.lower())
    return found is not None and (int(found[1]), int(found[2] or 0)) >= OLDEST_WITH_EFFORT


ANTHROPIC: Final = BackendKind(
    name="anthropic",
    who="the Anthropic API",
    label="The Anthropic API, with an API key",
    maker=_MAKER,
    block="anthropic",
    keys={"api_key": "api_key", "base_url": "base_url"},
    secrets=("api_key",),
    questions=(_KEY,),
    models=_IDS,
    is_effort_settable=is_effort_settable,
    charges_list_prices=True,
    source="anthropic_api",
    executor_type="messages",
    telemetry="anthropic",
)

VERTEX: Final = BackendKind(
    name="vertex",
    who="Vertex AI",
    label="Claude on Google Vertex AI",
    maker=_MAKER,
    block="vertex",
    keys={"api_key": "access_token", "base_url": "base_url", "location": "location", "project": "project"},
    secrets=("access_token",),
    questions=(
        ProviderQuestion("location", "Region", "europe-west1"),
        ProviderQuestion("project", "Google Cloud project (default: the credentials' project)", optional=True),
    ),
    models={"default": "claude-sonnet-5-5"},
    is_effort_settable=is_effort_settable,
    charges_list_prices=True,
    source="anthropic_api",
    executor_type="messages",
    telemetry="gcp.vertex_ai",
    credentials=Command("auth", "application-default", "login", program="gcloud"),
    package="vertex",
)

GATEWAY: Final = BackendKind(
    name="gateway",
    who="the gateway",
    label="A gateway that implements the Anthropic API",
    maker=_MAKER,
    block="gateway",
    keys={"api_key": "api_key", "base_url": "base_url", "auth": "auth"},
    secrets=("api_key",),
    questions=(ProviderQuestion("base_url", "URL of the gateway", "http://127.0.0.1:4000"), _KEY),
    free_ids=True,
    is_effort_settable=is_effort_settable,
    source="anthropic_api",
    executor_type="messages",
    telemetry="gateway",
    credentials=Hint(
        "check {} and {}", SettingPath("llm.provider.gateway.api_key"), SettingPath("llm.provider.gateway.auth")
    ),
)
