"""Scope keys of `ktx.yaml`, names with quotes, patterns, and entries that match nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError
from ktx_cli.warehouses.port import Scope, TableRef, matches, named_tables, parse_name, scope_from_options, select

REFS = [
    TableRef("mart", "orders"),
    TableRef("mart", "orders_tmp"),
    TableRef("raw", "orders"),
    TableRef("raw", "a.b"),
    TableRef("raw", 'q"q'),
]
FLAT = [TableRef(None, "orders"), TableRef(None, "a.b"), TableRef(None, "sales/2024")]


@pytest.mark.table(
    ("options", "scope"),
    [
        ({}, Scope()),
        ({"schemas": ["a", "b"]}, Scope(schemas=("a", "b"))),
        ({"schema": "a"}, Scope(schemas=("a",))),
        ({"schemas": [], "enabled_tables": []}, Scope()),
        ({"enabled_tables": ["x.y", "z"]}, Scope(enabled_tables=("x.y", "z"))),
        ({"include": "a*", "exclude": ["*_tmp"]}, Scope(include=("a*",), exclude=("*_tmp",))),
        ({"schemas": None}, Scope()),
    ],
)
def test_scope_from_options(options: dict[str, Any], scope: Scope) -> None:
    assert scope_from_options(options) == scope


@pytest.mark.table(
    "options",
    [{"schemas": 3}, {"enabled_tables": [1]}, {"include": {"a": 1}}, {"exclude": [""]}, {"enabled_tables": ['"a']}],
)
def test_scope_from_unusable_options(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        scope_from_options(options)
    assert caught.value.hint


@pytest.mark.table(
    ("entry", "parts"),
    [
        ("t", ("t",)),
        ("s.t", ("s", "t")),
        ("c.s.t", ("c", "s", "t")),
        ('s."a.b"', ("s", "a.b")),
        ('"a.b"', ("a.b",)),
        ('"say ""hi"""', ('say "hi"',)),
        (" Order Details ", ("Order Details",)),
        ('"a"."b"."c"', ("a", "b", "c")),
    ],
)
def test_parse_name(entry: str, parts: tuple[str, ...]) -> None:
    assert parse_name(entry) == parts


@pytest.mark.table("entry", ["", "a.", ".a", "a..b", '"a', '"a"b', '""', 'a."b'])
def test_unfinished_names(entry: str) -> None:
    with pytest.raises(ConfigError):
        parse_name(entry)


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3))
def test_quoted_parts_come_back(parts: list[str]) -> None:
    entry = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    assert parse_name(entry) == tuple(parts)


@given(st.lists(st.builds(TableRef, st.sampled_from(["a", "b", "a.b"]), st.text(min_size=1, max_size=5)), max_size=6))
def test_every_relation_is_found_by_its_quoted_name_alone(refs: list[TableRef]) -> None:
    for ref in refs:
        entry = ".".join('"' + part.replace('"', '""') + '"' for part in (ref.schema or "", ref.name))
        chosen = select(refs, Scope(enabled_tables=(entry,)))
        assert (chosen.refs, chosen.problems) == ((ref,), ())


@pytest.mark.table(
    ("scope", "found"),
    [
        (Scope(), ["mart.orders", "mart.orders_tmp", "raw.a.b", "raw.orders", 'raw.q"q']),
        (Scope(schemas=("mart",)), ["mart.orders", "mart.orders_tmp"]),
        (Scope(enabled_tables=("orders",)), ["mart.orders", "raw.orders"]),
        (Scope(enabled_tables=("raw.orders",)), ["raw.orders"]),
        (Scope(enabled_tables=("shop.raw.orders",)), ["raw.orders"]),
        (Scope(enabled_tables=('raw."a.b"',)), ["raw.a.b"]),
        (Scope(enabled_tables=("a.b",)), ["raw.a.b"]),
        (Scope(enabled_tables=("raw.a.b",)), ["raw.a.b"]),
        (Scope(enabled_tables=('"q""q"',)), ['raw.q"q']),
        (Scope(include=("mart.*",)), ["mart.orders", "mart.orders_tmp"]),
        (Scope(include=("orders*",), exclude=("*_tmp",)), ["mart.orders", "raw.orders"]),
        (Scope(exclude=("raw.*",)), ["mart.orders", "mart.orders_tmp"]),
        (Scope(include=("ord?rs",)), ["mart.orders", "raw.orders"]),
        (Scope(include=("[a-z]*.orders",)), ["mart.orders", "raw.orders"]),
        (Scope(schemas=("mart",), enabled_tables=("orders",)), ["mart.orders"]),
        (Scope(exclude=("nothing*",), schemas=("mart",)), ["mart.orders", "mart.orders_tmp"]),
    ],
)
def test_select(scope: Scope, found: list[str]) -> None:
    chosen = select(REFS, scope, catalog="shop")
    assert [str(ref) for ref in chosen.refs] == found
    assert chosen.problems == ()


@pytest.mark.table(
    ("scope", "found"),
    [
        (Scope(enabled_tables=("orders",)), ["orders"]),
        (Scope(enabled_tables=("main.orders",)), ["orders"]),
        (Scope(enabled_tables=("a.b",)), ["a.b"]),
        (Scope(enabled_tables=('"a.b"',)), ["a.b"]),
        (Scope(include=("sales/*",)), ["sales/2024"]),
        (Scope(schemas=("main",)), ["a.b", "orders", "sales/2024"]),
    ],
)
def test_select_where_there_are_no_schemas(scope: Scope, found: list[str]) -> None:
    chosen = select(FLAT, scope)
    assert [str(ref) for ref in chosen.refs] == found
    assert chosen.problems == ()


@pytest.mark.table(
    ("scope", "words"),
    [
        (Scope(enabled_tables=("raw.order",)), ["`raw.order`", "enabled_tables", "did you mean `raw.orders`"]),
        (Scope(enabled_tables=("Orders",)), ["`Orders`"]),
        (Scope(enabled_tables=("other.raw.orders",)), ["`other.raw.orders`"]),
        (Scope(enabled_tables=("a.b.c.d",)), ["`a.b.c.d`"]),
        (Scope(include=("stage.*",)), ["`stage.*`", "include"]),
        (Scope(schemas=("marts",)), ["`marts`", "did you mean `mart`"]),
        (Scope(schemas=("mart",), enabled_tables=("raw.orders",)), ["`raw.orders`"]),
    ],
)
def test_what_matches_nothing_is_named(scope: Scope, words: list[str]) -> None:
    chosen = select(REFS, scope, catalog="shop")
    (problem,) = chosen.problems
    assert (problem.ref, problem.what) == (None, "schema" if scope.schemas == ("marts",) else "scope")
    assert all(word in problem.message for word in words)


def test_one_entry_of_two_is_missing() -> None:
    chosen = select(REFS, Scope(enabled_tables=("raw.orders", "nope")))
    assert [str(ref) for ref in chosen.refs] == ["raw.orders"]
    assert len(chosen.problems) == 1


def test_a_schema_of_an_empty_database_is_named() -> None:
    assert len(select([], Scope(schemas=("mart",))).problems) == 1


def test_patterns_mind_case() -> None:
    assert matches("ORDERS", TableRef("s", "ORDERS"))
    assert not matches("orders", TableRef("s", "ORDERS"))


def test_names_on_a_command_line_are_those_of_the_setting() -> None:
    found = named_tables(REFS, ["mart.orders", '"a.b"', "ordrs"], "--table")
    assert found.refs == (TableRef("mart", "orders"), TableRef("raw", "a.b"))
    assert [each.message.partition(":")[0] for each in found.problems] == [
        "`ordrs` in `--table` matches no table in scope"
    ]
    with pytest.raises(ConfigError, match='`"a` in `--table` is not a table name'):
        named_tables(REFS, ['"a'], "--table")
    assert named_tables(REFS, (), "--table").refs == ()
