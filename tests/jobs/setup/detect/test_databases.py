"""Which databases are offered: files, folders of data, and what the environment leads to."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.jobs.connections import probe_connection
from ktx_cli.jobs.setup.detect import databases as files
from ktx_cli.jobs.setup.detect.databases import database_offers, folders_in, free_id
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.warehouses import registry
from ktx_cli.warehouses.registry import missing_package

Put = Callable[..., Path]

SQLITE = b"SQLite format 3\0rest"
DUCKDB = b"checksumDUCKrest"


def config(**connections: Any) -> KtxConfig:
    return KtxConfig.model_validate({"connections": connections})


def found(folder: Path, environ: Mapping[str, str] | None = None, **connections: Any) -> list[tuple[str, str, Any]]:
    """Driver, id and fields of what is offered."""
    offers = database_offers(folder, environ or {}, config(**connections))
    return [(offer.driver, offer.id, dict(offer.fields)) for offer in offers]


def test_files_are_known_by_their_first_bytes(put: Put) -> None:
    folder = put(
        **{
            "data/shop.bin": SQLITE,
            "Warehouse 2024.duckdb": DUCKDB,
            "notes.sqlite": b"only a name",
            "empty.db": b"",
            "short": b"SQLite",
        }
    )
    assert found(folder) == [
        ("duckdb", "warehouse-2024", {"path": "Warehouse 2024.duckdb"}),
        ("sqlite", "shop", {"path": "data/shop.bin"}),
    ]
    labels = [offer.label for offer in database_offers(folder, {}, config())]
    assert labels == ["DuckDB file Warehouse 2024.duckdb", "SQLite file data/shop.bin"]


def test_what_is_offered_can_be_connected(put: Put) -> None:
    folder = put(**{"csv/a.csv": "x\n1\n", "csv/b.csv": "y\n2\n"})
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute("CREATE TABLE orders (id INTEGER)")
    database.close()
    duckdb.connect(str(folder / "dwh.duckdb")).close()
    offers = database_offers(folder, {}, config())
    assert [offer.driver for offer in offers] == ["duckdb", "sqlite", "files"]
    entries = config(**{offer.id: {"driver": offer.driver, **offer.fields} for offer in offers})
    for offer in offers:
        probe_connection(entries, offer.id, project_dir=folder, environ={})
    assert database_offers(folder, {}, entries) == [], "each is configured now"


def test_folders_that_hold_nothing_of_the_users(put: Put) -> None:
    passed = (
        ".git/x", ".ktx/state.sqlite", "node_modules/x", "venv/x", "dbt_packages/x", "raw-sources/x", "wiki/x", ".x",
        "dbt/target/x", "py/lib/x", "inner/semantic-layer/x", "a/b/c/d/x",
    )  # fmt: skip
    marks = {"dbt/dbt_project.yml": "name: x", "py/pyvenv.cfg": "", "inner/ktx.yaml": ""}
    folder = put(**marks, **dict.fromkeys(passed, SQLITE), **{"a/b/c/x": SQLITE})
    assert [fields["path"] for _, _, fields in found(folder)] == ["a/b/c/x"]


@pytest.mark.table(
    ("names", "path"),
    [
        (("exports/a.csv", "exports/b.csv"), "exports"),
        (("x/a.parquet", "x/b.jsonl.gz"), "x"),
        (("x/a.csv", "x/b.json"), "x"),
        (("a.csv", "b.csv", "more/c.csv", "more/d.csv"), "."),
        (("x/a.csv", "x/b.csv", "x/y/c.csv", "x/y/d.csv"), "x"),
        (("x/a.csv",), None),
        (("package.json", "tsconfig.json"), None),
        (("dbt/dbt_project.yml", "dbt/seeds/a.csv", "dbt/seeds/b.csv"), None),
    ],
)
def test_a_folder_of_data_files(names: tuple[str, ...], path: str | None, tmp_path: Path) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert [fields["path"] for driver, _, fields in found(folder) if driver == "files"] == ([path] if path else [])


@pytest.mark.table(
    ("names", "offers"),
    [
        (
            ("lake/db/t/metadata/v1.metadata.json", "lake/db/t/data/a.parquet", "lake/db/t/data/b.parquet"),
            [("iceberg", "lake/db")],
        ),
        (
            ("lake/a/t/_delta_log/0.json", "lake/a/t/a.parquet", "lake/a/t/b.parquet", "lake/b/u/_delta_log/0.json"),
            [("delta", "lake")],
        ),
        (("lake/sales/eu/orders/_delta_log/0.json", "lake/customers/_delta_log/0.json"), [("delta", "lake")]),
        (("t/_delta_log/0.json", "t/a.parquet", "x/a.csv", "x/b.csv"), [("delta", "."), ("files", "x")]),
        (("_delta_log/0.json", "a.parquet", "b.parquet"), [("delta", ".")]),
    ],
)
def test_a_folder_of_tables(names: tuple[str, ...], offers: list[tuple[str, str]], tmp_path: Path) -> None:
    """Their files are not offered as data files, because some of their rows are deleted."""
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert [(driver, fields["path"]) for driver, _, fields in found(folder)] == offers


def test_the_catalog_of_a_folder_of_tables(tmp_path: Path) -> None:
    """The catalog is not a database, and tells which folder contains all tables."""
    for table in ("people", "orders"):
        (tmp_path / "ice/crm" / table / "metadata").mkdir(parents=True)
        (tmp_path / "ice/crm" / table / "metadata/v1.metadata.json").touch()
    with sqlite3.connect(tmp_path / "ice/catalog.db") as connection:
        connection.execute("CREATE TABLE iceberg_tables (catalog_name TEXT)")
    with sqlite3.connect(tmp_path / "ice/app.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    assert [each.label for each in files.file_databases(tmp_path)] == [
        "SQLite file ice/app.db", "folder ice/ with 2 Iceberg tables",
    ]  # fmt: skip
    assert [fields["path"] for _, _, fields in found(tmp_path)] == ["ice/app.db", "ice"]


def test_looking_ends(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(**{f"{number:02}/x": SQLITE for number in range(40)})
    assert len(found(folder)) == files.MOST_FILES
    monkeypatch.setattr(files, "MAX_ENTRIES", 45)
    assert len(list(folders_in(folder))) == 6, "the first folder's 40 entries, then one each"
    monkeypatch.setattr(files, "MAX_SECONDS", 0)
    assert found(folder) == []


def test_what_cannot_be_looked_into(put: Put) -> None:
    folder = put(**{"here.db": SQLITE, "closed/x": SQLITE})
    os.mkfifo(folder / "pipe")
    (folder / "nowhere").symlink_to(folder / "gone")
    (folder / "round").symlink_to(folder)
    (folder / "link.db").symlink_to(folder / "here.db")
    (folder / "closed").chmod(0)
    try:
        assert found(folder)[0] == ("sqlite", "here", {"path": "here.db"})
    finally:
        (folder / "closed").chmod(0o700)
    assert found(folder / "gone") == []


SHOP = "postgresql://reader:hunter22@db.example.com:5433/shop"


@pytest.mark.table(
    ("name", "value", "driver", "connection", "label"),
    [
        ("DATABASE_URL", SHOP, "postgres", "shop", "postgres: db.example.com/shop (DATABASE_URL)"),
        ("SALES_DB_URL", SHOP, "postgres", "sales", "postgres: db.example.com/shop (SALES_DB_URL)"),
        ("POSTGRES_URL", "postgres://db.local", "postgres", "postgres", "postgres: db.local (POSTGRES_URL)"),
        ("SQLALCHEMY_CONN", "mysql+pymysql://u:hunter22@db/shop", "mysql", "shop", "mysql: db/shop (SQLALCHEMY_CONN)"),
        ("LAKE", "snowflake://u:hunter22@acct/dwh/mart", "snowflake", "dwh", "snowflake: acct/dwh/mart (LAKE)"),
        ("MONGO_URL", "mongodb://u:hunter22@db/shop", "mongodb", "mongo", "mongodb: db/shop (MONGO_URL)"),
        ("DB_URL", "postgres://u:hun/ter22@db/shop", "postgres", "shop", "postgres: db/shop (DB_URL)"),
        ("DB_URL", "postgres://u:hun@ter22/x@db/shop", "postgres", "postgres", "postgres: DB_URL"),
        ("DB_URL", "postgres://u:p@db/shop?password=hunter22", "postgres", "shop", "postgres: db/shop (DB_URL)"),
        ("DB_URL", "postgres://db:no-port/shop", "postgres", "postgres", "postgres: DB_URL"),
        (
            "DWH_URL", "postgres://u:p@c.x.eu.redshift.amazonaws.com:5439/dev", "redshift", "dwh",
            "redshift: c.x.eu.redshift.amazonaws.com/dev (DWH_URL)",
        ),
    ],
)  # fmt: skip
def test_a_variable_with_a_url(name: str, value: str, driver: str, connection: str, label: str, tmp_path: Path) -> None:
    (offer,) = database_offers(tmp_path, {name: value}, config())
    assert (offer.driver, offer.id, offer.label) == (driver, connection, label)
    assert offer.fields == {"url": f"env:{name}"}
    assert "ter22" not in f"{offer}"


@pytest.mark.table(
    "environ",
    [
        {"HOME": "/home/me"},
        {"API_URL": "https://api.example.com", "FILE_URL": "file:///tmp/x.sqlite"},
        {"REDIS_URL": "redis://localhost", "AMQP_URL": "amqp://localhost"},
        {"DATABASE_URL": "", "OTHER_URL": "postgres://", "NOTE": "see postgres://db.example.com/shop"},
        {"BAD NAME": SHOP, "1ST": SHOP},
        {"DATABASE_URL": "sqlite:///not/there.sqlite"},
        {"PGHOST": " ", "PGUSER": "me"},
        {"PGHOST": "db", "PGPORT": "many"},
        {"SNOWFLAKE_ACCOUNT": "acct"},
    ],
)
def test_what_leads_to_no_database(environ: dict[str, str], tmp_path: Path) -> None:
    assert found(tmp_path, environ) == []


@pytest.mark.table(
    ("environ", "driver", "connection", "fields"),
    [
        (
            {"PGHOST": "db", "PGPORT": "5433", "PGUSER": "me", "PGPASSWORD": "hunter22", "PGDATABASE": "shop"},
            "postgres",
            "shop",
            {"host": "db", "port": "5433", "username": "me", "password": "env:PGPASSWORD", "database": "shop"},
        ),
        ({"PGHOST": "/run/postgresql"}, "postgres", "postgres", {"host": "/run/postgresql"}),
        (
            {"SNOWFLAKE_ACCOUNT": "acct", "SNOWFLAKE_USER": "me", "SNOWFLAKE_PASSWORD": "hunter22"},
            "snowflake",
            "snowflake",
            {"account": "acct", "username": "me", "password": "env:SNOWFLAKE_PASSWORD"},
        ),
        (
            {"DATABRICKS_SERVER_HOSTNAME": "dbc", "DATABRICKS_HTTP_PATH": "/sql/1", "DATABRICKS_TOKEN": "hunter22"},
            "databricks",
            "databricks",
            {"host": "dbc", "http_path": "/sql/1", "token": "env:DATABRICKS_TOKEN"},
        ),
        ({"SPARK_REMOTE": "sc://db:15002/;token=hunter22"}, "spark", "spark", {"url": "env:SPARK_REMOTE"}),
    ],
)
def test_the_variables_of_a_databases_own_clients(
    environ: dict[str, str], driver: str, connection: str, fields: dict[str, str], tmp_path: Path
) -> None:
    assert found(tmp_path, environ) == [(driver, connection, fields)]
    assert "hunter22" not in str(database_offers(tmp_path, environ, config()))


def test_a_database_is_offered_once(put: Put) -> None:
    folder = put(**{"shop.sqlite": SQLITE})
    environ = {
        "DATABASE_URL": "sqlite:///shop.sqlite", "PGHOST": "DB.example.com", "PGPORT": "5433", "PGDATABASE": "shop",
        "A_URL": SHOP, "B_URL": SHOP.replace("reader", "writer"), "C_URL": SHOP.replace("5433", "5434"),
    }  # fmt: skip
    assert [name for _, name, _ in found(folder, environ)] == ["shop", "a", "c"]


@pytest.mark.table(
    "entry",
    [
        {"driver": "postgres", "url": "env:A_URL"},
        {"driver": "postgres", "url": "env:SAME"},
        {"driver": "postgres", "url": SHOP},
        {"driver": "postgres", "host": "db.example.com", "port": 5433, "database": "shop", "password": "keyring:a/b"},
    ],
)
def test_what_is_configured_is_left_out(entry: dict[str, Any], tmp_path: Path) -> None:
    assert found(tmp_path, {"A_URL": SHOP, "SAME": SHOP}, warehouse=entry) == []


def test_a_connection_that_cannot_be_resolved_hides_nothing(tmp_path: Path) -> None:
    broken = {"driver": "postgres", "url": "env:GONE"}
    assert [name for _, name, _ in found(tmp_path, {"A_URL": SHOP}, a=broken)] == ["a-2"]


@pytest.mark.table(
    ("wanted", "taken", "free"),
    [
        ("Shop 2024!", (), "shop-2024"),
        ("shop", ("SHOP", "shop-2"), "shop-3"),
        ("test", (), "test-db"),
        ("nul", (), "nul-db"),
        ("_-", (), "warehouse"),
        ("Größe", (), "gr-e"),
        ("x" * 200, (), "x" * 60),
    ],
)
def test_ids_are_safe_and_free(wanted: str, taken: tuple[str, ...], free: str) -> None:
    assert free_id(wanted, taken) == free
    config(**{free: {"driver": "sqlite", "path": "x"}})


def test_the_package_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert [missing_package(driver) for driver in ("sqlite", "duckdb", "files", "nowhere")] == [None] * 4
    assert missing_package("postgres") == "pip install 'ktx-cli[postgres]'"
