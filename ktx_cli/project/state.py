"""The state database: one writer, and readers that change nothing.

It is the file `.ktx/state.sqlite`, or with `storage.state: postgres` a schema that several hosts share. What holds for
this host or this working tree alone stays in the file (`open_local`, `read_local`). The file is disposable: a damaged
one is moved aside, and the next run rebuilds what it needs from the committed files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import sqlite3
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import quote

from ktx_cli.core import (
    BusyError,
    Command,
    Hint,
    Placeholder,
    ResultWarning,
    StorageError,
    isoformat,
    now,
    one_line,
    shell_words,
)
from ktx_cli.project.files import (
    Stamp,
    is_full,
    read_bytes,
    require_regular,
    stamp_of,
    storage_error,
    sync_directory,
    write_atomic,
)
from ktx_cli.project.layout import Layout
from ktx_cli.project.migrations import MIGRATIONS

if TYPE_CHECKING:
    from ktx_cli.project.shared_state import SharedDatabase

Answer = TypeVar("Answer")


class StateCursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class StateDatabase(Protocol):
    """An open state database, in autocommit mode: a connection to SQLite, or one that takes the same statements."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        ...

    def execute(self, sql: str, parameters: Any = ..., /) -> StateCursor:
        """Run one statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> StateCursor:
        """Run one statement for each row of parameters."""
        ...


Database = TypeVar("Database", bound=StateDatabase)
READ_ATTEMPTS = 5
MOVED_SECONDS = 0.02
"""How long to wait for a process that moves the file, per attempt."""
Warn = Callable[[ResultWarning], object]
"""Receives warnings that do not stop the run."""

LOOK: Final = "look"
"""The kind of the `enrichment` rows with scan results. They are not model answers, and are kept."""


def open_to_others(layout: Layout) -> list[Path]:
    """Return the parts of `.ktx/` that other users may read: the folder, the state database, the run reports.

    SQLite gives the files next to a database the permissions of the database.
    """
    state = [layout.state.with_name(layout.state.name + suffix) for suffix in ("", "-wal", "-shm")]
    reports = sorted(layout.runs.glob("*.json")) if layout.runs.is_dir() else []
    return [path for path in (layout.private, layout.runs, layout.search_index, *state, *reports) if _is_open(path)]


def _is_open(path: Path) -> bool:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return not stat.S_ISLNK(found.st_mode) and found.st_uid == os.getuid() and bool(found.st_mode & 0o077)


_HIDING: Final = b"# Added by ktx: nothing in this folder is ever committed.\n*\n"


def ignore_warning(warning: ResultWarning) -> None:
    """Drop a warning."""


def check_private_folder(layout: Layout) -> None:
    """Raise `StorageError` if `.ktx/`, or one of its folders, exists but is not a folder.

    This includes symbolic links: a repository could contain one and make ktx write elsewhere.
    """
    for path in (layout.private, *_inside(layout.private)):
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise storage_error(path, error, "inspect") from error
        if stat.S_ISLNK(mode):
            remove = Command(path, program="rm")
            raise StorageError(f"{path} is a symbolic link", hint=remove, details={"path": str(path)})
        if path in (layout.private_gitignore, layout.state):
            require_regular(path, mode)
        elif path == layout.private and not stat.S_ISDIR(mode):
            hint = Hint(
                "move it away, for example: {}", Command(path, path.with_name(path.name + ".old"), program="mv")
            )
            raise StorageError(f"{path} is not a folder, but ktx needs one there", hint=hint)


def _inside(folder: Path) -> list[Path]:
    """Return a folder's direct contents; empty if it does not exist, is a link or cannot be read."""
    if folder.is_symlink():
        return []
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise storage_error(folder, error, "read") from error


def prepare_private_folder(layout: Layout) -> None:
    """Create `.ktx/` with a `.gitignore` of `*` if it does not exist; raises the errors of `check_private_folder`.

    An existing `.gitignore` from elsewhere keeps its lines, with `*` appended. Only the owner may read the folder: the
    state database, the reports and other files contain row values.
    """
    check_private_folder(layout)
    with translated(layout.private):
        layout.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in open_to_others(layout):
            path.chmod(path.lstat().st_mode & 0o700)
    if not layout.private_gitignore.exists():
        write_atomic(layout.private_gitignore, b"*\n")
    elif not is_hidden(layout):
        _hide(layout.private_gitignore)


def is_hidden(layout: Layout) -> bool:
    """Return whether the last pattern in `.ktx/.gitignore`, which is decisive, hides everything from git."""
    lines = (line.rstrip(b" \r") for line in (read_bytes(layout.private_gitignore) or b"").split(b"\n"))
    patterns = [line for line in lines if line and not line.startswith(b"#")]
    return patterns[-1:] == [b"*"]


def _hide(path: Path) -> None:
    """Append the pattern that hides everything, in place because the file is also the lock of `_opening`."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            size = os.fstat(descriptor).st_size
            ends = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
            os.write(descriptor, (b"" if ends else b"\n") + _HIDING)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise storage_error(path, error) from error


@contextlib.contextmanager
def open_for_writing(
    layout: Layout, warn: Warn = ignore_warning, *, part: str | None = None
) -> Iterator[StateDatabase]:
    """Open the state, shared or not, created and migrated.

    The connection is in autocommit mode; use `transaction`. `part`: what of a shared state it writes to, if its
    transactions need not wait for those on other tables, which may take seconds. Raises the errors of `open_local`, and
    `StorageError` if a shared database cannot be used.
    """
    shared = shared_state_of(layout)
    if shared is None:
        with open_local(layout, warn) as local:
            yield local
        return
    from ktx_cli.project.shared_state import open_shared

    prepare_private_folder(layout)
    with open_shared(shared, part) as connection:
        yield connection


@contextlib.contextmanager
def open_local(layout: Layout, warn: Warn = ignore_warning) -> Iterator[sqlite3.Connection]:
    """Open the file in WAL mode, creating and migrating it; on exit, the WAL is merged and removed.

    A damaged file is moved aside, which calls `warn`. Raises `StorageError`, also for a database of a newer ktx, and
    `BusyError` for a damaged one in use.
    """
    prepare_private_folder(layout)
    with translated(layout.state), _opening(layout.private_gitignore):
        connection = _open(layout.state, warn)
    try:
        yield connection
        with translated(layout.state):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


@contextlib.contextmanager
def _opening(path: Path) -> Iterator[None]:
    """Let one process at a time open the database, with a lock on a permanent file.

    A process that is opening the database holds no lock in it yet, so this lock keeps others from moving it away.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path, warn: Warn) -> sqlite3.Connection:
    """Open the database, or a new one after moving a damaged one aside.

    Another process may move it while it is being opened here: SQLite then finds a file without its WAL.
    """
    for attempt in range(READ_ATTEMPTS):
        seen = identity_of(path)
        _make_private(path)
        connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            _configure(connection)
            _require_known(connection, path)
            _require_whole(connection)
            _migrate(connection)
            return connection
        except BaseException as error:
            connection.close()
            if not isinstance(error, sqlite3.Error) or not (is_damage(error) or is_unreadable(error)):
                raise
            problem = error
        if not is_damage(problem):
            time.sleep(MOVED_SECONDS * (attempt + 1))
            continue
        moved = move_aside(path, seen)
        if moved is not None:
            warn(moved)
    raise problem


def _make_private(path: Path) -> None:
    """Create an empty file that only its owner may read, which SQLite uses as a new database; keep an existing one.

    An existing file is not even opened: closing it would release the locks of this process's other connections.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def read_state(layout: Layout, ask: Callable[[StateDatabase], Answer], warn: Warn = ignore_warning) -> Answer | None:
    """Return the result of `ask` on the state, shared or not, or None if it does not exist or is older.

    Calls `warn` for an older one, and changes nothing. Raises the errors of `read_local`, and `StorageError` if a
    shared database cannot be used.
    """
    shared = shared_state_of(layout)
    if shared is None:
        return read_local(layout, ask, warn)
    from ktx_cli.project.shared_state import reader_of, version_of

    connection = reader_of(shared)
    version = version_of(connection, shared)
    if version == len(MIGRATIONS):
        return ask(connection)
    _warn_of_older(version, shared, warn)
    return None


def _warn_of_older(version: int, where: object, warn: Warn) -> None:
    """Warn about a state that this ktx cannot read before it has updated it; version 0 has no tables yet."""
    if version:
        message = (
            f"the state ({where}) is of an older version of ktx, so nothing in it is shown; the next run updates it"
        )
        warn(ResultWarning("state_older", message, hint=Command("ingest")))


_STORAGE: Final = re.compile(rb"\bstorage[\"']?\s*:")
"""The key `storage`, wherever it is: without it, the settings need not be parsed."""


def shared_state_of(layout: Layout) -> SharedDatabase | None:
    """Return the database with the state of a project, or None if the state is a file.

    Raises `ConfigError` for invalid settings, `SecretError`.
    """
    text = None if layout.own_state.exists() else read_bytes(layout.config)
    if text is None or b"postgres" not in text or not _STORAGE.search(text):
        return None
    from ktx_cli.project.shared_state import configured_state

    return configured_state(layout)


def has_state(layout: Layout) -> bool:
    """Return whether there is a state database, shared or not."""
    return layout.state.exists() or shared_state_of(layout) is not None


def state_version(layout: Layout) -> Mapping[str, Stamp | int]:
    """Return what differs after a change to the state, or to what this working tree alone has, such as statuses."""
    paths = (layout.state, layout.state.with_name(f"{layout.state.name}-wal"))
    stamps = ((str(path), stamp_of(path)) for path in paths)
    found: dict[str, Stamp | int] = {path: stamp for path, stamp in stamps if stamp is not None}
    shared = shared_state_of(layout)
    if shared is not None:
        from ktx_cli.project.shared_state import changes_of

        found["changes"] = changes_of(shared)
    return found


def clock_of(database: StateDatabase) -> float:
    """Return the current Unix time by the clock that the users of a state share."""
    seconds: Callable[[], float] = getattr(database, "seconds", time.time)
    return seconds()


def read_local(
    layout: Layout, ask: Callable[[sqlite3.Connection], Answer], warn: Warn = ignore_warning
) -> Answer | None:
    """Return the result of `ask` on the file, or None if it does not exist or is older (`warn`); changes no file.

    Without a WAL next to it, the file is read as immutable. With one (a run is active, or was killed), SQLite has to
    use its shared-memory file. If a run began or ended meanwhile, `ask` is called again. Raises `StorageError`, also
    for a database of a newer ktx.
    """
    for _ in range(READ_ATTEMPTS):
        before = _signature(layout.state)
        if before[0] is None:
            return None
        try:
            answer = _ask(layout.state, ask, warn, immutable=not before[1])
        except sqlite3.Error as error:
            if _signature(layout.state) == before:
                raise database_error(layout.state, error) from error
        else:
            if before[1] or _signature(layout.state) == before:
                return answer
    with translated(layout.state):
        return _ask(layout.state, ask, warn, immutable=False)


def _ask(path: Path, ask: Callable[[sqlite3.Connection], Answer], warn: Warn, *, immutable: bool) -> Answer | None:
    if not immutable and not os.access(path.parent, os.W_OK):
        with tempfile.TemporaryDirectory(prefix="ktx-state-") as folder:
            return _ask(_copy(path, Path(folder)), ask, warn, immutable=False)
    uri = f"file:{quote(os.fsencode(path))}?mode=ro{'&immutable=1' if immutable else ''}"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)) as connection:
        version = _require_known(connection, path)
        if version == len(MIGRATIONS):
            return ask(connection)
    _warn_of_older(version, path, warn)
    return None


def _signature(path: Path) -> tuple[tuple[int, int, int] | None, bool]:
    """Return what identifies one state of the file, and whether there is a WAL with content next to it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None, False
    require_regular(path, found.st_mode)
    return (found.st_mtime_ns, found.st_size, found.st_ino), _pending_wal(path)


@contextlib.contextmanager
def transaction(connection: Database) -> Iterator[Database]:
    """Run a block as one immediate transaction, the only one at a time."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back if the disk is full
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite and operating system errors into `StorageError`s that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise database_error(path, error) from error
    except OSError as error:
        raise storage_error(path, error) from error


def database_error(path: Path, error: sqlite3.Error) -> StorageError:
    """Return the error for an unusable state database; SQLite reports a full disk as `disk I/O error`."""
    details = {"path": str(path)}
    if is_out_of_space(error) or (is_unreadable(error) and is_full(path)):
        full = storage_error(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        message = f"the state database {path} cannot be used: {os.strerror(errno.ENOSPC)}"
        return StorageError(message, hint=full.hint, details=full.details)
    if is_damage(error):
        hint = Hint(
            "the next `{}` moves it aside and starts a new one; committed context is not lost", Command("ingest")
        )
    else:
        listing = Command("-la", path.parent, program="ls")
        hint = Hint("check the free space and the permissions of its folder: {}", listing)
    return StorageError(f"the state database {path} cannot be used: {error}", hint=hint, details=details)


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _require_known(connection: sqlite3.Connection, path: Path) -> int:
    """Return the database's version; raises `StorageError` for a version that only a newer ktx knows."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        versions = f"version {version}; this one supports up to {len(MIGRATIONS)}"
        message = f"the state database {path} was created by a newer ktx ({versions})"
        hint = Hint("update ktx, or start a new one: {}", _removal(path))
        raise StorageError(message, hint=hint, details={"path": str(path), "version": version})
    return version


def _require_whole(connection: sqlite3.Connection) -> None:
    """Raise SQLite's error for a damaged file; by itself, SQLite only does so when it reads the damaged page."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        error = sqlite3.DatabaseError(one_line(verdict))
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _migrate(connection: sqlite3.Connection) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == len(MIGRATIONS):
        return
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


LOCK_SECONDS = 2.0
"""How long to wait for processes that briefly read the damaged file; a run has it open for much longer."""

Identity = tuple[int, int]
"""Device and inode, which distinguish the damaged file from one that another run has put in its place."""


def _primary_code(error: sqlite3.Error) -> int:
    """Return the primary code of an SQLite error; 0 for errors raised by the Python module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file itself is damaged, rather than busy, forbidden, or on a full or unreadable disk."""
    return _primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_unreadable(error: sqlite3.Error) -> bool:
    """Return whether the system failed to read or write: a bad disk, or a file that was moved meanwhile."""
    return _primary_code(error) == sqlite3.SQLITE_IOERR


def is_out_of_space(error: sqlite3.Error) -> bool:
    """Return whether SQLite had no space left to write."""
    return _primary_code(error) == sqlite3.SQLITE_FULL


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file at `path`, None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def move_aside(path: Path, damaged: Identity | None) -> ResultWarning | None:
    """Rename the damaged database and SQLite's files next to it; return None if the database no longer exists.

    Raises `BusyError` if another process has it open, `StorageError` if it cannot be renamed.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(path, error) from error
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _is_ours(descriptor):
            if identity_of(path) != damaged:
                return None
            if time.monotonic() > deadline:
                raise _in_use(path)
            time.sleep(0.02)
        return _renamed(path) if identity_of(path) == damaged else None
    except OSError as error:
        raise storage_error(path, error, "move aside") from error
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    """Lock the whole file, on which every open connection in WAL mode holds a lock; return whether that succeeded."""
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):  # also detects other connections of this process
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        else:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _in_use(path: Path) -> BusyError:
    message = f"the state database {path} is damaged, and another process has it open"
    hint = "wait until the other run has ended, then run the command again"
    return BusyError(message, hint=hint, details={"path": str(path)})


def _renamed(path: Path) -> ResultWarning:
    """Rename, with the database last: after a kill, the damaged database or nothing is in place."""
    aside = _free_name(path)
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    sync_directory(path.parent)
    message = f"the state database was damaged; it is now {aside.name} in {path.parent}, and ktx started a new one"
    hint = Hint("committed context is not lost; when you no longer need the file: {}", _removal(aside))
    return ResultWarning("state_damaged", message, hint=hint, path=str(aside))


def _removal(path: Path) -> Command:
    """Return the command that removes a database and SQLite's files next to it."""
    return Command(Placeholder(f"{shell_words(path)}*"), program="rm")


def _free_name(path: Path) -> Path:
    stamp = now().strftime("%Y%m%dT%H%M%SZ")
    endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (path.with_name(f"{path.name}.damaged-{stamp}{ending}") for ending in endings)
    return next(name for name in names if not name.exists())


KEPT_RUNS: Final = 10
"""Number of consecutive runs for a connection after which an unused answer is dropped."""

_USES: Final = "uses"
"""The kind of the rows that record what connections used; their keys are connection ids."""

CachedAnswer = tuple[str, str]
"""A value's kind and key."""


@dataclass(frozen=True, slots=True)
class _Uses:
    """What a connection used: its number of runs, and for each answer the number of the last run that used it."""

    runs: int = 0
    last: Mapping[CachedAnswer, int] = field(default_factory=dict)

    def after_a_run(self, used: Collection[CachedAnswer]) -> _Uses:
        """Return the uses after one more run, without those that are too old."""
        number = self.runs + 1
        last = {**self.last, **dict.fromkeys(used, number)}
        return _Uses(number, {answer: run for answer, run in last.items() if run > number - KEPT_RUNS})


class EnrichmentStore(Protocol):
    """Stores JSON values by kind and content hash. `put` returns once the value would survive a killed process."""

    def get(self, kind: str, key: str) -> Any | None:
        """Return the value, or None if there is none."""
        ...

    def put(self, kind: str, key: str, value: Any) -> None:
        """Store a JSON value, replacing an earlier one."""
        ...


class AnswerStore(EnrichmentStore, Protocol):
    """A store that returns many values at once: a shared state is a round trip away for each question."""

    def get_many(self, kind: str, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of the keys that have one."""
        ...


READ_AT_ONCE: Final = 500
"""How many values one statement reads at most."""


class StateEnrichmentStore:
    """The store in the state database, on a connection opened by the caller."""

    def __init__(self, layout: Layout, database: StateDatabase) -> None:
        self._layout = layout
        self._database = database

    def get(self, kind: str, key: str) -> Any | None:
        """Return the value; None also for stored text that is not JSON, so that it is computed again.
        `StorageError`.
        """
        return self.get_many(kind, (key,)).get(key)

    def get_many(self, kind: str, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values that `get` would return, without None. Raises `StorageError`."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Any] = {}
        for start in range(0, len(wanted), READ_AT_ONCE):
            some = wanted[start : start + READ_AT_ONCE]
            query = f"SELECT key, value FROM enrichment WHERE kind = ? AND key IN ({', '.join('?' * len(some))})"
            with translated(self._layout.state):
                rows = self._database.execute(query, (kind, *some)).fetchall()
            for key, text in rows:
                with contextlib.suppress(ValueError):
                    found[key] = json.loads(text)
        return {key: value for key, value in found.items() if value is not None}

    def put(self, kind: str, key: str, value: Any) -> None:
        """Store a value, committed when this returns. Raises `StorageError`."""
        text = json.dumps(value, sort_keys=True)
        with translated(self._layout.state):
            self._database.execute(
                "INSERT OR REPLACE INTO enrichment VALUES (?, ?, ?, ?)", (kind, key, text, isoformat(now()))
            )

    def settle(
        self,
        connection: str,
        used: Collection[CachedAnswer],
        connections: Collection[str],
        unasked: Collection[str] = (),
    ) -> int:
        """Count a finished run for a connection, drop answers that are no longer used, and return their number.

        `connections`: all configured ones; the uses of others are forgotten. `unasked`: the kinds of answers that the
        run did not look for, so that they count as used. An answer without a recorded use (its run was killed) counts
        as used now. Raises `StorageError`.
        """
        with translated(self._layout.state), transaction(self._database):
            uses = {each: self._uses(each) for each in sorted({*connections, connection})}
            self._database.execute("DELETE FROM enrichment WHERE kind = ?", (_USES,))
            answers = set(self._database.execute("SELECT kind, key FROM enrichment WHERE kind <> ?", (LOOK,)))
            unclaimed = answers.difference(*(each.last for each in uses.values()))
            unclaimed |= {answer for answer in uses[connection].last if answer[0] in unasked} & answers
            uses[connection] = uses[connection].after_a_run(answers.intersection(used) | unclaimed)
            gone = answers.difference(*(each.last for each in uses.values()))
            self._database.executemany("DELETE FROM enrichment WHERE kind = ? AND key = ?", sorted(gone))
            for each in uses:
                self._put_uses(each, uses[each])
        return len(gone)

    def _uses(self, connection: str) -> _Uses:
        value: Any = self.get(_USES, connection)
        try:
            return _Uses(int(value["runs"]), {(kind, key): int(run) for kind, key, run in value["last"]})
        except (TypeError, ValueError, KeyError):  # none yet, or damaged: the answers count as used now
            return _Uses()

    def _put_uses(self, connection: str, uses: _Uses) -> None:
        if uses.runs:
            last = [[*answer, run] for answer, run in sorted(uses.last.items())]
            self.put(_USES, connection, {"runs": uses.runs, "last": last})


@contextlib.contextmanager
def open_enrichment_store(layout: Layout, warn: Warn = ignore_warning) -> Iterator[StateEnrichmentStore]:
    """Open the project's store for one run; raises the errors of `open_for_writing`."""
    with open_for_writing(layout, warn) as database:
        yield StateEnrichmentStore(layout, database)
