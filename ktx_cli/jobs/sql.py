"""One read-only statement on a connection: through the filter, in the read-only session, rows as JSON takes them."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ktx_cli.connectors.base import row_size
from ktx_cli.connectors.guard.check import CheckedStatement
from ktx_cli.connectors.guard.policy import StatementPolicy
from ktx_cli.connectors.guard.servers import EITHER, Server, server_of
from ktx_cli.connectors.guard.unknown import with_hint
from ktx_cli.connectors.guard.written import CHECKED
from ktx_cli.connectors.opening import open_connection
from ktx_cli.connectors.port import Connector, QueryResult
from ktx_cli.connectors.registry import dialect_of
from ktx_cli.connectors.scope import parse_name
from ktx_cli.context.scan.catalog import load_manifest
from ktx_cli.context.scan.profiling.plain import json_value
from ktx_cli.core.errors import ConfigError, SourceError, UsageError
from ktx_cli.core.text import listing
from ktx_cli.project.config import (
    Connection,
    Database,
    KtxConfig,
    connection_of,
    require_supported,
    supported_databases,
)
from ktx_cli.project.layout import Layout

DEFAULT_ROWS: Final = 1000
"""How many rows an answer has at most, unless it is asked for more."""

MOST_ROWS: Final = 100_000
"""How many rows can be asked for."""

DEFAULT_BYTES: Final = 10_000_000
"""About how many bytes of values an answer has at most, unless it is asked for more."""

_SEARCHED: Final = ("postgres", "redshift")
"""The dialects whose sessions look up names without a schema in the system's catalog alone."""


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The rows of a statement, their values as JSON takes them.

    `sql` is what was sent. `cut`: whether rows were left out because there were too many (`rows`) or because they were
    too large (`bytes`); None when the answer is whole. `explains`: whether the rows are a plan.
    """

    connection: str
    dialect: str
    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: Literal["rows", "bytes"] | None = None
    explains: bool = False

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
) -> SqlAnswer:
    """Run one statement of a person or an agent on a connection (the only database when it is None).

    Raises `UsageError` (no such connection, which of several, `query_policy`, `max_rows`), `StatementRefusedError`
    before the connection is opened, `NotSupportedError`, `SecretError`, `ConfigError` or `SourceError`.
    """
    if not 1 <= max_rows <= MOST_ROWS:
        raise UsageError(f"{max_rows:,} rows cannot be asked for", hint=f"from 1 to {MOST_ROWS:,}")
    chosen = connection or only_database(config)
    entry = _database(config, chosen)
    policy = StatementPolicy.of(chosen, entry.model_dump(by_alias=True))
    names = _Names(layout, chosen, entry)
    dialect = dialect_of(entry.driver) or entry.driver
    schema_of = names.schema_of if dialect in _SEARCHED else None

    def checked_for(server: Server | None) -> CheckedStatement:
        return policy.check(sql, dialect, max_rows=max_rows, tables=names, schema_of=schema_of, server=server)

    checked = checked_for(EITHER)
    connector, _ = open_connection(config, chosen, project_dir=layout.root, environ=environ)
    with connector:
        if dialect in CHECKED:
            checked = checked_for(_server(connector))
        found = _found(connector, checked, max_rows, names)
    answer = SqlAnswer(chosen, dialect, checked.sql, checked.columns(found.columns), (), explains=checked.explains)
    return _answer(found, answer, max_rows, max_bytes)


def _server(connector: Connector) -> Server:
    """Return which of the servers of a dialect this is: what is built in depends on it."""
    ((version,),) = connector.query("SELECT VERSION()", max_rows=1).rows
    return server_of(str(version))


def _found(connector: Connector, checked: CheckedStatement, max_rows: int, names: _Names) -> QueryResult:
    try:
        return connector.query(checked.sql, max_rows=max_rows)
    except SourceError as error:
        raise with_hint(error, checked.dialect, names.tables, names.columns) from error


def only_database(config: KtxConfig) -> str:
    """Return the id of the project's database; `UsageError` when there is none or more than one."""
    known = sorted(supported_databases(config))
    if len(known) == 1:
        return known[0]
    if not known:
        hint = "ktx connection add warehouse --driver sqlite --path data.sqlite"
        raise UsageError("there is no database in ktx.yaml to ask", hint=hint)
    raise UsageError(f"there are {len(known)} databases: {listing(known)}", hint=f"choose one: -c {known[0]}")


def _database(config: KtxConfig, connection: str) -> Database:
    entry: Connection = connection_of(config, connection)
    if not isinstance(entry, Database):
        raise UsageError(
            f"connection `{connection}` is no database: its driver is {entry.driver}",
            hint=f"databases: {listing(sorted(supported_databases(config)))}",
        )
    require_supported(connection, entry)
    return entry


class _Names:
    """The names of a connection's tables, from its committed manifest, read when the first is asked for."""

    def __init__(self, layout: Layout, connection: str, entry: Database) -> None:
        self._layout = layout
        self._connection = connection
        single = getattr(entry, "schema_", None)
        self._schemas: list[str] = list(getattr(entry, "schemas", None) or ([single] if single else []))

    @property
    def tables(self) -> list[str]:
        """The names of the tables, without their schemas."""
        return sorted({parts[-1] for parts in self._tables})

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return sorted({str(column["name"]) for entry in self._entries for column in entry.get("columns") or ()})

    def __contains__(self, name: object) -> bool:
        return name in {".".join(parts) for parts in self._tables}

    @functools.cached_property
    def _entries(self) -> list[dict[str, Any]]:
        return list(load_manifest(self._layout, self._connection).tables.values())

    @functools.cached_property
    def _tables(self) -> list[tuple[str, ...]]:
        return [found for entry in self._entries if (found := _parts(entry.get("table")))]

    @functools.cached_property
    def _places(self) -> dict[str, list[str]]:
        """The schemas of every table by its name."""
        places: dict[str, list[str]] = defaultdict(list)
        for parts in self._tables:
            if len(parts) > 1:
                places[parts[-1]].append(parts[-2])
        return places

    def schema_of(self, table: str) -> str | None:
        """Return the schema a table is in: by the manifest, else the connection's own, else `public`.

        None for the system's tables, which sessions find by themselves. `UsageError` where several schemas have it.
        """
        if table.startswith("pg_"):
            return None
        found = self._places.get(table, [])
        wanted = [*self._schemas, "public"]
        if len(found) > 1 and not set(found) & set(wanted):
            raise UsageError(
                f"the table `{table}` is in {len(found)} schemas: {listing(sorted(found))}",
                hint=f"name the schema too: {sorted(found)[0]}.{table}",
            )
        return next((schema for schema in wanted if schema in found), found[0] if found else wanted[0])


def _parts(table: object) -> tuple[str, ...]:
    """Return the parts of a manifest's `table:`; none for one that people wrote wrongly."""
    try:
        return parse_name(table) if isinstance(table, str) else ()
    except ConfigError:
        return ()


def _answer(found: QueryResult, answer: SqlAnswer, max_rows: int, max_bytes: int) -> SqlAnswer:
    rows: list[tuple[Any, ...]] = []
    left = max_bytes
    for row in found.rows:
        values = tuple(json_value(value) for value in row)
        left -= row_size(values)
        if left < 0:
            break
        rows.append(values)
    by_bytes = len(rows) < len(found.rows) or (found.truncated and len(found.rows) < max_rows)
    cut: Literal["rows", "bytes"] | None = "bytes" if by_bytes else "rows" if found.truncated else None
    return replace(answer, rows=tuple(rows), cut=cut)
