"""Values that were seen in the columns of a source, for agents of projects that let them go to a model."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.context.scan.profiling.dictionary import ColumnValues
from ktx_cli.context.scan.profiling.store import load_lists
from ktx_cli.context.search.values import is_of
from ktx_cli.context.semantic.model import Source

MOST: Final = 5
"""Values an agent sees of a column, the most frequent ones."""


class Samples:
    """The value lists of the last scans; those of a connection are read when they are first asked for."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._lists: dict[str, dict[str, list[ColumnValues]]] = {}

    def __call__(self, connection: str, source: Source) -> Mapping[str, tuple[Any, ...]]:
        """Return column -> values; a column without a list is not among them."""
        if source.table is None:
            return {}
        return {
            column.name: tuple(value for value, _ in listed.values[:MOST])
            for listed in self._of(connection).get(source.table[-1].casefold(), ())
            if is_of(source, listed.ref)
            and (column := source.column(listed.column)) is not None
            and column.expr is None
            and listed.values
        }

    def _of(self, connection: str) -> Mapping[str, list[ColumnValues]]:
        if connection not in self._lists:
            found: dict[str, list[ColumnValues]] = {}
            for each in load_lists(self._database, connection):
                found.setdefault(each.ref.name.casefold(), []).append(each)
            self._lists[connection] = found
        return self._lists[connection]
