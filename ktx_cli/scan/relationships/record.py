"""Keys and relationships with their probabilities, as a scan infers them and as it commits them beside the snapshot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import Command, Hint, KtxError
from ktx_cli.scan.stages import Stage, StageFailure
from ktx_cli.semantic import quoted
from ktx_cli.warehouses import Table, TableRef


class Status(StrEnum):
    """What becomes of an edge: it is a join, a person has to look, or it is none."""

    ACCEPTED = "accepted"
    REVIEW = "review"
    REJECTED = "rejected"


class Cardinality(StrEnum):
    """How many rows of the child meet one of the parent."""

    MANY_TO_ONE = "many_to_one"
    ONE_TO_ONE = "one_to_one"


@dataclass(frozen=True, slots=True)
class Check:
    """What the rows say of an edge: of `rows` rows with a value, `missing` find none in the parent.

    `exact`: all rows were looked at, not only the sample.
    """

    rows: int
    missing: int
    exact: bool

    @property
    def violations(self) -> float:
        """The share of rows that find nothing, 0 to 1; 0 where there are no rows."""
        return self.missing / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Relationship:
    """A reference from columns of one table to a key of another.

    `probability`: that it is meant, 0 to 1. `reason`: one line for a person. `sources`: where it came from
    (`names`, `values`, `view`, `model` ...). `condition`: for a column that refers to several tables, the column and
    the value that make it refer to this one.
    """

    child: TableRef
    child_columns: tuple[str, ...]
    parent: TableRef
    parent_columns: tuple[str, ...]
    status: Status
    probability: float
    reason: str
    cardinality: Cardinality = Cardinality.MANY_TO_ONE
    sources: tuple[str, ...] = ()
    check: Check | None = None
    condition: tuple[str, Any] | None = None

    @property
    def id(self) -> RelationshipId:
        """What makes two relationships of a connection the same."""
        return self.child, self.child_columns, self.parent, self.parent_columns, repr(self.condition)


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """A table's primary key, and its other unique sets. `declared`: the database says so; else its `probability`."""

    primary: tuple[str, ...]
    declared: bool
    probability: float = 1.0
    alternates: tuple[tuple[str, ...], ...] = ()
    confirmed: bool = True
    """Whether all rows were looked at."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """All that was found. `queries`: statements sent, the samples' among them."""

    keys: dict[TableRef, KeyChoice]
    edges: tuple[Relationship, ...]
    queries: int = 0
    problems: tuple[str, ...] = ()

    @property
    def primary_keys(self) -> dict[TableRef, tuple[str, ...]]:
        """Table -> its primary key, declared or predicted."""
        return {ref: choice.primary for ref, choice in self.keys.items() if choice.primary}

    def accepted(self) -> tuple[Relationship, ...]:
        """Return the edges that are joins."""
        return tuple(edge for edge in self.edges if edge.status is Status.ACCEPTED)


RELATIONSHIPS: Final = "relationships.json"
FORMAT = 1
LEAST_PROBABILITY = 0.2
"""Rejected edges of a lower probability are not worth a line."""

STEADY = 0.05
"""An edge whose probability moved by less, with all else as it was, keeps its old line: rows change every day."""

_SHARE = re.compile(r"([\d.]+) %")
_ROWS = re.compile(r"\(([\d,]+) rows?\)")

RelationshipId = tuple[TableRef, tuple[str, ...], TableRef, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class RelationshipRecord:
    """Keys nobody declared, and edges with their status.

    `gone`: edges that were joins, or that a person decided on, and that a scan finds no more; each is rejected and
    says why.
    """

    keys: Mapping[TableRef, KeyChoice] = field(default_factory=dict)
    edges: tuple[Relationship, ...] = ()
    gone: tuple[Relationship, ...] = ()
    waiting: frozenset[RelationshipId] = frozenset()
    """Those of `gone` that a person accepted and that miss a table or column: joins again when all is back."""

    def key_of(self, table: Table) -> tuple[str, ...]:
        """Return the primary key of a table: the declared one, else a predicted one that all rows confirm."""
        if table.primary_key:
            return table.primary_key
        choice = self.keys.get(table.ref)
        if choice is None or not choice.confirmed or not set(choice.primary) <= {c.name for c in table.columns}:
            return ()
        return choice.primary

    def accepted(self) -> tuple[Relationship, ...]:
        """Return the edges that are joins."""
        return tuple(edge for edge in self.edges if edge.status is Status.ACCEPTED)

    def recorded(self) -> tuple[Relationship, ...]:
        """Return the edges that are worth a line in the record."""
        return tuple(
            each for each in self.edges if each.status is not Status.REJECTED or each.probability >= LEAST_PROBABILITY
        )


def record_text(record: RelationshipRecord) -> bytes:
    """Return the file, a line for every key and edge."""
    keys = [_key_to_json(ref, choice) for ref, choice in sorted(record.keys.items(), key=lambda each: str(each[0]))]
    edges = map(_edge_to_json, record.recorded())
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = [f' "format": {FORMAT}', _listed("keys", map(encode, keys)), _listed("edges", map(encode, edges))]
    if record.gone:
        gone = (
            {**_edge_to_json(each), **({"manual": True} if each.id in record.waiting else {})} for each in record.gone
        )
        lines.append(_listed("gone", map(encode, gone)))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "surrogatepass")


def read_record(content: bytes, where: str) -> RelationshipRecord:
    """Return what a file says. Raises `KtxError` for a damaged one."""
    try:
        document = json.loads(content)
        keys = dict(_key_from_json(each) for each in document["keys"])
        edges, gone = (tuple(map(_edge_from_json, listed)) for listed in (document["edges"], document.get("gone", ())))
        waits = (bool(each.get("manual")) for each in document.get("gone", ()))
        waiting = frozenset(edge.id for edge, each in zip(gone, waits, strict=True) if each)
        return RelationshipRecord(keys, edges, gone, waiting)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = Hint("restore it from git; the next `{}` writes it anew", Command("scan"))
        raise KtxError(f"{where} is damaged ({type(error).__name__})", hint=hint) from error


def steadied(new: RelationshipRecord, old: RelationshipRecord, unseen: Iterable[TableRef]) -> RelationshipRecord:
    """Return what is new, with old lines where nothing of weight changed, and where a table could not be looked at."""
    blind = set(unseen)
    before = {edge.id: edge for edge in old.edges}
    edges = [_steady(edge, before.get(edge.id)) for edge in new.edges if not {edge.child, edge.parent} & blind]
    edges += [edge for edge in old.edges if {edge.child, edge.parent} & blind]
    keys = {ref: _steady_key(choice, old.keys.get(ref)) for ref, choice in new.keys.items() if ref not in blind}
    keys |= {ref: choice for ref, choice in old.keys.items() if ref in blind}
    return RelationshipRecord(keys, tuple(sorted(edges, key=lambda edge: _order(edge.id))), old.gone, old.waiting)


def restricted(record: RelationshipRecord, tables: Mapping[TableRef, Table]) -> RelationshipRecord:
    """Return what is said of tables and columns that are there, and of those that are gone what it says of that."""
    columns = {ref: {column.name for column in table.columns} for ref, table in tables.items()}

    def known(ref: TableRef, names: Iterable[str], condition: tuple[str, Any] | None = None) -> bool:
        return ref in columns and set(names) <= columns[ref] and (condition is None or condition[0] in columns[ref])

    keys = {ref: choice for ref, choice in record.keys.items() if known(ref, choice.primary)}
    edges = (
        edge
        for edge in record.edges
        if known(edge.child, edge.child_columns, edge.condition) and known(edge.parent, edge.parent_columns)
    )
    return RelationshipRecord(keys, tuple(edges), record.gone, record.waiting)


def with_failed_parts(
    new: RelationshipRecord, old: RelationshipRecord, failures: Iterable[StageFailure]
) -> RelationshipRecord:
    """Return what was found, with what was known before of the parts that failed."""
    for failure in failures:
        new = _with_failed(new, old, failure)
    return new


def _with_failed(new: RelationshipRecord, old: RelationshipRecord, failure: StageFailure) -> RelationshipRecord:
    rests_on = _RESTING.get(failure.stage)
    if rests_on is None:
        return new
    keys = dict(new.keys)
    if failure.stage is Stage.KEYS:
        keys |= {ref: choice for ref, choice in old.keys.items() if failure.table in (None, ref)}
    held = {
        (edge.child, column) for edge in old.edges if rests_on(edge, failure.table) for column in edge.child_columns
    }
    edges = [edge for edge in new.edges if not _is_held(edge, held)]
    edges += [edge for edge in old.edges if _is_held(edge, held)]
    return RelationshipRecord(keys, tuple(edges), new.gone, new.waiting)


def _is_held(edge: Relationship, held: set[tuple[TableRef, str]]) -> bool:
    return any((edge.child, column) in held for column in edge.child_columns)


_RESTING: dict[Stage, Callable[[Relationship, TableRef | None], bool]] = {
    Stage.KEYS: lambda edge, table: len(edge.child_columns) > 1 and table in (None, edge.parent),
    Stage.COMPOSITES: lambda edge, table: len(edge.child_columns) > 1,
    Stage.POLYMORPHIC: lambda edge, table: edge.condition is not None and table in (None, edge.child),
    Stage.HINTS: lambda edge, table: bool({"view", "model"} & set(edge.sources)),
}
"""Whether an edge that an earlier scan found rests on a stage, of one table or of all."""


def with_earlier(new: RelationshipRecord, old: RelationshipRecord, unread: Collection[TableRef]) -> RelationshipRecord:
    """Return what is new, with what rows said of tables that are not read any more.

    An edge that was accepted or rejected, and a key that was confirmed, rest on rows.
    """
    if not unread:
        return new
    decided = {
        _ends(edge): edge
        for edge in old.edges
        if {edge.child, edge.parent} & set(unread) and edge.status is not Status.REVIEW
    }
    edges = (*(edge for edge in new.edges if _ends(edge) not in decided), *decided.values())
    keys = {ref: choice for ref, choice in old.keys.items() if ref in unread and choice.confirmed}
    return RelationshipRecord({**new.keys, **keys}, edges)


def _ends(edge: Relationship) -> tuple[object, ...]:
    return edge.child, edge.child_columns, edge.parent, edge.parent_columns, edge.condition


def _steady(edge: Relationship, before: Relationship | None) -> Relationship:
    if before is None or before.status is not edge.status or before.cardinality is not edge.cardinality:
        return edge
    steady = abs(before.probability - edge.probability) < STEADY and _says_the_same(before.reason, edge.reason)
    return before if steady else edge


def _says_the_same(before: str, now: str) -> bool:
    """Whether two reasons differ by less than a per cent of the rows, and in nothing else."""
    if _SHARE.sub("", _ROWS.sub("", before)) != _SHARE.sub("", _ROWS.sub("", now)):
        return False
    shares = [map(float, _SHARE.findall(reason)) for reason in (before, now)]
    rows = [[int(each.replace(",", "")) for each in _ROWS.findall(reason)] for reason in (before, now)]
    near = all(abs(old - new) < 1.0 for old, new in zip(*shares, strict=True))
    return near and all(100 * abs(old - new) < max(old, new) for old, new in zip(*rows, strict=True) if old != new)


def _steady_key(choice: KeyChoice, before: KeyChoice | None) -> KeyChoice:
    same = before is not None and (before.primary, before.alternates, before.confirmed, before.declared) == (
        choice.primary,
        choice.alternates,
        choice.confirmed,
        choice.declared,
    )
    return before if same and before is not None and abs(before.probability - choice.probability) < STEADY else choice


def _order(edge: RelationshipId) -> tuple[Any, ...]:
    child, columns, parent, keys, condition = edge
    return child.schema or "", child.name, columns, parent.schema or "", parent.name, keys, condition


def _listed(name: str, lines: Iterable[str]) -> str:
    found = list(lines)
    return f' "{name}": [' + ("\n  " + ",\n  ".join(found) + "\n ]" if found else "]")


def _ref(ref: TableRef) -> list[str]:
    return [ref.name] if ref.schema is None else [ref.schema, ref.name]


def _ref_from(parts: list[str]) -> TableRef:
    return TableRef(None, parts[0]) if len(parts) == 1 else TableRef(parts[0], parts[1])


def _key_to_json(ref: TableRef, choice: KeyChoice) -> dict[str, Any]:
    fields: dict[str, Any] = {"table": _ref(ref), "columns": list(choice.primary)}
    if choice.declared:
        fields["declared"] = True
    else:
        fields |= {"score": choice.probability, "confirmed": choice.confirmed}
    if choice.alternates:
        fields["alternates"] = [list(each) for each in choice.alternates]
    return fields


def _key_from_json(fields: dict[str, Any]) -> tuple[TableRef, KeyChoice]:
    declared = bool(fields.get("declared", False))
    return _ref_from(fields["table"]), KeyChoice(
        primary=tuple(fields["columns"]),
        declared=declared,
        probability=float(fields.get("score", 1.0)),
        alternates=tuple(tuple(each) for each in fields.get("alternates", ())),
        confirmed=bool(fields.get("confirmed", True)),
    )


def _edge_to_json(edge: Relationship) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "from": _ref(edge.child),
        "columns": list(edge.child_columns),
        "to": _ref(edge.parent),
        "to_columns": list(edge.parent_columns),
        "status": edge.status.value,
        "score": edge.probability,
        "reason": edge.reason,
        "relationship": edge.cardinality.value,
        "sources": list(edge.sources),
    }
    if edge.condition is not None:
        fields["when"] = list(edge.condition)
    return fields


def _edge_from_json(fields: dict[str, Any]) -> Relationship:
    when = fields.get("when")
    return Relationship(
        child=_ref_from(fields["from"]),
        child_columns=tuple(fields["columns"]),
        parent=_ref_from(fields["to"]),
        parent_columns=tuple(fields["to_columns"]),
        status=Status(fields["status"]),
        probability=float(fields["score"]),
        reason=str(fields["reason"]),
        cardinality=Cardinality(fields["relationship"]),
        sources=tuple(fields["sources"]),
        condition=None if when is None else (str(when[0]), when[1]),
    )


ARROW = "->"


def relationship_name(edge: Relationship, names: Mapping[TableRef, str]) -> str:
    """Return what a person calls an edge: `orders.customer_id->customers.id`.

    Several columns stand in brackets; a name that is no plain word in double quotes; a reference that depends on a
    column ends in ` when owner_type=customer`.
    """
    child, parent = _end(names[edge.child], edge.child_columns), _end(names[edge.parent], edge.parent_columns)
    return f"{child}{ARROW}{parent}{_when(edge.condition)}"


def _end(source: str, columns: Sequence[str]) -> str:
    named = ",".join(map(quoted, columns))
    return f"{quoted(source)}.{named}" if len(columns) == 1 else f"{quoted(source)}.({named})"


def _when(condition: tuple[str, Any] | None) -> str:
    if condition is None:
        return ""
    column, value = condition
    return f" when {quoted(column)}={quoted(value) if isinstance(value, str) else value}"
