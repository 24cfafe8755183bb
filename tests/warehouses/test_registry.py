"""Drivers, missing packages, unknown names, and what opening one imports."""

from __future__ import annotations

import subprocess
import sys
import traceback
from importlib.metadata import metadata
from pathlib import Path

import pytest
from sqlglot.dialects.dialect import Dialects

from ktx_cli.core.errors import ConfigError, NotSupportedError, SourceError
from ktx_cli.project.config.connections import wrong_scheme
from ktx_cli.project.config.file import check_connection, load_config
from ktx_cli.project.plugins import SOURCES, WAREHOUSES
from ktx_cli.warehouses import registry
from ktx_cli.warehouses.port import ConnectionSpec, Scope

CANARY = "c4n4ry-hunter2"


def test_drivers() -> None:
    folders = {path.parent.name for path in Path(registry.__file__).parent.glob("*/connector.py")}
    assert set(WAREHOUSES.built_in) == folders
    assert {driver: registry.dialect_of(driver) for driver in WAREHOUSES.built_in} == {
        **{driver: driver for driver in WAREHOUSES.built_in},
        "files": "duckdb",
        "hologres": "postgres",
        "iceberg": "duckdb",
        "delta": "duckdb",
        "mongodb": "duckdb",
        "sqlserver": "tsql",
    }
    assert registry.dialect_of("no_such_driver") is None


@pytest.mark.table("driver", WAREHOUSES.built_in)
def test_the_connector_of_a_driver_speaks_its_dialect(driver: str) -> None:
    connector = WAREHOUSES.refer(driver, "connector")
    assert connector.dialect == registry.dialect_of(driver)
    assert connector.dialect in {dialect.value for dialect in Dialects}
    assert all(callable(getattr(connector, name)) for name in ("test", "introspect", "query", "close"))


@pytest.mark.table("driver", [each.driver for each in WAREHOUSES.all() if each.package])
def test_a_package_has_an_extra_of_the_drivers_name(driver: str) -> None:
    assert driver in (metadata("ktx-cli").get_all("Provides-Extra") or [])


PACKAGES = [
    ("postgres", "psycopg"),
    ("mysql", "pymysql"),
    ("sqlserver", "pymssql"),
    ("clickhouse", "clickhouse_connect"),
    ("snowflake", "snowflake.connector"),
    ("bigquery", "google.cloud.bigquery"),
    ("redshift", "psycopg"),
    ("databricks", "databricks.sql"),
    ("trino", "trino"),
    ("iceberg", "pyiceberg"),
    ("delta", "deltalake"),
    ("mongodb", "pymongo"),
    ("spark", "pyspark"),
    ("athena", "pyathena"),
]


@pytest.mark.parametrize(("driver", "package"), PACKAGES)
def test_a_missing_package_says_how_to_get_it(driver: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        registry.connect(ConnectionSpec("x", driver, {"host": "127.0.0.1"}))
    assert caught.value.message == f"driver `{driver}` needs the package {package}"
    assert caught.value.hint == f"pip install 'ktx-cli[{driver}]'"


@pytest.mark.table("package", ["nowhere_at_all", "nowhere_at_all.inside", "json.inside"])
def test_a_package_in_one_that_is_missing_is_missing(package: str) -> None:
    assert registry.is_installed(package) is False


@pytest.mark.table(("driver", "hint"), [("sqlit", "`sqlite`"), ("no_such_driver", "sqlite, duckdb")])
def test_an_unknown_driver(driver: str, hint: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        registry.connect(ConnectionSpec("x", driver))
    assert hint in (caught.value.hint or "")


@pytest.mark.table("driver", SOURCES.built_in)
def test_a_context_source_is_no_database(driver: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        registry.connect(ConnectionSpec("x", driver))
    assert caught.value.message == f"connection `x`: this version does not support `{driver}` databases"
    assert registry.dialect_of(driver) is None


@pytest.mark.parametrize("driver", ["sqlite", "duckdb", "files", "iceberg", "delta"])
def test_a_missing_file_is_named_and_not_made(driver: str, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "x.db"
    with pytest.raises(SourceError) as caught:
        registry.connect(ConnectionSpec("x", driver, {"path": str(path)}))
    assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
    assert str(path) in caught.value.message
    assert "connections.x.path" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("driver", ["sqlite", "duckdb"])
def test_a_folder_is_no_database(driver: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a folder"):
        registry.connect(ConnectionSpec("x", driver, {"path": str(tmp_path)}))


def test_the_registry_alone_imports_no_database_library() -> None:
    code = (
        "import sys, ktx_cli.warehouses.registry, ktx_cli.warehouses.sqlite.connector;"
        "print([name for name in ('duckdb', 'psycopg', 'pymysql', 'sqlglot') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_connectors_imports_no_driver() -> None:
    packages = sorted({entry.package for entry in WAREHOUSES.all() if entry.package})
    code = (
        f"import sys; from importlib import import_module\n"
        f"for name in {WAREHOUSES.built_in}: import_module(f'ktx_cli.warehouses.{{name}}.connector')\n"
        f"print([name for name in {['duckdb', *packages]} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_spec_shows_no_options() -> None:
    assert "hunter2" not in repr(ConnectionSpec("x", "postgres", {"password": "hunter2"}))
    assert Scope() == registry.scope_from_options({"password": "hunter2"})


MISMATCHES = [
    ("postgres", f"mysql://u:{CANARY}@h/d", "`mysql:`", "`postgresql:`", "driver: mysql"),
    ("postgres", f"mariadb+pymysql://u:{CANARY}@h/d", "`mariadb:`", "`postgres:`", "driver: mysql"),
    ("postgres", f"jdbc://u:{CANARY}@h/d", "`jdbc:`", "`postgresql:`", "begins with `postgresql:`"),
    ("mysql", f"postgres://u:{CANARY}@h/d", "`postgres:`", "`mysql:`", "driver: postgres"),
    ("mysql", f"POSTGRESQL://u:{CANARY}@h/d", "`postgresql:`", "`mariadb:`", "driver: postgres"),
    ("sqlite", "duckdb:///x.duckdb", "`duckdb:`", "`sqlite:`", "driver: duckdb"),
    ("duckdb", f"postgres://u:{CANARY}@h/d", "`postgres:`", "`duckdb:`", "driver: postgres"),
    ("sqlserver", f"mysql://u:{CANARY}@h/d", "`mysql:`", "`mssql:`", "driver: mysql"),
    ("clickhouse", f"mssql://u:{CANARY}@h/d", "`mssql:`", "`https:`", "driver: sqlserver"),
    ("redshift", f"mysql://u:{CANARY}@h/d", "`mysql:`", "`redshift:`", "driver: mysql"),
    ("postgres", f"redshift://u:{CANARY}@h/d", "`redshift:`", "`postgresql:`", "driver: redshift"),
    ("postgres", f"https://u:{CANARY}@h/d", "`https:`", "`postgresql:`", "begins with `postgresql:`"),
]


@pytest.mark.table(("driver", "url", "given", "taken", "hint"), MISMATCHES)
@pytest.mark.parametrize("how", ["connect", "load", "add"])
def test_a_url_of_another_driver(how: str, driver: str, url: str, given: str, taken: str, hint: str) -> None:
    fields = {"driver": driver, "url": url}
    with pytest.raises(ConfigError) as caught:
        if how == "connect":  # as it is behind a secret reference
            registry.connect(ConnectionSpec("x", driver, fields))
        elif how == "load":
            load_config(
                Path("ktx.yaml"), data=f"connections: {{x: {{driver: {driver}, url: '{url}'}}}}".encode()
            ).require_valid()
        else:
            check_connection("x", fields)
    assert caught.value.exit_code == 2
    for word in (given, taken, f"`{driver}`"):
        assert word in caught.value.message
    assert hint in (caught.value.hint or "")
    assert CANARY not in "".join(traceback.format_exception(caught.value)) + str(caught.value.to_json())


@pytest.mark.table(
    ("driver", "url"),
    [
        *[("postgres", f"{scheme}://u@h/d") for scheme in ("postgres", "postgresql", "postgresql+psycopg")],
        *[("mysql", f"{scheme}://u@h/d") for scheme in ("mysql", "mariadb", "mysql+pymysql")],
        *[("sqlite", url) for url in ("sqlite:///x.db", "file:x.db", "x.db", "a:b.db")],
        ("duckdb", "duckdb:///x.duckdb"),
        *[("clickhouse", f"{scheme}://u@h/d") for scheme in ("http", "https", "clickhouse")],
        *[("sqlserver", f"{scheme}://u@h/d") for scheme in ("mssql", "sqlserver")],
        *[("redshift", f"{scheme}://u@h/d") for scheme in ("redshift", "postgresql")],
        ("postgres", "env:WAREHOUSE_URL"),
        ("mysql", "file:.ktx/secrets/url"),
    ],
)
def test_a_url_of_the_driver(driver: str, url: str) -> None:
    check_connection("x", {"driver": driver, "url": url})
    assert wrong_scheme(driver, url) is None or url.startswith(("env:", "file:"))
