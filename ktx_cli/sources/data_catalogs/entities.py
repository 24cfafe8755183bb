"""The entities of a data catalog in the form of raw files: tables, glossary terms, domains."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Final

from ktx_cli.core import file_stem
from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.sources.fetch import render
from ktx_cli.sources.table_texts import Name
from ktx_cli.warehouses import DIALECTS

TABLES: Final = "tables/"
"""The folder of the tables' raw files."""

TERM: Final = "term"
DOMAIN: Final = "domain"


@dataclass(slots=True)
class CatalogColumn:
    """A column of a table. `terms`: IDs of glossary terms. `computed_from`: the columns that lineage names, as text."""

    name: str
    label: str = ""
    description: str = ""
    tags: list[str] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    not_null: bool = False
    unique: bool = False
    computed_from: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ForeignKey:
    """Columns of a table that refer to columns of another one. `table`: its ID."""

    columns: list[str]
    table: str
    references: list[str]


@dataclass(slots=True)
class CatalogTable:
    """A table or view. `id`: in the catalog. `parts`: its name, outermost first.

    `platform`: the kind of its database, in lower case; `instance`: the database's name in the catalog, may be empty.
    `domains`, `terms`: IDs of concepts. `built_from`: IDs of the tables that it is computed from. `deprecated`: the
    reason if it is deprecated. `nested`: the number of fields inside values, which are not columns.
    """

    id: str
    platform: str
    parts: list[str]
    instance: str = ""
    label: str = ""
    description: str = ""
    owners: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    deprecated: str = ""
    links: list[str] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    unique: list[list[str]] = field(default_factory=list)
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    built_from: list[str] = field(default_factory=list)
    columns: list[CatalogColumn] = field(default_factory=list)
    nested: int = 0

    kind: ClassVar[str] = "table"

    @property
    def shown(self) -> str:
        """The table's name in reports."""
        return ".".join(self.parts)

    @property
    def names(self) -> tuple[Name, ...]:
        """The names under which a database may have it, the likeliest first."""
        *outer, name = self.parts
        schema, database = (["", "", *outer])[-1], (["", "", *outer])[-2]
        return tuple(dict.fromkeys((Name(name, schema, database), Name(name, schema))))


@dataclass(slots=True)
class Concept:
    """A glossary term or a domain. `path`: the names of what contains it, outermost first. `related`: IDs of terms."""

    id: str
    kind: str
    name: str
    path: list[str] = field(default_factory=list)
    definition: str = ""
    synonyms: list[str] = field(default_factory=list)
    related: list[str] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    status: str = ""
    deprecated: str = ""

    @property
    def full_name(self) -> str:
        """Its name with the names of what contains it."""
        return ".".join((*self.path, self.name))


Entity = CatalogTable | Concept


def raw_files(entities: Iterable[Entity]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each entity's raw file, in the order of the entities' IDs."""
    taken: set[str] = set()
    for each in sorted(entities, key=lambda each: each.id):
        stem = path = _stem(each)
        number = 2
        while path.casefold() in taken:
            path, number = f"{stem}-{number}", number + 1
        taken.add(path.casefold())
        document = {"kind": each.kind, **_plain(each)}
        yield f"{path}.json", render(document)


def _stem(entity: Entity) -> str:
    if isinstance(entity, CatalogTable):
        return f"{TABLES}{file_stem(entity.instance or entity.platform or 'unknown')}/{file_stem(entity.shown)}"
    folder = {TERM: "glossary", DOMAIN: "domains"}[entity.kind]
    return f"{folder}/{file_stem('.'.join(entity.path) or 'root')}/{file_stem(entity.name)}"


def _plain(value: Any) -> Any:
    """Return a value as JSON, without empty fields of entities."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not is_dataclass(value):
        return value
    found = ((each.name, getattr(value, each.name)) for each in fields(value))
    return {name: _plain(content) for name, content in found if content}


def entity_in(content: bytes) -> Entity:
    """Return the entity in a raw file."""
    values: dict[str, Any] = json.loads(content)
    if values["kind"] != CatalogTable.kind:
        return Concept(**values)
    values.pop("kind")
    columns = [CatalogColumn(**each) for each in values.pop("columns", ())]
    keys = [ForeignKey(**each) for each in values.pop("foreign_keys", ())]
    return CatalogTable(**values, columns=columns, foreign_keys=keys)


@dataclass(frozen=True, slots=True)
class Entities:
    """The entities of a snapshot: raw file -> table or concept."""

    tables: Mapping[str, CatalogTable]
    concepts: Mapping[str, Concept]

    @classmethod
    def read(cls, contents: Iterable[tuple[str, bytes]]) -> Entities:
        """Return the entities in raw files, given as path and content."""
        tables: dict[str, CatalogTable] = {}
        concepts: dict[str, Concept] = {}
        for path, content in contents:
            entity = entity_in(content)
            if isinstance(entity, CatalogTable):
                tables[path] = entity
            else:
                concepts[path] = entity
        return cls(tables, concepts)

    def names(self) -> dict[str, str]:
        """Return ID -> full name of each concept."""
        return {each.id: each.full_name for each in self.concepts.values()}


def readable(id: str, names: Mapping[str, str]) -> str:
    """Return the name of a concept, or the readable part of the ID of an unknown one."""
    return names.get(id) or id.rpartition(":")[2]


_RESTRICTED: Final = frozenset(
    {"pii", "phi", "pci", "spi", "personal", "personaldata", "sensitive", "confidential", "restricted", "secret"}
)
_OPEN: Final = frozenset({"none", "public"})
_NEGATIONS: Final = frozenset({"non", "not", "no"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_restricting(name: str) -> bool:
    """Return whether a tag or term such as `PII.Sensitive` classifies columns as personal or restricted.

    `PII.None`, `NonSensitive` and the like do not.
    """
    words = [each.casefold() for each in _WORD.findall(name)]
    stated = [word for before, word in zip(["", *words], words, strict=False) if before not in _NEGATIONS]
    return not _OPEN & set(stated) and bool(_RESTRICTED & set(stated))


def restricted_columns(table: CatalogTable, names: Mapping[str, str], extra: Collection[str]) -> list[str]:
    """Return the columns whose tags or terms classify them as personal or restricted.

    `names`: as `Entities.names` returns them. `extra`: further tags and terms that restrict, in any case.
    """
    wanted = {each.casefold() for each in extra}

    def restricts(name: str) -> bool:
        return is_restricting(name) or name.casefold() in wanted

    return [
        each.name
        for each in table.columns
        if any(map(restricts, (*each.tags, *(readable(term, names) for term in each.terms))))
    ]


_DIALECTS: Final[Mapping[str, str]] = {
    **{name: name for name in DIALECTS},
    **dict.fromkeys(("mssql", "azuresql", "synapse"), "tsql"),
    **dict.fromkeys(("mariadb", "singlestore"), "mysql"),
    **dict.fromkeys(("postgresql", "greenplum", "cockroach", "cockroachdb", "timescale"), "postgres"),
    **dict.fromkeys(("unitycatalog", "unity-catalog"), "databricks"),
    **dict.fromkeys(("presto", "starburst"), "trino"),
}
"""The platform of a catalog, in lower case -> the dialect of connections to it."""


def databases_of(table: CatalogTable, mapping: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the connections or dialects of the databases that may have a table; none if no database can have it.

    `mapping`: platform or instance -> connection, or None to skip it.
    """
    folded = {name.casefold(): connection for name, connection in mapping.items()}
    for name in (table.instance.casefold(), table.platform):
        if name and name in folded:
            connection = folded[name]
            return () if connection is None else (connection,)
    dialect = _DIALECTS.get(table.platform)
    return () if dialect is None else (dialect,)


def declarations_of(
    tool: str, entities: Entities, mapping: Mapping[str, str | None], extra: Collection[str]
) -> Declarations:
    """Return the keys, foreign keys and lineage of tables, and the columns that are restricted.

    `mapping`, `extra`: see `databases_of` and `restricted_columns`. Tables of other platforms only carry lineage.
    """
    names = entities.names()
    tables: dict[str, DeclaredTable] = {}
    joins: dict[DeclaredJoin, None] = {}
    for each in entities.tables.values():
        databases = databases_of(each, mapping)
        name = each.names[0]
        keys = [tuple(key) for key in (each.primary_key, *each.unique) if key]
        keys += [(column.name,) for column in each.columns if column.unique]
        filled = [*each.primary_key, *(column.name for column in each.columns if column.not_null)]
        restricted = restricted_columns(each, names, extra)
        tables[each.id] = DeclaredTable(
            name.name,
            name.schema,
            keys=tuple(dict.fromkeys(keys)),
            filled=tuple(dict.fromkeys(filled)),
            built_from=tuple(dict.fromkeys(each.built_from)),
            virtual=not databases,
            restricted=tuple(dict.fromkeys(restricted)),
            databases=databases,
        )
        for key in each.foreign_keys:
            if len(key.columns) == len(key.references) and (each.id, key.columns) != (key.table, key.references):
                joins[DeclaredJoin(each.id, tuple(key.columns), key.table, tuple(key.references))] = None
    known = tuple(each for each in joins if each.parent in tables)
    return Declarations(tool, _stating(tables, known), known)


def _stating(tables: Mapping[str, DeclaredTable], joins: Sequence[DeclaredJoin]) -> dict[str, DeclaredTable]:
    """Return the tables with anything to declare, or that others refer to."""
    used = {id for table in tables.values() for id in table.built_from}
    used |= {id for join in joins for id in (join.child, join.parent)}
    return {
        id: table
        for id, table in tables.items()
        if id in used or table.keys or table.filled or table.built_from or table.restricted
    }
