"""What the model answers about tables, and what of it is taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.describe.labels import Labels
from ktx_cli.context.scan.describe.packing import Piece
from ktx_cli.core.text import one_line

LONGEST_TABLE_TEXT: Final = 400
LONGEST_COLUMN_TEXT: Final = 300
"""Characters: well above the 30 and 20 words that are asked for."""

_FAILURE: Final = re.compile(
    r"\W*(?:"
    r"i (?:cannot|can['’]t|could ?n[o'’]t|am (?:unable|sorry|not)|do ?n[o'’]t|have no)\b|i['’]m (?:unable|sorry|not)\b"
    r"|as an ai\b|sorry\b|unfortunately\b|unable to\b|"
    r"(?:cannot|could not|can['’]t) (?:be )?(?:determined?|descri|provide|tell|infer)"
    r"|(?:api |internal |server )?error(?::|\W*$)|traceback\b|http (?:error )?[45]\d\d\b|\{|<"
    r"|no (?:description|information|documentation)\b|description (?:is )?(?:not |un)available"
    r"|insufficient (?:data|info|context)"
    r"|(?:n/?a|none|null|unknown|undefined|unclear|todo|tbd|not (?:available|known|specified))?\W*$"
    r")",
    re.IGNORECASE,
)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ColumnAnswer(_Answer):
    """One column's text; null where there is nothing to say."""

    column: str = Field(max_length=200)
    description: str | None = Field(max_length=LONGEST_COLUMN_TEXT)


class TableAnswer(_Answer):
    """One table's text, null where there is nothing to say or nothing was asked, and its columns'."""

    table: str = Field(max_length=300)
    description: str | None = Field(max_length=LONGEST_TABLE_TEXT)
    columns: list[ColumnAnswer] = Field(max_length=1000)


class DescribeAnswer(_Answer):
    """The answer of one call."""

    tables: list[TableAnswer] = Field(max_length=200)


@dataclass(slots=True)
class PieceTexts:
    """What was answered of a piece. `table_answered`: its own text came, though it may be None."""

    piece: Piece
    table_answered: bool = False
    text: str | None = None
    columns: dict[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """An answer as it was taken. `unknown`: names that were not asked for; `refused`: texts that are none."""

    pieces: list[PieceTexts]
    unknown: int = 0
    refused: int = 0


def read_answer(
    answer: DescribeAnswer, call: tuple[Piece, ...], tables: Labels[TableRef], columns: Mapping[TableRef, Labels[str]]
) -> Reading:
    """Return what of an answer is about what was asked; of two texts for one thing the first."""
    found = {piece.ref: PieceTexts(piece) for piece in call}
    reading = Reading(list(found.values()))
    for table in answer.tables:
        ref = tables.thing(table.table)
        texts = None if ref is None else found.get(ref)
        if ref is None or texts is None:
            reading.unknown += 1
            continue
        _take_table(table, texts, reading)
        for column in table.columns:
            _take_column(column, texts, columns[ref], reading)
    return reading


def _take_table(table: TableAnswer, texts: PieceTexts, reading: Reading) -> None:
    if not texts.piece.asks_table or texts.table_answered:
        return
    if is_failure(table.description):
        reading.refused += 1
        return
    texts.table_answered, texts.text = True, _clean(table.description)


def _take_column(answer: ColumnAnswer, texts: PieceTexts, labels: Labels[str], reading: Reading) -> None:
    name = labels.thing(answer.column)
    if name is None or name not in texts.piece.columns:
        reading.unknown += 1
    elif is_failure(answer.description):
        reading.refused += 1
    elif name not in texts.columns:
        texts.columns[name] = _clean(answer.description)


def is_failure(text: str | None) -> bool:
    """Say whether a text speaks of why there is none, instead of being one; None is an answer."""
    return text is not None and _FAILURE.match(text) is not None


def _clean(text: str | None) -> str | None:
    return None if text is None else one_line(text, LONGEST_TABLE_TEXT)
