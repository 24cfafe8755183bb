"""The port of a connector: a test, an introspection, a read-only query, and their results."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol, Self, TypeVar, runtime_checkable

from ktx_cli.core import (
    Command,
    ConfigError,
    Diagnostic,
    Location,
    NotSupportedError,
    Severity,
    SourceError,
    did_you_mean,
)


class SemanticType(StrEnum):
    """The four column types in the semantic layer."""

    STRING = "string"
    NUMBER = "number"
    TIME = "time"
    BOOLEAN = "boolean"


class StoredAs(StrEnum):
    """How a column stores values of another type than its own: a time, number or boolean as text, or as an epoch."""

    ISO_DATE = "iso_date"
    """`2024-01-31`."""
    ISO_TIMESTAMP = "iso_timestamp"
    """`2024-01-31 18:30:00` or `2024-01-31T18:30`, without a zone."""
    ISO_TIMESTAMP_TZ = "iso_timestamp_tz"
    """`2024-01-31T18:30:00Z` or `2024-01-31 18:30:00+01:00`."""
    EPOCH_SECONDS = "epoch_seconds"
    EPOCH_MILLISECONDS = "epoch_milliseconds"
    NUMBER_TEXT = "number_text"
    """`-12.50`."""
    BOOLEAN_TEXT = "boolean_text"
    """`Y` and `N`, `yes` and `no`, `t` and `f`, or `true` and `false`."""
    JSON_TEXT = "json_text"
    """An object or an array."""

    @property
    def type(self) -> SemanticType:
        """The type of the values."""
        return _STORED_TYPES.get(self, SemanticType.TIME)

    @property
    def native(self) -> SemanticType:
        """The type of the column itself."""
        return SemanticType.NUMBER if self.startswith("epoch_") else SemanticType.STRING

    @property
    def noun(self) -> str:
        """What the values are, in the plural."""
        return _STORED_NOUNS[self]

    @property
    def is_instant(self) -> bool:
        """Whether a value determines its instant, so that no time zone of the column applies."""
        return self is StoredAs.ISO_TIMESTAMP_TZ or self.native is SemanticType.NUMBER


_STORED_TYPES: Final = {
    StoredAs.NUMBER_TEXT: SemanticType.NUMBER,
    StoredAs.BOOLEAN_TEXT: SemanticType.BOOLEAN,
    StoredAs.JSON_TEXT: SemanticType.STRING,
}

_STORED_NOUNS: Final = {
    StoredAs.ISO_DATE: "ISO dates",
    StoredAs.ISO_TIMESTAMP: "ISO timestamps",
    StoredAs.ISO_TIMESTAMP_TZ: "ISO timestamps with an offset",
    StoredAs.EPOCH_SECONDS: "seconds since 1970",
    StoredAs.EPOCH_MILLISECONDS: "milliseconds since 1970",
    StoredAs.NUMBER_TEXT: "numbers",
    StoredAs.BOOLEAN_TEXT: "booleans",
    StoredAs.JSON_TEXT: "JSON objects or arrays",
}


class TableKind(StrEnum):
    """The kinds of relations in a database."""

    TABLE = "table"
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized_view"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    """The identity of a relation: schema (None if the engine has no schemas, as in SQLite) and name, verbatim."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


def ref_order(ref: TableRef) -> tuple[str, str]:
    """Return a table's sort key."""
    return ref.schema or "", ref.name


@dataclass(frozen=True, slots=True)
class Column:
    """A column as described by the database. `native_type` is in the database's own spelling."""

    name: str
    native_type: str
    type: SemanticType
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    generated: bool = False
    values: tuple[str, ...] = ()
    """The texts that a constraint or type allows, unless the type's spelling lists them; empty for any text."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A declared foreign key; `columns[i]` refers to `target_columns[i]`."""

    columns: tuple[str, ...]
    target: TableRef
    target_columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A declared unique constraint or unique index without expressions or a predicate."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """A non-unique index (unique ones are `UniqueKey`s), without expressions."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One relation with its columns in the database's order and its keys in declared order.

    `row_estimate` is the catalog's estimate (exact if counting is free), None if unknown.
    """

    ref: TableRef
    kind: TableKind
    columns: tuple[Column, ...]
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    unique_keys: tuple[UniqueKey, ...] = ()
    indexes: tuple[Index, ...] = ()
    row_estimate: int | None = None
    view_sql: str | None = None


@dataclass(frozen=True, slots=True, init=False)
class ObjectProblem(Diagnostic):
    """An object, or one kind of its metadata, that could not be read, unlike the rest."""

    ref: TableRef | None
    """The object, or None for the whole database."""
    what: str
    """The unreadable part: the kind of object or metadata."""

    def __init__(self, ref: TableRef | None, what: str, message: str) -> None:
        place = Location(object=None if ref is None else str(ref))
        Diagnostic.__init__(self, "unreadable_object", Severity.WARNING, message, place)
        object.__setattr__(self, "ref", ref)
        object.__setattr__(self, "what", what)


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """The result of an introspection, with tables sorted by table reference.

    A relation that could not be read at all is in `problems` and not in `tables`. `notes` are about parts of relations
    that no column can represent; the rest of these relations was read.
    """

    tables: tuple[Table, ...]
    problems: tuple[ObjectProblem, ...] = ()
    server_version: str | None = None
    notes: tuple[ObjectProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations of a connection to include.

    `schemas`: only these, or None for all except the system's. `enabled_tables`: exact names, `schema.table` or
    `table`, or None for all. `include`/`exclude`: patterns (`mart.*`, `*_tmp`) for `schema.table` (or `table` if the
    engine has no schemas), or exact names; exclude wins. All given conditions must hold.
    """

    schemas: tuple[str, ...] | None = None
    enabled_tables: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectionTest:
    """The result of a connection test.

    `latency_ms`: one round trip on an open session. `can_write`: whether the role could write (None: unknown).
    `privileges`: short facts for reports (`SELECT on 12 of 14 tables`). `tables`: relations in scope. `closed`: those
    from which the role may not SELECT. `database`: the session's database.
    """

    latency_ms: float
    server_version: str
    tables: int
    can_write: bool | None = None
    user: str | None = None
    privileges: tuple[str, ...] = ()
    closed: tuple[TableRef, ...] = ()
    database: str | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a read-only query. `truncated`: there were more than `max_rows`, or more than fit into memory."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False


class Connector(Protocol):
    """One open, read-only connection to a database.

    Created by `ktx_cli.warehouses.registry.connect`; a context manager. Every failure to reach or read the database is
    a `SourceError` that names the connection and never contains a password.
    """

    dialect: str
    """The sqlglot dialect for its SQL."""

    def test(self, scope: Scope) -> ConnectionTest:
        """Connect, make one round trip, and return the version and privileges."""
        ...

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the structure of all relations in scope, in bulk."""
        ...

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one statement in a read-only session."""
        ...

    def close(self) -> None:
        """Close the connection; calling it twice is harmless."""
        ...

    def __enter__(self) -> Connector: ...

    def __exit__(self, *exc: object) -> None: ...


@runtime_checkable
class Evident(Protocol):
    """A connector that can prove that its data is unchanged, which servers cannot.

    Postgres keeps no time of a table's last change, MySQL's `UPDATE_TIME` is lost with a restart and late for InnoDB,
    and a warehouse's change time does not cover the views over it.
    """

    def evidence(self) -> str | None:
        """Return a string that changes with the data and the engine, or None if changes cannot be detected."""
        ...


@runtime_checkable
class TableEvident(Protocol):
    """A connector that can tell which tables have changed since an earlier scan, with one statement for all of them.

    Unlike `Evident`, it may be about to learn of a change: counters that a server writes later than the rows make a
    table look unchanged in one scan, but not in the next. Each connector says what can be missed, and leaves out the
    tables for which it could be more than that.
    """

    def table_evidence(self, tables: Sequence[Table]) -> Mapping[TableRef, str]:
        """Return table -> a string that changes when its rows or structure may have changed; leave out the unknown."""
        ...


@runtime_checkable
class Identified(Protocol):
    """A connector that knows who reads, because another user or role may see other rows of the same tables."""

    def reader(self) -> str:
        """Return a string that differs for another user, role or database, and for other settings; no secrets."""
        ...


@runtime_checkable
class Metered(Protocol):
    """A connector that knows how many bytes a statement reads."""

    def bytes_read(self, sql: str) -> int | None:
        """Return the bytes that a statement reads, without running it, or None if that is unknown."""
        ...


def table_evidence(connector: Connector, tables: Sequence[Table]) -> Mapping[TableRef, str]:
    """Return the evidence of tables; empty for a connector that has none."""
    return connector.table_evidence(tables) if isinstance(connector, TableEvident) else {}


def reader_of(connector: Connector) -> str:
    """Return who reads, as `Identified` says; empty for a connector that does not know."""
    return connector.reader() if isinstance(connector, Identified) else ""


def catalog_of(connector: Connector) -> str | None:
    """Return the catalog (database, project) that a connection reads, or None if its names have no such part."""
    catalog: str | None = getattr(connector, "own_catalog", None)
    return catalog


def bytes_read(connector: Connector, sql: str) -> int | None:
    """Return the bytes that a statement reads, or None if that is unknown."""
    return connector.bytes_read(sql) if isinstance(connector, Metered) else None


class OverBudgetError(SourceError):
    """Raised for a statement that would make the database read more than `scan.budget.gigabytes` allows."""

    def __init__(self) -> None:
        hint = Command("config", "set", "scan.budget.gigabytes", "GIGABYTES")
        super().__init__("the limit `scan.budget.gigabytes` was reached", hint=hint, code="timeout")


def may_ask(connector: Connector, sql: str, *, max_rows: int, is_late: bool) -> bool:
    """Return whether a statement may be asked: there is time and budget to send it, or it is not sent at all."""
    if not isinstance(connector, ForwardingConnector):
        return not is_late
    if connector.recalls(sql, max_rows=max_rows):
        return True
    return not is_late and connector.affords(sql, max_rows=max_rows)


def attribute(connector: Connector, sql: str, tables: Iterable[TableRef]) -> None:
    """Tell a connector that stores answers that the next statement `sql` contains values of other tables."""
    if isinstance(connector, ForwardingConnector):
        connector.attribute(sql, tables)


@runtime_checkable
class Interruptible(Protocol):
    """A connector whose running statement another thread can interrupt."""

    def interrupt(self) -> None:
        """Make the running statement fail as a timeout; harmless if there is none."""
        ...


@runtime_checkable
class Aggregating(Protocol):
    """A connector to documents that also runs aggregation pipelines."""

    def aggregate(self, ref: TableRef, pipeline: Sequence[Mapping[str, Any]], *, max_rows: int = 1000) -> QueryResult:
        """Run a pipeline on a collection, and return its results as rows of JSON values.

        Raises `SourceError`, with the code `read_only` before anything is sent if the pipeline does more than read.
        """
        ...


def samples_itself(connector: Connector) -> bool:
    """Return whether a connector answers a sampled statement with blocks of rows, whatever its dialect does."""
    return bool(getattr(connector, "samples_itself", False))


def is_interruptible(connector: Connector) -> bool:
    """Return whether another thread can interrupt a statement; for a wrapper, this depends on the inner connection."""
    return bool(getattr(connector, "interruptible", isinstance(connector, Interruptible)))


class ForwardingConnector:
    """A connector that wraps another one. Methods not defined in a subclass are delegated to it."""

    def __init__(self, inner: Connector) -> None:
        self.inner = inner
        self.dialect = inner.dialect

    def test(self, scope: Scope) -> ConnectionTest:
        """See `Connector`."""
        return self.inner.test(scope)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """See `Connector`."""
        return self.inner.introspect(scope)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        return self.inner.query(sql, parameters, max_rows=max_rows)

    def evidence(self) -> str | None:
        """See `Evident`; None for a connection that cannot prove anything."""
        return self.inner.evidence() if isinstance(self.inner, Evident) else None

    def table_evidence(self, tables: Sequence[Table]) -> Mapping[TableRef, str]:
        """See `TableEvident`; empty for a connection that knows nothing."""
        return table_evidence(self.inner, tables)

    def reader(self) -> str:
        """See `Identified`; empty for a connection that does not know."""
        return reader_of(self.inner)

    @property
    def own_catalog(self) -> str | None:
        """See `catalog_of`."""
        return catalog_of(self.inner)

    def bytes_read(self, sql: str) -> int | None:
        """See `Metered`; None for a connection that does not know."""
        return bytes_read(self.inner, sql)

    def affords(self, sql: str, *, max_rows: int = 1000) -> bool:
        """Return whether a statement fits into the bytes that may still be read."""
        return not isinstance(self.inner, ForwardingConnector) or self.inner.affords(sql, max_rows=max_rows)

    def attribute(self, sql: str, tables: Iterable[TableRef]) -> None:
        """See `attribute`."""
        attribute(self.inner, sql, tables)

    def recalls(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> bool:
        """Return whether a statement is answered without being sent."""
        return isinstance(self.inner, ForwardingConnector) and self.inner.recalls(sql, parameters, max_rows=max_rows)

    @property
    def interruptible(self) -> bool:
        """Whether a statement can be interrupted from outside."""
        return is_interruptible(self.inner)

    def interrupt(self) -> None:
        """See `Interruptible`; does nothing for a connection that does not support it."""
        if isinstance(self.inner, Interruptible):
            self.inner.interrupt()

    @property
    def samples_itself(self) -> bool:
        """See `samples_itself`."""
        return samples_itself(self.inner)

    def aggregate(self, ref: TableRef, pipeline: Sequence[Mapping[str, Any]], *, max_rows: int = 1000) -> QueryResult:
        """See `Aggregating`. Raises `NotSupportedError` for a connection without pipelines."""
        if not isinstance(self.inner, Aggregating):
            raise NotSupportedError("the database of this connection has no aggregation pipelines", hint="use SQL")
        return self.inner.aggregate(ref, pipeline, max_rows=max_rows)

    def close(self) -> None:
        """See `Connector`."""
        self.inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """The settings that a connector needs to connect, with secrets resolved and paths absolute.

    `id` is the connection id in `ktx.yaml`, `driver` its driver, `options` its fields by their `ktx.yaml` names with
    secret references replaced by their values. Never logged, because `options` contains secrets.
    """

    id: str
    driver: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    settings_digest: str = ""
    """Of the settings that decide what is read, without secrets."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The table references in scope, sorted, and one problem for every entry without a match."""

    refs: tuple[TableRef, ...]
    problems: tuple[ObjectProblem, ...] = ()


def scope_from_options(options: Mapping[str, Any]) -> Scope:
    """Return the scope of a connection's `schemas` (or `schema`), `enabled_tables`, `include` and `exclude`.

    An empty list counts as not set. Raises `ConfigError` for a value that is not a text or a list of texts, and for an
    `enabled_tables` entry with an unterminated quote.
    """
    enabled = _texts(options, "enabled_tables")
    for entry in enabled:
        parse_name(entry)
    return Scope(
        schemas=(_texts(options, "schemas") or _texts(options, "schema")) or None,
        enabled_tables=enabled or None,
        include=_texts(options, "include"),
        exclude=_texts(options, "exclude"),
    )


def parse_name(entry: str, key: str = "enabled_tables") -> tuple[str, ...]:
    """Split `cat.db.name` at its dots; a part in double quotes keeps its dots (`"a.b"`), and `""` in it is one quote.

    `key`: the setting or option that has it. Raises `ConfigError` if a quote is not closed, text follows a closing
    quote, or a part is empty.
    """
    parts: list[str] = []
    rest = entry.strip()
    while True:
        if rest.startswith('"'):
            part, rest = _quoted_part(rest, entry, key)
        else:
            end = rest.find(".")
            part, rest = (rest, "") if end < 0 else (rest[:end], rest[end:])
        if not part or (rest and not rest.startswith(".")):
            raise _bad_name(entry, key)
        parts.append(part)
        if not rest:
            return tuple(parts)
        rest = rest[1:]


def select(refs: Iterable[TableRef], scope: Scope, *, catalog: str | None = None) -> Selection:
    """Apply a scope to the existing relations. `catalog` is the database's name, for three-part entries.

    Names are compared exactly, including case. An `enabled_tables` entry without a schema matches in every schema; one
    with a schema matches by its name if the engine has no schemas. A pattern without a dot is compared with the table's
    name, any other with `schema.table`.
    """
    everything = sorted(refs)
    wanted = set(everything)
    problems: list[ObjectProblem] = []
    if scope.schemas is not None and any(ref.schema is not None for ref in everything):
        wanted = {ref for ref in wanted if ref.schema in scope.schemas}
        present = {ref.schema for ref in everything if ref.schema is not None}
        problems += [_no_schema(name, present) for name in scope.schemas if name not in present]
    elif scope.schemas is not None and not everything:
        problems += [_no_schema(name, ()) for name in scope.schemas]
    if scope.enabled_tables is not None:
        enabled, missing = _enabled(scope.enabled_tables, wanted, catalog)
        wanted &= enabled
        problems += missing
    if scope.include:
        included, missing = _included(scope.include, wanted)
        wanted &= included
        problems += missing
    wanted -= {ref for ref in wanted if excluded(ref, scope)}
    return Selection(tuple(sorted(wanted)), tuple(problems))


def named_tables(refs: Iterable[TableRef], entries: Sequence[str], key: str) -> Selection:
    """Return the relations that entries name like those of `enabled_tables`. `key`: the setting or option with them."""
    found, problems = _enabled(entries, set(refs), None, key)
    return Selection(tuple(sorted(found)), tuple(problems))


def excluded(ref: TableRef, scope: Scope) -> bool:
    """Return whether an `exclude` entry matches a relation."""
    return any(matches(pattern, ref) for pattern in scope.exclude)


def matches(pattern: str, ref: TableRef) -> bool:
    """Return whether a pattern (`*`, `?`, `[abc]`; case-sensitive) or an exact name matches a relation."""
    whole = str(ref) if "." in pattern else ref.name
    return pattern in (ref.name, str(ref)) or fnmatch.fnmatchcase(whole, pattern)


def _enabled(
    entries: Sequence[str], refs: set[TableRef], catalog: str | None, key: str = "enabled_tables"
) -> tuple[set[TableRef], list[ObjectProblem]]:
    by_name: dict[str, list[TableRef]] = {}
    for ref in refs:
        for name in {ref.name, str(ref)}:
            by_name.setdefault(name, []).append(ref)
    found: set[TableRef] = set()
    problems: list[ObjectProblem] = []
    for entry in entries:
        parts = parse_name(entry, key)
        # An unquoted dot may also be part of the name itself: `a.b` also matches the table `a.b`.
        candidates = by_name.get(parts[-1], []) + by_name.get(entry, [])
        hits = {ref for ref in candidates if _names(parts, entry, ref, catalog)}
        found |= hits
        if not hits:
            problems.append(_no_match(key, entry, refs))
    return found, problems


def _names(parts: tuple[str, ...], entry: str, ref: TableRef, catalog: str | None) -> bool:
    if entry in (ref.name, str(ref)):
        return True
    if len(parts) > 3 or parts[-1] != ref.name:
        return False
    if len(parts) > 1 and ref.schema is not None and parts[-2] != ref.schema:
        return False
    return not (len(parts) == 3 and catalog is not None and parts[0] != catalog)


def _included(patterns: Sequence[str], refs: set[TableRef]) -> tuple[set[TableRef], list[ObjectProblem]]:
    found: set[TableRef] = set()
    problems: list[ObjectProblem] = []
    for pattern in patterns:
        hits = {ref for ref in refs if matches(pattern, ref)}
        found |= hits
        if not hits:
            problems.append(_no_match("include", pattern, refs))
    return found, problems


def _no_match(key: str, entry: str, refs: Iterable[TableRef]) -> ObjectProblem:
    near = did_you_mean(entry, (str(ref) for ref in refs))
    tail = f": did you mean `{near}`?" if near else ""
    return ObjectProblem(None, "scope", f"`{entry}` in `{key}` matches no table in scope{tail}")


def _no_schema(name: str, present: Iterable[str]) -> ObjectProblem:
    near = did_you_mean(name, present)
    tail = f": did you mean `{near}`?" if near else ""
    return ObjectProblem(None, "schema", f"schema `{name}` has no tables that this role can see{tail}")


def _texts(options: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = options.get(key)
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) and each.strip() for each in values):
        raise ConfigError(f"`{key}` must be a list of names", hint=f"use the form {key}: [first, second]")
    return tuple(each.strip() for each in values)


def _quoted_part(rest: str, entry: str, key: str) -> tuple[str, str]:
    position = 1
    while (end := rest.find('"', position)) >= 0:
        if rest[end + 1 : end + 2] != '"':
            return rest[1:end].replace('""', '"'), rest[end + 1 :]
        position = end + 2
    raise _bad_name(entry, key)


def _bad_name(entry: str, key: str) -> ConfigError:
    message = f"`{entry}` in `{key}` is not a table name"
    return ConfigError(message, hint='use schema.table, and quote a part that contains a dot or a quote: public."a.b"')


_NUMBER = re.compile(
    r"(tiny|small|medium|big|huge|u)*int(eger)?\d*|u(tiny|small|big|huge)int|numeric|number|dec(imal)?|fixed|"
    r"real|(b|dec)?float\d*|double|(small)?money|big(num|numeric|decimal)|varint|year|serial|bigserial"
)
_TIME = re.compile(r"(date|time|datetime)\d*|timestamp\w*|timetz|smalldatetime|datetimeoffset")
_BOOLEAN = re.compile(r"bool(ean)?")
_UNSIGNED = re.compile(r"^(unsigned|signed)\s+(big\s+)?")

_SCALED = re.compile(r"\b(?:numeric|number|decimal|dec|fixed)\s*\(\s*\d+\s*(?:,\s*(\d+)\s*)?\)")
_WHOLE = re.compile(r"\b(?:(?:tiny|small|medium|big|huge|u)*int(?:eger)?\d*|(?:big|small)?serial\d*)\b")

_POSTGRES_CATEGORIES = {"N": SemanticType.NUMBER, "B": SemanticType.BOOLEAN, "D": SemanticType.TIME}


def semantic_type(native_type: str) -> SemanticType:
    """Return a column's type from its type in the database's spelling; see `Dialect.semantic_type`."""
    spelled = native_type.strip().lower()
    if spelled.endswith("]"):
        return SemanticType.STRING
    word = re.match(r"\w*", _UNSIGNED.sub("", spelled))
    base = word.group() if word else ""
    if _BOOLEAN.fullmatch(base):
        return SemanticType.BOOLEAN
    if _NUMBER.fullmatch(base):
        return SemanticType.NUMBER
    return SemanticType.TIME if _TIME.fullmatch(base) else SemanticType.STRING


def postgres_type(category: str) -> SemanticType:
    """Return the type from `pg_type.typcategory`, which a domain shares with its base type."""
    return _POSTGRES_CATEGORIES.get(category, SemanticType.STRING)


def decimal_places(native_type: str) -> int | None:
    """Return the number of decimal places in a column, from its type in the database's spelling.

    None if the type does not define it: floats, decimals without a scale, and other types.
    """
    spelled = native_type.strip().lower()
    if spelled.endswith("]"):
        return None
    scaled = _SCALED.search(spelled)
    if scaled is not None:
        return int(scaled[1] or 0)
    return 0 if _WHOLE.search(spelled) else None


T = TypeVar("T")


def at_home(relations: Mapping[TableRef, T], scope: Scope, *homes: str) -> dict[TableRef, T]:
    """Return the relations that may be in scope.

    Without `schemas`, those are the ones of `homes` and of schemas that an entry of `enabled_tables` or a pattern of
    `include` names. With `schemas`, or without a home, all relations may be.
    """
    if scope.schemas is not None or not homes:
        return dict(relations)
    named = {parts[-2] for parts in map(parse_name, scope.enabled_tables or ()) if len(parts) > 1}
    patterns = [pattern.rpartition(".")[0] for pattern in scope.include if "." in pattern]

    def meant(schema: str | None) -> bool:
        return schema in {*homes, *named} or any(fnmatchcase(schema or "", each) for each in patterns)

    return {ref: value for ref, value in relations.items() if meant(ref.schema)}


def in_schemas(sql: str, count: int) -> str:
    """Return a catalog statement with `{schemas}` replaced by a list of `count` parameters."""
    return sql.replace("{schemas}", ", ".join(["%s"] * count))
