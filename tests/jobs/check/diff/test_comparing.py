"""Every difference of two structures is a change, and nothing else is."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from ktx_cli.jobs.check.diff import changes_between
from ktx_cli.scan.snapshot import table_file
from ktx_cli.warehouses.port import Column, ForeignKey, Index, SemanticType, Table, TableKind, TableRef, UniqueKey

ID = Column("id", "INTEGER", SemanticType.NUMBER, nullable=False)
AT = Column("at", "DATE", SemanticType.TIME)
ORDERS = TableRef("shop", "orders")
BEFORE = Table(
    ORDERS,
    TableKind.TABLE,
    (ID, AT),
    primary_key=("id",),
    foreign_keys=(ForeignKey(("id",), TableRef("shop", "other"), ("id",)),),
    unique_keys=(UniqueKey(("at",), "once"),),
    indexes=(Index(("at",), "by_day"),),
)
TEXT = SemanticType.STRING

CASES: list[tuple[dict[str, Any], dict[str, tuple[str | None, str | None]]]] = [
    ({}, {}),
    ({"kind": TableKind.VIEW}, {"table_kind_changed": ("table", "view")}),
    ({"comment": "One row per order"}, {"table_comment_changed": (None, "One row per order")}),
    ({"view_sql": "SELECT 1"}, {"view_definition_changed": (None, "SELECT 1")}),
    ({"columns": (ID,)}, {"column_removed": ("DATE (time)", None)}),
    ({"columns": (ID, AT, replace(AT, name="day"))}, {"column_added": (None, "DATE (time)")}),
    (
        {"columns": (ID, replace(AT, name="day"))},
        {"column_removed": ("DATE (time)", None), "column_added": (None, "DATE (time)")},
    ),
    ({"columns": (AT, ID)}, {"column_order_changed": ("id, at", "at, id")}),
    (
        {"columns": (ID, replace(AT, native_type="TEXT", type=TEXT))},
        {"column_type_changed": ("DATE (time)", "TEXT (string)")},
    ),
    (
        {"columns": (replace(ID, native_type="BIGINT"), AT)},
        {"column_type_changed": ("INTEGER (number)", "BIGINT (number)")},
    ),
    ({"columns": (replace(ID, nullable=True), AT)}, {"column_nullable_changed": ("not null", "nullable")}),
    ({"columns": (ID, replace(AT, comment="Day"))}, {"column_comment_changed": (None, "Day")}),
    ({"columns": (ID, replace(AT, default="now()"))}, {"column_default_changed": (None, "now()")}),
    ({"columns": (ID, replace(AT, generated=True))}, {"column_generated_changed": (None, "generated")}),
    ({"columns": (ID, replace(AT, values=("a", "b")))}, {"column_values_changed": (None, "a, b")}),
    ({"primary_key": ()}, {"primary_key_changed": ("id", None)}),
    ({"primary_key": ("id", "at")}, {"primary_key_changed": ("id", "id, at")}),
    ({"foreign_keys": ()}, {"foreign_key_removed": ("shop.other (id)", None)}),
    (
        {"foreign_keys": (ForeignKey(("id",), TableRef("shop", "new"), ("id",), "fk"),)},
        {"foreign_key_removed": ("shop.other (id)", None), "foreign_key_added": (None, "shop.new (id) (fk)")},
    ),
    ({"unique_keys": ()}, {"unique_key_removed": ("(at) once", None)}),
    ({"unique_keys": (UniqueKey(("at",), "once"), UniqueKey(("id", "at")))}, {"unique_key_added": (None, "(id, at)")}),
    ({"indexes": ()}, {"index_removed": ("(at) by_day", None)}),
    ({"indexes": (Index(("at",), "by_day"), Index(("id",)))}, {"index_added": (None, "(id)")}),
    ({"row_estimate": 12}, {}),
]


@pytest.mark.table(("changed", "wanted"), CASES)
def test_each_difference_is_told_and_there_is_none_where_snapshots_are_equal(
    changed: dict[str, Any], wanted: dict[str, tuple[str | None, str | None]]
) -> None:
    now = replace(BEFORE, **changed)
    found = changes_between([BEFORE], [now])
    assert {each.kind.value: (each.before, each.after) for each in found} == wanted
    assert len(found) == len(wanted)
    assert bool(found) is (table_file(BEFORE).sha256 != table_file(now).sha256)


def test_every_field_of_a_table_and_a_column_is_in_a_case() -> None:
    told = {name for changed, _ in CASES for name in changed}
    assert told == {each.name for each in fields(Table)} - {"ref"}
    columns = [each for changed, _ in CASES for each in changed.get("columns", ())]
    for name in {each.name for each in fields(Column)}:
        assert any(getattr(each, name) not in (getattr(ID, name), getattr(AT, name)) for each in columns) or (
            name in ("nullable", "type")
        )


def test_tables_come_and_go_in_their_order() -> None:
    before = [Table(TableRef("b", "x"), TableKind.VIEW, (ID,)), BEFORE]
    now = [BEFORE, Table(TableRef("a", "x"), TableKind.TABLE, (ID, AT))]
    found = changes_between(before, now)
    assert [(each.kind.value, each.what, each.before, each.after) for each in found] == [
        ("table_added", "a.x", None, "table of 2 columns"),
        ("table_removed", "b.x", "view of 1 column", None),
    ]


def test_of_a_manifest_only_names_and_known_types_are_compared() -> None:
    known = Table(
        ORDERS,
        TableKind.TABLE,
        (Column("id", "", TEXT), Column("at", "string", TEXT), Column("gone", "number", SemanticType.NUMBER)),
    )
    found = changes_between([known], [replace(BEFORE, kind=TableKind.VIEW)], names_only=True)
    assert [(each.kind.value, each.what, each.before, each.after) for each in found] == [
        ("column_removed", "shop.orders.gone", "number", None),
        ("column_type_changed", "shop.orders.at", "string", "time"),
    ]
