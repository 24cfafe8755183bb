"""Delta Lake tables, read through deltalake and DuckDB."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.lake.settings import require_references
from ktx_cli.warehouses.registry import Warehouse


class DeltaConnection(Database):
    """Delta Lake tables in a folder or an object store."""

    driver: Literal["delta"] = setting(REQUIRED, "Delta Lake tables.")
    path: str = setting(
        REQUIRED,
        "Path of the folder of tables, relative to the project folder (`~` is expanded), or its URI in a store.",
        path=True,
        example="data/lake",
        min_length=1,
    )
    tables: list[str] | None = setting(
        None,
        "Folders of tables in an object store, relative to `path`. Defaults to the single table at `path`.",
        example=["sales/orders"],
    )
    storage_options: dict[str, Any] = setting(
        {}, "Options of deltalake for the object store.", example={"AWS_REGION": "eu-central-1"}
    )
    storage_secrets: dict[str, Any] = setting(
        {},
        "Secret options of deltalake, such as access keys.",
        secret=True,
        example={"AWS_SECRET_ACCESS_KEY": "env:AWS_SECRET_ACCESS_KEY"},
    )
    schemas: list[str] | None = setting(None, "Schemas (folders of tables) to read. Defaults to all.", example=["mart"])

    @model_validator(mode="after")
    def _has_no_plaintext_secrets(self) -> DeltaConnection:
        require_references(self.storage_options, "storage_options", "storage_secrets")
        return self


WAREHOUSE = Warehouse(
    driver="delta",
    dialect="duckdb",
    settings=DeltaConnection,
    connector="ktx_cli.warehouses.delta.connector:DeltaConnector",
    package="deltalake",
    requirement="ktx-cli[delta]",
    verified="real",
    location="folder",
    table_mark="_delta_log",
    questions=(Question("path", required=True, text="Folder of tables, relative to the project, or its URI"),),
)
