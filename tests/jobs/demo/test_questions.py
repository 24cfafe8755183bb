from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.jobs.demo.company import build_company
from ktx_cli.jobs.demo.questions import QUESTIONS, Question

Ask = Callable[[str], list[tuple[Any, ...]]]

questions = pytest.mark.parametrize("question", [pytest.param(q, id=q.title) for q in QUESTIONS])


@questions
def test_answers_are_full_and_stable(question: Question, ask: Ask) -> None:
    answer = ask(question.sql)
    assert 1 < len(answer) <= 12
    assert all(value is not None for row in answer for value in row)
    assert ask(question.sql) == answer
    assert question.connection == "warehouse"


@questions
def test_one_plain_select_each(question: Question) -> None:
    (statement,) = sqlglot.parse(question.sql, dialect="duckdb")
    assert isinstance(statement, exp.Select)


def test_the_closing_answer_is_the_definition_in_the_handbook(ask: Ask) -> None:
    definition = """
        SELECT g.region_name, count(DISTINCT o.order_id),
               sum(l.quantity * l.unit_price - l.discount_amount) - coalesce(any_value(back.amount), 0)
        FROM shop.orders o
        JOIN shop.order_lines l ON l.order_id = o.order_id
        JOIN shop.addresses a ON a.address_id = o.shipping_address_id
        JOIN shop.regions g ON g.region_code = a.region_code
        LEFT JOIN (
          SELECT a.region_code, sum(r.amount) AS amount FROM finance.refunds r
          JOIN shop.orders o ON o.order_id = r.order_id
          JOIN shop.addresses a ON a.address_id = o.shipping_address_id
          WHERE o.order_date_key BETWEEN 20250101 AND 20251231 GROUP BY 1
        ) back ON back.region_code = a.region_code
        WHERE o.status <> 'cancelled' AND o.order_date_key BETWEEN 20250101 AND 20251231
        GROUP BY 1 ORDER BY 3 DESC, 1"""
    answer = ask(QUESTIONS[0].sql)
    assert answer == ask(definition)
    assert len(answer) <= 8
    assert all(isinstance(row[2], Decimal) and row[2] > 0 for row in answer)


def test_another_seed_answers_every_question_differently(ask: Ask, tmp_path: Path) -> None:
    other = build_company(tmp_path / "eight", 8)
    with duckdb.connect(other.warehouse, read_only=True) as connection:
        for question in QUESTIONS:
            assert connection.execute(question.sql).fetchall() != ask(question.sql), question.title


def test_the_last_active_count_is_that_of_the_view(ask: Ask) -> None:
    quarters = ask(QUESTIONS[1].sql)
    assert [row[0] for row in quarters] == [1, 2, 3, 4]
    assert ask("SELECT count(*) FROM finance.customer_value WHERE is_active") == [(quarters[3][1],)]
