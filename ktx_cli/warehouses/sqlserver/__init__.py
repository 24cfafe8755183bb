"""Microsoft SQL Server and Azure SQL."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class SqlServerConnection(Server):
    """A Microsoft SQL Server or an Azure SQL database."""

    needs_one_of = ("url", "host")

    driver: Literal["sqlserver"] = setting(REQUIRED, "Microsoft SQL Server.")
    port: Port | None = setting(None, "Port. Defaults to 1433.", example=1433)
    user: str | None = setting(None, "Alias of `username`.", example="ktx_reader")
    schemas: list[str] | None = setting(None, "Schemas to read. Defaults to `dbo`.", example=["dbo"])
    schema_: str | None = setting(None, "A single schema to read.", alias="schema", example="dbo")
    encrypt: bool = setting(True, "Whether to use TLS. Defaults to the server's choice.")
    trust_server_certificate: bool = setting(
        False, "Whether to trust the server's certificate without verification.", alias="trustServerCertificate"
    )
    ca: str | None = setting(
        None,
        "File with trusted certificates (PEM), relative to the project. Defaults to the system's.",
        path=True,
        example="certs/sqlserver.pem",
    )
    max_connections: int = setting(10, "Maximum number of concurrent sessions.", alias="maxConnections", gt=0)


WAREHOUSE = Warehouse(
    driver="sqlserver",
    system="microsoft.sql_server",
    dialect="tsql",
    settings=SqlServerConnection,
    connector="ktx_cli.warehouses.sqlserver.connector:SqlServerConnector",
    dialect_object="ktx_cli.warehouses.sqlserver.dialect:DIALECT",
    package="pymssql",
    requirement="ktx-cli[sqlserver]",
    schemes=("mssql", "sqlserver"),
    takes_url=True,
    questions=server_questions("1433"),
)
