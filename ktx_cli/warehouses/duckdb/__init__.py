"""DuckDB."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Signature, Warehouse

WAREHOUSE = Warehouse(
    driver="duckdb",
    dialect="duckdb",
    settings="ktx_cli.warehouses.duckdb.settings:DuckDbConnection",
    connector="ktx_cli.warehouses.duckdb.connector:DuckDbConnector",
    schemes=("duckdb", "file"),
    location="file",
    signature=Signature(b"DUCK", "DuckDB", offset=8),
    questions=(Question("path", required=True),),
)
