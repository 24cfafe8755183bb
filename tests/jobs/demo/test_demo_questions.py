from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.check.eval.run import EvalRequest, run_evals
from ktx_cli.jobs.demo.demo import FROM_DBT, QUESTIONS
from ktx_cli.jobs.semantic.question import LayerAnswer, Question, ask_layer
from ktx_cli.jobs.semantic.validate import run_tests
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout

Ask = Callable[[str], list[tuple[Any, ...]]]

REVENUE = """
    SELECT month, region, lines.amount - coalesce(back.amount, 0), back.amount, coalesce(back.amount, 0) / lines.amount
    FROM (
      SELECT c.month_start AS month, g.region_name AS region,
             sum(l.quantity * l.unit_price - l.discount_amount) AS amount
      FROM shop.orders o
      JOIN shop.order_lines l ON l.order_id = o.order_id
      JOIN finance.calendar c ON c.date_key = o.order_date_key
      JOIN shop.addresses a ON a.address_id = o.shipping_address_id
      JOIN shop.regions g ON g.region_code = a.region_code
      WHERE o.status <> 'cancelled' AND o.order_date_key BETWEEN 20251001 AND 20251130 GROUP BY ALL
    ) lines
    LEFT JOIN (
      SELECT c.month_start AS month, g.region_name AS region, sum(r.amount) AS amount
      FROM finance.refunds r
      JOIN shop.orders o ON o.order_id = r.order_id
      JOIN finance.calendar c ON c.date_key = o.order_date_key
      JOIN shop.addresses a ON a.address_id = o.shipping_address_id
      JOIN shop.regions g ON g.region_code = a.region_code
      WHERE o.status <> 'cancelled' AND o.order_date_key BETWEEN 20251001 AND 20251130 GROUP BY ALL
    ) back USING (month, region)
    ORDER BY month, region"""

LATE = """
    SELECT c.month_start, count(*), count(*) FILTER (o.ship_date_key > o.due_date_key),
           count(*) FILTER (o.ship_date_key > o.due_date_key) / count(*)
    FROM shop.orders o JOIN finance.calendar c ON c.date_key = o.ship_date_key
    WHERE o.status <> 'cancelled' AND c.calendar_year = 2025 GROUP BY 1 ORDER BY 1"""

STOCK = """
    SELECT k.category_name, sum(s.on_hand)
    FROM shop.inventory_snapshots s
    JOIN shop.products p ON p.product_id = s.product_id
    JOIN shop.categories k ON k.category_id = p.category_id
    WHERE s.snapshot_date_key = (SELECT max(snapshot_date_key) FROM shop.inventory_snapshots)
    GROUP BY 1 ORDER BY 2 DESC, 1"""

ACTIVE = """
    WITH newest AS (SELECT max(order_date_key) AS last_key FROM shop.orders WHERE status <> 'cancelled'),
    ordered AS (
      SELECT o.customer_id, max(c.full_date) AS last_day
      FROM shop.orders o JOIN finance.calendar c ON c.date_key = o.order_date_key
      WHERE o.status <> 'cancelled' GROUP BY 1
    )
    SELECT p.segment, count(*), count(*) FILTER (ordered.last_day > day.full_date - 90),
           count(*) FILTER (ordered.last_day > day.full_date - 90) / count(*)
    FROM shop.customers p CROSS JOIN newest JOIN finance.calendar day ON day.date_key = newest.last_key
    LEFT JOIN ordered ON ordered.customer_id = p.customer_id GROUP BY 1 ORDER BY 1"""

EVERY = (*QUESTIONS, FROM_DBT)
BY_HAND = dict(zip((each.title for each in EVERY), (REVENUE, LATE, STOCK, ACTIVE), strict=True))


@pytest.fixture(scope="module")
def layout(demo_project: Path) -> Layout:
    return Layout(demo_project)


def answer(layout: Layout, title: str) -> LayerAnswer:
    (question,) = [each for each in EVERY if each.title == title]
    asked = Question(question.query, question.connection, verified=True)
    return ask_layer(layout, load_config(layout.config).config, asked, environ=os.environ)


@pytest.mark.parametrize("title", list(BY_HAND))
def test_an_answer_is_that_of_sql_written_by_hand(layout: Layout, title: str, ask: Ask) -> None:
    told = answer(layout, title)
    expected = [[plain(cell) for cell in row] for row in ask(BY_HAND[title])]
    assert [[plain(cell) for cell in row] for row in told.rows] == expected
    assert 1 < len(expected) <= 12
    assert told.error() is None


def plain(cell: Any) -> Any:
    try:
        return None if cell is None else pytest.approx(float(cell), rel=1e-12)
    except (TypeError, ValueError):
        return str(cell)


def test_the_golden_questions_come_out_as_counted_by_hand(layout: Layout) -> None:
    report = run_evals(EvalRequest(layout, load_config(layout.config).config, os.environ, save=False))
    assert [(each.case.asked.id, each.status, each.what) for each in report.results] == [
        ("net-revenue", "pass", ""),
        ("late-orders", "pass", ""),
        ("lines-without-an-order", "pass", ""),
    ]
    late = report.results[1].answer
    assert late is not None and len(late.rows) == 12


def test_the_analysts_tests_pass(layout: Layout) -> None:
    report = run_tests(layout, load_config(layout.config).config, environ=os.environ)
    assert [each.passed for _, each in report.results] == [True]
