"""The query history of a database as a context source: see `QueryHistorySource`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from ktx_cli.core import CancelledError, now, plural
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.project import QueryHistory, WorkingTree, read_state
from ktx_cli.protection import read_relations, values_shown
from ktx_cli.semantic import ColumnValues, Fidelity, Kind, Model, Place, load_lists, load_model
from ktx_cli.sources.port import Conclusion, Projection, Source
from ktx_cli.sources.query_history import readers
from ktx_cli.sources.query_history.model import KIND, Coverage, scope_of
from ktx_cli.sources.query_history.pages import (
    DIGEST,
    EVIDENCE,
    FORMER_PREFIX,
    PREFIX,
    Absence,
    PageChange,
    QueryPattern,
    TableUsage,
    UsageWritten,
    missing_joins,
    narratives,
    pattern_facts,
    pattern_pages,
    table_documents,
    write_narratives,
    write_usage,
)
from ktx_cli.sources.query_history.raw_files import MANIFEST, parsed, stage
from ktx_cli.sources.query_history.statements import Redactor
from ktx_cli.sources.query_history.tables import Tables
from ktx_cli.sources.query_history.templates import Readings, TemplateRules, basis_of
from ktx_cli.warehouses import Connector, dialect_of, open_database
from ktx_cli.wiki import FOLDER, GLOBAL, Wiki, render

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations
    from ktx_cli.sources.port import DigestForm, EvidenceForm, FetchContext, ProjectContext, UnitEvidence

TABLE_NOTES = "Read the file, then emit exactly one piece of `table_usage` evidence: what people use the table for."
PATTERN_NOTES = (
    "Read the file, then emit one piece of `pattern` evidence for each question that deserves a page. Several "
    "statements may ask the same question, and a file may contain none."
)
_HINTS = "history"
"""The name of these joins among the sources of relationships."""

WHY_NOT = "ktx writes the pages and texts about the query history from the evidence that you emit"
TABLE_SKILL, PATTERN_SKILL = "historic_sql_table_digest", "historic_sql_patterns"


@dataclass(frozen=True, slots=True)
class QueryHistorySource(Source):
    """The queries that people run on a database, but not the values that they search for.

    It belongs to a database's connection: `entry` is that connection, `context.queryHistory` its settings. `model`: the
    run's semantic layer when the history is fetched; None reads it from the project's files. `connect`: opens the
    database; None uses `entry`. `clock`: the current time.
    """

    model: Model | None = None
    connect: readers.Opens | None = None
    clock: Callable[[], datetime] = now

    kind: ClassVar[str] = KIND
    declares_later: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = (TABLE_SKILL, PATTERN_SKILL)
    evidence: ClassVar[EvidenceForm | None] = EVIDENCE
    digest: ClassVar[DigestForm | None] = DIGEST

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the history and store raw files; only the structure of a statement is kept."""
        settings: QueryHistory = entry.context.query_history
        dialect = dialect_of(entry.driver) or entry.driver
        model = (
            self.model
            or context.models.get(context.connection)
            or load_model(context.layout, context.connection, dialect)
        )
        rules = _rules(entry, settings, model, context)
        opens = self.connect or (lambda: _opened(entry, context))
        place = readers.HistoryPlace(
            context.connection,
            model.dialect,
            context.layout.root,
            opens,
            getattr(entry, "location", None),
            rules.readings.cuts,
        )
        moment = self.clock()
        history = readers.read_history(place, settings, moment)
        if context.stopped():
            raise CancelledError("interrupted while reading the query history", hint="run the command again")
        staged = stage(history, rules, context.connection, moment)
        rules.readings.save(context.cache_folder, context.connection)
        files = {path: context.raw.put(path, content) for path, content in sorted(staged.files.items())}
        return Snapshot(
            files,
            complete=history.coverage is not Coverage.PART,
            origin=history.origin,
            fetched=sum(context.previous.get(path) != file.sha256 for path, file in files.items()),
            warnings=staged.warnings,
        )

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the scanned tables that queries read, and their joins on equal columns, from both sides.

        A join that few queries have counts as any other, because a scan only uses joins to a column without repeated
        values.
        """
        from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable

        documents = [document for document in table_documents(contents_of(snapshot)) if document.get("source")]
        tables: dict[str, DeclaredTable] = {}
        for document in documents:
            *_, schema, name = ("", *str(document["table"]).split("."))
            tables[str(document["table"])] = DeclaredTable(name, schema)
        joins = [
            DeclaredJoin(
                str(document["table"]),
                tuple(str(own) for own, _ in join["on"]),
                str(join["with"]),
                tuple(str(theirs) for _, theirs in join["on"]),
            )
            for document in documents
            for join in document.get("joins", ())
            if join["with"] in tables and join["on"]
        ]
        return Declarations(_HINTS, tables, tuple(dict.fromkeys(joins)))

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write `usage` for the manifest's sources; list observed joins that the semantic layer does not have."""
        model = context.models[context.connection]
        contents = contents_of(snapshot)
        documents = table_documents(contents)
        tables = Tables(model)
        scope = scope_of(entry.context.query_history, entry.enabled_tables, tables)
        named = frozenset(table.source for table in tables.known if table.source and table in scope)
        absence = Absence(coverage_of(contents), named, self.clock().date())
        written = write_usage(context.workspace, model, documents, context.owned, absence)
        raw = tuple(sorted(path for path in snapshot.files if path.startswith("tables/")))
        return Projection(
            artifacts=_artifacts(written, dict(zip(raw, documents, strict=True)), model),
            owned=written.owned,
            report=tuple(map(_fidelity, raw, documents)),
            handled=frozenset({MANIFEST}),
            left=(*_left(snapshot), *(f"observed join: {hint}" for hint in missing_joins(documents, model))),
            warnings=written.warnings(context.connection),
        )

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each table file and each pattern file that changed."""
        touched = sorted(changes.touched & snapshot.files.keys() - projection.handled)
        return tuple(_unit(snapshot.files[path], touched) for path in touched)

    def skills_of(self, unit: WorkUnit) -> tuple[str, ...]:
        """Return the skill for the kind of file in a unit."""
        is_table = any(path.startswith("tables/") for path in unit.files)
        return (TABLE_SKILL,) if is_table else (PATTERN_SKILL,)

    def after_units(
        self, entry: Any, snapshot: Snapshot, context: ProjectContext, evidence: Sequence[UnitEvidence]
    ) -> Conclusion:
        """Write table narratives and question pages; mark pages whose questions are no longer asked."""
        usages = [each for each in evidence if each.evidence["kind"] == "table_usage"]
        patterns = [each for each in evidence if each.evidence["kind"] == "pattern"]
        written = UsageWritten(owned=context.owned)
        if usages:
            given = [TableUsage.model_validate(each.evidence) for each in usages]
            texts = narratives(given, table_documents(contents_of(snapshot)))
            written = write_narratives(context.workspace, context.models[context.connection], texts, context.owned)
        changes = self._pages(entry, snapshot, context, patterns)
        for change in changes:
            context.workspace.write(change.page.path, render(change.page))
        sources = {change.page.key: _evidence_of(change, patterns) for change in changes}
        narrators = tuple(dict.fromkeys(each.unit for each in usages))
        units = {change.page.path: tuple(dict.fromkeys(p.unit for p in sources[change.page.key])) for change in changes}
        return Conclusion(
            written.owned,
            {change.page.key: change.reason for change in changes},
            {f"wiki:{key}": tuple(sorted({each.raw_path for each in given})) for key, given in sources.items()},
            {**dict.fromkeys(sorted(written.changed), narrators), **units},
            _summary(len(changes), bool(written.changed)),
            written.warnings(context.connection),
        )

    def _pages(
        self, entry: Any, snapshot: Snapshot, context: ProjectContext, patterns: Sequence[UnitEvidence]
    ) -> tuple[PageChange, ...]:
        """Return the pattern wiki pages that change. Without evidence, only query history pages matter."""
        wiki = Wiki()
        beginnings = ("",) if patterns else (PREFIX, FORMER_PREFIX)
        folder = f"{FOLDER}{GLOBAL}/"
        wiki.refresh(context.workspace, [p for each in beginnings for p in context.workspace.paths(folder + each)])
        if not (wiki.pages or patterns):
            return ()
        return pattern_pages(
            wiki.pages.values(),
            [QueryPattern.model_validate(each.evidence) for each in patterns],
            pattern_facts(contents_of(snapshot)),
            connection=context.connection,
            today=self.clock().date(),
            archive_after_days=entry.context.query_history.stale_archive_after_days,
            complete=snapshot.complete,
        )


def _evidence_of(change: PageChange, patterns: Iterable[UnitEvidence]) -> list[UnitEvidence]:
    """Return the evidence that a page was written from: the evidence about its statements."""
    statements = set(change.page.texts("fingerprints"))
    return [each for each in patterns if statements.intersection(each.evidence["fingerprints"])]


def _summary(pages: int, has_narratives: bool) -> str:
    parts = (f"{plural(pages, 'page')} of questions" if pages else "", "narratives of tables" if has_narratives else "")
    return ", ".join(filter(None, parts))


def _rules(entry: Any, settings: QueryHistory, model: Model, context: FetchContext) -> TemplateRules:
    where = f"connections.{context.connection}.context.queryHistory"
    redact = Redactor.of(settings.redaction_patterns, f"{where}.redactionPatterns")
    tables = Tables(model, redact, _shown_lists(model, context))
    scope = scope_of(settings, entry.enabled_tables, tables)
    basis = basis_of(model.dialect, settings.redaction_patterns, tables)
    readings = Readings.load(context.layout.cache, context.connection, basis, tables)
    return TemplateRules(model.dialect, tables, scope, settings, redact, where, readings)


def _shown_lists(model: Model, context: FetchContext) -> list[ColumnValues]:
    """Return the value lists from the last scan, except those for columns that the semantic layer hides."""
    lists = read_state(context.layout, lambda database: load_lists(database, context.connection)) or ()
    tree = WorkingTree(context.layout.root)
    relations = functools.cache(lambda: read_relations(tree, context.connection))
    may_show = {
        name: values_shown(model, source, relations) for name, source in model.sources.items() if source.generated
    }
    found = []
    for listed in lists:
        owners = [model.sources[name] for name in may_show if model.sources[name].is_of(listed.ref)]
        columns = [(owner.name, column) for owner in owners if (column := owner.column(listed.column)) is not None]
        if columns and all(may_show[name](column) for name, column in columns):
            found.append(listed)
    return found


def _opened(entry: Any, context: FetchContext) -> Connector:
    root, environ = context.layout.root, context.environ
    return open_database(context.connection, entry, project_dir=root, environ=environ)[0]


def contents_of(snapshot: Snapshot) -> dict[str, bytes]:
    """Return path -> content of a snapshot's files."""
    return {path: file.read() for path, file in snapshot.files.items()}


def coverage_of(contents: Mapping[str, bytes]) -> Coverage:
    """Return the meaning of a statement's absence from a snapshot."""
    if MANIFEST not in contents:
        return Coverage.PART
    return Coverage(parsed(contents[MANIFEST], MANIFEST)["coverage"])


def _unit(file: RawFile, touched: list[str]) -> WorkUnit:
    is_table = file.path.startswith("tables/")
    name = file.path.partition("/")[2].removesuffix(".json")
    label = str(parsed(file.read(), file.path)["table"]) if is_table else f"query patterns {name}"
    return WorkUnit(
        key=f"{'table' if is_table else 'patterns'}-{name}",
        label=label,
        files=(file.path,),
        peers=tuple(path for path in touched if path != file.path),
        notes=TABLE_NOTES if is_table else PATTERN_NOTES,
        semantic=False,
        why_not=WHY_NOT,
    )


def _artifacts(
    written: UsageWritten, documents: Mapping[str, Mapping[str, Any]], model: Model
) -> dict[str, tuple[str, ...]]:
    """Return the manifest's files with content from the history, each with the raw files that it comes from."""
    found: dict[str, list[str]] = {path: [] for path, items in sorted(written.owned.items()) if items}
    for raw, document in documents.items():
        source = model.sources.get(document["source"] or "")
        if source is not None and source.place is not None and source.place.path in found:
            found[source.place.path].append(raw)
    return {path: tuple(raw) for path, raw in found.items()}


def _fidelity(path: str, document: Mapping[str, Any]) -> Fidelity:
    what = f"use of {document['table']}"
    if document["source"]:
        return Fidelity(Kind.KEPT, what, "", Place(path), f"{document['source']}.usage")
    return Fidelity(Kind.DROPPED, what, "the semantic layer has no such table", Place(path))


def _left(snapshot: Snapshot) -> tuple[str, ...]:
    tables = sum(path.startswith("tables/") for path in snapshot.files)
    patterns = sum(path.startswith("patterns/") for path in snapshot.files)
    lines = [f"narratives about the use of {tables} tables"] if tables else []
    return (*lines, *([f"wiki pages for the questions in {patterns} pattern files"] if patterns else []))
