"""ClickHouse, over HTTP."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class ClickHouseConnection(Server):
    """A ClickHouse server, over HTTP."""

    needs_one_of = ("url", "host")

    driver: Literal["clickhouse"] = setting(REQUIRED, "ClickHouse.")
    port: Port | None = setting(None, "HTTP port. Defaults to 8443 with TLS, else 8123.", example=8123)
    user: str | None = setting(None, "Alias of `username`.", example="ktx_reader")
    ssl: bool | None = setting(
        None,
        ("Whether to use TLS. Defaults to the URL scheme or port 8443; `false` also allows a password without TLS."),
        example=True,
    )
    reject_unauthorized: bool | None = setting(
        None, "Whether to verify the server's certificate.", alias="rejectUnauthorized", example=True
    )
    ca: str | None = setting(
        None,
        "File with trusted certificates (PEM), relative to the project. Defaults to the system's.",
        path=True,
        example="certs/clickhouse.pem",
    )
    databases: list[str] | None = setting(
        None, "Databases to read. Defaults to `database`, or to all if it is not set.", example=["shop"]
    )
    max_connections: int = setting(10, "Maximum number of concurrent sessions.", alias="maxConnections", gt=0)


WAREHOUSE = Warehouse(
    driver="clickhouse",
    dialect="clickhouse",
    settings=ClickHouseConnection,
    verified="emulator",
    connector="ktx_cli.warehouses.clickhouse.connector:ClickHouseConnector",
    dialect_object="ktx_cli.warehouses.clickhouse.dialect:DIALECT",
    package="clickhouse_connect",
    requirement="ktx-cli[clickhouse]",
    schemes=("https", "http", "clickhouse", "clickhouses"),
    takes_url=True,
    questions=server_questions("8123", required=False),
)
