"""Items that context sources write into a semantic layer's files; items that people added to the same files are kept.

A `Source` in this module is a source of the semantic layer; the other kind is called a context source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ConfigError, KtxError, ResultWarning, file_stem, listing, yaml
from ktx_cli.project import SCHEMA_NAME, Layout, Tree, Workspace
from ktx_cli.semantic import (
    IMPORT_HEADER,
    PROPOSED_MEASURES,
    SUFFIXES,
    Fidelity,
    Kind,
    Model,
    Place,
    Report,
    Source,
    load_tree,
    own_files,
    parse_shard,
    physical_name,
    read_files,
    table_parts,
    text_of,
)
from ktx_cli.sources import ownership as owned
from ktx_cli.sources.deliveries import Steps, join_step
from ktx_cli.sources.deliveries import text_of as pointer_text
from ktx_cli.sources.ownership import Pointer
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.sources.port import ProjectContext

_NAMED: Final = ("columns", "measures", "segments", "policies", "parameters", "joins")
"""Lists whose items are owned as a whole."""

_BY_TOOL: Final = ("descriptions", "default_time_dimension", "tags", "freshness", "enum_values", "constraints", "tests")
"""Mappings by author, whose entries are owned individually."""


@dataclass(slots=True)
class Wanted:
    """The items that a context source writes: path -> item -> value, and path -> the raw files that the items come
    from.

    `soft`: items that may already exist, which is not reported. `left`: folders whose files are not changed, except
    files in the manifest. `declared`: the joins that the source declares but does not write; see `Delivery`.
    """

    items: dict[str, dict[Steps, Any]] = field(default_factory=dict)
    origins: dict[str, set[str]] = field(default_factory=dict)
    soft: set[tuple[str, str]] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    declared: dict[str, set[str]] = field(default_factory=dict)

    def add(self, path: str, steps: Steps, value: Any, raw: str, *, soft: bool = False) -> None:
        """Add an item; the first value for it counts."""
        if soft:
            self.soft.add((path, pointer_text(steps)))
        self.items.setdefault(path, {}).setdefault(steps, value)
        self.origins.setdefault(path, set()).add(raw)


@dataclass(frozen=True, slots=True)
class Written:
    """The items that were written, as in `Projection`."""

    artifacts: Mapping[str, tuple[str, ...]]
    owned: Mapping[str, Mapping[str, str]]
    warnings: tuple[ResultWarning, ...]


def leave_broken(context: ProjectContext, connection: str, wanted: Wanted) -> ResultWarning | None:
    """Do not change a connection's files if one of them cannot be read, because it may contain any of the items.

    Returns a warning about it, or None if all files can be read.
    """
    broken = next((each for each in context.models[connection].problems if each.code == "broken_source"), None)
    if broken is None:
        return None
    wanted.left.add(f"{Layout.context_paths(connection)[0]}/")
    what = f"nothing was written to the files of `{connection}`: {broken.message}"
    return ResultWarning("not_written", what, hint=broken.hint, path=broken.path)


def model_without_ours(context: ProjectContext, connection: str) -> Model:
    """Return a connection's semantic layer without the context source's items outside the manifest.

    An import into this layer does not depend on the last import.
    """
    before, folder = context.models[connection], f"{Layout.context_paths(connection)[0]}/"
    ours = [path for path in context.owned if path.startswith(folder) and f"/{SCHEMA_NAME}/" not in path]
    if not ours:
        return before
    bare = Workspace(context.workspace)
    for path in ours:
        with contextlib.suppress(KtxError):  # A broken file is reported when it has to be written.
            owned.write(bare, path, {}, context.owned[path])
    return load_tree(bare, connection, before.dialect, before.calendar)


_ORDER: Final = {Kind.KEPT: 0, Kind.APPROXIMATED: 1, Kind.DROPPED: 2}


def best_of(reports: Iterable[Iterable[Fidelity]]) -> list[Fidelity]:
    """Combine the reports on one input for several connections: an item placed in any of them counts as placed."""
    found: dict[tuple[str, str, int], list[Fidelity]] = {}
    for report in reports:
        for each in report:
            several = found.setdefault((each.what, each.place.path, each.place.line), [])
            if several and _ORDER[each.kind] < _ORDER[several[0].kind]:
                several.clear()
            if not several or each.kind is several[0].kind:
                several.append(each)
    return list(dict.fromkeys(each for several in found.values() for each in several))


def proposed_measures(context: ProjectContext, path: str, source: str) -> dict[str, str]:
    """Return the names and expressions of the proposed measures in a manifest entry."""
    entry: Mapping[str, Any] = parse_shard(context.workspace.read(path) or b"", path).tables.get(source, {})
    found = entry.get(PROPOSED_MEASURES) or ()
    return {str(each.get("name")): str(each.get("expr")) for each in found if isinstance(each, Mapping)}


def want_files(
    files: Mapping[str, str], report: Iterable[Fidelity], connection: str, tree: Tree, tool: str, wanted: Wanted
) -> None:
    """Add the items of imported files to the file of each source name, or else to the import's file."""
    folder = Layout.context_paths(connection)[0]
    there = {file.document["name"]: file.path for file in read_files(tree, connection).own}
    raws: dict[str, set[str]] = {}
    for each in report:
        if each.target is not None:
            raws.setdefault(each.target.split(".")[0].split(" -> ")[0], set()).add(each.place.path)
    for below, text in files.items():
        document = yaml.load(text, where=below)
        name = str(document["name"])
        path = there.get(name) or _free_path(f"{folder}/{below}", tree, tool)
        for steps, value in items_of(document).items():
            for raw in sorted(raws.get(name, ())) or [""]:
                wanted.add(path, steps, value, raw)
        wanted.origins[path].discard("")


def _free_path(path: str, tree: Tree, tool: str) -> str:
    """Return the path, or another one if the path belongs to a file about another source."""
    content = tree.read(path)
    if content is None or text_of(content).startswith(IMPORT_HEADER.format(tool=tool)):
        return path
    try:
        document = yaml.load(content, where=path)
    except KtxError:
        return path  # Its subject is unknown; writing it reports the error.
    named = document.get("name") if isinstance(document, dict) else None
    return path if named is None else f"{path.removesuffix('.yaml')}_{tool}.yaml"


def items_of(document: Mapping[str, Any]) -> dict[Steps, Any]:
    """Return the items in a source's file by pointer."""
    found: dict[Steps, Any] = {}
    for key, value in document.items():
        if key in _NAMED:
            for item in value:
                found[key, join_step(item) if key == "joins" else str(item["name"])] = item
        elif key == "column_overrides":
            for item in value:
                for steps, below in _parts({k: v for k, v in item.items() if k != "name"}).items():
                    found[(key, str(item["name"]), *steps)] = below
        else:
            found |= _parts({key: value})
    return found


def _parts(entry: Mapping[str, Any]) -> dict[Steps, Any]:
    found: dict[Steps, Any] = {}
    for key, value in entry.items():
        if key in _BY_TOOL and isinstance(value, dict):
            found |= {(key, str(tool)): below for tool, below in value.items()}
        else:
            found[(key,)] = value
    return found


def write(wanted: Wanted, context: ProjectContext, tool: str) -> Written:
    """Write the items into the overlay, and remove those that the context source no longer writes.

    A file that cannot be changed in place is kept unchanged and reported.
    """
    artifacts: dict[str, tuple[str, ...]] = {}
    now: dict[str, Mapping[str, str]] = {}
    warnings: list[ResultWarning] = []
    for path in sorted({*wanted.items, *context.owned}):
        before = context.owned.get(path, {})
        if f"/{SCHEMA_NAME}/" not in path and path.startswith(tuple(wanted.left)):
            now[path] = before
            continue
        try:
            present = context.workspace.read(path)
            # A manual import states that the next import replaces it.
            by_hand = not before and text_of(present or b"").startswith(IMPORT_HEADER.format(tool=tool))
            items: dict[Pointer, Any] = dict(wanted.items.get(path, {}).items())
            applied = owned.write(context.workspace, path, items, before, overwrite=by_hand)
        except KtxError as error:
            warnings.append(ResultWarning("not_written", error.message, hint=error.hint, path=path))
            now[path] = before
            continue
        if applied.owned:
            now[path] = applied.owned
            artifacts[path] = tuple(sorted(wanted.origins.get(path, ())))
        kept = [pointer for pointer in applied.kept if (path, pointer) not in wanted.soft or pointer in before]
        if kept:
            warnings.append(_kept(path, kept, tool))
    return Written(artifacts, {path: items for path, items in now.items() if items}, tuple(warnings))


def _kept(path: str, items: list[str], tool: str) -> ResultWarning:
    what = f"{path}: kept the edited {listing(items)}, which {tool} defines differently"
    hint = f"to use the definitions of {tool}, delete them from {path} and from `owned` in the source's manifest"
    return ResultWarning("kept", what, hint=hint, path=path, items=items)


@dataclass(frozen=True, slots=True)
class TableText:
    """The texts about a table. `parts`: its name, outermost first, without parts unknown to the context source.

    `columns`: name -> text. `raw`: the raw file that they come from.
    """

    parts: tuple[str, ...]
    raw: str
    description: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The table's name in reports."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Described:
    """The items that were written, as in `Projection`."""

    artifacts: Mapping[str, tuple[str, ...]]
    owned: Mapping[str, Mapping[str, str]]
    report: tuple[Fidelity, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A table's entry: its shard, its name there, the parts of the table's name, and its values."""

    path: str
    name: str
    parts: tuple[str, ...]
    values: Mapping[str, Any]

    def column(self, name: str) -> Mapping[str, Any] | None:
        """Return the column with that name, else the single one that differs only in case."""
        columns = [each for each in self.values.get("columns") or [] if isinstance(each.get("name"), str)]
        exact = [each for each in columns if each["name"] == name]
        alike = exact or [each for each in columns if each["name"].casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None


class Entries:
    """The entries in a connection's manifest, by table name."""

    def __init__(self, workspace: Workspace, connection: str) -> None:
        self._by_tail: dict[tuple[str, ...], list[Entry]] = {}
        for path in workspace.paths(f"{Layout.schema_path(connection)}/"):
            content = workspace.read(path) if path.endswith(SUFFIXES) else None
            for name, values in parse_shard(content, path).tables.items() if content is not None else ():
                self._add(path, name, values)

    def _add(self, path: str, name: str, values: Mapping[str, Any]) -> None:
        table = values.get("table")
        try:
            parts = table_parts(table) if isinstance(table, str) else ()
        except ConfigError:
            parts = ()  # `ktx sl validate` reports it.
        entry = Entry(path, name, parts, values)
        for start in range(len(parts)):
            self._by_tail.setdefault(_folded(parts[start:]), []).append(entry)

    def find(self, parts: Sequence[str]) -> Entry | None:
        """Return the single entry that matches a table by the name parts known to both sides, or None.

        A catalog that the manifest omits and a schema that the source omits do not matter. If several entries match,
        the one with exactly that name counts.
        """
        for start in range(len(parts)):
            tail = tuple(parts[start:])
            alike = self._by_tail.get(_folded(tail), [])
            known = [each for each in alike if start == 0 or len(each.parts) == len(tail)]
            spelled = [each for each in known if each.parts[-len(tail) :] == tail] or known
            found = [each for each in spelled if len(each.parts) == len(tail)] or spelled
            if alike:
                return found[0] if len(found) == 1 else None
        return None


def write_texts(context: ProjectContext, tool: str, texts: Mapping[str, Iterable[TableText]]) -> Described:
    """Write the texts about the tables of each connection, and remove texts that no longer exist.

    The first text of a table or a column counts.
    """
    report = Report()
    wanted: dict[str, dict[Pointer, str]] = {path: {} for path in context.owned}
    origins: dict[str, set[str]] = {}
    for connection, table_texts in texts.items():
        entries = Entries(context.workspace, connection)
        for text in table_texts:
            _place(entries.find(text.parts), text, tool, connection, report, wanted, origins)
    now_owned: dict[str, Mapping[str, str]] = {}
    for path, items in sorted(wanted.items()):
        applied = owned.write(context.workspace, path, items, context.owned.get(path, {}))
        if applied.owned:
            now_owned[path] = applied.owned
    artifacts = {path: tuple(sorted(origins[path])) for path in sorted(origins)}
    return Described(artifacts, now_owned, report.sorted())


def _place(
    entry: Entry | None,
    text: TableText,
    tool: str,
    connection: str,
    report: Report,
    wanted: dict[str, dict[Pointer, str]],
    origins: dict[str, set[str]],
) -> None:
    """Add a text to an entry, and record the outcome."""
    what, place = f"descriptions of `{text.shown}`", Place(text.raw)
    if entry is None:
        report.dropped(what, f"`{connection}` has no such table, or several", place)
        return
    items: dict[Pointer, str] = {}
    if text.description and not _is_in_database(entry.values, text.description):
        items["tables", entry.name, "descriptions", tool] = text.description
    for name, column_text in text.columns.items():
        column = entry.column(name)
        if column is None:
            report.dropped(f"description of `{text.shown}.{name}`", "the table has no such column", place)
        elif not _is_in_database(column, column_text):
            items["tables", entry.name, "columns", column["name"], "descriptions", tool] = column_text
    if items:
        of_file = wanted.setdefault(entry.path, {})
        of_file.update({steps: value for steps, value in items.items() if steps not in of_file})
        origins.setdefault(entry.path, set()).add(text.raw)
        report.kept(what, place, f"{connection}/{entry.name}")


def _is_in_database(values: Mapping[str, Any], text: str) -> bool:
    """Return whether a text equals the database's own comment."""
    descriptions = values.get("descriptions")
    return isinstance(descriptions, Mapping) and str(descriptions.get("db") or "").split() == text.split()


def _folded(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)


@dataclass(frozen=True, slots=True)
class LayerTable:
    """A table in the manifest: its connection, and its source in the semantic layer."""

    connection: str
    source: Source

    @property
    def shard(self) -> str:
        """The path of the table's shard."""
        return "" if self.source.place is None else self.source.place.path

    @property
    def text(self) -> str:
        """The table's name as in a `table:` key."""
        *outer, name = self.source.table or (self.source.name,)
        prefix = "".join(f"{physical_name(TableRef(None, part))}." for part in outer)
        return prefix + physical_name(TableRef(None, name))


@dataclass(slots=True)
class Labels:
    """Names that people use, which become labels in overlay files, by connection and source.

    A table or column that already has a label keeps it, and the report says so.
    """

    context: ProjectContext
    tool: str
    report: Report
    wanted: Wanted
    warnings: list[ResultWarning]
    documents: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    kept: dict[str, list[Fidelity]] = field(default_factory=dict)

    def add(self, table: LayerTable, column: str | None, label: str, what: str, place: Place) -> None:
        """Add the label of a table or a column."""
        name = table.source.name
        found = self.documents.setdefault(table.connection, {}).setdefault(name, {"name": name})
        if column is None:
            found["label"] = label
        else:
            found.setdefault("column_overrides", []).append({"name": column, "label": label})
        target = name if column is None else f"{name}.{column}"
        self.kept.setdefault(table.connection, []).append(Fidelity(Kind.KEPT, what, "", place, target))

    def write(self) -> None:
        """Add the overlay files, except where people or other tools have already named something."""
        for connection, documents in sorted(self.documents.items()):
            kept = self.kept[connection]
            broken = leave_broken(self.context, connection, self.wanted)
            if broken is not None:
                self.warnings.append(broken)
                for each in kept:
                    self.report.dropped(each.what, broken.message, each.place)
                continue
            model = model_without_ours(self.context, connection)
            labels = {
                target: label
                for name, source in model.sources.items()
                for target, label in (
                    (name, source.label),
                    *((f"{name}.{each.name}", each.label) for each in source.columns.values()),
                )
                if label
            }
            for each in kept:
                label = labels.get(each.target or "")
                why = f"it already has the label `{label}`"
                self.report.items.append(each if label is None else Fidelity(Kind.DROPPED, each.what, why, each.place))
            files = {
                f"{file_stem(name)}.yaml": yaml.dump(document)
                for name, entry in sorted(documents.items())
                if len(document := _without(entry, labels)) > 1
            }
            want_files(files, kept, connection, self.context.workspace, self.tool, self.wanted)


def _without(document: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a document without the labels that something already has."""
    name = str(document["name"])
    columns = [each for each in document.get("column_overrides", ()) if f"{name}.{each['name']}" not in labels]
    found = {"name": name}
    if "label" in document and name not in labels:
        found["label"] = document["label"]
    return {**found, **({"column_overrides": columns} if columns else {})}


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a table in another tool; an empty part is unknown.

    `schema_end`: the end of its schema if the tool adds a prefix; it is only used to choose among several tables.
    """

    name: str
    schema: str = ""
    database: str = ""
    schema_end: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.name) if part)


def manifest_models(context: ProjectContext) -> dict[str, Model]:
    """Return the models. For models with errors, use only the manifest, so that no table is missing."""
    return {connection: _manifest_model(context, connection) for connection in context.models}


def _manifest_model(context: ProjectContext, connection: str) -> Model:
    model = context.models[connection]
    if not any(problem.severity == "error" for problem in model.problems):
        return model
    bare = Workspace(context.workspace)
    for path in own_files(context.workspace, connection):
        bare.delete(path)
    return load_tree(bare, connection, model.dialect, model.calendar)


class Tables:
    """The tables in all of a project's databases."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._by_name: dict[str, list[LayerTable]] = {}
        for connection, model in sorted(models.items()):
            for source in model.sources.values():
                if source.generated and source.table:
                    self._by_name.setdefault(source.table[-1].casefold(), []).append(LayerTable(connection, source))

    def find(self, name: Name) -> list[LayerTable]:
        """Return the tables that a name may refer to, ignoring case and parts unknown to one side."""
        found = [each for each in self._by_name.get(name.name.casefold(), ()) if _fits(each.source, name)]
        if len(found) > 1 and name.schema_end:
            end = name.schema_end.casefold()
            near = [each for each in found if _schema(each.source).endswith(("_" + end, end))]
            found = [each for each in near if _schema(each.source) in (end,)] or near or found
        return _without_copies(found)


def _fits(source: Source, name: Name) -> bool:
    known = [part.casefold() for part in reversed(source.table or ())][1:]
    wanted = (name.schema.casefold(), name.database.casefold())
    return all(not part or part == own for part, own in zip(wanted, known, strict=False))


def _schema(source: Source) -> str:
    table = source.table or ()
    return table[-2].casefold() if len(table) > 1 else ""


def _without_copies(found: Iterable[LayerTable]) -> list[LayerTable]:
    """Return one source per table: if several sources use the same table, the one with the table's own name."""
    groups: dict[tuple[str, tuple[str, ...]], list[LayerTable]] = {}
    for each in found:
        groups.setdefault((each.connection, each.source.table or ()), []).append(each)
    kept: list[LayerTable] = []
    for (_, parts), several in groups.items():
        own = [each for each in several if each.source.name == parts[-1]]
        kept += own if own else several
    return kept
