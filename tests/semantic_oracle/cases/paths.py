"""Which joins are taken: diamonds, equal paths, choices (defects B7, B8)."""

from tests.semantic_oracle.cases.base import Case, World, many, source, table

DIAMOND = World(
    "diamond",
    {
        "clients": table("client_id INTEGER, name VARCHAR, balance INTEGER", (1, "A", 100), (2, "B", 7)),
        "addresses": table(
            "address_id INTEGER, client_id INTEGER, city VARCHAR", (1, 1, "Rome"), (2, 1, "Rome"), (3, 2, "Oslo")
        ),
        "parcels": table(
            "parcel_id INTEGER, client_id INTEGER, address_id INTEGER, amount INTEGER",
            (1, 1, 1, 10),
            (2, 1, 3, 20),
            (3, 2, 3, 30),
            (4, 2, None, 40),
        ),
    },
    [
        source("clients", "client_id number, name string, balance number", "client_id", m=["wealth = sum(balance)"]),
        source(
            "addresses",
            "address_id number, client_id number, city string",
            "address_id",
            joins=[many("clients", "client_id = clients.client_id")],
            m=["address_count = count(*)"],
        ),
        source(
            "parcels",
            "parcel_id number, client_id number, address_id number, amount number",
            "parcel_id",
            joins=[
                many("clients", "client_id = clients.client_id"),
                many("addresses", "address_id = addresses.address_id"),
            ],
            m=["paid = sum(amount)"],
        ),
    ],
)

TRADE = World(
    "trade",
    {
        "nations": table("nation_id INTEGER, name VARCHAR", (1, "FR"), (2, "US")),
        "sellers": table("seller_id INTEGER, nation_id INTEGER", (1, 1), (2, 2)),
        "buyers": table("buyer_id INTEGER, nation_id INTEGER, segment VARCHAR", (1, 2, "x"), (2, 2, "y"), (3, 1, "x")),
        "deals": table(
            "deal_id INTEGER, seller_id INTEGER, buyer_id INTEGER, amount INTEGER",
            (1, 1, 1, 10),
            (2, 2, 2, 20),
            (3, 1, 3, 30),
            (4, None, 1, 40),
        ),
        "islands": table("island_id INTEGER, name VARCHAR", (1, "Far")),
    },
    [
        source("nations", "nation_id number, name string", "nation_id"),
        source(
            "sellers",
            "seller_id number, nation_id number",
            "seller_id",
            joins=[many("nations", "nation_id = nations.nation_id")],
            m=["seller_count = count(*)"],
        ),
        source(
            "buyers",
            "buyer_id number, nation_id number, segment string",
            "buyer_id",
            joins=[many("nations", "nation_id = nations.nation_id")],
        ),
        source(
            "deals",
            "deal_id number, seller_id number, buyer_id number, amount number",
            "deal_id",
            joins=[many("sellers", "seller_id = sellers.seller_id"), many("buyers", "buyer_id = buyers.buyer_id")],
            m=["volume = sum(amount)", "deal_count = count(*)"],
        ),
        source("islands", "island_id number, name string", "island_id", m=["island_count = count(*)"]),
    ],
)

SELLING = {"field": "sellers.nations.name", "name": "seller_nation"}
BUYING = {"field": "buyers.nations.name", "name": "buyer_nation"}
BY_NATION = {"measures": ["deals.volume"], "dimensions": ["nations.name"], "include_empty": False}

CASES = [
    Case(
        "diamond-filter-does-not-inflate",
        DIAMOND,
        {"measures": ["clients.wealth"], "filters": ["addresses.city IN ('Rome', 'Oslo')"]},
        [(107,)],
        "A has two addresses in Rome and counts once",
    ),
    Case(
        "diamond-filter-one-city",
        DIAMOND,
        {"measures": ["clients.wealth"], "filters": ["addresses.city = 'Rome'"]},
        [(100,)],
        "only A lives in Rome",
    ),
    Case(
        "diamond-many-side-dimension",
        DIAMOND,
        {"measures": ["clients.wealth"], "dimensions": ["addresses.city"]},
        [("Rome", 100), ("Oslo", 7)],
        "distinct clients per city",
    ),
    Case(
        "diamond-shortest",
        DIAMOND,
        {"measures": ["parcels.paid"], "dimensions": ["clients.name"]},
        [("A", 30), ("B", 70)],
        "the direct join is shorter than the one over addresses",
    ),
    Case(
        "diamond-other-way",
        DIAMOND,
        {
            "measures": ["parcels.paid"],
            "dimensions": ["clients.name"],
            "via": {"clients": "addresses.clients"},
            "include_empty": False,
        },
        [("A", 10), ("B", 50), (None, 40)],
        "the client of the address: parcel 2 went to B's address, parcel 4 to none",
    ),
    Case(
        "diamond-via-in-the-dimension",
        DIAMOND,
        {
            "measures": ["parcels.paid"],
            "dimensions": ["clients.name", {"field": "clients.name", "via": "addresses.clients", "name": "lives"}],
            "include_empty": False,
        },
        [("A", "A", 10), ("A", "B", 20), ("B", "B", 30), ("B", None, 40)],
        "both ways side by side",
    ),
    Case(
        "diamond-path-reference",
        DIAMOND,
        {
            "measures": ["parcels.paid"],
            "dimensions": [{"field": "addresses.clients.name", "name": "lives"}],
            "include_empty": False,
        },
        [("A", 10), ("B", 50), (None, 40)],
        "hops name the path",
    ),
    Case(
        "diamond-filter-on-another-branch-keeps-the-path",
        DIAMOND,
        {
            "measures": ["parcels.paid"],
            "dimensions": ["clients.name"],
            "filters": ["addresses.city = 'Oslo'"],
            "include_empty": False,
        },
        [("A", 20), ("B", 30)],
        "parcels 2 and 3 went to Oslo; names are still the parcel's own clients",
    ),
    Case(
        "unreachable-dimension",
        TRADE,
        {"measures": ["deals.volume"], "dimensions": ["islands.name"]},
        error="unreachable",
        why="nothing joins islands",
    ),
    Case(
        "unreachable-second-fact",
        TRADE,
        {"measures": ["sellers.seller_count", "islands.island_count"], "dimensions": ["nations.name"]},
        error="unreachable",
        why="islands have no nation",
    ),
    Case(
        "unreachable-filter",
        TRADE,
        {"measures": ["deals.volume", "islands.island_count"], "filters": ["islands.name = 'Far'"]},
        error="unreachable_filter",
        why="the filter would be silently left out for deals (B16)",
    ),
    Case(
        "unreachable-filter-with-facts",
        TRADE,
        {
            "measures": ["deals.volume", "islands.island_count"],
            "filters": [{"expr": "islands.name = 'Near'", "facts": ["islands"]}],
        },
        [(100, 0)],
        "the query says which fact the filter is for",
    ),
    Case(
        "disconnected-facts-without-dimensions",
        TRADE,
        {"measures": ["deals.volume", "islands.island_count"]},
        [(100, 1)],
        "two totals need no join",
    ),
]
