"""The base for database server connectors: a pool of tagged read-only sessions, catalog reads, and errors."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, SettingPath, SourceError, listing
from ktx_cli.project import WAREHOUSES, redact
from ktx_cli.warehouses import base
from ktx_cli.warehouses.base import require_known, require_reading
from ktx_cli.warehouses.interruption import RunningStatements
from ktx_cli.warehouses.pool import Pool, PoolBusyError
from ktx_cli.warehouses.port import ConnectionTest, ObjectProblem

if TYPE_CHECKING:
    import psycopg
    import pymysql

    from ktx_cli.warehouses.port import ConnectionSpec, DatabaseSchema, QueryResult, Scope, TableRef

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 10
"""The maximum number of sessions per connection, unless `maxConnections` is set."""

RETURN_SECONDS = 5.0
"""The time that a server has to accept a new session after dropping one: Postgres restarts if a process crashes."""

_RETRY_SECONDS = 0.2
_REPLACING = Lock()


class Reader(Protocol):
    """Runs one of ktx's own catalog queries."""

    def __call__(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server and the user, from `url` or from separate fields (which override parts of the URL)."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    parameters: dict[str, str] = field(default_factory=dict, repr=False)
    """The query part of the URL."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}" if self.database else f"{self.host}:{self.port}"


class ServerConnector(base.BaseConnector, ABC):
    """Up to `maxConnections` sessions on one server; `query` can be called from several threads at once.

    A session is in autocommit mode and read-only, every statement is tagged, and a statement of the user runs in a
    read-only transaction of its own that is always rolled back.
    """

    placeholder = "%s"
    default_port: ClassVar[int]
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]]
    """The allowed query parameters of the URL, with their values (any if empty)."""
    reading: ClassVar[frozenset[str]]
    """The words that a read-only statement can begin with."""
    session_facts: ClassVar[tuple[str, ...]] = ()
    """The SELECTs of the user and database of a session, and of its roles, which an older server may not know."""
    interruptible: bool = True
    """Whether another thread can cancel a statement of `query` in the database."""

    def __init__(self, spec: ConnectionSpec) -> None:
        self.address = server_address(spec, self.default_port)
        require_known(spec, self.address.parameters, self.url_parameters)
        super().__init__(spec, str(self.address))
        self.spec = spec
        self.options = spec.options
        self._closed = False
        self._under_way = RunningStatements()
        self._pool = self._make_pool(_session_limit(spec))
        try:
            with self._rows():
                pass
        except BaseException:
            self.close()
            raise

    @property
    def own_catalog(self) -> str | None:
        """See `catalog_of`."""
        return self.address.database or None

    def test(self, scope: Scope) -> ConnectionTest:
        """Make one round trip, and return the version, user and privileges."""
        with self._rows() as read:
            latency = base.milliseconds(lambda: read("SELECT 1"))
            return self._test(read, scope, latency)

    def reader(self) -> str:
        """See `Identified`: the settings, the address with the user, and the facts of a session."""
        with self._rows() as read:
            facts = self._session_facts(read)
        text = repr((super().reader(), str(self.address), self.address.user, facts))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _session_facts(self, read: Reader) -> Sequence[Any]:
        parts = PartReader(read, self._driver_error())
        return [read(sql) if not place else parts("roles", sql) for place, sql in enumerate(self.session_facts)]

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the structure of all relations in scope with a handful of catalog queries."""
        with self._picture() as read:
            return self._introspect(read, scope)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one read-only statement and fetch at most `max_rows` rows; the rest is never transferred.

        If a statement ends its session and the server accepts a new one, only this statement fails (see `base.ended`).
        It is not sent again, because it may have crashed the server.
        """
        self._check(sql)
        pool, began = self._pool, False
        try:
            with self._session(sql) as session:
                began = True
                with self._time_limit(session):
                    return self._query(session, sql, tuple(parameters) or None, max_rows)
        except SourceError as error:
            if not began or error.code != "connection" or not self._comes_back(pool):
                raise
            raise self.ended(error) from error

    def interrupt(self) -> None:
        """See `Interruptible`: asks the database to cancel the running statements of `query`."""
        if self.interruptible:
            self._under_way.cancel_all((self._driver_error(), *self._unasked(), SourceError, OSError))

    @contextmanager
    def _cancellable(self, cancel: Callable[[], bool], session: Any = None) -> Iterator[None]:
        """Let `interrupt` cancel the statement in the block, which then fails as a timeout.

        `cancel`: see `RunningStatement`. `session`: is closed if its statement was cancelled, because a late request
        to cancel would end its next one.
        """
        statement = None
        try:
            with self._under_way.under_way(cancel) as statement:
                yield
        except Exception as error:
            if statement is not None and statement.was_cancelled:
                raise self.timeout(of_the_user=True) from error
            raise
        finally:
            if statement is not None and statement.was_cancelled and session is not None:
                self._end(session)

    def _unasked(self) -> tuple[type[Exception], ...]:
        """Return other errors of a request to cancel."""
        return ()

    def close(self) -> None:
        """Close all sessions; calling it twice is harmless."""
        self._closed = True
        self._pool.close()

    def _check(self, sql: str) -> None:
        """Raise `SourceError` for a statement that is not read-only."""
        require_reading(sql, self.reading, self.where)

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new DB-API connection: tagged, autocommit, read-only, with limits."""

    @abstractmethod
    def _test(self, read: Reader, scope: Scope, latency: float) -> ConnectionTest:
        """Return the result of `test`; `latency` is in milliseconds."""

    @abstractmethod
    def _introspect(self, read: Reader, scope: Scope) -> DatabaseSchema:
        """Read the catalog."""

    @abstractmethod
    def _query(self, session: Any, sql: str, parameters: tuple[Any, ...] | None, max_rows: int) -> QueryResult:
        """Run the statement in a read-only transaction and roll it back."""

    @abstractmethod
    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        """Return (message, hint, error code) for a driver's error.

        Code `timeout` needs no message; for code `locked`, the message is SQL that shows the lock's holder.
        """

    @abstractmethod
    def _reusable(self, session: Any) -> bool:
        """Return whether a session is open and idle, like a new one."""

    @abstractmethod
    def _driver_error(self) -> type[Exception]:
        """Return the base class of the driver's errors."""

    def _socket_of(self, session: Any) -> int | None:
        """Return the file descriptor of a session's connection, or None if the client has its own time limit."""
        return None

    @contextmanager
    def _time_limit(self, session: Any) -> Iterator[None]:
        """Close the session if the server does not stop a statement in time: not everything can be interrupted."""
        number = self._socket_of(session)
        if number is None:
            yield
            return
        with cut_after(number, self.statement_seconds + base.STOP_SECONDS) as expired:
            try:
                yield
            except (self._driver_error(), OSError):
                if expired.is_set():
                    raise self.unstopped() from None
                raise

    def _tested(
        self,
        session: tuple[float, str, str | None, str | None],
        tables: int,
        readable: Mapping[TableRef, bool],
        *,
        can_write: bool,
        facts: Iterable[str] = (),
    ) -> ConnectionTest:
        """Return the result of a test: the session's latency, version, user and database, and the readable tables.

        `tables`: the number of tables in scope. `readable`: table -> whether the role may SELECT from it, if known.
        """
        latency, version, user, database = session
        closed = tuple(ref for ref, is_readable in readable.items() if not is_readable)
        privileges = [f"SELECT on {len(readable) - len(closed)} of {len(readable)} tables"]
        privileges += [f"no SELECT on {listing(map(str, closed))}"] if closed else []
        return ConnectionTest(latency, version, tables, can_write, user, (*privileges, *facts), closed, database)

    def _make_pool(self, limit: int) -> Pool[Any]:
        return Pool(self._end, most_open=limit)

    def _end(self, session: Any) -> None:
        """Close a session. Errors from closing a broken session are ignored."""
        with suppress(Exception):
            session.close()

    def _comes_back(self, pool: Pool[Any]) -> bool:
        """Return whether the server accepts new sessions. The broken pool is replaced, because all its sessions may be
        lost.
        """
        with _REPLACING:
            if self._pool is pool and not self._closed:
                self._pool = Pool(self._end, most_open=pool.most_open)
                pool.close()
        until = time.monotonic() + RETURN_SECONDS
        while not self._closed:
            try:
                with self._rows():
                    return True
            except SourceError as error:
                if error.code != "connection" or time.monotonic() > until:
                    return False
            time.sleep(_RETRY_SECONDS)
        return False

    @contextmanager
    def _picture(self) -> Iterator[Reader]:
        """Yield the reader for an introspection; a subclass may run its statements in one snapshot."""
        with self._rows() as read:
            yield read

    @contextmanager
    def _rows(self) -> Iterator[Reader]:
        """Yield a function that runs one of ktx's own catalog queries and returns its rows."""
        with self._session(None) as session:

            def read(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                return self._read(session, sql, parameters)

            yield read

    def _read(self, session: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with session.cursor() as cursor:
            cursor.execute(sql, tuple(parameters) or None)
            return [tuple(row) for row in cursor.fetchall()]

    @contextmanager
    def _session(self, sql: str | None) -> Iterator[Any]:
        """Yield a DB-API connection from the pool. `sql` is the user's statement, for errors.

        A broken session is discarded, so that the next call gets a new one; so is one whose pool was replaced.
        """
        if self._closed:
            raise self.failure("the connection is closed")
        pool = self._pool
        try:
            lent = pool.take(self._connect, wait=self.statement_seconds)
        except (self._driver_error(), OSError) as error:
            raise self._translated(error, None) from None
        except PoolBusyError as error:
            setting = SettingPath(f"connections.{self.id}.maxConnections")
            raise self.failure("all sessions are busy", hint=Hint("raise {}", setting)) from error
        session = lent.item
        try:
            yield session
        except (self._driver_error(), OSError, UnicodeError) as error:
            raise self._translated(error, sql) from None
        finally:
            pool.give_back(lent, keep=pool is self._pool and self._reusable(session))

    def _translated(self, error: BaseException, sql: str | None) -> SourceError:
        message, hint, code = self._describe(error if isinstance(error, Exception) else Exception(str(error)))
        if code == "timeout":
            return self.timeout(of_the_user=sql is not None)
        if code == "locked":
            return self.locked(message)
        if code == "query" and sql is None:
            code = "connection"
        return self.failure(self._redacted(message), hint=hint, code=code)

    def _settings(self, *parts: str) -> Hint:
        """Return where parts of the address (`host`, `port`, `database`, `username`, `password`) are set."""
        keys = {part: self._key_of(part) for part in parts}
        places = [Hint(SettingPath(f"connections.{self.id}.{key}")) for key in keys.values() if key != "url"]
        within = " and ".join(f"the {part}" for part, key in keys.items() if key == "url")
        if within:
            places.append(Hint("{} in {}", within, SettingPath(f"connections.{self.id}.url")))
        return Hint.steps(*places, between=" and ")

    def _key_of(self, part: str) -> str:
        names = (part, "user") if part == "username" else (part,)
        given = [name for name in (*names, "url") if self.options.get(name)]
        return given[0] if given else part

    def _redacted(self, text: str) -> str:
        secret = self.address.password
        return redact(text, (secret, repr(secret)[1:-1])) if secret else text


class PartReader:
    """Reads table metadata one kind at a time, so that if one kind fails, the others are still read."""

    def __init__(self, read: Reader, driver_error: type[Exception]) -> None:
        self._read = read
        self._error = driver_error
        self.problems: list[ObjectProblem] = []

    def __call__(self, what: str, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows, or none and a problem that states what could not be read."""
        return self.guarded(what, lambda: self._read(sql, parameters))

    def guarded(self, what: str, read: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Return the result of `read`, or nothing and a problem."""
        try:
            return read()
        except self._error as error:
            self.problems.append(ObjectProblem(None, what, base.reason(error)))
            return []

    def changes(self, read: Callable[[Reader], dict[TableRef, str]]) -> dict[TableRef, str]:
        """Return the evidence of tables, or none if the role may not read it: all tables then count as changed."""
        try:
            return read(self._read)
        except self._error as error:
            log.debug("no evidence of changes of tables: %s", base.reason(error))
            return {}


def server_address(spec: ConnectionSpec, default_port: int) -> ServerAddress:
    """Return the address in a connection's `url` or its `host`, `port`, `database`, `username` (or `user`), `password`.

    Raises `ConfigError` for an invalid URL or port, or if no host is set. It never shows the URL.
    """
    options = spec.options
    try:
        parts = urlsplit(str(options.get("url") or ""))
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        port = int(options.get("port") or parts.port or parameters.get("port") or default_port)
        host = str(options.get("host") or parts.hostname or parameters.get("host") or "")
    except ValueError:
        raise _bad_address(spec, "its `url` or `port` cannot be read") from None
    # An unencoded reserved character in a password ends the host too early, and part of it would be shown.
    if (options.get("url") and not parts.scheme) or parts.fragment or "@" in parts.path + parts.query:
        raise _bad_address(spec, "its `url` cannot be read")
    if not host:
        raise _bad_address(spec, "it contains no host")
    return ServerAddress(
        host=unquote(host),
        port=port,
        database=str(options.get("database") or unquote(parts.path.removeprefix("/"))),
        user=str(
            options.get("username")
            or options.get("user")
            or unquote(parts.username or "")
            or parameters.get("user", "")
        ),
        password=str(options.get("password") or unquote(parts.password or "") or parameters.get("password", "")),
        parameters=parameters,
    )


def option_flag(options: Mapping[str, Any], key: str) -> bool | None:
    """Return a boolean option, given as a boolean or as text, or None if it is not set."""
    value = options.get(key)
    if value is None or isinstance(value, bool):
        return value
    return str(value).strip().lower() in ("true", "1", "yes", "on")


def _session_limit(spec: ConnectionSpec) -> int:
    value = spec.options.get("maxConnections")
    if value is None:
        return MAX_CONNECTIONS
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    message = f"connection `{spec.id}`: `maxConnections` must be a number above 0"
    raise ConfigError(message, hint=Command("config", "set", f"connections.{spec.id}.maxConnections", MAX_CONNECTIONS))


def _bad_address(spec: ConnectionSpec, what: str) -> ConfigError:
    kind = WAREHOUSES.find(spec.driver)
    scheme = kind.schemes[0] if kind is not None and kind.schemes else spec.driver
    return ConfigError(
        f"connection `{spec.id}`: {what}",
        hint=Hint(
            (
                "set {} to {}://USER:PASSWORD@HOST:PORT/DATABASE with reserved characters in the password "
                "percent-encoded"
            ),
            SettingPath(f"connections.{spec.id}.url"),
            scheme,
        ),
    )


CLEAR_TEXT = "the server requests a plaintext password, and the connection may not be encrypted"
"""The error for a server to which ktx did not send the password."""


def is_local(host: str) -> bool:
    """Return whether a host, or every host of a comma-separated list, refers to this machine.

    Local hosts are a unix socket (a path, or `@` and a name), `localhost` and loopback addresses. No other name is,
    wherever it resolves to.
    """
    return all(_is_local(each.strip()) for each in host.split(","))


def addresses(host: str, port: int) -> list[str]:
    """Return a host's addresses without duplicates, in the system's order. Raises `OSError` if there are none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a valid host name") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def shares(places: Sequence[str], seconds: float) -> Iterator[tuple[str, float]]:
    """Yield the addresses to try and the number of seconds for each; unused time is available to later addresses."""
    deadline = time.monotonic() + seconds
    for number, place in enumerate(places):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        yield place, left / (len(places) - number)


def open_socket(host: str, port: int, seconds: float) -> socket.socket:
    """Return a TCP socket connected to the first address that responds. Raises `OSError`."""
    failure: OSError = TimeoutError("timed out")
    for address, share in shares(addresses(host, port), seconds):
        try:
            link = socket.create_connection((address, port), share)
        except OSError as error:
            failure = error
            continue
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return link
    raise failure


@contextmanager
def cut_after(link: socket.socket | int, seconds: float) -> Iterator[threading.Event]:
    """Shut down the connection if the block takes longer, whatever it is waiting for; the event records that it did.

    `link` is its socket, or the file descriptor of a connection that another library reads.
    """
    # TLS wraps the socket in another object, so this keeps the connection itself. `socket.dup` would also make it
    # blocking, and libpq would wait for data that never arrives.
    number = link if isinstance(link, int) else link.fileno()
    twin = socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM)
    expired = threading.Event()

    def cut() -> None:
        expired.set()
        try:
            twin.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # The other side has already closed it.

    timer = threading.Timer(max(seconds, 0), cut)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()
        timer.join()
        twin.close()


def _is_local(host: str) -> bool:
    if host.startswith(("/", "@")) or host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


TAG = "/* ktx */"
"""The comment that identifies ktx in a database's log."""


def tagged(sql: str) -> str:
    """Return the statement with the comment in front."""
    return f"{TAG} {sql}"


def tagged_postgres_cursor() -> type[psycopg.Cursor[Any]]:
    """Return a psycopg cursor class that adds the comment to statements.

    psycopg itself sends SQL without a cursor only for transactions and two-phase commits. With autocommit on, and begin
    and rollback executed as statements, there are none.
    """
    from psycopg import Cursor
    from psycopg.sql import SQL, Composable

    def mark(query: Any) -> Any:
        if isinstance(query, bytes):
            return TAG.encode() + b" " + query
        return SQL(TAG + " ") + query if isinstance(query, Composable) else tagged(str(query))

    class TaggedCursor(Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            return super().execute(mark(query), params, **options)

        def executemany(self, query: Any, params_seq: Any, **options: Any) -> Any:
            return super().executemany(mark(query), params_seq, **options)

        def stream(self, query: Any, params: Any = None, **options: Any) -> Any:
            return super().stream(mark(query), params, **options)

    return TaggedCursor


def tagged_mysql_connection() -> type[pymysql.connections.Connection[Any]]:
    """Return a PyMySQL connection class that adds the comment to statements.

    Every packet of PyMySQL goes through `_execute_command`, including `SET NAMES` while connecting and `ROLLBACK`.
    Every request for a password goes through `_process_auth`; two of the methods send it in plaintext.
    """
    from pymysql.connections import Connection
    from pymysql.constants import COMMAND, CR
    from pymysql.err import OperationalError

    # Generic only in its type stubs.
    base: Any = Connection

    class TaggedConnection(base):  # type: ignore[misc]
        def _execute_command(self, command: int, sql: str | bytes) -> None:
            if command == COMMAND.COM_QUERY:
                # The encoding of a connection may vary, but the comment is ASCII in all encodings.
                text = sql if isinstance(sql, bytes) else sql.encode(self.encoding, "surrogateescape")
                sql = TAG.encode() + b" " + text
            super()._execute_command(command, sql)

        def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
            if plugin_name in (b"mysql_clear_password", b"dialog") and not self._is_private():
                raise OperationalError(CR.CR_AUTH_PLUGIN_ERR, CLEAR_TEXT)
            return super()._process_auth(plugin_name, *rest)

        def _is_private(self) -> bool:
            return bool(self._secure) or is_local(str(self._sock.getpeername()[0]))

    return TaggedConnection
