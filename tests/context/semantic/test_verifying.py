"""Answers computed a second way: what is right is confirmed, what is not is named; on the shop in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ktx_cli.connectors.port import Connector
from ktx_cli.context.semantic.asking import ask, compile_query
from ktx_cli.context.semantic.verifying import Mismatch, Verified, verify
from tests.context.semantic.golden.engines import opened
from tests.context.semantic.golden.questions import QUESTIONS
from tests.context.semantic.golden.world import ATTRIBUTES, NOW, shop_model

SKIPPED = {"two_levels": {"mean_of_customers": "an aggregate of a measure"}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


@pytest.fixture(scope="module")
def in_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("sqlite", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def verified(shop: Connector, query: Any, rows: list[tuple[Any, ...]] | None = None) -> Verified:
    asked = compile_query(shop_model(), query, attributes=ATTRIBUTES, now=NOW)
    if rows is None:
        rows = ask(shop_model(), query, shop, attributes=ATTRIBUTES, now=NOW, probed=False).rows
    return verify(asked.compiled.build, rows, shop)


@pytest.mark.table("name", [name for name, query in QUESTIONS.items() if query.get("measures")])
def test_right_answers_are_confirmed(name: str, shop: Connector) -> None:
    rows = ask(shop_model(), QUESTIONS[name], shop, attributes=ATTRIBUTES, now=NOW, probed=False).rows
    if name == "by_far_column":  # an order without a customer has no `label`; the compiled COALESCE gives it one
        rows = [row for row in rows if row[0] != "none"]
    found = verified(shop, QUESTIONS[name], rows)
    assert (found.mismatches, found.skipped, found.stopped) == ((), SKIPPED.get(name, {}), None)
    assert found.rows == (0 if name in SKIPPED else found.of)


@pytest.mark.table(
    ("name", "skipped"),
    [
        ("distinct_pairs", set()),
        ("cut_months", set()),
        ("days_compared", set()),
        ("weeks_compared", set()),
        ("percentiles", {"typical", "p90"}),
    ],
)
def test_what_sqlite_cannot_aggregate_is_left_out(name: str, skipped: set[str], in_sqlite: Connector) -> None:
    asked = compile_query(shop_model("sqlite"), QUESTIONS[name], attributes=ATTRIBUTES, now=NOW)
    rows = [tuple(row) for row in in_sqlite.query(asked.sql, max_rows=100).rows]
    found = verify(asked.compiled.build, rows, in_sqlite)
    assert (found.mismatches, set(found.skipped) & {"typical", "p90", "buyer_days"}) == ((), skipped)
    assert found.rows > 0


BY_STATUS = {"measures": ["orders.revenue", "orders.orders"], "dimensions": ["orders.status"]}


def test_a_wrong_number_is_named_with_its_row(shop: Connector) -> None:
    rows = ask(shop_model(), BY_STATUS, shop, attributes=ATTRIBUTES, now=NOW).rows
    wrong = [(rows[0][0], rows[0][1], rows[0][2] + 1), *rows[1:]]
    found = verified(shop, BY_STATUS, wrong)
    assert found.mismatches == (Mismatch((rows[0][0],), "orders", rows[0][2] + 1, rows[0][2]),)
    assert (found.rows, found.of) == (len(rows), len(rows))


@pytest.mark.table(
    ("answered", "is_wrong"),
    [("same", False), (1e-12, False), (1e-6, True), (None, True)],
)
def test_numbers_may_differ_by_rounding_alone(answered: Any, is_wrong: bool, shop: Connector) -> None:
    query = {"measures": ["orders.per_order"]}
    (row,) = ask(shop_model(), query, shop, attributes=ATTRIBUTES, now=NOW).rows
    value = row[0] if answered == "same" else None if answered is None else row[0] * (1 + answered)
    assert bool(verified(shop, query, [(value,)]).mismatches) is is_wrong


def test_it_stands_in_the_receipt_as_plain_data(shop: Connector) -> None:
    rows = [("new", None, 3)]
    found = verified(shop, BY_STATUS, rows).to_json()
    assert (found["rows"], found["of"], found["skipped"]) == (1, 1, {})
    assert [(each["row"], each["column"]) for each in found["mismatches"]] == [
        (["new"], "revenue"),
        (["new"], "orders"),
    ]
