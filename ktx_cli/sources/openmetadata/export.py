"""Reads entities of OpenMetadata: those of its API, the requests of its file sink, lineage, and CSV exports."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import ConfigError, plural
from ktx_cli.documents import Skipped
from ktx_cli.sources.data_catalogs.entities import (
    DOMAIN,
    TERM,
    CatalogColumn,
    CatalogTable,
    Concept,
    Entity,
    ForeignKey,
)
from ktx_cli.sources.data_catalogs.source import texts
from ktx_cli.sources.fetch import mappings

_PART: Final = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')
_MARKUP: Final = re.compile(r"<(?:br|/p|/li|/h\d)\s*/?>", re.IGNORECASE)
_TAG: Final = re.compile(r"<[^<>]+>")
_NO_DATABASE: Final = "default"
"""The database of services without databases, such as MySQL."""

Edge = tuple[Any, Any, list[Mapping[str, Any]]]
"""The two ends of lineage, each a UUID or a reference, and how columns are computed."""


@dataclass(slots=True)
class OpenmetadataReader:
    """Collects tables, terms and domains by their fully qualified names, and lineage between entities.

    `_names`: ID -> fully qualified name, because lineage refers to IDs. `_services`: service -> its type.
    """

    _tables: dict[str, CatalogTable] = field(default_factory=dict)
    _concepts: dict[str, Concept] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _services: dict[str, str] = field(default_factory=dict)
    _edges: list[Edge] = field(default_factory=list)
    _deleted: int = 0

    def add(self, value: Any) -> bool:
        """Implements `Reader`."""
        if not isinstance(value, Mapping):
            return False
        if isinstance(value.get("table"), Mapping) and "columns" in value["table"]:
            value = value["table"]
        name = _text(value, "fullyQualifiedName")
        if name and isinstance(value.get("id"), str):
            self._names[value["id"]] = name
        if value.get("deleted") is True:
            self._deleted += 1
        elif isinstance(value.get("columns"), list) and ("databaseSchema" in value or "tableType" in value):
            self._add_table(value)
        elif "glossary" in value and "name" in value:
            self._add_term(value)
        elif "domainType" in value:
            self._add_domain(value)
        elif "serviceType" in value and "name" in value:
            self._services[_text(value, "name")] = _text(value, "serviceType")
        elif not self._add_lineage(value):
            return bool(name)
        return True

    def _add_table(self, value: Mapping[str, Any]) -> None:
        schema = value.get("databaseSchema")
        outer = schema if isinstance(schema, str) else _name_of(schema)
        name = _text(value, "fullyQualifiedName") or (outer and f"{outer}.{_quoted(_text(value, 'name'))}")
        if not name or not _text(value, "name"):
            raise ConfigError("the table has no `fullyQualifiedName`, or no `name` and `databaseSchema`")
        table = self._table(name)
        table.platform = _text(value, "serviceType").casefold() or table.platform
        table.label, table.description = _text(value, "displayName"), _plain(_text(value, "description"))
        table.owners, table.domains = _owners(value), [f"{DOMAIN}:{each}" for each in _domains(value)]
        table.tags, table.terms = _tags(value)
        table.links = [url for url in (_text(value, "sourceUrl"),) if url]
        stated = mappings(value.get("columns"))
        columns = [_column(each) for each in stated]
        known = {each.name for each in columns}
        table.columns = [*columns, *(each for each in table.columns if each.name not in known)]
        table.nested = sum(len(mappings(each.get("children"))) for each in stated)
        table.primary_key = [_text(each, "name") for each in stated if _text(each, "constraint") == "PRIMARY_KEY"]
        for each in mappings(value.get("tableConstraints")):
            _add_constraint(table, each)

    def _table(self, name: str) -> CatalogTable:
        """Return the table with a fully qualified name, which may be new."""
        if name not in self._tables:
            service, *parts = parts_of(name)
            parts = parts[1:] if len(parts) > 2 and parts[0] == _NO_DATABASE else parts
            self._tables[name] = CatalogTable(name, "", parts or [service], service)
        return self._tables[name]

    def _add_term(self, value: Mapping[str, Any]) -> None:
        outer = _name_of(value.get("parent")) or _name_of(value.get("glossary"))
        name = _text(value, "fullyQualifiedName") or f"{outer}.{_quoted(_text(value, 'name'))}"
        related = [_name_of(each.get("term") or each) for each in mappings(value.get("relatedTerms"))]
        related = [*related, *texts(value.get("relatedTerms"))]
        status = _text(value, "entityStatus") or _text(value, "status")
        *path, last = parts_of(name) or [name]
        self._concepts[f"{TERM}:{name}"] = Concept(
            f"{TERM}:{name}",
            TERM,
            _text(value, "displayName") or last,
            path,
            _plain(_text(value, "description")),
            texts(value.get("synonyms")),
            [f"{TERM}:{each}" for each in related if each],
            _owners(value),
            "" if status == "Approved" else status,
            "yes" if status == "Deprecated" else "",
        )

    def _add_domain(self, value: Mapping[str, Any]) -> None:
        name = _text(value, "fullyQualifiedName") or _text(value, "name")
        if not name:
            raise ConfigError("the domain has no name")
        *path, last = parts_of(name)
        text = _plain(_text(value, "description"))
        shown = _text(value, "displayName") or last
        self._concepts[f"{DOMAIN}:{name}"] = Concept(
            f"{DOMAIN}:{name}", DOMAIN, shown, path, text, owners=_owners(value)
        )

    def _add_lineage(self, value: Mapping[str, Any]) -> bool:
        """Add edges: a request, the lineage of an entity, or a pair of names. Return whether the record is lineage."""
        edge = value.get("edge")
        if isinstance(edge, Mapping):
            details = edge.get("lineageDetails")
            columns = mappings(details.get("columnsLineage")) if isinstance(details, Mapping) else []
            self._edges.append((edge.get("fromEntity"), edge.get("toEntity"), columns))
            return True
        if isinstance(value.get("from"), Mapping) and isinstance(value.get("to"), Mapping):
            self._edges.append((value["from"], value["to"], []))
            return True
        found = False
        nodes = value.get("nodes")
        for node in [value.get("entity"), *(nodes.values() if isinstance(nodes, Mapping) else mappings(nodes))]:
            inner = (
                node.get("entity") if isinstance(node, Mapping) and isinstance(node.get("entity"), Mapping) else node
            )
            if isinstance(inner, Mapping) and isinstance(inner.get("id"), str) and _text(inner, "fullyQualifiedName"):
                self._names[inner["id"]] = _text(inner, "fullyQualifiedName")
        for key in ("upstreamEdges", "downstreamEdges"):
            edges = value.get(key)
            found = found or edges is not None
            for each in edges.values() if isinstance(edges, Mapping) else mappings(edges):
                details = each.get("lineageDetails") if isinstance(each, Mapping) else None
                inner = details if isinstance(details, Mapping) else each
                columns = mappings(inner.get("columnsLineage") or inner.get("columns"))
                self._edges.append((each.get("fromEntity"), each.get("toEntity"), columns))
        return found

    def add_rows(self, path: str, text: str) -> bool:
        """Implements `Reader`: glossaries, tables and columns as OpenMetadata exports them to CSV."""
        try:
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
        except csv.Error as error:
            raise ConfigError(f"it is not valid CSV ({error})") from error
        plain = [{str(key or "").rstrip("*"): (value or "") for key, value in row.items()} for row in rows if row]
        names = set(plain[0]) if plain else set()
        if "column.fullyQualifiedName" in names:
            for row in plain:
                inner = {key.removeprefix("column."): value for key, value in row.items() if isinstance(value, str)}
                self._add_column_row(inner)
        elif {"entityType", "fullyQualifiedName"} <= names:
            for row in plain:
                self._add_entity_row(row)
        elif {"parent", "name", "synonyms"} <= names:
            for row in plain:
                self._add_term_row(row, PurePosixPath(path).stem)
        else:
            return False
        return True

    def _add_term_row(self, row: Mapping[str, Any], glossary: str) -> None:
        self._add_term(
            {
                **{key: row.get(key, "") for key in ("name", "displayName", "description")},
                "glossary": glossary,
                "parent": row.get("parent") or "",
                "status": row.get("glossaryStatus") or row.get("status") or "",
                "synonyms": _listed(row, "synonyms"),
                "relatedTerms": [each.rpartition(":")[2] for each in _listed(row, "relatedTerms")],
                "owners": _owner_rows(row),
            }
        )

    def _add_entity_row(self, row: Mapping[str, Any]) -> None:
        kind, name = str(row.get("entityType") or ""), str(row.get("fullyQualifiedName") or "")
        if kind == "column":
            self._add_column_row(row)
        elif kind == "table" and name:
            table = self._table(name)
            table.label = table.label or _text(row, "displayName")
            table.description = table.description or _plain(_text(row, "description"))
            table.owners = table.owners or _owners({"owners": _owner_rows(row)})
            table.tags = table.tags or [*_listed(row, "tags"), *_listed(row, "tiers")]
            table.terms = table.terms or [f"{TERM}:{each}" for each in _listed(row, "glossaryTerms")]
            table.domains = table.domains or [f"{DOMAIN}:{each}" for each in _listed(row, "domains")]

    def _add_column_row(self, row: Mapping[str, Any]) -> None:
        parts = parts_of(_text(row, "fullyQualifiedName"))
        if len(parts) < 5:
            return
        table = self._table(".".join(map(_quoted, parts[:4])))
        if len(parts) > 5:
            table.nested += 1
            return
        column = next((each for each in table.columns if each.name == parts[4]), None)
        if column is None:
            column = CatalogColumn(parts[4])
            table.columns.append(column)
        column.label = column.label or _text(row, "displayName")
        column.description = column.description or _plain(_text(row, "description"))
        column.tags = column.tags or _listed(row, "tags")
        column.terms = column.terms or [f"{TERM}:{each}" for each in _listed(row, "glossaryTerms")]

    def entities(self) -> Iterator[Entity]:
        """Implements `Reader`."""
        for source, target, columns in self._edges:
            upstream, table = self._resolved(source), self._tables.get(self._resolved(target))
            if table is None:
                continue
            if upstream and upstream != table.id and upstream not in table.built_from:
                table.built_from.append(upstream)
            for each in columns:
                _add_column_lineage(table, each)
        for table in self._tables.values():
            table.platform = table.platform or self._services.get(table.instance, "").casefold()
            yield table
        yield from self._concepts.values()

    def omitted(self) -> Iterator[Skipped]:
        """Implements `Reader`: the entities that OpenMetadata marks as deleted."""
        if self._deleted:
            yield Skipped(
                "deleted entities", f"OpenMetadata marks {plural(self._deleted, 'entity', 'entities')} as deleted"
            )

    def _resolved(self, end: Any) -> str:
        """Return the fully qualified name of an end of lineage."""
        if isinstance(end, Mapping):
            name = _text(end, "fullyQualifiedName") or _text(end, "fqn")
            return name or self._names.get(_text(end, "id"), "")
        return self._names.get(end, end) if isinstance(end, str) else ""


def parts_of(name: str) -> list[str]:
    """Return the parts of a fully qualified name; a part in double quotes may contain dots."""
    found = _PART.findall(name)
    return [quoted.replace('""', '"') if quoted else plain for quoted, plain in found]


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if "." in part else part


def _name_of(reference: Any) -> str:
    """Return the fully qualified name in a reference, which may be the name itself."""
    if isinstance(reference, str):
        return reference.strip()
    if not isinstance(reference, Mapping):
        return ""
    return _text(reference, "fullyQualifiedName") or _text(reference, "name")


def _text(values: Mapping[str, Any], key: str) -> str:
    found = values.get(key)
    return found.strip() if isinstance(found, str) else ""


def _plain(text: str) -> str:
    """Return a description without markup; OpenMetadata's editor writes HTML."""
    if "<" not in text:
        return html.unescape(text)
    return html.unescape(_TAG.sub("", _MARKUP.sub("\n", text))).strip()


def _listed(row: Mapping[str, Any], key: str) -> list[str]:
    return [each.strip() for each in str(row.get(key) or "").split(";") if each.strip()]


def _owner_rows(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the owners in a CSV row: `user:ada;team:Finance`."""
    named = (each.rpartition(":")[2] for each in (*_listed(row, "owner"), *_listed(row, "owners")))
    return [{"name": each} for each in named]


def _owners(value: Mapping[str, Any]) -> list[str]:
    """Return the names of owners, without addresses."""
    owner = value.get("owner")
    several = [*mappings(value.get("owners")), *([owner] if isinstance(owner, Mapping) else [])]
    named = ((_text(each, "displayName"), _text(each, "name")) for each in several)
    shown = (label if label and "@" not in label else name.partition("@")[0] for label, name in named)
    return list(dict.fromkeys(each for each in shown if each))


def _domains(value: Mapping[str, Any]) -> list[str]:
    domains = value.get("domains")
    several = [*(domains if isinstance(domains, list) else []), value.get("domain")]
    return list(dict.fromkeys(name for each in several if (name := _name_of(each))))


def _tags(value: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the tags of an entity and the IDs of its terms. Suggested ones do not count."""
    tags: list[str] = []
    terms: list[str] = []
    for each in mappings(value.get("tags")):
        name = _text(each, "tagFQN")
        if name and _text(each, "state") != "Suggested":
            terms.append(f"{TERM}:{name}") if _text(each, "source") == "Glossary" else tags.append(name)
    return list(dict.fromkeys(tags)), list(dict.fromkeys(terms))


def _column(value: Mapping[str, Any]) -> CatalogColumn:
    name = _text(value, "name")
    if not name:
        raise ConfigError("a column of the table has no `name`")
    tags, terms = _tags(value)
    constraint = _text(value, "constraint")
    return CatalogColumn(
        name,
        _text(value, "displayName"),
        _plain(_text(value, "description")),
        tags,
        terms,
        not_null=constraint in ("NOT_NULL", "PRIMARY_KEY"),
        unique=constraint == "UNIQUE",
    )


def _add_constraint(table: CatalogTable, constraint: Mapping[str, Any]) -> None:
    columns, kind = texts(constraint.get("columns")), _text(constraint, "constraintType")
    if kind == "PRIMARY_KEY" and columns:
        table.primary_key = columns
    elif kind == "UNIQUE" and columns:
        table.unique.append(columns)
    elif kind == "FOREIGN_KEY":
        referred = [parts_of(each) for each in texts(constraint.get("referredColumns"))]
        tables = {".".join(map(_quoted, parts[:-1])) for parts in referred}
        if len(tables) == 1 and len(referred) == len(columns):
            table.foreign_keys.append(ForeignKey(columns, tables.pop(), [parts[-1] for parts in referred]))


def _add_column_lineage(table: CatalogTable, lineage: Mapping[str, Any]) -> None:
    """Add the columns that a column of a table is computed from."""
    target = parts_of(_text(lineage, "toColumn"))
    column = next((each for each in table.columns if target and each.name == target[-1]), None)
    if column is not None:
        sources = (".".join(parts_of(each)[1:]) for each in texts(lineage.get("fromColumns")))
        column.computed_from = list(dict.fromkeys((*column.computed_from, *(each for each in sources if each))))
