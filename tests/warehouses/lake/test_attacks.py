"""Tables, catalogs and folders that somebody else prepared: they open no other file and need little memory."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.delta.log import LOG
from ktx_cli.warehouses.iceberg import folder as iceberg_folder
from ktx_cli.warehouses.port import Connector, Scope
from tests.warehouses.lake.tables import IcebergLake, data_files, rows_of
from tests.warehouses.lake.test_delta import PLAIN, by_hand, deleted_bytes, field

Open = Callable[..., Connector]
SECRET = "DB_PASSWORD=hunter2"


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    """Iceberg tables, with the table `db.t` of one row."""
    found = IcebergLake(tmp_path / "lake")
    found.append("db.t", rows_of(PLAIN, [(1, "one")]))
    return found


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.env"
    path.write_text(f"{SECRET}\n")
    return path


def problems(connector: Connector) -> list[str]:
    found = [each.message for each in connector.introspect(Scope()).problems]
    assert SECRET not in repr(found)
    return found


def _link(hint: Path, secret: Path) -> None:
    hint.symlink_to(secret)


def _device(hint: Path, secret: Path) -> None:
    hint.symlink_to("/dev/zero")


def _pipe(hint: Path, secret: Path) -> None:
    os.mkfifo(hint)


def _secret(hint: Path, secret: Path) -> None:
    hint.write_text(secret.read_text())


def _large(hint: Path, secret: Path) -> None:
    hint.write_bytes(b"1" * 2**20)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (_link, "has a version hint that is a link to a target outside the folder"),
        (_device, "has a version hint that is a link to a target outside the folder"),
        (_pipe, "has a version hint that is not a regular file"),
        (_secret, "has a version hint that does not contain a version"),
        (_large, "has a version hint that does not contain a version"),
    ],
)
def test_a_version_hint(
    prepare: Callable[[Path, Path], None], message: str, lake: IcebergLake, secret: Path, opened: Open
) -> None:
    prepare(lake.folder / "db/t/metadata/version-hint.text", secret)
    assert problems(opened("iceberg", path=str(lake.folder))) == [message]


def catalog(lake: IcebergLake, **own: Any) -> dict[str, Any]:
    return {"catalog": "sql", "uri": lake.uri, "catalog_name": "lake", "warehouse": f"file://{lake.folder}", **own}


def locate(lake: IcebergLake, location: str) -> None:
    """Let the catalog name another metadata file for `db.t`."""
    with sqlite3.connect(lake.database) as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (location,))


@pytest.mark.parametrize("form", ["file://{}", "FILE:{}", "{}", "file://{folder}/../{name}"])
def test_a_catalog_that_names_a_local_file(form: str, lake: IcebergLake, secret: Path, opened: Open) -> None:
    locate(lake, form.format(secret, folder=lake.folder, name=secret.name))
    (found,) = problems(opened("iceberg", **catalog(lake)))
    assert found.startswith("refers to a file outside the warehouse")
    (found,) = problems(opened("iceberg", **catalog(lake, warehouse=None)))
    assert "`warehouse` of the connection is not a local folder" in found


def test_a_file_in_the_warehouse_is_not_quoted(lake: IcebergLake, opened: Open) -> None:
    (lake.folder / "x.metadata.json").write_text(f"{SECRET}\n")
    locate(lake, f"file://{lake.folder}/x.metadata.json")
    (found,) = problems(opened("iceberg", **catalog(lake)))
    assert "Invalid JSON" in found
    (lake.folder / "db/t/metadata/99999-x.metadata.json").write_text(f"{SECRET}\n")
    (found,) = problems(opened("iceberg", path=str(lake.folder)))
    assert "Invalid JSON" in found


def rewrite(lake: IcebergLake, **changes: Any) -> None:
    """Change the current metadata of `db.t`."""
    path = max((lake.folder / "db/t/metadata").glob("*.metadata.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("place", ["location", "write.data.path"])
def test_a_table_that_says_it_is_elsewhere(place: str, lake: IcebergLake, tmp_path: Path, opened: Open) -> None:
    (data,) = (lake.folder / "db/t/data").glob("*.parquet")
    data.rename(tmp_path / data.name)
    data.symlink_to(tmp_path / data.name)
    rewrite(lake, **({place: f"file://{tmp_path}"} if place == "location" else {"properties": {place: str(tmp_path)}}))
    (found,) = problems(opened("iceberg", **catalog(lake)))
    assert found.startswith("refers to a file outside the warehouse")


def test_a_table_cannot_name_code(lake: IcebergLake, opened: Open) -> None:
    rewrite(lake, properties={"py-io-impl": "tests.warehouses.lake.nothing.Nothing", "ktx.local-root": "/"})
    assert opened("iceberg", **catalog(lake)).query("SELECT * FROM db.t").rows == ((1, "one"),)


@pytest.mark.parametrize("name", ["99999-x.gz.metadata.json", "99999-x.metadata.json.gz", "99999-x.metadata.json"])
@pytest.mark.parametrize("in_catalog", [False, True])
def test_a_large_metadata_file(
    name: str, in_catalog: bool, lake: IcebergLake, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_folder, "MOST_METADATA", 2**20)
    path = lake.folder / "db/t/metadata" / name
    content = b'{"format-version": 2, "x": "' + b" " * 2**21 + b'"}'
    path.write_bytes(gzip.compress(content) if ".gz" in name else content)
    locate(lake, f"file://{path}")
    options = catalog(lake) if in_catalog else {"path": str(lake.folder)}
    assert problems(opened("iceberg", **options)) == ["has a metadata file of more than 1 MB"]


@pytest.mark.parametrize("name", ["99999-x.gz.metadata.json", "99999-x.metadata.json.gz"])
def test_compressed_metadata(name: str, lake: IcebergLake, opened: Open) -> None:
    path = max((lake.folder / "db/t/metadata").glob("*.metadata.json"))
    content = gzip.compress(path.read_bytes())
    path.with_name(name).write_bytes(content)
    assert opened("iceberg", path=str(lake.folder)).query("SELECT * FROM db.t").rows == ((1, "one"),)
    path.with_name(name).write_bytes(content[:-20])
    assert problems(opened("iceberg", path=str(lake.folder))) == ["has a compressed metadata file that is damaged"]


def test_a_pipe_among_the_metadata(lake: IcebergLake, opened: Open) -> None:
    for path in (lake.folder / "db/t/metadata").glob("snap-*.avro"):
        path.unlink()
        os.mkfifo(path)
    (found,) = problems(opened("iceberg", path=str(lake.folder)))
    assert found.startswith("refers to a path that is not a regular file")


def test_an_iceberg_table_does_not_read_another_one(lake: IcebergLake, opened: Open) -> None:
    (file,) = data_files(lake.catalog.load_table("db.t"))
    other = lake.append("db.other", rows_of(PLAIN, [(2, "two")]))
    other.add_files([file])
    connector = opened("iceberg", path=str(lake.folder))
    (found,) = problems(connector)
    assert found.startswith("refers to a file outside the folder")
    with pytest.raises(SourceError):
        connector.query("SELECT * FROM db.other")
    (found,) = problems(opened("iceberg", **catalog(lake)))
    assert found.startswith("refers to a file outside its location")


def by_path(location: str) -> dict[str, Any]:
    """Return a deletion vector in a file."""
    return {"storageType": "p", "pathOrInlineDv": location, "sizeInBytes": 30, "cardinality": 1, "offset": 1}


def with_vector(table: Path, vector: dict[str, Any]) -> None:
    file = {"path": "a.parquet", "deletionVector": vector, "stats": '{"numRecords": 2}'}
    by_hand(table, [field("id", "long")], [file], features=["deletionVectors"])
    pq.write_table(pa.table({"id": [1, 2]}), table / "a.parquet")


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("file://{outside}", "has a deletion vector outside its folder"),
        ("FILE:{outside}", "has a deletion vector outside its folder"),
        ("{outside}", "has a deletion vector outside its folder"),
        ("../outside.bin", "has a deletion vector outside its folder"),
        ("file://{table}/..\\outside.bin", "has a deletion vector outside its folder"),
        ("file://{table}/.\t./outside.bin", "has a deletion vector outside its folder"),
        ("%2e%2e/outside.bin", "has a deletion vector outside its folder"),
        ("s3://bucket/x.bin", "has a deletion vector outside its folder"),
        ("file://{table}/link.bin", "has a deletion vector outside its folder"),
        ("file://{table}/pipe.bin", "has a deletion vector that is not a regular file"),
    ],
)
def test_a_deletion_vector_elsewhere(location: str, message: str, tmp_path: Path, opened: Open) -> None:
    outside, table = tmp_path / "lake" / "outside.bin", tmp_path / "lake" / "t"
    with_vector(table, by_path(location.format(outside=outside, table=table)))
    os.mkfifo(outside)
    os.mkfifo(table / "pipe.bin")
    (table / "link.bin").symlink_to(outside)
    (found,) = problems(opened("delta", path=str(tmp_path / "lake")))
    assert found.startswith(message)


def test_a_deletion_vector_that_is_named_by_a_uuid(tmp_path: Path, opened: Open) -> None:
    """The prefix of its name is a folder."""
    table = tmp_path / "lake" / "t"
    with_vector(table, {**by_path("../x" + "0" * 20), "storageType": "u"})
    (found,) = problems(opened("delta", path=str(tmp_path / "lake")))
    assert found.startswith("has a deletion vector outside its folder: ../x/deletion_vector_00000000-")


def test_a_deletion_vector_in_a_checkpoint(tmp_path: Path, opened: Open) -> None:
    table = tmp_path / "lake" / "t"
    with_vector(table, by_path(f"file://{tmp_path}/pipe"))
    os.mkfifo(tmp_path / "pipe")
    DeltaTable(table).create_checkpoint()
    (table / LOG / f"{0:020}.json").unlink()
    (found,) = problems(opened("delta", path=str(tmp_path / "lake")))
    assert found.startswith("has a deletion vector outside its folder")


def test_own_deletion_vectors_are_read(tmp_path: Path, opened: Open) -> None:
    body = deleted_bytes([0])
    content = b"\1" + len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    for name, own, file in (
        ("a", by_path(f"file://{tmp_path}/lake/a/x.bin"), "x.bin"),
        ("b", {**by_path("00000" * 4), "storageType": "u"}, f"deletion_vector_{UUID(int=0)}.bin"),
    ):
        with_vector(tmp_path / "lake" / name, {**own, "sizeInBytes": len(body)})
        (tmp_path / "lake" / name / file).write_bytes(content)
    connector = opened("delta", path=str(tmp_path / "lake"))
    assert connector.query("SELECT id FROM a UNION ALL SELECT id FROM b").rows == ((2,), (2,))


@pytest.mark.parametrize("name", ["99.json", "00000000000000000001.json", "_sidecars/x.parquet", "_last_checkpoint"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_log_with_something_else_than_files(kind: str, name: str, tmp_path: Path, secret: Path, opened: Open) -> None:
    by_hand(tmp_path / "lake" / "t", [field("id", "long")], [])
    path = tmp_path / "lake" / "t" / LOG / name
    path.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(secret)
    (found,) = problems(opened("delta", path=str(tmp_path / "lake")))
    assert found.startswith(
        "has a link in its log" if kind == "link" else "has a path in its log that is not a regular file"
    )


@pytest.mark.parametrize("place", ["file://{}/side.parquet", "../../../side.parquet", "..%2f..%2fside.parquet"])
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_checkpoint_in_a_file_elsewhere(kind: str, place: str, tmp_path: Path, opened: Open) -> None:
    table = tmp_path / "lake" / "t"
    by_hand(table, [field("id", "long")], [], features=["v2Checkpoint"])
    os.mkfifo(tmp_path / "side.parquet")
    sidecar = {"path": place.format(tmp_path), "sizeInBytes": 1, "modificationTime": 1}
    path = table / LOG / f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{kind}"
    if kind == "json":
        path.write_text(json.dumps({"sidecar": sidecar}))
    else:
        pq.write_table(pa.Table.from_pylist([{"sidecar": sidecar}]), path)
    (found,) = problems(opened("delta", path=str(tmp_path / "lake")))
    assert found.startswith("has a checkpoint in a file outside its log")


def test_a_delta_table_does_not_read_another_one(tmp_path: Path, opened: Open) -> None:
    by_hand(tmp_path / "lake/good", [field("id", "long")], [{"path": "a.parquet"}])
    by_hand(tmp_path / "lake/evil", [field("id", "long")], [{"path": "../good/a.parquet"}])
    pq.write_table(pa.table({"id": [1]}), tmp_path / "lake/good/a.parquet")
    for options in ({}, {"exclude": ["good"]}):
        connector = opened("delta", path=str(tmp_path / "lake"), **options)
        (found,) = problems(connector)
        assert found.startswith("refers to a file outside the folder")
        with pytest.raises(SourceError, match="outside the folder"):
            connector.query("SELECT * FROM evil")
