"""The training examples of the ranker: the pairs of a generated database, each with whether it is a reference."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.relationship_fixtures.generate import generate
from benchmarks.relationship_fixtures.truth import read_truth
from ktx_cli.project.config.blocks import Relationships
from ktx_cli.scan.profile.profiler import Budget, SampledTable, count_sample, profile_tables
from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, NameIndex, gather
from ktx_cli.scan.relationships.discovery import Inference
from ktx_cli.scan.relationships.hints import JoinHints
from ktx_cli.scan.relationships.keys import find_unique_columns
from ktx_cli.scan.relationships.ranker import DatabaseSummary, Ranker, summarize
from ktx_cli.scan.relationships.row_checks import RowChecks
from ktx_cli.scan.stages import STRICT
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Scope, Table
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.sampling import Sample, SampleMethod

End = tuple[str, str]
"""A table and one of its columns."""


@dataclass(frozen=True, slots=True)
class Row:
    """One pair: its features, and whether it is a reference. `scored`: that is known, and the pair is learned from.

    `empty`: it has no rows.
    """

    features: list[float]
    label: int
    scored: bool
    empty: bool


@dataclass(frozen=True, slots=True)
class Example:
    """The pairs of one database, and the summary that the second pass needs."""

    name: str
    rows: list[Row]
    summary: DatabaseSummary


def examples_of(kind: str, seed: int, corpus: Path | None) -> tuple[Example, Example]:
    """Generate one database, or take the one that is in `corpus`, and return its pairs; the second time without rows.

    Of every other database only half of the tables lose their rows.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if corpus is None else corpus / f"{kind}-{seed}"
        if not (folder / "expected-links.yaml").exists():
            generate(folder, kind, seed)
        references, left_out = _truth(folder)
        with connect(ConnectionSpec("x", "sqlite", {"path": str(folder / "data.sqlite")})) as connector:
            tables = [_hidden(table) for table in connector.introspect(Scope()).tables]
            sampled = profile_tables(connector, tables, Budget()).tables
            some = [
                each if seed % 2 and number % 2 else count_sample(table, _no_rows(table))
                for number, (table, each) in enumerate(zip(tables, sampled, strict=True))
            ]
            seen, unseen = (_candidates(connector, tables, each) for each in (sampled, some))
    return (
        Example(f"{kind}-{seed}", [_row(pair, references, left_out) for pair in seen[1]], summarize(*seen)),
        Example(f"{kind}-{seed}", [_row(pair, references, left_out) for pair in unseen[1]], summarize(*unseen)),
    )


def _candidates(
    connector: Connector, tables: Sequence[Table], sampled: Sequence[SampledTable]
) -> tuple[list[ColumnFacts], list[Candidate]]:
    """Return all columns, and the candidates a ranker has to judge, with their features."""
    facts = gather(connector.dialect, tables, sampled)
    questions = RowChecks(connector, Relationships(), len(facts.columns))
    inference = Inference(facts, Relationships(), questions, (), Ranker(0.0, ()), STRICT)
    uniques = find_unique_columns(facts.tables, questions.is_unique)
    return facts.columns, inference.ranked_candidates(uniques, NameIndex(facts.tables, uniques.keys), JoinHints())


def _no_rows(table: Table) -> Sample:
    names = tuple(column.name for column in table.columns)
    return Sample(names, tuple([] for _ in names), 0, SampleMethod.ALL, row_count=0, exact_count=True)


def _hidden(table: Table) -> Table:
    return dataclasses.replace(table, primary_key=(), foreign_keys=(), unique_keys=(), indexes=())


def _row(pair: Candidate, references: set[tuple[End, End]], left_out: set[End]) -> Row:
    child = (pair.child.table.table.ref.name, pair.child.name)
    key = (pair.key.table.table.ref.name, pair.key.name)
    return Row(pair.features, int((child, key) in references), child not in left_out, pair.empty)


def _truth(folder: Path) -> tuple[set[tuple[End, End]], set[End]]:
    """Return the references of single columns, and the columns of which nothing is learned.

    Those refer to several tables, or only together with others, or as they do in a view or a copy.
    """
    truth = read_truth(folder)
    single = [
        ((link.child, link.child_columns[0]), (link.parent, link.parent_columns[0]))
        for link in truth.links
        if len(link.child_columns) == 1
    ]
    children = [child for child, _ in single]
    several = {child for child in children if children.count(child) > 1}
    together = {
        (link.child, name) for link in truth.links if len(link.child_columns) > 1 for name in link.child_columns
    }
    optional = {(link.child, name) for link in truth.optional for name in link.child_columns}
    return set(single), several | ((together | optional) - set(children))
