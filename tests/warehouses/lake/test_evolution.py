"""Iceberg tables after any changes: ktx reads the rows that pyiceberg reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, IcebergType, IntegerType, ListType, LongType, StringType, StructType
from pyiceberg.types import NestedField as Field

from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect
from tests.warehouses.lake.tables import IcebergLake, data_files, delete_positions

NAMES = ("a", "b", "c", "d")
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("add"), st.sampled_from(NAMES), st.integers(0, 4)),
    st.tuples(st.just("drop"), st.sampled_from(NAMES)),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("widen"), st.sampled_from(NAMES)),
    st.tuples(st.just("inner"), st.sampled_from(NAMES), st.sampled_from(("x", "y", "z"))),
    st.tuples(st.just("first"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
)


def kind_of(number: int) -> IcebergType:
    inner = StructType(Field(101, "x", IntegerType()), Field(102, "y", StringType()))
    return (IntegerType(), StringType(), DoubleType(), inner, ListType(103, inner, element_required=False))[number]


def value_of(kind: pa.DataType, seed: int) -> Any:
    """Return a value of a type, or None for some."""
    if seed % 5 == 0:
        return None
    if pa.types.is_struct(kind):
        return {each.name: value_of(each.type, seed + at + 1) for at, each in enumerate(kind)}
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return [value_of(kind.value_type, seed + at) for at in range(seed % 3)]
    if pa.types.is_integer(kind):
        return seed
    return seed / 4 if pa.types.is_floating(kind) else f"text {seed}"


def apply(table: Table, step: tuple[Any, ...], seed: int) -> None:
    """Change a table, unless the change is not possible."""
    names = [each.name for each in table.schema().fields]
    what, own = step[0], step[1]
    if what == "append":
        schema = table.schema().as_arrow()
        rows = [{each.name: value_of(each.type, seed * 10 + at * 3) for each in schema} for at in range(own)]
        table.append(
            pa.Table.from_pylist([{**row, "id": seed * 100 + at} for at, row in enumerate(rows)], schema=schema)
        )
    elif what == "delete":
        files = data_files(table)
        if files:
            delete_positions(table, {files[own % len(files)]: [own % 3]})
    else:
        with table.update_schema() as update:
            if what == "add" and own not in names:
                update.add_column(own, kind_of(step[2]))
            elif what == "drop" and own in names:
                update.delete_column(own)
            elif what == "rename" and own in names and step[2] not in names:
                update.rename_column(own, step[2])
            elif what == "first" and own in names:
                update.move_first(own)
            elif what == "widen" and own in names and isinstance(table.schema().find_type(own), IntegerType):
                update.update_column(own, LongType())
            elif what == "inner" and own in names and isinstance(table.schema().find_type(own), StructType):
                inner = [each.name for each in table.schema().find_type(own).fields]
                if step[2] in inner and "w" not in inner:
                    update.rename_column(f"{own}.{step[2]}", "w")
                elif step[2] not in inner:
                    update.add_column((own, step[2]), StringType())


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=9))
def test_the_rows_are_those_of_the_library(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = IcebergLake(Path(folder) / "lake")
        start = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", kind_arrow())])
        table = lake.create("db.t", start)
        apply(table, ("append", 2), 1)
        for seed, step in enumerate(steps, start=2):
            apply(table, step, seed)
            table.refresh()
        expected = table.scan().to_arrow().sort_by("id").to_pylist()
        with connect(ConnectionSpec("shop", "iceberg", {"path": str(lake.folder)})) as connector:
            found = connector.query("SELECT * FROM db.t ORDER BY id")
        assert [dict(zip(found.columns, row, strict=True)) for row in found.rows] == expected


def kind_arrow() -> pa.DataType:
    return pa.struct([("x", pa.int32()), ("y", pa.string())])
