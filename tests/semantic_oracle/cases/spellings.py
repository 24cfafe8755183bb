"""Times that SQLite has as texts of several spellings, compared with literals and with each other.

Every row's `n` is a bit of its own, so that a sum says which rows it is of.
"""

from datetime import date, datetime

from tests.semantic_oracle.cases.base import Case, World, many, measure, on_day, source, spelled, table


def _at(text: str, *moment: int) -> datetime:
    return spelled(datetime(*moment), text)


ROWS = (
    (1, 1, _at("2021-01-01", 2021, 1, 1), date(2021, 1, 1), _at("2021-01-01", 2021, 1, 1)),
    (2, 2, _at("2021-01-02T12:30:00", 2021, 1, 2, 12, 30), None, _at("2021-01-02 12:30", 2021, 1, 2, 12, 30)),
    (3, 4, _at("2021-01-03 00:00:00", 2021, 1, 3), date(2021, 1, 2), _at("2021-01-03T00:00:00.000Z", 2021, 1, 3)),
    (
        *(4, 8, _at("2021-01-03 00:00:00.500", 2021, 1, 3, 0, 0, 0, 500_000)),
        *(on_day(date(2021, 1, 3), "2021-01-03 00:00:00"), _at("2021-01-03 00:00:00", 2021, 1, 3)),
    ),
    (
        *(5, 16, _at("2021-01-04T00:30:00+02:00", 2021, 1, 3, 22, 30)),
        *(on_day(date(2021, 1, 4), "2021-01-04T00:00:00"), _at("2021-01-03 22:30:00", 2021, 1, 3, 22, 30)),
    ),
    (6, 32, _at("2021-01-06T00:00:00Z", 2021, 1, 6), date(2021, 1, 6), None),
    (7, 64, _at("2021-01-07 00:00", 2021, 1, 7), date(2021, 1, 7), _at("2021-01-06T23:00:00-02:00", 2021, 1, 7, 1)),
    (8, 128, None, None, _at("2021-01-03 00:00:00", 2021, 1, 3)),
    (
        *(9, 256, _at("2021-01-06T19:00:00.250-05:00", 2021, 1, 7, 0, 0, 0, 250_000)),
        *(date(2021, 1, 7), _at("2021-01-07T00:00:00.25", 2021, 1, 7, 0, 0, 0, 250_000)),
    ),
)
_EVENTS = source(
    "events",
    "id number, n number, at time, done time",
    "id",
    more=[
        {"name": "due", "type": "time", "natural_granularity": "day"},
        {"name": "early", "type": "boolean", "expr": "at <= '2021-01-03'"},
        {"name": "seen", "type": "time", "expr": "COALESCE(done, at)"},
    ],
    default_time_dimension="at",
    m=["bits = sum(n)", "first = sum(n) WHERE at <= '2021-01-03'", "rows = count(*)"],
    segments=[{"name": "new_year", "expr": "at BETWEEN '2021-01-01' AND '2021-01-03'"}],
)
SPELLINGS = World(
    "spellings",
    {
        "events": table("id INTEGER, n INTEGER, at TIMESTAMP, due DATE, done TIMESTAMP", *ROWS),
        "notes": table("id INTEGER, event INTEGER, m INTEGER", (1, 3, 1), (2, 4, 2), (3, 7, 4), (4, None, 8)),
    },
    [
        _EVENTS,
        source(
            "notes",
            "id number, event number, m number",
            "id",
            m=["marks = sum(m)"],
            joins=[many("events", "event = events.id")],
        ),
    ],
)
GUARDED = SPELLINGS.having(
    _EVENTS | {"policies": [{"name": "until", "filter": "at <= {{ user.until }}"}]}, name="guarded_spellings"
)
RUNNING = SPELLINGS.having(
    _EVENTS | {"measures": [measure("bits = sum(n)"), measure("so_far = sum(n)", cumulative={})]},
    name="running_spellings",
)
DAYS = World(
    "days_with_midnight",
    {
        "sales": table("day DATE, n INTEGER", *((date(2021, 1, day), 2 ** (day - 1)) for day in range(1, 7))),
        "days": table("d DATE", *((date(2021, 1, day),) for day in range(1, 7))),
    },
    [
        source(
            "sales",
            "n number",
            "day",
            more=[{"name": "day", "type": "time", "natural_granularity": "day"}],
            joins=[many("days", "day = days.d")],
            default_time_dimension="day",
            measures=[measure("so_far = sum(n)", cumulative={})],
        ),
        {
            "name": "days",
            "table": "days",
            "grain": ["d"],
            "columns": [
                {"name": "d", "type": "time", "natural_granularity": "day"},
                {"name": "part", "type": "string", "expr": "CASE WHEN d < '2021-01-04T00:00:00' THEN 'a' ELSE 'b' END"},
            ],
        },
    ],
)


def _of(*filters: str) -> dict[str, object]:
    return {"measures": ["events.bits"], "filters": list(filters)}


CASES = [
    Case("spelling-between", SPELLINGS, _of("at BETWEEN '2021-01-01' AND '2021-01-03'"), [(7,)], "midnight is in"),
    Case("spelling-not-between", SPELLINGS, _of("NOT at BETWEEN '2021-01-01' AND '2021-01-03'"), [(376,)], "the rest"),
    Case(
        "spelling-from-t", SPELLINGS, _of("at >= '2021-01-03T00:00:00'", "at < '2021-01-07'"), [(60,)], "T in literal"
    ),
    Case("spelling-equal", SPELLINGS, _of("at = '2021-01-03'"), [(4,)], "half a second later is not it"),
    Case("spelling-equal-t", SPELLINGS, _of("'2021-01-06T00:00:00' = at"), [(32,)], "a Z in the row"),
    Case("spelling-not-equal", SPELLINGS, _of("at <> '2021-01-03 00:00:00'"), [(379,)], "all others with a time"),
    Case("spelling-after", SPELLINGS, _of("at > '2021-01-03'"), [(376,)], "the fraction is after"),
    Case("spelling-until", SPELLINGS, _of("at <= '2021-01-03'"), [(7,)], "and not until"),
    Case("spelling-until-fraction", SPELLINGS, _of("at <= '2021-01-03 00:00:00.5'"), [(15,)], "zeros do not count"),
    Case("spelling-before-fraction", SPELLINGS, _of("at < '2021-01-07 00:00:00.250000'"), [(127,)], "equal to row 9"),
    Case("spelling-in", SPELLINGS, _of("at IN ('2021-01-03', '2021-01-07T00:00:00')"), [(68,)], "rows 3 and 7"),
    Case("spelling-not-in", SPELLINGS, _of("at NOT IN ('2021-01-03', '2021-01-07')"), [(315,)], "rows with a time"),
    Case("spelling-or", SPELLINGS, _of("at <= '2021-01-01' OR at >= '2021-01-07'"), [(321,)], "both ends"),
    Case("spelling-offset-row", SPELLINGS, _of("at < '2021-01-03 23:00'"), [(31,)], "00:30 in the east is 22:30 UTC"),
    Case("spelling-cast", SPELLINGS, _of("at <= CAST('2021-01-03' AS DATE)"), [(7,)], "a typed literal"),
    Case("spelling-cast-at", SPELLINGS, _of("CAST(at AS DATE) = '2021-01-03'"), [(28,)], "its day"),
    Case("spelling-metric-time", SPELLINGS, _of("metric_time <= '2021-01-03'"), [(7,)], "the same column"),
    Case("spelling-date-equal", SPELLINGS, _of("due = '2021-01-03'"), [(8,)], "a day written with its midnight"),
    Case("spelling-date-until", SPELLINGS, _of("due <= '2021-01-04T00:00:00'"), [(29,)], "T beside days"),
    Case("spelling-date-between", SPELLINGS, _of("due BETWEEN '2021-01-03' AND '2021-01-04'"), [(24,)], "both days"),
    Case("spelling-columns-equal", SPELLINGS, _of("at = done"), [(279,)], "two spellings of one time"),
    Case("spelling-columns-after", SPELLINGS, _of("at > done"), [(8,)], "by half a second"),
    Case("spelling-columns-not-after", SPELLINGS, _of("at <= done"), [(343,)], "row 7 is done an hour later"),
    Case(
        "spelling-column-and-day", SPELLINGS, _of("at >= due"), [(365,)], "a time beside a day: row 5 is before its own"
    ),
    Case("spelling-computed", SPELLINGS, _of("seen <= '2021-01-03'"), [(143,)], "done, else at"),
    Case("spelling-measure", SPELLINGS, {"measures": ["events.first", "events.bits"]}, [(7, 511)], "its own filter"),
    Case(
        "spelling-segment",
        SPELLINGS,
        {"measures": ["events.bits"], "segments": ["events.new_year"]},
        [(7,)],
        "as between",
    ),
    Case(
        "spelling-case",
        SPELLINGS,
        {"measures": ["sum(CASE WHEN at <= '2021-01-03' THEN n ELSE 0 END)"]},
        [(7,)],
        "inside",
    ),
    Case("spelling-flag", SPELLINGS, _of("early = TRUE"), [(7,)], "a computed column"),
    Case("spelling-policy", GUARDED, _of(), [(7,)], "by an attribute", attributes={"until": "2021-01-03"}),
    Case(
        "spelling-policy-t",
        GUARDED,
        _of("at >= '2021-01-02'"),
        [(6,)],
        "with T",
        attributes={"until": "2021-01-03T00:00"},
    ),
    Case("spelling-policy-none", GUARDED, _of(), error="policy", why="no attribute, no rows"),
    Case(
        "spelling-joined",
        SPELLINGS,
        {"measures": ["notes.marks"], "filters": ["events.at > '2021-01-03'"]},
        [(6,)],
        "of a join",
    ),
    Case(
        "spelling-semi-join",
        SPELLINGS,
        _of("notes.m > 0", "at <= '2021-01-03'"),
        [(4,)],
        "only row 3 has a note until then",
    ),
    Case(
        "spelling-calendar",
        DAYS,
        {
            "measures": ["sales.so_far"],
            "dimensions": [{"field": "sales.day", "granularity": "day"}, "days.part"],
            "filters": ["sales.day > '2021-01-02T00:00:00'"],
        },
        [
            (date(2021, 1, 3), "a", 7),
            (date(2021, 1, 4), "b", 15),
            (date(2021, 1, 5), "b", 31),
            (date(2021, 1, 6), "b", 63),
        ],
        "a column of the calendar beside the axis; what lies before the filter counts",
        columns=("day_day", "part", "so_far"),
    ),
    Case(
        "spelling-range",
        SPELLINGS,
        {"measures": ["events.bits"], "time_range": {"field": "events.at", "start": "2021-01-03", "end": "2021-01-07"}},
        [(60,)],
        "the time range says the same as the filter",
    ),
    Case(
        "spelling-running",
        RUNNING,
        {
            "measures": ["events.so_far"],
            "dimensions": [{"field": "events.at", "granularity": "month"}],
            "filters": ["events.at <= '2021-01-03'"],
        },
        [(date(2021, 1, 1), 7)],
        "not a stretch of a time range: it holds for rows",
    ),
]
