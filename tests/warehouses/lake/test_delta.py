"""Delta tables as years of changes leave them: exactly their live rows, or a sentence that says why not."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.port import Connector, Scope, TableRef
from tests.warehouses.lake.tables import rows_of

Open = Callable[..., Connector]
PLAIN = pa.schema([("id", pa.int64()), ("name", pa.string())])
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def plain(lake: Path, count: int = 10, **options: Any) -> None:
    rows = rows_of(PLAIN, [(each, f"name {each}") for each in range(count)])
    write_deltalake(lake / "db" / "t", rows, mode="append", **options)


def problem(connector: Connector) -> str:
    (found,) = connector.introspect(Scope()).problems
    return found.message


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def mapped(name: str, kind: Any, number: int) -> dict[str, Any]:
    own = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": own}


def by_hand(
    folder: Path,
    fields: Sequence[dict[str, Any]],
    files: Sequence[dict[str, Any]],
    *,
    features: Sequence[str] = (),
    partitions: Sequence[str] = (),
    configuration: dict[str, str] | None = None,
) -> None:
    """Write the log of a table with features that deltalake cannot write. `files`: the `add` actions."""
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        own = {"readerFeatures": list(features), "writerFeatures": list(features)}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **own}
    metadata = {
        "id": "3f1e", "format": {"provider": "parquet", "options": {}}, "partitionColumns": list(partitions),
        "schemaString": json.dumps({"type": "struct", "fields": list(fields)}), "createdTime": 1,
        "configuration": configuration or {},
    }  # fmt: skip
    added = [{"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, **each} for each in files]
    actions = [{"protocol": protocol}, {"metaData": metadata}, *({"add": each} for each in added)]
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def deleted_bytes(positions: Sequence[int]) -> bytes:
    """Return the bytes of a deletion vector."""
    return struct.pack("<I", 1681511377) + BitMap64(positions).serialize()


def vector(positions: Sequence[int]) -> dict[str, Any]:
    """Return a deletion vector inside the log."""
    body = deleted_bytes(positions)
    padded = body + bytes(-len(body) % 4)
    text = ""
    for start in range(0, len(padded), 4):
        number, digits = int.from_bytes(padded[start : start + 4], "big"), ""
        for _ in range(5):
            digits, number = _Z85[number % 85] + digits, number // 85
        text += digits
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(body), "cardinality": len(positions)}


def test_columns_are_added_later(lake: Path, opened: Open) -> None:
    plain(lake, 1)
    later = pa.table({
        "id": [5], "extra": [Decimal("1.50")], "s": pa.array([{"a": 1}], pa.struct([("a", pa.int64())])),
    })  # fmt: skip
    write_deltalake(lake / "db/t", later, mode="append", schema_mode="merge")
    last = pa.table(
        {"id": [6], "s": pa.array([{"a": 2, "b": "x"}], pa.struct([("a", pa.int64()), ("b", pa.string())]))}
    )
    write_deltalake(lake / "db/t", last, mode="append", schema_mode="merge")
    connector = opened("delta", path=str(lake))
    assert connector.query("SELECT * FROM db.t ORDER BY id").rows == (
        (0, "name 0", None, None),
        (5, None, Decimal("1.50"), {"a": 1, "b": None}),
        (6, None, None, {"a": 2, "b": "x"}),
    )
    assert connector.introspect(Scope()).tables[0].row_estimate == 3


def test_columns_are_found_by_their_physical_names(lake: Path, opened: Open) -> None:
    """The table's `id` was `name` once, and the other way round."""

    def inner(number: int) -> dict[str, Any]:
        return {"type": "struct", "fields": [mapped("x", "long", number), mapped("y", "string", number + 1)]}

    listed = {"type": "array", "elementType": inner(21), "containsNull": True}
    keyed = {"type": "map", "keyType": "string", "valueType": inner(31), "valueContainsNull": True}
    fields = [
        mapped("id", "long", 1), mapped("name", "string", 2), mapped("s", inner(11), 3), mapped("l", listed, 6),
        mapped("m", keyed, 7), mapped("later", "date", 8), mapped("day", "date", 9),
    ]  # fmt: skip
    pairs = pa.map_(pa.string(), pa.struct([("col-31", pa.int64()), ("col-32", pa.string())]))
    rows = {
        "col-1": [1, 2], "col-2": ["a", "b"], "col-3": [{"col-11": 7, "col-12": "z"}, None],
        "col-6": [[{"col-21": 7, "col-22": "z"}], None],
        "col-7": pa.array([[("k", {"col-31": 7, "col-32": "z"})], None], pairs), "id": ["not", "this"],
    }  # fmt: skip
    files = [{"path": "f%201.parquet", "partitionValues": {"col-9": "2026-01-31"}}]
    options = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "32"}
    by_hand(lake / "t", fields, files, features=["columnMapping"], partitions=["day"], configuration=options)
    pq.write_table(pa.table(rows), lake / "t" / "f 1.parquet")
    connector = opened("delta", path=str(lake))
    own = {"x": 7, "y": "z"}
    assert connector.query("SELECT * FROM t ORDER BY id").rows == (
        (1, "a", own, [own], {"k": own}, None, date(2026, 1, 31)),
        (2, "b", None, None, None, None, date(2026, 1, 31)),
    )
    assert connector.introspect(Scope()).tables[0].columns[2].native_type == 'STRUCT("x" BIGINT, "y" VARCHAR)'


def test_columns_are_found_by_their_ids(lake: Path, opened: Open) -> None:
    """The names in the file are those of another program."""
    options = {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "2"}
    fields = [mapped("id", "long", 1), mapped("name", "string", 2)]
    by_hand(lake / "t", fields, [{"path": "a.parquet"}], features=["columnMapping"], configuration=options)
    own = [pa.field("x", pa.string(), metadata={"PARQUET:field_id": "2"}),
           pa.field("col-2", pa.int64(), metadata={"PARQUET:field_id": "1"})]  # fmt: skip
    pq.write_table(rows_of(pa.schema(own), [("one", 1)]), lake / "t" / "a.parquet")
    assert opened("delta", path=str(lake)).query("SELECT * FROM t").rows == ((1, "one"),)
    inner = {"type": "struct", "fields": [mapped("x", "long", 3)]}
    options["delta.columnMapping.maxColumnId"] = "3"
    by_hand(
        lake / "u", [mapped("s", inner, 1)], [{"path": "a.parquet"}], features=["columnMapping"], configuration=options
    )
    (lake / "u" / "a.parquet").touch()
    assert "by id" in problem(opened("delta", path=str(lake)))


def test_deleted_rows_are_gone(lake: Path, opened: Open) -> None:
    fields = [field("id", "long"), field("name", "string")]
    files = [
        {"path": "a.parquet", "deletionVector": vector([0, 3, 9]), "stats": '{"numRecords": 10}'},
        {"path": "b.parquet", "stats": '{"numRecords": 10}'},
    ]
    by_hand(lake / "t", fields, files, features=["deletionVectors"])
    for name, start in (("a", 0), ("b", 100)):
        rows = [(each, f"name {each}") for each in range(start, start + 10)]
        pq.write_table(rows_of(PLAIN, rows), lake / "t" / f"{name}.parquet", row_group_size=3)
    connector = opened("delta", path=str(lake))
    kept = [1, 2, 4, 5, 6, 7, 8, *range(100, 110)]
    assert [row[0] for row in connector.query("SELECT id FROM t ORDER BY id").rows] == kept
    assert [row[0] for row in connector.query("SELECT id FROM t WHERE id > 7 AND id < 101 ORDER BY id").rows] == [
        8,
        100,
    ]
    assert connector.introspect(Scope()).tables[0].row_estimate == 17


def test_rows_that_deltalake_deletes_and_updates(lake: Path, opened: Open) -> None:
    plain(lake)
    table = DeltaTable(lake / "db/t")
    table.delete("id IN (1, 2)")
    table.update(predicate="id = 3", new_values={"name": "x"})
    table.optimize.compact()
    connector = opened("delta", path=str(lake))
    assert connector.query("SELECT count(*), count(*) FILTER (name = 'x') FROM db.t").rows == ((8, 1),)
    assert connector.introspect(Scope()).tables[0].row_estimate == 8


PARTITIONS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["Oslo", "a b/c=d%20", "B[x]*?", "it's", "é", None]),
    (pa.int32(), [1, -5, None]),
    (pa.bool_(), [True, False, None]),
    (pa.date32(), [date(2026, 1, 31), None]),
    (pa.decimal128(9, 2), [Decimal("1.50"), None]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 3, 29, 1, 30, tzinfo=UTC), None]),
    (pa.float64(), [0.1, None]),
]


@pytest.mark.parametrize(("kind", "values"), PARTITIONS, ids=[str(kind) for kind, _ in PARTITIONS])
def test_partition_values(kind: pa.DataType, values: list[Any], lake: Path, opened: Open) -> None:
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "part": pa.array(values, kind)})
    write_deltalake(lake / "t", rows, partition_by=["part"])
    connector = opened("delta", path=str(lake))
    assert connector.query("SELECT * FROM t ORDER BY id").rows == tuple(enumerate(values))
    assert connector.query("SELECT id FROM t WHERE part = ?", [values[0]]).rows == ((0,),)
    table = connector.introspect(Scope()).tables[0]
    assert (table.indexes[0].columns, table.row_estimate) == (("part",), len(values))


def test_many_partitions_with_deleted_rows(lake: Path, opened: Open) -> None:
    names = [f"it's {each}" if each else None for each in range(40)]
    files: list[dict[str, Any]] = [
        {"path": f"{at}.parquet", "partitionValues": {"part": name, "day": None}, "stats": '{"numRecords": 2}'}
        for at, name in enumerate(names)
    ]
    files[7]["deletionVector"] = vector([1])
    fields = [field("part", "string"), field("id", "long"), field("day", "date")]
    by_hand(lake / "t", fields, files, features=["deletionVectors"], partitions=["part", "day"])
    for at in range(len(names)):
        pq.write_table(pa.table({"id": [at, at + 100]}), lake / "t" / f"{at}.parquet")
    connector = opened("delta", path=str(lake))
    found = connector.query("SELECT id, part, day FROM t ORDER BY id").rows
    assert found == tuple(
        (at + more, name, None) for more in (0, 100) for at, name in enumerate(names) if at + more != 107
    )
    assert connector.query("SELECT id FROM t WHERE part = 'it''s 7'").rows == ((7,),)
    assert connector.query("SELECT id FROM t WHERE part IS NULL AND day IS NULL ORDER BY 1").rows == ((0,), (100,))
    assert "Scanning Files: 1/" in connector.query("EXPLAIN SELECT id FROM t WHERE part = 'it''s 5'").rows[0][1]
    assert connector.introspect(Scope()).tables[0].row_estimate == 79


def test_a_table_of_partition_columns_alone(lake: Path, opened: Open) -> None:
    by_hand(
        lake / "t",
        [field("part", "string")],
        [{"path": "a.parquet", "partitionValues": {"part": "x"}}],
        partitions=["part"],
    )
    pq.write_table(pa.table({"unused": [1, 2, 3]}), lake / "t" / "a.parquet")
    assert opened("delta", path=str(lake)).query("SELECT part, count(*) FROM t GROUP BY 1").rows == (("x", 3),)


def test_times_are_instants_whatever_the_zone_here(lake: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timestamp of Spark is stored without its zone, in UTC."""
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    by_hand(lake / "t", [field("moment", "timestamp"), field("plain", "timestamp_ntz")], [{"path": "a.parquet"}],
            features=["timestampNtz"])  # fmt: skip
    moment = datetime(2026, 3, 29, 1, 30)
    own = pa.table({"moment": pa.array([moment], pa.timestamp("ns")), "plain": pa.array([moment], pa.timestamp("us"))})
    pq.write_table(own, lake / "t" / "a.parquet", use_deprecated_int96_timestamps=True)
    connector = opened("delta", path=str(lake))
    assert connector.query("SELECT * FROM t").rows == ((moment.replace(tzinfo=UTC), moment),)
    assert connector.query("SELECT strftime(moment, '%d %H') FROM t").rows == (("29 01",),)


def test_types_become_wider(lake: Path, opened: Open) -> None:
    fields = [field("a", "long"), field("b", "double"), field("c", "decimal(12,2)")]
    by_hand(lake / "t", fields, [{"path": "a.parquet"}], features=["typeWidening"])
    schema = pa.schema([("a", pa.int32()), ("b", pa.float32()), ("c", pa.decimal128(5, 2))])
    pq.write_table(rows_of(schema, [(1, 1.5, Decimal("1.25"))]), lake / "t" / "a.parquet")
    assert opened("delta", path=str(lake)).query("SELECT * FROM t").rows == ((1, 1.5, Decimal("1.25")),)


def test_comments_defaults_and_generated_columns(lake: Path, opened: Open) -> None:
    fields = [
        field("id", "long", comment="The key"),
        field("kind", "string", CURRENT_DEFAULT="'new'"),
        field("day", "date", **{"delta.generationExpression": "CAST(at AS DATE)"}),
    ]
    by_hand(lake / "t", fields, [])
    (table,) = opened("delta", path=str(lake)).introspect(Scope()).tables
    found = [(column.comment, column.default, column.generated) for column in table.columns]
    assert found == [("The key", None, False), (None, "'new'", False), (None, None, True)]
    assert table.row_estimate == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../outside.parquet", "refers to a file outside the folder"),
        ("{outside}", "refers to a file outside the folder"),
        ("file://{outside}", "refers to a file outside the folder"),
        ("s3://bucket/outside.parquet", "refers to a file outside the folder"),
        ("missing.parquet", "refers to a missing file"),
    ],
)
def test_files_elsewhere_are_refused(path: str, message: str, tmp_path: Path, opened: Open) -> None:
    outside = tmp_path / "outside.parquet"
    pq.write_table(rows_of(PLAIN, [(1, "secret")]), outside)
    by_hand(tmp_path / "lake", [field("id", "long")], [{"path": path.replace("{outside}", str(outside))}])
    assert message in problem(opened("delta", path=str(tmp_path / "lake")))


def _broken(table: Path) -> None:
    (table / "_delta_log" / f"{0:020}.json").write_text('{"add": ')


def _empty(table: Path) -> None:
    (table / "_delta_log" / f"{0:020}.json").unlink()


def _feature(table: Path) -> None:
    log = table / "_delta_log" / f"{0:020}.json"
    features = {"readerFeatures": ["futureThing"], "writerFeatures": ["futureThing"]}
    new = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    lines = log.read_text().splitlines()
    log.write_text("\n".join(json.dumps({"protocol": new}) if '"protocol"' in each else each for each in lines))


def _cut_file(table: Path) -> None:
    for path in table.glob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("damage", [_broken, _empty, _feature, _cut_file])
def test_a_broken_table_costs_only_itself(damage: Callable[[Path], None], lake: Path, opened: Open) -> None:
    plain(lake)
    write_deltalake(lake / "db" / "other", rows_of(PLAIN, [(1, "x")]))
    damage(lake / "db" / "t")
    connector = opened("delta", path=str(lake))
    schema = connector.introspect(Scope())
    if damage is not _cut_file:  # Its structure is in the log, and only reading it shows the damage.
        assert [str(each.ref) for each in schema.tables] == ["db.other"]
        (found,) = schema.problems
        assert (found.ref, found.what) == (TableRef("db", "t"), "table")
    with pytest.raises(SourceError):
        connector.query("SELECT * FROM db.t")
    assert connector.query("SELECT id FROM db.other").rows == ((1,),)


def test_a_snapshot_stays_the_same_until_the_connection_is_closed(lake: Path, opened: Open) -> None:
    plain(lake)
    connector = opened("delta", path=str(lake))
    before = connector.evidence()  # type: ignore[attr-defined]
    assert connector.query("SELECT count(*) FROM db.t").rows == ((10,),)
    plain(lake)
    assert connector.query("SELECT count(*) FROM db.t").rows == ((10,),)
    again = opened("delta", path=str(lake))
    assert again.evidence() != before  # type: ignore[attr-defined]
    assert again.query("SELECT count(*) FROM db.t").rows == ((20,),)


def test_a_checkpoint_replaces_the_log(lake: Path, opened: Open) -> None:
    for _ in range(3):
        plain(lake)
    DeltaTable(lake / "db/t").create_checkpoint()
    for path in (lake / "db/t/_delta_log").glob("*.json"):
        path.unlink()
    assert opened("delta", path=str(lake)).query("SELECT count(*) FROM db.t").rows == ((30,),)


def test_a_table_alone(lake: Path, opened: Open) -> None:
    plain(lake)
    connector = opened("delta", path=str(lake / "db" / "t"))
    assert [each.ref for each in connector.introspect(Scope()).tables] == [TableRef("main", "t")]
    assert connector.query("SELECT count(*) FROM t").rows == ((10,),)
