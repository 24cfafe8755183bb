"""Read MongoDB: collections as tables that DuckDB queries in its own process, and aggregation pipelines."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.core import Command, Hint, SettingPath, SourceError, did_you_mean, listing, monotonic
from ktx_cli.warehouses import base, port
from ktx_cli.warehouses.duckdb.connector import CLOSED_SETTINGS, DuckDbSession
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.guard.check import names_are_missing
from ktx_cli.warehouses.mongodb.catalog import MongoCatalog, MongoTable, child_ref, decoded, sampled
from ktx_cli.warehouses.mongodb.client import Collection, MongoServer, nodes_of, record_of
from ktx_cli.warehouses.mongodb.documents import CHILD, Field, InexactError, MixedError, TableShape, plain_value
from ktx_cli.warehouses.mongodb.pipeline import check_pipeline
from ktx_cli.warehouses.mongodb.statements import Reading, column_paths, names_row_number, readings, unresolved_tables
from ktx_cli.warehouses.mongodb.writer import TableWriter
from ktx_cli.warehouses.worker.session import Session

FEW_DOCUMENTS: Final = 20_000
"""The number of documents that a statement with a LIMIT or a sample may read of a collection of any size."""

REUSE_SECONDS: Final = 60.0
"""How long a copy of a collection answers further statements of the same connection."""

SAMPLE_DOCUMENTS: Final = 1000
MOST_DOCUMENTS: Final = 250_000
MOST_MEGABYTES: Final = 256
"""The defaults of the settings `sample_documents`, `max_documents` and `max_megabytes`."""

_WRITING: Final = frozenset({"insert", "update", "remove", "createCollection", "dropCollection", "dropDatabase"})


@dataclass(slots=True)
class Copy:
    """A table in DuckDB: its columns (folded), when it was read, and the size of its documents."""

    columns: frozenset[str]
    since: float
    size: int
    pid: int | None


@dataclass(slots=True)
class Catalog:
    """What the last look at the server found. `collections`: by reference."""

    reader: MongoCatalog
    collections: dict[port.TableRef, Collection]
    since: float = field(default_factory=monotonic)


class MongoConnector(DuckDbSession):
    """The collections of a MongoDB connection as tables.

    A statement reads the collections that it names with `find`, completely and only the needed fields, into an
    in-memory DuckDB. A collection that exceeds a limit is refused, because a part would give wrong numbers; samples and
    counts are exempt. Copies serve the statements of the next `REUSE_SECONDS`.
    """

    samples_itself = True
    """The sample of a statement consists of blocks of documents; see `catalog.sampled`."""

    def __init__(self, spec: port.ConnectionSpec) -> None:
        place = ", ".join(f"{host}:{number}" for host, number in nodes_of(spec)) or record_of(spec)
        super().__init__(spec, place)
        options = spec.options
        self.sample_documents = int(options.get("sample_size") or options.get("sample_documents") or SAMPLE_DOCUMENTS)
        self.most_documents = int(options.get("max_documents") or MOST_DOCUMENTS)
        self.most_bytes = int(options.get("max_megabytes") or MOST_MEGABYTES) * 1024 * 1024
        self._databases = options.get("databases")
        self.scope = self._scoped(port.scope_from_options(options))
        self._lock = threading.RLock()
        self._catalog: Catalog | None = None
        self._copies: dict[port.TableRef, Copy] = {}
        self._wanted: list[Reading] = []
        self._cut = False
        self._unfinished: list[port.TableRef] = []
        self.deadline = 0.0
        self.server = MongoServer(spec, self)
        self.server.open()
        self.place = f"{place}/{self.server.database}" if self.server.database else place
        self._connection = Session("duckdb", f"mongodb {spec.id} {place}", self._settings, self._prepare)

    def test(self, scope: port.Scope) -> port.ConnectionTest:
        """Return the version, the user's rights and the number of tables in scope; latency is that of one `ping`."""
        latency = base.milliseconds(self.server.ping)
        user, rights = self.server.rights()
        tables = self._tables()
        chosen = port.select(tables, self._scoped(scope))
        facts = ("the server has no access control",) if user is None else tuple(_facts(rights))
        return port.ConnectionTest(
            latency,
            f"MongoDB {self.server.version()}",
            len(chosen.refs),
            user is None or any(_WRITING & set(each.get("actions") or ()) for each in rights),
            user=user,
            privileges=facts,
            database=self.server.database or None,
        )

    def introspect(self, scope: port.Scope) -> port.DatabaseSchema:
        """Read the structure of all collections in scope. Row estimates come from the server's statistics.

        Columns come from a sample of documents, so one that no sampled document has is missing.
        """
        with self._lock:
            self._catalog = None
            tables, catalog = self._tables(), self._current()
            chosen = port.select(tables, self._scoped(scope))
            found = tuple(catalog.reader.described(tables[ref]) for ref in chosen.refs)
            parents = {tables[ref].collection.ref for ref in chosen.refs} | {
                ref for ref in catalog.reader.problems if ref not in tables and not port.excluded(ref, scope)
            }
            noted = [each for ref in sorted(parents) for each in catalog.reader.problems.get(ref, ())]
            fields = tuple(each for ref in sorted(parents) for each in catalog.reader.notes.get(ref, ()))
            version = f"MongoDB {self.server.version()}"
            return port.DatabaseSchema(found, (*chosen.problems, *noted), version, fields)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> port.QueryResult:
        """Run one SELECT in DuckDB on the collections that it names. Times are in UTC, without a zone."""
        if names_row_number(sql):
            raise self.failure("a collection has no `rowid`", hint="use `_id`", code="query")
        with self._lock, self.server.operation():
            self.deadline = monotonic() + self.statement_seconds
            wanted = readings(sql, self._resolve)
            for each in wanted:
                if each.mode == "count" and not self._table(each.ref).shape.array:
                    return port.QueryResult((each.label,), ((self.server.count(each.ref),),))
            self._cut = False
            self._wanted = [self._answerable(each) for each in wanted]
            try:
                with self._translating(sql):
                    self._opened_session().prepare()
                    self._copy_wanted()
                try:
                    found = super().query(sql, parameters, max_rows=max_rows)
                except SourceError as error:
                    raise self._explained(error, sql) from None
                return replace(found, truncated=True) if self._cut else found
            finally:
                self._wanted = []
                unfinished, self._unfinished = self._unfinished, []
                self._forget(unfinished)

    def aggregate(
        self, ref: port.TableRef, pipeline: Sequence[Mapping[str, Any]], *, max_rows: int = 1000
    ) -> port.QueryResult:
        """See `port.Aggregating`."""
        checked = check_pipeline(pipeline, self.id)
        with self._lock:
            ref = self._collection(ref)
            for name in checked.collections:
                self._collection(port.TableRef(ref.schema, name))
        columns: dict[str, None] = {}
        documents: list[dict[str, Any]] = []
        left, cut = base.MAX_RESULT_BYTES, False
        until = monotonic() + self.statement_seconds
        with self.server.operation():
            limited = [*checked.pipeline, {"$limit": max_rows + 1}]
            for raw in self.server.aggregate(ref, limited, batch=min(max_rows + 1, 1000), until=until):
                left -= len(raw.raw) * 4
                if len(documents) >= max_rows or left < 0:
                    cut = True
                    break
                document = decoded(raw)
                if document is None:
                    raise self.failure("a resulting document is not valid BSON", code="query")
                documents.append({str(name): plain_value(value) for name, value in document.items()})
                columns |= dict.fromkeys(documents[-1])
        rows = tuple(tuple(each.get(name) for name in columns) for each in documents)
        return port.QueryResult(tuple(columns), rows, cut)

    def _explained(self, error: SourceError, sql: str) -> SourceError:
        """Return an error of DuckDB in terms of collections, arrays and paths, or with a hint that names MongoDB."""
        if error.code != "query":
            return error
        missing = unresolved_tables(sql, self._resolve)
        if missing:
            return self._no_collection(missing[0])
        if not names_are_missing(error):
            error.hint = error.hint or "correct the statement: SQL on a MongoDB connection is in the dialect of DuckDB"
            return error
        tables = [self._table(each.ref) for each in self._wanted]
        columns = {one.name.casefold(): one.name for each in tables for one in each.shape.fields}
        arrays = {
            ".".join(path).casefold(): child_ref(each.collection.ref, path)
            for each in tables
            if not each.shape.array
            for path in self._current().reader.shape(each.collection).children
        }
        for names in column_paths(sql):
            column = next((columns[name.casefold()] for name in names if name.casefold() in columns), None)
            array = next((arrays[name.casefold()] for name in names if name.casefold() in arrays), None)
            if column is not None and "." in column and column.casefold() != names[-1].casefold():
                message = f"`{column}` is one column, whose name needs quotes"
                return self.failure(message, hint=f'write "{column}" in double quotes', code="query")
            if array is not None and column is None:
                message = f"`{names[-1]}` is not a column, but an array of documents, which has a table of its own"
                hint = f"SELECT from `{array.name}`, whose `_parent_id` is the `_id` of the document"
                return self.failure(message, hint=hint, code="query")
            if column is None and array is None and tables:  # DuckDB only suggests columns that ktx copied
                near = did_you_mean(names[-1], columns.values())
                hint = f"did you mean `{near}`?" if near else f"columns: {listing(columns.values(), 10)}"
                return self.failure(f"the column `{names[-1]}` does not exist", hint=hint, code="query")
        return error

    def _no_collection(self, name: str) -> SourceError:
        known = port.select(self._current().collections, self.scope).refs
        names = [each.name if each.schema == self._home() else str(each) for each in known]
        near = did_you_mean(name, names)
        hint = f"did you mean `{near}`?" if near else f"collections: {listing(names, 10)}" if names else None
        message = f"the collection `{name}` does not exist, or this connection does not include it"
        return self.failure(message, hint=hint or Hint("see {}", Command("connection", "test", self.id)), code="query")

    def _answerable(self, reading: Reading) -> Reading:
        """Return a reading of all documents instead of a count of other rows, or of many rows."""
        many = reading.rows > max(FEW_DOCUMENTS, self.most_documents)
        return replace(reading, mode="all") if reading.mode == "count" or many else reading

    def interrupt(self) -> None:
        """See `Interruptible`."""
        self.server.interrupt()
        super().interrupt()

    def close(self) -> None:
        """Close both sessions; calling it twice is harmless."""
        super().close()
        self.server.close()

    def _settings(self) -> Mapping[str, Any]:
        return {"path": ":memory:", "read_only": False, "config": dict(CLOSED_SETTINGS), "statements": []}

    def _scoped(self, scope: port.Scope) -> port.Scope:
        """Return the scope with the option `databases`, which corresponds to `schemas` in other drivers."""
        if scope.schemas is not None or not self._databases:
            return scope
        chosen = (self._databases,) if isinstance(self._databases, str) else tuple(self._databases)
        return replace(scope, schemas=chosen)

    def _home(self) -> str:
        """Return the database of names without one: the connection's, or the only one."""
        if self.server.database:
            return self.server.database
        schemas = {ref.schema or "" for ref in self._current().collections}
        return schemas.pop() if len(schemas) == 1 else ""

    def _current(self) -> Catalog:
        found = self._catalog
        if found is None or monotonic() - found.since > REUSE_SECONDS:
            collections = {each.ref: each for each in self.server.collections()}
            found = self._catalog = Catalog(MongoCatalog(self.server, self.sample_documents), collections)
        return found

    def _tables(self) -> dict[port.TableRef, MongoTable]:
        catalog = self._current()
        return catalog.reader.tables(tuple(catalog.collections.values()))

    def _collection(self, ref: port.TableRef) -> port.TableRef:
        """Return an existing collection in scope; `name` may include its database. Raises `SourceError` for others."""
        known = self._current().collections
        found = port.TableRef(ref.schema or self._home(), ref.name)
        if found not in known and ref.schema is None:
            found = next((each for each in known if str(each) == ref.name), found)
        if found not in known or found not in port.select(known, self.scope).refs:
            child = self._resolve(ref.schema or "", ref.name)
            parent = None if child is None or child in known else self._table(child)
            if parent is None:
                raise self._no_collection(str(found))
            array = ".".join(parent.shape.array)
            message = f"`{child}` is not a collection, but the table of the array `{array}`"
            hint = f'use {{"$unwind": "${array}"}} on `{parent.collection.ref.name}`'
            raise self.failure(message, hint=hint, code="query")
        return found

    def _resolve(self, schema: str, name: str) -> port.TableRef | None:
        """Return the table of a name in SQL, which is not case-sensitive; collections come before child tables."""
        catalog, place = self._current(), (schema or self._home()).casefold()
        inside = [ref for ref in catalog.collections if (ref.schema or "").casefold() == place]
        same = [ref for ref in inside if ref.name.casefold() == name.casefold()]
        if same:
            return same[0]
        for ref in inside:
            if name.casefold().startswith(f"{ref.name}{CHILD}".casefold()):
                for path in catalog.reader.shape(catalog.collections[ref]).children:
                    child = child_ref(ref, path)
                    if child.name.casefold() == name.casefold():
                        return child
        return None

    def _table(self, ref: port.TableRef) -> MongoTable:
        catalog = self._current()
        own = catalog.collections.get(ref)
        if own is not None:
            return MongoTable(own, catalog.reader.shape(own).own, ref)
        for parent, collection in catalog.collections.items():
            if parent.schema == ref.schema and ref.name.startswith(f"{parent.name}{CHILD}"):
                for path, shape in catalog.reader.shape(collection).children.items():
                    if child_ref(parent, path) == ref:
                        return MongoTable(collection, shape, ref)
        raise self.failure(f"the collection `{ref}` no longer exists", code="query")

    def _prepare(self, session: Session) -> None:
        """Fill a new DuckDB process with what the current statement reads."""
        self._copies.clear()
        self._unfinished.clear()
        self._copy_wanted()

    def _copy_wanted(self) -> None:
        session = self._opened_session()
        moment, spent = monotonic(), 0
        # Also those that the statement does not seem to read: no statement may see documents that are older.
        old = [ref for ref, copy in self._copies.items() if moment - copy.since >= REUSE_SECONDS]
        self._forget(old)
        for each in self._wanted:
            known = self._copies.get(each.ref)
            fresh = known is not None and known.pid == session.pid
            table = self._table(each.ref)
            names = {one.name.casefold() for one in table.shape.fields}
            columns = frozenset(names if each.columns is None else names & each.columns)
            if fresh and known is not None and columns <= known.columns:
                continue
            if each.mode == "all" and fresh and known is not None:
                columns |= known.columns
            shape = table.shape.only(columns)
            if not shape.fields:  # A table needs a column.
                shape = TableShape(table.shape.fields[:1], table.shape.array)
            self._copies.pop(each.ref, None)
            self._make_room()
            spent += self._copy(session, table, shape, each, self.most_bytes - spent)

    def _make_room(self) -> None:
        """Drop the oldest copies that the statement does not read if all of them exceed the limit."""
        needed = {each.ref for each in self._wanted}
        others = sorted((each for each in self._copies if each not in needed), key=lambda ref: self._copies[ref].since)
        while others and sum(each.size for each in self._copies.values()) > self.most_bytes:
            self._forget([others.pop(0)])

    def _forget(self, refs: Sequence[port.TableRef]) -> None:
        session = self._connection
        for ref in refs:
            self._copies.pop(ref, None)
            if session is not None and session.is_open:
                with self._translating():
                    if ref.schema == self._home() and self._home().casefold() != "main":
                        view = f"DROP VIEW IF EXISTS main.{DIALECT.quote(ref.name)}"
                        session.execute(view, seconds=self.statement_seconds)
                    session.execute(f"DROP TABLE IF EXISTS {DIALECT.path(ref)}", seconds=self.statement_seconds)

    def _copy(self, session: Session, table: MongoTable, shape: TableShape, reading: Reading, room: int) -> int:
        """Read documents into a table of DuckDB, and return their size."""
        moment, size = monotonic(), 0
        target = TableWriter(session, self.deadline, table.ref, shape, exact=reading.mode != "sample")
        self._unfinished.append(table.ref)
        target.create()
        for length, document in self._counted(table, shape, reading, room):
            size += length
            try:
                target.add(document)
            except MixedError as error:
                raise self._mixed(table, target.last, error) from None
            except InexactError:
                raise self._inexact(table, target.last) from None
            if target.is_full:
                target.flush()
            if reading.mode == "first" and target.written + target.rows >= reading.rows:
                break
        target.flush()
        target.expose(self._home())
        if reading.mode == "all":
            names = frozenset(each.name.casefold() for each in shape.fields)
            self._copies[table.ref] = Copy(names, moment, size, session.pid)
            self._unfinished.remove(table.ref)
        return size

    def _counted(
        self, table: MongoTable, shape: TableShape, reading: Reading, room: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each document with its size, up to the limits. Raises `SourceError` beyond them."""
        size = 0
        for number, (length, document) in enumerate(self._documents(table, shape, reading)):
            size += length
            if reading.mode != "all":
                self._cut = self._cut or size > room
                if size > room:
                    return
            elif size > room or number >= self.most_documents:
                raise self._too_large(table, None, by_bytes=size > room)
            if document is None:
                message = f"`{table.collection.ref}` contains a document that is not valid BSON"
                raise self.failure(
                    message, hint="find and repair it with the server's `validate` command", code="query"
                )
            yield length, document

    def _documents(
        self, table: MongoTable, shape: TableShape, reading: Reading
    ) -> Iterator[tuple[int, dict[str, Any] | None]]:
        ref, projection = table.collection.ref, shape.projection()
        if reading.mode == "structure":
            return
        if reading.mode == "sample":
            yield from sampled(
                self.server,
                table.collection,
                reading.rows,
                seed=reading.seed,
                projection={**projection, "_id": 1},
                until=self.deadline,
            )
            return
        limit = 0
        if reading.mode == "first":
            limit = 0 if shape.array else max(1, reading.rows)  # a document may have any number of rows
        elif table.collection.kind == "collection":
            known = self.server.estimate(ref)
            if known > self.most_documents:
                raise self._too_large(table, known)
        for raw in self.server.find(ref, projection=projection, limit=limit, until=self.deadline):
            yield len(raw.raw), decoded(raw)

    def _too_large(self, table: MongoTable, count: int | None, *, by_bytes: bool = False) -> SourceError:
        key = "max_megabytes" if by_bytes else "max_documents"
        limit = f"{self.most_bytes // 1024**2:,} MiB" if by_bytes else f"{self.most_documents:,} documents"
        known = "" if count is None else f" (about {count:,})"
        hint = Hint(
            "let MongoDB compute the answer with {} (for agents, the tool `mongo_query`), or raise {}",
            Command("mongo-query", table.collection.ref.name, "PIPELINE", "-c", self.id),
            SettingPath(f"connections.{self.id}.{key}"),
        )
        what = f"`{table.collection.ref}`{known}"
        message = f"the statement needs every document of {what}, and SQL reads at most {limit}"
        found = self.failure(message, hint=hint, code="query")
        found.details["limit"] = key
        return found

    def _mixed(self, table: MongoTable, column: Field | None, error: MixedError) -> SourceError:
        name = ".".join(error.path or table.shape.array) if column is None else column.name
        read_as = column.native_type if column is not None else "a document" if error.path else "an array of documents"
        message = (
            f"`{name}` of `{table.ref}` has a value of the type {error.kind} that the sample of "
            f"{self.sample_documents:,} documents does not contain, and was read as {read_as}"
        )
        hint = Hint(
            "raise {} and run {}, or convert the value in {}",
            SettingPath(f"connections.{self.id}.sample_documents"),
            Command("scan", self.id),
            Command("mongo-query", table.collection.ref.name, "PIPELINE", "-c", self.id),
        )
        found = self.failure(message, hint=hint, code="query")
        found.details["limit"] = "sample_documents"
        return found

    def _inexact(self, table: MongoTable, column: Field | None) -> SourceError:
        name = "" if column is None else column.name
        message = (
            f"`{name}` of `{table.ref}` has both doubles and numbers with more digits than a double, so SQL cannot "
            "represent all of its values exactly"
        )
        hint = Hint(
            "leave the column out, or convert its values in {}",
            Command("mongo-query", table.collection.ref.name, "PIPELINE", "-c", self.id),
        )
        return self.failure(message, hint=hint, code="query")


def _facts(rights: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield short facts about privileges on databases and collections."""
    for each in rights[:20]:
        resource, actions = each.get("resource") or {}, set(each.get("actions") or ())
        if "db" in resource and actions & {"find", *_WRITING}:
            place = ".".join(filter(None, (resource["db"] or "*", resource.get("collection") or "*")))
            yield f"{', '.join(sorted(actions & {'find', *_WRITING}))} on {place}"
