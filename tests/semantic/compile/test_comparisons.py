"""Times compared in SQLite: each condition over values of every spelling, executed; expected rows are written down."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from sqlglot import exp

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.compile.build import with_compared_times
from ktx_cli.semantic.expressions.fragments import parse
from ktx_cli.semantic.expressions.names import Expression, Name, filled, with_names
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import CalendarSettings, Column
from ktx_cli.warehouses.dialect import dialect_named
from ktx_cli.warehouses.port import ConnectionSpec, SemanticType
from ktx_cli.warehouses.registry import connect

SQLITE = dialect_named("sqlite")
VALUES: dict[str, tuple[Any, Any]] = {
    "a": ("2021-01-02 23:59:59", 1609632000),  # epoch: 2021-01-03 00:00
    "b": ("2021-01-03", "2021-01-03 00:00:00"),
    "c": ("2021-01-03 00:00:00", "2021-01-03T00:00:00.000"),
    "d": ("2021-01-03T00:00", "2021-01-02"),
    "e": ("2021-01-03 00:00:00.0625", "2021-01-03 00:00:00.06250Z"),
    "f": ("2021-01-03 02:00:00+02:00", None),
    "g": ("2021-01-02T19:00:00.500-05:00", "2021-01-03 00:00:00.5"),
    "h": (1609632000, 1609632001),
    "i": (None, "2021-01-03"),
    "j": ("no time", "2021-01-03"),
    "k": ("2021-01-04T00:00:00Z", "2021-01-03T23:00:00-01:00"),
    "l": (1609632000000, 1609632000001),  # milliseconds, which are no time
}
COLUMNS = {
    "at": Column("at", SemanticType.TIME),
    "other": Column("other", SemanticType.TIME),
    "day": Column("day", SemanticType.TIME, expr="at", natural_granularity="day"),
    "berlin": Column("berlin", SemanticType.TIME, expr="at", timezone="Europe/Berlin"),
    "word": Column("word", SemanticType.STRING, expr="at"),
}


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id TEXT, at, other)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(key, *value) for key, value in VALUES.items()])
    yield connection
    connection.close()


def expression(text: str) -> Expression:
    return with_names(parse(text, "sqlite", what="x"), None, text, lambda column: Name((), column.name))


def kept(database: sqlite3.Connection, text: str) -> str:
    """Return the ids of the rows that meet a condition."""
    found = expression(text)
    tree = with_compared_times(found.tree, lambda number: COLUMNS[found.names[number].column], SQLITE)
    condition = filled(
        tree, lambda number: exp.column(COLUMNS[found.names[number].column].expr or found.names[number].column)
    )
    return "".join(key for (key,) in database.execute(f"SELECT id FROM t WHERE {condition.sql('sqlite')} ORDER BY id"))


@pytest.mark.table(
    ("condition", "rows"),
    [
        ("at = '2021-01-03'", "bcdfh"),
        ("at = '2021-01-03T00:00:00'", "bcdfh"),
        ("at = '2021-01-03 00:00:00.000'", "bcdfh"),
        ("at = '2021-01-03T01:00:00+01:00'", "bcdfh"),
        ("at = '2021-01-03 00:00Z'", "bcdfh"),
        ("'2021-01-03' = at", "bcdfh"),
        ("at <> '2021-01-03'", "aegk"),
        ("NOT at = '2021-01-03'", "aegk"),
        ("at IS '2021-01-03'", "bcdfh"),
        ("at IS NOT '2021-01-03'", "aegijkl"),
        ("at < '2021-01-03'", "a"),
        ("at <= '2021-01-03'", "abcdfh"),
        ("at > '2021-01-03'", "egk"),
        ("at >= '2021-01-03'", "bcdefghk"),
        ("at > '2021-01-03 00:00:00.06249'", "egk"),
        ("at > '2021-01-03 00:00:00.062500'", "gk"),
        ("at BETWEEN '2021-01-03' AND '2021-01-04'", "bcdefghk"),
        ("at NOT BETWEEN '2021-01-03' AND '2021-01-03 12:00'", "ak"),
        ("at IN ('2021-01-03', '2021-01-04T00:00:00', NULL)", "bcdfhk"),
        ("at NOT IN ('2021-01-03')", "aegk"),
        ("at = DATE '2021-01-03'", "bcdfh"),
        ("at = TIMESTAMP '2021-01-03 00:00:00'", "bcdfh"),
        ("at > date('2021-01-04', '-1 days')", "egk"),
        ("at = datetime('2021-01-03')", "bcdfh"),
        ("at <= CURRENT_TIMESTAMP AND at <= CURRENT_DATE", "abcdefghk"),
        ("date(at) = '2021-01-03T00:00:00' AND at LIKE '2021-01-03 00%'", "ce"),
        ("date_trunc('month', at) = '2021-01-01 00:00:00' AND at > '2021-01-03'", "egk"),
        ("date_trunc('hour', at) = '2021-01-04'", "k"),
        ("CASE WHEN at <= '2021-01-03' THEN 1 END = 1", "abcdfh"),
        # A date has no clock: the text's own day counts.
        ("day = '2021-01-03'", "bcdefh"),
        ("day = '2021-01-03T00:00:00Z'", "bcdefh"),
        ("day <= '2021-01-02'", "ag"),
        ("day >= '2021-01-03 00:00:01'", "k"),
        ("day < '2021-01-03 00:00:01'", "abcdefgh"),
        # In the zone of the column, one hour ahead: texts with an offset, and numbers, say the moment themselves.
        ("berlin = '2021-01-03'", "bcd"),
        ("berlin = '2021-01-03 01:00'", "fh"),
        ("berlin = '2021-01-03T00:00:00Z'", "fh"),
        ("berlin >= '2021-01-04'", "k"),
        # Two columns; where both are numbers they are compared as such.
        ("at = other", "bcegk"),
        ("at < other", "ahl"),
        ("at > other", "d"),
        ("at BETWEEN other AND other", "bcegk"),
        ("at >= day", "abcdefghk"),
        # What is no time is compared as it was.
        ("at = 1609632000", "h"),
        ("at = 'no time'", "j"),
        ("at >= '2021-01-04T'", "jk"),
        ("word = '2021-01-03'", "b"),
        ("at = '2021-02-30'", ""),
        ("at LIKE '2021-01-03 0%'", "cef"),
        ("at IS NULL", "i"),
    ],
)
def test_the_rows_that_meet_a_condition(condition: str, rows: str, database: sqlite3.Connection) -> None:
    assert kept(database, condition) == rows


@pytest.mark.table(
    "text", ["word = '2021-01-03'", "at IS NULL", "at LIKE '2021%'", "at > 5", "at + 1", "at = '2021-01'"]
)
def test_what_compares_no_times_stays(text: str) -> None:
    found = expression(text)
    assert with_compared_times(found.tree, lambda number: COLUMNS[found.names[number].column], SQLITE) == found.tree


AT = {"missing": None, "before": "2021-01-03 00:00:00", "after": "2021-01-03T00:00:01", "never": "never"}


@pytest.mark.table(
    ("policy", "rows"),
    [
        ("at <= '2021-01-03'", ["before"]),
        ("at >= '2021-01-03'", ["after", "before"]),
        ("NOT at > '2021-01-03'", ["before"]),
        ("at IS NULL OR at <= '2021-01-03'", ["before", "missing"]),
        ("CASE WHEN at > '2021-01-03' THEN FALSE ELSE TRUE END", ["before", "missing"]),
        ("coalesce(at > '2021-01-03', FALSE) = FALSE", ["before", "missing"]),
        ("NOT late", ["before", "missing"]),
        ("at IS NOT '2021-01-03'", ["after", "missing"]),
        ("at <> 'never'", ["after", "before"]),
    ],
)
def test_a_policy_lets_no_row_through_whose_time_is_none(policy: str, rows: list[str], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("policy")
    with sqlite3.connect(folder / "data") as database:
        database.execute("CREATE TABLE notes (id TEXT, at TEXT)")
        database.executemany("INSERT INTO notes VALUES (?, ?)", list(AT.items()))
    database.close()
    columns = [{"name": "id", "type": "string"}, {"name": "at", "type": "time"}]
    late = {"name": "late", "type": "boolean", "expr": "coalesce(at > '2021-01-03', FALSE)"}
    source = {"name": "notes", "table": "notes", "grain": ["id"], "columns": [*columns, late]}
    (folder / "semantic-layer" / "w").mkdir(parents=True)
    text = json.dumps(source | {"policies": [{"name": "only", "filter": policy}]})
    (folder / "semantic-layer" / "w" / "notes.yaml").write_text(text)
    model = load_model(Layout(folder), "w", "sqlite", CalendarSettings())
    with connect(ConnectionSpec("w", "sqlite", {"path": str(folder / "data")})) as connector:
        answer = ask(model, {"measures": [], "dimensions": ["notes.id"]}, connector)
    assert sorted(row[0] for row in answer.rows) == rows
