"""Amazon Redshift."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class RedshiftConnection(Server):
    """An Amazon Redshift cluster or workgroup."""

    needs_one_of = ("url", "host")

    driver: Literal["redshift"] = setting(REQUIRED, "Amazon Redshift.")
    port: Port | None = setting(None, "Port. Defaults to 5439.", example=5439)
    user: str | None = setting(None, "Alias of `username`.", example="ktx_reader")
    schemas: list[str] | None = setting(
        None, "Schemas to read. Defaults to all except system schemas.", example=["mart"]
    )
    schema_: str | None = setting(None, "A single schema to read.", alias="schema", example="mart")
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify"] | None = setting(
        None,
        "TLS mode as in libpq; `no-verify` is the same as `require`. Defaults to `require`.",
        example="verify-full",
    )
    max_connections: int = setting(10, "Maximum number of concurrent sessions.", alias="maxConnections", gt=0)


WAREHOUSE = Warehouse(
    driver="redshift",
    system="aws.redshift",
    dialect="redshift",
    settings=RedshiftConnection,
    connector="ktx_cli.warehouses.redshift.connector:RedshiftConnector",
    dialect_object="ktx_cli.warehouses.redshift.dialect:DIALECT",
    package="psycopg",
    requirement="ktx-cli[redshift]",
    schemes=("redshift", "postgresql", "postgres"),
    takes_url=True,
    hosts=(".redshift.amazonaws.com", ".redshift-serverless.amazonaws.com"),
    questions=server_questions("5439", host=""),
)
