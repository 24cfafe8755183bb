"""The state database in Postgres, which several hosts share: the same statements as for SQLite, in one schema.

Statements are written in the part of SQL that both databases know. This module translates what differs: placeholders,
`INSERT OR REPLACE`, `IS ?`, the types of columns, and texts with characters that Postgres cannot store.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import itertools
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli import __version__
from ktx_cli.core import Command, ConfigError, Hint, SettingPath, StorageError, listing, one_line
from ktx_cli.project import secrets
from ktx_cli.project.files import Stamp, stamp_of
from ktx_cli.project.layout import PRIVATE_NAME, origin_of
from ktx_cli.project.migrations import LOCAL_TABLES, MIGRATIONS, UNCOPIED_TABLES, state_tables

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from ktx_cli.project.config.model import KtxConfig
    from ktx_cli.project.layout import Layout

CONNECT_SECONDS: Final = 10
SILENT_SECONDS: Final = 30
"""How long a server may leave data unacknowledged before a connection counts as lost."""

READING_SECONDS: Final = 3.0
"""How long a command that only reads waits, which a person or an agent may be waiting for."""

OUTAGE_SECONDS: Final = 60.0
"""How long a statement outside a transaction waits for a server that restarts."""

_PARAMETERS: Final = frozenset(
    ("host", "port", "dbname", "user", "password", "sslmode", "sslrootcert", "channel_binding", "target_session_attrs")
)
"""The connection parameters that a URL may set: none that makes libpq read or send another file of this machine."""


@dataclass(frozen=True, slots=True)
class SharedDatabase:
    """A schema of a Postgres database. `parameters` are those of libpq, with the password."""

    parameters: Mapping[str, str]
    schema: str
    variable: str | None = None
    """The environment variable that contains the URL, if any."""

    def __hash__(self) -> int:
        return hash((self.schema, *sorted(self.parameters.items())))

    def __str__(self) -> str:
        host, port = self.parameters.get("host") or "localhost", self.parameters.get("port")
        name = self.parameters.get("dbname") or ""
        return f"Postgres at {host}{f':{port}' if port else ''}/{name}, schema {self.schema}"

    @property
    def lock_key(self) -> int:
        """The key of the advisory lock that serializes the transactions on the schema."""
        return self.lock_key_of(None)

    def lock_key_of(self, part: str | None) -> int:
        """Return the key for the transactions on a part of the schema that wait only for each other."""
        name = f"ktx/{self.schema}" if part is None else f"ktx/{self.schema}/{part}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)

    @classmethod
    def of(cls, config: KtxConfig, project_dir: Path, environ: Mapping[str, str]) -> SharedDatabase | None:
        """Return the database that `storage.postgres` names, or None without that block.

        Raises `ConfigError` for an invalid URL, `SecretError`.
        """
        if config.storage.postgres is None:
            return None
        text, schema = config.storage.postgres.url, config.storage.postgres.schema_name
        where = "storage.postgres.url"
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            install = Command("install", "ktx-cli[postgres]", program="pip")
            raise ConfigError("`storage.postgres` needs the package psycopg", hint=install) from error
        _require_own(text, where, project_dir)
        url = secrets.resolve(text, project_dir=project_dir, environ=environ, where=where)
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        except psycopg.ProgrammingError as error:
            hint = "for example: postgresql://ktx@db.example.com/ktx"
            raise ConfigError(f"{where} is not a valid Postgres URL", hint=hint) from error
        unknown = sorted(given.keys() - _PARAMETERS)
        if unknown:
            message = f"{where} sets `{unknown[0]}`, which ktx does not pass to Postgres"
            raise ConfigError(message, hint=f"remove it; a URL may set {', '.join(sorted(_PARAMETERS))}")
        if given.get("password"):
            secrets.remember(given["password"])
        reference = secrets.SecretRef.parse(text)
        is_variable = reference is not None and reference.kind == "env"
        return cls(given, schema, reference.name if reference is not None and is_variable else None)


def _require_own(text: str, where: str, project_dir: Path) -> None:
    """Raise `ConfigError` unless this machine names the database: the state contains row values.

    Otherwise, whoever can commit a `ktx.yaml` could have them sent to a server of their own.
    """
    reference = secrets.SecretRef.parse(text)
    if reference is not None and reference.kind == "file":
        from ktx_cli.project.git import is_in_project

        path, origin = secrets.secret_path(reference, project_dir), origin_of(project_dir)
        stored = os.path.realpath(origin / PRIVATE_NAME / "secrets")
        if Path(os.path.realpath(path)).is_relative_to(stored) or not is_in_project(path, origin):
            return
    elif reference is not None:
        return
    message = f"{where} must come from this machine, not from a file of the project"
    raise ConfigError(message, hint="use env:KTX_STATE_URL, keyring:NAME, or file:PATH outside the project")


_LOCATIONS: dict[Path, tuple[Stamp | None, str | None, SharedDatabase | None]] = {}


def configured_state(layout: Layout) -> SharedDatabase | None:
    """Return the database with the state of a project, or None if its settings name none; raises the errors of `of`.

    The settings are read again when `ktx.yaml` or the variable that contains the URL has changed.
    """
    stamp = stamp_of(layout.config)
    known = _LOCATIONS.get(layout.config)
    if known is not None and known[0] == stamp and known[1] == _variable_of(known[2]):
        return known[2]
    from ktx_cli.project.config.file import load_config
    from ktx_cli.project.config.model import SHARED_STORAGE

    config = load_config(layout.config).config
    is_shared = config.storage.state in SHARED_STORAGE
    found = SharedDatabase.of(config, layout.root, os.environ) if is_shared else None
    _LOCATIONS[layout.config] = (stamp, _variable_of(found), found)
    return found


def configured_search(layout: Layout, config: KtxConfig, environ: Mapping[str, str]) -> SharedDatabase | None:
    """Return the database with the search index of a project, or None if the index is a file."""
    from ktx_cli.project.config.model import SHARED_STORAGE

    is_shared = config.storage.search in SHARED_STORAGE and not layout.own_state.exists()
    return SharedDatabase.of(config, layout.root, environ) if is_shared else None


def _variable_of(database: SharedDatabase | None) -> str | None:
    """Return the value of the variable that the URL came from."""
    return None if database is None or database.variable is None else os.environ.get(database.variable)


_LEAST_COPIED: Final = 10
"""From how many rows on `COPY` is faster than one `INSERT` per row."""

_COPIED_AT_ONCE: Final = 500
"""How many rows of a state that is copied are in memory."""

REPORT_SECONDS: Final = 5.0
"""How long the database may not respond before a message says so."""

_LISTENERS: list[Callable[[str], None]] = []
"""What is called with the messages about outages."""

_REPORTED: set[SharedDatabase] = set()
"""The databases that do not respond, as a message has said already."""


@contextlib.contextmanager
def report_outages(report: Callable[[str], None]) -> Iterator[None]:
    """Pass messages to `report` while statements of this process wait for a shared database, during a block."""
    _LISTENERS.append(report)
    try:
        yield
    finally:
        _LISTENERS.remove(report)


def outage_message(database: SharedDatabase, error: Exception) -> str:
    """Return the message that a database does not respond."""
    return f"{database} does not respond; waiting for it: {secrets.mask(one_line(str(error)))}"


def recovery_message(database: SharedDatabase) -> str:
    """Return the message that a database responds again."""
    return f"{database} responds again"


def _report(message: str) -> None:
    for listener in tuple(_LISTENERS):
        listener(message)


_GIVEN_UP: set[SharedDatabase] = set()
"""The databases that did not respond for too long: until one does, each further statement is sent only once."""


class SharedStateConnection:
    """A connection that takes the statements of the state database; see `StateDatabase`. Thread-safe.

    While one thread is in a transaction, the others wait. Outside a transaction, a statement waits for a server that is
    restarting and is sent again. Inside one, the loss of the connection is a `StorageError`, after which nothing of the
    transaction has happened; only if the answer to `COMMIT` was lost, all of it may have.
    """

    def __init__(self, database: SharedDatabase, *, read_only: bool = False) -> None:
        self.database = database
        self.lock_key = database.lock_key
        """The key of the advisory lock that a transaction takes."""
        self.has_tables = False
        """Whether it has seen the tables of the schema, which stay."""
        self.sessions = 0
        """How many sessions it has opened, another one each time that the server was lost."""
        self.patience = READING_SECONDS if read_only else OUTAGE_SECONDS
        """How long a statement waits for a server that does not respond; may be shortened while one waits."""
        self._read_only = read_only
        self._lock = threading.RLock()
        self._session: psycopg.Connection[Any] | None = None
        self._began = False
        self._gave_up: tuple[float, psycopg.Error] | None = None
        """When and why a statement last gave up: what waited behind it fails with it, not after another wait."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        return self._began

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> Any:
        """Run one statement and return its cursor; raises `StorageError`."""
        word = sql.split(None, 1)[0].upper()
        if word == "PRAGMA":  # a setting of SQLite files
            return _NoRows()
        came = time.monotonic()
        with self._lock:
            if word in ("BEGIN", "COMMIT", "ROLLBACK"):
                return self._control(word, came)
            text = translated_statement(sql)
            return self._send(lambda session: session.execute(text, _given(sql, parameters)), came)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Run one statement for each row; raises `StorageError`. The rows are not in memory together."""
        text = translated_statement(sql)
        others = (_given(sql, row) for row in rows)
        first = list(itertools.islice(others, _LEAST_COPIED))
        copied = copy_statement(sql) if len(first) >= _LEAST_COPIED else None

        def send(session: psycopg.Connection[Any]) -> Any:  # in a transaction, and so only once
            cursor = session.cursor()
            given = itertools.chain(first, others)
            if copied is None:
                cursor.executemany(text, given)
                return cursor
            with cursor.copy(copied) as copy:
                for row in given:
                    copy.write_row([_copied(value) for value in row])
            return cursor

        came = time.monotonic()
        with self._lock:
            if not self._began and first:  # all or nothing, as in one statement
                self._control("BEGIN", came)
                try:
                    cursor = self._send(send, came)
                except BaseException:
                    self._control("ROLLBACK", came)
                    raise
                self._control("COMMIT", came)
                return cursor
            return self._send(send, came)

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        with self._lock:
            self._drop_session()
            if self._began:
                self._began = False
                self._lock.release()

    def seconds(self) -> float:
        """Return the time of the server as Unix seconds: the clocks of several hosts differ."""
        row = self.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        return float(row[0])

    def _control(self, word: str, came: float) -> Any:
        if word == "BEGIN":
            begin = f"BEGIN; SELECT pg_advisory_xact_lock({self.lock_key})"
            try:
                self._send(lambda session: session.execute(begin), came)
            except BaseException:  # the transaction may have begun without the lock
                self._drop_session()
                raise
            self._began = True
            self._lock.acquire()
            return _NoRows()
        try:
            if word == "COMMIT":
                self._send(lambda session: session.execute("COMMIT"), came)
            else:
                self._roll_back()
        except BaseException:
            self._drop_session()
            raise
        finally:
            if self._began:
                self._began = False
                self._lock.release()
        return _NoRows()

    def _roll_back(self) -> None:
        """Undo the transaction. A session that fails at that is closed, which undoes the transaction too."""
        import psycopg

        if self._session is not None and not self._session.closed:
            try:
                self._session.execute("ROLLBACK")
            except psycopg.Error:
                self._drop_session()

    def _drop_session(self) -> None:
        """Close the session, and with it a transaction that may be open; the next statement opens another."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _send(self, run: Any, came: float) -> Any:
        """Return what `run` returns for a session. `came`: when the caller began to wait for this connection."""
        import psycopg

        if self._gave_up is not None and came < self._gave_up[0] and not self._began:
            raise database_failure(self.database, self._gave_up[1]) from self._gave_up[1]
        began = time.monotonic()
        is_given_up = self.database in _GIVEN_UP
        while True:
            was_open = self._session is not None and not self._session.closed
            try:
                answer = run(self._opened())
                _GIVEN_UP.discard(self.database)
                if self.database in _REPORTED:
                    _REPORTED.discard(self.database)
                    _report(recovery_message(self.database))
                return answer
            except psycopg.Error as error:
                lost = self._session is None or self._session.closed
                if not lost or not (was_open or is_outage(error)):
                    raise database_failure(self.database, error) from error
                self._session = None
                if self._began:
                    raise database_failure(self.database, error) from error
                if time.monotonic() > began + (0.0 if is_given_up else self.patience) and not was_open:
                    if not self._read_only:
                        _GIVEN_UP.add(self.database)
                    self._gave_up = (time.monotonic(), error)
                    raise database_failure(self.database, error) from error
                if time.monotonic() - began > REPORT_SECONDS and self.database not in _REPORTED:
                    _REPORTED.add(self.database)
                    _report(outage_message(self.database, error))
                time.sleep(0.2)

    def _opened(self) -> psycopg.Connection[Any]:
        if self._session is None or self._session.closed:
            if self._began:  # in a new session, the statement would not be part of the transaction
                import psycopg

                raise psycopg.OperationalError("the connection was lost in a transaction")
            seconds = READING_SECONDS if self._read_only else CONNECT_SECONDS
            self._session = connect(self.database, read_only=self._read_only, seconds=seconds)
            self.sessions += 1
        return self._session


class _NoRows:
    """The cursor of a statement without rows."""

    rowcount = -1

    def fetchone(self) -> None:
        return None

    def fetchall(self) -> list[Any]:
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def connect(
    database: SharedDatabase, *, read_only: bool = False, seconds: float = CONNECT_SECONDS
) -> psycopg.Connection[Any]:
    """Return an open session on the schema, in autocommit mode; raises the errors of psycopg.

    `seconds`: how long the server may take to answer.
    """
    import psycopg
    from psycopg import sql

    session = psycopg.connect(
        "",
        **connection_parameters(database, seconds=seconds),
        client_encoding="utf8",
        autocommit=True,
        prepare_threshold=None,
        cursor_factory=psycopg.ClientCursor,
        options="-c default_transaction_read_only=on" if read_only else None,
    )
    try:
        session.execute(sql.SQL("SET search_path = {}, pg_catalog").format(sql.Identifier(database.schema)))
        session.adapters.register_loader("numeric", _number_loader())
        session.adapters.register_loader("text", _text_loader())
    except BaseException:
        session.close()
        raise
    return session


def connection_parameters(database: SharedDatabase, *, seconds: float = CONNECT_SECONDS) -> dict[str, Any]:
    """Return the parameters of each session on a database: a server that falls silent is noticed.

    `seconds`: how long it may take to answer.
    """
    return {
        **guarded(dict(database.parameters)),
        "connect_timeout": max(2, math.ceil(seconds)),  # libpq rounds 1 up
        "application_name": "ktx",
        "keepalives_idle": 10,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 1000 * (SILENT_SECONDS if seconds >= CONNECT_SECONDS else max(2, math.ceil(seconds))),
    }


def guarded(parameters: dict[str, str]) -> dict[str, Any]:
    """Return connection parameters that send no plaintext password to another machine without encryption."""
    local = parameters.get("host", "") in ("", "localhost", "127.0.0.1", "::1") or parameters["host"].startswith("/")
    if local or parameters.get("sslmode") in ("require", "verify-ca", "verify-full"):
        return parameters
    return {**parameters, "require_auth": "!password"}


def database_failure(database: SharedDatabase, error: Exception, name: str = "the state database") -> StorageError:
    """Return the error for a failed statement or connection."""
    what = secrets.mask(one_line(str(error)))
    message = f"{name} cannot be used ({database}): {what}"
    check = Command("doctor", "--only", "shared")
    hint = Hint("check that the server is running and that `storage.postgres` is correct: {}", check)
    if getattr(error, "sqlstate", None) == NO_PRIVILEGE:
        hint = missing_right_hint()
    elif is_login_refused(error) or is_database_missing(error):
        hint = Hint(
            "the server is running, but refuses the connection; correct {}: {}", SettingPath(URL_SETTING), check
        )
    kind = UnreachableStateError if _is_unreachable(error) else StorageError
    return kind(message, hint=hint, details={"database": str(database)})


def missing_right_hint() -> Hint:
    """Return the hint for a user who lacks a right."""
    return Hint("the user lacks a right; to see which one: {}", Command("doctor", "--only", "shared"))


class UnreachableStateError(StorageError):
    """The shared database cannot be reached, or does not let the user in. Exit code 4, as for other databases."""

    code = "connection"


NO_PRIVILEGE: Final = "42501"
URL_SETTING: Final = "storage.postgres.url"

_LOGIN_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|role \".*\" does not exist|role \".*\" is not permitted to log in"
)
_DATABASE_MISSING: Final = re.compile(r"database \".*\" does not exist")


def is_login_refused(error: Exception) -> bool:
    """Return whether the server does not accept the user or the password."""
    state = getattr(error, "sqlstate", None)
    return str(state).startswith("28") or (state is None and _LOGIN_REFUSED.search(str(error)) is not None)


def is_database_missing(error: Exception) -> bool:
    """Return whether the server has no database of the name in the URL."""
    state = getattr(error, "sqlstate", None)
    return state == "3D000" or (state is None and _DATABASE_MISSING.search(str(error)) is not None)


def _is_unreachable(error: Exception) -> bool:
    """Whether there was no connection, or it was lost; not an error of a statement."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return str(state).startswith(("08", "28", "3D", "57P")) or state == "53300"


_OUTAGE: Final = re.compile(
    r"Connection (?:refused|reset)|Is the server running|(?:Network|Host) is (?:unreachable|down)|No route to host"
    r"|timed out|timeout expired|Broken pipe|EOF detected"
    r"|connection (?:is|was) (?:closed|lost)|closed (?:the connection|unexpectedly)|(?:receive|send) data"
    r"|(?:translate|resolve) host"  # a container that restarts has no name
    r"|the database system is|terminating connection|session is read-only|hot standby"
    r"|too many (?:clients|connections)|connection slots|couldn't get a connection"
)
"""What the errors say, without an SQLSTATE, about servers that may come back: of the system, libpq and the server."""
_ATTEMPT: Final = re.compile(r"connection to server .*? failed: (.*(?:\n\t.*)*)")


def is_outage(error: Exception) -> bool:
    """Whether the server may come back: it stops, starts, or is not reachable.

    Everything else, such as a wrong password or certificate, does not pass by itself. With several addresses, each
    that responds has to say so.
    """
    import psycopg

    state = getattr(error, "sqlstate", None)
    if state is not None:
        return str(state).startswith(("08", "57P")) or state == "53300"
    if not isinstance(error, psycopg.OperationalError):
        return False
    text = str(error)
    return all(_OUTAGE.search(reason) for reason in _ATTEMPT.findall(text) or [text])


_ESCAPE: Final = "\U0010fffe"
_ESCAPED: Final = ((_ESCAPE, "e"), ("\0", "0"), ("\\u0000", "u"))
"""Texts that Postgres cannot store, or not read as JSON -> the mark that stands for each after `_ESCAPE`."""


def stored_text(text: str) -> str:
    """Return a text as it is stored; most are stored unchanged."""
    if "\0" in text or _ESCAPE in text or "\\u0000" in text:
        for part, mark in _ESCAPED:
            text = text.replace(part, _ESCAPE + mark)
    return text


def loaded_text(text: str) -> str:
    """Return the text that `stored_text` was called with."""
    if _ESCAPE not in text:
        return text
    marks = {mark: part for part, mark in _ESCAPED}
    return re.sub(f"{_ESCAPE}(.)", lambda found: marks[found[1]], text)


@functools.cache
def _text_loader() -> Any:
    from psycopg.types.string import TextLoader

    class StoredTextLoader(TextLoader):
        def load(self, data: Any) -> Any:
            text = super().load(data)
            return loaded_text(text) if isinstance(text, str) else text

    return StoredTextLoader


@functools.cache
def _number_loader() -> Any:
    """Load sums of integers as integers, as SQLite returns them."""
    from psycopg.adapt import Loader

    class NumberLoader(Loader):
        def load(self, data: Any) -> int | float:
            text = bytes(data).decode("ascii")
            return int(text) if text.lstrip("-").isdigit() else float(text)

    return NumberLoader


_PLACE: Final = re.compile(r"'(?:[^']|'')*'|::|\?(?P<number>\d*)|:(?P<name>[a-z_]+)|%")
_IS: Final = re.compile(r"\bIS (?=\?)")
_REPLACE: Final = re.compile(r"\s*INSERT OR REPLACE INTO (\w+)(?: \(([^)]*)\))?(.*)", re.DOTALL)
_INSERT: Final = re.compile(r"\s*INSERT INTO (\w+)(?: \(([^)]*)\))? VALUES \(\?(?:, \?)*\)\s*")
_UNNAMED: Final = re.compile(r"\bINSERT INTO (\w+) (?=VALUES|SELECT)")


@functools.lru_cache(maxsize=1024)
def translated_statement(sql: str) -> str:
    """Return a statement for Postgres."""
    replaced = _REPLACE.fullmatch(sql)
    if replaced is not None:
        sql = _upsert(replaced[1], replaced[2], replaced[3])

    sql = _UNNAMED.sub(lambda found: f"INSERT INTO {found[1]} ({', '.join(state_tables()[found[1]][0])}) ", sql)

    def place(found: re.Match[str]) -> str:
        if found["number"] is not None:
            return f"%(p{found['number']})s" if found["number"] else "%s"
        if found["name"] is not None:
            return f"%({found['name']})s"
        return found[0].replace("%", "%%")

    return _PLACE.sub(place, _IS.sub("IS NOT DISTINCT FROM ", sql))


@functools.lru_cache(maxsize=1024)
def copy_statement(sql: str) -> str | None:
    """Return the statement that copies rows into the table that an `INSERT` adds them to, or None for another one."""
    found = _INSERT.fullmatch(sql)
    if found is None:
        return None
    return f"COPY {found[1]} ({found[2] or ', '.join(state_tables()[found[1]][0])}) FROM STDIN"


def _upsert(table: str, named: str | None, values: str) -> str:
    columns, key = state_tables()[table]
    given = [each.strip() for each in named.split(",")] if named else columns
    changes = [f"{name} = excluded.{name}" for name in given if name not in key]
    changes += [f"{name} = DEFAULT" for name in columns if name not in given]
    action = f"DO UPDATE SET {', '.join(changes)}" if changes else "DO NOTHING"
    return f"INSERT INTO {table} ({', '.join(given)}){values} ON CONFLICT ({', '.join(key)}) {action}"


def _given(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> Any:
    if isinstance(parameters, Mapping):
        return {name: _value(each) for name, each in parameters.items()}
    values = [_value(each) for each in parameters]
    if "?1" in sql:
        return {f"p{number}": value for number, value in enumerate(values, start=1)}
    return values


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return stored_text(str(value))
    return int(value) if isinstance(value, bool) else value


def _copied(value: Any) -> Any:
    """Return a value for `COPY`, which takes no `1.0` for an integer, as `INSERT` and SQLite do."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


_TYPES: Final = (
    (re.compile(r"\bINTEGER PRIMARY KEY\b"), "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bREAL\b"), "DOUBLE PRECISION"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    (re.compile(r"\bTEXT\b"), 'TEXT COLLATE "C"'),
    (re.compile(r"\) (?:STRICT|WITHOUT ROWID)(?:, (?:STRICT|WITHOUT ROWID))?\s*$"), ")"),
)
_FUNCTIONS: Final = (
    "CREATE OR REPLACE FUNCTION instr(text, text) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT strpos($1, $2)'",
    "CREATE OR REPLACE FUNCTION json_extract(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS "
    "'SELECT $1::json ->> substr($2, 3)'",
)
"""Functions of SQLite that statements use: `json_extract` with a path of one key."""


def translated_definition(statement: str) -> str:
    """Return a statement of a migration for Postgres; tables have a column `rowid` in the order of insertion."""
    for pattern, text in _TYPES:
        statement = pattern.sub(text, statement)
    if statement.lstrip().startswith("CREATE TABLE") and "IDENTITY" not in statement:
        head, _, _ = statement.rpartition(")")
        statement = f"{head}, rowid BIGINT GENERATED ALWAYS AS IDENTITY)"
    return statement


META: Final = "ktx_state"
"""The table with the number of migrations."""


@contextlib.contextmanager
def shared_transaction(connection: SharedStateConnection) -> Iterator[None]:
    """Run a block as one transaction."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def migrate(database: SharedDatabase, connection: SharedStateConnection) -> None:
    """Create the schema, or bring it to this version; raises `StorageError`, also for a schema of a newer ktx."""
    if version_of(connection, database) == len(MIGRATIONS):
        return
    with shared_transaction(connection):
        if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (database.schema,)).fetchone() is None:
            connection.execute(f'CREATE SCHEMA "{database.schema}"')
        version = version_of(connection, database)
        if not version:
            taken = [name for (name,) in connection.execute(foreign_tables_query("?"), (database.schema,))]
            if taken:
                raise taken_schema(database, taken)
            query = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'procrastinate_jobs'"
            if connection.execute(query, (database.schema,)).fetchone() is not None:
                message = f"the schema {database.schema} contains the queue of another project"
                raise StorageError(message, hint=Hint("choose another {}", SettingPath("storage.postgres.schema")))
            connection.execute(f"CREATE TABLE {META} (version BIGINT NOT NULL, changes BIGINT NOT NULL)")
            connection.execute(f"INSERT INTO {META} (version, changes) VALUES (0, 0)")
            for function in _FUNCTIONS:
                connection.execute(function)
        for script in MIGRATIONS[version:]:
            for statement in filter(str.strip, script.split(";")):
                connection.execute(translated_definition(statement))
        connection.execute(f"UPDATE {META} SET version = ?", (len(MIGRATIONS),))
        connection.execute(f"COMMENT ON TABLE {META} IS 'ktx {__version__}'")


def foreign_tables_query(place: str) -> str:
    """Return the query for the tables in a schema without ktx's own that have names of ktx's tables.

    `place`: the placeholder for the schema.
    """
    names = ", ".join(f"'{name}'" for name in sorted(state_tables()))
    return f"""
        SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = {place} AND c.relname IN ({names}) AND NOT EXISTS (
            SELECT 1 FROM pg_class AS own WHERE own.relnamespace = n.oid AND own.relname = '{META}'
        ) ORDER BY 1
    """


def taken_schema(database: SharedDatabase, tables: Sequence[str]) -> StorageError:
    """Return the error for a schema with tables in the place of ktx's tables."""
    what = f"{'a table' if len(tables) == 1 else 'tables'} that ktx did not create: {listing(tables, 3)}"
    hint = Hint("choose another {}, or drop what is in that schema", SettingPath("storage.postgres.schema"))
    return StorageError(f"the schema {database.schema} contains {what}", hint=hint)


def version_of(connection: SharedStateConnection, database: SharedDatabase) -> int:
    """Return the number of migrations of the schema, 0 if there is none; `StorageError` if a newer ktx created it."""
    return _numbers_of(connection, database)[0]


def _numbers_of(connection: SharedStateConnection, database: SharedDatabase) -> tuple[int, int]:
    """Return the numbers of migrations and of changes, with one statement on a connection that has seen the tables."""
    name = f'"{database.schema}".{META}'
    row: tuple[int, int] | None = None
    if connection.has_tables:
        try:
            row = connection.execute(_NUMBERS).fetchone()
        except StorageError as error:
            if getattr(error.__cause__, "sqlstate", None) != NO_TABLE or connection.in_transaction:
                raise
            connection.has_tables = False  # somebody has dropped the schema
    if row is None:
        if connection.execute("SELECT to_regclass(?)", (name,)).fetchone()[0] is None:
            return 0, 0
        row = connection.execute(_NUMBERS).fetchone()
        connection.has_tables = True
    assert row is not None
    version, changes = int(row[0]), int(row[1])
    if version > len(MIGRATIONS):
        query = "SELECT obj_description(CAST(to_regclass(?) AS oid), 'pg_class')"
        raise newer_state(database, version, connection.execute(query, (name,)).fetchone()[0])
    return version, changes


_NUMBERS: Final = f"SELECT version, changes FROM {META}"
NO_TABLE: Final = "42P01"


def newer_state(database: SharedDatabase, version: int, created_by: str | None) -> StorageError:
    """Return the error for a schema of a newer ktx. `created_by`: its version, if it is known."""
    of = f"{created_by}, " if created_by else ""
    versions = f"{of}version {version}; this one supports up to {len(MIGRATIONS)}"
    message = f"the state database ({database}) was created by a newer ktx ({versions})"
    update = Command("install", "--upgrade", "ktx-cli[postgres]", program="pip")
    return StorageError(message, hint=update, details={"version": version})


def count_change(connection: SharedStateConnection) -> None:
    """Count a change, so that servers know that what they derived from the state may have changed."""
    connection.execute(f"UPDATE {META} SET changes = changes + 1")


def changes_of(database: SharedDatabase) -> int:
    """Return the number of changes to a shared state."""
    return _numbers_of(reader_of(database), database)[1]


def copy_shared(database: SharedDatabase, target: sqlite3.Connection) -> None:
    """Copy the rows of a shared state to the tables of a file, as they are at one moment.

    Skips `UNCOPIED_TABLES`. Rows are read a few at a time. Raises `StorageError`.
    """
    import psycopg

    copied = {table: found for table, found in state_tables().items() if table not in UNCOPIED_TABLES}
    is_there = bool(version_of(reader_of(database), database))
    target.execute("BEGIN")
    try:
        for table in state_tables().keys() - LOCAL_TABLES:
            target.execute(f"DELETE FROM {table}")
        if is_there:
            with contextlib.closing(connect(database, read_only=True)) as session:
                session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                with session.transaction():
                    for table, (columns, key) in copied.items():
                        _copy_table(session, table, columns, key or ["rowid"], target)
    except BaseException as error:
        target.execute("ROLLBACK")
        if isinstance(error, psycopg.Error):
            raise database_failure(database, error) from error
        raise
    target.execute("COMMIT")


def _copy_table(
    session: psycopg.Connection[Any],
    table: str,
    columns: Sequence[str],
    order: Sequence[str],
    target: sqlite3.Connection,
) -> None:
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    with session.cursor(name="copied") as cursor:
        cursor.itersize = _COPIED_AT_ONCE
        cursor.execute(f"SELECT {names} FROM {table} ORDER BY {', '.join(order)}".encode())
        target.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", cursor)


def limit_patience(database: object, seconds: float) -> None:
    """Let the statements of a shared state wait no longer than this, such as in a process that ends; others do not."""
    if isinstance(database, SharedStateConnection):
        database.patience = min(database.patience, seconds)


_READERS: dict[SharedDatabase, SharedStateConnection] = {}
_READERS_LOCK: Final = threading.Lock()


def reader_of(database: SharedDatabase) -> SharedStateConnection:
    """Return this process's connection for reading, which stays open."""
    with _READERS_LOCK:
        if not _READERS:
            atexit.register(close_readers)
        if database not in _READERS:
            _READERS[database] = SharedStateConnection(database, read_only=True)
        return _READERS[database]


def close_readers() -> None:
    """Close the connections for reading; reading opens them again."""
    with _READERS_LOCK:
        while _READERS:
            _READERS.popitem()[1].close()


@contextlib.contextmanager
def open_shared(database: SharedDatabase, part: str | None = None) -> Iterator[SharedStateConnection]:
    """Open the shared state for writing, created and migrated; raises `StorageError`. `part`: as in `lock_key_of`."""
    connection = SharedStateConnection(database)
    try:
        migrate(database, connection)
        connection.lock_key = database.lock_key_of(part)
        yield connection
        count_change(connection)
    finally:
        connection.close()
