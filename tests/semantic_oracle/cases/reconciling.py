"""NULL and dangling keys: groups always add up to the whole (defects B3, B4, B5)."""

from tests.semantic_oracle.cases.base import Case, World, many, source, table
from tests.semantic_oracle.cases.shop import SHOP

EMPTY = World(
    "empty",
    {
        "makers": table("maker_id INTEGER, name VARCHAR"),
        "things": table("thing_id INTEGER, maker_id INTEGER, price DECIMAL(18,2), kind VARCHAR"),
        "blanks": table(
            "blank_id INTEGER, maker_id INTEGER, value DECIMAL(18,2), word VARCHAR",
            (1, None, None, None),
            (2, None, None, None),
        ),
    },
    [
        source("makers", "maker_id number, name string", "maker_id", m=["maker_count = count(*)"]),
        source(
            "things",
            "thing_id number, maker_id number, price number, kind string",
            "thing_id",
            joins=[many("makers", "maker_id = makers.maker_id")],
            m=["total = sum(price)", "thing_count = count(*)", "mean = avg(price)", "per_thing = total / thing_count"],
        ),
        source(
            "blanks",
            "blank_id number, maker_id number, value number, word string",
            "blank_id",
            joins=[many("makers", "maker_id = makers.maker_id")],
            m=[
                "value_total = sum(value)",
                "blank_count = count(*)",
                "values = count(value)",
                "words = count(distinct word)",
                "top = max(value)",
            ],
        ),
    ],
)

CASES = [
    Case(
        "null-totals-reconcile",
        SHOP,
        {"measures": ["orders.revenue"], "dimensions": ["customers.tier"], "include_empty": False, "totals": True},
        [("gold", 175), ("silver", 200), (None, 575)],
        "175 + 200 + 575 is the 950 of no dimension at all",
        totals=[950],
    ),
    Case(
        "null-in-the-dimension-and-the-key",
        SHOP,
        {"measures": ["customers.customer_count"], "dimensions": ["regions.name"], "include_empty": False},
        [("North", 1), ("South", 1), (None, 2)],
        "Cid has no region, Dee's region 9 does not exist",
    ),
    Case(
        "null-count-star-of-an-empty-member",
        SHOP,
        {"measures": ["tickets.ticket_count"], "dimensions": ["customers.name"]},
        [("Ann", 2), ("Bob", 0), ("Cid", 1), ("Dee", 1), (None, 1)],
        "Bob has no ticket, and count(*) of nothing is 0",
    ),
    Case(
        "null-count-of-a-column",
        SHOP,
        {"measures": ["orders.amounts", "orders.order_count"], "dimensions": ["orders.status"]},
        [("paid", 3, 3), ("open", 2, 2), ("void", 1, 1), (None, 0, 1)],
        "order 7 has no amount",
    ),
    Case(
        "null-sum-of-only-nulls",
        SHOP,
        {"measures": ["orders.revenue", "orders.units"], "dimensions": ["orders.status"]},
        [("paid", 375, 7), ("open", 550, 6), ("void", 25, None), (None, None, 3)],
        "a sum of nothing but NULL is NULL",
    ),
    Case(
        "null-filter-is-not-true",
        SHOP,
        {"measures": ["orders.order_count"], "filters": ["orders.status <> 'paid'"]},
        [(3,)],
        "NULL <> 'paid' is not true: orders 2, 4, 6",
    ),
    Case(
        "null-negated-filter",
        SHOP,
        {"measures": ["orders.order_count"], "filters": ["NOT orders.status = 'paid'"]},
        [(3,)],
        "NOT NULL is not true either",
    ),
    Case(
        "null-is-null-across-a-join",
        SHOP,
        {"measures": ["orders.revenue"], "filters": ["customers.name IS NULL"]},
        [(575,)],
        "orders 5 and 6 have no customer row",
    ),
    Case(
        "null-coalesce-dimension-filter",
        SHOP,
        {"measures": ["orders.revenue"], "filters": ["COALESCE(customers.tier, 'none') = 'none'"]},
        [(575,)],
        "the filter sees the NULLs of the LEFT JOIN",
    ),
    Case(
        "null-not-in",
        SHOP,
        {"measures": ["orders.order_count"], "filters": ["customers.name NOT IN ('Ann', 'Bob')"]},
        [(1,)],
        "orders without a customer are unknown, not outside: only Cid's",
    ),
    Case(
        "null-two-facts-null-merge",
        SHOP,
        {"measures": ["orders.order_count", "tickets.ticket_count"], "dimensions": ["customers.tier"]},
        [("gold", 3, 3), ("silver", 2, 0), (None, 2, 2)],
        "NULL tiers and missing customers of both facts are one group",
    ),
    Case(
        "null-two-dimensions-merge",
        SHOP,
        {
            "measures": ["orders.order_count", "tickets.ticket_count"],
            "dimensions": ["customers.tier", "regions.name"],
            "include_empty": False,
        },
        [("gold", "North", 2, 2), ("gold", None, 1, 1), ("silver", "South", 2, 0), (None, None, 2, 2)],
        "null-safe over every dimension",
    ),
    Case(
        "null-all-rows-null-key",
        EMPTY,
        {"measures": ["blanks.blank_count", "blanks.value_total"], "dimensions": ["makers.name"]},
        [(None, 2, None)],
        "no maker exists; both rows are in the NULL group",
    ),
    Case(
        "null-all-null-columns",
        EMPTY,
        {"measures": ["blanks.blank_count", "blanks.values", "blanks.words", "blanks.value_total", "blanks.top"]},
        [(2, 0, 0, None, None)],
        "two rows, nothing in them",
    ),
    Case(
        "empty-table-no-dimension",
        EMPTY,
        {"measures": ["things.total", "things.thing_count", "things.mean"]},
        [(None, 0, None)],
        "no rows: one row of the ungrouped answer",
    ),
    Case(
        "empty-table-by-dimension",
        EMPTY,
        {"measures": ["things.thing_count"], "dimensions": ["things.kind"]},
        [],
        "no rows: no groups",
    ),
    Case("empty-table-derived", EMPTY, {"measures": ["things.per_thing"]}, [(None,)], "0 / 0 is NULL"),
    Case(
        "empty-and-full-fact",
        EMPTY,
        {"measures": ["things.thing_count", "blanks.blank_count"], "dimensions": ["makers.name"]},
        [(None, 0, 2)],
        "the empty fact counts 0 in the other's group",
    ),
    Case("empty-dimension-only", EMPTY, {"dimensions": ["makers.name"]}, [], "no members"),
    Case(
        "empty-having",
        EMPTY,
        {"measures": ["things.thing_count"], "having": ["things.thing_count > 0"]},
        [],
        "0 is not above 0",
    ),
]
