from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.text import (
    counted,
    did_you_mean,
    file_stem,
    listing,
    nearest_values,
    one_line,
    plural,
    similar_names,
    suggestion,
    without_tables,
)


@pytest.mark.table(
    ("word", "known", "near"),
    [
        ("statsu", ["status", "scan"], "status"),
        ("Backend", ["backend"], "backend"),
        ("xyz", ["status"], None),
        ("--jsn", ["--yes", "--json", "--debug"], "--json"),
        ("--yse", ["--yes", "--quiet"], "--yes"),
        # one edit away, though more letters of the other are the same
        ("cat", ["cast-a", "cut"], "cut"),
        ("abcd", ["abdc", "abcdxy"], "abdc"),
        ("claude", ["claude-code", "claude-cli"], "claude-code"),
        ("a", [], None),
    ],
)
def test_did_you_mean(word: str, known: list[str], near: str | None) -> None:
    assert did_you_mean(word, known) == near


TABLES = [
    *(f"stg_{place}_{what}" for place in ("erp", "crm", "web", "app", "pos") for what in range(60)),
    *("customers", "orders_by_customer", "fct_orders", "dim_warehouse", "zz_refunds", "zz_returns"),
]
"""Several hundred names, with those that are meant at the end."""


@pytest.mark.table(
    ("name", "hint"),
    [
        ("zz_refund", "did you mean `zz_refunds`?"),
        ("custmers", "did you mean `customers`?"),
        ("a_day_of_customers_and_orders", "similar names: customers, fct_orders, orders_by_customer"),
        ("ADayOfCustomersAndOrders", "similar names: customers, fct_orders, orders_by_customer"),
        ("refunds", "did you mean `zz_refunds`?"),
        ("warehouses_of_suppliers", "did you mean `dim_warehouse`?"),
        ("payroll", "none of the 306 available names is similar"),
    ],
)
def test_the_closest_of_several_hundred_names_is_suggested_wherever_it_is(name: str, hint: str) -> None:
    found = suggestion(name, TABLES)
    head, _, names = found.partition(": ")
    assert f"{head}: {', '.join(sorted(names.split(', ')))}" == hint if names else found == hint


OF_SOURCES = ["lines.refund_rate", "lines.net", "orders.count", "orders.net", "refunds.amount", "ship_lines.rate"]


@pytest.mark.table(
    ("name", "hint"),
    [
        # the source is known, so only the names in it are compared, and only by what follows it
        ("lines.zebra", "available: lines.net, lines.refund_rate"),
        ("lines.refund_rat", "did you mean `lines.refund_rate`?"),
        ("LINES.rate", "did you mean `ship_lines.rate`?"),
        ("refunds.net", "similar names: lines.net, orders.net"),
        ("refunds.count", "did you mean `orders.count`?"),
        ("line.refund_rate", "did you mean `lines.refund_rate`?"),
    ],
)
def test_only_the_last_part_of_a_name_in_a_known_source_is_compared(name: str, hint: str) -> None:
    assert suggestion(name, OF_SOURCES) == hint


def test_the_suggestion_replaces_the_whole_name() -> None:
    assert suggestion("nam", ["name", "code"], "regions.") == "did you mean `regions.name`?"
    assert suggestion("name", ["region_name", "code"], "regions.") == "did you mean `regions.region_name`?"
    assert suggestion("x", ["region_name", "code"], "regions.") == "available: code, region_name"


def test_few_names_are_all_listed() -> None:
    assert suggestion("x", ["b", "a"]) == "available: a, b"
    assert suggestion("x", []) == "none are defined"
    assert similar_names("orders", ["order", "fct_orders", "customers"]) == ["order", "fct_orders"]


def test_plural() -> None:
    assert [plural(n, "table") for n in (0, 1, 2, 1204)] == ["0 tables", "1 table", "2 tables", "1,204 tables"]
    assert plural(2, "query", "queries") == "2 queries"


def test_counted() -> None:
    assert counted({"error": 1, "warning": 6, "info": 36}) == "1 error, 6 warnings, 36 info"
    assert counted({"error": 0, "warning": 1, "info": 0}) == "1 warning"
    assert counted({"error": 0}) == "none"


def test_listing() -> None:
    assert listing("abc") == "a, b, c"
    assert listing("abcdefg", 3) == "a, b, c and 4 more"


@pytest.mark.table("evil", ["a\x1b[31mb", "a\nb", "a\x00b", "a\u202eb", "a\u200bb", "a\x9bb"])
def test_one_line_takes_the_teeth_out(evil: str) -> None:
    flat = one_line(evil)
    assert flat in ("a b", "a [31mb")


def test_one_line_cuts() -> None:
    assert one_line("x" * 20, 10) == "x" * 9 + "…"


@pytest.mark.table(
    ("markdown", "shown"),
    [
        ("| status | meaning |\n|---|---|\n| placed | just placed |\n| lost | |", "placed: just placed; lost"),
        ("State:\n\na | b | c\n:--|:-:|--\nx | y | a\\|b\n\nEnd.", "State:\n\nx: y, a|b\n\nEnd."),
        ("|only|\n|---|\n|one|\n|two|", "one; two"),
        ("a | b\nc | d", "a | b\nc | d"),
        ("no table\n---", "no table\n---"),
    ],
)
def test_without_tables(markdown: str, shown: str) -> None:
    assert without_tables(markdown) == shown


@pytest.mark.table(("name", "stem"), [("orders", "orders"), ("order_details", "order_details"), ("public", "public")])
def test_plain_names_are_their_own_file(name: str, stem: str) -> None:
    assert file_stem(name) == stem


@pytest.mark.table("name", ["Orders", "Order Details", "con", "a.b", "../../etc/passwd", "", "📦", "x" * 65, "a/b"])
def test_other_names_get_a_safe_unique_file(name: str) -> None:
    stem = file_stem(name)
    assert stem != name
    assert all(c.isascii() and (c.isalnum() or c in "_-") for c in stem)


@given(st.sets(st.text(), min_size=2))
def test_different_names_never_share_a_file(names: set[str]) -> None:
    stems = {file_stem(name).lower() for name in names}
    assert len(stems) == len(names)


@pytest.mark.table(
    ("text", "known", "found"),
    [
        ("germany", ["Germany", "Greece"], ["Germany"]),
        ("Germny", ["Germany", "Greece"], ["Germany"]),
        (" in_transit", ["In Transit", "in transit ", "intransit"], ["In Transit", "in transit "]),
        ("osterreich", ["Österreich", "Austria"], ["Österreich"]),
        ("rome", ["Rome", "ROME", "Roma"], ["ROME", "Rome"]),
        ("paid", ["open", "sent"], []),
        ("usa", ["Usa East", "EU", "usable", "us"], ["us", "Usa East"]),
        ("a", ["b"], []),
        ("", ["x", ""], []),
        ("same", ["same"], []),
        ("pad", ["paid", "pan", "pat", "lad"], ["lad", "paid", "pan"]),
    ],
)
def test_the_values_that_may_have_been_meant(text: str, known: list[str], found: list[str]) -> None:
    assert nearest_values(text, known) == found
