"""Spark SQL, through a Spark Connect server."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, Port, Question, setting
from ktx_cli.warehouses.registry import Warehouse


class SparkConnection(Database):
    """A Spark Connect server."""

    needs_one_of = ("url", "host")

    driver: Literal["spark"] = setting(REQUIRED, "Spark SQL, through Spark Connect.")
    url: str | None = setting(
        None,
        "Address (sc://host:15002), as a secret reference such as env:NAME if it contains a token.",
        secret=True,
        example="env:SPARK_REMOTE",
    )
    host: str | None = setting(None, "Host name or address of the Spark Connect server.", example="spark.example.com")
    port: Port | None = setting(None, "Port. Defaults to 15002.", example=15002)
    token: str | None = setting(None, "Bearer token, which needs TLS.", secret=True, example="env:SPARK_TOKEN")
    ssl: bool | None = setting(None, "Whether to use TLS. Defaults to true with a token, else false.", example=True)
    user: str | None = setting(
        None, "User id of the sessions. Defaults to the user of this system.", example="ktx_reader"
    )
    catalog: str | None = setting(None, "Catalog to read. Defaults to the server's current catalog.", example="lake")
    schemas: list[str] | None = setting(
        None, "Schemas to read. Defaults to all schemas of the catalog.", example=["mart"]
    )


WAREHOUSE = Warehouse(
    driver="spark",
    dialect="spark",
    settings=SparkConnection,
    verified="real",
    connector="ktx_cli.warehouses.spark.connector:SparkConnector",
    dialect_object="ktx_cli.warehouses.spark.dialect:DIALECT",
    package="pyspark",
    requirement="ktx-cli[spark]",
    schemes=("sc",),
    takes_url=True,
    variables={"url": "SPARK_REMOTE"},
    variables_needed=("url",),
    questions=(
        Question("host", required=True, default="localhost"),
        Question("port", default="15002"),
        Question("token"),
        Question("catalog"),
    ),
)
