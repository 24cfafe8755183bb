"""The Messages API: direct, on Vertex or Bedrock, or behind a gateway."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.core import Command, Hint, SettingPath
from ktx_cli.llm.registry import BackendKind, ProviderQuestion

OLDEST_WITH_EFFORT: Final = (4, 6)
VERCEL_URL: Final = "https://ai-gateway.vercel.sh"
"""The Vercel AI Gateway, which implements the Messages API for the models of many providers."""

_MAKER: Final = "ktx_cli.llm.backends.anthropic_api.backend:make"
_KEY: Final = ProviderQuestion("api_key", "Key", secret=True)
_IDS: Final = {"default": "claude-sonnet-5-5", "triage": "claude-haiku-5-5", "candidateExtraction": "claude-haiku-5-5"}


def is_effort_settable(model: str) -> bool:
    """Return whether the effort of a model can be set: for Anthropic models from version 4.6 on."""
    version = version_of(model)
    return version is not None and version >= OLDEST_WITH_EFFORT


def version_of(model: str) -> tuple[int, int] | None:
    """Return the version of a Claude model from 4 on, None for any other."""
    found = re.search(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2})(?!\d))?", model.lower())
    return None if found is None else (int(found[1]), int(found[2] or 0))


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

BEDROCK: Final = BackendKind(
    name="bedrock",
    who="Amazon Bedrock",
    label="Claude on Amazon Bedrock",
    maker=_MAKER,
    block="bedrock",
    keys={"api_key": "api_key", "base_url": "base_url", "location": "region", "profile": "profile"},
    secrets=("api_key", "access_key_id", "secret_access_key", "session_token"),
    questions=(
        ProviderQuestion("location", "AWS region", "us-east-1"),
        ProviderQuestion("profile", "AWS profile (default: this machine's AWS credentials)", optional=True),
    ),
    models={
        "default": "global.anthropic.claude-sonnet-4-6",
        "triage": "global.anthropic.claude-haiku-4-5-20251001-v1:0",
        "candidateExtraction": "global.anthropic.claude-haiku-4-5-20251001-v1:0",
    },
    free_ids=True,
    is_effort_settable=is_effort_settable,
    charges_list_prices=True,
    source="anthropic_api",
    executor_type="messages",
    telemetry="aws.bedrock",
    credentials=Hint(
        "check the AWS credentials, for example with {}, or {}",
        Command("sts", "get-caller-identity", program="aws"),
        SettingPath("llm.provider.bedrock"),
    ),
    package="bedrock",
    module="boto3",
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
