"""Policies, parameters, visibility (defect B21)."""

from tests.semantic_oracle.cases.base import Case, World, many, measure, source, table

TABLES = {
    "teams": table("team_id INTEGER, team VARCHAR, area VARCHAR", (1, "red", "east"), (2, "blue", "west")),
    "staff": table(
        "staff_id INTEGER, team_id INTEGER, salary INTEGER, grade VARCHAR, badge VARCHAR",
        (1, 1, 100, "x", "p"),
        (2, 1, 200, "y", "q"),
        (3, 2, 400, "x", "r"),
        (4, None, 800, "y", "s"),
    ),
    "visits": table("visit_id INTEGER, staff_id INTEGER, minutes INTEGER", (1, 1, 1), (2, 3, 2), (3, 4, 4), (4, 2, 8)),
}
TEAMS = source("teams", "team_id number, team string, area string", "team_id", m=["team_count = count(*)"])
VISITS = source(
    "visits",
    "visit_id number, staff_id number, minutes number",
    "visit_id",
    joins=[many("staff", "staff_id = staff.staff_id")],
    m=["time_spent = sum(minutes)", "visit_count = count(*)"],
)
LIMITS = [
    {"name": "floor", "type": "number", "default": 150},
    {"name": "grade", "type": "string", "values": ["x", "y"], "default": "x"},
]


def _staff(**parts: object) -> dict[str, object]:
    return source(
        "staff",
        "staff_id number, team_id number",
        "staff_id",
        more=[
            {"name": "salary", "type": "number", "visibility": "internal"},
            {"name": "grade", "type": "string"},
            {"name": "badge", "type": "string", "visibility": "hidden"},
            {"name": "is_p", "type": "boolean", "expr": "badge = 'p'"},
        ],
        joins=[many("teams", "team_id = teams.team_id")],
        **{
            "m": [
                "pay = sum(salary)",
                "heads = count(*)",
                "p_count = count(*) WHERE badge = 'p'",
                measure("secret = sum(salary)", visibility="hidden"),
            ]
        }
        | parts,
    )


OPEN = World("guarded", TABLES, [TEAMS, _staff(), VISITS])
BY_AREA = OPEN.having(TEAMS | {"policies": [{"name": "area", "filter": "area = {{ user.area }}"}]}, name="by_area")
BY_GRADE = OPEN.having(_staff(policies=[{"name": "grade", "filter": "grade = {{ user.grade }}"}]), name="by_grade")
SET = OPEN.having(
    _staff(
        parameters=LIMITS,
        m=[
            "high_pay = sum(salary) WHERE salary >= {{ param.floor }}",
            "of_grade = count(*) WHERE grade = {{ param.grade }}",
        ],
    ),
    name="with_parameters",
)
SHUT = OPEN.having(TEAMS | {"visibility": "hidden"}, name="shut")
EAST, WEST, X = {"area": "east"}, {"area": "west"}, {"grade": "x"}


def _pay(**rest: object) -> dict[str, object]:
    return {"measures": ["staff.pay"], "include_empty": False} | rest


CASES = [
    Case("policy-on-the-fact", BY_GRADE, _pay(), [(500,)], "staff of grade x", attributes=X),
    Case(
        "policy-on-a-dimension",
        BY_AREA,
        _pay(dimensions=["teams.team"]),
        [("red", 300), (None, 1200)],
        "blue is not to be seen: its staff is in the NULL group, staff itself has no policy",
        attributes=EAST,
    ),
    Case("policy-unused", BY_AREA, _pay(), [(1500,)], "teams are not read", attributes=WEST),
    Case("policy-unused-without-attribute", BY_AREA, _pay(), [(1500,)], "nothing asks for the attribute"),
    Case(
        "policy-on-members",
        BY_AREA,
        {"measures": ["staff.heads"], "dimensions": ["teams.team"], "filters": ["staff.grade = 'none'"]},
        [("blue", 0)],
        "empty members are those to be seen",
        attributes=WEST,
    ),
    Case(
        "policy-dimension-only",
        BY_AREA,
        {"dimensions": ["teams.team"]},
        [("blue",)],
        "only the rows allowed",
        attributes=WEST,
    ),
    Case(
        "policy-in-a-semi-join",
        BY_GRADE,
        {"measures": ["teams.team_count"], "filters": ["staff.grade = 'y'"]},
        [(0,)],
        "staff of grade y is not to be seen",
        attributes=X,
    ),
    Case(
        "policy-in-an-anti-join",
        BY_GRADE,
        {"measures": ["teams.team_count"], "filters": ["staff.staff_id IS NULL"]},
        [(2,)],
        "no team has staff of grade z: as if there were none",
        attributes={"grade": "z"},
    ),
    Case(
        "policy-two-hops",
        BY_GRADE,
        {"measures": ["visits.time_spent"], "dimensions": ["teams.team"], "include_empty": False},
        [("red", 1), ("blue", 2), (None, 12)],
        "visits of staff 2 and 4 lose their staff, and so their team",
        attributes=X,
    ),
    Case("policy-missing-attribute", BY_GRADE, _pay(), error="policy", why="no grade is given"),
    Case(
        "policy-missing-attribute-of-a-dimension",
        BY_AREA,
        _pay(dimensions=["teams.team"]),
        error="policy",
        why="no area is given",
    ),
    Case(
        "policy-attribute-is-a-value",
        BY_GRADE,
        {"measures": ["staff.heads"]},
        [(0,)],
        "an attribute is never read as SQL",
        attributes={"grade": "x' OR '1' = '1"},
    ),
    Case("parameter-default", SET, {"measures": ["staff.high_pay"]}, [(1400,)], "150 and above"),
    Case(
        "parameter-given",
        SET,
        {"measures": ["staff.high_pay"], "parameters": {"floor": 400}},
        [(1200,)],
        "400 and above",
    ),
    Case(
        "parameter-text",
        SET,
        {
            "measures": ["staff.of_grade"],
            "dimensions": ["teams.team"],
            "parameters": {"grade": "y"},
            "include_empty": False,
        },
        [("red", 1), ("blue", 0), (None, 1)],
        "staff 2 and 4",
    ),
    Case(
        "parameter-value-not-allowed",
        SET,
        {"measures": ["staff.of_grade"], "parameters": {"grade": "z"}},
        error="parameter",
        why="only x and y",
    ),
    Case(
        "parameter-unknown",
        SET,
        {"measures": ["staff.of_grade"], "parameters": {"flor": 1}},
        error="parameter|unknown_name|query",
        why="no such parameter",
    ),
    Case(
        "parameter-of-the-wrong-type",
        SET,
        {"measures": ["staff.high_pay"], "parameters": {"floor": "0 OR 1 = 1"}},
        error="parameter",
        why="a number is wanted",
    ),
    Case("hidden-dimension", OPEN, _pay(dimensions=["staff.badge"]), error="hidden", why="hidden"),
    Case(
        "hidden-dimension-bare",
        OPEN,
        _pay(dimensions=["badge"]),
        error="hidden|unknown_name",
        why="hidden by its bare name too",
    ),
    Case(
        "hidden-filter", OPEN, _pay(filters=["staff.badge = 'p'"]), error="hidden", why="a filter can find values out"
    ),
    Case(
        "hidden-filter-bare", OPEN, _pay(filters=["badge = 'p'"]), error="hidden|unknown_name", why="by its bare name"
    ),
    Case("hidden-aggregate", OPEN, {"measures": ["max(staff.badge)"]}, error="hidden", why="an aggregate of the query"),
    Case(
        "hidden-order",
        OPEN,
        _pay(dimensions=["staff.grade"], order_by=["staff.badge"]),
        error="hidden|query|unknown_name",
        why="an order can find values out",
    ),
    Case("hidden-in-a-definition", OPEN, {"measures": ["staff.p_count"]}, [(1,)], "a measure's filter may use it"),
    Case(
        "hidden-in-a-computed-column",
        OPEN,
        {"measures": ["staff.heads"], "dimensions": ["staff.is_p"]},
        [(True, 1), (False, 3)],
        "the definition decides to show it",
        may_refuse="hidden",
    ),
    Case("hidden-measure", OPEN, {"measures": ["staff.secret"]}, error="hidden|unknown_name", why="hidden"),
    Case("hidden-source-dimension", SHUT, _pay(dimensions=["teams.team"]), error="hidden|unknown_name", why="hidden"),
    Case("hidden-source-measure", SHUT, {"measures": ["teams.team_count"]}, error="hidden|unknown_name", why="hidden"),
    Case("internal-dimension", OPEN, _pay(dimensions=["staff.salary"]), error="hidden", why="internal is no dimension"),
    Case(
        "internal-aggregate-and-filter",
        OPEN,
        {"measures": [{"expr": "max(staff.salary)", "name": "top"}], "filters": ["staff.salary < 800"]},
        [(400,)],
        "internal columns may be used in aggregates and filters",
    ),
]
