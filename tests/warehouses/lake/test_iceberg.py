"""Iceberg tables as years of changes leave them: the same rows as the library, or a sentence that says why not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, DoubleType, LongType, NestedField, StringType

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses.port import Connector, Scope, TableRef
from tests.warehouses.lake.tables import (
    IcebergLake,
    data_files,
    delete_by_value,
    delete_by_vector,
    delete_positions,
    rows_of,
)

Open = Callable[..., Connector]
PLAIN = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "lake")


def rows(connector: Connector, sql: str) -> list[tuple[Any, ...]]:
    return sorted(connector.query(sql).rows, key=repr)


def of_library(table: Table) -> list[tuple[Any, ...]]:
    """Return the rows that pyiceberg itself reads."""
    table.refresh()
    return sorted((tuple(each.values()) for each in table.scan().to_arrow().to_pylist()), key=repr)


def plain(lake: IcebergLake, count: int = 10) -> Table:
    return lake.append("db.t", rows_of(PLAIN, [(each, f"name {each}") for each in range(count)]))


def problem(connector: Connector) -> str:
    (found,) = connector.introspect(Scope()).problems
    return found.message


def test_columns_are_found_by_their_ids(lake: IcebergLake, opened: Open) -> None:
    """Renamed, widened, dropped, added, moved, and a new column with the name of a dropped one, at every level."""
    old = pa.schema([
        ("id", pa.int32()), ("a", pa.string()), ("f", pa.float32()), ("d", pa.decimal128(5, 2)),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("l", pa.list_(pa.struct([("k", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.int32())]))),
    ])  # fmt: skip
    first = (1, "old", 1.5, Decimal("1.25"), {"x": 1, "y": "p"}, [{"k": 7}, None], [("q", {"v": 3})])
    table = lake.append("db.t", rows_of(old, [first, (2, None, None, None, None, None, None)]))
    with table.update_schema() as update:
        update.rename_column("a", "b")
        update.update_column("id", LongType())
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(9, 2))
        update.rename_column("s.x", "z")
        update.rename_column("l.k", "kk")
        update.rename_column("m.v", "vv")
        update.add_column("added", StringType(), doc="what was added")
    with table.update_schema() as update:
        update.delete_column("b")
    with table.update_schema() as update:
        update.add_column("a", StringType())
        update.add_column(("s", "x"), DateType())
        update.move_first("a")
    new = {
        "a": "new", "id": 2**40, "f": 2.5, "d": Decimal("1234567.25"), "s": {"z": 5, "y": "q", "x": date(2026, 1, 1)},
        "l": [{"kk": 8}], "m": [("w", {"vv": 4})], "added": "x",
    }  # fmt: skip
    table.append(pa.Table.from_pylist([new], schema=table.schema().as_arrow()))
    connector = opened("iceberg", path=str(lake.folder))
    found = connector.introspect(Scope()).tables[0]
    assert [column.name for column in found.columns] == ["a", "id", "f", "d", "s", "l", "m", "added"]
    assert found.columns[3].native_type == "DECIMAL(9,2)"
    assert found.columns[4].native_type == 'STRUCT("z" INTEGER, "y" VARCHAR, "x" DATE)'
    assert found.columns[7].comment == "what was added"
    first_row, _, last_row = sorted(connector.query("SELECT * FROM db.t ORDER BY id").rows, key=lambda row: row[1])
    assert first_row == (
        None, 1, 1.5, Decimal("1.25"), {"z": 1, "y": "p", "x": None}, [{"kk": 7}, None], {"q": {"vv": 3}}, None,
    )  # fmt: skip
    assert last_row[:5] == ("new", 2**40, 2.5, Decimal("1234567.25"), {"z": 5, "y": "q", "x": date(2026, 1, 1)})
    assert [row[1:3] for row in connector.query("SELECT * FROM db.t WHERE a IS NULL ORDER BY id").rows] == [
        (1, 1.5),
        (2, None),
    ]


@pytest.mark.parametrize("delete", [delete_positions, delete_by_vector])
def test_deleted_rows_are_gone(delete: Callable[..., None], lake: IcebergLake, opened: Open) -> None:
    table = plain(lake)
    (first,) = data_files(table)
    table.append(rows_of(PLAIN, [(each, "later") for each in range(100, 103)]))
    (second,) = set(data_files(table)) - {first}
    delete(table, {first: [0, 3, 9], second: [1]})
    delete(table, {first: [0, 3, 4, 9]})
    table.append(rows_of(PLAIN, [(1000, "not deleted")]))
    connector = opened("iceberg", path=str(lake.folder))
    kept = [1, 2, 5, 6, 7, 8, 100, 102, 1000]
    assert [row[0] for row in connector.query("SELECT id FROM db.t ORDER BY id").rows] == kept
    assert connector.query("SELECT count(*) FROM db.t").rows == ((len(kept),),)
    assert [row[0] for row in connector.query("SELECT id FROM db.t WHERE id BETWEEN 2 AND 6 ORDER BY 1").rows] == [
        2,
        5,
        6,
    ]
    exact = None if delete is delete_positions else len(kept)
    assert connector.introspect(Scope()).tables[0].row_estimate == exact
    if delete is delete_positions:
        assert rows(connector, "SELECT * FROM db.t") == of_library(table)


def test_equality_deletes_are_a_problem(lake: IcebergLake, opened: Open) -> None:
    table = plain(lake)
    lake.append("db.other", rows_of(PLAIN, [(1, "x")]))
    delete_by_value(table, rows_of(PLAIN, [(3, "name 3")]).select(["id"]), [1])
    connector = opened("iceberg", path=str(lake.folder))
    schema = connector.introspect(Scope())
    assert [str(each.ref) for each in schema.tables] == ["db.other"]
    assert "equality deletes" in schema.problems[0].message
    with pytest.raises(SourceError, match="equality deletes"):
        connector.query("SELECT * FROM db.t")
    assert connector.query("SELECT id FROM db.other").rows == ((1,),)


def test_files_without_ids_need_a_name_mapping(lake: IcebergLake, opened: Open) -> None:
    table = lake.create("db.t", Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType())))
    place = lake.folder / "db/t/data"
    place.mkdir()
    pq.write_table(rows_of(PLAIN, [(5, "five")]), place / "x.parquet")
    table.add_files([f"file://{place}/x.parquet"])
    with table.update_schema() as update:
        update.rename_column("name", "title")
    assert opened("iceberg", path=str(lake.folder)).query("SELECT * FROM db.t").rows == ((5, "five"),)
    with table.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    assert problem(opened("iceberg", path=str(lake.folder))) == (
        "has a data file without field ids, and no name mapping for it"
    )


def test_partition_columns_may_be_missing_in_files(lake: IcebergLake, opened: Open) -> None:
    """Files of a Hive table have the values of partitions in their path alone."""
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "city", StringType()), NestedField(3, "day", DateType())
    )
    fields = [PartitionField(2, 1000, IdentityTransform(), "city"), PartitionField(3, 1001, IdentityTransform(), "day")]
    table = lake.create("db.t", schema, PartitionSpec(*fields))
    own = pa.schema([("id", pa.int64()), ("city", pa.string()), ("day", pa.date32())])
    cities = ["Oslo", "B[x]*?", "a'b/c=d %20", None]
    table.append(rows_of(own, [(at, city, date(2026, 1, at + 1)) for at, city in enumerate(cities)]))
    expected = of_library(table)
    connector = opened("iceberg", path=str(lake.folder))
    assert rows(connector, "SELECT * FROM db.t") == expected
    assert connector.introspect(Scope()).tables[0].indexes[0].columns == ("city", "day")
    for path in data_files(table):
        local = path.removeprefix("file://")
        pq.write_table(pq.read_table(local, partitioning=None).select(["id"]), local)
    connector = opened("iceberg", path=str(lake.folder))
    assert rows(connector, "SELECT * FROM db.t") == expected
    assert connector.query("SELECT id FROM db.t WHERE city = 'B[x]*?' AND day = DATE '2026-01-02'").rows == ((1,),)


def test_times_are_instants_whatever_the_zone_here(
    lake: IcebergLake, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    schema = pa.schema([("moment", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))])
    moment = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    lake.append("db.t", rows_of(schema, [(moment, datetime(2026, 3, 29, 2, 30))]))
    connector = opened("iceberg", path=str(lake.folder))
    assert connector.query("SELECT * FROM db.t").rows == ((moment, datetime(2026, 3, 29, 2, 30)),)
    found = connector.query("SELECT date_trunc('day', moment), moment::DATE FROM db.t").rows
    assert found == ((datetime(2026, 3, 29, tzinfo=UTC), date(2026, 3, 29)),)


def test_keys_comments_and_counts(lake: IcebergLake, opened: Open) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True, doc="The key"),
        NestedField(2, "name", StringType()),
        identifier_field_ids=[1],
    )
    lake.create("db.empty", schema, properties={"comment": "Nothing yet"})
    plain(lake, 7)
    empty, full = opened("iceberg", path=str(lake.folder)).introspect(Scope()).tables
    assert (empty.comment, empty.primary_key, empty.row_estimate) == ("Nothing yet", ("id",), 0)
    assert [(column.nullable, column.comment) for column in empty.columns] == [(False, "The key"), (True, None)]
    assert full.row_estimate == 7


def test_nested_namespaces_and_tables_at_the_root(lake: IcebergLake, opened: Open) -> None:
    lake.append("db.sales.eu.orders", rows_of(PLAIN, [(1, "x")]))
    plain(lake)
    (lake.folder / "db" / "t").rename(lake.folder / "root")
    connector = opened("iceberg", path=str(lake.folder))
    refs = [each.ref for each in connector.introspect(Scope()).tables]
    assert refs == [TableRef("db.sales.eu", "orders"), TableRef("main", "root")]
    assert connector.query('SELECT id FROM "db.sales.eu".orders').rows == ((1,),)
    assert connector.query("SELECT count(*) FROM root").rows == ((10,),)
    single = opened("iceberg", path=str(lake.folder / "root"))
    assert [each.ref for each in single.introspect(Scope()).tables] == [TableRef("main", "root")]


def test_a_moved_folder_is_read_where_it_is(lake: IcebergLake, opened: Open, tmp_path: Path) -> None:
    table = plain(lake)
    delete_positions(table, {data_files(table)[0]: [0]})
    shutil.copytree(lake.folder, tmp_path / "copy")
    plain(lake)  # The original goes on, and the copy does not read it.
    assert opened("iceberg", path=str(tmp_path / "copy")).query("SELECT count(*) FROM db.t").rows == ((9,),)
    lake.folder.rename(tmp_path / "moved")
    assert opened("iceberg", path=str(tmp_path / "moved")).query("SELECT count(*) FROM db.t").rows == ((19,),)


def test_files_elsewhere_are_refused(lake: IcebergLake, opened: Open, tmp_path: Path) -> None:
    table = plain(lake)
    (tmp_path / "outside").mkdir()
    path = Path(data_files(table)[0].removeprefix("file://"))
    outside = tmp_path / "outside" / "secret.parquet"
    path.rename(outside)
    path.symlink_to(outside)
    assert problem(opened("iceberg", path=str(lake.folder))).startswith("refers to a file outside the folder")
    path.unlink()
    other = lake.create("db.far", Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType())))
    other.add_files([f"file://{outside}"])
    schema = opened("iceberg", path=str(lake.folder)).introspect(Scope())
    assert schema.tables == ()
    far, missing = (each.message for each in schema.problems)
    assert far.startswith("refers to a file outside the folder")
    assert missing.startswith("refers to a missing file")


def metadata(lake: IcebergLake) -> Path:
    return max((lake.folder / "db/t/metadata").glob("*.metadata.json"))


def _broken(lake: IcebergLake) -> None:
    metadata(lake).write_text('{"format-version": 2, ')


def _future(lake: IcebergLake) -> None:
    found = json.loads(metadata(lake).read_text())
    metadata(lake).write_text(json.dumps({**found, "format-version": 9}))


def _twice(lake: IcebergLake) -> None:
    name = metadata(lake).name
    shutil.copy(metadata(lake), metadata(lake).with_name(f"{name[:6]}other.metadata.json"))


def _hint(lake: IcebergLake) -> None:
    metadata(lake).with_name("version-hint.text").write_text("7")


def _no_list(lake: IcebergLake) -> None:
    for path in (lake.folder / "db/t/metadata").glob("snap-*.avro"):
        path.unlink()


def _cut_list(lake: IcebergLake) -> None:
    for path in (lake.folder / "db/t/metadata").glob("*-m0.avro"):
        path.write_bytes(path.read_bytes()[:100])


def _cut_file(lake: IcebergLake) -> None:
    for path in (lake.folder / "db/t/data").glob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("damage", [_broken, _future, _twice, _hint, _no_list, _cut_list, _cut_file])
def test_a_broken_table_costs_only_itself(
    damage: Callable[[IcebergLake], None], lake: IcebergLake, opened: Open
) -> None:
    plain(lake)
    lake.append("db.other", rows_of(PLAIN, [(1, "x")]))
    damage(lake)
    connector = opened("iceberg", path=str(lake.folder))
    schema = connector.introspect(Scope())
    assert [str(each.ref) for each in schema.tables] == ["db.other"]
    (found,) = schema.problems
    assert (found.ref, found.what) == (TableRef("db", "t"), "table")
    assert connector.query("SELECT id FROM db.other").rows == ((1,),)
    assert connector.introspect(Scope(exclude=("t",))).problems == ()


def test_the_version_hint_of_a_table_without_catalog(lake: IcebergLake, opened: Open) -> None:
    plain(lake)
    plain(lake)
    names = sorted((lake.folder / "db/t/metadata").glob("*.metadata.json"))
    for number, path in enumerate(names):
        path.rename(path.with_name(f"v{number + 1}.metadata.json"))
    for hint, count in (("1", 20), ("2", 20), ("3", 20), ("v2.metadata.json", 10)):
        (lake.folder / "db/t/metadata/version-hint.text").write_text(hint)
        found = opened("iceberg", path=str(lake.folder)).query("SELECT count(*) FROM db.t").rows
        assert found == ((count,),), hint


def test_columns_that_differ_only_in_case(lake: IcebergLake, opened: Open) -> None:
    lake.append("db.t", rows_of(pa.schema([("a", pa.int64()), ("A", pa.int64())]), [(1, 2)]))
    assert "differ only in case" in problem(opened("iceberg", path=str(lake.folder)))


def test_a_snapshot_stays_the_same_until_the_connection_is_closed(lake: IcebergLake, opened: Open) -> None:
    plain(lake)
    lake.append("db.u", rows_of(PLAIN, [(1, "x")]))
    connector = opened("iceberg", path=str(lake.folder))
    assert connector.query("SELECT count(*) FROM db.t").rows == ((10,),)
    before = opened("iceberg", path=str(lake.folder)).evidence()  # type: ignore[attr-defined]
    plain(lake)
    assert connector.query("SELECT count(*) FROM db.t, db.u").rows == ((10,),)
    assert connector.introspect(Scope()).tables[0].row_estimate == 10
    again = opened("iceberg", path=str(lake.folder))
    assert again.query("SELECT count(*) FROM db.t").rows == ((20,),)
    assert again.evidence() != before  # type: ignore[attr-defined]


class TestSqlCatalog:
    def options(self, lake: IcebergLake) -> dict[str, Any]:
        return {"catalog": "sql", "uri": lake.uri, "catalog_name": "lake", "warehouse": f"file://{lake.folder}"}

    def test_a_catalog_knows_its_tables(self, lake: IcebergLake, opened: Open) -> None:
        plain(lake)
        lake.append("db.inner.u", rows_of(PLAIN, [(1, "x")]))
        connector = opened("iceberg", **self.options(lake))
        assert {str(each.ref) for each in connector.introspect(Scope()).tables} == {"db.t", "db.inner.u"}
        assert connector.query("SELECT count(*) FROM db.t").rows == ((10,),)

    def test_a_missing_catalog_is_not_made(self, lake: IcebergLake, opened: Open) -> None:
        options = {**self.options(lake), "uri": f"sqlite:///{lake.folder}/none.db"}
        with pytest.raises(SourceError, match="does not exist"):
            opened("iceberg", **options)
        assert not (lake.folder / "none.db").exists()

    def test_files_outside_a_table_are_refused(self, lake: IcebergLake, opened: Open, tmp_path: Path) -> None:
        table = lake.create("db.t", Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType())))
        pq.write_table(rows_of(PLAIN, [(1, "x")]), tmp_path / "outside.parquet")
        table.add_files([f"file://{tmp_path}/outside.parquet"])
        assert problem(opened("iceberg", **self.options(lake))).startswith("refers to a file outside its location")


def test_either_a_folder_or_a_catalog(opened: Open) -> None:
    for options in ({}, {"path": ".", "catalog": "rest"}):
        with pytest.raises(ConfigError, match="either `path` or `catalog`"):
            opened("iceberg", **options)
