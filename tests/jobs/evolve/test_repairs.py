"""Renames: which column took the place of another, and what of definitions and pages is renamed."""

from __future__ import annotations

import pytest

from ktx_cli.jobs.evolve.repairs import _columns_renamed, _page_columns_renamed, _source_renamed, _successor
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef


def table(*columns: str) -> Table:
    """Return a table of columns such as `amount REAL`."""
    made = [Column(*each.split(), SemanticType.NUMBER) for each in columns]
    return Table(TableRef(None, "orders"), TableKind.TABLE, tuple(made))


@pytest.mark.parametrize(
    ("then", "now", "successor"),
    [
        (("id INT", "amount REAL"), ("id INT", "total REAL"), "total"),
        (("id INT", "amount REAL"), ("id INT", "total TEXT"), None),
        (("id INT", "amount REAL"), ("id INT",), None),
        (("id INT", "amount REAL"), ("id INT", "total REAL", "tax REAL"), "total"),
        (("id INT", "amount REAL"), ("id INT", "x TEXT", "total REAL", "tax REAL"), None),
        (("amount REAL", "tax REAL"), ("total REAL", "levy REAL"), "total"),
        (("amount REAL", "tax REAL"), ("total REAL",), None),
        (("tax REAL", "amount REAL"), ("tax REAL", "note TEXT", "total REAL"), "total"),
    ],
)
def test_one_column_of_the_same_type_takes_the_place_of_another(
    then: tuple[str, ...], now: tuple[str, ...], successor: str | None
) -> None:
    assert _successor(table(*then), table(*now), "amount") == successor


@pytest.mark.parametrize(
    ("text", "own", "renamed"),
    [
        ("sum(amount)", True, "sum(total)"),
        ("sum(amount)", False, "sum(amount)"),
        ("orders.amount - refunds.amount", True, "orders.total - refunds.amount"),
        ("orders.amount > 0 AND kind = 'amount'", False, "orders.total > 0 AND kind = 'amount'"),
        ("amount_net + amount", True, "amount_net + total"),
        ("amount", True, "total"),
        ("amount(x)", True, "amount(x)"),
        ("note = 'it''s the amount' AND amount > 1", True, "note = 'it''s the amount' AND total > 1"),
    ],
)
def test_a_column_is_renamed_outside_of_texts_alone(text: str, own: bool, renamed: str) -> None:
    assert _columns_renamed(text, "orders", {"amount": "total"}, own=own) == renamed


def test_a_source_and_pages_are_renamed() -> None:
    assert _source_renamed("orders.amount = lines.orders", "orders", "sales") == "sales.amount = lines.orders"
    assert _source_renamed("orders", "orders", "sales") == "sales"
    assert _source_renamed("kind = 'orders.x'", "orders", "sales") == "kind = 'orders.x'"
    page = "Revenue of orders is `orders.amount`; the amount is in `amount`."
    wanted = "Revenue of orders is `orders.total`; the amount is in `total`."
    assert _page_columns_renamed(page, "orders", {"amount": "total"}) == wanted
    assert _page_columns_renamed("`amount` of refunds", "orders", {"amount": "total"}) == "`amount` of refunds"
