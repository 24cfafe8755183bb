from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ktx_cli.connectors.port import Column, SemanticType, Table, TableKind, TableRef
from ktx_cli.connectors.sampling import SampleMethod
from ktx_cli.context.scan.describe.facts import Described, Join, gather_facts
from ktx_cli.context.scan.describe.rules import describe_by_rules, repeats_name
from ktx_cli.context.scan.profiling.model import ColumnProfile, TableProfile, ValueKind


def described(tables: list[Table], **options: Any) -> dict[str, Described]:
    facts = gather_facts(tables, **{"profiles": {}, **options})
    return {each.ref.name: describe_by_rules(each) for each in facts}


SHOP_TEXTS = {
    "artist": "Lookup table of artist_id and name. Referenced by album.",
    "album": "One row for each album_id, with 3 columns. References artist. Referenced by track.",
    "playlist": "Lookup table of playlist_id and name. Referenced by playlist_track.",
    "track": "One row for each track_id, with 3 columns. References album. Referenced by playlist_track.",
    "playlist_track": "Links playlist and track: one row for each combination of playlist_id and track_id.",
    "employee": "One row for each employee_id, with 2 columns. Its rows reference each other.",
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


def test_rows_change_nothing(shop: list[Table]) -> None:
    column = ColumnProfile("name", ValueKind.TEXT, 3, distinct=2, top=(("AC/DC", 2),))
    ref = TableRef(None, "artist")
    profile = TableProfile(ref, SampleMethod.ALL, 3, 3, True, (column,))
    assert described(shop, profiles={ref: profile}) == described(shop)


def test_odd_names_are_quoted(table: Any) -> None:
    found = described(
        [table("Order Details", "id int, other text", key="id"), table("b", "x int", x="Order Details.id")]
    )
    assert found["b"].columns["x"] == 'References "Order Details" (id).'


@pytest.mark.parametrize(
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
