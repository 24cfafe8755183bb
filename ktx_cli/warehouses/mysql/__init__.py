"""MySQL and MariaDB."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, Ssl, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class MysqlConnection(Server):
    """A MySQL or MariaDB server."""

    needs_one_of = ("url", "host")

    driver: Literal["mysql"] = setting(REQUIRED, "MySQL or MariaDB.")
    port: Port | None = setting(None, "Port. Defaults to 3306.", example=3306)
    user: str | None = setting(None, "Alias of `username`.", example="ktx_reader")
    schemas: list[str] | None = setting(
        None, "Databases on the server to read. Defaults to `database`.", example=["shop"]
    )
    schema_: str | None = setting(None, "A single database on the server to read.", alias="schema", example="shop")
    ssl: Ssl | None = setting(
        None,
        "Whether to use TLS, or a mapping with the files `ca`, `cert`, `key` and with `rejectUnauthorized`.",
        path=True,
        example=True,
    )
    reject_unauthorized: bool | None = setting(
        None, "Whether to verify the server's certificate.", alias="rejectUnauthorized", example=True
    )
    max_connections: int = setting(10, "Maximum number of concurrent sessions.", alias="maxConnections", gt=0)


WAREHOUSE = Warehouse(
    driver="mysql",
    dialect="mysql",
    settings=MysqlConnection,
    connector="ktx_cli.warehouses.mysql.connector:MySqlConnector",
    dialect_object="ktx_cli.warehouses.mysql.dialect:DIALECT",
    package="pymysql",
    requirement="ktx-cli[mysql]",
    verified="real",
    schemes=("mysql", "mariadb"),
    takes_url=True,
    questions=server_questions("3306"),
)
