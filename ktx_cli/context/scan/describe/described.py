"""The committed record of descriptions, `descriptions.json` beside the snapshot, and its way into the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ktx_cli.connectors.port import Table, TableRef
from ktx_cli.context.scan.describe.facts import TEXT_KEYS, Described, ref_order
from ktx_cli.context.scan.manifest import Entry
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import shell_words

RECORD: Final = "descriptions.json"
FORMAT: Final = 1


def read_record(content: bytes, where: str) -> dict[TableRef, Described]:
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
        hint=f"git checkout -- {shell_words(where)}; or delete it, and the next scan describes all tables again",
        details={"path": where},
    )
