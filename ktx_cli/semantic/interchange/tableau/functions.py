"""Translate calls of Tableau functions on rows, and say why others cannot be translated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.report import UnresolvedError
from ktx_cli.semantic.interchange.tableau.dates import UNITS, Dates
from ktx_cli.semantic.interchange.tableau.values import (
    CONSTANT,
    NUMBERS,
    TIMES,
    Value,
    divisor_of,
    grouped,
    one_type,
    operand,
    require_numbers,
    together,
    whole,
)
from ktx_cli.warehouses import dialect_named


class Settings(Protocol):
    """What functions depend on: the dialect of the SQL, and the first day of the week (0 is Sunday)."""

    dialect: str
    week_start: int
    knows_week_start: bool


_OF_VIEW: Final = "it is a table calculation, which depends on the rows of a view"
_CUMULATIVE: Final = f"{_OF_VIEW}; for a total over time, use a measure with `cumulative`"
_OF_USER: Final = "it depends on the user who looks; write a row policy"
_EXTERNAL: Final = "it calls a service outside the database"
_LOCALE: Final = "its text depends on the language of the user"
_PASSED: Final = "it passes SQL to the database"
REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RUNNING_SUM", "RUNNING_AVG", "RUNNING_COUNT", "RUNNING_MAX", "RUNNING_MIN"), _CUMULATIVE),
    **dict.fromkeys(
        ("WINDOW_SUM", "WINDOW_AVG", "WINDOW_COUNT", "WINDOW_MAX", "WINDOW_MIN"),
        f"{_OF_VIEW}; for a moving period, use a measure with `cumulative: {{window: ...}}`",
    ),
    **dict.fromkeys(
        ("WINDOW_MEDIAN", "WINDOW_STDEV", "WINDOW_STDEVP", "WINDOW_VAR", "WINDOW_VARP", "WINDOW_PERCENTILE",
         "WINDOW_CORR", "WINDOW_COVAR", "WINDOW_COVARP", "FIRST", "LAST", "INDEX", "SIZE"), _OF_VIEW,
    ),
    **dict.fromkeys(("LOOKUP", "PREVIOUS_VALUE"), f"{_OF_VIEW}; for an earlier period, use a measure with `offset`"),
    **dict.fromkeys(
        ("RANK", "RANK_DENSE", "RANK_MODIFIED", "RANK_PERCENTILE", "RANK_UNIQUE"),
        f"{_OF_VIEW}; sort the query with `order_by` instead",
    ),
    "TOTAL": f"{_OF_VIEW}; for a share of a total, use a measure with `percent_of`",
    **dict.fromkeys(
        ("USERNAME", "FULLNAME", "USERDOMAIN", "ISUSERNAME", "ISFULLNAME", "ISMEMBEROF", "USERATTRIBUTE",
         "USERATTRIBUTEINCLUDES"), _OF_USER,
    ),
    **dict.fromkeys(
        ("SCRIPT_BOOL", "SCRIPT_INT", "SCRIPT_REAL", "SCRIPT_STR", "MODEL_EXTENSION_BOOL", "MODEL_EXTENSION_INT",
         "MODEL_EXTENSION_REAL", "MODEL_EXTENSION_STR", "MODEL_PERCENTILE", "MODEL_QUANTILE"), _EXTERNAL,
    ),
    **dict.fromkeys(("DATENAME", "DATEPARSE"), _LOCALE),
    **{f"RAWSQL{kind}_{type_}": _PASSED for kind in ("", "AGG")
       for type_ in ("BOOL", "DATE", "DATETIME", "INT", "REAL", "STR", "SPATIAL")},
}  # fmt: skip
"""Functions that ktx cannot express, with the reason."""


def apply(name: str, values: list[Value], settings: Settings) -> Value:
    """Return the call of a function on translated arguments. Raises `UnresolvedError` if ktx cannot express it."""
    if name in REFUSED:
        raise UnresolvedError(REFUSED[name])
    known = _known().get(name)
    if known is None:
        raise UnresolvedError(f"ktx does not support the function `{name}`")
    least, most, build = known
    if not least <= len(values) <= most:
        raise UnresolvedError(f"`{name}` has {len(values)} arguments")
    return build(values, settings)


_Build = Callable[[list[Value], Settings], Value]


def _known() -> dict[str, tuple[int, int, _Build]]:
    """Return each function's least and most arguments, and what translates it."""
    return {
        "ISNULL": (1, 1, _is_null), "IFNULL": (2, 2, _if_null), "ZN": (1, 1, _zero_for_null), "IIF": (3, 4, _iif),
        "MIN": (2, 2, _pair_of(exp.LTE, exp.GT)), "MAX": (2, 2, _pair_of(exp.GTE, exp.LT)),
        "ABS": (1, 1, _number(lambda x: exp.Abs(this=x))), "SIGN": (1, 1, _number(lambda x: exp.Sign(this=x))),
        "CEILING": (1, 1, _number(lambda x: exp.Ceil(this=x), "integer")),
        "FLOOR": (1, 1, _number(lambda x: exp.Floor(this=x), "integer")),
        "SQUARE": (1, 1, _number(lambda x: exp.Mul(this=grouped(x), expression=grouped(x.copy())))),
        "EXP": (1, 1, _number(lambda x: exp.Exp(this=_double(x)), "real")),
        "SQRT": (1, 1, _number(_root, "real")), "LN": (1, 1, _number(_logarithm, "real")), "LOG": (1, 2, _log),
        "POWER": (2, 2, _power), "ROUND": (1, 2, _round), "DIV": (2, 2, _whole_quotient),
        "PI": (0, 0, lambda _, __: Value(exp.Literal.number("3.141592653589793"), "real", CONSTANT, False)),
        **{name: (1, 1, _number(_named(name), "real")) for name in ("SIN", "COS", "TAN", "ATAN", "DEGREES", "RADIANS")},
        "UPPER": (1, 1, _text(lambda x: exp.Upper(this=x))), "LOWER": (1, 1, _text(lambda x: exp.Lower(this=x))),
        "TRIM": (1, 1, _text(lambda x: exp.Trim(this=x))),
        "LTRIM": (1, 1, _text(lambda x: exp.Trim(this=x, position="LEADING"))),
        "RTRIM": (1, 1, _text(lambda x: exp.Trim(this=x, position="TRAILING"))),
        "LEN": (1, 1, _text(lambda x: exp.Length(this=x), "integer")),
        "LEFT": (2, 2, lambda v, _: together(_start(v[0].sql, v[1].sql), "string", *v)), "RIGHT": (2, 2, _right),
        "MID": (2, 3, _middle), "SUBSTR": (2, 3, _middle), "REPLACE": (3, 3, _replace), "SPLIT": (3, 3, _split),
        "CONTAINS": (2, 2, _contains), "STARTSWITH": (2, 2, _begins), "ENDSWITH": (2, 2, _ends), "FIND": (2, 2, _find),
        "STR": (1, 1, _to_text), "INT": (1, 1, _to_whole), "FLOAT": (1, 1, _to_real),
        "DATE": (1, 1, _to_time("date", "date")), "DATETIME": (1, 1, _to_time("timestamp", "datetime")),
        "TODAY": (0, 0, lambda _, __: Value(exp.CurrentDate(), "date", CONSTANT, False)),
        "NOW": (0, 0, lambda _, __: Value(exp.CurrentTimestamp(), "datetime", CONSTANT, False)),
        **{name: (1, 1, _part_of(unit)) for name, unit in _PARTS.items()}, "DATEPART": (2, 3, _date_part),
        "DATETRUNC": (2, 3, _date_trunc), "DATEADD": (3, 3, _date_add), "DATEDIFF": (3, 4, _date_diff),
        "MAKEDATE": (3, 3, _make_date),
    }  # fmt: skip


def _is_null(values: list[Value], _: Settings) -> Value:
    return together(exp.Is(this=grouped(values[0].sql), expression=exp.null()), "boolean", *values, nullable=False)


def _if_null(values: list[Value], _: Settings) -> Value:
    first, second = values
    sql = exp.Coalesce(this=first.sql, expressions=[second.sql])
    return together(sql, one_type(values), first, second, nullable=second.is_nullable)


def _zero_for_null(values: list[Value], _: Settings) -> Value:
    require_numbers("ZN", *values)
    zero = exp.Literal.number(0)
    sql = exp.Coalesce(this=values[0].sql, expressions=[zero])
    return together(sql, values[0].type, *values, nullable=False)


def _iif(values: list[Value], _: Settings) -> Value:
    """Return IIF, which unlike IF has a third result for a condition that is NULL."""
    test, *results = values
    case = exp.Case().when(test.sql, results[0].sql, copy=False)
    if not test.is_nullable:
        return together(case.else_(results[1].sql, copy=False), one_type(results), *values)
    case = case.when(exp.Not(this=grouped(test.sql.copy())), results[1].sql, copy=False)
    if len(results) > 2:
        case = case.else_(results[2].sql, copy=False)
    return together(case, one_type(results), *values, nullable=True)


def _pair_of(first: type[exp.Binary], second: type[exp.Binary]) -> _Build:
    """Return the smaller or larger of two values, which is NULL if one of them is."""

    def build(values: list[Value], _: Settings) -> Value:
        one, two = values
        kind = one_type(values)
        case = exp.Case().when(first(this=grouped(one.sql), expression=grouped(two.sql)), one.sql.copy(), copy=False)
        other = second(this=grouped(one.sql.copy()), expression=grouped(two.sql.copy()))
        return together(case.when(other, two.sql.copy(), copy=False), kind, *values)

    return build


def _number(of: Callable[[exp.Expr], exp.Expr], kind: str = "") -> _Build:
    def build(values: list[Value], _: Settings) -> Value:
        require_numbers("a function of numbers", *values)
        return together(of(values[0].sql), kind or values[0].type, *values, nullable=True)

    return build


def _text(of: Callable[[exp.Expr], exp.Expr], kind: str = "string") -> _Build:
    def build(values: list[Value], _: Settings) -> Value:
        if values[0].type not in ("string", "", "null"):
            raise UnresolvedError(f"it applies a function of texts to a value of type {values[0].type}")
        return together(of(values[0].sql), kind, *values)

    return build


def _named(name: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda x: exp.Anonymous(this=name.lower(), expressions=[x])


def _double(tree: exp.Expr) -> exp.Expr:
    return exp.cast(tree, "double")


def _root(tree: exp.Expr) -> exp.Expr:
    test = exp.GTE(this=grouped(tree.copy()), expression=exp.Literal.number(0))
    return exp.Case().when(test, exp.Sqrt(this=_double(tree)), copy=False)


def _logarithm(tree: exp.Expr) -> exp.Expr:
    test = exp.GT(this=grouped(tree.copy()), expression=exp.Literal.number(0))
    return exp.Case().when(test, exp.Ln(this=_double(tree)), copy=False)


def _log(values: list[Value], _: Settings) -> Value:
    require_numbers("LOG", *values)
    base = values[1].sql if len(values) > 1 else exp.Literal.number(10)
    sql = exp.Div(this=_logarithm(values[0].sql), expression=_logarithm(base), typed=True)
    return together(sql, "real", *values, nullable=True)


def _power(values: list[Value], _: Settings) -> Value:
    require_numbers("POWER", *values)
    return together(exp.Pow(this=operand(values[0]), expression=operand(values[1])), "real", *values)


def _round(values: list[Value], _: Settings) -> Value:
    require_numbers("ROUND", *values)
    value = values[0]
    sql = exp.Round(
        this=operand(value) if value.is_sum else value.sql, decimals=values[1].sql if len(values) > 1 else None
    )
    return together(sql, value.type if len(values) > 1 else "integer", *values)


def _whole_quotient(values: list[Value], _: Settings) -> Value:
    require_numbers("DIV", *values)
    sql = exp.Div(this=_double(values[0].sql), expression=divisor_of(values[1].sql), typed=True)
    return together(_truncated(sql), "integer", *values, nullable=True)


def _truncated(tree: exp.Expr) -> exp.Expr:
    """Return a number without its decimals. Casts would round."""
    test = exp.LT(this=grouped(tree), expression=exp.Literal.number(0))
    case = exp.Case().when(test, exp.Ceil(this=tree.copy()), copy=False).else_(exp.Floor(this=tree.copy()), copy=False)
    return exp.cast(case, "bigint")


def _middle(values: list[Value], _: Settings) -> Value:
    length = values[2].sql if len(values) > 2 else None
    return together(exp.Substring(this=values[0].sql, start=values[1].sql, length=length), "string", *values)


def _replace(values: list[Value], _: Settings) -> Value:
    return together(exp.Anonymous(this="replace", expressions=[each.sql for each in values]), "string", *values)


def _start(text: exp.Expr, length: exp.Expr) -> exp.Expr:
    """Return the first characters of a text."""
    return exp.Substring(this=text, start=exp.Literal.number(1), length=length)


def _right(values: list[Value], _: Settings) -> Value:
    """Return the last characters of a text, which may have fewer."""
    text, count = values[0].sql, values[1].sql
    length = exp.Length(this=text)
    case = exp.Case().when(exp.LTE(this=length, expression=grouped(count)), text.copy(), copy=False)
    return together(case.else_(_rest(text.copy(), length.copy(), count.copy()), copy=False), "string", *values)


def _rest(text: exp.Expr, length: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Return the last characters of a text of a length."""
    before = exp.Sub(this=length, expression=grouped(count))
    return exp.Substring(this=text, start=exp.Add(this=before, expression=exp.Literal.number(1)))


_MOST_PARTS: Final = 3


def _split(values: list[Value], _: Settings) -> Value:
    number, delimiter = whole(values[2].sql), values[1].sql
    if number is None or not 1 <= number <= _MOST_PARTS or not delimiter.is_string or not delimiter.this:
        why = f"ktx only splits texts by a constant text, and returns one of the first {_MOST_PARTS} parts"
        raise UnresolvedError(why)
    note = "a part that is missing has no value"
    return together(_part(values[0].sql, delimiter, number), "string", *values, nullable=True, note=note)


def _part(text: exp.Expr, delimiter: exp.Expr, number: int) -> exp.Expr:
    """Return a part of a text, counted from 1, or NULL if it has fewer parts."""
    place = exp.StrPosition(this=text.copy(), substr=delimiter.copy())
    found = exp.GT(this=place, expression=exp.Literal.number(0))
    if number == 1:
        end = exp.Sub(this=place.copy(), expression=exp.Literal.number(1))
        return exp.Case().when(found, _start(text.copy(), end), copy=False).else_(text.copy(), copy=False)
    after = exp.Add(this=place.copy(), expression=exp.Literal.number(len(str(delimiter.this))))
    rest = exp.Substring(this=text.copy(), start=after)
    return exp.Case().when(found, _part(rest, delimiter, number - 1), copy=False)


def _contains(values: list[Value], settings: Settings) -> Value:
    sql = exp.GT(this=_find(values, settings).sql, expression=exp.Literal.number(0))
    return together(sql, "boolean", *values)


def _find(values: list[Value], _: Settings) -> Value:
    return together(exp.StrPosition(this=values[0].sql, substr=values[1].sql), "integer", *values)


def _begins(values: list[Value], _: Settings) -> Value:
    text, wanted = values
    start = _start(text.sql, _length(wanted.sql))
    return together(exp.EQ(this=start, expression=grouped(wanted.sql)), "boolean", *values)


def _ends(values: list[Value], _: Settings) -> Value:
    """Return whether a text ends with another one. A shorter text never equals it, whatever its last characters are."""
    text, wanted = values
    end = _rest(text.sql, exp.Length(this=text.sql.copy()), _length(wanted.sql))
    return together(exp.EQ(this=end, expression=grouped(wanted.sql)), "boolean", *values)


def _length(text: exp.Expr) -> exp.Expr:
    return exp.Literal.number(len(str(text.this))) if text.is_string else exp.Length(this=text.copy())


def _to_text(values: list[Value], _: Settings) -> Value:
    value = values[0]
    if value.type == "string":
        return value
    if value.type == "boolean":
        case = exp.Case().when(value.sql, exp.Literal.string("true"), copy=False)
        case = case.when(exp.Not(this=grouped(value.sql.copy())), exp.Literal.string("false"), copy=False)
        return together(case, "string", value)
    if value.type == "integer":
        return together(exp.cast(value.sql, "varchar"), "string", value)
    raise UnresolvedError(f"the text of a value of type {value.type or 'unknown'} depends on its display in Tableau")


def _tried(value: Value, to: str, settings: Settings) -> exp.Expr:
    """Return a cast of a text that is NULL for a text in another form. Raises `UnresolvedError` if there is none."""
    if not dialect_named(settings.dialect).has_try_cast:
        raise UnresolvedError("it converts texts, and the database has no cast that skips texts in another form")
    return exp.TryCast(this=value.sql, to=exp.DataType.build(to))


def _to_whole(values: list[Value], settings: Settings) -> Value:
    value = values[0]
    if value.type == "integer":
        return value
    if value.type == "boolean":
        case = exp.Case().when(value.sql, exp.Literal.number(1), copy=False)
        return together(
            case.when(exp.Not(this=grouped(value.sql.copy())), exp.Literal.number(0), copy=False), "integer", value
        )
    if value.type == "string":
        return together(_truncated(_tried(value, "double", settings)), "integer", value, nullable=True)
    require_numbers("INT", value)
    return together(_truncated(value.sql), "integer", value)


def _to_real(values: list[Value], settings: Settings) -> Value:
    value = values[0]
    if value.type == "string":
        return together(_tried(value, "double", settings), "real", value, nullable=True)
    require_numbers("FLOAT", value)
    return together(_double(value.sql), "real", value)


def _to_time(to: str, kind: str) -> _Build:
    def build(values: list[Value], settings: Settings) -> Value:
        value = values[0]
        if value.type in NUMBERS or value.type == "boolean":
            raise UnresolvedError(f"ktx does not convert a value of type {value.type} to a {kind}")
        if value.type == "string" and value.level != CONSTANT:
            return together(_tried(value, to, settings), kind, value, nullable=True)
        return together(exp.cast(value.sql, to), kind, value)

    return build


_PARTS: Final = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "week", "DAY": "day", "ISOWEEK": "iso-week",
    "ISOYEAR": "iso-year", "ISOWEEKDAY": "iso-weekday",
}  # fmt: skip
_DAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_OF_WEEKS: Final = ("week", "weekday")
_DEFAULT_WEEK: Final = "its weeks start on Sunday, because the file does not say which day they start on"


def _unit(value: Value) -> str:
    if not (isinstance(value.sql, exp.Literal) and value.sql.is_string):
        raise UnresolvedError("its date part is not a constant")
    return str(value.sql.this).lower()


def _week(unit: str, values: list[Value], at: int, settings: Settings) -> tuple[int, str]:
    """Return the first day of the week, and a note if it matters and is only assumed."""
    if len(values) > at:
        name = _unit(values[at])
        if name not in _DAYS:
            raise UnresolvedError(f"`{name}` is not a day of the week")
        return _DAYS.index(name), ""
    is_assumed = unit in _OF_WEEKS and not settings.knows_week_start
    return settings.week_start, _DEFAULT_WEEK if is_assumed else ""


def _require_time(*values: Value) -> None:
    strange = next((each.type for each in values if each.type not in (*TIMES, "", "null")), None)
    if strange is not None:
        raise UnresolvedError(f"it applies a function of dates to a value of type {strange}")


def _part_of(unit: str) -> _Build:
    return lambda values, settings: _one_part(unit, values[0], [], settings)


def _date_part(values: list[Value], settings: Settings) -> Value:
    return _one_part(_unit(values[0]), values[1], values, settings)


def _one_part(unit: str, time: Value, values: list[Value], settings: Settings) -> Value:
    _require_time(time)
    start, note = _week(unit, values, 2, settings)
    return together(Dates(settings.dialect).part(unit, time.sql, start), "integer", time, note=note)


def _date_trunc(values: list[Value], settings: Settings) -> Value:
    unit, time = _unit(values[0]), values[1]
    _require_time(time)
    if unit not in UNITS:
        raise UnresolvedError(f"ktx does not support the date part `{unit}`")
    start, note = _week(unit, values, 2, settings)
    kind = "datetime" if unit in ("hour", "minute", "second") else "date"
    return together(Dates(settings.dialect).cut(unit, time.sql, start), kind, time, note=note)


def _date_add(values: list[Value], settings: Settings) -> Value:
    unit = _unit(values[0])
    unit = "day" if unit in ("weekday", "dayofyear") else unit
    _require_time(values[2])
    if unit not in UNITS:
        raise UnresolvedError(f"ktx does not support the date part `{unit}`")
    return Dates(settings.dialect).added(unit, values[1], values[2])


def _date_diff(values: list[Value], settings: Settings) -> Value:
    """Return how many periods start between two times."""
    unit, start, end = _unit(values[0]), values[1], values[2]
    _require_time(start, end)
    first, note = _week(unit, values, 3, settings)
    sql = Dates(settings.dialect).between(unit, start.sql, end.sql, first)
    return together(sql, "integer", start, end, note=note)


def _make_date(values: list[Value], settings: Settings) -> Value:
    return together(Dates(settings.dialect).made(*(each.sql for each in values)), "date", *values)
