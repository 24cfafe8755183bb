"""Shares of a whole, two-level aggregates."""

from tests.semantic_oracle.cases.base import Case, measure
from tests.semantic_oracle.cases.shop import ORDERS, SHOP

WHOLE = SHOP.having(
    ORDERS
    | {
        "measures": [
            *ORDERS["measures"],
            measure("pct = sum(amount)", percent_of="total"),
            measure("pct_of_tier = sum(amount)", percent_of=["customers.tier"]),
            measure("pct_buyers = count(distinct customer_id)", percent_of="total"),
            measure("pct_paid = sum(amount) WHERE status = 'paid'", percent_of="total"),
            measure("per_customer = avg(revenue)", per=["customer_id"]),
            measure("largest_customer = max(revenue)", per=["customer_id"]),
            measure("median_customer = median(revenue)", per=["customer_id"]),
            measure("orders_per_buyer = avg(order_count)", per=["customer_id"]),
            measure("per_tier = avg(revenue)", per=["customers.tier"]),
            measure("paid_per_customer = avg(revenue) WHERE status = 'paid'", per=["customer_id"]),
            measure("mean_aov = avg(aov)", per=["customer_id"]),
        ]
    },
    name="shop_shares",
)


def _ask(*measures: str, **rest: object) -> dict[str, object]:
    return {"measures": [f"orders.{each}" for each in measures], "include_empty": False} | rest


CASES = [
    Case(
        "share-of-the-total",
        WHOLE,
        _ask("revenue", "pct", dimensions=["customers.tier"]),
        [("gold", 175, 17500 / 950), ("silver", 200, 20000 / 950), (None, 575, 57500 / 950)],
        "of 950",
    ),
    Case(
        "share-of-members-without-a-name",
        WHOLE,
        _ask("pct_of_tier", dimensions=["customers.tier", "orders.status"], filters=["customers.tier IS NULL"]),
        None,
        "a whole of no tier is found for its parts",
    ),
    Case("share-without-dimension", WHOLE, _ask("pct"), [(100,)], "the whole of itself"),
    Case(
        "share-of-a-dimension",
        WHOLE,
        _ask("pct_of_tier", dimensions=["customers.tier", "customers.name"]),
        [("gold", "Ann", 15000 / 175), ("gold", "Cid", 2500 / 175), ("silver", "Bob", 100), (None, None, 100)],
        "of the tier's revenue",
    ),
    Case(
        "share-distinct",
        WHOLE,
        _ask("pct_buyers", dimensions=["orders.status"]),
        [("paid", 50), ("open", 50), ("void", 25), (None, 25)],
        "4 buyers in all: 1, 2, 3, 99; shares overlap",
    ),
    Case(
        "share-with-filter",
        WHOLE,
        _ask("pct", dimensions=["customers.tier"], filters=["orders.status = 'paid'"]),
        [("gold", 10000 / 375), ("silver", 20000 / 375), (None, 7500 / 375)],
        "the whole has the same filter",
    ),
    Case(
        "share-with-having",
        WHOLE,
        _ask("pct", dimensions=["customers.tier"], having=["orders.revenue > 180"]),
        [("silver", 20000 / 950), (None, 57500 / 950)],
        "a condition on the result leaves the whole as it is",
    ),
    Case(
        "share-of-a-filtered-measure",
        WHOLE,
        _ask("pct_paid", dimensions=["customers.tier"]),
        [("gold", 10000 / 375), ("silver", 20000 / 375), (None, 7500 / 375)],
        "paid of all paid",
    ),
    Case(
        "share-of-nothing",
        WHOLE,
        _ask("pct", dimensions=["orders.status"], filters=["orders.order_id = 7"]),
        [(None, None)],
        "the whole is NULL",
    ),
    Case("two-level-average", WHOLE, _ask("per_customer"), [(190,)], "150, 200, 25, 75 (no customer) and 500: 950 / 5"),
    Case(
        "two-level-by-dimension",
        WHOLE,
        _ask("per_customer", "largest_customer", dimensions=["orders.status"]),
        [("paid", 125, 200), ("open", 275, 500), ("void", 25, 25), (None, None, None)],
        "paid: 100, 200, 75; NULL is left out as SQL does",
    ),
    Case("two-level-median", WHOLE, _ask("median_customer"), [(150,)], "25, 75, 150, 200, 500"),
    Case("two-level-count", WHOLE, _ask("orders_per_buyer"), [(1.4,)], "7 orders over 5 customer ids, NULL is one"),
    Case("two-level-over-a-join", WHOLE, _ask("per_tier"), [(950 / 3,)], "175, 200 and 575"),
    Case(
        "two-level-filtered",
        WHOLE,
        _ask("paid_per_customer"),
        [(125,)],
        "the filter is pushed down: 100, 200, 75; customers without paid orders have NULL",
    ),
    Case(
        "two-level-of-a-ratio",
        WHOLE,
        _ask("mean_aov", dimensions=["customers.tier"]),
        [("gold", 50), ("silver", 100), (None, 287.5)],
        "Ann 75, Cid 25; Bob 200 over 2; 75 and 500",
    ),
    Case(
        "two-level-beside-one-level",
        WHOLE,
        _ask("revenue", "per_customer", dimensions=["customers.tier"]),
        [("gold", 175, 87.5), ("silver", 200, 200), (None, 575, 287.5)],
        "Ann 150, Cid 25",
    ),
    Case(
        "two-level-with-filter",
        WHOLE,
        _ask("per_customer", filters=["customers.tier = 'gold'"]),
        [(87.5,)],
        "150 and 25",
    ),
    Case(
        "two-level-total",
        WHOLE,
        _ask("per_customer", dimensions=["orders.status"], totals=True, having=["orders.revenue IS NOT NULL"]),
        [("paid", 125), ("open", 275), ("void", 25)],
        "the total is over customers, not over groups",
        totals=[190],
    ),
]
