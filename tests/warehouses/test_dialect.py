"""Dialects: found by name, unchangeable, brought by other warehouses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from types import SimpleNamespace

import pytest
from sqlglot import exp

from ktx_cli.core import NotSupportedError
from ktx_cli.project import WAREHOUSES
from ktx_cli.semantic.calendar import Clock, truncate, within
from ktx_cli.warehouses import dialect as dialects
from ktx_cli.warehouses.dialect import DIALECTS, Dialect, dialect_named, quote
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.registry import dialect_of
from ktx_cli.warehouses.worker.process import EngineError

VALUE = exp.column("at")


class OtherDialect(Dialect):
    """The dialect of somebody else's warehouse."""

    name = "presto"
    name_quotes = ("«", "»")

    def functions(self) -> frozenset[str]:
        return frozenset({"upper"})

    def as_date(self, value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="THEIR_DATE", expressions=[value.copy()])


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherDialect]:
    installed = OtherDialect()
    warehouse = SimpleNamespace(driver="presto", dialect="presto", dialect_object="theirs:DIALECT")
    plugins = SimpleNamespace(built_in=(), find=None, all=lambda: (warehouse,), refer=lambda driver, field: installed)
    monkeypatch.setattr(dialects, "WAREHOUSES", plugins)
    yield installed
    dialect_named.cache_clear()


@pytest.mark.table("name", DIALECTS)
def test_a_built_in_dialect_is_found_by_its_name(name: str) -> None:
    found = dialect_named(name)
    assert (found.name, found.title != "", bool(found.functions())) == (name, True, True)
    assert dialect_named(name) is found


def test_every_warehouse_has_a_dialect() -> None:
    assert {dialect_of(driver) for driver in WAREHOUSES.built_in} == set(DIALECTS)


def test_a_dialect_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        dialect_named("duckdb").name = "sqlite"


def test_an_unknown_dialect_has_no_peculiarities_and_runs_no_statements() -> None:
    assert (dialect_named("hive").name, quote('a"b', "hive")) == ("hive", '"a""b"')
    with pytest.raises(NotSupportedError, match="no list of allowed functions"):
        check("SELECT 1", "hive", max_rows=1)


def test_another_warehouse_brings_its_own(other: OtherDialect) -> None:
    assert dialect_named("presto") is other
    assert quote("a»b", "presto") == "«a»»b»"
    clock = Clock("presto")
    assert truncate(VALUE, "day", "date", clock).sql("presto") == "THEIR_DATE(at)"
    condition = within(VALUE, date(2024, 1, 1), None, "date", clock)
    assert condition is not None
    assert condition.sql("presto") == "THEIR_DATE(at) >= THEIR_DATE('2024-01-01')"
    assert check("SELECT upper(a) FROM t", "presto", max_rows=1).sql == "SELECT UPPER(a) FROM t LIMIT 2"


def test_a_process_imports_the_dialects_it_asks_for_and_no_parser() -> None:
    program = (
        "import sys; from ktx_cli.warehouses import dialect_named; dialect_named('mysql').quote('a'); "
        "print(sorted(name for name in sys.modules if name.endswith('.dialect')), 'sqlglot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['ktx_cli.warehouses.dialect', 'ktx_cli.warehouses.mysql.dialect'] False"


def driver_error(*args: object, **facts: object) -> Exception:
    error = Exception(*args)
    for name, value in facts.items():
        setattr(error, name, value)
    return error


@pytest.mark.table(
    ("dialect", "error", "about_the_statement"),
    [
        ("duckdb", EngineError("duckdb", "BinderException", "no column ghost"), True),
        ("duckdb", EngineError("duckdb", "ConversionException", "'ada' is not a number"), False),
        ("sqlite", driver_error("no such column: ghost"), True),
        ("sqlite", driver_error("no such column: ada"), False),
        ("sqlite", driver_error('near "FORM": syntax error'), True),
        ("sqlite", driver_error("bad JSON path: 'ada'"), False),
        ("postgres", driver_error(sqlstate="42501"), True),
        ("postgres", driver_error(sqlstate="42P01", diag=SimpleNamespace(statement_position="8")), True),
        ("redshift", driver_error(sqlstate="42P01", diag=SimpleNamespace(statement_position="8")), True),
        ("postgres", driver_error(sqlstate="42601", diag=SimpleNamespace(statement_position=None)), False),
        ("mysql", driver_error(1146, "no table"), True),
        ("mysql", driver_error(1366, "'ada' is not a number"), False),
        ("mysql", driver_error(), False),
        ("trino", driver_error(error_name="COLUMN_NOT_FOUND"), True),
        ("trino", driver_error(error_name="INVALID_CAST_ARGUMENT"), False),
        ("snowflake", driver_error("no column ghost"), False),
    ],
)
def test_errors_that_are_about_the_statement_alone(dialect: str, error: Exception, about_the_statement: bool) -> None:
    assert dialect_named(dialect).is_statement_error(error, "SELECT ghost FORM orders") is about_the_statement
