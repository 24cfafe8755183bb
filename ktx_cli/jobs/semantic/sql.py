"""Runs one SQL statement from a person or an agent on a database, through the guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ktx_cli.core import NumberFormat, SourceError, UsageError, json_value, listing, row_formats
from ktx_cli.project import KtxConfig, Layout
from ktx_cli.scan import has_points
from ktx_cli.semantic import DEFAULT_BYTES, ConnectionGuard, json_rows, quoted
from ktx_cli.warehouses import Opener, QueryResult, dialect_named, open_connection, row_size

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
) -> SqlAnswer:
    """Run one statement from a person or an agent on a connection, or on the only database.

    `model` is its semantic layer, if already loaded. `effects` allows values of open decisions in notes. Raises
    `UsageError` for an unknown or ambiguous connection, the `query_policy` or `max_rows`, `StatementRefusedError`
    before the connection opens, `NotSupportedError`, `SecretError`, `ConfigError` and `SourceError`, the latter with
    the code `query` if the first row alone exceeds `max_bytes`.
    """
    if not 1 <= max_rows <= MOST_ROWS:
        raise UsageError(f"the row limit cannot be {max_rows:,}", hint=f"use a number from 1 to {MOST_ROWS:,}")
    chosen = connection or only_database(layout, config)
    guard = ConnectionGuard.of(layout, config, chosen)
    checked = guard.check(sql, max_rows=max_rows)
    decisions = _decisions_of(layout, config, chosen, sql, model, values=effects)
    with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
        if dialect_named(guard.dialect).has_several_servers:
            checked = connector.checked(sql, max_rows=max_rows)
        found = connector.send(checked, max_rows=max_rows)
    rows, too_large = json_rows(found.rows, max_bytes)
    if not rows and (too_large or found.truncated):
        raise _too_large(found, max_bytes)
    by_bytes = too_large or (found.truncated and len(found.rows) < max_rows)
    cut: Literal["rows", "bytes"] | None = "bytes" if by_bytes else "rows" if found.truncated else None
    styles = row_formats(found.columns, found.rows) if formats else ()
    answer = SqlAnswer(chosen, guard.dialect, checked.sql, found.columns, rows, cut, checked.explains, styles)
    if decisions is None:
        return answer
    return replace(answer, notes=tuple(decisions.notes(values=effects)), open=tuple(decisions.to_json(values=effects)))


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
    hint = f"choose one: {listing(f'-c {each}' for each in known)}"
    raise UsageError(f"there are {len(known)} databases: {listing(known)}", hint=hint)
