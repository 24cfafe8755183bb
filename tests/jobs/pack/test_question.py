"""What a question says by itself: its period, its ranking, and the number it ranks by."""

from __future__ import annotations

import time

import pytest

from ktx_cli.jobs.pack.question import (
    Period,
    Ranking,
    by_value,
    conditions,
    grain_of,
    measured_part,
    negated,
    period,
    ranking,
    wanted_aggregate,
    which_things,
)
from ktx_cli.semantic import parse_query


@pytest.mark.table(
    ("phrase", "start", "end"),
    [
        ("in 2025", "2025-01-01", "2026-01-01"),
        ("in march 2025", "2025-03-01", "2025-04-01"),
        ("in jan 2025", "2025-01-01", "2025-02-01"),
        ("in sept. 2025", "2025-09-01", "2025-10-01"),
        ("in dec 2025", "2025-12-01", "2026-01-01"),
        ("in 2025-03", "2025-03-01", "2025-04-01"),
        ("on 2024-02-29", "2024-02-29", "2024-03-01"),
        ("on march 5, 2025", "2025-03-05", "2025-03-06"),
        ("on the 31st of december 2025", "2025-12-31", "2026-01-01"),
        ("in q1 2025", "2025-01-01", "2025-04-01"),
        ("in 2025q4", "2025-10-01", "2026-01-01"),
        ("in q3/2025", "2025-07-01", "2025-10-01"),
        ("in the second quarter of 2025", "2025-04-01", "2025-07-01"),
        ("in h2 2025", "2025-07-01", "2026-01-01"),
        ("in the first half of 2025", "2025-01-01", "2025-07-01"),
        ("since 2024", "2024-01-01", None),
        ("since 5 march 2024", "2024-03-05", None),
        ("from 2024 onwards", "2024-01-01", None),
        ("after 2024", "2025-01-01", None),
        ("before january 2025", None, "2025-01-01"),
        ("between 2023 and 2025", "2023-01-01", "2026-01-01"),
        ("2023-2025", "2023-01-01", "2026-01-01"),
        ("in 2024 and 2025", "2024-01-01", "2026-01-01"),
        ("from january to march 2025", "2025-01-01", "2025-04-01"),
        ("from business customers in 2025", "2025-01-01", "2026-01-01"),
        ("after refunds in 2025", "2025-01-01", "2026-01-01"),
    ],
)
def test_a_period_with_a_year_is_a_range(phrase: str, start: str | None, end: str | None) -> None:
    found = period(f"revenue {phrase}")
    wanted = {key: value for key, value in {"start": start, "end": end}.items() if value is not None}
    assert found is not None and found.range == wanted


@pytest.mark.table(
    ("phrase", "last"),
    [
        ("last 30 days", "30 days"),
        ("in the last 12 months", "12 months"),
        ("over the past three weeks", "3 weeks"),
        ("during the previous 2 quarters", "2 quarters"),
        ("in the past year", "1 year"),
        ("past month", "1 month"),
    ],
)
def test_a_period_up_to_today_is_counted_back(phrase: str, last: str) -> None:
    found = period(f"revenue {phrase}")
    assert found is not None and found.range == {"last": last}
    parse_query({"measures": ["a.b"], "time_range": found.range})


@pytest.mark.table(
    ("phrase", "words", "last"),
    [
        # `last` counts back from today, so a calendar period is never one of its values
        ("last month", "last month", "1 month"),
        ("the previous quarter", "the previous quarter", "1 quarter"),
        ("in the last year", "the last year", "1 year"),
        ("this month", "this month", ""),
        ("yesterday", "yesterday", ""),
        ("today", "today", ""),
        ("year to date", "year to date", ""),
        ("in the last 12 complete months", "the last 12 complete months", ""),
        ("in the last 24 hours", "the last 24 hours", ""),
        ("last 3 months of 2025", "last 3 months of 2025", ""),
        ("last 30 days vs previous 30 days", "last 30 days vs previous 30 days", ""),
        ("in january", "january", ""),
        ("from 2024", "from 2024", ""),
        ("until 2025", "until 2025", ""),
        ("in 2023 and 2025", "2023 and 2025", ""),
        ("in 2024 vs 2025", "2024 vs 2025", ""),
        ("in early 2025", "early 2025", ""),
        ("at the end of 2025", "end of 2025", ""),
        ("in week 12 of 2025", "week 12 of 2025", ""),
        ("on 15/03/2025", "15/03/2025", ""),
        ("on 2025-02-31", "2025-02-31", ""),
        ("between march 2024 and may 2025", "march 2024 and may 2025", ""),
        ("before the launch in 2025", "2025", ""),
    ],
)
def test_a_period_without_one_meaning_is_named_and_not_drafted(phrase: str, words: str, last: str) -> None:
    assert period(f"revenue {phrase}") == Period({}, words, last)


@pytest.mark.table(
    "question",
    [
        "revenue",
        "customers that may churn",
        "last order date",
        "current stock by week",
        "revenue after refunds",
        "orders from web",
        "past customers per month",
    ],
)
def test_a_question_without_a_period_has_none(question: str) -> None:
    assert period(question) is None


@pytest.mark.table(
    ("question", "asked", "found"),
    [
        ("customers by revenue", "top revenue by customers", Ranking(True)),
        ("show me customers by revenue last month", "top revenue by customers last month", Ranking(True)),
        ("products ranked by total sales", "top total sales by products", Ranking(True)),
        ("top five customers by net revenue", "top five net revenue by customers", Ranking(True, 5, "top five")),
        ("the 5 best customers by revenue", "the top 5 revenue by customers", Ranking(True, 5, "top 5")),
        ("first 10 customers by revenue", "top 10 revenue by customers", Ranking(True, 10, "top 10")),
        ("ten best-selling products by quantity", "top ten quantity by products", Ranking(True, 10, "top ten")),
        ("Top 1,000 customers by revenue", "top 1,000 revenue by customers", Ranking(True, 1000, "top 1,000")),
        ("bottom 3 regions by revenue", "bottom 3 revenue by regions", Ranking(False, 3, "bottom 3")),
        ("worst 3 regions by late share", "worst 3 late share by regions", Ranking(None, 3, "worst 3")),
        ("customers with the most orders", "top number of orders by customers", Ranking(True)),
        ("5 customers with the highest revenue", "top 5 revenue by customers", Ranking(True, 5, "top 5")),
        ("Which agent handled the most tickets?", "top number of tickets by agent", Ranking(True)),
        ("which 5 regions had the lowest revenue", "bottom 5 revenue by regions", Ranking(False, 5, "bottom 5")),
        ("top 5 customers last month by revenue", "top 5 revenue by customers last month", Ranking(True, 5, "top 5")),
        ("top 5 shops in Oslo by revenue", "top 5 revenue in Oslo by shops", Ranking(True, 5, "top 5")),
        ("top 3 products per category by sales", "top 3 sales by products and category", Ranking(True, 3, "top 3")),
        ("top 3 shops by sales per month", "top 3 sales by shops and month", Ranking(True, 3, "top 3")),
        ("top 10% of customers by revenue", "top 10% of customers by revenue", Ranking(True, None, "top 10%")),
        ("top 2025 customers by revenue", "top 2025 revenue by customers", Ranking(True)),
        ("highest and lowest regions by revenue", "highest and lowest regions by revenue", Ranking(None)),
        ("customers by country", "customers by country", None),
        ("net revenue by cost center", "net revenue by cost center", None),
        ("refund rate by channel", "refund rate by channel", None),
        ("number of customers by spend", "number of customers by spend", None),
        ("orders with at most 5 lines", "orders with at most 5 lines", None),
    ],
)
def test_what_is_ranked_and_how_many(question: str, asked: str, found: Ranking | None) -> None:
    assert by_value(question) == asked
    assert ranking(asked.casefold()) == found


@pytest.mark.table(
    ("question", "part"),
    [
        ("top 5 customers by net revenue in 2025", "net revenue"),
        ("revenue between 2023 and 2025 by year", "revenue"),
        ("What was our revenue in March?", "What was our revenue"),
        ("Q2 2025 revenue (net) by channel", "revenue"),
    ],
)
def test_the_measured_part_has_no_period_and_no_rank(question: str, part: str) -> None:
    assert " ".join(measured_part(question).split()) == part


def test_the_words_of_a_question_are_read() -> None:
    wanted = {"how many orders": "count", "average price": "avg", "late share": "share", "units sold": "sum", "x": None}
    assert {text: wanted_aggregate(text) for text in wanted} == wanted
    assert which_things("which sales channels have the most orders") == "sales channels"
    assert which_things("what share of accounts is active") == ""
    grains = {"month of the order": "month", "weekly": "week", "annual": "year", "region": ""}
    assert {text: grain_of(text) for text in grains} == grains
    assert negated("orders that were not cancelled, status <> 'lost'") == "cancelled lost"
    assert conditions("customers with more than 3 orders over 1,000 euros") == ["more than 3", "over 1,000"]


@pytest.mark.table(
    "words",
    ["top ", "which a ", "first 5 ", "a by ", "customers with the ", "between 2023 ", "1,000,000 ", "1st of march "],
)
def test_a_long_question_is_read_at_once(words: str) -> None:
    question = (words * 1_000)[:1_000]
    begun = time.process_time()
    for read in (by_value, measured_part, period, ranking, which_things):
        read(question)
    assert time.process_time() - begun < 0.5
