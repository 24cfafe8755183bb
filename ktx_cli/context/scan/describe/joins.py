"""Joins as the model proposes them: the form of its answer, what bars a proposal, how it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.connectors.port import SemanticType, TableRef
from ktx_cli.context.scan.describe.facts import Join, TableFacts
from ktx_cli.context.scan.profiling.model import ColumnProfile, ValueKind

_COMPARABLE: Final = frozenset({ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.TEXT, ValueKind.TIME})


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class JoinAnswer(_Answer):
    """One proposal: `child_columns` refer to `parent_columns`, in the same order."""

    child: str = Field(max_length=300)
    child_columns: list[str] = Field(min_length=1, max_length=8)
    parent: str = Field(max_length=300)
    parent_columns: list[str] = Field(min_length=1, max_length=8)
    confidence: float = Field(ge=0, le=1)
    rationale: str = Field(max_length=400)


class JoinsAnswer(_Answer):
    """The answer of one call."""

    joins: list[JoinAnswer] = Field(max_length=1000)


@dataclass(frozen=True, slots=True)
class ProposedJoin:
    """A join of the model's: `confidence` is its own probability, 0 to 1, and no proof."""

    join: Join
    confidence: float
    rationale: str


def problem(join: Join, facts: Mapping[TableRef, TableFacts]) -> str | None:
    """Return why a proposal cannot be a new join, None where it can."""
    child, parent = facts[join.child], facts[join.parent]
    if len(join.child_columns) != len(join.parent_columns):
        return f"{len(join.child_columns)} columns cannot refer to {len(join.parent_columns)}"
    if any(len(set(columns)) < len(columns) for columns in (join.child_columns, join.parent_columns)):
        return "a column stands in it twice"
    if join.child == join.parent and set(join.child_columns) & set(join.parent_columns):
        return "a column would refer to itself"
    if identity(join) in {identity(known) for known in child.joins_out}:
        return "the join is known already"
    pairs = zip(join.child_columns, join.parent_columns, strict=True)
    return next((reason for own, other in pairs if (reason := _mismatch(child, own, parent, other))), None)


def _mismatch(child: TableFacts, own: str, parent: TableFacts, other: str) -> str | None:
    """Return what bars two columns from being compared. Where values were seen, they count more than declared types."""
    types = _type(child, own), _type(parent, other)
    if SemanticType.BOOLEAN in types:
        return "a flag refers to nothing"
    seen = _seen(child.column_profiles().get(own)), _seen(parent.column_profiles().get(other))
    if None not in seen:
        return None if seen[0] == seen[1] else f"{own} holds {seen[0]}, {other} holds {seen[1]}"
    return None if types[0] == types[1] else f"{own} is of type {types[0]}, {other} of type {types[1]}"


def _type(facts: TableFacts, name: str) -> SemanticType:
    return next(column.type for column in facts.table.columns if column.name == name)


def _seen(profile: ColumnProfile | None) -> str | None:
    """Return what a column holds, None where that was not seen or cannot be compared; all numbers are alike."""
    if profile is None or profile.kind not in _COMPARABLE:
        return None
    return "numbers" if profile.kind in (ValueKind.INTEGER, ValueKind.NUMBER) else f"{profile.kind.value}s"


def identity(join: Join) -> Any:
    """Return what is equal for two joins of the same columns, in whatever order they stand."""
    own, theirs = join.child_columns, join.parent_columns
    return join.child, join.parent, len(own), len(theirs), frozenset(zip(own, theirs, strict=False))


def to_json(proposal: ProposedJoin) -> list[Any]:
    """Return what the store keeps."""
    join = proposal.join
    ends = [
        [join.child.schema, join.child.name, *join.child_columns],
        [join.parent.schema, join.parent.name, *join.parent_columns],
    ]
    return [*ends, proposal.confidence, proposal.rationale]


def from_json(value: Any) -> list[ProposedJoin] | None:
    """Return what the store kept, None where it is no such thing."""
    try:
        return None if value is None else [_proposal(*each) for each in value]
    except (TypeError, ValueError):
        return None


def _proposal(child: list[Any], parent: list[Any], confidence: float, rationale: str) -> ProposedJoin:
    (schema, name, *own), (other_schema, other_name, *theirs) = child, parent
    join = Join(TableRef(schema, name), tuple(own), TableRef(other_schema, other_name), tuple(theirs))
    return ProposedJoin(join, float(confidence), str(rationale))
