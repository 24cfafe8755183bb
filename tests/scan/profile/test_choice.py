"""Which tables a name or a statement in the semantic layer names."""

from __future__ import annotations

import pytest

from ktx_cli.scan.profile.choice import _named
from ktx_cli.warehouses.port import TableRef

ORDERS, ITEMS, NOTES = TableRef("shop", "orders"), TableRef("shop", "order-items"), TableRef("shop", "My Notes")
NAMES = {
    name: [ref]
    for ref in (ORDERS, ITEMS, NOTES)
    for name in (f"{ref.schema}.{ref.name}".casefold(), ref.name.casefold())
}


@pytest.mark.table(
    ("text", "named"),
    [
        ("shop.orders", [ORDERS]),
        ("SELECT id FROM Shop.Orders AS o WHERE o.id>1", [ORDERS]),
        ("project.shop.orders", [ORDERS]),
        ("project.shop.order-items", [ITEMS]),
        ("SELECT * FROM `project.shop.order-items`", [ITEMS]),
        ('SELECT * FROM "shop"."My Notes" JOIN [shop].[order-items] ON true', [NOTES, ITEMS]),
        ("SELECT * FROM shop . orders", [ORDERS]),
        ("SELECT 'shop.orders_old' FROM other", []),
        (None, []),
        ('"', []),
    ],
)
def test_tables_are_named_with_and_without_quotes(text: object, named: list[TableRef]) -> None:
    assert list(_named(text, NAMES)) == named
