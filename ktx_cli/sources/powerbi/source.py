"""Power BI as a context source: fetch, projection through the importer, and units for the rest."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, ResultWarning, SettingPath, listing, one_line, plural
from ktx_cli.documents import Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.project import Layout
from ktx_cli.semantic import (
    NO_MODEL,
    NO_ROLES,
    POWERBI_INERT,
    REPORT_SUFFIX,
    TEMPLATE_SUFFIX,
    UNKNOWN_TABLE,
    Fidelity,
    Kind,
    Place,
    PowerBiModel,
    Report,
    UnresolvedError,
    import_powerbi,
    is_model_file,
    model_files,
    read_models,
    table_origin,
    template_path,
    template_schema,
)
from ktx_cli.sources.git import MAX_BYTES, Origin, check_files, fetch_files
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder, topmost
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

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

TOOL: Final = "powerbi"
MAX_MODEL: Final = 30_000_000
"""The maximum size of a `model.bim` and of a template, in bytes."""

_SIGNS: Final = (".pbip", ".pbism")
"""The suffixes of the file of a project, and of the file in the folder of each of its models."""

_MOST_NOTES: Final = 40
_INERT: Final = POWERBI_INERT | {UNKNOWN_TABLE}
"""Reasons for a difference that agents cannot do anything about."""


def _limit(path: str) -> int:
    """Return the maximum size of a file, or 0 for a file of another kind. Reports are listed, but not read."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == REPORT_SUFFIX:
        return 1
    if suffix == TEMPLATE_SUFFIX:
        return MAX_MODEL
    if not is_model_file(path):
        return 0
    return MAX_MODEL if suffix == ".bim" else MAX_BYTES


def _lack(origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
    """Return the problem if there is no model among the files."""
    suffixes = {PurePosixPath(path).suffix.lower() for path in paths if _limit(path)}
    if suffixes - {REPORT_SUFFIX}:
        return None
    if suffixes:
        return ConfigError(f"no Power BI model at {place}: it contains only .pbix files", hint=NO_MODEL)
    key = "path" if origin.path or not origin.folder else "source_dir"
    hint = Hint("set {} to the folder of the models", SettingPath(f"{origin.where}.{key}"))
    return ConfigError(f"no Power BI model at {place}: it contains no .tmdl, .bim or .pbit file", hint=hint)


class PowerBiSource(Source):
    """Power BI models in a folder or a git repository."""

    kind: ClassVar[str] = "powerbi"
    declares_first: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("powerbi_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read all models. Raises the errors of `fetch_files`, and `ConfigError` if there is none.

        The file of a template is the text of its model; a template without a readable model is skipped.
        """
        origin = _origin(entry, context)
        snapshot = fetch_files(origin, context, _limit)
        names = [*snapshot.files, *(each.what for each in snapshot.skipped)]
        lack = _lack(origin, snapshot.origin, names)
        if lack is not None:
            raise lack
        return _with_models(snapshot, context)

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        origin = _origin(entry, context)
        return check_files(origin, context, functools.partial(_lack, origin))

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the keys of tables, and their relationships."""
        from ktx_cli.sources.powerbi.declarations import declarations_of

        return declarations_of(_texts(snapshot))

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write each model to the files of the ktx connection that has its tables."""
        texts = _texts(snapshot)
        wanted, tables = Wanted(), Tables(manifest_models(context))
        warnings: list[ResultWarning] = []
        reports: list[tuple[Fidelity, ...]] = []
        by_connection: dict[str, list[str]] = {}
        unread = Report()
        models = read_models(texts, unread)
        for model in models:
            found = _connections(model, tables)
            if len(found) == 1:
                by_connection.setdefault(found[0], []).extend(model.files)
            else:
                why = f"it has tables of several connections: {listing(found)}" if found else UNKNOWN_TABLE
                reports.append(tuple(Fidelity(Kind.DROPPED, f"file {path}", why, Place(path)) for path in model.files))
                warnings.append(_no_connection(model, found))
        reports.append(unread.sorted())
        for connection, paths in sorted(by_connection.items()):
            chosen = {path: texts[path] for path in sorted(paths)}
            broken = leave_broken(context, connection, wanted) or _leave_unread(
                unread, chosen, connection, context, wanted
            )
            if broken is not None:
                reports.append(tuple(Fidelity(Kind.DROPPED, f"file {p}", broken.message, Place(p)) for p in chosen))
                warnings.append(broken)
                continue
            imported = import_powerbi(chosen, model_without_ours(context, connection), known_only=True)
            want_files(imported.files, imported.report, connection, context.workspace, TOOL, wanted)
            reports.append(imported.report)
        written = write(wanted, context, TOOL)
        report = tuple(sorted(best_of(reports), key=lambda each: (each.place.path, each.place.line, each.what)))
        open_files = _losses(report)
        done = frozenset(path for path in texts if path not in open_files)
        left = [f"{path}: {plural(len(lost), 'part')} that rules could not place" for path, lost in open_files.items()]
        warnings += _restricted(report)
        return Projection(written.artifacts, written.owned, report, done, tuple(left), (*warnings, *written.warnings))

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each model with content that rules could not place."""
        lost = _losses(projection.report)
        units = []
        for path, files in model_files(snapshot.files).items():
            own = tuple(each for each in files if each in changes.touched and each not in projection.handled)
            if own:
                rest = tuple(sorted({*files} - {*own}))
                notes = _notes({each: lost[each] for each in own if each in lost})
                units.append(WorkUnit(f"powerbi-{path}", f"model {path}", own, rest, notes=notes))
        return tuple(units)


def _origin(entry: Any, context: FetchContext) -> Origin:
    """Return the location of the models."""
    return Origin(
        f"connections.{context.connection}", folder=entry.source_dir, url=entry.repo_url, branch=entry.branch,
        path=entry.path, token=entry.auth_token_ref,
    )  # fmt: skip


def _with_models(snapshot: Snapshot, context: FetchContext) -> Snapshot:
    """Return the snapshot with the models of templates instead of the templates, and without reports."""
    files: dict[str, RawFile] = {}
    skipped = [
        replace(each, reason=NO_MODEL) if each.what.lower().endswith(REPORT_SUFFIX) else each
        for each in snapshot.skipped
    ]
    complete = snapshot.complete
    for path, file in snapshot.files.items():
        inner = template_path(path)
        if path.lower().endswith(REPORT_SUFFIX):
            skipped.append(Skipped(path, NO_MODEL))
        elif not path.lower().endswith(TEMPLATE_SUFFIX):
            files[path] = file
        else:
            try:
                content = template_schema(file.read(), path).encode("utf-8", "replace")
                files[inner] = context.raw.put(inner, content)
            except ConfigError as error:
                skipped.append(Skipped(path, error.message))
                before = context.raw.find(inner, context.previous[inner]) if inner in context.previous else None
                files |= {inner: before} if before is not None else {}
                complete = complete and (before is not None or inner not in context.previous)
    ordered = {path: files[path] for path in sorted(files)}
    fetched = sum(context.previous.get(path) != file.sha256 for path, file in ordered.items())
    return replace(snapshot, files=ordered, complete=complete, fetched=fetched, skipped=tuple(skipped))


def _texts(snapshot: Snapshot) -> dict[str, str]:
    return {path: file.text() for path, file in snapshot.files.items()}


def _connections(model: PowerBiModel, tables: Tables) -> list[str]:
    """Return the connections with the tables of a model, counting tables that are in exactly one connection."""
    found: set[str] = set()
    for table in model.tables.values():
        try:
            origin = table_origin(table, model)
        except UnresolvedError:  # The importer reports it.
            continue
        if not origin.parts:
            continue
        *outer, name = origin.parts
        schema = outer[-1] if outer else ""
        several = tables.find(Name(name, schema, outer[-2] if len(outer) > 1 else origin.database))
        several = several or tables.find(Name(name, schema))
        if len({each.connection for each in several}) == 1:
            found.add(several[0].connection)
    return sorted(found)


def _no_connection(model: PowerBiModel, found: list[str]) -> ResultWarning:
    place = Place(model.files[0])
    why = f"has tables of several connections: {listing(found)}" if found else "has no scanned table"
    hint = "keep the tables of each database in a model of their own" if found else "scan its database first"
    return ResultWarning("no_table", f"{place}: the model {model.path} {why}", hint=hint, path=place.path)


def _leave_unread(
    unread: Report, chosen: Iterable[str], connection: str, context: ProjectContext, wanted: Wanted
) -> ResultWarning | None:
    """Keep what earlier runs wrote for a connection if a file of its models can no longer be read.

    Returns a warning about the file, or None if all can be read or nothing was written before.
    """
    folder = f"{Layout.context_paths(connection)[0]}/"
    lost = next((each for each in unread.items if each.place.path in chosen), None)
    if lost is None or not any(path.startswith(folder) for path in context.owned):
        return None
    wanted.left.add(folder)
    what = f"{lost.place}: {lost.why}; the definitions in `{connection}` stay as they were"
    hint = "correct the file; the next run reads it again"
    return ResultWarning("not_written", what, hint=hint, path=lost.place.path, line=lost.place.line)


def _restricted(report: Iterable[Fidelity]) -> Iterator[ResultWarning]:
    """Yield a warning for each role, because ktx answers without the restrictions of Power BI."""
    for each in report:
        if each.why == NO_ROLES:
            what, hint = f"{each.place}: {each.what}: {each.why}", "see `policies` in the files of the semantic layer"
            yield ResultWarning("role_not_applied", what, hint=hint, path=each.place.path, line=each.place.line)


def _losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return the parts that rules could not use but agents may, by file."""
    found: dict[str, list[Fidelity]] = {}
    for each in report:
        if each.kind is not Kind.KEPT and each.why not in _INERT:
            found.setdefault(each.place.path, []).append(each)
    return dict(sorted(found.items()))


def _notes(lost: Mapping[str, list[Fidelity]]) -> str:
    lines = [f"- {each.place}: {each.what}: {one_line(each.why, 160)}" for several in lost.values() for each in several]
    if not lines:
        return ""
    rest = [f"- and {len(lines) - _MOST_NOTES} more"] if len(lines) > _MOST_NOTES else []
    return "\n".join(["Rules have already written everything except:", *lines[:_MOST_NOTES], *rest])


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the folders near a project that contain Power BI models."""
    roots = {_root(folder.path) for folder in folders if any(map(_is_sign, folder.files))}
    for root in topmost(sorted(roots)):
        yield Detected(root, "", {"source_dir": str(root)})


def _is_sign(name: str) -> bool:
    """Return whether a file is in the folder of a model."""
    suffix = PurePosixPath(name).suffix.lower()
    return suffix in (*_SIGNS, TEMPLATE_SUFFIX) or is_model_file(name)


def _root(folder: PurePosixPath) -> PurePosixPath:
    """Return the folder of the project that a folder with model files belongs to."""
    inner = next((each for each in (folder, *folder.parents) if each.suffix.lower() == ".semanticmodel"), None)
    return folder if inner is None else inner.parent
