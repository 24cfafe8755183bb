"""Questions put to a database: rows, totals, what was cut off, and what the receipt tells; on the shop in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.semantic.answer import Answer, ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.model import SemanticError
from ktx_cli.semantic.query import parse_query
from ktx_cli.warehouses.port import Connector
from tests.semantic.golden.engines import comparable, opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, TABLES, shop_model

ORDERS = [dict(zip(TABLES["orders"][0], row, strict=True)) for row in TABLES["orders"][1]]
STATUS = {"measures": ["orders.orders"], "dimensions": ["orders.status"]}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def asked(shop: Connector, query: dict[str, Any], **more: Any) -> Answer:
    return ask(shop_model(), query, shop, **({"caller": Caller.of(ATTRIBUTES), "now": NOW} | more))


def test_rows_are_those_of_the_table(shop: Connector) -> None:
    answer = asked(shop, STATUS)
    words = [each["status"] for each in ORDERS]
    assert answer.columns == ["status", "orders"]
    assert answer.rows == [(word, words.count(word)) for word in ("new", "paid", "sent", "void", None)]
    assert (answer.truncated, answer.totals) == (False, None)


@pytest.mark.table(
    ("limit", "offset", "count", "truncated"),
    [(5, 0, 5, False), (4, 0, 4, True), (4, 1, 4, False), (0, 0, 0, True), (2, 4, 1, False), (9, 9, 0, False)],
)
def test_what_is_cut_off_is_told(limit: int, offset: int, count: int, truncated: bool, shop: Connector) -> None:
    answer = asked(shop, STATUS | {"limit": limit, "offset": offset})
    assert (len(answer.rows), answer.truncated, answer.receipt["truncated"]) == (count, truncated, truncated)
    assert answer.rows == asked(shop, STATUS).rows[offset : offset + limit]


def test_totals_are_over_what_having_and_limit_leave_out(shop: Connector) -> None:
    answer = asked(shop, STATUS | {"totals": True, "having": ["orders > 9"], "limit": 1})
    assert answer.totals == (len(ORDERS),)
    filtered = asked(shop, STATUS | {"totals": True, "filters": ["orders.gift = TRUE"]})
    assert filtered.totals == (sum(each["gift"] for each in ORDERS),)


def test_totals_keep_the_joins_that_the_query_chooses_for_its_dimensions(shop: Connector) -> None:
    roles = {"dimensions": ["regions.name"], "via": {"regions": "billed"}, "totals": True}
    assert asked(shop, {"measures": ["orders.orders"], **roles}).totals == (len(ORDERS),)


def test_totals_without_a_measure_are_none(shop: Connector) -> None:
    assert asked(shop, {"dimensions": ["orders.status"], "totals": True}).totals is None


def test_a_parsed_question_and_a_graph_in_memory_give_the_same() -> None:
    model = shop_model()
    plain = compile_query(model, STATUS)
    assert compile_query(model, parse_query(STATUS), graph=Graph(model)).sql == plain.sql


def test_now_is_what_the_last_days_count_from(shop: Connector) -> None:
    query = {"measures": ["orders.orders"], "time_range": {"last": "30 days"}}
    days = [each["placed_at"].date() for each in ORDERS]
    wanted = sum(0 <= (NOW.date() - day).days < 30 for day in days)
    assert asked(shop, query).rows == [(wanted,)]


def test_the_receipt_has_the_statement_and_the_times(shop: Connector) -> None:
    answer = asked(shop, STATUS)
    assert answer.receipt["sql"] == answer.sql
    assert answer.receipt["timing_ms"].keys() == {"compile", "probe", "execute"}


def test_unprobed_the_receipt_counts_no_rows(shop: Connector) -> None:
    (fact,) = asked(shop, STATUS, probed=False).receipt["facts"]
    assert (fact["rows"], fact["unmatched"]) == (None, [])


def test_a_policy_without_its_attribute_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(SemanticError) as caught:
        asked(None, {"measures": ["tickets.tickets"]}, caller=Caller.of({}))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.details) == ("policy", {"attribute": "grade"})


def test_a_policy_holds_for_a_filter_over_its_rows(shop: Connector) -> None:
    query = {"measures": ["customers.customers"], "filters": ["tickets.grade >= 0"]}
    tickets = TABLES["tickets"][1]
    for grade in (0, 1, 3):
        known = {row[1] for row in tickets if row[1] in range(1, 13) and row[3] <= grade}
        assert asked(shop, query, caller=Caller.of({"grade": grade})).rows == [(len(known),)]


def test_every_grouping_adds_up_to_the_total(shop: Connector) -> None:
    total = asked(shop, {"measures": ["orders.revenue"]}).rows[0][0]
    for field in ("orders.status", "customers.tier", "customers.regions.name", "sent.name", "orders.shipped_on"):
        rows = asked(shop, {"measures": ["orders.revenue"], "dimensions": [field]}).rows
        assert sum(row[1] or 0 for row in rows) == total, field


def test_a_model_in_another_calendar_cuts_otherwise(shop: Connector) -> None:
    model = shop_model()
    sunday = replace(model, calendar=replace(model.calendar, week_start="sunday"))
    query = {"measures": ["orders.orders"], "dimensions": [{"field": "orders.placed_at", "granularity": "week"}]}
    days = [{row[0].weekday() for row in ask(each, query, shop).rows} for each in (model, sunday)]
    assert days == [{0}, {6}]


def test_answers_are_the_same_twice(shop: Connector) -> None:
    query = {"measures": ["orders.revenue"], "dimensions": ["customers.name", "orders.status"], "order_by": ["status"]}
    assert comparable(asked(shop, query).rows) == comparable(asked(shop, query).rows)
