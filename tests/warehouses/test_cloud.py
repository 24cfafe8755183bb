"""What cloud warehouses share: one statement that reads, names and texts written for each dialect, secrets masked."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses.bigquery.connector import unquoted
from ktx_cli.warehouses.cloud import CloudConnector, drafts_of, identifier, require_query, required, texts
from ktx_cli.warehouses.databricks.connector import DatabricksConnector
from ktx_cli.warehouses.port import ConnectionSpec, Scope, TableKind, TableRef
from ktx_cli.warehouses.server import ServerAddress

DIALECTS = ["snowflake", "bigquery", "databricks", "trino"]
READS = {
    "snowflake": [
        "SELECT 1", "SELECT 1;", "select * from t -- DROP TABLE t", "/* c */ SELECT 1", "WITH a AS (SELECT 1) SELECT 2",
        "(SELECT 1) UNION ALL (SELECT 2)", "VALUES (1), (2)", "SELECT * FROM (VALUES (1)) AS v (a)",
        "SELECT v:a.b::int, t.value FROM t, LATERAL FLATTEN(input => v) t", "SELECT * FROM t SAMPLE ROW (10 ROWS)",
        "SELECT 'x; DROP TABLE t', \"a;b\", '->>' FROM t", "SELECT * FROM t AT (OFFSET => -60)", "SHOW TABLES",
        "SELECT * FROM t PIVOT (SUM(a) FOR b IN ('x', 'y'))", "DESCRIBE TABLE t", "SELECT 'SYSTEM$WAIT'",
        "SELECT COUNT(*), MAX(a) FROM t GROUP BY ALL HAVING COUNT(*) > 1 ORDER BY 1 LIMIT 5",
    ],
    "databricks": [
        "SELECT 1", "FROM t SELECT a", "WITH a AS (SELECT 1) SELECT * FROM a", "VALUES (1)", "SHOW TABLES IN a.b",
        "SELECT a.b.c, array(1, 2)[0] FROM `odd name`.`t` LATERAL VIEW explode(x) e AS y", "DESCRIBE HISTORY t",
        "SELECT * FROM t VERSION AS OF 1", "EXPLAIN INSERT INTO t SELECT 1", "SELECT * FROM t TABLESAMPLE (10 ROWS)",
    ],
}  # fmt: skip
CHANGES = {
    "snowflake": [
        "SELECT 1; SELECT 2", "SELECT 1 ->> DELETE FROM t", "SELECT SYSTEM$WAIT(5)", "SELECT \"SYSTEM$WAIT\"(5)",
        "WITH a AS (SELECT 1) DELETE FROM t", "WITH p AS PROCEDURE () RETURNS INT AS 'x' CALL p()", "SELECT (", "",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000, "SELECT 1 INTO x", "WITH a AS (SELECT 1) INSERT INTO t SELECT 1",
        "SHOW TABLES; DROP TABLE t", "SHOW TABLES ->> DROP TABLE t",
    ],
    "databricks": [
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "FROM a INSERT INTO t SELECT *", "TABLE t",
        "WITH a AS (SELECT 1) UPDATE t SET x = 1", "WITH a AS (SELECT 1) MERGE INTO t USING a ON 1 = 1 WHEN MATCHED "
        "THEN DELETE", "FROM a INSERT INTO t SELECT * INSERT INTO u SELECT *", "EXPLAIN SELECT 1; DROP TABLE t",
    ],
}  # fmt: skip


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(dialect, sql) for dialect, statements in table.items() for sql in statements]


@pytest.mark.table(("dialect", "sql"), cases(READS))
def test_one_statement_that_reads(dialect: str, sql: str) -> None:
    require_query(sql, dialect, "here")


@pytest.mark.table(("dialect", "sql"), [case for case in cases(CHANGES) if case[1]])
def test_everything_else_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises(SourceError, match=r"here: .* not run: ktx only reads") as caught:
        require_query(sql, dialect, "here")
    assert caught.value.code == "read_only"


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
def test_texts_come_back(dialect: str, value: str) -> None:
    tree = sqlglot.parse_one(f"SELECT {texts(dialect, [value])}", read=dialect)
    (literal,) = tree.expressions
    assert isinstance(literal, exp.Literal)
    assert literal.this == value


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(value=st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\."), min_size=1, max_size=20))
def test_names_come_back(dialect: str, value: str) -> None:
    tree = sqlglot.parse_one(f"SELECT * FROM {identifier(dialect, 'a', value)}", read=dialect)
    table = tree.find(exp.Table)
    assert table is not None
    assert [part.name for part in table.parts] == ["a", value]


@settings(deadline=None)
@given(value=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_string_of_googlesql_comes_back(value: str) -> None:
    written = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert unquoted(f'"{written}"') == value


def test_drafts() -> None:
    rows = [("s", "t", "VIEW", "", None), ("s", "u", "STREAM", "c", "7")]
    view, table = drafts_of(rows, {"VIEW": TableKind.VIEW}).values()
    assert (view.ref, view.kind, view.comment, view.row_estimate) == (TableRef("s", "t"), TableKind.VIEW, None, None)
    assert (table.kind, table.comment, table.row_estimate) == (TableKind.TABLE, "c", 7)


def unopened(options: dict[str, Any], password: str = "") -> CloudConnector:
    connector = object.__new__(DatabricksConnector)
    connector.id, connector.options = "x", options
    connector.address = ServerAddress("h", 443, "", "", password)
    return connector


@pytest.mark.table(
    ("options", "scope", "schemas"),
    [
        ({}, Scope(), None),
        ({"schemas": []}, Scope(), None),
        ({"schemas": ["a", "b"]}, Scope(), ("a", "b")),
        ({"schemas": "a"}, Scope(), ("a",)),
        ({"schemas": ["a"]}, Scope(schemas=("c",), exclude=("x",)), ("c",)),
    ],
)
def test_the_schemas_of_the_settings(options: dict[str, Any], scope: Scope, schemas: tuple[str, ...] | None) -> None:
    found = unopened(options)._scoped(scope)
    assert (found.schemas, found.exclude) == (schemas, scope.exclude)


@pytest.mark.table(
    "said", ["the key s3cret-a", "the key s3cret-b", "s3cret-a\ns3cret-b", "b's3cret-a\\ns3cret-b'", "at s3%20cret"]
)
def test_secrets_are_masked_line_by_line(said: str) -> None:
    masked = unopened({"token": "s3cret-a\ns3cret-b"}, "s3 cret")._redacted(said)
    assert "cret" not in masked


def test_a_setting_that_is_missing() -> None:
    assert required(ConnectionSpec("x", "trino", {"host": " db "}), "host", "h") == "db"
    with pytest.raises(ConfigError, match="connection `x` does not set `host`") as caught:
        required(ConnectionSpec("x", "trino", {"host": " "}), "host", "trino.example.com")
    assert caught.value.hint == "ktx config set connections.x.host trino.example.com"
