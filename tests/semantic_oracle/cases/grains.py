"""A grain that several rows have: refused where rows are told apart by it, of no matter elsewhere."""

from decimal import Decimal as D

from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.cases.shop import CUSTOMERS, SHOP

TWICE = SHOP.having(CUSTOMERS | {"grain": ["tier"]}, name="shop_with_a_wrong_grain")
LOOSE = SHOP.having(CUSTOMERS | {"grain": ["active"]}, name="shop_with_another_wrong_grain")
ONCE = SHOP.having(CUSTOMERS | {"grain": ["region_id"]}, name="shop_with_a_grain_that_is_missing_once")
BALANCE = {"measures": ["customers.total_balance"]}
WHY = "Ann and Cid are both gold, the declared grain: their rows would be one"

CASES = [
    Case(
        "grain-not-unique-by-details", TWICE, BALANCE | {"dimensions": ["orders.status"]}, error="cardinality", why=WHY
    ),
    Case(
        "grain-not-unique-counted-by-details",
        TWICE,
        {"measures": ["customers.customer_count"], "dimensions": ["products.category"]},
        error="cardinality",
        why=WHY,
    ),
    Case(
        "grain-not-unique-filter-over-details",
        TWICE,
        BALANCE | {"filters": ["orders.status = 'void'"]},
        error="cardinality",
        why="Cid's void order would keep Ann, gold too",
    ),
    Case(
        "grain-not-unique-among-several",
        LOOSE,
        {"measures": ["customers.customer_count", "orders.order_count"], "dimensions": ["orders.status"]},
        error="cardinality",
        why="three customers are active",
    ),
    Case(
        "grain-not-unique-dimensions-alone",
        TWICE,
        {"dimensions": ["customers.name"], "filters": ["orders.status = 'void'"]},
        error="cardinality",
        why="the filter would list Ann",
    ),
    Case(
        "grain-not-unique-and-not-needed",
        TWICE,
        BALANCE | {"dimensions": ["customers.name"]},
        [("Ann", D(100)), ("Bob", D(200)), ("Cid", D(300)), ("Dee", D(400))],
        "every row is counted as it comes",
    ),
    Case(
        "grain-not-unique-of-a-joined-source",
        TWICE,
        {"measures": ["orders.order_count"], "dimensions": ["customers.name"]},
        [("Ann", 2), ("Bob", 2), ("Cid", 1), ("Dee", 0), (None, 2)],
        "orders join it by a column that is unique",
    ),
    Case(
        "grain-not-unique-behind-a-filter",
        TWICE,
        BALANCE | {"filters": ["customers.name <> 'Cid'", "orders.status = 'void'"]},
        error="cardinality",
        why="Cid is not asked for, his void order would keep Ann all the same",
    ),
    Case(
        "grain-with-one-missing-value",
        ONCE,
        BALANCE | {"dimensions": ["orders.status"]},
        [("paid", D(300)), ("open", D(100)), ("void", D(300)), (None, D(600))],
        "one region is missing, one is none: four values for four rows",
    ),
]
