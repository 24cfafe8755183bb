"""The state database `.ktx/state.sqlite`: numbered migrations, one writer, readers that change nothing.

It is disposable: delete it and the next run rebuilds what it needs from the committed files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from ktx_cli.core.errors import StorageError
from ktx_cli.project.files import storage_error, write_atomic
from ktx_cli.project.layout import Layout

Answer = TypeVar("Answer")
READ_ATTEMPTS = 5

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
    """Make `.ktx/` with its `.gitignore` of `*`, unless it is there.

    Raises `StorageError` when it, or what ktx writes in it, is a symbolic link: a repository could bring one along
    and have ktx write elsewhere.
    """
    ours = (layout.private, layout.private_gitignore, layout.state, layout.cache, layout.runs)
    for path in ours:
        if path.is_symlink():
            raise StorageError(f"{path} is a symbolic link", hint=f"rm {path}", details={"path": str(path)})
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


def read_state(layout: Layout, ask: Callable[[sqlite3.Connection], Answer]) -> Answer | None:
    """Return what `ask` finds in the database, or None where there is none of this version; no file changes.

    Without a WAL beside it the file is read as immutable. With one (a run is at work, or was killed) SQLite has to
    use its shared-memory file. If a run began or ended meanwhile, the question is asked again. Raises `StorageError`.
    """
    for _ in range(READ_ATTEMPTS):
        before = _signature(layout.state)
        if before[0] is None:
            return None
        try:
            answer = _ask(layout.state, ask, immutable=not before[1])
        except sqlite3.Error as error:
            if _signature(layout.state) == before:
                raise database_error(layout.state, error) from error
        else:
            if before[1] or _signature(layout.state) == before:
                return answer
    with translated(layout.state):
        return _ask(layout.state, ask, immutable=False)


def _ask(path: Path, ask: Callable[[sqlite3.Connection], Answer], *, immutable: bool) -> Answer | None:
    if not immutable and not os.access(path.parent, os.W_OK):
        with tempfile.TemporaryDirectory(prefix="ktx-state-") as folder:
            return _ask(_copy(path, Path(folder)), ask, immutable=False)
    uri = f"file:{quote(str(path))}?mode=ro{'&immutable=1' if immutable else ''}"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        return ask(connection) if version == len(MIGRATIONS) else None


def _signature(path: Path) -> tuple[tuple[int, int, int] | None, bool]:
    """Return what tells one state of the file from another, and whether a WAL with content is beside it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None, False
    return (found.st_mtime_ns, found.st_size, found.st_ino), _pending_wal(path)


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
