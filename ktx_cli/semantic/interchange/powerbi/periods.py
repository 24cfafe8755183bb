"""Recognize the time intelligence of DAX: filters that move, accumulate or end the dates of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.semantic.interchange.powerbi.dax import Binary, Call, Column, Dax, Name, Number, Text, Unary
from ktx_cli.semantic.interchange.report import UnresolvedError

_TO_DATE: Final = {"YTD": "year", "QTD": "quarter", "MTD": "month"}
_UNITS: Final = ("day", "month", "quarter", "year")
_WHOLE: Final = "`{}` is a whole period, whatever the period of a query; ktx only moves the period of the query"
_REASONS: Final = {
    **{
        f"{word}{unit}": _WHOLE.format(f"{word}{unit}")
        for word in ("PREVIOUS", "NEXT") for unit in ("DAY", "MONTH", "QUARTER", "YEAR")
    },
    "PARALLELPERIOD": _WHOLE.format("PARALLELPERIOD"),
    "DATESBETWEEN": "ktx takes the dates from the query; use a time range",
}  # fmt: skip
"""Function -> why ktx has no equivalent."""

_LATEST: Final = ("MAX", "LASTDATE")
_YEAR_ENDS: Final = ("12/31", "31/12", "12-31", "31-12")


@dataclass(frozen=True, slots=True)
class Period:
    """A filter on dates: the keys of a ktx measure with the same meaning, and the date column.

    `over`: whether the keys need the name of the time column as `over`.
    """

    keys: Mapping[str, Any]
    date: Column
    over: bool = False


def period_of(node: Dax, resolve: Callable[[Dax], Dax]) -> Period | None:
    """Return the meaning of a filter argument, or None if it is not time intelligence.

    `resolve` replaces a variable by its definition. Raises `UnresolvedError` if ktx has no equivalent.
    """
    if isinstance(node, Binary):
        return _running(node, resolve)
    if not isinstance(node, Call):
        return None
    if node.name in _REASONS:
        raise UnresolvedError(_REASONS[node.name])
    if node.name == "SAMEPERIODLASTYEAR":
        return Period({"offset": "1 year"}, _date_column(node, 0))
    if node.name == "DATEADD":
        return Period({"offset": _earlier(node, 1, resolve)}, _date_column(node, 0))
    if node.name.startswith("DATES") and node.name[5:] in _TO_DATE:
        return to_date(node, _TO_DATE[node.name[5:]], 1)
    if node.name == "DATESINPERIOD":
        return _window(node, resolve)
    if node.name in ("LASTDATE", "LASTNONBLANK", "FIRSTDATE", "FIRSTNONBLANK"):
        take = "last" if node.name.startswith("LAST") else "first"
        return Period({"semi_additive": {"take": take}}, _date_column(node, 0), over=True)
    if node.name == "FILTER" and len(node.arguments) == 2:
        return _running_filter(node, resolve)
    return None


def to_date(node: Call, unit: str, year_end: int) -> Period:
    """Return the values since the start of a year, quarter or month. `year_end`: the argument with the last day."""
    end = node.arguments[year_end] if len(node.arguments) > year_end else None
    if end is not None and not (isinstance(end, Text) and end.value in _YEAR_ENDS):
        raise UnresolvedError("its year does not end on 31 December; ktx only accumulates calendar years")
    return Period({"cumulative": {"to_date": unit}}, _date_column(node, 0))


def total_to_date(node: Call) -> tuple[Dax, Period, Dax | None] | None:
    """Return the parts of TOTALYTD, TOTALQTD and TOTALMTD: expression, period and further filter. None for others."""
    if not node.name.startswith("TOTAL") or node.name[5:] not in _TO_DATE or len(node.arguments) < 2:
        return None
    expression, rest = node.arguments[0], node.arguments[2:]
    further = rest[0] if rest and not isinstance(rest[0], Text) else None
    ends = tuple(each for each in rest if isinstance(each, Text))
    if expression is None:
        raise UnresolvedError(f"`{node.name}` has no expression")
    call = Call(f"DATES{node.name[5:]}", (node.arguments[1], *ends))
    return expression, to_date(call, _TO_DATE[node.name[5:]], 1), further


def _date_column(node: Call, index: int) -> Column:
    found = node.arguments[index] if len(node.arguments) > index else None
    if isinstance(found, Column) and found.table is not None:
        return found
    raise UnresolvedError(f"ktx only supports `{node.name}` with a date column")


def _earlier(node: Call, index: int, resolve: Callable[[Dax], Dax]) -> str:
    """Return the span of a negative number and a unit, such as `-1, MONTH`."""
    amount, unit = (*node.arguments[index : index + 2], None, None)[:2]
    found = resolve(amount) if amount is not None else None
    if isinstance(found, Unary) and found.operator == "-" and isinstance(found.operand, Number):
        count = found.operand.text
    elif isinstance(found, Number):
        raise UnresolvedError(f"`{node.name}` looks at later dates; ktx only offers earlier ones")
    else:
        raise UnresolvedError(f"ktx only supports `{node.name}` with a number")
    word = unit.name.lower() if isinstance(unit, Name) else ""
    if word not in _UNITS or not count.isdecimal() or int(count) == 0:
        raise UnresolvedError(f"ktx does not support the span of `{node.name}`")
    return f"{int(count)} {word}{'' if int(count) == 1 else 's'}"


def _window(node: Call, resolve: Callable[[Dax], Dax]) -> Period:
    date = _date_column(node, 0)
    end = node.arguments[1] if len(node.arguments) > 1 else None
    if end is None or not _is_latest(resolve(end), date):
        raise UnresolvedError("ktx only supports DATESINPERIOD up to the last date of the query")
    return Period({"cumulative": {"window": _earlier(node, 2, resolve)}}, date)


def _is_latest(node: Dax, date: Column) -> bool:
    """Return whether an expression is the last date of the query."""
    return isinstance(node, Call) and node.name in _LATEST and node.arguments == (date,)


def _running(node: Binary, resolve: Callable[[Dax], Dax]) -> Period | None:
    """Return the running total of `'Date'[Date] <= MAX('Date'[Date])`."""
    date = node.left
    if node.operator == "<=" and isinstance(date, Column) and date.table and _is_latest(resolve(node.right), date):
        return Period({"cumulative": {}}, date)
    return None


def _running_filter(node: Call, resolve: Callable[[Dax], Dax]) -> Period | None:
    rows, condition = node.arguments
    found = _running(condition, resolve) if isinstance(condition, Binary) else None
    if found is None or not isinstance(rows, Call):
        return None
    if rows.name == "ALLSELECTED":
        raise UnresolvedError("ALLSELECTED starts at the first selected date; ktx accumulates from the first date")
    inside = rows.arguments[0] if len(rows.arguments) == 1 else None
    is_date = inside == found.date or (isinstance(inside, Name) and inside.name == found.date.table)
    return found if rows.name == "ALL" and is_date else None
