"""The blocks of `ktx.yaml` beside the connections: models, the scan, the ingest, privacy, and what they share."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, WithJsonSchema, model_validator

from ktx_cli.project.config.base import REQUIRED, Block, setting, wrong

Backend = Literal["none", "anthropic", "vertex", "gateway", "claude-code", "claude-cli", "codex"]
CacheTtl = Literal["5m", "1h"]
EffortLevel = Literal["low", "medium", "high"]

SUPPORTED_BACKENDS: Final = ("anthropic", "vertex", "gateway", "claude-code", "claude-cli")
"""The backends that run models. `codex` is known from the TypeScript ktx, loads, and runs nothing."""

ROLES: Final[dict[str, str]] = {
    "default": "every role that names no model of its own",
    "triage": "sorts what came in: what is worth a closer look",
    "candidateExtraction": "takes facts out of documents, writes the questions they answer, and describes tables",
    "writer": "works through sources and captured texts, and writes pages and measures",
    "curator": "decides which facts from documents go onto which page",
    "reconcile": "settles what the work units of a run say about the same thing",
    "repair": "mends what a check refused",
}
"""What the roles of `llm.models` do."""


class AnthropicProvider(Block):
    """Access to the Anthropic API."""

    api_key: str | None = setting(None, "API key.", secret=True, example="env:ANTHROPIC_API_KEY")
    base_url: str | None = setting(
        None, "Address of the API, when it is not Anthropic's own.", example="https://api.anthropic.com"
    )


class GatewayProvider(Block):
    """Access to a gateway that speaks the Anthropic API."""

    api_key: str | None = setting(None, "Key or token of the gateway.", secret=True, example="env:GATEWAY_API_KEY")
    base_url: str | None = setting(
        None, "Address of the gateway. The backend `gateway` needs it.", example="https://gateway.example.com"
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
    system_ttl: CacheTtl = setting(
        "5m",
        "Lifetime of the system prompt's cache, from its last use on. `1h` costs more to write; it pays off where "
        "calls are minutes apart, as captures of `ktx memory` often are.",
        alias="systemTtl",
    )
    tools_ttl: CacheTtl = setting("5m", "Lifetime of the tools' cache.", alias="toolsTtl")
    history_ttl: CacheTtl = setting("5m", "Lifetime of the history's cache.", alias="historyTtl")
    vertex_fallback_to_5m: bool = setting(
        False, "On Vertex use 5 minutes where it refuses one hour.", alias="vertexFallbackTo5m"
    )


class Effort(Block):
    """How much a model thinks before it answers, by role; the same on every backend."""

    default: EffortLevel = setting("medium", "Of every role that names none of its own.")
    triage: EffortLevel | None = setting(None, "Of `triage`.", example="low")
    candidate_extraction: EffortLevel | None = setting(
        None, "Of `candidateExtraction`.", alias="candidateExtraction", example="low"
    )
    writer: EffortLevel | None = setting(None, "Of `writer`.", example="high")
    curator: EffortLevel | None = setting(None, "Of `curator`.", example="medium")
    reconcile: EffortLevel | None = setting(None, "Of `reconcile`.", example="high")
    repair: EffortLevel | None = setting(None, "Of `repair`.", example="medium")


class Llm(Block):
    """Models: the provider, a model and an effort for each role, prompt caching."""

    provider: Provider = setting(Provider, "Who runs the models.")
    models: dict[str, str] = setting(
        {},
        f"Model by role. Roles: {'; '.join(f'`{role}`: {says}' for role, says in ROLES.items())}.",
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
    effort: Effort = setting(Effort, "How much the models think before they answer. Models before 4.6 have no effort.")
    prompt_caching: PromptCaching = setting(PromptCaching, "What the provider caches.", alias="promptCaching")


class Semantic(Block):
    """The files of the semantic layer, how it cuts time, and what an answer may be made of."""

    layout: Literal["per-schema", "per-table"] = setting(
        "per-schema",
        "Files of the generated manifest: one for each schema, which the TypeScript ktx reads too, or one for each "
        "table. The next scan moves the entries that are there.",
    )
    week_start: Literal["monday", "sunday"] = setting("monday", "The first day of a week.")
    fiscal_year_start: int = setting(1, "The month a fiscal year starts in, 1 to 12.", ge=1, le=12)
    timezone: str | None = setting(
        None,
        "Time zone of days, weeks and longer periods, an IANA name. Without it: UTC. A query may name another.",
        min_length=1,
        example="Europe/Berlin",
    )
    min_status: Literal["proposed", "accepted", "certified"] = setting(
        "proposed", "The lowest status of the definitions that an answer may be made of; below it, it is refused."
    )
    open_decisions: Literal["note", "refuse"] = setting(
        "note", "An answer that depends on an open decision gets a note, or is refused: note, refuse."
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
    """Embeddings of the OpenAI API, or of one that speaks it."""

    api_key: str | None = setting(None, "API key.", secret=True, example="env:OPENAI_API_KEY")
    base_url: str | None = setting(
        None, "Address of the API, when it is not OpenAI's own.", example="https://api.openai.com/v1"
    )


class SentenceTransformers(Block):
    """Embeddings of a sentence-transformers model on this machine."""

    base_url: str = setting("", "Address of a running server; empty: in the process.")
    path_prefix: str | None = setting(None, "Path in front of the server's own.", alias="pathPrefix", example="/v1")


class Embeddings(Block):
    """Vectors for search by meaning."""

    backend: Literal["none", "openai", "sentence-transformers", "model2vec"] = setting(
        "none", "Who makes the vectors; `none`: search by words alone. None downloads a model."
    )
    model: str | None = setting(None, "Model name, or the folder of one.", example="text-embedding-3-small")
    dimensions: int | None = setting(None, "Length of a vector. Without it: the model's own.", example=1536, gt=0)
    batch_size: int | None = setting(
        None, "Texts in one request. Without it: what the backend takes.", alias="batchSize", example=64, gt=0
    )
    openai: OpenAiEmbeddings = setting(OpenAiEmbeddings, "For the backend `openai`.")
    sentence_transformers: SentenceTransformers = setting(
        SentenceTransformers, "For the backend `sentence-transformers`.", alias="sentenceTransformers"
    )


class WorkUnits(Block):
    """The pieces a run is cut into, each one agent loop."""

    step_budget: int = setting(40, "Model turns one work unit may take.", alias="stepBudget", gt=0)
    max_concurrency: int = setting(1, "Work units at the same time.", alias="maxConcurrency", gt=0)
    failure_mode: Literal["abort", "continue"] = setting(
        "continue", "What a failed work unit does to the run.", alias="failureMode"
    )


class Retry(Block):
    """How a refused or failed request to the model is repeated."""

    max_attempts: int = setting(6, "Attempts in all, the first included.", alias="maxAttempts", gt=0)
    base_delay_ms: int = setting(
        1000, "Milliseconds before the second attempt; doubles each time.", alias="baseDelayMs", gt=0
    )
    max_delay_ms: int = setting(60000, "Most milliseconds between two attempts.", alias="maxDelayMs", gt=0)
    jitter: bool = setting(True, "Spread the delays at random.")


class RateLimit(Block):
    """Pacing under the provider's rate limits."""

    enabled: bool = setting(True, "Slow down before the provider refuses.")
    throttle_threshold: float = setting(
        0.8, "Share of the limit in use, 0 to 1, from which a run slows down.", alias="throttleThreshold", ge=0, le=1
    )
    min_concurrency_under_pressure: int = setting(
        1, "Work units at the same time that are always left.", alias="minConcurrencyUnderPressure", gt=0
    )
    max_wait_ms: int | None = setting(
        None,
        "Most milliseconds a run waits for a limit to reset. Without it: as long as it takes.",
        alias="maxWaitMs",
        example=600000,
        gt=0,
    )
    retry: Retry = setting(Retry, "Repeated requests.")


class Ingest(Block):
    """How a run works."""

    adapters: list[str] = setting(
        [], "Source adapters to allow, from older versions; a run uses those its connections need.", status="later"
    )
    embeddings: Embeddings = setting(Embeddings, "Vectors for search by meaning.")
    work_units: WorkUnits = setting(WorkUnits, "Pieces of a run.", alias="workUnits")
    rate_limit: RateLimit = setting(RateLimit, "Pacing.", alias="rateLimit")
    profile: Profile = setting(False, "Report where a run spent its time; `json`: as JSON.", status="later")


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
"""What values of rows may be used for: model and agents, this machine alone, nothing."""

Views = Literal["never", "local", "always"]
"""Whose views a scan reads rows of: nobody's, those of files on this machine, those of servers too."""


class Enrichment(Block):
    """Descriptions of tables and columns."""

    mode: Literal["none", "deterministic", "llm"] = setting(
        "none", "Who writes descriptions: nobody, rules, or the model."
    )
    embeddings: Embeddings | None = setting(
        None, "Vectors of descriptions. Without it: those of `ingest.embeddings`.", status="later"
    )


class Relationships(Block):
    """Joins that no key declares: proposed from names and values, then checked on the data."""

    enabled: bool = setting(True, "Look for relationships.")
    llm_proposals: bool = setting(True, "Let the model propose some.", alias="llmProposals")
    validation_required_for_manifest: bool = setting(
        True, "Keep only what the data confirmed.", alias="validationRequiredForManifest"
    )
    accept_threshold: float = setting(
        0.6, "Probability, 0 to 1, from which a relationship is taken.", alias="acceptThreshold", ge=0, le=1
    )
    review_threshold: float = setting(
        0.4,
        "Probability, 0 to 1, from which one is put up for review. At most `acceptThreshold`.",
        alias="reviewThreshold",
        ge=0,
        le=1,
    )
    max_llm_tables_per_batch: int = setting(
        40, "Tables in one question to the model.", alias="maxLlmTablesPerBatch", gt=0
    )
    max_candidates_per_column: int = setting(
        25, "Targets considered for one column.", alias="maxCandidatesPerColumn", gt=0
    )
    profile_sample_rows: int = setting(10000, "Rows read from a table to profile it.", alias="profileSampleRows", gt=0)
    profile_concurrency: int = setting(4, "Tables profiled at the same time.", alias="profileConcurrency", gt=0)
    validation_concurrency: int = setting(
        4, "Relationships checked at the same time.", alias="validationConcurrency", gt=0
    )
    validation_budget: ValidationBudget | None = setting(
        None, "Checks a scan may run, or `all`. Without it: 1000.", alias="validationBudget", example="all"
    )

    detection_budget_ms: int | None = setting(
        None,
        "Most milliseconds for asking the database about relationships; those left over are put up for review. Without "
        "it: what is left of `scan.budget.seconds`.",
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
    """What looking at the rows of one connection may take. How many rows: `relationships.profileSampleRows`."""

    seconds: int = setting(
        900, "Seconds for the samples, checks and value lists of all tables; the report names what was left out.", gt=0
    )
    megabytes: int = setting(64, "Megabytes of values read from one table; wider tables get smaller samples.", gt=0)


class Scan(Block):
    """How databases are read."""

    privacy: Privacy = setting(
        "local",
        "What may happen with values of rows: `off`: they may go to the model and to agents, `local`: they stay on this"
        " machine, `strict`: they are not stored.",
    )
    share_code_lists: CodeLists = setting(
        "declared",
        "Which lists of values agents see under `privacy: local`: `declared`: those that the database, dbt or"
        " the semantic layer declares, `all`: also those of columns with few values in the last scan, which searches"
        " find too. Lists of personal data are never shown, and no lists are used in prompts for descriptions.",
    )
    views: Views = setting(
        "local",
        "Whose views and foreign tables have their rows read, which runs what their owners wrote: `never`: nobody's,"
        " `local`: those of SQLite, DuckDB and files, `always`: those of servers too. The structure of all is read.",
    )
    enrichment: Enrichment = setting(Enrichment, "Descriptions.")
    relationships: Relationships = setting(Relationships, "Joins that no key declares.")
    propose_measures: bool = setting(
        True,
        "Propose measures for fact tables from their structure and profile: row counts, sums of amounts and quantities,"
        " distinct counts and rates.",
    )
    propose_decisions: bool = setting(
        True,
        "Propose decision points: conventions that the data cannot settle, such as whether internal accounts count.",
    )
    budget: ScanBudget = setting(ScanBudget, "What looking at rows may take.")


Treatment = Literal["exclude", "include", "mark-only"]
"""What becomes of some queries: left out, kept as any other, or kept and marked."""


class ServiceAccounts(Block):
    """Queries of service accounts in the query history."""

    patterns: list[str] = setting([], "Regular expressions of user names that are service accounts.", example=["^etl_"])
    mode: Treatment = setting("exclude", "What becomes of queries that nobody else sends.")


class Orchestrators(Block):
    """Queries that orchestrators and BI tools mark with a comment (dbt, Airflow, Looker and their like)."""

    mode: Treatment = setting("mark-only", "What becomes of their queries.")


class DropFailed(Block):
    """Queries of the history that mostly fail."""

    error_rate: float | None = setting(
        None,
        "Share of failed executions, 0 to 1, from which a query is left out. Without it: 1.",
        alias="errorRate",
        example=0.5,
        ge=0,
        le=1,
    )
    executions: int | None = setting(None, "Executions from which the share counts.", example=10, ge=0)


class HistoryFilters(Block):
    """Which queries of the history are left out."""

    drop_trivial_probes: bool = setting(True, "Leave out `SELECT 1` and its like.", alias="dropTrivialProbes")
    service_accounts: ServiceAccounts = setting(ServiceAccounts, "Service accounts.", alias="serviceAccounts")
    orchestrators: Orchestrators = setting(Orchestrators, "Queries of orchestrators (dbt, Airflow and their like).")
    drop_failed_below: DropFailed = setting(DropFailed, "Queries that mostly fail.", alias="dropFailedBelow")


class QueryHistory(Block):
    """What people asked the database, as a source of context."""

    enabled: bool = setting(False, "Read the query history.")
    file: str | None = setting(
        None,
        "A file of SQL to read in place of the database's own history: statements that end in `;`, each with an "
        "optional comment `-- user: NAME executions: N` before it.",
        path=True,
        example="queries/analysts.sql",
        min_length=1,
    )
    min_executions: int = setting(5, "Executions from which a query counts.", alias="minExecutions", ge=0)
    window_days: int = setting(
        90, "Days to look back; PostgreSQL counts from its last reset.", alias="windowDays", gt=0
    )
    enabled_tables: list[str] = setting(
        [],
        "Tables whose queries count, `schema.table` or `table`; stronger than `enabledSchemas`.",
        alias="enabledTables",
        example=["mart.orders"],
    )
    enabled_schemas: list[str] = setting(
        [], "Schemas whose queries count; `*`: all. Without it: the tables ktx has scanned.", alias="enabledSchemas"
    )
    filters: HistoryFilters = setting(HistoryFilters, "What is left out.")
    redaction_patterns: list[str] = setting(
        [], "Regular expressions of what is blanked in a query, besides its literals.", alias="redactionPatterns"
    )
    stale_archive_after_days: int = setting(
        90, "Days after which what nobody asks any more is archived.", alias="staleArchiveAfterDays", gt=0
    )


class ConnectionContext(Block):
    """What else than tables is read from a database."""

    query_history: QueryHistory = setting(QueryHistory, "What people asked the database.", alias="queryHistory")
