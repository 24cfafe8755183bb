"""Folders of CSV, TSV, Parquet and JSON files, read by DuckDB."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="files",
    dialect="duckdb",
    settings="ktx_cli.warehouses.files.settings:FilesConnection",
    connector="ktx_cli.warehouses.files.connector:FilesConnector",
    schemes=("file",),
    location="folder",
    questions=(Question("path", required=True),),
)
