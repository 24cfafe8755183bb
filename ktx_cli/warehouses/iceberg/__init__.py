"""Apache Iceberg tables, read through pyiceberg and DuckDB."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.lake.settings import require_references
from ktx_cli.warehouses.registry import Warehouse


class IcebergConnection(Database):
    """Apache Iceberg tables in a catalog or in a folder."""

    needs_one_of = ("path", "catalog")

    driver: Literal["iceberg"] = setting(REQUIRED, "Apache Iceberg tables.")
    path: str | None = setting(
        None,
        "Path of a folder of tables without a catalog, relative to the project folder; `~` is expanded.",
        path=True,
        example="data/warehouse",
    )
    catalog: Literal["rest", "glue", "sql", "hive"] | None = setting(None, "Type of the catalog.", example="rest")
    uri: str | None = setting(None, "Address of the catalog.", example="https://catalog.example.com")
    warehouse: str | None = setting(
        None, "Warehouse to read from the catalog: a name or a location.", path=True, example="s3://lake/warehouse"
    )
    catalog_name: str | None = setting(
        None, "Name of the catalog, by which SQL catalogs store their tables. Defaults to `default`.", example="lake"
    )
    credential: str | None = setting(
        None,
        "Client credential for a REST catalog, `client_id:client_secret`.",
        secret=True,
        example="env:ICEBERG_CREDENTIAL",
    )
    token: str | None = setting(None, "Bearer token for a REST catalog.", secret=True, example="env:ICEBERG_TOKEN")
    properties: dict[str, Any] = setting(
        {}, "Other properties of pyiceberg for the catalog and its store.", example={"s3.region": "eu-central-1"}
    )
    secrets: dict[str, Any] = setting(
        {},
        "Secret properties of pyiceberg, such as access keys.",
        secret=True,
        example={"s3.secret-access-key": "env:AWS_SECRET_ACCESS_KEY"},
    )
    schemas: list[str] | None = setting(None, "Namespaces to read. Defaults to all.", example=["mart"])

    @model_validator(mode="after")
    def _has_no_plaintext_secrets(self) -> IcebergConnection:
        require_references(self.properties, "properties", "secrets")
        return self


WAREHOUSE = Warehouse(
    driver="iceberg",
    dialect="duckdb",
    settings=IcebergConnection,
    connector="ktx_cli.warehouses.iceberg.connector:IcebergConnector",
    package="pyiceberg",
    requirement="ktx-cli[iceberg]",
    verified="real",
    location="folder",
    table_mark="metadata/*.metadata.json",
    catalog_mark=b"iceberg_tables",
    questions=(
        Question("path", text="Folder of tables without a catalog, relative to the project"),
        Question("catalog", text="Type of the catalog (rest, glue, sql or hive), unless you gave a folder"),
        Question("uri", key="uri", text="Address of the catalog"),
        Question("warehouse", text="Warehouse to read from the catalog"),
        Question("credential", key="credential", text="Client credential, client_id:client_secret", secret=True),
        Question("token", text="Bearer token"),
    ),
)
