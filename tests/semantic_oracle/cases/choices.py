"""Equal paths: refused, chosen by `via` or by naming the hops (defect B8)."""

from tests.semantic_oracle.cases.base import Case, World, many, source, table
from tests.semantic_oracle.cases.paths import BUYING, BY_NATION, SELLING, TRADE

CHAIN = World(
    "chain",
    {
        "hubs": table("hub_id INTEGER", (1,)),
        "zones": table("zone_id INTEGER, hub_id INTEGER", (1, 1)),
        "orders": table("order_id INTEGER, zone_id INTEGER, amount INTEGER", (1, 1, 5), (2, 1, 7)),
        "boxes": table("box_id INTEGER, order_id INTEGER", (1, 1), (2, 2)),
        "labels": table(
            "label_id INTEGER, box_id INTEGER, hub_id INTEGER, kind VARCHAR", (1, 1, 1, "y"), (2, 2, None, "z")
        ),
    },
    [
        source("hubs", "hub_id number", "hub_id"),
        source("zones", "zone_id number, hub_id number", "zone_id", joins=[many("hubs", "hub_id = hubs.hub_id")]),
        source(
            "orders",
            "order_id number, zone_id number, amount number",
            "order_id",
            joins=[many("zones", "zone_id = zones.zone_id")],
            m=["total = sum(amount)"],
        ),
        source(
            "boxes", "box_id number, order_id number", "box_id", joins=[many("orders", "order_id = orders.order_id")]
        ),
        source(
            "labels",
            "label_id number, box_id number, hub_id number, kind string",
            "label_id",
            joins=[many("boxes", "box_id = boxes.box_id"), many("hubs", "hub_id = hubs.hub_id")],
        ),
    ],
)

CASES = [
    Case("convergent-dimension", TRADE, BY_NATION, error="ambiguous_path", why="two paths of two joins"),
    Case(
        "convergent-filter",
        TRADE,
        {"measures": ["deals.volume"], "filters": ["nations.name = 'US'"]},
        error="ambiguous_path",
        why="the seller's or the buyer's nation",
    ),
    Case(
        "convergent-first-choice",
        TRADE,
        BY_NATION | {"via": {"nations": "sellers.nations"}},
        [("FR", 40), ("US", 20), (None, 40)],
        "sellers' nations; deal 4 has no seller",
    ),
    Case(
        "convergent-second-choice",
        TRADE,
        BY_NATION | {"via": {"nations": "buyers.nations"}},
        [("FR", 30), ("US", 70)],
        "buyers' nations",
    ),
    Case(
        "convergent-path-reference",
        TRADE,
        {"measures": ["deals.volume"], "dimensions": [SELLING], "include_empty": False},
        [("FR", 40), ("US", 20), (None, 40)],
        "hops name the path",
    ),
    Case(
        "convergent-both",
        TRADE,
        {"measures": ["deals.volume"], "dimensions": [SELLING, BUYING], "include_empty": False},
        [("FR", "US", 10), ("US", "US", 20), ("FR", "FR", 30), (None, "US", 40)],
        "the same source twice, on two paths",
    ),
    Case(
        "convergent-filter-does-not-flip",
        TRADE,
        {
            "measures": ["deals.volume"],
            "dimensions": [SELLING],
            "filters": ["buyers.segment = 'x'"],
            "include_empty": False,
        },
        [("FR", 40), (None, 40)],
        "a filter on buyers leaves the dimension the seller's nation",
    ),
    Case(
        "convergent-filter-by-path",
        TRADE,
        {
            "measures": ["deals.volume"],
            "dimensions": [SELLING],
            "filters": ["buyers.nations.name = 'US'"],
            "include_empty": False,
        },
        [("FR", 10), ("US", 20), (None, 40)],
        "sellers' nations of what US buyers bought",
    ),
    Case(
        "convergent-filter-via",
        TRADE,
        {"measures": ["deals.volume"], "filters": [{"expr": "nations.name = 'US'", "via": "buyers.nations"}]},
        [(70,)],
        "the filter's own choice: deals 1, 2, 4",
    ),
    Case(
        "convergent-one-fact-is-clear",
        TRADE,
        {"measures": ["sellers.seller_count"], "dimensions": ["nations.name"]},
        [("FR", 1), ("US", 1)],
        "from sellers there is one path",
    ),
    Case(
        "convergent-many-side",
        TRADE,
        {"measures": [{"expr": "count(nations.nation_id)", "name": "n"}], "filters": ["deals.amount > 15"]},
        error="ambiguous_path",
        why="nations of sellers or of buyers of such deals: two joins each",
    ),
    Case(
        "convergent-many-side-mixed",
        TRADE,
        {"measures": ["sellers.seller_count"], "filters": ["buyers.segment = 'y'"]},
        error="ambiguous_path",
        why="buyers it sold to, or buyers of its own nation: two joins each",
    ),
    Case(
        "convergent-many-side-via",
        TRADE,
        {"measures": ["sellers.seller_count"], "filters": [{"expr": "buyers.segment = 'y'", "via": "deals.buyers"}]},
        [(1,)],
        "seller 2 sold to buyer 2",
    ),
    Case(
        "shortest-over-many",
        CHAIN,
        {"measures": ["orders.total"], "dimensions": ["labels.kind"]},
        [("y", 5), ("z", 7)],
        "labels on the order's own boxes (two joins), not those of its zone's hub (three)",
    ),
    Case(
        "shortest-over-many-filter",
        CHAIN,
        {"measures": ["orders.total"], "filters": ["labels.kind = 'y'"]},
        [(5,)],
        "the order whose box has the label; every order is of the label's hub",
    ),
]
