"""Inferred keys and relationships with their probabilities, and the record in which a scan commits them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from ktx_cli.core import Command, Hint, KtxError
from ktx_cli.scan.stages import Stage, StageFailure
from ktx_cli.semantic import quoted
from ktx_cli.warehouses import Table, TableRef

MODEL_SOURCE: Final = "model"
"""The source of a relationship that a model chose, among its `sources`."""

MODEL_REJECTED: Final = "model_rejected"
"""The source of a relationship that a model was asked about and did not choose: evidence against it."""


def is_answered(sources: Iterable[str]) -> bool:
    """Return whether a model chose or rejected a relationship with these sources."""
    return not {MODEL_SOURCE, MODEL_REJECTED}.isdisjoint(sources)


class Status(StrEnum):
    """The decision of a scan about a relationship: a join, one that needs review, or none."""

    ACCEPTED = "accepted"
    REVIEW = "review"
    REJECTED = "rejected"


class Cardinality(StrEnum):
    """How many rows of the child refer to one row of the parent."""

    MANY_TO_ONE = "many_to_one"
    ONE_TO_ONE = "one_to_one"


class Doubt(StrEnum):
    """Why a relationship needs review although its probability is sufficient."""

    NOT_CHECKED = "not_checked"
    """The time limit was reached before its values were checked."""
    NO_PARENT_ROWS = "no_parent_rows"
    """The column has values and the key has none."""
    DATE_KEY = "date_key"
    """A date refers to a column that is not the most likely key of its table, and a calendar has every date."""
    FEW_VALUES = "few_values"
    """The name says nothing, and the column has one or two values, which several keys contain."""
    LINEAGE = "lineage"
    """By the lineage of a dbt project, the two tables are not joined."""
    OWN_NUMBER = "own_number"
    """The column is named as the number of its own table, and its values are few or consecutive."""


VAGUE: Final = frozenset({Doubt.FEW_VALUES, Doubt.OWN_NUMBER})
"""The doubts that a high probability outweighs."""

SURE_PROBABILITY = 0.9
"""From this probability on, neighbours that refer to the key make up for a name and values that say nothing."""


DOUBT_TEXTS: Final[Mapping[Doubt, str]] = {
    Doubt.NOT_CHECKED: "the time limit of the scan was reached before the values were checked",
    Doubt.NO_PARENT_ROWS: "the referenced table is empty, so no row has a match yet",
    Doubt.DATE_KEY: "a calendar contains every date, and the column that this date would refer to is not the most "
    "likely key of its table",
    Doubt.FEW_VALUES: "the name gives no indication, and one or two values match many keys; ktx would accept the join "
    f"from a score of {SURE_PROBABILITY:g} on",
    Doubt.LINEAGE: "the lineage of the dbt project contradicts it",
    Doubt.OWN_NUMBER: "the column looks like the ID of its own table, and a few small numbers match almost any key, so "
    f"the match proves nothing; ktx would accept the join from a score of {SURE_PROBABILITY:g} on",
}
"""Doubt -> why it needs review, in words."""


def effective_doubts(doubts: Iterable[Doubt], probability: float) -> tuple[Doubt, ...]:
    """Return the doubts that still apply with a probability.

    A calendar has every date, a parent without rows confirms nothing, and one or two values fit many keys.
    """
    return tuple(each for each in doubts if each not in VAGUE or probability < SURE_PROBABILITY)


class Rule(StrEnum):
    """What decided between candidates of one column that are similarly probable."""

    OWN_SCHEMA = "own_schema"
    """Of tables with the same name, the one in the schema of the column's table."""
    ORIGINAL = "original"
    """The table whose key another candidate extends."""
    NEAREST = "nearest"
    """The table that itself refers to the other candidate."""


RULE_TEXTS: Final[Mapping[Rule, str]] = {
    Rule.OWN_SCHEMA: "of tables with the same name, ktx prefers the one in the schema of the column's table",
    Rule.ORIGINAL: "both keys are similarly likely, and ktx prefers the table to which the key originally belongs",
    Rule.NEAREST: "both keys are similarly likely, and ktx prefers the nearer table, which itself refers to the other",
}
"""Rule -> what decided, in words."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a relationship on rows: of `rows` rows with a value, `missing` have no parent.

    `exact`: all rows were checked, not only the sample. `compared`: the number of values that were compared by
    sketches, or 0 if none were; `rows` and `missing` are then those with these values, or the values themselves if
    their rows say nothing. `at_most`: the upper bound of `violations` in all rows, which 99 of 100 sketches keep.
    """

    rows: int
    missing: int
    exact: bool
    compared: int = 0
    at_most: float | None = None

    @property
    def violations(self) -> float:
        """The share of rows without a parent, from 0 to 1; 0 if there are no rows."""
        return self.missing / self.rows if self.rows else 0.0


MAX_VIOLATIONS = 0.08
"""A relationship with a larger share of rows without a parent needs review."""


class StatusSettings(Protocol):
    """The settings that turn a probability into a status."""

    @property
    def accept_threshold(self) -> float:
        """The minimum probability of an accepted relationship."""

    @property
    def review_threshold(self) -> float:
        """The minimum probability of one that needs review."""

    @property
    def validation_required_for_manifest(self) -> bool:
        """Whether only rows can confirm a relationship."""


def status_of(probability: float, check: Check | None, settings: StatusSettings, *, empty: bool = False) -> Status:
    """Return the status of the relationship that won its column. Without a check, a person has to accept it.

    `empty`: one of the two has no values. Nothing contradicts the relationship, so it is not rejected.
    """
    if probability < settings.review_threshold:
        return Status.REVIEW if empty else Status.REJECTED
    if probability < settings.accept_threshold:
        return Status.REVIEW
    if check is None:
        return Status.REVIEW if settings.validation_required_for_manifest else Status.ACCEPTED
    return Status.ACCEPTED if check.violations <= MAX_VIOLATIONS else Status.REVIEW


@dataclass(frozen=True, slots=True)
class Relationship:
    """A reference from columns of one table to a key of another, inferred or declared.

    `probability`: how likely it is right, from 0 to 1. `reason`: the evidence in one line. `sources`: where it came
    from (`names`, `values`, `view`, `model` ...). `condition`: for a column that refers to several tables, the column
    and the value that make it refer to this one.
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
    def tables(self) -> frozenset[TableRef]:
        """The tables at both ends."""
        return frozenset({self.child, self.parent})

    @property
    def id(self) -> RelationshipId:
        """The identity of the relationship within its connection."""
        return self.child, self.child_columns, self.parent, self.parent_columns, repr(self.condition)


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """A table's primary key, and its other unique sets. `declared`: whether the database declares it; else it is
    inferred.
    """

    primary: tuple[str, ...]
    declared: bool
    probability: float = 1.0
    alternates: tuple[tuple[str, ...], ...] = ()
    confirmed: bool = True
    """Whether the key was checked on all rows."""


class Evidence(Protocol):
    """What the decisions about the references of columns are based on, in the form that the profile store keeps."""

    @property
    def child(self) -> TableRef:
        """The table of the columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, several if they refer to a key together."""

    def to_json(self) -> str:
        """Return the evidence as JSON, without the table and the columns."""

    def without_values(self) -> Evidence:
        """Return the evidence without examples of values."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The inferred keys and relationships of a database. `queries`: the number of statements sent.

    `evidence`: what the decisions are based on, for explanations, or None if it could not be collected. It is stored on
    this machine and not committed.
    """

    keys: dict[TableRef, KeyChoice]
    relationships: tuple[Relationship, ...]
    queries: int = 0
    problems: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] | None = field(default=None, compare=False)

    @property
    def primary_keys(self) -> dict[TableRef, tuple[str, ...]]:
        """Table -> its primary key, declared or inferred."""
        return {ref: choice.primary for ref, choice in self.keys.items() if choice.primary}

    def accepted(self) -> tuple[Relationship, ...]:
        """Return the relationships that are joins."""
        return tuple(each for each in self.relationships if each.status is Status.ACCEPTED)


RELATIONSHIPS: Final = "relationships.json"
DECLARATIONS: Final = "declarations.json"
"""The name of the file with the declarations of a context source; see `relationships.declarations`."""

FORMAT = 1
LEAST_PROBABILITY = 0.2
"""Rejected relationships with a lower probability are not recorded."""

STEADY = 0.05
"""A relationship whose probability changes by less keeps its old line, because rows change every day."""

_SHARE = re.compile(r"([\d.]+) ?%")
_ROWS = re.compile(r"\(([\d,]+) rows?\)")

RelationshipId = tuple[TableRef, tuple[str, ...], TableRef, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class RelationshipRecord:
    """The inferred keys and relationships of a connection.

    `gone`: former joins, and relationships decided by a person, that scans no longer detect. All are rejected, and
    their reason says why.
    """

    keys: Mapping[TableRef, KeyChoice] = field(default_factory=dict)
    relationships: tuple[Relationship, ...] = ()
    gone: tuple[Relationship, ...] = ()
    waiting: frozenset[RelationshipId] = frozenset()
    """Those of `gone` that a person accepted and whose table or column is missing. They become joins again once it is
    back.
    """

    def key_of(self, table: Table) -> tuple[str, ...]:
        """Return the primary key of a table: the declared one, else an inferred one that all rows confirm."""
        if table.primary_key:
            return table.primary_key
        choice = self.keys.get(table.ref)
        if choice is None or not choice.confirmed or not set(choice.primary) <= {c.name for c in table.columns}:
            return ()
        return choice.primary

    def accepted(self) -> tuple[Relationship, ...]:
        """Return the relationships that are joins."""
        return tuple(each for each in self.relationships if each.status is Status.ACCEPTED)

    def recorded(self) -> tuple[Relationship, ...]:
        """Return the recorded relationships: all but unlikely ones about which no model answered."""
        return tuple(
            r
            for r in self.relationships
            if r.status is not Status.REJECTED or r.probability >= LEAST_PROBABILITY or is_answered(r.sources)
        )


def record_text(record: RelationshipRecord) -> bytes:
    """Return the file, with a line for every key and relationship."""
    keys = [_key_to_json(ref, choice) for ref, choice in sorted(record.keys.items(), key=lambda each: str(each[0]))]
    relationships = map(_relationship_to_json, record.recorded())
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = [f' "format": {FORMAT}', _listed("keys", map(encode, keys)), _listed("edges", map(encode, relationships))]
    if record.gone:
        gone = (
            {**_relationship_to_json(r), **({"manual": True} if r.id in record.waiting else {})} for r in record.gone
        )
        lines.append(_listed("gone", map(encode, gone)))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "surrogatepass")


def read_record(content: bytes, where: str) -> RelationshipRecord:
    """Return the record in a file. Raises `KtxError` for a damaged one."""
    try:
        document = json.loads(content)
        keys = dict(_key_from_json(each) for each in document["keys"])
        lists = (document["edges"], document.get("gone", ()))
        relationships, gone = (tuple(map(_relationship_from_json, listed)) for listed in lists)
        manual = (bool(fields.get("manual")) for fields in lists[1])
        waiting = frozenset(each.id for each, waits in zip(gone, manual, strict=True) if waits)
        return RelationshipRecord(keys, relationships, gone, waiting)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = Hint("restore it from git; the next `{}` rewrites it", Command("scan"))
        raise KtxError(f"{where} is damaged ({type(error).__name__})", hint=hint) from error


def steadied(new: RelationshipRecord, old: RelationshipRecord, unseen: Iterable[TableRef]) -> RelationshipRecord:
    """Return the new record, keeping old lines without important changes and those of the `unseen` tables."""
    unread = set(unseen)
    before = {each.id: each for each in old.relationships}
    kept = [_steady(each, before.get(each.id)) for each in new.relationships if not each.tables & unread]
    kept += [each for each in old.relationships if each.tables & unread]
    keys = {ref: _steady_key(choice, old.keys.get(ref)) for ref, choice in new.keys.items() if ref not in unread}
    keys |= {ref: choice for ref, choice in old.keys.items() if ref in unread}
    return RelationshipRecord(keys, tuple(sorted(kept, key=lambda each: _sort_key(each.id))), old.gone, old.waiting)


def restricted(record: RelationshipRecord, tables: Mapping[TableRef, Table]) -> RelationshipRecord:
    """Return the record with the keys and relationships whose tables and columns exist. `gone` is kept unchanged."""
    columns = {ref: {column.name for column in table.columns} for ref, table in tables.items()}

    def known(ref: TableRef, names: Iterable[str], condition: tuple[str, Any] | None = None) -> bool:
        return ref in columns and set(names) <= columns[ref] and (condition is None or condition[0] in columns[ref])

    keys = {ref: choice for ref, choice in record.keys.items() if known(ref, choice.primary)}
    relationships = (
        each
        for each in record.relationships
        if known(each.child, each.child_columns, each.condition) and known(each.parent, each.parent_columns)
    )
    return RelationshipRecord(keys, tuple(relationships), record.gone, record.waiting)


def with_failed_parts(
    new: RelationshipRecord, old: RelationshipRecord, failures: Iterable[StageFailure]
) -> RelationshipRecord:
    """Return the new record, with the old one's part for each stage that failed."""
    for failure in failures:
        new = _with_failed(new, old, failure)
    return new


def _with_failed(new: RelationshipRecord, old: RelationshipRecord, failure: StageFailure) -> RelationshipRecord:
    depends_on = _DEPENDING.get(failure.stage)
    if depends_on is None:
        return new
    keys = dict(new.keys)
    if failure.stage is Stage.KEYS:
        keys |= {ref: choice for ref, choice in old.keys.items() if failure.table in (None, ref)}
    affected = {(r.child, name) for r in old.relationships if depends_on(r, failure.table) for name in r.child_columns}

    def is_affected(relationship: Relationship) -> bool:
        return any((relationship.child, column) in affected for column in relationship.child_columns)

    relationships = [each for each in new.relationships if not is_affected(each)]
    relationships += filter(is_affected, old.relationships)
    return RelationshipRecord(keys, tuple(relationships), new.gone, new.waiting)


_DEPENDING: dict[Stage, Callable[[Relationship, TableRef | None], bool]] = {
    Stage.KEYS: lambda each, table: len(each.child_columns) > 1 and table in (None, each.parent),
    Stage.COMPOSITES: lambda each, table: len(each.child_columns) > 1,
    Stage.POLYMORPHIC: lambda each, table: each.condition is not None and table in (None, each.child),
    Stage.PROPOSALS: lambda each, table: is_answered(each.sources),
    Stage.HINTS: lambda each, table: bool(set(each.sources) - {"names", "values"}),
}
"""Stage -> whether a relationship of an earlier scan depends on it, for one table or for all (None)."""


def join_probabilities(content: bytes, where: str) -> dict[tuple[str, str], float]:
    """Return the probability of each recorded relationship by its columns: `table.column` on both sides, folded."""
    return {
        (f"{each.child.name}.{own}".casefold(), f"{each.parent.name}.{other}".casefold()): each.probability
        for each in read_record(content, where).relationships
        for own, other in zip(each.child_columns, each.parent_columns, strict=True)
    }


def with_earlier(new: RelationshipRecord, old: RelationshipRecord, unread: Collection[TableRef]) -> RelationshipRecord:
    """Return the new record, with the old decisions about tables that scans no longer read.

    Decisions based on rows are accepted or rejected relationships, and confirmed keys.
    """
    if not unread:
        return new
    decided = {r.id: r for r in old.relationships if r.tables & set(unread) and r.status is not Status.REVIEW}
    relationships = (*(each for each in new.relationships if each.id not in decided), *decided.values())
    keys = {ref: choice for ref, choice in old.keys.items() if ref in unread and choice.confirmed}
    return RelationshipRecord({**new.keys, **keys}, relationships)


def _steady(now: Relationship, before: Relationship | None) -> Relationship:
    if before is None or before.status is not now.status or before.cardinality is not now.cardinality:
        return now
    steady = abs(before.probability - now.probability) < STEADY and _is_same_reason(before.reason, now.reason)
    return before if steady else now


def _is_same_reason(before: str, now: str) -> bool:
    """Return whether two reasons differ only in less than one percent of the rows."""
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


def _sort_key(id: RelationshipId) -> tuple[Any, ...]:
    child, columns, parent, keys, condition = id
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


def _relationship_to_json(relationship: Relationship) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "from": _ref(relationship.child),
        "columns": list(relationship.child_columns),
        "to": _ref(relationship.parent),
        "to_columns": list(relationship.parent_columns),
        "status": relationship.status.value,
        "score": relationship.probability,
        "reason": relationship.reason,
        "relationship": relationship.cardinality.value,
        "sources": list(relationship.sources),
    }
    if relationship.condition is not None:
        fields["when"] = list(relationship.condition)
    return fields


def _relationship_from_json(fields: dict[str, Any]) -> Relationship:
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


def relationship_name(relationship: Relationship, names: Mapping[TableRef, str]) -> str:
    """Return the name of a relationship in reports: `orders.customer_id->customers.id`.

    Several columns are in parentheses, and names that are not plain words in double quotes. A reference that depends on
    another column ends in ` when owner_type=customer`.
    """
    child = _end(names[relationship.child], relationship.child_columns)
    parent = _end(names[relationship.parent], relationship.parent_columns)
    return f"{child}{ARROW}{parent}{_when(relationship.condition)}"


def column_name(ref: TableRef, columns: Sequence[str]) -> str:
    """Return columns with their table: `orders.id`, or `lines.(order_id,line_no)`."""
    table = ".".join(map(quoted, (ref.name,) if ref.schema is None else (ref.schema, ref.name)))
    listed = ",".join(map(quoted, columns))
    return f"{table}.{listed}" if len(columns) == 1 else f"{table}.({listed})"


def _end(source: str, columns: Sequence[str]) -> str:
    named = ",".join(map(quoted, columns))
    return f"{quoted(source)}.{named}" if len(columns) == 1 else f"{quoted(source)}.({named})"


def _when(condition: tuple[str, Any] | None) -> str:
    if condition is None:
        return ""
    column, value = condition
    return f" when {quoted(column)}={quoted(value) if isinstance(value, str) else value}"
