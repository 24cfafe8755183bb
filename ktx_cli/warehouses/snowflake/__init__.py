"""Snowflake."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Question, setting
from ktx_cli.warehouses.registry import Warehouse


class SnowflakeConnection(Database):
    """A Snowflake account."""

    driver: Literal["snowflake"] = setting(REQUIRED, "Snowflake.")
    url: str | None = setting(
        None, "Address, as a secret reference such as env:NAME.", secret=True, example="env:SNOWFLAKE_URL"
    )
    account: str | None = setting(None, "Account identifier.", example="myorg-myaccount")
    warehouse: str | None = setting(None, "Virtual warehouse that runs the queries.", example="COMPUTE_WH")
    database: str | None = setting(None, "Database.", example="ANALYTICS")
    username: str | None = setting(None, "User.", example="KTX_READER")
    role: str | None = setting(None, "Role to use.", example="KTX_READER")
    auth_method: Literal["password", "rsa"] = setting(
        "password", "Authentication method for the user.", alias="authMethod"
    )
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
    max_connections: int = setting(4, "Maximum number of concurrent sessions.", alias="maxConnections", gt=0)
    schema_names: list[str] | None = setting(None, "Schemas to read. Defaults to all.", example=["MART"])
    schema_name: str | None = setting(None, "A single schema to read.", example="MART")


WAREHOUSE = Warehouse(
    driver="snowflake",
    dialect="snowflake",
    settings=SnowflakeConnection,
    connector="ktx_cli.warehouses.snowflake.connector:SnowflakeConnector",
    dialect_object="ktx_cli.warehouses.snowflake.dialect:DIALECT",
    package="snowflake.connector",
    requirement="ktx-cli[snowflake]",
    schemes=("snowflake",),
    variables={
        "account": "SNOWFLAKE_ACCOUNT",
        "username": "SNOWFLAKE_USER",
        "password": "SNOWFLAKE_PASSWORD",
        "database": "SNOWFLAKE_DATABASE",
        "warehouse": "SNOWFLAKE_WAREHOUSE",
        "role": "SNOWFLAKE_ROLE",
    },
    variables_needed=("account", "username", "password"),
    questions=(
        Question("account", required=True),
        Question("warehouse", required=True),
        Question("name", required=True),
        Question("user", required=True),
        Question("auth-method", default="password"),
        Question("password"),
        Question("private-key"),
        Question("role"),
    ),
)
