"""What definitions say about the numbers of an answer: scales of columns, formats and units of measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.values import NumberStyle
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.formats import number_styles, style_of_format
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Column, Model, Source

SCALES = {("orders", "amount"): 2, ("orders", "id"): 0, ("orders", "rate"): 4, ("products", "price"): 3}


def scale_of(source: Source, column: Column) -> int | None:
    return SCALES.get((source.name, column.name))


@pytest.fixture
def model(tmp_path: Path) -> Model:
    def write(source: dict[str, Any]) -> None:
        folder = tmp_path / "semantic-layer" / "shop"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{source['name']}.yaml").write_text(json.dumps(source))

    numbers = [{"name": name, "type": "number"} for name in ("id", "amount", "rate", "weight", "product_id")]
    measures: list[dict[str, Any]] = [
        {"name": "orders", "expr": "count(*)"},
        {"name": "revenue", "expr": "sum(amount)"},
        {"name": "per_order", "expr": "revenue / orders"},
        {"name": "in_yen", "expr": "sum(amount)", "unit": "JPY", "format": "currency"},
        {"name": "yen_each", "expr": "avg(amount)", "unit": "JPY"},
        {"name": "gone", "expr": "gone_orders / orders", "format": "percent"},
        {"name": "gone_orders", "expr": "count(*)", "filter": "amount < 0"},
        {"name": "gone_percent", "expr": "100.0 * gone_orders / orders", "format": "percent"},
        {"name": "measured", "expr": "avg(weight)", "unit": "percent"},
        {"name": "share", "expr": "revenue", "percent_of": "total"},
        {"name": "typical_day", "expr": "avg(revenue)", "per": ["day"]},
        {"name": "odd", "expr": "sum(amount)", "format": "as you like it"},
    ]
    write(
        {
            "name": "orders",
            "table": "orders",
            "grain": ["id"],
            "columns": [
                *numbers,
                {"name": "day", "type": "time", "natural_granularity": "day"},
                {"name": "net", "type": "number", "expr": "amount * rate"},
                {"name": "circle", "type": "number", "expr": "circle + 1"},
            ],
            "joins": [{"to": "products", "on": "product_id = products.id", "relationship": "many_to_one"}],
            "measures": measures,
            "default_time_dimension": "day",
        }
    )
    columns = [{"name": "id", "type": "number"}, {"name": "price", "type": "number"}]
    write({"name": "products", "table": "products", "grain": ["id"], "columns": columns})
    return load_model(Layout(tmp_path), "shop", "duckdb")


def rounded(decimals: int, percent: int = 0, *, grouped: bool = False) -> NumberStyle:
    """Return the style of a format that says how many digits there are."""
    return NumberStyle(decimals, computed=True, percent=percent, significant=0, grouped=grouped)


def styles(model: Model, query: dict[str, Any]) -> list[NumberStyle | None]:
    return number_styles(compile_query(model, query), scale_of)


@pytest.mark.table(
    ("measure", "decimals", "computed"),
    [
        ("count(orders.id)", 0, False),
        ("count(distinct orders.amount)", 0, False),
        ("sum(orders.amount)", 2, False),
        ("sum(distinct orders.amount)", 2, False),
        ("max(orders.amount) - min(orders.amount)", 2, False),
        ("sum(orders.amount * orders.rate)", 6, False),
        ("sum(orders.amount * 2)", 2, False),
        ("sum(orders.amount + orders.rate)", 4, False),
        ("sum(orders.net)", 6, False),
        ("sum(products.price)", 3, False),
        ("sum(case when orders.id > 3 then orders.amount else 0 end)", 2, False),
        ("coalesce(sum(orders.amount), 0)", 2, False),
        ("sum(-orders.amount)", 2, False),
        ("round(sum(orders.amount), 1)", 1, False),
        ("avg(orders.amount)", 4, True),
        ("avg(orders.id)", 2, True),
        ("median(orders.rate)", 6, True),
        ("stddev(orders.amount)", 4, True),
        ("sum(orders.amount) / count(orders.id)", 4, True),
        ("sum(orders.id) / 100.0", 2, False),
        ("sum(orders.weight / 1000)", None, False),
        ("sum(orders.amount / orders.id)", 4, True),
        ("sum(orders.weight)", None, False),
        ("avg(orders.weight)", 4, True),
        ("orders.revenue", 2, False),
        ("orders.per_order", 4, True),
        ("orders.typical_day", 4, True),
        ("orders.odd", 2, False),
        ("orders.in_yen", 0, True),
        ("orders.yen_each", 0, True),
    ],
)
def test_the_digits_of_a_measure(measure: str, decimals: int | None, computed: bool, model: Model) -> None:
    (found,) = styles(model, {"measures": [measure]})
    assert found is not None
    assert (found.decimals, found.computed, found.percent) == (decimals, computed, 0)


@pytest.mark.table(
    ("measure", "percent"),
    [
        ("orders.gone", 100),
        ("orders.gone_percent", 1),
        ("orders.share", 1),
        ("orders.measured", 1),
        ("orders.revenue", 0),
    ],
)
def test_what_is_a_percentage(measure: str, percent: int, model: Model) -> None:
    (found,) = styles(model, {"measures": [measure]})
    assert found is not None and found.percent == percent


def test_a_comparison_is_printed_as_what_it_compares(model: Model) -> None:
    query = {
        "measures": ["orders.in_yen", "orders.gone"],
        "dimensions": ["orders.day:month", "orders.amount"],
        "time_range": {"start": "2024-01-01", "end": "2024-03-01"},
        "comparison": {"offset": "1 year"},
    }
    query["dimensions"] = [{"field": "orders.day", "granularity": "month"}, "orders.amount"]
    month, amount, *measures = styles(model, query)
    assert month == NumberStyle() and amount == NumberStyle(2)
    said = [(each.decimals, each.percent) for each in measures if each is not None]
    assert said == [(0, 0)] * 3 + [(1, 1)] + [(1, 100)] * 3 + [(1, 1)]


@pytest.mark.table(
    ("text", "style"),
    [
        (None, None),
        ("", None),
        ("integer", rounded(0)),
        ("decimal_2", rounded(2, grouped=True)),
        ("decimal_0", rounded(0, grouped=True)),
        ("usd", rounded(2, grouped=True)),
        ("USD_0", rounded(0, grouped=True)),
        ("percent", NumberStyle(1, computed=True, percent=100, significant=2)),
        ("percent_2", rounded(2, 100)),
        ("0.0%", rounded(1, 100)),
        ("#,##0.00", rounded(2, grouped=True)),
        ("$#,##0", rounded(0, grouped=True)),
        ('"€"#,##0.00', rounded(2, grouped=True)),
        ("#,##0.00;(#,##0.00)", rounded(2, grouped=True)),
        (",.2f", rounded(2, grouped=True)),
        (".1%", rounded(1, 100)),
        (".2f", rounded(2)),
        ("0.00", rounded(2)),
        ('0.0,,"M"', None),  # in millions: other numbers than the answer's
        ("id", None),
        ("as you like it", None),
    ],
)
def test_formats_that_are_known(text: str | None, style: NumberStyle | None) -> None:
    assert style_of_format(text) == style
