"""Times in the rows of a fact: cut to a grain, held against a stretch of time; dates are never shifted."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from sqlglot import exp

from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.compile.rows import counted_by, kind_of
from ktx_cli.semantic.model import Column, SemanticError
from ktx_cli.warehouses.port import SemanticType
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model


def where(fact: str = "orders", timezone: str | None = None, **asked: str) -> str:
    """Return the conditions of a count over a stretch of time, without casts of columns."""
    query: dict[str, Any] = {"measures": [f"{fact}.{fact}"], "time_range": asked}
    query |= {"timezone": timezone} if timezone else {}
    tree = compile_query(shop_model(), query, caller=Caller.of(ATTRIBUTES), now=NOW).compiled.tree
    conditions = (each.this.transform(_without_cast).sql("duckdb") for each in tree.find_all(exp.Where))
    return " AND ".join(conditions)


def _without_cast(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) else node


@pytest.mark.table(
    ("asked", "wanted"),
    [
        ({"start": "2024-01-01"}, '"orders"."placed_at" >= CAST(\'2024-01-01 00:00:00\' AS TIMESTAMP)'),
        ({"end": "2024-01-01T12:00:00"}, '"orders"."placed_at" < CAST(\'2024-01-01 12:00:00\' AS TIMESTAMP)'),
        (
            {"field": "orders.shipped_on", "start": "2024-01-01"},
            '"orders"."shipped_on" >= CAST(\'2024-01-01\' AS DATE)',
        ),
        ({"field": "customers.since", "end": "2024-01-01"}, '"customers"."since" < CAST(\'2024-01-01\' AS DATE)'),
    ],
)
def test_ranges_are_half_open(asked: dict[str, str], wanted: str) -> None:
    assert where(**asked).endswith(wanted)


def test_a_zone_shifts_timestamps_and_never_dates() -> None:
    assert "Asia/Tokyo" in where(timezone="Asia/Tokyo", start="2024-01-01")
    assert "Asia/Tokyo" not in where("tickets", timezone="Asia/Tokyo", start="2024-01-01")


def test_a_range_over_details_is_refused() -> None:
    with pytest.raises(SemanticError) as caught:
        where("customers", field="orders.placed_at", start="2024-01-01")
    assert (caught.value.code, caught.value.details) == ("unreachable_filter", {"fact": "customers"})


@pytest.mark.table(
    ("column", "kind"),
    [
        (None, "timestamp"),
        (Column("a", SemanticType.TIME), "timestamp"),
        (Column("a", SemanticType.TIME, natural_granularity="hour"), "timestamp"),
        (Column("a", SemanticType.TIME, natural_granularity="day"), "date"),
        (Column("a", SemanticType.TIME, natural_granularity="year"), "date"),
    ],
)
def test_what_the_values_of_a_column_are(column: Column | None, kind: str) -> None:
    assert kind_of(column) == kind


@pytest.mark.table(
    ("grain", "wanted"),
    [("second", "second"), ("hour", "hour"), ("day", "day"), ("week", "day"), ("fiscal_year", "day")],
)
def test_the_grain_rows_are_held_against_periods_at(grain: str, wanted: str) -> None:
    assert counted_by(grain) == wanted


def test_each_fact_is_cut_by_its_own_time() -> None:
    query = {
        "measures": ["orders.orders", "tickets.tickets"],
        "dimensions": [{"field": "metric_time", "granularity": "month"}],
        "time_range": {"start": date(2024, 1, 1).isoformat()},
    }
    sql = compile_query(shop_model(), query, caller=Caller.of(ATTRIBUTES), now=NOW).sql
    assert '"tickets"."opened_on" >=' in sql.replace('CAST("tickets"."opened_on" AS DATE)', '"tickets"."opened_on"')
    assert '"orders"."placed_at"' in sql
