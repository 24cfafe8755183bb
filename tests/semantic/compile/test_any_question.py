"""Whatever is asked: one SELECT over the model's tables that the guard lets through, or an error with a hint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import sqlglot
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.core.errors import KtxError
from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.model import Column, Measure, Model, Parameter, Policy, Source
from ktx_cli.semantic.query import MOST_ROWS
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import CheckedStatement, check
from ktx_cli.warehouses.guard.functions import EITHER
from ktx_cli.warehouses.port import SemanticType
from tests.semantic.compile.fuzzing import HIDDEN, MEASURES, attributes, fragments, names, questions
from tests.semantic.golden.world import NOW, TABLES, shop_model

FULL = bool(os.environ.get("KTX_TEST_FULL"))
WRITES = (exp.DML, exp.DDL, exp.Command, exp.Set, exp.Pragma, exp.Attach, exp.Copy, exp.Use, exp.Into, exp.Lock)
SOME_DIALECTS = st.sampled_from(DIALECTS)


def examples(count: int) -> settings:
    return settings(
        max_examples=count * 40 if FULL else count // 4, deadline=None, suppress_health_check=list(HealthCheck)
    )


def answered(query: Mapping[str, Any], dialect: str, given: Mapping[str, Any]) -> list[exp.Select]:
    """Return the statements of a question, read back from their text; none where it is refused with a hint."""
    try:
        asked = compile_query(shop_model(dialect), query, caller=Caller.of(given), now=NOW)
        texts = [asked.sql] + ([asked.totals.sql] if asked.totals else [])
        checked = [check(text, dialect, max_rows=MOST_ROWS, server=EITHER) for text in texts]
    except KtxError as error:
        assert error.message, query
        assert error.hint, f"no hint: {error.message}"
        return []
    return [_read_back(each, dialect) for each in checked]


def _read_back(statement: CheckedStatement, dialect: str) -> exp.Select:
    (tree,) = sqlglot.parse(statement.sql, dialect=dialect)
    assert isinstance(tree, exp.Select)
    return tree


@given(questions, SOME_DIALECTS, attributes)
@example({"measures": ["orders.orders"], "filters": ["orders.gift" + " AND orders.gift" * 600]}, "duckdb", {})
@example({"measures": ["orders.orders"], "filters": ["(" * 200 + "orders.gift" + ")" * 200]}, "duckdb", {})
@example({"measures": ["sum(orders.amount)" + " + 1" * 2000]}, "duckdb", {})
@example({"measures": [], "dimensions": ["billed.name"]}, "duckdb", {})
@example(
    {
        "measures": ["orders.revenue"],
        "comparison": {"offset": "9999 years"},
        "time_range": {"start": "2024-01-01", "end": "2024-02-01"},
    },
    "duckdb",
    {},
)
@examples(120)
def test_one_select_over_the_tables_of_the_model_or_an_error_with_a_hint(
    query: dict[str, Any], dialect: str, given: dict[str, Any]
) -> None:
    for tree in answered(query, dialect, given):
        assert not list(tree.find_all(*WRITES))
        named = {cte.alias for cte in tree.find_all(exp.CTE)}
        read = {table.name for table in tree.find_all(exp.Table) if table.name not in named}
        assert read - {"numbers", ""} <= TABLES.keys(), tree.sql(dialect)
        assert "phone" not in {column.name.lower() for column in tree.find_all(exp.Column)}, tree.sql(dialect)
        _require_policy(tree)


def _require_policy(tree: exp.Select) -> None:
    """Require that each use of the tickets is in a query that says which of them are let through."""
    for table in tree.find_all(exp.Table):
        if table.name == "tickets" and table.db:
            around = table.parent_select
            assert around is not None
            assert around.args["where"].find(exp.LTE).this.name == "grade"
            assert isinstance(around.parent, exp.CTE)


PLACES = ("measures", "dimensions", "filters", "having", "order_by", "time_range", "granular", "distinct", "aliased")


@given(st.sampled_from(PLACES), st.sampled_from(HIDDEN), fragments, SOME_DIALECTS)
@examples(60)
def test_no_question_reads_a_hidden_column(place: str, hidden: str, around: str, dialect: str) -> None:
    query: dict[str, Any] = {"measures": ["orders.orders"], "dimensions": ["customers.tier"]}
    query |= {
        "measures": {"measures": [f"max({hidden})"]},
        "dimensions": {"dimensions": [f"coalesce({hidden}, 'x')"]},
        "filters": {"filters": [f"{hidden} = 'x' OR {around}"]},
        "having": {"having": [f"max({hidden}) = 'x' OR {around}"]},
        "order_by": {"order_by": [hidden]},
        "time_range": {"time_range": {"field": hidden, "start": "2024-01-01"}},
        "granular": {"dimensions": [{"field": hidden, "granularity": "day"}]},
        "distinct": {"measures": [f"count(distinct {hidden}, customers.tier)"]},
        "aliased": {"measures": [{"expr": f"count({hidden})", "name": "n"}], "dimensions": []},
    }[place]
    for tree in answered(query, dialect, {"grade": 1}):
        assert "phone" not in {column.name.lower() for column in tree.find_all(exp.Column)}, tree.sql(dialect)


@given(st.sampled_from(MEASURES), names, SOME_DIALECTS)
@examples(40)
def test_a_column_is_called_what_was_asked(measure: str, name: str, dialect: str) -> None:
    query = {"measures": [{"expr": measure, "name": name}], "time_range": {"start": "2024-01-01"}}
    for tree in answered(query, dialect, {"grade": 1}):
        assert [each.alias for each in tree.selects] == [name.strip()]


def _secretive(dialect: str) -> Model:
    """Return a model of one source with a policy and a parameter, both texts."""
    people = Source(
        "people",
        {"id": Column("id", SemanticType.NUMBER), "team": Column("team", SemanticType.STRING)},
        ("id",),
        ("hr", "people"),
        measures={"people": Measure("people", "count(*)", filter="team <> {{ param.but }}")},
        policies=(Policy("own_team", "team = {{ user.team }}"),),
        parameters={"but": Parameter("but", SemanticType.STRING)},
    )
    return Model("hr", dialect, {"people": people})


_tricks = st.sampled_from(
    ("'", "\\", "\\'", '"', "''", "' OR 1=1 --", "\\' OR 1=1 -- ", "${x}", "{{ user.team }}", "/*", "$$")
)
texts = st.lists(_tricks | st.text(max_size=5), min_size=1, max_size=5).map("".join)


@given(texts, texts, SOME_DIALECTS)
@example("x\\", "' OR 1=1 -- ", "mysql")
@examples(100)
def test_the_text_of_a_parameter_or_an_attribute_stays_a_text(team: str, but: str, dialect: str) -> None:
    query = {"measures": ["people"], "parameters": {"but": but}}
    try:
        sql = compile_query(_secretive(dialect), query, caller=Caller.of({"team": team}), now=NOW).sql
        tree = _read_back(check(sql, dialect, max_rows=MOST_ROWS, server=EITHER), dialect)
    except KtxError as error:
        assert error.hint, f"no hint: {error.message}"
        return
    assert {each.this for each in tree.find_all(exp.Literal) if each.is_string} == {team, but}, sql
    assert not list(tree.find_all(exp.Or)), sql
