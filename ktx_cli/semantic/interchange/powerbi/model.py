"""Power BI models: their tables, relationships, measures and queries, read from TMDL folders or TMSL documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

from ktx_cli.core import ConfigError
from ktx_cli.semantic.interchange.powerbi.template import INNER, TEMPLATE_SUFFIX, schema_path
from ktx_cli.semantic.interchange.powerbi.tmdl import Node, parse_tmdl, reference_parts
from ktx_cli.semantic.interchange.report import Report
from ktx_cli.semantic.model import Place

TMDL: Final = ".tmdl"
TMSL: Final = ".bim"
DEFINITION: Final = "definition"
"""The folder of a model's TMDL files."""

_Named = TypeVar("_Named")
_FOLDERS: Final = frozenset({"tables", "roles", "perspectives", "cultures"})


@dataclass(slots=True)
class Column:
    """A column. `source`: its name in the query of the table. `expression`: the DAX of a calculated column."""

    name: str
    place: Place
    type: str | None = None
    source: str | None = None
    expression: str | None = None
    description: str | None = None
    hidden: bool = False
    key: bool = False
    summarize_by: str | None = None


@dataclass(slots=True)
class Measure:
    """A measure with its DAX expression."""

    name: str
    place: Place
    expression: str
    description: str | None = None
    hidden: bool = False
    format: str | None = None


@dataclass(slots=True)
class Partition:
    """A part of the rows of a table. `kind`: `m`, `entity`, `query`, `calculated` or another word of Power BI.

    `expression`: its M, SQL or DAX. `entity`: the table of an `entity` partition, with its schema if known.
    """

    name: str
    place: Place
    kind: str
    expression: str | None = None
    entity: tuple[str, ...] = ()


@dataclass(slots=True)
class Table:
    """A table. `columns` and `measures` map names to definitions. `other` lists further parts with their places."""

    name: str
    place: Place
    description: str | None = None
    hidden: bool = False
    is_dates: bool = False
    columns: dict[str, Column] = field(default_factory=dict)
    measures: dict[str, Measure] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)
    other: list[tuple[str, str, Place]] = field(default_factory=list)

    def column(self, name: str) -> Column | None:
        """Return a column; Power BI ignores case in names."""
        return found(self.columns, name)


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship from a column to a column of another table, each as (table, column).

    `from_many`, `to_many`: whether several rows of that side can have the same value. `both`: whether filters also
    apply from the first table to the second.
    """

    name: str
    place: Place
    own: tuple[str, str]
    other: tuple[str, str]
    active: bool = True
    both: bool = False
    from_many: bool = True
    to_many: bool = False


@dataclass(frozen=True, slots=True)
class Role:
    """A role with the tables whose rows it restricts."""

    name: str
    place: Place
    tables: tuple[str, ...]


@dataclass(slots=True)
class PowerBiModel:
    """A model. `path`: its folder, or its file. `files`: all its files. `queries`: shared M expressions by name."""

    path: str
    files: tuple[str, ...]
    tables: dict[str, Table] = field(default_factory=dict)
    relationships: list[Relationship] = field(default_factory=list)
    queries: dict[str, str] = field(default_factory=dict)
    roles: list[Role] = field(default_factory=list)

    def table(self, name: str) -> Table | None:
        """Return a table; Power BI ignores case in names."""
        return found(self.tables, name)

    def measure(self, name: str) -> tuple[Table, Measure] | None:
        """Return a measure with its home table. Names of measures are unique within a model."""
        for table in self.tables.values():
            measure = found(table.measures, name)
            if measure is not None:
                return table, measure
        return None


def found(named: Mapping[str, _Named], name: str) -> _Named | None:
    """Return the value for a name, ignoring case."""
    if name in named:
        return named[name]
    folded = name.casefold()
    return next((value for key, value in named.items() if key.casefold() == folded), None)


def is_model_file(path: str) -> bool:
    """Return whether a file is a part of a Power BI model that ktx reads as text. Translations are not."""
    pure = PurePosixPath(path)
    if pure.suffix.lower() == TMDL:
        return "cultures" not in (part.lower() for part in pure.parts[:-1])
    return pure.suffix.lower() in (TMSL, TEMPLATE_SUFFIX) or pure.name == INNER


def model_files(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the files of each model, by the path of the model: the folder of its TMDL, or the file itself."""
    groups: dict[str, list[str]] = {}
    for path in sorted(filter(is_model_file, paths)):
        groups.setdefault(_model_path(path), []).append(path)
    return {path: tuple(files) for path, files in sorted(groups.items())}


def _model_path(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.name == INNER or pure.suffix.lower() != TMDL:
        return schema_path(path)
    parts = [part.lower() for part in pure.parts[:-1]]
    if DEFINITION in parts:
        folder = PurePosixPath(*pure.parts[: parts.index(DEFINITION)])
    else:
        folder = pure.parent.parent if pure.parent.name.lower() in _FOLDERS else pure.parent
    return str(folder)


def read_models(files: Mapping[str, str], report: Report) -> list[PowerBiModel]:
    """Return all models in the files. Files that cannot be read are reported."""
    models = []
    for path, own in model_files(files).items():
        model = PowerBiModel(path, own)
        for each in own:
            try:
                read_file(model, files[each], each)
            except ConfigError as error:
                line = int(error.details.get("line", 1))
                report.dropped(f"file {each}", error.problem, Place(each, line))
        models.append(model)
    return models


def read_file(model: PowerBiModel, text: str, path: str) -> None:
    """Add the content of a file to a model. Raises `ConfigError` for an invalid file."""
    if path.lower().endswith(TMDL):
        _Tmdl(model).add(parse_tmdl(text, path))
    else:
        _Tmsl(model, text, path).add()


class _Tmdl:
    """Adds TMDL documents to a model."""

    def __init__(self, model: PowerBiModel) -> None:
        self._model = model

    def add(self, node: Node) -> None:
        readers = {
            "table": self._table, "relationship": self._relationship, "expression": self._query, "role": self._role,
        }  # fmt: skip
        for child in node.children:
            if child.kind in ("model", "database", "createOrReplace"):
                self.add(child)
            elif child.kind in readers and not child.is_ref:
                readers[child.kind](child)

    def _table(self, node: Node) -> None:
        table = self._model.tables.setdefault(node.name, Table(node.name, node.place))
        table.description = node.description or table.description
        table.hidden = table.hidden or node.flag("isHidden")
        table.is_dates = table.is_dates or node.text("dataCategory") == "Time"
        for column in node.below("column"):
            table.columns[column.name] = _tmdl_column(column)
        for measure in node.below("measure"):
            expression = measure.value if measure.value is not None else measure.text("expression") or ""
            text = measure.text("formatString")
            table.measures[measure.name] = Measure(
                measure.name, measure.place, expression, measure.description, measure.flag("isHidden"), text
            )
        for partition in node.below("partition"):
            table.partitions.append(_tmdl_partition(partition))
        for kind in ("hierarchy", "calculationGroup"):
            table.other += [(kind, each.name, each.place) for each in node.below(kind)]

    def _relationship(self, node: Node) -> None:
        own = reference_parts(node.text("fromColumn") or "")
        other = reference_parts(node.text("toColumn") or "")
        if len(own) != 2 or len(other) != 2:
            raise ConfigError("the relationship does not have two columns", where=str(node.place))
        self._model.relationships.append(
            Relationship(
                node.name, node.place, (own[0], own[1]), (other[0], other[1]),
                active=(node.text("isActive") or "").lower() != "false",
                both=(node.text("crossFilteringBehavior") or "").lower() == "bothdirections",
                from_many=(node.text("fromCardinality") or "").lower() != "one",
                to_many=(node.text("toCardinality") or "").lower() == "many",
            )
        )  # fmt: skip

    def _query(self, node: Node) -> None:
        self._model.queries[node.name] = node.value or ""

    def _role(self, node: Node) -> None:
        tables = tuple(child.name for child in node.below("tablePermission") if child.value)
        self._model.roles.append(Role(node.name, node.place, tables))


def _tmdl_column(node: Node) -> Column:
    return Column(
        node.name, node.place, node.text("dataType"), node.text("sourceColumn"), node.value,
        node.description, node.flag("isHidden"), node.flag("isKey"), node.text("summarizeBy"),
    )  # fmt: skip


def _tmdl_partition(node: Node) -> Partition:
    kind = (node.value or "m").strip().lower()
    source = next(iter(node.below("source")), node)
    entity, schema = source.text("entityName"), source.text("schemaName")
    text = source.text("source") or source.text("expression") or source.text("query")
    parts = () if entity is None else (entity,) if schema is None else (schema, entity)
    return Partition(node.name, node.place, kind, text, parts)


class _Tmsl:
    """Adds a TMSL document to a model."""

    def __init__(self, model: PowerBiModel, text: str, path: str) -> None:
        self._model, self._text, self._path = model, text, path

    def add(self) -> None:
        try:
            document = json.loads(self._text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise ConfigError(
                "the file is not valid JSON",
                where=f"{self._path}:{line}",
                hint="save the model again in Power BI",
                details={"path": self._path, "line": line},
            ) from error
        database = document if isinstance(document, Mapping) else {}
        for key in ("createOrReplace", "create", "database"):
            database = database[key] if isinstance(database.get(key), Mapping) else database
        content = database.get("model")
        if not isinstance(content, Mapping):
            raise ConfigError(f"{self._path} contains no model", hint="use the model.bim of a Power BI project")
        for table in _items(content, "tables"):
            self._table(table)
        for relationship in _items(content, "relationships"):
            self._relationship(relationship)
        for query in _items(content, "expressions"):
            self._model.queries[_text(query, "name")] = _text(query, "expression")
        for role in _items(content, "roles"):
            name = _text(role, "name")
            tables = [_text(each, "name") for each in _items(role, "tablePermissions") if "filterExpression" in each]
            self._model.roles.append(Role(name, self._place(name), tuple(tables)))

    def _place(self, name: str, kind: str = "") -> Place:
        """Return the location of a named item: the first line that contains its name, after that of `kind`."""
        start = max(self._text.find(f'"{kind}"'), 0) if kind else 0
        match = re.compile(r'"name"\s*:\s*' + re.escape(json.dumps(name, ensure_ascii=False))).search(self._text, start)
        return Place(self._path, self._text.count("\n", 0, match.start()) + 1 if match else 1)

    def _table(self, item: Mapping[str, Any]) -> None:
        name = _text(item, "name")
        table = Table(name, self._place(name), _text(item, "description") or None, bool(item.get("isHidden")))
        table.is_dates = item.get("dataCategory") == "Time"
        self._model.tables[name] = table
        for each in _items(item, "columns"):
            column = _text(each, "name")
            if each.get("type") != "rowNumber":
                expression = _text(each, "expression") if each.get("type") == "calculated" else None
                table.columns[column] = Column(
                    column, self._place(column, name), _text(each, "dataType") or None,
                    _text(each, "sourceColumn") or None, expression, _text(each, "description") or None,
                    bool(each.get("isHidden")), bool(each.get("isKey")), _text(each, "summarizeBy") or None,
                )  # fmt: skip
        for each in _items(item, "measures"):
            measure = _text(each, "name")
            table.measures[measure] = Measure(
                measure, self._place(measure, name), _text(each, "expression"), _text(each, "description") or None,
                bool(each.get("isHidden")), _text(each, "formatString") or None,
            )  # fmt: skip
        for each in _items(item, "partitions"):
            table.partitions.append(self._partition(each, table.place))
        table.other += [("hierarchy", _text(each, "name"), table.place) for each in _items(item, "hierarchies")]
        if isinstance(item.get("calculationGroup"), Mapping):
            table.other.append(("calculationGroup", name, table.place))

    def _partition(self, item: Mapping[str, Any], place: Place) -> Partition:
        source = item["source"] if isinstance(item.get("source"), Mapping) else {}
        kind = _text(source, "type").lower() or "query"
        entity = tuple(filter(None, (_text(source, "schemaName"), _text(source, "entityName"))))
        text = _text(source, "query") or _text(source, "expression")
        return Partition(_text(item, "name"), place, kind, text, entity if _text(source, "entityName") else ())

    def _relationship(self, item: Mapping[str, Any]) -> None:
        name = _text(item, "name")
        own, other = ((_text(item, f"{side}Table"), _text(item, f"{side}Column")) for side in ("from", "to"))
        if not all((*own, *other)):
            raise ConfigError(f"the relationship `{name}` does not have two columns", where=self._path)
        self._model.relationships.append(
            Relationship(
                name, self._place(name), own, other,
                active=item.get("isActive") is not False,
                both=_text(item, "crossFilteringBehavior").lower() == "bothdirections",
                from_many=_text(item, "fromCardinality").lower() != "one",
                to_many=_text(item, "toCardinality").lower() == "many",
            )
        )  # fmt: skip


def _items(item: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    values = item.get(key)
    return [each for each in values if isinstance(each, Mapping)] if isinstance(values, list) else []


def _text(item: Mapping[str, Any], key: str) -> str:
    """Return a text, which TMSL may write as a list of lines."""
    value = item.get(key)
    if isinstance(value, list):
        return "\n".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""
