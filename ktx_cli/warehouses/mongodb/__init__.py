"""MongoDB, whose collections become tables that DuckDB queries."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Port, Server, setting
from ktx_cli.warehouses.registry import Warehouse, server_questions


class MongoConnection(Server):
    """A MongoDB server, replica set or cluster; each collection is a table."""

    needs_one_of = ("url", "host")

    driver: Literal["mongodb"] = setting(REQUIRED, "MongoDB.")
    url: str | None = setting(
        None,
        "URL with user and password (`mongodb://` or `mongodb+srv://`), as a secret reference. Alternatively, set the "
        "parts below.",
        secret=True,
        example="env:MONGODB_URL",
    )
    port: Port | None = setting(None, "Port. Defaults to 27017.", example=27017)
    user: str | None = setting(None, "Alias of `username`.", example="ktx_reader")
    databases: list[str] | None = setting(
        None,
        "Databases to read. Defaults to `database`, or to all except `admin`, `config` and `local` if it is not set.",
        example=["shop"],
    )
    auth_source: str | None = setting(
        None, "Database that stores the user. Defaults to `admin`.", alias="authSource", example="admin"
    )
    replica_set: str | None = setting(None, "Name of the replica set.", alias="replicaSet", example="rs0")
    ssl: bool | None = setting(None, "Whether to use TLS. Defaults to the URL's choice.", example=True)
    ca: str | None = setting(
        None,
        "File with trusted certificates (PEM), relative to the project. Defaults to the system's.",
        path=True,
        example="certs/mongodb.pem",
    )
    read_preference: Literal["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"] = setting(
        "secondaryPreferred", "Members of a replica set to read from.", alias="readPreference"
    )
    sample_documents: int = setting(
        1000, "Maximum number of documents of a collection from which ktx infers its columns.", ge=10, le=100_000
    )
    sample_size: int | None = setting(
        None, "Alias of `sample_documents` from the TypeScript ktx.", ge=10, le=100_000, example=1000
    )
    max_documents: int = setting(
        250_000, "Maximum number of documents of a collection that a SQL statement reads.", ge=1, le=5_000_000
    )
    max_megabytes: int = setting(256, "Maximum size of the documents that a SQL statement reads.", ge=1, le=1024)


WAREHOUSE = Warehouse(
    driver="mongodb",
    dialect="duckdb",
    settings=MongoConnection,
    connector="ktx_cli.warehouses.mongodb.connector:MongoConnector",
    package="pymongo",
    requirement="ktx-cli[mongodb]",
    pipelines=True,
    verified="emulator",
    schemes=("mongodb", "mongodb+srv"),
    takes_url=True,
    questions=server_questions("27017", required=False),
)
