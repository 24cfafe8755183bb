"""Derived measures: precedence, depth, zeros, exact division (defect B1)."""

from tests.semantic_oracle.cases.base import Case, World, measure, source, table
from tests.semantic_oracle.cases.shop import SHOP

BOOKS = World(
    "books",
    {
        "ledger": table(
            "entry_id INTEGER, team VARCHAR, revenue INTEGER, cost INTEGER, hours INTEGER",
            (1, "a", 3000, 1000, 3),
            (2, "a", 2000, 900, 4),
            (3, "b", 7, 2, 2),
            (4, "b", None, 1, None),
            (5, "c", 0, 5, 0),
        )
    },
    [
        source(
            "ledger",
            "entry_id number, team string, revenue number, cost number, hours number",
            "entry_id",
            m=[
                "income = sum(revenue)",
                "spent = sum(cost)",
                "worked = sum(hours)",
                "entries = count(*)",
                "mean_income = avg(revenue)",
                "profit = income - spent",
                "margin = profit / income",
                "margin_pct = 100 * margin",
                "loss_margin = 1 - margin",
                "per_hour = profit / worked",
                "twice = profit * 2",
                "negative = -profit",
                "nested = (income - spent) / (income + spent)",
                "left = income - spent - worked",
                "right = income - (spent - worked)",
                "ratio_of_ratios = margin / per_hour",
                "graded = CASE WHEN margin > 0.6 THEN 'good' ELSE 'poor' END",
                "safe = COALESCE(margin, 0)",
                "mean_less = mean_income - 1",
                measure("profit_a = profit WHERE team = 'a'"),
                measure("share_a = profit_a / profit"),
            ],
        )
    ],
)
BY_TEAM = {"dimensions": ["ledger.team"]}

CASES = [
    Case(
        "ratio-precedence",
        BOOKS,
        {"measures": ["ledger.margin"]},
        [((5007 - 1908) / 5007,)],
        "(r - c) / r, not r - c / r",
    ),
    Case(
        "ratio-by-group",
        BOOKS,
        {"measures": ["ledger.margin"]} | BY_TEAM,
        [("a", 3100 / 5000), ("b", 4 / 7), ("c", None)],
        "c has no revenue: division by 0 is NULL",
    ),
    Case("ratio-times", BOOKS, {"measures": ["ledger.margin_pct"]}, [(100 * 3099 / 5007,)], "100 * (p / r)"),
    Case("ratio-minus", BOOKS, {"measures": ["ledger.loss_margin"]}, [(1 - 3099 / 5007,)], "1 - (p / r)"),
    Case("ratio-product", BOOKS, {"measures": ["ledger.twice", "ledger.negative"]}, [(6198, -3099)], "(r - c) * 2"),
    Case(
        "ratio-subtraction-order",
        BOOKS,
        {"measures": ["ledger.left", "ledger.right"]},
        [(5007 - 1908 - 9, 5007 - (1908 - 9))],
        "brackets of the definition stay",
    ),
    Case(
        "ratio-nested",
        BOOKS,
        {"measures": ["ledger.nested"]} | BY_TEAM,
        [("a", 3100 / 6900), ("b", 4 / 10), ("c", -1)],
        "both sides in brackets",
    ),
    Case(
        "ratio-of-ratios",
        BOOKS,
        {"measures": ["ledger.ratio_of_ratios"]} | BY_TEAM,
        [("a", (3100 / 5000) / (3100 / 7)), ("b", (4 / 7) / (4 / 2)), ("c", None)],
        "three levels deep",
    ),
    Case(
        "ratio-integers-divide-exactly",
        BOOKS,
        {"measures": ["ledger.per_hour"]} | BY_TEAM,
        [("a", 3100 / 7), ("b", 2), ("c", None)],
        "3100 / 7 is no whole number",
    ),
    Case(
        "ratio-case",
        BOOKS,
        {"measures": ["ledger.graded"]} | BY_TEAM,
        [("a", "good"), ("b", "poor"), ("c", "poor")],
        "0.62, 0.57, NULL",
    ),
    Case(
        "ratio-coalesce",
        BOOKS,
        {"measures": ["ledger.safe"]} | BY_TEAM,
        [("a", 0.62), ("b", 4 / 7), ("c", 0)],
        "NULL to 0",
    ),
    Case(
        "ratio-mean-stays-null",
        BOOKS,
        {"measures": ["ledger.mean_less"], "filters": ["ledger.entry_id = 4"]},
        [(None,)],
        "an average that is missing is not 0",
    ),
    Case(
        "ratio-missing-sum-is-zero",
        BOOKS,
        {"measures": ["ledger.profit"], "filters": ["ledger.entry_id = 4"]},
        [(-1,)],
        "0 - 1",
    ),
    Case(
        "ratio-own-filter",
        BOOKS,
        {"measures": ["ledger.profit_a", "ledger.share_a"]},
        [(3100, 3100 / 3099)],
        "the filter reaches both sums",
    ),
    Case(
        "ratio-filtered-by-group",
        BOOKS,
        {"measures": ["ledger.profit_a"]} | BY_TEAM,
        [("a", 3100), ("b", 0), ("c", 0)],
        "sums over no rows count as 0",
    ),
    Case(
        "ratio-ad-hoc",
        BOOKS,
        {"measures": [{"expr": "ledger.income / ledger.entries", "name": "mean"}]},
        [(5007 / 5,)],
        "measures combined in the query",
    ),
    Case(
        "ratio-ad-hoc-aggregates",
        BOOKS,
        {"measures": [{"expr": "sum(ledger.revenue) / count(ledger.revenue)", "name": "mean"}]},
        [(5007 / 4,)],
        "aggregates combined in the query",
    ),
    Case(
        "ratio-of-named-measures",
        BOOKS,
        {
            "measures": [
                {"expr": "sum(ledger.revenue)", "name": "r"},
                {"expr": "sum(ledger.cost)", "name": "c"},
                {"expr": "r / c", "name": "times"},
            ]
        },
        [(5007, 1908, 5007 / 1908)],
        "a measure of the query made of others of it",
    ),
    Case(
        "ratio-across-facts",
        SHOP,
        {"measures": [{"expr": "orders.revenue / customers.customer_count", "name": "per_head"}]},
        [(237.5,)],
        "950 over all 4 customers, those without orders too",
    ),
    Case(
        "ratio-across-facts-by-group",
        SHOP,
        {
            "measures": [{"expr": "(orders.revenue - tickets.effort) / customers.customer_count", "name": "net"}],
            "dimensions": ["customers.tier"],
        },
        [("gold", 57.5), ("silver", 200), (None, 530)],
        "(175 - 60) / 2, (200 - 0) / 1, (575 - 45) / 1",
    ),
    Case(
        "ratio-circle",
        BOOKS.having(
            source("ledger", "entry_id number, revenue number", "entry_id", m=["up = down + 1", "down = up - 1"]),
            name="circle",
        ),
        {"measures": ["ledger.up"]},
        error="definition|query|unknown_name",
        why="two measures made of each other",
    ),
]
