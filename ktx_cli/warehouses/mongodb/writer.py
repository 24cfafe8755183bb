"""Writes documents to tables of the in-memory DuckDB that answers SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import monotonic
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.mongodb.documents import (
    NUMBERS,
    Field,
    InexactError,
    MixedError,
    TableShape,
    converter,
    fits_double,
    number_kind,
    number_type,
    number_value,
)
from ktx_cli.warehouses.port import TableRef
from ktx_cli.warehouses.worker.session import Session

_BATCH_ROWS: Final = 20_000
_BATCH_BYTES: Final = 4 * 1024 * 1024
_SAME: Final = "{}"
_CASTS: Final[Mapping[str, tuple[str, str]]] = {
    "BIGINT": ("BIGINT", _SAME),
    "DOUBLE": ("DOUBLE", _SAME),
    "BOOLEAN": ("BOOLEAN", _SAME),
    "VARCHAR": ("VARCHAR", _SAME),
    "JSON": ("VARCHAR", "{}::JSON"),
    "BLOB": ("VARCHAR", "system.main.from_base64({})"),
    "TIMESTAMP": ("BIGINT", "system.main.make_timestamp({})"),
}
"""The type of a column's values in the JSON text that DuckDB receives, and the expression that converts them."""


@dataclass(slots=True)
class TableWriter:
    """Writes documents to a table of DuckDB in batches, as JSON text in a parameter.

    `rows` and `bytes` are those of the batch, `written` the rows before it. `last`: the column of the last value.
    Numbers get the type that all values need; all other types are the sample's. `exact`: whether numbers may not be
    rounded to doubles.
    """

    session: Session
    deadline: float
    ref: TableRef
    shape: TableShape
    rows: int = 0
    bytes: int = 0
    written: int = 0
    last: Field | None = None
    exact: bool = True
    _values: list[list[Any]] = field(default_factory=list)
    _types: list[str] = field(default_factory=list)
    _kinds: list[set[str]] = field(default_factory=list)
    _scales: list[int] = field(default_factory=list)
    _precise: list[bool] = field(default_factory=list)
    _converters: list[Any] = field(default_factory=list)

    def create(self) -> None:
        """Create the empty table."""
        fields = self.shape.fields
        self._types = [each.native_type for each in fields]
        self._kinds = [set(each.kinds) for each in fields]
        self._scales = [each.scale for each in fields]
        self._precise = [False] * len(fields)
        self._converters = [None if self._is_number(each) else converter(each) for each in fields]
        self._values = [[] for _ in fields]
        columns = ", ".join(f"{DIALECT.quote(each.name)} {each.native_type}" for each in fields)
        if self.ref.schema is not None:
            self._execute(f"CREATE SCHEMA IF NOT EXISTS {DIALECT.quote(self.ref.schema)}")
        self._execute(f"CREATE OR REPLACE TABLE {DIALECT.path(self.ref)} ({columns})")

    def expose(self, home: str) -> None:
        """Let statements name a table of the database `home` without it."""
        name = DIALECT.quote(self.ref.name)
        if self.ref.schema == home and home.casefold() != "main":
            self._execute(f"CREATE OR REPLACE VIEW main.{name} AS SELECT * FROM {DIALECT.path(self.ref)}")

    def add(self, document: Mapping[str, Any]) -> None:
        """Add the rows of a document to the batch. Raises `MixedError` and `InexactError`."""
        self.last = None
        for row in self.shape.rows(document):
            for place, value in enumerate(row):
                self.last = self.shape.fields[place]
                convert = self._converters[place]
                if convert is not None:
                    value = convert(value)
                    self.bytes += len(value) if isinstance(value, str) else 8
                elif value is not None:
                    kind, scale = number_kind(value)
                    if kind not in NUMBERS:
                        raise MixedError(kind)
                    self._kinds[place].add(kind)
                    self._scales[place] = max(self._scales[place], scale)
                    self._precise[place] = self._precise[place] or not fits_double(value)
                    if self.exact and self._precise[place] and "double" in self._kinds[place]:
                        raise InexactError
                self._values[place].append(value)
            self.rows += 1
            self.last = None

    @property
    def is_full(self) -> bool:
        """Whether the batch should be written."""
        return self.rows >= _BATCH_ROWS or self.bytes >= _BATCH_BYTES

    def flush(self) -> None:
        """Write the batch."""
        if not self.rows:
            return
        parts: list[str] = []
        kinds: dict[str, list[str]] = {}
        content: dict[str, list[Any]] = {}
        for place, each in enumerate(self.shape.fields):
            values = self._values[place]
            if self._is_number(each):
                self._widen(place, each)
                values = [number_value(value, self._types[place]) for value in values]
            sent, cast = _CASTS.get(self._types[place], ("VARCHAR", f"{{}}::{self._types[place]}"))
            kinds[f"c{place}"], content[f"c{place}"] = [sent], values
            parts.append(cast.format(f"c{place}"))
        # The lists are unnested side by side; a cast around `unnest` would be applied to the list.
        lists = ", ".join(f"unnest(j.c{place}) AS c{place}" for place in range(len(parts)))
        rows = f"SELECT {lists} FROM (SELECT from_json(?::VARCHAR, '{json.dumps(kinds)}') AS j)"
        statement = f"INSERT INTO {DIALECT.path(self.ref)} SELECT {', '.join(parts)} FROM ({rows})"
        self._execute(statement, json.dumps(content))
        self.written += self.rows
        self._values, self.rows, self.bytes = [[] for _ in self.shape.fields], 0, 0

    def _widen(self, place: int, each: Field) -> None:
        wanted = number_type(self._kinds[place], self._scales[place])
        if wanted != self._types[place]:
            column = DIALECT.quote(each.name)
            self._execute(f"ALTER TABLE {DIALECT.path(self.ref)} ALTER COLUMN {column} SET DATA TYPE {wanted}")
            self._types[place] = wanted

    def _is_number(self, each: Field) -> bool:
        return bool(each.kinds) and each.kinds <= NUMBERS

    def _execute(self, sql: str, *parameters: str) -> None:
        self.session.execute(sql, parameters, seconds=max(0.0, self.deadline - monotonic()))
