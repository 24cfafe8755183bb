"""Snowflake."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="snowflake",
    dialect="snowflake",
    settings="ktx_cli.warehouses.snowflake.settings:SnowflakeConnection",
    connector="ktx_cli.warehouses.snowflake.connector:SnowflakeConnector",
    package="snowflake.connector",
    requirement="ktx-cli[snowflake]",
    schemes=("snowflake",),
    has_history=True,
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
