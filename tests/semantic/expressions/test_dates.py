"""What expressions over a time say of it, in several dialects."""

from __future__ import annotations

import pytest

from ktx_cli.semantic.expressions.dates import DatePart, date_part
from ktx_cli.semantic.expressions.fragments import parse
from ktx_cli.semantic.expressions.names import Name, with_names
from ktx_cli.semantic.model import CalendarSettings, SemanticError

MONDAY, SUNDAY = CalendarSettings(), CalendarSettings(week_start="sunday")


def part(dialect: str, text: str, settings: CalendarSettings = MONDAY) -> DatePart | None:
    tree = parse(text, dialect, what="x")
    return date_part(with_names(tree, None, text, lambda column: Name((), column.name)).tree, settings)


@pytest.mark.table(
    ("dialect", "text", "expected"),
    [
        ("duckdb", "x", DatePart("", cuts=True, starts=True)),
        ("duckdb", "x::date", DatePart("day", cuts=True, starts=True)),
        ("duckdb", "date_trunc('month', x)", DatePart("month", cuts=True, starts=True)),
        ("postgres", "date_trunc('quarter', date_trunc('month', x))", DatePart("quarter", cuts=True, starts=True)),
        ("postgres", "date_trunc('week', date_trunc('month', x))", DatePart("month")),
        ("bigquery", "date_trunc(x, month)", DatePart("month", cuts=True, starts=True)),
        ("sqlite", "date_trunc('quarter', x)", DatePart("quarter", cuts=True, starts=True)),
        ("sqlite", "extract(year from x)", DatePart("year", cuts=True)),
        ("sqlite", "strftime('%Y-%m', x)", DatePart("month", cuts=True)),
        ("sqlite", "date(x, '+1 day')", DatePart("")),
        ("mysql", "year(x)", DatePart("year", cuts=True)),
        ("postgres", "to_char(x, 'YYYY-MM')", DatePart("month", cuts=True)),
        ("duckdb", "strftime(x, '%m')", DatePart("month", of_year=True)),
        ("duckdb", "strftime(x, '%Y-%m %a')", DatePart("day")),
        ("duckdb", "strftime(x, '%Y-%j')", DatePart("day", cuts=True)),
        ("duckdb", "strftime(x, '%y')", DatePart("day")),
        ("duckdb", "month(x)", DatePart("month", of_year=True)),
        ("duckdb", "extract(week from x)", DatePart("week")),
        ("duckdb", "date_part('dow', x)", DatePart("day")),
        ("duckdb", "dayofweek(date_trunc('month', x))", DatePart("month")),
        ("duckdb", "year(x) * 100 + month(x)", DatePart("month")),
        ("duckdb", "CASE WHEN month(x) > 6 THEN 'H2' ELSE 'H1' END", DatePart("month")),
        ("duckdb", "year(x) || week(x)", DatePart("day")),
        ("duckdb", "x + INTERVAL 1 DAY", DatePart("")),
        ("duckdb", "random() > month(x)", None),
        ("duckdb", "x < current_date", None),
        ("duckdb", "1 + 2", None),
    ],
)
def test_what_an_expression_says_of_its_time(dialect: str, text: str, expected: DatePart | None) -> None:
    assert part(dialect, text) == expected


def test_weeks_that_begin_on_sunday_are_not_those_of_the_database() -> None:
    assert part("duckdb", "date_trunc('week', x)", SUNDAY) == DatePart("day")
    assert part("duckdb", "extract(week from x)", SUNDAY) == DatePart("day")


def test_sqlite_says_which_parts_it_cannot_compute() -> None:
    with pytest.raises(SemanticError) as caught:
        part("sqlite", "extract(century from x)")
    assert caught.value.code == "definition"
    assert caught.value.hint
