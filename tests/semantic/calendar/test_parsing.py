"""Spans, ends of ranges and names, right and wrong."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from ktx_cli.semantic.calendar import Clock, parse_moment, parse_range_value, parse_span
from ktx_cli.semantic.model import CalendarSettings, SemanticError, Span


@pytest.mark.table(
    ("text", "count", "unit"),
    [
        ("28 days", 28, "day"),
        ("1 year", 1, "year"),
        (" 12  Months ", 12, "month"),
        ("2quarters", 2, "quarter"),
        ("90 MINUTES", 90, "minute"),
        ("100000 seconds", 100_000, "second"),
        ("30d", 30, "day"),
        ("6 MO", 6, "month"),
        ("2q", 2, "quarter"),
        ("1 y", 1, "year"),
    ],
)
def test_spans(text: str, count: int, unit: str) -> None:
    assert parse_span(text) == Span(count, unit)
    assert parse_span(str(parse_span(text))) == Span(count, unit)


@pytest.mark.table(
    ("text", "said", "code"),
    [
        ("", "`` is not a duration", "query"),
        ("days", "`days` is not a duration", "query"),
        ("-1 day", "`-1 day` is not a duration", "query"),
        ("1.5 days", "`1.5 days` is not a duration", "query"),
        ("1 year 2 days", "`1 year 2 days` is not a duration", "query"),
        ("٣ days", "`٣ days` is not a duration", "query"),
        ("0 days", "`0 days` is too short", "query"),
        ("100001 days", "`100001 days` is too long", "query"),
        ("3 dais", "there is no unit of time `dais`", "unknown_name"),
        ("3m", "there is no unit of time `m`", "unknown_name"),
        ("3ds", "there is no unit of time `ds`", "unknown_name"),
        ("0d", "`0d` is too short", "query"),
        ("1 fiscal_year", "`1 fiscal_year` is not a duration", "query"),
    ],
)
def test_what_is_no_span(text: str, said: str, code: str) -> None:
    with pytest.raises(SemanticError) as caught:
        parse_span(text)
    assert (str(caught.value), caught.value.code) == (said, code)
    assert caught.value.hint


@pytest.mark.table(
    ("text", "value"),
    [
        ("2024-01-01", date(2024, 1, 1)),
        (" 2024-02-29 ", date(2024, 2, 29)),
        ("2024-01-01T10:00:00", datetime(2024, 1, 1, 10)),
        ("2024-01-01 10:00", datetime(2024, 1, 1, 10)),
        ("2024-01-01T00:00:00", datetime(2024, 1, 1)),
    ],
)
def test_ends_of_a_range(text: str, value: date) -> None:
    found = parse_range_value(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.table(
    "text",
    [
        *("", "yesterday", "2024-1-1", "20240101", "2024-W01-1", "2024-02-30", "2024-01-01T25:00", "0000-01-01"),
        *("2024-01-01T10:00:00.5", "2024-01-01T10:00:00Z", "2024-01-01T10:00:00+02:00", "2024-01-01Z"),
        "2024-01-01\n2024",
    ],
)
def test_what_is_no_end_of_a_range(text: str) -> None:
    with pytest.raises(SemanticError) as caught:
        parse_range_value(text)
    assert f"`{text}`" in str(caught.value)
    assert "2024-01-31" in (caught.value.hint or "")


@pytest.mark.table("clock", [{"zone": "Europe/Berlim"}, {"own_zone": "Europe/Berlim"}])
def test_an_unknown_zone_is_named_with_the_nearest(clock: dict[str, str]) -> None:
    with pytest.raises(SemanticError) as caught:
        Clock("duckdb", **clock)  # type: ignore[arg-type]
    assert str(caught.value) == "there is no time zone `Europe/Berlim`"
    assert caught.value.hint == "did you mean `Europe/Berlin`?"


def test_the_zone_of_a_question_counts_more_than_the_project_s() -> None:
    calendar = CalendarSettings(timezone="Europe/Berlin")
    assert Clock("duckdb", calendar).target == "Europe/Berlin"
    assert Clock("duckdb", calendar, zone="Asia/Kolkata").target == "Asia/Kolkata"
    assert (Clock("duckdb").target, Clock("duckdb").source) == ("UTC", "UTC")


@pytest.mark.table(
    ("text", "beside_dates", "beside_timestamps"),
    [
        ("2024-01-31", "2024-01-31", "2024-01-31 00:00:00"),
        (" 2024-01-31 ", "2024-01-31", "2024-01-31 00:00:00"),
        ("2024-01-31T10:05", "2024-01-31 10:05:00", "2024-01-31 10:05:00"),
        ("2024-01-31 00:00:00.000", "2024-01-31", "2024-01-31 00:00:00"),
        ("2024-01-31 00:00:00.1234567890", "2024-01-31 00:00:00.123456789", "2024-01-31 00:00:00.123456789"),
        ("2024-01-31T00:00:00Z", "2024-01-31", "2024-01-31 01:00:00"),
        ("2024-07-31t00:00:00.5z", "2024-07-31 00:00:00.5", "2024-07-31 02:00:00.5"),
        ("2024-01-31 00:30 +02:00", "2024-01-31 00:30:00", "2024-01-30 23:30:00"),
        ("2024-01-31T00:30:00-0500", "2024-01-31 00:30:00", "2024-01-31 06:30:00"),
    ],
)
def test_times_of_literals(text: str, beside_dates: str, beside_timestamps: str) -> None:
    found = parse_moment(text, "Europe/Berlin")
    assert found is not None
    assert (found.beside_dates(), found.beside_timestamps()) == (beside_dates, beside_timestamps)


@pytest.mark.table(
    "text",
    [
        "",
        "2024",
        "2024-01",
        "2024-02-30",
        "2024-01-31T",
        "2024-01-31 10",
        "2024-01-31 10:00.5",
        "2024-01-31Z",
        "now",
        "20240131",
        "31.01.2024",
        "2024-01-31 25:00",
        "٢٠٢٤-01-31",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_texts_that_are_no_time(text: str) -> None:
    assert parse_moment(text, "UTC") is None
