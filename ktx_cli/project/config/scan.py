"""The `scan` block: descriptions, found relationships, what values may be used for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema, model_validator

from ktx_cli.project.config.base import Block, setting, wrong
from ktx_cli.project.config.ingest import Embeddings


def _budget(value: Any) -> Any:
    if value == "all" or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise wrong("must be `all` or a whole number of at least 0")


ValidationBudget = Annotated[
    int | Literal["all"],
    PlainValidator(_budget),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "all"}]}),
]


Privacy = Literal["off", "local", "strict"]
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
        0.6,
        "Probability, 0 to 1, from which a relationship is taken.",
        alias="acceptThreshold",
        ge=0,
        le=1,
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
        None,
        "Checks a scan may run, or `all`. Without it: 1000.",
        alias="validationBudget",
        example="all",
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
            raise wrong(
                f"is {self.accept_threshold:g}, less than the reviewThreshold of {self.review_threshold:g}",
                hint="set acceptThreshold to reviewThreshold or more",
                key="acceptThreshold",
            )
        return self


class ScanBudget(Block):
    """What looking at the rows of one connection may take. How many rows: `relationships.profileSampleRows`."""

    seconds: int = setting(
        900, "Seconds for all tables; those left over have no profile, and the report says so.", gt=0
    )
    megabytes: int = setting(64, "Megabytes of values read from one table; wider tables get smaller samples.", gt=0)


class Scan(Block):
    """How databases are read."""

    privacy: Privacy = setting(
        "local",
        "What may happen with values of rows: `off`: they may go to the model and to agents, `local`: they stay on this"
        " machine, `strict`: they are not stored.",
    )
    views: Views = setting(
        "local",
        "Whose views and foreign tables have their rows read, which runs what their owners wrote: `never`: nobody's,"
        " `local`: those of SQLite, DuckDB and files, `always`: those of servers too. The structure of all is read.",
    )
    enrichment: Enrichment = setting(Enrichment, "Descriptions.")
    relationships: Relationships = setting(Relationships, "Joins that no key declares.")
    budget: ScanBudget = setting(ScanBudget, "What looking at rows may take.")
