"""Databricks SQL warehouses."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.registry import Warehouse


class DatabricksConnection(Database):
    """A Databricks SQL warehouse."""

    driver: Literal["databricks"] = setting(REQUIRED, "Databricks.")
    host: str | None = setting(
        None,
        "Host of the workspace, for example adb-123.4.azuredatabricks.net.",
        example="dbc-1234.cloud.databricks.com",
    )
    http_path: str | None = setting(None, "HTTP path of the SQL warehouse.", example="/sql/1.0/warehouses/abc")
    token: str | None = setting(None, "Access token.", secret=True, example="env:DATABRICKS_TOKEN")
    catalog: str | None = setting(None, "Catalog to read.", example="main")
    schemas: list[str] | None = setting(
        None, "Schemas to read. Defaults to all schemas in the catalog.", example=["mart"]
    )


WAREHOUSE = Warehouse(
    driver="databricks",
    dialect="databricks",
    settings=DatabricksConnection,
    connector="ktx_cli.warehouses.databricks.connector:DatabricksConnector",
    dialect_object="ktx_cli.warehouses.databricks.dialect:DIALECT",
    package="databricks.sql",
    requirement="ktx-cli[databricks]",
    variables={"host": "DATABRICKS_SERVER_HOSTNAME", "http_path": "DATABRICKS_HTTP_PATH", "token": "DATABRICKS_TOKEN"},
    variables_needed=("host", "http_path", "token"),
    questions=(
        Question("host", required=True),
        Question("http-path", required=True),
        Question("token", required=True),
        Question("catalog"),
    ),
)
