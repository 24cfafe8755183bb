"""The JSON form of a question, read into one checked value or refused at the first thing that is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.model import SemanticError
from ktx_cli.semantic.query import (
    LONGEST,
    MOST_ITEMS,
    MOST_ROWS,
    Query,
    QueryDimension,
    QueryFilter,
    QueryMeasure,
    QueryOrder,
    QueryRange,
    parse_query,
    with_name,
)

M = {"measures": ["m"]}


@pytest.mark.table(
    ("asked", "field", "wanted"),
    [
        (M, "measures", (QueryMeasure("m"),)),
        ({"measures": [" m "]}, "measures", (QueryMeasure("m"),)),
        ({"measures": [{"expr": "sum(x)", "name": "n"}]}, "measures", (QueryMeasure("sum(x)", "n"),)),
        ({"measures": [{"expr": "x", "name": None}]}, "measures", (QueryMeasure("x"),)),
        ({"measures": ["sum(x) as n"]}, "measures", (QueryMeasure("sum(x)", "n"),)),
        ({"measures": ['sum(x)  AS\n"n, in €" ']}, "measures", (QueryMeasure("sum(x)", "n, in €"),)),
        ({"measures": ["sum(x) as `n m`"]}, "measures", (QueryMeasure("sum(x)", "n m"),)),
        ({"measures": [{"expr": "x as n"}]}, "measures", (QueryMeasure("x", "n"),)),
        ({"measures": ["sum(cast(x as int))"]}, "measures", (QueryMeasure("sum(cast(x as int))"),)),
        ({"measures": ['o."net as gross"']}, "measures", (QueryMeasure('o."net as gross"'),)),
        ({"measures": ["as n", "x as 1"]}, "measures", (QueryMeasure("as n"), QueryMeasure("x as 1"))),
        ({"dimensions": ["d:month as n"]}, "dimensions", (QueryDimension("d", "month", "n"),)),
        (
            {"dimensions": [{"field": "d as n", "granularity": "month"}]},
            "dimensions",
            (QueryDimension("d", "month", "n"),),
        ),
        ({"measures": None, "dimensions": ["d"]}, "measures", ()),
        ({"dimensions": ["d"]}, "dimensions", (QueryDimension("d"),)),
        (
            {"dimensions": [{"field": "d", "granularity": "week", "name": "n", "via": "a.b"}]},
            "dimensions",
            (QueryDimension("d", "week", "n", ("a", "b")),),
        ),
        ({"dimensions": [{"field": "d", "via": ["a.b", "c"]}]}, "dimensions", (QueryDimension("d", via=("a.b", "c")),)),
        ({"dimensions": ["r.d"], "via": {"r": "a"}}, "via", {"r": ("a",)}),
        ({"dimensions": ["rr.d"], "via": {"r": "a"}}, "dimensions", (QueryDimension("rr.d"),)),
        (
            {"dimensions": [{"field": "r.d", "via": "b"}], "via": {"r": "a"}},
            "dimensions",
            (QueryDimension("r.d", via=("b",)),),
        ),
        (M | {"filters": ["x = 1"]}, "filters", (QueryFilter("x = 1"),)),
        (M | {"filters": [{"expr": "x", "via": "a", "facts": "f"}]}, "filters", (QueryFilter("x", ("a",), ("f",)),)),
        (M | {"filters": [{"expr": "x", "facts": []}]}, "filters", (QueryFilter("x", (), ()),)),
        (
            M | {"order_by": ["a", "b desc", "c d ASC"]},
            "order_by",
            (QueryOrder("a"), QueryOrder("b", True), QueryOrder("c d")),
        ),
        (M | {"order_by": [{"field": "a", "direction": "DESC"}]}, "order_by", (QueryOrder("a", True),)),
        (M | {"order_by": ["desc"]}, "order_by", (QueryOrder("desc"),)),
        (M | {"order_by": [1, "2:desc"]}, "order_by", (QueryOrder("1"), QueryOrder("2", True))),
        (
            M | {"order_by": ["a:desc", "b:month:ASC", "c:month desc", "d:month"]},
            "order_by",
            (QueryOrder("a", True), QueryOrder("b:month"), QueryOrder("c:month", True), QueryOrder("d:month")),
        ),
        (M | {"limit": 0}, "limit", 0),
        (M | {"limit": MOST_ROWS}, "limit", MOST_ROWS),
        (M, "limit", 1000),
        (M | {"limit": None}, "limit", 1000),
        (M, "include_empty", None),
        (M | {"include_empty": False}, "include_empty", False),
        (M | {"time_range": {"last": "3 days"}}, "time_range", QueryRange(last="3 days")),
        (M | {"time_range": {"start": "2024-01-01", "field": "d"}}, "time_range", QueryRange("d", "2024-01-01")),
        (M | {"comparison": {"offset": "1 year"}}, "comparison", "1 year"),
        (M | {"comparison": "1 year"}, "comparison", "1 year"),
        (M | {"segments": ["s"], "having": "m > 1"}, "having", ("m > 1",)),
        (M | {"parameters": {"a": 1, "b": True, "c": "x"}}, "parameters", {"a": 1, "b": True, "c": "x"}),
    ],
)
def test_what_is_read(asked: dict[str, Any], field: str, wanted: Any) -> None:
    assert getattr(parse_query(asked), field) == wanted


@pytest.mark.table(
    ("asked", "message", "hint"),
    [
        ([], "the query must be a JSON object", "measures"),
        ("x", "the query must be a JSON object", "measures"),
        ({}, "has no measures or dimensions", "at least one measure or dimension"),
        ({"measures": [], "dimensions": []}, "has no measures or dimensions", "at least one"),
        ({"mesures": []}, "unknown key `mesures`", "did you mean `measures`?"),
        ({"measures": ["m"], 1: 2}, "unknown key `1`", "keys:"),
        ({"measures": "m"}, "`measures` must be a list", "[...]"),
        ({"measures": [1]}, "`measures[0]` must be a string or an object", "expr"),
        ({"measures": [{"name": "n"}]}, "`measures[0]` has no `expr`", '{"expr": "..."}'),
        ({"measures": [{"expr": "x", "nmae": "n"}]}, "unknown key `nmae`", "did you mean `name`?"),
        ({"measures": [""]}, "`measures[0]` must be a string", "measures[0]"),
        ({"measures": [{"expr": "x as n", "name": "m"}]}, "`measures[0]` has two names, `n` and `m`", "remove `as n`"),
        ({"dimensions": [{"field": "x as n", "name": "m"}]}, "has two names, `n` and `m`", "remove `as n`"),
        (M | {"order_by": [True]}, "`order_by[0]` must be a string or an object", "field"),
        ({"measures": ["x" * (LONGEST + 1)]}, "longer than 10,000 characters", "measure or a segment"),
        ({"measures": ["m"] * (MOST_ITEMS + 1)}, "more than 200 entries", "several queries"),
        (
            {"dimensions": [{"field": "d", "granularity": "mnth"}]},
            "granularity` cannot be `mnth`",
            "did you mean `month`?",
        ),
        ({"dimensions": [{"field": "d", "granularity": "xyzzy"}]}, "cannot be `xyzzy`", "use one of: second,"),
        ({"dimensions": [{"field": "d", "via": 3}]}, "`dimensions[0].via` must be a list", "[...]"),
        (M | {"filters": [{"expr": "x", "fact": ["f"]}]}, "unknown key `fact`", "keys:"),
        (M | {"order_by": [{"field": "a", "direction": "down"}]}, "cannot be `down`", "asc, desc"),
        (M | {"limit": -1}, "`limit` must be a whole number from 0 to 100,000", '"limit": 100'),
        (M | {"limit": True}, "`limit` must be a whole number", '"limit": 100'),
        (M | {"limit": 1.0}, "`limit` must be a whole number", '"limit": 100'),
        (M | {"limit": MOST_ROWS + 1}, "`limit` must be a whole number", '"limit": 100'),
        (M | {"offset": "1"}, "`offset` must be a whole number", '"offset": 100'),
        (M | {"fill": 1}, "`fill` must be true or false", '"fill": true'),
        (M | {"time_range": "last week"}, "`time_range` must be an object", "field, start, end, last"),
        (M | {"comparison": {}}, "`comparison` has no `offset`", "offset"),
        (M | {"parameters": {"a": [1]}}, "`parameters.a` must be a string, a number or a boolean", '"a": "value"'),
        (M | {"parameters": {1: 1}}, "`parameters` must be an object", "parameters"),
        (M | {"via": {"r": "."}}, "`via.r` names no join", "bill_to"),
        (M | {"via": "a"}, "`via` must be an object that maps target sources to paths", "bill_to"),
    ],
)
def test_what_is_refused(asked: Any, message: str, hint: str) -> None:
    with pytest.raises(SemanticError) as caught:
        parse_query(asked)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.code == "query"


@pytest.mark.table(
    ("time_range", "message", "hint"),
    [
        (
            {},
            "the time range has no start, end or length",
            '`"time_range": {"start": "2024-01-01", "end": "2025-01-01"}`',
        ),
        (
            {"last": "1 day", "end": "2024-01-01"},
            "has both a length and a start or an end",
            '`"time_range": {"last": "1 day"}` or',
        ),
    ],
)
def test_time_ranges_that_are_refused(time_range: Any, message: str, hint: str) -> None:
    with pytest.raises(SemanticError) as caught:
        parse_query(M | {"time_range": time_range})
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert (caught.value.code, caught.value.exit_code) == ("time_range", 2)


def test_a_question_is_a_value() -> None:
    assert parse_query(M) == Query(measures=(QueryMeasure("m"),))
    assert hash(parse_query(M).measures) == hash((QueryMeasure("m"),))


NAMES = st.from_regex(r"[A-Za-z_äß]\w{0,8}", fullmatch=True)


@given(st.text(max_size=40))
def test_a_name_is_taken_from_no_text_without_one(text: str) -> None:
    expr, name = with_name(text)
    assert (expr, name) == (text, None) or (expr and name and expr != text)


@given(st.sampled_from(["x", "sum(x)", "cast(x as int)", "'it''s as y'", '"a as b".c', "a.b:month"]), NAMES)
def test_a_name_behind_an_expression_is_taken_off(expr: str, name: str) -> None:
    assert with_name(f"{expr} as {name}") == (expr, name)
    assert with_name(f'{expr} AS "{name}"') == (expr, name)
    assert with_name(expr) == (expr, None)
