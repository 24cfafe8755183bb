"""Trino."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Port, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class TrinoConnection(Database):
    """A Trino coordinator."""

    driver: Literal["trino"] = setting(REQUIRED, "Trino.")
    url: str | None = setting(
        None, "Address, as a secret reference such as env:NAME.", secret=True, example="env:TRINO_URL"
    )
    host: str | None = setting(None, "Host name or address.", example="trino.example.com")
    port: Port | None = setting(None, "Port. Defaults to 443 with TLS, else 8080.", example=443)
    user: str | None = setting(None, "User.", example="ktx_reader")
    password: str | None = setting(None, "Password.", secret=True, example="env:TRINO_PASSWORD")
    catalog: str | None = setting(None, "Catalog.", example="hive")
    schemas: list[str] | None = setting(
        None, "Schemas to read. Defaults to all schemas of the catalog.", example=["mart"]
    )
    ssl: bool | None = setting(None, "TLS.", example=True)


WAREHOUSE = Warehouse(
    driver="trino",
    dialect="trino",
    settings=TrinoConnection,
    connector="ktx_cli.warehouses.trino.connector:TrinoConnector",
    dialect_object="ktx_cli.warehouses.trino.dialect:DIALECT",
    package="trino",
    requirement="ktx-cli[trino]",
    schemes=("trino", "https", "http"),
    questions=server_questions("8080", place="catalog"),
)
