"""Read DuckDB files in a separate process, with a session that cannot write or access other files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from ktx_cli.core import Command, SourceError, monotonic, one_line
from ktx_cli.warehouses import base, port
from ktx_cli.warehouses.base import TableDraft, leading_keyword, read_only_error, reason, require_file, source_path
from ktx_cli.warehouses.declarations import checked_values
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.worker.process import EngineError
from ktx_cli.warehouses.worker.session import IsolatedConnector, Session, TimedSession

CLOSED_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    # Less than the limit of its process, because texts and lists in progress are not counted.
    "memory_limit": "1GiB",
    "threads": "4",
    # Without it, a large query spills into `<database>.tmp` next to the user's file.
    "temp_directory": "",
}
"""The settings of a DuckDB session that only accesses its database."""

_HEADER_BYTES = 3 * 4096


class DuckDbSession(IsolatedConnector):
    """The common base for DuckDB files and folders of data files; it runs one read-only statement at a time."""

    dialect = "duckdb"

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> port.QueryResult:
        """Run one SELECT (or what DuckDB counts as one: FROM, SHOW, DESCRIBE, SUMMARIZE ...) or its EXPLAIN.

        Times with a zone are returned in UTC.
        """
        word, behind = leading_keyword(sql)
        with self._translating(sql):
            found = self._opened_session().execute(
                sql,
                parameters,
                seconds=self.statement_seconds,
                reading=True,
                explained=sql[behind:] if word == "EXPLAIN" else None,
                max_rows=max_rows,
                max_bytes=base.MAX_RESULT_BYTES,
            )
            return port.QueryResult(found.columns, tuple(found.rows), found.truncated)

    @contextmanager
    def _catalog_session(self) -> Iterator[TimedSession]:
        """Yield the session for ktx's own statements, which share the time limit of one statement."""
        with self._translating():
            yield TimedSession(self._opened_session(), monotonic() + self.statement_seconds)

    def _translated(self, error: EngineError, sql: str | None) -> SourceError:
        text = str(error)
        if error.kind == "NotReadingError":
            return read_only_error(self.where, text)
        if sql is not None and "attached in read-only mode" in text:
            return read_only_error(self.where, "this kind of statement is")
        message = text.partition("\n\nLINE ")[0]
        return self.failure(message, code="query" if sql is not None else "connection")


class DuckDbConnector(DuckDbSession):
    """One read-only session on a DuckDB file."""

    def __init__(self, spec: port.ConnectionSpec) -> None:
        self.path = source_path(spec)
        super().__init__(spec, str(self.path))
        require_file(spec, self.path, "DuckDB database")
        self._opened = self._fingerprint()
        self._connection = Session("duckdb", str(self.path), self._settings)
        self._opened_session()

    def test(self, scope: port.Scope) -> port.ConnectionTest:
        """Return the version and the number of relations in scope; latency is measured with one `SELECT 1`."""
        with self._catalog_session() as session:
            latency = base.milliseconds(lambda: session.execute("SELECT 1"))
            found = port.select((draft.ref for draft in list_relations(session)), scope, catalog=_catalog(session))
            facts = ("the file is opened read-only",)
            return port.ConnectionTest(latency, _version(session), len(found.refs), False, privileges=facts)

    def introspect(self, scope: port.Scope) -> port.DatabaseSchema:
        """Read the structure of all relations in scope. Row estimates come from DuckDB."""
        with self._catalog_session() as session:
            catalog = DuckDbCatalog(session)
            tables = catalog.read(scope, catalog=_catalog(session))
            return port.DatabaseSchema(tables, tuple(catalog.problems), _version(session))

    def evidence(self) -> str | None:
        """Return a string that changes with the file, or None while there is a WAL or if the file was replaced.

        It covers the headers, with DuckDB's own counter of changes.
        """
        waiting = base.has_bytes(self.path.with_name(f"{self.path.name}.wal"))
        found = None if waiting else base.file_evidence([self.path], _HEADER_BYTES)
        replaced = self._fingerprint() != self._opened
        return None if found is None or replaced else f"DuckDB {self._opened_session().version} {found}"

    def _fingerprint(self) -> tuple[int, ...]:
        status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _settings(self) -> Mapping[str, Any]:
        return {"path": str(self.path), "read_only": True, "config": dict(CLOSED_SETTINGS), "statements": []}

    def _translated(self, error: EngineError, sql: str | None) -> SourceError:
        why = file_reason(error)
        if why is None:
            return super()._translated(error, sql)
        return self.failure(f"the statement {why}", code="query" if sql is not None else "connection")

    def _not_opened(self, error: EngineError) -> SourceError:
        text = str(error)
        if "Could not set lock" in text:
            message = f"another program has the file open for writing: {text.partition('. See')[0]}"
            return self.failure(message, hint="close that program, or point ktx to a copy of the file")
        hint = "check that this version of DuckDB can read the file, and that it is not damaged or encrypted"
        return self._not_duckdb() or self._over_a_limit(error, of_the_user=False) or self.failure(text, hint=hint)

    def _not_duckdb(self) -> SourceError | None:
        """Return the error for another kind of file, or None for a DuckDB file.

        Only called if the file could not be opened: closing it here releases the locks that this process may hold on
        it.
        """
        try:
            with self.path.open("rb") as stream:
                header = stream.read(16)
        except OSError as error:
            return self.failure(f"cannot read the file: {error.strerror}")
        if header[8:12] == b"DUCK":
            return None
        driver = "sqlite" if header.startswith(b"SQLite format 3") else None
        return self.failure(
            "the file is not a DuckDB database",
            hint=Command("config", "set", f"connections.{self.id}.driver", driver)
            if driver
            else Command("config", "set", f"connections.{self.id}.path", "PATH"),
        )


def _catalog(session: TimedSession) -> str:
    return str(_one(session, "SELECT system.main.current_database()"))


def _version(session: TimedSession) -> str:
    return f"DuckDB {_one(session, 'SELECT system.main.version()')}"


def _one(session: TimedSession, sql: str) -> Any:
    row = session.execute(sql).fetchone()
    return row[0] if row else None


_OUTSIDE = re.compile(r'Cannot access file "(.+)" - file system operations are disabled')
# A macro in the file shadows DuckDB's own function of that name, unless the full name is used.
_THIS = "database_name = system.main.current_database()"
_MINE = f"NOT internal AND {_THIS}"
_RELATIONS = f"""
SELECT schema_name, table_name, 'table', comment, estimated_size, NULL FROM system.main.duckdb_tables() WHERE {_MINE}
UNION ALL
SELECT schema_name, view_name, 'view', comment, NULL, sql FROM system.main.duckdb_views() WHERE {_MINE}
"""
_COLUMNS = f"""
SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment, is_generated
FROM system.main.duckdb_columns() WHERE {_MINE} ORDER BY schema_name, table_name, column_index
"""
_CONSTRAINTS = f"""
SELECT schema_name, table_name, constraint_type, constraint_name, constraint_column_names, referenced_table,
       referenced_column_names, expression
FROM system.main.duckdb_constraints() WHERE {_THIS} ORDER BY constraint_index
"""
_INDEXES = f"""
SELECT schema_name, table_name, index_name, is_unique, expressions::VARCHAR[]
FROM system.main.duckdb_indexes() WHERE {_THIS} AND NOT is_primary ORDER BY index_oid
"""


def list_relations(session: TimedSession) -> list[TableDraft]:
    """Return all tables and views in the database, except DuckDB's own."""
    return [
        TableDraft(
            port.TableRef(schema, name), port.TableKind(kind), comment=comment or None, row_estimate=size, view_sql=sql
        )
        for schema, name, kind, comment, size, sql in session.execute(_RELATIONS).fetchall()
    ]


class DuckDbCatalog:
    """A single read of a database's structure. `problems`: the unreadable parts."""

    def __init__(self, session: TimedSession) -> None:
        self.session = session
        self.problems: list[port.ObjectProblem] = []

    def read(self, scope: port.Scope, *, catalog: str) -> tuple[port.Table, ...]:
        """Return everything in scope, sorted. A failing view becomes a problem."""
        drafts = {draft.ref: draft for draft in list_relations(self.session)}
        chosen = port.select(drafts, scope, catalog=catalog)
        self.problems += chosen.problems
        drafts = {ref: drafts[ref] for ref in chosen.refs}
        self._drop_broken_views(drafts, catalog)
        self._columns(drafts)
        self._constraints(drafts)
        self._indexes(drafts)
        return tuple(draft.finish() for _, draft in sorted(drafts.items()))

    def _drop_broken_views(self, drafts: dict[port.TableRef, TableDraft], catalog: str) -> None:
        # The catalog keeps the columns of a view as of its creation; only binding it shows whether it still works.
        for ref in [ref for ref, draft in drafts.items() if draft.kind is port.TableKind.VIEW]:
            name = ".".join(map(DIALECT.quote, (catalog, ref.schema or "main", ref.name)))
            try:
                self.session.execute(f"EXPLAIN SELECT * FROM {name}")
            except EngineError as error:
                if error.interrupted:
                    raise
                del drafts[ref]
                self.problems.append(port.ObjectProblem(ref, "view", file_reason(error) or reason(error)))

    def _columns(self, drafts: dict[port.TableRef, TableDraft]) -> None:
        rows = self.session.execute(_COLUMNS).fetchall()
        for (schema, table), group in groupby(rows, key=lambda row: (row[0], row[1])):
            draft = drafts.get(port.TableRef(schema, table))
            if draft is None:
                continue
            for _, _, name, native, nullable, default, comment, generated in group:
                draft.add_column(name, native, DIALECT.semantic_type(native), nullable, comment, default, generated)

    def _constraints(self, drafts: dict[port.TableRef, TableDraft]) -> None:
        rows = self.session.execute(_CONSTRAINTS).fetchall()
        for schema, table, kind, name, columns, target, targets, condition in rows:
            draft = drafts.get(port.TableRef(schema, table))
            if draft is None:
                continue
            if kind == "PRIMARY KEY":
                draft.primary_key = tuple(columns)
            elif kind == "UNIQUE":
                draft.unique_keys.append(port.UniqueKey(tuple(columns), name))
            elif kind == "FOREIGN KEY":
                # DuckDB does not support foreign keys between schemas.
                ref = port.TableRef(schema, target)
                draft.foreign_keys.append(port.ForeignKey(tuple(columns), ref, tuple(targets), name))
            elif kind == "CHECK" and (allowed := checked_values(condition, "duckdb")) is not None:
                draft.allow(*allowed)

    def _indexes(self, drafts: dict[port.TableRef, TableDraft]) -> None:
        for schema, table, name, unique, expressions in self.session.execute(_INDEXES).fetchall():
            draft = drafts.get(port.TableRef(schema, table))
            if draft is None:
                continue
            names = {
                spelling: each.name for each in draft.columns for spelling in (each.name, DIALECT.quote(each.name))
            }
            columns = tuple(names[expression] for expression in expressions if expression in names)
            if unique and len(columns) == len(expressions):
                draft.unique_keys.append(port.UniqueKey(columns, name))
            elif columns and not unique:
                draft.indexes.append(port.Index(columns, name))


def file_reason(error: Exception) -> str | None:
    """Return the message if DuckDB would have had to open another file, or None for other errors."""
    found = _OUTSIDE.search(str(error))
    if found is None:
        return None
    name = one_line(found[1], 60)
    return f"reads the file {name}, which ktx does not allow: use a `files` connection, or load it into a table"
