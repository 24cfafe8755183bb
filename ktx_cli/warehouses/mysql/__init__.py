"""MySQL and MariaDB."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, Ssl, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class MysqlConnection(Server):
    """A MySQL or MariaDB server."""

    needs_one_of = ("url", "host")

    driver: Literal["mysql"] = setting(REQUIRED, "MySQL or MariaDB.")
    port: Port | None = setting(None, "Port. Without it: 3306.", example=3306)
    user: str | None = setting(None, "Another name of `username`.", example="ktx_reader")
    schemas: list[str] | None = setting(
        None, "Databases of the server to read. Without it: `database` alone.", example=["shop"]
    )
    schema_: str | None = setting(None, "One database of the server to read.", alias="schema", example="shop")
    ssl: Ssl | None = setting(
        None,
        "TLS on or off, or a mapping with the files `ca`, `cert`, `key` and with `rejectUnauthorized`.",
        path=True,
        example=True,
    )
    reject_unauthorized: bool | None = setting(
        None, "Check the server's certificate.", alias="rejectUnauthorized", example=True
    )
    max_connections: int = setting(10, "Most sessions at the same time.", alias="maxConnections", gt=0)


WAREHOUSE = Warehouse(
    driver="mysql",
    dialect="mysql",
    settings=MysqlConnection,
    connector="ktx_cli.warehouses.mysql.connector:MySqlConnector",
    dialect_object="ktx_cli.warehouses.mysql.dialect:DIALECT",
    package="pymysql",
    requirement="ktx-cli[mysql]",
    schemes=("mysql", "mariadb"),
    takes_url=True,
    questions=server_questions("3306"),
)
