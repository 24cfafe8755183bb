"""Evidence that agents give of raw files: the use of a table, a pattern worth a page; checked against the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ktx_cli.core import Record
from ktx_cli.semantic import Model, quoted
from ktx_cli.sources.port import EvidenceForm
from ktx_cli.sources.query_history import model as buckets
from ktx_cli.sources.query_history.raw_files import parsed

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]


class _Evidence(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableUsage(_Evidence):
    """How people use one table, in words; how often, by what and with what else is known without a model."""

    kind: Literal["table_usage"] = "table_usage"
    table: str = Field(description="The table, as `table` of the raw file has it.")
    narrative: str = Field(
        min_length=1, max_length=2000, description="What people use the table for: two or three plain sentences."
    )


class QueryPattern(_Evidence):
    """A question people ask again and again, with the statements that ask it."""

    kind: Literal["pattern"] = "pattern"
    slug: Slug = Field(description="A short name for the page: lower-case words with `-` between them.")
    title: str = Field(min_length=1, max_length=200, description="The question in one sentence.")
    narrative: str = Field(min_length=1, max_length=4000, description="What the question is for, and how it is asked.")
    fingerprints: tuple[str, ...] = Field(
        min_length=1, max_length=50, description="`id` of every statement of the raw file that asks it."
    )
    sl_refs: tuple[str, ...] = Field(
        (), max_length=50, description="Sources and measures of the semantic layer that answer it."
    )


Evidence = Annotated[TableUsage | QueryPattern, Field(discriminator="kind")]
"""One piece of evidence; which kind it is stands in `kind`."""


@dataclass(frozen=True, slots=True)
class PatternFacts:
    """What the raw files say of one statement over several tables."""

    id: str
    sql: str
    tables: tuple[str, ...]
    executions: str


def table_documents(files: Mapping[str, bytes]) -> tuple[dict[str, Any], ...]:
    """Return the documents of the tables' raw files, by path. `files`: path -> content of a snapshot."""
    return tuple(parsed(files[path], path) for path in sorted(files) if path.startswith("tables/"))


def pattern_facts(files: Mapping[str, bytes]) -> dict[str, PatternFacts]:
    """Return id -> facts of every pattern of a snapshot."""
    documents = (parsed(files[path], path) for path in sorted(files) if path.startswith("patterns/"))
    found = (each for document in documents for each in document["patterns"])
    return {
        each["id"]: PatternFacts(each["id"], each["sql"], tuple(each["tables"]), each["executions"]) for each in found
    }


def problems(evidence: TableUsage | QueryPattern, path: str, content: bytes) -> tuple[str, ...]:
    """Return what is wrong in a piece of evidence about a raw file, in words for the agent; empty: nothing.

    A table's evidence is about the table of its file; a pattern names statements of its file alone.
    """
    document = parsed(content, path)
    if isinstance(evidence, TableUsage):
        wanted = document.get("table")
        if wanted is None:
            return (f"{path} holds patterns: give `pattern` evidence",)
        return () if evidence.table == wanted else (f"{path} is about the table {wanted}, not {evidence.table}",)
    if "patterns" not in document:
        return (f"{path} is about one table: give `table_usage` evidence",)
    known = {each["id"] for each in document["patterns"]}
    return tuple(f"{path} has no statement {each}" for each in evidence.fingerprints if each not in known)


EVIDENCE: Final = EvidenceForm(
    "emit_historic_sql_evidence",
    "Say what a table is used for, or which question statements of a file ask. Pages are written from it later.",
    Evidence,
    "`table_usage` for a file of a table, `pattern` for a file of patterns.",
    problems,
)


def narratives(evidence: Iterable[TableUsage], tables: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return source name -> narrative; a table that is not in the semantic layer has none. The last one counts."""
    sources = {table["table"]: table["source"] for table in tables if table.get("source")}
    return {sources[each.table]: each.narrative.strip() for each in evidence if each.table in sources}


def most_executed(facts: Iterable[PatternFacts]) -> PatternFacts:
    """Return the statement that is run most; of several the one whose id comes first."""
    return min(facts, key=lambda each: (-buckets.EXECUTION_BUCKETS.index(each.executions), each.id))


@dataclass(frozen=True, slots=True, order=True)
class JoinHint(Record):
    """Two sources that queries join by equal columns. `frequency`: `high`, `mid` or `low` among those of either."""

    left: str
    right: str
    pairs: tuple[tuple[str, str], ...]
    frequency: str

    def __str__(self) -> str:
        terms = (f"{quoted(self.left)}.{quoted(a)} = {quoted(self.right)}.{quoted(b)}" for a, b in self.pairs)
        return f"{' AND '.join(terms)} ({self.frequency} frequency)"

    json_keys = ("left", "right", "on=pairs", "frequency")


def missing_joins(tables: Iterable[Mapping[str, Any]], model: Model) -> tuple[JoinHint, ...]:
    """Return the observed joins that no source of the model has in either direction, each once, sorted.

    `tables`: documents of raw files. Of the two tables' frequencies the higher one counts.
    """
    best: dict[tuple[str, str, tuple[tuple[str, str], ...]], str] = {}
    for table in tables:
        for join in table.get("joins", ()):
            found = _oriented(table.get("source"), join)
            if found is None or _is_known(model, *found):
                continue
            tiers = (join["frequency"], best.get(found, buckets.LOW))
            best[found] = min(tiers, key=buckets.TIERS.index)
    return tuple(sorted(JoinHint(*found, frequency) for found, frequency in best.items()))


def _oriented(source: str | None, join: Mapping[str, Any]) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    """Return a join with its sources in the order of their names; None where one is not in the semantic layer."""
    other = join["source"]
    if not source or not other:
        return None
    pairs = tuple(sorted((str(own), str(theirs)) for own, theirs in join["on"]))
    if (source, pairs) <= (other, _swapped(pairs)):
        return source, other, pairs
    return other, source, _swapped(pairs)


def _is_known(model: Model, left: str, right: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    """Say whether the model has a join whose columns are all among these."""
    return _declares(model, left, right, pairs) or _declares(model, right, left, _swapped(pairs))


def _declares(model: Model, source: str, to: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    declared = model.sources.get(source)
    if declared is None:
        return False
    return any(join.to == to and join.pairs and set(join.pairs) <= set(pairs) for join in declared.joins)


def _swapped(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((theirs, own) for own, theirs in pairs))
