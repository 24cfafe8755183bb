"""Unique columns and unique sets, and how plausible they are as keys."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.scan.relationships.columns import DatabaseFacts, NameIndex
from ktx_cli.scan.relationships.keys import (
    WIDEST_KEY,
    choose_keys,
    composite_keys,
    expected_repeats,
    find_unique_columns,
    is_unique,
    key_score,
    numbers_within,
    own_name,
    unique_columns,
)

Gathered = Callable[..., DatabaseFacts]
TEN = range(1, 11)


def names(columns: Any) -> list[str]:
    return [column.name for column in columns]


@pytest.mark.parametrize(
    ("table", "column", "least", "most"),
    [
        ("customers", "id", 0.9, 1),
        ("customers", "customer_id", 1, 1),
        ("customers", "cust_no", 0.7, 1),
        ("customers", "code", 0.7, 0.8),
        ("order_header", "order_id", 0.8, 1),
        ("fin_gene_header", "gene_id", 0.8, 1),
        ("customers", "region_id", 0.4, 0.4),
        ("customers", "city", 0, 0),
    ],
)
def test_how_far_a_name_says_it_is_the_table_s_key(
    gathered: Gathered, table: str, column: str, least: float, most: float
) -> None:
    facts = gathered({table: {column: list(TEN)}})
    assert least <= own_name(facts.columns[0]) <= most


def test_unique_columns_come_the_likely_key_first(gathered: Gathered) -> None:
    facts = gathered(
        {
            "customers": {
                "email": [f"a{n}@b.example" for n in TEN],
                "city": ["x"] * 10,
                "customer_id": list(TEN),
                "amount": [n * n for n in TEN],
                "code": [None, None, None, *(f"k{n}" for n in range(7))],
                "note": [n / 3 for n in TEN],
            }
        }
    )
    (table,) = facts.tables
    assert names(unique_columns(table)) == ["customer_id", "email", "amount"]
    assert key_score(table.column("customer_id")) > key_score(table.column("email")) > key_score(table.column("amount"))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"customer_id": list(TEN)}, {"customer_id": [n * n * 90 for n in TEN]}),
        ({"customer_id": list(TEN)}, {"customer_id": [-n for n in TEN]}),
        ({"code": [f"k{n:02}" for n in TEN]}, {"code": [f"k {n:02}" for n in TEN]}),
        ({"code": [f"k{n:02}" for n in TEN]}, {"code": ["k" * n for n in TEN]}),
        ({"code": [f"k{n:02}" for n in TEN]}, {"code": [f"{n:050}" for n in TEN]}),
        ({"customer_id": list(TEN)}, {"customer_id": [None, *range(2, 11)]}),
    ],
)
def test_values_speak_for_and_against_a_key(
    gathered: Gathered, better: dict[str, list[Any]], worse: dict[str, list[Any]]
) -> None:
    one, other = (gathered({"customers": columns}).columns[0] for columns in (better, worse))
    assert key_score(one) > key_score(other)


def test_sets_that_identify_rows(gathered: Gathered) -> None:
    rows = [(order, line) for order in range(1, 9) for line in range(1, 5)]
    facts = gathered(
        {
            "lines": {
                "order_id": [order for order, _ in rows],
                "line_no": [line for _, line in rows],
                "price": [(order * 7 + line * 3) % 11 for order, line in rows],
                "same": [1] * len(rows),
            }
        }
    )
    (table,) = facts.tables
    assert names(composite_keys(table, {"order_id"})[0]) == ["order_id", "line_no"]
    assert composite_keys(gathered({"one": {"a": [1], "b": [2]}}).tables[0]) == []


ROWS = st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=2, max_size=12)


@given(rows=ROWS)
def test_sets_are_unique_and_none_holds_another(gathered: Gathered, rows: list[tuple[int, ...]]) -> None:
    columns = {f"c{at}": [row[at] for row in rows] for at in range(4)}
    (table,) = gathered({"t": columns}).tables
    found = [frozenset(names(group)) for group in composite_keys(table)]
    assert len(found) == len(set(found))
    assert not any(one < other for one in found for other in found)
    for group in found:
        assert 2 <= len(group) <= WIDEST_KEY
        assert is_unique([table.column(name) for name in sorted(group)], len(rows))
    members = [c.name for c in table.columns if 1 < c.distinct < len(rows)]
    pairs = {frozenset(pair) for pair in combinations(members, 2) if _identifies(pair, rows)}
    assert {group for group in found if len(group) == 2} == pairs


def _identifies(pair: tuple[str, ...], rows: list[tuple[int, ...]]) -> bool:
    return len({tuple(row[int(name[1:])] for name in pair) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([1, 2, 3, 1, 2, 1, 2, 3, 4, 1], True),
        ([0, 1, 2, 0, 1, 0, 1, 2, 3, 0], True),
        ([1, 2, 4, 1, 2, 1, 2, 3, 5, 1], False),
        ([3, 1, 2, 2, 1, 4, 2, 3, 1, 1], True),
        ([7, 8, 9, 7, 8, 7, 8, 9, 10, 7], False),
        ([1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 1.0], True),
    ],
)
def test_a_line_s_number_counts_the_rows_of_each_order(gathered: Gathered, line: list[float], expected: bool) -> None:
    order, number = gathered({"lines": {"order_id": [1, 1, 1, 2, 2, 3, 3, 3, 3, 4], "n": line}}).columns
    assert numbers_within(order, number) is expected


def test_how_often_chance_would_repeat_a_set(gathered: Gathered) -> None:
    one, other, alone = gathered({"t": {"a": [1, 1, 2, 2], "b": [1, 2, 1, 2], "c": [1, 2, 3, 4]}}).columns
    assert expected_repeats((one,)) == pytest.approx(3.0)
    assert expected_repeats((one, other)) == pytest.approx(1.5)
    assert expected_repeats((alone,)) == pytest.approx(1.5)


def versions(subjects: int, each: int) -> tuple[list[int], list[str], list[str | None]]:
    """Return columns of rows that hold for a period each: what they are about, begin, end (None: now)."""
    rows = [(subject, turn) for subject in range(1, subjects + 1) for turn in range(each)]
    days = [[f"20{10 + turn}-01-{1 + subject % 28:02d}" for turn in range(each + 1)] for subject in range(subjects + 1)]
    ends = [days[subject][turn + 1] if turn + 1 < each else None for subject, turn in rows]
    return [subject for subject, _ in rows], [days[subject][turn] for subject, turn in rows], ends


def chosen(facts: DatabaseFacts) -> dict[str, tuple[str, ...]]:
    unique = find_unique_columns(facts.tables, lambda table, columns: True)
    keys = choose_keys(unique, [], NameIndex(facts.tables, unique.keys), lambda table, columns: True)
    return {table.table.ref.name: choice.primary for table, choice in keys.items()}


@pytest.mark.table(
    ("begin", "end", "key"),
    [
        ("valid_from", "valid_to", ("product_id", "valid_from")),
        ("effective_from", "effective_to", ("product_id", "effective_from")),
        ("effective_date", "expiry_date", ("product_id", "effective_date")),
        ("start_date", "end_date", ("product_id", "start_date")),
        ("dbt_valid_from", "dbt_valid_to", ("product_id", "dbt_valid_from")),
        ("gueltig_ab", "gueltig_bis", ("product_id", "gueltig_ab")),
    ],
)
def test_a_key_of_rows_that_hold_for_a_period_has_its_start(
    begin: str, end: str, key: tuple[str, str], gathered: Gathered
) -> None:
    subjects, starts, ends = versions(40, 3)
    prices = [float(number * 7 % 101) / 4 for number in range(len(subjects))]
    tables = {
        "products": {"product_id": list(range(1, 41)), "label": [f"p{n}" for n in range(40)]},
        "product_prices": {"product_id": subjects, "price": prices, begin: starts, end: ends},
    }
    keys = chosen(gathered(tables))
    assert keys == {"products": ("product_id",), "product_prices": key}


def test_a_number_of_the_row_stays_the_key_beside_a_period(gathered: Gathered) -> None:
    subjects, starts, ends = versions(40, 3)
    numbers = list(range(1, len(subjects) + 1))
    columns = {"price_id": numbers, "product_id": subjects, "valid_from": starts, "valid_to": ends}
    assert chosen(gathered({"product_prices": columns})) == {"product_prices": ("price_id",)}
