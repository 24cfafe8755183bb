"""SQLite."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.registry import Signature, Warehouse


class SqliteConnection(Database):
    """A SQLite file."""

    needs_one_of = ("path", "url")

    driver: Literal["sqlite"] = setting(REQUIRED, "SQLite.")
    path: str | None = setting(
        None,
        "Path of the database file, relative to the project folder; `~` is expanded.",
        path=True,
        example="data/shop.sqlite",
    )
    url: str | None = setting(
        None,
        "Alternative to `path`: `sqlite:///PATH` or a `file:` URI.",
        path=True,
        example="sqlite:///data/shop.sqlite",
    )


WAREHOUSE = Warehouse(
    driver="sqlite",
    dialect="sqlite",
    settings=SqliteConnection,
    connector="ktx_cli.warehouses.sqlite.connector:SqliteConnector",
    dialect_object="ktx_cli.warehouses.sqlite.dialect:DIALECT",
    verified="real",
    schemes=("sqlite", "file"),
    location="file",
    signature=Signature(b"SQLite format 3\0", "SQLite"),
    questions=(Question("path", required=True, text="Database file, relative to the project"),),
)
