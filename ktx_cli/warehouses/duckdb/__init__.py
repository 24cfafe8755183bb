"""DuckDB."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.registry import Signature, Warehouse


class DuckDbConnection(Database):
    """A DuckDB file."""

    needs_one_of = ("path", "url")

    driver: Literal["duckdb"] = setting(REQUIRED, "DuckDB.")
    path: str | None = setting(
        None,
        "Path of the database file, relative to the project folder; `~` is expanded.",
        path=True,
        example="data/shop.duckdb",
    )
    url: str | None = setting(
        None, "Alternative to `path`: `duckdb:///PATH`.", path=True, example="duckdb:///data/shop.duckdb"
    )
    schemas: list[str] | None = setting(None, "Schemas to read. Defaults to all.", example=["main"])


WAREHOUSE = Warehouse(
    driver="duckdb",
    dialect="duckdb",
    settings=DuckDbConnection,
    connector="ktx_cli.warehouses.duckdb.connector:DuckDbConnector",
    dialect_object="ktx_cli.warehouses.duckdb.dialect:DIALECT",
    verified="real",
    schemes=("duckdb", "file"),
    location="file",
    signature=Signature(b"DUCK", "DuckDB", offset=8),
    questions=(Question("path", required=True, text="Database file, relative to the project"),),
)
