"""What an expression over one time says of it: its year, its month as a text, the day it is cut to."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ktx_cli.semantic.model import DAY, GRAINS, HOUR, MINUTE, MONTH, QUARTER, SECOND, WEEK, YEAR, SemanticError
from ktx_cli.semantic.model import CalendarSettings as Settings
from ktx_cli.semantic.time.calendar import nests

RAW: Final = ""
"""In place of a grain: the time itself."""


@dataclass(frozen=True, slots=True)
class DatePart:
    """Within a period of `grain` the value never changes.

    `cuts`: it tells every two of these periods apart. `starts`: it is the beginning of the period itself. `of_year`: it
    tells those of one year apart.
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
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "day",
    exp.DayOfWeekIso: "day",
    exp.DayOfYear: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_TRUNCATIONS: Final = (exp.TimestampTrunc, exp.DateTrunc, exp.DatetimeTrunc)
_DATES: Final = (exp.Date, exp.TsOrDsToDate)
_DIRECTIVE: Final = re.compile(r"%-?([A-Za-z])")
_YEARS, _MONTHS = frozenset("Y"), frozenset("mbB")
_FINEST: Final = {"H": HOUR, "I": HOUR, "p": HOUR, "M": MINUTE, "S": SECOND, "T": SECOND}
_DAYS: Final = frozenset("dejaAuwUWVGF")
_UNSTEADY: Final = (exp.Rand, exp.Uuid, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime)


def date_part(tree: exp.Expr, settings: Settings) -> DatePart | None:
    """Return what a tree says of the time that all its numbered places stand for; None where nobody can tell.

    The grain is `RAW` where it reads the time as it is, in whatever way.
    """
    found = _known(tree, settings)
    return found if found is not None else _composed(tree, settings)


def cut_to(inner: DatePart, grain: str, settings: Settings) -> DatePart | None:
    """Return a truncated time cut to a grain; None for what is no time any more, or cut to others."""
    if grain == WEEK and inner.grain == WEEK and inner.starts:
        return inner
    if not inner.starts or grain not in GRAINS:
        return None
    if inner.grain == RAW or nests(inner.grain, grain, settings):
        return DatePart(grain, cuts=True, starts=True)
    return inner if nests(grain, inner.grain, settings) else None


def _known(tree: exp.Expr, settings: Settings) -> DatePart | None:
    """Return what a function of dates says, None for anything else."""
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
    """Return what a text made by a format says: `%Y-%m` tells every two months apart, `%m` those of a year."""
    form = tree.args.get("format")
    inner = _known(tree.this, settings)
    if inner is None or inner.grain != RAW or not isinstance(form, exp.Literal):
        return None
    letters = frozenset(_DIRECTIVE.findall(form.name))
    if letters - _YEARS - _MONTHS - _DAYS - frozenset("yq") - _FINEST.keys():
        return None
    fine = [_FINEST[each] for each in letters if each in _FINEST]
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
    """Return what an expression over date parts says: as fine as the finest of them, and no period of its own."""
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
    finest = (each for each in grains if all(nests(each, other, settings) for other in grains))
    return DatePart(next(finest, DAY))


def _unit(unit: exp.Expr | None) -> str:
    """Return the grain of a truncation's unit; `WEEK(MONDAY)` is a week."""
    if isinstance(unit, exp.WeekStart):
        return WEEK if unit.name.lower() == "monday" else ""
    name = "" if unit is None else unit.name.lower()
    return name if name in (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR) else ""


PART, CUT = "ktx_part", "ktx_cut"
"""Keys of a made node's `meta`: the part of a date it is, the grain it is cut to."""

_SQLITE_DATES_PARTS: Final = {
    "year": "%Y",
    "month": "%m",
    "day": "%d",
    "hour": "%H",
    "minute": "%M",
    "second": "%S",
    "dow": "%w",
    "dayofweek": "%w",
    "doy": "%j",
    "dayofyear": "%j",
}
_STARTS: Final = {"year": ("start of year",), "month": ("start of month",), "week": ("-6 days", "weekday 1"), "day": ()}
_CLOCKS: Final = {"hour": "%Y-%m-%d %H:00:00", "minute": "%Y-%m-%d %H:%M:00", "second": "%Y-%m-%d %H:%M:%S"}


def with_sqlite_dates(node: exp.Expr) -> exp.Expr:
    """Return a node of a tree as SQLite computes it; `SemanticError` for a part of a date that it cannot."""
    if isinstance(node, exp.Extract):
        return _marked(_sqlite_dates_part(node.name.lower(), node.expression), PART, node.name.lower())
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc) and isinstance(node.args.get("unit"), exp.Expr):
        unit = node.args["unit"].name.lower()
        return _marked(_sqlite_dates_cut(unit, node.this), CUT, unit)
    return node


def operand(made: exp.Expr) -> exp.Expr:
    """Return what a made node is a part of, or cuts."""
    call = made if isinstance(made, exp.Anonymous) else made.find(exp.Anonymous)
    assert call is not None
    while isinstance(call.expressions[-1], exp.Anonymous) and not call.expressions[-1].meta:
        call = call.expressions[-1]
    found: exp.Expr = call.expressions[1] if call.name == "STRFTIME" else call.expressions[0]
    return found


def _marked(node: exp.Expr, key: str, name: str) -> exp.Expr:
    node.meta[key] = name
    return node


def _sqlite_dates_part(name: str, value: exp.Expr) -> exp.Expr:
    if name in _SQLITE_DATES_PARTS:
        return _number(_SQLITE_DATES_PARTS[name], value)
    if name == "quarter":
        return exp.paren(
            exp.Div(this=exp.paren(_number("%m", value) + 2), expression=exp.Literal.number(3), typed=True)
        )
    if name in ("week", "isoweek", "weekofyear"):
        thursday = _call("DATE", value, "-3 days", "weekday 4")
        return exp.paren(
            exp.Div(this=exp.paren(_number("%j", thursday) + 6), expression=exp.Literal.number(7), typed=True)
        )
    raise _impossible(f"extract({name} from ...)")


def _sqlite_dates_cut(unit: str, value: exp.Expr) -> exp.Expr:
    if unit in _STARTS:
        return _call("DATE", value, *_STARTS[unit])
    if unit in _CLOCKS:
        return exp.Anonymous(this="STRFTIME", expressions=[exp.Literal.string(_CLOCKS[unit]), value.copy()])
    if unit == "quarter":
        back = exp.paren(exp.Mod(this=exp.paren(_number("%m", value) + 2), expression=exp.Literal.number(3)))
        months = exp.DPipe(this=exp.Literal.string("-"), expression=back, safe=True)
        months = exp.DPipe(this=months, expression=exp.Literal.string(" months"), safe=True)
        return exp.Anonymous(this="DATE", expressions=[value.copy(), exp.Literal.string("start of month"), months])
    raise _impossible(f"date_trunc('{unit}', ...)")


def _number(form: str, value: exp.Expr) -> exp.Cast:
    shown = exp.Anonymous(this="STRFTIME", expressions=[exp.Literal.string(form), value.copy()])
    return exp.Cast(this=shown, to=exp.DataType.build("integer"))


def _call(name: str, value: exp.Expr, *modifiers: str) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[value.copy(), *map(exp.Literal.string, modifiers)])


def _impossible(what: str) -> SemanticError:
    return SemanticError(
        f"SQLite cannot compute {what}",
        hint="use year, quarter, month, week, day, dow, doy, hour, minute or second",
        code="definition",
    )
