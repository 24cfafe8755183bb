"""Runs one SQL statement of a person or an agent on a database, behind the guard."""

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
"""How many rows an answer has at most, unless it is asked for more."""

MOST_ROWS: Final = 100_000
"""How many rows can be asked for."""


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The rows of a statement, their values as JSON takes them.

    `sql` is what was sent. `cut`: whether rows were left out because there were too many (`rows`) or because they were
    too large (`bytes`); None when the answer is whole. `explains`: whether the rows are a plan. `formats`: how the
    numbers of each column are printed, where that was asked for. `open`: the open decisions that the statement depends
    on, `notes` these and the decisions that it may not follow, in a sentence each.
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
        """Return the answer as it stands in the envelope."""
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
    """Run one statement of a person or an agent on a connection (the only database when it is None).

    `model`: its semantic layer, where somebody has read it. `effects`: whether values of open decisions may be named.
    Raises `UsageError` (no such connection, which of several, `query_policy`, `max_rows`), `StatementRefusedError`
    before the connection is opened, `NotSupportedError`, `SecretError`, `ConfigError` or `SourceError`; the last too
    (code `query`) where the first row alone is larger than `max_bytes`.
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
    """Return the decision points that a statement depends on; None where no scan found any."""
    if not has_points(layout, connection):
        return None
    from ktx_cli.jobs.decide.notes import statement_decisions
    from ktx_cli.semantic import load_layer

    model = load_layer(layout, config, connection) if model is None else model
    return statement_decisions(layout, config, model, sql, values=values)


def _too_large(found: QueryResult, max_bytes: int) -> SourceError:
    """Return the error for a first row that does not fit, which names its largest value.

    Of a row that was too large to be read at all the columns are known, and no value.
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
    """Return the id of the project's database; `UsageError` when there is none or more than one."""
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
