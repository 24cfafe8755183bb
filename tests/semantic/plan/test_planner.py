"""A question as a plan: dimensions and columns named, conditions placed, orders found, comparisons made."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ktx_cli.core import ERROR_CODES
from ktx_cli.semantic.caller import NOBODY, Caller
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.model import Column, Join, Model, Relationship, SemanticError, Source, Span, Visibility
from ktx_cli.semantic.plan.plan import Plan
from ktx_cli.semantic.plan.planner import Planner, auto_name
from ktx_cli.semantic.query import parse_query
from ktx_cli.warehouses import SemanticType
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model

GRAPH = Graph(shop_model())


def planned(query: dict[str, Any]) -> Plan:
    return Planner(shop_model(), GRAPH, parse_query(query), Caller.of(ATTRIBUTES), NOW).plan()


def of_orders(**more: Any) -> dict[str, Any]:
    return {"measures": ["orders.orders"]} | more


MONTH = {"field": "orders.placed_at", "granularity": "month"}


def bills_model(key: str = "c") -> Model:
    """Return bills and orders of customers, with a status each; a bill names its order, but there is no join for it."""
    joins = (Join("customers", f"{key} = customers.{key}", ((key, key),), Relationship.MANY_TO_ONE),)
    names = {"customers": (key,), "orders": ("o", key, "status", "secret"), "bills": ("o", key, "status", "secret")}
    columns = {
        source: {
            name: Column(name, SemanticType.STRING, visibility=Visibility.HIDDEN if (source, name) == HIDDEN else None)
            for name in of_source
        }
        for source, of_source in names.items()
    }
    sources = {
        source: Source(
            source, columns[source], names[source][:1], (source,), joins=() if source == "customers" else joins
        )
        for source in names
    }
    return Model("c", "duckdb", sources)


HIDDEN = ("bills", "secret")


@pytest.mark.table(
    ("column", "grain", "hints"),
    [
        (
            "status",
            ("o",),
            [
                "group by `bills.status`, which has one value per row",
                "to `joins` in the definition of `bills`: `- {to: orders, on: o = orders.o, relationship: one_to_one}`",
                'to count each row in every matching group, use `"via": {"orders": "customers"}`',
            ],
        ),
        ("secret", ("o", "c"), ["relationship: many_to_one}`", '`"via": {"orders": "customers"}`']),
    ],
)
def test_a_dimension_of_other_rows_is_refused_with_what_to_ask_instead(
    column: str, grain: tuple[str, ...], hints: list[str]
) -> None:
    model = bills_model()
    model = replace(model, sources={**model.sources, "bills": replace(model.sources["bills"], grain=grain)})
    query = {"measures": ["count(bills.o)"], "dimensions": [f"orders.{column}"]}
    with pytest.raises(SemanticError) as caught:
        Planner(model, Graph(model), parse_query(query), NOBODY, NOW).plan()
    error = caught.value
    assert error.code == "fan_out"
    assert "bills -> customers -> orders leads up to `customers` and down again" in error.message
    parts = str(error.hint).split("; ")
    assert len(parts) == len(hints)
    assert all(hint in part for hint, part in zip(hints, parts, strict=True))
    asked = query | {"via": {error.details["target"]: error.details["choices"][0]["via"]}}
    assert Planner(model, Graph(model), parse_query(asked), NOBODY, NOW).plan()


def test_rows_that_hold_for_a_period_are_refused_with_how_to_take_the_one_that_held() -> None:
    model = bills_model()
    times = {"orders": ("valid_from", "valid_to"), "bills": ("billed_at",), "customers": ()}
    columns = {name: {each: Column(each, SemanticType.TIME) for each in added} for name, added in times.items()}
    sources = {name: replace(each, columns={**each.columns, **columns[name]}) for name, each in model.sources.items()}
    query = {"measures": ["count(bills.o)"], "dimensions": ["orders.secret"]}
    model = replace(model, sources=sources)
    with pytest.raises(SemanticError) as caught:
        Planner(model, Graph(model), parse_query(query), NOBODY, NOW).plan()
    assert (
        "bills.billed_at >= orders.valid_from AND (orders.valid_to IS NULL OR bills.billed_at < orders.valid_to)"
        in str(caught.value.hint)
    )


@pytest.mark.table(
    ("columns", "period"),
    [
        ("valid_from valid_to", ("valid_from", "valid_to")),
        ("id start_date end_date", ("start_date", "end_date")),
        ("dbt_valid_from dbt_valid_to created_at", ("dbt_valid_from", "dbt_valid_to")),
        ("valid_from created_at", None),
        ("valid_from effective_from valid_to", None),
        ("created_at", None),
    ],
)
def test_the_period_for_which_a_row_holds(columns: str, period: tuple[str, str] | None) -> None:
    found = {name: Column(name, SemanticType.TIME) for name in columns.split()}
    assert Source("s", found, (), ("s",)).validity == period


def test_a_path_over_days_is_not_offered() -> None:
    query = {"measures": ["count(bills.o)"], "dimensions": ["orders.status"]}
    model = bills_model("date_key")
    with pytest.raises(SemanticError) as caught:
        Planner(model, Graph(model), parse_query(query), NOBODY, NOW).plan()
    assert caught.value.code == "fan_out"
    assert "bills.status" in str(caught.value.hint) and "via" not in str(caught.value.hint)


@pytest.mark.table(
    ("query", "dimensions", "outputs"),
    [
        ({"measures": ["orders.orders", "revenue"]}, [], ["orders", "revenue"]),
        ({"measures": ["orders", "orders.orders"]}, [], ["orders"]),
        ({"measures": [{"expr": "orders", "name": "n"}]}, [], ["n"]),
        ({"measures": ["SUM(orders.amount) / 2"]}, [], ["sum_orders_amount_2"]),
        ({"dimensions": ["orders.status", MONTH]}, ["status", "placed_at_month"], []),
        ({"dimensions": [{**MONTH, "name": "m"}]}, ["m"], []),
        (of_orders(dimensions=["billed.name", "sent.name"]), ["billed_name", "sent_name"], ["orders"]),
        (
            of_orders(dimensions=["customers.name", "customers.regions.name"]),
            ["customers_name", "customers_regions_name"],
            ["orders"],
        ),
        (of_orders(dimensions=["orders.status", "status"]), ["status"], ["orders"]),
        (of_orders(dimensions=["upper(orders.status)"]), ["upper_orders_status"], ["orders"]),
        (of_orders(dimensions=[{"field": "orders.status", "name": "orders"}]), ["orders"], ["orders_orders"]),
        (
            {"measures": ["orders"], "comparison": {"offset": "1 year"}} | {"dimensions": [MONTH]},
            ["placed_at_month"],
            ["orders", "orders_previous", "orders_change", "orders_change_pct"],
        ),
        ({"measures": ["orders.share"]}, [], ["share"]),
    ],
)
def test_columns_are_named(query: dict[str, Any], dimensions: list[str], outputs: list[str]) -> None:
    plan = planned(query)
    assert [each.name for each in plan.dimensions] == dimensions
    assert [each.name for each in plan.outputs] == outputs


@pytest.mark.table(
    ("query", "rows", "results"),
    [
        (of_orders(filters=["status = 'paid'"]), 1, 0),
        (of_orders(filters=["status = 'paid' AND gift = TRUE"]), 2, 0),
        (of_orders(filters=["status = 'paid' OR gift = TRUE"]), 1, 0),
        (of_orders(filters=["revenue > 1"]), 0, 1),
        (of_orders(filters=["orders.revenue > 1 AND status = 'paid'"]), 1, 1),
        (of_orders(filters=["sum(amount) > 1"]), 0, 1),
        (of_orders(having=["revenue > 1", "orders > 1 OR revenue > 3"]), 0, 2),
        (of_orders(dimensions=["orders.status"], having=["status = 'paid'"]), 0, 1),
        ({"measures": [{"expr": "sum(amount)", "name": "n"}], "filters": ["n > 3"]}, 0, 1),
    ],
)
def test_conditions_are_placed(query: dict[str, Any], rows: int, results: int) -> None:
    plan = planned(query)
    assert (len(plan.filters), len(plan.having)) == (rows, results)


@pytest.mark.table(
    ("order", "numbers"),
    [
        ("orders", ["0"]),
        ("orders.orders desc", ["0"]),
        ("ORDERS", ["0"]),
        ("status", ["-1"]),
        ("orders.status asc", ["-1"]),
        ("placed_at_month desc", ["-2"]),
        ("orders.placed_at", ["-2"]),
    ],
)
def test_what_is_sorted_by(order: str, numbers: list[str]) -> None:
    plan = planned(of_orders(dimensions=["orders.status", MONTH], order_by=[order]))
    assert [each.tree.name for each in plan.order] == numbers
    assert plan.order[0].descending is order.endswith("desc")


@pytest.mark.table(
    ("query", "code", "part"),
    [
        (of_orders(order_by=["customers.tier"]), "unknown_name", "sort by"),
        (of_orders(dimensions=["sum(orders.amount)"]), "query", "contains an aggregate"),
        (of_orders(dimensions=[{"field": "orders.status", "granularity": "day"}]), "grain", "it is a string"),
        (of_orders(dimensions=[{"field": "orders.shipped_on", "granularity": "hour"}]), "grain", "granularity day"),
        (of_orders(comparison={"offset": "previous_period"}), "time_range", "requires a time range"),
        (of_orders(comparison={"offset": "soon"}), "query", "soon"),
        ({"measures": ["orders.revenue_before"], "comparison": {"offset": "9 days"}}, "query", "is offset by"),
        (of_orders(time_range={"field": "orders.status", "start": "2024-01-01"}), "time_range", "orders.status"),
        (of_orders(time_range={"field": "1 + 1", "start": "2024-01-01"}), "time_range", "is not a column"),
        (
            {"measures": ["count(distinct regions.name)"], "via": {"regions": "billed"}},
            "unreachable",
            "the query aggregates the rows of `regions` itself",
        ),
        (of_orders(filters=["orders.status = "]), "query", "the filter `orders.status =` is not a valid"),
        ({"measures": ["sum(orders.amount"]}, "query", "the measure `sum(orders.amount` is not a valid"),
        (of_orders(segments=["x"]), "unknown_name", "segment"),
        (of_orders(parameters={"x": 1}), "unknown_name", "parameter"),
        (of_orders(dimensions=[{"field": "regions.name", "via": "nowhere"}]), "unknown_name", "nowhere"),
        (of_orders(filters=[{"expr": "regions.name = 'x'", "via": "nowhere"}]), "unknown_name", "nowhere"),
        (of_orders(dimensions=["regions.name"], via={"regions": "nowhere"}), "unknown_name", "through `nowhere`"),
        (of_orders(dimensions=["regions.name"], via={"region": "billed"}), "unknown_name", "uses no column of it"),
        (of_orders(via={"regions": "billed"}), "unknown_name", "`via` names `regions`"),
        ({"measures": ["sum(orders.revenue)"]}, "query", "which is already a measure"),
        ({"measures": [{"expr": "max(amount)", "name": "n"}, {"expr": "min(amount)", "name": "n"}]}, "query", "`n`"),
    ],
)
def test_questions_that_are_refused(query: dict[str, Any], code: str, part: str) -> None:
    with pytest.raises(SemanticError) as caught:
        planned(query)
    assert caught.value.code == code
    assert part in caught.value.message
    assert caught.value.hint


@pytest.mark.table(
    ("time_range", "message", "hint"),
    [
        (
            {"start": "2024-05-01", "end": "2024-01-01"},
            "the time range ends at 2024-01-01, which is not after",
            "exclusive",
        ),
        ({"start": "May 2024"}, "the start of the time range is invalid: `May 2024` is not a date", "2024-01-31"),
        (
            {"start": "2024-01-01", "end": "2024-13-01"},
            "the end of the time range is invalid: `2024-13-01` is",
            "2024-01",
        ),
        ({"last": "a while"}, "the length of the time range is invalid: `a while` is not a duration", "28 days"),
        ({"last": "5 parsecs"}, "is invalid: there is no unit of time `parsecs`", "day, hour, minute"),
        ({"last": "99999 years"}, "the last 99999 years would begin before the year 1", "a shorter period"),
        ({"field": "orders.status", "last": "1 day"}, "is a string, not a time", "use a time column"),
        ({"field": "1 + 1", "last": "1 day"}, "is not a column", "source.column"),
    ],
)
def test_time_ranges_that_are_refused(time_range: dict[str, str], message: str, hint: str) -> None:
    """All with one code, which agents can look up; an unknown name is `unknown_name`, as it is anywhere."""
    with pytest.raises(SemanticError) as caught:
        planned(of_orders(time_range=time_range))
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert (caught.value.code, caught.value.exit_code) == ("time_range", 2)
    assert "time_range" in ERROR_CODES


def test_the_time_range_is_on_the_time_dimension_else_on_each_fact_s_own_time() -> None:
    days = {"start": "2024-01-01", "end": "2024-02-01"}
    shipped = {"field": "orders.shipped_on", "granularity": "day"}
    found = [planned(of_orders(time_range=days, dimensions=each)).time_range for each in ([], [MONTH], [shipped])]
    assert [each and str(each.expression.names[0]) for each in found] == [
        "metric_time",
        "orders.placed_at",
        "orders.shipped_on",
    ]
    assert found[0] is not None
    assert (found[0].start, found[0].end) == (date(2024, 1, 1), date(2024, 2, 1))


def test_the_previous_period_is_as_long_as_the_range() -> None:
    days = {"start": "2024-02-01", "end": "2024-05-01"}
    plan = planned(of_orders(time_range=days, comparison={"offset": "previous_period"}))
    assert [leaf.treatment.offset for leaf in plan.leaves] == [None, Span(3, "month")]


@pytest.mark.table(
    ("expr", "name"),
    [("sum(orders.amount)", "sum_orders_amount"), ("A / b", "a_b"), ("((", "value"), ("ÄB + 1", "äb_1"), ("_x_", "x")],
)
def test_names_of_expressions_nobody_named(expr: str, name: str) -> None:
    assert auto_name(expr) == name


def test_leaves_inside_of_others_are_no_part_of_the_answer() -> None:
    plan = planned({"measures": ["orders.mean_of_customers"]})
    assert len(plan.leaves) == 2
    assert [plan.leaves[number].nested is not None for number in plan.wanted] == [True]


@pytest.mark.table(
    ("field", "number"),
    [
        ("orders.placed_at:month", 0),
        ("placed_at:quarter", 1),
        ("Orders.placed_at:QUARTER", None),
        ("orders.placed_at:year", None),
        ("orders.placed_at", 0),
        ("placed_at", None),
        ("placed_at_quarter", 1),
    ],
)
def test_a_time_is_sorted_by_as_it_was_asked(field: str, number: int | None) -> None:
    quarter = {"field": "orders.placed_at", "granularity": "quarter"}
    query = of_orders(dimensions=[MONTH, quarter], order_by=[f"{field} desc"])
    if number is None:
        with pytest.raises(SemanticError, match="to sort by"):
            planned(query)
        return
    (found,) = planned(query).order
    assert (int(found.tree.name), found.descending) == (-1 - number, True)


@pytest.mark.table(
    ("dimension", "condition", "asked"),
    [
        (MONTH, "placed_at_month >= '2024-02-01'", "orders.placed_at"),
        ({"field": "upper(orders.status)", "name": "state"}, "State = 'PAID'", "upper(orders.status)"),
    ],
)
def test_a_filter_on_a_column_of_the_answer_is_told_where_it_belongs(
    dimension: Any, condition: str, asked: str
) -> None:
    query = of_orders(dimensions=[dimension])
    with pytest.raises(SemanticError, match="is a column of the result, not of a source") as caught:
        planned(query | {"filters": [condition]})
    assert caught.value.hint == f"move the condition to `having`, or filter on `{asked}`"
    assert planned(query | {"having": [condition]}).having
    assert planned(of_orders(dimensions=["orders.status"], filters=["status = 'paid'"])).filters
