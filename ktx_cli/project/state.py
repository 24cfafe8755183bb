"""The state database `.ktx/state.sqlite`: numbered migrations, one writer, readers that change nothing.

It is disposable: delete it and the next run rebuilds what it needs from the committed files.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ktx_cli.core.errors import StorageError
from ktx_cli.project.files import storage_error, write_atomic
from ktx_cli.project.layout import Layout

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE leases (
        name TEXT PRIMARY KEY, run_id TEXT NOT NULL, command TEXT NOT NULL, pid INTEGER NOT NULL,
        process_start TEXT NOT NULL, host TEXT NOT NULL, hostname TEXT NOT NULL,
        since REAL NOT NULL, heartbeat REAL NOT NULL
    ) STRICT;
    CREATE TABLE runs (
        run_id TEXT PRIMARY KEY, command TEXT NOT NULL, status TEXT NOT NULL, started TEXT NOT NULL,
        finished TEXT, commit_id TEXT
    ) STRICT;
    CREATE TABLE scans (
        connection TEXT PRIMARY KEY, run_id TEXT NOT NULL, finished TEXT NOT NULL, digest TEXT NOT NULL,
        files TEXT NOT NULL, tables INTEGER NOT NULL, columns INTEGER NOT NULL, row_estimates TEXT NOT NULL
    ) STRICT;
    """,
)
"""Applied in order; `PRAGMA user_version` counts how many are."""


def prepare_private_folder(layout: Layout) -> None:
    """Make `.ktx/` with its `.gitignore` of `*`, unless it is there."""
    if not layout.private_gitignore.exists():
        write_atomic(layout.private_gitignore, b"*\n")


@contextlib.contextmanager
def open_for_writing(layout: Layout) -> Iterator[sqlite3.Connection]:
    """Open the database in WAL mode, creating and migrating it; on leaving, the WAL is folded back and gone.

    The connection is in autocommit mode; use `transaction`. Raises `StorageError`, also for a database that a
    newer ktx made.
    """
    prepare_private_folder(layout)
    try:
        connection = sqlite3.connect(layout.state, timeout=30, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise database_error(layout.state, error) from error
    try:
        with translated(layout.state):
            _configure(connection)
            _migrate(connection, layout.state)
        yield connection
        with translated(layout.state):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


@contextlib.contextmanager
def open_for_reading(layout: Layout) -> Iterator[sqlite3.Connection | None]:
    """Open the database so that no file of the project changes; yields None where there is none.

    Without a pending WAL the file is read as immutable. With one (a run is at work, or was killed) a private copy
    is read, because SQLite would otherwise write its shared-memory file.
    """
    if not layout.state.exists():
        yield None
        return
    with contextlib.ExitStack() as stack:
        path = layout.state
        if _pending_wal(path):
            path = _copy(path, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ktx-state-"))))
            uri = f"file:{quote(str(path))}"
        else:
            uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
        with translated(layout.state):
            connection = stack.enter_context(contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)))
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        yield connection if version == len(MIGRATIONS) else None


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run a block as one immediate transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into `StorageError`s that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise database_error(path, error) from error
    except OSError as error:
        raise storage_error(path, error) from error


def database_error(path: Path, error: sqlite3.Error) -> StorageError:
    """Return the error for a state database that does not work."""
    corrupt = any(sign in str(error) for sign in ("malformed", "not a database"))
    hint = (
        f"delete {path}; the next run rebuilds it"
        if corrupt
        else f"look at the free space and the permissions of {path.parent}"
    )
    return StorageError(f"the state database {path} cannot be used: {error}", hint=hint, details={"path": str(path)})


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == len(MIGRATIONS):
        return
    if version > len(MIGRATIONS):
        raise StorageError(
            f"the state database {path} was made by a newer ktx (version {version})",
            hint=f"update ktx, or delete {path}; a run rebuilds it",
        )
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")


def _pending_wal(path: Path) -> bool:
    wal = path.with_name(path.name + "-wal")
    with contextlib.suppress(FileNotFoundError):
        return wal.stat().st_size > 0
    return False


def _copy(path: Path, folder: Path) -> Path:
    for name in (path.name, path.name + "-wal"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(path.with_name(name), folder / name)
    return folder / path.name
