"""Folders of CSV, TSV, Parquet and JSON files, read by DuckDB."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.registry import Warehouse


class FilesConnection(Database):
    """A folder of CSV, TSV, Parquet and JSON files; each file is a table."""

    driver: Literal["files"] = setting(REQUIRED, "A folder of data files.")
    path: str = setting(
        REQUIRED,
        "Path of the folder, relative to the project folder; `~` is expanded.",
        path=True,
        example="data/exports",
        min_length=1,
    )


WAREHOUSE = Warehouse(
    driver="files",
    dialect="duckdb",
    settings=FilesConnection,
    connector="ktx_cli.warehouses.files.connector:FilesConnector",
    verified="real",
    schemes=("file",),
    location="folder",
    questions=(Question("path", required=True, text="Folder of data files, relative to the project"),),
)
