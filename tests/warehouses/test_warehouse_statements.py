"""The catalog statements of warehouses no server can stand in for: as written down, and each one reading statement.

`KTX_GOLDEN=1` writes the files anew; look at the difference before it is committed.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.warehouses.port import in_schemas
from ktx_cli.warehouses.registry import dialect_of
from ktx_cli.warehouses.sqlserver.connector import require_one_reading

GOLDEN = Path(__file__).parent / "golden"
MODULES = {
    "sqlserver": ("sqlserver.connector",),
    "clickhouse": ("clickhouse.connector",),
    "redshift": ("redshift.connector",),
}


def statements(driver: str) -> dict[str, str]:
    """Every statement of a driver by name, as it is for two schemas."""
    modules = [importlib.import_module(f"ktx_cli.warehouses.{name}") for name in MODULES[driver]]
    found = [(name, value) for module in modules for name, value in vars(module).items() if name.isupper()]
    return {name: in_schemas(value, 2).strip() for name, value in found if isinstance(value, str) and "SELECT" in value}


ALL = [(driver, name) for driver in MODULES for name in statements(driver)]


@pytest.mark.table("driver", MODULES)
def test_they_are_as_written_down(driver: str) -> None:
    text = "\n\n".join(f"-- {name}\n{sql};" for name, sql in statements(driver).items()) + "\n"
    path = GOLDEN / f"{driver}.sql"
    if os.environ.get("KTX_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.table(("driver", "name"), ALL)
def test_each_is_one_statement_that_reads(driver: str, name: str) -> None:
    sql = statements(driver)[name].replace("%s", "'x'")
    (tree,) = sqlglot.parse(sql, read=dialect_of(driver))
    assert isinstance(tree, exp.Select)
    assert not list(tree.find_all(exp.Insert, exp.Update, exp.Delete, exp.Create, exp.Drop, exp.Command, exp.Into))
    if driver == "sqlserver":
        require_one_reading(sql, "here")


@pytest.mark.table(("driver", "name"), ALL)
def test_each_names_its_catalog_in_full(driver: str, name: str) -> None:
    (tree,) = sqlglot.parse(statements(driver)[name].replace("%s", "'x'"), read=dialect_of(driver))
    derived = {each.alias_or_name for each in tree.find_all(exp.Subquery, exp.CTE)}
    bare = [each.name for each in tree.find_all(exp.Table) if not each.db and each.name not in derived]
    # What Redshift adds stands in pg_catalog, which a session looks in first.
    assert [each for each in bare if each and not (driver == "redshift" and each.startswith("svv_"))] == []


def test_schemas_are_as_many_parameters() -> None:
    assert in_schemas("a IN ({schemas}) AND b IN ({schemas})", 3) == "a IN (%s, %s, %s) AND b IN (%s, %s, %s)"
