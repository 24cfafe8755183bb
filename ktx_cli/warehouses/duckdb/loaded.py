"""Query tables that ktx read elsewhere, in an in-memory DuckDB in a separate process."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ktx_cli.core import SourceError
from ktx_cli.warehouses.duckdb.connector import CLOSED_SETTINGS, DuckDbSession
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.port import ConnectionSpec, ConnectionTest, DatabaseSchema, Scope, SemanticType
from ktx_cli.warehouses.worker.session import Session

_BATCH_ROWS: Final = 20_000
_LONGEST_INTEGER: Final = 2**63
_DIGITS: Final = 38
_WITHOUT_VALUES: Final[Mapping[SemanticType, str]] = {
    SemanticType.NUMBER: "DOUBLE",
    SemanticType.BOOLEAN: "BOOLEAN",
    SemanticType.TIME: "TIMESTAMP",
}
_KINDS: Final[Mapping[type, str]] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BLOB",
    bytearray: "BLOB",
    memoryview: "BLOB",
    datetime.date: "DATE",
    datetime.time: "TIME",
    datetime.timedelta: "INTERVAL",
    uuid.UUID: "UUID",
    list: "JSON",
    tuple: "JSON",
    dict: "JSON",
}
_NUMBERS: Final = frozenset({"BIGINT", "HUGEINT", "DECIMAL", "DOUBLE"})
_TIMES: Final = frozenset({"DATE", "TIMESTAMP"})
_AS_THEY_ARE: Final = frozenset({"BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "BLOB"})
"""The types whose values are sent as they are; all others are sent as text."""


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table that was read elsewhere.

    `database`, `schema`, `name`: its place. `columns`: their names and semantic types. `rows`: Python values as drivers
    return them.
    """

    database: str
    schema: str
    name: str
    columns: tuple[tuple[str, SemanticType], ...]
    rows: Sequence[tuple[Any, ...]]

    @property
    def path(self) -> str:
        """The name in SQL."""
        return ".".join(map(DIALECT.quote, (self.database, self.schema, self.name)))


class LoadedTables(DuckDbSession):
    """A session on tables that were read elsewhere. It runs one read-only statement at a time."""

    def __init__(self, spec: ConnectionSpec, tables: Iterable[LoadedTable]) -> None:
        super().__init__(spec, "in memory")
        self._tables = tuple(tables)
        self._connection = Session("duckdb", f"tables {spec.id}", self._settings, self._load)
        self._opened_session()

    def test(self, scope: Scope) -> ConnectionTest:
        """Return the number of tables."""
        return ConnectionTest(0.0, f"DuckDB {self._opened_session().version}", len(self._tables), False)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Return no table: their structure is known where they were read."""
        return DatabaseSchema((), (), f"DuckDB {self._opened_session().version}")

    def _settings(self) -> Mapping[str, Any]:
        settings: dict[str, Any] = dict(CLOSED_SETTINGS)
        places = dict.fromkeys((table.database, table.schema) for table in self._tables)
        databases = dict.fromkeys(database for database, _ in places)
        statements = [f"ATTACH ':memory:' AS {DIALECT.quote(each)}" for each in databases]
        statements += [
            f"CREATE SCHEMA IF NOT EXISTS {DIALECT.quote(database)}.{DIALECT.quote(schema)}"
            for database, schema in places
        ]
        opening: list[tuple[str, list[Any]]] = [(statement, []) for statement in statements]
        return {"path": ":memory:", "read_only": False, "config": settings, "statements": opening}

    def _load(self, session: Session) -> None:
        """Create and fill the tables in a new process."""
        for table in self._tables:
            self._create(session, table)

    def _create(self, session: Session, table: LoadedTable) -> None:
        kinds = [self._kind(table, place, name, declared) for place, (name, declared) in enumerate(table.columns)]
        columns = ", ".join(
            f"{DIALECT.quote(name)} {kind}" for (name, _), kind in zip(table.columns, kinds, strict=True)
        )
        session.execute(f"CREATE TABLE {table.path} ({columns})", seconds=self.statement_seconds)
        values = ", ".join(f"unnest({_list_of(kind)})" for kind in kinds)
        for start in range(0, len(table.rows), _BATCH_ROWS):
            batch = table.rows[start : start + _BATCH_ROWS]
            lists = [
                [None if row[place] is None else _sent(kind)(row[place]) for row in batch]
                for place, kind in enumerate(kinds)
            ]
            session.execute(f"INSERT INTO {table.path} SELECT {values}", lists, seconds=self.statement_seconds)

    def _kind(self, table: LoadedTable, place: int, name: str, declared: SemanticType) -> str:
        """Return DuckDB's type for the values of a column. Raises `SourceError` for values of several types."""
        kinds = {_kind_of(value) for value in _values(table, place)}
        if not kinds:
            return _WITHOUT_VALUES.get(declared, "VARCHAR")
        if len(kinds) == 1 and "DECIMAL" not in kinds:
            return kinds.pop()
        if "DOUBLE" in kinds and kinds <= _NUMBERS:
            return "DOUBLE"
        if kinds <= _NUMBERS and "DECIMAL" in kinds:
            return _decimal(_values(table, place))
        if kinds <= _NUMBERS:
            return "HUGEINT"
        if kinds <= _TIMES:
            return "TIMESTAMP"
        message = f"the column `{name}` of `{table.database}.{table.name}` has values of several types"
        raise SourceError(message, hint="query this database alone, and cast the column", code="query")


def _values(table: LoadedTable, place: int) -> Iterator[Any]:
    return (row[place] for row in table.rows if row[place] is not None)


def _kind_of(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
    if isinstance(value, Decimal):
        return "DECIMAL" if value.is_finite() else "DOUBLE"
    kind = _KINDS.get(type(value)) or next(
        (kind for each, kind in _KINDS.items() if isinstance(value, each)), "VARCHAR"
    )
    return "HUGEINT" if kind == "BIGINT" and not -_LONGEST_INTEGER <= value < _LONGEST_INTEGER else kind


def _decimal(values: Iterable[Any]) -> str:
    """Return a decimal type that holds all values exactly, or DOUBLE if there is none."""
    whole, scale = 1, 0
    for value in values:
        number = Decimal(value)
        _, digits, exponent = number.as_tuple()
        scale = max(scale, -int(exponent))
        whole = max(whole, len(digits) + int(exponent))
    return f"DECIMAL({_DIGITS}, {scale})" if whole + scale <= _DIGITS else "DOUBLE"


def _list_of(kind: str) -> str:
    """Return the expression for a parameter that contains a list of values."""
    return f"?::{kind}[]" if kind in _AS_THEY_ARE else f"?::VARCHAR[]::{kind}[]"


def _sent(kind: str) -> Callable[[Any], Any]:
    """Return the function that prepares values of a type for `_list_of`."""
    if kind == "DOUBLE":
        return float
    if kind == "BLOB":
        return bytes
    if kind in _AS_THEY_ARE and kind != "VARCHAR":
        return lambda value: value
    if kind == "JSON":
        return lambda value: json.dumps(value, default=str, ensure_ascii=False)
    if kind in ("TIMESTAMP", "TIMESTAMPTZ", "DATE", "TIME"):
        return lambda value: value.isoformat()
    if kind == "INTERVAL":
        return lambda value: f"{value.total_seconds()} seconds"
    return str
