"""Reads the records of DataHub's file sink: proposals of one aspect each, and older snapshots of many aspects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

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

_DATASET: Final = re.compile(r"urn:li:dataset:\(urn:li:dataPlatform:([^,]+),(.+),(\w+)\)")
_FIELD: Final = re.compile(r"urn:li:schemaField:\((urn:li:dataset:\(.+?\)),(.+)\)")
_VERSIONED: Final = re.compile(r"\[[^\]]*\]\.?")
"""A token of a field path in version 2: `[version=2.0].[type=struct].address` is the column `address`."""

_NODE: Final = "glossaryNode"
_READ: Final = frozenset(
    {
        *("dataset", "schemaField", "glossaryTerm", _NODE, "domain", "tag", "corpuser", "corpGroup", "dataJob"),
        "dataPlatformInstance",
    }
)
"""The kinds of entities with aspects that ktx reads."""

_ASPECTS: Final = frozenset(
    {
        *("datasetProperties", "editableDatasetProperties", "schemaMetadata", "editableSchemaMetadata", "ownership"),
        *("globalTags", "glossaryTerms", "domains", "upstreamLineage", "deprecation", "status", "institutionalMemory"),
        *("dataPlatformInstance", "glossaryTermInfo", "glossaryNodeInfo", "glossaryRelatedTerms", "domainProperties"),
        *("tagProperties", "corpUserInfo", "corpUserEditableInfo", "corpGroupInfo", "dataJobInputOutput"),
        "documentation",
    }
)
"""The aspects that ktx reads."""

Aspects = dict[str, Any]


@dataclass(slots=True)
class DatahubReader:
    """Collects aspects by entity. `environment`: that of the datasets to read.

    A later aspect of an entity replaces an earlier one, as in DataHub; a patch changes it.
    """

    environment: str
    _aspects: dict[str, Aspects] = field(default_factory=dict)

    def add(self, value: Any) -> bool:
        """Implements `Reader`."""
        if not isinstance(value, Mapping):
            return False
        if isinstance(value.get("proposedSnapshot"), Mapping | list):
            return self._add_snapshot(value["proposedSnapshot"])
        inner = value.get("proposal")
        proposal: Mapping[str, Any] = inner if isinstance(inner, Mapping) else value
        if "aspectName" not in proposal and "entityType" not in proposal:
            return False
        urn, name = proposal.get("entityUrn"), proposal.get("aspectName")
        if not isinstance(urn, str) or not urn.startswith("urn:li:"):
            raise ConfigError("it has no `entityUrn`")
        if not isinstance(name, str):
            raise ConfigError(f"it has no `aspectName` (entity `{urn}`)")
        if _kind_of(urn) in _READ and name in _ASPECTS:
            self._put(urn, name, str(proposal.get("changeType") or "UPSERT").upper(), _content(proposal, urn))
        return True

    def _add_snapshot(self, snapshot: Any) -> bool:
        """Add a snapshot: `{class: {urn, aspects: [{class: content}]}}`, or the pair of class and content."""
        inner = snapshot[1] if isinstance(snapshot, list) and len(snapshot) == 2 else _only_value(snapshot)
        if not isinstance(inner, Mapping) or not isinstance(inner.get("urn"), str):
            raise ConfigError("its `proposedSnapshot` has no `urn`")
        urn = inner["urn"]
        for each in mappings(inner.get("aspects")):
            for name, content in each.items():
                aspect = _aspect_of(name)
                if isinstance(content, Mapping) and _kind_of(urn) in _READ and aspect in _ASPECTS:
                    self._put(urn, aspect, "UPSERT", _without_unions(content))
        return True

    def _put(self, urn: str, name: str, change: str, content: Any) -> None:
        aspects = self._aspects.setdefault(urn, {})
        if change == "DELETE":
            aspects.pop(name, None)
        elif change == "PATCH":
            aspects[name] = _patched(aspects.get(name) or {}, content)
        elif isinstance(content, Mapping):
            aspects[name] = content
        else:
            raise ConfigError(f"its aspect `{name}` is not a mapping (entity `{urn}`)")

    def add_rows(self, path: str, text: str) -> bool:
        """Implements `Reader`: DataHub writes no CSV files."""
        return False

    def entities(self) -> Iterator[Entity]:
        """Implements `Reader`."""
        upstream = self._upstream_of_jobs()
        fields = self._aspects_of_fields()
        for urn, aspects in self._aspects.items():
            if _is_removed(aspects):
                continue
            found = _DATASET.fullmatch(urn)
            kind = _kind_of(urn)
            if found is not None and found[3] == self.environment:
                yield self._table(urn, found, aspects, fields.get(urn, {}), upstream.get(urn, []))
            elif kind == "glossaryTerm" and "glossaryTermInfo" in aspects:
                yield self._term(urn, aspects)
            elif kind == "domain" and "domainProperties" in aspects:
                yield self._domain(urn, aspects)

    def omitted(self) -> Iterator[Skipped]:
        """Implements `Reader`: the datasets of other environments, and those that DataHub marks as removed."""
        datasets = [(_DATASET.fullmatch(urn), aspects) for urn, aspects in self._aspects.items()]
        found = [(match[3], aspects) for match, aspects in datasets if match is not None]
        others = sorted({env for env, _ in found if env != self.environment})
        for env in others:
            count = sum(each == env for each, _ in found)
            yield Skipped(f"environment {env}", f"{plural(count, 'dataset')}: `environment` is {self.environment}")
        removed = sum(env == self.environment and _is_removed(aspects) for env, aspects in found)
        if removed:
            yield Skipped("removed datasets", f"{plural(removed, 'dataset')} with the status `removed` in DataHub")

    def _table(
        self, urn: str, found: re.Match[str], aspects: Aspects, of_fields: Mapping[str, Aspects], upstream: list[str]
    ) -> CatalogTable:
        platform = found[1].casefold()
        instance = _last(_text(_mapping(aspects, "dataPlatformInstance"), "instance").rstrip(")"), ",")
        name = unquote(found[2])
        if instance and name.casefold().startswith(f"{instance.casefold()}."):
            name = name[len(instance) + 1 :]
        schema, lineage = _mapping(aspects, "schemaMetadata"), _mapping(aspects, "upstreamLineage")
        edited = _mapping(aspects, "editableDatasetProperties")
        built = [_text(each, "dataset") for each in mappings(lineage.get("upstreams"))]
        deprecation = _mapping(aspects, "deprecation")
        table = CatalogTable(
            urn,
            platform,
            [part for part in name.split(".") if part] or [name],
            instance,
            description=_text(edited, "description") or _text(_mapping(aspects, "datasetProperties"), "description"),
            owners=self._owners(aspects),
            domains=texts(_mapping(aspects, "domains").get("domains")),
            tags=self._tags(aspects.get("globalTags")),
            terms=_terms(aspects.get("glossaryTerms")),
            deprecated=(_text(deprecation, "note") or "yes") if deprecation.get("deprecated") is True else "",
            links=[_text(each, "url") for each in mappings(_mapping(aspects, "institutionalMemory").get("elements"))],
            primary_key=[column_of(each) for each in texts(schema.get("primaryKeys"))],
            foreign_keys=list(_foreign_keys(schema)),
            built_from=[each for each in dict.fromkeys((*built, *upstream)) if each and each != urn],
        )
        table.columns = list(self._columns(schema, _mapping(aspects, "editableSchemaMetadata"), of_fields, table))
        _add_lineage(table, lineage)
        if not table.primary_key:
            keys = (each for each in mappings(schema.get("fields")) if each.get("isPartOfKey") is True)
            table.primary_key = [column_of(_text(each, "fieldPath")) for each in keys]
        return table

    def _columns(
        self, schema: Aspects, editable: Aspects, of_fields: Mapping[str, Aspects], table: CatalogTable
    ) -> Iterator[CatalogColumn]:
        edits = {
            column_of(_text(each, "fieldPath")): each for each in mappings(editable.get("editableSchemaFieldInfo"))
        }
        stated = {column_of(_text(each, "fieldPath")): each for each in mappings(schema.get("fields"))}
        for name in dict.fromkeys((*stated, *edits, *of_fields)):
            if not name or "." in name:
                table.nested += bool(name)
                continue
            own, edit, apart = stated.get(name, {}), edits.get(name, {}), of_fields.get(name, {})
            documents = mappings(_mapping(apart, "documentation").get("documentations"))
            written = next((_text(each, "documentation") for each in documents), "")
            each_aspects = (own, edit, apart)
            yield CatalogColumn(
                name,
                description=_text(edit, "description") or written or _text(own, "description"),
                tags=list(dict.fromkeys(tag for each in each_aspects for tag in self._tags(each.get("globalTags")))),
                terms=list(dict.fromkeys(term for each in each_aspects for term in _terms(each.get("glossaryTerms")))),
                not_null=own.get("nullable") is False,
            )

    def _term(self, urn: str, aspects: Aspects) -> Concept:
        info, related = _mapping(aspects, "glossaryTermInfo"), _mapping(aspects, "glossaryRelatedTerms")
        path = self._path(_text(info, "parentNode"), "glossaryNodeInfo", "parentNode")
        name = _text(info, "name") or urn.rpartition(":")[2].rpartition(".")[2]
        terms = (texts(related.get(key)) for key in ("isRelatedTerms", "hasRelatedTerms", "relatedTerms", "values"))
        deprecation = _mapping(aspects, "deprecation")
        return Concept(
            urn,
            TERM,
            name,
            path,
            _text(info, "definition"),
            related=list(dict.fromkeys(each for several in terms for each in several)),
            owners=self._owners(aspects),
            deprecated=(_text(deprecation, "note") or "yes") if deprecation.get("deprecated") is True else "",
        )

    def _domain(self, urn: str, aspects: Aspects) -> Concept:
        info = _mapping(aspects, "domainProperties")
        path = self._path(_text(info, "parentDomain"), "domainProperties", "parentDomain")
        name = _text(info, "name") or urn.rpartition(":")[2]
        return Concept(urn, DOMAIN, name, path, _text(info, "description"), owners=self._owners(aspects))

    def _path(self, urn: str, aspect: str, key: str) -> list[str]:
        """Return the names of the nodes that contain an entity, outermost first."""
        path: list[str] = []
        seen: set[str] = set()
        while urn and urn not in seen:
            seen.add(urn)
            info = _mapping(self._aspects.get(urn, {}), aspect)
            path.insert(0, _text(info, "name") or urn.rpartition(":")[2].rpartition(".")[2])
            urn = _text(info, key)
        return path

    def _owners(self, aspects: Aspects) -> list[str]:
        """Return the names of owners, without addresses."""
        owners = (_text(each, "owner") for each in mappings(_mapping(aspects, "ownership").get("owners")))
        return list(dict.fromkeys(self._person(each) for each in owners if each))

    def _person(self, urn: str) -> str:
        aspects = self._aspects.get(urn, {})
        for aspect in ("corpUserEditableInfo", "corpUserInfo", "corpGroupInfo"):
            name = _text(_mapping(aspects, aspect), "displayName")
            if name and "@" not in name:
                return name
        return urn.rpartition(":")[2].partition("@")[0]

    def _tags(self, aspect: Any) -> list[str]:
        """Return the names of tags."""
        urns = (_text(each, "tag") for each in mappings(aspect.get("tags"))) if isinstance(aspect, Mapping) else ()
        named = ((each, _mapping(self._aspects.get(each, {}), "tagProperties")) for each in urns if each)
        return list(dict.fromkeys(_text(info, "name") or unquote(urn.rpartition(":")[2]) for urn, info in named))

    def _aspects_of_fields(self) -> dict[str, dict[str, Aspects]]:
        """Return dataset -> column -> the aspects that are attached to the column itself."""
        found: dict[str, dict[str, Aspects]] = {}
        for urn, aspects in self._aspects.items():
            match = _FIELD.fullmatch(urn)
            if match is not None:
                found.setdefault(match[1], {})[column_of(match[2])] = aspects
        return found

    def _upstream_of_jobs(self) -> dict[str, list[str]]:
        """Return dataset -> the inputs of the jobs that write it."""
        found: dict[str, list[str]] = {}
        for aspects in self._aspects.values():
            edges = _mapping(aspects, "dataJobInputOutput")
            for output in texts(edges.get("outputDatasets")):
                found.setdefault(output, []).extend(texts(edges.get("inputDatasets")))
        return found


def column_of(field_path: str) -> str:
    """Return the name of a column from a field path or the URN of a field; a field inside a value contains a dot."""
    match = _FIELD.fullmatch(field_path)
    path = unquote(match[2]) if match is not None else field_path
    return _VERSIONED.sub("", path)


def _kind_of(urn: str) -> str:
    return urn.removeprefix("urn:li:").partition(":")[0]


def _aspect_of(name: str) -> str:
    """Return the name of an aspect from its class in a snapshot: `com.linkedin...common.Ownership`."""
    plain = name.rpartition(".")[2]
    return plain[:1].lower() + plain[1:]


def _content(proposal: Mapping[str, Any], urn: str) -> Any:
    """Return the content of a proposal's aspect, which may be JSON in a text."""
    aspect = proposal.get("aspect")
    if isinstance(aspect, Mapping) and "json" in aspect:
        return aspect["json"]
    if isinstance(aspect, Mapping) and isinstance(aspect.get("value"), str):
        try:
            return json.loads(aspect["value"])
        except (ValueError, RecursionError) as error:
            message = f"its aspect `{proposal.get('aspectName')}` is not valid JSON (entity `{urn}`)"
            raise ConfigError(message) from error
    return aspect


def _only_value(value: Any) -> Any:
    return next(iter(value.values())) if isinstance(value, Mapping) and len(value) == 1 else None


def _without_unions(value: Any) -> Any:
    """Return a value of a snapshot without the types of optional values: `{"string": "x"}` is `x`."""
    if isinstance(value, list):
        return [_without_unions(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    kind = next(iter(value)) if len(value) == 1 else ""
    if kind in ("string", "array", "boolean", "map") or kind.startswith("com.linkedin."):
        return _without_unions(_only_value(value))
    return {key: _without_unions(each) for key, each in value.items()}


_LISTS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "owners": ("owners", lambda each: _text(each, "owner")),
    "tags": ("tags", lambda each: _text(each, "tag")),
    "terms": ("terms", lambda each: _text(each, "urn")),
    "upstreams": ("upstreams", lambda each: _text(each, "dataset")),
}
"""Lists that patches address by the identity of an item: `/upstreams/<urn>`."""


def _patched(before: Mapping[str, Any], patches: Any) -> dict[str, Any]:
    """Return an aspect after additions and removals of fields, and of items of lists with an identity."""
    found = dict(before)
    inner = patches.get("patch") if isinstance(patches, Mapping) else patches
    for each in mappings(inner):
        steps = [_unescaped(step) for step in _text(each, "path").strip("/").split("/")]
        removes = _text(each, "op").lower() == "remove"
        if len(steps) == 1 and steps[0]:
            found.pop(steps[0], None)
            if not removes:
                found[steps[0]] = each.get("value")
        elif len(steps) >= 2 and steps[0] in _LISTS:
            key, identity = _LISTS[steps[0]]
            items = [item for item in mappings(found.get(key)) if identity(item) != steps[1]]
            found[key] = items if removes else [*items, each.get("value")]
    return found


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _mapping(aspects: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = aspects.get(name)
    return dict(found) if isinstance(found, Mapping) else {}


def _text(values: Mapping[str, Any], key: str) -> str:
    found = values.get(key)
    return found.strip() if isinstance(found, str) else ""


def _last(text: str, mark: str) -> str:
    return text.rpartition(mark)[2] if mark in text else ""


def _terms(aspect: Any) -> list[str]:
    urns = (_text(each, "urn") for each in mappings(aspect.get("terms"))) if isinstance(aspect, Mapping) else ()
    return list(dict.fromkeys(each for each in urns if each))


def _is_removed(aspects: Aspects) -> bool:
    return _mapping(aspects, "status").get("removed") is True


def _foreign_keys(schema: Aspects) -> Iterable[ForeignKey]:
    for each in mappings(schema.get("foreignKeys")):
        columns = [column_of(path) for path in texts(each.get("sourceFields"))]
        references = [column_of(path) for path in texts(each.get("foreignFields"))]
        table = _text(each, "foreignDataset")
        if columns and table:
            yield ForeignKey(columns, table, references)


def _add_lineage(table: CatalogTable, lineage: Aspects) -> None:
    """Add the columns that the columns of a table are computed from."""
    columns = {each.name.casefold(): each for each in table.columns}
    for each in mappings(lineage.get("fineGrainedLineages")):
        sources = [shown for urn in texts(each.get("upstreams")) if (shown := _shown_field(urn))]
        for urn in texts(each.get("downstreams")):
            column = columns.get(column_of(urn).casefold())
            if column is not None:
                column.computed_from = list(dict.fromkeys((*column.computed_from, *sources)))


def _shown_field(urn: str) -> str:
    """Return the name of a column and its table in texts."""
    match = _FIELD.fullmatch(urn)
    dataset = None if match is None else _DATASET.fullmatch(match[1])
    return "" if dataset is None else f"{unquote(dataset[2])}.{column_of(urn)}"
