"""BigQuery."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.registry import Warehouse


class BigQueryConnection(Database):
    """Google BigQuery."""

    driver: Literal["bigquery"] = setting(REQUIRED, "Google BigQuery.")
    url: str | None = setting(
        None, "Address, as a secret reference such as env:NAME.", secret=True, example="env:BIGQUERY_URL"
    )
    credentials_json: str | None = setting(
        None,
        "Service account key (JSON). Defaults to Google's application default credentials.",
        secret=True,
        example="file:~/keys/bigquery.json",
    )
    project_id: str | None = setting(None, "Google Cloud project.", example="my-project")
    location: str | None = setting(None, "Location of the datasets.", example="EU")
    max_bytes_billed: int | None = setting(
        None, "Maximum bytes that one query may bill. Defaults to 100 GiB.", example=10_000_000_000, gt=0
    )
    job_timeout_ms: int | None = setting(
        None, "Milliseconds after which a query is stopped. Defaults to 30000.", example=60000, gt=0
    )
    dataset_ids: list[str] | None = setting(
        None,
        "Datasets to read. A dataset of another project has the form `project.dataset`.",
        example=["mart", "bigquery-public-data.samples"],
    )
    dataset_id: str | None = setting(None, "A single dataset to read.", example="mart")


WAREHOUSE = Warehouse(
    driver="bigquery",
    dialect="bigquery",
    settings=BigQueryConnection,
    connector="ktx_cli.warehouses.bigquery.connector:BigQueryConnector",
    dialect_object="ktx_cli.warehouses.bigquery.dialect:DIALECT",
    package="google.cloud.bigquery",
    requirement="ktx-cli[bigquery]",
    schemes=("bigquery",),
    questions=(
        Question("project", required=True),
        Question("schema", required=True),
        Question("location"),
        Question("credentials"),
    ),
)
