"""ClickHouse, over HTTP."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="clickhouse",
    dialect="clickhouse",
    settings="ktx_cli.warehouses.clickhouse.settings:ClickHouseConnection",
    connector="ktx_cli.warehouses.clickhouse.connector:ClickHouseConnector",
    package="clickhouse_connect",
    requirement="ktx-cli[clickhouse]",
    schemes=("https", "http", "clickhouse", "clickhouses"),
    takes_url=True,
    questions=(
        Question("host", required=True, default="localhost"),
        Question("port", default="8123"),
        Question("name"),
        Question("user"),
        Question("password"),
    ),
)
