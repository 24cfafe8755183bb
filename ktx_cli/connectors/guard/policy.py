"""What a connection's settings say about statements of people and agents."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.connectors.guard.check import CheckedStatement, SchemaOf, check
from ktx_cli.connectors.guard.servers import Server
from ktx_cli.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class StatementPolicy:
    """The settings of one connection that decide about raw SQL: `query_policy` and `allowed_functions`."""

    connection: str
    raw_sql: bool = True
    allowed_functions: tuple[str, ...] = ()

    @classmethod
    def of(cls, connection: str, options: Mapping[str, Any]) -> StatementPolicy:
        """Return the policy of a connection's fields, by their names in `ktx.yaml`."""
        raw_sql = options.get("query_policy") != "semantic-layer-only"
        return cls(connection, raw_sql, tuple(options.get("allowed_functions") or ()))

    def require_raw_sql(self) -> None:
        """Raise `UsageError` where the connection answers semantic-layer queries alone."""
        if not self.raw_sql:
            raise UsageError(
                f"connection `{self.connection}` answers no raw SQL: its query_policy is semantic-layer-only",
                hint=f"ktx config set connections.{self.connection}.query_policy any, where raw SQL is wanted",
                details={"connection": self.connection, "query_policy": "semantic-layer-only"},
            )

    def check(
        self,
        sql: str,
        dialect: str,
        *,
        max_rows: int,
        tables: Container[str] = (),
        schema_of: SchemaOf | None = None,
        server: Server | None = None,
    ) -> CheckedStatement:
        """Return the statement that may be sent; raises as `check`, and `UsageError` where raw SQL is not answered."""
        self.require_raw_sql()
        return check(
            sql,
            dialect,
            max_rows=max_rows,
            allowed_functions=self.allowed_functions,
            connection=self.connection,
            tables=tables,
            schema_of=schema_of,
            server=server,
        )
