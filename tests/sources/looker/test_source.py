"""What a query of Looker could become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktx_cli.sources.looker.fetch import Lane, Target, Usage, Why
from ktx_cli.sources.looker.source import Decision, TargetStatus, propose
from tests.sources.looker.scripted import dimension, measure

MAPPED = Target("warehouse", ("public", "orders"))
EXPLORE = {
    "name": "orders",
    "view_name": "orders",
    "dimensions": [
        dimension("orders.status"),
        dimension("orders.paid", type="yesno"),
        dimension("orders.size", '${TABLE}."Size"', type="number"),
        dimension("orders.made_date", type="date_date"),
        dimension("orders.account", "upper(${TABLE}.account)"),
        dimension("customers.country"),
    ],
    "measures": [
        measure("orders.count", "count"),
        measure("orders.revenue", "sum", "${TABLE}.amount ;"),
        measure("orders.buyers", "count_distinct", "${TABLE}.customer_id"),
        measure("orders.paid_revenue", "sum", "${TABLE}.amount", filters=[{"field": "paid", "value": "yes"}]),
        measure("orders.share", "number", "1.0 * ${revenue} / ${count}"),
        measure("customers.count", "count"),
    ],
}


def asked(target: Target = MAPPED, **more: Any) -> dict[str, Any]:
    return {
        "model": "shop",
        "view": "orders",
        "fields": ["orders.status", "orders.count"],
        "target": target.to_json(),
    } | more


def test_a_proposal_has_all_that_a_tool_shows() -> None:
    found = propose(asked(), title="Orders\n by status", usage=Usage(10, 1), explore=EXPLORE)
    assert json.loads(json.dumps(found.to_json())) == {
        "source_name": "looker__shop__orders",
        "connection": "warehouse",
        "table": ["public", "orders"],
        "target_status": "mapped",
        "can_write_standalone_source": True,
        "lane": "full",
        "decision": "source_created",
        "dimensions": ["orders.status"],
        "measures": [{"name": "count", "field": "orders.count", "expr": "count(*)"}],
        "segments": [],
        "notes": ["from `Orders by status`"],
    }


@pytest.mark.table(
    ("why", "status"),
    [
        (Why.NO_CONNECTION, TargetStatus.UNMAPPED),
        (Why.NO_TABLE, TargetStatus.MISSING),
        (Why.TEMPLATE, TargetStatus.UNPARSEABLE),
        (Why.DERIVED, TargetStatus.UNPARSEABLE),
        (Why.SEVERAL, TargetStatus.UNPARSEABLE),
        (Why.UNREADABLE, TargetStatus.UNPARSEABLE),
    ],
)
def test_without_a_table_there_are_only_pages(why: Why, status: TargetStatus) -> None:
    found = propose(asked(Target("warehouse", why=why)), usage=Usage(100, 9))
    assert (found.status, found.decision, found.table, found.can_write_source) == (
        status, Decision.WIKI_ONLY, None, False,
    )  # fmt: skip


@pytest.mark.table(
    ("usage", "lane", "decision"),
    [
        (None, Lane.LIGHT, Decision.SOURCE_CREATED),
        (Usage(0, 0), Lane.SKIP, Decision.WIKI_ONLY),
        (Usage(3, 1), Lane.LIGHT, Decision.SOURCE_CREATED),
        (Usage(10, 1), Lane.FULL, Decision.SOURCE_CREATED),
        (Usage(3, 3), Lane.FULL, Decision.SOURCE_CREATED),
    ],
)
def test_use_decides_the_lane(usage: Usage | None, lane: Lane, decision: Decision) -> None:
    found = propose(asked(), usage=usage)
    assert (found.lane, found.decision) == (lane, decision)


def test_a_source_that_is_there_gets_measures_and_a_query_without_any_gets_pages() -> None:
    assert propose(asked(), sources={"looker__shop__orders"}).decision is Decision.MEASURE_ADDED
    assert propose(asked(fields=["orders.status"])).decision is Decision.WIKI_ONLY


@pytest.mark.table(
    ("field", "expr"),
    [
        ("orders.count", "count(*)"),
        ("orders.revenue", "sum(amount)"),
        ("orders.buyers", "count(distinct customer_id)"),
        ("orders.paid_revenue", None),
        ("orders.share", None),
        ("customers.count", None),
    ],
)
def test_a_formula_is_given_only_where_it_is_certain(field: str, expr: str | None) -> None:
    (found,) = propose(asked(fields=[field]), explore=EXPLORE).measures
    assert (found.field, found.expr) == (field, expr)


@pytest.mark.table(
    ("field", "is_measure"),
    [
        ("orders.total_amount", True),
        ("orders.order_count", True),
        ("orders.avg_price", True),
        ("orders.status", False),
        ("orders.account", False),
        ("orders.country", False),
        ("orders.minute", False),
        ("orders.summary", False),
    ],
)
def test_without_the_explore_the_name_decides(field: str, is_measure: bool) -> None:
    assert bool(propose(asked(fields=[field])).measures) is is_measure


@pytest.mark.table(
    ("field", "text", "expr"),
    [
        ("orders.status", "paid,sent", "status IN ('paid', 'sent')"),
        ("orders.status", "it's", "status = 'it''s'"),
        ("orders.paid", "Yes", "paid"),
        ("orders.size", ">10", "Size > 10"),
        ("orders.made_date", "7 days", None),
        ("orders.account", "x", None),
        ("customers.country", "DE", None),
        ("unknown.field", "x", None),
        ("orders.size", "1; DROP TABLE x", None),
    ],
)
def test_a_filter_becomes_a_condition_only_where_it_is_certain(field: str, text: str, expr: str | None) -> None:
    found = propose(asked(filters={field: text}), explore=EXPLORE)
    (segment,) = found.segments
    assert (segment.filter, segment.expr) == (text, expr)
    assert any(field in note for note in found.notes) is (expr is None)


@pytest.mark.table("broken", [{}, {"fields": None, "filters": []}, {"fields": [3, None], "target": None}])
def test_a_query_that_says_little_is_no_error(broken: dict[str, Any]) -> None:
    found = propose(broken)
    assert (found.status, found.decision, found.measures) == (TargetStatus.MISSING, Decision.WIKI_ONLY, ())
