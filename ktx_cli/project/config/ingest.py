"""The `ingest` block: embeddings, work units, pacing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema

from ktx_cli.project.config.base import Block, setting, wrong


def _profile(value: Any) -> Any:
    if isinstance(value, bool) or value == "json":
        return value
    raise wrong("must be true, false or `json`")


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
        None,
        "Texts in one request. Without it: what the backend takes.",
        alias="batchSize",
        example=64,
        gt=0,
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
        0.8,
        "Share of the limit in use, 0 to 1, from which a run slows down.",
        alias="throttleThreshold",
        ge=0,
        le=1,
    )
    min_concurrency_under_pressure: int = setting(
        1,
        "Work units at the same time that are always left.",
        alias="minConcurrencyUnderPressure",
        gt=0,
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
