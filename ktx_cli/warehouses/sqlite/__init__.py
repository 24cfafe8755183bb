"""SQLite."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Signature, Warehouse

WAREHOUSE = Warehouse(
    driver="sqlite",
    dialect="sqlite",
    settings="ktx_cli.warehouses.sqlite.settings:SqliteConnection",
    connector="ktx_cli.warehouses.sqlite.connector:SqliteConnector",
    schemes=("sqlite", "file"),
    location="file",
    signature=Signature(b"SQLite format 3\0", "SQLite"),
    questions=(Question("path", required=True),),
)
