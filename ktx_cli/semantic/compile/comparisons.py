"""Comparisons of times where these are texts, as in SQLite: `2024-01-31 00:00:00` is not equal to its date there.

Both sides are brought into one form before they are compared. Databases with types for times do that by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from ktx_cli.semantic.expressions.dates import CUT
from ktx_cli.semantic.model import HOUR, MINUTE, SECOND, Column
from ktx_cli.semantic.time.calendar import UTC_NAME, WrittenMoment, parse_moment
from ktx_cli.warehouses import DateOrTimestamp, Dialect, SemanticType

Read = Callable[[int], Column | None]
"""Gives the column that a numbered place of a tree stands for."""

_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Between, exp.In),
)
_DATES: Final = (exp.Date, exp.CurrentDate)
_TIMESTAMPS: Final = (exp.CurrentTimestamp,)
_MIDNIGHT: Final = " 00:00:00"


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: a column of a kind, a literal, or a function that gives a text of one form."""

    tree: exp.Expr
    column: Column | None = None
    function: DateOrTimestamp | None = None
    literal: WrittenMoment | None = None

    @property
    def form(self) -> DateOrTimestamp | None:
        """The form its values have, None for a literal and NULL, which take that of the others."""
        if self.column is not None:
            return "date" if self.column.is_date else "timestamp"
        return self.function

    def comparable(self, syntax: Dialect) -> exp.Expr:
        """Return a column in the form of its own values."""
        assert self.column is not None
        assert self.form is not None
        return syntax.comparable_time(self.tree, self.form, self.column.timezone or UTC_NAME)

    def written(self, form: DateOrTimestamp, syntax: Dialect) -> exp.Expr:
        """Return it in a form in which texts compare as times do."""
        if self.literal is not None:
            shown = self.literal.beside_dates() if form == "date" else self.literal.beside_timestamps()
            return exp.Literal.string(shown)
        if self.form is None or (self.column is None and self.form == form):
            return self.tree.copy()
        value = self.tree.copy() if self.column is None else self.comparable(syntax)
        if self.form == form:
            return value
        return exp.DPipe(this=exp.paren(value, copy=False), expression=exp.Literal.string(_MIDNIGHT), safe=True)


def with_compared_times(tree: exp.Expr, read: Read, syntax: Dialect) -> exp.Expr:
    """Return a tree in which times are compared as times, the same tree where it compares none."""
    if not tree.find(*_COMPARISONS):
        return tree
    return tree.transform(lambda node: _compared(node, read, syntax) if isinstance(node, _COMPARISONS) else node)


def readable_times(tree: exp.Expr, read: Read, syntax: Dialect) -> Iterator[exp.Expr]:
    """Yield conditions that the times a tree compares are missing or can be read, so that it says something of them."""
    for node in tree.walk():
        sides = _sides(node, read) if isinstance(node, _COMPARISONS) else []
        for side in sides:
            if side.column is None or side.form is None:
                continue
            missing = exp.Is(this=side.tree.copy(), expression=exp.null())
            known = exp.Not(this=exp.Is(this=side.comparable(syntax), expression=exp.null()))
            yield exp.or_(missing, known, *_both_numbers(sides, syntax), copy=False)


def _compared(node: exp.Expr, read: Read, syntax: Dialect) -> exp.Expr:
    """Return a comparison of times in one form, any other as it is: what is no time is compared as it was."""
    sides = _sides(node, read)
    if not sides:
        return node
    form: DateOrTimestamp = "date" if all(side.form in ("date", None) for side in sides) else "timestamp"
    new = node.copy()
    for place, side in zip(list(_places(new)), sides, strict=True):
        place.replace(side.written(form, syntax))
    ifs = [exp.If(this=numbers, true=node.copy()) for numbers in _both_numbers(sides, syntax)]
    return exp.Case(ifs=ifs, default=new) if ifs else new


def _both_numbers(sides: Sequence[_Side], syntax: Dialect) -> Iterator[exp.Expr]:
    """Yield for columns of timestamps the condition that all are numbers: these are compared as they are."""
    if all(side.column is not None and side.form == "timestamp" for side in sides):
        yield exp.and_(*(syntax.is_number(side.tree) for side in sides), copy=False)


def _sides(node: exp.Expr, read: Read) -> list[_Side]:
    """Return the sides of a comparison of times, none of any other."""
    if isinstance(node, exp.In) and not node.expressions:
        return []
    trees = [place.unnest() for place in _places(node)]
    columns = {int(tree.name): read(int(tree.name)) for tree in trees if isinstance(tree, exp.Placeholder)}
    times = [column for column in columns.values() if column is not None and column.type is SemanticType.TIME]
    zone = next((time.timezone for time in times if time.timezone), UTC_NAME)
    result = [_side(tree, columns, zone) for tree in trees]
    sides = [side for side in result if side is not None]
    return sides if len(sides) == len(trees) and any(side.form for side in sides) else []


def _places(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the sides of a comparison."""
    yield node.this
    if isinstance(node, exp.Between):
        yield from (node.args["low"], node.args["high"])
    elif isinstance(node, exp.In):
        yield from node.expressions
    else:
        yield node.expression


def _side(tree: exp.Expr, columns: dict[int, Column | None], zone: str) -> _Side | None:
    """Return a side of a comparison of times, None for what is no time."""
    if isinstance(tree, exp.Placeholder):
        column = columns[int(tree.name)]
        return None if column is None or column.type is not SemanticType.TIME else _Side(tree, column=column)
    if isinstance(tree, exp.Null):
        return _Side(tree)
    if isinstance(tree, exp.Literal):
        literal = parse_moment(tree.name, zone) if tree.is_string else None
        return None if literal is None else _Side(tree, literal=literal)
    function = _function(tree)
    return None if function is None else _Side(tree, function=function)


def _function(tree: exp.Expr) -> DateOrTimestamp | None:
    """Return the form of the texts that a function of dates gives."""
    name = tree.name.upper() if isinstance(tree, exp.Anonymous) else ""
    if isinstance(tree, _DATES) or name == "DATE" or (isinstance(tree, exp.Cast) and tree.to.is_type("date")):
        return "date"
    if isinstance(tree, _TIMESTAMPS) or name == "DATETIME" or tree.meta.get(CUT) in (HOUR, MINUTE, SECOND):
        return "timestamp"
    return "timestamp" if isinstance(tree, exp.Cast) and tree.to.is_type("timestamp", "datetime") else None
