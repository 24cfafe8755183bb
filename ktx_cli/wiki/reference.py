"""What a page refers to: `refs`, `[[pages]]`, `sl_refs`, and inline code that names sources, tables and entities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from ktx_cli.core import Command, Hint, did_you_mean, listing
from ktx_cli.semantic import Model, Visibility
from ktx_cli.wiki.page import Page, body_line, field_line
from ktx_cli.wiki.text import inline_code, without, without_fences


class Kind(StrEnum):
    """What a reference names.

    `page`: the key of a page. `source`: a source of the semantic layer, or something of one (`orders.revenue`).
    `table`: a table as the database calls it. `entity`: what may be a column, a measure or a segment of a source, or
    no reference at all.
    """

    PAGE = "page"
    SOURCE = "source"
    TABLE = "table"
    ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference of a page: `name` without the connection, `written` as it stands there.

    `field`: the list of the front matter it is in, None in the body. `at`: its index in that list, or the character of
    the body it begins with. `binding`: whether it is wrong when nothing has that name.
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
_ENTITY: Final = re.compile(rf"{_CONNECTION}([^\W\d][\w$-]*\.[^\W\d][\w$]*)")
_FILE: Final = re.compile(r".*\.(?:csv|html?|ipynb|json|lkml|md|parquet|pdf|py|sh|sql|tsv|txt|xlsx?|xml|ya?ml)", re.I)
"""`orders.sql` is a file, unless the source has such a column."""


def references(page: Page) -> tuple[Reference, ...]:
    """Return all references of a page, those of the front matter first.

    In the body: `[[pages]]` outside code; in inline code outside fences `source:NAME`, `table:REF` and two-part names,
    each with `connection/` in front where it is said. Wildcards, placeholders and SQL are no references.
    """
    return (*_front(page), *_body(page.body))


def line_of(page: Page, reference: Reference) -> int:
    """Return the line of the page's file a reference stands on."""
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
    """Return the reference a piece of inline code is."""
    named = _NAMED.fullmatch(code)
    if named is not None:
        return Reference(Kind(named[2]), named[4], code, named[1] or named[3], at=at)
    entity = _ENTITY.fullmatch(code)
    if entity is None:
        return None
    return Reference(Kind.ENTITY, entity[2], code, entity[1], at=at, binding=_FILE.fullmatch(code) is None)


_MOST_COMPARED: Final = 500
"""With how many names one that is not there is compared."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a reference leads nowhere."""

    code: str
    message: str
    hint: str


@dataclass(slots=True)
class Resolver:
    """Looks references up in the semantic layers of a project, by connection.

    A source that is not in its model because its file has errors counts as there, with anything in it: what is wrong
    with it is said once, by the check of the semantic layer.
    """

    models: Mapping[str, Model]
    _known: dict[tuple[Kind, str | None, str], Missing | None] = field(default_factory=dict, init=False)
    _broken: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _tables: dict[str, frozenset[tuple[str, ...]]] = field(default_factory=dict, init=False)

    def missing(self, reference: Reference) -> Missing | None:
        """Return why a reference to the semantic layer leads nowhere, None where it leads somewhere or is none."""
        if reference.kind is Kind.PAGE or not reference.binding:
            return None
        what = (reference.kind, reference.connection, reference.name)
        if what not in self._known:
            self._known[what] = self._missing(reference)
        return self._known[what]

    def _missing(self, reference: Reference) -> Missing | None:
        if reference.connection is not None and reference.connection not in self.models:
            return None if reference.kind is Kind.ENTITY else self._no_connection(reference)
        if reference.kind is Kind.ENTITY:
            return self._wrong_entity(reference)
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
        source, _, entity = reference.name.rpartition(".")
        holders = [model for model in self._models(reference) if self._has_source(model, source)]
        if not holders or any(self._has(model, source, entity) for model in holders) or self._is_table(reference):
            return None
        return _no_entity(holders[0], source, entity)

    def _cut(self, model: Model, name: str) -> Iterator[tuple[str, str]]:
        """Yield (source, entity) of every way to read a dotted name whose first part is a source of the model."""
        place = name.rfind(".")
        while place > 0:
            if self._has_source(model, name[:place]):
                yield name[:place], name[place + 1 :]
            place = name.rfind(".", 0, place)

    def _has_source(self, model: Model, name: str) -> bool:
        return name in model.sources or name in self._broken_of(model)

    def _has(self, model: Model, name: str, entity: str) -> bool:
        if name in self._broken_of(model):
            return True
        source = model.sources[name]
        return entity in source.measures or entity in source.segments or source.column(entity) is not None

    def _broken_of(self, model: Model) -> frozenset[str]:
        if model.connection not in self._broken:
            errors = (each.location.object for each in model.problems if each.severity == "error")
            self._broken[model.connection] = frozenset(name for name in errors if name is not None)
        return self._broken[model.connection]

    def _is_table(self, reference: Reference) -> bool:
        """Whether a source reads a table whose name ends like the reference, whatever the case of its letters."""
        parts = tuple(part.strip('"').casefold() for part in reference.name.split("."))
        return any(parts in self._tables_of(model) for model in self._models(reference))

    def _tables_of(self, model: Model) -> frozenset[tuple[str, ...]]:
        if model.connection not in self._tables:
            names = (tuple(part.casefold() for part in each.table) for each in model.sources.values() if each.table)
            self._tables[model.connection] = frozenset(name[place:] for name in names for place in range(len(name)))
        return self._tables[model.connection]

    def _no_connection(self, reference: Reference) -> Missing:
        near = did_you_mean(reference.connection or "", self.models)
        known = (
            f"there are: {listing(sorted(self.models))}"
            if self.models
            else Hint("no connection has one yet: {}", Command("ingest"))
        )
        return Missing(
            "dangling_connection",
            f"no connection `{reference.connection}` has a semantic layer",
            f"did you mean `{near}`?" if near else known,
        )

    def _no_source(self, reference: Reference) -> Missing:
        what = "table" if reference.kind is Kind.TABLE else "source"
        near = self._near(reference) or self._near(replace(reference, name=reference.name.partition(".")[0]))
        hint = f"did you mean `{near}`?" if near else Hint("{} shows the sources", Command("sl", "list"))
        return Missing(f"dangling_{what}", f"the semantic layer has no {what} `{reference.name}`", hint)

    def _near(self, reference: Reference) -> str | None:
        sources = (each for model in self._models(reference) for each in model.sources.values())
        names = sorted({each.name for each in sources if each.visibility is not Visibility.HIDDEN})
        if len(names) > _MOST_COMPARED:
            start = reference.name[:1].casefold()
            names = [name for name in names if name[:1].casefold() == start][:_MOST_COMPARED]
        return did_you_mean(reference.name, names)


def _no_entity(model: Model, name: str, entity: str) -> Missing:
    source = model.sources[name]
    columns = [each.name for each in source.columns.values() if each.visibility is not Visibility.HIDDEN]
    measures = [each.name for each in source.measures.values() if each.visibility is not Visibility.HIDDEN]
    near = did_you_mean(entity, [*measures, *source.segments, *columns])
    return Missing(
        "dangling_entity",
        f"`{name}` has no column, measure or segment `{entity}`",
        f"did you mean `{name}.{near}`?" if near else Hint("{} shows what it has", Command("sl", "read", name)),
    )
