"""The settings of a connection to databricks."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, setting


class DatabricksConnection(Database):
    """A Databricks SQL warehouse."""

    driver: Literal["databricks"] = setting(REQUIRED, "Databricks.")
    host: str | None = setting(None, "Host of the workspace.", example="dbc-1234.cloud.databricks.com")
    http_path: str | None = setting(None, "HTTP path of the SQL warehouse.", example="/sql/1.0/warehouses/abc")
    token: str | None = setting(None, "Access token.", secret=True, example="env:DATABRICKS_TOKEN")
    catalog: str | None = setting(None, "Catalog.", example="main")
    schemas: list[str] | None = setting(None, "Schemas to read. Without it: all of the catalog.", example=["mart"])
