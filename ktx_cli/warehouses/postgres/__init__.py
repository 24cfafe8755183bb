"""PostgreSQL."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class PostgresConnection(Server):
    """A PostgreSQL server."""

    needs_one_of = ("url", "host")

    driver: Literal["postgres"] = setting(REQUIRED, "PostgreSQL.")
    port: Port | None = setting(None, "Port. Defaults to 5432.", example=5432)
    user: str | None = setting(None, "Alias of `username`.", example="ktx_reader")
    schemas: list[str] | None = setting(
        None, "Schemas to read. Defaults to all except system schemas.", example=["mart"]
    )
    schema_: str | None = setting(None, "A single schema to read.", alias="schema", example="mart")
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify"] | None = setting(
        None,
        "TLS mode as in libpq; `no-verify` is the same as `require`. Defaults to the server's and libpq's choice.",
        example="verify-full",
    )
    ssl: bool | None = setting(None, "Whether to use TLS, if `sslmode` is not set.", example=True)
    reject_unauthorized: bool | None = setting(
        None, "Whether to verify the server's certificate.", alias="rejectUnauthorized", example=True
    )
    max_connections: int = setting(10, "Maximum number of concurrent sessions.", alias="maxConnections", gt=0)


WAREHOUSE = Warehouse(
    driver="postgres",
    system="postgresql",
    dialect="postgres",
    settings=PostgresConnection,
    connector="ktx_cli.warehouses.postgres.connector:PostgresConnector",
    dialect_object="ktx_cli.warehouses.postgres.dialect:DIALECT",
    package="psycopg",
    requirement="ktx-cli[postgres]",
    verified="real",
    schemes=("postgresql", "postgres"),
    takes_url=True,
    variables={
        "host": "PGHOST",
        "port": "PGPORT",
        "database": "PGDATABASE",
        "username": "PGUSER",
        "password": "PGPASSWORD",
        "sslmode": "PGSSLMODE",
    },
    variables_needed=("host",),
    questions=server_questions("5432"),
)
