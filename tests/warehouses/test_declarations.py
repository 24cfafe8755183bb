"""The values that types and CHECK constraints allow."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from ktx_cli.warehouses.declarations import allowed_values, checked_values, enum_values, is_date
from ktx_cli.warehouses.port import Column, ConnectionSpec, Scope, semantic_type
from ktx_cli.warehouses.registry import connect


@pytest.mark.table(
    ("native", "values"),
    [
        ("enum('small','it''s','a,b')", ("small", "it's", "a,b")),
        ("ENUM('x')", ("x",)),
        ("Enum8('a' = 1, 'b\\'c' = 2)", ("a", "b'c")),
        ("Nullable(Enum16('a' = -1))", ("a",)),
        ("varchar(20)", ()),
        ("enumeration", ()),
    ],
)
def test_enums_name_their_values(native: str, values: tuple[str, ...]) -> None:
    assert enum_values(native) == values


@pytest.mark.table(
    ("native", "expected"),
    [
        ("DATE", True),
        ("date", True),
        ("Date32", True),
        ("Nullable(Date)", True),
        ("LowCardinality(Nullable(Date))", True),
        ("datetime", False),
        ("timestamp", False),
        ("time", False),
        ("date[]", False),
        ("varchar", False),
    ],
)
def test_dates_without_a_time_of_day(native: str, expected: bool) -> None:
    assert is_date(Column("day", native, semantic_type(native))) is expected


@pytest.mark.table(
    ("condition", "dialect", "found"),
    [
        ("status IN ('a', 'b')", "sqlite", ("status", ("a", "b"))),
        ("(((status IN ('a', 'b')) OR (status IS NULL)))", "duckdb", ("status", ("a", "b"))),
        ("status = 'a' OR status = 'b' OR status IN ('b', 'it''s')", "sqlite", ("status", ("a", "b", "it's"))),
        ("(status)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[])", "postgres",
         ("status", ("a", "b"))),
        ("(status = ANY (ARRAY['a'::text, 'b'::text]))", "postgres", ("status", ("a", "b"))),
        ("status IN (1, 2)", "sqlite", None),
        ("status IN ('a') AND amount > 0", "sqlite", None),
        ("status IN ('a') OR kind IN ('b')", "sqlite", None),
        ("status NOT IN ('a')", "sqlite", None),
        ("status <> 'a'", "sqlite", None),
        ("lower(status) IN ('a')", "sqlite", None),
        ("status IS NULL", "sqlite", None),
        ("status IN (SELECT name FROM t)", "sqlite", None),
        ("amount > 0", "postgres", None),
        ("not ( SQL", "sqlite", None),
    ],
)  # fmt: skip
def test_a_condition_names_texts_or_nothing(
    condition: str, dialect: str, found: tuple[str, tuple[str, ...]] | None
) -> None:
    assert checked_values(condition, dialect) == found


TABLE = (
    "CREATE TABLE orders (id INTEGER, \"Status\" VARCHAR CHECK (\"Status\" IN ('open', 'paid')), kind VARCHAR,"
    " amount INTEGER CHECK (amount > 0), CHECK (kind IN ('web', 'shop') OR kind IS NULL))"
)
ALLOWED = {"Status": ("open", "paid"), "kind": ("web", "shop")}


def test_sqlite_reads_constraints(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as database:
        database.execute(TABLE)
    assert _allowed("sqlite", tmp_path / "a.sqlite") == ALLOWED


def test_duckdb_reads_constraints_and_enums(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as database:
        database.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        database.execute(TABLE)
        database.execute("ALTER TABLE orders ADD COLUMN mood mood")
    assert _allowed("duckdb", tmp_path / "a.duckdb") == {**ALLOWED, "mood": ("sad", "ok")}


def _allowed(driver: str, path: Path) -> dict[str, tuple[str, ...]]:
    with connect(ConnectionSpec("w", driver, {"path": str(path)})) as connector:
        (table,) = connector.introspect(Scope()).tables
    return {column.name: allowed for column in table.columns if (allowed := allowed_values(column))}
