"""What every connector offers: a test, an introspection, a read-only query; and the facts they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


class SemanticType(StrEnum):
    """The four types a column has for the semantic layer."""

    STRING = "string"
    NUMBER = "number"
    TIME = "time"
    BOOLEAN = "boolean"


class TableKind(StrEnum):
    """What a relation is in its database."""

    TABLE = "table"
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized_view"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    """The identity of a relation: schema (None where the engine has none, as SQLite) and name, verbatim."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the database describes it; `native_type` is the database's own spelling."""

    name: str
    native_type: str
    type: SemanticType
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    generated: bool = False


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
    """An index that is not unique (unique ones are `UniqueKey`s); expressions are left out."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One relation with its columns in the database's order and its keys in declared order.

    `row_estimate` is the catalog's estimate (exact where counting is free), None when unknown.
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


@dataclass(frozen=True, slots=True)
class ObjectProblem:
    """One object (or one kind of metadata of it) that could not be read; the rest was."""

    ref: TableRef | None
    what: str
    message: str


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """What an introspection found, tables sorted by ref.

    A relation that could not be read at all is in `problems` and not in `tables`.
    """

    tables: tuple[Table, ...]
    problems: tuple[ObjectProblem, ...] = ()
    server_version: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Which relations of a connection are wanted.

    `schemas`: only these, or None for all but the system's. `enabled_tables`: exact names, `schema.table` or
    `table`; None for all. `include`/`exclude`: patterns (`mart.*`, `*_tmp`) over `schema.table` (or `table` where
    the engine has no schemas), and a name as it is; exclude wins. All given conditions must hold.
    """

    schemas: tuple[str, ...] | None = None
    enabled_tables: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectionTest:
    """What a connection test learned.

    `latency_ms`: one round trip on an open session. `can_write`: whether the role could write (None: not known).
    `privileges`: short facts for a person (`SELECT on 12 of 14 tables`). `tables`: relations in scope; `closed`: those
    of them the role may not SELECT from. `database`: the one the session is in.
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
    """Rows of a read-only query; `truncated` says that there were more than `max_rows`, or than a session may hold."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False


class Connector(Protocol):
    """One open, read-only connection to a source of tables.

    Made by `ktx_cli.connectors.registry.connect`; a context manager. Every failure to reach or read the source is
    a `SourceError` that names the connection and never holds a password.
    """

    dialect: str
    """The sqlglot dialect of its SQL."""

    def test(self, scope: Scope) -> ConnectionTest:
        """Connect, make one round trip, look at version and privileges."""
        ...

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the structure of all relations in scope, in bulk."""
        ...

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one statement in a read-only session."""
        ...

    def close(self) -> None:
        """Give the session back; harmless when called twice."""
        ...

    def __enter__(self) -> Connector: ...

    def __exit__(self, *exc: object) -> None: ...


@runtime_checkable
class Evident(Protocol):
    """A connector that can prove its data unchanged; servers cannot.

    Postgres keeps no time of a table's last change, MySQL's `UPDATE_TIME` is lost with a restart and late for InnoDB,
    and a warehouse's time of change says nothing of the views over it.
    """

    def evidence(self) -> str | None:
        """Return a text that differs whenever the data or the engine does; None when nothing sure can be said."""
        ...


@runtime_checkable
class Interruptible(Protocol):
    """A connector whose statement under way another thread can end."""

    def interrupt(self) -> None:
        """Let the statement under way fail as one that took too long; harmless where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """What a connector needs to connect: secrets resolved, paths absolute.

    `id` is the connection id of `ktx.yaml`, `driver` its driver, `options` its fields by their `ktx.yaml` names
    with secret references replaced by their values. Never logged: `options` holds secrets.
    """

    id: str
    driver: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)
