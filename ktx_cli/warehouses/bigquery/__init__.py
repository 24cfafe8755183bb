"""BigQuery."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="bigquery",
    dialect="bigquery",
    settings="ktx_cli.warehouses.bigquery.settings:BigQueryConnection",
    connector="ktx_cli.warehouses.bigquery.connector:BigQueryConnector",
    package="google.cloud.bigquery",
    requirement="ktx-cli[bigquery]",
    schemes=("bigquery",),
    has_history=True,
    questions=(
        Question("project", required=True),
        Question("schema", required=True),
        Question("location"),
        Question("credentials"),
    ),
)
