"""The record of stored columns: its file, what is kept from earlier scans, and what it changes in the manifest."""

from __future__ import annotations

import pytest

from ktx_cli.core import KtxError
from ktx_cli.scan.snapshot import (
    StoredColumn,
    carried_columns,
    read_stored_columns,
    restricted_columns,
    stored_columns_bytes,
    with_stored_columns,
)
from ktx_cli.warehouses.port import Column, SemanticType, StoredAs, Table, TableKind, TableRef

ORDERS, ITEMS = TableRef("shop", "orders"), TableRef(None, "items")
DAY = StoredColumn("day", StoredAs.ISO_DATE, 100)
AT = StoredColumn("created_at", StoredAs.EPOCH_SECONDS, 100, every_row=False)
MIXED = StoredColumn("due", StoredAs.ISO_DATE, 100, 2)
UNCLEAR = StoredColumn("written", None, 5)
STORED = {ITEMS: (UNCLEAR,), ORDERS: (DAY, AT, MIXED)}


def test_the_file_has_one_line_per_column_and_is_read_back() -> None:
    content = stored_columns_bytes(STORED)
    assert len(content.splitlines()) == 4 + 5
    assert read_stored_columns(content, "f") == STORED
    assert read_stored_columns(stored_columns_bytes({}), "f") == {}


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"format": 1}', b'{"format": 2, "columns": []}'])
def test_another_file_is_an_error(content: bytes) -> None:
    with pytest.raises(KtxError):
        read_stored_columns(content, "stored_columns.json")


def test_columns_that_are_gone_or_have_another_type_are_dropped() -> None:
    columns = (
        Column("day", "DATE", SemanticType.TIME),
        Column("created_at", "BIGINT", SemanticType.NUMBER),
        Column("written", "TEXT", SemanticType.STRING),
    )
    assert restricted_columns(STORED, [Table(ORDERS, TableKind.TABLE, columns)]) == {ORDERS: (AT,)}
    assert restricted_columns(STORED, []) == {}


def test_evidence_that_hardly_changed_is_kept() -> None:
    def after(found: StoredColumn) -> StoredColumn:
        return carried_columns({ORDERS: (found,)}, {ORDERS: (DAY,)})[ORDERS][0]

    assert after(StoredColumn("day", StoredAs.ISO_DATE, 110)) == DAY
    for changed in (
        StoredColumn("day", StoredAs.ISO_DATE, 200),
        StoredColumn("day", StoredAs.ISO_DATE, 100, 1),
        StoredColumn("day", StoredAs.ISO_TIMESTAMP, 100),
        StoredColumn("day", StoredAs.ISO_DATE, 100, every_row=False),
        StoredColumn("other", StoredAs.ISO_DATE, 100),
    ):
        assert after(changed) == changed


def test_the_manifest_has_the_type_and_the_form() -> None:
    names = ("id", "day", "created_at", "due", "written")
    entry = {"table": "orders", "columns": [{"name": name, "type": "string", "nullable": False} for name in names]}
    columns = {each["name"]: each for each in with_stored_columns(entry, (*STORED[ORDERS], UNCLEAR))["columns"]}
    assert list(columns) == list(names)
    assert columns["day"] == {
        "name": "day", "type": "time", "stored_as": "iso_date", "natural_granularity": "day", "nullable": False,
    }  # fmt: skip
    assert columns["created_at"]["stored_as"] == "epoch_seconds"
    for name in ("id", "due", "written"):
        assert columns[name] == {"name": name, "type": "string", "nullable": False}
