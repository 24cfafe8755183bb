"""What a file says of itself: the same text while nothing changed, another one after any change, none when unsure."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import ConnectionSpec, Evident
from ktx_cli.warehouses.registry import connect

MAKE = "CREATE TABLE t AS SELECT 1 AS a"
CHANGE = "UPDATE t SET a = 2"


def _sqlite(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


def _duckdb(path: Path, statement: str) -> None:
    with duckdb.connect(str(path)) as database:
        database.execute(statement)


def _files(path: Path, statement: str) -> None:
    path.mkdir(exist_ok=True)
    (path / "t.csv").write_text("a\n1\n" if statement == MAKE else "a\n2\n")


WRITERS: dict[str, Callable[[Path, str], None]] = {"sqlite": _sqlite, "duckdb": _duckdb, "files": _files}
DRIVERS = pytest.mark.parametrize("driver", WRITERS)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any change for an old one: no program can set a file's time of change back."""
    monkeypatch.setattr(base, "SETTLED_SECONDS", -60.0)


def evidence(driver: str, path: Path) -> str | None:
    with connect(ConnectionSpec("shop", driver, {"path": str(path)})) as connector:
        assert isinstance(connector, Evident)
        return connector.evidence()


@DRIVERS
def test_it_changes_when_the_data_does(driver: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    WRITERS[driver](path, MAKE)
    before = evidence(driver, path)
    assert before is not None
    assert evidence(driver, path) == before
    WRITERS[driver](path, CHANGE)
    after = evidence(driver, path)
    assert after not in (None, before)


@DRIVERS
def test_a_change_that_hides_itself_is_seen(driver: str, tmp_path: Path) -> None:
    """The same size, and the old time of modification."""
    path = tmp_path / "data"
    WRITERS[driver](path, MAKE)
    file = path / "t.csv" if driver == "files" else path
    before, status = evidence(driver, path), file.stat()
    WRITERS[driver](path, CHANGE)
    os.truncate(file, status.st_size)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_mtime_ns == status.st_mtime_ns
    assert evidence(driver, path) != before


@DRIVERS
def test_a_change_of_this_moment_leaves_nothing_sure(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", 3600.0)
    WRITERS[driver](tmp_path / "data", MAKE)
    assert evidence(driver, tmp_path / "data") is None


def test_another_file_beside_the_others_is_seen(tmp_path: Path) -> None:
    _files(tmp_path / "data", MAKE)
    before = evidence("files", tmp_path / "data")
    (tmp_path / "data" / "u.csv").write_text("b\n1\n")
    assert evidence("files", tmp_path / "data") != before


def test_a_sqlite_file_that_is_being_changed_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    _sqlite(path, MAKE)
    with connect(ConnectionSpec("shop", "sqlite", {"path": str(path)})) as connector:
        found: Any = connector
        assert found.evidence() is not None
        Path(f"{path}-journal").write_bytes(b"x")
        assert found.evidence() is None


def test_the_wal_of_a_sqlite_file_belongs_to_it(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.executescript(f"PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; {MAKE}")
        before, status = evidence("sqlite", path), path.stat()
        assert before is not None
        assert evidence("sqlite", path) == before, "reading changes nothing"
        writer.execute(CHANGE)
        assert path.stat() == status, "the change is in the WAL alone"
        after = evidence("sqlite", path)
        assert after not in (None, before)
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert evidence("sqlite", path) not in (None, before)


def test_a_duckdb_file_with_a_wal_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    _duckdb(path, MAKE)
    with connect(ConnectionSpec("shop", "duckdb", {"path": str(path)})) as connector:
        found: Any = connector
        Path(f"{path}.wal").write_bytes(b"x")
        assert found.evidence() is None


@pytest.mark.parametrize("driver", ["sqlite", "duckdb"])
def test_a_file_that_was_put_in_the_place_of_the_open_one_proves_nothing(driver: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    WRITERS[driver](path, MAKE)
    with connect(ConnectionSpec("shop", driver, {"path": str(path)})) as connector:
        found: Any = connector
        shutil.copy2(path, tmp_path / "other")
        os.replace(tmp_path / "other", path)
        assert found.evidence() is None
    assert evidence(driver, path) is not None


def test_a_missing_file_proves_nothing(tmp_path: Path) -> None:
    assert base.file_evidence([tmp_path / "none"]) is None
