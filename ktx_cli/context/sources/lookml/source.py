"""LookML as a context source: fetch, projection through the importer, units for the rest."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ktx_cli.context.semantic.interchange.lookml.importing import import_lookml
from ktx_cli.context.semantic.interchange.lookml.project import read_project
from ktx_cli.context.semantic.interchange.lookml.world import UNKNOWN_TABLE
from ktx_cli.context.semantic.interchange.result import Fidelity, Kind, Report
from ktx_cli.context.semantic.loading.names import table_parts
from ktx_cli.context.semantic.model import Place
from ktx_cli.context.sources.git_source import MAX_BYTES, Origin, check_files, fetch_files
from ktx_cli.context.sources.lookml.files import ProjectFiles, is_lookml, project_files
from ktx_cli.context.sources.lookml.units import losses, units
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.context.sources.port import FetchContext, ProjectContext, Projection
from ktx_cli.context.sources.semantic_files import (
    Wanted,
    best_of,
    leave_broken,
    model_without_ours,
    want_files,
    write,
)
from ktx_cli.context.sources.tables import Name, Tables, manifest_models
from ktx_cli.core.errors import ConfigError, ResultWarning
from ktx_cli.core.text import listing, plural

TOOL: Final = "lookml"


@dataclass(slots=True)
class _Groups:
    """The files of each Looker connection by its name, and the models that are of another one than expected -> why."""

    files: dict[str, set[str]] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)


def _lack(origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
    """Return what is wrong where no LookML is among the files."""
    if any(map(is_lookml, paths)):
        return None
    return ConfigError(
        f"there is no LookML at {place}: no .lkml file",
        hint=f"set {origin.where}.path to the folder of the models",
    )


class LookMlSource:
    """A repository of LookML."""

    kind: ClassVar[str] = "lookml"
    documents: ClassVar[bool] = False
    skills: ClassVar[tuple[str, ...]] = ("lookml_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read all LookML files; raises as `fetch_files` does, and `ConfigError` where there is none."""
        origin = _origin(entry, context)
        snapshot = fetch_files(origin, context, lambda path: MAX_BYTES if is_lookml(path) else 0)
        lack = _lack(origin, snapshot.origin, snapshot.files)
        if lack is not None:
            raise lack
        return snapshot

    def check(self, entry: Any, context: FetchContext) -> str:
        """See `Checked`."""
        origin = _origin(entry, context)
        return check_files(origin, context, functools.partial(_lack, origin))

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write views and explores to the files of the connection that has the tables of a Looker connection."""
        texts = {path: file.text() for path, file in snapshot.files.items()}
        files = project_files(texts)
        groups = _groups(files, entry)
        wanted, tables = Wanted(), Tables(manifest_models(context))
        warnings: list[ResultWarning] = []
        reports: list[tuple[Fidelity, ...]] = []
        for looker, paths in sorted(groups.files.items()):
            chosen = {path: texts[path] for path in sorted(paths)}
            found = _connections(chosen, tables)
            broken = leave_broken(context, found[0], wanted) if len(found) == 1 else None
            if broken is not None:
                reports.append(tuple(Fidelity(Kind.DROPPED, f"file {p}", broken.message, Place(p)) for p in chosen))
                warnings.append(broken)
            elif len(found) == 1:
                reports.append(_want(chosen, found[0], context, wanted))
            else:
                reports.append(_not_placed(chosen, found))
                warnings.append(_no_connection(looker, found, files))
        reports.append(tuple(_left_out(files, groups, texts)))
        written = write(wanted, context, TOOL)
        report = tuple(sorted(best_of(reports), key=lambda each: (each.place.path, each.place.line, each.what)))
        open_files = losses(report)
        done = frozenset(path for path in texts if path not in open_files)
        warnings += _unknown(report)
        return Projection(
            written.artifacts, written.owned, report, done, tuple(_left(open_files)), (*warnings, *written.warnings)
        )

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return the units of what changed and no rule could place; those of another database may write pages alone."""
        files = project_files({path: file.text() for path, file in snapshot.files.items()})
        foreign = _groups(files, entry).foreign
        return units(files, changes, projection.handled, projection.report, foreign)


def _origin(entry: Any, context: FetchContext) -> Origin:
    """Return where the LookML is."""
    return Origin(
        f"connections.{context.connection}", url=entry.repo_url, branch=entry.branch, path=entry.path,
        token=entry.auth_token_ref, url_key="repoUrl",
    )  # fmt: skip


def _groups(files: ProjectFiles, entry: Any) -> _Groups:
    """Return the files by Looker connection; what no model includes goes with the only one there is."""
    expected = entry.mappings.expected_looker_connection_name
    groups = _Groups()
    for model in files.models:
        if expected and model.connection != expected:
            groups.foreign[model.path] = (
                f"its Looker connection is `{model.connection}`, and `{expected}` is the one expected"
            )
        else:
            groups.files.setdefault(model.connection, set()).update(model.files)
    if len(groups.files) == 1 or not files.models:
        alone = next(iter(groups.files), expected or "")
        groups.files.setdefault(alone, set()).update(files.orphans)
    return groups


def _connections(texts: Mapping[str, str], tables: Tables) -> list[str]:
    """Return the connections that have tables of the views, each view's table only where one alone has it."""
    found: set[str] = set()
    for name, block in read_project(texts, Report()).views.items():
        if block.below("derived_table"):
            continue
        try:
            parts = table_parts(str(block.values.get("sql_table_name") or name))
        except ConfigError:
            continue
        several = tables.find(Name(*reversed(parts[-3:])))
        if len({each.connection for each in several}) == 1:
            found.add(several[0].connection)
    return sorted(found)


def _want(texts: Mapping[str, str], connection: str, context: ProjectContext, wanted: Wanted) -> tuple[Fidelity, ...]:
    imported = import_lookml(texts, model_without_ours(context, connection), known_only=True)
    want_files(imported.files, imported.report, connection, context.workspace, TOOL, wanted)
    return imported.report


def _not_placed(texts: Mapping[str, str], found: list[str]) -> tuple[Fidelity, ...]:
    why = f"its views have tables of several connections: {listing(found)}" if found else UNKNOWN_TABLE
    return tuple(Fidelity(Kind.DROPPED, f"file {path}", why, Place(path)) for path in texts)


def _no_connection(looker: str, found: list[str], files: ProjectFiles) -> ResultWarning:
    models = [model.path for model in files.models if model.connection == looker]
    place = Place(models[0]) if models else Place(next(iter(files.orphans), ""))
    named = f"the Looker connection `{looker}`" if looker else "the LookML project"
    why = f"has tables of several connections: {listing(found)}" if found else "has no table that was scanned"
    hint = "scan its database first" if not found else "give each database a Looker connection of its own"
    return ResultWarning("no_table", f"{place}: {named} {why}", hint=hint, path=place.path, line=place.line)


def _left_out(files: ProjectFiles, groups: _Groups, texts: Mapping[str, str]) -> Iterator[Fidelity]:
    """Yield what no import read: models of another database, what belongs to none, dashboards."""
    read = {path for paths in groups.files.values() for path in paths}
    for model in files.models:
        if model.path in groups.foreign:
            for path in files.owned[model.path]:
                if path not in read:
                    yield Fidelity(Kind.DROPPED, f"file {path}", groups.foreign[model.path], Place(path))
    for path in files.orphans:
        if path not in read:
            why = "no model includes it, and several could"
            yield Fidelity(Kind.DROPPED, f"file {path}", why, Place(path))
    for path in files.dashboards:
        if path not in read:
            yield Fidelity(Kind.DROPPED, f"file {path}", "a dashboard is no definition", Place(path))


def _unknown(report: Iterable[Fidelity]) -> Iterator[ResultWarning]:
    for each in report:
        if each.why == UNKNOWN_TABLE and each.what.startswith("view "):
            what, hint = f"{each.place}: {each.what}: {each.why}", "scan its database, or correct its sql_table_name"
            yield ResultWarning("no_table", what, hint=hint, path=each.place.path, line=each.place.line)


def _left(open_files: Mapping[str, list[Fidelity]]) -> Iterator[str]:
    for path, lost in sorted(open_files.items()):
        yield f"{path}: {plural(len(lost), 'statement')} no rule could place"
