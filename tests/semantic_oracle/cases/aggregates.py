"""Kinds of aggregates, forms of count, exact numbers, booleans, computed columns (defects B10, B11)."""

from datetime import date
from decimal import Decimal as D

from tests.semantic_oracle.cases.base import Case, World, source, table

ROWS = World(
    "kinds",
    {
        "marks": table(
            "mark_id INTEGER, class VARCHAR, points INTEGER, weight DOUBLE, fee DECIMAL(18,2), passed BOOLEAN,"
            " pupil INTEGER, subject VARCHAR, day DATE",
            (1, "a", 1, 0.5, D("0.10"), True, 1, "x", date(2024, 1, 1)),
            (2, "a", 2, 1.5, D("0.20"), False, 1, "y", date(2024, 1, 2)),
            (3, "a", 4, 2.5, D("0.30"), True, 2, "x", date(2024, 1, 3)),
            (4, "a", 8, None, None, None, 2, "x", None),
            (5, "b", 10, 4.0, D("99.99"), False, 3, "x", date(2024, 2, 1)),
            (6, "b", None, 6.0, D("0.01"), True, 3, "x", date(2024, 2, 1)),
        )
    },
    [
        source(
            "marks",
            "mark_id number, class string, points number, weight number, fee number, passed boolean, pupil number,"
            " subject string, day time",
            "mark_id",
            more=[
                {"name": "half", "type": "number", "expr": "points / 2.0"},
                {"name": "quarter", "type": "number", "expr": "half / 2.0"},
                {"name": "loud", "type": "string", "expr": "upper(class)"},
                {"name": "size", "type": "string", "expr": "CASE WHEN points >= 4 THEN 'big' ELSE 'small' END"},
                {"name": "gap", "type": "number", "expr": "10 - points"},
            ],
            m=[
                "mid = median(points)",
                "p75 = percentile(points, 0.75)",
                "mid_x = median(points) WHERE subject = 'x'",
                "p25_x = percentile(points, 0.25) WHERE subject = 'x' AND points > 1",
                "spread = stddev(points)",
                "pupils = count(distinct pupil)",
                "pairs = count(distinct pupil, subject)",
                "pairs_a = count(distinct pupil, subject) WHERE class = 'a'",
                "fees = sum(fee)",
                "mean_points = avg(points)",
                "mean_fee = avg(fee)",
                "pass_count = sum(CASE WHEN passed THEN 1 ELSE 0 END)",
                "first_day = min(day)",
                "last_day = max(day)",
                "rows_x = count(*) WHERE subject = 'x'",
                "everything = count(*)",
                "ones = count(1)",
                "half_total = sum(half)",
                "twice_gap = sum(gap * 2)",
                "distinct_sum = sum(distinct pupil)",
                "weighted = sum(points * weight) / sum(weight)",
            ],
        )
    ],
)
ORDERED_SET = {"sqlite": "SQLite has no percentiles"}
SPREAD = {"sqlite": "SQLite has no standard deviation"}
PAIRS = {"sqlite": "SQLite counts one distinct expression"}
BY_CLASS = {"dimensions": ["marks.class"]}


def _ask(*measures: str, **rest: object) -> dict[str, object]:
    return {"measures": [f"marks.{each}" for each in measures]} | rest


CASES = [
    Case("median", ROWS, _ask("mid", **BY_CLASS), [("a", 3), ("b", 10)], "between 2 and 4", refused_on=ORDERED_SET),
    Case("percentile", ROWS, _ask("p75"), [(8,)], "1, 2, 4, 8, 10: the fourth", refused_on=ORDERED_SET),
    Case(
        "percentile-between",
        ROWS,
        _ask("p75", **BY_CLASS),
        [("a", 5), ("b", 10)],
        "1, 2, 4, 8: three quarters of the way from 2 to ... 4 + (8 - 4) / 4",
        refused_on=ORDERED_SET,
    ),
    Case(
        "median-filtered",
        ROWS,
        _ask("mid_x", **BY_CLASS),
        [("a", 4), ("b", 10)],
        "1, 4, 8: the filter is on the values, not on the share",
        refused_on=ORDERED_SET,
    ),
    Case("percentile-filtered", ROWS, _ask("p25_x"), [(6,)], "4, 8, 10: half way from 4 to 8", refused_on=ORDERED_SET),
    Case(
        "percentile-ad-hoc",
        ROWS,
        {"measures": [{"expr": "percentile(marks.points, 0.5)", "name": "p50"}], "filters": ["marks.class = 'a'"]},
        [(3,)],
        "the median",
        refused_on=ORDERED_SET,
    ),
    Case(
        "stddev",
        ROWS,
        _ask("spread", **BY_CLASS),
        [("a", (115 / 12) ** 0.5), ("b", None)],
        "sample; one value has none",
        refused_on=SPREAD,
    ),
    Case("count-distinct", ROWS, _ask("pupils", **BY_CLASS), [("a", 2), ("b", 1)], "pupils"),
    Case("count-distinct-pairs", ROWS, _ask("pairs"), [(4,)], "1x, 1y, 2x, 3x", refused_on=PAIRS),
    Case(
        "count-distinct-pairs-filtered",
        ROWS,
        _ask("pairs_a", **BY_CLASS),
        [("a", 3), ("b", 0)],
        "1x, 1y, 2x",
        refused_on=PAIRS,
    ),
    Case("count-forms", ROWS, _ask("everything", "ones", "rows_x"), [(6, 6, 5)], "rows; rows of subject x"),
    Case(
        "count-forms-ad-hoc",
        ROWS,
        {"measures": ["count(marks.points)", "count(distinct marks.class)"]},
        [(5, 2)],
        "not NULL; the columns are called by the expressions",
    ),
    Case(
        "count-distinct-function",
        ROWS,
        {"measures": [{"expr": "count_distinct(marks.pupil)", "name": "n"}]},
        [(3,)],
        "ktx's own spelling",
    ),
    Case("decimals", ROWS, _ask("fees", **BY_CLASS), [("a", D("0.60")), ("b", D("100.00"))], "no binary fractions"),
    Case(
        "average-of-integers",
        ROWS,
        _ask("mean_points", **BY_CLASS),
        [("a", 3.75), ("b", 10)],
        "15 / 4; NULL does not count",
    ),
    Case("average-of-decimals", ROWS, _ask("mean_fee", **BY_CLASS), [("a", 0.2), ("b", 50)], "0.6 / 3"),
    Case("boolean-sum", ROWS, _ask("pass_count", **BY_CLASS), [("a", 2), ("b", 1)], "NULL is not passed"),
    Case(
        "boolean-dimension",
        ROWS,
        _ask("everything", dimensions=["marks.passed"]),
        [(True, 3), (False, 2), (None, 1)],
        "three groups",
    ),
    Case("boolean-compared", ROWS, _ask("everything", filters=["marks.passed = TRUE"]), [(3,)], "written out"),
    Case(
        "dates-min-max",
        ROWS,
        _ask("first_day", "last_day", **BY_CLASS),
        [("a", date(2024, 1, 1), date(2024, 1, 3)), ("b", date(2024, 2, 1), date(2024, 2, 1))],
        "dates stay dates",
    ),
    Case("computed-in-a-measure", ROWS, _ask("half_total"), [(12.5,)], "25 / 2"),
    Case("computed-keeps-its-brackets", ROWS, _ask("twice_gap"), [(50,)], "(10 - p) * 2 over 1, 2, 4, 8, 10"),
    Case(
        "computed-of-computed", ROWS, {"measures": [{"expr": "sum(marks.quarter)", "name": "q"}]}, [(6.25,)], "25 / 4"
    ),
    Case(
        "computed-dimension",
        ROWS,
        _ask("everything", dimensions=["marks.loud", "marks.size"]),
        [("A", "small", 2), ("A", "big", 2), ("B", "big", 1), ("B", "small", 1)],
        "NULL points are small by the ELSE",
    ),
    Case(
        "computed-filter",
        ROWS,
        _ask("everything", filters=["marks.size = 'big'", "marks.gap > 0"]),
        [(2,)],
        "4 and 8; 10 leaves no gap",
    ),
    Case("distinct-sum", ROWS, _ask("distinct_sum"), [(6,)], "1 + 2 + 3"),
    Case("weighted-mean", ROWS, _ask("weighted"), [((0.5 + 3 + 10 + 40) / 14.5,)], "one measure of two aggregates"),
    Case(
        "aggregate-of-a-case",
        ROWS,
        {
            "measures": [
                {"expr": "sum(CASE WHEN marks.subject = 'x' THEN marks.points ELSE 0 END)", "name": "x"},
                {"expr": "sum(COALESCE(marks.points, 100))", "name": "filled"},
            ]
        },
        [(23, 125)],
        "1 + 4 + 8 + 10; 25 + 100; the NULL of subject x adds nothing",
    ),
    Case(
        "nested-aggregate",
        ROWS,
        {"measures": ["sum(count(marks.points))"]},
        error="query|definition",
        why="an aggregate within an aggregate",
    ),
    Case(
        "no-aggregate", ROWS, {"measures": ["marks.points"]}, error="unknown_name|query", why="a column is no measure"
    ),
]
