"""The committed record of descriptions, `descriptions.json` beside the snapshot, and its way into the manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.core import Command, Hint, KtxError, one_line
from ktx_cli.scan.descriptions.facts import TEXT_KEYS, Described, ref_order
from ktx_cli.semantic import Entry
from ktx_cli.warehouses import Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.descriptions.batches import Labels, Piece

DESCRIPTIONS: Final = "descriptions.json"
FORMAT: Final = 1


def read_descriptions(content: bytes, where: str) -> dict[TableRef, Described]:
    """Return the texts by table. Raises `KtxError` when the file is damaged or a newer ktx wrote it."""
    try:
        document = json.loads(content)
        found = [_table(each) for each in document["tables"]] if document["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(where, type(error).__name__) from error
    if found is None:
        raise KtxError(
            f"{where} has the format {document['format']!r}, and this ktx knows {FORMAT}",
            hint="update ktx, or restore the file from git",
        )
    by_ref = {each.ref: each for each in found}
    if len(by_ref) != len(found):
        raise _damaged(where, "a table stands in it twice")
    return by_ref


def record_bytes(record: Iterable[Described]) -> bytes:
    """Return the file: tables sorted by ref, columns by name, a line for each, so that a diff shows what changed."""
    tables = ",\n".join(_lines(each) for each in sorted(record, key=lambda each: ref_order(each.ref)))
    listed = f"[\n{tables}\n ]" if tables else "[]"
    return f'{{\n "format": {FORMAT},\n "tables": {listed}\n}}\n'.encode("utf-8", "surrogatepass")


def updated_record(
    old: Mapping[TableRef, Described], new: Iterable[Described], tables: Iterable[Table]
) -> dict[TableRef, Described]:
    """Return the record to write: an old text stays until there is a new one, or its table or column is gone.

    The model's texts are never replaced by those of rules; those of rules are replaced whole.
    """
    latest = {each.ref: each for each in new}
    record: dict[TableRef, Described] = {}
    for table in sorted(tables, key=lambda table: ref_order(table.ref)):
        merged = _merged(old.get(table.ref), latest.get(table.ref))
        if merged is not None:
            record[table.ref] = _trimmed(merged, {column.name for column in table.columns})
    return record


def with_descriptions(entry: Entry, described: Described | None) -> Entry:
    """Return a generated manifest entry with a table's texts under their source's key, on it and on its columns."""
    if described is None:
        return entry
    key = TEXT_KEYS[described.source]
    columns = [_described(column, key, described.columns.get(str(column["name"]))) for column in entry["columns"]]
    return {**_described(entry, key, described.text), "columns": columns}


def _described(fields: dict[str, Any], key: str, text: str | None) -> dict[str, Any]:
    """Return the fields with a text; new `descriptions` stand behind `table` on an entry, last on a column."""
    if text is None:
        return fields
    if "descriptions" in fields or "table" not in fields:
        return {**fields, "descriptions": {**fields.get("descriptions", {}), key: text}}
    return {"table": fields["table"], "descriptions": {key: text}, **fields}


def _merged(old: Described | None, new: Described | None) -> Described | None:
    if old is None or new is None:
        return new or old
    if old.source != new.source:
        return old if old.source == "ai" else new
    if new.source == "rules" or old.hash == new.hash:
        return new
    return Described(new.ref, new.hash, new.source, new.text or old.text, {**old.columns, **new.columns})


def _trimmed(described: Described, columns: set[str]) -> Described:
    kept = {name: text for name, text in described.columns.items() if name in columns}
    return Described(described.ref, described.hash, described.source, described.text, kept)


def _lines(described: Described) -> str:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    head = {
        **({} if described.ref.schema is None else {"schema": described.ref.schema}),
        "table": described.ref.name,
        "hash": described.hash,
        "source": described.source,
        **({} if described.text is None else {"text": described.text}),
    }
    columns = ",\n".join(f"   {encode(name)}: {encode(described.columns[name])}" for name in sorted(described.columns))
    return f'  {encode(head)[:-1]}, "columns": {{\n{columns}\n  }}}}' if columns else f"  {encode(head)}"


def _table(fields: dict[str, Any]) -> Described:
    columns = {_text(name): _text(text) for name, text in fields.get("columns", {}).items()}
    schema, text = fields.get("schema"), fields.get("text")
    if fields["source"] not in TEXT_KEYS:
        raise ValueError("unknown source")
    return Described(
        ref=TableRef(None if schema is None else _text(schema), _text(fields["table"])),
        hash=_text(fields["hash"]),
        source=fields["source"],
        text=None if text is None else _text(text),
        columns=columns,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _damaged(where: str, problem: str) -> KtxError:
    return KtxError(
        f"the record of descriptions {where} is damaged ({problem})",
        hint=Hint(
            "{}; or delete it, and the next scan describes all tables again",
            Command("checkout", "--", where, program="git"),
        ),
        details={"path": where},
    )


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
