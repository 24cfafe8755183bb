"""The data sources in Tableau files: their tables, joins, fields, calculations and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.core import ConfigError, plural
from ktx_cli.semantic.interchange.report import Report
from ktx_cli.semantic.interchange.tableau.document import Element, parse_document
from ktx_cli.semantic.model import Place

PARAMETERS: Final = "Parameters"
"""The name of the data source that contains a workbook's parameters."""

ROWS: Final = "__tableau_internal_object_id__"
"""The first part of the name of a field that stands for the rows of a table."""

TABLEAU_SUFFIXES: Final = (".twb", ".tds", ".twbx", ".tdsx")
"""The suffixes of Tableau files. A packaged file is read as the text of the document in it."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table in a data source: its `parts` in the database, or the `sql` of a custom query.

    `name` identifies it in the data source. `why_not` says why ktx cannot use it.
    """

    name: str
    parts: tuple[str, ...]
    sql: str
    database: str
    place: Place
    why_not: str = ""

    @property
    def table(self) -> str:
        """The name of the table as in a `table:` key."""
        return ".".join(part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in self.parts)


@dataclass(frozen=True, slots=True)
class TableauLink:
    """A join of two relations by equal columns: pairs of (relation, column).

    `kind` is `inner`, `left`, `right`, `full`, or `relationship`. `left_unique` and `right_unique`: whether the data
    source states that a row of the other side matches at most one row of this side.
    """

    kind: str
    pairs: tuple[tuple[tuple[str, str], tuple[str, str]], ...]
    place: Place
    left_unique: bool = False
    right_unique: bool = False
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Bin:
    """One value of a group: its label, and the constants that it combines, as they are written in formulas."""

    label: str
    values: tuple[str, ...]


@dataclass(slots=True)
class Column:
    """A field that people changed or added. `name` has no brackets; `caption` is empty if it is the name.

    `kind` is `column` for a field of a table, `tableau` for a formula, `bin`, `group` or another class of calculation.
    """

    name: str
    caption: str
    datatype: str
    role: str
    aggregation: str
    description: str
    format: str
    place: Place
    kind: str = "column"
    formula: str = ""
    of: str = ""
    bins: tuple[Bin, ...] = ()
    size: str = ""
    peg: str = ""
    has_aliases: bool = False

    @property
    def title(self) -> str:
        """The name that people see."""
        return self.caption or self.name


@dataclass(frozen=True, slots=True)
class Selection:
    """A set, or a filter of the data source. `members` are constants as in formulas, None if ktx cannot list them."""

    name: str
    field: str
    members: tuple[str, ...] | None
    excludes: bool
    place: Place
    why_not: str = ""
    bounds: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a workbook: its current value and the values that it accepts, as they are written in formulas."""

    name: str
    caption: str
    datatype: str
    value: str
    values: tuple[str, ...]
    place: Place


@dataclass(slots=True)
class TableauData:
    """A data source. `fields`: its own name for a column of a table -> (relation, column, data type).

    `published` is the name of the published data source that a workbook uses.
    """

    path: str
    name: str
    caption: str
    place: Place
    relations: dict[str, Relation] = field(default_factory=dict)
    links: list[TableauLink] = field(default_factory=list)
    fields: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    sets: dict[str, Selection] = field(default_factory=dict)
    filters: list[Selection] = field(default_factory=list)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    published: str = ""
    week_start: str = ""
    is_related: bool = False
    """Whether its tables are related instead of joined, so that each table is aggregated by itself."""

    @property
    def title(self) -> str:
        """The name that people see."""
        return self.caption or self.name

    @property
    def key(self) -> tuple[str, str]:
        """The file and the name of the data source in it."""
        return self.path, self.name


def read_data_sources(files: Mapping[str, str], report: Report) -> list[TableauData]:
    """Return the data sources of all files that have tables, in order.

    Published ones are resolved if their file is among the files. The report lists files that cannot be read, and data
    sources without usable tables.
    """
    found: list[TableauData] = []
    for path, text in sorted(files.items()):
        if not path.lower().endswith(TABLEAU_SUFFIXES):
            continue
        try:
            root = parse_document(text, path)
            found += _of_root(root, path, report)
        except ConfigError as error:
            line = error.details.get("line", 1)
            report.dropped(f"file {path}", error.message, Place(path, int(line)))
    published = _resolve_published(found, report)
    for each in found:
        if each.relations and all(relation.why_not == FILE_DATA for relation in each.relations.values()):
            report.dropped(f"data source `{each.title}`", FILE_DATA, each.place)
    return [
        each
        for each in found
        if each.key not in published and any(relation.why_not != FILE_DATA for relation in each.relations.values())
    ]


def _of_root(root: Element, path: str, report: Report) -> Iterator[TableauData]:
    if root.tag == "datasource":
        yield _Reader(root, path, {}).data_source()
        return
    if root.tag != "workbook":
        raise ConfigError(
            f"{path}: the document is a `{root.tag}`, not a workbook or a data source",
            hint="read workbooks and data sources",
            details={"line": root.line},
        )
    views = [each for kind in ("worksheets", "dashboards", "stories") if (each := root.find(kind)) is not None]
    count = sum(len(each.children) for each in views)
    if count:
        report.dropped(f"{plural(count, 'view')} of {path}", VIEWS, Place(path, views[0].line))
    listed = root.find("datasources")
    sources = listed.all("datasource") if listed is not None else []
    parameters = {
        each.name: each for one in sources if one.get("name") == PARAMETERS for each in _parameters(one, path)
    }
    for each in sources:
        if each.get("name") != PARAMETERS:
            yield _Reader(each, path, parameters).data_source()


def _resolve_published(sources: list[TableauData], report: Report) -> set[tuple[str, str]]:
    """Give the data sources of workbooks the tables and fields of the published ones that they use.

    Returns the keys of those whose published data source is not among them.
    """
    missing: set[tuple[str, str]] = set()
    known: dict[str, TableauData] = {}
    for each in sources:
        if not each.published and each.relations:
            stem = each.path.rpartition("/")[2].rpartition(".")[0]
            for name in (each.caption, each.name, stem):
                known.setdefault(name.casefold(), each)
    for each in sources:
        if not each.published:
            continue
        found = known.get(each.published.casefold())
        if found is None:
            report.dropped(f"data source `{each.title}`, published as `{each.published}`", NOT_PUBLISHED, each.place)
            missing.add(each.key)
            continue
        each.relations, each.links, each.is_related = found.relations, found.links, found.is_related
        each.fields = {**each.fields, **found.fields}
        each.columns = {**found.columns, **each.columns}
        each.sets = {**found.sets, **each.sets}
        each.week_start = each.week_start or found.week_start
        by_title = {column.title: name for name, column in found.columns.items()}
        for name, column in each.columns.items():
            if column.kind == "column" and name not in each.fields and name in by_title:
                each.columns[name] = found.columns[by_title[name]]
    return missing


_PLAIN: Final = re.compile(r"[A-Za-z_]\w*")
_NAME: Final = re.compile(r"\[((?:[^\]]|\]\])*)\]")
_FROM_FILES: Final = frozenset(
    ("textscan", "excel-direct", "excel", "msaccess", "google-sheets", "hyper", "dataengine", "stat-direct",
     "ogrdirect", "semistructpassivestore-direct", "webdata-direct", "webdata-direct:google-spreadsheet-connector")
)  # fmt: skip
FILE_DATA: Final = "its data is in a file, not in a database"
"""The reason why a relation is dropped whose rows come from a file."""

NOT_PUBLISHED: Final = "the .tds or .tdsx file of the published data source is not among the files"
"""The reason why a data source is dropped that only refers to a published one."""

VIEWS: Final = "worksheets, dashboards and stories are not definitions"
"""The reason why views are dropped."""


def names_in(text: str) -> tuple[str, ...]:
    """Return the parts of a name in brackets, such as `[public].[orders]`."""
    return tuple(found.replace("]]", "]") for found in _NAME.findall(text))


def _bare(text: str) -> str:
    found = names_in(text)
    return found[-1] if found else text.strip()


class _Reader:
    """Reads one data source."""

    def __init__(self, element: Element, path: str, parameters: Mapping[str, Parameter]) -> None:
        self._element, self._path = element, path
        name = element.get("formatted-name") or element.get("name")
        self._made = TableauData(path, name, element.get("caption"), Place(path, element.line), parameters=parameters)
        self._classes: dict[str, Element] = {}

    def data_source(self) -> TableauData:
        """Return the data source."""
        made, element = self._made, self._element
        connection = element.find("connection")
        if connection is not None:
            self._add_connection(connection)
        graph = element.find("object-graph")
        if graph is not None:
            self._add_graph(graph)
        for each in element.all("column"):
            column = _column(each, self._path)
            made.columns[column.name] = column
        for each in element.all("group"):
            if each.get("user:auto-column"):  # Tableau adds these for actions
                continue
            found = _selection(each, self._path, _bare(each.get("name")))
            made.sets[found.name] = found
        for each in element.all("filter"):
            made.filters.append(_selection(each, self._path, _bare(each.get("column"))))
        options = element.find("date-options")
        made.week_start = options.get("start-of-week") if options is not None else ""
        return made

    def _add_connection(self, connection: Element) -> None:
        made = self._made
        if connection.get("class") == "sqlproxy":
            place = self._element.find("repository-location")
            made.published = connection.get("dbname") or (place.get("id") if place is not None else "") or made.title
        named = connection.find("named-connections")
        for each in named.all("named-connection") if named is not None else ():
            inner = each.find("connection")
            if inner is not None:
                self._classes[each.get("name")] = inner
        if not made.published:
            for relation in connection.all("relation"):
                self._add_relation(relation, connection)
        self._add_fields(connection)

    def _add_relation(self, element: Element, connection: Element) -> list[str]:
        """Add a tree of relations, and return the names of the tables in it."""
        kind = element.get("type", "table")
        if kind in ("join", "collection"):
            names = [self._add_relation(each, connection) for each in element.all("relation")]
            if kind == "join":
                self._add_join(element, names[-1] if names else [])
            return [name for each in names for name in each]
        made = self._relation(element, kind, connection)
        self._made.relations.setdefault(made.name, made)
        return [made.name]

    def _relation(self, element: Element, kind: str, connection: Element) -> Relation:
        inner = self._classes.get(element.get("connection"), connection)
        driver = inner.get("class")
        place, why_not, sql = Place(self._path, element.line), "", ""
        parts = names_in(element.get("table"))
        if not parts and element.get("table"):
            parts = (element.get("table"),)
        if kind == "text":
            sql = element.text.strip().replace("<<", "<").replace(">>", ">")
            why_not = "its query uses a parameter" if "<[" in element.text else "" if sql else "its query is empty"
        elif kind != "table" or not parts:
            why_not = f"ktx does not support relations of type {kind}; define a source with `sql:`"
        elif driver in _FROM_FILES:
            why_not = FILE_DATA
        schema = inner.get("schema")
        if len(parts) == 1 and schema and driver != "sqlproxy":
            parts = (schema, *parts)
        return Relation(
            element.get("name") or _bare(element.get("table")), parts, sql, inner.get("dbname"), place, why_not
        )

    def _add_join(self, element: Element, right: list[str]) -> None:
        """Add a join whose right side has the tables `right`."""
        kind, place = element.get("join", "inner"), Place(self._path, element.line)
        clause = element.find("clause")
        pairs, why_not = [], ""
        for one, other in _equalities(clause.children if clause is not None else []):
            sides = names_in(one), names_in(other)
            if all(len(each) == 2 for each in sides):
                first, second = (sides[1], sides[0]) if sides[0][0] in right else sides
                pairs.append(((first[0], first[1]), (second[0], second[1])))
            else:
                why_not = "its condition is not an equality of columns"
        link = TableauLink(kind, tuple(pairs), place, why_not=why_not or ("" if pairs else _NO_PAIRS))
        if all(each.pairs != link.pairs for each in self._made.links):  # an object graph repeats the joins
            self._made.links.append(link)

    def _add_fields(self, connection: Element) -> None:
        made = self._made
        listed = connection.find("cols")
        for each in listed.all("map") if listed is not None else ():
            parts = names_in(each.get("value"))
            if len(parts) == 2:
                made.fields[_bare(each.get("key"))] = (parts[0], parts[1], "")
        records = connection.find("metadata-records")
        for each in records.all("metadata-record") if records is not None else ():
            texts = {child.tag: child.text.strip() for child in each.children}
            local, parent = _bare(texts.get("local-name", "")), _bare(texts.get("parent-name", ""))
            if each.get("class") == "column" and local:
                relation, remote, _ = made.fields.get(local, (parent, texts.get("remote-name", ""), ""))
                made.fields[local] = (relation, remote, texts.get("local-type", ""))

    def _add_graph(self, graph: Element) -> None:
        """Add the logical tables of an object graph and their relationships, which name fields of the data source."""
        objects: dict[str, list[str]] = {}
        listed = graph.find("objects")
        connection = self._element.find("connection") or self._element
        for each in listed.all("object") if listed is not None else ():
            inner = [prop for prop in each.all("properties") if not prop.get("context")]
            several = [relation for prop in inner for relation in prop.all("relation")]
            names = [name for relation in several for name in self._add_relation(relation, connection)]
            objects[each.get("id")] = names
        related = graph.find("relationships")
        for each in related.all("relationship") if related is not None else ():
            self._add_relationship(each, objects)
        self._made.is_related = len(objects) > 1

    def _add_relationship(self, element: Element, objects: Mapping[str, list[str]]) -> None:
        ends = [element.find("first-end-point"), element.find("second-end-point")]
        members = [objects.get(end.get("object-id"), []) if end is not None else [] for end in ends]
        unique = [end is not None and end.get("unique-key") == "true" for end in ends]
        pairs, why_not = [], ""
        for one, other in _equalities(element.all("expression")):
            sides = [self._side(text, own) for text, own in zip((one, other), members, strict=True)]
            if None in sides:  # the operands can be in either order
                sides = [self._side(text, own) for text, own in zip((other, one), members, strict=True)]
            if sides[0] is None or sides[1] is None:
                why_not = "its condition is not an equality of columns"
            else:
                pairs.append((sides[0], sides[1]))
        if not pairs and not why_not:
            why_not = _NO_PAIRS
        place = Place(self._path, element.line)
        self._made.links.append(TableauLink("relationship", tuple(pairs), place, unique[0], unique[1], why_not))

    def _side(self, text: str, members: list[str]) -> tuple[str, str] | None:
        parts = names_in(text)
        if not parts or parts[-1].strip() == "":
            return None
        relation, column, _ = self._made.fields.get(parts[-1], ("", "", ""))
        if relation in members:
            return relation, column
        if len(parts) == 1 and not relation and len(members) == 1:
            return members[0], parts[0]
        return None


_NO_PAIRS: Final = "it has no condition that compares columns"


def _equalities(expressions: list[Element]) -> Iterator[tuple[str, str]]:
    """Yield the sides of each equality in a condition; an empty side stands for anything else than a column."""
    for each in expressions:
        if each.tag != "expression":
            continue
        if each.get("op").upper() == "AND":
            yield from _equalities(each.children)
            continue
        sides = each.all("expression")
        is_plain = each.get("op") in ("=", "==") and len(sides) == 2 and not any(side.children for side in sides)
        yield (sides[0].get("op"), sides[1].get("op")) if is_plain else ("", "")


def _column(element: Element, path: str) -> Column:
    names = names_in(element.get("name"))
    name = ".".join(names) if names and names[0] == ROWS else names[-1] if names else element.get("name")
    described = element.find("desc")
    column = Column(
        name, element.get("caption"), element.get("datatype"), element.get("role"), element.get("aggregation"),
        described.whole_text() if described is not None else "", element.get("default-format"),
        Place(path, element.line), has_aliases=element.find("aliases") is not None,
    )  # fmt: skip
    calculation = element.find("calculation")
    if calculation is not None:
        kind = calculation.get("class", "tableau")
        column.kind = {"categorical-bin": "group"}.get(kind, kind)
        column.formula = calculation.get("formula")
        column.of = _bare(calculation.get("column") or (column.formula if column.kind == "bin" else ""))
        column.size = calculation.get("size") or calculation.get("size-parameter")
        column.peg = calculation.get("peg") or "0"
        column.bins = tuple(
            Bin(each.get("value"), tuple(value.text.strip() for value in each.all("value")))
            for each in calculation.all("bin")
        )
    return column


def _selection(element: Element, path: str, name: str) -> Selection:
    """Return a set or filter. A list of members is read; anything that depends on rows or on the user is not."""
    place = Place(path, element.line)
    if element.get("class") == "quantitative":
        low, high = element.find("min"), element.find("max")
        bounds = (low.text.strip() if low is not None else "", high.text.strip() if high is not None else "")
        is_range = element.get("included-values", "in-range") == "in-range" and any(bounds)
        why_not = "" if is_range else "ktx does not support filters of this kind"
        return Selection(name, _without_derivation(name), None, False, place, why_not, bounds)
    outer = element.find("groupfilter")
    excludes = False
    if outer is not None and outer.get("function") == "except":
        inner = outer.all("groupfilter")
        if len(inner) == 2 and inner[0].get("function") == "level-members":
            outer, excludes = inner[1], True
    members, level = _members(outer)
    if members is None:
        why_not = "its members depend on the rows or on a formula"
        return Selection(name, "", None, False, place, why_not)
    return Selection(name, _without_derivation(level or name), members, excludes, place)


def _members(element: Element | None) -> tuple[tuple[str, ...] | None, str]:
    """Return the members that a filter lists, and the field that they belong to."""
    if element is None:
        return None, ""
    several = element.all("groupfilter") if element.get("function") == "union" else [element]
    if not several or any(each.get("function") != "member" or each.children for each in several):
        return None, ""
    levels = {_bare(each.get("level")) for each in several}
    if len(levels) != 1:
        return None, ""
    return tuple(each.get("member") for each in several), levels.pop()


def _without_derivation(name: str) -> str:
    """Return the field of a name such as `none:Region:nk`."""
    parts = name.split(":")
    return ":".join(parts[1:-1]) if len(parts) > 2 and parts[0] == "none" else name


def _parameters(element: Element, path: str) -> Iterator[Parameter]:
    for each in element.all("column"):
        calculation, listed = each.find("calculation"), each.find("members")
        value = each.get("value") or (calculation.get("formula") if calculation is not None else "")
        values = tuple(member.get("value") for member in listed.all("member")) if listed is not None else ()
        yield Parameter(
            _bare(each.get("name")), each.get("caption"), each.get("datatype"), value, values, Place(path, each.line)
        )
