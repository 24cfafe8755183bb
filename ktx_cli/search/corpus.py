"""What goes into a search and what comes out of it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import one_line, plural
from ktx_cli.semantic import Column, ColumnValues, Measure, Model, Segment, SemanticError, Source, Visibility
from ktx_cli.wiki import GLOBAL, Page, parse, place_of

if TYPE_CHECKING:
    from ktx_cli.protection import Relations
    from ktx_cli.semantic import Names


KINDS: Final = ("source", "measure", "segment", "page", "column", "passage", "value")
"""What can be found. Of two that fit as well the one that is further in front comes first: what people govern."""

WORTH: Final = {"column": 0.8, "passage": 0.6, "value": 0.8}
"""What a kind counts beside what people govern (1): it has to fit better to come before it."""

BESIDE: Final = 0.25
"""The weight of a text that adds to what is found otherwise, and finds nothing by itself."""


@dataclass(frozen=True, slots=True)
class Field:
    """A text of a document: `weight` is how much more a word in it counts than one in a description (1)."""

    name: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """Something to find. `id` is how it is asked for, `summary` one sentence about it.

    `order`: which comes first of two that fit as well. `owner`: the user it is for, empty: everybody. `internal`: it is
    for those who ask for it alone. `tags`: those of a page.
    """

    kind: str
    id: str
    connection: str
    summary: str
    fields: tuple[Field, ...]
    order: int = 0
    owner: str = ""
    internal: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked among: kinds (none: all), a connection (None: all), what is of everybody and of one `user`.

    A page that belongs to no connection is in the scope of each. A page of the user stands in for everybody's page of
    that name. `internal`: what is internal too. `tag`: only pages that have it.
    """

    kinds: Collection[str] = ()
    connection: str | None = None
    user: str | None = None
    internal: bool = False
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found. `score`: higher fits better, comparable within one search alone.

    `snippet`: the part of its text that the words stand in. `matched_on`: the names of the fields they stand in, and
    `meaning` where its vector is near that of the query.
    """

    kind: str
    id: str
    connection: str
    score: float
    summary: str
    snippet: str
    matched_on: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the hit as it stands in an envelope."""
        return {
            "kind": self.kind,
            "id": self.id,
            "connection": self.connection,
            "score": round(self.score, 4),
            "summary": self.summary,
            "snippet": self.snippet,
            "matched_on": list(self.matched_on),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a search, best first; `corrected`: words nothing has, and what was looked for in place of them.

    `total`: how many there are, also beyond the limit.
    """

    hits: tuple[Hit, ...]
    total: int = 0
    corrected: Mapping[str, str] = field(default_factory=dict)


PAGE_NAME, PAGE_TITLE, PAGE_BODY, REFERENCE = 4.0, 2.0, 1.0, 0.5
"""How much a word counts in the key, in the title, summary and tags, in the body, in a reference."""

_HEADING: Final = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_SUMMARY: Final = 200


def page_document(path: str, content: bytes) -> Document | None:
    """Return the document of a page's file, None for a path no page can have.

    A page whose front matter cannot be read is searched as the text it is.
    """
    place = place_of(path)
    if place is None:
        return None
    scope, key = place
    page = parse(scope, key, content)
    if not isinstance(page, Page):
        page = Page(key, scope, {}, content.decode("utf-8", "replace"))
    heading = _HEADING.search(page.body)
    title = heading[1] if heading else ""
    fields = (
        Field("key", key, PAGE_NAME),
        Field("title", title, PAGE_TITLE),
        Field("summary", page.summary, PAGE_TITLE),
        Field("tags", " ".join(page.tags), PAGE_TITLE),
        Field("refs", " ".join((*page.refs, *page.sl_refs, *page.texts("tables"))), REFERENCE),
        Field("body", page.body, PAGE_BODY),
    )
    summary = one_line(page.summary or title or page.body, _SUMMARY)
    owner = "" if scope == GLOBAL else scope.partition("/")[2]
    filled = tuple(each for each in fields if each.text)
    return Document("page", key, "", summary, filled, KINDS.index("page"), owner, tags=tuple(page.tags))


PASSAGE_TITLE, HEADING, PASSAGE_BODY = 2.0, 2.0, 1.0
_PASSAGES_SUMMARY = 200


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document. `id` is how it is asked for, `heading` the headings it stands below."""

    id: str
    connection: str
    title: str
    text: str
    heading: str = ""


def passage_documents(passages: Iterable[Passage]) -> Iterator[Document]:
    """Yield a document for every passage."""
    for each in passages:
        fields = (Field("title", each.title, PASSAGE_TITLE), Field("heading", each.heading, HEADING))
        filled = tuple(field for field in (*fields, Field("text", each.text, PASSAGE_BODY)) if field.text)
        summary = one_line(f"{each.title}: {each.heading}" if each.heading else each.title, _PASSAGES_SUMMARY)
        yield Document("passage", each.id, each.connection, summary, filled, KINDS.index("passage"))


VALUE = 4.0
"""How much a word of a value counts; one of its column counts beside it alone."""


def value_documents(
    shown: Shown, lists: Iterable[ColumnValues], relations: Callable[[], Relations]
) -> Iterator[Document]:
    """Yield a document for every value of the columns that are shown; its id is the condition that picks its rows.

    A list of a table the semantic layer has not, or of a column that is not shown, gives none. `relations`: what the
    last scan saw.
    """
    relations = functools.cache(relations)
    by_name = _by_name(shown.sources())
    visible = {source.name: listed_columns(shown, source, relations) for source in shown.sources()}
    for listed in lists:
        for source in by_name.get(listed.ref.name.casefold(), ()):
            column = source.column(listed.column) if source.is_of(listed.ref) else None
            if column is not None and column.expr is None and column.name.casefold() in visible[source.name]:
                for value, count in listed.values:
                    yield _value(shown, f"{source.name}.{column.name}", value, count, column.description)


def listed_columns(shown: Shown, source: Source, relations: Callable[[], Relations]) -> frozenset[str]:
    """Return the names, in small letters, of the columns of a source whose values may be listed; see `values_shown`."""
    from ktx_cli.protection import values_shown

    may = values_shown(shown.model, source, relations)
    return frozenset(each.name.casefold() for each in shown.columns(source) if may(each))


def _value(shown: Shown, column: str, value: Any, count: int | None, description: str | None) -> Document:
    text = value if isinstance(value, str) else json.dumps(value)
    fields = [Field("value", text, VALUE), Field("column", column, BESIDE)]
    fields += [Field("description", description, BESIDE)] if description else []
    rows = "" if count is None else f" in {plural(count, 'row')}"
    id = f"{column} = {_literal(value, text)}"
    summary = one_line(f"a value of {column}{rows}")
    return Document("value", id, shown.model.connection, summary, tuple(fields), KINDS.index("value"))


def _literal(value: Any, text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if isinstance(value, str) else text


def _by_name(sources: Iterable[Source]) -> dict[str, list[Source]]:
    found: dict[str, list[Source]] = {}
    for source in sources:
        if source.table:
            found.setdefault(source.table[-1].casefold(), []).append(source)
    return found


SOURCE_NAME, MEASURE, COLUMN, DESCRIPTION = 4.0, 2.0, 0.5, 1.0
"""How much a word counts in a name, in the name of a source's measure, of its column, in a description."""


def documents(shown: Shown) -> Iterator[Document]:
    """Yield the documents of a model: every source, and each of its measures, segments and columns."""
    for source in shown.sources():
        measures, columns = shown.measures(source), shown.columns(source)
        yield _source(shown, source, measures, columns)
        yield from (_measure(shown, source, each) for each in measures)
        yield from (_segment(shown, source, each) for each in source.segments.values())
        yield from (_column(shown, source, each) for each in columns)


def all_documents(model: Model) -> Iterator[Document]:
    """Yield the documents of everything in a model that is not hidden; what is internal says so."""
    public = {(each.kind, each.id): each for each in documents(Shown(model))}
    yield from public.values()
    internal = Shown(model, internal=True)
    if internal.has_more:
        found = documents(internal)
        yield from (replace(each, internal=True) for each in found if (each.kind, each.id) not in public)


def _source(shown: Shown, source: Source, measures: list[Measure], columns: list[Column]) -> Document:
    fields = (
        Field("name", source.name, SOURCE_NAME),
        Field("measures", " ".join(each.name for each in measures), MEASURE),
        Field("columns", " ".join(each.name for each in columns), COLUMN),
        Field("search", " ".join(source.search), COLUMN),
        Field("description", source.description or "", DESCRIPTION),
    )
    counts = f"{plural(len(measures), 'measure')}, {plural(len(columns), 'column')}"
    return _document(shown, "source", source.name, source.description or counts, fields)


def _measure(shown: Shown, source: Source, measure: Measure) -> Document:
    fields = (
        Field("name", measure.name, SOURCE_NAME),
        Field("source", source.name, MEASURE),
        Field("description", measure.description or "", DESCRIPTION),
    )
    summary = measure.description or _expression_text(shown, source, measure.expr)
    return _document(shown, "measure", f"{source.name}.{measure.name}", summary, fields)


def _segment(shown: Shown, source: Source, segment: Segment) -> Document:
    fields = (
        Field("name", segment.name, SOURCE_NAME),
        Field("source", source.name, MEASURE),
        Field("description", segment.description or "", DESCRIPTION),
    )
    summary = segment.description or _expression_text(shown, source, segment.expr)
    return _document(shown, "segment", f"{source.name}.{segment.name}", summary, fields)


def _column(shown: Shown, source: Source, column: Column) -> Document:
    fields = (
        Field("name", column.name, SOURCE_NAME),
        Field("source", source.name, COLUMN),
        Field("values", " ".join(column.values), COLUMN),
        Field("description", column.description or "", DESCRIPTION),
    )
    summary = column.description or column.type.value
    return _document(shown, "column", f"{source.name}.{column.name}", summary, fields)


def _expression_text(shown: Shown, source: Source, expr: str) -> str:
    """Return an expression as its own summary, unless it names what is not shown."""
    return expr if shown.tells(source, expr) else f"of {source.name}"


def _document(shown: Shown, kind: str, id: str, summary: str, fields: tuple[Field, ...]) -> Document:
    filled = tuple(each for each in fields if each.text)
    return Document(kind, id, shown.model.connection, one_line(summary, _SUMMARY), filled, KINDS.index(kind))


_NAME: Final = re.compile(r"\w+")


@dataclass(slots=True)
class Shown:
    """What of one model is shown; `internal`: what is internal too.

    A computed column that does not say it is as visible as the columns it reads; expressions are looked into only
    where some column of the model is not public.
    """

    model: Model
    internal: bool = False
    _names: Names | None = field(default=None, init=False)
    _all_public: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        columns = (column for source in self.model.sources.values() for column in source.columns.values())
        visibilities = {Visibility.PUBLIC, None}
        self._all_public = all(column.visibility in visibilities for column in columns)

    @property
    def has_more(self) -> bool:
        """Whether something of the model may be internal."""
        sources = self.model.sources.values()
        measures = (measure.visibility for source in sources for measure in source.measures.values())
        visibilities = {source.visibility for source in sources}
        return not self._all_public or Visibility.INTERNAL in visibilities.union(measures)

    def sources(self) -> list[Source]:
        """Return the sources, by name."""
        return [each for each in self.model.sources.values() if self._may(each.visibility)]

    def has(self, source: Source) -> bool:
        """Whether a source may be shown."""
        return self._may(source.visibility)

    def columns(self, source: Source) -> list[Column]:
        """Return the columns of a source, in its order."""
        return [each for each in source.columns.values() if self._may(self.visibility(source, each))]

    def measures(self, source: Source) -> list[Measure]:
        """Return the measures of a source, in its order."""
        return [each for each in source.measures.values() if self._may(each.visibility)]

    def tells(self, source: Source, expr: str) -> bool:
        """Whether an expression of a source has no name in it of a column that is not shown."""
        shown = {each.name.casefold() for each in self.columns(source)}
        others = {name.casefold() for name in source.columns} - shown
        return others.isdisjoint(_NAME.findall(expr.casefold()))

    def visibility(self, source: Source, column: Column) -> Visibility:
        """Return who may use a column; one whose expression cannot be read is hidden."""
        if column.visibility is not None or column.expr is None or self._all_public:
            return column.visibility or Visibility.PUBLIC
        try:
            return self._lookup().visibility(source, column)
        except SemanticError:  # what it reads is not known, so it may be hidden; `ktx sl validate` says what is wrong
            return Visibility.HIDDEN

    def _may(self, visibility: Visibility) -> bool:
        allowed: Collection[Visibility] = (
            (Visibility.PUBLIC, Visibility.INTERNAL) if self.internal else (Visibility.PUBLIC,)
        )
        return visibility in allowed

    def _lookup(self) -> Names:
        if self._names is None:
            from ktx_cli.semantic import Graph, Names

            values = {
                f"param.{name}": each.default
                for s in self.model.sources.values()
                for name, each in s.parameters.items()
            }
            self._names = Names(self.model, Graph(self.model), values)
        return self._names
