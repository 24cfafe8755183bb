"""Data contracts as written: their tables, columns, keys and relationships, and what they declare to scans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import ConfigError, yaml
from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.semantic import Item, Report, SourceFile, table_parts
from ktx_cli.sources.table_texts import Name

TOOL: Final = "odcs"
KIND: Final = "DataContract"
RETIRED: Final = "its status is retired"
_VERSIONS: Final = re.compile(r"v?(?:3(?:\.\d+)*|2\.2(?:\.\d+)*)(?:[-+].*)?")
_OPEN: Final = frozenset({"public", "open", "internal", "unclassified", "general", "none", "non-sensitive", "low"})
"""Classifications of columns that everybody in an organization may see."""
_STATUSES: Final = {"active": 0, "current": 0, "deprecated": 1, "draft": 2, "proposed": 2}


@dataclass(frozen=True, slots=True)
class Property:
    """A column. `name`: in the contract; `column`: in the database; `id`: for references, may be empty."""

    item: Item
    name: str
    column: str
    id: str

    @property
    def is_key(self) -> bool:
        """Whether the column belongs to the primary key."""
        return any(self.item.flag(key) for key in ("primaryKey", "isPrimaryKey", "isPrimary"))

    @property
    def is_unique(self) -> bool:
        """Whether no value repeats."""
        return self.item.flag("unique") or self.item.flag("isUnique") or "unique" in rules_of(self.item)

    @property
    def is_restricted(self) -> bool:
        """Whether it is classified as not for everybody in an organization."""
        return (self.item.text("classification") or "none").casefold() not in _OPEN

    @property
    def is_filled(self) -> bool:
        """Whether there is no NULL."""
        nullable = (self.item.text("isNullable") or "").lower()
        return self.item.flag("required") or nullable in ("false", "no") or "not_null" in rules_of(self.item)


@dataclass(frozen=True, slots=True)
class Object:
    """A table in a contract.

    `names`: the names under which a database may have it, the likeliest first. `schemas`: the schemas that it may be
    in, with an empty text if the contract states none.
    """

    item: Item
    name: str
    id: str
    names: tuple[Name, ...]
    schemas: tuple[str, ...]
    properties: tuple[Property, ...]

    @property
    def key(self) -> tuple[Property, ...]:
        """The columns of the primary key, in the order that the contract states."""
        columns = [each for each in self.properties if each.is_key]
        return tuple(sorted(columns, key=lambda each: _position(each.item)))

    def find(self, name: str) -> Property | None:
        """Return the column with an ID or a name."""
        for attribute in ("id", "name", "column"):
            found = next((each for each in self.properties if getattr(each, attribute) == name), None)
            if found is not None:
                return found
        return None


@dataclass(frozen=True, slots=True)
class Contract:
    """A data contract."""

    path: str
    item: Item
    objects: tuple[Object, ...]

    @property
    def title(self) -> str:
        """The name for people."""
        item = self.item
        return next(
            (found for key in ("name", "dataProduct", "quantumName", "id", "uuid") if (found := item.text(key))),
            self.path,
        )

    def find(self, name: str) -> Object | None:
        """Return the table with an ID or a name."""
        for attribute in ("id", "name"):
            found = next((each for each in self.objects if getattr(each, attribute) == name), None)
            if found is not None:
                return found
        return next((each for each in self.objects if any(own.name == name for own in each.names)), None)


@dataclass(frozen=True, slots=True)
class Relationship:
    """A foreign key: columns of a table of the contract that refer to columns of another table."""

    item: Item
    child: Object
    child_columns: tuple[str, ...]
    contract: Contract
    parent: Object
    parent_columns: tuple[str, ...]


def why_no_contract(document: Any) -> str | None:
    """Return why a YAML document is not a contract that ktx reads, or None if it is one."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if kind is None:
        return f"it is not a data contract: it has no `kind: {KIND}`"
    if str(kind) != KIND:
        return f"it is not a data contract: its `kind` is not `{KIND}`"
    version = str(document.get("apiVersion"))
    if not _VERSIONS.fullmatch(version):
        return "its `apiVersion` is not v3 or v2.2 of the Open Data Contract Standard"
    return None


def read_contracts(texts: Mapping[str, str], report: Report) -> list[Contract]:
    """Return the contracts in force, the most binding first: by status, then the newest version, then the path.

    A file that cannot be read is reported, and so is a retired contract.
    """
    found: list[Contract] = []
    for path, text in sorted(texts.items()):
        content = text.encode("utf-8", "replace")
        file = SourceFile(path, content, None)
        with report.dropping(f"file {path}", file.place()):
            document = yaml.load(content, where=path)
            why = why_no_contract(document)
            if why is not None:
                raise ConfigError(why)
            item = Item(document, SourceFile(path, content, document).place)
            contract = Contract(path, item, tuple(_objects(item)))
            if (item.text("status") or "").lower() == "retired":
                report.dropped(f"contract `{contract.title}`", RETIRED, item.at("status"))
            else:
                found.append(contract)
    return sorted(found, key=_rank)


def _rank(contract: Contract) -> tuple[int, tuple[int, ...], str]:
    status = _STATUSES.get((contract.item.text("status") or "active").lower(), 1)
    numbers = [int(each) for each in re.findall(r"\d{1,9}", contract.item.text("version") or "")[:3]]
    return status, tuple(-each for each in (*numbers, 0, 0, 0)[:3]), contract.path


def _objects(item: Item) -> Iterator[Object]:
    places = tuple(dict.fromkeys(_places(item)))
    for each in (*item.items("schema"), *item.items("dataset")):
        name = each.text("name") or each.text("table") or ""
        physical = each.text("physicalName") or name
        if physical:
            properties = tuple(_properties(each))
            names, schemas = _names(physical, places)
            yield Object(each, name or physical, each.text("id") or "", names, schemas, properties)


def _properties(item: Item) -> Iterator[Property]:
    for each in (*item.items("properties"), *item.items("columns")):
        name = each.text("name") or each.text("column") or ""
        column = each.text("physicalName") or name
        if column:
            yield Property(each, name or column, column, each.text("id") or "")


def _places(item: Item) -> Iterator[tuple[str, str]]:
    """Yield (schema, database) of each server, production first. An unknown part is empty."""
    servers = item.items("servers")
    for server in sorted(servers, key=lambda each: not (each.text("environment") or "").lower().startswith("prod")):
        schema = server.text("schema") or server.text("dataset") or ""
        database = server.text("database") or server.text("project") or server.text("catalog") or ""
        yield schema, database
    if not servers:
        whole = item.text("database") or ""
        database, _, schema = whole.rpartition(".") if "." in whole else (whole, "", "")
        yield schema or item.text("schema") or "", database


def _names(physical: str, places: Iterable[tuple[str, str]]) -> tuple[tuple[Name, ...], tuple[str, ...]]:
    """Return the names of a table and its schemas; those in the name itself count more than those of the servers.

    A server without a schema may be one whose databases are what other servers call schemas.
    """
    try:
        *outer, name = table_parts(physical)
    except ConfigError:  # The name of a topic or file, which no database has.
        *outer, name = (physical,)
    own_schema = outer[-1] if outer else ""
    own_database = outer[-2] if len(outer) > 1 else ""
    stated = [(own_schema or schema, own_database or database) for schema, database in places]
    stated = stated or [(own_schema, own_database)]
    found: list[Name] = []
    for schema, database in stated:
        found += [Name(name, schema, database)] if schema or not database else [Name(name, database)]
    found += [Name(name, schema, "" if schema else database) for schema, database in stated]
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(schema for schema, _ in stated))


def _position(item: Item) -> float:
    position = item.number("primaryKeyPosition")
    return position if position is not None and position > 0 else float("inf")


_RULES: Final = {
    "nullvalues": "not_null",
    "nullcheck": "not_null",
    "duplicatevalues": "unique",
    "duplicatecount": "unique",
    "uniquecheck": "unique",
}


def rules_of(item: Item) -> dict[str, int]:
    """Return the quality rules of a column that allow no violation: `not_null` or `unique` -> index among its rules."""
    found: dict[str, int] = {}
    for index, each in enumerate(item.listed("quality")):
        rule = _RULES.get(metric_of(each))
        if rule is not None and allows_none(each):
            found.setdefault(rule, index)
    return found


def metric_of(rule: Any) -> str:
    """Return the metric of a quality rule in lower case, or an empty text."""
    if not isinstance(rule, Mapping) or str(rule.get("type", "library")) != "library":
        return ""
    return str(rule.get("metric") or rule.get("rule") or "").lower()


def allows_none(rule: Mapping[Any, Any]) -> bool:
    """Return whether a quality rule allows no violation."""
    value = rule.get("mustBe")
    return type(value) in (int, float) and value == 0


def relationships_of(contract: Contract, contracts: Iterable[Contract], report: Report) -> Iterator[Relationship]:
    """Yield the foreign keys of a contract; those without both ends are reported."""
    by_path = {each.path: each for each in contracts}
    for table in contract.objects:
        for item in table.item.items("relationships"):
            yield from _relationship(contract, table, None, item, by_path, report)
        for column in table.properties:
            for item in column.item.items("relationships"):
                yield from _relationship(contract, table, column, item, by_path, report)


def _relationship(
    contract: Contract,
    table: Object,
    column: Property | None,
    item: Item,
    by_path: Mapping[str, Contract],
    report: Report,
) -> Iterator[Relationship]:
    owner = f"{table.name}.{column.name}" if column else table.name
    what = f"relationship of `{owner}`"
    kind = item.text("type") or "foreignKey"
    if kind != "foreignKey":
        report.dropped(what, f"ktx does not know relationships of the type `{kind}`", item.place)
        return
    child: tuple[Contract, Object, tuple[str, ...]] | None
    child = (contract, table, (column.column,)) if column else _end(item.words("from"), contract, by_path)
    parent = _end(item.words("to"), contract, by_path)
    if child is None or parent is None:
        side = "`from`" if child is None else "`to`"
        report.dropped(what, f"its {side} names no columns of one table in these contracts", item.place)
    elif len(child[2]) != len(parent[2]):
        report.dropped(what, "`from` and `to` name different numbers of columns", item.place)
    elif (child[0], child[1].name, child[2]) == (parent[0], parent[1].name, parent[2]):
        report.dropped(what, "it refers to its own columns", item.place)
    else:
        yield Relationship(item, child[1], child[2], parent[0], parent[1], parent[2])


def _end(
    references: list[str], contract: Contract, by_path: Mapping[str, Contract]
) -> tuple[Contract, Object, tuple[str, ...]] | None:
    """Return the contract, the table and the columns that references name, or None if they are not in one table."""
    found = [_resolved(each, contract, by_path) for each in references]
    known = [each for each in found if each is not None]
    if not known or len(known) != len(found):
        return None
    owner, table, _ = known[0]
    if any(each[0] is not owner or each[1] is not table for each in known):
        return None
    return owner, table, tuple(each[2].column for each in known)


def _resolved(
    reference: str, contract: Contract, by_path: Mapping[str, Contract]
) -> tuple[Contract, Object, Property] | None:
    """Return the column of `table.column`, `schema/ID/properties/ID`, or either of them after `file.yaml#`."""
    file, mark, inner = reference.rpartition("#")
    owner: Contract | None = contract
    if mark and file:
        folder = PurePosixPath(contract.path).parent
        owner = by_path.get(_joined(folder, file))
    if owner is None:
        return None
    steps = inner.strip("/").split("/")
    if len(steps) == 4 and (steps[0], steps[2]) == ("schema", "properties"):
        table = owner.find(steps[1])
        column = table.find(steps[3]) if table is not None else None
        return None if table is None or column is None else (owner, table, column)
    for table in owner.objects:
        column = table.find(inner.removeprefix(f"{table.name}.")) if inner.startswith(f"{table.name}.") else None
        if column is not None:
            return owner, table, column
    return None


def _joined(folder: PurePosixPath, file: str) -> str:
    """Return the path of a file relative to a folder, without `.` and `..`."""
    parts: list[str] = []
    for each in (folder / file).parts:
        if each == "..":
            del parts[-1:]
        else:
            parts.append(each)
    return "/".join(parts)


def declarations_of(texts: Mapping[str, str]) -> Declarations:
    """Return the keys of tables, their columns without NULL, those that are restricted, and the foreign keys.

    The ID of a table is the path of its contract, its name there and its schema. A contract with several servers
    declares its tables in the schema of each.
    """
    contracts = read_contracts(texts, Report())
    tables: dict[str, DeclaredTable] = {}
    joins: dict[DeclaredJoin, None] = {}
    for contract in contracts:
        for each in contract.objects:
            for schema, id in _ids(contract, each):
                tables.setdefault(id, _table(each, schema))
    for contract in contracts:
        for found in relationships_of(contract, contracts, Report()):
            parents = dict(_ids(found.contract, found.parent))
            for schema, child in _ids(contract, found.child):
                parent = parents.get(schema) or next(iter(parents.values()))
                if (child, found.child_columns) != (parent, found.parent_columns):
                    joins[DeclaredJoin(child, found.child_columns, parent, found.parent_columns)] = None
    return Declarations(TOOL, tables, tuple(joins))


def _ids(contract: Contract, table: Object) -> Iterator[tuple[str, str]]:
    """Yield the schemas that a table may be in, each with the ID of the table there."""
    for schema in table.schemas:
        yield schema, f"{contract.path}:{table.name}" + (f"@{schema}" if schema else "")


def _table(table: Object, schema: str) -> DeclaredTable:
    primary = tuple(each.column for each in table.key)
    unique = [(each.column,) for each in table.properties if each.is_unique]
    filled = (each.column for each in table.properties if each.is_filled or each.is_key)
    keys = dict.fromkeys([*([primary] if primary else []), *unique])
    restricted = tuple(dict.fromkeys(each.column for each in table.properties if each.is_restricted))
    name = table.names[0].name
    return DeclaredTable(name, schema, keys=tuple(keys), filled=tuple(dict.fromkeys(filled)), restricted=restricted)
