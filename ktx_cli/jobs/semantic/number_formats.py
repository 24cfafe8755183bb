"""How the numbers of an answer are printed: by what its definitions say, and the column types of the last scan."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktx_cli.connectors.port import TableRef
from ktx_cli.connectors.types import decimal_places
from ktx_cli.context.scan.snapshot import read_table, table_path
from ktx_cli.context.semantic.model import Column, Source
from ktx_cli.context.semantic.number_styles import number_styles
from ktx_cli.core.errors import KtxError
from ktx_cli.core.numbers import NumberFormat, column_format
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import DATABASE_SOURCE, Layout

if TYPE_CHECKING:
    from ktx_cli.context.semantic.asking import Answer


def answer_formats(answer: Answer, layout: Layout, connection: str) -> tuple[NumberFormat | None, ...]:
    """Return for each column of an answer how its numbers are printed, None where it has others than numbers."""
    types = functools.cache(functools.partial(_native_types, layout, connection))

    def scale_of(source: Source, column: Column) -> int | None:
        spelled = types(source.table).get(column.name.casefold()) if source.table else None
        return None if spelled is None else decimal_places(spelled)

    asked = answer.asked
    styles = [None] * len(answer.columns) if asked is None else number_styles(asked, scale_of)
    rows: list[Sequence[Any]] = list(answer.rows)
    if answer.totals is not None:
        rows.append((*[None] * (len(answer.columns) - len(answer.totals)), *answer.totals))
    return tuple(column_format([row[place] for row in rows], style) for place, style in enumerate(styles))


def _native_types(layout: Layout, connection: str, table: tuple[str, ...]) -> Mapping[str, str]:
    """Return the types of a table's columns as the last scan committed them, by column in small letters.

    None of them where the project has no such snapshot; numbers are printed all the same.
    """
    schema = table[-2] if len(table) > 1 else None
    path = layout.root / layout.raw_path(connection, DATABASE_SOURCE, table_path(TableRef(schema, table[-1])))
    try:
        content = read_bytes(path)
        columns = () if content is None else read_table(content, str(path)).columns
    except KtxError:  # `ktx doctor` tells of a snapshot that is damaged
        return {}
    return {each.name.casefold(): each.native_type for each in columns}
