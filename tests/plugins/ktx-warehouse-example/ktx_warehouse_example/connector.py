"""Reads quackbase files through DuckDB."""

from dataclasses import replace

from ktx_cli.warehouses import ConnectionSpec, ConnectionTest, DatabaseSchema, ForwardingConnector, Scope
from ktx_cli.warehouses.duckdb.connector import DuckDbConnector


class QuackbaseConnector(ForwardingConnector):
    """One read-only session on a quackbase file."""

    def __init__(self, spec: ConnectionSpec) -> None:
        super().__init__(DuckDbConnector(spec))
        self.dialect = "quackbase"
        self._pond = spec.options.get("pond")

    def test(self, scope: Scope) -> ConnectionTest:
        """Connect, make one round trip, and count the relations in scope."""
        return super().test(self._within(scope))

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the structure of all relations in scope."""
        return super().introspect(self._within(scope))

    def _within(self, scope: Scope) -> Scope:
        return replace(scope, schemas=(self._pond,)) if self._pond and scope.schemas is None else scope
