"""TPC-H asked through the semantic layer: every answer is that of SQL written by hand on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model, SemanticError
from ktx_cli.semantic.store.reader import check_model
from ktx_cli.warehouses.port import Connector
from tests.semantic.tpch.questions import CASES, MEAN_BALANCE, UNSAID, WITHOUT_ORDERS, Case, without_orders

MODEL: Final[Model] = load_model(Layout(Path(__file__).parent), "tpch", "duckdb")


def by_hand(tpch: Connector, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in tpch.query(sql, max_rows=100_000).rows]


def assert_same(found: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]], ordered: bool) -> None:
    """Rows are equal: decimals, counts, texts and dates exactly, binary fractions to a billionth."""
    assert len(found) == len(wanted)
    if not ordered:
        found, wanted = sorted(found, key=str), sorted(wanted, key=str)
    for mine, other in zip(found, wanted, strict=True):
        assert [_exact(value) for value in mine] == [
            pytest.approx(value, rel=1e-9, abs=0) if isinstance(value, float) else _exact(value) for value in other
        ]


def _exact(value: Any) -> Any:
    return value.date() if isinstance(value, datetime) else value


def test_the_model_has_no_problems() -> None:
    assert [*MODEL.problems, *check_model(MODEL)] == []


@pytest.mark.table(("name", "case"), CASES.items())
def test_every_query(name: str, case: Case, tpch: Connector) -> None:
    wanted = by_hand(tpch, case.sql)
    assert any(value is not None for row in wanted for value in row), "the query finds nothing"
    answer = ask(MODEL, case.question, tpch)
    assert_same(answer.rows, wanted, case.ordered)


def test_q22_in_two_questions(tpch: Connector) -> None:
    ((mean,),) = ask(MODEL, MEAN_BALANCE, tpch).rows
    wanted = by_hand(tpch, WITHOUT_ORDERS)
    assert len(wanted) > 1
    assert_same(ask(MODEL, without_orders(mean), tpch).rows, wanted, ordered=False)


@pytest.mark.table(("name", "case"), UNSAID.items())
def test_what_cannot_be_said_is_refused(name: str, case: tuple[Mapping[str, Any], str], tpch: Connector) -> None:
    question, code = case
    with pytest.raises(SemanticError) as caught:
        ask(MODEL, question, tpch)
    assert caught.value.code == code
