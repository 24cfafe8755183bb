"""`ktx diff`: compares databases with their last scan, and lists the definitions that each change breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import (
    CancelledError,
    Command,
    ConfigError,
    Diagnostic,
    Hint,
    KtxError,
    Location,
    NotReadyError,
    PartialError,
    Record,
    ResultWarning,
    Severity,
    listing,
    monotonic,
    one_line,
    plural,
)
from ktx_cli.engine import Target
from ktx_cli.jobs.check.eval.cases import Case, load_evals
from ktx_cli.jobs.check.lint.staleness import targets_of
from ktx_cli.jobs.ingest.plan import broken_targets, choose_targets
from ktx_cli.project import KtxConfig, Layout, WorkingTree
from ktx_cli.protection import LayerUses, Named, Part, Use, Uses, asked_names, names_in, sources_of
from ktx_cli.scan import Committed, ManifestIndex, carried_over, require_some_tables
from ktx_cli.semantic import Entry, Model, ParsedCopies, Place, layer_ids, load_layers, physical_name
from ktx_cli.warehouses import (
    Column,
    DatabaseSchema,
    ForeignKey,
    Index,
    SemanticType,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
    open_connection,
    parse_name,
    ref_order,
)
from ktx_cli.wiki import Graph, Page, field_line, line_of, load_graph


class ChangeKind(StrEnum):
    """The kind of a change to a table, or to a part of one."""

    TABLE_ADDED = "table_added"
    TABLE_REMOVED = "table_removed"
    TABLE_KIND = "table_kind_changed"
    VIEW = "view_definition_changed"
    TABLE_COMMENT = "table_comment_changed"
    COLUMN_ADDED = "column_added"
    COLUMN_REMOVED = "column_removed"
    COLUMN_TYPE = "column_type_changed"
    COLUMN_NULLABLE = "column_nullable_changed"
    COLUMN_COMMENT = "column_comment_changed"
    COLUMN_DEFAULT = "column_default_changed"
    COLUMN_GENERATED = "column_generated_changed"
    COLUMN_VALUES = "column_values_changed"
    COLUMN_ORDER = "column_order_changed"
    PRIMARY_KEY = "primary_key_changed"
    FOREIGN_KEY_ADDED = "foreign_key_added"
    FOREIGN_KEY_REMOVED = "foreign_key_removed"
    UNIQUE_KEY_ADDED = "unique_key_added"
    UNIQUE_KEY_REMOVED = "unique_key_removed"
    INDEX_ADDED = "index_added"
    INDEX_REMOVED = "index_removed"


REFERRED_TO: Final = frozenset(
    {
        *(ChangeKind.TABLE_REMOVED, ChangeKind.COLUMN_REMOVED, ChangeKind.COLUMN_TYPE, ChangeKind.COLUMN_NULLABLE),
        *(ChangeKind.PRIMARY_KEY, ChangeKind.FOREIGN_KEY_REMOVED, ChangeKind.UNIQUE_KEY_REMOVED),
    }
)
"""Kinds of changes for which ktx looks for references to the table or column."""

_BREAKS_REFERENCES: Final = REFERRED_TO - {ChangeKind.COLUMN_TYPE, ChangeKind.COLUMN_NULLABLE}


@dataclass(frozen=True, slots=True)
class SchemaChange(Record):
    """One change to a table or to the named columns.

    `before` and `after` are the states as the database reports them; None means that the object does not exist.
    `breaks_type` is true if the type in the semantic layer changes. `uses` are the references to the table or columns.
    `place` is the manifest line with the changed object.
    """

    kind: ChangeKind
    table: TableRef
    columns: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
    breaks_type: bool = False
    uses: tuple[Use, ...] = ()
    place: Place | None = None

    @property
    def breaking(self) -> bool:
        """Whether the change breaks a reference or the type of a column in the semantic layer."""
        return self.breaks_type or (self.kind in _BREAKS_REFERENCES and bool(self.uses))

    @property
    def what(self) -> str:
        """The table, or its changed columns."""
        name = self.table_name
        if not self.columns or self.kind is ChangeKind.COLUMN_ORDER:
            return name
        return f"{name}.{self.columns[0]}" if len(self.columns) == 1 else f"{name} ({', '.join(self.columns)})"

    @property
    def table_name(self) -> str:
        """The manifest name of the table."""
        return physical_name(self.table)

    @property
    def sentence(self) -> str:
        """The change in words, without a full stop."""
        values = (one_line(each or "-", _MOST_OF_A_VALUE) for each in (self.before, self.after))
        return _SENTENCES[self.kind].format(self.what, *values)

    @property
    def diagnostic(self) -> Diagnostic:
        """The change as a diagnostic: an error if it breaks the context."""
        severity = Severity.ERROR if self.breaking else Severity.WARNING
        return Diagnostic(self.kind.value, severity, self.sentence, self.place or Location())

    json_keys = (
        *("kind", "table=table_name", "columns", "before", "after", "breaking", "used_by=uses"),
        *("message=sentence", "path=place.path", "line=place.line"),
    )


_MOST_OF_A_VALUE: Final = 60
"""Maximum number of characters of an old or new value in a sentence."""

_SENTENCES: Final = {
    ChangeKind.TABLE_ADDED: "table `{0}` was added: {2}",
    ChangeKind.TABLE_REMOVED: "table `{0}` was removed: {1}",
    ChangeKind.TABLE_KIND: "`{0}` was a {1} and is now a {2}",
    ChangeKind.VIEW: "the SQL of view `{0}` changed: {1} -> {2}",
    ChangeKind.TABLE_COMMENT: "the comment of table `{0}` changed: {1} -> {2}",
    ChangeKind.COLUMN_ADDED: "column `{0}` was added: {2}",
    ChangeKind.COLUMN_REMOVED: "column `{0}` was removed: {1}",
    ChangeKind.COLUMN_TYPE: "the type of column `{0}` changed: {1} -> {2}",
    ChangeKind.COLUMN_NULLABLE: "column `{0}` was {1} and is now {2}",
    ChangeKind.COLUMN_COMMENT: "the comment of column `{0}` changed: {1} -> {2}",
    ChangeKind.COLUMN_DEFAULT: "the default of column `{0}` changed: {1} -> {2}",
    ChangeKind.COLUMN_GENERATED: "whether column `{0}` is generated changed: {1} -> {2}",
    ChangeKind.COLUMN_VALUES: "the allowed values of column `{0}` changed: {1} -> {2}",
    ChangeKind.COLUMN_ORDER: "the column order of `{0}` changed: {1} -> {2}",
    ChangeKind.PRIMARY_KEY: "the primary key of `{0}` changed: {1} -> {2}",
    ChangeKind.FOREIGN_KEY_ADDED: "a foreign key of `{0}` was added: {2}",
    ChangeKind.FOREIGN_KEY_REMOVED: "a foreign key of `{0}` was removed: {1}",
    ChangeKind.UNIQUE_KEY_ADDED: "a unique key of `{0}` was added: {2}",
    ChangeKind.UNIQUE_KEY_REMOVED: "a unique key of `{0}` was removed: {1}",
    ChangeKind.INDEX_ADDED: "an index of `{0}` was added: {2}",
    ChangeKind.INDEX_REMOVED: "an index of `{0}` was removed: {1}",
}
"""Kind -> the sentence about a change, with placeholders for the object, the old value and the new value."""


@dataclass(slots=True)
class ConnectionDrift(Record):
    """The changes to one connection, or the `error` of its comparison.

    `basis` is `snapshot` for the result of the last scan, or `manifest`, which only has names and semantic types.
    """

    connection: str
    driver: str
    basis: str | None = None
    tables: int = 0
    columns: int = 0
    changes: tuple[SchemaChange, ...] = ()
    seconds: float = 0.0
    error: KtxError | None = None

    @property
    def status(self) -> str:
        """`unchanged`, `drift` or `failed`."""
        return "failed" if self.error is not None else "drift" if self.changes else "unchanged"

    @property
    def result(self) -> str:
        """A one-line summary."""
        if self.error is not None:
            return f"failed: {self.error.message}"
        counts = f"{plural(self.tables, 'table')}, {plural(self.columns, 'column')}"
        breaking = sum(change.breaking for change in self.changes)
        changed = (
            f"{plural(len(self.changes), 'change')}, {breaking} breaking"
            if self.changes
            else "unchanged since the scan"
        )
        return f"{counts}; {changed}"

    json_keys = (
        *("connection", "driver", "status", "result", "compared_with=basis", "tables", "columns", "changes"),
        *("seconds", "error"),
    )


@dataclass(slots=True)
class Drift(Record):
    """The comparison of all requested connections."""

    connections: list[ConnectionDrift] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return the number of changes, of breaking changes, and of changes of each kind."""
        changes = [change for connection in self.connections for change in connection.changes]
        kinds = Counter(change.kind.value for change in changes)
        return {"changes": len(changes), "breaking": sum(c.breaking for c in changes), **dict(sorted(kinds.items()))}

    json_keys = ("connections", "counts")

    def diagnostics(self) -> list[tuple[Diagnostic, SchemaChange]]:
        """Return each change as a diagnostic, those that break the context first."""
        changes = [change for connection in self.connections for change in connection.changes]
        return [(each.diagnostic, each) for each in sorted(changes, key=lambda each: not each.breaking)]

    def error(self, *, breaking: bool) -> KtxError | None:
        """Return the error of the command, if any. With `breaking`, only breaking changes are errors."""
        failed = [connection.error for connection in self.connections if connection.error is not None]
        if failed:
            return _failed(failed) if len(failed) == len(self.connections) else self._partial(failed)
        counts = self.counts()
        count = counts["breaking" if breaking else "changes"]
        if not count:
            return None
        drifted = [connection for connection in self.connections if connection.status == "drift"]
        names = [connection.connection for connection in drifted]
        what = plural(count, "breaking change" if breaking else "change")
        message = f"{what} since the last scan: {listing(f'connection `{name}`' for name in names)}"
        return KtxError(message, hint=self._way_out(names), details=counts, code="drift")

    def _way_out(self, connections: Sequence[str]) -> Hint:
        """Return the hint: edit the broken definitions, if any, and run ingest."""
        ingest = Command("ingest", *connections)
        changes = (change for connection in self.connections for change in connection.changes if change.breaking)
        uses = (use for change in changes for use in change.uses)
        direct = [use.part for use in uses if use.via is None and not use.part.scan and use.part.place is not None]
        edits = dict.fromkeys(f"{part.kind} {part.name} ({part.place})" for part in direct)
        return Hint("edit {}; then: {}", listing(edits, _NAMED), ingest) if edits else ingest

    def _partial(self, failed: Sequence[KtxError]) -> PartialError:
        message = f"compared with errors; skipped: {listing((error.message for error in failed), 3)}"
        left_out = [connection.connection for connection in self.connections if connection.error is not None]
        details = {**self.counts(), "left_out": left_out}
        return PartialError(message, hint=failed[0].hint, details=details)


_NAMED: Final = 2
"""Maximum number of definitions that the hint names; the report lists them all, each below its change."""


def _failed(errors: Sequence[KtxError]) -> KtxError:
    if len(errors) == 1:
        return errors[0]
    codes = {error.code for error in errors}
    code = codes.pop() if len(codes) == 1 else "failed"
    return KtxError(listing((error.message for error in errors), 3), hint=errors[0].hint, code=code)


def find_drift(
    layout: Layout, config: KtxConfig, wanted: Sequence[str] = (), *, environ: Mapping[str, str]
) -> tuple[Drift, list[ResultWarning]]:
    """Return the changes to the requested databases, or to all, since their last scan.

    A failure affects only its own connection. Tables that cannot be read count as unchanged. Nothing is written. Raises
    the same errors as `choose_targets`.
    """
    uses = ContextUses(layout, config)
    drift, warnings = Drift(), []
    for target in choose_targets(layout, config, wanted, databases_only=True):
        connection_drift, connection_warnings = _of_connection(layout, config, target, environ, uses)
        drift.connections.append(connection_drift)
        warnings += connection_warnings
    for target, error in broken_targets(config, wanted, databases_only=True).items():
        drift.connections.append(ConnectionDrift(target.connection, target.driver, error=error))
    return drift, [*warnings, *uses.warnings]


def _of_connection(
    layout: Layout, config: KtxConfig, target: Target, environ: Mapping[str, str], uses: ContextUses
) -> tuple[ConnectionDrift, list[ResultWarning]]:
    started = monotonic()
    drift = ConnectionDrift(target.connection, target.driver)
    warnings: list[ResultWarning] = []
    try:
        known = read_known(layout, target.connection)
        schema = _introspected(layout, config, target, environ)
        require_some_tables(target.connection, schema, known.tables)
        tables, kept = carried_over(schema, known.tables)
        names_only = known.basis == MANIFEST
        changes = changes_between(known.tables, tables, names_only=names_only)
        drift.basis, drift.tables = known.basis, len(tables)
        drift.columns = sum(len(table.columns) for table in tables)
        drift.changes = uses.with_uses(target.connection, changes)
        warnings += [*known.warnings, *_unread(target, known, schema, kept)]
    except CancelledError:
        raise
    except KtxError as error:
        drift.error = error
    drift.seconds = round(monotonic() - started, 3)
    return drift, warnings


def _introspected(layout: Layout, config: KtxConfig, target: Target, environ: Mapping[str, str]) -> DatabaseSchema:
    connector, scope = open_connection(config, target.connection, project_dir=layout.root, environ=environ)
    with connector:
        return connector.introspect(scope)


def _unread(target: Target, known: LastScan, schema: DatabaseSchema, kept: Sequence[Table]) -> Iterator[ResultWarning]:
    """Yield warnings about the comparison."""
    name = target.connection
    if known.basis == MANIFEST:
        message = f"connection `{name}` has no snapshot of a scan; ktx compared only names and types, with the manifest"
        yield ResultWarning("no_snapshot", message, hint=Command("ingest", name), connection=name)
    if schema.problems:
        problems = listing(
            f"{problem.ref or 'the database'} ({problem.what}: {problem.message})" for problem in schema.problems
        )
        count = plural(len(schema.problems), "problem")
        message = f"connection `{name}`: {count} while reading the database: {problems}"
        hint = Command("connection", "test", name)
        yield ResultWarning("unread", message, hint=hint, connection=name, kept=[str(table.ref) for table in kept])


SNAPSHOT, MANIFEST = "snapshot", "manifest"


@dataclass(frozen=True, slots=True)
class LastScan:
    """The tables from the last scan. `basis` says whether they come from a snapshot or from the manifest."""

    tables: tuple[Table, ...]
    basis: str
    warnings: tuple[ResultWarning, ...] = ()


def read_known(layout: Layout, connection: str) -> LastScan:
    """Read the tables from the last scan from the files. Raises `NotReadyError` if there was no scan."""
    committed = Committed(WorkingTree(layout.root), connection, ParsedCopies(layout, connection))
    before = committed.snapshot
    if before.tables is not None:
        return LastScan(before.tables, SNAPSHOT)
    if not committed.shards:
        hint = Command("ingest", connection)
        raise NotReadyError(f"connection `{connection}` has not been scanned", hint=hint)
    index = ManifestIndex.of(committed.shards, ())
    entries = [committed.shards[path].tables[name] for path, name in index.primary.values()]
    return LastScan(tuple(_tables(entries)), MANIFEST, tuple(_damaged(each) for each in before.warnings))


def _damaged(warning: ResultWarning) -> ResultWarning:
    message = f"{warning.problem}; ktx compared only with the manifest"
    return ResultWarning(warning.code, message, hint=warning.hint, **warning.details)


def _tables(entries: Iterable[Entry]) -> Iterable[Table]:
    for entry in entries:
        ref = _ref(str(entry.get("table")))
        columns = [column for column in entry.get("columns") or () if "name" in column and "expr" not in column]
        if ref is not None:
            yield Table(ref, TableKind.TABLE, tuple(map(_column, columns)))


def _column(fields: dict[str, Any]) -> Column:
    """Return a column from the manifest. If its type is unknown, it has no native type."""
    kind = str(fields.get("type"))
    known = kind in [known_type.value for known_type in SemanticType]
    return Column(str(fields["name"]), kind if known else "", SemanticType(kind if known else "string"))


def _ref(name: str) -> TableRef | None:
    """Return the table in a `table:` value, or None if it is invalid."""
    try:
        *above, table = parse_name(name)
    except (ConfigError, ValueError):
        return None
    return TableRef(above[-1] if above else None, table)


def changes_between(before: Iterable[Table], now: Iterable[Table], *, names_only: bool = False) -> list[SchemaChange]:
    """Return the changes by table. A renamed table or column counts as one removed and one added.

    With `names_only`, only names and semantic types are known of the previous state, and no type if the native type is
    empty.
    """
    old, new = {table.ref: table for table in before}, {table.ref: table for table in now}
    changes: list[SchemaChange] = []
    for ref in sorted({*old, *new}, key=ref_order):
        if ref not in old:
            changes.append(SchemaChange(ChangeKind.TABLE_ADDED, ref, after=_size(new[ref])))
        elif ref not in new:
            changes.append(SchemaChange(ChangeKind.TABLE_REMOVED, ref, before=_size(old[ref])))
        else:
            changes += _of_table(old[ref], new[ref], names_only)
    return changes


def _size(table: Table) -> str:
    return f"{table.kind.value} of {plural(len(table.columns), 'column')}"


def _of_table(old: Table, new: Table, names_only: bool) -> Iterator[SchemaChange]:
    ref = new.ref
    yield from _columns(old, new, names_only)
    if names_only:
        return
    yield from _differ(ChangeKind.TABLE_KIND, ref, (), old.kind.value, new.kind.value)
    yield from _differ(ChangeKind.TABLE_COMMENT, ref, (), old.comment, new.comment)
    yield from _differ(ChangeKind.VIEW, ref, (), old.view_sql, new.view_sql)
    keys = (", ".join(key) or None for key in (old.primary_key, new.primary_key))
    yield from _differ(ChangeKind.PRIMARY_KEY, ref, old.primary_key or new.primary_key, *keys)
    removed, added = ChangeKind.FOREIGN_KEY_REMOVED, ChangeKind.FOREIGN_KEY_ADDED
    yield from _keys(removed, added, ref, old.foreign_keys, new.foreign_keys)
    removed, added = ChangeKind.UNIQUE_KEY_REMOVED, ChangeKind.UNIQUE_KEY_ADDED
    yield from _keys(removed, added, ref, old.unique_keys, new.unique_keys)
    yield from _keys(ChangeKind.INDEX_REMOVED, ChangeKind.INDEX_ADDED, ref, old.indexes, new.indexes)


def _differ(
    kind: ChangeKind, ref: TableRef, columns: tuple[str, ...], old: str | None, new: str | None
) -> Iterator[SchemaChange]:
    if old != new:
        yield SchemaChange(kind, ref, columns, old, new)


def _columns(old: Table, new: Table, names_only: bool) -> Iterator[SchemaChange]:
    before, now = {column.name: column for column in old.columns}, {column.name: column for column in new.columns}
    for name, column in before.items():
        if name not in now:
            yield SchemaChange(ChangeKind.COLUMN_REMOVED, new.ref, (name,), _typed(column, names_only))
    for name, column in now.items():
        if name in before:
            yield from _of_column(new.ref, before[name], column, names_only)
        else:
            yield SchemaChange(ChangeKind.COLUMN_ADDED, new.ref, (name,), None, _typed(column, names_only))
    kept = [name for name in before if name in now]
    moved = [name for name in now if name in before]
    if kept != moved and not names_only:
        yield SchemaChange(ChangeKind.COLUMN_ORDER, new.ref, tuple(moved), ", ".join(kept), ", ".join(moved))


def _of_column(ref: TableRef, old: Column, new: Column, names_only: bool) -> Iterator[SchemaChange]:
    name = (new.name,)
    before, after = _typed(old, names_only), _typed(new, names_only)
    if before != after and old.native_type:
        yield SchemaChange(ChangeKind.COLUMN_TYPE, ref, name, before, after, breaks_type=old.type is not new.type)
    if names_only:
        return
    nullable = ("nullable" if column.nullable else "not null" for column in (old, new))
    yield from _differ(ChangeKind.COLUMN_NULLABLE, ref, name, *nullable)
    yield from _differ(ChangeKind.COLUMN_COMMENT, ref, name, old.comment, new.comment)
    yield from _differ(ChangeKind.COLUMN_DEFAULT, ref, name, old.default, new.default)
    generated = ("generated" if column.generated else None for column in (old, new))
    yield from _differ(ChangeKind.COLUMN_GENERATED, ref, name, *generated)
    values = (", ".join(column.values) or None for column in (old, new))
    yield from _differ(ChangeKind.COLUMN_VALUES, ref, name, *values)


def _typed(column: Column, names_only: bool) -> str:
    """Return the type in the database, followed by the type in the semantic layer."""
    return column.type.value if names_only else f"{column.native_type} ({column.type.value})"


Key = ForeignKey | UniqueKey | Index


def _keys(
    removed: ChangeKind, added: ChangeKind, ref: TableRef, old: Sequence[Key], new: Sequence[Key]
) -> Iterator[SchemaChange]:
    """Yield the removed and the added keys."""
    yield from (SchemaChange(removed, ref, key.columns, before=_key_text(key)) for key in old if key not in new)
    yield from (SchemaChange(added, ref, key.columns, after=_key_text(key)) for key in new if key not in old)


def _key_text(key: Key) -> str:
    if isinstance(key, ForeignKey):
        name = f" ({key.name})" if key.name else ""
        return f"{physical_name(key.target)} ({', '.join(key.target_columns)}){name}"
    return f"({', '.join(key.columns)}){f' {key.name}' if key.name else ''}"


@dataclass(slots=True)
class ContextUses:
    """Finds references to changed tables and columns. Files are read on first use; `warnings` list skipped ones."""

    layout: Layout
    config: KtxConfig
    warnings: list[ResultWarning] = field(default_factory=list)
    _layers: dict[str, LayerUses] | None = None

    def with_uses(self, connection: str, changes: Iterable[SchemaChange]) -> tuple[SchemaChange, ...]:
        """Return a connection's changes with the references to the changed tables and columns."""
        return tuple(self._with_uses(connection, each) if each.kind in REFERRED_TO else each for each in changes)

    def _with_uses(self, connection: str, change: SchemaChange) -> SchemaChange:
        layer = self._read().get(connection)
        if layer is None:
            return change
        starts = _starts(layer, change)
        place = next((part.place for part in starts if part.place is not None), None)
        return replace(change, uses=tuple(layer.uses.of(starts)), place=place)

    def _read(self) -> dict[str, LayerUses]:
        """Return the layers of all connections with the references in the rest of the project."""
        if self._layers is None:
            ids = layer_ids(self.layout)
            models = dict(zip(ids, load_layers(self.layout, self.config, ids), strict=True))
            self._layers = {name: LayerUses(model, Uses()) for name, model in models.items()}
            graph = load_graph(WorkingTree(self.layout.root))
            for _, page in sorted(graph.wiki.pages.items()):
                self._page(self._layers, models, graph, page)
            self._evals(self._layers)
        return self._layers

    def _page(self, layers: Mapping[str, LayerUses], models: Mapping[str, Model], graph: Graph, page: Page) -> None:
        for reference in graph.references(page):
            for target in targets_of(models, reference):
                layer = layers[target.connection]
                source = models[target.connection].sources[target.source]
                part = layer.source(source) if target.member is None else layer.member(source, target.member)
                if part is not None:
                    layer.uses.link(part, _page_part(page, line_of(page, reference)))
        for index, name in enumerate(page.texts("tables")):
            parts = tuple(part.strip('"') for part in name.split("."))
            for layer in layers.values():
                for source in sources_of(layer.model, parts):
                    layer.uses.link(layer.source(source), _page_part(page, field_line(page, "tables", index)))

    def _evals(self, layers: Mapping[str, LayerUses]) -> None:
        try:
            loaded = load_evals(self.layout)
        except KtxError as error:
            self.warnings.append(ResultWarning("evals_unreadable", error.message, hint=error.hint))
            return
        for case in loaded.cases:
            layer = layers.get(case.connection or (next(iter(layers)) if len(layers) == 1 else ""))
            if layer is not None:
                part = Part("eval", case.name, layer.model.connection, Place(case.path, case.line))
                for named in _asked(layer.model, case):
                    layer.uses.note(part, named)


def _asked(model: Model, case: Case) -> Iterator[Named | None]:
    if case.asked.sql is not None:
        yield names_in(case.asked.sql, model.dialect)
    if case.asked.query is not None:
        yield asked_names(model, case.asked.query)


def _page_part(page: Page, line: int) -> Part:
    return Part("page", page.path, None, Place(page.path, line))


def _starts(layer: LayerUses, change: SchemaChange) -> list[Part]:
    """Return the changed parts, and the parts whose statements use them."""
    if change.kind is ChangeKind.TABLE_REMOVED:
        return [*layer.of_table(change.table), *layer.uses.naming(change.table)]
    if change.kind is ChangeKind.FOREIGN_KEY_REMOVED:
        return layer.of_reference(change.table, change.columns)
    if change.kind in (ChangeKind.PRIMARY_KEY, ChangeKind.UNIQUE_KEY_REMOVED):
        return layer.of_key(change.table, change.columns) if change.before is not None else []
    return [
        part
        for name in change.columns
        for part in (*layer.of_column(change.table, name), *layer.uses.naming(change.table, name))
    ]
