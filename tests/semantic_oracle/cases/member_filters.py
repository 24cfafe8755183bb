"""Members without facts under filters over rows they have several of, and under a time range on their time."""

from collections import Counter
from datetime import date

from tests.semantic_oracle.cases.axis_worlds import SHOP as TIMED
from tests.semantic_oracle.cases.base import Case, grouped
from tests.semantic_oracle.cases.shop import SHOP
from tests.semantic_oracle.cases.visits import DATES, ROWS, VISITS

BY_NAME = {"measures": ["orders.revenue", "orders.order_count"], "dimensions": ["customers.name"]}
VISITS_BY_DAY = Counter(row["day"] for row in ROWS)


def within(start: str, end: str, field: str | None = None) -> dict[str, object]:
    return {"time_range": {"start": start, "end": end} | ({} if field is None else {"field": field})}


CASES = [
    Case(
        "member-filter-nothing-there",
        SHOP,
        BY_NAME | {"filters": ["tickets.ticket_id IS NULL"]},
        [("Bob", 200, 2), (None, 575, 2)],
        "of the customers Bob alone has no ticket; orders without a customer have none either",
    ),
    Case(
        "member-filter-something-there",
        SHOP,
        BY_NAME | {"filters": ["tickets.priority = 'high'"]},
        [("Ann", 150, 2), ("Cid", 25, 1), ("Dee", None, 0)],
        "Dee has no orders but a high ticket; Bob has none",
    ),
    Case(
        "member-filter-same-row",
        SHOP,
        BY_NAME | {"filters": ["tickets.priority = 'high'", "tickets.minutes > 35"]},
        [("Dee", None, 0)],
        "both hold for one ticket; Ann's tickets have one each, of the two",
    ),
    Case(
        "member-filter-no-row",
        SHOP,
        BY_NAME | {"filters": ["tickets.priority = 'low'", "tickets.minutes = 30"]},
        [],
        "no customer has such a ticket: nobody is listed",
    ),
    Case(
        "member-filter-beside-one-of-the-fact",
        SHOP,
        BY_NAME | {"filters": ["tickets.priority = 'high'", "orders.status = 'paid'"]},
        [("Ann", 100, 1), ("Cid", None, 0), ("Dee", None, 0)],
        "the condition on orders takes no member away",
    ),
    Case(
        "member-filter-two-facts",
        SHOP,
        {
            "measures": ["orders.order_count", "items.sales"],
            "dimensions": ["customers.name"],
            "filters": ["tickets.ticket_id IS NULL"],
        },
        [("Bob", 2, 200), (None, 2, 510)],
        "both facts reach tickets through customers",
    ),
    Case(
        "member-filter-a-fact-of-its-own",
        SHOP,
        {
            "measures": ["orders.order_count", "tickets.ticket_count"],
            "dimensions": ["customers.name"],
            "filters": ["tickets.priority = 'high'"],
        },
        [("Ann", 2, 1), ("Bob", 0, 0), ("Cid", 1, 1), ("Dee", 0, 1)],
        "to tickets it is a condition on their own rows: members stay",
    ),
    Case(
        "member-filter-not-behind",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["regions.name"], "filters": ["tickets.priority = 'high'"]},
        [("North", 2), ("South", 0), ("Void", 0), (None, 1)],
        "regions are no customers: what orders' customers have says nothing of them",
    ),
    Case(
        "member-filter-ordered-and-limited",
        SHOP,
        BY_NAME | {"filters": ["tickets.priority = 'high'"], "order_by": ["order_count", "customers.name"], "limit": 2},
        [("Dee", None, 0), ("Cid", 25, 1)],
        "Bob, whom the filter leaves out, does not come first",
    ),
    Case(
        "member-filter-having",
        SHOP,
        BY_NAME | {"filters": ["tickets.priority = 'high'"], "having": ["orders.order_count < 1"]},
        [("Dee", None, 0)],
        "of those without orders Dee alone",
    ),
    Case(
        "member-filter-crossed",
        SHOP,
        {
            "measures": ["items.line_count"],
            "dimensions": ["customers.name", "products.category"],
            "include_empty": True,
            "filters": ["tickets.ticket_id IS NULL", "products.category IS NOT NULL"],
        },
        [("Bob", "kitchen", 2), ("Bob", "office", 0), (None, "office", 1), (None, "kitchen", 1)],
        "each group of members has its own filters",
    ),
    Case(
        "member-range-on-their-time",
        SHOP,
        {"measures": ["items.sales"], "dimensions": [grouped("orders.ordered_at", "month")]}
        | within("2024-02-01", "2024-04-01", "orders.ordered_at"),
        [(date(2024, 2, 1), 225), (date(2024, 3, 1), 500)],
        "no month outside of the range is listed",
    ),
    Case(
        "member-range-beside-the-members",
        SHOP,
        {"measures": ["items.sales"], "dimensions": ["orders.status"]}
        | within("2024-03-01", "2024-04-01", "orders.ordered_at"),
        [("paid", None), ("open", 500)],
        "of March there is a paid order without items; void orders are of February",
    ),
    Case(
        "member-range-two-facts",
        SHOP,
        {"measures": ["orders.order_count", "tickets.ticket_count"], "dimensions": ["customers.name"]}
        | within("2024-01-01", "2024-02-01", "customers.signup"),
        [("Ann", 2, 2), ("Bob", 2, 0)],
        "customers of January, for both facts",
    ),
    Case(
        "member-range-of-the-fact",
        SHOP,
        {"measures": ["orders.order_count"], "dimensions": ["customers.name"]} | within("2024-03-01", "2024-04-01"),
        [("Ann", 0), ("Bob", 0), ("Cid", 0), ("Dee", 0), (None, 2)],
        "when orders were made takes no customer away",
    ),
    Case(
        "member-range-on-a-calendar",
        VISITS,
        {"measures": ["visits.visits_made"], "dimensions": ["dates.d"]} | within("2023-07-20", "2023-09-10"),
        [(day, VISITS_BY_DAY[day]) for day in DATES if date(2023, 7, 20) <= day < date(2023, 9, 10)],
        "a calendar joined by the time has the days of the range alone",
    ),
    Case(
        "member-range-on-a-calendar-of-a-computed-day",
        TIMED,
        {"measures": ["orders.Revenue"], "dimensions": ["cal.tag"]} | within("2024-01-01", "2024-01-03"),
        [("early", 30)],
        "no day of the range is late",
    ),
]
