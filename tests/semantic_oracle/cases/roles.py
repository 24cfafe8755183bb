"""Role-playing joins, self joins, what lies behind an alias (defect B14)."""

from tests.semantic_oracle.cases.base import Case, World, many, source, table


def _people(on: str) -> dict[str, object]:
    return source(
        "people",
        "person_id number, name string, boss_id number, city_id number",
        "person_id",
        more=[{"name": "label", "type": "string", "expr": "upper(name)"}],
        joins=[many("cities", "city_id = cities.city_id"), many("people", on, "boss")],
        m=["headcount = count(*)", "bosses = count(distinct boss_id)"],
    )


PEOPLE = _people("boss_id = boss.person_id")
CITIES = source("cities", "city_id number, name string, country string", "city_id")
SENDER = many("people", "sender_id = people.person_id", "sender")
RECEIVER = many("people", "receiver_id = people.person_id", "receiver")
HANDLER = many("people", "handler_id = people.person_id")


def _post(*joins: dict[str, object]) -> dict[str, object]:
    return source(
        "post",
        "post_id number, sender_id number, receiver_id number, handler_id number, weight number",
        "post_id",
        joins=list(joins),
        m=["load = sum(weight)", "pieces = count(*)", "from_rome = sum(weight) WHERE sender.city_id = 1"],
    )


ROLES = World(
    "roles",
    {
        "cities": table("city_id INTEGER, name VARCHAR, country VARCHAR", (1, "Rome", "IT"), (2, "Oslo", "NO")),
        "people": table(
            "person_id INTEGER, name VARCHAR, boss_id INTEGER, city_id INTEGER",
            (1, "ann", None, 1),
            (2, "bob", 1, 2),
            (3, "cid", 1, None),
            (4, "dee", 2, 1),
        ),
        "post": table(
            "post_id INTEGER, sender_id INTEGER, receiver_id INTEGER, handler_id INTEGER, weight INTEGER",
            (1, 1, 2, 3, 10),
            (2, 1, 3, 3, 20),
            (3, 2, 1, None, 30),
            (4, None, 4, 2, 40),
            (5, 9, 2, 1, 50),
        ),
    },
    [CITIES, PEOPLE, _post(SENDER, RECEIVER, HANDLER)],
)
UNNAMED = ROLES.having(_post(SENDER, RECEIVER), name="roles_only")
BY_SOURCE = ROLES.having(_people("boss_id = people.person_id"), name="roles_by_source")
ONE_ROLE = ROLES.having(_post(SENDER) | {"measures": [{"name": "load", "expr": "sum(weight)"}]}, name="one_role")


def _load(*dimensions: object, **rest: object) -> dict[str, object]:
    return {"measures": ["post.load"], "dimensions": list(dimensions), "include_empty": False} | rest


CASES = [
    Case("role-sender", ROLES, _load("sender.name"), [("ann", 30), ("bob", 30), (None, 90)], "4 has none, 5 a missing"),
    Case(
        "role-receiver",
        ROLES,
        _load("receiver.name"),
        [("ann", 30), ("bob", 60), ("cid", 20), ("dee", 40)],
        "the other role",
    ),
    Case(
        "role-plain-join-beside-roles",
        ROLES,
        _load("people.name"),
        [("ann", 50), ("bob", 40), ("cid", 30), (None, 30)],
        "the source's own name means the join without alias: the handler",
    ),
    Case(
        "role-two-at-once",
        ROLES,
        _load("sender.name", "receiver.name"),
        [("ann", "bob", 10), ("ann", "cid", 20), ("bob", "ann", 30), (None, "dee", 40), (None, "bob", 50)],
        "the shared leaf takes its alias into the column's name",
    ),
    Case(
        "role-source-name-is-ambiguous",
        UNNAMED,
        _load("people.name"),
        error="ambiguous_path",
        why="reachable by two aliases only",
    ),
    Case(
        "role-only-alias-by-source-name",
        ONE_ROLE,
        _load("people.name"),
        [("ann", 30), ("bob", 30), (None, 90)],
        "one alias is the only way",
    ),
    Case(
        "role-onward-join",
        ROLES,
        _load({"field": "sender.cities.name", "name": "city"}),
        [("Rome", 30), ("Oslo", 30), (None, 90)],
        "the alias goes on to the base source's joins",
    ),
    Case(
        "role-computed-column",
        ROLES,
        _load("sender.label"),
        [("ANN", 30), ("BOB", 30), (None, 90)],
        "a computed column behind an alias",
    ),
    Case(
        "role-computed-column-filter",
        ROLES,
        _load("receiver.label", filters=["sender.label = 'ANN'"]),
        [("BOB", 10), ("CID", 20)],
        "computed columns of two aliases",
    ),
    Case(
        "role-filter",
        ROLES,
        _load("receiver.name", filters=["sender.name = 'ann'"]),
        [("bob", 10), ("cid", 20)],
        "each alias is its own row",
    ),
    Case("role-in-a-measure", ROLES, {"measures": ["post.from_rome"]}, [(30,)], "ann sent 10 and 20 from Rome"),
    Case(
        "role-same-and-different",
        ROLES,
        {"measures": ["post.pieces"], "filters": ["sender.city_id = receiver.city_id"]},
        [(0,)],
        "Rome to Oslo, Rome to nowhere, Oslo to Rome; NULL is equal to nothing",
    ),
    Case(
        "role-empty-members",
        ROLES,
        {"measures": ["post.load"], "dimensions": ["sender.name"]},
        [("ann", 30), ("bob", 30), ("cid", None), ("dee", None), (None, 90)],
        "all people are shown, though cid and dee sent nothing",
    ),
    Case(
        "role-empty-members-behind",
        ROLES,
        {"measures": ["post.load"], "dimensions": ["people.name", "boss.name"]},
        [("ann", None, 50), ("bob", "ann", 40), ("cid", "ann", 30), ("dee", "bob", None), (None, None, 30)],
        "both lie in people, whose rows are the members",
    ),
    Case(
        "role-empty-members-filtered",
        ROLES,
        {"measures": ["post.load"], "dimensions": ["sender.name"], "filters": ["sender.name <> 'cid'"]},
        [("ann", 30), ("bob", 30), ("dee", None)],
        "the filter lies in the dimension's source: it restricts the members too",
    ),
    Case(
        "self-join-boss",
        ROLES,
        {"measures": ["people.headcount"], "dimensions": ["boss.name"], "include_empty": False},
        [(None, 1), ("ann", 2), ("bob", 1)],
        "ann has no boss",
    ),
    Case(
        "self-join-on-the-source-name",
        BY_SOURCE,
        {"measures": ["people.headcount"], "dimensions": ["boss.name"], "include_empty": False},
        [(None, 1), ("ann", 2), ("bob", 1)],
        "a bare name is this row's, one with the joined source's name the other's",
    ),
    Case(
        "self-join-twice",
        ROLES,
        {
            "measures": ["people.headcount"],
            "dimensions": [{"field": "boss.boss.name", "name": "grand_boss"}],
            "include_empty": False,
        },
        [("ann", 1), (None, 3)],
        "dee's boss is bob, whose boss is ann",
    ),
    Case(
        "self-join-own-and-boss",
        ROLES,
        {"measures": ["people.headcount"], "dimensions": ["people.name", "boss.name"], "include_empty": False},
        [("ann", None, 1), ("bob", "ann", 1), ("cid", "ann", 1), ("dee", "bob", 1)],
        "a row and the row it points to",
    ),
    Case(
        "self-join-behind-a-role",
        ROLES,
        _load({"field": "sender.boss.name", "name": "boss"}),
        [("ann", 30), (None, 120)],
        "bob's boss is ann; ann has none; 4 and 5 have no sender",
    ),
    Case(
        "self-join-boss-city",
        ROLES,
        {
            "measures": ["people.headcount"],
            "dimensions": [{"field": "boss.cities.name", "name": "city"}],
            "include_empty": False,
        },
        [("Rome", 2), ("Oslo", 1), (None, 1)],
        "two joins behind a self join",
    ),
    Case(
        "role-two-facts",
        ROLES,
        {"measures": ["post.load", "people.headcount"], "dimensions": ["people.name"]},
        [("ann", 50, 1), ("bob", 40, 1), ("cid", 30, 1), ("dee", None, 1), (None, 30, 0)],
        "people themselves, and the handler of the post",
    ),
    Case(
        "role-backwards",
        ROLES,
        {"measures": ["people.headcount"], "filters": ["post.weight > 25"]},
        [(2,)],
        "post bob and ann handled, by the join without alias; or whose role was meant?",
        may_refuse="ambiguous_path",
    ),
    Case("role-unknown-alias", ROLES, _load("payer.name"), error="unknown_name", why="no such alias"),
]
