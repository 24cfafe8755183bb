"""Proposed measures and segments, and the file in which a scan commits them next to the snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.semantic import PROPOSED_MEASURES, Entry
from ktx_cli.warehouses import Table, TableRef, ref_order

MEASURES: Final = "measures.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ProposedMeasure:
    """A measure that a scan proposes. `columns`: the columns that `expr` reads; if any is missing, the measure is
    removed.

    `reason`: the evidence, in one sentence.
    """

    name: str
    expr: str
    columns: tuple[str, ...]
    reason: str
    description: str
    unit: str | None = None
    format: str | None = None

    def to_entry(self) -> Entry:
        """Return the measure as it appears in a shard."""
        fields: Entry = {"name": self.name, "expr": self.expr, "status": "proposed", "reason": self.reason}
        fields |= {key: value for key, value in (("unit", self.unit), ("format", self.format)) if value is not None}
        return {**fields, "descriptions": {"ktx": self.description}}


Proposals = Mapping[TableRef, tuple[ProposedMeasure, ...]]
"""The proposed measures by table, except tables without any."""


def restricted(proposals: Proposals, tables: Iterable[Table]) -> dict[TableRef, tuple[ProposedMeasure, ...]]:
    """Return the proposals whose tables and columns still exist."""
    found = {}
    for table in tables:
        columns = {column.name for column in table.columns}
        kept = tuple(each for each in proposals.get(table.ref, ()) if columns.issuperset(each.columns))
        if kept:
            found[table.ref] = kept
    return found


def with_proposals(entry: Entry, measures: tuple[ProposedMeasure, ...]) -> Entry:
    """Return a generated manifest entry with its proposed measures."""
    if not measures:
        return entry
    last: Entry = {key: entry[key] for key in ("columns", "joins") if key in entry}
    first = {key: value for key, value in entry.items() if key not in last}
    return {**first, PROPOSED_MEASURES: [each.to_entry() for each in measures], **last}


def proposals_bytes(proposals: Proposals) -> bytes:
    """Return the file content, with one line per measure, sorted by table."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    tables = []
    for ref in sorted(proposals, key=ref_order):
        lines = ",\n".join(f"   {encode(_to_json(each))}" for each in proposals[ref])
        place = encode({"schema": ref.schema, "table": ref.name})[:-1]
        tables.append(f'  {place}, "measures": [\n{lines}\n  ]}}')
    listed = "[\n" + ",\n".join(tables) + "\n ]" if tables else "[]"
    return f'{{\n "format": {FORMAT},\n "tables": {listed}\n}}\n'.encode("utf-8", "surrogatepass")


def _to_json(measure: ProposedMeasure) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": measure.name, "expr": measure.expr, "columns": list(measure.columns)}
    fields |= {"reason": measure.reason, "description": measure.description}
    optional = (("unit", measure.unit), ("format", measure.format))
    return fields | {key: value for key, value in optional if value is not None}


def read_proposals(content: bytes, where: str) -> dict[TableRef, tuple[ProposedMeasure, ...]]:
    """Return the proposals in a file. Raises `KtxError` if the file is damaged or was written by a newer ktx."""
    try:
        document = json.loads(content)
        if document["format"] == FORMAT:
            return {
                TableRef(each["schema"], each["table"]): tuple(map(_from_json, each["measures"]))
                for each in document["tables"]
            }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"the record {where} is damaged ({type(error).__name__})"
        raise KtxError(
            message, hint="restore the file from git, or delete it and let the next scan write it again"
        ) from error
    message = f"{where} has format {document['format']!r}, but this ktx reads format {FORMAT}"
    raise KtxError(message, hint="update ktx, or restore the file from git")


def _from_json(fields: dict[str, Any]) -> ProposedMeasure:
    return ProposedMeasure(
        str(fields["name"]), str(fields["expr"]), tuple(map(str, fields["columns"])), str(fields["reason"]),
        str(fields["description"]), fields.get("unit"), fields.get("format"),
    )  # fmt: skip
