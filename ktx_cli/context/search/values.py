"""Values of columns as documents to be searched: what a filter can be written with."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.profiling.dictionary import ColumnValues
from ktx_cli.context.search.model import BESIDE, KINDS, Document, Field
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.model import Source
from ktx_cli.context.tools.relations import Relations
from ktx_cli.context.tools.sql_protection import values_shown
from ktx_cli.core.text import one_line, plural

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
            column = source.column(listed.column) if is_of(source, listed.ref) else None
            if column is not None and column.expr is None and column.name.casefold() in visible[source.name]:
                for value, count in listed.values:
                    yield _value(shown, f"{source.name}.{column.name}", value, count, column.description)


def listed_columns(shown: Shown, source: Source, relations: Callable[[], Relations]) -> frozenset[str]:
    """Return the names, in small letters, of the columns of a source whose values may be listed; see `values_shown`."""
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


def is_of(source: Source, ref: TableRef) -> bool:
    """Say whether a source of a table's name is of that table: its schema is the same, or not said."""
    schemas = (source.table or ())[-2:-1]
    return not schemas or ref.schema is None or schemas[0].casefold() == ref.schema.casefold()
