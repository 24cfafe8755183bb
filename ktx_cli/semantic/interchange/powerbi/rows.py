"""Translate DAX that is computed for a single row: calculated columns, conditions, and the values of iterators.

In DAX, blank counts as 0 in sums and comparisons, as an empty text in texts, and as false in conditions. The SQL has
the same results: a sum with a missing operand is the other operand, and a comparison that holds for blank keeps NULL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.powerbi.dax import (
    Binary,
    Call,
    Column,
    Dax,
    Let,
    Name,
    Number,
    Rows,
    Text,
    Unary,
    children,
)  # fmt: skip
from ktx_cli.semantic.interchange.powerbi.world import IGNORES_CASE, INFINITE, Entity, World, column_tree
from ktx_cli.semantic.interchange.report import UnresolvedError

NEVER: Final = date(1899, 12, 30)
"""The date that blank counts as."""

ZEROS: Final[Mapping[str | None, Any]] = {"number": 0, "string": "", "boolean": False, "time": NEVER, None: 0}
"""The value that blank counts as, by type."""

_COMPARED: Final[dict[str, tuple[type[exp.Expr], Callable[[Any, Any], bool], str, str]]] = {
    "=": (exp.EQ, operator.eq, "<>", "="), "<>": (exp.NEQ, operator.ne, "=", "<>"),
    "<": (exp.LT, operator.lt, ">=", ">"), "<=": (exp.LTE, operator.le, ">", ">="),
    ">": (exp.GT, operator.gt, "<=", "<"), ">=": (exp.GTE, operator.ge, "<", "<="),
}  # fmt: skip
"""Operator -> its SQL, its meaning, its negation, and the operator with the sides exchanged."""

_FUNCTIONS: Final[dict[str, tuple[Callable[..., exp.Expr], str, str]]] = {
    "YEAR": (lambda x: exp.Extract(this=exp.var("YEAR"), expression=x), "time", "number"),
    "QUARTER": (lambda x: exp.Extract(this=exp.var("QUARTER"), expression=x), "time", "number"),
    "MONTH": (lambda x: exp.Extract(this=exp.var("MONTH"), expression=x), "time", "number"),
    "DAY": (lambda x: exp.Extract(this=exp.var("DAY"), expression=x), "time", "number"),
    "UPPER": (lambda x: exp.Upper(this=x), "string", "string"),
    "LOWER": (lambda x: exp.Lower(this=x), "string", "string"),
    "LEN": (lambda x: exp.Length(this=x), "string", "number"),
    "ABS": (lambda x: exp.Abs(this=x), "number", "number"),
    "INT": (lambda x: exp.Floor(this=x), "number", "number"),
    "SQRT": (lambda x: exp.Sqrt(this=x), "number", "number"),
    "EXP": (lambda x: exp.Exp(this=x), "number", "number"),
    "LN": (lambda x: exp.Ln(this=x), "number", "number"),
}  # fmt: skip
"""Functions of one argument: their SQL, and the types of argument and result. Blank stays blank."""


@dataclass(frozen=True, slots=True)
class Value:
    """A translated value. `kind`: its ktx type, if known. `constant`: its value, if it is a literal."""

    tree: exp.Expr
    kind: str | None
    nullable: bool = True
    constant: Any = None


BLANK: Final = Value(exp.Null(), None)


class RowTranslator:
    """Translates expressions for the rows of a table. `columns` and `notes` collect what they use and how they differ.

    `variables` maps names to values.
    """

    def __init__(self, world: World, entity: Entity, variables: Mapping[str, Value] | None = None) -> None:
        self._world, self._entity = world, entity
        self._variables = dict(variables or {})
        self.columns: dict[tuple[str, str], None] = {}
        self.notes: dict[str, None] = {}

    def value(self, node: Dax) -> Value:
        """Return the value of an expression in each row. Raises `UnresolvedError` for unsupported expressions."""
        if isinstance(node, Number):
            return Value(exp.Literal.number(node.text), "number", nullable=False, constant=float(node.text))
        if isinstance(node, Text):
            return Value(exp.Literal.string(node.value), "string", nullable=False, constant=node.value)
        if isinstance(node, Column):
            return self._column(node)
        if isinstance(node, Name):
            return self._named(node)
        if isinstance(node, Unary) and node.operator != "NOT":
            return self._signed(node)
        if isinstance(node, Binary) and node.operator in "+-*/^&":
            return self._arithmetic(node.operator, self.value(node.left), self.value(node.right))
        if isinstance(node, Let):
            return self._let(node)
        if isinstance(node, Call) and node.name in ("TRUE", "FALSE"):
            return _boolean(node.name == "TRUE")
        if isinstance(node, Call) and node.name not in _CONDITIONS:
            return self._call(node)
        return Value(self.condition(node), "boolean", nullable=False)

    def condition(self, node: Dax, *, negated: bool = False) -> exp.Expr:
        """Return a condition, which is NULL or false in SQL where DAX returns false."""
        if isinstance(node, Call) and node.name in ("AND", "OR") and len(node.arguments) == 2:
            left, right = self._arguments(node, 2)
            return self.condition(Binary("&&" if node.name == "AND" else "||", left, right), negated=negated)
        if (isinstance(node, Unary) and node.operator == "NOT") or (isinstance(node, Call) and node.name == "NOT"):
            return self.condition(next(iter(children(node))), negated=not negated)
        if isinstance(node, Binary) and node.operator in ("&&", "||"):
            both = [self.condition(each, negated=negated) for each in (node.left, node.right)]
            return exp.and_(*both) if (node.operator == "&&") is not negated else exp.or_(*both)
        if isinstance(node, Binary) and node.operator == "IN":
            return self._membership(node, negated=negated)
        if isinstance(node, Binary) and (node.operator in _COMPARED or node.operator == "=="):
            return self._comparison(node, negated=negated)
        if isinstance(node, Call) and node.name in _CONDITIONS:
            return self._test(node, negated=negated)
        found = self.value(node)
        if found.kind != "boolean":
            raise UnresolvedError("a condition is neither a comparison nor a boolean column")
        if not negated:
            return found.tree
        is_false = exp.EQ(this=_wrapped(found.tree), expression=exp.false())
        return exp.or_(is_false, _is_null(found.tree)) if found.nullable else is_false

    def _arguments(self, node: Call, least: int, most: int | None = None) -> list[Dax]:
        given = [each for each in node.arguments if each is not None]
        if len(given) != len(node.arguments) or not least <= len(given) <= (most or least):
            raise UnresolvedError(f"ktx does not support `{node.name}` with {len(node.arguments)} arguments")
        return given

    def _column(self, node: Column) -> Value:
        table = node.table or self._entity.table.name
        if node.table is None and self._entity.table.column(node.name) is None:
            raise UnresolvedError(f"it evaluates the measure `[{node.name}]` for each row")
        target = self._world.entity(table)
        if target.table.column(node.name) is None and self._world.model.measure(node.name) is not None:
            raise UnresolvedError(f"it evaluates the measure `[{node.name}]` for each row")
        found = self._world.field(target, node.name)
        self.columns[target.table.name, node.name] = None
        if target is self._entity:
            return Value(column_tree(found.name, self._world.dialect), found.kind, found.nullable)
        hop = self._world.hop(self._entity, target)
        if hop is None:
            raise UnresolvedError(f"a row of `{self._entity.table.name}` has no single row of `{target.table.name}`")
        return Value(column_tree(found.name, self._world.dialect, hop), found.kind)

    def _named(self, node: Name) -> Value:
        if not node.quoted and node.name.upper() in ("TRUE", "FALSE"):
            return _boolean(node.name.upper() == "TRUE")
        value = next((v for k, v in self._variables.items() if k.casefold() == node.name.casefold()), None)
        if value is None:
            raise UnresolvedError(f"`{node.name}` is a table or a variable whose value depends on the query")
        return value

    def _signed(self, node: Unary) -> Value:
        found = self.value(node.operand)
        if node.operator == "+":
            return found
        constant = -found.constant if isinstance(found.constant, float) else None
        return Value(exp.Neg(this=_wrapped(found.tree)), "number", found.nullable, constant)

    def _let(self, node: Let) -> Value:
        before = dict(self._variables)
        for name, value in node.variables:
            self._variables[name] = self.value(value)
        result = self.value(node.body)
        self._variables = before
        return result

    def _arithmetic(self, sign: str, left: Value, right: Value) -> Value:
        if sign == "&":
            parts = [_text(each) for each in (left, right)]
            return Value(exp.DPipe(this=parts[0], expression=parts[1], safe=False), "string", nullable=False)
        if "time" in (left.kind, right.kind) or "string" in (left.kind, right.kind):
            raise UnresolvedError("ktx does not support arithmetic with texts or dates; use DATEDIFF for days")
        a, b = _wrapped(left.tree), _wrapped(right.tree)
        if sign in "+-":
            return Value(_sum(sign, left, right), "number", left.nullable and right.nullable)
        if sign == "*":
            return Value(exp.Mul(this=a, expression=b), "number", left.nullable or right.nullable)
        if sign == "^":
            return Value(exp.Pow(this=a, expression=b), "number", left.nullable or right.nullable)
        if not right.constant:
            self.notes[INFINITE] = None
            b = exp.Nullif(this=right.tree, expression=exp.Literal.number(0))
        return Value(exp.Div(this=a, expression=b, typed=False, safe=False), "number")

    def _comparison(self, node: Binary, *, negated: bool) -> exp.Expr:
        left, right, sign = self.value(node.left), self.value(node.right), node.operator
        strict = sign == "=="
        sign = "=" if strict else sign
        if left.constant is not None or left is BLANK:
            left, right, sign = right, left, _COMPARED[sign][3]
        sign = _COMPARED[sign][2] if negated else sign
        if right is BLANK:
            return _against_blank(left, sign, strict=strict)
        kind = left.kind or right.kind
        if "string" in (left.kind, right.kind) and right.constant != "":
            self.notes[IGNORES_CASE] = None
        if left.kind and right.kind and left.kind != right.kind:
            raise UnresolvedError(f"it compares values of the types {left.kind} and {right.kind}")
        tree, means = _COMPARED[sign][:2]
        if right.constant is not None:
            found = tree(this=_wrapped(left.tree), expression=right.tree)
            keeps_blank = (sign == "<>") if strict else means(ZEROS[kind], right.constant)
            return exp.or_(found, _is_null(left.tree)) if left.nullable and keeps_blank else found
        both = [_filled(each, kind) for each in (left, right)]
        return tree(this=both[0], expression=both[1])

    def _membership(self, node: Binary, *, negated: bool) -> exp.Expr:
        if not isinstance(node.right, Rows) or any(len(row) != 1 for row in node.right.rows):
            raise UnresolvedError("ktx only supports IN with a list of values")
        left = self.value(node.left)
        values = [self.value(row[0]) for row in node.right.rows]
        if any(each.constant is None and each is not BLANK for each in values):
            raise UnresolvedError("ktx only supports IN with a list of values")
        if any(each.kind == "string" for each in values):
            self.notes[IGNORES_CASE] = None
        plain = [each.tree for each in values if each is not BLANK]
        has_blank = len(plain) < len(values)
        found: exp.Expr = exp.In(this=left.tree, expressions=plain) if plain else exp.false()
        if not negated:
            return exp.or_(found, _is_null(left.tree)) if has_blank else found
        refused = exp.not_(found)
        if has_blank:
            return exp.and_(refused, exp.not_(_is_null(left.tree)))
        return exp.or_(refused, _is_null(left.tree)) if left.nullable else refused

    def _test(self, node: Call, *, negated: bool) -> exp.Expr:
        if node.name in ("TRUE", "FALSE"):
            return exp.true() if (node.name == "TRUE") is not negated else exp.false()
        if node.name == "ISBLANK":
            tree: exp.Expr = _is_null(self.value(self._arguments(node, 1)[0]).tree)
            return exp.not_(tree) if negated else tree
        text, wanted = (self.value(each) for each in self._arguments(node, 2))
        if not isinstance(wanted.constant, str):
            raise UnresolvedError(f"ktx only supports `{node.name}` with a literal text")
        lowered = node.name == "CONTAINSSTRING"
        inside = exp.Lower(this=text.tree) if lowered else text.tree
        pattern = f"%{wanted.constant.lower() if lowered else wanted.constant}%"
        if any(sign in wanted.constant for sign in "%_*?~"):
            raise UnresolvedError(f"ktx does not support wildcards in `{node.name}`")
        tree = exp.Like(this=inside, expression=exp.Literal.string(pattern))
        return exp.or_(exp.not_(tree), _is_null(text.tree)) if negated else tree

    def _call(self, node: Call) -> Value:
        if node.name in _FUNCTIONS:
            tree, wanted, kind = _FUNCTIONS[node.name]
            found = self.value(self._arguments(node, 1)[0])
            if found.kind not in (wanted, None):
                raise UnresolvedError(f"`{node.name}` is applied to a value of the type {found.kind}")
            return Value(tree(found.tree), kind, found.nullable)
        handlers: dict[str, Callable[[Call], Value]] = {
            "RELATED": lambda call: self.value(self._arguments(call, 1)[0]),
            "BLANK": lambda call: BLANK, "IF": self._if, "SWITCH": self._switch, "COALESCE": self._coalesce,
            "DIVIDE": self._divide, "DATE": _date, "DATEDIFF": self._days, "ROUND": self._round, "LEFT": self._start,
            "CONCATENATE": lambda call: self._arithmetic("&", *map(self.value, self._arguments(call, 2))),
        }  # fmt: skip
        if node.name not in handlers:
            raise UnresolvedError(f"ktx does not support the DAX function `{node.name}` here")
        return handlers[node.name](node)

    def _if(self, node: Call) -> Value:
        given = self._arguments(node, 2, 3)
        other = self.value(given[2]) if len(given) > 2 else BLANK
        return _case([(self.condition(given[0]), self.value(given[1]))], other)

    def _switch(self, node: Call) -> Value:
        given = self._arguments(node, 3, 200)
        pairs, rest = given[1:], BLANK
        if len(pairs) % 2:
            pairs, rest = pairs[:-1], self.value(pairs[-1])
        is_true = isinstance(given[0], Call) and given[0].name == "TRUE"
        tests = [self.condition(test if is_true else Binary("=", given[0], test)) for test in pairs[::2]]
        return _case(list(zip(tests, map(self.value, pairs[1::2]), strict=True)), rest)

    def _coalesce(self, node: Call) -> Value:
        values = [self.value(each) for each in self._arguments(node, 1, 100)]
        tree = exp.Coalesce(this=values[0].tree, expressions=[each.tree for each in values[1:]])
        return Value(tree, values[0].kind, all(each.nullable for each in values))

    def _divide(self, node: Call) -> Value:
        given = [self.value(each) for each in self._arguments(node, 2, 3)]
        top, bottom = given[0], given[1]
        below = exp.Nullif(this=bottom.tree, expression=exp.Literal.number(0))
        quotient = exp.Div(this=_wrapped(top.tree), expression=below, typed=False, safe=False)
        if len(given) == 2:
            return Value(quotient, "number")
        is_zero = exp.EQ(this=_filled(bottom, "number"), expression=exp.Literal.number(0))
        return _case([(is_zero, given[2])], Value(quotient, "number"))

    def _days(self, node: Call) -> Value:
        start, end, unit = self._arguments(node, 3)
        if not isinstance(unit, Name) or unit.name.upper() != "DAY":
            raise UnresolvedError("ktx only supports DATEDIFF in days")
        dates = [exp.cast(self.value(each).tree, "date") for each in (end, start)]
        return Value(exp.DateDiff(this=dates[0], expression=dates[1], unit=exp.var("DAY")), "number")

    def _round(self, node: Call) -> Value:
        found, digits = (self.value(each) for each in self._arguments(node, 2))
        return Value(exp.Round(this=found.tree, decimals=digits.tree), "number", found.nullable)

    def _start(self, node: Call) -> Value:
        text, length = (self.value(each) for each in self._arguments(node, 2))
        start = exp.Literal.number(1)
        return Value(exp.Substring(this=text.tree, start=start, length=length.tree), "string", text.nullable)


_CONDITIONS: Final = ("AND", "OR", "NOT", "TRUE", "FALSE", "ISBLANK", "CONTAINSSTRING", "CONTAINSSTRINGEXACT")


def _boolean(value: bool) -> Value:
    return Value(exp.Boolean(this=value), "boolean", nullable=False, constant=value)


def _date(node: Call) -> Value:
    parts = [each.text for each in node.arguments if isinstance(each, Number)]
    try:
        found = date(*map(int, parts))
    except (TypeError, ValueError):
        raise UnresolvedError("ktx only supports DATE with the numbers of an existing day") from None
    return Value(exp.cast(exp.Literal.string(found.isoformat()), "date"), "time", nullable=False, constant=found)


def _wrapped(tree: exp.Expr) -> exp.Expr:
    return exp.paren(tree, copy=False) if isinstance(tree, exp.Binary | exp.Connector | exp.Case) else tree


def _is_null(tree: exp.Expr) -> exp.Expr:
    return exp.Is(this=_wrapped(tree.copy()), expression=exp.Null())


def zero_of(kind: str | None) -> exp.Expr:
    """Return the value that blank counts as."""
    zero = ZEROS[kind]
    if isinstance(zero, date):
        return exp.cast(exp.Literal.string(zero.isoformat()), "date")
    return exp.convert(zero)


def _filled(value: Value, kind: str | None) -> exp.Expr:
    """Return a value with the value that blank counts as instead of NULL."""
    if not value.nullable:
        return _wrapped(value.tree)
    return exp.Coalesce(this=value.tree, expressions=[zero_of(kind)])


def _text(value: Value) -> exp.Expr:
    text = value.tree if value.kind == "string" else exp.cast(value.tree, "text")
    return exp.Coalesce(this=text, expressions=[exp.Literal.string("")]) if value.nullable else _wrapped(text)


def _sum(sign: str, left: Value, right: Value) -> exp.Expr:
    """Return a sum or difference in which a missing operand counts as 0, and which is missing if both are."""
    a, b = _wrapped(left.tree), _wrapped(right.tree)
    kind = exp.Add if sign == "+" else exp.Sub
    if left.nullable and right.nullable:
        alone = b.copy() if sign == "+" else exp.Neg(this=b.copy())
        return exp.Coalesce(this=kind(this=a, expression=b), expressions=[a.copy(), alone])
    return kind(this=_filled(left, "number"), expression=_filled(right, "number"))


def _against_blank(left: Value, sign: str, *, strict: bool) -> exp.Expr:
    """Return a comparison with blank, which equals 0 and the empty text unless the comparison is strict."""
    if sign not in ("=", "<>"):
        raise UnresolvedError("it compares the order of a value and blank")
    if strict or left.kind in ("time", None):
        return _is_null(left.tree) if sign == "=" else exp.not_(_is_null(left.tree))
    zero = zero_of(left.kind)
    if sign == "<>":
        return exp.NEQ(this=_wrapped(left.tree), expression=zero)
    return exp.or_(exp.EQ(this=_wrapped(left.tree), expression=zero), _is_null(left.tree))


def _case(branches: list[tuple[exp.Expr, Value]], other: Value) -> Value:
    tree = exp.Case()
    for test, value in branches:
        tree = tree.when(test, value.tree, copy=False)
    if other is not BLANK:
        tree = tree.else_(other.tree, copy=False)
    values = [value for _, value in branches]
    kind = next((each.kind for each in (*values, other) if each.kind), None)
    return Value(tree, kind, other is BLANK or any(each.nullable for each in (*values, other)))
