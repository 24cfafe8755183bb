"""Joins over several columns, reversed sides, constants, one-to-one chains (defects B9, B13)."""

from tests.semantic_oracle.cases.base import Case, World, many, source, table

SCHOOL = World(
    "school",
    {
        "courses": table(
            "dept VARCHAR, num INTEGER, title VARCHAR, points INTEGER",
            ("M", 1, "Calc", 5),
            ("M", 2, "Alg", 6),
            ("P", 1, "Mech", 7),
            ("P", 3, "Opt", 8),
        ),
        "sections": table(
            "section_id INTEGER, dept VARCHAR, num INTEGER, seats INTEGER",
            (1, "M", 1, 10),
            (2, "M", 2, 20),
            (3, "P", 1, 30),
            (4, "M", None, 40),
            (5, None, 1, 50),
            (6, "P", 2, 60),
            (7, "M", 1, 70),
        ),
        "posts": table("post_id INTEGER, title VARCHAR", (1, "Hello"), (2, "Bye")),
        "photos": table("photo_id INTEGER, caption VARCHAR", (1, "Sun"), (2, "Sea")),
        "comments": table(
            "comment_id INTEGER, on_type VARCHAR, on_id INTEGER, likes INTEGER",
            (1, "post", 1, 1),
            (2, "photo", 1, 2),
            (3, "post", 2, 4),
            (4, "photo", 2, 8),
            (5, "post", 9, 16),
            (6, None, 1, 32),
        ),
    },
    [
        source(
            "courses",
            "dept string, num number, title string, points number",
            ["dept", "num"],
            m=["course_count = count(*)", "points_total = sum(points)"],
        ),
        source(
            "sections",
            "section_id number, dept string, num number, seats number",
            "section_id",
            joins=[many("courses", "courses.dept = sections.dept AND num = courses.num")],
            m=["seat_total = sum(seats)", "section_count = count(*)"],
        ),
        source("posts", "post_id number, title string", "post_id", m=["post_count = count(*)"]),
        source("photos", "photo_id number, caption string", "photo_id", m=["photo_count = count(*)"]),
        source(
            "comments",
            "comment_id number, on_type string, on_id number, likes number",
            "comment_id",
            joins=[
                many("posts", "on_id = posts.post_id AND on_type = 'post'"),
                many("photos", "'photo' = on_type AND photos.photo_id = on_id"),
            ],
            m=["like_total = sum(likes)", "comment_count = count(*)"],
        ),
    ],
)

ONES = World(
    "ones",
    {
        "users": table("user_id INTEGER, name VARCHAR, balance INTEGER", (1, "u", 100), (2, "v", 200), (3, "w", 400)),
        "risks": table("user_id INTEGER, score INTEGER, band VARCHAR", (1, 1, "low"), (2, 3, "high"), (7, 5, "high")),
        "ratings": table("user_id INTEGER, grade INTEGER, agency_id INTEGER", (1, 10, 1), (3, 30, 2)),
        "agencies": table("agency_id INTEGER, agency VARCHAR", (1, "X"), (2, "Y")),
    },
    [
        source("users", "user_id number, name string, balance number", "user_id", m=["wealth = sum(balance)"]),
        source(
            "risks",
            "user_id number, score number, band string",
            "user_id",
            joins=[many("users", "user_id = users.user_id", relationship="one_to_one")],
            m=["mean_risk = avg(score)", "risk_count = count(*)"],
        ),
        source(
            "ratings",
            "user_id number, grade number, agency_id number",
            "user_id",
            joins=[
                many("users", "user_id = users.user_id", relationship="one_to_one"),
                many("agencies", "agency_id = agencies.agency_id"),
            ],
            m=["grade_total = sum(grade)"],
        ),
        source("agencies", "agency_id number, agency string", "agency_id", m=["agency_count = count(*)"]),
    ],
)
DOUBLED = World(
    "doubled",
    {
        "brands": table("brand_id INTEGER, brand VARCHAR", (1, "P"), (1, "Q"), (2, "R")),
        "cars": table("car_id INTEGER, brand_id INTEGER, price INTEGER", (1, 1, 10), (2, 2, 20)),
    },
    [
        source("brands", "brand_id number, brand string", "brand_id"),
        source(
            "cars",
            "car_id number, brand_id number, price number",
            "car_id",
            joins=[many("brands", "brand_id = brands.brand_id")],
            m=["value = sum(price)"],
        ),
    ],
)

CASES = [
    Case(
        "composite-many-to-one",
        SCHOOL,
        {"measures": ["sections.seat_total"], "dimensions": ["courses.title"], "include_empty": False},
        [("Calc", 80), ("Alg", 20), ("Mech", 30), (None, 150)],
        "a key with a NULL part or without partner (P 2) joins nothing",
    ),
    Case(
        "composite-empty-member",
        SCHOOL,
        {"measures": ["sections.section_count"], "dimensions": ["courses.title"]},
        [("Calc", 2), ("Alg", 1), ("Mech", 1), ("Opt", 0), (None, 3)],
        "Opt has no section",
    ),
    Case(
        "composite-two-facts",
        SCHOOL,
        {"measures": ["sections.seat_total", "courses.points_total"], "dimensions": ["courses.dept"]},
        [("M", 100, 11), ("P", 30, 15), (None, 150, None)],
        "the course's department, not the section's own",
    ),
    Case(
        "composite-one-side-by-many-side",
        SCHOOL,
        {"measures": ["courses.points_total"], "dimensions": ["sections.seats"], "filters": ["sections.seats < 50"]},
        [(10, 5), (20, 6), (30, 7), (40, None)],
        "a course counts once for each number of seats; a section without course stays as a member",
    ),
    Case(
        "composite-anti-join",
        SCHOOL,
        {"measures": ["courses.course_count"], "filters": ["sections.section_id IS NULL"]},
        [(1,)],
        "Opt alone has no section",
    ),
    Case(
        "constant-post",
        SCHOOL,
        {"measures": ["comments.like_total"], "dimensions": ["posts.title"], "include_empty": False},
        [("Hello", 1), ("Bye", 4), (None, 58)],
        "comments on photos join no post: 2 + 8 + 16 + 32",
    ),
    Case(
        "constant-photo",
        SCHOOL,
        {"measures": ["comments.like_total"], "dimensions": ["photos.caption"], "include_empty": False},
        [("Sun", 2), ("Sea", 8), (None, 53)],
        "the constant stands first, the sides are swapped",
    ),
    Case(
        "constant-both",
        SCHOOL,
        {
            "measures": ["comments.comment_count"],
            "dimensions": ["posts.title", "photos.caption"],
            "include_empty": False,
        },
        [("Hello", None, 1), ("Bye", None, 1), (None, "Sun", 1), (None, "Sea", 1), (None, None, 2)],
        "a comment is on one or the other",
    ),
    Case(
        "constant-backwards",
        SCHOOL,
        {"measures": ["posts.post_count"], "filters": ["comments.likes > 1"]},
        [(1,)],
        "Bye has the comment with 4 likes; likes on photos are no post's",
    ),
    Case(
        "one-to-one-two-facts",
        ONES,
        {"measures": ["risks.mean_risk", "users.wealth"]},
        [(3, 700)],
        "every fact over its own rows, a user without risk included",
    ),
    Case(
        "one-to-one-other-order",
        ONES,
        {"measures": ["users.wealth", "risks.mean_risk"]},
        [(700, 3)],
        "the same numbers in the other order",
    ),
    Case(
        "one-to-one-by-its-column",
        ONES,
        {"measures": ["users.wealth"], "dimensions": ["risks.band"], "include_empty": False},
        [("low", 100), ("high", 200), (None, 400)],
        "over a one-to-one join nothing multiplies",
    ),
    Case(
        "one-to-one-chain",
        ONES,
        {"measures": ["risks.risk_count"], "dimensions": ["agencies.agency"], "include_empty": False},
        [("X", 1), (None, 2)],
        "risk to user to rating to agency; user 2 is not rated, user 7 does not exist",
    ),
    Case(
        "one-to-one-three",
        ONES,
        {"measures": ["users.wealth", "risks.mean_risk", "ratings.grade_total"], "dimensions": ["users.name"]},
        [("u", 100, 1, 10), ("v", 200, 3, None), ("w", 400, None, 30), (None, None, 5, None)],
        "three facts of one user each",
    ),
    Case(
        "doubled-key",
        DOUBLED,
        {"measures": ["cars.value"], "dimensions": ["brands.brand"]},
        error="cardinality",
        why="brand 1 is there twice: car 1 would count twice",
    ),
    Case("doubled-key-unused", DOUBLED, {"measures": ["cars.value"]}, [(30,)], "the join is not used"),
]
