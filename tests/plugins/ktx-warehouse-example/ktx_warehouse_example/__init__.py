"""quackbase: DuckDB under another name."""

from ktx_cli.project import Question
from ktx_cli.warehouses import Warehouse

WAREHOUSE = Warehouse(
    driver="quackbase",
    dialect="quackbase",
    dialect_object="ktx_warehouse_example.dialect:DIALECT",
    settings="ktx_warehouse_example.settings:QuackbaseConnection",
    connector="ktx_warehouse_example.connector:QuackbaseConnector",
    schemes=("quackbase",),
    location="file",
    questions=(Question("path", required=True), Question("pond", key="pond", text="Schema to read", default="main")),
)
