"""What a person is asked about a connection, for every driver: one word for each fact, the key of `ktx.yaml` behind it.

A word is the name of a flag too: `host` is `--database-host`. The same word has another key with some drivers
(`schema` is `schemas` of Postgres, `dataset_ids` of BigQuery); the first key in the list that the driver has is meant.
Nothing but data, so that the help of the command costs no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Word:
    """A fact about a connection. `keys`: its dotted keys in `ktx.yaml`, by driver the first that is there.

    `question`: how a person is asked. `several`: it is a list. `secret`: it is typed unseen and kept out of `ktx.yaml`.
    """

    name: str
    keys: tuple[str, ...]
    question: str
    several: bool = False
    secret: bool = False


DATABASE_WORDS: Final = (
    Word("url", ("url",), "Address with user and password", secret=True),
    Word("path", ("path",), "File or folder, relative to the project"),
    Word("host", ("host",), "Host"),
    Word("port", ("port",), "Port"),
    Word("name", ("database",), "Database"),
    Word("user", ("username", "user"), "User"),
    Word("password", ("password",), "Password", secret=True),
    Word("account", ("account",), "Account identifier"),
    Word("warehouse", ("warehouse",), "Virtual warehouse that runs the queries"),
    Word("role", ("role",), "Role"),
    Word("auth-method", ("authMethod",), "How the user proves who it is: password or rsa"),
    Word("private-key", ("privateKey",), "Private key (PEM)", secret=True),
    Word("passphrase", ("passphrase",), "Passphrase of the private key", secret=True),
    Word("http-path", ("http_path",), "HTTP path of the SQL warehouse"),
    Word("token", ("token",), "Access token", secret=True),
    Word("catalog", ("catalog",), "Catalog"),
    Word("project", ("project_id",), "Google Cloud project"),
    Word("location", ("location",), "Location of the datasets"),
    Word("credentials", ("credentials_json",), "Service account key (JSON)", secret=True),
    Word("sslmode", ("sslmode",), "TLS, as libpq names it"),
    Word("ssl", ("ssl", "encrypt"), "TLS: true or false"),
    Word(
        "schema",
        ("schemas", "schema_names", "dataset_ids", "databases"),
        "Only this schema (dataset, database)",
        several=True,
    ),
)
"""Facts about a database, in the order in which they are asked. Patterns of tables have flags of their own."""

SOURCE_WORDS: Final = (
    Word("dir", ("source_dir", "path"), "Folder, relative to the project"),
    Word("repo", ("repo_url", "repoUrl", "metricflow.repoUrl"), "Git URL, or path of a repository"),
    Word("branch", ("branch", "metricflow.branch"), "Branch (empty: the repository's own)"),
    Word("folder", ("path", "metricflow.path"), "Folder in the repository (empty: its root)"),
    Word("url", ("api_url", "base_url"), "Address"),
    Word("user", ("email", "client_id"), "Account, or client id"),
    Word(
        "token",
        ("api_key", "client_secret", "auth_token", "api_token", "auth_token_ref", "metricflow.auth_token_ref"),
        "Key or token",
        secret=True,
    ),
    Word("crawl-mode", ("crawl_mode",), "What is read: selected_roots or all_accessible"),
    Word("root", ("root_page_ids",), "Page to begin with, by id", several=True),
    Word("space", ("space_keys",), "Space to read", several=True),
    Word("target", ("target",), "Target of the dbt profile"),
)
"""Facts about a context source, in the order in which they are asked."""

ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlite": ("path!",),
    "duckdb": ("path!",),
    "files": ("path!",),
    "postgres": ("host!", "port", "name!", "user!", "password"),
    "mysql": ("host!", "port", "name!", "user!", "password"),
    "sqlserver": ("host!", "port", "name!", "user!", "password"),
    "clickhouse": ("host!", "port", "name", "user", "password"),
    "redshift": ("host!", "port", "name!", "user!", "password"),
    "trino": ("host!", "port", "catalog!", "user!", "password"),
    "databricks": ("host!", "http-path!", "token!", "catalog"),
    "snowflake": ("account!", "warehouse!", "name!", "user!", "auth-method", "password", "private-key", "role"),
    "bigquery": ("project!", "schema!", "location", "credentials"),
    "dbt": ("dir!",),
    "lookml": ("repo!", "branch", "folder"),
    "metricflow": ("repo!", "branch", "folder"),
    "documents": ("dir!",),
    "metabase": ("url!", "token!"),
    "looker": ("url!", "user!", "token!"),
    "notion": ("token!", "crawl-mode", "root"),
    "confluence": ("url!", "user", "token!", "space"),
}
"""The words a person is asked for, by driver; `!`: an empty answer is none."""

BY_ADDRESS: Final = ("postgres", "mysql", "sqlserver", "clickhouse", "redshift")
"""Drivers that take one URL in place of the parts."""

DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "postgres": {"host": "localhost", "port": "5432"},
    "mysql": {"host": "localhost", "port": "3306"},
    "sqlserver": {"host": "localhost", "port": "1433"},
    "clickhouse": {"host": "localhost", "port": "8123"},
    "redshift": {"port": "5439"},
    "trino": {"host": "localhost", "port": "8080"},
    "snowflake": {"auth-method": "password"},
    "notion": {"crawl-mode": "all_accessible"},
}
"""What is proposed, by driver and word."""
