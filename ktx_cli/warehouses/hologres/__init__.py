"""Hologres."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class HologresConnection(Server):
    """An Alibaba Cloud Hologres instance."""

    needs_one_of = ("url", "host")

    driver: Literal["hologres"] = setting(REQUIRED, "Alibaba Cloud Hologres.")
    port: Port | None = setting(None, "Port. Defaults to 80.", example=80)
    user: str | None = setting(None, "Alias of `username`; the AccessKey ID or a user of the instance.", example="ktx")
    schemas: list[str] | None = setting(
        None, "Schemas to read. Defaults to all except system schemas.", example=["mart"]
    )
    schema_: str | None = setting(None, "A single schema to read.", alias="schema", example="mart")
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify"] | None = setting(
        None, "TLS mode as in libpq; `no-verify` is the same as `require`.", example="require"
    )
    ssl: bool | None = setting(None, "Whether to use TLS, if `sslmode` is not set.", example=True)
    reject_unauthorized: bool | None = setting(
        None, "Whether to verify the server's certificate.", alias="rejectUnauthorized", example=True
    )
    max_connections: int = setting(10, "Maximum number of concurrent sessions.", alias="maxConnections", gt=0)


WAREHOUSE = Warehouse(
    driver="hologres",
    dialect="postgres",
    settings=HologresConnection,
    connector="ktx_cli.warehouses.hologres.connector:HologresConnector",
    package="psycopg",
    requirement="ktx-cli[hologres]",
    schemes=("hologres", "postgresql", "postgres"),
    takes_url=True,
    hosts=(".hologres.aliyuncs.com",),
    questions=server_questions("80", host=""),
)
