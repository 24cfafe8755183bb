"""Trino."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="trino",
    dialect="trino",
    settings="ktx_cli.warehouses.trino.settings:TrinoConnection",
    connector="ktx_cli.warehouses.trino.connector:TrinoConnector",
    package="trino",
    requirement="ktx-cli[trino]",
    schemes=("trino", "https", "http"),
    questions=(
        Question("host", required=True, default="localhost"),
        Question("port", default="8080"),
        Question("catalog", required=True),
        Question("user", required=True),
        Question("password"),
    ),
)
