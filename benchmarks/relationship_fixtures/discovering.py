"""The one place that knows discovery's interface: runs it on a fixture and returns its answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.relationship_fixtures.scoring import Answer, Edge
from benchmarks.relationship_fixtures.truth import DATA_FILE, PrimaryKey, Reference
from ktx_cli.warehouses.dialect import table_path
from ktx_cli.warehouses.port import ConnectionSpec, Connector, DatabaseSchema, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.registry import connect

if TYPE_CHECKING:
    from ktx_cli.project.config.blocks import Scan
    from ktx_cli.scan.relationships.declarations import KnownSchema
    from ktx_cli.scan.relationships.hints import HintSource, JoinHint
    from ktx_cli.scan.relationships.record import Discovery
    from ktx_cli.scan.relationships.undecided import Ask, UndecidedColumn


def discover(
    fixture: Path,
    *,
    hide: bool,
    primary_keys: Mapping[str, tuple[str, ...]] | None = None,
    ask: Ask | None = None,
    share: float = 1.0,
) -> Answer:
    """Run discovery on a fixture's database.

    `hide` takes away all declared keys, unique constraints and indexes; `primary_keys` are declared instead. `ask`
    answers questions about undecided columns in place of a model. `share`: the share of each table's rows that the
    profile samples, if it is less than 1.
    """
    from ktx_cli.project.config.blocks import Scan

    with _connected(fixture) as connector:
        schema = connector.introspect(Scope())
        if hide:
            schema = hidden(schema, primary_keys or {})
        started = time.perf_counter()
        asked: list[UndecidedColumn] = []

        def noting(undecided: Sequence[UndecidedColumn]) -> Sequence[JoinHint]:
            asked.extend(undecided)
            return () if ask is None else ask(undecided)

        found = discover_database(connector, schema, Scan(), ask=None if ask is None else noting, share=share)
        seconds = time.perf_counter() - started
        views = {table.ref for table in schema.tables if table.kind is TableKind.VIEW}
        few = frozenset(table.ref.name for table in schema.tables if _rows(connector, table) <= 1)
        return replace(_answer(found, views, seconds), few=few, calls=_calls(asked, schema))


def _calls(asked: Sequence[UndecidedColumn], schema: DatabaseSchema) -> int:
    """Return the number of calls for these columns, with messages that have no statistics."""
    from ktx_cli.prompts.prompts import load_prompt
    from ktx_cli.scan.descriptions.facts import gather_facts
    from ktx_cli.scan.relationships.proposals import ProposalQuestions

    facts = {each.ref: each for each in gather_facts(schema.tables, profiles={})} if asked else {}
    return len(ProposalQuestions(asked, facts, load_prompt("propose_joins"), "local").plan(asked))


def discover_database(
    connector: Connector,
    schema: DatabaseSchema,
    settings: Scan,
    sources: Sequence[HintSource] = (),
    ask: Ask | None = None,
    known: KnownSchema | None = None,
    share: float = 1.0,
) -> Discovery:
    """Profile a database and infer its keys and relationships, as a scan does. `share`: as in `discover`."""
    from ktx_cli.scan.profile.profiler import Budget, profile_tables
    from ktx_cli.scan.relationships import discovery

    started = time.monotonic()
    budget = Budget.of(settings)
    if share < 1:
        limits = [replace(budget, rows=max(1, round(share * _rows(connector, table)))) for table in schema.tables]
        each = [profile_tables(connector, [t], limit) for t, limit in zip(schema.tables, limits, strict=True)]
        statements = sum(part.statements for part in each)
        profiled = replace(each[0], tables=tuple(part.tables[0] for part in each), statements=statements)
    else:
        profiled = profile_tables(connector, schema.tables, budget)
    left = settings.budget.seconds - (time.monotonic() - started)
    found = discovery.discover(
        connector, schema.tables, profiled.tables, settings.relationships, sources, known=known, seconds=left, ask=ask
    )
    return replace(found, queries=found.queries + profiled.statements)


def declared_links(fixture: Path) -> frozenset[Reference]:
    """Return the foreign keys that a fixture's database declares."""
    with _connected(fixture) as connector:
        tables = connector.introspect(Scope()).tables
    return frozenset(
        Reference(table.ref.name, key.columns, key.target.name, key.target_columns)
        for table in tables
        for key in table.foreign_keys
    )


def _connected(fixture: Path) -> Connector:
    return connect(ConnectionSpec("fixture", "sqlite", {"path": str((fixture / DATA_FILE).resolve())}))


def hidden(schema: DatabaseSchema, primary_keys: Mapping[str, tuple[str, ...]]) -> DatabaseSchema:
    """Return the schema without declared keys, but with the given primary keys (table name: columns)."""
    return replace(schema, tables=tuple(_hidden(table, primary_keys) for table in schema.tables))


def _hidden(table: Table, primary_keys: Mapping[str, tuple[str, ...]]) -> Table:
    key = primary_keys.get(table.ref.name, ())
    return replace(table, primary_key=key, foreign_keys=(), unique_keys=(), indexes=())


def _rows(connector: Connector, table: Table) -> int:
    path = table_path(table.ref, connector.dialect)
    return int(connector.query(f"SELECT count(*) FROM {path}", max_rows=1).rows[0][0])


def _answer(found: Any, views: Set[TableRef], seconds: float) -> Answer:
    """Return what was found between tables: a view has no foreign keys, and its joins are no part of an answer."""
    links = [(_reference(each), each) for each in found.relationships if each.child not in views]
    keys = (PrimaryKey(ref.name, tuple(columns)) for ref, columns in found.primary_keys.items() if columns)
    return Answer(
        frozenset(keys),
        frozenset(link for link, each in links if each.status == "accepted"),
        frozenset(link for link, each in links if each.status == "review"),
        tuple((link, f"{each.status} {each.probability:.2f}: {each.reason}") for link, each in links),
        found.queries,
        seconds,
        tuple(
            Edge(link, each.probability, 0 if each.check is None else each.check.rows)
            for link, each in links
            if each.status != "rejected"
        ),
    )


def _reference(found: Any) -> Reference:
    return Reference(found.child.name, tuple(found.child_columns), found.parent.name, tuple(found.parent_columns))
