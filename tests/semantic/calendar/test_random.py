"""Times drawn by hypothesis, in the two engines that run in this process, against Python's zones and calendar."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from ktx_cli.semantic.calendar import Clock, later, period_of, shift, truncate
from ktx_cli.semantic.model import GRAINS, CalendarSettings

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo")
LAST_DAYS = st.dates(date(1600, 1, 1), date(2400, 1, 1)).map(
    lambda d: later(d.replace(day=1), 1, "month") - timedelta(1)
)
FEW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def sessions() -> Iterator[dict[str, Any]]:
    found = {"sqlite": sqlite3.connect(":memory:"), "duckdb": duckdb.connect()}
    yield found
    for session in found.values():
        session.close()


def known(value: Any) -> Any:
    if isinstance(value, str):
        return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    return value


def both(sessions: dict[str, Any], make: Any) -> list[Any]:
    """Return the value of an expression in both engines."""
    found = []
    for dialect, session in sessions.items():
        statement = exp.select(exp.alias_(make(dialect), "v")).sql(dialect, normalize_functions=False)
        found.append(known(session.execute(statement).fetchone()[0]))
    return found


def written(value: datetime | date, dialect: str) -> exp.Expr:
    """Return a value as a column would give it, to the microsecond."""
    text = exp.Literal.string(value.isoformat())
    name = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
    return text if dialect == "sqlite" else exp.cast(text, name)


@FEW
@given(
    moment=st.datetimes(datetime(1970, 1, 2), datetime(2090, 1, 1)),
    zone=st.sampled_from(ZONES),
    grain=st.sampled_from(GRAINS),
    calendar=st.builds(
        CalendarSettings, week_start=st.sampled_from(["monday", "sunday"]), fiscal_year_start=st.integers(1, 12)
    ),
)
def test_any_moment_in_any_period(
    sessions: dict[str, Any], moment: datetime, zone: str, grain: str, calendar: CalendarSettings
) -> None:
    local = moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    wanted = period_of(local, grain, calendar)
    found = both(sessions, lambda d: truncate(written(moment, d), grain, "timestamp", Clock(d, calendar, zone=zone)))
    assert found == [wanted, wanted]


@FEW
@given(
    day=st.one_of(st.dates(date(1600, 1, 1), date(2400, 1, 1)), LAST_DAYS),
    count=st.integers(-1500, 1500),
    unit=st.sampled_from(["day", "week", "month", "quarter", "year"]),
)
def test_any_shift_of_a_date(sessions: dict[str, Any], day: date, count: int, unit: str) -> None:
    try:
        wanted = later(day, count, unit)
    except OverflowError:
        return
    assert both(sessions, lambda d: shift(written(day, d), count, unit, "date", d)) == [wanted, wanted]


@FEW
@given(
    moment=st.datetimes(datetime(1600, 1, 1), datetime(2400, 1, 1)).map(lambda m: m.replace(microsecond=0)),
    count=st.integers(-2000, 2000),
    unit=st.sampled_from(["second", "minute", "hour", "day", "month", "year"]),
)
def test_any_shift_of_a_timestamp(sessions: dict[str, Any], moment: datetime, count: int, unit: str) -> None:
    try:
        wanted = later(moment, count, unit)
    except OverflowError:
        return
    assert both(sessions, lambda d: shift(written(moment, d), count, unit, "timestamp", d)) == [wanted, wanted]


@pytest.mark.parametrize(("kind", "value"), [("date", date(1900, 3, 1)), ("timestamp", datetime(1900, 3, 1))])
def test_a_month_and_30_days_in_one_statement(sessions: dict[str, Any], kind: Any, value: date) -> None:
    """DuckDB 2.0 takes the two intervals for equal and computes one of the sums only."""
    spans = [(1, "month"), (30, "day"), (720, "hour")][: 2 if kind == "date" else 3]
    cells = [exp.alias_(shift(exp.column("v", "o"), count, unit, kind, "duckdb"), unit) for count, unit in spans]
    query = exp.select(*cells).from_(exp.select(exp.alias_(written(value, "duckdb"), "v")).subquery("o"))
    found = sessions["duckdb"].execute(query.sql("duckdb")).fetchone()
    assert list(found) == [later(value, count, unit) for count, unit in spans]


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("2024-03-31 23:59:59.999999", "timestamp", "2024-03-31"),
        ("2024-03-31T23:59:59.9999Z", "instant", "2024-03-31"),
        ("2024-03-31T23:59:59.999999+00:00", "instant", "2024-03-31"),
        ("2024-03-31T20:00:00-05:00", "instant", "2024-04-01"),
        ("2024-03-31T20:00:00-05:00", "timestamp", "2024-04-01"),
        ("2024-03-31T20:00:00-05:00", "date", "2024-03-31"),
        ("2024-03-31T20:00Z", "instant", "2024-03-31"),
        ("2024-03-31", "timestamp", "2024-03-31"),
        (1711929600, "timestamp", "2024-04-01"),
        (1711929599.75, "instant", "2024-03-31"),
        (1711929600, "date", "2024-04-01"),
        ("1711929600", "timestamp", None),
        ("31.03.2024", "date", None),
        ("", "timestamp", None),
        (None, "timestamp", None),
    ],
)
def test_what_sqlite_files_hold(sessions: dict[str, Any], value: Any, kind: Any, wanted: str | None) -> None:
    cell = truncate(exp.column("v", "o"), "day", kind, Clock("sqlite"))
    statement = exp.select(cell).from_("o").sql("sqlite", normalize_functions=False)
    assert sessions["sqlite"].execute(f"WITH o(v) AS (SELECT ?) {statement}", [value]).fetchone() == (wanted,)


def test_a_text_with_an_offset_is_not_read_in_the_zone_of_its_column(sessions: dict[str, Any]) -> None:
    clock = Clock("sqlite", own_zone="America/New_York")
    statement = exp.select(truncate(exp.column("v", "o"), "hour", "timestamp", clock)).from_("o")
    sql = f"WITH o(v) AS (SELECT ?) {statement.sql('sqlite', normalize_functions=False)}"
    texts = ("2024-07-01 12:00:00", "2024-07-01T12:00:00Z", "2024-07-01T12:00:00.5+02:00")
    found = [sessions["sqlite"].execute(sql, [text]).fetchone()[0] for text in texts]
    assert found == ["2024-07-01 16:00:00", "2024-07-01 12:00:00", "2024-07-01 10:00:00"]
