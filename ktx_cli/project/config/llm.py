"""The `llm` block: which provider runs the models, which model does what, prompt caching."""

from __future__ import annotations

from typing import Final, Literal

from ktx_cli.project.config.base import REQUIRED, Block, setting

Backend = Literal["none", "anthropic", "vertex", "gateway", "claude-code", "claude-cli", "codex"]
CacheTtl = Literal["5m", "1h"]

SUPPORTED_BACKENDS: Final = ("anthropic", "vertex", "gateway", "claude-code", "claude-cli")
"""The backends that run models. `codex` is known from the TypeScript ktx, loads, and runs nothing."""

ROLES: Final[dict[str, str]] = {
    "default": "every role that names no model of its own",
    "triage": "sorts what came in: what is worth a closer look",
    "candidateExtraction": "finds candidates for pages and measures in one document",
    "curator": "writes and merges pages and sources",
    "reconcile": "settles what the work units of a run say about the same thing",
    "repair": "mends what a check refused",
}
"""What the six roles of `llm.models` do."""


class AnthropicProvider(Block):
    """Access to the Anthropic API."""

    api_key: str | None = setting(
        None,
        "API key.",
        secret=True,
        example="env:ANTHROPIC_API_KEY",
    )
    base_url: str | None = setting(
        None, "Address of the API, when it is not Anthropic's own.", example="https://api.anthropic.com"
    )


class GatewayProvider(Block):
    """Access to a gateway that speaks the Anthropic API."""

    api_key: str | None = setting(None, "Key or token of the gateway.", secret=True, example="env:GATEWAY_API_KEY")
    base_url: str | None = setting(
        None,
        "Address of the gateway. The backend `gateway` needs it.",
        example="https://gateway.example.com",
    )
    auth: Literal["key", "bearer"] = setting(
        "key", "How the key is sent: `key` as `x-api-key`, `bearer` as `Authorization: Bearer`."
    )


class VertexProvider(Block):
    """Claude on Google Vertex AI, with the machine's Google credentials."""

    project: str | None = setting(None, "Google Cloud project. Without it: the credentials' own.", example="my-project")
    location: str = setting(REQUIRED, "Region.", example="europe-west1", min_length=1)
    access_token: str | None = setting(
        None,
        "Access token. Without it: the machine's Google credentials.",
        secret=True,
        example="env:VERTEX_ACCESS_TOKEN",
    )
    base_url: str | None = setting(
        None, "Address of the API, when it is not Google's own.", example="https://vertex.example.com/v1"
    )


class ClaudeProvider(Block):
    """The local Claude Code binary, for the backends `claude-code` and `claude-cli`."""

    cli_path: str | None = setting(
        None,
        "Path of the `claude` binary, outside the project. Without it: the one that comes with claude-agent-sdk, "
        "else the one on PATH.",
        path=True,
        example="~/.local/bin/claude",
    )
    allow_managed_policy: bool = setting(
        False, "Run although an organisation's managed settings are in force on this machine."
    )
    reuse_processes: bool = setting(
        False,
        "`claude-code`: clear a process after a call and use it again, in place of a fresh one for every call. That "
        "takes less CPU; before each prompt the model then reads that the conversation was cleared.",
    )


class Provider(Block):
    """Who runs the models."""

    backend: Backend = setting(
        "none",
        "`none`: ktx works without a model. `codex` is a known name of the TypeScript ktx and not supported.",
        example="claude-code",
    )
    anthropic: AnthropicProvider = setting(AnthropicProvider, "For the backend `anthropic`.")
    vertex: VertexProvider | None = setting(None, "For the backend `vertex`.")
    gateway: GatewayProvider = setting(GatewayProvider, "For the backend `gateway`.")
    claude: ClaudeProvider = setting(ClaudeProvider, "For `claude-code` and `claude-cli`.")


class PromptCaching(Block):
    """What of a request the provider caches, and for how long. The Claude Code backends decide this themselves."""

    enabled: bool = setting(True, "Cache prompts at all.")
    cache_system: bool = setting(True, "Cache the system prompt.", alias="cacheSystem")
    cache_tools: bool = setting(True, "Cache the tool definitions.", alias="cacheTools")
    cache_history: bool = setting(True, "Cache the earlier turns of a loop.", alias="cacheHistory")
    system_ttl: CacheTtl = setting("1h", "Lifetime of the system prompt's cache.", alias="systemTtl")
    tools_ttl: CacheTtl = setting("1h", "Lifetime of the tools' cache.", alias="toolsTtl")
    history_ttl: CacheTtl = setting("5m", "Lifetime of the history's cache.", alias="historyTtl")
    vertex_fallback_to_5m: bool = setting(
        False, "On Vertex use 5 minutes where it refuses one hour.", alias="vertexFallbackTo5m"
    )


class Llm(Block):
    """Models: the provider, a model for each role, prompt caching."""

    provider: Provider = setting(Provider, "Who runs the models.")
    models: dict[str, str] = setting(
        {},
        f"Model by role. Roles: {'; '.join(f'`{role}`: {says}' for role, says in ROLES.items())}.",
        example={
            "default": "claude-sonnet-5-5",
            "triage": "claude-cli:haiku",
            "candidateExtraction": "haiku",
            "curator": "sonnet",
            "reconcile": "opus",
            "repair": "sonnet",
        },
    )
    prompt_caching: PromptCaching = setting(PromptCaching, "What the provider caches.", alias="promptCaching")
