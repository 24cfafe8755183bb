"""The references of a page: `refs`, `[[pages]]`, `sl_refs`, and inline code that names sources, tables and entities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from ktx_cli.core import Command, Hint, did_you_mean, listing
from ktx_cli.semantic import Model, Source, Visibility
from ktx_cli.wiki.page import Page, body_line, field_line
from ktx_cli.wiki.text import inline_code, without, without_fences


class Kind(StrEnum):
    """What a reference names.

    `page`: the key of a page. `source`: a source of the semantic layer, or something in one (`orders.revenue`).
    `table`: a table by its name in the database. `measure`, `segment`, `column`: one of a named source
    (`measure:orders.revenue`), or of any source (`measure:revenue`). `entity`: what may be a column, a measure or a
    segment of a source, or no reference at all.
    """

    PAGE = "page"
    SOURCE = "source"
    TABLE = "table"
    MEASURE = "measure"
    SEGMENT = "segment"
    COLUMN = "column"
    ENTITY = "entity"


MEMBERS: Final = frozenset({Kind.MEASURE, Kind.SEGMENT, Kind.COLUMN})
"""The kinds of entities in a source."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference in a page: `name` without the connection, `written` as on the page.

    `field`: the list of the front matter that contains it, None in the body. `at`: its index in that list, or its
    character offset in the body. `binding`: whether it is an error if nothing has that name.
    """

    kind: Kind
    name: str
    written: str
    connection: str | None = None
    field: str | None = None
    at: int = 0
    binding: bool = True


_LINK: Final = re.compile(r"(?<!\\)\[\[([A-Za-z0-9][A-Za-z0-9_-]*)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_CONNECTION: Final = r"(?:([A-Za-z0-9][\w-]*)/)?"
_NAMED: Final = re.compile(rf"{_CONNECTION}(source|table):{_CONNECTION}([\w$#@\"][\w$#@\".-]*)")
_MEMBER: Final = re.compile(rf"{_CONNECTION}(measure|segment|column):{_CONNECTION}([^\W\d][\w$#@-]*(?:\.[\w$#@\"-]+)*)")
_ENTITY: Final = re.compile(rf"{_CONNECTION}([^\W\d][\w$-]*(?:\.[^\W\d][\w$-]*){{0,2}}\.[^\W\d][\w$]*)")
_FILE: Final = re.compile(
    r".*\.(?:avro|bak|cfg|conf|csv|db|docx?|duckdb|env|gz|html?|ini|ipynb|java|jinja2?|jpe?g|js|json[ld5]?|lkml|lock|log|markdown|md"
    r"|ndjson|orc|parquet|pdf|png|pptx?|ps1|py|rb|rst|sh|sql|sqlite|svg|tar|tf|toml|ts|tsv|txt|xlsx?|xml|ya?ml|zip"
    r"|com|org|edu|gov|io|dev|ai|de|fr|uk|eu|ch|nl|es|example|invalid)",
    re.IGNORECASE,
)
"""`orders.sql` is a file and `orders.com` a domain, unless the source has such a column."""


def references(page: Page) -> tuple[Reference, ...]:
    """Return all references in a page, starting with those in the front matter.

    In the body: `[[pages]]` outside code; in inline code outside fences `source:NAME`, `table:REF`, `measure:NAME`,
    `segment:NAME`, `column:NAME` and dotted names, each optionally prefixed with `connection/`. Wildcards, placeholders
    and SQL are not references.
    """
    return (*_front(page), *_body(page.body))


def line_of(page: Page, reference: Reference) -> int:
    """Return a reference's line in the page's file."""
    if reference.field is None:
        return body_line(page) + page.body.count("\n", 0, reference.at)
    return field_line(page, reference.field, reference.at)


def read_sl_ref(text: str) -> tuple[str | None, str]:
    """Return (connection, name) of `[connection/]source[.entity]`."""
    connection, slash, name = text.partition("/")
    return (connection, name) if slash else (None, text)


def _front(page: Page) -> Iterator[Reference]:
    for index, text in _items(page, "refs"):
        yield Reference(Kind.PAGE, text, text, field="refs", at=index)
    for index, text in _items(page, "sl_refs"):
        connection, name = read_sl_ref(text)
        yield Reference(Kind.SOURCE, name, text, connection, "sl_refs", index)


def _items(page: Page, name: str) -> Iterator[tuple[int, str]]:
    found = page.fields.get(name)
    items = found if isinstance(found, list) else [found]
    yield from ((index, item.strip()) for index, item in enumerate(items) if isinstance(item, str) and item.strip())


def _body(body: str) -> Iterator[Reference]:
    text = without_fences(body)
    spans = list(inline_code(text))
    for span in spans:
        found = _coded(span.text, span.start)
        if found is not None:
            yield found
    if "[[" in body:
        for link in _LINK.finditer(without(text, spans)):
            yield Reference(Kind.PAGE, link[1], link[0], at=link.start(), binding=_SLUG.fullmatch(link[1]) is not None)


def _coded(code: str, at: int) -> Reference | None:
    """Return the reference in inline code."""
    named = _NAMED.fullmatch(code) or _MEMBER.fullmatch(code)
    if named is not None:
        return Reference(Kind(named[2]), named[4], code, named[1] or named[3], at=at)
    entity = _ENTITY.fullmatch(code)
    if entity is None:
        return None
    return Reference(Kind.ENTITY, entity[2], code, entity[1], at=at, binding=_FILE.fullmatch(code) is None)


_MOST_COMPARED: Final = 500
"""Maximum number of names that a missing name is compared with."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a reference is broken. `names`: suggestions from the source, if the source exists."""

    code: str
    message: str
    hint: str
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Resolver:
    """Looks up references in the semantic layers of a project, by connection.

    A source that is missing from its model because its file has errors counts as existing, with any content: the check
    of the semantic layer already reports it.
    """

    models: Mapping[str, Model]
    _known: dict[tuple[Kind, str | None, str], Missing | None] = field(default_factory=dict, init=False)
    _broken: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _tables: dict[str, Mapping[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict, init=False)

    def missing(self, reference: Reference) -> Missing | None:
        """Return why a reference to the semantic layer is broken, None if it is valid or not a reference."""
        if reference.kind is Kind.PAGE or not reference.binding:
            return None
        what = (reference.kind, reference.connection, reference.name)
        if what not in self._known:
            self._known[what] = self._missing(reference)
        return self._known[what]

    def is_unknown(self, reference: Reference) -> bool:
        """Return whether dotted inline code neither is nor begins with a semantic layer name.

        What begins with a column may be a path into its JSON.
        """
        if reference.kind is not Kind.ENTITY or not reference.binding:
            return False
        owner, first = reference.name.rpartition(".")[0], reference.name.partition(".")[0]
        everything = self._everything(replace(reference, connection=None))
        return not (
            self._is_table(reference)
            or any(self._owners(model, each) for model in self.models.values() for each in (owner, first))
            or any(self._has(model, source, first) for model, source in everything)
        )

    def _missing(self, reference: Reference) -> Missing | None:
        if reference.connection is not None and reference.connection not in self.models:
            return None if reference.kind is Kind.ENTITY else self._no_connection(reference)
        if reference.kind is Kind.ENTITY:
            return self._wrong_entity(reference)
        if reference.kind in MEMBERS:
            return self._wrong_member(reference)
        if reference.kind is Kind.TABLE and self._is_table(reference):
            return None
        return self._missing_source(reference)

    def _models(self, reference: Reference) -> Iterator[Model]:
        for connection, model in self.models.items():
            if reference.connection in (None, connection):
                yield model

    def _missing_source(self, reference: Reference) -> Missing | None:
        name = reference.name
        if any(self._has_source(model, name) for model in self._models(reference)):
            return None
        found = [
            (model, source, entity) for model in self._models(reference) for source, entity in self._cut(model, name)
        ]
        if any(self._has(model, source, entity) for model, source, entity in found):
            return None
        if found:
            return _no_entity(found[0][0], found[0][1], found[0][2])
        return self._no_source(reference)

    def _wrong_entity(self, reference: Reference) -> Missing | None:
        owner, _, entity = reference.name.rpartition(".")
        holders = self._holders(reference, owner)
        if not holders or any(self._has(*holder, entity) for holder in holders) or self._is_table(reference):
            return None
        return _no_entity(*holders[0], entity)

    def _wrong_member(self, reference: Reference) -> Missing | None:
        owner, _, member = reference.name.rpartition(".")
        holders = self._holders(reference, owner) if owner else list(self._everything(reference))
        if not holders and owner:
            return self._no_source(replace(reference, kind=Kind.SOURCE, name=owner))
        if any(self._has(*holder, member, reference.kind) for holder in holders):
            return None
        return _no_entity(*holders[0], member, reference.kind) if owner else _no_member(reference, holders)

    def _holders(self, reference: Reference, owner: str) -> list[tuple[Model, str]]:
        """Return the sources with a name, or those that read the table with that name."""
        return [(model, source) for model in self._models(reference) for source in self._owners(model, owner)]

    def _everything(self, reference: Reference) -> Iterator[tuple[Model, str]]:
        for model in self._models(reference):
            yield from ((model, name) for name in sorted({*model.sources, *self._broken_of(model)}))

    def _owners(self, model: Model, name: str) -> tuple[str, ...]:
        if self._has_source(model, name):
            return (name,)
        if name not in (name.lower(), name.upper()):  # `Account.Name` is more likely a class of some program
            return ()
        return self._tables_of(model).get(_table_parts(name), ())

    def _cut(self, model: Model, name: str) -> Iterator[tuple[str, str]]:
        """Yield (source, entity) for every interpretation of a dotted name that begins with a source of the model."""
        place = name.rfind(".")
        while place > 0:
            if self._has_source(model, name[:place]):
                yield name[:place], name[place + 1 :]
            place = name.rfind(".", 0, place)

    def _has_source(self, model: Model, name: str) -> bool:
        return name in model.sources or name in self._broken_of(model)

    def _has(self, model: Model, name: str, entity: str, kind: Kind | None = None) -> bool:
        return name in self._broken_of(model) or (kind or Kind.ENTITY) in _kinds_of(model.sources[name], entity)

    def _broken_of(self, model: Model) -> frozenset[str]:
        if model.connection not in self._broken:
            errors = (each.location.object for each in model.problems if each.severity == "error")
            self._broken[model.connection] = frozenset(name for name in errors if name is not None)
        return self._broken[model.connection]

    def _is_table(self, reference: Reference) -> bool:
        """Return whether a source reads a table whose name ends like the reference, ignoring case."""
        parts = _table_parts(reference.name)
        return any(parts in self._tables_of(model) for model in self._models(reference))

    def _tables_of(self, model: Model) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        """Return table name suffix -> the sources that read a table with that suffix."""
        if model.connection not in self._tables:
            found: dict[tuple[str, ...], tuple[str, ...]] = {}
            for source in model.sources.values():
                parts = tuple(part.casefold() for part in source.table or ())
                for ending in (parts[place:] for place in range(len(parts))):
                    found[ending] = (*found.get(ending, ()), source.name)
            self._tables[model.connection] = found
        return self._tables[model.connection]

    def _no_connection(self, reference: Reference) -> Missing:
        near = did_you_mean(reference.connection or "", self.models)
        known = (
            f"connections: {listing(sorted(self.models))}"
            if self.models
            else Hint("no connection has a semantic layer yet: {}", Command("ingest"))
        )
        return Missing(
            "dangling_connection",
            f"the connection `{reference.connection}` has no semantic layer",
            f"did you mean `{near}`?" if near else known,
        )

    def _no_source(self, reference: Reference) -> Missing:
        what = "table" if reference.kind is Kind.TABLE else "source"
        near = self._near(reference) or self._near(replace(reference, name=reference.name.partition(".")[0]))
        hint = f"did you mean `{near}`?" if near else Hint("{} lists the sources", Command("sl", "list"))
        return Missing(f"dangling_{what}", f"the semantic layer has no {what} `{reference.name}`", hint)

    def _near(self, reference: Reference) -> str | None:
        sources = (each for model in self._models(reference) for each in model.sources.values())
        names = sorted({each.name for each in sources if each.visibility is not Visibility.HIDDEN})
        return did_you_mean(reference.name, _comparable(reference.name, names))


def _table_parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip('"').casefold() for part in name.split("."))


def _kinds_of(source: Source, name: str) -> list[Kind]:
    """Return the kinds of a source's entities with a name, followed by `Kind.ENTITY` if there are any."""
    found = [Kind.MEASURE] if name in source.measures else []
    found += [Kind.SEGMENT] if name in source.segments else []
    found += [Kind.COLUMN] if source.column(name) is not None else []
    return [*found, Kind.ENTITY] if found else []


def _names_of(source: Source, kind: Kind | None = None) -> tuple[str, ...]:
    """Return the names of a source's entities of a kind that are not hidden."""
    measures = [each.name for each in source.measures.values() if each.visibility is not Visibility.HIDDEN]
    columns = [each.name for each in source.columns.values() if each.visibility is not Visibility.HIDDEN]
    by_kind = {Kind.MEASURE: measures, Kind.SEGMENT: [*source.segments], Kind.COLUMN: columns}
    return tuple(name for each, names in by_kind.items() if kind in (None, each) for name in names)


def _no_entity(model: Model, name: str, entity: str, kind: Kind | None = None) -> Missing:
    source = model.sources[name]
    what = "column, measure or segment" if kind is None else kind.value
    message = f"`{name}` has no {what} `{entity}`"
    names, prefix = _names_of(source, kind), "" if kind is None else f"{kind.value}:"
    others = _kinds_of(source, entity) if entity in _names_of(source) else []
    if others:
        return Missing("dangling_entity", message, f"`{name}.{entity}` is a {others[0].value}: write `{name}.{entity}`")
    near = did_you_mean(entity, names)
    shows = Hint("{} shows what it contains", Command("sl", "read", name))
    return Missing("dangling_entity", message, f"did you mean `{prefix}{name}.{near}`?" if near else shows, names)


def _no_member(reference: Reference, holders: Iterable[tuple[Model, str]]) -> Missing:
    """Return why a measure, segment or column without a source does not exist in any source."""
    kind = reference.kind
    sources = (model.sources[name] for model, name in holders)
    shown = (source for source in sources if source.visibility is not Visibility.HIDDEN)
    owners = {name: source.name for source in shown for name in _names_of(source, kind)}
    near = did_you_mean(reference.name, _comparable(reference.name, list(owners)))
    meant = f"did you mean `{kind.value}:{owners[near]}.{near}`?" if near else ""
    hint = meant or f"name its source: `{kind.value}:SOURCE.NAME`"
    return Missing("dangling_entity", f"no source has a {kind.value} `{reference.name}`", hint)


def _comparable(name: str, names: list[str]) -> list[str]:
    """Return the names to compare a missing name with; if there are many, only those with the same first letter."""
    if len(names) <= _MOST_COMPARED:
        return names
    start = name[:1].casefold()
    return [each for each in names if each[:1].casefold() == start][:_MOST_COMPARED]
