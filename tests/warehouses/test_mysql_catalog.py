"""What is made of rows that do not fit together, because information_schema has no snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktx_cli.warehouses.mysql.connector import MySqlCatalog, list_relations
from ktx_cli.warehouses.port import Scope, TableRef
from ktx_cli.warehouses.server import PartReader

TABLES = [("s", name, "BASE TABLE", 1, "") for name in ("kept", "dropped")] + [("s", "v", "VIEW", None, "VIEW")]
COLUMNS = [("s", name, "id", "int", 1, None, "", "", "") for name in ("kept", "v", "made")]
KEYS = [("s", name, "PRIMARY", 0, "id", None) for name in ("kept", "dropped", "made")]
LINKS = [("s", name, "fk", "id", "s", "kept", "id") for name in ("dropped", "made")]


def read(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Answer as a server on which `dropped` goes and `made` comes behind the first query."""
    known: dict[str, list[tuple[Any, ...]]] = {
        ".tables": TABLES,
        ".columns": COLUMNS,
        ".statistics": KEYS,
        "key_column_usage": LINKS,
        ".views": [],
    }
    return next(rows for name, rows in known.items() if f"information_schema{name}" in sql or name in sql)


def test_a_table_that_is_dropped_between_two_queries_is_a_problem_and_a_new_one_waits() -> None:
    tables, problems = MySqlCatalog(read, PartReader(read, ValueError)).read(list_relations(read), Scope())
    assert [table.ref.name for table in tables] == ["kept", "v"]
    assert tables[0].primary_key == ("id",)
    assert [(problem.ref, problem.what, problem.message) for problem in problems] == [
        (TableRef("s", "dropped"), "table", "the server lists no columns for it")
    ]
