"""dbt as a context source: fetch, projection into the manifest and the semantic layer, units for the rest."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, ResultWarning, SettingPath, listing, one_line, plural
from ktx_cli.documents import Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.semantic import NO_ONE_TABLE, Fidelity, Kind, Place, Relation, Report, relation_of
from ktx_cli.sources.conventions import StatedConvention, convention_warnings, stated_variables
from ktx_cli.sources.dbt import project as dbt
from ktx_cli.sources.dbt import project as manifest
from ktx_cli.sources.dbt.facts import KNOWN_TYPES, TOOL, Facts, Reference, add_joins, want_semantics
from ktx_cli.sources.dbt.lineage import want_lineage
from ktx_cli.sources.dbt.models import SqlModel, read_models
from ktx_cli.sources.dbt.query_sources import is_candidate, want_sources
from ktx_cli.sources.dbt.sql import ModelFacts
from ktx_cli.sources.dbt.statements import statements_of_models
from ktx_cli.sources.git import Origin, check_files, fetch_files
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder, topmost
from ktx_cli.sources.statements import record_statements
from ktx_cli.sources.table_texts import LayerTable, Name, Tables, Wanted, manifest_models, write

_FILES: Final = dbt.project_files((*dbt.YAML, dbt.DOCS, dbt.SQL), {manifest.PATH: manifest.MOST_BYTES})
_MOST_WARNINGS: Final = 20
_Missed = tuple[Place, str, str]
"""Where something without a table stands, what it is, and why."""


class DbtSource(Source):
    """A dbt project: a folder, or a repository."""

    kind: ClassVar[str] = "dbt"
    skills: ClassVar[tuple[str, ...]] = ("dbt_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read YAML, Markdown and SQL in the folders that `dbt_project.yml` names; of the manifest, what holds still.

        Raises as `fetch_files` does, and `ConfigError` where there is no project, or where its settings cannot be read:
        they say which files belong to it.
        """
        origin = self._origin(entry, context)
        snapshot = fetch_files(origin, context, _FILES)
        for path, file in snapshot.files.items():
            if PurePosixPath(path).name in dbt.PROJECT_FILES:
                dbt.load_settings(path, file.read())
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
        facts = Facts(project, context, report, wanted, references)
        for node in project.nodes:
            if node.relation in found:
                facts.add(node, found[node.relation])
        add_joins(references, found, context.owned, wanted, report)
        broken: list[ResultWarning] = []
        semantics = want_semantics(project.semantic_files, found, context, wanted, broken)
        for exposure in project.exposures:
            report.dropped(f"exposure `{exposure.text('name') or '?'}`", dbt.EXPOSURE, exposure.place)
        models = read_models(project, found, context.models)
        record_statements(
            context.workspace, context.connection, context.models,
            lambda connection, _: statements_of_models(models, found, connection),
        )  # fmt: skip
        want_lineage(models, wanted, report, TOOL)
        unreadable = want_sources(project, models, found, context, wanted, report)
        written = write(wanted, context, TOOL)
        report.items += semantics
        items = report.sorted()
        notes = {model.path: sql_note(model.facts) for model in models.values() if model.facts.says_something}
        return Projection(
            written.artifacts, written.owned, items, handled(snapshot, items, notes),
            tuple(_left(project, snapshot, items, models.values())),
            (
                *_warnings(missed, semantics), *(broken or unreadable), *written.warnings,
                *convention_warnings(context.connection, _conventions(project, snapshot), context.models),
            ), notes,
        )  # fmt: skip

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit for a small project, else one for each YAML file that changed, or SQL of its models."""
        return units(snapshot, changes, projection)


def _conventions(project: dbt.Project, snapshot: Snapshot) -> Iterator[StatedConvention]:
    """Yield what the variables of a project state of its time zone and its fiscal year."""
    paths = [path for path in snapshot.files if PurePosixPath(path).name in dbt.PROJECT_FILES]
    if paths:
        path = min(paths, key=lambda each: (each.count("/"), each))
        yield from stated_variables(project.texts.variables, path)


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
            if not is_candidate(node):
                report.dropped(what, node.virtual, node.item.place)
            continue
        several = tables.find(node.name)
        if len(several) == 1:
            found[node.relation] = several[0]
        else:
            report.dropped(what, SEVERAL_TABLES if list(several) else NO_TABLE, node.item.place)
            if node.is_described:
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


def _left(
    project: dbt.Project, snapshot: Snapshot, report: Iterable[Fidelity], models: Iterable[SqlModel]
) -> Iterable[str]:
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
    for model in sorted(models, key=lambda each: each.path):
        if model.facts.says_something:
            count = plural(len(model.facts.lines), "rule or comment", "rules and comments")
            yield f"{model.path}: {count} in its SQL, as pages and measures"


SMALL: Final = 25
"""Files to read of a project that one agent works through as a whole."""

MOST_QUERIES: Final = 60
"""SQL files of a project that one agent works through as a whole."""

MOST_PEERS: Final = 200
_MOST_NOTES: Final = 40
_MOST_RULES: Final = 25
_MOST_CHARACTERS: Final = 40_000
"""Characters of the notes of a unit."""

NO_TABLE: Final = "no scanned database has its table"
SEVERAL_TABLES: Final = "several scanned tables could be its own"
INERT: Final = frozenset({dbt.STEERS, KNOWN_TYPES, dbt.EPHEMERAL, dbt.DISABLED, NO_ONE_TABLE, NO_TABLE, SEVERAL_TABLES})
"""Reasons for leaving something out that no agent can do anything about."""


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return what the rules could not keep, by file, as far as an agent may do better; of SQL the facts say it."""
    found: defaultdict[str, list[Fidelity]] = defaultdict(list)
    for each in report:
        if each.kind is not Kind.KEPT and each.why not in INERT and not each.place.path.endswith(dbt.SQL):
            found[each.place.path].append(each)
    return dict(found)


def handled(snapshot: Snapshot, report: Iterable[Fidelity], notes: Mapping[str, str]) -> frozenset[str]:
    """Return the files of which nothing is left: settings, YAML that was wholly projected, and SQL without a rule."""
    open_files = losses(report)
    return frozenset(
        path
        for path in snapshot.files
        if is_setting(path)
        or (_is_yaml(path) and path not in open_files)
        or (path.endswith(dbt.SQL) and path not in notes)
    )


def is_setting(path: str) -> bool:
    """Say whether a file says how dbt runs, or is the compiled manifest."""
    return path == dbt.PATH or (_is_yaml(path) and PurePosixPath(path).stem in dbt.CONFIGURATION)


def _is_yaml(path: str) -> bool:
    return path.endswith((".yml", ".yaml"))


def units(snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
    """Return the units of what changed; a peer that changed starts none.

    One for a small project. Else one for each YAML or Markdown file, with the SQL of the models that it describes;
    models that no YAML describes are those of their folder.
    """
    readable = [path for path in snapshot.files if not is_setting(path)]
    touched = [path for path in readable if path in changes.touched and path not in projection.handled]
    if not touched:
        return ()
    notes = _Notes(losses(projection.report), projection.notes)
    settings = tuple(path for path in snapshot.files if is_setting(path) and path != dbt.PATH)
    queries = [path for path in readable if path.endswith(dbt.SQL)]
    if len(readable) - len(queries) <= SMALL and len(queries) <= MOST_QUERIES:
        others = tuple(path for path in readable if path not in touched)
        label = f"dbt project, {plural(len(touched), 'file')}"
        return (WorkUnit("dbt-all", label, tuple(touched), (*settings, *others), notes=notes.of(touched)),)
    return tuple(_units_of_files(snapshot, touched, readable, settings, notes))


def _units_of_files(
    snapshot: Snapshot, touched: list[str], readable: list[str], settings: tuple[str, ...], notes: _Notes
) -> Iterator[WorkUnit]:
    """Yield the units of a large project, sorted by their keys."""
    described = _described_by(snapshot, readable)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for path in touched:
        groups[described.get(path, f"{PurePosixPath(path).parent}/") if path.endswith(dbt.SQL) else path].append(path)
    for owner, files in sorted(groups.items()):
        own = [owner] if owner in snapshot.files else []
        queries = [path for path in files if path != owner]
        for index in range(0, len(queries) or 1, SMALL):
            part = sorted({*(own if owner in files and not index else ()), *queries[index : index + SMALL]})
            rest = [path for path, each in described.items() if each == owner]
            near = [path for path in (*own, *rest) if path not in part][:MOST_QUERIES]
            key = f"dbt-{owner}" + (f"#{index // SMALL + 1}" if index else "")
            peers = tuple(path for path in _peers(owner, readable) if path not in (*part, *near))
            yield WorkUnit(key, owner, tuple(part), (*settings, *near), peers, notes.of(part))


_NAMED: Final = re.compile(r"""(?:^|[\s{,\[])["']?name["']?\s*:\s*["']?(\w+)""", re.MULTILINE)


def _described_by(snapshot: Snapshot, readable: Iterable[str]) -> dict[str, str]:
    """Return the YAML file that describes each SQL file: the nearest one that has the name of its model."""
    naming: defaultdict[str, list[str]] = defaultdict(list)
    queries: list[str] = []
    for path in readable:
        if path.endswith(dbt.SQL):
            queries.append(path)
        elif _is_yaml(path):
            for name in dict.fromkeys(_NAMED.findall(snapshot.files[path].text())):
                naming[name].append(path)
    found = {}
    for path in queries:
        files = naming.get(PurePosixPath(path).stem, ())
        if files:
            found[path] = min(files, key=lambda each: _distance(path, each))
    return found


def _peers(path: str, readable: Iterable[str]) -> tuple[str, ...]:
    """Return the files nearest to one: those that share most of its folders."""
    others = sorted((each for each in readable if each != path), key=lambda each: _distance(path, each))
    return tuple(sorted(others[:MOST_PEERS]))


def _distance(path: str, other: str) -> tuple[int, int, str]:
    """Return what sorts the files nearest to one first."""
    own, parts = PurePosixPath(path).parent.parts, PurePosixPath(other).parent.parts
    shared = 0
    for one, two in zip(own, parts, strict=False):
        if one != two:
            break
        shared += 1
    return -shared, len(parts), other


class _Notes:
    """What agents should know of files: what no rule could place, and what their SQL says."""

    def __init__(self, lost: Mapping[str, list[Fidelity]], queries: Mapping[str, str]) -> None:
        self._lost, self._queries = lost, queries

    def of(self, paths: Iterable[str]) -> str:
        """Return the notes of files, cut to what a request has room for."""
        texts = {path: note(path, self._lost.get(path, ())) or self._queries.get(path, "") for path in paths}
        kept, left, room = [], [], _MOST_CHARACTERS
        for path, text in texts.items():
            if text and len(text) <= room:
                kept.append(text)
                room -= len(text)
            elif text:
                left.append(path)
        if left:
            kept.append(f"Not summarized here, so read them whole: {listing(left, 40)}.")
        return "\n".join(kept)


def sql_note(facts: ModelFacts) -> str:
    """Return what the SQL of a model says, in the fewest lines."""
    lines = [f"- {one_line(each, 300)}" for each in facts.lines[:_MOST_RULES]]
    if len(facts.lines) > _MOST_RULES:
        lines.append(f"- and {len(facts.lines) - _MOST_RULES} more: read the file")
    reads = listing([".".join(each[1:]) for each in facts.references], 8)
    built = f", built from {reads}" if reads else ""
    return "\n".join([f"What the SQL of model `{facts.name}` says ({facts.path}{built}):", *lines])


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
