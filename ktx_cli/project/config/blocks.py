"""The blocks in `ktx.yaml` other than connections: models, scan, ingest, privacy, and the types they share."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, WithJsonSchema, model_validator

from ktx_cli.project.config.base import REQUIRED, Block, setting, wrong

Backend = Literal[
    "none",
    "anthropic",
    "vertex",
    "bedrock",
    "gateway",
    "openai",
    "openai-compatible",
    "gemini",
    "claude-code",
    "claude-cli",
    "codex",
]
CacheTtl = Literal["5m", "1h"]
EffortLevel = Literal["low", "medium", "high"]

SUPPORTED_BACKENDS: Final = (
    *("anthropic", "vertex", "bedrock", "gateway", "openai", "openai-compatible", "gemini"),
    *("claude-code", "claude-cli", "codex"),
)
"""The backends that run models."""

REQUIRED_SETTINGS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "anthropic": (("anthropic.api_key", "env:ANTHROPIC_API_KEY"),),
    "vertex": (("vertex.location", "europe-west1"),),
    "bedrock": (("bedrock.region", "us-east-1"),),
    "gateway": (("gateway.api_key", "env:GATEWAY_API_KEY"),),
    "openai": (("openai.api_key", "env:OPENAI_API_KEY"),),
    "openai-compatible": (("openai_compatible.base_url", "http://127.0.0.1:11434/v1"),),
    "gemini": (("gemini.api_key", "env:GEMINI_API_KEY"),),
}
"""The settings of `llm.provider` that a backend requires, each with an example of its value."""

ROLES: Final[dict[str, str]] = {
    "default": "used for every role without a model of its own",
    "triage": "decides which incoming files and texts deserve a closer look",
    "candidateExtraction": "extracts facts from documents, writes the questions they answer, and describes tables",
    "writer": "reads sources and captured texts, and writes pages and measures",
    "curator": "decides which facts from documents go on which page",
    "reconcile": "reconciles what a run's work units say about the same subject",
    "repair": "fixes changes that failed a check",
}
"""What each role of `llm.models` does."""


class AnthropicProvider(Block):
    """Access to the Anthropic API."""

    api_key: str | None = setting(None, "API key.", secret=True, example="env:ANTHROPIC_API_KEY")
    base_url: str | None = setting(None, "API base URL. Defaults to Anthropic's.", example="https://api.anthropic.com")


class GatewayProvider(Block):
    """Access to a gateway that implements the Anthropic API."""

    api_key: str | None = setting(None, "API key or token for the gateway.", secret=True, example="env:GATEWAY_API_KEY")
    base_url: str | None = setting(
        None, "Gateway base URL. Defaults to the Vercel AI Gateway.", example="https://gateway.example.com"
    )
    auth: Literal["key", "bearer"] = setting(
        "key", "How to send the key: `key` as the header `x-api-key`, `bearer` as `Authorization: Bearer`."
    )


class VertexProvider(Block):
    """Claude on Google Vertex AI, with the Google credentials on this machine."""

    project: str | None = setting(
        None, "Google Cloud project. Defaults to the project in the credentials.", example="my-project"
    )
    location: str = setting(REQUIRED, "Region.", example="europe-west1", min_length=1)
    access_token: str | None = setting(
        None,
        "Access token. Defaults to the Google credentials on this machine.",
        secret=True,
        example="env:VERTEX_ACCESS_TOKEN",
    )
    base_url: str | None = setting(None, "API base URL. Defaults to Google's.", example="https://vertex.example.com/v1")


class BedrockProvider(Block):
    """Claude on Amazon Bedrock. Without a key or a profile, ktx uses the AWS credentials of this machine."""

    region: str | None = setting(None, "AWS region.", example="us-east-1")
    api_key: str | None = setting(
        None,
        "Amazon Bedrock API key, which replaces the access key.",
        secret=True,
        example="env:AWS_BEARER_TOKEN_BEDROCK",
    )
    access_key_id: str | None = setting(None, "ID of an AWS access key.", secret=True, example="env:AWS_ACCESS_KEY_ID")
    secret_access_key: str | None = setting(
        None, "Secret of the AWS access key.", secret=True, example="env:AWS_SECRET_ACCESS_KEY"
    )
    session_token: str | None = setting(
        None, "Session token, for a temporary access key.", secret=True, example="env:AWS_SESSION_TOKEN"
    )
    profile: str | None = setting(
        None, "Profile in the AWS configuration files, instead of a key.", example="my-profile"
    )
    base_url: str | None = setting(
        None, "API base URL. Defaults to Amazon's for the region.", example="https://bedrock.example.com"
    )


class OpenAiProvider(Block):
    """Access to the OpenAI API."""

    api_key: str | None = setting(None, "API key.", secret=True, example="env:OPENAI_API_KEY")
    base_url: str | None = setting(
        None, "API base URL, for example of a region. Defaults to OpenAI's.", example="https://eu.api.openai.com/v1"
    )


class OpenAiCompatibleProvider(Block):
    """Access to a server that implements an API of OpenAI: Azure, OpenRouter, vLLM, Ollama, LM Studio and others."""

    base_url: str | None = setting(
        None, "API base URL, which usually ends with `/v1`.", example="http://127.0.0.1:11434/v1"
    )
    api_key: str | None = setting(
        None, "API key. A server on this machine usually needs none.", secret=True, example="env:OPENROUTER_API_KEY"
    )
    auth: Literal["bearer", "key"] = setting(
        "bearer", "How to send the key: `bearer` as `Authorization: Bearer`, `key` as the header `api-key`, for Azure."
    )
    api: Literal["chat", "responses"] = setting(
        "chat", "The API that the server implements: `chat` is Chat Completions, `responses` the Responses API."
    )


class GeminiProvider(Block):
    """Access to the Gemini API of Google."""

    api_key: str | None = setting(None, "API key.", secret=True, example="env:GEMINI_API_KEY")
    base_url: str | None = setting(
        None, "API base URL. Defaults to Google's.", example="https://generativelanguage.googleapis.com"
    )


class ClaudeProvider(Block):
    """The local Claude Code binary, for the backends `claude-code` and `claude-cli`."""

    cli_path: str | None = setting(
        None,
        "Path of the `claude` binary, outside the project. Defaults to the binary that is part of "
        "claude-agent-sdk, then to the one on PATH.",
        path=True,
        example="~/.local/bin/claude",
    )
    allow_managed_policy: bool = setting(False, "Run even if an organization's managed settings apply on this machine.")
    reuse_processes: bool = setting(
        False,
        "For `claude-code`: reuse a process for several calls after clearing its conversation, instead of "
        "starting a new process for every call. This uses less CPU. The model sees a note before each prompt "
        "that the conversation was cleared.",
    )


class CodexProvider(Block):
    """The local Codex binary, for the backend `codex`."""

    cli_path: str | None = setting(
        None,
        "Path of the `codex` binary, outside the project. Defaults to the one on PATH.",
        path=True,
        example="~/.local/bin/codex",
    )


class Provider(Block):
    """The provider that runs the models."""

    backend: Backend = setting("none", "Where models run. `none`: ktx works without a model.", example="claude-code")
    anthropic: AnthropicProvider = setting(AnthropicProvider, "Settings for the backend `anthropic`.")
    vertex: VertexProvider | None = setting(None, "Settings for the backend `vertex`.")
    bedrock: BedrockProvider = setting(BedrockProvider, "Settings for the backend `bedrock`.")
    gateway: GatewayProvider = setting(GatewayProvider, "Settings for the backend `gateway`.")
    openai: OpenAiProvider = setting(OpenAiProvider, "Settings for the backend `openai`.")
    openai_compatible: OpenAiCompatibleProvider = setting(
        OpenAiCompatibleProvider, "Settings for the backend `openai-compatible`."
    )
    gemini: GeminiProvider = setting(GeminiProvider, "Settings for the backend `gemini`.")
    claude: ClaudeProvider = setting(ClaudeProvider, "Settings for the backends `claude-code` and `claude-cli`.")
    codex: CodexProvider = setting(CodexProvider, "Settings for the backend `codex`.")


def missing_settings(provider: Provider, backend: str) -> list[tuple[str, str]]:
    """Return the required settings of a backend that are not set, each with an example of its value."""

    def is_set(path: str) -> bool:
        block, key = path.split(".")
        return bool(getattr(getattr(provider, block), key, None))

    return [(path, example) for path, example in REQUIRED_SETTINGS.get(backend, ()) if not is_set(path)]


class PromptCaching(Block):
    """Which parts of a request the provider caches, and for how long. Only the APIs of Anthropic apply all of it."""

    enabled: bool = setting(True, "Enable prompt caching.")
    cache_system: bool = setting(True, "Cache the system prompt.", alias="cacheSystem")
    cache_tools: bool = setting(True, "Cache the tool definitions.", alias="cacheTools")
    cache_history: bool = setting(True, "Cache the earlier turns of an agent loop.", alias="cacheHistory")
    system_ttl: CacheTtl = setting(
        "5m",
        "Lifetime of the cached system prompt since its last use. `1h` costs more to write, and pays off if "
        "calls are minutes apart, as `ktx memory` captures often are.",
        alias="systemTtl",
    )
    tools_ttl: CacheTtl = setting("5m", "Lifetime of the cached tool definitions.", alias="toolsTtl")
    history_ttl: CacheTtl = setting("5m", "Lifetime of the cached history.", alias="historyTtl")
    vertex_fallback_to_5m: bool = setting(
        False, "Fall back to 5 minutes if Vertex rejects a lifetime of 1 hour.", alias="vertexFallbackTo5m"
    )


class Effort(Block):
    """How much a model thinks before it answers, by role. Applies to every backend."""

    default: EffortLevel = setting("medium", "Effort for roles that do not set their own.")
    triage: EffortLevel | None = setting(None, "Effort for the role `triage`.", example="low")
    candidate_extraction: EffortLevel | None = setting(
        None, "Effort for the role `candidateExtraction`.", alias="candidateExtraction", example="low"
    )
    writer: EffortLevel | None = setting(None, "Effort for the role `writer`.", example="high")
    curator: EffortLevel | None = setting(None, "Effort for the role `curator`.", example="medium")
    reconcile: EffortLevel | None = setting(None, "Effort for the role `reconcile`.", example="high")
    repair: EffortLevel | None = setting(None, "Effort for the role `repair`.", example="medium")


class Llm(Block):
    """Models: the provider, the model and effort of each role, and prompt caching."""

    provider: Provider = setting(Provider, "The provider that runs the models.")
    models: dict[str, str] = setting(
        {},
        f"Model for each role. {' '.join(f'`{role}`: {says}.' for role, says in ROLES.items())}",
        example={
            "default": "claude-sonnet-5-5",
            "triage": "claude-cli:haiku",
            "candidateExtraction": "haiku",
            "writer": "sonnet",
            "curator": "sonnet",
            "reconcile": "opus",
            "repair": "sonnet",
        },
    )
    effort: Effort = setting(
        Effort,
        "How much the models think before they answer. Claude models from 4.6, Gemini models from 2.5, and the models "
        "of OpenAI from GPT-5 and o1 on, support this; most others do not.",
    )
    prompt_caching: PromptCaching = setting(PromptCaching, "Prompt caching by the provider.", alias="promptCaching")


class Semantic(Block):
    """The semantic layer files, how dates are truncated, and which definitions answers may use."""

    layout: Literal["per-schema", "per-table"] = setting(
        "per-schema",
        "Files of the generated manifest: one per schema, which the TypeScript ktx can read too, or one per table. The "
        "next scan moves the existing entries.",
    )
    week_start: Literal["monday", "sunday"] = setting("monday", "First day of the week.")
    fiscal_year_start: int = setting(1, "First month of the fiscal year, 1 to 12.", ge=1, le=12)
    timezone: str | None = setting(
        None,
        "Time zone for days, weeks and longer periods, as an IANA name. Defaults to UTC. A query can override it.",
        min_length=1,
        example="Europe/Berlin",
    )
    min_status: Literal["proposed", "accepted", "certified"] = setting(
        "proposed",
        "Lowest status of a definition that answers may use. Queries that need a definition with a lower "
        "status are refused.",
    )
    open_decisions: Literal["note", "refuse"] = setting(
        "note", "What to do with answers that depend on an open decision: `note` adds a note, `refuse` refuses them."
    )


def _profile(value: Any) -> Any:
    if isinstance(value, bool) or value == "json":
        return value
    raise wrong("must be true, false or `json`", of_value=True)


Profile = Annotated[
    bool | Literal["json"],
    PlainValidator(_profile),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "json"}]}),
]


class OpenAiEmbeddings(Block):
    """Embeddings from the OpenAI API, or from a compatible one."""

    api_key: str | None = setting(None, "API key.", secret=True, example="env:OPENAI_API_KEY")
    base_url: str | None = setting(None, "API base URL. Defaults to OpenAI's.", example="https://api.openai.com/v1")


class SentenceTransformers(Block):
    """Embeddings from a sentence-transformers model on this machine."""

    base_url: str = setting("", "URL of a running server. If empty, ktx runs the model in its own process.")
    path_prefix: str | None = setting(None, "Path prefix of the server's API.", alias="pathPrefix", example="/v1")


class Embeddings(Block):
    """Vectors for semantic search."""

    backend: Literal["none", "openai", "sentence-transformers", "model2vec"] = setting(
        "none", "How to compute vectors. `none`: full-text search only. No backend downloads a model."
    )
    model: str | None = setting(None, "Model name or folder.", example="text-embedding-3-small")
    dimensions: int | None = setting(
        None, "Number of dimensions of a vector. Defaults to the model's own.", example=1536, gt=0
    )
    batch_size: int | None = setting(
        None,
        "Maximum number of texts per request. Defaults to the backend's limit.",
        alias="batchSize",
        example=64,
        gt=0,
    )
    openai: OpenAiEmbeddings = setting(OpenAiEmbeddings, "Settings for the backend `openai`.")
    sentence_transformers: SentenceTransformers = setting(
        SentenceTransformers, "Settings for the backend `sentence-transformers`.", alias="sentenceTransformers"
    )


class WorkUnits(Block):
    """A run's work units. Each is one agent loop."""

    step_budget: int = setting(40, "Maximum number of model turns per work unit.", alias="stepBudget", gt=0)
    max_concurrency: int = setting(1, "Number of work units that run at the same time.", alias="maxConcurrency", gt=0)
    failure_mode: Literal["abort", "continue"] = setting(
        "continue", "What happens to the run if a work unit fails.", alias="failureMode"
    )


class Workers(Block):
    """The workers of a queue in the shared state; `ktx worker` starts one."""

    coordinator: bool = setting(
        True, "Whether the run itself works on units too, so that it also ends if no `ktx worker` is running."
    )
    heartbeat_seconds: float = setting(
        5.0,
        "How often a worker shows that it is alive, in seconds. Another worker takes over its units after four missed "
        "heartbeats.",
        gt=0,
    )


class Retry(Block):
    """How failed model requests are retried."""

    max_attempts: int = setting(6, "Maximum number of attempts, including the first.", alias="maxAttempts", gt=0)
    base_delay_ms: int = setting(
        1000, "Delay before the second attempt, in milliseconds. Doubles with each attempt.", alias="baseDelayMs", gt=0
    )
    max_delay_ms: int = setting(60000, "Maximum delay between two attempts, in milliseconds.", alias="maxDelayMs", gt=0)
    jitter: bool = setting(True, "Randomize the delays.")


class RateLimit(Block):
    """Pacing under the provider's rate limits."""

    enabled: bool = setting(True, "Slow down before the provider rejects requests.")
    throttle_threshold: float = setting(
        0.8,
        "Share of the limit used, 0 to 1, at which a run starts to slow down.",
        alias="throttleThreshold",
        ge=0,
        le=1,
    )
    min_concurrency_under_pressure: int = setting(
        1, "Minimum number of work units that still run at the same time.", alias="minConcurrencyUnderPressure", gt=0
    )
    max_wait_ms: int | None = setting(
        None,
        "Maximum time to wait for a limit to reset, in milliseconds. Defaults to no maximum.",
        alias="maxWaitMs",
        example=600000,
        gt=0,
    )
    retry: Retry = setting(Retry, "Retries of failed requests.")


class Ingest(Block):
    """How runs work."""

    adapters: list[str] = setting(
        [],
        "Source adapters to allow. Only older versions use this setting; a run now uses the adapters that its "
        "connections need.",
        status="later",
    )
    embeddings: Embeddings = setting(Embeddings, "Vectors for semantic search.")
    work_units: WorkUnits = setting(WorkUnits, "A run's work units.", alias="workUnits")
    executor: Literal["local", "postgres"] = setting(
        "local",
        "Where work units run. `local`: in the process of the run. `postgres`: on all hosts that run `ktx worker`, "
        "through a queue in the database of `storage.postgres`.",
    )
    workers: Workers = setting(Workers, "The workers, for the executor `postgres`.")
    rate_limit: RateLimit = setting(RateLimit, "Pacing.", alias="rateLimit")
    profile: Profile = setting(
        False, "Report how long each part of a run took. `json`: report it as JSON.", status="later"
    )


def _budget(value: Any) -> Any:
    if value == "all" or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise wrong("must be `all` or a whole number of at least 0", of_value=True)


ValidationBudget = Annotated[
    int | Literal["all"],
    PlainValidator(_budget),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "all"}]}),
]


Privacy = Literal["off", "local", "strict"]
CodeLists = Literal["declared", "all"]
"""Where row values may go: to the model and agents, only to this machine, or nowhere."""

Views = Literal["never", "local", "always"]
"""The views whose rows a scan may read: none, those in files on this machine, or also those on servers."""


ProfiledTables = Literal["all", "used"]
"""The tables whose rows a scan reads: all, or those that queries and the semantic layer use."""


class Enrichment(Block):
    """Descriptions of tables and columns."""

    mode: Literal["none", "deterministic", "llm"] = setting(
        "none", "How to write descriptions: not at all, by rules, or with the model."
    )
    embeddings: Embeddings | None = setting(
        None, "Vectors for descriptions. Defaults to `ingest.embeddings`.", status="later"
    )


class Relationships(Block):
    """Inferred joins: proposed from names and values, then checked against the data."""

    enabled: bool = setting(True, "Infer joins.")
    llm_proposals: bool = setting(True, "Ask the model about columns whose parent is undecided.", alias="llmProposals")
    validation_required_for_manifest: bool = setting(
        True, "Only keep joins that the data confirms.", alias="validationRequiredForManifest"
    )
    accept_threshold: float = setting(
        0.6, "Score, 0 to 1, at or above which an inferred join is accepted.", alias="acceptThreshold", ge=0, le=1
    )
    review_threshold: float = setting(
        0.4,
        "Score, 0 to 1, at or above which an inferred join is put up for review. At most `acceptThreshold`.",
        alias="reviewThreshold",
        ge=0,
        le=1,
    )
    max_llm_tables_per_batch: int = setting(
        40, "Maximum number of tables per model request about joins.", alias="maxLlmTablesPerBatch", gt=0
    )
    max_candidates_per_column: int = setting(
        25, "Maximum number of candidate targets per column.", alias="maxCandidatesPerColumn", gt=0
    )
    profile_sample_rows: int = setting(
        10000, "Number of rows to sample from each table for its profile.", alias="profileSampleRows", gt=0
    )
    profile_concurrency: int = setting(
        4, "Number of tables that are profiled at the same time.", alias="profileConcurrency", gt=0
    )
    validation_concurrency: int = setting(
        4, "Number of joins that are checked at the same time.", alias="validationConcurrency", gt=0
    )
    validation_budget: ValidationBudget | None = setting(
        None,
        "Maximum number of joins that a scan checks against the data, or `all`. Defaults to 1000.",
        alias="validationBudget",
        example="all",
    )

    detection_budget_ms: int | None = setting(
        None,
        "Maximum time to spend on checking joins against the data, in milliseconds. Joins that are not checked in "
        "time are put up for review. Defaults to the rest of `scan.budget.seconds`.",
        alias="detectionBudgetMs",
        example=600000,
        gt=0,
    )

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Relationships:
        if self.accept_threshold < self.review_threshold:
            message = f"is {self.accept_threshold:g}, less than the reviewThreshold of {self.review_threshold:g}"
            raise wrong(message, hint="set acceptThreshold to reviewThreshold or more", key="acceptThreshold")
        return self


class ScanBudget(Block):
    """Limits on reading the rows of one connection. `relationships.profileSampleRows` sets the number of rows."""

    seconds: int = setting(
        900,
        "Maximum time for the samples, checks and value lists of all tables, in seconds. The report lists "
        "what was skipped.",
        gt=0,
    )
    megabytes: int = setting(
        64, "Maximum amount of data to read from one table, in megabytes. Wider tables get smaller samples.", gt=0
    )
    gigabytes: float | None = setting(
        None,
        "Maximum amount of data that the statements of one scan make the database read, in gigabytes: as the database "
        "reports it before it runs them, or else estimated from the rows and columns that they read. A statement that "
        "would exceed the limit is not sent. What is not reached is profiled first in the next scan.",
        example=50,
        gt=0,
    )


class Scan(Block):
    """How databases are scanned."""

    privacy: Privacy = setting(
        "local",
        "Where row values may go. `off`: to the model and to agents. `local`: they stay on this machine. "
        "`strict`: they are not stored at all.",
    )
    share_code_lists: CodeLists = setting(
        "declared",
        "Which value lists agents can see under `privacy: local`. `declared`: those declared in the database, "
        "in dbt or in the semantic layer. `all`: also those of columns with few distinct values in the last "
        "scan, which search then finds too. Lists with personal data are never shown, and prompts for "
        "descriptions contain no lists.",
    )
    views: Views = setting(
        "local",
        "The views and foreign tables from which a scan reads rows, which runs their owners' code. `never`: "
        "none. `local`: those in SQLite, DuckDB and files. `always`: also those on servers. Their structure is "
        "always read.",
    )
    profile: ProfiledTables = setting(
        "all",
        "The tables whose rows a scan reads. `used`: those that the query history or a file of the semantic layer "
        "uses, or that the connection lists in `enabled_tables`; of the others, only the structure is read.",
    )
    enrichment: Enrichment = setting(Enrichment, "Descriptions.")
    relationships: Relationships = setting(Relationships, "Inferred joins.")
    propose_measures: bool = setting(
        True,
        "Propose measures for fact tables from their structure and profile: row counts, sums of amounts and "
        "quantities, distinct counts and rates.",
    )
    propose_decisions: bool = setting(
        True,
        "Propose decision points: conventions that the data cannot settle, such as whether internal accounts count.",
    )
    budget: ScanBudget = setting(ScanBudget, "Limits on reading rows.")


Treatment = Literal["exclude", "include", "mark-only"]
"""What happens to certain queries: they are excluded, included like any other, or included and marked."""


class ServiceAccounts(Block):
    """Queries by service accounts in the query history."""

    patterns: list[str] = setting(
        [], "Regular expressions that match the user names of service accounts.", example=["^etl_"]
    )
    mode: Treatment = setting("exclude", "What happens to queries that only service accounts run.")


class Orchestrators(Block):
    """Queries that orchestrators and BI tools, such as dbt, Airflow and Looker, mark with a comment."""

    mode: Treatment = setting("mark-only", "What happens to queries by orchestrators and BI tools.")


class DropFailed(Block):
    """Queries in the history that fail most of the time."""

    error_rate: float | None = setting(
        None,
        "Share of failed executions, 0 to 1, at or above which a query is excluded. Defaults to 1.",
        alias="errorRate",
        example=0.5,
        ge=0,
        le=1,
    )
    executions: int | None = setting(
        None, "Minimum number of executions for this filter to apply to a query.", example=10, ge=0
    )


class HistoryFilters(Block):
    """Filters on the query history."""

    drop_trivial_probes: bool = setting(True, "Exclude trivial queries such as `SELECT 1`.", alias="dropTrivialProbes")
    service_accounts: ServiceAccounts = setting(ServiceAccounts, "Service accounts.", alias="serviceAccounts")
    orchestrators: Orchestrators = setting(
        Orchestrators, "Queries by orchestrators and BI tools, such as dbt, Airflow and Looker."
    )
    drop_failed_below: DropFailed = setting(DropFailed, "Queries that fail most of the time.", alias="dropFailedBelow")


class QueryHistory(Block):
    """The query history of the database, as a source of context."""

    enabled: bool = setting(False, "Read the query history.")
    file: str | None = setting(
        None,
        "SQL file to read instead of the database's own history. Statements end with `;` and can have a "
        "comment `-- user: NAME executions: N` before them.",
        path=True,
        example="queries/analysts.sql",
        min_length=1,
    )
    min_executions: int = setting(5, "Minimum number of executions for a query to count.", alias="minExecutions", ge=0)
    window_days: int = setting(
        90, "Number of days to look back. PostgreSQL counts from its last statistics reset.", alias="windowDays", gt=0
    )
    enabled_tables: list[str] = setting(
        [],
        "Only use queries on these tables, `schema.table` or `table`. Takes precedence over `enabledSchemas`.",
        alias="enabledTables",
        example=["mart.orders"],
    )
    enabled_schemas: list[str] = setting(
        [],
        "Only use queries on these schemas; `*` means all. Defaults to the tables that ktx has scanned.",
        alias="enabledSchemas",
    )
    filters: HistoryFilters = setting(HistoryFilters, "Query filters.")
    redaction_patterns: list[str] = setting(
        [], "Regular expressions for text to redact in queries, in addition to literals.", alias="redactionPatterns"
    )
    stale_archive_after_days: int = setting(
        90, "Number of days without executions after which a query is archived.", alias="staleArchiveAfterDays", gt=0
    )


class ConnectionContext(Block):
    """What to read from a database besides its tables."""

    query_history: QueryHistory = setting(QueryHistory, "The query history of the database.", alias="queryHistory")
