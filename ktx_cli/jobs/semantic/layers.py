"""List, search, describe, import and export a project's semantic layers, using only its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Command,
    Diagnostic,
    KtxError,
    Location,
    PartialError,
    ResultWarning,
    UsageError,
    choose_one,
    listing,
    picked,
    plural,
)
from ktx_cli.project import KtxConfig, Layout, WorkingTree, connection_of, write_atomic
from ktx_cli.semantic import (
    NOT_SHOWN,
    SemanticError,
    Visibility,
    VisibleModel,
    layer_ids,
    load_layer,
    masks_of,
    spelled,
    unknown,
)

if TYPE_CHECKING:
    from ktx_cli.project import Mount, Mounts
    from ktx_cli.search import SearchAnswer
    from ktx_cli.semantic import (
        Definition,
        DefinitionKind,
        DefinitionStatus,
        Fidelity,
        Join,
        LoadLayer,
        Measure,
        Model,
        Placed,
        Source,
        Status,
        Statuses,
    )

SEARCHED: Final = ("source", "measure", "segment", "column")
"""The kinds of search results that are semantic layer definitions."""


def choose_layer(layout: Layout, config: KtxConfig, connection: str | None) -> str:
    """Return the connection to query: the named one, or the only enabled one with a semantic layer.

    Raises `UsageError` if the connection is not in `ktx.yaml` or has no layer, or if none or several could be meant,
    and `ConfigError` if it is disabled.
    """
    if connection is not None:
        _require_layer(layout, config, connection)
        return connection
    known = [each for each in layer_ids(layout) if each in config.connections]
    found = [each for each in known if each not in config.disabled()]
    for disabled in () if found else known:
        connection_of(config, disabled)
    if len(found) == 1:
        return found[0]
    if not found:
        from ktx_cli.jobs.setup.request import how_to_connect

        hint = Command("ingest") if config.databases() else how_to_connect(layout.root)
        raise UsageError("there is no semantic layer yet", hint=hint)
    message = f"there are {len(found)} semantic layers: {listing(found)}"
    raise UsageError(message, hint=choose_one("connection", found), details={"candidates": found})


def choose_mounted(
    mounts: Mounts, reference: str | None, *, databases: bool = False
) -> tuple[Mount | None, str | None]:
    """Return the project and its connection to query: the named connection, or the only one.

    The project is None for the root itself. With `databases`, any database counts, not only those with a semantic
    layer. Raises `UsageError` if several could be meant, and the error of an unreadable mount.
    """
    mount, connection = (None, None) if reference is None else mounts.split(reference)
    if connection:
        return mount, connection
    found: list[tuple[Mount | None, str]] = []
    for each, layout, config in mounts.projects():
        if mount is None or each is mount:
            known = sorted(config.databases()) if databases else [i for i in layer_ids(layout) if i in config.usable()]
            found += [(each, one) for one in known]
    if len(found) < 2:
        return found[0] if found else (mount, None)
    from ktx_cli.project import qualified

    names = [qualified(each, one) for each, one in found]
    what = "databases" if databases else "semantic layers"
    message = f"there are {len(names)} {what}: {listing(names)}"
    raise UsageError(message, hint=choose_one("connection", names), details={"candidates": names})


def connection_of_source(
    mounts: Mounts, name: str, *, internal: bool = False, load: Callable[[Mount | None], LoadLayer] | None = None
) -> str:
    """Return the connection that has a source, with its name in the root. Raises the errors of `find_source`.

    A source that may not be shown counts only if no other source has the name. `load` returns the function that loads
    the layers of a project.
    """
    from ktx_cli.project import qualified

    shown = [
        (qualified(mount, each.model.connection), each)
        for mount, layout, config in mounts.projects()
        for each in read_layers(
            layout, config, None, internal=internal, load=load_layer if load is None else load(mount)
        ).shown
    ]
    having = {
        connection: layer.has(source)
        for connection, layer in shown
        if (source := spelled(layer.model.sources, name)) is not None
    }
    found = [connection for connection, is_shown in having.items() if is_shown] or list(having)
    if not found:
        raise unknown("source", name, (each.name for _, layer in shown for each in layer.sources()))
    if len(found) > 1:
        raise _in_several(name, found)
    return found[0]


def selected_layers(layout: Layout, config: KtxConfig, connection: str | None) -> list[str]:
    """Return the connections to read: the named one, or all. Raises `UsageError` for one without files."""
    known = layer_ids(layout)
    if connection is None:
        return known
    if connection not in known:
        _require_layer(layout, config, connection)
    return [connection]


def _require_layer(layout: Layout, config: KtxConfig, connection: str) -> None:
    connection_of(config, connection)
    known = layer_ids(layout)
    if connection not in known:
        is_source = bool(known) and connection not in config.databases()
        hint = (
            f"it is a context source; connections with a semantic layer: {listing(known)}"
            if is_source
            else Command("ingest", connection)
        )
        raise UsageError(f"connection `{connection}` has no semantic layer yet", hint=hint)


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """A listed source with its grain and the number of its visible columns, measures and joins."""

    connection: str
    source: Source
    grain: Sequence[str]
    columns: int
    measures: int
    joins: int

    def to_json(self) -> dict[str, Any]:
        """Return the row for the envelope."""
        source = self.source
        return {
            "connection": self.connection,
            "name": source.name,
            "kind": kind_of(source),
            "grain": list(self.grain),
            "columns": self.columns,
            "measures": self.measures,
            "joins": self.joins,
            "segments": len(source.segments),
            "visibility": source.visibility.value,
            "label": source.label,
            "description": source.description,
        }


@dataclass(frozen=True, slots=True)
class Layers:
    """The loaded semantic layers and their visible parts."""

    shown: tuple[VisibleModel, ...]

    @property
    def models(self) -> list[Model]:
        """The models."""
        return [each.model for each in self.shown]

    def sources(self) -> list[SourceSummary]:
        """Return all sources by connection and name."""
        return [_summary(each, source) for each in self.shown for source in each.sources()]

    def warnings(self, *, private: bool = False) -> list[ResultWarning]:
        """Return a warning for each model with errors in its files, because parts of it are missing.

        With `private`, the warnings name only what may be shown.
        """
        found = (broken_files(each.model, each if private else None) for each in self.shown)
        return [warning for warning in found if warning is not None]


def _summary(shown: VisibleModel, source: Source) -> SourceSummary:
    columns = {each.name for each in shown.columns(source)}
    grain = [each for each in source.grain if each in columns] if source.keyed else []
    counts = len(columns), len(shown.measures(source)), len(shown.joins(source))
    return SourceSummary(shown.model.connection, source, grain, *counts)


def read_layers(
    layout: Layout, config: KtxConfig, connection: str | None, *, internal: bool = False, load: LoadLayer = load_layer
) -> Layers:
    """Load the semantic layer of a connection, or of all. Raises `UsageError` if the named one has none."""
    models = [load(layout, config, each) for each in selected_layers(layout, config, connection)]
    return Layers(tuple(VisibleModel(model, internal) for model in models))


def search_layers(
    layout: Layout,
    config: KtxConfig,
    query: str,
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    internal: bool = False,
    limit: int = 20,
) -> SearchAnswer:
    """Search the semantic layer of a connection, or of all, with the project's search index."""
    from ktx_cli.agent_tools import search
    from ktx_cli.search import Scope

    scope = Scope(SEARCHED, connection, internal=internal)
    return search(layout, config, query, environ=environ, scope=scope, limit=limit)


def broken_files(model: Model, shown: VisibleModel | None = None) -> ResultWarning | None:
    """Return the warning that a model's files have errors, or None.

    `shown`: the part of the model that the warning may name. By default, that is all of it.
    """
    errors = [each for each in model.problems if each.severity == "error"]
    if not errors:
        return None
    first = errors[0] if shown is None else shown_problem(shown, errors[0])
    more = f", and {plural(len(errors) - 1, 'more problem')}" if len(errors) > 1 else ""
    message = "semantic_problems"
    hint = Command("sl", "validate", "-c", model.connection, "--no-data")
    where = f"{first.location}: " if first.location.path else ""
    return ResultWarning(message, f"{where}{first.message}{more}", hint=hint, connection=model.connection)


def kind_of(source: Source) -> str:
    """Return the origin of a source's rows: `table` or `sql`."""
    return "sql" if source.sql is not None else "table"


def find_source(layers: Layers, name: str) -> tuple[VisibleModel, Source]:
    """Return a source by name.

    Raises `SemanticError` for an unknown (`unknown_name`) or hidden (`hidden`) source, and `UsageError` if several
    connections have it.
    """
    found = [(shown, source) for shown in layers.shown if (source := spelled(shown.model.sources, name)) is not None]
    _require_one(layers, name, [shown.model.connection for shown, _ in found])
    shown, source = found[0]
    if not shown.has(source):
        is_internal = source.visibility is Visibility.INTERNAL
        message = f"the source `{source.name}` is {source.visibility.value}"
        hint = Command("sl", "read", source.name, "--internal" if is_internal else "--yaml")
        raise SemanticError(message, hint=hint, code="hidden", details={"source": source.name})
    return shown, source


def source_files(layout: Layout, layers: Layers, name: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the connection of a source, and the path and text of its files, even if they have errors."""
    found = [(model.connection, files) for model in layers.models if (files := _files(layout, model, name))]
    _require_one(layers, name, [connection for connection, _ in found], "--yaml")
    return found[0]


def _require_one(layers: Layers, name: str, connections: Sequence[str], *options: str) -> None:
    """Raise `SemanticError` for a source in no connection, and `UsageError` for one in several."""
    if not connections:
        raise unknown("source", name, (each.source.name for each in layers.sources()))
    if len(connections) > 1:
        raise _in_several(name, connections, *options)


def _in_several(name: str, connections: Sequence[str], *options: str) -> UsageError:
    message = f"`{name}` is a source of {len(connections)} connections: {listing(connections)}"
    hint = Command("sl", "read", name, *options, "-c", connections[0])
    return UsageError(message, hint=hint, details={"candidates": list(connections)})


def _files(layout: Layout, model: Model, name: str) -> list[tuple[str, str]]:
    from ktx_cli.semantic import read_source

    source = spelled(model.sources, name)
    return read_source(WorkingTree(layout.root), model.connection, name if source is None else source.name)


_COLUMN: Final = (
    *("name", "type", "expr", "visibility", "role", "natural_granularity", "timezone", "unit", "values", "nullable"),
    *("stored_as", "label", "description", "synonyms"),
)
_FOUND_BY: Final = ("label", "questions", "synonyms")
_MEASURE: Final = ("name", "expr", "filter", "segments", "visibility", "time", "unit", "format", "reason")
_SEGMENT: Final = ("name", "expr", "description", "reason", *_FOUND_BY)
_JOIN: Final = ("to", "alias", "on", "relationship", "source=provenance")


def describe_source(
    shown: VisibleModel, source: Source, statuses: Mapping[Definition, DefinitionStatus] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the data about a source. Hidden parts are omitted and counted, and missing values are None or empty.

    A text that refers to hidden definitions is `NOT_SHOWN`, and joins to hidden sources are omitted. `statuses` are the
    statuses of its definitions according to git; without them, the statuses in its files are used.
    """
    from ktx_cli.semantic import PROBLEM_KEYS, Definition, DefinitionKind, time_of

    def status(kind: DefinitionKind, name: str, claimed: Status | None = None) -> dict[str, Any]:
        found = statuses.get(Definition(kind, source.name, name))
        status = claimed if found is None else found.status
        return {"status": status and status.value, "status_why": found and found.why}

    def status_of_join(join: Join) -> dict[str, Any]:
        if not join.mirrored:
            return status(DefinitionKind.JOIN, join.alias or join.to)
        found = statuses.get(Definition(DefinitionKind.JOIN, join.to, source.name))
        return {"status": found and found.status.value, "status_why": found and found.why}

    def without_hidden(facts: dict[str, Any], keys: Iterable[str] = ("expr", "filter", "time")) -> dict[str, Any]:
        texts = {key: facts[key] for key in keys if facts.get(key)}
        hidden = (key for key, text in texts.items() if not shown.can_show(source, str(text)))
        return facts | dict.fromkeys(hidden, NOT_SHOWN)

    def joined(join: Join) -> dict[str, Any]:
        target = shown.model.sources.get(join.to)
        is_shown = shown.can_show(source, join.on) and (target is None or shown.can_show(target, join.on))
        return picked(join, _JOIN) | ({} if is_shown else {"on": NOT_SHOWN})

    masks = masks_of(shown.model, source)
    columns, measures, time = shown.columns(source), shown.measures(source), time_of(source, None)
    names = {each.name for each in columns}
    is_whole = len(columns) == len(source.columns)
    sql = source.sql if source.sql is None or (is_whole and shown.can_show(source, source.sql)) else NOT_SHOWN
    return {
        "connection": shown.model.connection,
        "name": source.name,
        "kind": kind_of(source),
        "table": None if source.table is None else ".".join(source.table),
        "sql": sql,
        "description": source.description,
        **picked(source, _FOUND_BY),
        "visibility": source.visibility.value,
        "grain": [each for each in source.grain if each in names] if source.keyed else [],
        "time": time.column if time is not None and time.column in names else None,
        "status": status(DefinitionKind.SOURCE, "")["status"],
        "columns": [
            without_hidden(picked(each, _COLUMN))
            | {"visibility": shown.visibility(source, each).value}
            | ({"masked": True} if each.name.casefold() in masks else {})
            | status(DefinitionKind.COLUMN, each.name)
            for each in columns
        ],
        "measures": [
            {
                **without_hidden(picked(each, _MEASURE)),
                "special": without_hidden(special := special_keys(each), special),
                **picked(each, ("description", *_FOUND_BY)),
            }
            | status(DefinitionKind.MEASURE, each.name, each.status)
            for each in measures
        ],
        "joins": [joined(each) | status_of_join(each) for each in shown.joins(source)],
        "segments": [
            without_hidden(picked(each, _SEGMENT)) | status(DefinitionKind.SEGMENT, each.name, each.status)
            for each in source.segments.values()
        ],
        "policies": [picked(each, ("name", "description")) for each in source.policies],
        "parameters": [picked(each, ("name", "type", "default", "values")) for each in source.parameters.values()],
        "lineage": shown.lineage(source),
        "tests": [each.name for each in source.tests if not shown.hides(each.name)],
        "not_shown": {"columns": len(source.columns) - len(columns), "measures": len(source.measures) - len(measures)},
        "problems": [
            shown_problem(shown, each).select(PROBLEM_KEYS)
            for each in shown.model.problems
            if each.location.object == source.name
        ],
    }


_NAMED: Final = re.compile(r"`([^`]*)`|: (\w+(?:, \w+)*)(?: and \d+ more)?$")
"""A name in a message, or a list of names at its end."""


def shown_problem(shown: VisibleModel, problem: Diagnostic) -> Diagnostic:
    """Return a layer diagnostic, with a generic message if the original refers to hidden definitions."""
    source = shown.model.sources.get(problem.location.object or "")
    names = " ".join(map("".join, _NAMED.findall(problem.message)))
    if problem.hint is not None and shown.hides(str(problem.hint)):
        problem = replace(problem, hint=None)
    if source is None or not shown.has(source):
        is_barred = problem.location.object in shown.model.barred  # its errors keep it out, and it may be hidden
        if source is None and not is_barred and not shown.hides(names):
            return problem
        location = Location(connection=problem.location.connection)
        return replace(problem, message="a hidden definition has a problem", location=location, hint=None)
    if shown.can_show(source, names):
        return problem
    return replace(problem, message=f"a hidden definition of `{source.name}` has a problem", hint=None)


def special_keys(measure: Measure) -> dict[str, Any]:
    """Return the special keys that make a measure more than a plain aggregate."""
    found: dict[str, Any] = {}
    if (semi := measure.semi_additive) is not None:
        found["semi_additive"] = {"over": semi.over, "take": semi.take, "per": list(semi.per)}
    if (total := measure.cumulative) is not None:
        window = None if total.window is None else str(total.window)
        found["cumulative"] = {"over": total.over, "window": window, "to_date": total.to_date}
    if measure.offset is not None:
        found["offset"] = str(measure.offset)
    if measure.percent_of is not None:
        found["percent_of"] = list(measure.percent_of) or "total"
    if measure.per:
        found["per"] = list(measure.per)
    return found


class DefinitionStatuses:
    """The statuses of definitions for lists, details and search hits. Each layer is read once.

    Definitions have no status until a run or `ktx index` has read the git history.
    """

    def __init__(self, layout: Layout, load: Callable[[str], Model]) -> None:
        self._layout, self._load = layout, load
        self._known: dict[str, tuple[Model, Statuses] | None] = {}

    def of(self, connection: str, source: str) -> dict[Definition, DefinitionStatus]:
        """Return the statuses of a source's definitions."""
        if connection not in self._known:
            self._known[connection] = self._read(connection)
        from ktx_cli.semantic import declared_definitions, mirrored_definitions

        known = self._known[connection]
        found = None if known is None else known[0].sources.get(source)
        if known is None or found is None:
            return {}
        declared = (*declared_definitions(found), *mirrored_definitions(found))
        return {used.definition: known[1].of(used) for used in declared}

    def counts(self, connection: str, source: str) -> dict[str, int] | None:
        """Return the number of a source's definitions by status, without joins, or None if unknown."""
        from ktx_cli.semantic import DefinitionKind, Status

        found = self.of(connection, source).items()
        if self._known[connection] is None:
            return None
        counted = Counter(each.status for definition, each in found if definition.kind is not DefinitionKind.JOIN)
        return {status.value: counted[status] for status in reversed(Status)}

    def of_hit(self, connection: str, kind: str, name: str) -> str | None:
        """Return the status of a search hit: a measure, segment or computed column."""
        from ktx_cli.semantic import Definition, DefinitionKind

        source, dot, member = name.rpartition(".")
        if not connection or not dot or kind not in ("measure", "segment", "column"):
            return None
        found = self.of(connection, source).get(Definition(DefinitionKind(kind), source, member))
        return None if found is None else found.status.value

    def _read(self, connection: str) -> tuple[Model, Statuses] | None:
        from ktx_cli.semantic import Statuses

        model = self._load(connection)
        statuses = Statuses(self._layout, connection, model.dialect)
        return (model, statuses) if statuses.is_recorded else None


@dataclass(frozen=True, slots=True)
class Exchange:
    """The result of an import or export, with a report on every part of the input or model.

    `placed` are the written files of an import; it is None for an export and for a dry run. `files` are their names.
    `text` is the text of an export.
    """

    connection: str
    report: Sequence[Fidelity]
    files: Sequence[str] = ()
    placed: Placed | None = None
    text: str | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The number of parts that were kept, approximated and dropped."""
        from ktx_cli.semantic import Kind

        found = Counter(item.kind for item in self.report)
        return {kind.value: found[kind] for kind in Kind}

    def to_json(self) -> dict[str, Any]:
        """Return the result as in the envelope."""
        placed = self.placed
        return {
            "connection": self.connection,
            "counts": self.counts,
            "report": [item.to_json() for item in self.report],
            "files": list(self.files),
            "written": [] if placed is None else list(placed.written),
            "unchanged": [] if placed is None else list(placed.same),
            "left_alone": [] if placed is None else sorted(placed.kept),
            "text": self.text,
        }

    def error(self) -> KtxError | None:
        """Return the error for files that were skipped because of the user's own changes."""
        if self.placed is None or not self.placed.kept:
            return None
        kept = sorted(self.placed.kept)
        message = f"{plural(len(kept), 'file')} with your own changes skipped: {listing(kept)}"
        hint = "copy the new content from error.details.left_alone of --json, or move the files away and import again"
        return PartialError(message, hint=hint, details={"left_alone": dict(self.placed.kept)})


def import_model(
    layout: Layout, config: KtxConfig, kind: str, path: Path, *, connection: str | None, dry_run: bool
) -> Exchange:
    """Import a semantic model from another tool into a connection's files. `dry_run` writes nothing.

    Raises `UsageError` for an ambiguous connection or missing files, `ConfigError` for invalid files, and
    `StorageError`.
    """
    from ktx_cli.jobs.semantic.sql import only_database
    from ktx_cli.semantic import import_path, place

    chosen = connection or only_database(layout, config)
    connection_of(config, chosen)
    imported = import_path(kind, path, load_layer(layout, config, chosen))
    placed = None if dry_run else place(imported, layout, chosen)
    folder = Layout.context_paths(chosen)[0]
    return Exchange(chosen, imported.report, [f"{folder}/{name}" for name in imported.files], placed)


def export_model(layout: Layout, config: KtxConfig, *, connection: str | None, output: Path | None) -> Exchange:
    """Export a connection's semantic layer as OSI, optionally to a file.

    Raises `UsageError` for an ambiguous connection, and `StorageError`.
    """
    from ktx_cli.semantic import export_osi

    chosen = choose_layer(layout, config, connection)
    text, report = export_osi(load_layer(layout, config, chosen))
    if output is not None:
        write_atomic(output, text.encode())
    return Exchange(chosen, report, [] if output is None else [str(output)], text=text)
