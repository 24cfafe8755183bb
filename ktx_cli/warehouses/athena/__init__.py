"""Amazon Athena."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.registry import Warehouse


class AthenaConnection(Database):
    """Amazon Athena."""

    driver: Literal["athena"] = setting(REQUIRED, "Amazon Athena.")
    region: str | None = setting(None, "AWS region.", example="eu-central-1")
    workgroup: str | None = setting(None, "Workgroup. Defaults to `primary`.", example="analysts")
    s3_staging_dir: str | None = setting(
        None,
        "Location of the results in S3. Defaults to that of the workgroup.",
        example="s3://company-athena-results/ktx/",
    )
    catalog: str | None = setting(None, "Data catalog. Defaults to `AwsDataCatalog`.", example="AwsDataCatalog")
    databases: list[str] | None = setting(
        None, "Databases to read. Defaults to all databases of the catalog.", example=["mart"]
    )
    profile: str | None = setting(
        None, "Profile in the AWS configuration files. Defaults to the usual AWS credentials.", example="analytics"
    )
    access_key_id: str | None = setting(None, "Access key ID, instead of a profile.", example="env:AWS_ACCESS_KEY_ID")
    secret_access_key: str | None = setting(
        None, "Secret access key.", secret=True, example="env:AWS_SECRET_ACCESS_KEY"
    )
    session_token: str | None = setting(
        None, "Session token of temporary credentials.", secret=True, example="env:AWS_SESSION_TOKEN"
    )
    endpoint_url: str | None = setting(
        None,
        "Address of the service, for example of a VPC endpoint. Defaults to that of the region.",
        example="https://vpce-1.athena.eu-central-1.vpce.amazonaws.com",
    )
    max_bytes_scanned: int | None = setting(
        None,
        "Bytes that one statement may scan before ktx stops it. Defaults to 100 GiB.",
        example=10_000_000_000,
        gt=0,
    )


WAREHOUSE = Warehouse(
    driver="athena",
    dialect="athena",
    settings=AthenaConnection,
    connector="ktx_cli.warehouses.athena.connector:AthenaConnector",
    dialect_object="ktx_cli.warehouses.athena.dialect:DIALECT",
    package="pyathena",
    requirement="ktx-cli[athena]",
    questions=(
        Question("location", required=True, text="AWS region"),
        Question("warehouse", default="primary", text="Workgroup"),
        Question("schema"),
    ),
)
