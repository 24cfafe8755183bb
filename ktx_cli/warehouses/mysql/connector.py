"""Read MySQL, MariaDB and servers with their protocol with PyMySQL; a schema is a database on these servers."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ktx_cli.core import Command, ConfigError, Hint, SettingPath
from ktx_cli.warehouses import base, port, server
from ktx_cli.warehouses.base import ADDRESS, ANY, FLAG, TableDraft, fill, folded, option_file, read_only_error, reason
from ktx_cli.warehouses.cloud import require_query
from ktx_cli.warehouses.mysql.dialect import DIALECT
from ktx_cli.warehouses.server import PartReader, Reader, ServerConnector, option_flag, tagged_mysql_connection

if TYPE_CHECKING:
    import socket


_TO_FILE = re.compile(r"\b(OUTFILE|DUMPFILE)\b", re.IGNORECASE)
_EXECUTED = re.compile(r"\s*(EXPLAIN|DESCRIBE|DESC)\s+ANALYZE\b", re.IGNORECASE)
_STATEFUL = re.compile(r"_LOCK|@|LAST_INSERT_ID|_VALUE_FOR|SLEEP|FOUND_ROWS", re.IGNORECASE)
"""Expressions that change a session's state: locks and variables."""

_RIGHTS = "SELECT table_schema, table_name, privileges FROM information_schema.columns WHERE table_schema IN %s"
_GRANT = re.compile(r"^GRANT (?P<rights>.+?) ON (?P<place>\S+|`.*?`\.\S+) TO ")
_WRITING = re.compile(r"\b(ALL PRIVILEGES|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|TRUNCATE|SUPER|FILE)\b")
_MODES = (
    *("disabled", "preferred", "required", "verify-ca", "verify-identity"),
    *("disable", "prefer", "require", "verify-full"),
)
_WITHOUT_EFFECT = ("charset", "connect_timeout", "connectTimeout", "connectionLimit", "timezone")
_ANALYTIC = re.compile(r"StarRocks|Doris", re.IGNORECASE)
_STOPPED = (1969, 3024, 1317)
_WAITED = (1205,)
_REFUSED_WRITES = (1792, 1290, 1836)
_LOST = (2006, 2013, 2014, 2055, 1053, 1927, 4031)


class MySqlConnector(ServerConnector):
    """Read-only sessions on a MySQL or MariaDB server."""

    dialect = "mysql"
    own_catalog = None
    default_port = 3306
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **ADDRESS,
        **dict.fromkeys(("sslmode", "ssl-mode"), _MODES),
        **dict.fromkeys(_WITHOUT_EFFECT, ANY),
        "ssl": FLAG,
    }
    reading = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})
    _analytic = False
    """Whether the server is StarRocks or Apache Doris, whose transactions only write and which have other limits."""

    def _check(self, sql: str) -> None:
        super()._check(sql)
        # A read-only transaction does not prevent a statement from writing a file on the server.
        if _TO_FILE.search(sql):
            raise read_only_error(self.where, "a statement with OUTFILE or DUMPFILE is")
        if self._analytic:
            if _EXECUTED.match(sql):
                raise read_only_error(self.where, "EXPLAIN ANALYZE, which executes the statement, is")
            require_query(sql, self.dialect, self.where)

    def _connect(self) -> Any:
        connection = self._unconnected()
        deadline = time.monotonic() + base.CONNECT_SECONDS
        link = self._reach()
        with server.cut_after(link, deadline - time.monotonic()) as expired:
            try:
                self._log_in(connection, link)
            except (self._driver_error(), OSError, RuntimeError) as error:
                raise self._connect_failure(error, expired.is_set()) from None
        return connection

    def _reach(self) -> socket.socket:
        import pymysql

        address = self.address
        try:
            return server.open_socket(address.host, address.port, base.CONNECT_SECONDS)
        except OSError as error:
            text = f"Can't connect to MySQL server on {address.host!r} ({error})"
            raise pymysql.err.OperationalError(2003, text) from None

    def _log_in(self, connection: Any, link: socket.socket) -> None:
        try:
            connection.connect(link)
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@version_comment")
                self._analytic = bool(_ANALYTIC.search(str(cursor.fetchone())))
                self.interruptible = not self._analytic
                if self.interruptible:
                    cursor.execute("SELECT @@hostname, @@port, @@server_id")
                    connection.reached = cursor.fetchone()
                for statement in self._session_settings(connection.server_version):
                    cursor.execute(statement)
        except BaseException:
            link.close()
            connection._force_close()
            raise

    def _session_settings(self, version: str) -> list[str]:
        if self._analytic:
            return [f"SET SESSION query_timeout = {int(self.statement_seconds)}"]
        limit = (
            f"max_statement_time = {self.statement_seconds:g}"
            if "MariaDB" in version
            else f"max_execution_time = {int(self.statement_seconds * 1000)}"
        )
        own = (f"lock_wait_timeout = {base.LOCK_SECONDS}", limit)
        return ["SET SESSION TRANSACTION READ ONLY", *(f"SET SESSION {each}" for each in own)]

    def _connect_failure(self, error: Exception, expired: bool) -> Exception:
        if expired:
            return self.failure(
                f"the server did not respond within {base.CONNECT_SECONDS} seconds",
                hint=Hint("check {} and .port, and the firewall", SettingPath(f"connections.{self.id}.host")),
            )
        # Without the package, PyMySQL cannot send a password encrypted with the server's key.
        if isinstance(error, RuntimeError) and "cryptography" in str(error):
            return self.failure(
                "the server requires an encrypted connection or an encrypted password",
                hint=Hint(
                    "{}, or: {}",
                    Command("config", "set", f"connections.{self.id}.ssl", "true"),
                    Command("install", "cryptography", program="pip"),
                ),
            )
        return error

    def _unconnected(self) -> Any:
        address = self.address
        return tagged_mysql_connection()(
            host=address.host,
            port=address.port,
            user=address.user or None,
            # PyMySQL encodes text as Latin-1.
            password=address.password.encode(),
            database=address.database or None,
            charset="utf8mb4",
            autocommit=True,
            read_timeout=self.statement_seconds + base.CONNECT_SECONDS,
            program_name="ktx",
            defer_connect=True,
            **self._tls(),
        )

    def _tls(self) -> dict[str, Any]:
        """Return PyMySQL's TLS arguments for `ssl` (yes, no, or ca/cert/key/rejectUnauthorized) and the URL."""
        given = self.options.get("ssl")
        fields = given if isinstance(given, dict) else {}
        mode = folded(self.address.parameters.get("ssl-mode") or self.address.parameters.get("sslmode") or "")
        wanted = True if fields else option_flag(self.options, "ssl")
        if wanted is None:
            wanted = option_flag(self.address.parameters, "ssl")
        if mode.startswith(("require", "verify")):
            wanted = True
        if wanted is False or mode.startswith("disable"):
            return {"ssl_disabled": True}
        if not wanted:
            return {}
        verified = option_flag(fields, "rejectUnauthorized")
        if verified is None:
            verified = option_flag(self.options, "rejectUnauthorized")
        if verified is None and mode.startswith("require"):
            verified = False
        return {"ssl": self._context(fields, verified is not False)}

    def _context(self, fields: dict[str, Any], verified: bool) -> ssl.SSLContext:
        files = {
            key: option_file(self.spec, f"ssl.{key}", str(fields[key]))
            for key in ("ca", "cert", "key")
            if fields.get(key)
        }
        try:
            context = ssl.create_default_context(cafile=files.get("ca"))
            if not verified:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if "cert" in files:
                context.load_cert_chain(files["cert"], keyfile=files.get("key"))
        except OSError as error:
            message = f"connection `{self.id}`: a file named in `ssl` cannot be used: {error.strerror or error}"
            hint = Hint("check {}, .cert and .key", SettingPath(f"connections.{self.id}.ssl.ca"))
            raise ConfigError(message, hint=hint) from error
        return context

    def _query(self, session: Any, sql: str, parameters: tuple[Any, ...] | None, max_rows: int) -> port.QueryResult:
        with self._cancellable(lambda: self._kill(session), session):
            return self._executed(session, sql, parameters, max_rows)

    def _kill(self, session: Any) -> bool:
        """Cancel the statement of a session from a second one, if that one is on the same server.

        An address may lead to several servers, on each of which the number of a session means another one.
        """
        other = self._connect()
        try:
            if other.reached == session.reached:
                with other.cursor() as cursor:
                    cursor.execute(f"KILL QUERY {int(session.thread_id())}")
        finally:
            self._end(other)
        return False  # the session may have been between two statements

    def _executed(self, session: Any, sql: str, parameters: tuple[Any, ...] | None, max_rows: int) -> port.QueryResult:
        from pymysql.cursors import SSCursor

        # The server has a default row limit of its own, unless the statement has a larger LIMIT.
        session.query(f"SET SESSION sql_select_limit = {max_rows + 1}")
        if not self._analytic:
            session.query("START TRANSACTION READ ONLY")
        cursor = session.cursor(SSCursor)
        try:
            cursor.execute(sql, parameters)
            rows, cut = base.capped(iter(cursor.fetchone, None), max_rows)
            columns = tuple(each[0] for each in cursor.description or ())
            more = cut and cursor.fetchone() is not None
        except BaseException:
            _cut_off(session)
            raise
        if more or _STATEFUL.search(sql):
            # Reading on would transfer all remaining rows, and a lock or variable would stay. The pool replaces the
            # session.
            _cut_off(session)
        else:
            cursor.close()
            if not self._analytic:
                session.rollback()
            session.query("SET SESSION sql_select_limit = DEFAULT")
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return port.QueryResult(columns, rows, cut)

    def _socket_of(self, session: Any) -> int | None:
        return int(session._sock.fileno()) if session.open else None

    def _reusable(self, session: Any) -> bool:
        return bool(session.open)

    def _test(self, read: Reader, scope: port.Scope, latency: float) -> port.ConnectionTest:
        ((version, comment, user),) = read("SELECT version(), @@version_comment, current_user()")
        found = port.select(self._relations(read, scope), scope)
        rights = _column_rights(read, {ref.schema for ref in found.refs})
        # A view that errors lists no columns, so nothing is known about it.
        known = {ref: rights[ref] for ref in found.refs if ref in rights}
        writes = any({"insert", "update"} & allowed for allowed in known.values())
        return self._tested(
            (latency, _server_version(version, comment), user, self.address.database or None),
            len(found.refs),
            {ref: "select" in allowed for ref, allowed in known.items()},
            can_write=writes or _grants_writing(read, {ref.schema for ref in found.refs}),
        )

    def _introspect(self, read: Reader, scope: port.Scope) -> port.DatabaseSchema:
        ((version, comment),) = read("SELECT version(), @@version_comment")
        parts = PartReader(read, self._driver_error())
        tables, problems = MySqlCatalog(read, parts).read(self._relations(read, scope), scope)
        return port.DatabaseSchema(tables, (*problems, *parts.problems), _server_version(version, comment))

    session_facts = ("SELECT current_user(), database()", "SELECT current_role()")

    def table_evidence(self, tables: Sequence[port.Table]) -> Mapping[port.TableRef, str]:
        """See `TableEvident` and `read_changes`."""
        with self._rows() as read:
            return PartReader(read, self._driver_error()).changes(read_changes)

    def _relations(self, read: Reader, scope: port.Scope) -> dict[port.TableRef, TableDraft]:
        """The relations that may be in scope: without `schemas`, those of the connection's own database and of schemas
        named in a scope entry.
        """
        relations = list_relations(read)
        database = self.address.database
        present = {ref.schema for ref in relations if ref.schema is not None}
        # Some servers store names in lower case, whatever case a query uses.
        folded = {schema for schema in present if schema.casefold() == database.casefold()}
        return port.at_home(relations, scope, *({database} & present or folded or {database} if database else ()))

    def _driver_error(self) -> type[Exception]:
        import pymysql

        return pymysql.Error

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1]) if len(error.args) > 1 else str(error)
        if number in _STOPPED:
            return "", None, "timeout"
        if number in _WAITED:
            return "SHOW FULL PROCESSLIST", None, "locked"
        if text == server.CLEAR_TEXT:
            return text, Command("config", "set", f"connections.{self.id}.ssl", "true"), "connection"
        if number in _REFUSED_WRITES:
            return f"{text}: ktx only reads", "write a single SELECT statement", "read_only"
        hint = self._connection_hint(number, text)
        if hint is not None or number >= 2000 or number in _LOST or isinstance(error, OSError):
            return text, hint or Command("connection", "test", self.id), "connection"
        return text, None, "query"

    def _connection_hint(self, number: int, text: str) -> str | None:
        key = f"connections.{self.id}"
        if "SSL" in text or "certificate" in text.lower():
            message = "set {} to {}, to {}, or to false"
            return Hint(message, SettingPath(f"{key}.ssl"), "{ca: FILE}", "{rejectUnauthorized: false}")
        return {
            1044: Hint("check {} and the user's grants", self._settings("database")),
            1045: Hint("check {}", self._settings("username", "password")),
            1049: Hint("check {}", self._settings("database")),
            1130: "ask the server's administrator to allow this host",
            1040: Hint("lower {}", SettingPath(f"{key}.maxConnections")),
            1203: Hint("lower {}", SettingPath(f"{key}.maxConnections")),
            2003: Hint("start the server, or check {}", self._settings("host", "port")),
            2005: Hint("check {}", self._settings("host")),
            3159: Hint("set {} to true", SettingPath(f"{key}.ssl")),
        }.get(number)


def _cut_off(session: Any) -> None:
    """Close the socket while rows are pending, because PyMySQL would wait for them."""
    if session._result is not None:
        session._result.unbuffered_active = False
    session._force_close()


def _server_version(version: str, comment: str) -> str:
    if _ANALYTIC.search(comment):
        return comment
    return version if "MariaDB" in version else f"MySQL {version} ({comment})"


def _column_rights(read: Reader, schemas: set[str | None]) -> dict[port.TableRef, set[str]]:
    """The role's privileges on at least one column in each table: `select`, `insert`, `update`, `references`."""
    found: dict[port.TableRef, set[str]] = {}
    # DISTINCT would treat names that differ only in case as equal.
    rows = read(_RIGHTS, (tuple(schemas),)) if schemas else []
    for schema, table, privileges in rows:
        found.setdefault(port.TableRef(schema, table), set()).update(str(privileges).split(","))
    return found


def _grants_writing(read: Reader, schemas: set[str | None]) -> bool:
    for (line,) in read("SHOW GRANTS"):
        grant = _GRANT.match(str(line))
        if grant is None or not _WRITING.search(grant["rights"]):
            continue
        schema = grant["place"].rpartition(".")[0].strip("`").replace("\\_", "_")
        if schema == "*" or schema in schemas:
            return True
    return False


_RELATIONS = """
SELECT table_schema, table_name, table_type, table_rows, table_comment FROM information_schema.tables
WHERE table_schema NOT IN
  ('mysql', 'information_schema', 'performance_schema', 'sys', '_statistics_', '__internal_schema')
  AND table_type IN ('BASE TABLE', 'VIEW', 'SYSTEM VERSIONED')
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, column_type, is_nullable = 'YES', column_default, column_comment,
       generation_expression, extra
FROM information_schema.columns WHERE table_schema IN %s ORDER BY table_schema, table_name, ordinal_position
"""
_INDEXES = """
SELECT table_schema, table_name, index_name, non_unique, column_name, sub_part
FROM information_schema.statistics WHERE table_schema IN %s
ORDER BY table_schema, table_name, index_name, seq_in_index
"""
# TABLE_CONSTRAINTS and REFERENTIAL_CONSTRAINTS are empty for a role that may only SELECT; this one is not.
_FOREIGN_KEYS = """
SELECT table_schema, table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name,
       referenced_column_name
FROM information_schema.key_column_usage WHERE table_schema IN %s AND referenced_table_name IS NOT NULL
ORDER BY table_schema, table_name, constraint_name, ordinal_position
"""
_CHANGES = """
SELECT table_schema, table_name, CONCAT_WS(' ', create_time, update_time) FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND update_time < NOW() - INTERVAL 3 SECOND
  AND COALESCE(create_options, '') NOT LIKE '%partitioned%' AND table_schema NOT IN
  ('mysql', 'information_schema', 'performance_schema', 'sys', '_statistics_', '__internal_schema')
"""


def read_changes(read: Reader) -> dict[port.TableRef, str]:
    """Return table -> a string that changes with its rows: the time of the last commit that changed it.

    Nothing is missed. Tables are absent whose time the server does not know: it forgets the time of an InnoDB table
    when it restarts, and when it needs the memory for other tables. So are partitioned tables, because it may forget
    the time of the partition that was changed last, and those that have just been changed, because the time has whole
    seconds.
    """
    ((version, comment),) = read("SELECT version(), @@version_comment")
    if "mariadb" not in f"{version} {comment}".lower():
        read("SET SESSION information_schema_stats_expiry = 0")  # Otherwise the times are up to a day old.
    return {port.TableRef(schema, name): text for schema, name, text in read(_CHANGES)}


_VIEWS = "SELECT table_schema, table_name, view_definition FROM information_schema.views WHERE table_schema IN %s"
_BROKEN = "references invalid table(s)"


def list_relations(read: Reader) -> dict[port.TableRef, TableDraft]:
    """Return all tables and views, except system tables and sequences. Row estimates come from InnoDB."""
    drafts: dict[port.TableRef, TableDraft] = {}
    for schema, name, kind, rows, comment in read(_RELATIONS):
        view = kind == "VIEW"
        ref = port.TableRef(schema, name)
        drafts[ref] = TableDraft(
            ref,
            port.TableKind.VIEW if view else port.TableKind.TABLE,
            comment=comment if comment and not (view and comment == "VIEW") else None,
            row_estimate=None if view or rows is None else int(rows),
        )
    return drafts


class MySqlCatalog:
    """A single read of the structure of all schemas in scope."""

    def __init__(self, read: Reader, parts: PartReader) -> None:
        self._read = read
        self._parts = parts

    def read(
        self, relations: dict[port.TableRef, TableDraft], scope: port.Scope
    ) -> tuple[tuple[port.Table, ...], tuple[port.ObjectProblem, ...]]:
        """Return the relations in scope, sorted.

        Scope entries that matched nothing and views that error are problems.
        """
        chosen = port.select(relations, scope)
        drafts = {ref: relations[ref] for ref in chosen.refs}
        problems = list(chosen.problems)
        schemas = tuple(sorted({ref.schema for ref in drafts if ref.schema is not None}))
        if schemas:
            fill(drafts, self._read(_COLUMNS, (schemas,)), 2, _set_columns)
            problems += _drop_broken(drafts)
            fill(drafts, self._parts("indexes", _INDEXES, (schemas,)), 3, _add_index)
            fill(drafts, self._parts("foreign keys", _FOREIGN_KEYS, (schemas,)), 3, _add_foreign_key)
            fill(drafts, self._parts("view definitions", _VIEWS, (schemas,)), 2, _set_view)
        tables = sorted((draft.finish() for draft in drafts.values()), key=lambda table: table.ref)
        return tuple(tables), tuple(problems)


def _drop_broken(drafts: dict[port.TableRef, TableDraft]) -> list[port.ObjectProblem]:
    """Remove views that the server itself reports as invalid (MariaDB lists no columns for them, MySQL still does).

    Tables without columns are removed too: they were dropped meanwhile, or are hidden from the role.
    """
    problems = []
    for ref, draft in list(drafts.items()):
        comment = draft.comment or ""
        broken = draft.kind is port.TableKind.VIEW and _BROKEN in comment
        if broken or not draft.columns:
            del drafts[ref]
            cause = comment if draft.kind is port.TableKind.VIEW else ""
            problems.append(
                port.ObjectProblem(ref, draft.kind.value, reason(cause or "the server lists no columns for it"))
            )
    return problems


def _set_columns(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    for name, native, nullable, default, comment, expression, extra in rows:
        generated = bool(expression) or "GENERATED" in str(extra).upper().replace("DEFAULT_GENERATED", "")
        # MariaDB writes "no default" of a nullable column as the word NULL.
        own, kind = None if default in (None, "NULL") else _text(default), _text(native)
        draft.add_column(name, kind, DIALECT.semantic_type(kind), nullable, comment, own, generated)


def _add_index(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, non_unique = rows[0][:2]
    # An expression has no column, and a prefix (`sub_part`) of a column does not make the column unique.
    columns = tuple(column for _, _, column, _ in rows if column is not None)
    whole = len(columns) == len(rows) and all(part is None for *_, part in rows)
    if name == "PRIMARY":
        draft.primary_key = columns
    elif not int(non_unique):
        if whole:
            draft.unique_keys.append(port.UniqueKey(columns, name))
    elif columns:
        draft.indexes.append(port.Index(columns, name))


def _add_foreign_key(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, _, schema, table, _ = rows[0]
    columns = tuple(row[1] for row in rows)
    targets = tuple(row[4] for row in rows)
    draft.foreign_keys.append(port.ForeignKey(columns, port.TableRef(schema, table), targets, name))


def _set_view(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    # The definition is empty for a role without SHOW VIEW.
    draft.view_sql = _text(rows[0][0]) or None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
