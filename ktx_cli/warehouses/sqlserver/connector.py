"""Read Microsoft SQL Server and Azure SQL with pymssql."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar

from ktx_cli.core import Command, ConfigError, Hint
from ktx_cli.warehouses import base
from ktx_cli.warehouses.base import ADDRESS, FLAG, TableDraft, option_file, read_only_error
from ktx_cli.warehouses.port import (
    ConnectionTest,
    DatabaseSchema,
    ForeignKey,
    Index,
    ObjectProblem,
    QueryResult,
    Scope,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
    at_home,
    in_schemas,
    select,
)
from ktx_cli.warehouses.server import PartReader, Reader, ServerConnector, option_flag, tagged
from ktx_cli.warehouses.sqlserver.dialect import DIALECT

SESSION = (
    "SET ARITHABORT ON",
    "SET ANSI_DEFAULTS ON",
    "SET CONCAT_NULL_YIELDS_NULL ON",
    "SET IMPLICIT_TRANSACTIONS OFF",
    "SET XACT_ABORT ON",
    "SET DEADLOCK_PRIORITY LOW",
    f"SET LOCK_TIMEOUT {base.LOCK_SECONDS * 1000}",
)
"""The initial settings of a session. SQL Server has no time limit for statements, so the client interrupts them."""

BEGIN = "SET ROWCOUNT {rows}; BEGIN TRANSACTION"
"""The prefix of a user's statement, which makes the server stop after `rows` rows."""

END = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; SET ROWCOUNT 0"
"""The suffix of a user's statement."""

WHO = """
SELECT SUSER_SNAME(), DB_NAME(), CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)),
       CAST(SERVERPROPERTY('Edition') AS nvarchar(128)), IS_SRVROLEMEMBER('sysadmin'), IS_ROLEMEMBER('db_owner'),
       HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'CREATE TABLE')
"""

_LIBRARY = "DB-Lib error message"
_SERVER_SPOKE = 20018
_LOCK_HOLDERS = "SELECT request_session_id, resource_type FROM sys.dm_tran_locks WHERE request_mode LIKE '%X'"
_STOPPED = (20003,)
_WAITED = (1222,)
_REFUSED = (3906, 3908)
_LOG_IN = (18452, 18456, 18470, 18487, 18488)
_DATABASE = (911, 916, 4060, 4063)


class SqlServerConnector(ServerConnector):
    """Sessions on a SQL Server database that announce read-only intent and roll back each statement."""

    dialect = "tsql"
    default_port = 1433
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **ADDRESS,
        "encrypt": FLAG,
        "trustServerCertificate": FLAG,
    }
    reading = frozenset({"SELECT", "WITH"})
    interruptible = False  # its driver cannot, and KILL takes a right that no reader has

    def _check(self, sql: str) -> None:
        super()._check(sql)
        require_one_reading(sql, self.where)

    def _connect(self) -> Any:
        import pymssql

        encrypted = self._flag("encrypt") is not False
        with checked_certificate(self._trusted() if encrypted else None):
            try:
                return pymssql.connect(**self._arguments(encrypted))
            except pymssql.Error as error:
                if error_parts(error)[0] not in _STOPPED:
                    raise
                message = f"the server did not respond within {base.CONNECT_SECONDS} seconds"
                hint = Hint("check {} and the firewall", self._settings("host", "port"))
                raise self.failure(message, hint=hint) from None

    def _arguments(self, encrypted: bool) -> dict[str, Any]:
        address = self.address
        return {
            "server": address.host,
            "port": str(address.port),
            "user": address.user or None,
            "password": address.password or None,
            "database": address.database,
            "timeout": self.whole_seconds,
            "login_timeout": base.CONNECT_SECONDS,
            "appname": "ktx",
            "encryption": "require" if encrypted else "request",
            # Only 7.4 announces read-only intent to the server; trying several versions takes the time limit for each.
            "tds_version": "7.4",
            "read_only": True,
            "conn_properties": [tagged(each) for each in SESSION],
            "autocommit": True,
        }

    def _flag(self, name: str) -> bool | None:
        given = option_flag(self.options, name)
        return option_flag(self.address.parameters, name) if given is None else given

    def _trusted(self) -> str | None:
        """Return the file with trusted certificates, or None if the server's certificate is not verified."""
        if self._flag("trustServerCertificate"):
            return None
        given = self.options.get("ca")
        found = option_file(self.spec, "ca", str(given)) if given else system_certificates()
        if found is None:
            raise ConfigError(
                (
                    f"connection `{self.id}`: this system has no file with trusted certificates to verify the "
                    "server's certificate"
                ),
                hint=Hint(
                    "{}, or .trustServerCertificate true", Command("config", "set", f"connections.{self.id}.ca", "FILE")
                ),
                details={"connection": self.id},
            )
        return found

    def _read(self, session: Any, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        return super()._read(session, tagged(sql), parameters)

    def _query(self, session: Any, sql: str, parameters: tuple[Any, ...] | None, max_rows: int) -> QueryResult:
        text = sql if parameters is None else self._bound(sql, parameters)
        with session.cursor() as cursor:
            cursor.execute(tagged(BEGIN.format(rows=max_rows + 1)))
            try:
                cursor.execute(tagged(text))
                columns = tuple(each[0] for each in cursor.description or ())
                rows, more = base.capped(cursor, max_rows)
            finally:
                if self._reusable(session):
                    cursor.execute(tagged(END))
        return QueryResult(columns, rows, more)

    def _bound(self, sql: str, parameters: tuple[Any, ...]) -> str:
        try:
            return bound(sql, parameters)
        except ValueError as error:
            raise self.failure(f"the parameters do not match the statement: {error}", code="query") from error

    def _reusable(self, session: Any) -> bool:
        import pymssql

        try:
            return bool(session._conn.connected)
        except pymssql.InterfaceError:
            return False

    def _test(self, read: Reader, scope: Scope, latency: float) -> ConnectionTest:
        ((user, database, version, edition, admin, owner, creates),) = read(WHO)
        relations = at_home(list_relations(read), scope, HOME)
        chosen = [relations[ref] for ref in select(relations, scope, catalog=database).refs]
        return self._tested(
            (latency, _server_version(version, edition), user, database),
            len(chosen),
            {relation.draft.ref: relation.readable for relation in chosen},
            can_write=bool(admin or owner or creates or any(relation.writable for relation in chosen)),
            facts=[role for role, held in (("sysadmin", admin), ("db_owner", owner)) if held],
        )

    def _introspect(self, read: Reader, scope: Scope) -> DatabaseSchema:
        ((_, database, version, edition, *_),) = read(WHO)
        parts = PartReader(read, self._driver_error())
        tables, problems = SqlServerCatalog(read, parts).read(scope, catalog=database)
        return DatabaseSchema(tables, (*problems, *parts.problems), _server_version(version, edition))

    def _driver_error(self) -> type[Exception]:
        import pymssql

        return pymssql.Error

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        number, text = error_parts(error)
        if number in _STOPPED:
            return "", None, "timeout"
        if number in _WAITED:
            return _LOCK_HOLDERS, None, "locked"
        if number in _REFUSED:
            return f"{text}: ktx only reads", "write a single SELECT statement", "read_only"
        if number in _LOG_IN:
            return text, Hint("check {}", self._settings("username", "password")), "connection"
        if number in _DATABASE:
            return text, Hint("check {} and the user's access to it", self._settings("database")), "connection"
        if 0 < number < 20000:
            return text, None, "query"
        return text, self._connection_hint(), "connection"

    def _connection_hint(self) -> str:
        """FreeTDS reports an unreachable host and an untrusted certificate the same way."""
        where = f"check {self._settings('host', 'port')}"
        if self._flag("encrypt") is False or self._flag("trustServerCertificate"):
            return where
        key = f"connections.{self.id}"
        message = "{}; if its certificate is self-signed: {}, or .trustServerCertificate true"
        return Hint(message, where, Command("config", "set", f"{key}.ca", "FILE"))


def bound(sql: str, parameters: tuple[Any, ...]) -> str:
    """Return a statement with its parameters inserted and `%%` as `%`, which pymssql would not replace.

    Raises `ValueError` if there are more or fewer parameters than placeholders.
    """
    from pymssql import _mssql

    pieces, left = [], parameters
    for piece in sql.split("%%"):
        count = len(re.findall("%[sd]", piece))
        pieces.append(_mssql.substitute_params(piece, left[:count]).decode() if count else piece)
        left = left[count:]
    if left:
        raise ValueError(f"the statement has no placeholder for {len(left)} of its parameters")
    return "%".join(pieces)


def error_parts(error: BaseException) -> tuple[int, str]:
    """Return a pymssql error's number (0 if there is none) and its text, without DB-Library's additions.

    For a failed login, pymssql may return the number of an earlier error; it only counts if the server responded.
    """
    values = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], tuple) else error.args
    number = values[0] if values and isinstance(values[0], int) else 0
    raw = values[-1] if values else ""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    message, mark, _ = text.partition(_LIBRARY)
    if message.strip() or not mark:
        return number, message.strip()
    numbers = [int(each) for each in re.findall(rf"{_LIBRARY} (\d+)", text)]
    if _SERVER_SPOKE in numbers:
        return number, f"the server returned error {number}"
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_LIBRARY)]
    return numbers[0], ": ".join(dict.fromkeys(lines))


def _server_version(version: str, edition: str) -> str:
    return f"SQL Server {version} ({edition})"


_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\r\n]*|/\*(?:(?!/\*).)*?\*/)"
    r"|(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\[(?:[^\]]|\]\])*\])"
    r"|(?P<number>\d\w*)"
    r"|(?P<word>[\w@#][\w@#$]*)"
    r"|(?P<mark>[^\s\w'\"\[])",
    re.DOTALL,
)
_DOING = {
    "ALTER", "BACKUP", "BEGIN", "BREAK", "BULK", "CHECKPOINT", "CLOSE", "COMMIT", "CONTINUE", "CREATE", "DBCC",
    "DEALLOCATE", "DECLARE", "DELETE", "DENY", "DROP", "EXEC", "EXECUTE", "GOTO", "GRANT", "IF", "INSERT", "INTO",
    "KILL", "OPEN", "OPENDATASOURCE", "OPENQUERY", "OPENROWSET", "PRINT", "RAISERROR", "RECONFIGURE", "RESTORE",
    "RETURN", "REVERT", "REVOKE", "ROLLBACK", "SAVE", "SET", "SETUSER", "SHUTDOWN", "TRUNCATE", "UPDATE",
    "UPDATETEXT", "WAITFOR", "WHILE", "WRITETEXT",
}  # fmt: skip
# MERGE is also a kind of join, USE also begins a hint, NEXT also counts the rows of a FETCH.
_DOING_UNLESS = {"MERGE": ("JOIN", "UNION"), "USE": ("HINT", "PLAN")}
_DOING_BEFORE = {"NEXT": "VALUE"}


def require_one_reading(sql: str, where: str) -> None:
    """Raise `SourceError` (code `read_only`) for a batch that contains two parts or a word that does more than read."""
    tokens = list(_tokens(sql))
    if "" in tokens:
        raise read_only_error(where, "a statement with an unfinished quote or a nested comment is")
    while tokens and tokens[-1] == ";":
        tokens.pop()
    if ";" in tokens:
        raise read_only_error(where, "more than one statement at once is")
    for word, behind in pairwise([*tokens, ""]):
        if _does(word, behind):
            raise read_only_error(where, f"a statement with {word} is")


def _does(word: str, behind: str) -> bool:
    # T-SQL needs no blank between a number and the next word.
    if word[:1].isdigit():
        return word.endswith((*_DOING, *_DOING_UNLESS))
    if word in _DOING_UNLESS:
        return behind not in _DOING_UNLESS[word]
    return word in _DOING or (word in _DOING_BEFORE and behind == _DOING_BEFORE[word])


def _tokens(sql: str) -> Iterator[str]:
    """Yield words and symbols in capitals, `'` for quoted text, and an empty string for anything else."""
    position = 0
    while position < len(sql):
        found = _TOKEN.match(sql, position)
        if found is None or (found["mark"] == "/" and sql.startswith("/*", position)):
            yield ""
            return
        position = found.end()
        if found["space"] is None:
            yield "'" if found["quoted"] is not None else unicodedata.normalize("NFKC", found.group()).upper()


_VARIABLE = "FREETDSCONF"
_ONE_AT_A_TIME = threading.Lock()


def system_certificates() -> str | None:
    """Return the file with the certificates that this system trusts, or None if there is none."""
    return ssl.get_default_verify_paths().cafile


@contextmanager
def checked_certificate(trusted: str | None) -> Iterator[None]:
    """Inside the block, only accept a server with a certificate signed by a certificate in the file `trusted`.

    With None, any certificate is accepted. Only one block runs at a time, because the variable belongs to the whole
    process.
    """
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory(prefix="ktx-") as folder:
        path = Path(folder) / "freetds.conf"
        checks = f"\tca file = {trusted}\n\tcheck certificate hostname = yes\n" if trusted else ""
        path.write_text(f"[global]\n{checks}", encoding="utf-8")
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = str(path)
        try:
            yield
        finally:
            os.environ.pop(_VARIABLE)
            if before is not None:
                os.environ[_VARIABLE] = before


HOME = "dbo"
"""The schema to read by default."""

# A view with a clustered index is stored. The diagrams of a tool are not data of the user.
RELATIONS = """
SELECT o.object_id, s.name, o.name,
       CASE WHEN t.is_external = 1 THEN 'X' WHEN o.type = 'V' AND i.object_id IS NOT NULL THEN 'M'
            ELSE RTRIM(o.type) END,
       CAST(e.value AS nvarchar(4000)), p.row_count,
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'SELECT'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'INSERT'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'UPDATE'),
       HAS_PERMS_BY_NAME(QUOTENAME(s.name) + '.' + QUOTENAME(o.name), 'OBJECT', 'DELETE')
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
LEFT JOIN sys.indexes AS i ON i.object_id = o.object_id AND i.index_id = 1
LEFT JOIN (SELECT object_id, SUM(rows) AS row_count FROM sys.partitions WHERE index_id IN (0, 1)
           GROUP BY object_id) AS p ON p.object_id = o.object_id
LEFT JOIN sys.extended_properties AS e
       ON e.class = 1 AND e.major_id = o.object_id AND e.minor_id = 0 AND e.name = 'MS_Description'
WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0
  AND NOT EXISTS (SELECT 1 FROM sys.extended_properties AS m
                  WHERE m.class = 1 AND m.major_id = o.object_id AND m.minor_id = 0
                    AND m.name = 'microsoft_database_tools_support')
"""
COLUMNS = """
SELECT c.object_id, c.name, t.name, COALESCE(b.name, t.name), c.max_length, c.precision, c.scale, c.is_nullable,
       c.is_identity, c.is_computed, d.definition, CAST(e.value AS nvarchar(4000))
FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.types AS t ON t.user_type_id = c.user_type_id
LEFT JOIN sys.types AS b ON b.user_type_id = c.system_type_id AND t.is_user_defined = 1
LEFT JOIN sys.default_constraints AS d ON d.object_id = c.default_object_id
LEFT JOIN sys.extended_properties AS e
       ON e.class = 1 AND e.major_id = c.object_id AND e.minor_id = c.column_id AND e.name = 'MS_Description'
WHERE s.name IN ({schemas}) AND o.type IN ('U', 'V') AND c.is_hidden = 0
ORDER BY c.object_id, c.column_id
"""
INDEXES = """
SELECT i.object_id, i.name, i.is_primary_key, i.is_unique, i.has_filter, c.name
FROM sys.indexes AS i JOIN sys.objects AS o ON o.object_id = i.object_id
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE s.name IN ({schemas}) AND o.type IN ('U', 'V') AND k.key_ordinal > 0
  AND i.is_disabled = 0 AND i.is_hypothetical = 0
ORDER BY i.object_id, i.index_id, k.key_ordinal
"""
FOREIGN_KEYS = """
SELECT f.parent_object_id, f.name, rs.name, r.name, c.name, rc.name
FROM sys.foreign_keys AS f JOIN sys.schemas AS s ON s.schema_id = f.schema_id
JOIN sys.objects AS r ON r.object_id = f.referenced_object_id JOIN sys.schemas AS rs ON rs.schema_id = r.schema_id
JOIN sys.foreign_key_columns AS k ON k.constraint_object_id = f.object_id
JOIN sys.columns AS c ON c.object_id = k.parent_object_id AND c.column_id = k.parent_column_id
JOIN sys.columns AS rc ON rc.object_id = k.referenced_object_id AND rc.column_id = k.referenced_column_id
WHERE s.name IN ({schemas})
ORDER BY f.parent_object_id, f.object_id, k.constraint_column_id
"""
VIEWS = """
SELECT m.object_id, m.definition
FROM sys.sql_modules AS m JOIN sys.views AS v ON v.object_id = m.object_id
JOIN sys.schemas AS s ON s.schema_id = v.schema_id
WHERE s.name IN ({schemas})
"""

_KINDS = {"U": TableKind.TABLE, "V": TableKind.VIEW, "M": TableKind.MATERIALIZED_VIEW, "X": TableKind.FOREIGN}
_CHARACTERS = {"char": 1, "varchar": 1, "binary": 1, "varbinary": 1, "nchar": 2, "nvarchar": 2}
_DECIMALS = ("decimal", "numeric")
_FRACTIONS = ("datetime2", "datetimeoffset", "time")


@dataclass(frozen=True, slots=True)
class Relation:
    """A listed relation: its object_id, whether the user may SELECT from it and change it, and its draft."""

    id: int
    readable: bool
    writable: bool
    draft: TableDraft


def list_relations(read: Reader) -> dict[TableRef, Relation]:
    """Return all tables and views visible to the user, except system tables. Row counts come from `sys.partitions`."""
    found: dict[TableRef, Relation] = {}
    for number, schema, name, kind, comment, rows, readable, *writing in read(RELATIONS):
        counted = kind in ("U", "M") and rows is not None
        draft = TableDraft(
            TableRef(schema, name), _KINDS[kind], comment=comment or None, row_estimate=int(rows) if counted else None
        )
        found[draft.ref] = Relation(number, bool(readable), any(writing), draft)
    return found


class SqlServerCatalog:
    """A single read of a database's structure."""

    def __init__(self, read: Reader, parts: PartReader) -> None:
        self._read = read
        self._parts = parts

    def read(self, scope: Scope, *, catalog: str) -> tuple[tuple[Table, ...], tuple[ObjectProblem, ...]]:
        """Return everything in scope, sorted, and the scope entries that did not match anything."""
        relations = at_home(list_relations(self._read), scope, HOME)
        chosen = select(relations, scope, catalog=catalog)
        drafts = {relations[ref].id: relations[ref].draft for ref in chosen.refs}
        schemas = tuple(sorted({ref.schema for ref in chosen.refs if ref.schema is not None}))
        if schemas:
            _fill(drafts, self._read(in_schemas(COLUMNS, len(schemas)), schemas), 1, _add_columns)
            self._part(drafts, schemas, "indexes", INDEXES, 2, _add_index)
            self._part(drafts, schemas, "foreign keys", FOREIGN_KEYS, 2, _add_foreign_key)
            self._part(drafts, schemas, "view definitions", VIEWS, 1, _set_view)
        tables = sorted((draft.finish() for draft in drafts.values()), key=lambda table: table.ref)
        return tuple(tables), chosen.problems

    def _part(
        self,
        drafts: dict[int, TableDraft],
        schemas: tuple[str, ...],
        what: str,
        sql: str,
        width: int,
        add: Callable[[TableDraft, list[tuple[Any, ...]]], None],
    ) -> None:
        _fill(drafts, self._parts(what, in_schemas(sql, len(schemas)), schemas), width, add)


def native_type(name: str, length: int, precision: int, scale: int) -> str:
    """Return a type in T-SQL spelling. `length` is in bytes, -1 for `max`."""
    if name in _CHARACTERS:
        return f"{name}({'max' if length < 0 else length // _CHARACTERS[name]})"
    if name in _DECIMALS:
        return f"{name}({precision},{scale})"
    return f"{name}({scale})" if name in _FRACTIONS else name


def _fill(
    drafts: dict[int, TableDraft],
    rows: Iterable[tuple[Any, ...]],
    width: int,
    add: Callable[[TableDraft, list[tuple[Any, ...]]], None],
) -> None:
    """Pass each draft its rows, grouped by their first `width` values (an object and maybe a name)."""
    for key, group in groupby(rows, lambda row: row[:width]):
        if key[0] in drafts:
            add(drafts[key[0]], [row[1:] for row in group])


def _add_columns(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    for name, declared, stored, length, precision, scale, nullable, identity, computed, default, comment in rows:
        # A user-defined type is spelled by its name; its values are those of its base type.
        kind = declared if declared != stored else native_type(declared, length, precision, scale)
        own = "IDENTITY" if identity else default
        draft.add_column(name, kind, DIALECT.semantic_type(stored), nullable, comment, own, computed)


def _add_index(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, primary, unique, filtered, _ = rows[0]
    columns = tuple(row[-1] for row in rows)
    if primary:
        draft.primary_key = columns
    elif not unique:
        draft.indexes.append(Index(columns, name))
    elif not filtered:
        draft.unique_keys.append(UniqueKey(columns, name))


def _add_foreign_key(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    name, schema, table = rows[0][:3]
    columns, targets = tuple(row[3] for row in rows), tuple(row[4] for row in rows)
    draft.foreign_keys.append(ForeignKey(columns, TableRef(schema, table), targets, name))


def _set_view(draft: TableDraft, rows: list[tuple[Any, ...]]) -> None:
    # The definition is NULL for a user without VIEW DEFINITION, and for an encrypted view.
    draft.view_sql = rows[0][0]
