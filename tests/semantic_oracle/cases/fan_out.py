"""Dimensions of other rows with the same parent: refused unless asked for, and what is not one of them."""

from tests.semantic_oracle.cases.base import Case, World, many, source, table
from tests.semantic_oracle.cases.shop import SHOP

BY_STATUS = {"measures": ["tickets.ticket_count"], "include_empty": False}
OF_OTHERS = [("paid", 2), ("open", 2), ("void", 1), (None, 2)]
WHY = "tickets of Ann in paid and open, of Cid in void; Dee has no orders, ticket 4 no customer"

TAGGED = World(
    "tagged",
    {
        **SHOP.tables,
        "tags": table("tag_id INTEGER, tag VARCHAR", (1, "blue"), (2, "new"), (3, "rare")),
        "product_tags": table("product_id INTEGER, tag_id INTEGER", (1, 1), (1, 2), (2, 2), (9, 3)),
        "invoices": table("order_id INTEGER, fee INTEGER", (1, 5), (3, 7), (8, 11)),
    },
    [
        *SHOP.sources,
        source("tags", "tag_id number, tag string", "tag_id", m=["tag_count = count(*)"]),
        source(
            "product_tags",
            "product_id number, tag_id number",
            ["product_id", "tag_id"],
            joins=[many("products", "product_id = products.product_id"), many("tags", "tag_id = tags.tag_id")],
        ),
        source(
            "invoices",
            "order_id number, fee number",
            "order_id",
            joins=[many("orders", "order_id = orders.order_id", relationship="one_to_one")],
            m=["fees = sum(fee)"],
        ),
    ],
)
"""The shop with tags of products, and invoices of some orders."""

COUNTED = TAGGED.having(
    source(
        "product_tags",
        "product_id number, tag_id number",
        ["product_id", "tag_id"],
        joins=[many("products", "product_id = products.product_id"), many("tags", "tag_id = tags.tag_id")],
        m=["taggings = count(*)"],
    ),
    source(
        "invoices",
        "order_id number, fee number",
        ["order_id", "fee"],
        joins=[many("orders", "order_id = orders.order_id")],
        m=["fees = sum(fee)"],
    ),
    name="counted",
)
"""The same, but tags are something to count and an order may have several invoices."""

BRANCHED = World(
    "branched",
    {
        "shops": table("shop_id INTEGER, town VARCHAR", (1, "Rome"), (2, "Oslo"), (3, "Oslo")),
        "days": table("day_id INTEGER, name VARCHAR", (1, "Mon"), (2, "Tue")),
        "visits": table(
            "visit_id INTEGER, shop_id INTEGER, day_id INTEGER", (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 3, 1)
        ),
        "deals": table(
            "deal_id INTEGER, shop_id INTEGER, day_id INTEGER, kind VARCHAR", (1, 1, 1, "big"), (2, 2, 2, "small")
        ),
    },
    [
        source("shops", "shop_id number, town string", "shop_id", m=["shop_count = count(*)"]),
        source("days", "day_id number, name string", "day_id", m=["day_count = count(*)"]),
        *(
            source(
                name,
                columns,
                name[:-1] + "_id",
                joins=[many("shops", "shop_id = shops.shop_id"), many("days", "day_id = days.day_id")],
                m=[f"{name[:-1]}_count = count(*)"],
            )
            for name, columns in (
                ("visits", "visit_id number, shop_id number, day_id number"),
                ("deals", "deal_id number, shop_id number, day_id number, kind string"),
            )
        ),
    ],
)
"""Visits and deals with two parents in common."""

CASES = [
    Case(
        "fan-out-of-another-fact",
        SHOP,
        BY_STATUS | {"dimensions": ["orders.status"]},
        error="fan_out",
        why="a ticket is of a customer, not of one of the customer's orders",
    ),
    Case(
        "fan-out-with-via",
        SHOP,
        BY_STATUS | {"dimensions": ["orders.status"], "via": {"orders": "customers"}},
        OF_OTHERS,
        WHY,
    ),
    Case(
        "fan-out-with-via-in-the-dimension",
        SHOP,
        BY_STATUS | {"dimensions": [{"field": "orders.status", "via": "customers"}]},
        OF_OTHERS,
        WHY,
    ),
    Case(
        "fan-out-by-the-joins-in-the-name",
        SHOP,
        BY_STATUS | {"dimensions": ["customers.orders.status"]},
        OF_OTHERS,
        WHY,
    ),
    Case(
        "fan-out-over-two-joins-down",
        SHOP,
        {"measures": ["tickets.ticket_count"], "dimensions": ["products.category"]},
        error="fan_out",
        why="tickets -> customers -> orders -> items -> products",
    ),
    Case(
        "fan-out-of-a-time",
        SHOP,
        {"measures": ["tickets.effort"], "dimensions": [{"field": "orders.ordered_at", "granularity": "month"}]},
        error="fan_out",
        why="a ticket was opened at a time of its own",
    ),
    Case(
        "fan-out-beside-the-fact-it-is-of",
        SHOP,
        {"measures": ["orders.revenue", "tickets.ticket_count"], "dimensions": ["orders.status"]},
        error="fan_out",
        why="orders have the status, tickets do not",
    ),
    Case(
        "fan-out-in-a-formula",
        SHOP,
        {
            "measures": [{"expr": "tickets.ticket_count / orders.order_count", "name": "rate"}],
            "dimensions": ["orders.status"],
        },
        error="fan_out",
        why="its upper half has no status",
    ),
    Case(
        "fan-out-in-a-condition-on-the-result",
        SHOP,
        {"measures": ["orders.revenue"], "dimensions": ["orders.status"], "having": ["tickets.ticket_count > 0"]},
        error="fan_out",
        why="the tickets of a status are asked for",
    ),
    Case(
        "fan-out-by-two-paths",
        BRANCHED,
        {"measures": ["visits.visit_count"], "dimensions": ["deals.kind"]},
        error="fan_out",
        why="a visit has nothing to do with the deals of its shop or its day: neither path is one to choose",
        settled=True,
    ),
    Case(
        "fan-out-by-one-of-two-paths",
        BRANCHED,
        {"measures": ["visits.visit_count"], "dimensions": ["deals.kind"], "via": {"deals": "shops"}},
        [("big", 2), ("small", 1), (None, 1)],
        "both visits of shop 1 see its big deal, that of shop 2 its small one; shop 3 has none",
    ),
    Case(
        "fan-out-of-an-expression",
        SHOP,
        {"measures": ["tickets.ticket_count"], "dimensions": [{"field": "upper(orders.status)", "name": "status"}]},
        error="fan_out",
        why="the same dimension in capitals",
        settled=True,
    ),
    Case(
        "fan-out-is-not-a-shared-dimension",
        SHOP,
        {"measures": ["orders.revenue", "tickets.ticket_count"], "dimensions": ["customers.tier"]},
        [("gold", 175, 3), ("silver", 200, 0), (None, 575, 2)],
        "each fact by itself goes up only",
    ),
    Case(
        "fan-out-is-not-a-filter",
        SHOP,
        {"measures": ["tickets.ticket_count", "tickets.effort"], "filters": ["orders.status = 'paid'"]},
        [(2, 40)],
        "tickets of customers with a paid order, each once",
    ),
    Case(
        "fan-out-is-not-a-bridge",
        TAGGED,
        {"measures": ["items.sales"], "dimensions": ["tags.tag"], "totals": True},
        [("blue", 610), ("new", 810), ("rare", None), (None, 75)],
        "a pen is blue and new, a mug is new, a cup and no product are nothing",
        totals=[885],
    ),
    Case(
        "fan-out-is-not-the-key-of-a-bridge",
        TAGGED,
        {"measures": ["items.sales"], "dimensions": ["product_tags.tag_id"], "include_empty": False},
        [(1, 610), (2, 810), (None, 75)],
        "the path ends in the bridge",
    ),
    Case(
        "fan-out-is-not-details-and-a-bridge",
        TAGGED,
        {"measures": ["orders.order_count"], "dimensions": ["tags.tag"], "include_empty": False},
        [("blue", 3), ("new", 4), (None, 4)],
        "orders 1, 2 and 6 hold a pen, 1 and 3 a mug, 3 a cup too; 4, 5 and 7 have no product",
    ),
    Case(
        "fan-out-over-what-is-counted-itself",
        COUNTED,
        {"measures": ["items.sales"], "dimensions": ["tags.tag"]},
        error="fan_out",
        why="a source with measures of its own is a fact, not a bridge",
    ),
    Case(
        "fan-out-is-not-over-one-to-one",
        TAGGED,
        {"measures": ["invoices.fees"], "dimensions": ["products.name"], "include_empty": False},
        [("Pen", 5), ("Mug", 12), ("Cup", 7), (None, 11)],
        "an order has one invoice, so its items are the invoice's; order 8 is missing",
    ),
    Case(
        "fan-out-over-many-to-one-of-the-same",
        COUNTED,
        {"measures": ["invoices.fees"], "dimensions": ["products.name"]},
        error="fan_out",
        why="several invoices may share an order",
    ),
]
