"""Date parts that expressions compute from a time, such as its year, its month as text, or its truncated day."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ktx_cli.semantic.calendar import nests
from ktx_cli.semantic.model import DAY, GRAINS, HOUR, MINUTE, MONTH, QUARTER, SECOND, WEEK, YEAR, SemanticError
from ktx_cli.semantic.model import CalendarSettings as Settings
from ktx_cli.warehouses import Dialect, dialect_named

RAW: Final = ""
"""Replaces a grain for an untruncated time."""


@dataclass(frozen=True, slots=True)
class DatePart:
    """A date part whose value never changes within a period of `grain`.

    `cuts`: it is different for any two of these periods. `starts`: it is the beginning of the period itself.
    `of_year`: it is different for any two periods of one year.
    """

    grain: str
    cuts: bool = False
    starts: bool = False
    of_year: bool = False


_PARTS: Final = {
    "year": DatePart(YEAR, cuts=True),
    "quarter": DatePart(QUARTER, of_year=True),
    "month": DatePart(MONTH, of_year=True),
    **dict.fromkeys(("week", "weekofyear", "isoweek", "week_iso", "isoyear", "yearofweekiso"), DatePart(WEEK)),
    **dict.fromkeys(("day", "dayofmonth", "dow", "isodow", "dayofweek", "weekday", "doy", "dayofyear"), DatePart(DAY)),
    "hour": DatePart(HOUR),
    "minute": DatePart(MINUTE),
    "second": DatePart(SECOND),
}
_NODES: Final[dict[type[exp.Expr], str]] = {
    exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month", exp.Week: "week", exp.WeekOfYear: "week",
    exp.Day: "day", exp.DayOfMonth: "day", exp.DayOfWeek: "day", exp.DayOfWeekIso: "day", exp.DayOfYear: "day",
    exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second",
}  # fmt: skip
_TRUNCATIONS: Final = (exp.TimestampTrunc, exp.DateTrunc, exp.DatetimeTrunc)
_DATES: Final = (exp.Date, exp.TsOrDsToDate)
_DIRECTIVE: Final = re.compile(r"%-?([A-Za-z])")
_YEARS, _MONTHS = frozenset("Y"), frozenset("mbB")
_FINEST: Final = {"H": HOUR, "I": HOUR, "p": HOUR, "M": MINUTE, "S": SECOND, "T": SECOND}
_DAYS: Final = frozenset("dejaAuwUWVGF")
_UNSTEADY: Final = (exp.Rand, exp.Uuid, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime)


def date_part(tree: exp.Expr, settings: Settings) -> DatePart | None:
    """Return the date part that a tree computes if all its placeholders are one time, or None if that is unknown.

    The grain is `RAW` if the tree reads the untruncated time, in any way.
    """
    part = _known(tree, settings)
    return part if part is not None else _composed(tree, settings)


def cut_to(inner: DatePart, grain: str, settings: Settings) -> DatePart | None:
    """Return a truncated time, further truncated to a grain.

    None if the result is no longer a time, or is truncated to another grain.
    """
    if grain == WEEK and inner.grain == WEEK and inner.starts:
        return inner
    if not inner.starts or grain not in GRAINS:
        return None
    if inner.grain == RAW or nests(inner.grain, grain, settings):
        return DatePart(grain, cuts=True, starts=True)
    return inner if nests(grain, inner.grain, settings) else None


def _known(tree: exp.Expr, settings: Settings) -> DatePart | None:
    """Return the date part that a date function computes, or None for anything else."""
    if PART in tree.meta:
        return _part(operand(tree), tree.meta[PART], settings)
    if CUT in tree.meta:
        return _cut(operand(tree), tree.meta[CUT], settings, own_weeks=True)
    if isinstance(tree, exp.Paren | exp.TsOrDsToTimestamp):
        return _known(tree.this, settings)
    if isinstance(tree, exp.Placeholder):
        return DatePart(RAW, cuts=True, starts=True)
    if isinstance(tree, exp.Cast):
        return _cast(tree, settings)
    if isinstance(tree, _DATES):
        alone = not tree.expressions and not tree.args.get("zone")
        return _cut(tree.this, DAY, settings) if alone and tree.this is not None else None
    if isinstance(tree, _TRUNCATIONS):
        return _cut(tree.this, _unit(tree.args.get("unit")), settings, own_weeks=True)
    if isinstance(tree, exp.Extract):
        return _part(tree.expression, tree.name, settings)
    if type(tree) in _NODES:
        return _part(tree.this, _NODES[type(tree)], settings)
    if isinstance(tree, exp.TimeToStr):
        return _formatted(tree, settings)
    if (
        isinstance(tree, exp.Anonymous)
        and tree.name.lower() in ("date_part", "datepart")
        and len(tree.expressions) == 2
    ):
        return _part(tree.expressions[1], tree.expressions[0].name, settings)
    return None


def _cast(tree: exp.Cast, settings: Settings) -> DatePart | None:
    if tree.is_type("date"):
        return _cut(tree.this, DAY, settings)
    inner = _known(tree.this, settings)
    if inner is None or tree.to.is_type(*exp.DataType.TEMPORAL_TYPES - {exp.DataType.Type.TIME}):
        return inner
    as_much = tree.to.is_type(*exp.DataType.TEXT_TYPES) or (inner.grain == YEAR and not inner.starts)
    return replace(inner, starts=False) if as_much else None


def _cut(value: exp.Expr, grain: str, settings: Settings, *, own_weeks: bool = False) -> DatePart | None:
    inner = _known(value, settings)
    if inner is None:
        return None
    if own_weeks and grain == WEEK and settings.week_start != "monday":
        return replace(part, cuts=False, starts=False) if (part := cut_to(inner, DAY, settings)) else None
    return cut_to(inner, grain, settings)


def _part(value: exp.Expr, name: str, settings: Settings) -> DatePart | None:
    inner, part = _known(value, settings), _PARTS.get(name.lower())
    if inner is None or part is None or not inner.starts:
        return None
    if part.grain == WEEK and settings.week_start != "monday":
        part = DatePart(DAY)
    if inner.grain == RAW or nests(inner.grain, part.grain, settings):
        return part
    return DatePart(inner.grain) if nests(part.grain, inner.grain, settings) else None


def _formatted(tree: exp.TimeToStr, settings: Settings) -> DatePart | None:
    """Return the date part in a formatted text: `%Y-%m` is different for any two months, `%m` only within a year."""
    form = tree.args.get("format")
    inner = _known(tree.this, settings)
    if inner is None or inner.grain != RAW or not isinstance(form, exp.Literal):
        return None
    letters = frozenset(_DIRECTIVE.findall(form.name))
    if letters - _YEARS - _MONTHS - _DAYS - frozenset("yq") - _FINEST.keys():
        return None
    fine = [_FINEST[letter] for letter in letters if letter in _FINEST]
    if fine:
        return DatePart(min(fine, key=GRAINS.index))
    with_year = bool(letters & _YEARS)
    if letters & _DAYS:
        numbered = "j" in letters or (bool(letters & _MONTHS) and bool(letters & frozenset("de")))
        return DatePart(DAY, cuts="F" in letters or (with_year and numbered))
    if letters & _MONTHS:
        return DatePart(MONTH, cuts=with_year, of_year=not with_year)
    return DatePart(YEAR, cuts=True) if with_year else DatePart(DAY)


def _composed(tree: exp.Expr, settings: Settings) -> DatePart | None:
    """Return the date part of an expression over date parts: as fine as the finest of them, and not itself a period."""
    if isinstance(tree, _UNSTEADY):
        return None
    grains = []
    for child in tree.iter_expressions():
        if not any(child.find_all(exp.Placeholder, *_UNSTEADY)):
            continue
        part = date_part(child, settings)
        if part is None:
            return None
        grains.append(part.grain)
    if not grains:
        return None
    if RAW in grains:
        return DatePart(RAW)
    finest = (grain for grain in grains if all(nests(grain, other, settings) for other in grains))
    return DatePart(next(finest, DAY))


def _unit(unit: exp.Expr | None) -> str:
    """Return the grain for a truncation's unit; `WEEK(MONDAY)` is a week."""
    if isinstance(unit, exp.WeekStart):
        return WEEK if unit.name.lower() == "monday" else ""
    name = "" if unit is None else unit.name.lower()
    return name if name in (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR) else ""


PART, CUT = "ktx_part", "ktx_cut"
"""Keys in the `meta` of a created node: its date part, and the grain to which it is truncated."""

_DIALECT: Final = "ktx_dialect"


def with_own_dates(node: exp.Expr, syntax: Dialect) -> exp.Expr:
    """Return a tree node in the form that a dialect whose times are texts computes.

    Raises `SemanticError` for a date part that the dialect cannot compute.
    """
    if isinstance(node, exp.Extract):
        part = node.name.lower()
        return _marked(syntax.date_part(part, node.expression), PART, part, f"extract({part} from ...)", syntax)
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc) and isinstance(node.args.get("unit"), exp.Expr):
        unit = node.args["unit"].name.lower()
        return _marked(syntax.date_cut(unit, node.this), CUT, unit, f"date_trunc('{unit}', ...)", syntax)
    return node


def _marked(node: exp.Expr | None, key: str, name: str, what: str, syntax: Dialect) -> exp.Expr:
    if node is None:
        hint = "use year, quarter, month, week, day, dow, doy, hour, minute or second"
        raise SemanticError(f"{syntax.title} does not support {what}", hint=hint, code="definition")
    node.meta.update({key: name, _DIALECT: syntax.name})
    return node


def operand(made: exp.Expr) -> exp.Expr:
    """Return the operand whose date part or truncation a created node is."""
    return dialect_named(made.meta[_DIALECT]).cut_operand(made)
