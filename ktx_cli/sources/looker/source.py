"""The Looker source: read the API, divide changes into units, and propose measures or sources for its queries."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, Record, SettingPath, one_line, plural
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.project import is_reference
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.semantic import UnresolvedError, condition
from ktx_cli.sources.http import HttpClient, Site
from ktx_cli.sources.looker import LookerConnection
from ktx_cli.sources.looker import fetch as fetching
from ktx_cli.sources.looker.fetch import (
    FOLDERS_PATH,
    USAGE_PATH,
    Lane,
    Looker,
    Target,
    Usage,
    Why,
    column_of,
    explore_path,
    kind_of,
    queries_of,
    source_name,
)
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.table_texts import TableText, write_texts

_MEASURE: Final = re.compile(
    r"(?:^|_)(?:count|counts|sum|total|avg|average|mean|min|max|median|percentile|rate|ratio|share|pct|percent)(?:_|$)"
)
_AGGREGATES: Final[Mapping[str, str]] = {
    "sum": "sum({})",
    "average": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "median": "median({})",
    "count_distinct": "count(distinct {})",
}


class TargetStatus(StrEnum):
    """Whether a query's table is known."""

    MAPPED = "mapped"
    UNMAPPED = "unmapped"
    UNPARSEABLE = "unparseable"
    MISSING = "missing_target_table"


class Decision(StrEnum):
    """The use of a query for the semantic layer."""

    WIKI_ONLY = "wiki_only"
    MEASURE_ADDED = "measure_added"
    SOURCE_CREATED = "source_created"


@dataclass(frozen=True, slots=True)
class ProposedMeasure(Record):
    """A measure. `expr` is None if Looker does not define it unambiguously."""

    name: str
    field: str
    expr: str | None = None


@dataclass(frozen=True, slots=True)
class ProposedSegment(Record):
    """A filter in the query. `expr` is None if it has no unambiguous SQL, such as a relative date."""

    name: str
    field: str
    filter: str
    expr: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal(Record):
    """The proposal for a query. `table`: the parts of the table's name, if known. `dimensions` are fields in Looker."""

    source: str
    connection: str | None
    table: tuple[str, ...] | None
    status: TargetStatus
    lane: Lane
    decision: Decision
    dimensions: tuple[str, ...]
    measures: tuple[ProposedMeasure, ...]
    segments: tuple[ProposedSegment, ...]
    notes: tuple[str, ...]

    json_keys = (
        "source_name=source", "connection", "table", "target_status=status",
        "can_write_standalone_source=can_write_source", "lane", "decision", "dimensions", "measures", "segments",
        "notes",
    )  # fmt: skip

    @property
    def can_write_source(self) -> bool:
        """Whether a separate source may be written for the query."""
        return self.status is TargetStatus.MAPPED


def propose(
    query: Mapping[str, Any],
    *,
    title: str = "",
    usage: Usage | None = None,
    explore: Mapping[str, Any] | None = None,
    sources: Collection[str] = (),
) -> Proposal:
    """Return the proposal for a query.

    `query`: from the raw file of a dashboard or look. `explore`: the raw file of its explore; without it, field names
    decide what is a measure. `usage` is None if unknown, which counts as little usage. `sources`: names of existing
    sources.
    """
    target = Target.stored(query.get("target"))
    status = _status(target)
    lane = Lane.LIGHT if usage is None else usage.lane
    known = _Fields(explore)
    listed = query.get("fields")
    fields = [each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str)]
    measures = tuple(known.measure(each) for each in fields if known.is_measure(each))
    segments = _segments(query, known)
    source = source_name(str(query.get("model")), str(query.get("view")))
    return Proposal(
        source=source,
        connection=target.connection,
        table=target.parts or None if status is TargetStatus.MAPPED else None,
        status=status,
        lane=lane,
        decision=_decision(status, lane, bool(measures or segments), source in sources),
        dimensions=tuple(each for each in fields if not known.is_measure(each)),
        measures=measures,
        segments=segments,
        notes=tuple(_notes(query, title, target, measures, segments)),
    )


def _status(target: Target) -> TargetStatus:
    if target.why is None:
        return TargetStatus.MAPPED
    named = {Why.NO_CONNECTION: TargetStatus.UNMAPPED, Why.NO_TABLE: TargetStatus.MISSING}
    return named.get(target.why, TargetStatus.UNPARSEABLE)


def _decision(status: TargetStatus, lane: Lane, has_more: bool, is_there: bool) -> Decision:
    if status is not TargetStatus.MAPPED or lane is Lane.SKIP or not has_more:
        return Decision.WIKI_ONLY
    return Decision.MEASURE_ADDED if is_there else Decision.SOURCE_CREATED


class _Fields:
    """An explore's fields by name, as far as known."""

    def __init__(self, explore: Mapping[str, Any] | None) -> None:
        explore = explore or {}
        self._base = str(explore.get("view_name") or explore.get("name") or "")
        self._measures = {str(each.get("name")): each for each in explore.get("measures") or []}
        self._dimensions = {str(each.get("name")): each for each in explore.get("dimensions") or []}

    def is_measure(self, name: str) -> bool:
        """Return whether a field is a measure, according to its explore or else its name."""
        if name in self._measures or name in self._dimensions:
            return name in self._measures
        return _MEASURE.search(name.rpartition(".")[2].lower()) is not None

    def measure(self, name: str) -> ProposedMeasure:
        """Return a measure, with its formula if it aggregates one column or counts rows."""
        field = self._measures.get(name, {})
        kind, sql = str(field.get("type") or ""), field.get("sql")
        expr = None
        if name.partition(".")[0] == self._base and not field.get("filters"):
            column = column_of(sql)
            if kind == "count" and not sql:
                expr = "count(*)"
            elif column is not None and kind in _AGGREGATES:
                expr = _AGGREGATES[kind].format(column)
        return ProposedMeasure(_plain(name), name, expr)

    def condition(self, name: str, text: str) -> str | None:
        """Return the condition for a filter on a column of the explore's own view."""
        field = self._dimensions.get(name)
        column = column_of(field.get("sql")) if field and name.partition(".")[0] == self._base else None
        if field is None or column is None:
            return None
        try:
            return condition(column, kind_of(field), text)
        except UnresolvedError:
            return None


def _segments(query: Mapping[str, Any], known: _Fields) -> tuple[ProposedSegment, ...]:
    filters = query.get("filters")
    texts = sorted((filters if isinstance(filters, Mapping) else {}).items())
    return tuple(
        ProposedSegment(_plain(name), name, str(text), known.condition(name, str(text)))
        for name, text in texts
        if text not in (None, "") and not known.is_measure(name)
    )


def _notes(
    query: Mapping[str, Any],
    title: str,
    target: Target,
    measures: Sequence[ProposedMeasure],
    segments: Sequence[ProposedSegment],
) -> list[str]:
    notes = [f"from `{one_line(title, 120)}`"] if title else []
    if target.why is not None:
        notes.append(f"its table is unknown: {target.why.value}")
    open_ones = [each.field for each in measures if each.expr is None]
    open_ones += [each.field for each in segments if each.expr is None]
    if open_ones:
        notes.append(f"read the explore for: {', '.join(one_line(each, 80) for each in open_ones)}")
    if query.get("dynamic_fields"):
        notes.append("it has fields of its own (table calculations or custom measures): see `dynamic_fields`")
    if query.get("filter_expression"):
        notes.append("it has a Looker filter expression, which is not part of the segments")
    return notes


def _plain(field: str) -> str:
    """Return a name for a field, without its view and with plain letters only."""
    return re.sub(r"\W+", "_", field.rpartition(".")[2]).strip("_") or "unnamed"


def project(snapshot: Snapshot, context: ProjectContext) -> Projection:
    """Write the texts. A model handles the meaning of measures, dashboards and looks."""
    texts: dict[str, list[TableText]] = {}
    for path in [path for path in snapshot.files if path.startswith("explores/")]:
        for connection, text in _texts(json.loads(snapshot.files[path].read()), path):
            texts.setdefault(connection, []).append(text)
    described = write_texts(context, "looker", texts)
    return Projection(
        artifacts=described.artifacts,
        owned=described.owned,
        report=described.report,
        handled=frozenset((FOLDERS_PATH, USAGE_PATH)) & frozenset(snapshot.files),
        left=tuple(_left(snapshot)),
    )


def _texts(explore: Mapping[str, Any], raw: str) -> Iterator[tuple[str, TableText]]:
    """Yield the connection and texts for the tables of an explore: its own table first, then joined tables."""
    own = str(explore.get("view_name") or explore["name"])
    targets = {own: Target.stored(explore.get("target"))}
    for join in explore["joins"]:
        targets.setdefault(str(join.get("name")), Target.stored(join.get("target")))
    for view, target in targets.items():
        if target.why is not None or target.connection is None:
            continue
        description = explore.get("description") if view == own and not explore["joins"] else None
        columns = _columns(explore, view)
        if description or columns:
            yield target.connection, TableText(target.parts, raw, description, columns)


def _columns(explore: Mapping[str, Any], view: str) -> dict[str, str]:
    """Return column -> description; if several fields refer to one column, the first counts."""
    found: dict[str, str] = {}
    for field in explore["dimensions"]:
        text, column = field.get("description"), column_of(field.get("sql"))
        if column and isinstance(text, str) and text.strip() and str(field.get("name")).partition(".")[0] == view:
            found.setdefault(column, text.strip())
    return found


def _left(snapshot: Snapshot) -> Iterator[str]:
    for folder, what in (
        ("explores", "measures and joins"),
        ("dashboards", "measures and pages"),
        ("looks", "measures and pages"),
    ):
        count = sum(path.startswith(f"{folder}/") for path in snapshot.files)
        if count:
            yield f"Looker: {plural(count, folder.removesuffix('s'))} as {what}"


Open = Callable[[Site, FetchContext], HttpClient]


def open_http(site: Site, context: FetchContext) -> HttpClient:
    """Return the client for a fetch."""
    return HttpClient(site, stopped=context.stopped, emit=context.emit)


class LookerSource(Source):
    """A Looker instance. `open_client` can be replaced in tests."""

    kind: ClassVar[str] = "looker"
    skills: ClassVar[tuple[str, ...]] = ("looker_ingest",)

    def __init__(self, open_client: Open = open_http) -> None:
        self._open = open_client

    def fetch(self, entry: LookerConnection, context: FetchContext) -> Snapshot:
        """Read Looker. Unchanged dashboards and looks come from the raw store."""
        with self._api(entry, context) as api:
            return fetching.fetch(entry, context, api, api.site.base_url)

    def check(self, entry: LookerConnection, context: FetchContext) -> str:
        """Implements `Source`."""
        with self._api(entry, context) as api:
            api.login()
            return f"Looker at {api.site.base_url}"

    @contextlib.contextmanager
    def _api(self, entry: LookerConnection, context: FetchContext) -> Iterator[Looker]:
        where = f"connections.{entry.id}"
        key = "client_secret" if entry.client_secret or not entry.client_secret_ref else "client_secret_ref"
        given = entry.client_secret or entry.client_secret_ref
        if not given:
            hint = Hint("set `{}` to env:LOOKER_CLIENT_SECRET", SettingPath(f"{where}.client_secret"))
            raise ConfigError(f"`{where}` has no client secret", hint=hint)

        def resolved(value: str, name: str) -> str:
            root, environ = context.layout.root, context.environ
            return resolve_secret(value, project_dir=root, environ=environ, where=f"{where}.{name}").strip()

        is_hidden = is_reference(entry.base_url)
        address = resolved(entry.base_url, "base_url") if is_hidden else entry.base_url.strip()
        site = Site("Looker", where, _without_path(address), credential=key)
        with self._open(site, context) as client:
            yield Looker(client, resolved(entry.client_id, "client_id"), resolved(given, key))

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write Looker's texts about tables and columns."""
        return project(snapshot, context)

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each explore, dashboard and look that changed."""
        return units(snapshot, changes)


def _without_path(address: str) -> str:
    """Return the address without the API path, which is often copied with it."""
    return address.rstrip("/").removesuffix("/api/4.0").removesuffix("/api").rstrip("/")


_KINDS: Final[Mapping[str, str]] = {"explores": "explore", "dashboards": "dashboard", "looks": "look"}
PREFER: Final = (
    "If a source without the prefix `looker__`, from a repository or a person, already defines the same "
    "thing, it takes precedence: extend it or link to it, and do not create a second one."
)


def units(snapshot: Snapshot, changes: Changes) -> tuple[WorkUnit, ...]:
    """Return the units: explores first, then dashboards and looks, sorted by path."""
    touched = sorted(changes.touched, key=lambda path: (*_KINDS, "").index(_folder(path)))
    wanted = [path for path in touched if _folder(path)]
    if not wanted:
        return ()
    usage = json.loads(snapshot.files[USAGE_PATH].read()) if USAGE_PATH in snapshot.files else None
    return tuple(_unit(path, json.loads(snapshot.files[path].read()), usage, snapshot) for path in wanted)


def _folder(path: str) -> str:
    folder = path.partition("/")[0]
    return folder if folder in _KINDS else ""


def _unit(path: str, document: Mapping[str, Any], usage: Mapping[str, Any] | None, snapshot: Snapshot) -> WorkUnit:
    folder = _folder(path)
    name = str(document.get("title") or document.get("label") or document.get("name") or path)
    is_explore = folder == "explores"
    targets = [document] if is_explore else queries_of(document)
    why_not = _why_not([Target.stored(each.get("target")) for each in targets])
    return WorkUnit(
        key=path.removesuffix(".json").replace("/", "."),
        label=f"{_KINDS[folder]} {one_line(name, 80)}",
        files=(path,),
        dependencies=_dependencies([] if is_explore else targets, snapshot),
        notes="\n".join(filter(None, (_used(folder, document, usage), PREFER))),
        semantic=not why_not,
        why_not=why_not,
    )


def _dependencies(queries: Iterable[Mapping[str, Any]], snapshot: Snapshot) -> tuple[str, ...]:
    explores = {explore_path(str(query.get("model")), str(query.get("view"))) for query in queries}
    wanted = [*sorted(explores), FOLDERS_PATH, USAGE_PATH]
    return tuple(path for path in wanted if path in snapshot.files)


def _why_not(targets: Iterable[Target]) -> str:
    """Return why nothing may be written to the semantic layer, if the tables of all queries are unknown."""
    reasons: list[str] = []
    for target in targets:
        if target.why is None:
            return ""
        reasons.append(target.why.value)
    return f"its tables are unknown: {', '.join(sorted(set(reasons)))}" if reasons else "it has no query"


def _used(folder: str, document: Mapping[str, Any], usage: Mapping[str, Any] | None) -> str:
    """Return an item's known usage and its consequences for the work."""
    if usage is None:
        return ""
    key = f"{document['model']}::{document['name']}" if folder == "explores" else str(document["id"])
    found = Usage.stored(usage.get(folder, {}).get(key)) or Usage()
    if found.lane is Lane.SKIP and folder != "explores":
        return "Not used in the last 30 days: only write what is not documented elsewhere."
    return f"Used in the last 30 days: at least {found.queries} queries by {found.users} people ({found.lane.value})."
