"""Databricks SQL warehouses."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="databricks",
    dialect="databricks",
    settings="ktx_cli.warehouses.databricks.settings:DatabricksConnection",
    connector="ktx_cli.warehouses.databricks.connector:DatabricksConnector",
    package="databricks.sql",
    requirement="ktx-cli[databricks]",
    variables={
        "host": "DATABRICKS_SERVER_HOSTNAME",
        "http_path": "DATABRICKS_HTTP_PATH",
        "token": "DATABRICKS_TOKEN",
    },
    variables_needed=("host", "http_path", "token"),
    questions=(
        Question("host", required=True),
        Question("http-path", required=True),
        Question("token", required=True),
        Question("catalog"),
    ),
)
