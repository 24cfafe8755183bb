"""Decision points that a scan detects, and the file in which it commits them next to the snapshot.

The record names tables; `read_decisions` translates the points to the names of the semantic layer and adds their
states.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.project import DATABASE_SOURCE, Layout
from ktx_cli.semantic import Alternative, DecisionKind, Statement
from ktx_cli.warehouses import Table, TableRef, ref_order

DECISIONS: Final = "decisions.json"
FORMAT = 1

STEADY: Final = 0.2
"""The relative change of a share below which the evidence of an earlier scan is kept."""

PointKey = tuple[TableRef, DecisionKind, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class FoundPoint:
    """A decision point of a table. `share`: the share of rows that it concerns, used to compare evidence.

    `statements` and `spreads` (measure -> relative difference) are added after the scan, and are kept with the point.
    """

    table: TableRef
    kind: DecisionKind
    columns: tuple[str, ...]
    question: str
    alternatives: tuple[Alternative, ...]
    evidence: tuple[str, ...] = ()
    share: float = 0.0
    statements: tuple[Statement, ...] = ()
    spreads: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> PointKey:
        """The key that identifies this point across scans."""
        return self.table, self.kind, self.columns

    def point_id(self, source: str) -> str:
        """Return the point's id, built from its table's name in the semantic layer."""
        return ".".join((source, self.kind.value, *self.columns[:1]))


FoundPoints = tuple[FoundPoint, ...]
"""The decision points of a connection, ordered by table, kind and column."""


def has_points(layout: Layout, connection: str) -> bool:
    """Return whether a scan recorded decision points of a connection."""
    return (layout.root / layout.raw_path(connection, DATABASE_SOURCE, DECISIONS)).is_file()


def ordered(points: Iterable[FoundPoint]) -> FoundPoints:
    """Return the points in file order, without duplicates."""
    kinds = list(DecisionKind)
    by_key = {each.key: each for each in points}
    return tuple(
        sorted(by_key.values(), key=lambda each: (ref_order(each.table), kinds.index(each.kind), each.columns))
    )


def restricted(points: Iterable[FoundPoint], tables: Iterable[Table]) -> FoundPoints:
    """Return the points whose tables and columns still exist."""
    columns = {table.ref: {column.name for column in table.columns} for table in tables}
    return ordered(each for each in points if each.table in columns and columns[each.table].issuperset(each.columns))


def carried(found: Iterable[FoundPoint], earlier: Iterable[FoundPoint]) -> FoundPoints:
    """Return the points of a scan with additions made to them after earlier scans.

    If the figures have hardly changed, the recorded evidence and alternatives are kept, so that a nightly scan of a
    growing table changes no file.
    """
    known = {each.key: each for each in earlier}
    return ordered(_carried(each, known.get(each.key)) for each in found)


def _carried(point: FoundPoint, earlier: FoundPoint | None) -> FoundPoint:
    if earlier is None:
        return point
    point = replace(point, statements=earlier.statements, spreads=earlier.spreads)
    largest = max(point.share, earlier.share)
    if abs(point.share - earlier.share) > STEADY * largest or len(point.evidence) != len(earlier.evidence):
        return point
    same = [(each.id, each.filter, each.expr, each.time) for each in point.alternatives]
    if same != [(each.id, each.filter, each.expr, each.time) for each in earlier.alternatives]:
        return point
    return replace(point, evidence=earlier.evidence, share=earlier.share, alternatives=earlier.alternatives)


def points_bytes(points: Iterable[FoundPoint]) -> bytes:
    """Return the file content, with one line per point."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = ",\n".join(f"  {encode(_to_json(each))}" for each in ordered(points))
    listed = f"[\n{lines}\n ]" if lines else "[]"
    return f'{{\n "format": {FORMAT},\n "points": {listed}\n}}\n'.encode("utf-8", "surrogatepass")


def _to_json(point: FoundPoint) -> dict[str, Any]:
    fields: dict[str, Any] = {"schema": point.table.schema, "table": point.table.name, "kind": point.kind.value}
    fields |= {"columns": list(point.columns), "question": point.question}
    fields["alternatives"] = [_alternative_json(each) for each in point.alternatives]
    fields |= {"evidence": list(point.evidence), "share": point.share}
    if point.statements:
        fields["statements"] = [{"text": each.text, "path": each.path, "line": each.line} for each in point.statements]
    if point.spreads:
        fields["spreads"] = dict(sorted(point.spreads.items()))
    return fields


def _alternative_json(alternative: Alternative) -> dict[str, str]:
    optional = (("filter", alternative.filter), ("expr", alternative.expr), ("time", alternative.time))
    given = {key: value for key, value in optional if value is not None}
    return {"id": alternative.id, "label": alternative.label, **given}


def read_points(content: bytes, where: str) -> FoundPoints:
    """Return the points in a file. Raises `KtxError` if the file is damaged or a newer ktx wrote it."""
    try:
        document = json.loads(content)
        if document["format"] == FORMAT:
            return ordered(map(_from_json, document["points"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"the record {where} is damaged ({type(error).__name__})"
        raise KtxError(
            message, hint="restore the file from git, or delete it and let the next scan write it again"
        ) from error
    message = f"{where} has format {document['format']!r}, but this ktx reads format {FORMAT}"
    raise KtxError(message, hint="update ktx, or restore the file from git")


def _from_json(fields: dict[str, Any]) -> FoundPoint:
    return FoundPoint(
        TableRef(fields["schema"], fields["table"]),
        DecisionKind(fields["kind"]),
        tuple(map(str, fields["columns"])),
        str(fields["question"]),
        tuple(
            Alternative(str(each["id"]), str(each["label"]), each.get("filter"), each.get("expr"), each.get("time"))
            for each in fields["alternatives"]
        ),
        tuple(map(str, fields["evidence"])),
        float(fields["share"]),
        tuple(
            Statement(str(each["text"]), str(each["path"]), int(each["line"])) for each in fields.get("statements", ())
        ),
        {str(measure): float(spread) for measure, spread in fields.get("spreads", {}).items()},
    )
