"""Names and values in ktx's own statements mean what they are, on every engine and in every dialect."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.warehouses.dialect import column_list, quote, table_path, value_list
from ktx_cli.warehouses.port import Connector, TableRef

DIALECTS = (
    *("sqlite", "duckdb", "postgres", "mysql", "tsql", "snowflake"),
    *("bigquery", "clickhouse", "redshift", "databricks", "trino", "spark", "athena"),
)
TEXTS = (
    "plain",
    "it's",
    "it''s",
    "back\\slash",
    "\\",
    "\\'",
    'say "hi"',
    "a\nb\tc",
    "%s ? :x",
    "Größe",
    "🛒",
    "--",
    "",
)


@pytest.mark.table("text", TEXTS)
def test_texts_are_what_they_are(engine: Any, opened: Callable[..., Connector], text: str) -> None:
    connector = opened(engine.driver, **engine.make())
    ((found,),) = connector.query(f"SELECT {value_list([text], connector.dialect)}").rows
    assert found == text


VALUES = [
    -(2**63) + 1,
    0,
    decimal.Decimal("-12.50"),
    decimal.Decimal("1E+3"),
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 23, 59, 59, 123456),
]


@pytest.mark.in_turns("driver")
@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize(
    "driver",
    ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mysql", marks=pytest.mark.mysql)],
)
def test_values_are_what_they_are(
    driver: str, request: pytest.FixtureRequest, opened: Callable[..., Connector], value: Any
) -> None:
    engine = request.getfixturevalue(f"{driver}_engine")
    connector = opened(driver, **engine.make())
    ((found,),) = connector.query(f"SELECT {value_list([value], connector.dialect)}").rows
    assert found == value


@pytest.mark.table("dialect", DIALECTS)
def test_each_literal_is_one_text_again_when_parsed(dialect: str) -> None:
    for text in TEXTS:
        tree = sqlglot.parse_one(f"SELECT {value_list([text, text], dialect)}", read=dialect)
        assert isinstance(tree, exp.Select)
        assert [each.name for each in tree.selects] == [text, text]


@pytest.mark.table("value", [datetime.timedelta(1), object()])
def test_a_value_without_a_literal_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="onvert"):
        value_list([1, value], "postgres")


def test_sql_server_texts_keep_characters_of_other_code_pages() -> None:
    assert value_list(["Größe", "it's"], "tsql") == "N'Größe', N'it''s'"


@pytest.mark.parametrize("dialect", DIALECTS)
@given(name=st.text(st.characters(exclude_characters="\x00\r\n`\\.", exclude_categories=["Cs"]), min_size=1))
def test_a_name_is_one_name_again_when_parsed(dialect: str, name: str) -> None:
    tree = sqlglot.parse_one(f"SELECT {quote(name, dialect)} FROM t", read=dialect)
    assert [each.name for each in tree.find_all(exp.Column)] == [name]


QUOTED = [
    ("sqlite", 'a"b', '"a""b"'),
    ("mysql", "a`b", "`a``b`"),
    ("databricks", "a`b\\", "`a``b\\`"),
    ("spark", "a`b\\", "`a``b\\`"),
    ("bigquery", "a`b\\", "`a\\`b\\\\`"),
    ("clickhouse", "a`b\\", "`a\\`b\\\\`"),
    ("tsql", "a]b[c", "[a]]b[c]"),
]


@pytest.mark.table(("dialect", "name", "expected"), QUOTED)
def test_quotes_within_names(dialect: str, name: str, expected: str) -> None:
    assert quote(name, dialect) == expected


def test_paths_and_lists() -> None:
    assert table_path(TableRef(None, "a.b"), "sqlite") == '"a.b"'
    assert table_path(TableRef("my schema", "t"), "mysql") == "`my schema`.`t`"
    assert column_list(["a", "b c"], "tsql", of="p") == "p.[a], p.[b c]"
