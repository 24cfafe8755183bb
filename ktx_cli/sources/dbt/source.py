"""dbt as a context source: fetch, projection into the manifest and the semantic layer, units for the rest."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, ResultWarning, SettingPath, listing, one_line, plural
from ktx_cli.documents import Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.semantic import NO_ONE_TABLE, Fidelity, Kind, Place, Relation, Report, relation_of
from ktx_cli.sources.dbt import project as dbt
from ktx_cli.sources.dbt import project as manifest
from ktx_cli.sources.dbt.facts import KNOWN_TYPES, TOOL, Facts, Reference, add_joins, want_semantics
from ktx_cli.sources.git import Origin, check_files, fetch_files
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder, topmost
from ktx_cli.sources.table_texts import LayerTable, Name, Tables, Wanted, manifest_models, write

_FILES: Final = dbt.project_files((*dbt.YAML, dbt.DOCS), {manifest.PATH: manifest.MOST_BYTES})
_MOST_WARNINGS: Final = 20
_Missed = tuple[Place, str, str]
"""Where something without a table stands, what it is, and why."""


class DbtSource(Source):
    """A dbt project: a folder, or a repository."""

    kind: ClassVar[str] = "dbt"
    skills: ClassVar[tuple[str, ...]] = ("dbt_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the YAML and Markdown in the folders that `dbt_project.yml` names; of the manifest, what holds still.

        Raises as `fetch_files` does, and `ConfigError` where there is no project.
        """
        origin = self._origin(entry, context)
        snapshot = fetch_files(origin, context, _FILES)
        lack = self._lack(entry, origin, snapshot.origin, snapshot.files)
        if lack is not None:
            raise lack
        return _with_reduced(snapshot, context)

    def check(self, entry: Any, context: FetchContext) -> str:
        """See `Source`."""
        origin = self._origin(entry, context)
        return check_files(origin, context, functools.partial(self._lack, entry, origin))

    def _lack(self, entry: Any, origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
        """Return what is wrong where no YAML is among the files."""
        if any(path.endswith(dbt.YAML) and PurePosixPath(path).stem != dbt.CREDENTIALS for path in paths):
            return None
        key = "path" if entry.path else "source_dir" if entry.source_dir else "repo_url"
        hint = Hint("set {} to the folder of dbt_project.yml", SettingPath(f"{origin.where}.{key}"))
        return ConfigError(f"there is no dbt project at {place}: no YAML file", hint=hint)

    def _origin(self, entry: Any, context: FetchContext) -> Origin:
        return Origin(
            f"connections.{context.connection}", folder=entry.source_dir, url=entry.repo_url, branch=entry.branch,
            path=entry.path, token=entry.auth_token_ref,
        )  # fmt: skip

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write descriptions, tests, tags and freshness to the manifest, semantic models to files of their own."""
        report = Report()
        name, target = getattr(entry, "project_name", None), getattr(entry, "target", None)
        project = dbt.read_project(snapshot, report, name=name, target=target)
        found, missed = _tables(project, Tables(manifest_models(context)), report)
        wanted = Wanted()
        references: list[Reference] = []
        facts = Facts(project, report, wanted, references)
        for node in project.nodes:
            if node.relation in found:
                facts.add(node, found[node.relation])
        add_joins(references, found, context.owned, wanted, report)
        broken: list[ResultWarning] = []
        semantics = want_semantics(project.semantic_files, found, context, wanted, broken)
        for exposure in project.exposures:
            report.dropped(f"exposure `{exposure.text('name') or '?'}`", dbt.EXPOSURE, exposure.place)
        written = write(wanted, context, TOOL)
        report.items += semantics
        items = report.sorted()
        return Projection(
            written.artifacts, written.owned, items, handled(snapshot, items), tuple(_left(project, snapshot, items)),
            (*_warnings(missed, semantics), *broken, *written.warnings),
        )  # fmt: skip

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit for a small project, else one a file, of what changed and no rule could place."""
        return units(snapshot, changes, projection.handled, projection.report)


def _with_reduced(snapshot: Snapshot, context: FetchContext) -> Snapshot:
    """Return the snapshot with what is kept of the compiled manifest; without one that cannot be read."""
    file = snapshot.files.get(manifest.PATH)
    if file is None:
        return snapshot
    files: dict[str, RawFile] = {**snapshot.files}
    try:
        files[manifest.PATH] = context.raw.put(manifest.PATH, manifest.reduced(file.read(), manifest.PATH))
    except ConfigError as error:
        del files[manifest.PATH]
        skipped = (*snapshot.skipped, Skipped(manifest.PATH, error.message))
        warning = ResultWarning("dbt_manifest", f"{error.message}; the YAML is read alone", hint=error.hint)
        return replace(snapshot, files=files, skipped=skipped, warnings=(*snapshot.warnings, warning))
    fetched = sum(context.previous.get(path) != each.sha256 for path, each in files.items())
    return replace(snapshot, files=files, fetched=fetched)


def _tables(project: dbt.Project, tables: Tables, report: Report) -> tuple[dict[Relation, LayerTable], list[_Missed]]:
    """Return the table of each relation that has exactly one; the others are reported, and returned."""
    found: dict[Relation, LayerTable] = {}
    missed: list[_Missed] = []
    for node in project.nodes:
        what = f"{node.kind} `{node.shown}`"
        if node.virtual is not None:
            report.dropped(what, node.virtual, node.item.place)
            continue
        several = tables.find(node.name)
        if len(several) == 1:
            found[node.relation] = several[0]
        else:
            report.dropped(what, SEVERAL_TABLES if list(several) else NO_TABLE, node.item.place)
            missed.append((node.item.place, f"{what} (`{node.name}`)", _detail(several)))
    for relation in _named_by_semantic_models(project) - {node.relation for node in project.nodes}:
        several = tables.find(Name(relation[-1], relation[1] if relation[0] == "source" else ""))
        if len(several) == 1:
            found[relation] = several[0]
    return found, missed


def _detail(several: list[LayerTable]) -> str:
    names = [f"{each.connection}: {each.text}" for each in several]
    return f"several tables could be its own: {listing(names)}" if names else NO_TABLE


def _warnings(missed: list[_Missed], semantics: Iterable[Fidelity]) -> tuple[ResultWarning, ...]:
    missed = missed + [(each.place, each.what, each.why) for each in semantics if each.why == NO_ONE_TABLE]
    hint = "build it with dbt and scan its database, or name its schema and alias in dbt's YAML"
    shown = [
        ResultWarning("no_table", f"{place}: {what}: {why}", hint=hint, path=place.path, line=place.line)
        for place, what, why in missed[:_MOST_WARNINGS]
    ]
    rest = len(missed) - _MOST_WARNINGS
    if rest > 0:
        shown.append(
            ResultWarning("no_table", f"and {plural(rest, 'more')} of dbt's models without a table", hint=hint)
        )
    return tuple(shown)


def _named_by_semantic_models(project: dbt.Project) -> set[Relation]:
    """Return what `model:` of semantic models refers to."""
    from ktx_cli.semantic import read_documents

    documents = read_documents(project.semantic_files, Report(), rest=False)
    named = (item.values.get("model") for item in documents.semantic_models)
    return {relation for text in named if isinstance(text, str) and (relation := relation_of(text)) is not None}


def _left(project: dbt.Project, snapshot: Snapshot, report: Iterable[Fidelity]) -> Iterable[str]:
    """Yield what a model would add."""
    for exposure in project.exposures:
        kind = exposure.text("type") or "exposure"
        label = exposure.text("label") or exposure.text("name") or "?"
        yield f"{exposure.place}: {kind} `{label}`, which models it reads and what for, as a page"
    open_files: Mapping[str, list[Fidelity]] = losses(each for each in report if each.why != dbt.EXPOSURE)
    for path, lost in sorted(open_files.items()):
        yield f"{path}: {plural(len(lost), 'statement')} no rule could place"
    for path in snapshot.files:
        if path.endswith(".md"):
            yield f"{path}: what it explains, as pages"


SMALL: Final = 25
"""Files to read of a project that one agent works through as a whole."""

MOST_PEERS: Final = 200
_MOST_NOTES: Final = 40
NO_TABLE: Final = "no scanned database has its table"
SEVERAL_TABLES: Final = "several scanned tables could be its own"
INERT: Final = frozenset({dbt.STEERS, KNOWN_TYPES, dbt.EPHEMERAL, dbt.DISABLED, NO_ONE_TABLE, NO_TABLE, SEVERAL_TABLES})
"""Reasons for leaving something out that no agent can do anything about."""


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return what the rules could not keep, by file, as far as an agent may do better."""
    found: defaultdict[str, list[Fidelity]] = defaultdict(list)
    for each in report:
        if each.kind is not Kind.KEPT and each.why not in INERT:
            found[each.place.path].append(each)
    return dict(found)


def handled(snapshot: Snapshot, report: Iterable[Fidelity]) -> frozenset[str]:
    """Return the files of which nothing is left: settings, and YAML that was wholly projected."""
    open_files = losses(report)
    return frozenset(path for path in snapshot.files if is_setting(path) or (_is_yaml(path) and path not in open_files))


def is_setting(path: str) -> bool:
    """Say whether a file says how dbt runs, or is the compiled manifest."""
    return path == dbt.PATH or (_is_yaml(path) and PurePosixPath(path).stem in dbt.CONFIGURATION)


def _is_yaml(path: str) -> bool:
    return path.endswith((".yml", ".yaml"))


def units(
    snapshot: Snapshot, changes: Changes, done: frozenset[str], report: Iterable[Fidelity]
) -> tuple[WorkUnit, ...]:
    """Return the units of what changed: one for a small project, else one a file; a peer that changed starts none."""
    readable = [path for path in snapshot.files if not is_setting(path)]
    touched = [path for path in readable if path in changes.touched and path not in done]
    if not touched:
        return ()
    notes = losses(report)
    settings = tuple(path for path in snapshot.files if is_setting(path) and path != dbt.PATH)
    if len(readable) <= SMALL:
        others = tuple(path for path in readable if path not in touched)
        notes_text = "\n".join(filter(None, (note(path, notes.get(path, ())) for path in touched)))
        label = f"dbt project, {plural(len(touched), 'file')}"
        return (WorkUnit("dbt-all", label, tuple(touched), (*settings, *others), notes=notes_text),)
    return tuple(
        WorkUnit(f"dbt-{path}", path, (path,), settings, _peers(path, readable), note(path, notes.get(path, ())))
        for path in touched
    )


def _peers(path: str, readable: Iterable[str]) -> tuple[str, ...]:
    """Return the files nearest to one: those that share most of its folders."""
    own = PurePosixPath(path).parts[:-1]

    def distance(other: str) -> tuple[int, str]:
        shared = 0
        for one, two in zip(own, PurePosixPath(other).parts[:-1], strict=False):
            if one != two:
                break
            shared += 1
        return -shared, other

    return tuple(sorted(sorted((each for each in readable if each != path), key=distance)[:MOST_PEERS]))


def note(path: str, lost: Iterable[Fidelity]) -> str:
    """Return what an agent should know of a file: what of it no rule could place."""
    several = list(lost)
    if not several:
        return ""
    lines = [f"- line {each.place.line}: {each.what}: {one_line(each.why, 160)}" for each in several[:_MOST_NOTES]]
    rest = [f"- and {len(several) - _MOST_NOTES} more"] if len(several) > _MOST_NOTES else []
    return "\n".join([f"Already written by rules: all of {path} but this:", *lines, *rest])


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the dbt projects among the folders."""
    projects = [folder.path for folder in folders if any(name in folder.files for name in dbt.PROJECT_FILES)]
    for path in topmost(projects):
        yield Detected(path, "", {"source_dir": str(path)})


_DEFINITIONS: Final = dbt.project_files(dbt.YAML)


class MetricFlowSource(DbtSource):
    """MetricFlow definitions; agents get what the importer dropped or approximated, and nothing else."""

    kind: ClassVar[str] = "metricflow"
    skills: ClassVar[tuple[str, ...]] = ("metricflow_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the YAML; raises as `fetch_files` does, and `ConfigError` where there is none."""
        origin = self._origin(entry, context)
        snapshot = fetch_files(origin, context, _DEFINITIONS)
        lack = self._lack(entry, origin, snapshot.origin, snapshot.files)
        if lack is not None:
            raise lack
        return snapshot

    def _lack(self, entry: Any, origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
        if any(path.endswith(dbt.YAML) and PurePosixPath(path).stem != dbt.CREDENTIALS for path in paths):
            return None
        hint = Hint("set {} to the folder of the definitions", SettingPath(f"{origin.where}.path"))
        return ConfigError(f"there are no MetricFlow definitions at {place}: no YAML file", hint=hint)

    def _origin(self, entry: Any, context: FetchContext) -> Origin:
        repository = entry.metricflow
        return Origin(
            f"connections.{context.connection}.metricflow", url=repository.repo_url, branch=repository.branch,
            path=repository.path, token=repository.auth_token_ref, url_key="repoUrl",
        )  # fmt: skip
