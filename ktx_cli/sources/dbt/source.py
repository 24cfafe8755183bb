"""dbt as a context source: fetch, projection into the manifest and the semantic layer, and units for the rest."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, ResultWarning, SettingPath, listing, one_line, plural
from ktx_cli.documents import Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.semantic import Fidelity
from ktx_cli.sources.dbt import project as dbt
from ktx_cli.sources.dbt import project as manifest
from ktx_cli.sources.git import Origin, check_files, fetch_files
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder, topmost

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

_FILES: Final = dbt.project_files((*dbt.YAML, dbt.DOCS, dbt.SQL), {manifest.PATH: manifest.MOST_BYTES})


class DbtSource(Source):
    """A dbt project in a folder or a git repository."""

    kind: ClassVar[str] = "dbt"
    declares_first: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("dbt_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read YAML, Markdown and SQL in the folders named in `dbt_project.yml`, and the stable part of the manifest.

        Raises the errors of `fetch_files`, and `ConfigError` if there is no project or its settings cannot be read,
        because they determine its files.
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
        """Implements `Source`."""
        origin = self._origin(entry, context)
        return check_files(origin, context, functools.partial(self._lack, entry, origin))

    def _lack(self, entry: Any, origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
        """Return the problem if there is no YAML among the files."""
        if any(path.endswith(dbt.YAML) and PurePosixPath(path).stem != dbt.CREDENTIALS for path in paths):
            return None
        key = "path" if entry.path else "source_dir" if entry.source_dir else "repo_url"
        hint = Hint("set {} to the folder of dbt_project.yml", SettingPath(f"{origin.where}.{key}"))
        return ConfigError(f"no dbt project at {place}: it contains no YAML file", hint=hint)

    def _origin(self, entry: Any, context: FetchContext) -> Origin:
        return Origin(
            f"connections.{context.connection}", folder=entry.source_dir, url=entry.repo_url, branch=entry.branch,
            path=entry.path, token=entry.auth_token_ref,
        )  # fmt: skip

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the keys and joins that tests and constraints declare, and the lineage of the models."""
        from ktx_cli.sources.dbt.declarations import declarations_of

        return declarations_of(entry, snapshot)

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write descriptions, tests, tags and freshness to the manifest, and semantic models to their own files."""
        from ktx_cli.sources.dbt.projection import projected

        return projected(entry, snapshot, context)

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit for a small project, else one per YAML file that changed or has models with changed SQL."""
        return units(snapshot, changes, projection)


def _with_reduced(snapshot: Snapshot, context: FetchContext) -> Snapshot:
    """Return the snapshot with the kept part of the compiled manifest, or without it if it cannot be read."""
    file = snapshot.files.get(manifest.PATH)
    if file is None:
        return snapshot
    files: dict[str, RawFile] = {**snapshot.files}
    try:
        files[manifest.PATH] = context.raw.put(manifest.PATH, manifest.reduced(file.read(), manifest.PATH))
    except ConfigError as error:
        del files[manifest.PATH]
        skipped = (*snapshot.skipped, Skipped(manifest.PATH, error.message))
        warning = ResultWarning("dbt_manifest", f"{error.message}; ktx reads only the YAML files", hint=error.hint)
        return replace(snapshot, files=files, skipped=skipped, warnings=(*snapshot.warnings, warning))
    fetched = sum(context.previous.get(path) != each.sha256 for path, each in files.items())
    return replace(snapshot, files=files, fetched=fetched)


SMALL: Final = 25
"""The maximum number of files in a project that one agent processes as a whole."""

MOST_QUERIES: Final = 60
"""The maximum number of SQL files in a project that one agent processes as a whole."""

MOST_PEERS: Final = 200
_MOST_NOTES: Final = 40
_MOST_CHARACTERS: Final = 40_000
"""The maximum length of a unit's notes."""


def units(snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
    """Return the units for the changes. A changed peer file does not start a unit.

    A small project is one unit. Otherwise each YAML or Markdown file is a unit, with the SQL of the models that it
    describes; models that no YAML describes form a unit per folder.
    """
    readable = [path for path in snapshot.files if not dbt.is_setting(path)]
    touched = [path for path in readable if path in changes.touched and path not in projection.handled]
    if not touched:
        return ()
    from ktx_cli.sources.dbt.projection import losses

    notes = _Notes(losses(projection.report), projection.notes)
    settings = tuple(path for path in snapshot.files if dbt.is_setting(path) and path != dbt.PATH)
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
    """Return the YAML file that describes each SQL file: the nearest one that names its model."""
    naming: defaultdict[str, list[str]] = defaultdict(list)
    queries: list[str] = []
    for path in readable:
        if path.endswith(dbt.SQL):
            queries.append(path)
        elif dbt.is_yaml(path):
            for name in dict.fromkeys(_NAMED.findall(snapshot.files[path].text())):
                naming[name].append(path)
    found = {}
    for path in queries:
        files = naming.get(PurePosixPath(path).stem, ())
        if files:
            found[path] = min(files, key=lambda each: _distance(path, each))
    return found


def _peers(path: str, readable: Iterable[str]) -> tuple[str, ...]:
    """Return the files nearest to a file: those that share the most folders with it."""
    others = sorted((each for each in readable if each != path), key=lambda each: _distance(path, each))
    return tuple(sorted(others[:MOST_PEERS]))


def _distance(path: str, other: str) -> tuple[int, int, str]:
    """Return the sort key by distance to a file."""
    own, parts = PurePosixPath(path).parent.parts, PurePosixPath(other).parent.parts
    shared = 0
    for one, two in zip(own, parts, strict=False):
        if one != two:
            break
        shared += 1
    return -shared, len(parts), other


class _Notes:
    """Notes for agents about files: content that no rule could place, and the facts in their SQL."""

    def __init__(self, lost: Mapping[str, list[Fidelity]], queries: Mapping[str, str]) -> None:
        self._lost, self._queries = lost, queries

    def of(self, paths: Iterable[str]) -> str:
        """Return the notes on files, truncated to fit into a request."""
        texts = {path: note(path, self._lost.get(path, ())) or self._queries.get(path, "") for path in paths}
        kept, left, room = [], [], _MOST_CHARACTERS
        for path, text in texts.items():
            if text and len(text) <= room:
                kept.append(text)
                room -= len(text)
            elif text:
                left.append(path)
        if left:
            kept.append(f"Not summarized here, so read them in full: {listing(left, 40)}.")
        return "\n".join(kept)


def note(path: str, lost: Iterable[Fidelity]) -> str:
    """Return the notes on a file: content that no rule could place."""
    several = list(lost)
    if not several:
        return ""
    lines = [f"- line {each.place.line}: {each.what}: {one_line(each.why, 160)}" for each in several[:_MOST_NOTES]]
    rest = [f"- and {len(several) - _MOST_NOTES} more"] if len(several) > _MOST_NOTES else []
    return "\n".join([f"Rules have already written all of {path} except:", *lines, *rest])


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the dbt projects among the folders."""
    projects = [folder.path for folder in folders if any(name in folder.files for name in dbt.PROJECT_FILES)]
    for path in topmost(projects):
        yield Detected(path, "", {"source_dir": str(path)})


_DEFINITIONS: Final = dbt.project_files(dbt.YAML)


class MetricFlowSource(DbtSource):
    """MetricFlow definitions. Agents only get what the importer dropped or approximated."""

    kind: ClassVar[str] = "metricflow"
    skills: ClassVar[tuple[str, ...]] = ("metricflow_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the YAML. Raises the errors of `fetch_files`, and `ConfigError` if there is none."""
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
        return ConfigError(f"no MetricFlow definitions at {place}: it contains no YAML file", hint=hint)

    def _origin(self, entry: Any, context: FetchContext) -> Origin:
        repository = entry.metricflow
        return Origin(
            f"connections.{context.connection}.metricflow", url=repository.repo_url, branch=repository.branch,
            path=repository.path, token=repository.auth_token_ref, url_key="repoUrl",
        )  # fmt: skip
