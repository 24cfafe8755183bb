"""A connector that reads everything but the rows of some tables, whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ktx_cli.connectors.identifiers import table_path
from ktx_cli.connectors.port import ConnectionTest, Connector, DatabaseSchema, QueryResult, Scope, TableRef
from ktx_cli.context.scan.profiling.model import NOT_READ
from ktx_cli.core.errors import SourceError


class SparingConnector:
    """Refuses every statement that names one of the tables as `table_path` writes it, which is how all of a scan do.

    Closing it does not close the connector it stands for.
    """

    def __init__(self, connector: Connector, spared: Iterable[TableRef]) -> None:
        self.dialect = connector.dialect
        self._connector = connector
        self._spared = tuple(table_path(ref, connector.dialect) for ref in spared)

    def test(self, scope: Scope) -> ConnectionTest:
        """Test the connector."""
        return self._connector.test(scope)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the structure, of the spared tables too."""
        return self._connector.introspect(scope)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one statement. Raises `SourceError` with `NOT_READ` for one that names a spared table."""
        if any(path in sql for path in self._spared):
            raise SourceError(NOT_READ, hint="ktx config set scan.views always", code="query")
        return self._connector.query(sql, parameters, max_rows=max_rows)

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> SparingConnector:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
