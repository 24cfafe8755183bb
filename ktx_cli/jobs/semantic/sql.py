"""Runs one SQL statement or aggregation pipeline from a person or an agent on a database, through its guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ktx_cli.core import (
    Argument,
    Command,
    ConfigError,
    Hint,
    NumberFormat,
    Placeholder,
    SourceError,
    UsageError,
    choose_one,
    json_value,
    listing,
    row_formats,
)
from ktx_cli.jobs.semantic.federation import FEDERATED, Check, check_nothing, run_federated
from ktx_cli.project import KtxConfig, Layout
from ktx_cli.scan import has_points
from ktx_cli.semantic import DEFAULT_BYTES, ConnectionGuard, json_rows, quoted
from ktx_cli.warehouses import (
    CheckedPipeline,
    Opener,
    QueryResult,
    TableRef,
    check_pipeline,
    dialect_named,
    missing_package,
    open_connection,
    parse_pipeline,
    row_size,
    runs_pipelines,
)

if TYPE_CHECKING:
    from ktx_cli.jobs.decide.notes import StatementDecisions
    from ktx_cli.semantic import Model

DEFAULT_ROWS: Final = 1000
"""The default maximum number of rows."""

MOST_ROWS: Final = 100_000
"""The largest allowed row limit."""


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The rows returned by a statement, as JSON values.

    `sql` is the statement that was sent. `cut` is `rows` or `bytes` if rows were dropped because of the row limit or
    the size limit, or None. `explains` is true if the rows are a query plan. `formats` are the number formats of the
    columns, if requested. `open` are the open decisions that the statement depends on; `notes` describe these and
    decisions that it might not follow.
    """

    connection: str
    dialect: str
    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: Literal["rows", "bytes"] | None = None
    explains: bool = False
    formats: tuple[NumberFormat | None, ...] = ()
    notes: tuple[str, ...] = ()
    open: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the answer for the envelope."""
        return {
            "connection": self.connection,
            "dialect": self.dialect,
            "sql": self.sql,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "row_count": len(self.rows),
            "truncated": self.cut is not None,
            "cut": self.cut,
            "notes": list(self.notes),
            "open": [dict(each) for each in self.open],
        }


def run_sql(
    layout: Layout,
    config: KtxConfig,
    sql: str,
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    max_rows: int = DEFAULT_ROWS,
    max_bytes: int = DEFAULT_BYTES,
    opener: Opener = open_connection,
    formats: bool = False,
    model: Model | None = None,
    effects: bool = True,
    check: Check = check_nothing,
) -> SqlAnswer:
    """Run one statement from a person or an agent on a connection, on the only database, or on several (`FEDERATED`).

    `model` is its semantic layer, if already loaded. `effects` allows values of open decisions in notes. `check` may
    refuse the statement that a statement on several databases needs on one of them. Raises
    `UsageError` for an unknown or ambiguous connection, the `query_policy` or `max_rows`, `StatementRefusedError`
    before the connection opens, `NotSupportedError`, `SecretError`, `ConfigError` and `SourceError`, the latter with
    the code `query` if the first row alone exceeds `max_bytes`.
    """
    if not 1 <= max_rows <= MOST_ROWS:
        raise UsageError(f"the row limit cannot be {max_rows:,}", hint=f"use a number from 1 to {MOST_ROWS:,}")
    chosen = connection or only_database(layout, config)
    decisions = None
    if chosen == FEDERATED:
        dialect = "duckdb"
        checked, found = run_federated(
            layout, config, sql, environ=environ, max_rows=max_rows, opener=opener, check=check
        )
    else:
        guard = ConnectionGuard.of(layout, config, chosen)
        dialect, checked = guard.dialect, guard.check(sql, max_rows=max_rows)
        decisions = _decisions_of(layout, config, chosen, sql, model, values=effects)
        with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
            if dialect_named(dialect).has_several_servers:
                checked = connector.checked(sql, max_rows=max_rows)
            found = connector.send(checked, max_rows=max_rows)
    rows, too_large = json_rows(found.rows, max_bytes)
    if not rows and (too_large or found.truncated):
        raise _too_large(found, max_bytes)
    by_bytes = too_large or (found.truncated and len(found.rows) < max_rows)
    cut: Literal["rows", "bytes"] | None = "bytes" if by_bytes else "rows" if found.truncated else None
    styles = row_formats(found.columns, found.rows) if formats else ()
    answer = SqlAnswer(chosen, dialect, checked.sql, found.columns, rows, cut, checked.explains, styles)
    if decisions is None:
        return answer
    return replace(answer, notes=tuple(decisions.notes(values=effects)), open=tuple(decisions.to_json(values=effects)))


@dataclass(frozen=True, slots=True)
class PreparedPipeline:
    """A pipeline that was checked and not yet sent."""

    connection: str
    collection: str
    checked: CheckedPipeline


@dataclass(frozen=True, slots=True)
class PipelineAnswer:
    """The results of a pipeline as rows of JSON values, with a column for each field at the top level.

    `pipeline` is what was sent, in Extended JSON. `cut` is as in `SqlAnswer`. `counts`: the positions of columns that
    contain only counts of documents.
    """

    connection: str
    collection: str
    pipeline: tuple[Any, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: Literal["rows", "bytes"] | None = None
    formats: tuple[NumberFormat | None, ...] = ()
    counts: frozenset[int] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Return the answer for the envelope."""
        return {
            "connection": self.connection,
            "collection": self.collection,
            "pipeline": list(self.pipeline),
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "row_count": len(self.rows),
            "truncated": self.cut is not None,
            "cut": self.cut,
        }


def prepare_pipeline(
    layout: Layout, config: KtxConfig, collection: str, pipeline: str, connection: str | None = None
) -> PreparedPipeline:
    """Check a pipeline in Extended JSON without opening a connection.

    Raises `UsageError` for a connection that has no pipelines or is ambiguous, or for its `query_policy`,
    `ConfigError` if the driver's package is missing, and `PipelineRefusedError`.
    """
    chosen = connection or _only_with_pipelines(layout, config)
    guard = ConnectionGuard.of(layout, config, chosen)
    driver = config.databases()[chosen].driver
    if not runs_pipelines(driver):
        message = f"connection `{chosen}` ({driver}) has no aggregation pipelines"
        raise UsageError(message, hint=Command("sql", Placeholder('"SELECT ..."'), "-c", chosen))
    guard.policy.require_raw_sql()
    missing = missing_package(driver)
    if missing is not None:
        raise ConfigError(f"driver `{driver}` needs a package that is not installed", hint=missing)
    checked = check_pipeline(parse_pipeline(pipeline, chosen), chosen)
    return PreparedPipeline(chosen, collection, checked)


def run_pipeline(
    layout: Layout,
    config: KtxConfig,
    prepared: PreparedPipeline,
    *,
    environ: Mapping[str, str],
    max_rows: int = DEFAULT_ROWS,
    max_bytes: int = DEFAULT_BYTES,
    opener: Opener = open_connection,
    formats: bool = False,
) -> PipelineAnswer:
    """Run a prepared pipeline. Raises the errors of `run_sql`, and `UsageError` for an invalid row limit."""
    if not 1 <= max_rows <= MOST_ROWS:
        raise UsageError(f"the row limit cannot be {max_rows:,}", hint=f"use a number from 1 to {MOST_ROWS:,}")
    guard = ConnectionGuard.of(layout, config, prepared.connection)
    with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
        found = connector.aggregate(TableRef(None, prepared.collection), prepared.checked.pipeline, max_rows=max_rows)
    rows, too_large = json_rows(found.rows, max_bytes)
    if not rows and (too_large or (found.truncated and not found.rows)):
        hint = "keep fewer fields with $project"
        raise SourceError(f"the first result has over {max_bytes:,} bytes", hint=hint, code="query")
    by_bytes = too_large or (found.truncated and len(found.rows) < max_rows)
    counted = prepared.checked.counted
    return PipelineAnswer(
        prepared.connection,
        prepared.collection,
        tuple(prepared.checked.to_json()),
        found.columns,
        rows,
        "bytes" if by_bytes else "rows" if found.truncated else None,
        row_formats(found.columns, found.rows) if formats else (),
        frozenset(place for place, name in enumerate(found.columns) if name in counted),
    )


def _only_with_pipelines(layout: Layout, config: KtxConfig) -> str:
    known = sorted(name for name, entry in config.databases().items() if runs_pipelines(entry.driver))
    if len(known) == 1:
        return known[0]
    if not known:
        message = "ktx.yaml has no connection with aggregation pipelines"
        raise UsageError(message, hint="use SQL, or add a connection to a document database")
    message = f"{len(known)} connections have aggregation pipelines: {listing(known)}"
    raise UsageError(message, hint=choose_one("connection", known))


def _decisions_of(
    layout: Layout, config: KtxConfig, connection: str, sql: str, model: Model | None, *, values: bool
) -> StatementDecisions | None:
    """Return the decision points that a statement depends on, or None if no scan found any."""
    if not has_points(layout, connection):
        return None
    from ktx_cli.jobs.decide.notes import statement_decisions
    from ktx_cli.semantic import load_layer

    model = load_layer(layout, config, connection) if model is None else model
    return statement_decisions(layout, config, model, sql, values=values)


def _too_large(found: QueryResult, max_bytes: int) -> SourceError:
    """Return the error for a first row that is too large. It names the largest value.

    If the row was too large to read, only its columns are known.
    """
    sizes = [row_size((json_value(value),)) for row in found.rows[:1] for value in row]
    if sizes:
        largest = found.columns[sizes.index(max(sizes))]
        problem = f"over {max_bytes:,} bytes: `{largest}` alone has {max(sizes):,}"
    else:
        largest = found.columns[0]
        problem = f"too large to read: {listing(f'`{column}`' for column in found.columns)}"
    hint = f"shorten the value in the query, for example: substr({quoted(largest)}, 1, 1000)"
    return SourceError(f"the first row is {problem}", hint=hint, code="query")


def only_database(layout: Layout, config: KtxConfig) -> str:
    """Return the id of the only database of the project. Raises `UsageError` if there are none or several."""
    known = sorted(config.databases())
    if len(known) == 1:
        return known[0]
    for entry in () if known else config.disabled().values():
        raise entry.error()
    if not known:
        from ktx_cli.jobs.setup.request import how_to_connect

        raise UsageError("ktx.yaml has no database connection", hint=how_to_connect(layout.root))
    federated = Argument("connection", FEDERATED)
    hint = Hint("{}; or join their tables with {}", choose_one("connection", known), federated)
    raise UsageError(f"there are {len(known)} databases: {listing(known)}", hint=hint)
