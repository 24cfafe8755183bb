"""Tableau files as a context source: fetch, projection through the importer, and units for the rest."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import CancelledError, ConfigError, Hint, ResultWarning, SettingPath, listing, one_line, plural
from ktx_cli.documents import Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.faces import exp
from ktx_cli.semantic import (
    MAX_PACKAGE,
    TABLEAU_IRRELEVANT,
    TABLEAU_SUFFIXES,
    TABLEAU_UNKNOWN,
    Fidelity,
    Kind,
    Model,
    Place,
    Report,
    TableauData,
    import_data_sources,
    parse_document,
    read_data_sources,
)
from ktx_cli.sources.git import Origin, check_files, fetch_files
from ktx_cli.sources.http import CHECKING, HttpClient
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder
from ktx_cli.sources.table_texts import (
    Name,
    Tables,
    Wanted,
    best_of,
    leave_broken,
    manifest_models,
    model_without_ours,
    want_files,
    write,
)
from ktx_cli.sources.tableau.documents import catalog_of, has_knowledge, plain_document, shown_facts, want_table_texts
from ktx_cli.sources.tableau.server import CATALOG, TableauApi, read_site, site_of

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

TOOL: Final = "tableau"


def _lack(origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
    """Return the problem if there is no Tableau file among the files."""
    if any(map(is_tableau, paths)):
        return None
    message = f"no Tableau files at {place}: it contains no {listing(TABLEAU_SUFFIXES)} file"
    key = "source_dir" if origin.folder else "path"
    return ConfigError(message, hint=Hint("set {} to the folder of the files", SettingPath(f"{origin.where}.{key}")))


def is_tableau(path: str) -> bool:
    """Return whether a file is a Tableau workbook or data source."""
    return path.lower().endswith(TABLEAU_SUFFIXES)


class TableauSource(Source):
    """A folder or a git repository with Tableau files, or a Tableau site. `sleep` can be replaced in tests."""

    kind: ClassVar[str] = "tableau"
    declares_first: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("tableau_ingest",)

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the document of each Tableau file. Raises the errors of `fetch_files`, and `ConfigError` without files.

        A file that cannot be read is reported, and its previous copy is kept. Of a site, the files that changed are
        downloaded, and the facts about all of them. Raises the errors of `HttpClient`.
        """
        if entry.server_url:
            site, name, secret = site_of(entry, context)
            with HttpClient(
                site, stopped=context.stopped, emit=context.emit, sleep=self._sleep, max_bytes=MAX_PACKAGE, timeout=60.0
            ) as client:
                api = TableauApi(client)
                api.sign_in(name, secret, entry.site)
                return read_site(api, entry, context, site)
        origin = _origin(entry, context)
        snapshot = fetch_files(origin, context, lambda path: MAX_PACKAGE if is_tableau(path) else 0)
        lack = _lack(origin, snapshot.origin, snapshot.files)
        if lack is not None:
            raise lack
        return _documents(snapshot, context)

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        if entry.server_url:
            site, name, secret = site_of(entry, context)
            with HttpClient(site, policy=CHECKING, emit=context.emit, sleep=self._sleep) as client:
                TableauApi(client).sign_in(name, secret, entry.site)
            return f"Tableau at {site.base_url}, {f'site {entry.site}' if entry.site else 'the default site'}"
        origin = _origin(entry, context)
        return check_files(origin, context, functools.partial(_lack, origin))

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the joins of data sources, and the keys that they state."""
        from ktx_cli.sources.tableau.declarations import declarations_of

        return declarations_of(snapshot)

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write each data source to the files of the connection that has its tables."""
        catalog = catalog_of(snapshot, CATALOG)
        texts = {path: file.text() for path, file in snapshot.files.items() if path not in catalog}
        placed = _placed(texts, entry, context)
        wanted, warnings = Wanted(), list(placed.warnings)
        reports: list[tuple[Fidelity, ...]] = [placed.report]
        for connection, sources in sorted(placed.sources.items()):
            broken = leave_broken(context, connection, wanted)
            if broken is not None:
                places = sorted({each.path for each in sources})
                reports.append(tuple(Fidelity(Kind.DROPPED, f"file {p}", broken.message, Place(p)) for p in places))
                warnings.append(broken)
                continue
            model = model_without_ours(context, connection)
            imported = import_data_sources(sources, model, Report(), known_only=True)
            want_files(imported.files, imported.report, connection, context.workspace, TOOL, wanted)
            reports.append(imported.report)
        described = Report()
        want_table_texts(catalog, Tables(manifest_models(context)), entry.database, wanted, described, TOOL)
        reports.append(described.sorted())
        written = write(wanted, context, TOOL)
        report = tuple(sorted(best_of(reports), key=lambda each: (each.place.path, each.place.line, each.what)))
        open_files = {path: lost for path, lost in losses(report).items() if path not in catalog}
        known = [path for path, facts in catalog.items() if has_knowledge(facts)]
        left = [f"{path}: {plural(len(lost), 'part')} that rules could not place" for path, lost in open_files.items()]
        left += [f"{path}: texts of people, or formulas of a file that may not be downloaded" for path in known]
        warnings += _unknown(report)
        handled = frozenset(snapshot.files) - open_files.keys() - frozenset(known)
        return Projection(
            written.artifacts, written.owned, report, handled, tuple(left), (*warnings, *written.warnings)
        )

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each file with parts that rules could not place, or with texts about it on the site."""
        open_files, catalog = losses(projection.report), catalog_of(snapshot, CATALOG)
        units = []
        for path in snapshot.files:
            if path in catalog:
                continue
            facts_path = f"{CATALOG}{path.rpartition('.')[0]}.json"
            facts = catalog.get(facts_path, {})
            files = [path] if path in open_files else []
            files += [facts_path] if facts and has_knowledge(facts) else []
            touched = tuple(each for each in files if each in changes.touched)
            notes = [
                *([_notes(open_files[path])] if path in open_files else []),
                *([shown_facts(facts)] if facts else []),
            ]
            if touched:
                others = tuple(each for each in (path, facts_path) if each in snapshot.files and each not in touched)
                units.append(
                    WorkUnit(f"tableau-{path}", path, touched, others if facts else (), notes="\n\n".join(notes))
                )
        alone = (path for path in catalog if not _documents_of(path, snapshot))
        units += [
            WorkUnit(f"tableau-{path}", path, (path,), notes=shown_facts(catalog[path]))
            for path in alone
            if path in changes.touched and has_knowledge(catalog[path])
        ]
        return tuple(units)


def _documents_of(path: str, snapshot: Snapshot) -> bool:
    """Return whether the file that a raw file of facts is about could be read."""
    stem = path.removeprefix(CATALOG).removesuffix(".json")
    return any(f"{stem}{suffix}" in snapshot.files for suffix in TABLEAU_SUFFIXES)


def _origin(entry: Any, context: FetchContext) -> Origin:
    """Return the location of the files."""
    return Origin(
        f"connections.{context.connection}", folder=entry.source_dir, url=entry.repo_url, branch=entry.branch,
        path=entry.path, token=entry.auth_token_ref,
    )  # fmt: skip


def _documents(snapshot: Snapshot, context: FetchContext) -> Snapshot:
    """Return the files as the documents in them, without credentials and pictures; lines keep their numbers."""
    files: dict[str, RawFile] = {}
    skipped = list(snapshot.skipped)
    for path, file in snapshot.files.items():
        if context.stopped():
            raise CancelledError("stopped while reading the source")
        content = file.read()
        try:
            plain = plain_document(path, content)
            if context.previous.get(path) != hashlib.sha256(plain.encode()).hexdigest():
                parse_document(plain, path)
            files[path] = context.raw.put(path, plain.encode())
        except ConfigError as error:
            known = context.previous.get(path)
            before = context.raw.find(path, known) if known else None
            reason = str(error.details.get("reason", error.message))
            skipped.append(Skipped(path, f"{reason}; ktx keeps its previous copy" if before else reason))
            if before is not None:
                files[path] = before
    fetched = sum(context.previous.get(path) != file.sha256 for path, file in files.items())
    return replace(snapshot, files=files, fetched=fetched, skipped=tuple(skipped))


@dataclass(slots=True)
class _Placement:
    """The data sources of each connection, and the facts about the others."""

    sources: dict[str, list[TableauData]] = field(default_factory=dict)
    report: tuple[Fidelity, ...] = ()
    warnings: list[ResultWarning] = field(default_factory=list)


def _placed(texts: Mapping[str, str], entry: Any, context: ProjectContext) -> _Placement:
    """Return the data sources by the connection whose tables they use."""
    report, placed = Report(), _Placement()
    if entry.database and entry.database not in context.models:
        what = (
            f"`connections.{context.connection}.database` is `{entry.database}`, which is not a database of the project"
        )
        hint = f"use one of: {listing(context.models)}"
        placed.warnings.append(ResultWarning("no_table", what, hint=hint))
    tables = Tables(manifest_models(context))
    for source in read_data_sources(texts, report):
        found = _connections(source, tables, context.models)
        found = [each for each in found if each == entry.database] if entry.database else found
        if len(found) == 1:
            placed.sources.setdefault(found[0], []).append(source)
            continue
        what = f"data source `{source.title}`"
        why = f"its tables are in several connections: {listing(found)}" if found else TABLEAU_UNKNOWN
        report.dropped(what, why, source.place)
        hint = f"set connections.{context.connection}.database to one of them" if found else "scan its database first"
        message = f"{source.place}: {what}: {why}"
        placed.warnings.append(
            ResultWarning("no_table", message, hint=hint, path=source.place.path, line=source.place.line)
        )
    placed.report = report.sorted()
    return placed


def _connections(source: TableauData, tables: Tables, models: Mapping[str, Model]) -> list[str]:
    """Return the connections that have tables of a data source, and only some of them if these have more of them."""
    counts: dict[str, int] = {}
    for relation in source.relations.values():
        if relation.why_not:
            continue
        names = _names_in(relation.sql, models) if relation.sql else [Name(*reversed(relation.parts[-3:]))]
        for name in names:
            for connection in {each.connection for each in tables.find(name)}:
                counts[connection] = counts.get(connection, 0) + 1
    most = max(counts.values(), default=0)
    return sorted(connection for connection, count in counts.items() if count == most)


def _names_in(sql: str, models: Mapping[str, Model]) -> list[Name]:
    """Return the tables of a query, read in the dialect of the first connection that understands it."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    for dialect in dict.fromkeys(model.dialect for model in models.values()):
        try:
            tree = sqlglot.parse_one(sql, read=dialect)
        except (SqlglotError, ValueError, RecursionError):
            continue
        return [Name(each.name, each.db, each.catalog) for each in tree.find_all(exp.Table)]
    return []


def _unknown(report: Iterable[Fidelity]) -> Iterator[ResultWarning]:
    for each in report:
        if each.why == TABLEAU_UNKNOWN and each.what.startswith("table "):
            what, hint = f"{each.place}: {each.what}: {each.why}", "scan its database"
            yield ResultWarning("no_table", what, hint=hint, path=each.place.path, line=each.place.line)


_MOST_NOTES: Final = 60


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return the parts that rules dropped but agents may use, by file."""
    found: dict[str, list[Fidelity]] = {}
    for each in report:
        if each.kind is Kind.DROPPED and each.why not in TABLEAU_IRRELEVANT:
            found.setdefault(each.place.path, []).append(each)
    return found


def _notes(lost: Sequence[Fidelity]) -> str:
    lines = [f"- {each.place}: {each.what}: {one_line(each.why, 400)}" for each in lost[:_MOST_NOTES]]
    rest = [f"- and {len(lost) - _MOST_NOTES} more"] if len(lost) > _MOST_NOTES else []
    return "\n".join(["Rules have already written everything except:", *lines, *rest])


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the common folder of all Tableau files near a project."""
    counts = {folder.path: sum(map(is_tableau, folder.files)) for folder in folders}
    having = [path for path, count in counts.items() if count]
    if having:
        parents = (having[0], *having[0].parents)
        common = next(parent for parent in parents if all(path.is_relative_to(parent) for path in having))
        yield Detected(PurePosixPath(common), plural(sum(counts.values()), "file"), {"source_dir": str(common)})
