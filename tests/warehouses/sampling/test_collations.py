"""Which columns tell `a` from `A`: as the server says, and none where it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.port import Connector, QueryResult, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import exact_texts

TABLES = [Table(TableRef("it's", name), TableKind.TABLE, ()) for name in ("t", "u")]


class Server:
    """Gives the same rows for every statement, or an error."""

    def __init__(self, dialect: str, answer: Sequence[tuple[str, str, str]] | SourceError) -> None:
        self.dialect = dialect
        self.answer = answer
        self.sent: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        if isinstance(self.answer, SourceError):
            raise self.answer
        return QueryResult(("a", "b", "c"), tuple(self.answer))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody asks for {name}")


@pytest.mark.mysql
def test_mariadb_says_which(mysql_engine: Any, opened: Callable[..., Connector]) -> None:
    columns = ", ".join(
        f"{name} varchar(9) COLLATE {collation}"
        for name, collation in (("a", "utf8mb4_bin"), ("b", "utf8mb4_general_ci"), ("c", "latin1_general_cs"))
    )
    connector = opened("mysql", **mysql_engine.make(f"CREATE TABLE t ({columns}, n int, raw varbinary(9))"))
    tables = connector.introspect(Scope()).tables
    assert exact_texts(connector, tables) == ({tables[0].ref: frozenset("ac")}, 1)


@pytest.mark.table("dialect", ["mysql", "tsql"])
def test_one_statement_for_all_tables(dialect: str) -> None:
    server = Server(dialect, [("it's", "t", "x"), ("it's", "t", "y")])
    assert exact_texts(server, TABLES) == ({TABLES[0].ref: frozenset("xy")}, 1)
    (tree,) = sqlglot.parse(server.sent[0], read=dialect)
    assert isinstance(tree, exp.Select)
    assert "it's" in [each.name for each in tree.find_all(exp.Literal, exp.National)]


@pytest.mark.table("dialect", ["sqlite", "duckdb", "postgres", "snowflake"])
def test_other_dialects_are_not_asked(dialect: str) -> None:
    server = Server(dialect, [])
    assert exact_texts(server, TABLES) == ({}, 0)
    assert server.sent == []


def test_a_server_that_does_not_say_has_none_and_one_that_is_gone_is_an_error() -> None:
    refusing = Server("mysql", SourceError("no", code="query"))
    assert exact_texts(refusing, TABLES) == ({}, 1)
    with pytest.raises(SourceError, match="gone"):
        exact_texts(Server("mysql", SourceError("gone")), TABLES)
    assert exact_texts(Server("mysql", []), []) == ({}, 0)
