"""A question with every name found: dimensions, formulas over aggregates, conditions; what the compiler works from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ktx_cli.context.semantic.expressions.names import Expression, Name, placeholders
from ktx_cli.context.semantic.model import Cumulative, SemiAdditive, Span
from ktx_cli.context.semantic.query import Query

if TYPE_CHECKING:
    from ktx_cli.context.semantic.planning.axis import Axis


@dataclass(frozen=True, slots=True)
class Dimension:
    """One column to group by: `name` of the answer's column, `grain` a time is cut to, `asked` as it was written."""

    name: str
    expression: Expression
    asked: str
    grain: str | None = None

    @property
    def column(self) -> Name | None:
        """The column it is, None where it is an expression over columns."""
        return self.expression.names[0] if isinstance(self.expression.tree, exp.Placeholder) else None


@dataclass(frozen=True, slots=True)
class Treatment:
    """How an aggregate sees rows besides its conditions.

    `time`: the fact's column that counts as its time. `keep`: numbers of the dimensions it is grouped by, None for all.
    """

    time: str | None = None
    cumulative: Cumulative | None = None
    semi_additive: SemiAdditive | None = None
    offset: Span | None = None
    keep: tuple[int, ...] | None = None

    @property
    def is_windowed(self) -> bool:
        """Whether the rows of a period are not simply those within it."""
        return self.cumulative is not None or self.offset is not None


@dataclass(frozen=True, slots=True)
class Nested:
    """The inside of a two-level aggregate: formulas, grouped by the dimensions and the keys."""

    keys: tuple[Expression, ...]
    formulas: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One aggregate over the rows of one fact.

    `aggregate`: its tree; of a nested one the columns stand for `nested.formulas`. `conditions`: which rows it sees.
    `kind`: `count`, `sum` or `other`. `home`: the source that declares it, None for one of a question.
    """

    fact: str
    aggregate: Expression
    kind: str
    conditions: tuple[Expression, ...] = ()
    treatment: Treatment = Treatment()
    nested: Nested | None = None
    home: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two leaves the same."""
        nested = None if self.nested is None else self.nested.formulas
        keys = () if self.nested is None else tuple(each.key for each in self.nested.keys)
        return (
            self.fact,
            self.aggregate.key,
            frozenset(each.key for each in self.conditions),
            self.treatment,
            nested,
            keys,
        )


@dataclass(frozen=True, slots=True)
class Output:
    """One measure of the answer: its formula, whose numbers are leaves; `ref`: the measure it is, as `source.name`."""

    name: str
    formula: exp.Expr
    asked: str
    ref: str | None = None
    description: str | None = None
    unit: str | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on rows; `facts`: the only ones it is for, None for all."""

    expression: Expression
    facts: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A stretch of time on a dimension's column: `start` included, `end` not."""

    expression: Expression
    start: date | datetime | None
    end: date | datetime | None


@dataclass(frozen=True, slots=True)
class Order:
    """What to sort by: a tree whose numbers are leaves, or dimensions (-1 is the first)."""

    tree: exp.Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """A question with every name found.

    In `having` and `order` the numbers from 0 are leaves, those below are dimensions: -1 the first. `named_by`: by the
    number of a leaf the measures it was found in, each with those around it, outermost first. `axes`: the times of
    running and earlier aggregates, by fact and treatment. `notes`: what the answer should tell its reader.
    """

    query: Query
    dimensions: tuple[Dimension, ...]
    outputs: tuple[Output, ...]
    leaves: tuple[Leaf, ...]
    filters: tuple[RowFilter, ...] = ()
    having: tuple[exp.Expr, ...] = ()
    order: tuple[Order, ...] = ()
    time_range: TimeRange | None = None
    timezone: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    having_texts: tuple[str, ...] = ()
    named_by: Mapping[int, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    axes: Mapping[tuple[str, Treatment], Axis] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def composed(self) -> tuple[str, ...]:
        """What the question adds up by itself: measures that no source defines, and aggregates in its conditions."""
        own = {each.expr for each in self.query.measures}
        formulas = [each.asked for each in self.outputs if each.ref is None and each.asked in own]
        aggregates = [each.aggregate.text for each in self.leaves if each.home is None]
        return tuple(dict.fromkeys(formulas or aggregates))

    @property
    def wanted(self) -> list[int]:
        """The numbers of the leaves the answer itself is made of; the others are inside of two-level ones."""
        trees = [*(each.formula for each in self.outputs), *self.having, *(each.tree for each in self.order)]
        numbers = {int(place.name) for tree in trees for place in placeholders(tree)}
        return sorted(number for number in numbers if number >= 0)
