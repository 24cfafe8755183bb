"""The file of the index: read as it is, replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ktx_cli.context.search.index.connection import Connection, connect
from ktx_cli.context.search.index.schema import create, is_current
from ktx_cli.core.errors import StorageError
from ktx_cli.core.text import shell_words
from ktx_cli.project.files import read_bytes, storage_error, write_atomic

_MEMORY: Final = ":memory:"

Identity = tuple[int, int, int]
"""What tells one state of the file from another."""


def identity(path: Path) -> Identity | None:
    """Return which index is there now, None where there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error, "look at") from error
    return found.st_ino, found.st_size, found.st_mtime_ns


def open_index(path: Path) -> Connection | None:
    """Open an index to read; None for one of another version.

    It is opened as a file that never changes, which is so: a run puts a new one in its place. Raises SQLite's error
    for a damaged one.
    """
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    database = connect(uri, uri=True)
    try:
        if is_current(database):
            database.execute("SELECT count(*) FROM units").fetchone()
            return database
    except BaseException:
        database.close()
        raise
    database.close()
    return None


@contextlib.contextmanager
def changing(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """Give the index to change, in memory, and whether it is new; then put it in the place of the file.

    A damaged one, or one of another version, is begun anew. Where nothing was changed nothing is written, and where the
    block fails the file stays as it was. The caller holds the lease. Raises `StorageError`.
    """
    from ktx_cli.context.search.index.writing import count_up  # who only reads an index needs nothing that makes one

    database, is_new = _loaded(path)
    try:
        before = database.total_changes
        yield database, is_new
        if is_new or database.total_changes != before:
            count_up(database)
            write_atomic(path, database.serialize(), mode=0o600)
    except sqlite3.Error as error:
        raise index_error(path, error) from error
    finally:
        database.close()


def index_error(path: Path, error: sqlite3.Error) -> StorageError:
    """Return the error for an index that does not work."""
    return StorageError(
        f"the search index {path} cannot be used: {error}",
        hint=f"delete it, then build it again: {shell_words('rm', path)} && ktx index",
        details={"path": str(path)},
    )


def _loaded(path: Path) -> tuple[sqlite3.Connection, bool]:
    content = read_bytes(path)
    if content:
        database = connect(_MEMORY)
        try:
            database.deserialize(content)
            if is_current(database) and database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                # What may not be shown any more must not stay in the file.
                database.execute("PRAGMA secure_delete = ON")
                return database, False
        except sqlite3.DatabaseError:  # damaged: what is in it is built again from the files
            pass
        database.close()
    database = connect(_MEMORY)
    create(database)
    return database, True
