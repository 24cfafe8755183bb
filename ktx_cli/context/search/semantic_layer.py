"""Sources, measures, segments and columns of a semantic layer as documents to be searched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ktx_cli.context.search.model import KINDS, Document, Field
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.model import Column, Measure, Model, Segment, Source
from ktx_cli.core.text import one_line, plural

NAME, MEASURE, COLUMN, DESCRIPTION = 4.0, 2.0, 0.5, 1.0
"""How much a word counts in a name, in the name of a source's measure, of its column, in a description."""

_SUMMARY: Final = 200


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
        Field("name", source.name, NAME),
        Field("measures", " ".join(each.name for each in measures), MEASURE),
        Field("columns", " ".join(each.name for each in columns), COLUMN),
        Field("search", " ".join(source.search), COLUMN),
        Field("description", source.description or "", DESCRIPTION),
    )
    counts = f"{plural(len(measures), 'measure')}, {plural(len(columns), 'column')}"
    return _document(shown, "source", source.name, source.description or counts, fields)


def _measure(shown: Shown, source: Source, measure: Measure) -> Document:
    fields = (
        Field("name", measure.name, NAME),
        Field("source", source.name, MEASURE),
        Field("description", measure.description or "", DESCRIPTION),
    )
    summary = measure.description or _told(shown, source, measure.expr)
    return _document(shown, "measure", f"{source.name}.{measure.name}", summary, fields)


def _segment(shown: Shown, source: Source, segment: Segment) -> Document:
    fields = (
        Field("name", segment.name, NAME),
        Field("source", source.name, MEASURE),
        Field("description", segment.description or "", DESCRIPTION),
    )
    summary = segment.description or _told(shown, source, segment.expr)
    return _document(shown, "segment", f"{source.name}.{segment.name}", summary, fields)


def _column(shown: Shown, source: Source, column: Column) -> Document:
    fields = (
        Field("name", column.name, NAME),
        Field("source", source.name, COLUMN),
        Field("values", " ".join(column.values), COLUMN),
        Field("description", column.description or "", DESCRIPTION),
    )
    summary = column.description or column.type.value
    return _document(shown, "column", f"{source.name}.{column.name}", summary, fields)


def _told(shown: Shown, source: Source, expr: str) -> str:
    """Return an expression as its own summary, unless it names what is not shown."""
    return expr if shown.tells(source, expr) else f"of {source.name}"


def _document(shown: Shown, kind: str, id: str, summary: str, fields: tuple[Field, ...]) -> Document:
    filled = tuple(each for each in fields if each.text)
    return Document(kind, id, shown.model.connection, one_line(summary, _SUMMARY), filled, KINDS.index(kind))
