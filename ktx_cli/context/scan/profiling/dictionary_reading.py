"""Reads the values of columns of whole tables: one statement a table, one a column where that one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.connectors.base import ended_its_session, reason
from ktx_cli.connectors.port import Column, Connector, ObjectProblem, Table
from ktx_cli.context.scan.profiling.dictionary_statements import Listing, list_one, list_values
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import SourceError

COLUMNS_AT_ONCE = 40
"""How many columns one statement lists: SQLite takes no union of more than 500 parts, and its rows are as wide."""

Counts = dict[Any, int]
"""Value -> in how many rows it stands."""


@dataclass(slots=True)
class ValueReader:
    """Reads at most `most` values of a column, cut at `text` characters, until `deadline` (`core.clock.monotonic`)."""

    connector: Connector
    most: int
    text: int
    deadline: float
    problems: list[ObjectProblem] = field(default_factory=list)
    statements: int = 0

    def read(self, table: Table, columns: Sequence[Column]) -> dict[str, Counts | None]:
        """Return column -> all its values, None where it has more than `most`; without those that could not be read.

        Raises `SourceError` only when the source is gone.
        """
        found: dict[str, Counts | None] = {}
        for start in range(0, len(columns), COLUMNS_AT_ONCE):
            found |= self._together(table, columns[start : start + COLUMNS_AT_ONCE])
        return found

    def _together(self, table: Table, columns: Sequence[Column]) -> dict[str, Counts | None]:
        if monotonic() > self.deadline:
            return {}
        dialect = self.connector.dialect
        try:
            lists = self._lists(list_values(table, columns, dialect, most=self.most, text=self.text))
        except SourceError as error:
            if error.code not in ("query", "read_only") or ended_its_session(error):
                return self._failed(table, None, error)
            lists = None
        if lists is None:
            return dict(each for column in columns for each in self._alone(table, column))
        return {column.name: self._few(counts) for column, counts in zip(columns, lists, strict=True)}

    def _alone(self, table: Table, column: Column) -> Iterator[tuple[str, Counts | None]]:
        if monotonic() > self.deadline:
            return
        try:
            lists = self._lists(list_one(table, column, self.connector.dialect, most=self.most, text=self.text))
        except SourceError as error:
            self._failed(table, column, error)
        else:
            yield column.name, None if lists is None else self._few(lists[0])

    def _lists(self, listing: Listing) -> list[Counts] | None:
        """Return the values of every column of a statement; None where there were more rows than expected."""
        self.statements += 1
        result = self.connector.query(listing.sql, max_rows=listing.rows + 1)
        if len(result.rows) > listing.rows:
            return None
        lists: list[Counts] = [{} for _ in range(listing.columns)]
        for place, value, count in filter(None, map(listing.read, result.rows)):
            lists[place][value] = lists[place].get(value, 0) + count
        return lists

    def _few(self, counts: Counts) -> Counts | None:
        return counts if len(counts) <= self.most else None

    def _failed(self, table: Table, column: Column | None, error: SourceError) -> dict[str, Counts | None]:
        if error.code == "connection":
            raise error
        what = "values" if column is None else f"values of {column.name}"
        self.problems.append(ObjectProblem(table.ref, what, reason(error.message)))
        return {}
