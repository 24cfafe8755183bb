"""Which table a `sql_table_name` is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.sources.looker.fetch import Target, Why, target_of


@pytest.mark.table(
    ("text", "wanted"),
    [
        ("orders", ("orders",)),
        (" public.orders ;", ("public", "orders")),
        ('"Shop"."Order Lines"', ("Shop", "Order Lines")),
        ("`project-1.shop.orders`", ("project-1", "shop", "orders")),
        ("`project-1`.shop.`orders`", ("project-1", "shop", "orders")),
        ("project-1.shop.orders", ("project-1", "shop", "orders")),
        ("[dbo].[Orders]", ("dbo", "Orders")),
        ("db.public.orders AS o", ("db", "public", "orders")),
        ("", Why.NO_TABLE),
        (None, Why.NO_TABLE),
        (17, Why.NO_TABLE),
        ("${derived.SQL_TABLE_NAME}", Why.TEMPLATE),
        ("{% if x %} a {% endif %}", Why.TEMPLATE),
        ("{{ _user_attributes['schema'] }}.orders", Why.TEMPLATE),
        ("@{schema}.orders", Why.TEMPLATE),
        ("(SELECT 1)", Why.DERIVED),
        ("select * from orders", Why.DERIVED),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Why.DERIVED),
        ("orders, customers", Why.SEVERAL),
        ("orders o JOIN customers c ON o.id = c.id", Why.SEVERAL),
        ("orders WHERE 1 = 1", Why.UNREADABLE),
        ("orders LIMIT 1", Why.UNREADABLE),
        ("orders; DROP TABLE orders", Why.UNREADABLE),
        ("read_csv('/etc/passwd')", Why.UNREADABLE),
        ("unnest(x)", Why.UNREADABLE),
        ("'orders", Why.UNREADABLE),
        ("orders" * 1_000, Why.UNREADABLE),
    ],
)
def test_target(text: object, wanted: tuple[str, ...] | Why) -> None:
    found = target_of(text, "warehouse")
    assert (found.why or found.parts) == wanted
    assert found.connection == "warehouse"
    assert Target.stored(found.to_json()) == found


def test_without_a_connection_there_is_no_table() -> None:
    assert target_of("orders", None) == Target(None, why=Why.NO_CONNECTION)


@given(st.text("ab.\"`[]()-; ${%'", max_size=30))
def test_any_text_is_a_table_or_has_a_reason(text: str) -> None:
    found = target_of(text, "warehouse")
    assert bool(found.parts) != bool(found.why)
    assert all(found.parts)
