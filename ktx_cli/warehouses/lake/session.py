"""The base of connectors for lakes: lists tables, fixes a snapshot of each, and runs statements on them in a worker."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ktx_cli.core import SourceError, one_line
from ktx_cli.warehouses import base, port
from ktx_cli.warehouses.duckdb.connector import CLOSED_SETTINGS, DuckDbSession
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.lake import storage
from ktx_cli.warehouses.lake.tables import INTERNAL, RESERVED, LakeTable, UnreadableTableError, statements
from ktx_cli.warehouses.port import ConnectionSpec, ConnectionTest, DatabaseSchema, ObjectProblem, Scope, TableRef
from ktx_cli.warehouses.worker.process import EngineError
from ktx_cli.warehouses.worker.session import Session

T = TypeVar("T")

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LOG_LINE: Final = re.compile(r"(?:\[?\d{4}-\d\d-\d\dT\S+\s+)?(?:TRACE|DEBUG|INFO|WARN|ERROR)\s+\w+(?:::\w+)*")
_INPUT: Final = re.compile(r"[\s,\[(]*input_value=.*")

_SUGGESTED: Final = re.compile(r'\s*Did you mean "([^"]+)"')
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*")

_THREADS: Final = 8
"""The number of tables whose metadata is read at the same time."""


class LakeConnector(DuckDbSession):
    """Tables of files; each table is a view in an in-memory DuckDB that may only open the files of these tables.

    A table is loaded when a statement or an introspection first needs it, and its snapshot stays the same until the
    connection is closed. A table that cannot be read correctly is a problem and has no view.
    """

    library: str = ""
    """The name and version of the library that reads the metadata."""

    def __init__(self, spec: ConnectionSpec, place: str, secrets: Iterable[str] = ()) -> None:
        super().__init__(spec, place)
        self._secrets = sorted({each for each in secrets if each.strip()}, key=len, reverse=True)
        self._own_scope = port.scope_from_options(spec.options)
        self._tables: dict[TableRef, LakeTable | ObjectProblem] = {}
        self._broken: dict[TableRef, ObjectProblem] = {}
        self._wanted: frozenset[TableRef] = frozenset()
        self._former: list[Session] = []
        self._loading = threading.RLock()
        self._is_closed = False
        self._listed, self._problems = self._usable(*self._within(self._list))

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Whether the metadata comes from another machine, which may not answer."""

    @abstractmethod
    def _list(self) -> tuple[list[TableRef], list[ObjectProblem]]:
        """Return the tables, and problems with what may be one."""

    @abstractmethod
    def _load(self, ref: TableRef) -> LakeTable:
        """Return the current snapshot of a table. Raises `UnreadableTableError`, and any error of the library."""

    @abstractmethod
    def _state(self, ref: TableRef) -> str:
        """Return what identifies the current snapshot of a table, without reading its list of files."""

    def _require_reached(self, refs: Sequence[TableRef]) -> None:
        """Raise `SourceError` if listing these tables did not need their store, and the store does not answer."""

    @abstractmethod
    def _require_tables(self) -> None:
        """Raise `SourceError` if a place without any table must be a mistake."""

    def test(self, scope: Scope) -> ConnectionTest:
        """Return the number of tables in scope; latency is the time to list the tables again.

        Raises `SourceError` if there are no tables at all in a place that was written with their names.
        """
        found = port.select(self._listed, scope)

        def reach() -> None:
            self._within(self._list)
            self._require_reached(found.refs)

        latency = base.milliseconds(reach)
        if not self._listed and not self._problems:
            self._require_tables()
        return ConnectionTest(
            latency, self.library, len(found.refs), False, privileges=("ktx only reads the files of tables",)
        )

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Return the structure of all tables in scope. Row counts are exact, or None if rows have to be read for it.

        Local files are checked against the structure. Remote ones are not opened before a statement needs them.
        """
        found = port.select(self._listed, scope)
        self._require(found.refs)
        if not any(table.remote for _, table in self._views()):
            with self._translating():
                self._opened_session().prepare()
        if found.refs and all(isinstance(self._tables[ref], ObjectProblem) for ref in found.refs):
            self._require_reached(found.refs)
        left_out = [each for each in self._problems if each.ref is None or not port.excluded(each.ref, scope)]
        tables, problems = [], [*left_out, *found.problems]
        for ref in found.refs:
            loaded = self._broken.get(ref) or self._tables[ref]
            if isinstance(loaded, ObjectProblem):
                problems.append(loaded)
            else:
                tables.append(loaded.described())
        return DatabaseSchema(
            tuple(tables), tuple(problems), f"{self.library}, DuckDB {self._opened_session().version}"
        )

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> port.QueryResult:
        """See `DuckDbSession`. Loads the tables whose names occur in the statement, or all of them."""
        self._require(self._named(sql))
        try:
            return super().query(sql, parameters, max_rows=max_rows)
        except SourceError as error:
            problem = self._problem_in(sql) if error.code == "query" else None
            if problem is None:
                raise
            raise self.failure(f"ktx cannot read the table {problem.ref}: {problem.message}", code="query") from error

    def evidence(self) -> str | None:
        """Return a string that changes with the snapshot of any table in the scope of the connection."""
        refs = port.select(self._listed, self._own_scope).refs
        digest = hashlib.sha256(repr([problem.message for problem in self._problems]).encode())
        for ref, state in zip(refs, self._side_by_side(self._state_or_problem, refs), strict=True):
            text = state.message if isinstance(state, ObjectProblem) else state
            digest.update(repr((ref.schema, ref.name, text)).encode("utf-8", "surrogatepass"))
        return f"{self.library} DuckDB {version('duckdb')} {digest.hexdigest()}"

    def table_evidence(self, tables: Sequence[port.Table]) -> Mapping[TableRef, str]:
        """See `TableEvident`. Nothing can be missed: a snapshot of a table never changes.

        Tables whose metadata cannot be read are absent.
        """
        listed = frozenset(self._listed)
        refs = [table.ref for table in tables if table.ref in listed]
        states = self._side_by_side(self._state_or_problem, refs)
        return {ref: state for ref, state in zip(refs, states, strict=True) if isinstance(state, str)}

    def close(self) -> None:
        """Close the sessions; calling it twice is harmless."""
        self._is_closed = True
        super().close()
        former, self._former = self._former, []
        for session in former:
            session.close()

    def interrupt(self) -> None:
        """See `Interruptible`."""
        super().interrupt()
        for session in self._former:
            session.interrupt()

    def clean(self, error: object) -> str:
        """Return an error's text without the secrets of the connection."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _translated(self, error: EngineError, sql: str | None) -> SourceError:
        """See `DuckDbSession`. DuckDB suggests the names of tables without the quotes that they need."""
        suggested = _SUGGESTED.search(str(error))
        names = {f"{ref.schema}.{ref.name}": ref for ref in self._listed}
        ref = names.get(suggested[1]) if suggested and sql is not None else None
        if suggested is None or ref is None:
            return super()._translated(error, sql)
        shown = ".".join(
            part if _PLAIN_NAME.fullmatch(part) else DIALECT.quote(part) for part in (ref.schema or "main", ref.name)
        )
        return self.failure(str(error)[: suggested.start()], hint=f"did you mean `{shown}`?", code="query")

    def _usable(
        self, refs: list[TableRef], problems: list[ObjectProblem]
    ) -> tuple[list[TableRef], list[ObjectProblem]]:
        """Omit the tables whose names DuckDB cannot tell apart, or uses itself."""
        folded = Counter((str(ref.schema or "main").lower(), ref.name.lower()) for ref in refs)
        kept = []
        for ref in sorted(refs, key=port.ref_order):
            schema = str(ref.schema or "main").lower()
            if ref.schema is not None and schema in RESERVED:
                why = f"the schema {ref.schema} has a name that DuckDB uses itself"
            elif folded[schema, ref.name.lower()] > 1:
                why = "another table has the same name apart from case"
            else:
                kept.append(ref)
                continue
            problems.append(ObjectProblem(ref, "table", base.reason(why)))
        return kept, problems

    def _named(self, sql: str) -> tuple[TableRef, ...]:
        """Return the tables in scope whose names occur in a statement; all of them if there are none."""
        mine = port.select(self._listed, self._own_scope).refs
        folded = sql.lower()
        return tuple(ref for ref in mine if ref.name.lower().replace('"', '""') in folded) or mine

    def _problem_in(self, sql: str) -> ObjectProblem | None:
        """Return the problem of a table that a failed statement names."""
        for ref in self._named(sql):
            found = self._broken.get(ref) or self._tables.get(ref)
            if isinstance(found, ObjectProblem):
                return found
        return None

    def _require(self, refs: Iterable[TableRef]) -> None:
        """Make sure that the session has these tables. Raises `SourceError` if the connection is closed.

        Which files a session may open is fixed when it opens. A second statement that needs more tables therefore gets
        a session with all tables in scope, and the first one stays open for statements that still run in it.
        """
        with self._loading:
            if self._is_closed:
                raise self.failure("the connection is closed")
            if self._connection is not None and self._wanted.issuperset(refs):
                return
            if self._connection is not None:
                refs = {*refs, *self._wanted, *port.select(self._listed, self._own_scope).refs}
                self._former.append(self._connection)
            self._wanted = self._wanted.union(refs)
            missing = sorted(self._wanted - self._tables.keys())
            self._tables |= zip(missing, self._side_by_side(self._loaded, missing), strict=True)
            key = hashlib.sha256(repr((self.place, sorted(self._wanted))).encode()).hexdigest()
            self._connection = Session(self.dialect, f"{self.place} {key}", self._settings, self._prepare)
            self._opened_session()

    def _side_by_side(self, action: Callable[[TableRef], Any], refs: Sequence[TableRef]) -> list[Any]:
        if len(refs) < 2:
            return [action(ref) for ref in refs]
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(action, refs))

    def _within(self, action: Callable[[], T]) -> T:
        """Return the result of an action that may wait for another machine, for as long as a statement may take."""
        if not self.is_remote:
            return action()
        results: SimpleQueue[Future[T]] = SimpleQueue()

        def run() -> None:
            future: Future[T] = Future()
            try:
                future.set_result(action())
            except BaseException as error:  # noqa: BLE001 (raised in the thread that waits)
                future.set_exception(error)
            results.put(future)

        # The libraries have no time limits of their own. A thread of a pool would delay the end of ktx.
        threading.Thread(target=run, daemon=True).start()
        try:
            return results.get(timeout=self.statement_seconds).result()
        except Empty:
            text = f"the catalog or its store did not answer within {self.statement_seconds:g} seconds"
            raise self.failure(text, code="connection") from None

    def _loaded(self, ref: TableRef) -> LakeTable | ObjectProblem:
        try:
            table = self._within(lambda: self._load(ref))
            for path in table.paths:
                # DuckDB would take the path for a folder.
                if path not in table.remote and not os.path.isfile(path):  # noqa: PTH113 (there may be many)
                    raise UnreadableTableError(f"refers to a missing file: {one_line(path, 120)}")
        except Exception as error:  # noqa: BLE001 (a library raises whatever it meets; it costs only this table)
            return self._object_problem(ref, error)
        return table

    def _state_or_problem(self, ref: TableRef) -> str | ObjectProblem:
        try:
            return self._within(lambda: self._state(ref))
        except Exception as error:  # noqa: BLE001 (as above)
            return self._object_problem(ref, error)

    def _object_problem(self, ref: TableRef, error: Exception) -> ObjectProblem:
        return ObjectProblem(ref, "table", base.reason(self.clean(library_message(error))))

    def _views(self) -> list[tuple[int, LakeTable]]:
        found = [self._tables[ref] for ref in sorted(self._wanted)]
        return [(number, table) for number, table in enumerate(found) if isinstance(table, LakeTable)]

    def _prepare(self, session: Session) -> None:
        """Create a view for every readable table."""
        session.execute(f"CREATE SCHEMA IF NOT EXISTS {INTERNAL}", seconds=self.statement_seconds)
        for number, table in self._views():
            if table.ref in self._broken:
                continue
            try:
                complete = self._completed(table, session)
                self._tables[table.ref] = complete
                for sql, parameters in statements(complete, number):
                    session.execute(sql, parameters, seconds=self.statement_seconds)
            except EngineError as error:
                why = self.clean(error)
                if error.interrupted:
                    why = f"takes more than {self.statement_seconds:g} seconds to open"
                elif self._over_a_limit(error, of_the_user=False) is not None:
                    why = "needs more memory to open than ktx allows"
                self._broken[table.ref] = ObjectProblem(table.ref, "table", base.reason(why))
            except UnreadableTableError as error:
                self._broken[table.ref] = self._object_problem(table.ref, error)

    def _completed(self, table: LakeTable, session: Session) -> LakeTable:
        """Return a table with everything that can only be found in its files."""
        return table

    def _settings(self) -> Mapping[str, Any]:
        settings: dict[str, Any] = dict(CLOSED_SETTINGS)
        # The paths must be set before external access and the configuration are locked.
        closing = {name: settings.pop(name) for name in ("enable_external_access", "lock_configuration")}
        tables = [table for _, table in self._views()]
        paths = sorted({path for table in tables for path in table.paths})
        # Files may store an instant without its zone, which is then UTC.
        statements: list[tuple[str, list[Any]]] = [
            ("SET GLOBAL TimeZone = 'UTC'", []),
            ("SET allowed_paths = ?", [paths]),
        ]
        statements += [(f"SET {name} = {value}", []) for name, value in closing.items()]
        found: dict[str, Any] = {"path": ":memory:", "read_only": False, "config": settings, "statements": statements}
        stores = [table.storage for table in tables if table.remote]
        if stores:
            distinct = [each for place, each in enumerate(stores) if each not in stores[:place]]
            files = {
                path: (location, size, distinct.index(table.storage))
                for table in tables
                for path, (location, size) in table.remote.items()
            }
            own = {"environment": storage.environment(os.environ), "stores": distinct, "files": files}
            found["filesystems"] = [(storage.__name__, own)]
        return found


def library_message(error: Exception) -> str:
    """Return what a library says about an error, on one line, without any content of the file that it refers to.

    Libraries quote what they cannot parse, and print colours and lines of their log.
    """
    if isinstance(error, SourceError):
        return error.problem
    cause = error.__cause__ if isinstance(error.__cause__, ValidationError) else error
    if isinstance(cause, ValidationError):
        first = cause.errors(include_input=False, include_url=False, include_context=False)[0]
        place = [".".join(map(str, first["loc"]))] if first["loc"] else []
        return one_line(": ".join([type(error).__name__, *place, first["msg"]]), 200)
    plain = _COLOUR.sub("", str(error))
    lines = [line for line in plain.splitlines() if line.strip() and not _LOG_LINE.match(line.strip())]
    first_line = _INPUT.sub("", lines[0]) if lines else ""
    return f"{type(error).__name__}: {one_line(first_line, 200)}"
