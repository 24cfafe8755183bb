"""Query tables that ktx read elsewhere, in an in-memory DuckDB in a separate process."""

from __future__ import annotations

import datetime
import json
import math
import struct
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
    uuid.UUID: "UUID",
    dict: "JSON",
}
_IN_LISTS: Final = frozenset({"BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR"})
"""The types of values in lists."""

_SHORT: Final = 9
"""The number of significant digits that a 32-bit number needs at most."""

_NUMBERS: Final = frozenset({"BIGINT", "HUGEINT", "DECIMAL", "DOUBLE"})
_TIMES: Final = frozenset({"DATE", "TIMESTAMP"})
_OTHER, _OTHER_LIST = "other", "other[]"
_LARGEST_SHORT: Final = 3.4028235e38
_AS_THEY_ARE: Final = frozenset({"BOOLEAN", "BIGINT", "DOUBLE", "FLOAT", "VARCHAR", "BLOB"})
"""The types whose values are sent as they are; all others are sent as text."""


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table that was read elsewhere.

    `database`, `schema`, `name`: its place. `columns`: their names and semantic types. `rows`: Python values as drivers
    return them. `also`: other schemas in which a statement names it.
    """

    database: str
    schema: str
    name: str
    columns: tuple[tuple[str, SemanticType], ...]
    rows: Sequence[tuple[Any, ...]]
    also: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The name in SQL."""
        return self.path_in(self.schema)

    def path_in(self, schema: str) -> str:
        """Return the name in SQL in a schema."""
        return ".".join(map(DIALECT.quote, (self.database, schema, self.name)))


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
        places = dict.fromkeys(
            (table.database, schema) for table in self._tables for schema in (table.schema, *table.also)
        )
        databases = dict.fromkeys(database for database, _ in places)
        statements = [f"ATTACH ':memory:' AS {DIALECT.quote(each)}" for each in databases]
        statements += [
            f"CREATE SCHEMA IF NOT EXISTS {DIALECT.quote(database)}.{DIALECT.quote(schema)}"
            for database, schema in places
        ]
        # Every result is in UTC, whatever the zone of this machine is.
        locked = settings.pop("lock_configuration")
        statements += ["SET GLOBAL TimeZone = 'UTC'", f"SET lock_configuration = {locked}"]
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
        for schema in table.also:
            view = f"CREATE VIEW {table.path_in(schema)} AS SELECT * FROM {table.path}"
            session.execute(view, seconds=self.statement_seconds)

    def _kind(self, table: LoadedTable, place: int, name: str, declared: SemanticType) -> str:
        """Return DuckDB's type for the values of a column. Raises `SourceError` for values of several types."""
        kinds = {_kind_of(value) for value in _values(table, place)}
        if not kinds:
            return _WITHOUT_VALUES.get(declared, "VARCHAR")
        if kinds == {"DOUBLE"}:
            return "FLOAT" if _are_short(_values(table, place)) else "DOUBLE"
        if len(kinds) == 1 and not kinds & {"DECIMAL", _OTHER, _OTHER_LIST}:
            return kinds.pop()
        if kinds <= _NUMBERS and "DECIMAL" in kinds and "DOUBLE" not in kinds:
            found = _decimal(_values(table, place))
            if found is not None:
                return found
            raise self._unloaded(table, name, "numbers that DuckDB cannot store exactly")
        if kinds <= {"DOUBLE", "BIGINT"}:
            return "DOUBLE"
        if kinds <= {"HUGEINT", "BIGINT"}:
            return "HUGEINT"
        if kinds <= _TIMES:
            return "TIMESTAMP"
        if kinds & {_OTHER, _OTHER_LIST}:
            what = "lists of values that are not simple" if _OTHER_LIST in kinds else "values such as intervals"
            raise self._unloaded(table, name, what)
        raise self._unloaded(table, name, "values of several types")

    @staticmethod
    def _unloaded(table: LoadedTable, name: str, what: str) -> SourceError:
        message = f"the column `{name}` of `{table.database}.{table.name}` has {what}"
        return SourceError(message, hint="query this database alone, or leave out the column", code="query")


def _values(table: LoadedTable, place: int) -> Iterator[Any]:
    return (row[place] for row in table.rows if row[place] is not None)


def _kind_of(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
    if isinstance(value, Decimal):
        return "DECIMAL"
    if isinstance(value, list | tuple):
        inner = {_kind_of(each) for each in value if each is not None} or {"VARCHAR"}
        return f"{inner.pop()}[]" if len(inner) == 1 and inner <= _IN_LISTS else _OTHER_LIST
    kind = next((kind for each, kind in _KINDS.items() if isinstance(value, each)), _OTHER)
    return "HUGEINT" if kind == "BIGINT" and not -_LONGEST_INTEGER <= value < _LONGEST_INTEGER else kind


def _are_short(values: Iterable[float]) -> bool:
    """Return whether numbers were stored in 32 bits: all fit, and one has more digits than 32 bits can need.

    Otherwise, comparisons such as `= 0.1` would be false for them.
    """
    long = False
    for value in values:
        if math.isfinite(value):
            if abs(value) > _LARGEST_SHORT or struct.unpack("f", struct.pack("f", value))[0] != value:
                return False
            long = long or len(repr(value).replace("-", "").replace(".", "").partition("e")[0].strip("0")) > _SHORT
    return long


def _decimal(values: Iterable[Any]) -> str | None:
    """Return a decimal type that holds all values exactly, or None if there is none."""
    whole, scale = 1, 0
    for value in values:
        number = Decimal(value)
        if not number.is_finite():
            return None
        _, digits, exponent = number.as_tuple()
        scale = max(scale, -int(exponent))
        whole = max(whole, len(digits) + int(exponent))
    return f"DECIMAL({_DIGITS}, {scale})" if whole + scale <= _DIGITS else None


def _list_of(kind: str) -> str:
    """Return the expression for a parameter that contains a list of values."""
    if kind.endswith("[]"):
        return f"list_transform(?::VARCHAR[], lambda x: from_json(x::JSON, '[\"{kind[:-2]}\"]'))"
    return f"?::{kind}[]" if kind in _AS_THEY_ARE else f"?::VARCHAR[]::{kind}[]"


def _sent(kind: str) -> Callable[[Any], Any]:
    """Return the function that prepares values of a type for `_list_of`."""
    if kind in ("DOUBLE", "FLOAT"):
        return float
    if kind == "BLOB":
        return bytes
    if kind in _AS_THEY_ARE and kind != "VARCHAR":
        return lambda value: value
    if kind == "JSON" or kind.endswith("[]"):
        return lambda value: json.dumps(value, default=str, ensure_ascii=False)
    if kind in ("TIMESTAMP", "TIMESTAMPTZ", "DATE", "TIME"):
        return lambda value: value.isoformat()
    return str
