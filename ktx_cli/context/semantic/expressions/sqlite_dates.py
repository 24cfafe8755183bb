"""Parts and truncations of dates for SQLite, which has neither EXTRACT nor DATE_TRUNC, out of what it has.

What a made node is, stays written on it: `date_parts` reads it there.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from ktx_cli.context.semantic.errors import SemanticError

PART, CUT = "ktx_part", "ktx_cut"
"""Keys of a made node's `meta`: the part of a date it is, the grain it is cut to."""

_PARTS: Final = {
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
        return _marked(_part(node.name.lower(), node.expression), PART, node.name.lower())
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc) and isinstance(node.args.get("unit"), exp.Expr):
        unit = node.args["unit"].name.lower()
        return _marked(_cut(unit, node.this), CUT, unit)
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


def _part(name: str, value: exp.Expr) -> exp.Expr:
    if name in _PARTS:
        return _number(_PARTS[name], value)
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


def _cut(unit: str, value: exp.Expr) -> exp.Expr:
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
