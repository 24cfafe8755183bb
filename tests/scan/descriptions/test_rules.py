from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest

from ktx_cli.privacy.columns import ValueKind
from ktx_cli.scan.descriptions.facts import Described, Join, gather_facts, rows_text
from ktx_cli.scan.descriptions.rules import describe_by_rules, repeats_name
from ktx_cli.scan.profile.profiler import ColumnProfile, TableProfile
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import SampleMethod


def described(tables: list[Table], **options: Any) -> dict[str, Described]:
    facts = gather_facts(tables, **{"profiles": {}, **options})
    return {each.ref.name: describe_by_rules(each) for each in facts}


SHOP_TEXTS = {
    "artist": "Lookup table of artist_id and name. Referenced by album.",
    "album": "One row for each album_id. References artist; referenced by track.",
    "playlist": "Lookup table of playlist_id and name. Referenced by playlist_track.",
    "track": "One row for each track_id. References album; referenced by playlist_track.",
    "playlist_track": "Links playlist and track: one row for each combination of playlist_id and track_id.",
    "employee": "One row for each employee_id. Its rows reference each other.",
}


@pytest.mark.parametrize(("name", "text"), SHOP_TEXTS.items(), ids=SHOP_TEXTS.keys())
def test_tables(shop: list[Table], name: str, text: str) -> None:
    assert described(shop)[name].text == text


def test_columns(shop: list[Table]) -> None:
    found = described(shop)
    assert dict(found["album"].columns) == {
        "album_id": "Key of the table.",
        "artist_id": "References artist (artist_id).",
    }
    assert found["playlist_track"].columns["track_id"] == (
        "Part of the key (playlist_id, track_id). References track (track_id)."
    )
    assert found["employee"].columns["reports_to"] == "References another row of this table (employee_id)."


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("sent date", "Date."),
        ("sent datetime", "Date and time."),
        ("sent timestamptz", "Date and time, with time zone."),
        ("sent time", "Time of day."),
        ("sent interval_of_ours", None),
        ("date date", None),
        ("paid bool", "Flag: true or false."),
        ("name text", None),
        ("amount decimal", None),
    ],
)
def test_a_type_is_said_where_it_says_more_than_the_name(table: Any, column: str, text: str | None) -> None:
    name = column.split()[0]
    assert described([table("t", column)])["t"].columns.get(name) == text


def test_a_table_nothing_is_known_of_gets_no_text(table: Any) -> None:
    found = described([table("notes", "body text, other text")])["notes"]
    assert (found.text, dict(found.columns), found.source) == (None, {}, "rules")


def test_views_unique_columns_computed_columns_and_composite_references(table: Any) -> None:
    line = table("line", "order_no int, line_no int, sku text", key="order_no line_no", unique=["sku"])
    part = table("part", "order_no int, line_no int", order_no__line_no="line.order_no__line_no")
    total = Column("total", "decimal", SemanticType.NUMBER, generated=True)
    part = dataclasses.replace(part, columns=(*part.columns, total))
    view = table("late", "id int", kind=TableKind.VIEW)
    found = described([line, part, view])
    assert found["line"].columns["sku"] == "Unique."
    assert found["part"].columns == {
        "order_no": "Together, order_no and line_no reference line (order_no, line_no).",
        "line_no": "Together, order_no and line_no reference line (order_no, line_no).",
        "total": "Computed by the database.",
    }
    assert found["late"].text == "View with 1 column."


def test_an_accepted_join_is_told_like_a_declared_one(table: Any) -> None:
    album, artist = table("album", "id int, artist int", key="id"), table("artist", "id int, name text", key="id")
    join = Join(album.ref, ("artist",), artist.ref, ("id",))
    found = described([album, artist], accepted=[join])
    assert found["album"].columns["artist"] == "References artist (id)."
    assert found["artist"].text == "Lookup table of id and name. Referenced by album."


def profile(name: str, *columns: ColumnProfile, rows: int, **more: Any) -> dict[TableRef, TableProfile]:
    options = {"method": SampleMethod.ALL, "row_count": rows, "exact_count": True, **more}
    return {TableRef(None, name): TableProfile(TableRef(None, name), rows=rows, columns=columns, **options)}


def seen(name: str, kind: ValueKind, rows: int = 200, **more: Any) -> ColumnProfile:
    return ColumnProfile(name, kind, rows, **more)


STATUS = seen("status", ValueKind.TEXT, distinct=3, top=(("paid", 150), ("open", 40), ("void", 10)))
SENT = seen(
    "sent",
    ValueKind.TIME,
    nulls=120,
    distinct=80,
    minimum=datetime.date(2021, 3, 1),
    maximum=datetime.date(2024, 1, 31),
)
ORDERS = "id int, customer_id int, status text, sent date, total_cents int"


def orders(table: Any) -> list[Table]:
    customers = table("customers", "id int, name text", key="id")
    return [table("orders", ORDERS, key="id", customer_id="customers.id"), customers]


def test_what_was_seen_is_told(table: Any) -> None:
    found = described(orders(table), profiles=profile("orders", STATUS, SENT, rows=200))["orders"]
    assert found.text == (
        "One row for each id; at least 200 rows. Dates: sent (2021 to 2024); measures: total_cents; "
        "codes: status (open, paid, void). References customers."
    )
    assert dict(found.columns) == {
        "id": "Key of the table.",
        "customer_id": "References customers (id).",
        "status": "Code with 3 values: open, paid, void.",
        "sent": "Date, 2021 to 2024. Empty in most rows.",
        "total_cents": "Amount in cents.",
    }


def test_without_values_only_their_number_is_told(table: Any) -> None:
    bare = [dataclasses.replace(each, top=(), minimum=None, maximum=None) for each in (STATUS, SENT)]
    found = described(orders(table), profiles=profile("orders", *bare, rows=200))["orders"]
    assert "codes: status (3 values)" in (found.text or "")
    assert (found.columns["status"], found.columns["sent"]) == ("Code with 3 values.", "Date. Empty in most rows.")


def test_of_a_sample_is_said_that_it_is_one(table: Any) -> None:
    status = seen("status", ValueKind.TEXT, 1000, distinct=3, top=(("paid", 800), ("open", 191), ("rare", 9)))
    sent = dataclasses.replace(SENT, rows=1000, nulls=1000)
    sampled = profile("orders", status, sent, rows=1000, method=SampleMethod.BLOCKS, row_count=48_211)
    found = described(orders(table), profiles=sampled)["orders"]
    assert found.text == (
        "One row for each id; at least 20,000 rows. Dates: sent; measures: total_cents; "
        "codes: status (in a sample mostly open, paid). References customers."
    )
    assert found.columns["status"] == "Code, in a sample mostly open, paid."
    assert found.columns["sent"] == "Date. Empty in every row of a sample."


ROWS = [
    (0, True, "no rows"),
    (1, True, "fewer than 10 rows"),
    (9, True, "fewer than 10 rows"),
    (10, True, "at least 10 rows"),
    (99, True, "at least 50 rows"),
    (100, True, "at least 100 rows"),
    (199, True, "at least 100 rows"),
    (499, True, "at least 200 rows"),
    (9_999, True, "at least 5,000 rows"),
    (10_000, True, "at least 10,000 rows"),
    (1_234_567, True, "at least 1,000,000 rows"),
    (0, False, ""),
    (1, False, "about 1 row"),
    (7, False, "about 7 rows"),
    (96, False, "about 100 rows"),
    (1_499, False, "about 1,000 rows"),
    (None, False, ""),
]


def test_rows_are_told_by_their_order_of_magnitude(table: Any) -> None:
    """Each row of the table: how many, whether that is exact, what is said."""
    for count, exact, text in ROWS:
        given = profile("t", rows=0, row_count=count, exact_count=exact)
        (facts,) = gather_facts([table("t", "id int")], profiles=given)
        assert rows_text(facts) == text, (count, exact)


COLUMNS = [
    ("total_cents int", None, "Amount in cents."),
    ("price_usd_cents int", None, "Amount in cents of USD."),
    ("price_usd decimal", None, "Amount in USD."),
    ("took_ms int", None, "Number in milliseconds."),
    ("weight_kg decimal", None, "Number in kilograms."),
    ("cents int", None, None),
    ("total_cents text", None, None),
    ("length_m decimal", None, None),
    ("share_pct decimal", None, None),
    ("status text", STATUS, "Code with 3 values: open, paid, void."),
    ("status text", seen("status", ValueKind.TEXT, 10, distinct=3, top=(("a", 8), ("b", 1), ("c", 1))), None),
    ("status text", seen("status", ValueKind.TEXT, distinct=21), None),
    ("status text", seen("status", ValueKind.TEXT, distinct=1, top=(("x" * 31, 200),)), "Code with 1 value."),
    ("status text", seen("status", ValueKind.TEXT, distinct=1, top=(("a\nb", 200),)), "Code with 1 value."),
    ("status text", seen("status", ValueKind.TEXT, distinct=11, top=(("a", 20),)), "Code with 11 values."),
    ("status int", seen("status", ValueKind.INTEGER, distinct=2, top=((2, 9), (1, 8))), "Code with 2 values: 1, 2."),
    ("floor int", seen("floor", ValueKind.INTEGER, distinct=2, top=((2, 9), (1, 8))), None),
    ("colour text", seen("colour", ValueKind.TEXT, distinct=1, top=(("red", 200),)), "1 value: red."),
    ("is_paid int", seen("is_paid", ValueKind.INTEGER, distinct=2, top=((1, 9), (0, 8))), "Flag with 2 values: 0, 1."),
    ("is_paid int", seen("is_paid", ValueKind.INTEGER, distinct=3), "3 values."),
    ("fax text", seen("fax", ValueKind.EMPTY, nulls=200), "Empty in every row."),
    ("fax text", seen("fax", ValueKind.TEXT, nulls=190, distinct=9), "Empty in nearly every row."),
    ("fax text", seen("fax", ValueKind.TEXT, nulls=20, distinct=99), "Empty in some rows."),
    ("fax text", seen("fax", ValueKind.TEXT, nulls=19, distinct=99), None),
    ("fax text", seen("fax", ValueKind.OPAQUE, 0, problem="denied"), None),
]


def test_columns_by_name_type_and_what_was_seen(table: Any) -> None:
    """Each row of the table: the column, its profile, its text; all names fail that are wrong."""
    wrong = []
    for column, profiled, text in COLUMNS:
        given = {} if profiled is None else profile("t", profiled, rows=200)
        said = described([table("t", column)], profiles=given)["t"].columns.get(column.split()[0])
        wrong += [(column, said, text)] if said != text else []
    assert wrong == []


def test_a_few_rows_more_change_nothing(table: Any) -> None:
    before = profile("orders", STATUS, SENT, rows=200)
    grown = [dataclasses.replace(each, rows=210, nulls=each.nulls and 125) for each in (STATUS, SENT)]
    after = profile("orders", *grown, rows=210)
    assert described(orders(table), profiles=before) == described(orders(table), profiles=after)


def test_a_unique_key_without_null_says_what_a_row_is(table: Any) -> None:
    plain = table("t", "sku text, other text", unique=["sku"])
    filled = dataclasses.replace(plain, columns=tuple(dataclasses.replace(c, nullable=False) for c in plain.columns))
    assert described([plain])["t"].text is None
    assert described([plain], profiles=profile("t", rows=300))["t"].text == "At least 200 rows, no key is declared."
    assert described([filled])["t"].text == "One row for each sku."


def test_the_texts_are_short(table: Any) -> None:
    wide = table("t", ", ".join(f"d{n} date, price{n} int, c{n}_type text" for n in range(40)), key="d0")
    others = [table(f"u{n}", "id int, t date", t="t.d0") for n in range(9)]
    text = described([wide, *others])["t"].text or ""
    assert text.count(". ") == 2
    assert "dates: d0, d1, d2 and 37 more; measures:" in text.lower()
    assert text.endswith("eferenced by u0, u1, u2, u3, u4 and 4 more.")


def test_odd_names_are_quoted(table: Any) -> None:
    found = described(
        [table("Order Details", "id int, other text", key="id"), table("b", "x int", x="Order Details.id")]
    )
    assert found["b"].columns["x"] == 'References "Order Details" (id).'


@pytest.mark.table(
    ("text", "name", "repeats"),
    [
        ("Date.", "date", True),
        ("Date.", "OrderDate", True),
        ("Date and time.", "date", False),
        ("Unique.", "id", False),
    ],
)
def test_repeats_name(text: str, name: str, repeats: bool) -> None:
    assert repeats_name(text, name) is repeats
