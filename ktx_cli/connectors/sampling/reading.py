"""Reads the sample of one table, and finds out which column is to blame when the database refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktx_cli.connectors.base import reason
from ktx_cli.connectors.identifiers import table_path
from ktx_cli.connectors.port import Column, Connector, Table
from ktx_cli.connectors.sampling.model import Sample, SampleLimits, SampleMethod
from ktx_cli.connectors.sampling.statements import (
    RowRange,
    head,
    is_opaque,
    numbered,
    spread,
    stretches,
)
from ktx_cli.core.errors import SourceError

FIRST_ROWS = 1000
"""How many rows are read to begin with: most tables are smaller, and they tell how wide a row is."""

_EXACT_COUNTS = frozenset({"duckdb", "snowflake", "bigquery", "clickhouse"})
"""Dialects whose catalog knows how many rows a table has, not only about how many."""


def read_sample(connector: Connector, table: Table, limits: SampleLimits, *, seed: int = 0) -> Sample:
    """Return at most `limits.rows` rows of a table, and fewer where their values would take more than `limits.bytes`.

    A column the database cannot give costs only itself. Raises `SourceError` when the table cannot be read at all.
    """
    return _Reading(connector, table, limits, seed).read()


@dataclass(slots=True)
class _Reading:
    connector: Connector
    table: Table
    limits: SampleLimits
    seed: int
    statements: int = 0

    def read(self) -> Sample:
        columns = list(self.table.columns)
        try:
            return self._rows(columns)
        except SourceError as error:
            if error.code not in ("query", "read_only", "timeout") or len(columns) < 2:
                raise
            good, failed = self._isolated(columns, error)
        return replace(self._rows(good), failed=failed, statements=self.statements)

    def _rows(self, columns: Sequence[Column]) -> Sample:
        first = min(FIRST_ROWS, self.limits.rows)
        rows = self._ask(head(self.table, columns, self.connector.dialect, self.limits.text, first + 1), first + 1)
        if len(rows) <= first:
            return self._sample(columns, rows, SampleMethod.ALL, len(rows), exact=True)
        wanted, cut = self._affordable(rows)
        if wanted <= first and not cut:
            return self._larger(columns, first, cut)
        return self._larger(columns, wanted, cut)

    def _larger(self, columns: Sequence[Column], wanted: int, cut: bool) -> Sample:
        """Return `wanted` rows of a table that has more than the first ones."""
        count, exact = self._count(wanted)
        dialect, text = self.connector.dialect, self.limits.text
        if count is not None and count <= wanted:
            rows = self._ask(head(self.table, columns, dialect, text, wanted + 1), wanted + 1)
            if len(rows) <= wanted:
                return self._sample(columns, rows, SampleMethod.ALL, len(rows), exact=True)
            return self._sample(columns, rows[:wanted], SampleMethod.HEAD, None, exact=False, cut=cut)
        rows, method = self._spread(columns, wanted, count)
        return self._sample(columns, rows, method, count, exact=exact, cut=cut)

    def _spread(self, columns: Sequence[Column], wanted: int, count: int | None) -> tuple[list[Any], SampleMethod]:
        dialect, text = self.connector.dialect, self.limits.text
        number = numbered(self.table, dialect)
        within = None if number is None else self._range(number)
        if within is not None:
            blocks = stretches(self.table, columns, dialect, text, wanted, within=within, seed=self.seed)
            rows = self._ask(blocks, wanted)
            if len(rows) >= wanted // 2:
                return rows, SampleMethod.BLOCKS
        own = (
            spread(self.table, columns, dialect, text, wanted, rows=count, seed=self.seed)
            if count is not None
            else None
        )
        if own is not None:
            rows = self._ask(own[0], wanted)
            if len(rows) >= wanted // 4:
                return rows, own[1]
        return self._ask(head(self.table, columns, dialect, text, wanted), wanted), SampleMethod.HEAD

    def _range(self, number: str) -> RowRange | None:
        path = table_path(self.table.ref, self.connector.dialect)
        try:
            ((low, high),) = self._ask(f"SELECT min({number}), max({number}) FROM {path}", 1)
        except SourceError as error:
            if error.code != "query":  # a table without row numbers
                raise
            return None
        return None if low is None else RowRange(number, int(low), int(high))

    def _count(self, wanted: int) -> tuple[int | None, bool]:
        """Return the number of rows, and whether it is exact: the catalog's where that is good enough."""
        known = self.table.row_estimate
        exact = self.connector.dialect in _EXACT_COUNTS and self.table.ref.schema is not None
        if known is not None and known > wanted:
            return known, exact
        try:
            ((count,),) = self._ask(f"SELECT count(*) FROM {table_path(self.table.ref, self.connector.dialect)}", 1)
        except SourceError as error:
            if error.code != "timeout":
                raise
            return known, False
        return int(count), True

    def _affordable(self, rows: Sequence[Sequence[Any]]) -> tuple[int, bool]:
        """Return how many rows fit into the limit on bytes, seen from the first ones, and whether it is what limits."""
        probe = rows[:: max(1, len(rows) // 200)]
        width = sum(_size(value) for row in probe for value in row) / len(probe)
        fitting = max(100, int(self.limits.bytes / max(width, 1.0)))
        return min(fitting, self.limits.rows), fitting < self.limits.rows

    def _isolated(self, columns: list[Column], error: SourceError) -> tuple[list[Column], dict[str, str]]:
        """Return the columns that can be read, and why the others cannot: halves of the table are tried alone."""
        if len(columns) == 1:
            return [], {columns[0].name: reason(error.message)}
        good: list[Column] = []
        failed: dict[str, str] = {}
        middle = len(columns) // 2
        for half in (columns[:middle], columns[middle:]):
            try:
                self._ask(head(self.table, half, self.connector.dialect, self.limits.text, FIRST_ROWS), FIRST_ROWS)
                good += half
            except SourceError as problem:
                if problem.code not in ("query", "read_only", "timeout"):
                    raise
                within, bad = self._isolated(half, problem)
                good += within
                failed |= bad
        return good, failed

    def _ask(self, statement: str, rows: int) -> list[tuple[Any, ...]]:
        self.statements += 1
        return list(self.connector.query(statement, max_rows=rows).rows)

    def _sample(
        self,
        columns: Sequence[Column],
        rows: list[tuple[Any, ...]],
        method: SampleMethod,
        count: int | None,
        *,
        exact: bool,
        cut: bool = False,
    ) -> Sample:
        plain = [each.name for each in columns if not is_opaque(each)]
        opaque = [each.name for each in columns if is_opaque(each)]
        lists = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in (*plain, *opaque)]
        return Sample(
            columns=tuple(plain),
            values=tuple(lists[: len(plain)]),
            rows=len(rows),
            method=method,
            row_count=count,
            exact_count=exact,
            opaque={name: [bool(each) for each in lists[len(plain) + at]] for at, name in enumerate(opaque)},
            statements=self.statements,
            cut_by_bytes=cut,
        )


def _size(value: Any) -> int:
    return len(value) + 50 if isinstance(value, str | bytes) else 32
