"""Connections to warehouses."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from ktx_cli.project.config.base import REQUIRED, setting
from ktx_cli.project.config.connections import Database, Port, Server


class SqlServerConnection(Server):
    """A Microsoft SQL Server or an Azure SQL database."""

    driver: Literal["sqlserver"] = setting(REQUIRED, "Microsoft SQL Server.")
    port: Port | None = setting(None, "Port. Without it: 1433.", example=1433)
    user: str | None = setting(None, "Another name of `username`.", example="ktx_reader")
    schemas: list[str] | None = setting(None, "Schemas to read. Without it: `dbo`.", example=["dbo"])
    schema_: str | None = setting(None, "One schema to read.", alias="schema", example="dbo")
    encrypt: bool = setting(True, "TLS. Without it the server decides.")
    trust_server_certificate: bool = setting(
        False, "Take the server's certificate unchecked.", alias="trustServerCertificate"
    )
    ca: str | None = setting(
        None,
        "File of the certificates to trust (PEM), relative to the project. Without it: the system's.",
        path=True,
        example="certs/sqlserver.pem",
    )
    max_connections: int = setting(10, "Most sessions at the same time.", alias="maxConnections", gt=0)

    @model_validator(mode="after")
    def _has_address(self) -> SqlServerConnection:
        self.needs_one_of("url", "host")
        return self


class ClickHouseConnection(Server):
    """A ClickHouse server, over HTTP."""

    driver: Literal["clickhouse"] = setting(REQUIRED, "ClickHouse.")
    port: Port | None = setting(None, "HTTP port. Without it: 8443 with TLS, else 8123.", example=8123)
    user: str | None = setting(None, "Another name of `username`.", example="ktx_reader")
    ssl: bool | None = setting(
        None, "TLS. Without it: as the URL or port 8443 says; `false` also lets a password go without it.", example=True
    )
    reject_unauthorized: bool | None = setting(
        None, "Check the server's certificate.", alias="rejectUnauthorized", example=True
    )
    ca: str | None = setting(
        None,
        "File of the certificates to trust (PEM), relative to the project. Without it: the system's.",
        path=True,
        example="certs/clickhouse.pem",
    )
    databases: list[str] | None = setting(
        None, "Databases to read. Without it: `database` alone, or all when there is none.", example=["shop"]
    )
    max_connections: int = setting(10, "Most sessions at the same time.", alias="maxConnections", gt=0)

    @model_validator(mode="after")
    def _has_address(self) -> ClickHouseConnection:
        self.needs_one_of("url", "host")
        return self


class RedshiftConnection(Server):
    """An Amazon Redshift cluster or workgroup."""

    driver: Literal["redshift"] = setting(REQUIRED, "Amazon Redshift.")
    port: Port | None = setting(None, "Port. Without it: 5439.", example=5439)
    user: str | None = setting(None, "Another name of `username`.", example="ktx_reader")
    schemas: list[str] | None = setting(None, "Schemas to read. Without it: all but the system's.", example=["mart"])
    schema_: str | None = setting(None, "One schema to read.", alias="schema", example="mart")
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify"] | None = setting(
        None,
        "TLS, as libpq names it; `no-verify` as `require`. Without it: `require`.",
        example="verify-full",
    )
    max_connections: int = setting(10, "Most sessions at the same time.", alias="maxConnections", gt=0)

    @model_validator(mode="after")
    def _has_address(self) -> RedshiftConnection:
        self.needs_one_of("url", "host")
        return self


class TrinoConnection(Database):
    """A Trino coordinator."""

    driver: Literal["trino"] = setting(REQUIRED, "Trino.")
    url: str | None = setting(None, "Address, as a secret reference.", secret=True, example="env:TRINO_URL")
    host: str | None = setting(None, "Host name or address.", example="trino.example.com")
    port: Port | None = setting(None, "Port. Without it: 443 with TLS, else 8080.", example=443)
    user: str | None = setting(None, "User.", example="ktx_reader")
    password: str | None = setting(None, "Password.", secret=True, example="env:TRINO_PASSWORD")
    catalog: str | None = setting(None, "Catalog.", example="hive")
    schemas: list[str] | None = setting(None, "Schemas to read. Without it: all of the catalog.", example=["mart"])
    ssl: bool | None = setting(None, "TLS.", example=True)


class DatabricksConnection(Database):
    """A Databricks SQL warehouse."""

    driver: Literal["databricks"] = setting(REQUIRED, "Databricks.")
    host: str | None = setting(None, "Host of the workspace.", example="dbc-1234.cloud.databricks.com")
    http_path: str | None = setting(None, "HTTP path of the SQL warehouse.", example="/sql/1.0/warehouses/abc")
    token: str | None = setting(None, "Access token.", secret=True, example="env:DATABRICKS_TOKEN")
    catalog: str | None = setting(None, "Catalog.", example="main")
    schemas: list[str] | None = setting(None, "Schemas to read. Without it: all of the catalog.", example=["mart"])


class SnowflakeConnection(Database):
    """A Snowflake account."""

    driver: Literal["snowflake"] = setting(REQUIRED, "Snowflake.")
    url: str | None = setting(None, "Address, as a secret reference.", secret=True, example="env:SNOWFLAKE_URL")
    account: str | None = setting(None, "Account identifier.", example="myorg-myaccount")
    warehouse: str | None = setting(None, "Virtual warehouse that runs the queries.", example="COMPUTE_WH")
    database: str | None = setting(None, "Database.", example="ANALYTICS")
    username: str | None = setting(None, "User.", example="KTX_READER")
    role: str | None = setting(None, "Role.", example="KTX_READER")
    auth_method: Literal["password", "rsa"] = setting("password", "How the user proves who it is.", alias="authMethod")
    password: str | None = setting(
        None, "Password, for `authMethod: password`.", secret=True, example="env:SNOWFLAKE_PASSWORD"
    )
    private_key: str | None = setting(
        None,
        "Private key (PEM), for `authMethod: rsa`.",
        alias="privateKey",
        secret=True,
        example="file:.ktx/secrets/snowflake.p8",
    )
    passphrase: str | None = setting(
        None, "Passphrase of the private key.", secret=True, example="env:SNOWFLAKE_PASSPHRASE"
    )
    max_connections: int = setting(4, "Most sessions at the same time.", alias="maxConnections", gt=0)
    schema_names: list[str] | None = setting(None, "Schemas to read. Without it: all.", example=["MART"])
    schema_name: str | None = setting(None, "One schema to read.", example="MART")


class BigQueryConnection(Database):
    """Google BigQuery."""

    driver: Literal["bigquery"] = setting(REQUIRED, "Google BigQuery.")
    url: str | None = setting(None, "Address, as a secret reference.", secret=True, example="env:BIGQUERY_URL")
    credentials_json: str | None = setting(
        None,
        "Service account key (JSON). Without it: Google's application default credentials.",
        secret=True,
        example="file:~/keys/bigquery.json",
    )
    project_id: str | None = setting(None, "Google Cloud project.", example="my-project")
    location: str | None = setting(None, "Location of the datasets.", example="EU")
    max_bytes_billed: int | None = setting(
        None, "Most bytes one query may bill. Without it: 100 GiB.", example=10_000_000_000, gt=0
    )
    job_timeout_ms: int | None = setting(
        None, "Milliseconds after which a query is stopped. Without it: 30000.", example=60000, gt=0
    )
    dataset_ids: list[str] | None = setting(None, "Datasets to read.", example=["mart"])
    dataset_id: str | None = setting(None, "One dataset to read.", example="mart")
